"""Results of the native entry: new arrays, given ones, scalars, tuples."""

from typing import Any

import numpy as np
import pytest

import fuser

ROWS = np.arange(12.0).reshape(3, 4)


@pytest.mark.parametrize(
    ("formula", "given"),
    [
        (lambda a: a + 1, (ROWS,)),
        (lambda a: a + 1, (ROWS.T,)),
        (lambda a: a + 1, (np.float32(2),)),
        (lambda a: (a * a).sum(), (ROWS,)),
        (lambda a: (a + 1, (a * a).sum(), a > 2), (ROWS,)),
        (lambda a: (a + 1,), (ROWS[0],)),
        (lambda a, b: a + b, (np.array(1.0), np.array(2.0))),
        (lambda a: a.T * 2, (ROWS,)),
    ],
    ids=[
        "an array", "transposed", "a scalar", "a sum", "three kinds", "a tuple of one", "0-d",
        "a transpose",
    ],
)
def test_results_are_as_numpy_makes_them(formula: Any, given: tuple[Any, ...]) -> None:
    """Kind, dtype, strides, ownership and values, when served natively too."""
    function = fuser.fuse(formula)
    for _ in range(4):
        found, wanted = function(*given), formula(*given)
        assert type(found) is type(wanted)
        if not isinstance(wanted, tuple):
            found, wanted = (found,), (wanted,)
        assert len(found) == len(wanted)
        for one, other in zip(found, wanted, strict=True):
            assert type(one) is type(other)
            assert one.dtype == other.dtype
            assert one.strides == other.strides
            assert one.flags.owndata == other.flags.owndata
            assert one.flags.writeable == other.flags.writeable
            assert np.array_equal(one, other)
    assert function._native.hits >= 2
