"""Reductions give what NumPy gives, alone and among pointwise work, in one kernel if they can."""

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import fuser
from tests.fuser.comparing import assert_same
from tests.settings import settings

GENERATOR = np.random.default_rng(11)
NAMES = ("sum", "prod", "max", "min", "mean", "var", "std", "any", "all", "argmax", "argmin")
DTYPES = ("?", "i1", "u2", "i4", "u8", "f2", "f4", "f8")
SHAPES: dict[tuple[int, ...], tuple[Any, ...]] = {
    (37,): (None, 0),
    (4, 9): (None, 0, -1, (0, 1)),
    (3, 40, 5): (None, 0, 1, 2, (1, 2), (0, 1)),
}


def _values(name: str, dtype: str, shape: tuple[int, ...]) -> np.ndarray:
    """Random values that no reduction overflows for."""
    if dtype == "?":
        return GENERATOR.random(shape) > 0.5
    if name == "prod":
        return GENERATOR.integers(1, 3, size=shape).astype(dtype)
    values = GENERATOR.normal(size=shape) * 3
    return (abs(values) if dtype[0] == "u" else values).astype(dtype)


def _check(function: Callable[..., Any], *args: Any, tolerance: float = 1e-5) -> Any:
    """Fused, without any fallback, as plain NumPy; returns the fused function."""
    fused = fuser.fuse(function, fallback="error")
    assert_same(fused, *args, close=tolerance)
    return fused


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", NAMES)
def test_every_reduction_means_what_numpy_means(name: str, dtype: str) -> None:
    """Dtypes, axes, C and F order; float16 within the rounding of its own steps."""
    if name == "prod" and dtype == "f2":
        pytest.skip("products of float16 overflow in NumPy and here at different places")
    tolerance = 3e-2 if dtype == "f2" else 1e-5
    cells = [(shape, axis, order) for shape in SHAPES for axis in SHAPES[shape] for order in "CF"]
    turn = NAMES.index(name) + DTYPES.index(dtype)
    for shape, axis, order in cells[turn % 4 :: 4]:  # each with every name, and with every dtype
        if name.startswith("arg") and isinstance(axis, tuple):
            continue
        array = np.asarray(_values(name, dtype, shape), order=order)
        _check(lambda x, axis=axis: getattr(np, name)(x, axis=axis), array, tolerance=tolerance)


def _softmax(x: Any, axis: int = -1) -> Any:
    e = np.exp(x - x.max(axis, keepdims=True))
    return e / e.sum(axis, keepdims=True)


def _layer_norm(x: Any, weight: Any, bias: Any) -> Any:
    centred = x - x.mean(-1, keepdims=True)
    return centred / np.sqrt(x.var(-1, keepdims=True) + 1e-5) * weight + bias


def _rms_norm(x: Any, weight: Any) -> Any:
    return x / np.sqrt((x * x).mean(-1, keepdims=True) + 1e-5) * weight


def _logsumexp(x: Any) -> Any:
    top = x.max(1, keepdims=True)
    return np.log(np.exp(x - top).sum(1)) + top[:, 0]


@pytest.mark.parametrize("shape", [(1, 1), (3, 5), (7, 64), (4, 1000), (129, 33), (2, 32)])
def test_normalisations_are_one_kernel(shape: tuple[int, ...]) -> None:
    """Softmax along both axes, layer norm, rms norm, logsumexp: lengths with any remainder."""
    x = GENERATOR.normal(size=shape).astype(np.float32)
    row = GENERATOR.normal(size=shape[-1]).astype(np.float32)
    cases: list[tuple[Callable[..., Any], tuple[Any, ...]]] = [
        (_softmax, (x,)),
        (lambda x: _softmax(x, 0), (x,)),
        (_layer_norm, (x, row, row)),
        (_rms_norm, (x, row)),
        (_logsumexp, (x,)),
    ]
    for function, args in cases:
        fused = _check(function, *args, tolerance=1e-4)
        found = fused.explain(*args)
        assert len(found.groups) == 1
        assert found.ledger.planned_bytes == found.ledger.least_bytes


def test_several_reductions_over_the_same_data_are_one_pass() -> None:
    """Two results of one kernel, and pointwise work of the same shape beside them."""
    x = GENERATOR.normal(size=(6, 8))
    fused = _check(lambda x: (x.sum(0), x.max(0), x * 2), x)
    assert len(fused.explain(x).groups) == 1


