"""NumPy functions traced as formulas: fused, and equal to NumPy in every respect."""

from typing import Any

import numpy as np
import pytest

import fuser
from tests.fuser.comparing import assert_same, compare

CHANCE = np.random.default_rng(2)
X = CHANCE.integers(-5, 6, (6, 4)).astype(np.float32)
Y = CHANCE.integers(-5, 6, (6, 4)).astype(np.float64)
V = CHANCE.integers(-5, 6, 12).astype(np.float32)
NUMBERS = np.arange(-3, 9, dtype=np.int16)
HOLES = np.where(CHANCE.random((6, 4)) < 0.3, np.nan, X).astype(np.float32)
HOLES[2] = np.nan
HOLES[3] = [np.inf, -np.inf, np.nan, -0.0]

FUSED: dict[str, tuple[Any, tuple[Any, ...]]] = {
    "outer": (
        lambda v, x: (np.outer(v, x), np.outer(x, 2)),
        (V, X),
    ),
    "ufunc.outer": (
        lambda v, x: (np.add.outer(v, v), np.multiply.outer(x, v), np.subtract.outer(v, 2)),
        (V, X),
    ),
    "einsum": (
        lambda x, y, v: (
            np.einsum("ij,ij->i", x, y), np.einsum("ij,ij->", x, x), np.einsum("ij,j->i", x, v[:4]),
            np.einsum("ij, ji -> j", x, y.T), np.einsum("ij,i,j->j", x, v[:6], v[:4]),
        ),
        (X, Y, V),
    ),
    "einsum in several axes": (
        lambda x, y, v: (
            np.einsum("bij,bj->bi", x.reshape(3, 2, 4), y[:3]), np.einsum("ij,i->ij", x, v[:6]),
            np.einsum("i,j->ji", v, x[0]), np.einsum("ij,ij", x, y), np.einsum("ij,ji->ij", x, y.T),
            np.einsum("...i,...i->...", x.reshape(2, 3, 4), y[3:]),
            np.einsum("i...,i->...", y, v[:6]),
        ),
        (X, Y, V),
    ),
    "einsum of zeros": (
        lambda x, y: (np.einsum("ij,ij->i", x * 0, y), np.einsum("ij,j->ij", -x * 0, y[0])),
        (X, Y),
    ),
    "einsum of halves": (
        lambda h: (np.einsum("i,i->", h, h), np.einsum("i,j->ij", h, h)),
        (np.full(8, 181, np.float16),),
    ),
    "einsum integers": (lambda n: np.einsum("i,i->", n, n), (NUMBERS,)),
    "cross": (
        lambda x, y: (
            np.cross(x[:, :3], y[:, 1:]), np.cross(x[:3], y[3:], axis=0),
            np.cross(x[0, 1:], [1, 2, 3]), np.cross(x[:3], y[:, :3][0], axisa=0, axisc=0),
            np.cross(x.T[1:].T, y.T[1:].T) * 2, np.cross(x[:0, :3], y[:1, 1:]),
        ),
        (X, Y),
    ),
    "cross of integers": (lambda n: np.cross(n.reshape(4, 3), n[3:6]), (NUMBERS,)),
    "inner": (lambda v: np.inner(v, v) + 1, (V,)),
    "vdot": (lambda x, v: (np.vdot(x, x), np.vdot(v, v) + 1, np.vdot(x.T, x)), (X, V)),
    "polyval": (lambda x: (np.polyval([1.0, -2, 3], x), np.polyval((2, 3), x)), (X.T,)),
    "polyval integers": (lambda n: np.polyval([1, 2], n), (NUMBERS,)),
    "isclose": (
        lambda x, y: (np.isclose(x, y), np.isclose(x, x + 1e-6, atol=1e-5), np.isclose(x, 0)),
        (HOLES, Y),
    ),
    "isclose NaN": (lambda x: (np.isclose(x, x, equal_nan=True), np.isclose(x, x)), (HOLES,)),
    "isclose integers": (lambda n: (np.isclose(n, n), np.isclose(n, 3), np.isclose(3, n)), (V,)),
    "piecewise": (
        lambda x: (
            np.piecewise(x, [x < 0, x >= 2], [-1, 1]),
            np.piecewise(x, [x < 0, x >= 2], [-1, 1, 7]),
        ),
        (X,),
    ),
    "piecewise functions": (
        lambda x, y: (
            np.piecewise(x, [x < 0], [lambda s: s * 2 + 1]),
            np.piecewise(y, [x < 0, x > 2], [lambda s, by: by - s, lambda s, by: s / by, 5], 3.0),
            np.piecewise(x[0], [y[0] < 0], [np.square, np.negative]),
        ),
        (X, Y),
    ),
    "piecewise integers": (lambda n: np.piecewise(n, [n < 2], [lambda s: s * 0.7, 1]), (NUMBERS,)),
    "tile": (
        lambda x, v: (
            np.tile(x, 2), np.tile(x, (2, 1)), np.tile(x, (2, 1, 3)), np.tile(v, (3, 2)),
            np.tile(x, 1),
        ),
        (X, V),
    ),
    "repeat": (
        lambda x, v: (np.repeat(x, 2), np.repeat(x, 3, 0), np.repeat(x, 2, -1), np.repeat(v, 1)),
        (X, V),
    ),
    "pad": (
        lambda x, v: (
            np.pad(x, 1), np.pad(x, ((0, 2), (1, 0)), constant_values=3), np.pad(v, (2, 0)),
            np.pad(x, 0),
        ),
        (X, V),
    ),
    "pad edge": (
        lambda x, v: (np.pad(x, 2, mode="edge"), np.pad(v, (0, 3), "edge")),
        (X, V),
    ),
    "pad reflect": (
        lambda x, v: (
            np.pad(x, 2, mode="reflect"), np.pad(v, (0, 3), "symmetric"), np.pad(x, 4, "wrap"),
            np.pad(x, ((3, 0), (0, 1)), "symmetric"),
        ),
        (X[:, [0, 1, 2, 3, 0]], V),
    ),
    "pad then stencil": (
        lambda x: (lambda p: p[2:, 1:-1] + p[:-2, 1:-1] + p[1:-1, 2:] - 3 * x)(np.pad(x, 1)),
        (X,),
    ),
    "gradient": (
        lambda x, v: (np.gradient(v), np.gradient(x), np.gradient(x, 2.0), np.gradient(x, 0.5, 3)),
        (X, V),
    ),
    "gradient axis": (
        lambda x, n: (np.gradient(x, axis=1), np.gradient(x, 0.1, axis=(0, 1)), np.gradient(n)),
        (Y, NUMBERS.astype(np.int32)),
    ),
    "append": (lambda x, v: (np.append(x, v), np.append(x, x, axis=0), np.append(v, 3)), (X, V)),
    "rot90": (
        lambda x: [np.rot90(x, k) + 1 for k in range(5)] + [np.rot90(x, axes=(1, 0)) * 2],
        (X,),
    ),
    "trapezoid": (
        lambda x, v: (
            np.trapezoid(x), np.trapezoid(x, dx=0.5, axis=0), np.trapezoid(v, np.sort(V) * 1.0),
            np.trapezoid(x, v[:6], axis=0),
        ),
        (Y, V),
    ),
    "nansum": (
        lambda x: (np.nansum(x), np.nansum(x, 0), np.nansum(x, 1, keepdims=True)),
        (HOLES,),
    ),
    "nansum dtype": (lambda x: np.nansum(x, axis=-1, dtype=np.float64), (HOLES,)),
    "nanprod": (lambda x: (np.nanprod(x[:2], 1), np.nanprod(x[2], 0)), (HOLES,)),
    "nanmax": (
        lambda x: (np.nanmax(x), np.nanmax(x, 1), np.nanmin(x, 0), np.nanmin(x, 1, keepdims=True)),
        (HOLES,),
    ),
    "nanmean": (
        lambda x: (np.nanmean(x), np.nanmean(x, 0), np.nanmean(x, 1, keepdims=True)),
        (HOLES[[0, 1, 2, 4]],),
    ),
    "nanmean where": (lambda x: np.nanmean(x, axis=1, where=x != 2), (HOLES[[0, 1, 2, 4]],)),
    "nanvar": (
        lambda x: (np.nanvar(x, 1), np.nanvar(x, 0, ddof=1), np.nanstd(x, 1, keepdims=True)),
        (HOLES[[0, 1, 2, 4]].astype(np.float64),),
    ),
    "nanvar whole": (lambda x: (np.nanvar(x), np.nanstd(x)), (HOLES[[0, 1, 2, 4]].astype("f8"),)),
    "nan of integers": (
        lambda n: (np.nansum(n), np.nanmax(n), np.nanmean(n), np.nanstd(n), np.nanprod(n % 3)),
        (NUMBERS,),
    ),
    "average": (lambda x: (np.average(x), np.average(x, 0), np.average(x, 1, keepdims=True)), (Y,)),
}  # fmt: skip


