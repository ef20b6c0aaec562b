"""The elementary functions' errors, on samples; `accuracy_table` measures all of float32."""

from functools import cache

import mpmath
import numpy as np
import pytest

from fuser.backends.cpu.elementary.table import ELEMENTARY
from tests.backends.cpu.accuracy import (
    BINARY,
    Array,
    Kernel,
    hard_cases,
    host_target,
    reference,
    sample_bits,
    sample_pairs,
    sample_ranges,
    ulp_errors,
    worst,
)

ALLOWED_ULP = {"power": 3.0, "tan": 3.0, "erfc": 3.0}
UNARY = [name for name in ELEMENTARY if name not in BINARY]
FORMS = {"fma": host_target(), "plain": "baseline"}
needs_avx512 = pytest.mark.skipif(
    host_target() != "avx512", reason="this processor has no AVX-512"
)


@cache
def float_case(name: str) -> tuple[Array, Array]:
    """A million float32 inputs of a function, and the true values."""
    ranges = sample_ranges(name, "float", 20_000, 1)
    x = np.concatenate([sample_bits("float", 1 << 20), hard_cases("float"), *ranges])
    return x, reference(name, x)


@cache
def double_case(name: str) -> tuple[Array, Array]:
    """Float64 inputs of a function, and the true values."""
    ranges = sample_ranges(name, "double", 20_000, 1)
    x = np.concatenate([sample_bits("double", 1 << 16), hard_cases("double"), *ranges])
    return x, reference(name, x)


def check(name: str, errors: Array, *inputs: Array) -> None:
    """Fail with the worst input if an error is beyond what the function is allowed."""
    error, at = worst(errors, *inputs)
    assert error <= ALLOWED_ULP.get(name, 2.0), f"{name}{at}: {error} ulp"


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("name", UNARY)
def test_float32_is_within_its_bound(name: str, form: str) -> None:
    """Evenly spread bit patterns, all exponents' ends, specials and random values."""
    x, true = float_case(name)
    with np.errstate(all="ignore"):
        check(name, ulp_errors(Kernel(name, "float", FORMS[form])(x), true), x)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("name", UNARY)
def test_float64_is_within_its_bound(name: str, form: str) -> None:
    """The same for float64, against 80-bit references, with the hard cases of reduction."""
    x, true = double_case(name)
    check(name, ulp_errors(Kernel(name, "double", FORMS[form])(x), true), x)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("scalar", ["float", "double"])
@pytest.mark.parametrize("name", sorted(BINARY))
def test_binary_functions_are_within_their_bounds(name: str, scalar: str, form: str) -> None:
    """All pairs of specials, random bit patterns, and operands with finite results."""
    kernel = Kernel(name, scalar, FORMS[form])
    for x, y in sample_pairs(name, scalar, 20_000, 1):
        check(name, ulp_errors(kernel(x, y), reference(name, x, y)), x, y)


@pytest.mark.parametrize("scalar", ["float", "double"])
@pytest.mark.parametrize("name", list(ELEMENTARY))
def test_one_lane_gives_the_bits_of_the_vector(name: str, scalar: str) -> None:
    """So that a loop's tail agrees with its body, whatever the length of the array."""
    assert_same_bits(name, scalar, (host_target(), 1), (host_target(), None))


@needs_avx512
@pytest.mark.parametrize("scalar", ["float", "double"])
@pytest.mark.parametrize("name", list(ELEMENTARY))
def test_avx512_and_avx2_give_the_same_bits(name: str, scalar: str) -> None:
    """AVX-512's own instructions stand for the plain ones, also in vectors of several registers."""
    wide = 32 if scalar == "float" else 16
    assert_same_bits(name, scalar, ("avx2", None), ("avx512", wide))


def assert_same_bits(
    name: str, scalar: str, one: tuple[str, int | None], other: tuple[str, int | None]
) -> None:
    """Compare two forms of a function; the bits of a NaN do not count."""
    inputs: list[tuple[Array, ...]]
    if name in BINARY:
        inputs = [*sample_pairs(name, scalar, 5_000, 1)]
    else:
        inputs = [(sample_bits(scalar, 1 << 14),)]
        inputs += [(values,) for values in sample_ranges(name, scalar, 5_000, 1)]
    kernels = [Kernel(name, scalar, target, lanes) for target, lanes in (one, other)]
    integer = np.uint32 if scalar == "float" else np.uint64
    for arrays in inputs:
        left, right = (kernel(*arrays) for kernel in kernels)
        same = (left.view(integer) == right.view(integer)) | (np.isnan(left) & np.isnan(right))
        assert same.all(), [array[~same][0] for array in (*arrays, left, right)]


MPMATH = {
    "arccos": mpmath.acos,
    "arccosh": mpmath.acosh,
    "arcsin": mpmath.asin,
    "arcsinh": mpmath.asinh,
    "arctan": mpmath.atan,
    "arctanh": mpmath.atanh,
    "cbrt": lambda x: mpmath.sign(x) * mpmath.cbrt(abs(x)),
    "exp2": lambda x: mpmath.mpf(2) ** x,
    "log2": lambda x: mpmath.log(x, 2),
    "sigmoid": lambda x: 1 / (1 + mpmath.exp(-x)),
}
"""Where mpmath's name or domain is not NumPy's."""


@pytest.mark.parametrize("name", UNARY)
def test_the_reference_agrees_with_multiple_precision(name: str) -> None:
    """The 80-bit references are within a fifth of an ulp of float64 (worst: subnormal results)."""
    x = np.concatenate([hard_cases("double")[60:140], sample_ranges(name, "double", 20, 3)[0]])
    found = reference(name, x)
    exact = MPMATH.get(name) or getattr(mpmath, name)
    with mpmath.workprec(200):
        for value, result in zip(x, found, strict=True):
            true = exact(mpmath.mpf(float(value)))
            if not np.isfinite(result) or isinstance(true, mpmath.mpc) or result == 0:
                continue
            parts = np.float64(result), np.float64(result - np.float64(result))
            unit = np.spacing(np.abs(parts[0]))
            assert abs(mpmath.mpf(float(parts[0])) + float(parts[1]) - true) <= 0.2 * unit


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("name", ["sin", "cos", "tan"])
def test_huge_doubles_are_reduced(name: str, form: str) -> None:
    """All exponents, and 6381956970095103 x 2^797, within 5e-19 of a multiple of pi/2."""
    generator = np.random.default_rng(1)
    bits = generator.integers(0x41B0000000000000, 0x7FF0000000000000, 60, dtype=np.int64)
    x = np.concatenate([[6381956970095103.0 * 2.0**797, 2.0**30, 2.0**1023], bits.view(np.float64)])
    with mpmath.workprec(1300):
        exact = [getattr(mpmath, name)(mpmath.mpf(value)) for value in x.tolist()]
        true = np.array([mpmath.nstr(value, 25) for value in exact]).astype(np.longdouble)
    found = Kernel(name, "double", FORMS[form])(x)
    check(name, ulp_errors(found, true), x)
    assert (Kernel(name, "double", FORMS[form])(-x) == (found if name == "cos" else -found)).all()
