"""Columns whose parts are read once: results, errors, what is no number, and the form."""

from typing import Any

import numpy as np
import pytest

import fuser
from fuser.backends.cpu import costs
from fuser.backends.cpu.reducing import online_columns
from fuser.backends.cpu.schedule import DEFAULT
from fuser.codegen import Instruction, LoopNest
from fuser.ir.specs import CONTIGUOUS, INVARIANT, TensorDesc
from tests.backends.cpu.laid_out import lay_out
from tests.backends.cpu.schedules import ONLINE, ONLINE_AWAITED, ONLINE_JOINED
from tests.fuser.comparing import assert_alike
from tests.results import parts_of
from tests.settings import settings


def _moments(x: Any) -> Any:
    """Mean, variance, and what is computed from both."""
    return x.mean(0), x.var(0), x.std(0, ddof=1) * 2 + x.max(0)


def _normalised(x: Any) -> Any:
    """Elements from results."""
    return (x - x.mean(-2, keepdims=True)) / np.sqrt(x.var(-2, keepdims=True) + 1e-5)


def _covariance(x: Any) -> Any:
    """A product of two distances, and a value that only moves."""
    y = x * 0.5 + 1
    return np.mean((x - x.mean(0)) * (y - y.mean(0)), axis=0), np.sum(x - x.mean(0) * 2, axis=0)


FUSED = {each: fuser.fuse(each, fallback="error") for each in (_moments, _normalised, _covariance)}
SHAPES = [(4096, 64), (70, 2100), (2003, 257), (40_000, 5), (9001, 1030), (600, 4099), (2100, 70)]


def _agree(function: Any, x: Any, close: float) -> None:
    with np.errstate(all="ignore"):
        assert_alike(function(x), FUSED[function](x), close=close)


@pytest.mark.parametrize("function", FUSED, ids=lambda each: each.__name__.strip("_"))
@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_parts_give_numpys_results(function: Any, shape: tuple[int, int], dtype: str) -> None:
    """One part and many, tiles and what is left of them, far from zero too."""
    x = np.random.default_rng(shape[1]).normal(3.0, 2.0, size=shape).astype(dtype)
    _agree(function, x, 1e-3 if dtype == "float32" else 1e-11)


def test_layouts_and_dtypes_that_are_not_plain() -> None:
    """Fortran order, steps, negative ones, more axes, integers and booleans."""
    x = np.random.default_rng(1).normal(size=(2500, 130))
    for each in (np.asfortranarray(x), x[::-2, ::-1], x[::3, 1::2], np.tile(x, (3, 4))[:, ::4]):
        _agree(_moments, each, 1e-11)
        _agree(_normalised, each, 1e-11)
    _agree(_normalised, np.random.default_rng(2).normal(size=(3, 1100, 70)), 1e-11)
    for dtype in ("int32", "bool"):
        _agree(_normalised, (x * 2).astype(dtype), 1e-10)


@pytest.mark.parametrize("dtype", ["int8", "int64", "uint16", "bool", "float16", "float32"])
def test_one_stage_is_joined_by_who_is_last(dtype: str) -> None:
    """Extremes, truths, counts and exact sums of parts, and what elements become by them."""

    def results(x: Any) -> Any:
        most = np.maximum(x.max(0), x[0])
        return x.min(0), np.any(x > 1, axis=0), np.all(x == 1, axis=0), (x != 0).sum(0), x < most

    for shape in ((40_000, 64), (4100, 1025), (2, 3000, 70)):
        x = np.random.default_rng(4).integers(0, 3, size=shape).astype(dtype)
        x[..., 5] = 1
        found = fuser.fuse(results, fallback="error")(x)
        for ours, theirs in zip(found, results(x), strict=True):
            assert ours.dtype == theirs.dtype
            np.testing.assert_array_equal(ours, theirs)


