"""Complex numbers on the CPU: parts of one buffer are read and written, all between is real."""

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import fuser
from fuser.tracing import complex_functions
from tests.backends.cpu.on_threads import same_parts
from tests.quick_code import quick_kernels

__all__ = ["quick_kernels"]

SPECIAL = (0.0, -0.0, 1.0, -2.5, np.inf, -np.inf, np.nan, 1e-40, 3.0)
LAYOUTS: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "C": lambda a: a,
    "F": np.asfortranarray,
    "gaps": lambda a: np.repeat(a, 2, -1)[..., ::2],
    "backwards": lambda a: a[::-1],
    "misaligned": lambda a: _misaligned(a),
    "repeated": lambda a: np.broadcast_to(a[:1], a.shape),
}


def _misaligned(array: np.ndarray) -> np.ndarray:
    """The same values, a byte beside where they belong."""
    memory = np.empty(array.nbytes + 1, np.uint8)[1:]
    moved = memory.view(array.dtype).reshape(array.shape)
    moved[...] = array
    return moved


def values(shape: tuple[int, ...], dtype: str, seed: int, special: bool = False) -> np.ndarray:
    """Random complex numbers, or ones with parts that are zeros, infinite or NaN."""
    generator = np.random.default_rng(seed)
    found = np.empty(shape, dtype)
    for part in (found.real, found.imag):
        part[...] = generator.choice(SPECIAL, shape) if special else generator.normal(size=shape)
    return found


def check(found: Any, expected: Any, *, exact: bool = False) -> None:
    """Equal types, dtypes and shapes; values within a few roundings of their size."""
    if isinstance(expected, (tuple, list)):
        assert type(found) is type(expected)
        for one, other in zip(found, expected, strict=True):
            check(one, other, exact=exact)
        return
    assert type(found) is type(expected)
    if not isinstance(expected, (np.ndarray, np.generic)):
        assert found == expected
        return
    assert found.dtype == expected.dtype
    assert found.shape == expected.shape
    if exact or found.dtype.kind not in "fc":
        np.testing.assert_array_equal(found, expected)
        return
    few = np.finfo(found.dtype).eps * 64
    size = np.abs(expected)
    size = size[np.isfinite(size)].max(initial=1.0)
    for part in ("real", "imag"):
        np.testing.assert_allclose(
            getattr(found, part), getattr(expected, part), rtol=few, atol=few * size
        )


def same(function: Callable[..., Any], *args: Any, fallback: str = "error") -> None:
    """A function gives what NumPy gives, in the first call and in later ones."""
    fused = fuser.fuse(function, fallback=fallback)
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        expected = function(*args)
        for _ in range(3):
            check(fused(*args), expected)


OPERATIONS: dict[str, Callable[..., Any]] = {
    "add": lambda x, y: x + y,
    "subtract": lambda x, y: x - y,
    "multiply": lambda x, y: x * y,
    "divide": lambda x, y: x / y,
    "negative": lambda x, y: -x,
    "conjugate": lambda x, y: x.conj(),
    "square": lambda x, y: np.square(x),
    "reciprocal": lambda x, y: np.reciprocal(x),
    "absolute": lambda x, y: np.abs(x),
    "equal": lambda x, y: x == y,
    "not_equal": lambda x, y: x != y,
    "isnan": lambda x, y: np.isnan(x),
    "isinf": lambda x, y: np.isinf(x),
    "isfinite": lambda x, y: np.isfinite(x),
    "where": lambda x, y: np.where(x.real > 0, x, y),
    "angle": lambda x, y: np.angle(x),
    "real": lambda x, y: x.real * 2,
    "imag": lambda x, y: x.imag + y.real,
    "joined": lambda x, y: x.real + 1j * y.imag,
    "to complex64": lambda x, y: x.astype(np.complex64),
    "to complex128": lambda x, y: x.astype(np.complex128),
    "to bool": lambda x, y: x.astype(bool),
    "whole powers": lambda x, y: (x**2, x**3, x**5, x**-1),
}


@pytest.mark.parametrize("dtype", ["complex64", "complex128"])
@pytest.mark.parametrize("name", OPERATIONS)
def test_operations_give_numpys_results(name: str, dtype: str) -> None:
    """Every layout, lengths that leave vectors a remainder, and none at all; one kernel."""
    function = OPERATIONS[name]
    for layout in LAYOUTS.values():
        for shape in ((5, 37), (1, 1), (3, 0)):
            same(function, layout(values(shape, dtype, 0)), layout(values(shape, dtype, 1)))
    x = values((4, 6), dtype, 2)
    assert len(fuser.fuse(function).explain(x, x).groups) == 1


