"""Kernels of numerical libraries and textbooks as programs over NumPy, beside those of the suites.

Each is a function and what makes its arguments for a length: linear algebra written out, stencils,
filters, integrals, layers of networks. Many write into their arguments.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

Maker = Callable[[int, np.random.Generator], tuple[Any, ...]]
KERNELS: dict[str, tuple[Callable[..., Any], Maker]] = {}


def given(*shapes: Any) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Register a kernel whose arguments are arrays of these shapes in `n`, or numbers.

    A tuple holds lengths: a number, or a function of `n`. What is no tuple is a number that is
    given as it is, or a function of `n` and a generator that makes the argument.
    """

    def argument(shape: Any, n: int, generator: np.random.Generator) -> Any:
        if isinstance(shape, tuple):
            return generator.random([each if isinstance(each, int) else each(n) for each in shape])
        return shape(n, generator) if callable(shape) else shape

    def register(function: Callable[..., Any]) -> Callable[..., Any]:
        def make(n: int, generator: np.random.Generator) -> tuple[Any, ...]:
            return tuple(argument(each, n, generator) for each in shapes)

        KERNELS[function.__name__] = function, make
        return function

    return register


def n(length: int) -> int:
    """The length itself."""
    return length


def whole(low: int, high: int) -> Callable[[int, np.random.Generator], Any]:
    """A maker of `n` by `n` whole numbers."""
    return lambda length, generator: generator.integers(low, high, (length, length))


def definite(length: int, generator: np.random.Generator) -> Any:
    """A positive definite matrix."""
    half = generator.random((length, length)) / length
    return half + half.T + 2 * np.eye(length)


def complex_matrix(length: int, generator: np.random.Generator) -> Any:
    """Complex values."""
    return generator.random((length, length)) + 1j * generator.random((length, length))


@given((n, n), 3)
def adi(u: Any, steps: int) -> None:
    """Alternating directions: implicit along one axis, then along the other."""
    size = u.shape[0]
    v, p, q = np.empty_like(u), np.empty_like(u), np.empty_like(u)
    for _ in range(steps):
        v[0, 1:-1] = 1.0
        p[1:-1, 0] = 0.0
        q[1:-1, 0] = v[0, 1:-1]
        for j in range(1, size - 1):
            p[1:-1, j] = 0.3 / (1.6 - 0.3 * p[1:-1, j - 1])
            known = 0.2 * u[j, :-2] + 0.6 * u[j, 1:-1] + 0.2 * u[j, 2:]
            q[1:-1, j] = (known + 0.3 * q[1:-1, j - 1]) / (1.6 - 0.3 * p[1:-1, j - 1])
        v[-1, 1:-1] = 1.0
        for j in range(size - 2, 0, -1):
            v[j, 1:-1] = p[1:-1, j] * v[j + 1, 1:-1] + q[1:-1, j]
        u[1:-1, 1:-1] = v[1:-1, 1:-1].T


@given((n,), (n,), (n,), (n,))
def arc_distance(theta_1: Any, phi_1: Any, theta_2: Any, phi_2: Any) -> Any:
    """Angles between points on a sphere."""
    part = np.sin((theta_2 - theta_1) / 2) ** 2
    part = part + np.cos(theta_1) * np.cos(theta_2) * np.sin((phi_2 - phi_1) / 2) ** 2
    return 2 * np.arctan2(np.sqrt(part), np.sqrt(1 - part))


@given((lambda n: 20 * n,), (lambda n: 20 * n,), 5)
def azimint_naive(values: Any, radius: Any, bins: int) -> Any:
    """Means over rings, each found by a mask."""
    largest = radius.max()
    result = np.zeros(bins)
    for i in range(bins):
        inner = largest * i / bins
        outer = largest * (i + 1) / bins
        ring = np.logical_and(inner <= radius, radius < outer)
        result[i] = values[ring].mean()
    return result


@given((lambda n: 20 * n,), (lambda n: 20 * n,), 5)
def azimint_hist(values: Any, radius: Any, bins: int) -> Any:
    """Means over rings by two histograms."""
    counts = np.histogram(radius, bins)[0]
    return np.histogram(radius, bins, weights=values)[0] / counts


@given((n, lambda n: n + 3), (lambda n: n + 3,), (n,))
def bicg(a: Any, p: Any, r: Any) -> Any:
    """A matrix and its transpose, each times a vector."""
    return r @ a, a @ p


