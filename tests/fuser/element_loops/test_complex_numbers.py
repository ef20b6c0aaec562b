"""Loops over complex elements and small matrices give what NumPy gives."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import fuser
from fuser.element_loops.slices import SMALL


def _escapes(c: Any, counts: Any, most: int) -> None:
    """How many steps points of the plane take to get far away."""
    for i in range(c.shape[0]):
        for j in range(c.shape[1]):
            z = c[i, j]
            counts[i, j] = most
            for k in range(most):
                if z.real * z.real + z.imag * z.imag > 4.0:
                    counts[i, j] = k
                    break
                z = z * z + c[i, j]


def _recurrence(x: Any, y: Any) -> None:
    """Elements that hang on those before, of both parts and of numbers that are written down."""
    for i in range(1, x.shape[0]):
        z = x[i] * 2 - y[i - 1]
        z -= 1j * x[i - 1]
        y[i] = -z + (0.5 - 2j) * y[i - 1]
        if z != x[i]:
            y[i] += np.conjugate(x[i]) * x.imag[i]


def _parts(x: Any, a: Any) -> None:
    """Parts of elements, and sizes of them."""
    for i in range(x.shape[0]):
        a[i] = abs(x[i]) + x[i].real
        x[i] = x[i].imag
        if x[i]:
            x[i] += a[i]


def _rows(x: Any, y: Any) -> None:
    """Rows that are read where they are written."""
    for i in range(1, x.shape[0]):
        x[i, 1:] += x[i, :-1] * y[i - 1, 1:]
        x[i, :] = x[i, ::-1] - x[i - 1, 0]
        y[i, 1:] = x[i, 1:].sum() + np.square(x[i - 1, 1:])


def _swapped(x: Any) -> None:
    """The real parts of a row take what the imaginary parts of another say."""
    for i in range(1, x.shape[0]):
        x.real[i, :] = x.imag[i - 1, :] + x.real[i, ::-1]


def _helped(x: Any, y: Any) -> None:
    """A function that takes and gives complex numbers."""
    for i in range(x.shape[0]):
        y[i] = _turned(x[i], i)


def _turned(z: Any, i: int) -> Any:
    if i > 2:
        return z * 1j
    return z + i


def _sums(a: Any, b: Any, c: Any, index: Any) -> None:
    """Small matrices that are multiplied and added up."""
    for i in range(a.shape[0]):
        for j in range(index.shape[0]):
            p = a[i] @ b[index[j]]
            q = b[j] * a[i, 0, 0]
            c[i] += p @ q


def _vectors(a: Any, x: Any, y: Any) -> None:
    """Products of matrices and vectors, of which the result takes the place."""
    for i in range(a.shape[0]):
        x[i] = a[i] @ x[i]
        y[i] = x[i] @ a[i] + y[i] * (x[i] @ y[i])
        a[i, :, :] = a[i] @ a[i]


def _complex(shape: tuple[int, ...], dtype: str, seed: int = 0) -> Any:
    random = np.random.default_rng(seed)
    return (random.normal(size=shape) + 1j * random.normal(size=shape)).astype(dtype)


def _of_numbers(x: Any, y: Any) -> None:
    """Variables that begin as an integer, a float pair or a literal, and become NumPy's or stay."""
    z = 0
    for i in range(x.shape[0]):
        c, w = complex(x[i].real, y[i].imag), 1j
        for _ in range(3):
            z = z**2 + x[i]
            w = w * c - 2
        y[i] = z + w.conjugate() * 2 - c**2
        if abs(z) > 2.0:
            z = 0


def _quotients(x: Any, y: Any) -> None:
    """NumPy's quotients and Python's, which refuse a zero."""
    for i in range(x.shape[0]):
        z = x[i] / y[i] + y[i] / 3 - 1 / x[i]
        w = complex(x[i].real, x[i].imag) / complex(y[i].real, y[i].imag)
        x[i], y[i] = z, w


def _exponentials(x: Any, y: Any) -> None:
    """Turns of the plane, by factors that the loop makes."""
    for k in range(x.shape[0]):
        s = 0j
        for t in range(y.shape[0]):
            s += y[t] * np.exp(-2j * np.pi * k * t / y.shape[0])
        x[k] = s


