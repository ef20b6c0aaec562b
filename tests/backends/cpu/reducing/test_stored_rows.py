"""Rows whose last stage stores elements: norms, softmax and the like, beside NumPy."""

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest

import fuser
from tests.backends.cpu.on_threads import same_parts
from tests.backends.cpu.reducing.short_rows import check, drawn, softmax

GENERATOR = np.random.default_rng(31)
Function = Callable[..., Any]
_numbers = partial(drawn, GENERATOR)


def _layer_norm(x: Any, weight: Any, bias: Any) -> Any:
    centred = x - np.mean(x, -1, keepdims=True)
    return centred / np.sqrt(np.mean(centred * centred, -1, keepdims=True) + 1e-5) * weight + bias


def _spread(x: Any) -> Any:
    low, high = np.min(x, -1, keepdims=True), np.max(x, -1, keepdims=True)
    return (x - low) / (high - low), low[:, 0], np.sum(x, -1)


def _by_row(x: Any, scale: Any, shift: Any) -> Any:
    """Each row has its own divisor and its own shift before and after the reduction."""
    scaled = x / scale[:, None]
    return scaled / np.sum(np.abs(scaled), -1, keepdims=True) + shift[:, None], scale * 2


def _check(plain: Function, *arguments: Any, tolerance: float = 1e-5) -> None:
    """NumPy's results, the same bits on one thread and on three."""
    check(plain, arguments, tolerance, tolerance * 20)


LENGTHS = {"float32": (300, 384, 511, 512, 833, 1023, 1025), "float64": (301, 352, 509, 571)}


@pytest.mark.parametrize(
    ("dtype", "length"), [(dtype, each) for dtype, lengths in LENGTHS.items() for each in lengths]
)
def test_norms_of_every_length(dtype: str, length: int) -> None:
    """Whole vectors and what is left over, in one block and in several."""
    rows = (1 << 17) // length + 1 + length % 3
    x, weight, bias = (_numbers(*s, dtype=dtype) for s in ((rows, length), (length,), (length,)))
    _check(softmax, x)
    _check(_spread, x)
    _check(_layer_norm, x, weight, bias)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_what_is_not_finite_stays_in_its_row(dtype: str) -> None:
    """NaN, infinities, subnormal numbers and negative zeros."""
    x = _numbers(517, 420, dtype=dtype, bad=True)
    x[3], x[4, :] = 0.0, -np.inf
    x[-1, -1] = np.nan
    _check(softmax, x)
    _check(_spread, x)
    _check(_layer_norm, x, x[0].copy(), x[1].copy(), tolerance=1e-4)


def test_operands_that_lie_in_other_ways() -> None:
    """Gaps, backwards, misaligned, one row for all, one number a row, two loops of rows."""
    x = _numbers(401, 520)
    shifted = np.frombuffer(b"\0" + x.tobytes(), np.uint8)[1:].view("float32").reshape(x.shape)
    weight, bias = _numbers(520), _numbers(520)
    for array in (x, shifted, x[::-1], x[:, ::-1], _numbers(802, 520)[::2]):
        _check(_layer_norm, array, weight, bias)
    _check(_layer_norm, _numbers(401, 1040)[:, ::2], weight, bias)
    scale = np.abs(_numbers(802)[::2]) + 1
    _check(_by_row, x, scale, _numbers(401))
    _check(_by_row, x.astype("float64"), -scale.astype("float64"), _numbers(401))
    _check(softmax, _numbers(7, 61, 520)[:, ::2])
    _check(lambda x, y: x - np.max(x * y, -1, keepdims=True), x, _numbers(401, 520))


def test_divisors_of_this_row_and_of_the_next() -> None:
    """NumPy's bits for divisors that are huge, tiny, zero, infinite or NaN, each in its row."""
    x = _numbers(601, 300, dtype="float64")
    scale = np.exp2(GENERATOR.integers(-1050, 1000, 601).astype("float64"))
    scale[::9], scale[1::9], scale[2::9], scale[3::9] = 0.0, np.inf, np.nan, -2.0

    def largest(x: Any, scale: Any) -> Any:
        scaled = x / scale[:, None]
        return scaled / np.max(scaled, -1, keepdims=True)

    with np.errstate(all="ignore"):
        expected = largest(x, scale)
    (found,) = same_parts(fuser.fuse(largest, fallback="error"), x, scale)
    np.testing.assert_array_equal(found, expected)
    numbers = ~np.isnan(expected)
    assert np.array_equal(np.signbit(found)[numbers], np.signbit(expected)[numbers])


def test_other_dtypes() -> None:
    """Integers, bools and halves, and rows of two widths."""
    for dtype in ("int8", "uint16", "int32", "int64", "float16", "bool"):
        x = _numbers(133, 8192 // np.dtype(dtype).itemsize - 5, dtype=dtype)
        _check(lambda x: x != np.max(x, -1, keepdims=True), x)
    mixed = _numbers(133, 8187) > 30  # truths that end the first stage of a row, not the last loop
    mixed[5] = False
    _check(lambda x: (x == np.min(x, -1, keepdims=True), x ^ np.any(x, -1, keepdims=True)), mixed)
    whole = _numbers(301, 600, dtype="int32")
    _check(lambda x: (x - np.sum(x, -1, keepdims=True), np.min(x, -1)), whole)
    _check(lambda x: x / np.sum(x, -1, keepdims=True), np.abs(whole))
    _check(lambda x, y: x * y - np.mean(x * y, -1, keepdims=True),
           _numbers(301, 600), _numbers(600, dtype="float64"), tolerance=1e-4)  # fmt: skip


def test_rows_are_overwritten_in_place() -> None:
    """Results over the argument, and where the next row is read."""
    x = _numbers(300, 600)
    wanted = fuser.fuse(softmax)(x)
    for _ in range(3):
        mine = x.copy()
        fuser.fuse(softmax, fallback="error")(mine, out=mine)
        assert mine.tobytes() == wanted.tobytes()

    def written(x: Any) -> Any:
        x -= np.mean(x, -1, keepdims=True)
        return x

    changed, plain = x.copy(), x.copy()
    fuser.fuse(written)(changed)
    np.testing.assert_allclose(changed, written(plain), rtol=1e-5, atol=1e-5)
    shared = np.concatenate([x.ravel(), x[0]])
    source, target = shared[: x.size].reshape(x.shape), shared[600:].reshape(x.shape)
    wanted = fuser.fuse(softmax)(source.copy())
    fuser.fuse(softmax)(source, out=target)  # each row is written where the next one is read
    assert target.tobytes() == wanted.tobytes()
