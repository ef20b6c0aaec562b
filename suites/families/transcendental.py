"""Formulas whose arithmetic is elementary functions."""

from typing import Any

import numpy as np

from fuser.suites.workload import HEAVY_SIZES, Array, Workload, normals, uniforms

FAMILY = "transcendental"
RISK_FREE_RATE = 0.02
VOLATILITY = 0.3


def law_of_cosines(a: Array, b: Array, c: Array) -> Any:
    """From numexpr's bench/large_array: the squared third side of a triangle."""
    return a**2 + b**2 - 2 * a * b * np.cos(c)


def wave_times_decay(x: Array, y: Array) -> Any:
    """sin^2 plus cos times exp: three elementary functions of two arrays."""
    return np.sin(x) ** 2 + np.cos(x) * np.exp(y)


def cos_sin_chain(x: Array) -> Any:
    """NVIDIA/Fuser's host-overhead benchmark: x = cos x + sin x, 22 times."""
    for _ in range(22):
        x = np.cos(x) + np.sin(x)
    return x


def sine_and_log_root(a: Array, b: Array, c: Array) -> Any:
    """From numexpr's bench/large_array: sin a + log b sqrt c."""
    return np.sin(a) + np.log(b) * np.sqrt(c)


def exp_tan_sinh(a: Array, b: Array, c: Array) -> Any:
    """From numexpr's bench/large_array: exp a + tan b - sinh c."""
    return np.exp(a) + np.tan(b) - np.sinh(c)


def angle_sum(a: Array, b: Array) -> Any:
    """From numexpr's bench/timing.py: 2a + arctan2(a, b)."""
    return 2 * a + np.arctan2(a, b)


def sine_powers(x: Array, y: Array) -> Any:
    """From numexpr's bench/vml_timing2: sin(x)^3.2 + cos(y)^3.2."""
    return np.sin(x) ** 3.2 + np.cos(y) ** 3.2


def softplus_ratio(x: Array, y: Array) -> Any:
    """From numexpr's bench/vml_timing: log(exp(x) + 1) / y."""
    return np.log(np.exp(x) + 1) / y


def great_circle(latitude: Array, longitude: Array) -> Any:
    """Haversine distance from one place: Sinnott, Sky and Telescope 68(2), 1984; in km."""
    half = np.sin(0.5 * (latitude - 0.9)) ** 2
    turned = np.sin(0.5 * (longitude - 0.2)) ** 2
    return 12742.0 * np.arcsin(np.sqrt(half + np.cos(latitude) * 0.6216099682706644 * turned))


def _normal_distribution(x: Array) -> Any:
    """Abramowitz and Stegun, Handbook of Mathematical Functions, 26.2.17 (error below 7.5e-8)."""
    k = 1 / (1 + 0.2316419 * np.abs(x))
    series = k * (0.319381530 + k * (-0.356563782 + k * (1.781477937 + k * (
        -1.821255978 + k * 1.330274429))))
    upper = 0.3989422804014327 * np.exp(-0.5 * x * x) * series
    return np.where(x > 0, 1 - upper, upper)


def black_scholes(spot: Array, strike: Array, years: Array) -> Any:
    """Black and Scholes, J. Political Economy 81(3), 1973: call and put of a European option."""
    root = np.sqrt(years)
    drift = (RISK_FREE_RATE + 0.5 * VOLATILITY * VOLATILITY) * years
    d1 = (np.log(spot / strike) + drift) / (VOLATILITY * root)
    d2 = d1 - VOLATILITY * root
    discounted = strike * np.exp(-RISK_FREE_RATE * years)
    n1, n2 = _normal_distribution(d1), _normal_distribution(d2)
    call = spot * n1 - discounted * n2
    put = discounted * (1 - n2) - spot * (1 - n1)
    return call, put


def rambo(c: Array, f: Array, q: Array) -> Any:
    """Massless particles in phase space: Kleiss, Stirling, Ellis, Comp. Phys. Comm. 40, 1986."""
    cosine = 2 * c - 1
    sine = np.sqrt(1 - cosine * cosine)
    angle = 2 * np.pi * f
    energy = -np.log(q)
    return energy, energy * sine * np.sin(angle), energy * sine * np.cos(angle), energy * cosine


WORKLOADS = (
    Workload(
        "law_of_cosines", FAMILY, "the squared third side of a triangle", law_of_cosines,
        normals(3), sizes=HEAVY_SIZES,
    ),
    Workload(
        "wave_times_decay", FAMILY, "sin squared plus cos times exp", wave_times_decay,
        normals(2), sizes=HEAVY_SIZES, quick=True, tolerance_eps=32,
    ),
    Workload(
        "cos_sin_chain", FAMILY, "cos plus sin, 22 times over: 66 operations", cos_sin_chain,
        normals(1), sizes=HEAVY_SIZES, tolerance_eps=256,
    ),
    Workload(
        "sine_and_log_root", FAMILY, "sin plus log times root", sine_and_log_root,
        uniforms((-3.0, 3.0), (0.1, 10.0), (0.0, 10.0)),
    ),
    Workload(
        "exp_tan_sinh", FAMILY, "exp plus tan minus sinh", exp_tan_sinh,
        uniforms((-2.0, 2.0), (-1.2, 1.2), (-2.0, 2.0)), tolerance_eps=32,
    ),
    Workload(
        "black_scholes", FAMILY, "call and put of European options", black_scholes,
        uniforms((10.0, 50.0), (10.0, 50.0), (1.0, 2.0)), sizes=HEAVY_SIZES,
        quick=True, tolerance_eps=128,
    ),
    Workload(
        "angle_sum", FAMILY, "twice a number plus an angle", angle_sum, normals(2),
        sizes=HEAVY_SIZES,
    ),
    Workload(
        "sine_powers", FAMILY, "powers of sine and cosine", sine_powers,
        uniforms((0.1, 1.5), (0.0, 1.4)), sizes=HEAVY_SIZES, tolerance_eps=64,
    ),
    Workload(
        "softplus_ratio", FAMILY, "log of exp plus one, over another array", softplus_ratio,
        uniforms((-3.0, 3.0), (0.5, 2.0)), sizes=HEAVY_SIZES, tolerance_eps=32,
    ),
    Workload(
        "great_circle", FAMILY, "distances on a sphere", great_circle,
        uniforms((-1.2, 1.2), (-2.0, 2.0)), sizes=HEAVY_SIZES, tolerance_eps=64,
    ),
    Workload(
        "rambo", FAMILY, "four-momenta of random particles: four outputs", rambo,
        uniforms((0.0, 1.0), (0.0, 1.0), (0.01, 1.0)), sizes=HEAVY_SIZES, tolerance_eps=64,
    ),
)