def _judged(function: Callable[..., Any], make: Callable[[], list[Any]], bound: float = 0) -> Any:
    """Compare three calls with plain ones; gives the fused function."""
    fused = fuser.fuse(function, fallback="allow")
    for _ in range(3):
        wanted, found = make(), make()
        with np.errstate(all="ignore"):
            assert function(*wanted) is None
            assert fused(*found) is None
        for one, other in zip(wanted, found, strict=True):
            if not isinstance(one, np.ndarray) or bound == 0:
                np.testing.assert_array_equal(one, other)
            else:
                np.testing.assert_allclose(other, one, rtol=bound, atol=bound)
    return fused


_SPECIAL = np.array([0, -0.0, np.inf, -np.inf, np.nan, 1, 1e300, 1e-300])


@pytest.mark.parametrize("dtype", ["complex128", "complex64"])
@pytest.mark.parametrize(
    ("function", "shapes"),
    [
        (_recurrence, ((9,), (9,))), (_recurrence, ((0,), (0,))), (_rows, ((5, 6), (5, 6))),
        (_rows, ((4, 1), (4, 1))), (_swapped, ((4, 5),)), (_helped, ((7,), (7,))),
    ],
)  # fmt: skip
def test_loops_over_complex_elements_are_kernels(
    function: Callable[..., Any], shapes: Any, dtype: str
) -> None:
    """In arrays that lie in any way; NumPy rounds some products of arrays once less."""
    bound = {_rows: {"complex128": 1e-12, "complex64": 1e-3}[dtype]}.get(function, 0)
    for cut in (np.s_[...], np.s_[::-1], np.s_[1:]):
        fused = _judged(
            function, lambda cut=cut: [_complex(s, dtype, k)[cut] for k, s in enumerate(shapes)],
            bound,
        )
        assert not fused.fallback_counts


def test_numbers_of_the_plane_are_kernels() -> None:
    """A complex variable that a loop carries; absolute values and parts."""
    points = np.linspace(-2, 0.5, 12) + 1j * np.linspace(-1, 1, 9)[:, None]
    fused = _judged(_escapes, lambda: [points, np.zeros(points.shape, np.int64), 30])
    assert not fused.fallback_counts
    fused = _judged(_parts, lambda: [_complex((8,), "complex128"), np.zeros(8)], 1e-15)
    assert not fused.fallback_counts


needs_the_rules = pytest.mark.skipif(
    sys.version_info >= (3, 14), reason="Python 3.14 computes with complex numbers by other rules"
)


@needs_the_rules
@pytest.mark.parametrize(
    ("function", "bound"), [(_of_numbers, 1e-12), (_quotients, 0), (_exponentials, 1e-14)]
)
def test_complex_numbers_of_pythons_are_kernels(
    function: Callable[..., Any], bound: float
) -> None:
    """Made of two floats, spelled, and of integers that become complex: as Python computes."""
    fused = _judged(
        function, lambda: [_complex((8,), "complex128", k) for k in range(2)], bound
    )
    assert not fused.fallback_counts


def _one_by_one(x: Any, y: Any, out: Any) -> None:
    for i in range(x.shape[0]):
        z, w = complex(x[i].real, x[i].imag), complex(y[i].real, y[i].imag)
        out[0, i], out[1, i] = z * w + 1, z / w
        out[2, i], out[3, i] = z**2, abs(w)
        out[4, i] = -z if z == w or not w else 2 * z


@needs_the_rules
def test_numbers_of_pythons_that_are_none_are_pythons() -> None:
    """Infinities, NaN, signed zeros; zero divisors and overflows raise."""
    fused = fuser.fuse(_one_by_one, fallback="allow")
    chance = np.random.default_rng(5)
    for _ in range(200):
        x, y = (np.empty(1, complex) for _ in range(2))
        for each in (x, y):
            each.real, each.imag = chance.choice(_SPECIAL, 2)
        made: list[Any] = []
        for one in (_one_by_one, fused):
            out = np.zeros((5, 1), complex)
            try:
                one(x, y, out)
            except ArithmeticError as error:
                made.append((repr(error), out))
            else:
                made.append(("", out))
        assert made[0][0] == made[1][0]
        np.testing.assert_array_equal(made[0][1], made[1][1])
        for part in ("real", "imag"):
            signs = [np.signbit(getattr(out, part)) & (getattr(out, part) == 0) for _, out in made]
            np.testing.assert_array_equal(*signs)


