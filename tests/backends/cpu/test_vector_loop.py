"""Rows whose ends fill no vector: the first and the last vector overlap the ones beside them."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import fuser
from fuser.backends.cpu import vector_loop
from fuser.backends.cpu.machine import loader, target
from fuser.backends.cpu.scheduling import choose
from tests.backends.cpu.chosen_schedules import answers_of

LENGTHS = [1, 2, 7, 15, 16, 17, 30, 31, 32, 33, 40, 47, 63, 64, 65]


def around(u: Any, v: Any) -> None:
    """Reads beside where another array is written."""
    v[1:-1, 1:-1] = u[:-2, 1:-1] + u[2:, 1:-1] - u[1:-1, :-2] * u[1:-1, 2:]


def in_place(u: Any, v: Any) -> None:
    """Reads what is written: no element may be computed twice."""
    u[1:-1, 1:-1] = u[1:-1, 1:-1] * u[1:-1, 1:-1] + v[1:-1, 1:-1]


def two(u: Any, v: Any) -> tuple[Any, Any]:
    """Two results, one of another width, and a number of each row."""
    kept = u[1:, 1:] * v[1:, :1]
    return kept, kept != u[:-1, :-1]


@pytest.mark.parametrize("dtype", ["float64", "float32", "uint8", "complex128"])
@pytest.mark.parametrize("function", [around, in_place, two])
def test_every_length_of_a_row(function: Callable[..., Any], dtype: str) -> None:
    """Bits are NumPy's; what lies around what is written stays."""
    fused = fuser.fuse(function, fallback="error")
    chance = np.random.default_rng(0)
    for length in LENGTHS:
        for turn in (lambda a: a, lambda a: a[::-1], lambda a: a[:5]):
            start = (chance.standard_normal((2, 9, length + 2)) * 9).astype(dtype)
            plain, own = start.copy(), start.copy()
            wanted, found = function(*map(turn, plain)), fused(*map(turn, own))
            np.testing.assert_array_equal(own, plain)
            for one, other in zip(wanted or (), found or (), strict=True):
                np.testing.assert_array_equal(other, one)


