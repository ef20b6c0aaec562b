"""The loops of each nest over the memory of one call's arrays, collapsed and classified.

Loops are made finer where a reshape merges axes along which an operand is repeated. A mean of each
group of channels, seen as an array of all channels, is no view of its memory: each value comes
again and again within one axis. With that axis as two loops, groups and channels of a group, it is
one, and need not be copied to as many elements as the result has.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import accumulate, pairwise
from operator import mul
from typing import Any

import numpy as np

from fuser.base.records import changed, record
from fuser.codegen import scalar_nodes
from fuser.ir import layouts
from fuser.ir.attributes import dtype_name
from fuser.ir.dims import Dim
from fuser.ir.graph import Node
from fuser.ir.layouts import Layout
from fuser.ir.specs import (
    CONTIGUOUS,
    STRIDED,
    PartitionDesc,
    SectionSpec,
    TensorDesc,
    access_class,
    desc_of,
    is_counted,
)
from fuser.ir.views import Reshape, repeats
from fuser.runtime.binding import Layouts, Place
from fuser.scheduling.collapse import collapse, merge_axes, reduction_order, run_strides, step_over
from fuser.scheduling.loop_nests import Section
from fuser.scheduling.row_tiles import Group

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


@record
class Loops:
    """One section's loops after collapsing: what its BoundSection is made from."""

    operands: tuple[tuple[str, int], ...]
    scalars: tuple[tuple[str, np.dtype[Any]], ...]
    lengths: list[int]
    strides: list[list[int]]
    moves: tuple[tuple[int, Dim, int], ...] = ()
    steps: tuple[tuple[int, ...], ...] = ()


def specs_of(layouts: Layouts, number: int, group: Group) -> tuple[SectionSpec, ...]:
    """How the operands of each section of a kernel are met."""
    return tuple(
        found
        for k, part in enumerate(group.parts)
        for found, _ in bind_group(layouts, (number, k), part)
    )


def bind_group(
    layouts: Layouts, place: Place, group: Group
) -> list[tuple[SectionSpec, Loops | None]]:
    """Collapse the loops of each section of a part; of a chain, those over a block."""
    return [bind_section(section, layouts, place, k) for k, section in enumerate(group.sections)]


def bind_section(
    section: Section, layouts: Layouts, group: Place, place: int
) -> tuple[SectionSpec, Loops | None]:
    """Collapse the loops of one section of a group; None for loops that do nothing."""
    parts = [*section.loads, *(part for _, part in section.stores)]
    nodes = [*section.load_nodes, *(section.node_of(value) for value, _ in section.stores)]
    shape = layouts.lengths(section.shape)
    blocks = layouts.blocks.get(group)
    splits = not section.axes or is_splittable(section)
    if blocks is None and splits and section.scan is None:  # results run along whole axes
        finer = refined(parts, shape, layouts.of, layouts.sizes)
        if finer is not None:
            fine, seen = finer
            if not section.axes:
                return _collapsed(section, layouts, nodes, seen, fine)
            axes = finer_axes(section.axes, shape, fine)
            if axes:
                return _bind_reduction(section, layouts, nodes, seen, fine, axes)
    found = [layouts.of(part) for part in parts]
    if blocks is None:
        return _collapsed(section, layouts, nodes, found, shape)
    from fuser.runtime.row_tile_binding import narrowed, steps_of  # most kernels run no row tiles

    loops = blocks.loops[place]
    steps = tuple(
        steps_of(layout, loops, kept=part.buffer in blocks.kept)
        for part, (_, layout) in zip(parts, found, strict=True)
    )
    found = [(name, narrowed(layout, loops, blocks.shape)) for name, layout in found]
    rows = dict(zip(loops, blocks.shape, strict=True))
    shape = tuple(rows.get(axis, length) for axis, length in enumerate(shape))
    spec, bound = _collapsed(section, layouts, nodes, found, shape)
    return spec, bound and changed(bound, steps=steps)


