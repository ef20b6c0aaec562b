"""Rows whose first stage runs in the last loop of the row before: the bits of rows one by one."""

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np
import pytest

import fuser
from fuser.backends.cpu import tuning
from fuser.backends.cpu.reducing import pipelined_rows
from fuser.backends.cpu.schedule import DEFAULT
from fuser.backends.cpu.scheduling import choose_reduction
from fuser.codegen import Instruction, LoopNest
from fuser.ir.specs import CONTIGUOUS, INVARIANT, STRIDED, TensorDesc
from tests.backends.cpu.chosen_schedules import answers_of
from tests.backends.cpu.laid_out import lay_out
from tests.backends.cpu.on_threads import same_parts
from tests.backends.cpu.reducing.short_rows import drawn, softmax
from tests.backends.cpu.schedules import PIPELINED, batch, of_one_block

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


@pytest.fixture(autouse=True)
def _chosen(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Every test meets this form."""
    monkeypatch.setattr(tuning, "UNROLLED_ELEMENTS", 1 << 60)
    chosen = answers_of(choose_reduction, "choose_pipelined_rows", monkeypatch)
    yield
    assert any(chosen)


def _check(plain: Function, *arguments: Any, tolerance: float = 1e-5) -> None:
    """NumPy's results, the same bits on one thread and on three."""
    wide = [a.astype("float64") if a.dtype == np.float32 else a for a in arguments]
    with np.errstate(all="ignore"):
        expected, types = plain(*wide), plain(*arguments)
    parts = same_parts(fuser.fuse(plain, fallback="error"), *arguments)
    expected = expected if isinstance(expected, tuple) else (expected,)
    types = types if isinstance(types, tuple) else (types,)
    for mine, theirs, like in zip(parts, expected, types, strict=True):
        assert mine.dtype == like.dtype
        assert np.array_equal(np.isnan(mine), np.isnan(theirs))
        np.testing.assert_allclose(mine, theirs, rtol=tolerance, atol=tolerance * 20)


LENGTHS = {"float32": (300, 384, 511, 512, 833, 1023, 1025), "float64": (301, 352, 509, 571)}


@pytest.mark.parametrize(
    ("dtype", "length"), [(dtype, each) for dtype, lengths in LENGTHS.items() for each in lengths]
)
def test_norms_of_every_length(dtype: str, length: int) -> None:
    """Whole vectors and what is left over, in one block and in several."""
    rows = tuning.PIPELINED_ELEMENTS // length + 1 + length % 3
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


def _bytes(found: Any) -> list[bytes]:
    """The bits of one result or of several."""
    return [part.tobytes() for part in (found if isinstance(found, tuple) else (found,))]


def test_the_bits_are_those_of_rows_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """Sums of more than one block, whose order both forms have."""
    x, weight, bias = _numbers(300, 1023), _numbers(1023), _numbers(1023)
    x[5, 7], x[6, 8] = np.nan, np.inf
    functions = (softmax, _spread, lambda x: _layer_norm(x, weight, bias))
    early = [_bytes(fuser.fuse(each, fallback="error")(x)) for each in functions]
    monkeypatch.setattr(choose_reduction, "choose_pipelined_rows", lambda *_: None)
    fuser.clear_caches()
    assert [_bytes(fuser.fuse(each, fallback="error")(x)) for each in functions] == early


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
    """The next row is read before this one is written, and it is another one."""
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


def _nest(rank: int = 2, dtype: str = "float32") -> LoopNest:
    """x - sum(x) of every row."""
    load = TensorDesc(dtype, CONTIGUOUS, False, STRIDED)
    body = (
        Instruction("sum", (0,), dtype, dtype),
        Instruction("subtract", (0, 1), dtype, dtype),
    )
    store = TensorDesc(dtype, CONTIGUOUS, False, STRIDED)
    return LoopNest(rank, (load,), (), (), body, ((2, store),), False, "row", 1)


def test_which_rows_take_this_form() -> None:
    """Two rows stay in the first cache, all of them near; very short ones go by groups."""
    nest = _nest()
    for rows, length, schedule in (
        (8192, 64, of_one_block(batch(32))), (2048, 255, of_one_block(batch(32))),
        (2048, 256, of_one_block(PIPELINED)), (1024, 1023, of_one_block(PIPELINED)),
        (1024, 1024, PIPELINED), (600, 2048, PIPELINED), (500, 3000, DEFAULT),
        (5000, 1023, DEFAULT), (100, 1023, DEFAULT), (16, 1023, DEFAULT),
    ):  # fmt: skip
        extent = lay_out(nest, (rows, length))[1]
        assert extent.schedule == schedule, (rows, length)
    assert pipelined_rows.can_be_pipelined(nest)
    sums = ((1, TensorDesc("float32", INVARIANT)),)
    stored = LoopNest(2, nest.loads, (), (), nest.body[:1], sums, False, "row", 1)
    assert not pipelined_rows.can_be_pipelined(stored)
