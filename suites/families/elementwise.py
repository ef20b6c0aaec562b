"""Chains of cheap arithmetic: what they cost is memory traffic and calls."""

from functools import partial
from typing import Any

import numpy as np

from fuser.suites.workload import (
    HEAVY_SIZES,
    Array,
    Workload,
    drawn,
    given,
    normal,
    normals,
    square,
    uniforms,
)

FAMILY = "elementwise chain"
MANY = "many inputs and outputs"


def axpy(alpha: float, x: Array, y: Array) -> Any:
    """BLAS level 1: alpha x + y (Lawson et al., ACM TOMS 5(3), 1979)."""
    return alpha * x + y


def multiply_add_pairs(b: Array, c: Array, d: Array, e: Array) -> Any:
    """The first expression of numexpr's bench/timing.py."""
    return b * c + d * e


def polynomial(x: Array) -> Any:
    """A cubic by Horner's rule, as in numexpr's bench/poly.py."""
    return ((0.25 * x + 0.75) * x - 1.5) * x - 2.0


def add_ten_times(x: Array, y: Array) -> Any:
    """CuPy's fusion benchmark: the same addition ten times over."""
    total = x
    for _ in range(10):
        total = total + y
    return total


def shifted_powers(a: Array, b: Array) -> Any:
    """From numexpr's bench/timing.py: a^2 + (b+1)^-2.5."""
    return a**2 + (b + 1) ** -2.5


def hypotenuse(a: Array, b: Array) -> Any:
    """From numexpr's bench/timing.py."""
    return np.sqrt(a**2 + b**2)


def fifty_first_power(a: Array) -> Any:
    """From numexpr's bench/timing.py, one power on: (a+1)^51."""
    return (a + 1) ** 51


def three_ranks(a: Array, b: Array, c: Array) -> Any:
    """From numexpr's bench/multidim: 63 + (a b) + c^2 + b on three axes."""
    return 63 + (a * b) + c**2 + b


def weighted_sum(
    a: Array, b: Array, c: Array, d: Array, e: Array, f: Array, g: Array, h: Array
) -> Any:
    """Eight arrays, each times a number: many inputs, one output."""
    return (
        0.1 * a + 0.2 * b + 0.3 * c + 0.4 * d + 0.5 * e + 0.6 * f + 0.7 * g + 0.8 * h
    )


def first_powers(x: Array) -> Any:
    """The powers of x up to the eighth: one input, seven outputs."""
    second = x * x
    third = second * x
    fourth = second * second
    return second, third, fourth, fourth * x, third * third, fourth * third, fourth * fourth


WORKLOADS = (
    Workload(
        "axpy", FAMILY, "a vector times a number plus a vector", axpy,
        given(2.5, *[drawn(normal)] * 2),
        quick=True, sweep=True,
    ),
    Workload(
        "multiply_add_pairs", FAMILY, "the sum of two products", multiply_add_pairs, normals(4),

    ),
    Workload(
        "polynomial", FAMILY, "a cubic by Horner's rule", polynomial, normals(1), quick=True
    ),
    Workload("add_ten_times", FAMILY, "ten additions of one vector", add_ten_times, normals(2)),
    Workload(
        "shifted_powers", FAMILY, "a square plus a negative power", shifted_powers,
        uniforms((-2.0, 2.0), (0.0, 4.0)),
    ),
    Workload("hypotenuse", FAMILY, "the root of a sum of squares", hypotenuse, normals(2)),
    Workload(
        "fifty_first_power", FAMILY, "a large whole power", fifty_first_power,
        uniforms((-0.2, 0.2)), sizes=HEAVY_SIZES, tolerance_eps=512,
    ),
    Workload("three_ranks", FAMILY, "a product, a square and sums on three axes", three_ranks,
             given(*[drawn(normal, shape=partial(square, axes=3))] * 3)),
    Workload(
        "weighted_sum", MANY, "a weighted sum of eight arrays", weighted_sum, normals(8),
        tolerance_eps=32,
    ),
    Workload(
        "first_powers", MANY, "seven powers of one array: seven outputs", first_powers,
        uniforms((-1.5, 1.5)), sizes=HEAVY_SIZES, tolerance_eps=32,
    ),
)
