"""Rows one by one: what the last stage asks for beforehand, and that results are NumPy's."""

from typing import Any

import numpy as np
import pytest

import fuser
from fuser.backends.cpu.body import Module
from fuser.backends.cpu.machine.target import KNOWN_TARGETS
from fuser.backends.cpu.reducing.row_reduction import LINE_BYTES, looked_ahead
from fuser.backends.cpu.schedule import DEFAULT, Schedule
from fuser.backends.cpu.scheduling import choose_reduction
from fuser.backends.cpu.scheduling.parts import Space
from fuser.backends.cpu.scheduling.schedules import emit_nest
from fuser.codegen import Instruction, LoopNest
from fuser.ir.specs import CONTIGUOUS, INVARIANT, STRIDED, TensorDesc
from tests.backends.cpu.laid_out import lay_out
from tests.backends.cpu.schedules import AWAITED, IN_RUNS, batch, of_one_block, unrolled

GENERATOR = np.random.default_rng(31)
ROWS = TensorDesc("float64", CONTIGUOUS, False, STRIDED)
WEIGHT = TensorDesc("float64", CONTIGUOUS, False, INVARIANT)
RESULT = TensorDesc("float64", INVARIANT, False, CONTIGUOUS)


def _nest(*operations: tuple[str, tuple[int, ...]], store: TensorDesc = RESULT) -> LoopNest:
    """A nest over the rows of one array and a weight for each column."""
    body = tuple(Instruction(op, operands, "float64", "float64") for op, operands in operations)
    return LoopNest(2, (ROWS, WEIGHT), (), (), body, ((1 + len(body), store),), False, "row", 1)


def _between(*loads: TensorDesc) -> LoopNest:
    """Sums of products of what is left of rows when their means are taken off."""
    first, second = 2, 3
    body = (
        Instruction("sum", (0,), "float64", "float64"),
        Instruction("subtract", (0, first), "float64", "float64"),
        Instruction("multiply", (second, 1), "float64", "float64"),
        Instruction("sum", (4,), "float64", "float64"),
    )
    return LoopNest(2, loads, (), (), body, ((5, RESULT),), False, "row", 1)


def _asked(nest: LoopNest, schedule: Schedule = DEFAULT) -> int:
    """Calls that ask for memory."""
    module = Module(KNOWN_TARGETS["avx512"][2])
    emit_nest(module, nest, "k", schedule)
    return sum("call void @llvm.prefetch" in line for line in module.text().splitlines())


def test_a_last_stage_that_only_reduces_asks_for_the_next_row() -> None:
    """Each line of its turn once, of what has a row for each; no other stage, form or nest."""
    spread = (("sum", (0,)), ("subtract", (0, 2)), ("multiply", (3, 1)), ("sum", (4,)))
    assert _asked(_nest(*spread)) == 4 * 64 // LINE_BYTES
    assert not _asked(_nest(*spread), AWAITED)
    assert not _asked(_nest(*spread), batch(16))
    assert not _asked(_nest(("multiply", (0, 1)), ("sum", (2,))))
    assert not _asked(_nest(*spread[:3], store=ROWS))


def test_rows_of_two_arrays_come_from_memory_in_runs() -> None:
    """Whole turns and what is left over ask for every line; one array comes by itself."""
    turn = 4 * 64 // LINE_BYTES
    assert _asked(_between(ROWS, ROWS), IN_RUNS) == 2 * 2 * turn
    assert not _asked(_between(ROWS, WEIGHT), IN_RUNS)
    single = TensorDesc("float32", CONTIGUOUS, False, STRIDED)
    assert not _asked(_between(ROWS, single), IN_RUNS)


def test_which_rows_come_from_memory() -> None:
    """Arrays beyond a size, where a row is read more than once."""
    for rows, length, schedule in (
        (32_768, 257, of_one_block(IN_RUNS)), (256, 4096, DEFAULT), (1024, 4096, IN_RUNS),
        (32_768, 64, unrolled(8, whole=True)),
    ):  # fmt: skip
        nest = _between(ROWS, WEIGHT)
        assert lay_out(nest, (rows, length))[1].schedule == schedule, (rows, length)
    once = _nest(("multiply", (0, 1)), ("sum", (2,)))
    assert lay_out(once, (1024, 1 << 14))[1].schedule == DEFAULT


@pytest.mark.parametrize("length", [65, 257, 1023, 2500])
def test_rows_from_memory(length: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """The last row asks for what is beyond the array; results are those of rows in the cache."""

    def correlation(x: Any, y: Any) -> Any:
        p, q = (z - np.mean(z, -1, keepdims=True) for z in (x, y))
        return np.sum(p * q, -1) / np.sqrt(np.sum(p * p, -1) * np.sum(q * q, -1))

    monkeypatch.setattr(choose_reduction, "choose_unrolled_rows", lambda *_: None)
    arrays = [GENERATOR.normal(size=(2, 300, length)) for _ in range(2)]
    arrays[0][1, 5, 3] = np.nan
    near = fuser.fuse(correlation, fallback="error")(*arrays)
    real, found = choose_reduction._row_by_row, []

    def far(nest: LoopNest, space: Space) -> Schedule:
        schedule = real(nest, space._replace(elements=1 << 24))
        if space.reduced == length and looked_ahead(nest, far=True):
            found.append(schedule)
        return schedule

    monkeypatch.setattr(choose_reduction, "_row_by_row", far)
    monkeypatch.setattr(choose_reduction, "choose_row_batches", lambda *_: None)
    for given in (arrays, [a[:, ::-1] for a in arrays]):
        there = near if given is arrays else near[:, ::-1]
        again = fuser.fuse(lambda x, y: correlation(x, y), fallback="error")(*given)
        np.testing.assert_array_equal(again, there)
    assert set(found) == {of_one_block(IN_RUNS) if length < 300 else IN_RUNS}


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_rows_of_all_lengths(dtype: str) -> None:
    """One row, many rows, rows of a few vectors and of several blocks, and columns as rows."""

    def spread(x: Any, weight: Any) -> Any:
        rest = x - np.mean(x, -1, keepdims=True)
        return np.sum(rest * weight, -1), np.max(rest, -1)

    function = fuser.fuse(spread, fallback="error")
    for rows, length in ((1, 1), (1, 700), (3, 33), (40, 64), (40, 1023), (7, 5000)):
        x = GENERATOR.normal(size=(rows, length)).astype(dtype)
        weight = GENERATOR.normal(size=length).astype(dtype)
        for array in (x, x[::-1], np.asfortranarray(x)):
            wide = spread(array.astype("longdouble"), weight.astype("longdouble"))
            for found, expected in zip(function(array, weight), wide, strict=True):
                scale = np.finfo(dtype).eps * 8 * length
                np.testing.assert_allclose(found, expected.astype(dtype), rtol=1e-3, atol=scale)
