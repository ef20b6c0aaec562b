"""Rows by groups: NumPy's results for every dtype and layout, whatever is left over of a group."""

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest

import fuser
from fuser.backends.cpu.body import Module
from fuser.backends.cpu.machine.target import host_features
from fuser.backends.cpu.reducing import row_batches
from fuser.backends.cpu.schedule import DEFAULT
from fuser.backends.cpu.scheduling import choose_reduction
from fuser.backends.cpu.scheduling.schedules import emit_nest
from fuser.codegen import Instruction, LoopNest
from fuser.ir.specs import CONTIGUOUS, INVARIANT, STRIDED, TensorDesc
from tests.backends.cpu.chosen_schedules import preferred
from tests.backends.cpu.laid_out import lay_out
from tests.backends.cpu.reducing.short_rows import check, drawn, normalised
from tests.backends.cpu.schedules import GATHERED, batch, of_one_block

GENERATOR = np.random.default_rng(29)
Function = Callable[..., Any]
_numbers = partial(drawn, GENERATOR)


def _several(x: Any) -> Any:
    mean = np.mean(x, -1, keepdims=True)
    return x - mean, np.max(x, -1), np.min(x, -1), np.var(x, -1)


def _by_row(x: Any, scale: Any, chosen: Any) -> Any:
    scaled = x * scale[:, None]
    return np.sum(np.where(chosen[:, None], scaled, -x), -1) * scale


def _integers(x: Any) -> Any:
    return np.sum(x, -1), np.prod(x, -1), np.max(x, -1), np.sum(x * x, -1)


