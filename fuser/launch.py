"""A spec bound to the layouts of one call's arrays: kernels, argument blocks, outputs.

Binding is done once for each combination of shapes and strides; launching then only fills in
addresses and scalars.
"""

from __future__ import annotations

import itertools
import struct
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from fuser import dims, scalars, views
from fuser.backend import Backend, Kernel, get_backend
from fuser.codegen import scalar_nodes
from fuser.collapse import collapse, merge_axes, reduction_order, run_strides
from fuser.compiler import kernel_for
from fuser.errors import Unsupported
from fuser.graph import Node
from fuser.memory_order import all_c_order, memory_orders
from fuser.operands import convert_scalar
from fuser.records import field, record
from fuser.schedule import Section
from fuser.specs import (
    CONTIGUOUS,
    STRIDED,
    ArgSpec,
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

#: How a scalar of each dtype is packed into 8 bytes.
FORMATS = {
    "bool": "=?7x", "int8": "=b7x", "uint8": "=B7x", "int16": "=h6x", "uint16": "=H6x",
    "int32": "=i4x", "uint32": "=I4x", "int64": "=q", "uint64": "=Q", "float16": "=e6x",
    "float32": "=f4x", "float64": "=d",
}  # fmt: skip


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


@record
class BoundSection:
    """One loop nest with everything but addresses and scalars.

    Attributes:
        operands: (buffer name, byte offset) of loads, then stores.
        rest: lengths and strides, as the kernel's `lay_out` packed them.
        scalars: (host expression, dtype name) pairs.
        extent: what `lay_out` gave for `launch`.
    """

    operands: tuple[tuple[str, int], ...]
    rest: bytes
    scalars: tuple[tuple[str, np.dtype[Any]], ...]
    extent: Any


@record
class BoundGroup:
    """One kernel and its loop nests; empty ones are left out."""

    kernel: Kernel
    sections: tuple[tuple[int, BoundSection], ...]
    copies: tuple[tuple[str, str, tuple[tuple[str, str], ...]], ...]
    """(name, source buffer, views): reshapes that are no views of their memory."""


@record(frozen=False)
class Launch:
    """A bound spec: `run` computes the outputs."""

    backend: Backend
    groups: list[BoundGroup] = field(default_factory=list)
    fresh: list[Fresh] = field(default_factory=list)
    sizes: dict[str, int] = field(default_factory=dict)
    arg_specs: list[ArgSpec] = field(default_factory=list)
    temporary_bytes: int = 0
    kernel_count: int = 0
    sequence: Any = None
    """The backend's short form of `run`, where it has one."""

    def run(self, arrays: dict[str, Any], numbers: Mapping[str, Any]) -> int:
        """Allocate what is missing from `arrays` and launch every kernel.

        Args:
            arrays: by buffer name: arguments, and outputs that are given; filled with the rest.
            numbers: values of scalar names and lengths.

        Returns:
            0, or not 0 when a kernel met a value for which NumPy raises.

        Raises:
            OverflowError: a Python integer does not fit the dtype that it meets.
        """
        if self.sequence is not None:
            return int(self.sequence.run(arrays, numbers))
        module = self.backend.array_module
        packed = [  # first of all: a scalar that does not fit must leave everything untouched
            [pack_scalars(section.scalars, numbers) for _, section in group.sections]
            for group in self.groups
        ]
        for entry in self.fresh:
            if entry.name not in arrays:
                arrays[entry.name] = entry.make(self.backend)
        address = self.backend.address
        places = {name: address(array) for name, array in arrays.items()}
        status = 0
        for group, blocks in zip(self.groups, packed, strict=True):
            for name, source, chain in group.copies:
                base = self._source(arrays, source)
                copied = views.apply_views(base, chain, self.sizes, module)
                arrays[name] = module.ascontiguousarray(copied)
                places[name] = address(arrays[name])
            for (number, section), values in zip(group.sections, blocks, strict=True):
                pointers = [places.get(name, 0) + offset for name, offset in section.operands]
                block = self.backend.pack(pointers, section.rest + values)
                status |= group.kernel.launch(number, block, section.extent)
        return status


    def _source(self, arrays: Mapping[str, Any], name: str) -> Any:
        """The array to copy from; positions are written down."""
        if not is_counted(name):
            return arrays[name]
        length = dims.evaluate(dims.parse(counted_length(name)), self.sizes)
        return self.backend.array_module.arange(length, dtype=np.int64)


def pack_scalars(
    wanted: Sequence[tuple[str, np.dtype[Any]]], numbers: Mapping[str, Any]
) -> bytes:
    """Convert and pack run-time scalars, 8 bytes each."""
    packed = b""
    for text, dtype in wanted:
        value = numbers[text] if text in numbers else scalars.evaluate(text, numbers)
        if dtype.kind in "iu" or dtype.itemsize < 8:
            value = convert_scalar(value, dtype)
        if dtype.name == "float32" or dtype.name == "float16":
            packed += value.tobytes().ljust(8, b"\0")
        else:
            packed += struct.pack(FORMATS[dtype.name], value)
    return packed


def bind(
    spec: KernelSpec,
    arrays: Mapping[str, Any],
    sizes: dict[str, int],
    backend: Backend,
    only: Sequence[ArgSpec] | None = None,
) -> Launch:
    """Choose kernels and lay out blocks for arrays of these shapes and strides.

    Args:
        spec: the prepared graph.
        arrays: arguments by parameter name, and given outputs by buffer name.
        sizes: values of symbols.
        backend: where the arrays live.
        only: take kernels for these argument specs; nothing is compiled.

    Raises:
        Unsupported, CompileError: a kernel cannot be made.
        LookupError: these layouts need others than `only`.
    """
    launch = Launch(backend, sizes=sizes)
    layouts = _Layouts(spec, arrays, sizes, launch)
    for number, group in enumerate(spec.plan.groups):
        bound = [_bind_section(section, layouts) for section in group.sections]
        arg_spec = ArgSpec(backend.name, tuple(spec_ for spec_, _ in bound))
        launch.arg_specs.append(arg_spec)
        if only is not None and arg_spec != only[number]:
            raise LookupError(arg_spec)
        if all(loops is None for _, loops in bound):
            layouts.take_copies()  # nothing but empty arrays, whose strides tell nothing
            continue
        kernel = kernel_for(spec, number, arg_spec, backend)
        kept = tuple(
            (k, BoundSection(operands, rest, loops.scalars, extent))
            for k, (_, loops) in enumerate(bound)
            if loops is not None
            for rest, extent in (kernel.lay_out(k, loops.lengths, loops.strides),)
            for operands in ((*loops.operands, *_scratch(launch, extent, f"{number}.{k}")),)
        )
        launch.groups.append(BoundGroup(kernel, kept, layouts.take_copies()))
        launch.kernel_count += bool(kept)
    launch.sequence = None if only else backend.sequence(launch)
    return launch


def _scratch(launch: Launch, extent: Any, where: str) -> Iterator[tuple[str, int]]:
    """The operand of the memory that a backend wants from us for a loop nest, if it does."""
    size = getattr(extent, "room_bytes", 0)
    if size:
        name = f"t.{where}"
        launch.fresh.append(Fresh(name, (size,), np.dtype(np.uint8), None))
        launch.temporary_bytes += size
        yield name, 0


def contiguous_specs(spec: KernelSpec, backend_name: str) -> list[ArgSpec]:
    """The argument spec of each group for C-contiguous arguments, whatever their lengths."""
    symbols = [s for p in spec.graph.parameters for dim in p.shape for s in dims.symbols(dim)]
    # Different lengths that the usual numbers of groups and parts divide.
    sizes = {name: 96 * (place + 1) for place, name in enumerate(dict.fromkeys(symbols))}
    arrays = {
        p.name: _stand_in(tuple(dims.evaluate(dim, sizes) for dim in p.shape), p.dtype)
        for p in spec.graph.parameters
        if p.dtype is not None
    }
    layouts = _Layouts(spec, arrays, sizes, Launch(get_backend(backend_name), sizes=sizes))
    return [
        ArgSpec(
            backend_name, tuple(_bind_section(section, layouts)[0] for section in group.sections)
        )
        for group in spec.plan.groups
    ]


def _stand_in(shape: tuple[int, ...], dtype: np.dtype[Any]) -> np.ndarray[Any, Any]:
    """An array with the shape and strides of a contiguous one, and no memory: never read."""
    strides = views.contiguous_strides(shape, dtype.itemsize)
    return np.lib.stride_tricks.as_strided(np.empty(1, dtype), shape, strides)


class _Layouts:
    """Layouts of every buffer of one call."""

    def __init__(
        self, spec: KernelSpec, arrays: Mapping[str, Any], sizes: dict[str, int], launch: Launch
    ) -> None:
        self.sizes = sizes
        self.nested = launch.backend.nested_reductions
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
        for buffer in spec.plan.temporaries:
            self._fresh(buffer.name, buffer.node, orders.get(id(buffer.node)), launch)
            size = int(np.prod(launch.fresh[-1].shape, dtype=np.int64))
            launch.temporary_bytes += size * buffer.node.dtype.itemsize
        originals = zip(spec.plan.outputs, spec.graph.outputs, strict=True)
        for buffer, original in originals:
            if buffer.name in arrays:
                array = arrays[buffer.name]
                self.base[buffer.name] = views.layout_of(array, buffer.node.shape)
                self.itemsize[buffer.name] = buffer.node.dtype.itemsize
                continue
            self._fresh(buffer.name, buffer.node, outputs.get(id(original)), launch)

    def _fresh(self, name: str, node: Node, order: list[int] | None, launch: Launch) -> None:
        """Plan an array to allocate."""
        shape = tuple(dims.evaluate(dim, self.sizes) for dim in node.shape)
        axes = None if order is None or order == sorted(order) else tuple(order)
        entry = Fresh(name, shape, node.dtype, axes)
        launch.fresh.append(entry)
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
        strides = views.contiguous_strides(layout.shape, self.itemsize[source])
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


class _Loops(NamedTuple):
    """One section's loops after collapsing: what its BoundSection is made from."""

    operands: tuple[tuple[str, int], ...]
    scalars: tuple[tuple[str, np.dtype[Any]], ...]
    lengths: list[int]
    strides: list[list[int]]


def _bind_section(section: Section, layouts: _Layouts) -> tuple[SectionSpec, _Loops | None]:
    """Collapse the loops of one section; None for loops that do nothing."""
    parts = [*section.loads, *(part for _, part in section.stores)]
    nodes = [*section.load_nodes, *(section.node_of(value) for value, _ in section.stores)]
    found = [layouts.of(part) for part in parts]
    shape = tuple(dims.evaluate(dim, layouts.sizes) for dim in section.shape)
    itemsizes = [node.dtype.itemsize for node in nodes]
    if section.axes:
        return _bind_reduction(section, layouts, nodes, found, shape)
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
    return spec, _Loops(operands, wanted, lengths, strides)


def _bind_reduction(
    section: Section,
    layouts: _Layouts,
    nodes: Sequence[Node],
    found: Sequence[tuple[str, Layout]],
    shape: tuple[int, ...],
) -> tuple[SectionSpec, _Loops | None]:
    """Collapse the loops of a section that reduces: kept ones first, reduced ones last.

    Raises:
        Unsupported: the backend takes one reduced loop, and memory needs more.
    """
    itemsizes = [node.dtype.itemsize for node in nodes]
    if not layouts.nested:
        found = _running_on(section, layouts, found, itemsizes, shape)
    operands = [layout for _, layout in found]
    strides = [run_strides(o, i, shape) for o, i in zip(operands, itemsizes, strict=True)]
    order = reduction_order(*_leading(section, found, itemsizes))
    if section.across:  # rows whatever the memory: sums across them lie side by side
        order = [axis for axis in range(len(shape)) if axis not in section.axes]
        order += section.axes
    lengths, rows = merge_axes([a for a in order if a not in section.axes], shape, strides)
    reduced, along = merge_axes([a for a in order if a in section.axes], shape, strides)
    if len(reduced) > 1 and not layouts.nested:
        raise Unsupported(
            "unsupported-layout", "reduction", f"axes {section.axes} of strided memory", ""
        )
    row = order[-1] in section.axes
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
    return spec, _Loops(places, wanted, [*lengths, *reduced], all_strides)


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
    layouts: _Layouts,
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
