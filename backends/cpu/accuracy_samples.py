"""The inputs on which the elementary functions are measured and tested."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]

DTYPES: dict[str, np.dtype[Any]] = {"float": np.dtype(np.float32), "double": np.dtype(np.float64)}
BINARY = frozenset({"power", "arctan2", "hypot"})


def sample_bits(scalar: str, count: int) -> Array:
    """Evenly spread bit patterns, every exponent's ends, and special values.

    Args:
        scalar: "float" or "double".
        count: how many evenly spread patterns.
    """
    integer = np.uint32 if scalar == "float" else np.uint64
    width, digits = (32, 23) if scalar == "float" else (64, 52)
    step = (1 << width) // count
    even = np.arange(count, dtype=np.uint64) * np.uint64(step) + np.uint64(step // 3)
    starts = np.arange(1 << (width - digits), dtype=np.uint64) << np.uint64(digits)
    ends = np.concatenate([starts, starts + np.uint64(1), starts - np.uint64(1)])
    return np.concatenate([even, ends]).astype(integer).view(DTYPES[scalar])


RANGES: dict[str, tuple[tuple[float, float], ...]] = {
    "arccos": ((-1, 1), (-0.6, 0.6), (0.99, 1)),
    "arccosh": ((1, 10), (1, 1.1), (1, 2), (1, 1e6)),
    "arcsin": ((-1, 1), (-0.6, 0.6), (0.99, 1)),
    "arcsinh": ((-10, 10), (-1, 1), (-100, 100), (-0.1, 0.1)),
    "arctan": ((-10, 10), (-3, 3), (-1, 1), (-0.5, 0.5)),
    "arctanh": ((-1, 1), (-0.5, 0.5), (-0.1, 0.1), (0.9, 1)),
    "cbrt": ((-10, 10), (1, 8), (-1e9, 1e9)),
    "cos": ((-10, 10), (-1e5, 1e5), (-1000, 1000), (-1.6, 1.6), (-1e9, 1e9)),
    "cosh": ((-711, 711), (-5, 5), (-1, 1), (-90, 90)),
    "erf": ((-6, 6), (-1.1, 1.1), (-3, 3)),
    "erfc": ((-6, 28), (-1.1, 1.1), (0, 5), (0, 10)),
    "exp": ((-746, 710), (-1, 1), (-745, -700), (-104, 89)),
    "exp2": ((-1080, 1030), (-2, 2), (-1075, -1020), (-150, 130)),
    "expm1": ((-40, 710), (-1, 1), (-2, 3), (-0.1, 0.1)),
    "log": ((0, 10), (0.5, 1.6), (0.9, 1.1), (0, 1e9)),
    "log10": ((0, 10), (0.5, 1.6), (0.9, 1.1), (0, 1e9)),
    "log1p": ((-1, 10), (-0.5, 0.6), (-0.1, 0.1), (0, 1e9)),
    "log2": ((0, 10), (0.5, 1.6), (0.9, 1.1), (0, 1e9)),
    "sigmoid": ((-746, 40), (-5, 5), (-40, 40), (-1, 1)),
    "sin": ((-10, 10), (-1e5, 1e5), (-1000, 1000), (-1.6, 1.6), (-1e9, 1e9)),
    "sinh": ((-711, 711), (-5, 5), (-1, 1), (-90, 90)),
    "tan": ((-10, 10), (-1e5, 1e5), (-1000, 1000), (-1.6, 1.6), (-1e9, 1e9)),
    "tanh": ((-20, 20), (-1, 1), (-0.4, 0.4), (-3, 3)),
}
"""Where each unary function is neither constant nor out of range."""


def sample_ranges(name: str, scalar: str, count: int, seed: int) -> list[Array]:
    """Uniform random values of a function's ranges, `count` of each."""
    generator = np.random.default_rng(seed)
    return [generator.uniform(*ends, count).astype(DTYPES[scalar]) for ends in RANGES[name]]


def sample_pairs(name: str, scalar: str, count: int, seed: int) -> list[tuple[Array, Array]]:
    """Random operands of a binary function: `count` of each kind, and all pairs of specials."""
    generator = np.random.default_rng(seed)
    dtype = DTYPES[scalar]
    integer = np.uint32 if scalar == "float" else np.uint64
    top = np.iinfo(integer).max
    bits = generator.integers(0, top, count, dtype=integer, endpoint=True).view(dtype)
    others = generator.integers(0, top, count, dtype=integer, endpoint=True).view(dtype)
    with np.errstate(all="ignore"):
        special = SPECIALS.astype(dtype)
        pairs = [
            (np.repeat(special, special.size), np.tile(special, special.size)),
            (bits, others),
            (bits, (bits * generator.uniform(0.1, 10, count)).astype(dtype)),
            (bits, generator.uniform(-3, 3, count).astype(dtype)),
        ]
        powers = generator.uniform(-160, 140, count) * (1.0 if scalar == "float" else 7.3)
        pairs.append(
            (np.abs(bits), (powers / np.log2(np.abs(bits, dtype=np.float64))).astype(dtype))
        )
    for low, high, low_y, high_y in (
        (0, 10, -20, 20),
        (0.5, 2, -1000, 1000),
        (0.99, 1.01, -70000, 70000),
        (-1, 1, -1, 1),
    ):
        x = generator.uniform(low, high, count).astype(dtype)
        pairs.append((x, generator.uniform(low_y, high_y, count).astype(dtype)))
    whole = generator.integers(-50, 50, count).astype(dtype)
    pairs.append((whole, generator.integers(-10, 20, count).astype(dtype)))
    return pairs


SPECIALS = np.array(
    [
        *(0.0, 1.0, 2.0, 0.5, 3.0, 2.5, 0.3, 7.0, np.inf, 1e-45, 1e-310, 5e-324, 1e-38, 1e30),
        *(1e308, 1.7976931348623157e308, 3.4028234663852886e38, 2.2250738585072014e-308),
        *(2.0**-126, 8388609.0, 16777217.0, 2.0**52 + 1, 2.0**53, 1 + 2.0**-23, 1 + 2.0**-52),
        *(1 - 2.0**-24, 1 - 2.0**-53, 88.72284, 709.782712893384, 710.4758600739439),
    ]
)
SPECIALS = np.concatenate([SPECIALS, -SPECIALS, [np.nan]])
"""Values at which some function changes its kind, in every format."""


def hard_cases(scalar: str) -> Array:
    """Specials, and numbers that are closest to multiples of pi/2.

    The best rational approximations of pi/2 give the worst cases of argument reduction (Muller,
    Elementary Functions, 3rd edition, 2016, section 11.3.2). The worst double of all is left out,
    because the 80-bit references are wrong there; the tests have it.
    """
    multiples = np.arange(1, 20_001, dtype=np.longdouble) * (
        np.longdouble(2) * np.arctan(np.longdouble(1))
    )
    numerators = [3, 22, 333, 355, 103993, 104348, 208341, 312689, 833719, 1146408, 4272943]
    numerators += [5419351, 80143857, 165707065, 245850922, 411557987, 1068966896, 2549491779]
    with np.errstate(over="ignore", under="ignore"):
        exact = np.array([*numerators, *(n / 2 for n in numerators)])
        return np.concatenate([SPECIALS, exact, -exact, multiples]).astype(DTYPES[scalar])
