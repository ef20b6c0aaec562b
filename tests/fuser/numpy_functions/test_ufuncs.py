"""Ufuncs while tracing."""

from typing import Any

import numpy as np
import pytest

import fuser
from fuser.numpy_functions import reductions
from tests.fuser.comparing import assert_same, compare

SIGNED = np.array([-1, 2, 3])
UNSIGNED = np.array([2**63, 2, 1], np.uint64)


@pytest.mark.parametrize("name", ["equal", "not_equal", "less", "less_equal", "greater",
                                  "greater_equal"])  # fmt: skip
def test_signed_beside_unsigned(name: str) -> None:
    """64-bit integers of both kinds are compared exactly."""
    function = getattr(np, name)
    assert_same(lambda x, y: (function(x, y), function(y, x)), SIGNED, UNSIGNED)


def test_options_of_ufuncs() -> None:
    """out=, where=, dtype=; a where= without out= is refused."""
    def function(x: Any) -> Any:
        room = np.zeros_like(x)
        np.multiply(x, 2, out=room, where=x > 0)
        return room, np.add(x, 1, dtype=np.float32, casting="same_kind"), np.divmod(x, 2)

    assert_same(function, SIGNED * 0.5)
    with pytest.raises(fuser.FusionError, match="where-without-out"):
        fuser.fuse(lambda x: np.add(x, 1, where=x > 0), fallback="error")(SIGNED)


VECTORS = np.random.default_rng(4).standard_normal((2, 3, 50))


@pytest.mark.parametrize("dtype", ["float32", "float64", "int16", "uint8", "float16"])
def test_products_of_vectors_are_sums(dtype: str) -> None:
    """`x @ y` and `np.vecdot` of real vectors are reductions, joined with what is around them."""
    x, y = (VECTORS * 4).astype(dtype)
    if hasattr(np, "vecdot"):
        fused = fuser.fuse(lambda a, b: np.vecdot(a, b) * 2, fallback="error")
        tolerance = {"float16": 2e-2, "float32": 1e-5}.get(dtype, 1e-12)
        np.testing.assert_allclose(
            fused(x, y), np.vecdot(x, y) * 2, rtol=tolerance, atol=tolerance * 50
        )
    fused = fuser.fuse(lambda a, b: (a * 2) @ b, fallback="error")
    wanted = (x[0] * 2) @ y[0]
    found = fused(x[0], y[0])
    assert type(found) is type(wanted)
    np.testing.assert_allclose(float(found), float(wanted), rtol=2e-2, atol=1e-2 * 50)
    with pytest.raises(ValueError, match="matmul"):
        fuser.fuse(lambda a, b: a @ b, fallback="allow")(x[0], y[0][1:])


#: Before NumPy 2.4 a quarter of its exponentials of halves were off by their last bit.
_HALVES_ARE_OFF = np.lib.NumpyVersion(np.__version__) < "2.4.0"


@pytest.mark.parametrize("dtypes", [("float32", "float32"), ("float64", "float32"),
                                    ("int8", "uint16"), ("int64", "int64"), ("float16", "float16")])
@pytest.mark.parametrize("shape", [(5, 7), (1, 7), (7, 1), (0, 4), (4, 0), (70, 90)])
def test_matrices_times_vectors_are_sums(
    shape: tuple[int, int], dtypes: tuple[str, str]
) -> None:
    """Whether the vector stands left or right, or is a column, and however the matrix lies."""
    random = np.random.default_rng(5)
    scale = 3 if "int" in dtypes[0] else 1
    drawn = [scale * random.standard_normal(each) for each in (shape, shape[1], shape[0])]
    a, x, y = (array.astype(t) for array, t in zip(drawn, (dtypes[0], *dtypes[::-1]), strict=True))

    def products(a: Any, x: Any, y: Any) -> Any:
        column = np.exp(a.T - 1) @ y[:, None]
        computed = (a * 2) @ x, y @ np.abs(a), column, np.matmul(a + 1, x)
        return *computed, a @ x, y @ a, a @ x[:, None], np.dot(x, a.T), a.dot(x), a.T.dot(y)

    fused = fuser.fuse(products, fallback="error")
    tolerance = 2e-2 if "float16" in dtypes else 1e-4
    for matrix in (a, np.asfortranarray(a), np.repeat(a, 2, axis=1)[::-1, ::2]):
        for _ in range(2):
            results = zip(fused(matrix, x, y), products(matrix, x, y), strict=True)
            for found, wanted in results:
                assert (found.shape, found.dtype) == (wanted.shape, wanted.dtype)
                assert (found.strides, found.base) == (wanted.strides, wanted.base)
                off = tolerance + tolerance * np.abs(wanted)
                if _HALVES_ARE_OFF and "int8" in dtypes and wanted.dtype == np.float16:
                    # each exponential by its last bit, which terms of both signs make larger
                    last = np.spacing(np.exp(matrix.T - 1)).astype(float)
                    off = last @ np.abs(y.astype(float))[:, None] + np.spacing(np.abs(wanted))
                assert (np.abs(found.astype(float) - wanted) <= off).all()
                assert found.dtype.kind == "f" or (found == wanted).all()
    assert "matmul" not in str(fused.explain(a, x, y).fallbacks)


