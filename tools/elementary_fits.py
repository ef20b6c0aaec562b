"""Every polynomial of backends/cpu/elementary: what it approximates, where, and relative to what.

    python tools/elementary_fits.py [part of a name ...]

prints the coefficients again, with log2 of the greatest weighted error. All of them take some
minutes.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import NamedTuple

from minimax import Function, fit
from mpmath import mp, mpf

LN2 = mp.log(2)
HALF_LN2 = LN2 / 2 * mpf("1.0005")
HALF_LN2_SQUARED = (LN2 / 2 * mpf("1.001")) ** 2
QUARTER_PI_SQUARED = (mp.pi / 4 * mpf("1.001")) ** 2


class Fit(NamedTuple):
    """One polynomial."""

    function: Function
    low: object
    high: object
    counts: dict[str, int]
    """How many coefficients, for "float" and "double"."""
    weight: Function


def odd(function: Function) -> tuple[Function, Function]:
    """(f(r) - r) / r^3 in r^2, and the weight that makes the error relative to f."""

    def rest(z: mpf) -> mpf:
        r = mp.sqrt(z)
        return (function(r) - r) / r**3

    return rest, lambda z: mp.sqrt(z) ** 3 / function(mp.sqrt(z))


def odd_fit(function: Function, bound: object, counts: dict[str, int]) -> Fit:
    """The fit of an odd function with f(r) = r + ..., for r^2 up to the bound."""
    rest, weight = odd(function)
    return Fit(rest, 0, bound, counts, weight)


def logarithm(scale: mpf) -> Fit:
    """(log(1 + f) - f) / f^2, times a factor."""
    return Fit(
        lambda f: (mp.log1p(f) - f) * scale / f**2,
        mpf("-0.25"),
        mpf("0.5"),
        {"float": 9, "double": 20},
        lambda f: f**2 / mp.log1p(f) / scale,
    )


def exponential(weight: Function, counts: dict[str, int]) -> Fit:
    """(e^r - 1 - r) / r^2."""
    return Fit(lambda r: (mp.expm1(r) - r) / r**2, -HALF_LN2, HALF_LN2, counts, weight)


def erf_ratio(bound: str, counts: dict[str, int], relative_to: Function) -> Fit:
    """erf(x) / x - 1 in x^2."""
    return Fit(
        lambda z: mp.erf(mp.sqrt(z)) / mp.sqrt(z) - 1,
        0,
        mpf(bound),
        counts,
        lambda z: mp.sqrt(z) / relative_to(mp.sqrt(z)),
    )


def scaled_erfc(center: mpf) -> Function:
    """(1 + 2a) e^(a^2) erfc a as a function of (a - center) / (a + center)."""

    def value(t: mpf) -> mpf:
        a = center * (1 + t) / (1 - t)
        return (1 + 2 * a) * mp.exp(a * a) * mp.erfc(a)

    return value


def erfc_fit(center: int, low: str, high: str, counts: dict[str, int]) -> Fit:
    """The fit of `scaled_erfc` for a from low to high."""
    function = scaled_erfc(mpf(center))
    ends = [(mpf(a) - center) / (mpf(a) + center) for a in (low, high)]
    return Fit(function, *ends, counts, lambda t: 1 / function(t))


def log2_tail(z: mpf) -> mpf:
    """((log2((1 + s) / (1 - s)) - 2 s log2 e) / s^3 - 2/3 log2 e) / s^2 with s^2 = z."""
    s = mp.sqrt(z)
    return ((mp.log((1 + s) / (1 - s)) / LN2 - 2 * s / LN2) / s**3 - 2 / LN2 / 3) / z


FITS: dict[str, Fit] = {
    "exp": exponential(lambda r: r**2 / mp.exp(r), {"float": 5, "double": 10}),
    "expm1": exponential(lambda r: r**2 / mp.expm1(r), {"float": 5, "double": 11}),
    "erf.exp": exponential(lambda r: r**2 / mp.exp(r), {"float": 4}),
    "erfc.exp float": exponential(lambda r: r**2 / mp.exp(r), {"double": 6}),
    "exp2": Fit(
        lambda r: mp.expm1(r * LN2) / r,
        -mpf("0.5002"),
        mpf("0.5002"),
        {"float": 6, "double": 11},
        lambda r: r / mp.exp(r * LN2),
    ),
    "power.exp2 float": Fit(
        lambda r: mp.expm1(r * LN2) / r,
        -mpf("0.5002"),
        mpf("0.5002"),
        {"double": 7},
        lambda r: r / mp.exp(r * LN2),
    ),
    "tanh": odd_fit(mp.tanh, mpf("0.551") ** 2, {"float": 5}),
    "log": logarithm(mpf(1)),
    "log2": logarithm(1 / LN2),
    "log10": logarithm(1 / mp.log(10)),
    "power.log2 float": Fit(
        lambda f: mp.log1p(f) / f / LN2,
        -mpf("0.25"),
        mpf("0.5"),
        {"double": 13},
        lambda f: f / mp.log1p(f) * LN2,
    ),
    "power.log2": Fit(log2_tail, 0, mpf("0.2001") ** 2, {"double": 9}, lambda z: z),
    "sin": odd_fit(mp.sin, QUARTER_PI_SQUARED, {"float": 3, "double": 6}),
    "cos": Fit(
        lambda z: (mp.cos(mp.sqrt(z)) - 1 + z / 2) / z**2,
        0,
        QUARTER_PI_SQUARED,
        {"float": 3, "double": 6},
        lambda z: z**2 / mp.cos(mp.sqrt(z)),
    ),
    "tan": odd_fit(mp.tan, QUARTER_PI_SQUARED, {"float": 7, "double": 14}),
    "sinh": odd_fit(mp.sinh, HALF_LN2_SQUARED, {"float": 2, "double": 5}),
    "cosh": Fit(
        lambda z: (mp.cosh(mp.sqrt(z)) - 1) / z,
        0,
        HALF_LN2_SQUARED,
        {"float": 3, "double": 6},
        lambda z: z,
    ),
    "arctan": odd_fit(mp.atan, mpf("0.5001") ** 2, {"float": 5, "double": 12}),
    "arcsin": odd_fit(mp.asin, mpf("0.25"), {"float": 5, "double": 12}),
    "erf.small": erf_ratio("1", {"float": 7, "double": 12}, mp.erf),
    "erfc.near": erf_ratio("0.5626", {"double": 10}, mp.erfc),
    "erf.large float": Fit(
        lambda a: -mp.log(mp.erfc(a)),
        mpf("0.99"),
        mpf(4),
        {"float": 6},
        lambda a: mp.erfc(a) / mp.erf(a),
    ),
    "erf.large double": Fit(
        lambda a: -mp.log(mp.erfc(a)),
        mpf("0.99"),
        mpf("5.94"),
        {"double": 17},
        lambda a: mp.erfc(a) / mp.erf(a),
    ),
    "erfc.ratio float": erfc_fit(3, "0", "10.3", {"double": 11}),
    "erfc.ratio double": erfc_fit(4, "0.74", "28", {"double": 21}),
    "cbrt": Fit(
        lambda y: y ** (-mpf(1) / 3),
        mpf("0.374"),
        mpf("3.01"),
        {"float": 5, "double": 6},
        lambda y: y ** (mpf(1) / 3),
    ),
}
"""By function and table field; "float" after the name: for float32 computed in double."""


def coefficients(name: str, scalar: str) -> tuple[list[float], float]:
    """Fit one polynomial; return it and log2 of its error."""
    wanted = FITS[name]
    fixed: list[mpf] = []
    if name == "erfc.ratio double":  # the first coefficient is kept in two parts
        fixed = [mpf(1.2329951186255526) + mpf(-5.1167166108437585e-17)]
    careful = 5 if scalar == "double" else 99
    return fit(
        wanted.function,
        wanted.low,
        wanted.high,
        wanted.counts[scalar],
        scalar,
        wanted.weight,
        fixed=fixed,
        careful=careful,
    )


def main(parts: list[str], write: Callable[[str], object]) -> None:
    """Fit and print the chosen polynomials."""
    for name, wanted in FITS.items():
        if parts and not any(part in name for part in parts):
            continue
        for scalar in wanted.counts:
            found, error = coefficients(name, scalar)
            write(f"{name} {scalar}: 2^{error:.2f}\n    {found}\n")


if __name__ == "__main__":
    main(sys.argv[1:], sys.stdout.write)
