"""Forms of reducing nests: chosen by lengths alone, equal in what they compute."""

from typing import Any

import numpy as np
import pytest

import fuser
from fuser.backends.cpu import tuning
from fuser.backends.cpu.schedule import DEFAULT
from fuser.codegen import Instruction, LoopNest
from fuser.ir.specs import CONTIGUOUS, INVARIANT, STRIDED, TensorDesc
from tests.backends.cpu.laid_out import lay_out
from tests.backends.cpu.on_threads import same_parts
from tests.backends.cpu.schedules import (
    GATHERED,
    JOINED,
    ONLINE_JOINED,
    PAIRWISE,
    of_one_block,
    unrolled,
)

GENERATOR = np.random.default_rng(17)


def _nest(strategy: str, rank: int, reduced: int = 1) -> LoopNest:
    """A sum of float32."""
    load = TensorDesc("float32", CONTIGUOUS, False, STRIDED if strategy == "row" else "")
    store = TensorDesc("float32", INVARIANT, strategy == "column" or reduced > 1, CONTIGUOUS)
    body = (Instruction("sum", (0,), "float32", "float32"),)
    return LoopNest(rank, (load,), (), (), body, ((1, store),), False, strategy, reduced)


def test_schedules_follow_from_lengths() -> None:
    """Few short rows lie side by side, many are unrolled; few long rows and columns are cut."""
    row, column = _nest("row", 2), _nest("column", 2)
    cases = [
        (row, (1000, 3), GATHERED), (row, (100, 10), PAIRWISE), (row, (100, 64), DEFAULT),
        (row, (500, 32), unrolled(2, whole=True, rows=32)), (row, (400, 33), unrolled(3, rows=32)),
        (row, (1000, 700), of_one_block(DEFAULT)), (row, (1000, 7000), DEFAULT),
        (row, (2, 1 << 20), JOINED),
        (_nest("row", 1), (1 << 20,), JOINED), (_nest("row", 1), (3,), DEFAULT),
        (column, (64, 1 << 16), ONLINE_JOINED), (column, (1 << 16, 64), DEFAULT),
        (column, (3, 1 << 18), ONLINE_JOINED), (column, (3, 1000), DEFAULT),
    ]  # fmt: skip
    for nest, lengths, schedule in cases:
        words, extent = lay_out(nest, lengths)
        assert extent.schedule == schedule, lengths
        assert extent.elements == np.prod(lengths)
        room = extent.elements // tuning.WORD_ELEMENTS
        assert len(words) <= max(tuning.PART_WORDS, room) + 16
        assert bool(words) == (schedule.split != "none")


def test_one_thread_has_few_columns_that_are_stored() -> None:
    """Threads that wrote parts of the same rows would take lines from each other."""
    load, store = (TensorDesc("float32", CONTIGUOUS, False, "") for _ in range(2))
    body = (
        Instruction("sum", (0,), "float32", "float32"),
        Instruction("subtract", (0, 1), "float32", "float32"),
    )
    centred = LoopNest(2, (load,), (), (), body, ((2, store),), False, "column", 1)
    for nest, lengths, chunks in (
        (centred, (300, 200), 1), (centred, (512, 255), 1), (centred, (1000, 100), 4),
        (_nest("column", 2), (512, 200), 2),
    ):  # fmt: skip
        extent = lay_out(nest, lengths)[1]
        assert extent.schedule == DEFAULT
        assert -(-lengths[0] // extent.ichunk) == chunks, lengths


def test_parts_cover_a_row() -> None:
    """The last part is not empty, and cuts lie at whole blocks."""
    nest = _nest("row", 1)
    for length in (131_073, 200_000, (1 << 22) - 1, 1 << 26):
        words, extent = lay_out(nest, (length,))
        parts, part = words[:2]
        assert (parts - 1) * part < length <= parts * part
        assert part % tuning.CUT == 0
        assert extent.outer == parts
    for length, parts in ((1 << 18, 4), (1 << 22, 16), (1 << 26, 64)):
        assert lay_out(nest, (length,))[0][0] == parts


def _standardise(x: Any) -> Any:
    return (x - x.mean(0)) / x.std(0)


def _softmax(x: Any) -> Any:
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


CASES = [
    ((200_003,), lambda x: (x.sum(), x.max(), x.argmax())),
    ((200_003,), _softmax),
    ((200_003,), lambda x: ((x > 0).any(), np.count_nonzero(x > 0.5))),
    ((120_001, 3), _standardise),
    ((70_001, 3), lambda x: (x.argmin(0), x.min(0))),
    ((2, 100_001), lambda x: (x.argmax(1), x.var(1))),
    ((3, 5, 70, 301), lambda x: x.sum((1, 3))),
    ((30_001, 4), _softmax),
]


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int32])
@pytest.mark.parametrize(("shape", "function"), CASES)
def test_parts_give_what_the_whole_gives(shape: Any, function: Any, dtype: Any) -> None:
    """NumPy's results, and the same bits on one thread and on three."""
    x = (GENERATOR.random(shape) * 40).astype(dtype)
    wanted = function(x.astype(np.float64) if dtype == np.float32 else x)
    found = same_parts(fuser.fuse(function, fallback="error"), x)
    wanted = wanted if isinstance(wanted, tuple) else (wanted,)
    for one, other in zip(found, wanted, strict=True):
        np.testing.assert_allclose(one, other, rtol=2e-4, atol=1e-4)