def test_products_with_vectors_in_loops_are_kernels() -> None:
    """A loop around products calls nothing of NumPy's; its results are as near as sums are."""
    def richardson(a: Any, b: Any, steps: int) -> Any:
        x = np.zeros_like(b)
        for _ in range(steps):
            off = b - a @ x - x @ a
            if np.max(np.abs(off)) < 1e-9:
                break
            x = x + 0.3 * off
        return x

    a = np.random.default_rng(2).uniform(0, 1, (40, 40)) / 40 + np.eye(40)
    fused = fuser.fuse(richardson, fallback="error")
    for count in (3, 200):
        wanted = richardson(a, a[0], count)
        np.testing.assert_allclose(fused(a, a[0], count), wanted, rtol=1e-12, atol=1e-12)
    assert "matmul" not in str(fused.explain(a, a[0], 200))


def test_products_with_vectors_have_numpys_zeros_and_errors() -> None:
    """NaN, infinities, no zero with a sign; lengths have to be the same, also where one is 1."""
    fused = fuser.fuse(lambda a, x: a @ x, fallback="allow")
    a = np.array([[-0.0, -0.0], [np.inf, 1.0], [np.nan, 2.0], [np.inf, -np.inf]])
    for x in (np.array([1.0, 1.0]), np.array([0.0, 1.0])):
        with np.errstate(invalid="ignore"):
            found, wanted = fused(a, x), a @ x
        np.testing.assert_array_equal(found, wanted)
        np.testing.assert_array_equal(np.signbit(found[:1]), np.signbit(wanted[:1]))
    for shapes in (((3, 4), 3), ((3, 4), 1), ((3, 1), 4), ((3, 4), (3, 1))):
        with pytest.raises(ValueError, match="matmul"):
            fused(np.ones(shapes[0]), np.ones(shapes[1]))
    assert fused(np.ones((3, 4)), np.ones((4, 1))).shape == (3, 1)
    assert fused(np.ones((3, 4)), np.ones((4, 2))).shape == (3, 2)


def test_a_numpy_scalar_is_no_place_for_results() -> None:
    """`out=` of a NumPy scalar, which is no array: NumPy's own error."""
    fused = fuser.fuse(lambda x, y: np.multiply(x, y, out=y), fallback="allow")
    with pytest.raises(TypeError, match="must be of ArrayType"):
        fused(np.float64(3), np.float64(4))
    assert fused(np.float64(3), np.full((), 4.0)) == 12.0


#: Calls that NumPy serves in its own way: operands, arrays for results, and what is asked for.
ODD = {
    "a dtype of float_power": lambda x, y, o: np.float_power(x, y, dtype=np.uint16),
    "a result beside a larger one": lambda x, y, o: np.modf(x[0], out=(o, None)),
    "a result beside one": lambda x, y, o: np.modf(x, out=(o, None)),
    "casting before shapes": lambda x, y, o: np.add(x, y[:-1] * 0.5, out=y.astype(int)),
    "shapes": lambda x, y, o: np.add(x, y[:-1], out=o),
}


@pytest.mark.parametrize("name", ODD)
def test_odd_forms_of_ufuncs(name: str) -> None:
    """Results, shapes and exceptions are NumPy's."""
    x = np.array([0.5, 2.25, 3.0])
    text = compare(ODD[name], x, x + 1, np.zeros(3), fallback="allow")
    assert not text, text


