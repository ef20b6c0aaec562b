"""Indices, axes and lengths that a traced function gives, as plain numbers and symbols."""

from __future__ import annotations

from typing import Any

import numpy as np

from fuser.ir import dims
from fuser.ir.dims import Dim
from fuser.tracing.traced_scalars import HostScalar


def is_fancy(index: Any) -> bool:
    """Whether an index has arrays, lists or truth values in it."""
    given = index if isinstance(index, tuple) else (index,)
    return any(
        isinstance(part, (np.bool_, np.ndarray, list))
        or issubclass(part.__class__, bool)
        or (type(part) is not HostScalar and hasattr(part, "tracing"))  # a traced array
        for part in given
    )


def plain_slice(part: slice) -> slice:
    """A slice with Python integers."""
    bounds = [None if b is None else integer(b) for b in (part.start, part.stop, part.step)]
    if bounds[2] == 0:
        raise ValueError("slice step cannot be zero")
    start, stop, step = bounds
    if step in (None, 1):
        step = None
        start = None if start == 0 else start
    return slice(start, stop, step)


def integer(value: Any) -> int:
    """An integer from an index or axis; a traced number becomes a guard."""
    return int(value.__index__()) if hasattr(value, "__index__") else _not_integer(value)


def _not_integer(value: Any) -> int:
    """NumPy's error for an index that is none."""
    raise IndexError(
        "only integers, slices (`:`), ellipsis (`...`), numpy.newaxis (`None`) and integer or "
        f"boolean arrays are valid indices; found {type(value).__name__}"
    )


def normal_axis(axis: Any, rank: int) -> int:
    """An axis counted from the front.

    Raises:
        AxisError: it is out of range.
        TypeError: it is no integer.
    """
    if not hasattr(axis, "__index__"):
        raise TypeError(f"'{type(axis).__name__}' object cannot be interpreted as an integer")
    place = integer(axis)
    if not -rank <= place < rank:
        raise np.exceptions.AxisError(place, rank)
    return place % rank


def length_of(scalar: HostScalar) -> Dim:
    """A traced integer as a length: symbolic where it is an expression over lengths and integers.

    Less than 0 is no length: what it means (-1 in a shape) depends on the value.
    """
    found = symbolic_length(scalar) if scalar.hint >= 0 else None
    return int(scalar) if found is None else found


def symbolic_length(scalar: HostScalar) -> Dim | None:
    """A traced integer as an expression over lengths; None where it is another number.

    Integer arguments in it become symbols of their own: `Lengths.integer_symbol`.
    """
    if scalar.kind is not int:
        return None
    try:
        dim = dims.parse(scalar.text)
    except Exception:  # noqa: BLE001 - any text that is not a length is another number
        return None
    tracing = scalar._tracing
    numbers = {number.text: number for number, _ in tracing.scalars}
    given = [numbers[name] for name in dims.symbols(dim) if name in numbers]
    if any(number.kind is not int for number in given):
        return None
    symbols = {n.text: tracing.integer_symbol(n.text, n.hint) for n in given}
    return dims.substitute(dim, symbols) if symbols else dim


def divide_exactly(total: Dim, part: Dim) -> Dim:
    """`total // part`, cancelled where `part` is a factor of every term."""
    if isinstance(total, int) and isinstance(part, int):
        return total // part
    if isinstance(part, dims.Length) and isinstance(total, dims.Length):
        if len(part.terms) == len(total.terms) == 1:
            names, number = list(total.terms[0][0]), total.terms[0][1]
            divisors, by = part.terms[0]
            if number % by == 0 and all(divisors.count(d) <= names.count(d) for d in divisors):
                for name in divisors:
                    names.remove(name)
                result: Dim = number // by
                for name in names:
                    result = result * dims.parse(name)
                return result
    return total // part
