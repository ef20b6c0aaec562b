"""Whether a result is right: against the formula in float64, element by element.

The distance of a result g from its reference r is |g - r| / (|r| + mean |r|), the mean over the
finite part of that output: relative where values are large, absolute where they cancel. Where the
call has few elements, the mean is that of the workload at 4,096. NaN and infinities must agree.
Integers and booleans must be equal.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any, Protocol

import numpy as np

from fuser.suites.workload import Arguments, Array, Workload

CHUNK = 1 << 14
"""Elements compared at a time: the temporaries stay in a core's cache."""
TYPICAL_ELEMENTS = 4096


@dataclass(frozen=True, slots=True)
class Accuracy:
    """How far one result is from its reference, and what is wrong with it, if anything."""

    max_relative_error: float = 0.0
    max_error_ulp: float | None = None
    problem: str = ""

    def merged(self, other: "Accuracy") -> "Accuracy":
        """Return the worse of two findings."""
        ulps = [each for each in (self.max_error_ulp, other.max_error_ulp) if each is not None]
        return Accuracy(
            max(self.max_relative_error, other.max_relative_error),
            max(ulps) if ulps else None,
            self.problem or other.problem,
        )


@dataclass(frozen=True, slots=True)
class Reference:
    """The right outputs for given arguments, and the dtypes NumPy gives them."""

    outputs: tuple[Array, ...]
    dtypes: tuple["np.dtype[Any]", ...]
    scales: tuple[float, ...]  # mean magnitude of each output's finite part
    judged: list[tuple[tuple[Any, ...], Accuracy]] = field(default_factory=list)

    def shapes(self) -> list[tuple[int, ...]]:
        """Return the shapes of the outputs."""
        return [each.shape for each in self.outputs]

    def judge(self, result: Any, tolerance: float, ulps: bool = False) -> Accuracy:
        """Judge a result; `ulps` also measures units in the last place."""
        return compare(result, self, tolerance, ulps)


class Expected(Protocol):
    """What a result is held against: all of it, or parts of it."""

    @property
    def dtypes(self) -> tuple["np.dtype[Any]", ...]:
        """The dtypes that NumPy gives the results."""

    def shapes(self) -> list[tuple[int, ...]]:
        """Return the shapes of the whole results."""

    def judge(self, result: Any, tolerance: float, ulps: bool = False) -> Accuracy:
        """Judge a result; `ulps` also measures units in the last place."""


def nbytes(expected: Expected) -> int:
    """Return the size of the results in their own dtypes, in bytes."""
    pairs = zip(expected.shapes(), expected.dtypes, strict=True)
    return sum(math.prod(shape) * dtype.itemsize for shape, dtype in pairs)


def flatten(result: Any) -> tuple[Any, ...]:
    """Return the arrays of a result, whatever tuple, list or dict they come in."""
    if isinstance(result, Mapping):
        return tuple(each for value in result.values() for each in flatten(value))
    if isinstance(result, Sequence) and not isinstance(result, str | bytes):
        return tuple(each for value in result for each in flatten(value))
    return (result,)


def reference(workload: Workload, arguments: Arguments, dtype: str | None = None) -> Reference:
    """Evaluate the formula in float64 (or the same dtype, where the workload says so).

    Given the cell's `dtype`, the scales are at least the workload's typical ones.
    """
    found = _evaluated(workload, arguments)
    if dtype is None or max((each.size for each in found.outputs), default=0) >= TYPICAL_ELEMENTS:
        return found
    typical = typical_scales(workload, dtype)
    return replace(found, scales=tuple(map(max, zip(found.scales, typical, strict=True))))


@lru_cache(maxsize=1024)
def typical_scales(workload: Workload, dtype: str) -> tuple[float, ...]:
    """Return the mean magnitude of each output on enough elements to be representative."""
    return _evaluated(workload, workload.inputs(TYPICAL_ELEMENTS, dtype, 0)).scales


def _evaluated(workload: Workload, arguments: Arguments) -> Reference:
    with np.errstate(all="ignore"):
        few = _few(workload, arguments)
        dtypes = tuple(np.asarray(each).dtype for each in few)
        if workload.reference == "float64":
            arguments = tuple(_widened(each) for each in arguments)
        outputs = tuple(np.asarray(each) for each in flatten(workload.function(*arguments)))
        scales = tuple(_mean_magnitude(each) for each in outputs)
    return Reference(outputs, dtypes, scales)