def _collapsed(
    section: Section,
    layouts: Layouts,
    nodes: Sequence[Node],
    found: Sequence[tuple[str, Layout]],
    shape: tuple[int, ...],
) -> tuple[SectionSpec, Loops | None]:
    """The loops of one section over a shape; None for loops that do nothing."""
    itemsizes = [node.dtype.itemsize for node in nodes]
    if section.axes:
        return _bind_reduction(section, layouts, nodes, found, shape, section.axes)
    operands = [layout for _, layout in found]
    lengths, strides = _collapse(section, shape, operands, itemsizes)
    located = len(section.loads) if section.scatters else len(nodes)  # written by the way
    spec = SectionSpec(
        len(lengths),
        tuple(
            desc_of(node.dtype, s[-1], is_counted(name), node.op.locates or k >= located)
            for k, (node, s, (name, _)) in enumerate(zip(nodes, strides, found, strict=True))
        ),
        _strategy(section, len(lengths)),
    )
    if layouts.repeat is not None:
        spec = changed(spec, rank=spec.rank + 1, strategy="repeat")
        lengths = [layouts.sizes[layouts.repeat.trips], *lengths]
        strides = [[layout.along, *steps]
                   for layout, steps in zip(operands, strides, strict=True)]  # fmt: skip
    if 0 in shape:
        return spec, None
    return spec, _loops(section, found, lengths, strides)


def _strategy(section: Section, rank: int) -> str:
    """How the loops of a section that reduces nothing are met."""
    if section.scatters:
        return "scatter"
    if section.scan is None:
        return "map"
    return "scan" if rank > 1 else "scan row"


def _collapse(
    section: Section, shape: tuple[int, ...], operands: Sequence[Layout], itemsizes: Sequence[int]
) -> tuple[list[int], list[list[int]]]:
    """Lengths and strides of a section's loops; the one along which results run comes before last.

    The last loop is then over results beside each other, if there are any for some size. What is
    written at computed places is written in C order.
    """
    first = len(section.loads)
    axis = section.scan
    if section.scatters:
        axes = range(len(shape))
        own = [
            run_strides(operand, itemsize, axes, shape, operand.shape)
            for operand, itemsize in zip(operands, itemsizes, strict=True)
        ]
        return merge_axes(axes, shape, own, shape)
    if axis is None:
        return collapse(shape, operands, itemsizes, first)
    rest = [a for a in range(len(shape)) if a != axis]
    beside = [
        Layout(
            layout.offset,
            tuple(layout.shape[a] for a in rest),
            tuple(layout.strides[a] for a in rest),
            tuple(layout.symbolic[a] for a in rest),
            tuple(layout.repeated[a] for a in rest),
        )
        for layout in operands
    ]
    along = [0 if o.repeated[axis] else o.strides[axis] for o in operands]
    if all(layout.symbolic[a] == 1 for layout in operands for a in rest):
        return [shape[axis]], [[step] for step in along]
    lengths, strides = collapse([shape[a] for a in rest], beside, itemsizes, first)
    for steps, step in zip(strides, along, strict=True):
        steps.insert(-1, step)
    return [*lengths[:-1], shape[axis], lengths[-1]], strides


def _loops(
    section: Section, found: Sequence[tuple[str, Layout]], lengths: list[int],
    strides: list[list[int]],
) -> Loops:  # fmt: skip
    """The loops of a nest over its operands, and by how much integer arguments move these."""
    scalars = [section.leaves[k] for k in scalar_nodes(section)]
    moves = ((k, i, step) for k, (_, layout) in enumerate(found) for i, step in layout.moves)
    return Loops(
        tuple((name, layout.offset) for name, layout in found),
        tuple((leaf.payload.expression, leaf.dtype) for leaf in scalars),
        lengths, strides, tuple(moves),
    )  # fmt: skip