@given((n, n), (n, n), (n, n), 4, 3)
def cavity_flow(u: Any, v: Any, p: Any, steps: int, inner: int) -> None:
    """Flow in a box with a moving lid: pressure by iterations within each step."""
    dt, dx = 0.001, 0.1
    b = np.zeros_like(u)
    for _ in range(steps):
        along = (u[1:-1, 2:] - u[1:-1, :-2]) / (2 * dx)
        across = (v[2:, 1:-1] - v[:-2, 1:-1]) / (2 * dx)
        turn = (u[2:, 1:-1] - u[:-2, 1:-1]) * (v[1:-1, 2:] - v[1:-1, :-2]) / (2 * dx * dx)
        b[1:-1, 1:-1] = (along + across) / dt - along**2 - across**2 - turn
        for _ in range(inner):
            before = p.copy()
            p[1:-1, 1:-1] = (
                before[1:-1, 2:] + before[1:-1, :-2] + before[2:, 1:-1] + before[:-2, 1:-1]
                - dx * dx * b[1:-1, 1:-1]
            ) / 4
            p[:, -1] = p[:, -2]
            p[0, :] = p[1, :]
            p[:, 0] = p[:, 1]
            p[-1, :] = 0
        was_u, was_v = u.copy(), v.copy()
        u[1:-1, 1:-1] = was_u[1:-1, 1:-1] - dt / dx * (
            was_u[1:-1, 1:-1] * (was_u[1:-1, 1:-1] - was_u[1:-1, :-2])
            + was_v[1:-1, 1:-1] * (was_u[1:-1, 1:-1] - was_u[:-2, 1:-1])
            + 0.5 * (p[1:-1, 2:] - p[1:-1, :-2])
        )
        v[1:-1, 1:-1] = was_v[1:-1, 1:-1] - dt / dx * (
            was_u[1:-1, 1:-1] * (was_v[1:-1, 1:-1] - was_v[1:-1, :-2])
            + was_v[1:-1, 1:-1] * (was_v[1:-1, 1:-1] - was_v[:-2, 1:-1])
            + 0.5 * (p[2:, 1:-1] - p[:-2, 1:-1])
        )
        u[0, :] = u[:, 0] = u[:, -1] = 0
        u[-1, :] = 1
        v[0, :] = v[-1, :] = v[:, 0] = v[:, -1] = 0


@given((n, n), (n, n), 0.5, 4)
def channel_flow(u: Any, p: Any, force: float, most: int) -> Any:
    """Flow through a channel until it hardly changes; the ends are joined."""
    change, step = 1.0, 0
    while change > 0.001 and step < most:
        before = u.copy()
        u[1:-1, 1:-1] = before[1:-1, 1:-1] + 0.01 * (
            force + before[1:-1, 2:] - 2 * before[1:-1, 1:-1] + before[1:-1, :-2]
        ) - 0.01 * (p[1:-1, 2:] - p[1:-1, :-2])
        u[1:-1, -1] = before[1:-1, -1] + 0.01 * (force + before[1:-1, 0] - before[1:-1, -1])
        u[0, :] = u[-1, :] = 0
        change = (np.sum(u) - np.sum(before)) / np.sum(u)
        step += 1
    return step


@given(whole(0, 1000), whole(0, 1000), 4, 3, 9)
def compute(x: Any, y: Any, a: Any, b: Any, c: Any) -> Any:
    """Integers clipped, scaled and added."""
    return np.clip(x, 2, 10) * a + y * b + c


@given(complex_matrix, lambda n, _: np.exp(2j * np.pi * np.arange(8) / 8))
def contour_integral(matrix: Any, points: Any) -> Any:
    """Resolvents at points on a circle, summed up with weights."""
    first = np.zeros_like(matrix)
    second = np.zeros_like(matrix)
    eye = np.eye(matrix.shape[0])
    for k in range(points.shape[0]):
        inverse = np.linalg.inv(4 * points[k] * eye - matrix)
        first += points[k] * inverse
        second += points[k] ** 2 * inverse
    return first, second


@given((n, n), (3, 3, 2, 4), (4,))
def convolution(image: Any, weights: Any, bias: Any) -> Any:
    """A layer of a network: patches times weights, place by place."""
    pixels = np.stack([image, image * 2], axis=-1)
    size = weights.shape[0]
    rows, columns = pixels.shape[0] - size + 1, pixels.shape[1] - size + 1
    result = np.empty((rows, columns, weights.shape[3]))
    for i in range(rows):
        for j in range(columns):
            patch = pixels[i : i + size, j : j + size, :, np.newaxis]
            result[i, j] = np.sum(patch * weights, axis=(0, 1, 2))
    return np.maximum(result + bias, 0)


