"""Iterative solvers: loops that end when the data says so."""

from functools import partial
from typing import Any

import numpy as np

from fuser.suites.workload import (
    Arguments,
    Array,
    Workload,
    drawn,
    given,
    normal,
    side,
    sizes_of,
    square,
    uniform,
)

FAMILY = "iterative solvers"
SETTLED = 1e-9 / np.finfo(np.float64).eps
"""The tolerance where the number of iterations may differ by one: residuals end near 1e-10."""


def newton_cube_root(x: Array, tolerance: float) -> Any:
    """Newton's method on every element until no element moves any more."""
    root = 0.5 * (x + 1)
    change = 1.0
    while change > tolerance:
        better = (2 * root + x / (root * root)) / 3
        change = np.max(np.abs(better - root))
        root = better
    return root


def conjugate_gradients(half: Array, b: Array, tolerance: float, most: int) -> Any:
    """The positive definite system 3 I + H + H', until the residual is small."""
    x = np.zeros_like(b)
    residual, direction = b.copy(), b.copy()
    squared = residual @ residual
    for _ in range(most):
        image = 3 * direction + half @ direction + direction @ half
        step = squared / (direction @ image)
        x = x + step * direction
        residual = residual - step * image
        squared_now = residual @ residual
        if np.sqrt(squared_now) < tolerance:
            break
        direction = residual + (squared_now / squared) * direction
        squared = squared_now
    return x


def power_iteration(a: Array, start: Array, tolerance: float, most: int) -> Any:
    """The largest eigenvalue of a symmetric matrix and its vector."""
    vector = start / np.sqrt(np.sum(start * start))
    value = 0.0
    for _ in range(most):
        image = a @ vector
        new = vector @ image
        vector = image / np.sqrt(np.sum(image * image))
        if abs(new - value) < tolerance:
            break
        value = new
    return value


def jacobi_solver(a: Array, b: Array, tolerance: float, most: int) -> Any:
    """A diagonally dominant system; every component from the others of the last turn."""
    diagonal = np.diag(a)
    rest = a - np.diag(diagonal)
    x = np.zeros_like(b)
    for _ in range(most):
        new = (b - rest @ x) / diagonal
        if np.linalg.norm(new - x) < tolerance:
            return new
        x = new
    return x


def poisson(source: Array, tolerance: float, most: int) -> Any:
    """Damped Poisson equation on a square by Jacobi's method, until no point moves."""
    u = np.zeros_like(source)
    for _ in range(most):
        new = u.copy()
        new[1:-1, 1:-1] = (
            u[:-2, 1:-1] + u[2:, 1:-1] + u[1:-1, :-2] + u[1:-1, 2:] + source[1:-1, 1:-1]
        ) / 5
        if np.max(np.abs(new - u)) < tolerance:
            return new
        u = new
    return u


def line_search(target: Array, weight: Array, most: int) -> Any:
    """Gradient descent with backtracking (Armijo, 1966): steps are halved until they help."""
    x = np.zeros_like(target)
    for _ in range(most):
        off = x - target
        value = np.sum(weight * off * off)
        gradient = 2 * weight * off
        slope = np.sum(gradient * gradient)
        if slope < 1e-20:
            break
        step = 1.0
        while np.sum(weight * (off - step * gradient) ** 2) > value - 0.3 * step * slope:
            step = 0.5 * step
        x = x - step * gradient
    return x


def k_means(points: Array, centres: Array, steps: int) -> Any:
    """Points to their nearest centre, centres to the mean of their points (Lloyd, 1957)."""
    centres = centres.copy()
    for _ in range(steps):
        distance = np.sum((points[:, None, :] - centres[None, :, :]) ** 2, axis=2)
        nearest = np.argmin(distance, axis=1)
        for k in range(centres.shape[0]):
            mine = nearest == k
            if mine.any():
                centres[k] = np.mean(points[mine], axis=0)
    return centres


def escape_time(real: Array, imaginary: Array, most: int) -> Any:
    """After how many turns z^2 + c has left the circle, for all c that are still in it."""
    x, y = np.zeros_like(real), np.zeros_like(imaginary)
    count = np.zeros(real.shape, np.int64)
    for _ in range(most):
        inside = x * x + y * y <= 4.0
        if not np.any(inside):
            break
        count = count + inside
        x, y = (
            np.where(inside, x * x - y * y + real, x), np.where(inside, 2 * x * y + imaginary, y)
        )
    return count


