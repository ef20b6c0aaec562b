"""The cost model: what is shared, by how many threads, and in which pieces."""

from itertools import pairwise

import numpy as np
import pytest

import fuser
from fuser.backends.cpu import costs, tuning
from fuser.backends.cpu.machine import workers
from fuser.base.records import changed
from fuser.codegen import Instruction, LoopNest
from fuser.ir.specs import CONTIGUOUS, INVARIANT, STRIDED, TensorDesc
from tests.settings import settings


def test_chunks_are_powers_of_two_within_bounds() -> None:
    """Costly elements come in small chunks, long work in large ones."""
    sizes = [costs.chunk_elements(1 << 16, each_ns) for each_ns in (0.01, 0.3, 3.0, 300.0)]
    assert sizes[0] == tuning.MOST_CHUNK
    assert sizes[-1] == tuning.LEAST_CHUNK
    assert all(left >= right for left, right in pairwise(sizes))
    assert all(size & (size - 1) == 0 for size in sizes)
    assert costs.chunk_elements(1 << 30, 300.0) == tuning.MOST_CHUNK
    assert costs.chunk_elements(0, 0.0) == tuning.MOST_CHUNK


def test_many_rows_are_cut_into_about_as_many_chunks() -> None:
    """Small arrays into chunks that are worth taking, large ones into a few hundred, or longer."""
    for elements, size in ((0, 1), (1 << 20, 1), (3 << 22, 3), (1 << 30, 4)):
        assert costs.row_chunk(elements, 1 << 14) == size << 14


def test_helpers_have_work_that_is_worth_waking_them() -> None:
    """None for short work; never more than threads, chunks or shares of work."""
    assert costs.helpers(tuning.PARALLEL_NS - 1, 100, 8) == 0
    assert costs.helpers(tuning.PARALLEL_NS, 100, 8) == 1
    assert costs.helpers(1e9, 100, 8) == 7
    assert costs.helpers(1e9, 3, 8) == 2
    assert costs.helpers(1e9, 1, 8) == 0
    assert costs.helpers(0.0, 0, 1) == 0
    assert costs.helpers(1e12, 1 << 20, 1000) == 255


def test_a_result_of_a_row_or_column_costs_nothing_for_each_element() -> None:
    """Nor does an operand that is one number for each: only what has elements is moved."""
    row = TensorDesc("float64", CONTIGUOUS, False, STRIDED)
    one = TensorDesc("float64", INVARIANT, False, CONTIGUOUS)
    body = (Instruction("sum", (0,), "float64", "float64"),)
    rows = LoopNest(2, (row,), (), (), body, ((1, one),), False, "row", 1)
    added = tuning.BYTE_NS * 8 + 2 * tuning.REDUCED_NS
    assert costs.cost_ns(rows) == pytest.approx(added)
    offset = (Instruction("subtract", (0, 1), "float64", "float64"),)
    body = (*offset, Instruction("sum", (2,), "float64", "float64"))
    moved = changed(rows, loads=(row, one), body=body, stores=((3, one),))
    assert costs.cost_ns(moved) == pytest.approx(added + 2 * tuning.REDUCED_NS)
    column = TensorDesc("float64", CONTIGUOUS, True)
    beside = changed(rows, loads=(TensorDesc("float64", CONTIGUOUS),), stores=((1, column),))
    assert costs.cost_ns(changed(beside, strategy="column")) == pytest.approx(added)


@pytest.mark.skipif(workers.workers() is None, reason="native workers exist on Linux only")
def test_work_of_many_small_chunks_has_the_same_bits() -> None:
    """Heavy work of a few thousand elements is shared among more threads than there are."""
    x = np.random.default_rng(5).normal(size=40_003)

    def function(x: np.ndarray) -> np.ndarray:
        return np.sin(x) * np.exp(x) + np.tanh(x)

    results = []
    for threads in (1, 2, 5):
        with settings(num_threads=threads):
            results.append(fuser.fuse(function)(x))
    assert np.array_equal(results[0], results[1])
    assert np.array_equal(results[0], results[2])