@pytest.fixture
def few(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Arrays that are small enough for a test take this form; extents that were chosen."""
    return preferred("batches", monkeypatch)


def _check(plain: Function, few: list[Any], *arguments: Any, tolerance: float = 1e-5) -> None:
    """NumPy's results, the same bits on one thread and on three, in this form."""
    check(plain, arguments, tolerance, tolerance * 20)
    assert any(schedule is not None and schedule.tile for schedule in few)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_lengths_around_whole_vectors(few: list[Any], dtype: str) -> None:
    """Rows of 33 to 300 elements, and a last group of any size."""
    for rows, length in ((4001, 33), (2053, 64), (2055, 65), (1029, 129), (703, 257), (513, 300)):
        _check(_several, few, _numbers(rows, length, dtype=dtype))


def test_nan_and_infinities(few: list[Any]) -> None:
    """They stay in their rows: sums, extremes and what follows from them are NumPy's."""
    for dtype in ("float32", "float64"):
        _check(_several, few, _numbers(2053, 67, dtype=dtype, bad=True))
        rows = _numbers(4003, 40, dtype=dtype, bad=True)
        _check(lambda x: np.sum(x, -1), few, rows)
        assert np.signbit(fuser.fuse(lambda x: np.max(x, -1))(np.full((4003, 40), -0.0))).all()


def test_operands_that_lie_in_other_ways(few: list[Any]) -> None:
    """Gaps, backwards, misaligned, one for all rows, one a row, rows that move with two loops."""
    x = _numbers(2060, 140)
    shifted = np.frombuffer(b"\0" + x.tobytes(), np.uint8)[1:].view("float32").reshape(x.shape)
    weight, bias = _numbers(140), _numbers(140)
    for array in (x, shifted, x[::-1], x[:, ::-1], _numbers(4120, 140)[::2]):
        _check(normalised, few, array, weight, bias)
    _check(normalised, few, x[:, ::2], weight[:70], bias[::2])
    _check(_by_row, few, x, _numbers(4120)[::2], _numbers(2060) > 0, tolerance=1e-4)
    _check(lambda x: x - np.mean(x, -1, keepdims=True), few, _numbers(3, 701, 65))
    _check(lambda x: np.sum(x, -1), few, _numbers(5, 90, 300)[:, ::-2])


def test_other_dtypes(few: list[Any]) -> None:
    """Integers wrap around as NumPy's, float16 is rounded at the end, mixed dtypes."""
    for dtype in ("int8", "uint8", "int16", "uint32", "int64"):
        _check(_integers, few, _numbers(2053, 65, dtype=dtype))
    half = _numbers(2053, 65, dtype="float16")
    _check(lambda x: (np.sum(x, -1), np.max(x, -1)), few, half, tolerance=2e-3)
    _check(lambda x, y: np.sum(x * y, -1), few, _numbers(2053, 65), _numbers(65, dtype="float64"))


def test_quotients_by_what_is_one_for_a_row(few: list[Any]) -> None:
    """NumPy's bits for every row's divisor: ordinary, huge, tiny, zero, infinite, NaN."""
    for rows, length in ((2053, 64), (2048, 65), (519, 300)):
        x = _numbers(rows, length, dtype="float64", bad=True)
        scales = np.exp2(GENERATOR.integers(-1050, 1000, rows).astype("float64"))
        scales[::4] = 1.0
        with np.errstate(all="ignore"):
            x *= scales[:, None]
        x[5::31] = 0.0
        x[6::31, 3:] = 0.0

        def largest(x: Any) -> Any:
            return x / np.max(np.abs(x / 3.0), -1, keepdims=True)

        with np.errstate(all="ignore"):
            expected = largest(x)
        for found in (fuser.fuse(largest, fallback="error")(x) for _ in range(2)):
            np.testing.assert_array_equal(found, expected)
            numbers = ~np.isnan(expected)
            assert np.array_equal(np.signbit(found)[numbers], np.signbit(expected)[numbers])
    assert {schedule for schedule in few if schedule} == {batch(16), batch(8)}


def test_what_a_group_leaves_for_the_next(few: list[Any]) -> None:
    """Rows that the loop before has summed already: as many groups and rows as there are."""

    def centred(x: Any) -> Any:
        return x - np.sum(x, -1, keepdims=True)

    def spread(x: Any) -> Any:
        rest = x - np.mean(x, -1, keepdims=True)
        return np.sum(rest * rest, -1), np.max(rest, -1)

    def scaled(x: Any, first: float, second: float) -> Any:
        rest = x / (first * second)
        return rest - np.sum(rest, -1, keepdims=True)

    _check(scaled, few, GENERATOR.integers(-50, 50, (519, 256)).astype("float64"), 4.0, 2.0)
    for rows in (512, 513, 527, 528, 529, 543, 2049, 2065):
        x = GENERATOR.integers(-50, 50, (rows, 256)).astype("float64")
        _check(centred, few, x, tolerance=0.0)
        _check(spread, few, x, tolerance=1e-13)


def test_results_may_replace_their_operand(few: list[Any]) -> None:
    """Each row is read before it is written, in the last group too."""
    for rows in (2053, 2056):
        x = _numbers(rows, 65, dtype="float64")
        expected = x - np.mean(x, -1, keepdims=True)
        function = fuser.fuse(lambda x: x - np.mean(x, -1, keepdims=True), fallback="error")
        function(x, out=x)
        np.testing.assert_allclose(x, expected, rtol=1e-12, atol=1e-12)
    assert any(few)


def test_rows_of_one_block_keep_no_errors(
    few: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Their code is shorter, and their sums have the bits that they would have as other rows."""
    load = TensorDesc("float32", CONTIGUOUS, False, STRIDED)
    store = TensorDesc("float32", INVARIANT, False, CONTIGUOUS)
    total = Instruction("sum", (0,), "float32", "float32")
    nest = LoopNest(2, (load,), (), (), (total,), ((1, store),), False, "row", 1)
    texts = []
    for schedule in (batch(32), of_one_block(batch(32))):
        module = Module(host_features())
        emit_nest(module, nest, "k", schedule)
        texts.append(module.text())
    assert texts[1].count("\n") < texts[0].count("\n")
    x = _numbers(4096, 250, bad=True)
    sums = fuser.fuse(lambda x: np.sum(x, -1), fallback="error")
    short = sums(x)
    monkeypatch.setattr(choose_reduction, "is_short", lambda *_, **__: False)
    assert sums(x[1:]).tobytes() == short[1:].tobytes()
    wanted = [of_one_block(batch(32)), batch(32)]
    assert [each for each in few if each] == wanted


def test_which_nests_and_lengths(monkeypatch: pytest.MonkeyPatch) -> None:
    """Places, truths and rows too long for the first cache are left to other forms."""
    load = TensorDesc("float32", CONTIGUOUS, False, STRIDED)
    store = TensorDesc("float32", INVARIANT, False, CONTIGUOUS)

    def nest(op: str, dtype: str = "float32") -> LoopNest:
        body = (Instruction(op, (0,), dtype, "float32"),)
        return LoopNest(2, (load,), (), (), body, ((1, store),), False, "row", 1)

    total = nest("sum")
    assert row_batches.can_be_batched(total)
    assert not row_batches.can_be_batched(nest("argmax", "int64"))
    preferred("batches", monkeypatch)
    for lengths, schedule in (
        ((4096, 64), of_one_block(batch(32))), ((4096, 257), of_one_block(batch(16))),
        ((4096, 512), of_one_block(batch(16))), ((4096, 513), of_one_block(DEFAULT)),
        ((100, 4096), DEFAULT), ((0, 64), DEFAULT), ((4096, 0), GATHERED),
    ):  # fmt: skip
        assert lay_out(total, lengths)[1].schedule == schedule, lengths


def test_what_is_left_over_may_be_one_vector(few: list[Any]) -> None:
    """One element to a whole vector and beyond, summed, reduced and stored."""
    for dtype in ("float32", "float64"):
        for left in (1, 7, 8, 9, 15, 16, 17, 31, 33, 63):
            _check(_several, few, _numbers(2053, 64 + left, dtype=dtype, bad=left % 2 == 0))
            arrays = [_numbers(2053, 64 + left, dtype=dtype) for _ in range(3)]
            _check(
                lambda x, y, z: (np.sum(x * y, -1), np.max(z, -1)), few, *arrays, tolerance=1e-4
            )
    assert any(each.accumulate == "plain" for each in few if each)
