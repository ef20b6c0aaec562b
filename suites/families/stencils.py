"""Neighbours combined by shifted slices: views of one array, read several times."""

from typing import Any

import numpy as np

from fuser.suites.workload import Arguments, Array, Workload, normal, side

FAMILY = "stencil by slices"


def difference(x: Array) -> Any:
    """Forward difference over a step of 0.01."""
    return (x[1:] - x[:-1]) * 100.0


def laplacian(u: Array) -> Any:
    """The five-point Laplacian (Abramowitz and Stegun 25.3.30), step 1."""
    return (
        u[:-2, 1:-1] + u[2:, 1:-1] + u[1:-1, :-2] + u[1:-1, 2:] - 4 * u[1:-1, 1:-1]
    )


def heat_step(u: Array, conductivity: Array) -> Any:
    """One explicit step of the heat equation in a plane; the edge is left out."""
    centre = u[1:-1, 1:-1]
    flow = u[:-2, 1:-1] + u[2:, 1:-1] + u[1:-1, :-2] + u[1:-1, 2:] - 4 * centre
    return centre + 0.2 * conductivity[1:-1, 1:-1] * flow


def _line(elements: int, dtype: "np.dtype[Any]", generator: np.random.Generator) -> Arguments:
    return (normal(generator, max(2, elements), dtype),)


def _planes(count: int) -> Any:
    """Return a maker of `count` square arrays, at least 3 by 3."""

    def make(elements: int, dtype: "np.dtype[Any]", generator: np.random.Generator) -> Arguments:
        shape = (max(3, side(elements)), max(3, side(elements)))
        return tuple(normal(generator, shape, dtype) for _ in range(count))

    return make


WORKLOADS = (
    Workload("difference", FAMILY, "neighbouring differences of a vector", difference, _line),
    Workload(
        "laplacian", FAMILY, "the five-point Laplacian of a plane", laplacian, _planes(1),
        quick=True,
    ),
    Workload("heat_step", FAMILY, "one explicit step of diffusion", heat_step, _planes(2)),
)
