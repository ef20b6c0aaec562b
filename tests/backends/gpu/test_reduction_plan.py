"""Who shares a row or a column, by its length: launch plans of reductions, without a device."""

from __future__ import annotations

import struct
from functools import cache

import numpy as np
import pytest

from fuser.backends.gpu import reduction_plan
from fuser.backends.gpu.geometry import LaunchPlan, Resources
from fuser.backends.gpu.stages import Stages
from tests.backends.gpu.units import nests_of
from tests.softmax import softmax

H200 = Resources(multiprocessors=132, shared_bytes=227 << 10)


@cache
def stages_of(name: str) -> Stages:
    """The stages of a function of a float32 matrix."""
    functions = {
        "sum": lambda x: x.sum(axis=1), "total": lambda x: x.sum(), "softmax": softmax,
        "columns": lambda x: x.sum(axis=0),
    }  # fmt: skip
    (nest,) = nests_of(functions[name], np.ones((4, 8), np.float32))
    return Stages(nest)


def planned(name: str, *lengths: int, resources: Resources = H200) -> LaunchPlan:
    """The plan for C-contiguous operands of these lengths of loops, with eight blocks each."""
    stages = stages_of(name)
    rows = [[4 * lengths[-1], 4], [4, 0]] if len(lengths) == 2 else [[4], [0]]
    if name == "columns":
        rows = [[4, 4 * lengths[0]], [4, 0]]
    if name == "softmax":
        rows[1] = rows[0]
    return reduction_plan.plan(stages, lengths, rows, resources, lambda *_: 8)


@pytest.mark.parametrize(
    ("name", "lengths", "strategy", "team"),
    [
        ("sum", (1 << 20, 1), "lanes", 1),
        ("sum", (1 << 20, 16), "lanes", 4),
        ("sum", (1 << 20, 64), "lanes", 4),
        ("softmax", (1 << 16, 768), "lanes", 32),
        ("softmax", (1 << 16, 1024), "lanes", 32),
        ("softmax", (1 << 14, 4096), "block", 128),
        ("softmax", (1 << 12, 65_536), "block", 512),
        ("softmax", (200, 768), "block", 256),  # few rows: more threads for each
        ("softmax", (8, 1 << 20), "long", 512),
        ("softmax", (8, (1 << 20) + 1), "long", 512),
        ("softmax", (1 << 12, 1 << 17), "long", 512),
        ("total", (1 << 26,), "split", 512),
        ("total", (100,), "lanes", 32),
        ("columns", (4096, 4096), "split columns", 32),
        ("columns", (1 << 20, 100), "columns", 32),
        ("columns", (1 << 20, 2), "columns", 128),
        ("columns", (3, 1 << 20), "split columns", 1),
    ],
)
def test_strategies(name: str, lengths: tuple[int, ...], strategy: str, team: int) -> None:
    """By the row's length, and how many rows there are to keep the device busy."""
    plan = planned(name, *lengths)
    words = struct.unpack_from("=7Q", plan.words)
    assert (plan.strategy, words[3]) == (strategy, team)
    assert plan.variant.split == strategy.startswith(("split", "long"))
    assert plan.block % 32 == 0
    assert plan.grid >= 1


@pytest.mark.parametrize(
    ("length", "held", "tail"),
    [(4, 1, 0), (64, 4, 0), (768, 6, 0), (1024, 8, 0), (4096, 8, 0), (5120, 6, 0),
     (16_384, 8, 0), (32_768, 8, 4096), (65_536, 8, 12_288)],
)  # fmt: skip
def test_rows_are_read_once(length: int, held: int, tail: int) -> None:
    """In registers, and what is too much for these in shared memory."""
    plan = planned("softmax", (1 << 26) // length, length)
    team, kept = struct.unpack_from("=7Q", plan.words)[3::3]
    assert (plan.variant.held, plan.variant.tail) == (held, tail > 0)
    assert kept == tail
    assert length // 4 <= held * team + kept
    assert plan.shared <= H200.shared_bytes


@pytest.mark.parametrize("length", [767, 1003, 32_767, 50_257, 65_535])
def test_rows_that_begin_between_vectors_are_read_once_too(length: int) -> None:
    """Held and kept as those of whole vectors are; one pass keeps nothing."""
    plan = planned("softmax", 1 << 12, length)
    team, kept = struct.unpack_from("=7Q", plan.words)[3::3]
    assert plan.variant.odd
    assert length <= 4 * (plan.variant.held * team + kept)
    assert plan.shared <= H200.shared_bytes
    assert planned("sum", 1 << 12, length).shared <= 1024
    assert not planned("softmax", 1 << 12, length // 4 * 4).variant.odd


def test_several_blocks_of_short_rows_fit_a_multiprocessor() -> None:
    """What one block keeps is bounded where a block has several rows."""
    assert planned("softmax", 1 << 16, 1023).shared <= reduction_plan.SHARED_SMALL


def test_split_rows_cover_everything_once() -> None:
    """Blocks times vectors; a state for each; one launch, whose last block finishes."""
    plan = planned("total", 1 << 26)
    rows, _, length, _, chunks, chunk, kept = struct.unpack_from("=7Q", plan.words)
    assert (rows, kept) == (1, 0)
    assert (chunks - 1) * chunk * 4 < length <= chunks * chunk * 4
    assert plan.grid == chunks <= reduction_plan.MOST_CHUNKS
    assert (plan.phases, plan.counters) == (1, 1)
    assert plan.scratch_bytes == chunks * 8


@pytest.mark.parametrize(("rows", "length"), [(1, 1 << 26), (8, 1 << 20), (1 << 12, 100_000)])
def test_parts_of_long_rows_fit_registers(rows: int, length: int) -> None:
    """Read once for all reductions, merged, and read again: two launches of the same grid."""
    plan = planned("softmax", rows, length)
    _, _, _, team, chunks, chunk, kept = struct.unpack_from("=7Q", plan.words)
    assert (plan.strategy, plan.phases, kept) == ("long", 2, 0)
    assert (chunks - 1) * chunk * 4 < length <= chunks * chunk * 4
    assert chunk <= team * plan.variant.held
    assert (plan.grid, plan.counters) == (rows * chunks, rows)
    assert plan.scratch_bytes == rows * (16 + chunks * 48)


@pytest.mark.parametrize("columns", [128, 1000, 4096, 20_000, 38_400, 50_000, 70_000, 300_000])
def test_columns_fill_the_device(columns: int) -> None:
    """Blocks come in whole waves, nearly; where there are many waves the last one counts little."""
    plan = planned("columns", columns, 1 << 14)
    busy = 132 * reduction_plan.BUSY // plan.block
    waves = -(-plan.grid // busy)
    assert plan.grid >= 0.75 * waves * busy or waves > 4


def test_grids_are_bounded() -> None:
    """Blocks loop over what is left."""
    assert planned("sum", 1 << 28, 4).grid == 132 * 8 * 8


def test_large_arrays_take_wide_indices() -> None:
    """By elements and by offsets."""
    assert planned("sum", 1 << 16, 1 << 15).variant.wide
    assert not planned("sum", 1 << 14, 1 << 14).variant.wide
    assert not planned("sum", 5, 0).variant.wide
