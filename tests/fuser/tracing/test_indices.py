"""Indices, axes and lengths as plain numbers."""

import numpy as np
import pytest

from fuser.ir import dims
from fuser.tracing.indices import divide_exactly, integer, is_fancy, normal_axis, plain_slice


def test_what_is_no_basic_index() -> None:
    """Arrays, lists and truth values."""
    assert all(map(is_fancy, ([0], np.array([1]), True, np.bool_(True), (0, [1]))))
    assert not any(map(is_fancy, (0, slice(1), None, ..., (0, None), np.int64(2))))


def test_numbers_axes_and_slices() -> None:
    """As NumPy reads them."""
    assert (integer(np.int8(3)), normal_axis(-1, 3)) == (3, 2)
    assert plain_slice(slice(0, np.int64(4), 1)) == slice(None, 4)
    with pytest.raises(np.exceptions.AxisError):
        normal_axis(3, 3)
    with pytest.raises(IndexError, match="only integers"):
        integer("x")
    with pytest.raises(ValueError, match="step"):
        plain_slice(slice(None, None, 0))


def test_exact_division_of_lengths() -> None:
    """Factors of every term cancel."""
    n, m = dims.symbol("n0"), dims.symbol("n1")
    assert divide_exactly(6 * n * m, 2 * m) == 3 * n
    assert divide_exactly(12, 4) == 3
    assert str(divide_exactly(n + 1, 2)) == "((n0 + 1) // 2)"
