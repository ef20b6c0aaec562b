"""Comparisons, selections and clipping."""

from typing import Any

import numpy as np

from fuser.suites.workload import (
    HEAVY_SIZES,
    Arguments,
    Array,
    Workload,
    drawn,
    given,
    normals,
    uniform,
    uniforms,
    whole,
)

FAMILY = "comparisons and where"
ESCAPE_STEPS = 12


def where_odd(a: Array, b: Array) -> Any:
    """From numexpr's bench/timing.py: b + 5 where a is odd, else 2."""
    return np.where(a % 2 != 0, b + 5, 2)


def boolean_mix(i: Array, f: Array) -> Any:
    """From numexpr's bench/boolean_timing.py: (i > 2) | ((f^2 > 3) & ~(i f < 2))."""
    return (i > 2) | ((f**2 > 3) & ~(i * f < 2))


def clip_integers(a: Array, b: Array) -> Any:
    """NPBench's `compute`: np.clip(a, 2, 10) * 4 + b * 3 + 9 on 64-bit integers."""
    return np.clip(a, 2, 10) * 4 + b * 3 + 9


def where_angle(a: Array, b: Array) -> Any:
    """From numexpr's bench/timing.py: where(0.1a > arctan2(a, b), 2a, arctan2(a, b))."""
    angle = np.arctan2(a, b)
    return np.where(0.1 * a > angle, 2 * a, angle)


def mixed_comparison(i: Array, f: Array) -> Any:
    """From numexpr's bench/boolean_timing.py: i f + f f > i."""
    return i * f + f * f > i


def scrambled(key: Array) -> Any:
    """The finaliser of MurmurHash3 (Appleby, 2011): shifts, xor and products that wrap around."""
    key = (key ^ (key >> np.uint32(16))) * np.uint32(0x85EBCA6B)
    key = (key ^ (key >> np.uint32(13))) * np.uint32(0xC2B2AE35)
    return key ^ (key >> np.uint32(16))


def blended_bytes(over: Array, under: Array, opacity: Array) -> Any:
    """Porter and Duff's over (SIGGRAPH 1984) on 8-bit images, rounded, in 16-bit arithmetic."""
    weight = opacity.astype(np.uint16)
    mixed = over * weight + under * (255 - weight) + 127
    return (mixed // 255).astype(np.uint8)


def escape_steps(real: Array, imaginary: Array) -> Any:
    """How many of 12 steps of z^2 + c stay within radius 2 (the Mandelbrot iteration)."""
    x, y = real, imaginary
    inside = x * x + y * y <= 4
    steps = inside.astype(real.dtype)
    for _ in range(ESCAPE_STEPS - 1):
        x, y = np.where(inside, x * x - y * y + real, x), np.where(
            inside, 2 * x * y + imaginary, y
        )
        inside = x * x + y * y <= 4
        steps = steps + inside.astype(real.dtype)
    return steps


def superbee(ratio: Array, velocity: Array) -> Any:
    """Roe's superbee flux limiter (Ann. Rev. Fluid Mech. 18, 1986) times a velocity."""
    limit = np.maximum(np.minimum(1, 2 * ratio), np.minimum(2, ratio))
    return np.abs(velocity) * np.maximum(0, limit)


_integers_and_floats = given(whole(0, 6, np.int32), drawn(uniform, -3.0, 3.0))
_whole_numbers = given(whole(-100, 100), drawn(uniform, -3.0, 3.0))


def _integers(
    elements: int, dtype: "np.dtype[Any]", generator: np.random.Generator
) -> Arguments:
    draw = generator.integers
    return draw(0, 1000, elements, dtype=dtype.type), draw(0, 1000, elements, dtype=dtype.type)


_keys = given(whole(0, 1 << 32, np.uint32))
_images = given(*[whole(0, 256, np.uint8)] * 3)


WORKLOADS = (
    Workload(
        "where_odd", FAMILY, "one of two values by the remainder", where_odd, _whole_numbers,
        sizes=HEAVY_SIZES,
    ),
    Workload("boolean_mix", FAMILY, "six comparisons and logic", boolean_mix, _integers_and_floats),
    Workload(
        "clip_integers", FAMILY, "clip and scale integers", clip_integers, _integers,
        dtypes=("int64", "int32"),
    ),
    Workload(
        "where_angle", FAMILY, "an angle or twice a number", where_angle, normals(2),
        sizes=HEAVY_SIZES,
    ),
    Workload(
        "mixed_comparison", FAMILY, "integers compared with floats", mixed_comparison,
        _integers_and_floats,
    ),
    Workload(
        "scrambled", FAMILY, "a hash of 32-bit keys", scrambled, _keys, dtypes=("uint32",)
    ),
    Workload(
        "blended_bytes", FAMILY, "one 8-bit image over another", blended_bytes, _images,
        dtypes=("uint8",),
    ),
    Workload(
        "escape_steps", FAMILY, "twelve steps of the Mandelbrot iteration", escape_steps,
        uniforms((-2.0, 1.0), (-1.5, 1.5)), sizes=HEAVY_SIZES, reference="same",
        note="A last-bit difference changes the count of steps near the boundary, so the "
        "reference is NumPy in the same dtype, and it must agree exactly.", tolerance_eps=0,
    ),
    Workload(
        "superbee", FAMILY, "a flux limiter: five minima and maxima", superbee, normals(2),
        sizes=HEAVY_SIZES, quick=True,
    ),
)
