"""All pairs of two sets, reduced at once: the product of the sets need never be in memory."""

from typing import Any

import numpy as np

from fuser.suites.workload import Arguments, Array, Workload, drawn, given, side, uniform

FAMILY = "broadcast then reduce"
SOFTENING = 0.01
COMPONENTS = 16
SIZES = {"S": 128 * 128, "M": 1024 * 1024, "L": 4096 * 4096}
"""Pairs: NumPy makes an array of several numbers for each."""


def pairwise_distance(x: Array, y: Array) -> Any:
    """dpbench's pairwise_distance: Euclidean distances of two sets of points in space."""
    difference = x[:, np.newaxis, :] - y[np.newaxis, :, :]
    return np.sqrt(np.sum(difference * difference, axis=-1))


def nearest_centre(points: Array, centres: Array) -> Any:
    """Lloyd's k-means step (IEEE Trans. Inf. Theory 28(2), 1982): nearest centre and distance."""
    difference = points[:, np.newaxis, :] - centres[np.newaxis, :, :]
    distance = np.sum(difference * difference, axis=-1)
    return np.argmin(distance, axis=-1), np.min(distance, axis=-1)


def gravity(x: Array, y: Array, z: Array, mass: Array) -> Any:
    """Accelerations of n bodies under softened gravity: Aarseth, 1963. Three sums over n."""
    to_x = x[np.newaxis, :] - x[:, np.newaxis]
    to_y = y[np.newaxis, :] - y[:, np.newaxis]
    to_z = z[np.newaxis, :] - z[:, np.newaxis]
    squared = to_x * to_x + to_y * to_y + to_z * to_z + SOFTENING
    pull = mass[np.newaxis, :] / (squared * np.sqrt(squared))
    return np.sum(to_x * pull, axis=1), np.sum(to_y * pull, axis=1), np.sum(to_z * pull, axis=1)


def mixture_likelihood(x: Array, mean: Array, scale: Array, weight: Array) -> Any:
    """The log likelihood of numbers under a mixture of Gaussians: a log sum exp by number."""
    z = (x[:, np.newaxis] - mean) / scale
    terms = weight - 0.5 * z * z - np.log(scale)
    largest = np.max(terms, axis=-1)
    return largest + np.log(np.sum(np.exp(terms - largest[:, np.newaxis]), axis=-1))


def kernel_density(x: Array, samples: Array) -> Any:
    """Parzen, Ann. Math. Statist. 33(3), 1962: the mean Gaussian of all samples at each x."""
    z = (x[:, np.newaxis] - samples) * 4.0
    return np.mean(np.exp(-0.5 * z * z), axis=-1) * 1.5957691216057308


def _points(elements: int, dimensions: int) -> tuple[int, int]:
    # the largest array of the call is the result: `elements` counts it here
    return side(elements), dimensions


_two_sets = given(drawn(uniform, 0.0, 1.0, shape=_points), drawn(uniform, 1.5, 2.5, shape=_points))
"""Apart: a distance near zero has lost its digits in any order of operations."""


def _points_and_centres(
    elements: int, dtype: "np.dtype[Any]", generator: np.random.Generator, dimensions: int = 3
) -> Arguments:
    # whole numbers: their distances are exact, and the nearest centre is the same in any dtype
    points = generator.integers(-50, 50, (max(1, elements // COMPONENTS), dimensions))
    centres = generator.integers(-50, 50, (COMPONENTS, dimensions))
    return points.astype(dtype), centres.astype(dtype)


_bodies = given(*[drawn(uniform, -1.0, 1.0, shape=side)] * 3, drawn(uniform, 0.5, 1.5, shape=side))


def _component(low: float, high: float) -> Any:
    return drawn(uniform, low, high, shape=lambda _: COMPONENTS)


_mixture = given(
    drawn(uniform, -3.0, 3.0, shape=lambda elements: max(1, elements // COMPONENTS)),
    _component(-3.0, 3.0), _component(0.5, 1.0), _component(-3.0, -2.0),
)  # fmt: skip
_numbers_and_samples = given(*[drawn(uniform, -1.0, 1.0, shape=side)] * 2)


NOTE = "The size counts pairs: the product of the two sets, which is no array of the call."

WORKLOADS = (
    Workload(
        "pairwise_distance", FAMILY, "distances of all pairs of points", pairwise_distance,
        _two_sets, sizes=SIZES, axes={"dimensions": (3, 8, 64)}, quick=True, note=NOTE,
    ),
    Workload(
        "nearest_centre", FAMILY, "the nearest of sixteen centres", nearest_centre,
        _points_and_centres, sizes=SIZES, axes={"dimensions": (3, 8, 64)}, note=NOTE,
    ),
    Workload(
        "gravity", FAMILY, "accelerations of n bodies: three sums over all pairs", gravity,
        _bodies, sizes=SIZES, reduced=side, tolerance_eps=128, note=NOTE,
    ),
    Workload(
        "mixture_likelihood", FAMILY, "the likelihood of a mixture of sixteen Gaussians",
        mixture_likelihood, _mixture, sizes=SIZES, tolerance_eps=64, note=NOTE,
    ),
    Workload(
        "kernel_density", FAMILY, "a density from samples: the mean of all pairs' Gaussians",
        kernel_density, _numbers_and_samples, sizes=SIZES, reduced=side, tolerance_eps=128,
        note=NOTE,
    ),
)
