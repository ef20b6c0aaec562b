"""Functions of rows and few columns beside NumPy's, and numbers for them."""

from collections.abc import Callable
from typing import Any

import numpy as np

import fuser
from tests.backends.cpu.on_threads import same_parts

Function = Callable[..., Any]


def softmax(x: Any) -> Any:
    """Softmax of rows, by hand."""
    weights = np.exp(x - np.max(x, -1, keepdims=True))
    return weights / np.sum(weights, -1, keepdims=True)


def normalised(x: Any, gain: Any, bias: Any) -> Any:
    """Layer norm, by hand."""
    mean = np.mean(x, -1, keepdims=True)
    return (x - mean) / np.sqrt(np.var(x, -1, keepdims=True) + 1e-5) * gain + bias


def _with_results(x: Any, y: Any) -> Any:
    sizes = np.sum(np.abs(x * y), -1)
    return x / sizes[:, None], sizes, np.argmax(x, -1), (x > y) & (sizes[:, None] >= 0)


def _of_rows(x: Any, shift: Any) -> Any:
    return x - np.min(x, -1, keepdims=True) + shift[:, None]


def drawn(
    generator: np.random.Generator, *shape: int, dtype: str = "float32", bad: bool = False
) -> np.ndarray:
    """Numbers around zero; a few of `bad` ones are special, in rows far apart."""
    values = generator.normal(size=shape) * 20
    if bad:
        values.flat[5::10_001] = np.nan
        values.flat[7::15_013] = np.inf
        values.flat[11::15_013] = -np.inf
        values.flat[::97] = -0.0
        values.flat[13::20_011] = 1e-310
    return values.astype(dtype)


def numbers(rows: int, length: int, dtype: str = "float32", *, bad: bool = True) -> np.ndarray:
    """Numbers around zero, some of which are special."""
    values = np.random.default_rng(rows + length).normal(size=(rows, length)) * 9
    if bad and dtype.startswith("float"):
        values.flat[5::1001], values.flat[7::1511], values.flat[::97] = np.nan, np.inf, -0.0
    return values.astype(dtype)


def cases(rows: int, length: int) -> dict[str, tuple[Function, tuple[np.ndarray, ...]]]:
    """Functions and arguments for rows of a length."""
    x, gain, shift = numbers(rows, length), numbers(1, length)[0], numbers(rows, 1)[:, 0]
    wide = numbers(rows, 2 * length + 3)
    return {
        "softmax": (softmax, (x,)),
        "doubles": (softmax, (x.astype("float64"),)),
        "halves": (softmax, (numbers(rows, length, "float16", bad=False),)),
        "gain and bias": (normalised, (x, gain, gain[::-1])),
        "results beside": (_with_results, (x, numbers(rows, length + 1)[:, 1:])),
        "one for a row": (_of_rows, (x, shift)),
        "integers": (
            lambda x: x - np.max(x, -1, keepdims=True), (numbers(rows, length, "int16"),),
        ),
        "bytes": (
            lambda x: x ^ np.max(x, -1)[:, None],
            (np.abs(numbers(rows, length, bad=False)).astype("uint8"),),
        ),
        "gaps between rows": (softmax, (wide[:, 3 : 3 + length],)),
        "rows backwards": (softmax, (x[::-1],)),
    }  # fmt: skip


def check(
    plain: Function, arguments: tuple[Any, ...], rtol: float = 2e-4, atol: float = 2e-4
) -> None:
    """Compare with NumPy's function of doubles; the same bits on one thread and on three."""
    parts = same_parts(fuser.fuse(plain, fallback="error"), *arguments)
    wide = [np.float64(a) if np.result_type(a).kind == "f" else a for a in arguments]
    with np.errstate(all="ignore"):
        expected, types = plain(*wide), plain(*arguments)
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