@pytest.mark.parametrize("shape", [(3000, 64), (2100, 1030), (300, 2100)], ids=str)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_what_is_no_number_stays_in_its_column(shape: tuple[int, int], dtype: str) -> None:
    """NaN, infinities, sums and squares that overflow, wherever: as NumPy's, beside good ones."""
    largest = np.finfo(dtype).max
    x = np.random.default_rng(7).normal(size=shape).astype(dtype)
    x[shape[0] // 2, 3], x[0, 5], x[-1, 6] = np.nan, np.inf, -np.inf
    x[:, 8], x[1, 9], x[2, 10:12] = np.inf, largest, np.sqrt(largest) * 0.9
    x[:, 13], x[:, 14], x[::2, 15] = largest, np.finfo(dtype).tiny / 8, -0.0
    x[shape[0] // 3, 16], x[shape[0] // 4, 16] = np.inf, -np.inf
    x[:, -1], x[7, -1] = 0.0, np.nan
    with np.errstate(all="ignore"):
        expected = parts_of(_moments(x)) + parts_of(_normalised(x))
    found = parts_of(FUSED[_moments](x)) + parts_of(FUSED[_normalised](x))
    for ours, theirs in zip(found, expected, strict=True):
        np.testing.assert_array_equal(np.isnan(ours), np.isnan(theirs))
        np.testing.assert_array_equal(np.isinf(ours), np.isinf(theirs))
        np.testing.assert_allclose(ours, theirs, rtol=2e-4, atol=2e-4)


def test_sums_that_overflow_in_a_guess_are_computed_again() -> None:
    """Few large rows, which the references are made of, stand for many that cancel."""
    x = np.random.default_rng(3).normal(size=(4000, 64)).astype("float32")
    x[::2] = np.finfo("float32").max / 3000
    x[1::2] = -np.finfo("float32").max / 3000
    with np.errstate(all="ignore"):
        expected = _moments(x)
    for ours, theirs in zip(FUSED[_moments](x), expected, strict=True):
        np.testing.assert_array_equal(np.isfinite(ours), np.isfinite(theirs))


ENSEMBLE = {
    "normal": lambda g, shape: g.normal(size=shape),
    "far from zero": lambda g, shape: g.normal(1e3, 1.0, size=shape),
    "rising": lambda g, shape: g.normal(size=shape) + np.linspace(0, 50, shape[0])[:, None],
    "stepping": lambda g, shape: g.normal(size=shape) + (np.arange(shape[0]) % 7 < 3)[:, None] * 9,
    "heavy tails": lambda g, shape: g.standard_cauchy(size=shape),
    "first far off": lambda g, shape: np.insert(g.normal(size=shape), 0, 1e3, axis=0),
    "one far off": lambda g, shape: np.insert(g.normal(size=shape), shape[0] // 3, 1e3, axis=0),
    "uniform": lambda g, shape: g.random(size=shape),
}


@pytest.mark.parametrize("kind", ENSEMBLE)
@pytest.mark.parametrize("shape", [(4096, 64), (20_000, 64), (512, 2100)], ids=str)
def test_errors_are_no_larger_than_numpys(kind: str, shape: tuple[int, int]) -> None:
    """Of means and variances, over all columns, against sums of long doubles."""
    for dtype in ("float32", "float64"):
        x = ENSEMBLE[kind](np.random.default_rng(11), shape).astype(dtype)
        wide = x.astype(np.longdouble)
        for which, exact in ((0, wide.mean(0)), (1, wide.var(0))):
            scale = exact if which else np.abs(wide).mean(0)
            ours = np.square((FUSED[_moments](x)[which] - exact) / scale).sum()
            theirs = np.square((_moments(x)[which] - exact) / scale).sum()
            assert ours <= theirs, (dtype, which)


@pytest.mark.parametrize("shape", [(4100, 1025), (1025, 1023), (21_000, 257)], ids=str)
def test_bits_do_not_depend_on_threads(shape: tuple[int, int]) -> None:
    """Parts depend on lengths alone, and are joined in their order."""
    x = np.random.default_rng(0).normal(size=shape).astype("float32")
    many = [part for each in FUSED for part in parts_of(FUSED[each](x))]
    with settings(num_threads=1):
        one = [part for each in FUSED for part in parts_of(FUSED[each](x))]
    for ours, theirs in zip(many, one, strict=True):
        assert ours.tobytes() == theirs.tobytes()


def _variance(stores: bool = False) -> LoopNest:
    """Sums of squared distances; `stores`: the distances too."""
    load = TensorDesc("float32", CONTIGUOUS, False, CONTIGUOUS)
    store = TensorDesc("float32", INVARIANT, True, CONTIGUOUS)
    body = (
        Instruction("sum", (0,), "float32", "float32"),
        Instruction("subtract", (0, 1), "float32", "float32"),
        Instruction("square", (2,), "float32", "float32"),
        Instruction("sum", (3,), "float32", "float32"),
        Instruction("divide", (2, 4), "float32", "float32"),
    )
    kept = (5, load) if stores else (4, store)
    return LoopNest(2, (load,), (), (), body if stores else body[:-1], (kept,), False, "column", 1)


def test_schedules_follow_from_lengths() -> None:
    """Short columns and few elements have NumPy's order; nobody waits where nothing is stored."""
    for stores in (False, True):
        nest = _variance(stores)
        assert online_columns.find(nest) is not None
        for lengths, schedule in (
            ((64, 1000), DEFAULT), ((1 << 14, 60), DEFAULT), ((1 << 16, 256), ONLINE),
            ((257, 1 << 16), ONLINE_AWAITED if stores else ONLINE_JOINED),
        ):  # fmt: skip
            words, extent = lay_out(nest, lengths)
            assert extent.schedule == schedule, lengths
            assert bool(words) == bool(extent.room_bytes) == (schedule.split != "none")
            assert costs.in_order(extent) == (schedule == ONLINE_AWAITED)
    assert lay_out(_variance(), (257, 1 << 16), turns=9)[1].schedule == DEFAULT
    load, store = _variance().loads[0], _variance().stores[0][1]
    total = (Instruction("sum", (0,), "float32", "float32"),)
    once = LoopNest(2, (load,), (), (), total, ((1, store),), False, "column", 1)
    assert lay_out(once, (1 << 16, 256))[1].schedule == DEFAULT
    assert lay_out(once, (257, 1 << 16))[1].schedule == ONLINE_JOINED
    softmax = fuser.fuse(lambda x: np.exp(x - x.max(0)) / np.exp(x - x.max(0)).sum(0))
    x = np.random.default_rng(1).normal(size=(3000, 64))
    np.testing.assert_allclose(softmax(x).sum(0), 1.0, rtol=1e-12)
