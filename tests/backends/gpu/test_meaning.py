"""Every row means on CuPy arrays what it means on NumPy's: the fallback, over the double."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from fuser.backends.gpu.meaning import _SPECIAL, meaning
from fuser.ir.ops import TABLE
from tests.backends.cases import CASES, Case, legal_operands
from tests.backends.gpu import fake_cupy

FLOATS = [case for case in CASES if case.dtypes[-1] in ("float32", "int32") and case.op.shared]


@pytest.fixture(scope="module")
def cupy() -> Iterator[Any]:
    """The double."""
    with fake_cupy.installed() as double:
        yield double


@pytest.mark.parametrize("case", FLOATS, ids=str)
def test_rows_give_arrays_of_the_device(cupy: Any, case: Case) -> None:
    """The same values, by CuPy's function or through the host; its special functions' are near."""
    operands = [values[:50] for values in legal_operands(case)]
    with np.errstate(all="ignore"):
        want = case.op.numpy(*operands)
        found = meaning(case.op, cupy)(*map(cupy.asarray, operands))
    assert type(found) is cupy.ndarray
    near = 4e-7 if case.op.name in _SPECIAL else 0
    np.testing.assert_allclose(found.get(), want, rtol=near, atol=0)


@pytest.mark.parametrize("name", [name for name, op in TABLE.items() if op.reduction])
def test_reductions_take_axes(cupy: Any, name: str) -> None:
    """One axis, in the operand's dtype."""
    x = np.arange(12, dtype=np.float32).reshape(3, 4)
    found = meaning(TABLE[name], cupy)(cupy.asarray(x), (1,))
    np.testing.assert_array_equal(found.get(), TABLE[name].numpy(x, (1,)))
