"""Neighbours combined by shifted slices: views of one array, read several times."""

from functools import partial
from typing import Any

import numpy as np

from fuser.suites.workload import (
    HEAVY_SIZES,
    Array,
    MakeInputs,
    Workload,
    drawn,
    given,
    normal,
    square,
)

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


def advection(u: Array, speed: Array) -> Any:
    """One upwind step (Courant, Isaacson and Rees, 1952) where the wind may turn."""
    forward, backward = u[2:] - u[1:-1], u[1:-1] - u[:-2]
    wind = speed[1:-1]
    return u[1:-1] - 0.4 * (np.maximum(wind, 0) * backward + np.minimum(wind, 0) * forward)


def edge_strength(image: Array) -> Any:
    """The magnitude of Sobel's gradient: eight neighbours, most of them read twice."""
    east = image[:-2, 2:] + 2 * image[1:-1, 2:] + image[2:, 2:]
    west = image[:-2, :-2] + 2 * image[1:-1, :-2] + image[2:, :-2]
    south = image[2:, :-2] + 2 * image[2:, 1:-1] + image[2:, 2:]
    north = image[:-2, :-2] + 2 * image[:-2, 1:-1] + image[:-2, 2:]
    return np.sqrt((east - west) ** 2 + (south - north) ** 2)


def heat_with_edges(u: Array) -> Any:
    """One step of the heat equation: edges are held, the inside is written into a copy."""
    result = u.copy()
    flow = u[:-2, 1:-1] + u[2:, 1:-1] + u[1:-1, :-2] + u[1:-1, 2:] - 4 * u[1:-1, 1:-1]
    result[1:-1, 1:-1] = u[1:-1, 1:-1] + 0.2 * flow
    return result


def wave_with_ends(now: Array, before: Array) -> Any:
    """One step of the wave equation on a string: one end held, the other free."""
    result = np.zeros_like(now)
    result[1:-1] = 2 * now[1:-1] - before[1:-1] + 0.25 * (now[2:] - 2 * now[1:-1] + now[:-2])
    result[-1] = result[-2]
    return result


def _lines(count: int) -> MakeInputs:
    """Return a maker of `count` vectors, of at least 3 elements."""
    return given(*[drawn(normal, shape=partial(max, 3))] * count)


def tracer_step(
    c: Array, u: Array, v: Array, w: Array, mask: Array, mixing: Array, dt: float
) -> Any:
    """One step of a tracer in a flow: limited upwind fluxes, diffusion, and mixing up and down.

    Fluxes through the faces of cells are written into parts of arrays of their own, as ocean models
    have them; nothing flows through a face beside land.
    """
    east, north, up = np.zeros_like(c), np.zeros_like(c), np.zeros_like(c)
    east[:-1] = np.where(u[:-1] > 0.0, c[:-1], c[1:]) * u[:-1] - 0.1 * (c[1:] - c[:-1])
    north[:, :-1] = (
        np.where(v[:, :-1] > 0.0, c[:, :-1], c[:, 1:]) * v[:, :-1] - 0.1 * (c[:, 1:] - c[:, :-1])
    )
    up[:, :, :-1] = np.where(w[:, :, :-1] > 0.0, c[:, :, :-1], c[:, :, 1:]) * w[:, :, :-1]
    up[:, :, :-1] -= mixing[:, :, :-1] * (c[:, :, 1:] - c[:, :, :-1])
    east[:-1] *= mask[1:] * mask[:-1]
    north[:, :-1] *= mask[:, 1:] * mask[:, :-1]
    up[:, :, :-1] *= mask[:, :, 1:] * mask[:, :, :-1]
    change = np.zeros_like(c)
    change[1:-1, 1:-1] = -(east[1:-1, 1:-1] - east[:-2, 1:-1])
    change[1:-1, 1:-1] -= north[1:-1, 1:-1] - north[1:-1, :-2]
    change[:, :, 0] -= up[:, :, 0]
    change[:, :, 1:-1] -= up[:, :, 1:-1] - up[:, :, :-2]
    change[:, :, -1] += up[:, :, -2]
    total = np.zeros_like(c)
    total[...] = c + dt * change
    total[:, :, -1] = np.maximum(total[:, :, -1], 0.0)
    return total, east, north, up


def _planes(count: int) -> MakeInputs:
    """Return a maker of `count` square arrays, at least 3 by 3."""
    return given(*[drawn(normal, shape=partial(square, least=3))] * count)


WORKLOADS = (
    Workload("difference", FAMILY, "neighbouring differences of a vector", difference,
             given(drawn(normal, shape=partial(max, 2)))),
    Workload(
        "laplacian", FAMILY, "the five-point Laplacian of a plane", laplacian, _planes(1),
        quick=True,
    ),
    Workload("heat_step", FAMILY, "one explicit step of diffusion", heat_step, _planes(2)),
    Workload("advection", FAMILY, "one upwind step", advection, _lines(2), sizes=HEAVY_SIZES),
    Workload(
        "edge_strength", FAMILY, "the magnitude of Sobel's gradient", edge_strength, _planes(1),
        sizes=HEAVY_SIZES, tolerance_eps=32,
    ),
    Workload(
        "heat_with_edges", FAMILY, "diffusion with edges that are held", heat_with_edges,
        _planes(1),
    ),
    Workload(
        "wave_with_ends", FAMILY, "a string with one end held and one free", wave_with_ends,
        _lines(2),
    ),
    Workload(
        "tracer_step", FAMILY, "a tracer moved and mixed in a block", tracer_step,
        given(*[drawn(normal, shape=partial(square, least=4, axes=3))] * 6, 0.1),
        sizes=HEAVY_SIZES, tolerance_eps=32,
    ),
)
