"""Whole programs with all loops written out for numba: parallel where no turn needs another one.

Each has the name, the arguments and the results of a workload of the program families. The outer
loop over elements is `prange` where iterations are independent; stencils write into a second array.
Where a workload is written so already, its own function is the loop.
"""

from typing import Any

import numpy as np

from fuser.suites.families.element_loops import crc16, nussinov
from fuser.suites.families.recurrences import exponential_smoothing, thomas

Array = Any
prange = range
"""numba's, once a loop is compiled."""


def jacobi_1d(a: Array, b: Array, steps: int) -> Any:
    """Two loops a step."""
    a, b = a.copy(), b.copy()
    for _ in range(steps):
        for i in prange(1, a.size - 1):
            b[i] = (a[i - 1] + a[i] + a[i + 1]) / 3
        for i in prange(1, a.size - 1):
            a[i] = (b[i - 1] + b[i] + b[i + 1]) / 3
    return a, b


def jacobi_2d(u: Array, steps: int) -> Any:
    """A row a turn."""
    now, after = u.copy(), u.copy()
    quarter = u.dtype.type(0.25)
    for _ in range(steps):
        for i in prange(1, u.shape[0] - 1):
            for j in range(1, u.shape[1] - 1):
                after[i, j] = quarter * (
                    now[i - 1, j] + now[i + 1, j] + now[i, j - 1] + now[i, j + 1]
                )
        now, after = after, now
    return now


def heat_2d(u: Array, conductivity: Array, steps: int) -> Any:
    """A row a turn, into a second plane."""
    now, after = u.copy(), u.copy()
    for _ in range(steps):
        for i in prange(1, u.shape[0] - 1):
            for j in range(1, u.shape[1] - 1):
                flow = (
                    now[i - 1, j] + now[i + 1, j] + now[i, j - 1] + now[i, j + 1] - 4 * now[i, j]
                )
                after[i, j] = now[i, j] + 0.2 * conductivity[i, j] * flow
        now, after = after, now
    return now


def heat_3d(u: Array, steps: int) -> Any:
    """A plane a turn, into a second block."""
    now, after = u.copy(), u.copy()
    for _ in range(steps):
        for i in prange(1, u.shape[0] - 1):
            for j in range(1, u.shape[1] - 1):
                for k in range(1, u.shape[2] - 1):
                    twice = 2 * now[i, j, k]
                    after[i, j, k] = now[i, j, k] + 0.125 * (
                        now[i + 1, j, k] - twice + now[i - 1, j, k]
                        + now[i, j + 1, k] - twice + now[i, j - 1, k]
                        + now[i, j, k + 1] - twice + now[i, j, k - 1]
                    )
        now, after = after, now
    return now


def wave_leapfrog(u: Array, steps: int) -> Any:
    """Three planes that take turns; their edges: the first two are the start's, then zero."""
    before, now, after = u.copy(), u.copy(), np.zeros_like(u)
    for _ in range(steps):
        for i in prange(1, u.shape[0] - 1):
            for j in range(1, u.shape[1] - 1):
                after[i, j] = now[i, j] - before[i, j] + 0.25 * (
                    now[i - 1, j] + now[i + 1, j] + now[i, j - 1] + now[i, j + 1]
                )
        before[0, :] = before[-1, :] = 0.0
        before[:, 0] = before[:, -1] = 0.0
        before, now, after = now, after, before
    return now


def fdtd_2d(ex: Array, ey: Array, hz: Array, pulse: Array) -> Any:
    """Three loops a step, a row a turn."""
    ex, ey, hz = ex.copy(), ey.copy(), hz.copy()
    rows, columns = ex.shape
    for t in range(pulse.size):
        for i in prange(rows):
            for j in range(columns):
                if i == 0:
                    ey[i, j] = pulse[t]
                else:
                    ey[i, j] -= 0.5 * (hz[i, j] - hz[i - 1, j])
            for j in range(1, columns):
                ex[i, j] -= 0.5 * (hz[i, j] - hz[i, j - 1])
        for i in prange(rows - 1):
            for j in range(columns - 1):
                hz[i, j] -= 0.7 * (ex[i, j + 1] - ex[i, j] + ey[i + 1, j] - ey[i, j])
    return ex, ey, hz