@pytest.mark.parametrize("shift", [-40, -1, 0, 1, 3, 40, 400])
def test_arrays_that_share_memory(shift: int) -> None:
    """What is written lies near what is read, or in the midst of it: as NumPy computes it."""
    fused = fuser.fuse(lambda x, y, out: np.multiply(x[:, 1:], y[:, :-1], out=out))
    for length in (17, 40, 47):
        results = []
        for function in (fused.__wrapped__, fused):
            memory = np.random.default_rng(0).standard_normal(4000)
            x, out = (
                memory[at : at + 8 * 100].reshape(8, 100)[:, : length + more]
                for at, more in ((1000, 1), (1000 + shift, 0))
            )
            function(x, x, out)
            results.append(memory)
        np.testing.assert_array_equal(*results)


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_short_rows_take_narrow_vectors_where_wide_ones_would_be_half_empty(
    dtype: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One native vector at a time, of many rows; long rows and whole vectors keep two."""
    lanes = 2 * target.host_features().vector_bytes // np.dtype(dtype).itemsize
    asked = answers_of(choose, "choose_narrow_vectors", monkeypatch)
    chance = np.random.default_rng(0)
    for length, narrow in [
        (lanes // 2 + 1, True), (lanes - 1, True), (lanes, False), (lanes + 1, True),
        (2 * lanes - 1, False), (2 * lanes + lanes // 2, True), (40 * lanes + 1, False),
    ]:  # fmt: skip
        fused = fuser.fuse(around)
        u = chance.standard_normal((700, length + 2)).astype(dtype)
        for rows in (700, 699):
            plain, own = u.copy(), u.copy()
            around(u[:rows], plain[:rows])
            fused(u[:rows], own[:rows])
            np.testing.assert_array_equal(own, plain)
        assert [schedule is not None for schedule in asked] == [narrow] * len(asked) != []
        asked.clear()


@pytest.mark.parametrize("dtype", ["float64", "int16", "uint8"])
def test_vectors_are_aligned_to_what_is_written(dtype: str) -> None:
    """Wherever a long row begins, alone or not, apart from what is read or in its place."""
    fused = fuser.fuse(lambda x, out: np.add(x * x, out, out=out), fallback="error")
    beside = fuser.fuse(lambda x, y, out: np.add(x * x, y, out=out), fallback="error")
    start = (np.random.default_rng(0).standard_normal(60_000) * 9).astype(dtype)
    for offset in (0, 1, 3, 7, 8, 33):
        for rows, width in ((1, 8_300), (3, 5_000), (2, 4_352), (5, 600), (260, 60)):
            x = np.arange(rows * width).reshape(rows, width).astype(dtype)
            for cut in (0, 5):
                memory, plain = start.copy(), start.copy()
                own, wanted = (
                    each[offset : offset + x.size].reshape(x.shape)[:, cut:]
                    for each in (memory, plain)
                )
                wanted[...] = x[:, cut:] * x[:, cut:] + wanted
                fused(x[:, cut:], own)
                np.testing.assert_array_equal(memory, plain)
                wanted[...] = x[:, cut:] * x[:, cut:] + x[:, cut:]
                beside(x[:, cut:], x[:, cut:], own)
                np.testing.assert_array_equal(memory, plain)


def test_threads_share_rows() -> None:
    """Each thread's rows, and each part of long ones, end in such a vector."""
    fused = fuser.fuse(around)
    for shape in ((400, 131), (3, 300_001), (70, 9_999)):
        u = np.random.default_rng(0).standard_normal(shape)
        plain, own = u * 2.0, u * 2.0
        around(u, plain)
        fused(u, own)
        np.testing.assert_array_equal(own, plain)


@pytest.mark.parametrize("outer", [0, 1, 2, 3])
def test_what_rows_allow_is_what_their_addresses_say(outer: int) -> None:
    """Strides of either sign and of zero, what is read anywhere; heads of what is long enough."""
    address = loader.shared_address(f"{vector_loop.ROWS}{'nested' if outer else 'flat'}")
    assert address is not None
    words = [ctypes.c_int64] * 3
    function = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_void_p, ctypes.c_void_p, *words)(address)
    generator = np.random.default_rng(outer)

    def whole(low: int, high: int) -> int:
        return int(generator.integers(low, high))

    lanes, line, far, least = 8, 63, 200, (20, 40, 60)
    seen = set()
    for _ in range(600):
        loads, stores, skipped = whole(0, 4), whole(1, 3), whole(0, 2) if outer else 0
        count, rank = loads + stores, outer + skipped + 1
        sizes = [2 ** whole(0, 4) for _ in range(count)]
        aligned = whole(loads, count)
        begin = whole(0, 5)
        end = begin + whole(8, 90)
        lengths = [whole(1, 4) for _ in range(rank - 1)]
        unit = whole(0, 2) * 63 + 1
        strides = [[unit * whole(-9, 10) for _ in range(rank)] for _ in range(count)]
        bases = [whole(4000, 9000) // unit * unit for _ in range(count)]
        spans = []
        for base, size, steps in zip(bases, sizes, strides, strict=True):
            of_axes = [steps[skipped + d] for d in range(outer)]
            starts = [base + sum(k * step for k, step in zip(index, of_axes, strict=True))
                      for index in np.ndindex(*lengths[skipped:])]  # fmt: skip
            spans.append((min(starts), max(starts) + size * end))
        apart = all(
            own[1] <= a or b <= own[0] for own in spans[loads:] for a, b in spans[:loads]
        )
        n, rows = end - begin, int(np.prod(lengths))
        first = bases[aligned] + begin * sizes[aligned]
        steps = [strides[aligned][skipped + d] for d in range(outer)]
        odd = n % lanes or first & line or any(step & line for step in steps)
        again = bool(apart and odd)
        is_long = n >= (least[0 if n * rows >= far else 1] if again else least[2])
        heads = (-first & line) // sizes[aligned] * (not any(step & line for step in steps))
        wanted = again + 2 * is_long * (line if again else heads)

        loops = [rank, outer, count + skipped, count + skipped + rank - 1] if outer else []
        shape = [lanes - 1, aligned, sizes[aligned].bit_length() - 1, line, far, *least]
        told = np.array([*shape, loads, count, *loops, *sizes], np.int64)
        block = np.array([*bases, *lengths, *np.ravel(strides)], np.int64)
        found = function(block.ctypes.data, told.ctypes.data, rows, begin, end)
        assert found == wanted
        seen.add((again, found > 1))
    assert len(seen) == 4
