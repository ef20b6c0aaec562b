"""What operands are computed in."""

import numpy as np
import pytest

from fuser.base.errors import Unsupported
from fuser.ir.infer import convert_scalar
from fuser.tracing.admitted_dtypes import check_array
from fuser.tracing.operands import fits_dtype, loop_dtypes


def test_dtypes_are_numpys() -> None:
    """Python numbers are weak, NumPy scalars strong."""
    single, double = np.float32(1), 2.0
    assert [d.name for d in loop_dtypes(np.add, [single, double], None, "same_kind")] == (
        ["float32"] * 3
    )
    both = loop_dtypes(np.add, [single, np.float64(2)], None, "same_kind")
    assert both[0] == np.dtype("float64")


def test_numbers_that_do_not_fit() -> None:
    """Comparisons ask first; conversions raise as NumPy does."""
    assert fits_dtype(100, np.dtype("int8"))
    assert not fits_dtype(1000, np.dtype("int8"))
    with pytest.raises(OverflowError):
        convert_scalar(1000, np.dtype("int8"))


@pytest.mark.parametrize(
    ("array", "code"),
    [
        (np.ones(2, np.complex64), "unsupported-dtype"),
        (np.ones(2, ">f4"), "byte-order"),
        (np.ma.array([1.0]), "unsupported-array"),
    ],
)
def test_arrays_that_are_refused(array: np.ndarray, code: str) -> None:  # type: ignore[type-arg]
    """With the reason."""
    with pytest.raises(Unsupported) as caught:
        check_array(array, "argument")
    assert caught.value.reason.code == code
