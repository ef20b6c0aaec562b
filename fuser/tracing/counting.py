"""NumPy's makers of counted arrays inside traced functions: arange, linspace, indices, eye, tri.

Where a length is traced, their values are counted in the kernel's own loops, for every length.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

import numpy as np

from fuser.base.errors import DtypeError
from fuser.ir import dims, infer
from fuser.ir.attributes import Extent
from fuser.ir.dims import Dim
from fuser.tracing.indices import symbolic_length
from fuser.tracing.trace_state import Tracing
from fuser.tracing.traced_array import TracedArray
from fuser.tracing.traced_scalars import HostScalar

#: Whole numbers below this one times any length in use are exact in float64.
_EXACT_STEP = 1 << 20
#: A step of linspace that is smaller may underflow, which NumPy treats apart.
_LEAST_DELTA = 1e-280


def arange(tracing: Tracing, *args: Any, dtype: Any = None, **options: Any) -> Any:
    """np.arange; NumPy's own where no bound is a traced length."""
    bounds = _bounds(args, options)
    wanted = _number_dtype(dtype, np.dtype(np.int64))
    if bounds is None or wanted is None or not _is_exact(bounds, wanted):
        return np.arange(*args, dtype=dtype, **options)
    (start, first), (_, last), (step, _) = bounds
    span = last - first if step > 0 else first - last
    count = span if abs(step) == 1 else (span + (abs(step) - 1)) // abs(step)
    found: Any = counted(tracing, dims.maximum(count, 0))
    if step != 1:
        found = found * step
    if not (type(start) is int and start == 0):
        found = found + start
    return found.astype(wanted, copy=False)


def _bounds(args: Any, options: Mapping[str, Any]) -> list[tuple[Any, Any]] | None:
    """Start, stop and step, each as given and as a length; None where they are left to NumPy."""
    given = list(args)
    if options or not 1 <= len(given) <= 3:
        return None
    start, stop = (0, given[0]) if len(given) == 1 else given[:2]
    step = given[2] if len(given) == 3 else 1
    if type(step) is not int or step == 0:
        return None
    if type(start) is not HostScalar and type(stop) is not HostScalar:
        return None
    pairs = [(value, _length(value)) for value in (start, stop, step)]
    return None if any(length is None for _, length in pairs) else pairs


def _length(value: Any) -> Dim | None:
    """A plain integer, or an expression over lengths; None for anything else."""
    if type(value) is HostScalar:
        return symbolic_length(value)
    return value if type(value) is int else None


def _number_dtype(dtype: Any, default: np.dtype[Any]) -> np.dtype[Any] | None:
    """The dtype of a result; None where it has none in the op table."""
    if dtype is None:
        return default
    try:
        found = infer.dtype_of(dtype)
    except (DtypeError, TypeError):
        return None
    return found if found.kind in "iuf" and found.itemsize <= 8 else None


def _is_exact(bounds: list[tuple[Any, Any]], dtype: np.dtype[Any]) -> bool:
    """Whether integers converted at the end are what NumPy computes in the dtype."""
    (start, _), _, (step, _) = bounds
    if dtype.kind in "iu" or (type(start) is int and (start, step) == (0, 1)):
        return True
    small = type(start) is not int or abs(start) < _EXACT_STEP
    return dtype == np.float64 and small and abs(step) < _EXACT_STEP


def counted(tracing: Tracing, length: Dim) -> TracedArray:
    """0, 1, 2 … below a length."""
    made: TracedArray = tracing.wrap(tracing.node("positions", (), Extent(length)))
    return made


def linspace(
    tracing: Tracing, start: Any, stop: Any, num: Any = 50, endpoint: Any = True,
    retstep: Any = False, dtype: Any = None, **options: Any,
) -> Any:  # fmt: skip
    """np.linspace between two numbers; NumPy's own where the length is not traced.

    Source: numpy.linspace: places times step plus start; the last element is `stop` itself.
    """
    length = symbolic_length(num) if type(num) is HostScalar else None
    wanted = _number_dtype(dtype, np.dtype(np.float64))
    plain = all(type(v) in (int, float) and math.isfinite(v) for v in (start, stop))
    delta = float(stop) - float(start) if plain else math.inf
    plain = plain and math.isfinite(delta) and (delta == 0 or abs(delta) > _LEAST_DELTA)
    known = type(endpoint) is bool and retstep is False and not options
    if length is None or wanted is None or wanted.kind != "f" or not plain or not known:
        return np.linspace(start, stop, num, endpoint, retstep, dtype, **options)
    taken = int(endpoint)
    parts = HostScalar(tracing, f"max(({num.text}) - {taken}, 1)", max(num.hint - taken, 1))
    place: Any = counted(tracing, length)
    found = place.astype(np.float64) * (delta / parts) + float(start)  # type: ignore[operator]
    if endpoint:
        found = np.where(place == parts, float(stop), found)
    return found.astype(wanted, copy=False)