def _few(workload: Workload, arguments: Arguments) -> tuple[Any, ...]:
    """Return the results for a few elements: their dtypes are those of the whole."""
    try:
        return flatten(workload.function(*_one_of_each(arguments)))
    except (IndexError, ValueError):  # lengths that belong together, or indices into the whole
        return flatten(workload.function(*arguments))


def _one_of_each(arguments: Arguments) -> Arguments:
    """Return the arguments cut to at most four elements an axis, enough for most formulas."""
    return tuple(
        each[tuple(slice(0, 4) for _ in each.shape)] if isinstance(each, np.ndarray) else each
        for each in arguments
    )


def _widened(argument: Any) -> Any:
    if isinstance(argument, np.ndarray | np.generic) and argument.dtype.kind in "fc":
        wide = np.complex128 if argument.dtype.kind == "c" else np.float64
        return np.asarray(argument).astype(wide, copy=False)
    return argument


def _parts(values: Array) -> Array:
    """Return the real and imaginary parts of complex numbers, real numbers as they are."""
    if values.dtype.kind != "c":
        return values
    return np.ascontiguousarray(values).view(values.real.dtype)


def compare_or_recall(
    result: Any, expected: Expected, tolerance: float, ulps: bool = False
) -> Accuracy:
    """Judge a result, unless one that is equal to it in every element was judged before.

    The first result is kept alive with the reference: not for use between timed samples.
    """
    if not isinstance(expected, Reference):
        return expected.judge(result, tolerance, ulps)
    found = flatten(result)
    for known, accuracy in expected.judged:
        if len(known) == len(found) and all(map(_identical, known, found)):
            return accuracy
    accuracy = compare(result, expected, tolerance, ulps)
    if not expected.judged and not accuracy.problem:
        expected.judged.append((found, accuracy))
    return accuracy


def _identical(known: Any, found: Any) -> bool:
    known, found = np.asarray(known), np.asarray(found)
    return known.dtype == found.dtype and np.array_equal(known, found)


def compare(result: Any, expected: Reference, tolerance: float, ulps: bool = False) -> Accuracy:
    """Judge a result; `ulps` also measures units in the last place, at half the cost again."""
    found = flatten(result)
    if len(found) != len(expected.outputs):
        return Accuracy(np.inf, None, f"{len(found)} outputs, expected {len(expected.outputs)}")
    worst = Accuracy()
    outputs = zip(found, expected.outputs, expected.dtypes, expected.scales, strict=True)
    for index, (each, right, dtype, scale) in enumerate(outputs):
        accuracy = _compare_one(np.asarray(each), right, dtype, scale, ulps)
        if not accuracy.problem and not accuracy.max_relative_error <= tolerance:
            found_error = f"{accuracy.max_relative_error:.3g}, admitted {tolerance:.3g}"
            accuracy = accuracy.merged(Accuracy(problem=f"relative error {found_error}"))
        if accuracy.problem:
            accuracy = Accuracy(
                accuracy.max_relative_error, accuracy.max_error_ulp,
                f"output {index}: {accuracy.problem}",
            )
        worst = worst.merged(accuracy)
    return worst


def _compare_one(
    found: Array, right: Array, dtype: "np.dtype[Any]", scale: float, ulps: bool
) -> Accuracy:
    if found.dtype != dtype:
        return Accuracy(np.inf, None, f"dtype {found.dtype}, expected {dtype}")
    if found.shape != right.shape:
        return Accuracy(np.inf, None, f"shape {found.shape}, expected {right.shape}")
    if dtype.kind == "c":
        found, right = _parts(found), _parts(right)
    elif dtype.kind != "f":
        wrong = np.count_nonzero(found != right)
        problem = f"{wrong} of {found.size} elements differ" if wrong else ""
        return Accuracy(np.inf if wrong else 0.0, None, problem)
    flat_found, flat_right = found.reshape(-1), right.reshape(-1)
    with np.errstate(all="ignore"):
        worst = Accuracy(0.0, 0.0 if ulps else None)
        for start in range(0, found.size, CHUNK):
            part = slice(start, start + CHUNK)
            worst = worst.merged(_compare_chunk(flat_found[part], flat_right[part], scale, ulps))
    return worst


def _mean_magnitude(values: Array) -> float:
    values = _parts(values)
    if values.dtype.kind != "f" or not values.size:
        return 0.0
    flat = values.reshape(-1)
    total = sum(
        float(np.sum(np.abs(flat[start : start + CHUNK]), dtype=np.float64))
        for start in range(0, flat.size, CHUNK)
    )
    if np.isfinite(total):
        return total / flat.size
    finite = flat[np.isfinite(flat)]
    return float(np.mean(np.abs(finite), dtype=np.float64)) if finite.size else 0.0


