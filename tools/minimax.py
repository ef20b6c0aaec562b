"""Fit the polynomials of backends/cpu/elementary: weighted minimax, coefficients rounded in turn.

Second algorithm of Remez (E. Remez, 1934; Muller, Elementary Functions, 3rd edition, section 3.5)
on a dense Chebyshev grid. The lowest coefficient is then rounded to the format and the others are
fitted again, one after another, so that the rounding of one is made up for by the next.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import mpmath
import numpy as np
from mpmath import mp, mpf

mp.prec = 220

Function = Callable[[mpf], mpf]


def grid_points(low: mpf, high: mpf, count: int) -> list[mpf]:
    """Return `count` Chebyshev-spaced points strictly inside the interval, ascending."""
    middle, half = (low + high) / 2, (high - low) / 2
    return [middle - half * mp.cos(mp.pi * (k + mpf(1) / 2) / count) for k in range(count)]


def minimax(
    points: Sequence[mpf], values: Sequence[mpf], weights: Sequence[mpf], powers: Sequence[int]
) -> tuple[list[mpf], mpf]:
    """Return the coefficients and the greatest weighted error of the best fit on the points."""
    count = len(powers)
    total = len(points)
    table = [[point**power for power in powers] for point in points]
    chosen = [
        round((1 - float(mp.cos(mp.pi * k / count))) / 2 * (total - 1)) for k in range(count + 1)
    ]
    best: tuple[list[mpf], mpf] | None = None
    for _ in range(30):
        system = mp.matrix(count + 1, count + 1)
        right = mp.matrix(count + 1, 1)
        for row, index in enumerate(chosen):
            for column in range(count):
                system[row, column] = table[index][column]
            system[row, count] = (-1) ** row / weights[index]
            right[row] = values[index]
        solution = mp.lu_solve(system, right)
        fitted = [solution[k] for k in range(count)]
        errors = [(values[k] - mp.fdot(table[k], fitted)) * weights[k] for k in range(total)]
        worst = max(abs(error) for error in errors)
        if best is None or worst < best[1]:
            best = (fitted, worst)
        if worst <= abs(solution[count]) * mpf("1.001"):
            break
        chosen = exchange(errors, count + 1)
    assert best is not None
    return best


def exchange(errors: Sequence[mpf], wanted: int) -> list[int]:
    """Pick `wanted` alternating extrema of the error, as large as possible."""
    peaks: list[int] = []
    for index, error in enumerate(errors):
        if peaks and (error > 0) == (errors[peaks[-1]] > 0):
            if abs(error) > abs(errors[peaks[-1]]):
                peaks[-1] = index
        else:
            peaks.append(index)
    while len(peaks) > wanted:
        if len(peaks) - wanted == 1:
            peaks.pop(0 if abs(errors[peaks[0]]) < abs(errors[peaks[-1]]) else -1)
            continue
        weakest = min(
            range(len(peaks) - 1),
            key=lambda k: max(abs(errors[peaks[k]]), abs(errors[peaks[k + 1]])),
        )
        del peaks[weakest : weakest + 2]
    while len(peaks) < wanted:  # a flat error: fill the widest gap
        gaps = [b - a for a, b in zip([-1, *peaks], [*peaks, len(errors)], strict=True)]
        widest = max(range(len(gaps)), key=lambda k: gaps[k])
        start = peaks[widest - 1] if widest else 0
        peaks = sorted({*peaks, start + max(1, gaps[widest] // 2)})
    return peaks


def rounded(value: mpf, scalar: str) -> float:
    """Round to the nearest float or double."""
    return float(np.float32(float(value))) if scalar == "float" else float(value)


def fit(
    function: Function,
    low: object,
    high: object,
    count: int,
    scalar: str,
    weight: Function = lambda x: mpf(1),
    fixed: Sequence[float] = (),
    density: int = 16,
    careful: int = 5,
) -> tuple[list[float], float]:
    """Fit `count` coefficients of ascending powers; return them and log2 of the weighted error.

    Args:
        function: what to approximate.
        low: the interval's start.
        high: its end.
        count: how many coefficients, the fixed ones included.
        scalar: "float" or "double", the coefficients' format.
        weight: the error is multiplied by this.
        fixed: leading coefficients that are given.
        density: grid points per coefficient.
        careful: how many leading coefficients are rounded in turn; the others all at once.
    """
    points = grid_points(mpf(low), mpf(high), max(density * count, 200))
    weights = [abs(weight(point)) for point in points]
    rest = [function(point) for point in points]
    done: list[float] = []
    for power, value in enumerate(fixed):
        rest = [value_left - value * x**power for value_left, x in zip(rest, points, strict=True)]
        done.append(value)
    while len(done) < count:
        fitted, _ = minimax(points, rest, weights, range(len(done), count))
        at_once = 1 if len(done) < careful else count
        for found in fitted[:at_once]:
            value = rounded(found, scalar)
            rest = [r - value * x ** len(done) for r, x in zip(rest, points, strict=True)]
            done.append(value)
    worst = max(abs(r) * w for r, w in zip(rest, weights, strict=True))
    return done, float(mpmath.log(worst, 2))
