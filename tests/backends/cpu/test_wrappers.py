"""Transposed operands and streaming stores: right for every shape, layout and alignment."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import fuser
from fuser.backends.cpu import fused_kernel
from fuser.backends.cpu.body import Features
from fuser.backends.cpu.emit import emit
from fuser.backends.cpu.machine import loader, workers
from fuser.backends.cpu.schedule import Schedule
from fuser.backends.cpu.scheduling import choose
from tests.backends.cpu.table_modules import flat_nests
from tests.backends.cpu.test_emit import graph_of

SHAPES = ((1, 1), (3, 5), (5, 70), (64, 64), (65, 130), (300, 129))


@pytest.mark.parametrize("dtype", ["bool", "int16", "float32", "float64"])
def test_a_matrix_and_a_transposed_one(dtype: str) -> None:
    """Tiles whole and in part, of one, two and four bytes and more."""
    either = fuser.fuse(lambda a, b: (a > 0) ^ (b > 1), fallback="error")
    draw = np.random.default_rng(1)
    for rows, columns in SHAPES:
        a = draw.integers(0, 3, (rows, columns)).astype(dtype)
        b = draw.integers(0, 3, (columns, rows)).astype(dtype)
        np.testing.assert_array_equal(either(a, b.T), (a > 0) ^ (b.T > 1))


def test_axes_in_any_order() -> None:
    """Three axes, all orders, steps and directions, beside a contiguous operand."""
    difference = fuser.fuse(lambda a, b, c: a - b * c, fallback="error")
    base = np.random.default_rng(2).normal(size=(13, 34, 19))
    for axes in itertools.permutations(range(3)):
        for index in (np.s_[:], np.s_[::2, ::-1], np.s_[:, ::3, 1::2], np.s_[:0]):
            view = base.transpose(axes)[index]
            plain = view.copy()
            np.testing.assert_array_equal(
                difference(plain, view, view[0] if len(view) else plain),
                plain - view * (view[0] if len(view) else plain),
            )


def test_tiles_are_shared_among_threads() -> None:
    """A matrix large enough for several chunks; the same bits as on one thread."""
    symmetric = fuser.fuse(lambda a, b: 0.5 * (a + b.T), fallback="error")
    a = np.random.default_rng(3).normal(size=(700, 900)).astype(np.float32)
    b = np.random.default_rng(4).normal(size=(900, 700)).astype(np.float32)
    np.testing.assert_array_equal(symmetric(a, b), np.float32(0.5) * (a + b.T))
    rows, columns = workers.chunking(700, 900, tiled=True)
    assert rows >= 64
    assert rows * columns <= workers.CHUNK


@pytest.mark.parametrize("columns", [1024, 1000])
def test_rows_are_streamed_from_where_they_are_aligned(
    monkeypatch: pytest.MonkeyPatch, columns: int
) -> None:
    """Destinations at any offset, rows of any length, two results aligned alike or not."""
    monkeypatch.setattr(choose, "stream_bytes", lambda: 1 << 16)
    both = fuser.fuse(lambda x, bias: (x + bias, x > bias), fallback="error")
    x = np.random.default_rng(5).normal(size=(40, columns)).astype(np.float32)
    bias = x[7] * 2
    for shift, other in ((0, 0), (4, 4), (4, 1), (3, 0)):
        room = np.full(x.size + 32, 9, np.float32)
        flags = np.zeros(x.size + 32, np.bool_)
        out = (
            room[shift : shift + x.size].reshape(x.shape),
            flags[other : other + x.size].reshape(x.shape),
        )
        both(x, bias, out=out)
        np.testing.assert_array_equal(out[0], x + bias)
        np.testing.assert_array_equal(out[1], x > bias)
        assert (room[:shift] == 9).all()
        assert (room[shift + x.size :] == 9).all()


def test_transposed_operands_count_where_results_are_streamed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """All that is touched would not stay in the cache; a broadcast row is less than it looks."""
    monkeypatch.setattr(choose, "stream_bytes", lambda: 1 << 20)
    schedules: list[Schedule] = []
    function = fused_kernel.FusedKernelCPU._function

    def noted(
        kernel: fused_kernel.FusedKernelCPU, schedule: Schedule, section: int
    ) -> object:
        schedules.append(schedule)
        return function(kernel, schedule, section)

    monkeypatch.setattr(fused_kernel.FusedKernelCPU, "_function", noted)
    a = np.random.default_rng(6).normal(size=(401, 400)).astype(np.float32)
    b = np.random.default_rng(7).normal(size=(400, 401)).astype(np.float32)
    turned = fuser.fuse(lambda a, b: a - b.T * 3, fallback="error")
    biased = fuser.fuse(lambda a, b: a - b * 3, fallback="error")
    for _ in range(3):
        np.testing.assert_array_equal(biased(a, b.ravel()[:400]), a - b.ravel()[:400] * 3)
    assert fused_kernel.STREAMING not in schedules
    for _ in range(3):
        np.testing.assert_array_equal(turned(a, b), a - b.T * 3)
    assert fused_kernel.STREAMING in schedules


def test_streaming_stores_are_in_the_code() -> None:
    """Whole vectors go past the caches; heads and tails do not."""
    nests = flat_nests(graph_of("add", "float32"))
    text = emit(nests, "k", Features(32), Schedule(store="streaming"))
    assert "!nontemporal" in text
    assert "movnt" in loader.assembly(text)
