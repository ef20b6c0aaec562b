"""What an explanation says of loops over single elements: trip counts, carried numbers, bytes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import fuser


def _triangular(a: Any) -> None:
    n = a.shape[0]
    for i in range(n):
        for j in range(i):
            for k in range(j):
                a[i, j] -= a[i, k] * a[j, k]
        a[i, i] = np.sqrt(a[i, i])


def _until(x: Any, least: int) -> Any:
    best, at = 0.0, 0
    for i in range(least, len(x), 2):
        if x[i] > best:
            best, at = float(x[i]), i
            for j in range(3):
                x[i] += j
    while at > least:
        at -= 1
    return best, at


def test_iterations_of_loops_whose_bounds_depend_on_others() -> None:
    """They are counted exactly; the ledger has arrays once, and what iterations touch."""
    n = 20
    pairs, triples = n * (n - 1) // 2, n * (n - 1) * (n - 2) // 6
    found = fuser.fuse(_triangular, fallback="error").explain(np.ones((n, n)))
    (shown,) = found.loops
    assert f"for i in range(n): {n} iterations; " in shown
    assert f"for j in range(i): {pairs} iterations\n" in shown
    assert f"for k in range(j): {triples:,} iterations; " in shown
    assert found.ledger is not None
    assert found.ledger.planned_bytes == found.ledger.least_bytes == 2 * 8 * n * n
    assert found.ledger.unfused_bytes == 8 * (4 * triples + 2 * n)
    assert (found.ledger.kernels_fused, found.ledger.operations) == (1, 2 * triples + n)


def test_what_a_branch_or_a_condition_decides() -> None:
    """Such loops run at most so often, or as their values say; numbers that go on are named."""
    (shown,) = fuser.fuse(_until, fallback="error").explain(np.arange(12.0), 2).loops
    assert "reads and writes x" in shown
    assert "for i in range(least, x.shape[0], 2): 5 iterations; carries best; " in shown
    assert "for j in range(3): at most 15 iterations" in shown
    assert "while: as often as its values say; carries at\n" in shown


def test_the_source_of_a_loop() -> None:
    """Its kernel is shown as text, as LLVM has optimised it, and as assembly."""
    fused = fuser.fuse(_triangular, fallback="error")
    a = np.eye(4)
    texts = [fused.source(a, kind=kind) for kind in ("source", "optimized", "asm")]
    (name,) = texts[0]
    assert all(list(each) == [name] for each in texts)
    assert f"define ptr @{name}(" in texts[0][name]
    assert "%slot0 = alloca" in texts[0][name]
    assert "%slot0 = alloca" not in texts[1][name]
    assert f"{name}:" in texts[2][name]
    assert np.array_equal(a, np.eye(4))
    with pytest.raises(ValueError, match="no 'ptx' text"):
        fused.source(a, kind="ptx")