@pytest.mark.filterwarnings("ignore::RuntimeWarning")  # NumPy warns of slices without numbers
@pytest.mark.parametrize("mode", ["fused", "fallback"])
@pytest.mark.parametrize("name", FUSED)
def test_formulas_are_fused_and_right(name: str, mode: str) -> None:
    """No fallback, in any mode."""
    function, args = FUSED[name]
    assert_same(function, *args, mode=mode)


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("name", [
    "tile", "isclose", "gradient", "cross", "einsum in several axes", "nansum", "nanmean",
])  # fmt: skip
def test_formulas_take_arrays_of_every_order(name: str) -> None:
    """Fortran order, strides and negative strides: the same values and the same memory order."""
    function, args = FUSED[name]
    for turn in (np.asfortranarray, lambda a: a[::-1], lambda a: np.repeat(a, 2, 0)[::2]):
        assert_same(function, *[turn(a) for a in args])


REFUSED: dict[str, tuple[Any, tuple[Any, ...]]] = {
    "inner of matrices": (lambda x: np.inner(x, x), (X,)),
    "einsum of unlike lengths": (lambda x: np.einsum("ij,ij->ij", x, x[:1]), (X,)),
    "einsum in another order": (lambda x, v: np.einsum("ijk,k->ji", x[:, :, None], v[:1]), (X, V)),
    "cross of pairs": (lambda x: np.cross(x[:, :2], x[:, 2:]), (X,)),
    "einsum of matrices": (lambda x: np.einsum("ij,kj->ik", x, x), (X,)),
    "piecewise median": (lambda x: np.piecewise(x, [x < 0], [lambda s: s - np.median(s)]), (X,)),
    "pad reflect twice": (lambda x: np.pad(x, 5, mode="reflect"), (X,)),
    "pad mean": (lambda x: np.pad(x, 1, mode="mean"), (X,)),
    "repeat each": (lambda v: np.repeat(v, [1, 2] * 6), (V,)),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_has_no_formula_runs_in_numpy(name: str) -> None:
    """The right answer, with a reason."""
    function, args = REFUSED[name]
    fused = fuser.fuse(function, fallback="allow")
    assert compare(fused, *args, fallback="allow") == ""
    assert fused.fallbacks


WRONG: dict[str, Any] = {
    "gradient of one": lambda x: np.gradient(x[:1], axis=0),
    "gradient steps": lambda x: np.gradient(x, 1.0, 2.0, 3.0),
    "rot90": lambda x: np.rot90(x, axes=(0, 0)),
    "piecewise": lambda x: np.piecewise(x, [x > 0], [1, 2, 3]),
    "pad empty edge": lambda x: np.pad(x[:0], 1, mode="edge"),
}


@pytest.mark.parametrize("name", WRONG)
def test_what_numpy_refuses_is_refused(name: str) -> None:
    """The same kind of exception."""
    assert_same(WRONG[name], X, fallback="allow")
    with pytest.raises((ValueError, TypeError)):
        fuser.fuse(WRONG[name], fallback="allow")(X)


def test_formulas_are_size_free() -> None:
    """Other lengths compile nothing."""

    @fuser.fuse(fallback="error")
    def work(x: Any) -> Any:
        """Several formulas at once."""
        return np.pad(x, 1).sum(), np.tile(x, (2, 1)) + 1, np.gradient(x)[0] * 2

    work(X)
    before = fuser.n_compiled_kernels()
    for size in (3, 9, 40):
        work(np.ones((size, size + 1), np.float32))
    assert fuser.n_compiled_kernels() == before


def test_averages_of_no_columns_divide_by_zero() -> None:
    """In NumPy, and here at the first call and at later ones."""
    fused = fuser.fuse(lambda x: np.average(x, axis=0))
    for columns in (0, 3, 0, 1):
        assert_same(fused, np.ones((4, columns)))
