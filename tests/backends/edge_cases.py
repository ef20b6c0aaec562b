"""Values at which array operations go wrong, for every dtype, and all their pairings."""

from __future__ import annotations

from functools import cache
from itertools import product
from typing import Any

import numpy as np

Array = np.ndarray[Any, np.dtype[Any]]

#: How many ordinary values follow the pairings; odd, so that no vector length divides the whole.
ORDINARY = 131


@cache
def edge_values(dtype: str) -> Array:
    """Zeros, signs, extremes, subnormals, infinities, NaN, powers of two; no value twice."""
    kind = np.dtype(dtype).kind
    if kind == "b":
        return np.array([False, True])
    return _edge_integers(dtype) if kind in "iu" else _edge_floats(dtype)


def _edge_integers(dtype: str) -> Array:
    """Small numbers, the ends of the range, powers of two and their neighbours."""
    limits = np.iinfo(dtype)
    near_ends = [limits.min, limits.min + 1, limits.min + 2, limits.max - 1, limits.max]
    near_powers = [2**k + step for k in range(3, 64, 5) for step in (-1, 0, 1)]
    powers = [*near_powers, *(-value for value in near_powers)]
    counts = [limits.bits - 1, limits.bits, limits.bits + 1]  # of shifts
    halves = [limits.max // 2, limits.max // 2 + 1]
    wanted = [*range(-8, 11), *near_ends, *powers, *counts, *halves]
    fitting = [value for value in wanted if limits.min <= value <= limits.max]
    return np.array(list(dict.fromkeys(fitting)), dtype)


def _edge_floats(dtype: str) -> Array:
    """Both signs of zeros, ones, halves, ends of the normal and the subnormal range, specials."""
    limits = np.finfo(dtype)
    one = np.dtype(dtype).type(1)
    digits = limits.nmant
    sizes = [
        *(0.0, 0.25, 0.5, 1.0, 1.5, 2.0, 2.5, 3.0, 4.0, 5.0, 10.0, 57.25, 1000.0, 1 / 3),
        *(np.pi / 4, np.pi / 2, np.pi, np.e, np.log(2.0)),
        *(limits.smallest_subnormal, 3 * limits.smallest_subnormal, limits.tiny),
        *(np.nextafter(limits.tiny, limits.tiny * 0), limits.tiny * 2, limits.eps),
        *(np.nextafter(one, one * 2), np.nextafter(one, one * 0)),
        *(2.0 ** (digits - 1) + 0.5, 2.0**digits, 2.0**digits + 1, 2.0 ** (digits + 1)),
        *(limits.max, limits.max / 2, np.sqrt(limits.max), np.sqrt(limits.tiny), np.inf, np.nan),
    ]  # fmt: skip
    with np.errstate(all="ignore"):
        values = np.array(sizes, np.float64).astype(dtype)
    both = np.concatenate([values, -values])
    bits = both.view(f"u{both.itemsize}")
    return bits[np.sort(np.unique(bits, return_index=True)[1])].view(dtype)


def ordinary_values(dtype: str, count: int, seed: int) -> Array:
    """Random values over a few orders of magnitude; integers over the whole range."""
    random = np.random.default_rng(seed)
    kind = np.dtype(dtype).kind
    if kind == "b":
        return random.integers(0, 2, count).astype(bool)
    if kind in "iu":
        limits = np.iinfo(dtype)
        return random.integers(limits.min, limits.max, count, dtype=dtype, endpoint=True)
    sizes = 10.0 ** random.uniform(-3, 2, count)
    values: Array = (sizes * random.choice([-1.0, 1.0], count)).astype(dtype)
    return values


@cache
def edge_cases(dtypes: tuple[str, ...]) -> tuple[Array, ...]:
    """One array an operand: all pairings of edge values, then ordinary values; an odd length."""
    edges = [edge_values(dtype) for dtype in dtypes]
    places = np.array(list(product(*(range(len(values)) for values in edges)))).T
    paired = [values[place] for values, place in zip(edges, places, strict=True)]
    count = ORDINARY + (paired[0].size + ORDINARY + 1) % 2
    return tuple(
        np.concatenate([values, ordinary_values(dtype, count, seed)])
        for seed, (dtype, values) in enumerate(zip(dtypes, paired, strict=True))
    )
