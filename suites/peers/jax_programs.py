"""Whole programs as a person writes them for JAX: `fori_loop`, `scan` and `while_loop`.

Each has the name, the arguments and the results of a workload of the program families. What has no
loop runs as it is written for NumPy, with jax.numpy in the place of np.
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
    from jax.lax import cond, fori_loop, scan, while_loop

    def jacobi_1d(a: Array, b: Array, steps: int) -> Any:
        def step(_: Any, state: Any) -> Any:
            a, b = state
            b = b.at[1:-1].set((a[:-2] + a[1:-1] + a[2:]) / 3)
            return a.at[1:-1].set((b[:-2] + b[1:-1] + b[2:]) / 3), b

        return fori_loop(0, steps, step, (a, b))

    def around(u: Array) -> Any:
        return u[:-2, 1:-1] + u[2:, 1:-1] + u[1:-1, :-2] + u[1:-1, 2:]

    def jacobi_2d(u: Array, steps: int) -> Any:
        return fori_loop(0, steps, lambda _, u: u.at[1:-1, 1:-1].set(0.25 * around(u)), u)

    def heat_2d(u: Array, conductivity: Array, steps: int) -> Any:
        inside = 0.2 * conductivity[1:-1, 1:-1]

        def step(_: Any, u: Array) -> Any:
            return u.at[1:-1, 1:-1].add(inside * (around(u) - 4 * u[1:-1, 1:-1]))

        return fori_loop(0, steps, step, u)

    def heat_3d(u: Array, steps: int) -> Any:
        def step(_: Any, u: Array) -> Any:
            middle = u[1:-1, 1:-1, 1:-1]
            x = u[2:, 1:-1, 1:-1] - 2 * middle + u[:-2, 1:-1, 1:-1]
            y = u[1:-1, 2:, 1:-1] - 2 * middle + u[1:-1, :-2, 1:-1]
            z = u[1:-1, 1:-1, 2:] - 2 * middle + u[1:-1, 1:-1, :-2]
            return u.at[1:-1, 1:-1, 1:-1].set(middle + 0.125 * (x + y + z))

        return fori_loop(0, steps, step, u)

    def wave_leapfrog(u: Array, steps: int) -> Any:
        def step(_: Any, state: Any) -> Any:
            before, now = state
            inner = now[1:-1, 1:-1] - before[1:-1, 1:-1] + 0.25 * around(now)
            return now, jnp.zeros_like(now).at[1:-1, 1:-1].set(inner)

        return fori_loop(0, steps, step, (u, u))[1]

    def fdtd_2d(ex: Array, ey: Array, hz: Array, pulse: Array) -> Any:
        def step(fields: Any, value: Any) -> Any:
            ex, ey, hz = fields
            ey = ey.at[0, :].set(value).at[1:, :].add(-0.5 * (hz[1:, :] - hz[:-1, :]))
            ex = ex.at[:, 1:].add(-0.5 * (hz[:, 1:] - hz[:, :-1]))
            curl = ex[:-1, 1:] - ex[:-1, :-1] + ey[1:, :-1] - ey[:-1, :-1]
            return (ex, ey, hz.at[:-1, :-1].add(-0.7 * curl)), None

        return scan(step, (ex, ey, hz), pulse)[0]

    def gray_scott(u: Array, v: Array, feed: float, kill: float, steps: int) -> Any:
        def spread(u: Array) -> Any:
            rows = jnp.roll(u, 1, 0) + jnp.roll(u, -1, 0)
            return rows + jnp.roll(u, 1, 1) + jnp.roll(u, -1, 1) - 4 * u

        def step(_: Any, state: Any) -> Any:
            u, v = state
            reaction = u * v * v
            return (
                u + 0.16 * spread(u) - reaction + feed * (1 - u),
                v + 0.08 * spread(v) + reaction - (feed + kill) * v,
            )

        return fori_loop(0, steps, step, (u, v))

    def game_of_life(cells: Array, steps: int) -> Any:
        def step(_: Any, cells: Array) -> Any:
            near = around(cells) + cells[:-2, :-2] + cells[:-2, 2:] + cells[2:, :-2] + cells[2:, 2:]
            alive = cells[1:-1, 1:-1] == 1
            after = (near == 3) | (alive & (near == 2))
            return cells.at[1:-1, 1:-1].set(after.astype(cells.dtype))

        return fori_loop(0, steps, step, cells)

    def advection_upwind(u: Array, courant: float, steps: int) -> Any:
        return fori_loop(0, steps, lambda _, u: u - courant * (u - jnp.roll(u, 1)), u)

    def n_body(position: Array, velocity: Array, mass: Array, dt: float, steps: int) -> Any:
        def step(_: Any, state: Any) -> Any:
            position, velocity = state
            apart = position[None, :, :] - position[:, None, :]
            squared = jnp.sum(apart * apart, axis=2) + 0.01
            pull = mass / (squared * jnp.sqrt(squared))
            velocity = velocity + dt * jnp.sum(apart * pull[:, :, None], axis=1)
            return position + dt * velocity, velocity

        return fori_loop(0, steps, step, (position, velocity))

    def garch(r: Array, omega: float, alpha: float, beta: float) -> Any:
        def step(last: Any, r: Any) -> Any:
            variance = omega + alpha * r**2 + beta * last
            return variance, variance

        start = jnp.mean(r * r)
        return jnp.concatenate([start[None], scan(step, start, r[:-1])[1]])

    def exponential_smoothing(x: Array, alpha: float) -> Any:
        def step(level: Any, x: Any) -> Any:
            level = alpha * x + (1 - alpha) * level
            return level, level

        return scan(step, x[0], x)[1]

    def biquad(x: Array, b: Array, a: Array) -> Any:
        def step(state: Any, x: Any) -> Any:
            out = b[0] * x + state[0]
            return (b[1] * x - a[0] * out + state[1], b[2] * x - a[1] * out), out

        zero = jnp.zeros((), x.dtype)
        return scan(step, (zero, zero), x)[1]

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

    def durbin(r: Array) -> Any:
        place = jnp.arange(r.shape[0])

        def step(k: Any, state: Any) -> Any:
            y, alpha, beta = state
            beta = (1 - alpha * alpha) * beta
            known = place < k
            alpha = -(r[k] + jnp.sum(jnp.where(known, r[k - 1 - place] * y, 0))) / beta
            y = jnp.where(known, y + alpha * y[k - 1 - place], y)
            return y.at[k].set(alpha), alpha, beta

        start = jnp.zeros_like(r).at[0].set(-r[0]), -r[0], jnp.ones((), r.dtype)
        return fori_loop(1, r.shape[0], step, start)[0]

    def deriche_rows(image: Array, decay: float) -> Any:
        def forth(value: Any, column: Any) -> Any:
            value = (1 - decay) * column + decay * value
            return value, value

        def back(value: Any, column: Any) -> Any:
            value = decay * ((1 - decay) * column + value)
            return value, value

        turned, zero = image.T, jnp.zeros_like(image[:, 0])
        later = scan(back, zero, turned[1:], reverse=True)[1]
        return (scan(forth, zero, turned)[1] + jnp.concatenate([later, zero[None]])).T

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

    def until_settled(turn: Any, start: Array, size: Any, tolerance: float, most: int) -> Any:
        def again(state: Any) -> Any:
            x, _, count = state
            new = turn(x)
            return new, size(new - x), count + 1

        def going(state: Any) -> Any:
            return (state[1] >= tolerance) & (state[2] < most)

        return while_loop(going, again, (start, jnp.full((), jnp.inf, start.dtype), 0))[0]

    def jacobi_solver(a: Array, b: Array, tolerance: float, most: int) -> Any:
        diagonal = jnp.diag(a)
        rest = a - jnp.diag(diagonal)
        norm = jnp.linalg.norm
        return until_settled(
            lambda x: (b - rest @ x) / diagonal, jnp.zeros_like(b), norm, tolerance, most
        )

    def poisson(source: Array, tolerance: float, most: int) -> Any:
        def turn(u: Array) -> Any:
            return u.at[1:-1, 1:-1].set((around(u) + source[1:-1, 1:-1]) / 5)

        def size(off: Array) -> Any:
            return jnp.max(jnp.abs(off))

        return until_settled(turn, jnp.zeros_like(source), size, tolerance, most)

    def line_search(target: Array, weight: Array, most: int) -> Any:
        def turn(state: Any) -> Any:
            x, count, _ = state
            off = x - target
            value, gradient = jnp.sum(weight * off * off), 2 * weight * off
            slope = jnp.sum(gradient * gradient)

            def too_far(step: Any) -> Any:
                moved = jnp.sum(weight * (off - step * gradient) ** 2)
                return moved > value - 0.3 * step * slope

            def move(x: Array) -> Any:
                step = while_loop(too_far, lambda step: 0.5 * step, jnp.ones((), x.dtype))
                return x - step * gradient

            going = slope >= 1e-20
            return cond(going, move, lambda x: x, x), count + 1, going

        start = jnp.zeros_like(target), 0, jnp.array(True)
        return while_loop(lambda state: state[2] & (state[1] < most), turn, start)[0]

    def k_means(points: Array, centres: Array, steps: int) -> Any:
        def turn(_: Any, centres: Array) -> Any:
            distance = jnp.sum((points[:, None, :] - centres[None, :, :]) ** 2, axis=2)
            mine = (jnp.argmin(distance, axis=1)[:, None] == jnp.arange(centres.shape[0]))
            mine = mine.astype(points.dtype)
            members = jnp.sum(mine, axis=0)[:, None]
            return jnp.where(members > 0, mine.T @ points / jnp.maximum(members, 1), centres)

        return fori_loop(0, steps, turn, centres)

    def escape_time(real: Array, imaginary: Array, most: int) -> Any:
        def turn(state: Any) -> Any:
            x, y, count, inside, turns = state
            x, y = (
                jnp.where(inside, x * x - y * y + real, x),
                jnp.where(inside, 2 * x * y + imaginary, y),
            )
            return x, y, count + inside, x * x + y * y <= 4.0, turns + 1

        zero = jnp.zeros_like(real)
        start = zero, zero, jnp.zeros(real.shape, jnp.int64), jnp.ones(real.shape, bool), 0
        return while_loop(lambda s: (s[4] < most) & jnp.any(s[3]), turn, start)[2]

    def clip_by_norm(gradient: Array, most: float) -> Any:
        norm = jnp.sqrt(jnp.sum(gradient * gradient))
        return jnp.where(norm > most, gradient * (most / norm), gradient)

    def floyd_warshall(distance: Array) -> Any:
        def turn(k: Any, path: Array) -> Any:
            return jnp.minimum(path, path[:, k, None] + path[k, :])

        return fori_loop(0, distance.shape[0], turn, distance)

    def edit_distance(a: Array, b: Array) -> Any:
        def row(before: Any, given: Any) -> Any:
            letter, number = given

            def column(left: Any, at: Any) -> Any:
                other, above, corner = at
                now = jnp.minimum(jnp.minimum(above, left) + 1, corner + (letter != other))
                return now, now

            later = scan(column, number + 1, (b, before[1:], before[:-1]))[1]
            return jnp.concatenate([(number + 1)[None], later]), None

        numbers = jnp.arange(a.shape[0])
        return scan(row, jnp.arange(b.shape[0] + 1), (a, numbers))[0]

    def lu(matrix: Array) -> Any:
        place = jnp.arange(matrix.shape[0])

        def turn(k: Any, a: Array) -> Any:
            below = place > k
            column = jnp.where(below, a[:, k] / a[k, k], a[:, k])
            a = a.at[:, k].set(column)
            rows, columns = jnp.where(below, column, 0), jnp.where(below, a[k], 0)
            return a - rows[:, None] * columns

        return fori_loop(0, matrix.shape[0], turn, matrix)

    def cholesky(matrix: Array) -> Any:
        return jnp.tril(jnp.linalg.cholesky(matrix)) + jnp.triu(matrix, 1)

    def trisolv(lower: Array, b: Array) -> Any:
        from jax.scipy.linalg import solve_triangular

        return solve_triangular(lower, b, lower=True)

    def crc16(data: Array, polynomial: int) -> Any:
        def bit(_: Any, crc: Any) -> Any:
            return jnp.where(crc & 1, (crc >> 1) ^ polynomial, crc >> 1)

        def step(crc: Any, byte: Any) -> Any:
            crc = fori_loop(0, 8, bit, crc ^ byte)
            return crc, crc

        return scan(step, jnp.full((), 0xFFFF, jnp.int64), data.astype(jnp.int64))[1]

    def spmv(starts: Array, columns: Array, values: Array, x: Array) -> Any:
        rows = jnp.searchsorted(starts, jnp.arange(values.shape[0]), side="right") - 1
        y = jnp.zeros(starts.shape[0] - 1, values.dtype)
        return y.at[rows].add(values * x[columns])

    def seidel_2d(plane: Array, steps: int) -> Any:
        n = plane.shape[0]

        def row(i: Any, a: Array) -> Any:
            above, own, below = a[i - 1], a[i], a[i + 1]
            known = above[:-2] + above[1:-1] + above[2:] + own[1:-1] + own[2:]
            known = known + below[:-2] + below[1:-1] + below[2:]

            def step(left: Any, known: Any) -> Any:
                value = (known + left) / 9.0
                return value, value

            return a.at[i, 1:-1].set(scan(step, own[0], known)[1])

        return fori_loop(0, steps, lambda _, a: fori_loop(1, n - 1, row, a), plane)

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

    def moving_average(x: Array, width: int) -> Any:
        running = jnp.cumsum(x)
        return (running[width:] - running[:-width]) / width

    def masked_mean(x: Array, least: float) -> Any:
        kept = x > least
        mean = jnp.mean(x, where=kept)
        return mean, jnp.sqrt(jnp.mean((x - mean) ** 2, where=kept))

    def weighted_histogram(x: Array, weight: Array, bins: int) -> Any:
        place = jnp.minimum((x * bins).astype(jnp.int64), bins - 1)
        total = jnp.bincount(place, weights=weight, length=bins)
        return total / jnp.sum(total)

    def drawdown(returns: Array) -> Any:
        from jax.lax import cummax

        price = jnp.exp(jnp.cumsum(returns))
        return 1 - price / cummax(price)

    def equalised(image: Array) -> Any:
        level = (image * 255).astype(jnp.int64)
        return (jnp.cumsum(jnp.bincount(level.ravel(), length=256)) / image.size)[level]

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
    helpers = ("jnp", "cond", "fori_loop", "scan", "while_loop", "around", "until_settled")
    found["thomas_columns"] = thomas
    return {name: each for name, each in found.items() if name not in helpers}


STATIC: Mapping[str, tuple[int, ...]] = {"moving_average": (1,), "weighted_histogram": (2,)}
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
