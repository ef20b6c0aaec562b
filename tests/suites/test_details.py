"""What explains a row is what the call does: bytes counted by hand, texts that exist."""

import tracemalloc

import numpy as np

import fuser
from fuser.reports.record import Boundary
from fuser.suites import details


def two_ways(x: np.ndarray) -> np.ndarray:
    """Rows divided by their sums, then summed along both axes: more than one kernel."""
    shares = x / x.sum(axis=1, keepdims=True)
    return shares.sum(axis=0) * 2 + shares.T.max(axis=1)


def test_boundaries_are_what_the_plan_moves_beyond_the_least() -> None:
    """Several kernels: bytes close, each has its reason; one kernel: nothing crosses."""
    x = np.ones((8, 64), np.float32)
    fused = fuser.fuse(two_ways)
    fused(x)
    explanation = fused.explain(x)
    ledger = explanation.ledger
    assert ledger is not None
    found = [Boundary(**each) for each in details.boundaries(explanation)]
    assert found
    moved = sum(each.moved_bytes for each in found)
    assert ledger.least_bytes + moved == ledger.planned_bytes
    assert all(each.reason and each.meaning and each.read_by for each in found)
    plain = fuser.fuse(lambda x: x * 2 + 1)
    plain(x)
    assert details.boundaries(plain.explain(x)) == []


def test_peak_bytes_are_results_and_temporaries() -> None:
    """Three arrays at once here; Python's own objects are small beside them."""
    x = np.ones(1 << 16, np.float32)

    def call(x: np.ndarray) -> np.ndarray:
        first, second = x + 1, x + 2
        return first * second

    assert abs(details.peak_bytes(call, (x,)) - 3 * x.nbytes) < 4096
    assert not tracemalloc.is_tracing()


def test_texts_are_plan_source_and_assembly_compiled_once() -> None:
    """The second row with the same source takes the assembly of the first."""
    x = np.ones(64, np.float32)
    fused = fuser.fuse(lambda x: x * 2 + 1)
    fused(x)
    texts = details.Texts()
    found = texts.of(fused, (x,), fused.explain(x))
    assert "kernel 0" in found["plan"]
    assert "define" in found["source"]
    assert "ret" in found["assembly"]
    again = texts.of(fused, (x,), fused.explain(x))
    assert again["assembly"] is found["assembly"]


def test_long_texts_say_what_is_missing() -> None:
    """The start, and how many characters are not there."""
    text = details.shortened("x" * (details.LONGEST_TEXT + 7))
    assert len(text) < details.LONGEST_TEXT + 100
    assert "7 more characters" in text