def test_reductions_over_other_axes_are_kernels_of_their_own() -> None:
    """What is used over other axes is stored first, and explain says so."""
    x = GENERATOR.normal(size=(6, 6))
    fused = _check(lambda x: x.sum(0) + x.sum(1), x)
    found = fused.explain(x)
    assert len(found.groups) > 1
    assert any("other axes" in reason for reason in found.realised.values())


def test_broadcast_then_reduce_never_makes_the_product() -> None:
    """Pairwise distances read their points and write the distances."""
    x, y = GENERATOR.normal(size=(7, 3)), GENERATOR.normal(size=(9, 3))
    fused = _check(lambda x, y: np.sqrt(((x[:, None, :] - y[None, :, :]) ** 2).sum(-1)), x, y)
    book = fused.explain(x, y).ledger
    assert book.planned_bytes == book.least_bytes == 8 * (7 * 3 + 9 * 3 + 7 * 9)


@pytest.mark.parametrize(
    "options",
    [
        {"keepdims": True},
        {"axis": (0, 1), "keepdims": True},
        {"initial": 5.0},
        {"axis": 1, "where": np.arange(20).reshape(4, 5) % 3 > 0},
        {"dtype": np.float64},
    ],
)
def test_options_of_sum(options: dict[str, Any]) -> None:
    """keepdims, initial, where and dtype."""
    x = GENERATOR.normal(size=(4, 5)).astype(np.float32)
    _check(lambda x: np.sum(x, **options), x)


def test_means_and_variances_of_chosen_elements() -> None:
    """where= of mean, var and std, with masks that broadcast, choose nothing, and ddof."""
    x = GENERATOR.normal(size=(5, 7)).astype(np.float32)
    none_in_a_row = np.arange(5)[:, None] > 0
    _check(lambda x: x.mean(1, where=x > -9), x)
    _check(lambda x: np.mean(x, axis=1, where=none_in_a_row), x)
    _check(lambda x: np.var(x, axis=0, where=none_in_a_row, ddof=1, keepdims=True), x)
    _check(lambda x: np.std(x, where=x > 0), x)


def test_extremes_with_initial_and_where() -> None:
    """np.max needs an initial value beside a mask, as in NumPy."""
    x = GENERATOR.normal(size=(4, 5))
    _check(lambda x: np.max(x, axis=0, initial=0.5), x)
    _check(lambda x: np.min(x, axis=0, initial=9.0, where=x > 0), x)
    with pytest.raises(ValueError, match="identity"):
        fuser.fuse(lambda x: np.max(x, axis=0, where=x > 0))(x)


def test_special_values() -> None:
    """NaN wins extremes and is the first place; -0.0 and empty sums are 0.0; infinities stay."""
    table = np.array([[1.0, np.nan, -np.inf], [np.nan, 2.0, 3.0]])
    for name in ("max", "min", "argmax", "argmin", "sum"):
        _check(lambda x, name=name: getattr(np, name)(x, axis=0), table)
        _check(lambda x, name=name: getattr(np, name)(x), table)
    zero = fuser.fuse(lambda x: x.sum())(np.array([-0.0, -0.0]))
    assert not np.signbit(zero)
    _check(lambda x: x.sum(0), np.zeros((0, 4)))
    _check(lambda x: x.sum(1), np.zeros((3, 0)))
    _check(lambda x: x.sum(), np.array([np.inf, 1.0]))
    _check(lambda x: x.sum(1), np.full((2, 700), np.inf))
    with pytest.raises(ValueError, match="zero-size"):
        fuser.fuse(lambda x: x.max())(np.zeros(0))


def test_extremes_of_nothing_are_noticed_in_later_calls() -> None:
    """A length of 0 is not served by what was compiled for others."""
    fused = fuser.fuse(lambda x: x.max())
    assert fused(np.arange(5.0)) == 4
    with pytest.raises(ValueError, match="zero-size"):
        fused(np.zeros(0))


def test_strided_memory_is_reduced_in_place() -> None:
    """Axes that do not run on in memory are loops of their own: no copy, no kernel before."""
    x = GENERATOR.normal(size=(12, 10))
    _check(lambda x: x.sum(), x[::2, ::-1])
    _check(lambda x: x.sum(1), x[:, ::3])
    fused = _check(lambda x: (x * x).sum((0, 2)), GENERATOR.normal(size=(3, 4, 5)))
    assert len(fused.explain(GENERATOR.normal(size=(3, 4, 5))).groups) == 1


