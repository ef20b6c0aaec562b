"""Functions that reduce along an axis beside NumPy's, and numbers for them."""

from collections.abc import Callable
from typing import Any

import numpy as np

import fuser
from tests.backends.cpu.on_threads import same_parts

Function = Callable[..., Any]


def softmax(x: Any, axis: int = -1) -> Any:
    """Softmax by hand."""
    weights = np.exp(x - np.max(x, axis, keepdims=True))
    return weights / np.sum(weights, axis, keepdims=True)


def normalised(x: Any, gain: Any, bias: Any, axis: int = -1) -> Any:
    """Layer norm by hand."""
    mean = np.mean(x, axis, keepdims=True)
    return (x - mean) / np.sqrt(np.var(x, axis, keepdims=True) + 1e-5) * gain + bias


def _backward(gradient: Any, y: Any, axis: int) -> Any:
    return (gradient - np.sum(gradient * y, axis, keepdims=True)) * (y * 0.01)


def _several(x: Any, y: Any, axis: int) -> Any:
    low = np.min(x, axis, keepdims=True)
    sizes = np.sqrt(np.sum(x * x, axis)) * np.sqrt(np.sum(y * y, axis))
    return (
        x * y - low, low.squeeze(axis), np.max(x, axis), np.var(x, axis),
        np.sum(x * y, axis) / sizes, np.prod(np.minimum(np.abs(y) + 0.5, 1.0), axis),
    )  # fmt: skip


def _spread(x: Any, axis: int) -> Any:
    return np.mean(x, axis), np.var(x, axis, ddof=1), np.ptp(x, axis), np.sum(np.abs(x), axis)


def _log_softmax(x: Any, axis: int) -> Any:
    shifted = x - np.max(x, axis, keepdims=True)
    return shifted - np.log(np.sum(np.exp(shifted), axis, keepdims=True))


def _truths(x: Any, y: Any, axis: int) -> Any:
    sizes = np.sum(np.abs(x * y), axis, keepdims=True)
    return (x > y) & (sizes >= 0), (x > 4).any(axis), (x == x).all(axis)


def _integers(x: Any, axis: int) -> Any:
    return np.sum(x, axis), np.prod(x, axis), np.max(x, axis), x - np.min(x, axis, keepdims=True)


def _by_row(x: Any, scale: Any, axis: int) -> Any:
    scaled = np.where(scale > 0, x * scale, -x)
    return scaled / np.sum(np.abs(scaled), axis, keepdims=True) + scale, np.sum(scaled, axis)


def _by_a_number(x: Any, number: float, axis: int) -> Any:
    rest = x / (number * 2)
    return rest - np.sum(rest, axis, keepdims=True)


FLOATS = ("float32", "float64")
FUNCTIONS: dict[str, tuple[Function, str, tuple[str, ...]]] = {
    "softmax": (softmax, "x", FLOATS),
    "normalised": (normalised, "xgg", FLOATS),
    "backward": (_backward, "xx", FLOATS),
    "several": (_several, "xx", FLOATS),
    "spread": (_spread, "x", FLOATS),
    "log softmax": (_log_softmax, "x", FLOATS),
    "sum": (lambda x, axis: np.sum(x, axis), "x", FLOATS),
    "places": (lambda x, axis: (np.argmax(x, axis), np.argmin(x, axis)), "x", (*FLOATS, "int16")),
    "truths": (_truths, "xx", FLOATS),
    "by row": (_by_row, "xs", FLOATS),
    "by a number": (_by_a_number, "xc", FLOATS),
    "integers": (_integers, "x", ("int8", "uint8", "int16", "uint32", "int64")),
    "halves": (lambda x, axis: x - np.max(x, axis, keepdims=True), "x", ("float16",)),
    "mixed": (lambda x, g, axis: np.sum(x * g, axis), "xd", ("float32",)),
}
"""Each with what it takes (matrices; one number for each place along the last axis, of its dtype or
doubles; one for each result; a number) and the dtypes that it is tried on."""


def numbers(
    *shape: int, dtype: str = "float32", bad: bool = True, seed: int = 0
) -> np.ndarray[Any, Any]:
    """Numbers around zero, some of which are special."""
    values = np.random.default_rng([*shape, seed]).normal(size=shape) * 9
    if bad and dtype in FLOATS:
        values.flat[5::1001], values.flat[7::1511], values.flat[::97] = np.nan, np.inf, -0.0
        values.flat[11::15_013], values.flat[13::20_011] = -np.inf, 1e-310
    return (np.abs(values) if dtype.startswith("u") else values).astype(dtype)


def arguments(
    name: str, shape: tuple[int, ...], axis: int, dtype: str, *, bad: bool = True
) -> tuple[Any, ...]:
    """What a function of the table takes for matrices of a shape."""
    found: list[Any] = []
    for seed, what in enumerate(FUNCTIONS[name][1]):
        if what == "x":
            found.append(numbers(*shape, dtype=dtype, bad=bad, seed=seed))
        elif what == "c":
            found.append(1.5)
        elif what == "s":
            each = tuple(1 if k == axis % len(shape) else n for k, n in enumerate(shape))
            found.append(numbers(*each, dtype=dtype, bad=False))
        else:
            kind = "float64" if what == "d" else dtype
            found.append(numbers(shape[-1], dtype=kind, bad=False, seed=seed))
    return tuple(found)


def check(
    plain: Function, given: tuple[Any, ...], rtol: float = 2e-4, atol: float = 2e-4
) -> None:
    """Compare with NumPy's function of doubles; the same bits on one thread and on three."""
    parts = same_parts(fuser.fuse(plain, fallback="error"), *given)
    wide = [np.asarray(a, np.float64) if np.result_type(a).kind == "f" else a for a in given]
    with np.errstate(all="ignore"):
        expected, types = plain(*wide), plain(*given)
    if not isinstance(expected, tuple):
        expected, types = (expected,), (types,)
    for mine, numpys, like in zip(parts, expected, types, strict=True):
        assert mine.dtype == like.dtype
        assert mine.shape == like.shape
        if mine.dtype.kind == "f":
            least = 2e-3 if mine.dtype == np.float16 else 0.0
            np.testing.assert_allclose(mine, numpys, max(rtol, least), max(atol, least))
        else:
            np.testing.assert_array_equal(mine, like)