def gray_scott(u: Array, v: Array, feed: float, kill: float, steps: int) -> Any:
    """Neighbours by wrapped indices, a row a turn."""
    rows, columns = u.shape
    u, v, new_u, new_v = u.copy(), v.copy(), np.empty_like(u), np.empty_like(v)
    for _ in range(steps):
        for i in prange(rows):
            above, below = (i - 1) % rows, (i + 1) % rows
            for j in range(columns):
                left = j - 1 if j > 0 else columns - 1
                right = j + 1 if j < columns - 1 else 0
                a, b = u[i, j], v[i, j]
                spread_u = u[above, j] + u[below, j] + u[i, left] + u[i, right] - 4 * a
                spread_v = v[above, j] + v[below, j] + v[i, left] + v[i, right] - 4 * b
                reaction = a * b * b
                new_u[i, j] = a + 0.16 * spread_u - reaction + feed * (1 - a)
                new_v[i, j] = b + 0.08 * spread_v + reaction - (feed + kill) * b
        u, new_u = new_u, u
        v, new_v = new_v, v
    return u, v


def game_of_life(cells: Array, steps: int) -> Any:
    """A row a turn, into a second board."""
    now, after = cells.copy(), cells.copy()
    for _ in range(steps):
        for i in prange(1, cells.shape[0] - 1):
            for j in range(1, cells.shape[1] - 1):
                near = (
                    now[i - 1, j - 1] + now[i - 1, j] + now[i - 1, j + 1] + now[i, j - 1]
                    + now[i, j + 1] + now[i + 1, j - 1] + now[i + 1, j] + now[i + 1, j + 1]
                )
                after[i, j] = near == 3 or (now[i, j] == 1 and near == 2)
        now, after = after, now
    return now


def advection_upwind(u: Array, courant: float, steps: int) -> Any:
    """Into a second vector."""
    now, after = u.copy(), np.empty_like(u)
    for _ in range(steps):
        for i in prange(u.size):
            before = now[i - 1] if i > 0 else now[u.size - 1]
            after[i] = now[i] - courant * (now[i] - before)
        now, after = after, now
    return now


def n_body(position: Array, velocity: Array, mass: Array, dt: float, steps: int) -> Any:
    """A body a turn, over all others."""
    position, velocity = position.copy(), velocity.copy()
    count = mass.size
    for _ in range(steps):
        for i in prange(count):
            x = y = z = 0.0
            for j in range(count):
                dx = position[j, 0] - position[i, 0]
                dy = position[j, 1] - position[i, 1]
                dz = position[j, 2] - position[i, 2]
                squared = dx * dx + dy * dy + dz * dz + 0.01
                pull = mass[j] / (squared * np.sqrt(squared))
                x, y, z = x + dx * pull, y + dy * pull, z + dz * pull
            velocity[i, 0] += dt * x
            velocity[i, 1] += dt * y
            velocity[i, 2] += dt * z
        for i in prange(count):
            for k in range(3):
                position[i, k] += dt * velocity[i, k]
    return position, velocity


def garch(r: Array, omega: float, alpha: float, beta: float) -> Any:
    """One loop; the last variance stays in a register."""
    variance = np.empty_like(r)
    total = 0.0
    for t in range(r.size):
        total += r[t] * r[t]
    last = variance[0] = total / r.size
    for t in range(1, r.size):
        last = omega + alpha * r[t - 1] * r[t - 1] + beta * last
        variance[t] = last
    return variance


def biquad(x: Array, b: Array, a: Array) -> Any:
    """As it is written for NumPy, coefficients read once."""
    y = np.empty_like(x)
    b0, b1, b2, a1, a2 = b[0], b[1], b[2], a[0], a[1]
    first = second = 0.0
    for t in range(x.size):
        out = b0 * x[t] + first
        first = b1 * x[t] - a1 * out + second
        second = b2 * x[t] - a2 * out
        y[t] = out
    return y