@pytest.mark.parametrize("number", [3, 2**63 - 1, 2**63, -(2**63) - 1, 2**70])
@pytest.mark.parametrize("name", ["conjugate", "invert", "modf", "isfinite", "bitwise_count"])
def test_python_integers_of_any_size(name: str, number: int) -> None:
    """Alone they are int64, uint64 or objects in NumPy."""
    function = getattr(np, name)
    assert not (text := compare(lambda a: function(a), number, fallback="allow")), text
    both = compare(lambda x, a: np.logical_and(x, a), SIGNED, number, fallback="allow")
    assert not both, both


def test_an_integer_that_no_float_holds() -> None:
    """It is NumPy's error, in the first call and after others."""
    fused = fuser.fuse(lambda x, a: x + a)
    assert fused(SIGNED * 0.5, 3)[1] == 4.0
    for _ in range(2):
        with pytest.raises(OverflowError, match="int too large to convert to float"):
            fused(SIGNED * 0.5, 10**400)
    assert fused(SIGNED * 0.5, 2**70)[0] == 2.0**70


def test_products_with_large_matrices_are_the_librarys(monkeypatch: pytest.MonkeyPatch) -> None:
    """Which are large is asked at each call; a matrix that is computed need not be stored."""
    monkeypatch.setattr(reductions, "_LARGE_BYTES", 8 << 10)
    fused = fuser.fuse(lambda a, x: a @ x + 1, fallback="allow")
    computed = fuser.fuse(lambda a, x: (a * 2) @ x, fallback="error")
    for rows in (20, 40, 20, 60):
        a, x = np.ones((rows, 30)), np.full(30, 0.5)
        np.testing.assert_array_equal(fused(a, x), a @ x + 1)
        np.testing.assert_array_equal(computed(a, x), (a * 2) @ x)
        assert bool(fused.explain(a, x).fallbacks) == (rows > 34)


@pytest.mark.filterwarnings("ignore::fuser.FallbackWarning")
@pytest.mark.parametrize("dtype", ["float64", "float32", "float16", "int32", "complex64", "bool"])
def test_a_stack_of_single_rows_times_a_matrix(dtype: str) -> None:
    """BLAS is called once: alone, between kernels, written into an argument; whatever the layout.

    Where there is more than one row, or no common length, NumPy goes about it, and raises.
    """
    x = np.arange(-30, 30).reshape(5, 2, 6).astype(dtype)
    w = (np.arange(42).reshape(6, 7) % 5 - 2).astype(dtype)

    def alone(x: Any, w: Any) -> Any:
        return x[:, :, None] @ w

    def between(x: Any, w: Any) -> Any:
        return (x * 2)[:, :, None] @ w[:, ::-1] + 1

    def written(x: Any, w: Any) -> Any:
        x[...] = np.reshape(x[:, :, None] @ w[:, :6], x.shape)

    def given(x: Any, w: Any) -> Any:
        return x @ w

    for function in (alone, between, written):
        fused = fuser.fuse(function, fallback="allow")
        for one in (x, x.transpose(1, 0, 2).copy().transpose(1, 0, 2), x[::-1, :1], x[:0], x * 0):
            assert_same(fused, one, w, close=1e-3)
        assert_same(fused, np.concatenate([x] * 300), w, close=1e-3)
    fused = fuser.fuse(given, fallback="allow")
    for one in (x[:, :1], x, x[:, :1], x[:, :1, :4], x[:, 0]):
        assert_same(fused, one, w, close=1e-3)
    if dtype == "float64":
        assert fuser.fuse(alone, fallback="allow").explain(x, w).graph_breaks


def test_one_call_for_a_stack_is_worth_leaving_numpys() -> None:
    """The function has nothing else that is fused; of few small rows NumPy's calls take less."""
    fused = fuser.fuse(lambda x, w: x[:, None] @ w, fallback="allow")
    x, w = np.ones((4000, 8)), np.ones((8, 8))
    for _ in range(3):
        assert_same(fused, x, w)
    assert "no-gain" not in {reason.code for reason in fused.fallback_counts}
