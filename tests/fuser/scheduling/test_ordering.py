"""The order of loop nests, and which of them share a launch."""

from typing import Any

import numpy as np

import fuser
from fuser.compiler import compile_upfront
from fuser.kernel_spec import Options
from fuser.scheduling.ordering import MAX_SECTIONS, Ordering
from fuser.scheduling.plans import Plan

X = np.ones((8, 8))


def plan(function: Any, mode: str = "fused") -> Plan:
    """The plan of a function of one matrix."""
    return compile_upfront(fuser.trace(function, X), Options(mode)).plan


def test_nests_that_need_nothing_of_each_other_are_one_kernel() -> None:
    """Up to so many of them."""
    few = plan(lambda x: tuple(np.sin(x[k:]) for k in range(6)))
    assert [len(group.sections) for group in few.groups] == [6]
    many = plan(lambda x: tuple(np.sin(x[: k // 6 + 1, : k % 6 + 1]) for k in range(40)))
    counts = [len(group.sections) for group in many.groups]
    assert max(counts) <= MAX_SECTIONS
    assert sum(counts) <= 40


def test_nests_wait_for_what_they_read() -> None:
    """Whatever the order in which they are given."""
    found = plan(lambda x: x / (x - x.mean(0)).std(1)[:, None] - x.max(0))
    sections = [section for group in found.groups for section in group.sections]
    places = list(range(len(sections)))
    sizes = {buffer.name: 8 for buffer in (*found.temporaries, *found.outputs)}
    backwards = Ordering(sections[::-1], places, sizes, {"o0"}, 1 << 30)
    written: set[str] = set()
    for kernel in backwards.kernels():
        for section in kernel:
            assert {part.buffer for part in section.loads} <= written | {"x0"}
        written |= {part.buffer for section in kernel for _, part in section.stores}
    assert "o0" in written


def test_memory_decides_which_nests_are_together() -> None:
    """A budget of nothing: one nest a kernel."""
    found = plan(lambda x: tuple(np.sin(x[k:]) for k in range(6)))
    (group,) = found.groups
    sizes = {buffer.name: 64 for buffer in found.outputs}
    alone = Ordering(group.sections, range(6), sizes, set(sizes), 0)
    assert [len(kernel) for kernel in alone.kernels()] == [1] * 6


def test_numbers_held_meanwhile_separate_nothing() -> None:
    """Gradients clipped by their common norm: both sums, then both arrays."""

    def clip(x: Any) -> Any:
        y = x[::-1, :4]
        scale = np.minimum(1, 1 / np.sqrt((x * x).sum() + (y * y).sum()))
        return x * scale, y * scale

    assert [len(group.sections) for group in plan(clip).groups] == [2, 2]


def test_parts_of_joins_are_one_kernel() -> None:
    """Their lengths differ by a few elements from what the operations hold."""

    def write(x: Any) -> Any:
        out = x.copy()
        out[5::3] += 2
        out[1:-1:4] = 3
        return out

    counts = [len(group.sections) for group in plan(write).groups]
    assert len(counts) <= 3 < sum(counts)