def thomas_columns(lower: Array, main: Array, upper: Array, right: Array) -> Any:
    """Blocks of columns in parallel, rows one after the other within each."""
    rows, columns = main.shape
    ratio, x = np.empty_like(main), np.empty_like(right)
    for part in prange((columns + 63) // 64):
        start, stop = 64 * part, min(columns, 64 * part + 64)
        for j in range(start, stop):
            ratio[0, j] = upper[0, j] / main[0, j]
            x[0, j] = right[0, j] / main[0, j]
        for i in range(1, rows):
            for j in range(start, stop):
                pivot = main[i, j] - lower[i, j] * ratio[i - 1, j]
                ratio[i, j] = upper[i, j] / pivot
                x[i, j] = (right[i, j] - lower[i, j] * x[i - 1, j]) / pivot
        for back in range(rows - 1):
            i = rows - 2 - back
            for j in range(start, stop):
                x[i, j] -= ratio[i, j] * x[i + 1, j]
    return x


def horner(coefficients: Array, x: Array) -> Any:
    """An element a turn, over all coefficients."""
    y = np.empty_like(x)
    for i in prange(x.size):
        value = x.dtype.type(0)
        for k in range(coefficients.size):
            value = value * x[i] + coefficients[k]
        y[i] = value
    return y


def logistic_map(rate: Array, start: Array, steps: int) -> Any:
    """An element a turn, over all steps."""
    x = np.empty_like(start)
    for i in prange(x.size):
        value = start[i]
        for _ in range(steps):
            value = rate[i] * value * (1 - value)
        x[i] = value
    return x


def durbin(r: Array) -> Any:
    """Two inner loops a turn."""
    y, z = np.zeros_like(r), np.zeros_like(r)
    y[0] = alpha = -r[0]
    beta = 1.0
    for k in range(1, r.size):
        beta = (1 - alpha * alpha) * beta
        total = 0.0
        for i in range(k):
            total += r[k - 1 - i] * y[i]
        alpha = -(r[k] + total) / beta
        for i in range(k):
            z[i] = y[i] + alpha * y[k - 1 - i]
        for i in range(k):
            y[i] = z[i]
        y[k] = alpha
    return y


def deriche_rows(image: Array, decay: float) -> Any:
    """A row a turn, forth and back."""
    rows, columns = image.shape
    result = np.empty_like(image)
    for i in prange(rows):
        value = 0.0
        for j in range(columns):
            value = (1 - decay) * image[i, j] + decay * value
            result[i, j] = value
        value = 0.0
        for back in range(columns - 1):
            j = columns - 2 - back
            value = decay * ((1 - decay) * image[i, j + 1] + value)
            result[i, j] += value
    return result


def newton_cube_root(x: Array, tolerance: float) -> Any:
    """A pass over all elements a turn; the largest change is a reduction."""
    root = np.empty_like(x)
    for i in prange(x.size):
        root[i] = 0.5 * (x[i] + 1)
    change = 1.0
    while change > tolerance:
        change = 0.0
        for i in prange(x.size):
            better = (2 * root[i] + x[i] / (root[i] * root[i])) / 3
            change = max(change, abs(better - root[i]))
            root[i] = better
    return root


def conjugate_gradients(half: Array, b: Array, tolerance: float, most: int) -> Any:
    """The products by BLAS, all else in two loops."""
    x, residual, direction = np.zeros_like(b), b.copy(), b.copy()
    squared = residual @ residual
    for _ in range(most):
        image = 3 * direction + half @ direction + direction @ half
        step = squared / (direction @ image)
        now = 0.0
        for i in range(x.size):
            x[i] += step * direction[i]
            residual[i] -= step * image[i]
            now += residual[i] * residual[i]
        if np.sqrt(now) < tolerance:
            break
        for i in range(x.size):
            direction[i] = residual[i] + (now / squared) * direction[i]
        squared = now
    return x


def power_iteration(a: Array, start: Array, tolerance: float, most: int) -> Any:
    """The product by BLAS, all else in one loop."""
    vector = start / np.sqrt(np.sum(start * start))
    value = 0.0
    for _ in range(most):
        image = a @ vector
        new = squared = 0.0
        for i in range(image.size):
            new += vector[i] * image[i]
            squared += image[i] * image[i]
        for i in range(image.size):
            vector[i] = image[i] / np.sqrt(squared)
        if abs(new - value) < tolerance:
            break
        value = new
    return value


def jacobi_solver(a: Array, b: Array, tolerance: float, most: int) -> Any:
    """The product by BLAS, all else in one loop."""
    diagonal = np.diag(a)
    rest = a.copy()
    for i in range(b.size):
        rest[i, i] = 0.0
    x = np.zeros_like(b)
    for _ in range(most):
        new = rest @ x
        squared = 0.0
        for i in range(b.size):
            new[i] = (b[i] - new[i]) / diagonal[i]
            squared += (new[i] - x[i]) ** 2
        x = new
        if np.sqrt(squared) < tolerance:
            break
    return x


def poisson(source: Array, tolerance: float, most: int) -> Any:
    """A row a turn; the largest change is a reduction."""
    u, new = np.zeros_like(source), np.zeros_like(source)
    for _ in range(most):
        change = 0.0
        for i in prange(1, source.shape[0] - 1):
            for j in range(1, source.shape[1] - 1):
                value = (
                    u[i - 1, j] + u[i + 1, j] + u[i, j - 1] + u[i, j + 1] + source[i, j]
                ) / 5
                change = max(change, abs(value - u[i, j]))
                new[i, j] = value
        u, new = new, u
        if change < tolerance:
            break
    return u


def line_search(target: Array, weight: Array, most: int) -> Any:
    """A loop for each value of the function."""
    x, gradient = np.zeros_like(target), np.empty_like(target)
    for _ in range(most):
        value = slope = 0.0
        for i in prange(x.size):
            off = x[i] - target[i]
            value += weight[i] * off * off
            gradient[i] = 2 * weight[i] * off
            slope += gradient[i] * gradient[i]
        if slope < 1e-20:
            break
        step = 1.0
        while True:
            tried = 0.0
            for i in prange(x.size):
                moved = x[i] - target[i] - step * gradient[i]
                tried += weight[i] * moved * moved
            if not tried > value - 0.3 * step * slope:
                break
            step = 0.5 * step
        for i in prange(x.size):
            x[i] -= step * gradient[i]
    return x


def k_means(points: Array, centres: Array, steps: int) -> Any:
    """A point a turn for the nearest, then one loop for the sums."""
    centres = centres.copy()
    count, axes = points.shape
    nearest = np.empty(count, np.int64)
    for _ in range(steps):
        for i in prange(count):
            least, best = np.inf, 0
            for k in range(centres.shape[0]):
                distance = 0.0
                for j in range(axes):
                    distance += (points[i, j] - centres[k, j]) ** 2
                if distance < least:
                    least, best = distance, k
            nearest[i] = best
        sums, members = np.zeros_like(centres), np.zeros(centres.shape[0])
        for i in range(count):
            members[nearest[i]] += 1
            for j in range(axes):
                sums[nearest[i], j] += points[i, j]
        for k in range(centres.shape[0]):
            if members[k] > 0:
                centres[k] = sums[k] / members[k]
    return centres


def escape_time(real: Array, imaginary: Array, most: int) -> Any:
    """An element a turn, until it has left."""
    count = np.zeros(real.shape, np.int64)
    for i in prange(real.size):
        x = y = 0.0
        for _ in range(most):
            if x * x + y * y > 4.0:
                break
            count[i] += 1
            x, y = x * x - y * y + real[i], 2 * x * y + imaginary[i]
    return count


def clip_by_norm(gradient: Array, most: float) -> Any:
    """A sum, then a product."""
    total = gradient.dtype.type(0)
    for i in prange(gradient.size):
        total += gradient[i] * gradient[i]
    norm = np.sqrt(total)
    scale = gradient.dtype.type(most / norm) if norm > most else gradient.dtype.type(1)
    result = np.empty_like(gradient)
    for i in prange(gradient.size):
        result[i] = gradient[i] * scale
    return result


def floyd_warshall(distance: Array) -> Any:
    """A row a turn: row and column k stay as they are in turn k."""
    path = distance.copy()
    for k in range(path.shape[0]):
        for i in prange(path.shape[0]):
            first = path[i, k]
            for j in range(path.shape[1]):
                path[i, j] = min(path[i, j], first + path[k, j])
    return path


def edit_distance(a: Array, b: Array) -> Any:
    """Two rows that take turns."""
    before, now = np.arange(b.size + 1), np.empty(b.size + 1, np.int64)
    for i in range(a.size):
        now[0] = i + 1
        for j in range(b.size):
            cost = 0 if a[i] == b[j] else 1
            now[j + 1] = min(before[j + 1] + 1, now[j] + 1, before[j] + cost)
        before, now = now, before
    return before


def lu(matrix: Array) -> Any:
    """Three loops; sums in a register."""
    a = matrix.copy()
    n = a.shape[0]
    for i in range(n):
        for j in range(i):
            total = a[i, j]
            for k in range(j):
                total -= a[i, k] * a[k, j]
            a[i, j] = total / a[j, j]
        for k in range(i):
            for j in range(i, n):
                a[i, j] -= a[i, k] * a[k, j]
    return a


def cholesky(matrix: Array) -> Any:
    """Three loops; sums in a register."""
    a = matrix.copy()
    for i in range(a.shape[0]):
        for j in range(i):
            total = a[i, j]
            for k in range(j):
                total -= a[i, k] * a[j, k]
            a[i, j] = total / a[j, j]
        total = a[i, i]
        for k in range(i):
            total -= a[i, k] * a[i, k]
        a[i, i] = np.sqrt(total)
    return a


def trisolv(lower: Array, b: Array) -> Any:
    """Two loops."""
    x = np.empty_like(b)
    for i in range(b.size):
        total = b[i]
        for j in range(i):
            total -= lower[i, j] * x[j]
        x[i] = total / lower[i, i]
    return x


def spmv(starts: Array, columns: Array, values: Array, x: Array) -> Any:
    """A row a turn."""
    y = np.empty(starts.size - 1, values.dtype)
    for i in prange(y.size):
        total = 0.0
        for k in range(starts[i], starts[i + 1]):
            total += values[k] * x[columns[k]]
        y[i] = total
    return y


def seidel_2d(plane: Array, steps: int) -> Any:
    """Element by element, in place."""
    a = plane.copy()
    n = a.shape[0]
    for _ in range(steps):
        for i in range(1, n - 1):
            for j in range(1, n - 1):
                a[i, j] = (
                    a[i, j] + a[i - 1, j - 1] + a[i - 1, j] + a[i - 1, j + 1] + a[i, j + 1]
                    + a[i + 1, j - 1] + a[i + 1, j] + a[i + 1, j + 1] + a[i, j - 1]
                ) / 9.0
    return a


def gram_schmidt(matrix: Array) -> Any:
    """All columns that remain take part in parallel; kept as rows, which lie together."""
    a = matrix.T.copy()
    columns, rows = a.shape
    q, r = np.zeros_like(a), np.zeros((columns, columns), a.dtype)
    for k in range(columns):
        total = 0.0
        for i in range(rows):
            total += a[k, i] * a[k, i]
        r[k, k] = np.sqrt(total)
        for i in range(rows):
            q[k, i] = a[k, i] / r[k, k]
        for j in prange(k + 1, columns):
            dot = 0.0
            for i in range(rows):
                dot += q[k, i] * a[j, i]
            r[k, j] = dot
            for i in range(rows):
                a[j, i] -= q[k, i] * dot
    return q.T.copy(), r


def cumulative_share(x: Array) -> Any:
    """A running sum, then a parallel pass."""
    running = np.empty_like(x)
    total = 0.0
    for i in range(x.size):
        total += x[i] * x[i]
        running[i] = total
    for i in prange(x.size):
        running[i] /= total
    return running


def moving_average(x: Array, width: int) -> Any:
    """The running sum, and the difference as soon as it is known."""
    running = np.cumsum(x)
    result = np.empty(x.size - width, x.dtype)
    for i in prange(result.size):
        result[i] = (running[i + width] - running[i]) / width
    return result


def drawdown(returns: Array) -> Any:
    """A running sum, exponentials in parallel, a running maximum."""
    price, result = np.cumsum(returns), np.empty_like(returns)
    for i in prange(price.size):
        price[i] = np.exp(price[i])
    highest = price[0]
    for i in range(price.size):
        highest = max(highest, price[i])
        result[i] = 1 - price[i] / highest
    return result


def table_lookup(x: Array, table: Array) -> Any:
    """An element a turn."""
    result = np.empty_like(x)
    for i in prange(x.size):
        place = min(max(x[i], 0.0), 1.0) * (table.size - 1)
        below = min(int(place), table.size - 2)
        part = place - below
        result[i] = table[below] * (1 - part) + table[below + 1] * part
    return result


def equalised(image: Array) -> Any:
    """One loop to count, one to look up."""
    rows, columns = image.shape
    counts = np.zeros(256, np.int64)
    for i in range(rows):
        for j in range(columns):
            counts[int(image[i, j] * 255)] += 1
    share = np.cumsum(counts) / image.size
    result = np.empty_like(image)
    for i in prange(rows):
        for j in range(columns):
            result[i, j] = share[int(image[i, j] * 255)]
    return result


def embedding_mean(table: Array, words: Array) -> Any:
    """A sentence a turn."""
    result = np.zeros((words.shape[0], table.shape[1]), table.dtype)
    for i in prange(words.shape[0]):
        for k in range(words.shape[1]):
            for j in range(table.shape[1]):
                result[i, j] += table[words[i, k], j]
        for j in range(table.shape[1]):
            result[i, j] /= words.shape[1]
    return result


def masked_mean(x: Array, least: float) -> Any:
    """Two reductions with a condition."""
    total, count = 0.0, 0
    for i in prange(x.size):
        if x[i] > least:
            total += x[i]
            count += 1
    mean = total / count
    squares = 0.0
    for i in prange(x.size):
        if x[i] > least:
            squares += (x[i] - mean) ** 2
    return mean, np.sqrt(squares / count)


def weighted_histogram(x: Array, weight: Array, bins: int) -> Any:
    """One loop, then a division."""
    total = np.zeros(bins)
    for i in range(x.size):
        total[min(int(x[i] * bins), bins - 1)] += weight[i]
    return total / np.sum(total)


def scattered_forces(position: Array, first: Array, second: Array) -> Any:
    """A spring a turn, both ends at once."""
    force = np.zeros_like(position)
    for k in range(first.size):
        pull = 0.5 * (position[second[k]] - position[first[k]])
        force[first[k]] += pull
        force[second[k]] -= pull
    return force


def mvt(x1: Array, x2: Array, y1: Array, y2: Array, a: Array) -> Any:
    """The products by BLAS."""
    return x1 + a @ y1, x2 + y2 @ a


def gemver(
    alpha: float, beta: float, a: Array, u1: Array, v1: Array, u2: Array, v2: Array, y: Array,
    z: Array,
) -> Any:  # fmt: skip
    """The matrix in one parallel pass, the products by BLAS."""
    updated = np.empty_like(a)
    for i in prange(a.shape[0]):
        for j in range(a.shape[1]):
            updated[i, j] = a[i, j] + u1[i] * v1[j] + u2[i] * v2[j]
    x = beta * (y @ updated) + z
    return alpha * (updated @ x)


def syrk(alpha: float, beta: float, a: Array, c: Array) -> Any:
    """A row a turn; k is the outer one of the inner loops, on the transpose."""
    c, turned = c.copy(), a.T.copy()
    for i in prange(a.shape[0]):
        for j in range(i + 1):
            c[i, j] *= beta
        for k in range(a.shape[1]):
            scale = alpha * a[i, k]
            for j in range(i + 1):
                c[i, j] += scale * turned[k, j]
    return c


PROGRAMS = (
    jacobi_1d, jacobi_2d, heat_2d, heat_3d, wave_leapfrog, fdtd_2d, gray_scott, game_of_life,
    advection_upwind, n_body, garch, exponential_smoothing, biquad, thomas, thomas_columns, horner,
    logistic_map, durbin, deriche_rows, newton_cube_root, conjugate_gradients, power_iteration,
    jacobi_solver, poisson, line_search, k_means, escape_time, clip_by_norm, floyd_warshall,
    nussinov, edit_distance, lu, cholesky, trisolv, crc16, spmv, seidel_2d, gram_schmidt,
    cumulative_share, moving_average, drawdown, table_lookup, equalised, embedding_mean,
    masked_mean, weighted_histogram, scattered_forces, mvt, gemver, syrk,
)
