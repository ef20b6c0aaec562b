"""Powers by whole constants: products, right to the last digits and at all ends."""

from __future__ import annotations

import mpmath
import numpy as np
import pytest

import fuser
from fuser.backends.cpu.body import BASELINE, Body, Features, Module, Value
from fuser.backends.cpu.elementary.whole_powers import whole_of
from tests.backends.cpu.accuracy import ulp_errors

ENDS = [0.0, -0.0, np.inf, -np.inf, np.nan, 1.0, -1.0, -2.5, 1e-30, 1e30, 5e-324, 1e-310, 1e300]
EXPONENTS = [-64, -63, -33, -7, -6, -5, -4, -3, -2, 6, 7, 8, 11, 12, 31, 32, 51, 63, 64]


def values(dtype: str, exponent: int) -> np.ndarray:
    """Numbers of every size, of those whose power is one, and all that is special."""
    draw = np.random.default_rng(abs(exponent))
    span = (-148, 127) if dtype == "float32" else (-1070, 1023)
    near = 1022 / abs(exponent)
    with np.errstate(all="ignore"):
        sizes = np.ldexp(draw.uniform(1, 2, 3_000), draw.integers(*span, 3_000))
        known = 2.0 ** draw.uniform(-near, near, 8_000)
        x = np.concatenate([sizes, known, draw.uniform(0.5, 2, 3_000)])
        x *= draw.choice([-1, 1], x.size)
        return np.concatenate([x, ENDS]).astype(dtype)


@pytest.mark.parametrize("exponent", EXPONENTS)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_the_greatest_error(dtype: str, exponent: int) -> None:
    """Against the next wider format: the last rounding, and one more of a reciprocal."""
    power = fuser.fuse(lambda x: x**exponent, fallback="error")
    x = values(dtype, exponent)
    wide = np.float64 if dtype == "float32" else np.longdouble
    with np.errstate(all="ignore"):
        errors = ulp_errors(power(x), np.power(x.astype(wide), wide(exponent)))
    assert errors.max() < (0.6 if dtype == "float32" or exponent > 0 else 1.6), x[errors.argmax()]


@pytest.mark.parametrize("exponent", [-3, -2, 6, 7])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_specials_are_numpys(dtype: str, exponent: int) -> None:
    """Signs of zeros and infinities, too."""
    with np.errstate(all="ignore"):
        x = np.array(ENDS, dtype)
        expected = np.power(x, x.dtype.type(exponent))
        found = fuser.fuse(lambda x: x**exponent, fallback="error")(x)
    np.testing.assert_array_equal(found[:5], expected[:5])
    np.testing.assert_array_equal(np.signbit(found), np.signbit(expected))


def test_against_a_multiple_precision_library() -> None:
    """Doubles: at most 0.51 ulp for what does not come near an end."""
    x = np.random.default_rng(0).uniform(0.01, 100, 2_000)
    found = fuser.fuse(lambda x: x**51, fallback="error")(x)
    with mpmath.workdps(60):
        errors = [
            abs((mpmath.mpf(float(y)) - mpmath.mpf(float(base)) ** 51) / float(np.spacing(y)))
            for base, y in zip(x, found, strict=True)
        ]
    assert max(errors) < 0.51


def test_only_constants_are_served() -> None:
    """Not other exponents, not run-time ones, and not without FMA."""
    b = Body(Module(Features(vector_bytes=32, fma=True)))
    x = Value("%x", "double", 4)
    assert whole_of(b, b.fconst(x, 12.0)) == 12
    assert whole_of(b, b.fconst(x, -64.0)) == -64
    for other in (6.5, 1.0, 0.0, 65.0, np.inf, np.nan):
        assert whole_of(b, b.fconst(x, other)) is None
    assert whole_of(b, x) is None
    assert whole_of(Body(Module(BASELINE)), b.fconst(x, 6.0)) is None