def _compare_chunk(found: Array, right: Array, scale: float, ulps: bool) -> Accuracy:
    distance = np.subtract(found, right, dtype=np.float64)
    np.abs(distance, out=distance)
    if not np.isfinite(np.max(distance, initial=0.0)):
        return _compare_unusual(found, right, scale, ulps)
    magnitude = np.abs(right, dtype=np.float64)
    in_ulps = _ulps(distance, magnitude, scale, found.dtype) if ulps else None
    magnitude += scale
    if scale == 0.0:  # a distance of 0 from a reference of 0 is none
        magnitude[magnitude == 0.0] = np.finfo(np.float64).tiny
    distance /= magnitude
    return Accuracy(float(np.max(distance, initial=0.0)), in_ulps)


def _ulps(distance: Array, magnitude: Array, scale: float, dtype: "np.dtype[Any]") -> float:
    """Return the largest distance in units in the last place.

    The unit is that of the larger of |r| and mean |r|: under cancellation the unit of |r| alone
    would measure how near to zero the inputs happened to bring it, not the arithmetic.
    """
    spacing = np.spacing(np.maximum(magnitude, scale).astype(dtype)).astype(np.float64)
    return float(np.max(distance / spacing, initial=0.0))


def _compare_unusual(found: Array, right: Array, scale: float, ulps: bool) -> Accuracy:
    """Compare elements of which some are infinite or not a number."""
    rounded = right.astype(found.dtype)
    usual = np.isfinite(rounded) & np.isfinite(found)
    agree = (found == rounded) | (np.isnan(found) & np.isnan(rounded))
    if wrong := int(np.count_nonzero(~usual & ~agree)):
        return Accuracy(np.inf, None, f"{wrong} infinities or NaN do not agree")
    return _compare_chunk(found[usual], right[usual], scale, ulps)


def poison(expected: Expected) -> None:
    """Fill memory of the outputs' sizes with NaN bytes and free it again.

    A result that the next call allocates there and does not write in full is then seen.
    """
    blocks = [
        np.full(math.prod(shape) * dtype.itemsize, 0xFF, np.uint8)
        for shape, dtype in zip(expected.shapes(), expected.dtypes, strict=True)
    ]
    del blocks


def buffers_for(expected: Expected) -> Arguments:
    """Return an array for every output, in its own dtype, filled with NaN bytes."""
    buffers = tuple(
        np.empty(shape, dtype)
        for shape, dtype in zip(expected.shapes(), expected.dtypes, strict=True)
    )
    poison_buffers(buffers)
    return buffers


def poison_buffers(buffers: Arguments) -> None:
    """Fill arrays with NaN bytes: what the next call does not write is then seen."""
    for each in buffers:
        each.reshape(-1).view(np.uint8)[...] = 0xFF


def other_dtypes(result: Any, expected: Expected) -> str | None:
    """Return where a result's dtypes are not NumPy's, or None."""
    found = [np.asarray(each).dtype for each in flatten(result)]
    for index, (each, right) in enumerate(zip(found, expected.dtypes, strict=False)):
        if each != right:
            return f"output {index}: {each}, NumPy gives {right}"
    return None


def copies(arguments: Arguments) -> Arguments:
    """Return the arguments with every array copied, its strides kept where that is possible."""
    return tuple(each.copy("K") if isinstance(each, np.ndarray) else each for each in arguments)


def some_of(arguments: Arguments) -> Arguments:
    """Return views of every 4,099th element along the first axis of each array."""
    return tuple(
        each[:: min(4099, max(1, each.shape[0] // 16))]
        if isinstance(each, np.ndarray) and each.ndim
        else each
        for each in arguments
    )


def unchanged(arguments: Arguments, before: Arguments) -> bool:
    """Return whether the arguments still hold the same bits as their copies."""
    pairs = zip(arguments, before, strict=True)
    return all(
        np.array_equal(_bits(now), _bits(then))
        for now, then in pairs
        if isinstance(now, np.ndarray)
    )


def _bits(array: Array) -> Array:
    """Return a view as integers: NaN equals itself, and comparing takes one pass."""
    if array.dtype.itemsize in (1, 2, 4, 8) and array.dtype.kind != "O":
        return array.view(f"u{array.dtype.itemsize}")
    return array


def refill(arguments: Arguments, fresh: Arguments) -> None:
    """Write fresh values into the arrays of `arguments`: same objects, other contents."""
    for old, new in zip(arguments, fresh, strict=True):
        if isinstance(old, np.ndarray):
            np.copyto(old, new)