def test_batch_norm_is_one_kernel() -> None:
    """Over axes (0, 2, 3) of NCHW and over what they are in NHWC; the least traffic."""

    def batch_norm(x: Any, weight: Any, axes: Any) -> Any:
        mean, variance = x.mean(axes, keepdims=True), x.var(axes, keepdims=True)
        return (x - mean) / np.sqrt(variance + 1e-5) * weight

    x, weight = GENERATOR.normal(size=(8, 6, 5, 7)), GENERATOR.normal(size=6)
    for array, axes, scale in (
        (x, (0, 2, 3), weight[:, None, None]),
        (np.ascontiguousarray(x.transpose(0, 2, 3, 1)), (0, 1, 2), weight),
    ):
        fused = _check(lambda a, w, axes=axes: batch_norm(a, w, axes), array, scale)
        found = fused.explain(array, scale)
        assert len(found.groups) == 1
        assert found.ledger.planned_bytes == found.ledger.least_bytes


def test_places_lie_in_c_order() -> None:
    """argmax gives a C-ordered array whatever the order of its operand, as NumPy's does."""
    x = np.asfortranarray(GENERATOR.normal(size=(3, 4, 5)))
    found = fuser.fuse(lambda x: x.argmax(0), fallback="error")(x)
    assert found.strides == x.argmax(0).strides


def test_the_same_bits_whatever_the_number_of_threads() -> None:
    """Rows and columns are shared out; each is computed by one thread."""
    x = GENERATOR.normal(size=(700, 901)).astype(np.float32)
    for function in (_softmax, lambda x: x.sum(0), lambda x: x.sum(1)):
        fused = fuser.fuse(function)
        results = []
        for threads in (1, 2, 3):
            with settings(num_threads=threads):
                results.append(fused(x).tobytes())
        assert len(set(results)) == 1


def test_a_mean_by_hand_is_the_same_kernel() -> None:
    """x.sum(-1) / x.shape[-1] and x.mean(-1); any length."""
    before = fuser.debug_num_cached_kernel_specs()
    kernels = fuser.n_compiled_kernels()
    by_hand = fuser.fuse(lambda x: x.sum(-1) / x.shape[-1])
    by_name = fuser.fuse(lambda x: x.mean(-1))
    for columns in (1, 2, 33, 1000):
        x = GENERATOR.normal(size=(3, columns)).astype(np.float16).astype(np.float64)
        assert np.array_equal(by_hand(x), by_name(x))
    assert fuser.debug_num_cached_kernel_specs() - before <= 1
    assert fuser.n_compiled_kernels() - kernels <= 1


def test_vectors() -> None:
    """dot, norms, count_nonzero, ptp, ufunc.reduce and methods."""
    x, y = GENERATOR.normal(size=(2, 1000))
    _check(lambda a, b: np.dot(a, b), x, y)
    _check(lambda a: np.linalg.norm(a), x)
    _check(lambda a: np.count_nonzero(a > 0), x)
    _check(lambda a: np.ptp(a), x)
    _check(lambda a: np.add.reduce(a), x)
    _check(lambda a: a.sum() + a.max(), x)
    _check(lambda a: a - a.mean(), x)


NORMS: list[dict[str, Any]] = [
    {}, {"axis": 0}, {"ord": 1, "axis": 1}, {"ord": np.inf, "axis": -1},
    {"ord": -np.inf, "axis": 0}, {"ord": 0, "axis": 1}, {"ord": 3, "axis": 0, "keepdims": True},
    {"ord": -1.5, "axis": 1}, {"ord": "fro"}, {"axis": (1, 0)},
    {"ord": "fro", "axis": (0, 1), "keepdims": True},
]  # fmt: skip


@pytest.mark.parametrize("dtype", ["i4", "f4", "f8"])
def test_norms_of_every_order(dtype: str) -> None:
    """Vectors along an axis, all elements, and Frobenius' norm: one kernel each."""
    x = (GENERATOR.normal(size=(5, 9)) * 4).astype(dtype)
    x[:, 3] = np.where(x[:, 3] == 0, 1, x[:, 3])
    for options in NORMS:
        if options.get("ord") == -1.5 and dtype == "i4":
            continue  # zeros: NumPy warns
        fused = fuser.fuse(lambda x, o=options: np.linalg.norm(x, **o), fallback="error")
        assert_same(fused, x, close=1e-5 if dtype == "f4" else 1e-12)
        assert len(fused.explain(x).groups) == 1


