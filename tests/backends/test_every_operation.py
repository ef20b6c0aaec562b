"""No row of the operator table is without a test that compares it with NumPy."""

from __future__ import annotations

import numpy as np

from fuser.ir.ops import TABLE
from tests.backends.cases import CASES
from tests.fuser.numpy_functions import test_reductions, test_scans, test_scatters


def test_every_operation_is_compared_with_numpy() -> None:
    """By the tests of the whole table, or by those of reductions, scans, gathers and scatters."""
    computing = {name for name, op in TABLE.items() if not op.structure and op.dtypes()}
    rows = {case.op.name for case in CASES} | {n for n, op in TABLE.items() if op.converts}
    scans = {n for n, op in TABLE.items()
             if op.scans and getattr(np, op.combine) in test_scans.UFUNCS}  # fmt: skip
    scatters = {"_".join(filter(None, ("scatter", how))) for how, _ in test_scatters.CASES}
    gathers = {n for n, op in TABLE.items() if op.gathers}  # test_gathers: of every dtype
    tested = rows | set(test_reductions.NAMES) | scans | scatters | gathers
    assert computing <= tested
    assert scatters == {n for n, op in TABLE.items() if op.scatters}
    assert {(case.op.name, case.rows_dtype) for case in CASES} == {
        (op.name, dtype) for op in TABLE.values() for dtype in op.dtypes()
        if op.name in rows and not op.converts
    }  # fmt: skip
