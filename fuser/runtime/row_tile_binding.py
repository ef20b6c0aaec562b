"""Chains of nests bound to a call's lengths: how many rows at a time, and where they lie."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence

from fuser.base.records import changed, record
from fuser.ir import dims, layouts
from fuser.ir.dims import Dim
from fuser.ir.graph import Node
from fuser.ir.layouts import Layout
from fuser.ir.specs import PartitionDesc, is_counted
from fuser.scheduling.row_tiles import Group, block_shape


@record
class Blocks:
    """The rows of a chain.

    Attributes:
        counts: how many there are, along each loop that counts them.
        shape: how many are computed at a time: one along all but the last.
        loops: for each nest, the loops that count rows.
        kept: buffers that hold these rows only.
    """

    counts: tuple[int, ...]
    shape: tuple[int, ...]
    loops: tuple[tuple[int, ...], ...]
    kept: frozenset[str]

    @property
    def turns(self) -> tuple[int, ...]:
        """How many blocks there are along each loop."""
        pairs = zip(self.counts, self.shape, strict=True)
        return tuple(-(-count // block) for count, block in pairs)

    def starts(self) -> Iterator[tuple[int, ...]]:
        """The first row of each block; the last block begins early, so that it is whole."""
        triples = zip(self.counts, self.shape, self.turns, strict=True)
        return itertools.product(
            *([min(k * block, count - block) for k in range(n)] for count, block, n in triples)
        )


def blocks_of(
    group: Group,
    nodes: Mapping[str, Node],
    sizes: Mapping[str, int],
    base: Callable[[str], Layout | None],
) -> Blocks | None:
    """The blocks of a chain; None where it has to run nest by nest.

    Args:
        group: its nests.
        nodes: what temporaries and outputs hold.
        sizes: lengths by symbol.
        base: the layout of a buffer's memory; None for positions.
    """
    if group.rows is None:
        return None
    for section in group.sections:
        if any(dims.evaluate(dim, sizes) == 0 for dim in section.shape):
            return None
    shape = block_shape(group, nodes, sizes)
    if shape is None:
        return None
    kept = frozenset(name for name, _ in group.rows.kept)
    for section, loops in zip(group.sections, group.rows.loops, strict=True):
        parts = (*section.loads, *(part for _, part in section.stores))
        for part in parts:
            if part.buffer in kept or is_counted(part.buffer):
                continue
            if not _lies_in_rows(base(part.buffer), part, loops, sizes):
                return None
    first = group.sections[0].shape
    counts = tuple(dims.evaluate(first[loop], sizes) for loop in group.rows.loops[0])
    return Blocks(counts, shape, group.rows.loops, kept)


def _lies_in_rows(
    layout: Layout | None, part: PartitionDesc, loops: Sequence[int], sizes: Mapping[str, int]
) -> bool:
    """Whether the rows of a block lie one after another, not across each other.

    A block has rows along the last of the loops that count them; it lies at one place of the
    others, wherever that is.
    """
    if layout is None:
        return False
    try:
        for view in part.views:
            layout = view.layout(layout, sizes)
    except layouts.NeedsCopy:
        return False
    step = abs(layout.strides[loops[-1]])
    others = [
        abs(stride)
        for axis, stride in enumerate(layout.strides)
        if axis not in loops and layout.shape[axis] != 1
    ]
    return not step or all(step >= other for other in others)


def narrowed(layout: Layout, loops: Sequence[int], shape: Sequence[int]) -> Layout:
    """The layout of one block of rows; a loop that only counts rows is none there."""
    lengths, symbolic = list(layout.shape), list(layout.symbolic)
    repeated = list(layout.repeated)
    for place, (loop, length) in enumerate(zip(loops, shape, strict=True)):
        lengths[loop] = length
        if place < len(loops) - 1:
            symbolic[loop], repeated[loop] = _ONE, False
    return changed(
        layout, shape=tuple(lengths), symbolic=tuple(symbolic), repeated=tuple(repeated)
    )


_ONE: Dim = 1


def steps_of(layout: Layout, loops: Sequence[int], *, kept: bool) -> tuple[int, ...]:
    """Bytes from row to row along each loop that counts them; none where rows take turns."""
    return tuple(0 if kept else layout.strides[loop] for loop in loops)
