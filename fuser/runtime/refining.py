"""Finer loops, where a reshape merges axes along which an operand is repeated.

A mean of each group of channels, seen as an array of all channels, is no view of its memory: each
value comes again and again within one axis. With that axis as two loops, groups and channels of a
group, it is one, and need not be copied to as many elements as the result has.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import accumulate, pairwise
from operator import mul

from fuser.ir import layouts
from fuser.ir.dims import Dim
from fuser.ir.layouts import Layout
from fuser.ir.specs import PartitionDesc
from fuser.ir.views import Reshape
from fuser.scheduling.loop_nests import Section

Found = tuple[str, Layout]


def refined(
    parts: Sequence[PartitionDesc],
    shape: tuple[int, ...],
    of: Callable[[PartitionDesc], Found],
    sizes: Mapping[str, int],
) -> tuple[tuple[int, ...], list[Found]] | None:
    """The loops of a nest, split where an operand would be copied otherwise.

    Args:
        parts: its operands.
        shape: its loops.
        of: gives the buffer and the layout of an operand.
        sizes: values of symbols.

    Returns:
        The finer loops, and operands over them; None where the loops serve as they are.
    """
    tried = {k: _unmerged(part, of, sizes) for k, part in enumerate(parts)}
    whole = {k: each for k, each in tried.items() if each is not None}
    if not whole or 0 in shape:
        return None
    ends = {1, *accumulate(shape, mul)}
    for _, layout in whole.values():
        ends |= set(accumulate(layout.shape, mul))
    fine = []
    for end, following in pairwise(sorted(ends)):
        if following % end:
            return None
        fine.append(following // end)
    found = []
    for k, part in enumerate(parts):
        name, layout = whole.get(k) or of(part)
        found.append((name, _split(layout, fine)))
    return tuple(fine), found


def is_splittable(section: Section) -> bool:
    """Whether reduced loops may be cut: not where places along them are results."""
    ops = [step.node.op for step in section.steps]
    return not any(op.places for op in ops)


def finer_axes(
    axes: Sequence[int], shape: Sequence[int], fine: Sequence[int]
) -> tuple[int, ...]:
    """The finer loops that some of the loops are; none where one has a single turn."""
    found: list[int] = []
    place = 0
    for axis, rest in enumerate(shape):
        inside = []
        while rest > 1:
            inside.append(place)
            rest //= fine[place]
            place += 1
        if axis in axes:
            if not inside:
                return ()
            found += inside
    return tuple(found)


def _unmerged(
    part: PartitionDesc, of: Callable[[PartitionDesc], Found], sizes: Mapping[str, int]
) -> Found | None:
    """An operand as it is before a last reshape that would copy what is repeated; else None."""
    if len(part.views) < 2 or not isinstance(part.views[-1], Reshape):
        return None
    name, layout = of(PartitionDesc(part.buffer, part.views[:-1]))
    try:
        part.views[-1].layout(layout, sizes)
    except layouts.NeedsCopy:
        return (name, layout) if any(layout.repeated) else None
    return None


def _split(layout: Layout, fine: Sequence[int]) -> Layout:
    """A layout whose axes are cut into those of finer loops, each of which lies within one."""
    lengths = list(fine)
    strides: list[int] = []
    symbolic: list[Dim] = []
    repeated: list[bool] = []
    for axis, rest in enumerate(layout.shape):
        inside: list[int] = []
        while rest > 1:
            inside.append(lengths.pop(0))
            rest //= inside[-1]
        step = layout.strides[axis]
        steps = [step * left for left in accumulate(inside[:0:-1], mul, initial=1)]
        strides += reversed(steps if inside else [])
        symbolic += [layout.symbolic[axis]] * len(inside)
        repeated += [layout.repeated[axis]] * len(inside)
    return Layout(
        layout.offset, tuple(fine), tuple(strides), tuple(symbolic), tuple(repeated), layout.moves
    )
