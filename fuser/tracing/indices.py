"""Indices, axes and lengths that a traced function gives, as plain numbers and symbols."""

from __future__ import annotations

from typing import Any

import numpy as np

from fuser.ir import dims
from fuser.ir.dims import Dim
from fuser.ir.graph import Node, constant_value
from fuser.tracing.trace_state import Tracing
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


def is_whole(part: Any) -> bool:
    """Whether an entry of an index is `:`, without a look at bounds' values."""
    return type(part) is slice and part.start is part.stop is part.step is None


def with_scalars(index: Any) -> Any:
    """An index with NumPy's integer scalars among the arguments, and sums of them, as numbers."""
    if isinstance(index, tuple):
        return tuple(map(_scalar, index))
    return _scalar(index)


def _scalar(part: Any, bound: bool = False) -> Any:
    """One entry of an index; values of NumPy's scalars cannot be guards, as other slices need.

    Args:
        part: the entry, or a bound of a slice.
        bound: it is a bound: the value of any other one is read between stages.
    """
    if type(part) is slice:
        if part.step is not None and not (type(part.step) is int and part.step > 0):
            return part
        return slice(_scalar(part.start, True), _scalar(part.stop, True), part.step)
    if type(part) is HostScalar or not hasattr(part, "tracing") or not part.generic:
        return part
    found = _number(part.tracing, part.node)
    if found is None:
        if bound and part.dtype.kind in "iu":
            return part.tracing.read(part.node)
        return part.tracing.wrap(part.node, True)
    text, value = found
    if not part.node.op.is_input:  # Python's integers do not wrap
        number = symbolic_length(HostScalar(part.tracing, text, value))
        if number is None or abs(value) >= FAR:
            return part
        part.tracing.hold_at_least(FAR - number, 1)
        part.tracing.hold_at_least(number + FAR, 1)
    return HostScalar(part.tracing, text, value)


#: Sums of NumPy's integers are taken for Python's while they are less than this.
FAR = 1 << 62
_SIGNS = {np.add: "+", np.subtract: "-", np.multiply: "*"}


def _number(tracing: Tracing, node: Node) -> tuple[str, int] | None:
    """A node as a host expression over integer scalars, and its value; None where it is not one."""
    if node.op.is_input and node.dtype.kind in "iu":
        value = next(a.array for a in tracing.arguments if a.initial is node)
        return (node.text, int(value)) if isinstance(value, np.generic) else None
    if node.dtype != np.dtype(np.int64):
        return None
    if node.op.is_constant:
        number = int(constant_value(node))
        return f"({number})", number
    sign = _SIGNS.get(node.op.numpy)  # type: ignore[call-overload]
    if sign is None or len(node.args) != 2 or node.shape:
        return None
    sides = [_number(tracing, arg) for arg in node.args]
    if sides[0] is None or sides[1] is None:
        return None
    (left, a), (right, b) = sides[0], sides[1]
    return f"({left} {sign} {right})", {"+": a + b, "-": a - b, "*": a * b}[sign]


def plain_slice(part: slice) -> slice:
    """A slice with Python integers."""
    bounds = [None if b is None else _bound(b) for b in (part.start, part.stop, part.step)]
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


def index_of(value: Any) -> int:
    """An integer from an entry of an index."""
    return _not_integer(value) if _is_float(value) else integer(value)


def _bound(value: Any) -> int:
    """An integer from a bound of a slice."""
    if _is_float(value) or not hasattr(value, "__index__"):
        raise TypeError("slice indices must be integers or None or have an __index__ method")
    return integer(value)


def _is_float(value: Any) -> bool:
    """Whether a stand-in is one for a number that is no integer."""
    if type(value) is HostScalar:
        return value.kind is float
    return hasattr(value, "tracing") and value.dtype.kind in "fc"


def _not_integer(value: Any) -> int:
    """NumPy's error for an index that is none."""
    raise IndexError(
        "only integers, slices (`:`), ellipsis (`...`), numpy.newaxis (`None`) and integer or "
        "boolean arrays are valid indices"
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
    numbers = {number.text: number.hint for number, _ in tracing.scalars}
    arrays = {a.initial.text: a.array for a in tracing.arguments}
    symbols: dict[str, Dim] = {}
    read = {number.text: number.hint for _, number in tracing.reads.values()}
    for name in dims.symbols(dim):
        if name in read:
            if type(read[name]) is not int:
                return None
            symbols[name] = tracing.length_of_number(name, read[name])
            continue
        value = numbers.get(name, arrays.get(name))
        if value is not None:
            if type(value) is not int and not isinstance(value, np.integer):
                return None
            symbols[name] = tracing.integer_symbol(name, int(value))
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