def test_numbers_that_are_none_are_numpys() -> None:
    """Infinities, NaN and signed zeros in both parts."""
    every = np.empty(_SPECIAL.size**2, complex)
    every.real, every.imag = np.tile(_SPECIAL, _SPECIAL.size), np.repeat(_SPECIAL, _SPECIAL.size)

    def made() -> list[Any]:
        return [every.copy(), every[::-1].copy()]

    _judged(_recurrence, made)
    _judged(_helped, made)


@pytest.mark.parametrize("dtype", ["complex128", "complex64", "float64", "int32"])
def test_products_of_small_matrices_are_kernels(dtype: str) -> None:
    """Of all dtypes, of matrices and vectors, into what is read."""
    bound = {"int32": 0.0, "complex64": 1e-4}.get(dtype, 1e-12)
    index = np.array([2, 0, -1, 1])

    def sums() -> list[Any]:
        a, b, c = (_complex((5, 3, 3), "complex128", k) * 3 for k in range(3))
        return [*((x if dtype[0] == "c" else x.real).astype(dtype) for x in (a, b, c)), index]

    def vectors() -> list[Any]:
        made = [_complex(s, "complex128") * 3 for s in ((4, 3, 3), (4, 3), (4, 3))]
        return [(x if dtype[0] == "c" else x.real).astype(dtype) for x in made]

    for function, make in ((_sums, sums), (_vectors, vectors)):
        assert not _judged(function, make, bound).fallback_counts


def test_large_matrices_are_left_to_blas() -> None:
    """A loop whose matrices are not small is none, also where only a later call has such."""
    def made(size: int) -> list[Any]:
        a = _complex((3, size, size), "complex128").real.copy()
        return [a, np.ones((3, size)), np.ones((3, size))]

    fused = _judged(_vectors, lambda: made(SMALL), 1e-12)
    assert not fused.fallback_counts
    for size in (SMALL + 1, SMALL):
        one, other = made(size), made(size)
        with np.errstate(all="ignore"):
            _vectors(*one)
            fused(*other)
        for wanted, found in zip(one, other, strict=True):
            np.testing.assert_allclose(found, wanted, rtol=1e-12)


def _left(x: Any) -> Any:
    total = x[0]
    for i in range(1, x.shape[0]):
        total = total + x[i]
    return total


def _of_python(x: Any) -> None:
    z = 0j
    for i in range(x.shape[0]):
        z = z * 2 + i
        x[i] = z


def _real(x: Any, y: Any) -> None:
    for i in range(x.shape[0]):
        x[i] = x[i] * y[i]


@pytest.mark.parametrize(
    ("function", "make"),
    [
        (_left, lambda: [_complex((5,), "complex128")]),
        (_of_python, lambda: [_complex((5,), "complex128")]),
    ],
)
def test_what_is_no_kernel_is_numpys(function: Any, make: Any) -> None:
    """Results that loops over elements do not have, and Python's by the rules of later versions."""
    fused, one, other = fuser.fuse(function, fallback="allow"), make(), make()
    wanted, found = function(*one), fused(*other)
    assert type(wanted) is type(found)
    np.testing.assert_allclose(found if found is not None else 0, wanted or 0)
    np.testing.assert_array_equal(other[0], one[0])


def test_complex_numbers_in_real_arrays_warn_as_numpy() -> None:
    """An element of a real array takes the real part of a complex number, with a warning."""
    for function in (_real, fuser.fuse(_real, fallback="allow")):
        x = np.ones(3)
        with pytest.warns(np.exceptions.ComplexWarning):
            function(x, np.arange(3) + 1j)
        np.testing.assert_array_equal(x, [0, 1, 2])


def test_an_explanation_counts_both_parts() -> None:
    """Arrays of complex numbers are as large as they are."""
    fused = fuser.fuse(_helped)
    text = str(fused.explain(_complex((100,), "complex128"), _complex((100,), "complex128")))
    assert "complex128" in text
    assert "3,200" in text