@given((n, n), 0.25)
def deriche(image: Any, alpha: float) -> Any:
    """Recursive smoothing along both axes, with two values of the past."""
    k = (1 - np.exp(-alpha)) ** 2 / (1 + 2 * alpha * np.exp(-alpha) - np.exp(2 * alpha))
    b1, b2 = 2.0 ** (-alpha), -np.exp(-2 * alpha)
    forth, back = np.empty_like(image), np.empty_like(image)
    forth[:, 0] = k * image[:, 0]
    forth[:, 1] = k * image[:, 1] + b1 * forth[:, 0]
    for j in range(2, image.shape[1]):
        forth[:, j] = k * image[:, j] + b1 * forth[:, j - 1] + b2 * forth[:, j - 2]
    back[:, -1] = 0.0
    back[:, -2] = k * image[:, -1]
    for j in range(image.shape[1] - 3, -1, -1):
        back[:, j] = k * image[:, j + 1] + b1 * back[:, j + 1] + b2 * back[:, j + 2]
    both = forth + back
    forth[0, :] = k * both[0, :]
    for i in range(1, image.shape[0]):
        forth[i, :] = k * both[i, :] + b1 * forth[i - 1, :]
    return forth


@given((n, 4, 5), (5, 5))
def doitgen(a: Any, c: Any) -> None:
    """A tensor times a matrix, written over it plane by plane."""
    for r in range(a.shape[0]):
        for q in range(a.shape[1]):
            a[r, q, :] = a[r, q, :] @ c


@given(1.5, 1.2, (n, n), (n, 4), (4, n))
def gemm(alpha: float, beta: float, c: Any, a: Any, b: Any) -> None:
    """A scaled product, added in place."""
    c[:] = alpha * a @ b + beta * c


@given((n, n))
def go_fast(a: Any) -> Any:
    """A trace by a loop, added to all elements."""
    trace = 0.0
    for i in range(a.shape[0]):
        trace += np.tanh(a[i, i])
    return a + trace


@given((lambda n: n + 4, lambda n: n + 4, 3), (n, n, 3))
def hdiff(field: Any, coefficient: Any) -> Any:
    """Horizontal diffusion with limited fluxes (weather models)."""
    lap = 4 * field[1:-1, 1:-1] - (
        field[2:, 1:-1] + field[:-2, 1:-1] + field[1:-1, 2:] + field[1:-1, :-2]
    )
    flux = lap[1:, 1:-1] - lap[:-1, 1:-1]
    flux_x = np.where(flux * (field[2:-1, 2:-2] - field[1:-2, 2:-2]) > 0, 0, flux)
    flux = lap[1:-1, 1:] - lap[1:-1, :-1]
    flux_y = np.where(flux * (field[2:-2, 2:-1] - field[2:-2, 1:-2]) > 0, 0, flux)
    return field[2:-2, 2:-2] - coefficient * (
        flux_x[1:] - flux_x[:-1] + flux_y[:, 1:] - flux_y[:, :-1]
    )


@given(1.5, 1.2, (n, 4), (4, n), (n, 5), (n, 5))
def k2mm(alpha: float, beta: float, a: Any, b: Any, c: Any, d: Any) -> None:
    """Two products, one after the other."""
    d[:] = alpha * a @ b @ c + beta * d


@given((n, 4), (4, n), (n, 5), (5, n))
def k3mm(a: Any, b: Any, c: Any, d: Any) -> Any:
    """Three products."""
    return a @ b @ c @ d


@given((2, lambda n: 2 * n, lambda n: 2 * n), (3, 3, 2, 3), (3,), (lambda n: 3 * (n - 1) ** 2, 4))
def lenet(images: Any, weights: Any, bias: Any, dense: Any) -> Any:
    """A convolution by whole shifted images, pooling, and a dense layer."""
    size, rows = weights.shape[0], images.shape[1] - weights.shape[0] + 1
    maps = np.zeros((weights.shape[3], rows, rows))
    for i in range(size):
        for j in range(size):
            part = images[:, i : i + rows, j : j + rows]
            maps += np.tensordot(weights[i, j], part, axes=(0, 0))
    maps = np.maximum(maps + bias[:, None, None], 0)
    pooled = np.maximum(
        np.maximum(maps[:, ::2, ::2], maps[:, 1::2, ::2]),
        np.maximum(maps[:, ::2, 1::2], maps[:, 1::2, 1::2]),
    )
    return np.maximum(pooled.reshape(-1) @ dense, 0)


