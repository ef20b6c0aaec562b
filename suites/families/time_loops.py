"""Time loops: the same step over and over on arrays, as a program around its kernels."""

from functools import partial
from typing import Any

import numpy as np

from fuser.suites.workload import (
    Arguments,
    Array,
    MakeInputs,
    Workload,
    drawn,
    given,
    normal,
    side,
    sizes_of,
    square,
    uniform,
)

FAMILY = "time loops"
STEPS = 40
EVEN = 20
"""Steps of the cheaper test sizes, too: an argument, so no step count is compiled in."""


def jacobi_1d(a: Array, b: Array, steps: int) -> Any:
    """Two vectors that smooth each other in turns."""
    a, b = a.copy(), b.copy()
    for _ in range(steps):
        b[1:-1] = (a[:-2] + a[1:-1] + a[2:]) / 3
        a[1:-1] = (b[:-2] + b[1:-1] + b[2:]) / 3
    return a, b


def jacobi_2d(u: Array, steps: int) -> Any:
    """Every point becomes the mean of its four neighbours; two planes swap their names."""
    now, after = u.copy(), u.copy()
    for _ in range(steps):
        after[1:-1, 1:-1] = 0.25 * (
            now[:-2, 1:-1] + now[2:, 1:-1] + now[1:-1, :-2] + now[1:-1, 2:]
        )
        now, after = after, now
    return now


def heat_2d(u: Array, conductivity: Array, steps: int) -> Any:
    """Diffusion through a plate whose conductivity differs from place to place, in place."""
    u = u.copy()
    inside = 0.2 * conductivity[1:-1, 1:-1]
    for _ in range(steps):
        flow = u[:-2, 1:-1] + u[2:, 1:-1] + u[1:-1, :-2] + u[1:-1, 2:] - 4 * u[1:-1, 1:-1]
        u[1:-1, 1:-1] += inside * flow
    return u


def heat_3d(u: Array, steps: int) -> Any:
    """Diffusion in a block: second differences along three axes."""
    u = u.copy()
    for _ in range(steps):
        middle = u[1:-1, 1:-1, 1:-1]
        along_x = u[2:, 1:-1, 1:-1] - 2 * middle + u[:-2, 1:-1, 1:-1]
        along_y = u[1:-1, 2:, 1:-1] - 2 * middle + u[1:-1, :-2, 1:-1]
        along_z = u[1:-1, 1:-1, 2:] - 2 * middle + u[1:-1, 1:-1, :-2]
        u[1:-1, 1:-1, 1:-1] = middle + 0.125 * (along_x + along_y + along_z)
    return u


def wave_leapfrog(u: Array, steps: int) -> Any:
    """The wave equation in a plane with held edges: three levels of time."""
    before, now = u, u
    for _ in range(steps):
        after = np.zeros_like(now)
        bend = now[:-2, 1:-1] + now[2:, 1:-1] + now[1:-1, :-2] + now[1:-1, 2:]
        after[1:-1, 1:-1] = now[1:-1, 1:-1] - before[1:-1, 1:-1] + 0.25 * bend
        before, now = now, after
    return now


def fdtd_2d(ex: Array, ey: Array, hz: Array, pulse: Array) -> Any:
    """Maxwell's equations in a plane on a staggered grid (Yee, 1966), driven at one edge."""
    ex, ey, hz = ex.copy(), ey.copy(), hz.copy()
    for t in range(pulse.shape[0]):
        ey[0, :] = pulse[t]
        ey[1:, :] -= 0.5 * (hz[1:, :] - hz[:-1, :])
        ex[:, 1:] -= 0.5 * (hz[:, 1:] - hz[:, :-1])
        hz[:-1, :-1] -= 0.7 * (
            ex[:-1, 1:] - ex[:-1, :-1] + ey[1:, :-1] - ey[:-1, :-1]
        )
    return ex, ey, hz


def gray_scott(u: Array, v: Array, feed: float, kill: float, steps: int) -> Any:
    """Two substances that react and spread on a torus (Gray and Scott, 1984)."""
    for _ in range(steps):
        spread_u = (
            np.roll(u, 1, 0) + np.roll(u, -1, 0) + np.roll(u, 1, 1) + np.roll(u, -1, 1) - 4 * u
        )
        spread_v = (
            np.roll(v, 1, 0) + np.roll(v, -1, 0) + np.roll(v, 1, 1) + np.roll(v, -1, 1) - 4 * v
        )
        reaction = u * v * v
        u = u + 0.16 * spread_u - reaction + feed * (1 - u)
        v = v + 0.08 * spread_v + reaction - (feed + kill) * v
    return u, v


def game_of_life(cells: Array, steps: int) -> Any:
    """Conway's rules on a board with a dead edge."""
    cells = cells.copy()
    for _ in range(steps):
        near = (
            cells[:-2, :-2] + cells[:-2, 1:-1] + cells[:-2, 2:] + cells[1:-1, :-2]
            + cells[1:-1, 2:] + cells[2:, :-2] + cells[2:, 1:-1] + cells[2:, 2:]
        )
        alive = cells[1:-1, 1:-1] == 1
        cells[1:-1, 1:-1] = (near == 3) | (alive & (near == 2))
    return cells


