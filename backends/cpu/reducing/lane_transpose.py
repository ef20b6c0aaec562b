"""Squares of lanes in registers: what all lanes of one row join to becomes one lane of the result.

Halving the lanes of one row leaves half of each register idle. Here a step takes two vectors, puts
the lower halves of their rows into one and the upper halves into another, and joins these: after
as many steps as it takes for one row, all rows are done. Each shuffle is one instruction: from 16
bytes on whole quarters of registers move, below that elements within a quarter.
"""

from __future__ import annotations

from collections.abc import Sequence

from fuser.backends.cpu import tuning
from fuser.backends.cpu.body import BITS, Body, Value
from fuser.backends.cpu.reducing import accumulators
from fuser.backends.cpu.reducing.accumulators import Accumulator
from fuser.backends.cpu.spacing import shuffled
from fuser.backends.cpu.spelling import spell


def join(b: Body, accumulator: Accumulator, rows: Sequence[Value]) -> list[Value]:
    """Join the lanes of as many rows as each has lanes; lane k belongs to row k.

    Args:
        b: where to write.
        accumulator: says how; sums of floats come with their rounding errors.
        rows: one vector each; a power of two.
    """
    lanes = len(rows)
    labels = [[number] * lanes for number in range(lanes)]
    for width in _widths(lanes):
        places = _places(accumulator, lanes, width)
        both = zip(labels[::2], labels[1::2], strict=True)
        labels = [[(old + new)[place] for place in places[0]] for old, new in both]
    order = labels[0]
    vectors = [[rows[order.index(number)]] for number in range(lanes)]
    for width in _widths(lanes):
        places = _places(accumulator, lanes, width)
        pairs = list(zip(vectors[::2], vectors[1::2], strict=True))
        vectors = []
        for old, new in pairs:
            low, high = (
                [shuffled(b, x, y, chosen) for x, y in zip(old, new, strict=True)]
                for chosen in places
            )
            vectors.append(_joined(b, accumulator, width, low, high))
    return vectors[0]


def beside(b: Body, parts: list[Value]) -> Value:
    """Vectors one behind another, as one."""
    while len(parts) > 1:
        both = zip(parts[::2], parts[1::2], strict=True)
        parts = [shuffled(b, low, high, range(2 * low.lanes)) for low, high in both]
    return parts[0]


def _widths(lanes: int) -> list[int]:
    """Lanes of a row before each step."""
    return [lanes >> step for step in range(lanes.bit_length() - 1)]


def _places(accumulator: Accumulator, lanes: int, width: int) -> tuple[list[int], list[int]]:
    """Which lanes of two vectors are lower and upper halves of rows of so many lanes."""
    size = max(1, BITS[accumulator.register] // 8)
    chunk = lanes
    if width * size <= tuning.SHUFFLED_BYTES:
        chunk = min(lanes, max(width, tuning.SHUFFLED_BYTES // size))
    low: list[int] = []
    for first in range(0, lanes, chunk):
        for vector in (0, lanes):
            for row in range(first, first + chunk, width):
                low += range(vector + row, vector + row + width // 2)
    return low, [place + width // 2 for place in low]


def _joined(
    b: Body, accumulator: Accumulator, width: int, old: list[Value], new: list[Value]
) -> list[Value]:
    """Two vectors of partial results as one, and their rounding errors where they are kept."""
    if accumulator.noted:
        return [accumulators.more_extreme(b, accumulator, old[0], new[0])]
    if not accumulator.exact or width > tuning.EXACT_LANES:
        name = accumulator.row.combine
        return [spell(b, name, accumulator.dtype, [old[0], new[0]])]
    total, error = accumulators.two_sum(b, old[0], new[0])
    for rest in zip(old[1:], new[1:], strict=True):
        error = b.op("fadd", b.op("fadd", *rest), error)
    return [total, error]