def indices(tracing: Tracing, dimensions: Any, dtype: Any = int, sparse: bool = False) -> Any:
    """np.indices; NumPy's own where no length is traced."""
    lengths = tuple(dimensions) if isinstance(dimensions, (tuple, list)) else ()
    wanted = _number_dtype(dtype, np.dtype(np.int64))
    if not _some_traced(lengths) or wanted is None or wanted.kind not in "iu":
        return np.indices(dimensions, dtype, sparse)  # type: ignore[call-overload]
    if not sparse:
        _hold_not_negative(tracing, lengths)
    parts = []
    for axis, length in enumerate(lengths):
        around = [None] * len(lengths)
        around[axis] = slice(None)  # type: ignore[call-overload]
        counted = arange(tracing, length, dtype=wanted) if type(length) is HostScalar else None
        place = np.arange(length, dtype=wanted) if counted is None else counted
        parts.append(place[tuple(around)])
    if sparse:
        return tuple(parts)
    return np.stack([np.broadcast_to(part, lengths) for part in parts])


def spans_traced(spans: Sequence[Any]) -> bool:
    """Whether all are slices between lengths in steps of whole numbers, and one is traced."""
    if not all(type(span) is slice for span in spans):
        return False
    bounds = [bound for span in spans for bound in (_first(span), span.stop)]
    steps = all(span.step is None or type(span.step) is int for span in spans)
    return steps and _some_traced(tuple(bounds))


def _first(span: slice) -> Any:
    """Where a slice begins."""
    return 0 if span.start is None else span.start


def open_grid(tracing: Tracing, spans: Sequence[slice]) -> list[Any]:
    """Places along each axis, to be broadcast, as np.ogrid gives them for such slices."""
    found = []
    for axis, span in enumerate(spans):
        around = [None] * len(spans)
        around[axis] = slice(None)  # type: ignore[call-overload]
        step = 1 if span.step is None else span.step
        found.append(arange(tracing, _first(span), span.stop, step)[tuple(around)])
    return found


def _some_traced(lengths: tuple[Any, ...]) -> bool:
    """Whether all are lengths, and one is traced."""
    known = all(_length(length) is not None for length in lengths)
    return known and any(type(length) is HostScalar for length in lengths)


def _hold_not_negative(tracing: Tracing, lengths: Sequence[Any]) -> None:
    """Hold that arrays of these lengths can be made: `arange` alone takes negative ones."""
    found = (_length(length) for length in lengths)
    tracing.hold_not_negative([length for length in found if length is not None])


def tri(tracing: Tracing, N: Any, M: Any = None, k: Any = 0, dtype: Any = float) -> Any:  # noqa: N803
    """np.tri: ones at and below a diagonal."""
    found = _grid(tracing, N, N if M is None else M, k, dtype)
    if found is None:
        return np.tri(N, M, k, dtype)
    row, column, wanted = found
    return (row >= column - k).astype(wanted)


def eye(
    tracing: Tracing, N: Any, M: Any = None, k: Any = 0, dtype: Any = float, **options: Any  # noqa: N803
) -> Any:
    """np.eye: ones on a diagonal."""
    columns = N if M is None else M
    found = None if options else _grid(tracing, N, columns, k, dtype)
    if found is None:
        return np.eye(N, M, k, dtype, **options)
    _hold_not_negative(tracing, (N, columns))
    row, column, wanted = found
    return (row == column - k).astype(wanted)


def identity(tracing: Tracing, n: Any, dtype: Any = None, **options: Any) -> Any:
    """np.identity."""
    return eye(tracing, n, dtype=float if dtype is None else dtype, **options)


def _grid(
    tracing: Tracing, rows: Any, columns: Any, k: Any, dtype: Any
) -> tuple[Any, Any, np.dtype[Any]] | None:
    """The numbers of rows and of columns, to be broadcast; None where they are left to NumPy."""
    wanted = _number_dtype(dtype, np.dtype(np.float64))
    if not _some_traced((rows, columns)) or wanted is None or type(k) is not int:
        return None
    row, column = indices(tracing, (rows, columns), sparse=True)
    return row, column, wanted


MAKERS: Mapping[str, Callable[..., Any]] = MappingProxyType({
    "arange": arange, "linspace": linspace, "indices": indices, "tri": tri, "eye": eye,
    "identity": identity,
})  # fmt: skip
