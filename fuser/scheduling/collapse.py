"""Loops in the order of memory, and as few of them as strides allow."""

from __future__ import annotations

from collections.abc import Sequence

from fuser.ir.dims import Shape
from fuser.ir.layouts import Layout


def collapse(
    shape: Sequence[int], operands: Sequence[Layout], itemsizes: Sequence[int], first_store: int
) -> tuple[list[int], list[list[int]]]:
    """Order the loops by the first destination's memory and merge those that run on.

    Which loops merge depends on strides alone, whatever the lengths: an axis that is 1 for every
    size is left out, and one that happens to be 1 or 0 in this call has the stride that it has
    at other lengths.

    Returns:
        Lengths, outermost first, and for each operand its strides; at least one loop.
    """
    lead = operands[first_store]
    # An axis that is 1 for every size is no loop, wherever its one element lies. One operand may
    # say so where others have `min(n0, 1)`, of an axis that guards say is not empty.
    real = [a for a in range(len(shape)) if all(layout.symbolic[a] != 1 for layout in operands)]
    order = sorted(real, key=lambda a: (-sort_stride(lead, a, itemsizes[first_store]), a))
    spans = [max(length, 1) for length in shape]
    strides = [
        run_strides(layout, itemsize, order, spans, layout.symbolic)
        for layout, itemsize in zip(operands, itemsizes, strict=True)
    ]
    if not order:
        return [1], [[itemsize] for itemsize in itemsizes]
    lengths = [shape[axis] for axis in order]
    return merge_axes(range(len(order)), lengths, strides, [spans[axis] for axis in order])


def sort_stride(layout: Layout, axis: int, itemsize: int) -> int:
    """A stride to sort axes by; an axis of length 1 keeps its place beside its neighbour."""
    if layout.shape[axis] != 1:
        return abs(layout.strides[axis])
    inner = [abs(s) * n for s, n in zip(layout.strides[axis + 1 :], layout.shape[axis + 1 :],
                                        strict=True) if n != 1]  # fmt: skip
    return max(inner, default=itemsize)


def run_strides(
    layout: Layout, itemsize: int, order: Sequence[int], spans: Sequence[int], lengths: Shape
) -> list[int]:
    """Strides of one operand; an axis of length 1 runs on from the one inside it.

    Args:
        layout: of the operand.
        itemsize: bytes of an element.
        order: of the axes, outermost first, as strides are given.
        spans: how many elements each axis goes through.
        lengths: of the operand's axes, symbolic or not.
    """
    strides: list[int] = []
    step = itemsize  # what the next axis outwards must have to run on
    for axis in reversed(order):
        if layout.repeated[axis]:
            stride = 0
        else:
            stride = step if lengths[axis] == 1 else layout.strides[axis]
        strides.insert(0, stride)
        step = stride * spans[axis]
    return strides


def reduction_order(operands: Sequence[Layout], itemsizes: Sequence[int]) -> list[int]:
    """Axes of a reduction in the order of memory, the innermost last.

    The first operand that repeats along no axis decides, else the widest steps of all.
    """
    rank = len(operands[0].shape)
    whole = [k for k, layout in enumerate(operands) if not any(layout.repeated)]
    leads = whole[:1] or range(len(operands))

    def step(axis: int) -> int:
        return max(
            (
                sort_stride(operands[k], axis, itemsizes[k])
                for k in leads
                if not operands[k].repeated[axis]
            ),
            default=0,
        )

    return sorted(range(rank), key=lambda axis: (-step(axis), axis))


def step_over(
    strides: list[list[int]], kept: Sequence[int], reduced: Sequence[int], shape: Sequence[int]
) -> None:
    """Have kept axes of length 1 step over what is reduced.

    So one column is one row, as it is of an array in Fortran's order, and the sum of a row errs
    less than that of a column does.
    """
    for steps in strides:
        outermost = max(reduced, key=lambda axis: abs(steps[axis]) * shape[axis], default=None)
        if outermost is not None and steps[outermost]:
            for axis in kept:
                steps[axis] = steps[axis] and steps[outermost] * shape[outermost]


def merge_axes(
    axes: Sequence[int], shape: Sequence[int], strides: Sequence[Sequence[int]],
    spans: Sequence[int],
) -> tuple[list[int], list[list[int]]]:  # fmt: skip
    """Axes as few loops: lengths, and strides of each operand.

    Args:
        axes: outermost first.
        shape: length of each axis.
        strides: of each operand, by axis.
        spans: how many steps of an axis one of the axis outside it is, where they merge.
    """
    lengths: list[int] = []
    rows: list[list[int]] = [[] for _ in strides]
    for place, axis in enumerate(axes):
        before = axes[place - 1] if place else None
        runs_on = before is not None and all(
            row[before] == row[axis] * spans[axis] for row in strides
        )
        if runs_on:
            lengths[-1] *= shape[axis]
            for target, row in zip(rows, strides, strict=True):
                target[-1] = row[axis]
        else:
            lengths.append(shape[axis])
            for target, row in zip(rows, strides, strict=True):
                target.append(row[axis])
    return lengths, rows