def advection_upwind(u: Array, courant: float, steps: int) -> Any:
    """A profile carried round a ring, each point by the one upwind of it."""
    u = u.copy()
    for _ in range(steps):
        last = u[-1]
        u[1:] = u[1:] - courant * (u[1:] - u[:-1])
        u[0] = u[0] - courant * (u[0] - last)
    return u


def n_body(position: Array, velocity: Array, mass: Array, dt: float, steps: int) -> Any:
    """Bodies that pull each other, softened; velocities first, then positions."""
    position, velocity = position.copy(), velocity.copy()
    for _ in range(steps):
        apart = position[None, :, :] - position[:, None, :]
        squared = np.sum(apart * apart, axis=2) + 0.01
        pull = mass / (squared * np.sqrt(squared))
        velocity += dt * np.sum(apart * pull[:, :, None], axis=1)
        position += dt * velocity
    return position, velocity


def _planes(
    count: int, *numbers: Any, low: float = 0.0, high: float = 1.0, axes: int = 2
) -> MakeInputs:
    """Return a maker of `count` square or cubic arrays, at least 3 long, and the numbers."""
    shape = partial(square, least=3, axes=axes)
    return given(*[drawn(uniform, low, high, shape=shape)] * count, *numbers)


def _driven(elements: int, dtype: "np.dtype[Any]", generator: np.random.Generator) -> Arguments:
    fields = _planes(3, low=-1.0)(elements, dtype, generator)
    return (*fields, np.sin(0.3 * np.arange(STEPS)).astype(dtype))


def _board(elements: int, dtype: "np.dtype[Any]", generator: np.random.Generator) -> Arguments:
    length = max(3, side(elements))
    return (generator.random((length, length)) < 0.35).astype(dtype), EVEN


def _bodies(elements: int, dtype: "np.dtype[Any]", generator: np.random.Generator) -> Arguments:
    count = side(elements)
    return (
        normal(generator, (count, 3), dtype), normal(generator, (count, 3), dtype),
        uniform(generator, count, dtype, 0.1, 1.0) / count, 0.01, 10,
    )


DOUBLE = ("float64",)
WORKLOADS = (
    Workload(
        "jacobi_1d", FAMILY, "two vectors smooth each other", jacobi_1d,
        given(*[drawn(normal, shape=partial(max, 3))] * 2, STEPS),
        sizes=sizes_of(4_000, 100_000, 1_000_000), dtypes=DOUBLE, tolerance_eps=64,
    ),
    Workload(
        "jacobi_2d", FAMILY, "a plane smoothed, two names swapped", jacobi_2d, _planes(1, STEPS),
        sizes=sizes_of(4_096, 262_144, 1_048_576), dtypes=("float64", "float32"), tolerance_eps=64,
    ),
    Workload(
        "heat_2d", FAMILY, "diffusion through a plate, in place", heat_2d, _planes(2, STEPS),
        sizes=sizes_of(4_096, 262_144, 1_048_576), dtypes=DOUBLE, tolerance_eps=64,
    ),
    Workload(
        "heat_3d", FAMILY, "diffusion in a block", heat_3d, _planes(1, EVEN, axes=3),
        sizes=sizes_of(4_096, 64_000, 512_000), dtypes=DOUBLE, tolerance_eps=64,
    ),
    Workload(
        "wave_leapfrog", FAMILY, "waves in a plane, three levels", wave_leapfrog,
        _planes(1, STEPS), sizes=sizes_of(4_096, 262_144, 1_048_576), dtypes=DOUBLE,
        tolerance_eps=512,
    ),
    Workload(
        "fdtd_2d", FAMILY, "Maxwell's equations, staggered", fdtd_2d, _driven,
        sizes=sizes_of(4_096, 65_536, 1_048_576), dtypes=DOUBLE, tolerance_eps=512,
    ),
    Workload(
        "gray_scott", FAMILY, "two substances react on a torus", gray_scott,
        _planes(2, 0.035, 0.065, EVEN), sizes=sizes_of(4_096, 65_536, 1_048_576), dtypes=DOUBLE,
        tolerance_eps=512,
    ),
    Workload(
        "game_of_life", FAMILY, "Conway's rules on a board", game_of_life, _board,
        sizes=sizes_of(4_096, 262_144, 4_194_304), dtypes=("uint8",),
    ),
    Workload(
        "advection_upwind", FAMILY, "a profile carried round a ring", advection_upwind,
        given(drawn(uniform, 0.0, 1.0, shape=partial(max, 3)), 0.6, STEPS),
        sizes=sizes_of(4_000, 200_000, 2_000_000), dtypes=DOUBLE, tolerance_eps=64,
    ),
    Workload(
        "n_body", FAMILY, "bodies that pull each other", n_body, _bodies,
        sizes=sizes_of(4_096, 40_000, 160_000), dtypes=DOUBLE, tolerance_eps=512,
    ),
)
