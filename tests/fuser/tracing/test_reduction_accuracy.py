"""Errors of sums and of sums of squares beside NumPy's own, over ensembles of rows."""

import math
from typing import Any

import numpy as np
import pytest

import fuser

GENERATOR = np.random.default_rng(12)


@pytest.mark.parametrize(
    "shape", [(20_000, 64), (600, 257), (300, 513), (100, 4097), (20, 100_003), (3, 400_001)]
)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_sums_are_at_least_as_accurate_as_numpys(dtype: Any, shape: tuple[int, int]) -> None:
    """Errors over an ensemble of rows, against exact sums; also down columns and of everything."""
    rows = (GENERATOR.normal(size=shape) + 0.5).astype(dtype)
    exact = np.array([math.fsum(row.tolist()) for row in rows])
    ours = fuser.fuse(lambda x: x.sum(1))
    columns = fuser.fuse(lambda x: x.sum(0))
    for found, numpys in (
        (ours(rows), rows.sum(1)),
        (ours(np.asfortranarray(rows)), np.asfortranarray(rows).sum(1)),
        (columns(rows.T), rows.T.sum(0)),
    ):
        assert np.square(found - exact).sum() <= np.square(numpys - exact).sum()


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("length", [129, 1000, 30_011])
def test_one_column_is_summed_as_a_row_is(dtype: Any, length: int) -> None:
    """As accurate as NumPy's pairwise sums, whatever memory is like; columns' kernels serve it."""
    kept = {0: (length, 1), 1: (1, length, 1), -1: (1, 1, length)}
    for axis, shape in kept.items():
        ours, errors, numpys = fuser.fuse(lambda x, axis=axis: x.sum(axis)), [], []
        for _ in range(12):
            x = (GENERATOR.normal(size=shape) + 0.5).astype(dtype)
            exact = math.fsum(x.ravel().tolist())
            errors.append(ours(x).item() - exact)
            numpys.append(max(abs(x.sum(axis).item() - exact), abs(np.spacing(dtype(exact)))))
        assert np.square(errors).sum() <= np.square(numpys).sum()
    x = np.asfortranarray(GENERATOR.normal(size=(length, 3)).astype(dtype))
    columns = fuser.fuse(lambda x: (x - x.mean(0), x.sum(0)))
    columns(x)
    before = fuser.n_compiled_kernels()
    for one in (x[:, :1], x[:, :1].copy(), x[::-1, 2:]):
        found = columns(one)
        np.testing.assert_allclose(found[0], one - one.mean(0), rtol=1e-5, atol=1e-5)
        np.testing.assert_allclose(found[1], one.sum(0), rtol=1e-4)
        assert found[0].shape == one.shape
        if one.strides[0] == one.itemsize:
            assert fuser.n_compiled_kernels() == before
    plane = np.asfortranarray(GENERATOR.normal(size=(1, length, 3)).astype(dtype))
    whole = fuser.fuse(lambda x: x.sum((1, 2)), fallback="error")
    np.testing.assert_allclose(whole(plane), plane.sum((1, 2)), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("shape", [(20_000, 64), (600, 257), (40, 4097)])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_sums_of_squares_by_rows(dtype: Any, shape: tuple[int, int]) -> None:
    """At least as accurate as NumPy's; overflow, infinities and NaN are where NumPy has them."""
    rows = (GENERATOR.normal(size=shape) + 0.5).astype(dtype)
    squares = rows.astype(np.longdouble) ** 2
    high = squares.astype(np.float64)
    parts = np.concatenate([high, (squares - high).astype(np.float64)], axis=1)
    exact = np.array([math.fsum(row.tolist()) for row in parts])
    for plain in (lambda x: (x * x).sum(1), lambda x: np.square(x).sum(1)):
        found, numpys = fuser.fuse(plain, fallback="error")(rows), plain(rows)
        assert np.square(found - exact).sum() <= np.square(numpys - exact).sum()
        special = rows.copy()
        special[0, 3], special[1, -1], special[2, 5] = np.inf, np.nan, -np.inf
        special[3, 0] = np.finfo(dtype).max
        special[4] = np.sqrt(np.finfo(dtype).max)
        special[5], special[6] = -0.0, np.finfo(dtype).smallest_subnormal
        with np.errstate(over="ignore", invalid="ignore"):
            numpys = plain(special)
            np.testing.assert_allclose(
                fuser.fuse(plain, fallback="error")(special), numpys, rtol=1e-5
            )
        assert not np.signbit(fuser.fuse(plain)(special)[5])
