"""Columns of wide rows in one tile: its parts, results, and the same bits on one thread."""

from typing import Any

import numpy as np

import fuser
from fuser.backends.cpu import tuning
from fuser.backends.cpu.reducing import online_columns
from fuser.codegen import Instruction, LoopNest
from fuser.ir.specs import CONTIGUOUS, INVARIANT, TensorDesc
from tests.backends.cpu.laid_out import lay_out
from tests.backends.cpu.on_threads import same_parts


def test_one_tile_of_all_columns_has_parts_enough() -> None:
    """As many for each of several matrices; short ones and wide rows are cut into tiles."""
    load = TensorDesc("float32", CONTIGUOUS, False, "")
    store = TensorDesc("float32", INVARIANT, True, CONTIGUOUS)
    total = Instruction("sum", (0,), "float32", "float32")
    nest = LoopNest(2, (load,), (), (), (total,), ((1, store),), False, "column", 1)
    batch = LoopNest(3, (load,), (), (), (total,), ((1, store),), False, "column", 1)
    room = online_columns.most_columns(nest)
    for of, lengths, parts in (
        (nest, (16_385, 1023), 16), (nest, (16_385, 8000), 64), (batch, (4, 16_385, 300), 4),
    ):  # fmt: skip
        words, extent = lay_out(of, lengths)
        assert (words[0], extent.ichunk) == (parts, 16_385)
        assert extent.outer * extent.inner == extent.elements // lengths[-1] * parts
        assert extent.room_bytes <= extent.elements * 4 // tuning.WHOLE_ROW_READ
    for lengths in ((16_385, 260 - 5), (room + 1, 1000)):
        assert lay_out(nest, lengths)[1].ichunk < 16_385
    spread = (
        total, Instruction("subtract", (0, 1), "float32", "float32"),
        Instruction("multiply", (2, 2), "float32", "float32"),
        Instruction("sum", (3,), "float32", "float32"),
    )  # fmt: skip
    both = LoopNest(2, (load,), (), (), spread, ((4, store),), False, "column", 1)
    assert lay_out(both, (5000, 4000))[1].ichunk == 5000
    assert lay_out(both, (5 << 10, 4000))[1].ichunk < 5000


def test_matrices_of_wide_rows_give_numpys_results() -> None:
    """Several, each with parts of its own; what a column's own operand makes; one thread's bits."""
    x = np.random.default_rng(5).normal(size=(4, 200, 9000)).astype("float32")
    weights = np.random.default_rng(6).random(9000, "float32")
    x[1, 77, 8999], x[2, 3, 4] = np.nan, np.inf

    def sums(x: Any, weights: Any) -> Any:
        return np.sum(x * (weights + 1), axis=1), np.max(x, axis=1)

    expected = sums(x.astype("float64"), weights.astype("float64"))
    found = same_parts(fuser.fuse(sums, fallback="error"), x, weights)
    for ours, theirs in zip(found, expected, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-4, atol=1e-4)


def test_variances_of_wide_rows_give_numpys_results() -> None:
    """About references of each part; columns with what is no number, or far from zero."""
    x = np.random.default_rng(7).normal(3.0, 2.0, size=(900, 5003)).astype("float32")
    x[:, 7] += 1e4
    x[70, 5], x[899, 5002], x[:, 9] = np.nan, np.inf, 0.0

    def moments(x: Any) -> Any:
        return x.mean(0), x.var(0)

    with np.errstate(all="ignore"):
        expected = moments(x.astype("float64"))
    for ours, theirs in zip(same_parts(fuser.fuse(moments), x), expected, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=2e-4)