def _bind_reduction(
    section: Section,
    layouts: Layouts,
    nodes: Sequence[Node],
    found: Sequence[tuple[str, Layout]],
    shape: tuple[int, ...],
    axes: tuple[int, ...],
) -> tuple[SectionSpec, Loops | None]:
    """Collapse the loops of a section that reduces: kept ones first, reduced ones last.

    Args:
        section: what is computed.
        layouts: where everything lies.
        nodes: what loads and stores are of.
        found: the buffers and layouts of loads and stores.
        shape: the loops, which may be finer than the section's.
        axes: those of the loops that are reduced.
    """
    itemsizes = [node.dtype.itemsize for node in nodes]
    operands = [layout for _, layout in found]
    strides = [
        run_strides(operand, itemsize, range(len(shape)), shape, operand.shape)
        for operand, itemsize in zip(operands, itemsizes, strict=True)
    ]
    _hold_still(section, layouts, strides, shape, axes)
    order = reduction_order(*_leading(section, found, itemsizes))
    kept_axes = [axis for axis in range(len(shape)) if axis not in axes]
    if kept_axes and all(shape[axis] == 1 for axis in kept_axes):
        order = [*kept_axes, *(axis for axis in order if axis in axes)]
        step_over(strides, kept_axes, axes, shape)
    lengths, rows = merge_axes([a for a in order if a not in axes], shape, strides, shape)
    reduced, along = merge_axes([a for a in order if a in axes], shape, strides, shape)
    row = order[-1] in axes
    tensors = tuple(
        TensorDesc(
            dtype_name(node.dtype),
            access_class((inner if row else kept)[-1], node.dtype.itemsize),
            (not row or len(reduced) > 1) and not any(inner),
            _beside(row, kept, inner, node.dtype.itemsize, single=reduced == [1]),
            is_counted(name) or node.op.locates,
            node.op.locates,
        )
        for node, kept, inner, (name, _) in zip(nodes, rows, along, found, strict=True)
    )
    rank = len(lengths) + len(reduced)
    spec = SectionSpec(rank, tensors, "row" if row else "column", len(reduced))
    if 0 in lengths:
        return spec, None
    all_strides = [[*kept, *inner] for kept, inner in zip(rows, along, strict=True)]
    return spec, _loops(section, found, [*lengths, *reduced], all_strides)


def _hold_still(
    section: Section, layouts: Layouts, strides: list[list[int]], shape: tuple[int, ...],
    axes: tuple[int, ...],
) -> None:  # fmt: skip
    """Have what is the same along all reduced axes take no steps there, not even over one element.

    Else a result of no elements would be a result of each of them, which nobody stores.
    """
    parts = [*section.loads, *(part for _, part in section.stores)]
    for part, steps in zip(parts, strides, strict=True):
        if repeats(layouts.base[part.buffer].symbolic, part.views, section.axes):
            for axis in axes:
                steps[axis] = 0
    first = len(section.loads)
    for (value, _), steps in zip(section.stores, strides[first:], strict=True):
        if not any(steps[axis] for axis in axes):
            _hold_loads(section, value, strides, shape, axes)


def _hold_loads(
    section: Section, value: int, strides: list[list[int]], shape: tuple[int, ...],
    axes: tuple[int, ...],
) -> None:  # fmt: skip
    """Have what a value needs that takes no steps take none either, where one element is all."""
    stack, seen, first = [value], {value}, len(section.loads) + len(section.leaves)
    while stack:
        current = stack.pop()
        if current < len(section.loads):
            for axis in axes:
                if shape[axis] == 1:
                    strides[current][axis] = 0
        elif current >= first and not section.steps[current - first].node.op.reduction:
            operands = section.steps[current - first].operands
            stack += [operand for operand in operands if operand not in seen]
            seen.update(operands)


def _beside(
    row: bool, kept: Sequence[int], inner: Sequence[int], itemsize: int, single: bool
) -> str:
    """The class of an operand's stride along the loop beside the innermost one in memory.

    Args:
        row: the innermost one is reduced; of columns, it is known where all have one element.
        kept: strides along the loops that are kept, in bytes.
        inner: likewise, that are reduced.
        itemsize: of the operand.
        single: rows have one element. Such rows lie beside each other for this length alone, so
            that is no class of its own.
    """
    if not row:
        return access_class(inner[-1], itemsize) if not kept[-1] and any(inner) else ""
    if not kept:
        return ""
    found = access_class(kept[-1], itemsize)
    return STRIDED if found == CONTIGUOUS and single and any(inner) else found


def _leading(
    section: Section, found: Sequence[tuple[str, Layout]], itemsizes: Sequence[int]
) -> tuple[list[Layout], list[int]]:
    """The operands whose memory decides the order of a reduction's loops: loads, if any."""
    loads = [
        k
        for k, node in enumerate(section.load_nodes)
        if not (node.op.locates or is_counted(found[k][0]))
    ]
    chosen = loads or range(len(found))
    return [found[k][1] for k in chosen], [itemsizes[k] for k in chosen]
