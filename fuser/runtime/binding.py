"""Where the arrays of one call lie in memory: arguments, results, what is held in between."""

from __future__ import annotations

import math
import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from fuser.backend import Backend
from fuser.base.errors import Unsupported
from fuser.base.records import changed, record
from fuser.ir import dims, layouts
from fuser.ir.dims import Dim
from fuser.ir.graph import Node
from fuser.ir.layouts import Layout
from fuser.ir.memory_order import all_c_order, memory_orders
from fuser.ir.specs import MEASURES, PartitionDesc, counted_length, is_counted
from fuser.ir.views import Address, Chain, Component, Measure, Part, View
from fuser.kernel_spec import KernelSpec
from fuser.runtime.symbolic import value_of
from fuser.scheduling.plans import Buffer
from fuser.scheduling.row_tiles import Group

if TYPE_CHECKING:
    from fuser.runtime.row_tile_binding import Blocks

#: As NumPy says it.
TOO_BIG = (
    "array is too big; `arr.size * arr.dtype.itemsize` is larger than the maximum possible size."
)
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
        return layouts.ordered_strides(self.shape, axes, self.dtype.itemsize)

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
        by_rows: bool = True,
        moving: frozenset[str] = frozenset(),
    ) -> None:
        """Lay out what is known: arguments, given outputs, and what is to be allocated.

        Args:
            spec: the prepared graph.
            arrays: arguments by parameter name, and given outputs by buffer name.
            sizes: values of symbols.
            by_rows: chains run on some rows at a time, where they can.
            moving: lengths that only move where kernels read and write: those are added to
                offsets by each call.
        """
        self.sizes = sizes
        self.repeat = spec.plan.repeat
        self._rises = dict(self.repeat.rises) if self.repeat else {}
        self._moving = moving
        self.by_rows = by_rows
        self.fresh: list[Fresh] = []
        self.temporary_bytes = 0
        self.copies: dict[tuple[str, Chain], str] = {}
        self._new_copies: list[tuple[str, str, Chain]] = []
        self.base: dict[str, Layout] = {}
        self.itemsize: dict[str, int] = {}
        self.known: dict[PartitionDesc, tuple[str, Layout]] = {}
        for parameter in spec.graph.parameters:
            if parameter.dtype is not None and parameter.name in arrays:
                array = arrays[parameter.name]
                self.base[parameter.name] = layouts.layout_of(array, parameter.shape)
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
                self.base[buffer.name] = layouts.layout_of(array, buffer.node.shape)
                self.itemsize[buffer.name] = buffer.node.dtype.itemsize
                continue
            self._fresh(buffer.name, buffer.node, outputs.get(id(original)))
        self.blocks: dict[Place, Blocks] = {}
        self._chains(spec, chains, orders)

    def lengths(self, shape: Sequence[Dim]) -> tuple[int, ...]:
        """The lengths that a shape has in this call.

        Raises:
            ValueError: one is negative, as of `np.zeros(len(x) - 5)` for a short `x`.
        """
        found = tuple(dims.evaluate(dim, self.sizes) for dim in shape)
        if any(length < 0 for length in found):
            raise ValueError("negative dimensions are not allowed")
        return found

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
                from fuser.runtime.row_tile_binding import blocks_of  # few kernels run row tiles

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
        size = math.prod(self.fresh[-1].shape)
        self.temporary_bytes += size * buffer.node.dtype.itemsize

    def _rows_of(
        self, name: str, node: Node, axes: tuple[int, ...], block: tuple[int, ...]
    ) -> None:
        """Plan an array of some rows; seen as if it had them all."""
        shape = self.lengths(node.shape)
        order = (*axes, *(axis for axis in range(len(shape)) if axis not in axes))
        short = tuple(
            block[axes.index(axis)] if axis in axes else length
            for axis, length in enumerate(shape)
        )
        self.fresh.append(Fresh(name, short, node.dtype, order))
        self.temporary_bytes += math.prod(short) * node.dtype.itemsize
        strides = layouts.ordered_strides(shape, order, node.dtype.itemsize)
        self.base[name] = Layout(0, shape, strides, node.shape, (False,) * len(shape))
        self.itemsize[name] = node.dtype.itemsize

    def _fresh(self, name: str, node: Node, order: list[int] | None) -> None:
        """Plan an array to allocate.

        Raises:
            ValueError: NumPy could not make such an array, either.
        """
        shape = self.lengths(node.shape)
        if math.prod(value_of(n) or 1 for n in shape) * node.dtype.itemsize > sys.maxsize:
            raise ValueError(TOO_BIG)
        axes = None if order is None or order == sorted(order) else tuple(order)
        entry = Fresh(name, shape, node.dtype, axes)
        self.fresh.append(entry)
        strides = layouts.ordered_strides(shape, axes or range(len(shape)), node.dtype.itemsize)
        self.base[name] = Layout(0, shape, strides, node.shape, (False,) * len(shape))
        self.itemsize[name] = node.dtype.itemsize

    def _count(self, name: str) -> None:
        """The layout of positions, as if they were stored."""
        length = dims.parse(counted_length(name))
        shape = self.lengths((length,))
        size = self.itemsize[name] = np.dtype(np.int64).itemsize
        self.base[name] = Layout(0, shape, (size,), (length,), (False,))

    def of(self, part: PartitionDesc) -> tuple[str, Layout]:
        """The buffer that really is read or written, and the layout in it."""
        if part in self.known:
            return self.known[part]
        if part.buffer not in self.base and is_counted(part.buffer):
            self._count(part.buffer)
        name, layout = part.buffer, self.base[part.buffer]
        moves: list[tuple[Dim, int]] = []
        along = 0
        for place, view in enumerate(part.views):
            if isinstance(view, Part) and (self._moving or self._rises):
                step = layout.strides[view.axis]
                if not self._moving.isdisjoint(dims.symbols(view.start)):
                    moves.append((view.start, step))
                along += dims.rise(view.start, self._rises) * step
            try:
                layout = view.layout(layout, self.sizes)
            except layouts.NeedsCopy:
                prefix = part.views[: place + 1]
                if any(isinstance(view, Address) for view in prefix):
                    raise Unsupported(
                        "unsupported-layout", "indexing",
                        "its elements do not lie as a reshape of it needs them",
                    ) from None
                name, layout = self._copy(part.buffer, prefix, layout, view)
                moves = []
        if any(isinstance(view, Measure) for view in part.views):
            name, moves = MEASURES, []
        if moves:
            here = sum(dims.evaluate(index, self.sizes) * step for index, step in moves)
            layout = changed(layout, offset=layout.offset - here, moves=tuple(moves))
        if along:
            layout = changed(layout, along=along)
        self.known[part] = (name, layout)
        return name, layout

    def _copy(
        self, source: str, prefix: Chain, layout: Layout, view: View
    ) -> tuple[str, Layout]:
        """A reshape that has to copy: the result is contiguous."""
        key = (source, prefix)
        if key not in self.copies:
            self.copies[key] = f"c{len(self.copies)}"
            self._new_copies.append((self.copies[key], source, prefix))
        size = self.itemsize[source] // (2 if isinstance(prefix[0], Component) else 1)
        whole = layouts.contiguous(layout.shape, layout.symbolic, size)
        return self.copies[key], view.layout(whole, self.sizes)

    def take_copies(self) -> tuple[tuple[str, str, Chain], ...]:
        """The copies that the group bound last needs before it."""
        taken, self._new_copies = tuple(self._new_copies), []
        return taken