@pytest.mark.parametrize("ddof", [0, 1, 1.5, 3])
def test_no_degrees_of_freedom_are_left(ddof: float) -> None:
    """One kernel for any length: none left gives NaN or infinity, whatever came before."""
    fused = fuser.fuse(lambda x: (np.var(x, axis=0, ddof=ddof), x.std(ddof=ddof)), fallback="error")
    for rows in (5, 1, 0, 2):
        x = GENERATOR.normal(size=(rows, 4))
        with np.errstate(all="ignore"), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            expected = np.var(x, axis=0, ddof=ddof), x.std(ddof=ddof)
        for one, other in zip(fused(x), expected, strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-12)


def test_the_place_of_an_extreme_among_places() -> None:
    """Of what a nest reduces along its rows, in those very rows: nothing is loaded for it."""
    x = GENERATOR.normal(size=(3, 3)).astype("f4")

    def both(x: Any) -> Any:
        twice = np.append(x, x, axis=0)
        twice[::-1, -3:-1] = 1
        first = twice[2:, -3:-1].argmin(axis=1, keepdims=True)
        return np.minimum(first, first), first * first.argmin(axis=-1, keepdims=True)

    assert_same(both, x)


def test_counts_lie_in_memory_as_numpys() -> None:
    """The truths' memory order decides: of repeated operands too."""
    repeated = np.broadcast_to(np.ones((4, 1, 3)), (4, 5, 3))
    for x in (repeated, repeated.transpose(2, 0, 1), np.ones((4, 5, 3), order="F"), np.eye(3)):
        for axis in range(x.ndim):
            expected = np.count_nonzero(x, axis=axis)
            found = fuser.fuse(lambda x, a=axis: np.count_nonzero(x, axis=a), fallback="error")(x)
            assert found.strides == expected.strides
            assert np.array_equal(found, expected)


@pytest.mark.parametrize("dtype", ["?", "i4", "f8", "f2"])
def test_sums_of_truths_are_truths(dtype: str) -> None:
    """`dtype=bool`: a sum tells whether any is, a product whether all are."""
    for x in (np.eye(3, 4, dtype=dtype), np.zeros((0, 3), dtype), np.ones((2, 2), dtype)):
        _check(lambda a: a.sum(dtype=bool), x)
        _check(lambda a: np.prod(a, axis=0, dtype=np.bool_, keepdims=True), x)
        _check(lambda a: np.add.reduce(a, dtype="?", axis=-1), x)
        _check(lambda a: np.sum(a, dtype=bool, where=a > 0), x)


def test_products_of_float16_are_summed_in_float32() -> None:
    """Dot products whose parts are larger than the largest float16 have NumPy's results."""
    x = np.array([30000, 30000, -2, 7], np.float16)
    y = np.array([4, -4, 3, 0.1], np.float16)
    for function in (np.dot, np.vdot, np.inner, np.vecdot, np.matmul):
        found = fuser.fuse(lambda a, b, function=function: function(a, b))(x, y)
        assert found == function(x, y)
        assert found.dtype == np.float16


@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.float16])
@pytest.mark.parametrize("name", ["no axes", "mean of no axes", "stacked", "listed", "columns"])
def test_sums_begin_with_zero(name: str, dtype: Any) -> None:
    """So sums of -0.0 are 0.0, also where nothing is combined or arrays are added instead."""
    function = {
        "no axes": lambda x: np.sum(x, axis=()),
        "mean of no axes": lambda x: np.mean(x, axis=()),
        "stacked": lambda x: (np.stack([x, x * 1, x]).sum(0), np.stack([x, x]).mean(0)),
        "listed": lambda x: np.array([x[0], x[-1]]).sum(0),
        "columns": lambda x: np.column_stack([x, x]).sum(1),
    }[name]
    row = np.array([-0.0, 0.0, 1, -0.0], dtype)
    table = np.array([[-0.0, 0.0, -0.0], [-0.0, -0.0, 2]], dtype)
    for x in (row, table, table[:1], np.asfortranarray(table)):
        assert_same(function, x)


MASKS = [np.ones(4), np.ones(4, np.uint8), np.float64(1), np.arange(4) > 1]


@pytest.mark.parametrize("mask", MASKS)
def test_masks_are_truth_values(mask: Any) -> None:
    """An array of another dtype raises as in NumPy; numbers may be any."""
    x = np.array([1, 2, 4, 8.0])
    for function in (
        lambda x, w: np.sum(x, where=w),
        lambda x, w: x.mean(where=w),
        lambda x, w: np.max(x, where=w, initial=0),
        lambda x, w: np.add(x, 1, where=w, out=np.zeros_like(x)),
        lambda x, w: np.any(x > 2, where=w),
    ):
        assert_same(function, x, mask, fallback="allow")
        assert_same(lambda x, known=function: known(x, mask), x, fallback="allow")


