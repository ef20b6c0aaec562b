"""Lists and tuples with traced values in them: the arrays that NumPy would make of them."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence
from functools import reduce
from typing import Any

import numpy as np

from fuser.base.errors import Unsupported
from fuser.ir import infer
from fuser.tracing.admitted_dtypes import is_known
from fuser.tracing.trace_state import Tracing
from fuser.tracing.traced_array import TracedArray
from fuser.tracing.traced_scalars import HostScalar

#: Sequences of more parts (runs of plain numbers are one) are left to NumPy.
PARTS_LIMIT = 64
_INT = np.dtype(np.int64)


def leaves_of(values: Iterable[Any]) -> Iterator[Any]:
    """What a nested sequence holds."""
    for value in values:
        if type(value) in (list, tuple):
            yield from leaves_of(value)
        else:
            yield value


def has_traced(value: Any) -> bool:
    """Whether a nested sequence holds values that are known only when kernels run.

    Lengths and integers alone do not count: they may be meant as structure.
    """
    return type(value) in (list, tuple) and any(
        isinstance(leaf, TracedArray) or (type(leaf) is HostScalar and leaf.kind is float)
        for leaf in leaves_of(value)
    )


def put_together(tracing: Tracing, values: Any, dtype: Any = None) -> TracedArray:
    """The array that NumPy makes of a sequence with traced values in it.

    Args:
        tracing: the trace.
        values: a list or tuple, nested or not.
        dtype: of the result; without it Python numbers count as int64 and float64.

    Raises:
        Unsupported: its parts have other shapes than each other, or are no numbers.
    """
    kinds = [_dtype_of(leaf) for leaf in leaves_of(values)]
    wanted = reduce(np.promote_types, kinds) if dtype is None else infer.dtype_of(dtype)
    if not is_known(wanted):
        raise Unsupported("array-conversion", "sequence of arrays", f"dtype {wanted}")
    joined = _joined(tracing, values, wanted)
    node = joined.node if joined.ndim < 2 else tracing.own(joined.node, wanted, "C")
    made: TracedArray = tracing.wrap(node)
    return made


def _dtype_of(leaf: Any) -> np.dtype[Any]:
    """What NumPy finds a value to be among others."""
    if isinstance(leaf, (TracedArray, np.generic, np.ndarray)):
        return np.dtype(leaf.dtype)
    kind = leaf.kind if type(leaf) is HostScalar else type(leaf)
    if kind is int:
        number = leaf.hint if type(leaf) is HostScalar else leaf
        if not -(2**63) <= number < 2**63:
            raise Unsupported("scalar-range", "sequence of arrays", f"{number!r}")
        if type(leaf) is HostScalar:
            leaf._tracing.guard_value(f"-(2**63) <= ({leaf.text}) <= 2**63 - 1", True)
        return _INT
    if kind in (bool, float, complex):
        return np.dtype(kind)
    raise Unsupported("array-conversion", "sequence of arrays", f"{kind.__name__} in it")


def _joined(tracing: Tracing, values: Sequence[Any], dtype: np.dtype[Any]) -> Any:
    """The parts of one sequence along a new first axis; runs of plain numbers are one part."""
    parts: list[Any] = []
    for plain, run in itertools.groupby(values, key=_is_plain):
        found = [*run]
        if plain and (len(found) > 1 or isinstance(found[0], (list, tuple, np.ndarray))):
            parts.append(tracing.capture(_converted(found, dtype)))
        else:
            parts += [_part(tracing, value, dtype)[None] for value in found]
    if len(parts) > PARTS_LIMIT:
        raise Unsupported("array-conversion", "sequence of arrays", f"{len(parts)} parts")
    shapes = {tuple(map(tracing.size, part.dims[1:])) for part in parts}
    if len(shapes) > 1:
        raise Unsupported(
            "array-conversion", "sequence of arrays", "a list of arrays whose shapes differ"
        )
    return np.concatenate(parts)


def _is_plain(value: Any) -> bool:
    """Whether nothing in a value is traced."""
    leaves = leaves_of(value) if type(value) in (list, tuple) else (value,)
    return not any(isinstance(leaf, (TracedArray, HostScalar)) for leaf in leaves)


def _converted(values: Any, dtype: np.dtype[Any]) -> Any:
    """Plain numbers as an array."""
    try:
        with np.errstate(all="ignore"):
            return np.array(values, dtype)
    except ValueError as error:
        raise Unsupported("array-conversion", "sequence of arrays", str(error)) from None


def _part(tracing: Tracing, value: Any, dtype: np.dtype[Any]) -> Any:
    """One part of a sequence."""
    if type(value) in (list, tuple):
        return _joined(tracing, value, dtype)
    return tracing.wrap(tracing.operand_node(value, dtype))