@pytest.mark.parametrize("dtype", ["complex64", "complex128"])
@pytest.mark.parametrize("name", sorted(set(OPERATIONS) - {"whole powers"}))
def test_infinities_nan_and_zeros_are_numpys(name: str, dtype: str) -> None:
    """Every pair of special parts: NaN where NumPy has it, zeros and infinities of its signs."""
    grid = np.array([complex(a, b) for a in SPECIAL for b in SPECIAL], dtype)
    x, y = (each.ravel() for each in np.meshgrid(grid, grid))
    fused = fuser.fuse(OPERATIONS[name], fallback="error")
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found, expected = fused(x, y), OPERATIONS[name](x, y)
    for part in ("real", "imag"):
        one, other = getattr(found, part), getattr(expected, part)
        np.testing.assert_array_equal(np.isnan(one), np.isnan(other))
        few = 1e-5 if dtype == "complex64" else 1e-12
        np.testing.assert_allclose(one, other, rtol=few, atol=1e-30)  # NumPy contracts products
    if name in ("negative", "conjugate", "add", "subtract", "where"):
        assert (
            np.where(np.isnan(found.real), 0, found.real).tobytes()
            == np.where(np.isnan(expected.real), 0, expected.real).tobytes()
        )


@pytest.mark.parametrize("power", [1, 2, 2.0, 3, 5, -1, -1.0, -2, 0.5])
def test_powers_of_zeros_and_roots_are_numpys(power: float) -> None:
    """By the class of the exponent NumPy multiplies, divides, or takes the root, as of zeros."""
    grid = np.array([complex(a, b) for a in SPECIAL[:4] for b in SPECIAL[:4]])
    raised = fuser.fuse(lambda z: (np.sort(z.imag) * 2, z**power), fallback="allow")
    with np.errstate(all="ignore"):
        found, expected = raised(grid)[1], grid**power
    known = np.isfinite(expected.view(float))
    np.testing.assert_array_equal(np.isfinite(found.view(float)), known)
    np.testing.assert_allclose(found, expected, rtol=1e-14)
    signs = np.signbit(found.view(float)), np.signbit(expected.view(float))
    np.testing.assert_array_equal(signs[0][known], signs[1][known])


def test_exponentials_follow_c99() -> None:
    """Signs of zeros and infinities where parts are, NaN where nothing is known."""
    grid = np.array([complex(a, b) for a in (*SPECIAL, 1000.0, -1000.0, 710.0) for b in SPECIAL])
    fused = fuser.fuse(lambda z: np.exp(z), fallback="error")
    with np.errstate(all="ignore"):
        found, expected = fused(grid), np.exp(grid)
    for part in ("real", "imag"):
        one, other = getattr(found, part), getattr(expected, part)
        finite = np.isfinite(other)
        np.testing.assert_allclose(one[finite], other[finite], rtol=1e-14, atol=1e-300)
        np.testing.assert_array_equal(np.isinf(one), np.isinf(other))
    near = values((500,), "complex128", 3)
    np.testing.assert_allclose(fused(near), np.exp(near), rtol=1e-14)


def test_imaginary_exponents_take_no_exponential() -> None:
    """Sine and cosine alone, where the real part is zero by its making; else all of it."""
    x = np.array([*SPECIAL, 710.0, 1e9])
    forms: dict[str, tuple[Callable[..., Any], bool]] = {
        "times i": (lambda x: np.exp(1j * x), True),
        "turned": (lambda x: np.exp((-2j * np.pi * x)[::-1] * x), True),
        "sum": (lambda x: np.exp(1j * x - 0.5j * x), True),
        "squared": (lambda x: np.exp((1j * x) * (1j * x)), False),
        "shifted": (lambda x: np.exp(1j * x + 1), False),
        "by hand": (lambda x: np.exp(0.0 * x + 1j * x[::-1]), False),
    }
    for name, (function, short) in forms.items():
        fused = fuser.fuse(function, fallback="error")
        with np.errstate(all="ignore"):
            found, expected = fused(x), function(x)
        for part in ("real", "imag"):
            one, other = getattr(found, part), getattr(expected, part)
            np.testing.assert_array_equal(np.isnan(one), np.isnan(other), name)
            finite = np.isfinite(other)
            np.testing.assert_allclose(one[finite], other[finite], rtol=1e-12, atol=1e-12)
        steps = str(fused.explain(x))
        assert ("exp" in steps.partition("bytes a call")[0].replace("exp#", "")) != short, name