@given(definite, (n,))
def ludcmp(matrix: Any, b: Any) -> Any:
    """Factors, then both triangular systems."""
    a, count = matrix, b.shape[0]
    x, y = np.zeros_like(b), np.zeros_like(b)
    for i in range(count):
        for j in range(i):
            a[i, j] = (a[i, j] - a[i, :j] @ a[:j, j]) / a[j, j]
        for j in range(i, count):
            a[i, j] -= a[i, :i] @ a[:i, j]
    for i in range(count):
        y[i] = b[i] - a[i, :i] @ y[:i]
    for i in range(count - 1, -1, -1):
        x[i] = (y[i] - a[i, i + 1 :] @ x[i + 1 :]) / a[i, i]
    return x, y


def mandelbrot_masked(low: float, high: float, count: Any, turns: int) -> Any:
    """Complex points on a grid; those within the circle go on, by a mask."""
    c = np.linspace(low, high, count) + np.linspace(-1.2, 1.2, count)[:, None] * 1j
    z = np.zeros(c.shape, np.complex128)
    counts = np.zeros(c.shape, np.int64)
    for turn in range(turns):
        inside = np.abs(z) < 2.0
        counts[inside] = turn
        z[inside] = z[inside] ** 2 + c[inside]
    return z, counts


KERNELS["mandelbrot_masked"] = (mandelbrot_masked, lambda n, _: (-2.0, 0.6, n, 12))


@given((n, n), 12)
def mandelbrot_shrinking(grid: Any, turns: int) -> Any:
    """Points that have left the circle are taken out of the arrays."""
    c = 3 * grid.ravel() - 2 + 1.0j * grid.T.ravel()
    z, place = c.copy(), np.arange(c.shape[0])
    counts = np.zeros(c.shape[0], np.int64)
    for turn in range(turns):
        if not len(z):
            break
        z = z * z + c
        left = np.abs(z) > 2.0
        counts[place[left]] = turn + 1
        z, c, place = z[~left], c[~left], place[~left]
    return counts


@given((n, 3), (n, 3), (n,), 0.01, 3)
def bodies_energy(position: Any, velocity: Any, mass: Any, dt: float, steps: int) -> Any:
    """Bodies by leapfrog; energies of each step are kept."""
    kinetic, potential = np.ndarray(steps + 1), np.ndarray(steps + 1)
    kinetic[0] = 0.5 * np.sum(mass[:, None] * velocity**2)
    potential[0] = 0.0
    for t in range(steps):
        x, y, z = position[:, 0:1], position[:, 1:2], position[:, 2:3]
        dx, dy, dz = x.T - x, y.T - y, z.T - z
        inverse = (dx**2 + dy**2 + dz**2 + 0.01) ** (-1.5)
        acceleration = np.hstack(((dx * inverse) @ mass[:, None], (dy * inverse) @ mass[:, None],
                                  (dz * inverse) @ mass[:, None]))  # fmt: skip
        velocity += acceleration * dt
        position += velocity * dt
        kinetic[t + 1] = 0.5 * np.sum(mass[:, None] * velocity**2)
        potential[t + 1] = -np.sum(np.triu(mass * mass[:, None] * np.sqrt(inverse ** (2 / 3)), 1))
    return kinetic, potential


def _normed(x: Any) -> Any:
    mean = np.mean(x, axis=0, keepdims=True)
    return (x - mean) / np.sqrt(np.var(x, axis=0, keepdims=True) + 1e-5)


@given((n, 4), (4, 6), (6, 4))
def resnet_block(x: Any, first: Any, second: Any) -> Any:
    """Two layers by helper functions, their input added."""
    inner = np.maximum(_normed(x @ first), 0)
    return np.maximum(_normed(inner @ second) + x, 0)


@given((3, n, 4, 4), (3, n, 2, 4, 4), (2, 4, 4))
def scattering(green: Any, dh: Any, d: Any) -> Any:
    """Sums of small products over several loops, some skipped by a condition."""
    sigma = np.zeros_like(green)
    for k in range(green.shape[0]):
        for e in range(green.shape[1]):
            for w in range(d.shape[0]):
                for other in range(dh.shape[0]):
                    if e - w >= 0:
                        part = dh[other, e, w] @ green[k, e - w]
                        sigma[k, e] += part @ d[w]
    return sigma


@given((2, 3, n, n))
def softmax_rows(x: Any) -> Any:
    """Of four axes, along the last."""
    shifted = x - np.max(x, axis=-1, keepdims=True)
    weights = np.exp(shifted)
    return weights / np.sum(weights, axis=-1, keepdims=True)


