"""Writes by `x[…] = …`: what NumPy takes into one element, and into parts."""

from typing import Any

import numpy as np
import pytest

from tests.fuser.comparing import assert_same


def _into_last(y: Any, v: Any) -> Any:
    """One element."""
    y[-1] = v
    return y


def _into_part(y: Any, v: Any) -> Any:
    """A part with one element."""
    y[-1, ...] = v
    y[:1] = v
    return y


VALUES = [
    np.array([np.nan]), np.array([[2.5]]), np.array([300]), np.array([True]), np.array(2.5), 3,
    np.float32(2.5), [1.0], np.array([1.0, 2.0]),
]  # fmt: skip


@pytest.mark.parametrize("kind", ["i8", "i1", "u1", "f2", "f8", "?"])
@pytest.mark.parametrize("value", VALUES, ids=repr)
def test_values_with_axes_into_one_element_are_numpy_s_matter(value: Any, kind: str) -> None:
    """It raises, or warns, by its version; parts take them."""
    for length in (4, 5):
        assert_same(_into_last, np.zeros(length, kind), value, fallback="allow")
        assert_same(_into_part, np.zeros(length, kind), value, fallback="allow")
