"""Whole programs as a person writes them for JAX: `fori_loop`, `scan` and `while_loop`.

Each has the name, the arguments and the results of a workload of the program families. Written are
those with which JAX came within 0.6 of the speed of the best peer on a recorded machine; what has
no loop runs as it is written for NumPy, with jax.numpy in the place of np.
"""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from fuser.suites.peers.jax_runner import JaxRunner
from fuser.suites.workload import Arguments

Array = Any


def programs() -> Mapping[str, Callable[..., Any]]:
    """Return the programs by name; JAX is imported here."""
    import jax.numpy as jnp
    from jax.lax import fori_loop, scan, while_loop

    def jacobi_1d(a: Array, b: Array, steps: int) -> Any:
        def step(_: Any, state: Any) -> Any:
            a, b = state
            b = b.at[1:-1].set((a[:-2] + a[1:-1] + a[2:]) / 3)
            return a.at[1:-1].set((b[:-2] + b[1:-1] + b[2:]) / 3), b

        return fori_loop(0, steps, step, (a, b))

    def thomas(lower: Array, main: Array, upper: Array, right: Array) -> Any:
        def forth(state: Any, row: Any) -> Any:
            lower, main, upper, right = row
            pivot = main - lower * state[0]
            state = upper / pivot, (right - lower * state[1]) / pivot
            return state, state

        def back(x: Any, row: Any) -> Any:
            x = row[1] - row[0] * x
            return x, x

        zero = jnp.zeros_like(main[0])
        _, (ratio, x) = scan(forth, (zero, zero), (lower, main, upper, right))
        return scan(back, zero, (ratio.at[-1].set(0), x), reverse=True)[1]

    def horner(coefficients: Array, x: Array) -> Any:
        return scan(lambda y, c: (y * x + c, None), jnp.zeros_like(x), coefficients)[0]

    def logistic_map(rate: Array, start: Array, steps: int) -> Any:
        return fori_loop(0, steps, lambda _, x: rate * x * (1 - x), start)

    def newton_cube_root(x: Array, tolerance: float) -> Any:
        def turn(state: Any) -> Any:
            root, _ = state
            better = (2 * root + x / (root * root)) / 3
            return better, jnp.max(jnp.abs(better - root))

        start = 0.5 * (x + 1), jnp.ones((), x.dtype)
        return while_loop(lambda state: state[1] > tolerance, turn, start)[0]

    def conjugate_gradients(half: Array, b: Array, tolerance: float, most: int) -> Any:
        def turn(state: Any) -> Any:
            x, residual, direction, squared, count = state
            image = 3 * direction + half @ direction + direction @ half
            step = squared / (direction @ image)
            residual = residual - step * image
            now = residual @ residual
            direction, x = residual + now / squared * direction, x + step * direction
            return x, residual, direction, now, count + 1

        def going(state: Any) -> Any:
            return (state[4] < most) & ((state[4] == 0) | (jnp.sqrt(state[3]) >= tolerance))

        return while_loop(going, turn, (jnp.zeros_like(b), b, b, b @ b, 0))[0]

    def power_iteration(a: Array, start: Array, tolerance: float, most: int) -> Any:
        def turn(state: Any) -> Any:
            vector, value, _, count = state
            image = a @ vector
            new = vector @ image
            moved = jnp.abs(new - value) >= tolerance
            vector = image / jnp.sqrt(jnp.sum(image * image))
            return vector, jnp.where(moved, new, value), moved, count + 1

        vector = start / jnp.sqrt(jnp.sum(start * start))
        first = vector, jnp.zeros((), a.dtype), jnp.array(True), 0
        return while_loop(lambda state: state[2] & (state[3] < most), turn, first)[1]

    def jacobi_solver(a: Array, b: Array, tolerance: float, most: int) -> Any:
        diagonal = jnp.diag(a)
        rest = a - jnp.diag(diagonal)

        def turn(state: Any) -> Any:
            x, _, count = state
            new = (b - rest @ x) / diagonal
            return new, jnp.linalg.norm(new - x), count + 1

        def going(state: Any) -> Any:
            return (state[1] >= tolerance) & (state[2] < most)

        return while_loop(going, turn, (jnp.zeros_like(b), jnp.full((), jnp.inf, b.dtype), 0))[0]

    def floyd_warshall(distance: Array) -> Any:
        def turn(k: Any, path: Array) -> Any:
            return jnp.minimum(path, path[:, k, None] + path[k, :])

        return fori_loop(0, distance.shape[0], turn, distance)

    def crc16(data: Array, polynomial: int) -> Any:
        def bit(_: Any, crc: Any) -> Any:
            return jnp.where(crc & 1, (crc >> 1) ^ polynomial, crc >> 1)

        def step(crc: Any, byte: Any) -> Any:
            crc = fori_loop(0, 8, bit, crc ^ byte)
            return crc, crc

        return scan(step, jnp.full((), 0xFFFF, jnp.int64), data.astype(jnp.int64))[1]

    def gram_schmidt(matrix: Array) -> Any:
        place = jnp.arange(matrix.shape[1])

        def turn(k: Any, state: Any) -> Any:
            a, q, r = state
            norm = jnp.sqrt(a[:, k] @ a[:, k])
            unit = a[:, k] / norm
            shares = jnp.where(place > k, unit @ a, 0)
            r = r.at[k].set(jnp.where(place == k, norm, shares))
            return a - unit[:, None] * shares, q.at[:, k].set(unit), r

        r = jnp.zeros((matrix.shape[1],) * 2, matrix.dtype)
        return fori_loop(0, matrix.shape[1], turn, (matrix, jnp.zeros_like(matrix), r))[1:]

    def masked_mean(x: Array, least: float) -> Any:
        kept = x > least
        mean = jnp.mean(x, where=kept)
        return mean, jnp.sqrt(jnp.mean((x - mean) ** 2, where=kept))

    def weighted_histogram(x: Array, weight: Array, bins: int) -> Any:
        place = jnp.minimum((x * bins).astype(jnp.int64), bins - 1)
        total = jnp.bincount(place, weights=weight, length=bins)
        return total / jnp.sum(total)

    def scattered_forces(position: Array, first: Array, second: Array) -> Any:
        pull = 0.5 * (position[second] - position[first])
        return jnp.zeros_like(position).at[first].add(pull).at[second].add(-pull)

    def mvt(x1: Array, x2: Array, y1: Array, y2: Array, a: Array) -> Any:
        return x1 + a @ y1, x2 + y2 @ a

    def correlation(data: Array) -> Any:
        spread = jnp.std(data, axis=0)
        spread = jnp.where(spread <= 0.1, 1.0, spread)
        scaled = (data - jnp.mean(data, axis=0)) / (np.sqrt(data.shape[0]) * spread)
        return scaled.T @ scaled

    def syrk(alpha: float, beta: float, a: Array, c: Array) -> Any:
        lower = jnp.tril(jnp.ones(c.shape, bool))
        return jnp.where(lower, beta * c + alpha * (a @ a.T), c)

    found = dict(locals())
    helpers = ("jnp", "fori_loop", "scan", "while_loop")
    found["thomas_columns"] = thomas
    return {name: each for name, each in found.items() if name not in helpers}


STATIC: Mapping[str, tuple[int, ...]] = {"weighted_histogram": (2,)}
"""Arguments that lengths depend on, by their position: JAX compiles anew for each value."""


class JaxProgramsRunner(JaxRunner):
    """Runs what was written for JAX where there is a program of a workload's name."""

    name = "jax_loops"
    description = "jax.jit of programs by hand with fori_loop, scan and while_loop, CPU, x64"

    def prepare(self, function: Callable[..., Any], arguments: Arguments) -> Callable[..., Any]:
        """Return the compiled program, or the formula where it needs no program of its own.

        Raises:
            NotExpressibleError: JAX refuses it.
        """
        import jax

        program = programs().get(function.__name__)
        if program is None:
            return super().prepare(function, arguments)
        jitted = jax.jit(program, static_argnums=STATIC.get(function.__name__, ()))
        return self.lowered(jitted, arguments)