@given(lambda n, g: g.random(16) + 1j * g.random(16))
def stockham(x: Any) -> Any:
    """A Fourier transform that sorts as it goes: halves joined in another shape each turn."""
    y = x.copy()
    size = x.shape[0]
    for turn in range(size.bit_length() - 1):
        half, stride = size >> (turn + 1), 1 << turn
        halves = y.reshape(2, half, stride)
        angle = np.exp(-1j * np.pi * np.arange(half) / half)[:, None]
        y = np.stack([halves[0] + halves[1], (halves[0] - halves[1]) * angle], axis=1).reshape(-1)
    return y


@given(1.5, 1.2, (n, 5), definite, (n, 5))
def symm(alpha: float, beta: float, c: Any, a: Any, b: Any) -> None:
    """A symmetric product of which one triangle is read."""
    held = np.empty(c.shape[1])
    c *= beta
    for i in range(c.shape[0]):
        for j in range(c.shape[1]):
            c[:i, j] += alpha * b[i, j] * a[i, :i]
            held[j] = b[:i, j] @ a[i, :i]
        c[i, :] += alpha * b[i, :] * a[i, i] + alpha * held


@given(1.5, 1.2, (n, n), (n, 4), (n, 4))
def syr2k(alpha: float, beta: float, c: Any, a: Any, b: Any) -> None:
    """A triangle of two products, row by row."""
    for i in range(a.shape[0]):
        c[i, : i + 1] *= beta
        for k in range(a.shape[1]):
            c[i, : i + 1] += a[: i + 1, k] * alpha * b[i, k] + b[: i + 1, k] * alpha * a[i, k]


@given(1.5, definite, (n, 5))
def trmm(alpha: float, a: Any, b: Any) -> None:
    """A triangular product in place."""
    for i in range(b.shape[0]):
        for j in range(b.shape[1]):
            b[i, j] += np.dot(a[i + 1 :, i], b[i + 1 :, j])
    b *= alpha


@given((4, 4, n), (4, 4, n), (5, 4, n))
def vadv(u: Any, position: Any, wind: Any) -> Any:
    """Vertical advection: a tridiagonal system along the last axis of a block."""
    depth = u.shape[2]
    c, d, result = (np.ndarray(u.shape, dtype=u.dtype) for _ in range(3))
    for k in range(1):
        upper = 0.25 * (wind[1:, :, k + 1] + wind[:-1, :, k + 1])
        pivot = 3.0 - upper
        c[:, :, k] = upper / pivot
        d[:, :, k] = (3.0 * position[:, :, k] - upper * (u[:, :, k + 1] - u[:, :, k])) / pivot
    for k in range(1, depth - 1):
        lower = -0.25 * (wind[1:, :, k] + wind[:-1, :, k])
        upper = 0.25 * (wind[1:, :, k + 1] + wind[:-1, :, k + 1])
        change = -lower * (u[:, :, k - 1] - u[:, :, k]) - upper * (u[:, :, k + 1] - u[:, :, k])
        divided = 1.0 / (3.0 - lower - upper - c[:, :, k - 1] * lower)
        c[:, :, k] = upper * divided
        d[:, :, k] = (3.0 * position[:, :, k] + change - d[:, :, k - 1] * lower) * divided
    for k in range(depth - 1, depth):
        lower = -0.25 * (wind[1:, :, k] + wind[:-1, :, k])
        divided = 1.0 / (3.0 - lower - c[:, :, k - 1] * lower)
        d[:, :, k] = (3.0 * position[:, :, k] - d[:, :, k - 1] * lower) * divided
    for k in range(depth - 1, -1, -1):
        if k == depth - 1:
            last = d[:, :, k]
        else:
            last = d[:, :, k] - c[:, :, k] * last
        result[:, :, k] = 3.0 * (last - position[:, :, k])
    return result


@given((n, n), -0.2, 0.2)
def clipping(image: Any, low: float, high: float) -> Any:
    """Values beyond two percentiles are set to them, if there are any."""
    middle = np.mean(image)
    if image.max() > middle + high:
        image = np.where(image > middle + high, middle + high, image)
    if image.min() < middle + low:
        image = np.where(image < middle + low, middle + low, image)
    return image


@given(definite)
def cholesky_rows(a: Any) -> None:
    """NumPy's factor, written over the matrix."""
    a[:] = np.linalg.cholesky(a) + np.triu(a, k=1)


@given((n,), (n,), 1e-8)
def secant_search(low: Any, width: Any, tolerance: float) -> Any:
    """A root of a mean by bisection: a decision a turn."""
    left, right = float(np.min(low)) - 3.0, float(np.max(low + width)) + 3.0
    while right - left > tolerance:
        middle = 0.5 * (left + right)
        if np.mean(np.tanh(middle - low - width)) > 0:
            right = middle
        else:
            left = middle
    return np.array(0.5 * (left + right))