def clip_by_norm(gradient: Array, most: float) -> Any:
    """A gradient cut to a norm where it is longer, as trainers do it."""
    norm = float(np.sqrt(np.sum(gradient * gradient)))
    if norm > most:
        gradient = gradient * (most / norm)
    return gradient


def _dominant(
    elements: int, dtype: "np.dtype[Any]", generator: np.random.Generator
) -> tuple[Array, Array]:
    """Return a symmetric matrix whose diagonal dominates, and a right side."""
    count = max(2, side(elements))
    half = uniform(generator, (count, count), dtype, 0.0, 1.0)
    return (half + half.T) / count + 3 * np.eye(count, dtype=dtype), normal(generator, count, dtype)


def _system(elements: int, dtype: "np.dtype[Any]", generator: np.random.Generator) -> Arguments:
    return (*_dominant(elements, dtype, generator), 1e-10, 100)


def _half(elements: int, dtype: "np.dtype[Any]", generator: np.random.Generator) -> Arguments:
    """A matrix of small elements: what is made of it is definite, in whatever order they are."""
    count = max(2, side(elements))
    half = uniform(generator, (count, count), dtype, 0.0, 1.0) / count
    return half, normal(generator, count, dtype), 1e-10, 100


def _symmetric(elements: int, dtype: "np.dtype[Any]", generator: np.random.Generator) -> Arguments:
    matrix, _ = _dominant(elements, dtype, generator)
    return matrix, uniform(generator, len(matrix), dtype, 0.5, 1.0), 1e-11, 200


def _points(elements: int, dtype: "np.dtype[Any]", generator: np.random.Generator) -> Arguments:
    count = max(8, elements // 2)
    points = normal(generator, (count, 2), dtype)
    return points, points[:8].copy(), 6


DOUBLE = ("float64",)
WORKLOADS = (
    Workload(
        "newton_cube_root", FAMILY, "Newton until nothing moves", newton_cube_root,
        given(drawn(uniform, 0.5, 4.0), 1e-6),
        sizes=sizes_of(4_000, 400_000, 4_000_000), dtypes=DOUBLE, tolerance_eps=SETTLED,
    ),
    Workload(
        "conjugate_gradients", FAMILY, "a residual test ends it", conjugate_gradients, _half,
        sizes=sizes_of(4_096, 1_048_576, 4_194_304), dtypes=DOUBLE, tolerance_eps=SETTLED,
    ),
    Workload(
        "power_iteration", FAMILY, "the largest eigenvalue", power_iteration, _symmetric,
        sizes=sizes_of(4_096, 1_048_576, 4_194_304), dtypes=DOUBLE, tolerance_eps=SETTLED,
    ),
    Workload(
        "jacobi_solver", FAMILY, "a dominant diagonal, residual test", jacobi_solver, _system,
        sizes=sizes_of(4_096, 1_048_576, 4_194_304), dtypes=DOUBLE, tolerance_eps=SETTLED,
    ),
    Workload(
        "poisson", FAMILY, "a plane, until no point moves", poisson,
        given(drawn(normal, shape=partial(square, least=3)), 1e-10, 200),
        sizes=sizes_of(4_096, 65_536, 1_048_576), dtypes=DOUBLE, tolerance_eps=SETTLED,
    ),
    Workload(
        "line_search", FAMILY, "descent, steps halved until they help", line_search,
        given(drawn(normal), drawn(uniform, 0.5, 1.5), 40),
        sizes=sizes_of(4_000, 100_000, 1_000_000), dtypes=DOUBLE, tolerance_eps=SETTLED,
        reduced=int,
    ),
    Workload(
        "k_means", FAMILY, "points to centres, centres to points", k_means, _points,
        sizes=sizes_of(4_000, 100_000, 1_000_000), dtypes=DOUBLE, tolerance_eps=1024,
        reduced=int, reference="same",
    ),
    Workload(
        "escape_time", FAMILY, "Mandelbrot's set with an early end", escape_time,
        given(drawn(uniform, -2.0, 0.6), drawn(uniform, -1.2, 1.2), 40),
        sizes=sizes_of(4_000, 200_000, 2_000_000), dtypes=DOUBLE,
    ),
    Workload(
        "clip_by_norm", FAMILY, "a gradient cut to a norm", clip_by_norm, given(drawn(normal), 1.0),
        sizes=sizes_of(4_000, 1_000_000, 8_000_000), dtypes=("float64", "float32"),
        reduced=int,
    ),
)
