"""Rows one by one: what the last stage asks for beforehand, and that results are NumPy's."""

from typing import Any

import numpy as np
import pytest

import fuser
from fuser.backends.cpu.body import Module
from fuser.backends.cpu.machine.target import KNOWN_TARGETS
from fuser.backends.cpu.reducing.row_reduction import LINE_BYTES
from fuser.backends.cpu.schedule import DEFAULT, Schedule
from fuser.backends.cpu.scheduling.schedules import emit_nest
from fuser.codegen import Instruction, LoopNest
from fuser.ir.specs import CONTIGUOUS, INVARIANT, STRIDED, TensorDesc
from tests.backends.cpu.schedules import AWAITED, batch

GENERATOR = np.random.default_rng(31)
ROWS = TensorDesc("float64", CONTIGUOUS, False, STRIDED)
WEIGHT = TensorDesc("float64", CONTIGUOUS, False, INVARIANT)
RESULT = TensorDesc("float64", INVARIANT, False, CONTIGUOUS)


def _nest(*operations: tuple[str, tuple[int, ...]], store: TensorDesc = RESULT) -> LoopNest:
    """A nest over the rows of one array and a weight for each column."""
    body = tuple(Instruction(op, operands, "float64", "float64") for op, operands in operations)
    return LoopNest(2, (ROWS, WEIGHT), (), (), body, ((1 + len(body), store),), False, "row", 1)


def _asked(nest: LoopNest, schedule: Schedule = DEFAULT) -> int:
    """Calls that ask for memory."""
    module = Module(KNOWN_TARGETS["avx512"][2])
    emit_nest(module, nest, "k", schedule)
    return sum("call void @llvm.prefetch" in line for line in module.text().splitlines())


def test_a_last_stage_asks_for_the_next_row() -> None:
    """Each line of its turn once, of what has a row for each; no other stage, form or nest."""
    spread = (("sum", (0,)), ("subtract", (0, 2)), ("multiply", (3, 1)), ("sum", (4,)))
    assert _asked(_nest(*spread)) == 4 * 64 // LINE_BYTES
    assert not _asked(_nest(*spread), AWAITED)
    assert not _asked(_nest(*spread), batch(16))
    assert not _asked(_nest(("multiply", (0, 1)), ("sum", (2,))))
    assert _asked(_nest(*spread[:3], store=ROWS))


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
