"""The loops of each nest over the memory of one call's arrays, collapsed and classified."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from fuser import dims, views
from fuser.backend import Backend
from fuser.calling.refining import finer_axes, is_splittable, refined
from fuser.calling.row_binding import Blocks, blocks_of, narrowed, row_order, steps_of
from fuser.codegen import scalar_nodes
from fuser.errors import Unsupported
from fuser.graph import Node
from fuser.memory_order import all_c_order, memory_orders
from fuser.planning.chains import repeats
from fuser.planning.collapse import collapse, merge_axes, reduction_order, run_strides, step_over
from fuser.planning.rows import Group
from fuser.records import record
from fuser.schedule import Buffer, Section
from fuser.specs import (
    CONTIGUOUS,
    STRIDED,
    KernelSpec,
    PartitionDesc,
    SectionSpec,
    TensorDesc,
    access_class,
    counted_length,
    desc_of,
    is_counted,
)
from fuser.views import Layout

#: The number of a kernel, and of a part of it.
Place = tuple[int, int]


@record
class Fresh:
    """An array to allocate: shape, dtype and the order of its axes in memory."""

    name: str
    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    order: tuple[int, ...] | None
    """Axes, outermost in memory first; None for C order."""

    @property
    def strides(self) -> tuple[int, ...]:
        """Steps along its axes in bytes."""
        axes = self.order or range(len(self.shape))
        return views.ordered_strides(self.shape, axes, self.dtype.itemsize)

    def make(self, backend: Backend) -> Any:
        """Allocate it."""
        if self.order is None:
            return backend.empty(self.shape, self.dtype)
        return backend.empty_in_order(self.shape, self.dtype, self.order)


class Layouts:
    """Layouts of every buffer of one call."""

    def __init__(
        self,
        spec: KernelSpec,
        arrays: Mapping[str, Any],
        sizes: dict[str, int],
        *,
        nested: bool,
        by_rows: bool = True,
    ) -> None:
        """Lay out what is known: arguments, given outputs, and what is to be allocated.

        Args:
            spec: the prepared graph.
            arrays: arguments by parameter name, and given outputs by buffer name.
            sizes: values of symbols.
            nested: whether the backend takes several reduced loops.
            by_rows: chains run on some rows at a time, where they can.
        """
        self.sizes = sizes
        self.by_rows = by_rows
        self.nested = nested
        self.fresh: list[Fresh] = []
        self.temporary_bytes = 0
        self.copies: dict[tuple[str, tuple[tuple[str, str], ...]], str] = {}
        self._new_copies: list[tuple[str, str, tuple[tuple[str, str], ...]]] = []
        self.base: dict[str, Layout] = {}
        self.itemsize: dict[str, int] = {}
        self.known: dict[PartitionDesc, tuple[str, Layout]] = {}
        for parameter in spec.graph.parameters:
            if parameter.dtype is not None and parameter.name in arrays:
                array = arrays[parameter.name]
                self.base[parameter.name] = views.layout_of(array, parameter.shape)
                self.itemsize[parameter.name] = parameter.dtype.itemsize
        plain = all_c_order(spec.graph, arrays)
        orders = {} if plain else memory_orders(spec.plan.graph, arrays, sizes)
        outputs = orders if plain else memory_orders(spec.graph, arrays, sizes)
        chains = {
            (number, k): part
            for number, group in enumerate(spec.plan.groups)
            for k, part in enumerate(group.parts)
            if part.rows is not None
        }
        rows = [group.rows for group in chains.values() if group.rows is not None]
        later = {name for one in rows for name, _ in one.kept}
        for buffer in spec.plan.temporaries:
            if buffer.name not in later:
                self._temporary(buffer, orders)
        originals = zip(spec.plan.outputs, spec.graph.outputs, strict=True)
        for buffer, original in originals:
            if buffer.name in arrays:
                array = arrays[buffer.name]
                self.base[buffer.name] = views.layout_of(array, buffer.node.shape)
                self.itemsize[buffer.name] = buffer.node.dtype.itemsize
                continue
            self._fresh(buffer.name, buffer.node, outputs.get(id(original)))
        self.blocks: dict[Place, Blocks] = {}
        self._chains(spec, chains, orders)

    def _chains(
        self,
        spec: KernelSpec,
        chains: Mapping[Place, Group],
        orders: Mapping[int, list[int]],
    ) -> None:
        """How many rows of each chain run at a time, and memory for what they keep."""
        if not chains:
            return
        held = {b.name: b.node for b in (*spec.plan.temporaries, *spec.plan.outputs)}
        rows: dict[str, tuple[tuple[int, ...], tuple[int, ...]]] = {}
        for number, group in chains.items():
            blocks = None
            if self.by_rows:
                blocks = blocks_of(group, held, self.sizes, self.base.get)
            if blocks is not None and group.rows is not None:
                self.blocks[number] = blocks
                rows.update((name, (axes, blocks.shape)) for name, axes in group.rows.kept)
        for buffer in spec.plan.temporaries:
            if buffer.name in rows:
                self._rows_of(buffer.name, buffer.node, *rows[buffer.name])
            elif buffer.name not in self.base:
                self._temporary(buffer, orders)

    def _temporary(self, buffer: Buffer, orders: Mapping[int, list[int]]) -> None:
        """Plan an array that lives during one call."""
        self._fresh(buffer.name, buffer.node, orders.get(id(buffer.node)))
        size = int(np.prod(self.fresh[-1].shape, dtype=np.int64))
        self.temporary_bytes += size * buffer.node.dtype.itemsize

    def _rows_of(
        self, name: str, node: Node, axes: tuple[int, ...], block: tuple[int, ...]
    ) -> None:
        """Plan an array of some rows; seen as if it had them all."""
        shape = tuple(dims.evaluate(dim, self.sizes) for dim in node.shape)
        order = row_order(len(shape), axes)
        short = tuple(
            block[axes.index(axis)] if axis in axes else length
            for axis, length in enumerate(shape)
        )
        self.fresh.append(Fresh(name, short, node.dtype, order))
        self.temporary_bytes += int(np.prod(short, dtype=np.int64)) * node.dtype.itemsize
        strides = views.ordered_strides(shape, order, node.dtype.itemsize)
        self.base[name] = Layout(0, shape, strides, node.shape, (False,) * len(shape))
        self.itemsize[name] = node.dtype.itemsize

    def bind_group(self, place: Place, group: Group) -> list[tuple[SectionSpec, Loops | None]]:
        """Collapse the loops of each section of a part; of a chain, those over a block."""
        return [
            _bind_section(section, self, place, k) for k, section in enumerate(group.sections)
        ]

    def specs_of(self, number: int, group: Group) -> tuple[SectionSpec, ...]:
        """How the operands of each section of a kernel are met."""
        return tuple(
            found
            for k, part in enumerate(group.parts)
            for found, _ in self.bind_group((number, k), part)
        )

    def _fresh(self, name: str, node: Node, order: list[int] | None) -> None:
        """Plan an array to allocate."""
        shape = tuple(dims.evaluate(dim, self.sizes) for dim in node.shape)
        axes = None if order is None or order == sorted(order) else tuple(order)
        entry = Fresh(name, shape, node.dtype, axes)
        self.fresh.append(entry)
        strides = views.ordered_strides(shape, axes or range(len(shape)), node.dtype.itemsize)
        self.base[name] = Layout(0, shape, strides, node.shape, (False,) * len(shape))
        self.itemsize[name] = node.dtype.itemsize

    def _count(self, name: str) -> None:
        """The layout of positions, as if they were stored."""
        length = dims.parse(counted_length(name))
        shape = (dims.evaluate(length, self.sizes),)
        size = self.itemsize[name] = np.dtype(np.int64).itemsize
        self.base[name] = Layout(0, shape, (size,), (length,), (False,))

    def of(self, part: PartitionDesc) -> tuple[str, Layout]:
        """The buffer that really is read or written, and the layout in it."""
        if part in self.known:
            return self.known[part]
        if part.buffer not in self.base and is_counted(part.buffer):
            self._count(part.buffer)
        name, layout = part.buffer, self.base[part.buffer]
        for place, view in enumerate(part.views):
            try:
                layout = views.apply_view(layout, view, self.sizes)
            except views.NeedsCopy:
                prefix = part.views[: place + 1]
                name, layout = self._copy(part.buffer, prefix, layout, view)
        self.known[part] = (name, layout)
        return name, layout

    def _copy(
        self, source: str, prefix: tuple[tuple[str, str], ...], layout: Layout, view: Any
    ) -> tuple[str, Layout]:
        """A reshape that has to copy: the result is contiguous."""
        key = (source, prefix)
        if key not in self.copies:
            self.copies[key] = f"c{len(self.copies)}"
            self._new_copies.append((self.copies[key], source, prefix))
        size = self.itemsize[source] // (2 if prefix[0][0] == "component" else 1)
        strides = views.contiguous_strides(layout.shape, size)
        whole = Layout(0, layout.shape, strides, layout.symbolic, (False,) * len(strides))
        return self.copies[key], views.apply_view(whole, view, self.sizes)

    def contiguous(
        self, part: PartitionDesc, name: str, layout: Layout, itemsize: int
    ) -> tuple[str, Layout]:
        """A contiguous copy of what a part shows, made before the kernel runs."""
        key = (part.buffer, part.views)
        if key not in self.copies or self.copies[key] == name:
            self.copies[key] = f"c{len(self.copies)}"
            self._new_copies.append((self.copies[key], part.buffer, part.views))
        strides = views.contiguous_strides(layout.shape, itemsize)
        plain = (False,) * len(strides)
        return self.copies[key], Layout(0, layout.shape, strides, layout.symbolic, plain)

    def take_copies(self) -> tuple[tuple[str, str, tuple[tuple[str, str], ...]], ...]:
        """The copies that the group bound last needs before it."""
        taken, self._new_copies = tuple(self._new_copies), []
        return taken


class Loops(NamedTuple):
    """One section's loops after collapsing: what its BoundSection is made from."""

    operands: tuple[tuple[str, int], ...]
    scalars: tuple[tuple[str, np.dtype[Any]], ...]
    lengths: list[int]
    strides: list[list[int]]
    steps: tuple[tuple[int, ...], ...] = ()


