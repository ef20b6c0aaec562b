"""What a mask selects, computed with and written back: one kernel, and NumPy's results."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import fuser
from tests.fuser.comparing import ROUNDED, assert_same, compare

CHANCE = np.random.default_rng(8)
X = CHANCE.integers(-5, 6, (6, 4)).astype(np.float32)
X[0, 1], X[2, 2], X[4] = np.nan, np.inf, -0.0
Y = CHANCE.integers(-5, 6, (6, 4)).astype(np.float64)
N = CHANCE.integers(-9, 9, (6, 4))


def doubled(x: Any, y: Any) -> Any:
    """In place."""
    x = x * 1
    x[y > 0] *= 2
    x[x < -2] += 10
    return x + y


def clipped(x: Any, y: Any) -> Any:
    """Values of one array into another one, of another dtype."""
    x, mask = x.copy(), np.isnan(x) | (y == 0)
    x[mask] = np.sqrt(np.abs(y[mask])) + y[mask] * 2
    return x


def swapped(x: Any, y: Any) -> Any:
    """What is read is what was there before."""
    x, y = x.copy(), y.copy()
    mask = x > y
    kept = x[mask]
    x[mask] = y[mask]
    y[mask] = kept
    return x, y


def argument(x: Any, y: Any) -> None:
    """Into an argument."""
    x[y < 0] *= -1
    y[y < 0] = 0


def counted(x: Any, y: Any) -> Any:
    """Integers in place, a scalar from elsewhere."""
    count = np.zeros(x.shape, int)
    for _ in range(3):
        count[x > y] += 1
        count[y > 1] //= 2
    total = y * 1
    total[x > 0] -= total.sum()
    return count, total


def of_a_view(x: Any, y: Any) -> Any:
    """The mask of a part."""
    x = x + 1
    x[1:-1][y[1:-1] > 0] *= 3
    return x


def conditional(x: Any, y: Any) -> Any:
    """A mask that is a view of another one, and one of a constant array."""
    mask = (x.T > 0).T
    out = np.empty_like(y)
    out[mask] = np.where(x[mask] > 2, x[mask], y[mask])
    out[~mask] = y[~mask].astype(np.float32)
    return out


FUSED = {f.__name__: f for f in
         (doubled, clipped, swapped, argument, counted, of_a_view, conditional)}


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("name", FUSED)
def test_one_kernel(name: str) -> None:
    """No fallback, of every order and size."""
    turns: Any = (
        lambda a: a, np.asfortranarray, lambda a: a[::-1, ::2], lambda a: a[:0], lambda a: a[:1],
        lambda a: a[:, :1],
    )
    for turn in turns:
        assert_same(FUSED[name], turn(X), turn(Y))
    fused = fuser.fuse(FUSED[name], fallback="error")
    fused(X.copy(), Y.copy())
    before = fuser.n_compiled_kernels()
    for size in (3, 9, 40):  # how many are selected is no part of it
        ones = np.ones((size, size + 1))
        fused(ones.astype(np.float32), ones)
    assert fuser.n_compiled_kernels() == before
    assert not fused.fallbacks


def _asked(array: Any, mask: Any) -> Any:
    """How many there are decides."""
    found = array[mask]
    return found if found.size > 3 else found * 2


LEFT: dict[str, Any] = {
    "mean": lambda x, y, n: _in(y * 1, y > 0, lambda a, m: a[m] - a[m].mean()),
    "count": lambda x, y, n: _in(y * 1, y > 0, lambda a, m: a[m] * a[m].shape[0]),
    "other mask": lambda x, y, n: _in(y * 1, y > 0, lambda a, m: a[m] * a[y <= 0][:1]),
    "order": lambda x, y, n: _in(y * 1, y > 0, lambda a, m: a[m][::-1]),
    "places": lambda x, y, n: _in(y * 1, y > 0, lambda a, m: a[m] + np.arange(a[m].shape[0])),
    "integer power": lambda x, y, n: _in(n * 1, n >= 0, lambda a, m: 3 ** a[m]),
    "sorted": lambda x, y, n: _in(y * 1, y > 0, lambda a, m: np.sort(a[m])),
    "rows": lambda x, y, n: _in(y * 1, y[:, 0] > 0, lambda a, m: a[m] * 2),
    "asked for": lambda x, y, n: _in(y * 1, y > 0, _asked),
    "another length": lambda x, y, n: _in(y * 1, y > 0, lambda a, m: a[y < -9]),
    "casting": lambda x, y, n: _added(n * 1, n > 0),
    "mask too short": lambda x, y, n: _in(y * 1, y[:1] > 0, lambda a, m: 3),
    "mask of ones": lambda x, y, n: _in(y * 1, y[:1, :1] < 9, lambda a, m: 3),
    "kept": lambda x, y, n: (lambda a, s: (_in(a, a > 0, lambda b, m: b[m] * 2), s * 2))(
        y * 1, y[y > 0]),
}


def _in(array: Any, mask: Any, make: Any) -> Any:
    """The array after a write."""
    array[mask] = make(array, mask)
    return array + 1


def _added(array: Any, mask: Any) -> Any:
    """A float into integers, in place, which NumPy refuses."""
    array[mask] += 0.5
    return array


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("name", LEFT)
def test_what_is_no_choice_is_left_to_numpy(name: str) -> None:
    """Right all the same, or the same error, also where nothing is selected."""
    fused = fuser.fuse(LEFT[name], fallback="allow")
    for y in (Y, Y[::-1] * 2, -abs(Y), abs(Y) + 1, np.where(Y.max() == Y, Y, -1)):
        assert compare(fused, X, y, N, fallback="allow") == ""


REDUCED: dict[str, Any] = {
    "sum": lambda x, y: x[y > 0].sum(), "mean": lambda x, y: x[y > 0].mean(),
    "max": lambda x, y: x[y > 0].max(), "min": lambda x, y: np.min(x[y > 0]),
    "prod": lambda x, y: x[y > 0].prod(axis=0), "std": lambda x, y: x[y > 0].std(),
    "var": lambda x, y: np.var(x[y > 0], ddof=1), "any": lambda x, y: (x[y > 0] > 1).any(),
    "all": lambda x, y: np.all(x[y > 0] < 2), "count": lambda x, y: np.count_nonzero(x[y > 0]),
    "formula": lambda x, y: (np.abs(x[y > 0]) * y[y > 0]).sum() * 2,
    "error": lambda x, y: ((x[y > 0] - y[y > 0]) ** 2).mean(),
    "around a mean": lambda x, y: ((x[y > 0] - x[y > 0].mean()) ** 2).sum(),
    "greater than": lambda x, y: x[y > 0].max(initial=2),
}  # fmt: skip


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("dtype", ["float64", "float32", "int64", "uint8", "bool", "complex128"])
@pytest.mark.parametrize("name", REDUCED)
def test_what_a_mask_selects_is_reduced_where_it_holds(name: str, dtype: str) -> None:
    """Of some, of none and of all elements: values, dtypes, and what NumPy raises of nothing."""
    function = REDUCED[name]
    fused = fuser.fuse(function, fallback="allow")
    chance = np.random.default_rng(4)
    for shape in ((40,), (6, 7), (0,), (1,), (500,)):
        for turn in (lambda a: a, lambda a: -np.abs(a) - 1, np.abs, lambda a: a[::-1]):
            x = (chance.standard_normal(shape) * 3).astype(dtype)
            y = turn(chance.standard_normal(shape))
            assert_same(fused, x, y, close=ROUNDED)
            assert_same(fused, np.asfortranarray(x), y, close=ROUNDED)


@pytest.mark.parametrize("name", [name for name in REDUCED if name != "around a mean"])
def test_such_a_reduction_is_kernels_alone(name: str) -> None:
    """Nothing is selected in NumPy."""
    fused = fuser.fuse(REDUCED[name], fallback="error")
    assert_same(fused, np.arange(12.0), np.arange(12.0) - 4, close=ROUNDED)


ROWS: dict[str, Any] = {
    "mean": lambda x, m: np.mean(x[m], axis=0), "sum": lambda x, m: (x[m] * 2 + 1).sum(axis=0),
    "std": lambda x, m: x[m].std(axis=0), "any": lambda x, m: (x[m] > 1).any(axis=0),
    "of all": lambda x, m: x[m].sum(), "count": lambda x, m: np.count_nonzero(x[m] > 0, axis=0),
    "of columns": lambda x, m: x.reshape(x.shape[0], -1, 1)[m].mean(axis=-3),
}  # fmt: skip
ROWS_LEFT: dict[str, Any] = {
    "along rows": lambda x, m: x[m].sum(axis=1), "extreme": lambda x, m: x[m].max(axis=0),
    "with rows": lambda x, m: (x[m] * x[m].sum(axis=0)).sum(axis=0),
    "of planes": lambda x, m: x.reshape(-1, 2, 2)[m[:, None] & np.ones(2, bool)].sum(axis=0),
}  # fmt: skip


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("name", [*ROWS, *ROWS_LEFT])
def test_rows_that_a_mask_selects(name: str) -> None:
    """Of some, of none and of all rows; kernels alone where rows are added up or counted."""
    function = {**ROWS, **ROWS_LEFT}[name]
    fused = fuser.fuse(function, fallback="error" if name in ROWS else "allow")
    x = np.random.default_rng(4).standard_normal((30, 4))
    for mask in (x[:, 0] > 0, np.zeros(30, bool), np.ones(30, bool), (x[:, 0] > 0)[::-1]):
        assert_same(fused, x, mask, close=ROUNDED)
        assert_same(fused, np.asfortranarray(x[::-1]), mask, close=ROUNDED)
    with pytest.raises(IndexError):
        fused(x, np.ones(29, bool))
    assert ("graph break" in str(fused.explain(x, mask))) == (name in ROWS_LEFT)
