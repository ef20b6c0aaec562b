"""Powers by constants like 1.5 and -2.5: products and a root, right to 2.5 ulp and at all ends."""

from __future__ import annotations

import numpy as np
import pytest

import fuser
from fuser.backends.cpu.body import BASELINE, Body, Features, Module, Value, constant_of
from fuser.backends.cpu.elementary.half_powers import half_of
from tests.backends.cpu.accuracy import ulp_errors

ENDS = [0.0, -0.0, np.inf, -np.inf, np.nan, 1.0, -1.0, -2.5, 1e-30, 1e30, 5e-324, 1e-310, 1e300]


@pytest.mark.parametrize("exponent", [-2.5, -1.5, -0.5, 1.5, 2.5])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_within_three_ulp_over_the_whole_range(dtype: str, exponent: float) -> None:
    """Against the next wider format, on numbers of every size and on all that is special."""
    power = fuser.fuse(lambda x: np.power(x, exponent), fallback="error")
    draw = np.random.default_rng(1)
    span = (-148, 127) if dtype == "float32" else (-1070, 1023)
    with np.errstate(all="ignore"):
        sizes = np.ldexp(draw.uniform(1, 2, 20_000), draw.integers(*span, 20_000))
        x = np.concatenate([sizes, draw.uniform(-1, 9, 20_000), ENDS]).astype(dtype)
        wide = np.float64 if dtype == "float32" else np.longdouble
        errors = ulp_errors(power(x), np.power(x.astype(wide), wide(exponent)))
    assert errors.max() < 2.6, x[np.argmax(errors)]


def test_only_constants_are_served() -> None:
    """Not other exponents, not run-time ones, and not without FMA."""
    b = Body(Module(Features(vector_bytes=32, fma=True)))
    x = Value("%x", "double", 4)
    assert half_of(b, b.fconst(x, -2.5)) == -2.5
    assert half_of(b, b.fconst(x, 3.5)) is None
    assert half_of(b, b.fconst(x, 2.0)) is None
    assert half_of(b, x) is None
    assert half_of(Body(Module(BASELINE)), b.fconst(x, -2.5)) is None
    assert constant_of(Value("0x3FE0000000000000", "float", 1)) == 0.5
