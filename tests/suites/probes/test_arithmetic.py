"""The arithmetic that is timed is the arithmetic that is counted."""

import numpy as np

import fuser
from fuser.suites.probes import arithmetic


def test_operations_are_counted_as_the_ledger_counts_them() -> None:
    """Multiplications and additions of four polynomials, and their sum; nothing is folded."""
    x = np.full(8, 0.25)
    fused = fuser.fuse(arithmetic.polynomials, fallback="error")
    assert np.allclose(fused(x), arithmetic.polynomials(x))
    ledger = fused.explain(x).ledger
    assert ledger is not None
    assert ledger.operations == arithmetic.OPERATIONS * 8
    assert ledger.elementary == 0


def test_speeds_are_fields_of_the_record() -> None:
    """Each dtype on one thread and on all."""
    found = list(arithmetic.measure(threads=2, process=3, samples=2))
    assert {(each["dtype"], each["threads"]) for each in found} == {
        (dtype, threads) for dtype in arithmetic.DTYPES for threads in (1, 2)
    }
    assert all(len(each["seconds"]) == 2 and min(each["seconds"]) > 0 for each in found)