def _written(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    x *= y
    x[1:] += 1j
    x.real[0] = 7
    x.imag = x.imag * 2
    return x


def _built(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    z = np.empty(x.shape, np.complex128)
    z.real = x.real
    z.imag[1:] = y.imag[1:]
    z.imag[0] = 3
    return z


PROGRAMS: dict[str, Callable[..., Any]] = {
    "written": _written,
    "built": _built,
    "phases": lambda x, y: np.exp(1j * x.real) * y,
    "power spectrum": lambda x, y: (x * x.conj()).real.mean(0),
    "normalised": lambda x, y: x / np.sqrt((np.abs(x) ** 2).sum(-1, keepdims=True)),
    "coherence": lambda x, y: np.abs((x * y.conj()).mean(0)) ** 2,
    "centred": lambda x, y: x - x.mean(-1, keepdims=True),
    "gram": lambda x, y: (x[:, None, :] * y[None].conj()).sum(-1),
    "shifted": lambda x, y: x[1:] - y[:-1],
    "joined": lambda x, y: np.concatenate([x, y * 2, x.real], 0),
    "stacked": lambda x, y: np.stack([x, y, np.zeros_like(x)], -1),
    "transposed": lambda x, y: x.T + y.T.conj(),
    "reshaped": lambda x, y: (x * y).reshape(-1)[3:],
    "several": lambda x, y: (x + y, np.abs(x), (x * y).sum()),
    "views": lambda x, y: (lambda z: (z, z.real, z.imag[1:]))(x * y),
    "constants": lambda x, y: 2j * x + (1 - 1j) / (y + 9),
    "mandelbrot": lambda x, y: np.abs(((x**2 + y) ** 2 + y) ** 2 + y) < 2,
    "rolled": lambda x, y: x - np.roll(x, 1, -1),
    "outer": lambda x, y: np.outer(x[0], y[0]),
    "sums": lambda x, y: (x.sum(), x.sum(0), x.sum(-1, keepdims=True), x.mean()),
    "spread": lambda x, y: (x.var(-1), x.std()),
    "norms": lambda x, y: (np.linalg.norm(x), np.linalg.norm(x, axis=-1)),
    "products": lambda x, y: (np.vdot(x, y), np.dot(x[0], y[0])),
    "truth": lambda x, y: (x.any(-1), x.all(), np.count_nonzero(x, axis=0)),
    "NaN replaced": lambda x, y: np.where(np.isnan(x), 0, x).sum(),
}


@pytest.mark.parametrize("dtype", ["complex64", "complex128"])
@pytest.mark.parametrize("name", PROGRAMS)
def test_programs_give_numpys_results(name: str, dtype: str) -> None:
    """Fused without a fallback, in C order, in Fortran's and with gaps; arguments change alike."""
    function = PROGRAMS[name]
    for layout in ("C", "F", "gaps"):
        arrays = [LAYOUTS[layout](values((6, 33), dtype, seed)) for seed in (0, 1)]
        given, plain = ([each.copy("K") for each in arrays] for _ in range(2))
        fused = fuser.fuse(function, fallback="error")
        for _ in range(2):
            check(fused(*given), function(*plain))
            check(given, plain)


def test_parts_that_are_returned_look_at_the_same_memory() -> None:
    """As NumPy's: of arguments, of results beside them, and of a whole that nobody else has."""
    x = values((4, 5), "complex64", 0)
    part = fuser.fuse(lambda z: z.imag, fallback="error")
    for _ in range(3):
        assert np.shares_memory(part(x), x)
    both = fuser.fuse(lambda z: (lambda w: (w, w.real))(z * 2), fallback="error")
    for _ in range(3):
        whole, real = both(x)
        assert np.shares_memory(whole, real)
    alone = fuser.fuse(lambda z: (z * 2).imag, fallback="error")(x)
    assert alone.strides == (x * 2).imag.strides


def test_results_go_where_they_are_wanted() -> None:
    """`out=` of any order, or the argument itself, or beside it in one memory."""
    function = lambda x, y: x * y.conj() + 2j * x  # noqa: E731
    fused = fuser.fuse(function, fallback="error")
    x, y = values((50, 40), "complex64", 0), values((50, 40), "complex64", 1)
    expected = function(x, y)
    for out in (np.empty_like(x), np.empty_like(x, order="F"), np.empty((50, 80), x.dtype)[:, ::2]):
        assert fused(x, y, out=out) is out
        check(out, expected)
    inside = x.copy()
    fused(inside, y, out=inside)
    check(inside, expected)
    beside = x.copy()
    fused(beside[:-1], y[1:], out=beside[1:])
    check(beside[1:], function(x[:-1], y[1:]))
    with pytest.raises(fuser.FusionError):
        fused(x, y, out=np.empty((50, 40), np.float32))


def test_arguments_of_another_kind_are_told_apart() -> None:
    """A kernel of complex numbers is never given real ones of the same size."""
    fused = fuser.fuse(lambda x, y: x * y + 1, fallback="error")
    z = values((30,), "complex64", 0)
    arrays = [z, z.real.copy(), z.view(np.float64), z.astype(np.complex128), z.view(np.int64) % 9]
    for _ in range(2):
        for x in arrays:
            for y in (x, z.real.copy()):
                if x.shape == y.shape:
                    check(fused(x, y), x * y + 1)


def test_numbers_of_a_call_are_complex_too() -> None:
    """Arithmetic of Python numbers stays symbolic: further values take the same kernel."""
    x = np.linspace(0, 1, 100)
    fused = fuser.fuse(lambda x, k: np.exp(1j * k * x) * (k - 2j), fallback="error")
    fused(x, 1.0)
    count = fuser.n_compiled_kernels()
    for k in (2.5, -1.0, 3.0):
        check(fused(x, k), np.exp(1j * k * x) * (k - 2j))
    assert fuser.n_compiled_kernels() == count
    root = fuser.fuse(lambda x, k: x * (-k) ** 0.5, fallback="allow")
    check(root(x, 2.0), x * (-2.0) ** 0.5)


def test_the_same_bits_whatever_the_threads() -> None:
    """Sums and elements of an array that several threads share."""
    x, y = (values((1_000_001,), "complex64", seed) for seed in (0, 1))
    fused = fuser.fuse(lambda x, y: ((x * y.conj()).sum(), x / y), fallback="error")
    same_parts(fused, x, y)


def test_every_served_function_is_one_of_numpys() -> None:
    """A wrong name would leave a function to NumPy in silence."""
    from fuser.ir.function_table import handlers

    assert not complex_functions.SERVED - handlers().keys()


CALLS = """
np.take(x, [0, 2], 0); np.delete(x, 1, 0); np.insert(x, 1, 2, 0); np.block([x, y]); np.kron(x, y)
np.pad(x, 1, mode="edge"); np.gradient(x, axis=1); np.trapezoid(x); np.tril(x); np.diag(x[0])
np.choose(np.zeros((4, 6), int), [x, y]); np.polyval([1, 2j, 3], x); np.isclose(x, y)
np.piecewise(x, [x.real > 0], [1j, 2]); np.select([x.real > 0, x.imag > 0], [x, y]); np.unstack(x)
np.linalg.norm(x, ord=1, axis=0); np.linalg.norm(x, ord=np.inf, axis=0); np.ediff1d(x)
np.linalg.norm(x, ord=3, axis=0); np.linalg.norm(x, ord=0, axis=0); np.linalg.matrix_norm(x)
np.full_like(x, 2j); np.ones_like(x); np.trace(x); np.inner(x[0], y[0]); np.diff(x, n=2)
np.nan_to_num(x * np.inf); np.average(x, weights=np.abs(y) + 1); np.einsum("ij,ij->i", x, y)
np.convolve(x[0], y[0, :3]); np.correlate(x[0], y[0, :3]); np.clip(x, 0, 1); np.round(x, 2)
np.sqrt(x); np.log(x + 9); np.sin(x); x**y; x**0.5; np.fft.fft(x) * y; np.sort(x) + y; x @ y.T
x.max(); x.min(0); x.argmax(); x.prod(); np.cumsum(x); np.cov(x); np.nanmean(x); np.nansum(x, 0)
np.maximum(x, y); x < y; np.logical_and(x, y); np.sign(x + 1); np.unwrap(x.real) * y
np.linspace(x[0], y[0], 5); np.average(x); np.cross(x[:, :3], y[:, :3]); np.vecdot(x, y)
np.tensordot(x, y, ([1], [1])); np.ptp(x); np.median(x); x[x.real > 0]; np.unique(x)
np.vander(x[0]); np.i0(x.real) * x
np.isreal(x); np.iscomplex(x); np.real_if_close(x); np.angle(x, deg=True); x.astype(np.float64)
"""


@pytest.mark.parametrize(
    "text", [one.strip() for one in CALLS.replace("\n", ";").split(";") if one]
)
def test_functions_give_numpys_results(text: str) -> None:
    """Whether they have a fused form of complex numbers or run between kernels."""
    function = eval(f"lambda x, y: {text}", {"np": np})
    generator = np.random.default_rng(1)
    x, y = ((generator.integers(-3, 4, (2, 4, 6)) * [[[1]], [[1j]]]).sum(0) for _ in range(2))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        same(function, x, y, fallback="allow")


UNARY = (
    "(-{0})", "{0}.conj()", "np.square({0})", "(2j * {0})", "({0} + 1)", "({0} / (2 + 1j))",
    "np.where({0}.real > 0, {0}, 0)", "({0}.real + 1j * {0}.imag)", "(np.abs({0}) * {0})",
    "{0}[::-1]", "np.roll({0}, 1)", "np.concatenate([{0}[1:], {0}[:1]])", "{0}.copy()",
    "np.stack([{0}, {0}])[1]", "({0}.imag * {0})",
)  # fmt: skip
BINARY = (
    "({0} + {1})", "({0} - {1})", "({0} * {1})", "({0} * {1}.conj())", "({0} / ({1} + 3))",
    "np.where(np.abs({0}) < np.abs({1}), {0}, {1})", "({0}.real * {1})",
)  # fmt: skip
ENDS = (
    "{0}", "np.abs({0})", "{0}.sum(-1)", "{0}.sum(0)", "{0}.mean()", "({0}, {0}.real)",
    "{0} - {0}.mean(-1, keepdims=True)", "{0}.T", "{0}.imag.max(-1)", "{0}.var(-1)",
)  # fmt: skip
TEXTS = st.recursive(
    st.sampled_from("xy"),
    lambda inner: st.one_of(
        st.builds(str.format, st.sampled_from(UNARY), inner),
        st.builds(str.format, st.sampled_from(BINARY), inner, inner),
    ),
    max_leaves=5,
)


@settings(max_examples=25, deadline=None)
@given(
    st.builds(str.format, st.sampled_from(ENDS), TEXTS), st.sampled_from([*LAYOUTS]),
    st.sampled_from([(3, 7), (2, 130), (1, 1), (40, 3)]),
)  # fmt: skip
def test_random_programs_give_numpys_results(
    text: str, layout: str, shape: tuple[int, ...]
) -> None:
    """Elements, choices, views, joins and reductions in any order."""
    function = eval(f"lambda x, y: {text}", {"np": np})
    x, y = (LAYOUTS[layout](values(shape, "complex128", seed)) for seed in (0, 1))
    fused = fuser.fuse(function, fallback="allow")
    expected = function(x, y)
    found = fused(x, y)
    assert {reason.code for reason in fused.fallbacks} <= {"no-gain"}  # np.roll alone, for instance
    for one, other in zip(
        found if isinstance(found, tuple) else (found,),
        expected if isinstance(expected, tuple) else (expected,), strict=True,
    ):  # fmt: skip
        size = max(1.0, float(np.abs(other).max(initial=0.0)))
        np.testing.assert_allclose(one, other, rtol=1e-9, atol=1e-9 * size)


@pytest.mark.parametrize(
    "function",
    [
        lambda z: z.astype(np.float64) + 1,
        lambda z: np.add(z, z, out=np.zeros(z.shape), casting="unsafe"),
        lambda z: np.array(z * 2, dtype=np.float32),
        lambda z: _written(np.zeros(z.shape), z),
    ],
)
def test_numpy_warns_where_imaginary_parts_are_discarded(function: Any) -> None:
    """At each call: kernels would not, so NumPy runs the function."""
    fused = fuser.fuse(function, fallback="allow")
    z = np.arange(4) + 1j
    for _ in range(3):
        with pytest.warns(np.exceptions.ComplexWarning):
            wanted = function(z)
        with pytest.warns(np.exceptions.ComplexWarning):
            assert np.array_equal(fused(z), wanted)
    assert [reason.code for reason in fused.fallbacks] == ["side-effect"]


def _written(array: Any, values: Any) -> Any:
    """An array with other values."""
    array[...] = values
    return array
