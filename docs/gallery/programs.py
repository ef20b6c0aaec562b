"""The programs of the gallery: plain NumPy functions, what they are called with, and a picture.

Each function stands as a user would write it; `make.py` times it plain and fused, and draws it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

RANDOM = np.random.default_rng(2024)


@dataclass(frozen=True)
class Program:
    """One entry.

    Attributes:
        title: what it computes.
        area: where such code is found.
        says: one or two sentences about it.
        function: plain NumPy.
        arguments: makes its arguments, from a length.
        length: of the timed call; pictures have their own.
        drawn: the length of the picture's call.
        picture: what of the result is drawn, and how: an image, or lines.
    """

    title: str
    area: str
    says: str
    function: Callable[..., Any]
    arguments: Callable[[int], tuple[Any, ...]]
    length: int
    drawn: int
    picture: Callable[[Any, tuple[Any, ...]], Mapping[str, Any]] = field(
        default=lambda result, _: {"image": result}
    )


def landscape(n: int) -> np.ndarray:
    """Hills: a sum of waves, float32[n, n], metres."""
    y, x = np.mgrid[0:n, 0:n].astype("float32") / n
    hills = np.zeros((n, n), "float32")
    for k, (across, along, shift) in enumerate([(3, 2, 0), (-4, 5, 1), (9, 7, 2), (13, -11, 4)], 1):
        hills += np.sin(across * x + shift) * np.cos(along * y - shift * x) / k
    return (600 * hills).astype("float32")


def sharpen(image, amount):
    blurred = (
        image[:-2, 1:-1] + image[2:, 1:-1] + image[1:-1, :-2] + image[1:-1, 2:]
        + 4 * image[1:-1, 1:-1]
    ) / 8
    centre = image[1:-1, 1:-1]
    return np.clip(centre + amount * (centre - blurred), 0, 1)


def edges(image):
    across = (
        image[:-2, 2:] - image[:-2, :-2] + 2 * (image[1:-1, 2:] - image[1:-1, :-2])
        + image[2:, 2:] - image[2:, :-2]
    )
    along = (
        image[2:, :-2] - image[:-2, :-2] + 2 * (image[2:, 1:-1] - image[:-2, 1:-1])
        + image[2:, 2:] - image[:-2, 2:]
    )
    return np.sqrt(across * across + along * along)


def tone_map(light, exposure):
    scaled = light * exposure
    compressed = scaled * (1 + scaled / 16) / (1 + scaled)
    return np.where(
        compressed <= 0.0031308, 12.92 * compressed, 1.055 * compressed ** (1 / 2.4) - 0.055
    )


def black_scholes(spot, strike, years, rate, volatility):
    deviation = volatility * np.sqrt(years)
    up = (np.log(spot / strike) + (rate + 0.5 * volatility**2) * years) / deviation
    down = up - deviation

    def normal(z):  # a formula of Abramowitz and Stegun, 7.1.26
        t = 1 / (1 + 0.3275911 * np.abs(z) / np.sqrt(2))
        tail = t * (0.254829592 + t * (-0.284496736 + t * (
            1.421413741 + t * (-1.453152027 + t * 1.061405429))))
        half = 0.5 * tail * np.exp(-z * z / 2)
        return np.where(z < 0, half, 1 - half)

    return spot * normal(up) - strike * np.exp(-rate * years) * normal(down)


def payoff(spot, strike, rate, volatility, years, draws):
    final = spot * np.exp(
        (rate - 0.5 * volatility**2) * years + volatility * np.sqrt(years) * draws
    )
    return np.exp(-rate * years) * np.maximum(final - strike, 0).mean()


def waves(now, before, speed, steps):
    now, before = now.copy(), before.copy()
    for _ in range(steps):
        after = np.zeros_like(now)
        after[1:-1, 1:-1] = (
            2 * now[1:-1, 1:-1] - before[1:-1, 1:-1]
            + speed * (now[2:, 1:-1] + now[:-2, 1:-1] + now[1:-1, 2:] + now[1:-1, :-2]
                       - 4 * now[1:-1, 1:-1])
        )
        before, now = now, after
    return now


def react(u, v, feed, kill, steps):
    for _ in range(steps):
        lu = (np.roll(u, 1, 0) + np.roll(u, -1, 0) + np.roll(u, 1, 1) + np.roll(u, -1, 1) - 4 * u)
        lv = (np.roll(v, 1, 0) + np.roll(v, -1, 0) + np.roll(v, 1, 1) + np.roll(v, -1, 1) - 4 * v)
        reaction = u * v * v
        u = u + 0.16 * lu - reaction + feed * (1 - u)
        v = v + 0.08 * lv + reaction - (feed + kill) * v
    return v


def mandelbrot(c, steps):
    z = np.zeros_like(c)
    count = np.zeros(c.shape, np.int32)
    for _ in range(steps):
        inside = z.real * z.real + z.imag * z.imag < 4
        z = np.where(inside, z * z + c, z)
        count = count + inside
    return count


def density(grid, samples, width):
    distance = (grid[:, None] - samples) / width
    kernel = np.exp(-0.5 * distance * distance) / np.sqrt(2 * np.pi)
    return kernel.mean(axis=1) / width


def standardise(table):
    centred = table - table.mean(axis=0)
    scaled = centred / np.sqrt((centred * centred).mean(axis=0) + 1e-6)
    return np.clip(scaled, -3, 3)


def cross_entropy(scores, wanted):
    shifted = scores - scores.max(axis=1, keepdims=True)
    log_sum = np.log(np.exp(shifted).sum(axis=1))
    return (log_sum - (shifted * wanted).sum(axis=1)).mean()


def adam(weights, slope, mean, square, rate, step):
    mean *= 0.9
    mean += 0.1 * slope
    square *= 0.999
    square += 0.001 * slope * slope
    weights -= rate * (mean / (1 - 0.9**step)) / (np.sqrt(square / (1 - 0.999**step)) + 1e-8)
    return weights


def hillshade(height, cell, azimuth, altitude):
    east = (height[1:-1, 2:] - height[1:-1, :-2]) / (2 * cell)
    north = (height[2:, 1:-1] - height[:-2, 1:-1]) / (2 * cell)
    slope = np.arctan(np.sqrt(east * east + north * north))
    aspect = np.arctan2(north, -east)
    light = (
        np.sin(altitude) * np.cos(slope)
        + np.cos(altitude) * np.sin(slope) * np.cos(azimuth - aspect)
    )
    return np.clip(light, 0, 1)


def distance(latitude, longitude, from_latitude, from_longitude):
    a = np.radians(latitude)
    b = np.radians(from_latitude)
    across = np.radians(longitude - from_longitude)
    half = np.sin((a - b) / 2) ** 2 + np.cos(a) * np.cos(b) * np.sin(across / 2) ** 2
    return 2 * 6371.0 * np.arcsin(np.sqrt(half))


def bell(seconds, pitch):
    strength = np.exp(-3 * seconds)
    modulation = 4 * strength * np.sin(2 * np.pi * 1.4 * pitch * seconds)
    sound = strength * np.sin(2 * np.pi * pitch * seconds + modulation)
    return np.tanh(1.5 * sound)


def _picture_of_light(n: int) -> np.ndarray:
    y, x = np.mgrid[0:n, 0:n].astype("float32") / n - 0.5
    sun = 40 * np.exp(-60 * ((x - 0.2) ** 2 + (y + 0.2) ** 2))
    return (0.05 + 0.4 * np.abs(np.sin(12 * x) * np.cos(9 * y)) + sun).astype("float32")


def _drop(n: int) -> tuple[Any, ...]:
    y, x = np.mgrid[0:n, 0:n].astype("float32") / n - 0.5
    places = ((-0.15, 0.0), (0.2, 0.1))
    drops = [np.exp(-900 * ((x - a) ** 2 + (y - b) ** 2)) for a, b in places]
    start = sum(drops).astype("float32")
    return start, start, 0.25, 100


def _spots(n: int) -> tuple[Any, ...]:
    u, v = np.ones((n, n), "float32"), np.zeros((n, n), "float32")
    for _ in range(max(4, n // 12)):
        i, j = RANDOM.integers(4, n - 10, 2)
        u[i : i + 6, j : j + 6], v[i : i + 6, j : j + 6] = 0.5, 0.25
    return u, v, 0.035, 0.062, 2000 if n < 256 else 20


def _plane(n: int) -> tuple[Any, ...]:
    y, x = np.mgrid[-1.2 : 1.2 : n * 1j, -2.1 : 0.6 : n * 1j]
    return (x + 1j * y), 50


def _samples(n: int) -> np.ndarray:
    return np.concatenate([RANDOM.normal(-1, 0.5, n // 2), RANDOM.normal(1.2, 0.8, n - n // 2)])


def _scores(n: int) -> tuple[Any, ...]:
    scores = RANDOM.normal(size=(n, 100)).astype("float32")
    wanted = np.eye(100, dtype="float32")[RANDOM.integers(0, 100, n)]
    return scores, wanted


def _weights(n: int) -> tuple[Any, ...]:
    weights, slope = RANDOM.normal(size=(2, n)).astype("float32")
    return weights, slope, np.zeros(n, "float32"), np.zeros(n, "float32"), 0.01, 3


def _world(n: int) -> tuple[Any, ...]:
    latitude = np.linspace(80, -80, n, dtype="float32")[:, None]
    longitude = np.linspace(-180, 180, 2 * n, dtype="float32")[None, :]
    return latitude, longitude, 52.5, 13.4


def _lines(x: Any, y: Any, xlabel: str, ylabel: str) -> dict[str, Any]:
    return {"x": x, "y": y, "xlabel": xlabel, "ylabel": ylabel}


def _grey(result: Any, _: Any) -> dict[str, Any]:
    return {"image": result, "colours": "gray"}


PROGRAMS = (
    Program(
        "Sharpen a photograph", "images",
        "What a pixel has more than its neighbours is added to it. Five shifted views of one image "
        "are read once.",
        sharpen, lambda n: (np.clip(_picture_of_light(n), 0, 1), 1.5), 2048, 220, _grey,
    ),
    Program(
        "Find edges", "images",
        "Sobel's operator: two differences, and the length of both together.",
        edges, lambda n: (landscape(n) / 600,), 2048, 220, _grey,
    ),
    Program(
        "Show bright and dark at once", "images",
        "Light of any brightness becomes what a screen can show: a curve, then the sRGB one, whose "
        "two branches are a `np.where`.",
        tone_map, lambda n: (_picture_of_light(n), 0.8), 2048, 220, _grey,
    ),
    Program(
        "Price options", "finance",
        "The formula of Black and Scholes for every pair of price and time. The helper function is "
        "part of the kernel.",
        black_scholes,
        lambda n: (np.linspace(60, 140, n)[:, None], 100.0, np.linspace(0.05, 2, n), 0.03, 0.25),
        1024, 160,
    ),
    Program(
        "Price an option by chance", "finance",
        "A mean over random final prices: one pass, and no array of prices is ever stored.",
        payoff, lambda n: (100.0, 100.0, 0.03, 0.25, 1.0, RANDOM.normal(size=n)), 4_000_000, 400,
        lambda result, a: _lines(
            np.sort(a[5]), np.maximum(100 * np.exp(-0.00125 + 0.25 * np.sort(a[5])) - 100, 0),
            "random draw", "payoff"
        ),
    ),
    Program(
        "Waves on water", "physics",
        "A hundred steps of the wave equation: the loop is one loop region, its arrays change "
        "places at each step.",
        waves, _drop, 512, 220,
    ),
    Program(
        "Spots that grow", "physics",
        "Two substances react and diffuse (Gray and Scott). Rolled arrays are read where they lie.",
        react, _spots, 512, 160,
    ),
    Program(
        "The Mandelbrot set", "physics",
        "Complex numbers in a loop; what has escaped stays as it is.",
        mandelbrot, _plane, 512, 260,
    ),
    Program(
        "Estimate a density", "statistics",
        "A mean over all samples for each point of a grid: NumPy stores a table of grid times "
        "samples four times, the kernel never.",
        density, lambda n: (np.linspace(-4, 4, 256), _samples(n), 0.2), 20_000, 2000,
        lambda result, a: _lines(a[0], result, "value", "density"),
    ),
    Program(
        "Standardise a table", "statistics",
        "Each column gets mean 0 and deviation 1, and outliers are cut off.",
        standardise, lambda n: (RANDOM.normal(1, 3, size=(n, 50)).astype("float32"),), 40_000, 120,
    ),
    Program(
        "The loss of a classifier", "machine learning",
        "Softmax and cross-entropy, with the maximum taken off first so that nothing overflows.",
        cross_entropy, _scores, 20_000, 60,
        lambda result, a: {"image": a[0][:, :60]},
    ),
    Program(
        "A step of Adam", "machine learning",
        "Three arrays are updated in place: one kernel reads and writes each of them once.",
        adam, _weights, 2_000_000, 300,
        lambda result, a: _lines(np.arange(300), result, "weight", "value"),
    ),
    Program(
        "Shade a map of hills", "geography",
        "Slope and direction of the ground against the sun's.",
        hillshade, lambda n: (landscape(n), 2200.0 / n, 2.3, 0.8), 2048, 220, _grey,
    ),
    Program(
        "Distances over the globe", "geography",
        "The haversine formula from one city to every point of a map; a column and a row make it.",
        distance, _world, 1024, 160,
    ),
    Program(
        "The sound of a bell", "audio",
        "One tone bends another (frequency modulation), and a soft limit warms it.",
        bell, lambda n: (np.linspace(0, n / 44100, n, dtype="float32"), 220.0), 2_000_000, 2000,
        lambda result, a: _lines(a[0], result, "seconds", "level"),
    ),
)