def _bind_section(
    section: Section, layouts: Layouts, group: Place, place: int
) -> tuple[SectionSpec, Loops | None]:
    """Collapse the loops of one section of a group; None for loops that do nothing."""
    parts = [*section.loads, *(part for _, part in section.stores)]
    nodes = [*section.load_nodes, *(section.node_of(value) for value, _ in section.stores)]
    shape = tuple(dims.evaluate(dim, layouts.sizes) for dim in section.shape)
    blocks = layouts.blocks.get(group)
    if blocks is None and (not section.axes or (layouts.nested and is_splittable(section))):
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
    loops = blocks.loops[place]
    steps = tuple(
        steps_of(layout, loops, kept=part.buffer in blocks.kept)
        for part, (_, layout) in zip(parts, found, strict=True)
    )
    found = [(name, narrowed(layout, loops, blocks.shape)) for name, layout in found]
    rows = dict(zip(loops, blocks.shape, strict=True))
    shape = tuple(rows.get(axis, length) for axis, length in enumerate(shape))
    spec, bound = _collapsed(section, layouts, nodes, found, shape)
    return spec, bound and bound._replace(steps=steps)


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
    lengths, strides = collapse(
        shape, [layout for _, layout in found], itemsizes, len(section.loads)
    )
    spec = SectionSpec(
        len(lengths),
        tuple(
            desc_of(node.dtype, s[-1], is_counted(name))
            for node, s, (name, _) in zip(nodes, strides, found, strict=True)
        ),
    )
    if 0 in shape:
        return spec, None
    wanted = tuple(
        (section.leaves[k].payload, section.leaves[k].dtype) for k in scalar_nodes(section)
    )
    operands = tuple((name, layout.offset) for name, layout in found)
    return spec, Loops(operands, wanted, lengths, strides)


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

    Raises:
        Unsupported: the backend takes one reduced loop, and memory needs more.
    """
    itemsizes = [node.dtype.itemsize for node in nodes]
    if not layouts.nested:
        found = _running_on(section, layouts, found, itemsizes, shape)
    operands = [layout for _, layout in found]
    strides = [run_strides(o, i, shape) for o, i in zip(operands, itemsizes, strict=True)]
    _hold_still(section, layouts, strides, shape, axes)
    order = reduction_order(*_leading(section, found, itemsizes))
    kept_axes = [axis for axis in range(len(shape)) if axis not in axes]
    if section.across:  # rows whatever the memory: sums across them lie side by side
        order = [*kept_axes, *axes]
    elif kept_axes and all(shape[axis] == 1 for axis in kept_axes):
        order = [*kept_axes, *(axis for axis in order if axis in axes)]
        step_over(strides, kept_axes, axes, shape)
    lengths, rows = merge_axes([a for a in order if a not in axes], shape, strides)
    reduced, along = merge_axes([a for a in order if a in axes], shape, strides)
    if len(reduced) > 1 and not layouts.nested:
        raise Unsupported(
            "unsupported-layout", "reduction", f"axes {axes} of strided memory", ""
        )
    row = order[-1] in axes
    tensors = tuple(
        TensorDesc(
            node.dtype.name,
            access_class((inner if row else kept)[-1], node.dtype.itemsize),
            (not row or len(reduced) > 1) and not any(inner),
            _beside(kept[-1], node.dtype.itemsize, inner if reduced == [1] else ())
            if row and kept
            else "",
            is_counted(name),
        )
        for node, kept, inner, (name, _) in zip(nodes, rows, along, found, strict=True)
    )
    rank = len(lengths) + len(reduced)
    spec = SectionSpec(rank, tensors, "row" if row else "column", len(reduced))
    if 0 in lengths and not section.totals:  # a total of nothing has a value too
        return spec, None
    wanted = tuple(
        (section.leaves[k].payload, section.leaves[k].dtype) for k in scalar_nodes(section)
    )
    places = tuple((name, layout.offset) for name, layout in found)
    all_strides = [[*kept, *inner] for kept, inner in zip(rows, along, strict=True)]
    return spec, Loops(places, wanted, [*lengths, *reduced], all_strides)


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


def _beside(stride: int, itemsize: int, single: Sequence[int]) -> str:
    """The class of an operand's stride from row to row.

    Args:
        stride: in bytes.
        itemsize: of the operand.
        single: its strides along rows of one element. Such rows lie beside each other for this
            length alone, so that is no class of its own.
    """
    found = access_class(stride, itemsize)
    return STRIDED if found == CONTIGUOUS and any(single) else found


def _leading(
    section: Section, found: Sequence[tuple[str, Layout]], itemsizes: Sequence[int]
) -> tuple[list[Layout], list[int]]:
    """The operands whose memory decides the order of a reduction's loops: loads, if any."""
    loads = [k for k in range(len(section.loads)) if not is_counted(found[k][0])]
    chosen = loads or range(len(found))
    return [found[k][1] for k in chosen], [itemsizes[k] for k in chosen]


def _running_on(
    section: Section,
    layouts: Layouts,
    found: Sequence[tuple[str, Layout]],
    itemsizes: Sequence[int],
    shape: tuple[int, ...],
) -> list[tuple[str, Layout]]:
    """The operands, with a contiguous copy of each whose reduced axes do not run on."""
    replaced = list(found)
    if len(section.axes) < 2:
        return replaced
    for k, part in enumerate(section.loads):
        name, layout = found[k]
        strides = run_strides(layout, itemsizes[k], shape)
        axes = sorted(section.axes, key=lambda axis: (-abs(strides[axis]), axis))
        ordered = axes == sorted(axes)
        if ordered and all(
            strides[a] == strides[b] * shape[b] for a, b in itertools.pairwise(axes)
        ):
            continue
        replaced[k] = layouts.contiguous(part, name, layout, itemsizes[k])
    return replaced