LOG_SUMS: dict[str, Any] = {
    "rows": lambda x: np.logaddexp.reduce(x, axis=1),
    "columns": lambda x: np.logaddexp.reduce(x),
    "everything": lambda x: np.logaddexp.reduce(x, axis=None),
    "kept": lambda x: np.logaddexp.reduce(x, axis=-1, keepdims=True) * 2,
    "log softmax": lambda x: x - np.logaddexp.reduce(x, axis=1)[:, None],
}


@pytest.mark.parametrize("name", LOG_SUMS)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_logarithms_of_sums(name: str, dtype: str) -> None:
    """NumPy's results for infinities, NaN and nothing, in one kernel."""
    function = LOG_SUMS[name]
    fused = fuser.fuse(function, fallback="error")
    for shape in ((3, 4), (7, 1000), (1, 1), (4, 0), (0, 4)):
        x = (np.random.default_rng(0).normal(size=shape) * 30).astype(dtype)
        every = [x, np.full_like(x, -np.inf)]
        for value in (np.nan, np.inf, -np.inf):
            every.append(x.copy())
            every[-1][:1, -1:] = value
        every.append(every[1].copy())
        every[-1][:1, :1] = np.inf
        for given in every:
            with np.errstate(all="ignore"):
                expected = function(given)
            result = fused(given)
            assert type(result) is type(expected)
            assert result.dtype == expected.dtype
            tolerance = 1e-4 if dtype == "float32" else 1e-10
            np.testing.assert_allclose(result, expected, rtol=tolerance, atol=tolerance)
    assert len(fused.explain(np.ones((3, 4), dtype)).groups) == 1


def test_logarithms_of_sums_that_numpy_takes() -> None:
    """Of other dtypes, and with a starting value or some elements alone."""
    x = np.linspace(-3, 3, 12).reshape(3, 4)
    for function in (
        lambda x: np.logaddexp.reduce(x.astype(np.float16)) + 1,
        lambda x: np.logaddexp.reduce(x, initial=0.0) + 1,
        lambda x: np.logaddexp.reduce(x, where=x > 0) + 1,
    ):
        fused = fuser.fuse(function, fallback="allow")
        np.testing.assert_allclose(fused(x), function(x), rtol=1e-2)
        assert [reason.code for reason in fused.explain(x).fallbacks] == ["unsupported-function"]


ENLARGED: dict[str, Any] = {
    "sum": lambda x, o: np.sum(x, axis=0, keepdims=True, out=o),
    "min": lambda x, o: np.min(x, axis=0, keepdims=True, initial=2.0, out=o),
    "mean": lambda x, o: np.mean(x, axis=0, keepdims=True, out=o),
    "var": lambda x, o: np.var(x, axis=0, keepdims=True, out=o),
    "transposed": lambda x, o: np.sum(x, axis=1, keepdims=True, out=o.T),
    "round": lambda x, o: np.round(x[:1], 1, out=o),
    "multiply": lambda x, o: np.multiply(x[:1], 2, out=o),
}


@pytest.mark.parametrize("name", ENLARGED)
@pytest.mark.parametrize("first", [1, 2])
def test_an_out_that_is_longer_than_the_result(name: str, first: int) -> None:
    """Reductions refuse it, also after a call with one that fits; universal functions fill it."""
    fused = fuser.fuse(ENLARGED[name], fallback="allow")
    for rows in (first, 1, 2, 1, 3, 0):
        assert_same(fused, np.ones((8, 8)), np.full((rows, 8), 7.0))


def test_no_axes_of_repeated_values_are_in_an_operation_s_order() -> None:
    """A copy's memory order differs where values repeat along an axis."""
    functions = (np.min, np.max, np.prod, np.sum, np.any)
    for source in ((1, 4, 1), (3, 1, 4), (1, 1, 4)):
        for kind in ("i1", "f8", "?"):
            x = np.broadcast_to(np.ones(source, kind), (3, 4, 4))
            for function in functions:
                assert_same(lambda x, f=function: f(x, axis=()), x, fallback="allow")


def test_a_number_reduced_into_an_array_stays_a_number() -> None:
    """NumPy gives a scalar beside `out=`, and not the array."""
    place = np.zeros(())
    for number in (np.float64(2.5), np.float32(-1.0)):
        for reduced in (np.sum, np.max, np.mean, np.any):
            fused = fuser.fuse(lambda x, o, f=reduced: (f(x, out=o) is o, o + 0), fallback="allow")
            wanted = reduced(number, out=place) is place
            assert fused(number, place)[0] is wanted
