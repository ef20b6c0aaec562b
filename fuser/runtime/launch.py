"""A spec bound to the layouts of one call's arrays: kernels, argument blocks, outputs.

Binding is done once for each combination of shapes and strides; launching then only fills in
addresses and scalars.
"""

from __future__ import annotations

import math
import operator
import struct
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from fuser.backend import Backend, Kernel
from fuser.base.errors import Unsupported
from fuser.base.host_expressions import evaluate_scalar
from fuser.base.records import field, record
from fuser.codegen import scalar_nodes
from fuser.compiler import kernel_for
from fuser.ir import dims, infer, layouts, views
from fuser.ir.dims import Dim
from fuser.ir.specs import ArgSpec, counted_length, is_counted
from fuser.ir.views import Chain
from fuser.kernel_spec import KernelSpec
from fuser.runtime.binding import Fresh, Layouts
from fuser.runtime.nest_binding import bind_group, specs_of
from fuser.scheduling.loop_nests import Section

if TYPE_CHECKING:
    from fuser.runtime.row_tile_binding import Blocks

__all__ = ["BoundGroup", "BoundSection", "Fresh", "Launch", "bind", "contiguous_specs"]

#: How a scalar of each dtype is packed into 8 bytes.
FORMATS = {
    "bool": "=?7x", "int8": "=b7x", "uint8": "=B7x", "int16": "=h6x", "uint16": "=H6x",
    "int32": "=i4x", "uint32": "=I4x", "int64": "=q", "uint64": "=Q", "float16": "=e6x",
    "float32": "=f4x", "float64": "=d",
}  # fmt: skip
#: By kind and size: a dtype's name takes microseconds.
_FORMAT_OF = {(np.dtype(n).kind, np.dtype(n).itemsize): each for n, each in FORMATS.items()}


@record
class BoundSection:
    """One loop nest with everything but addresses and scalars.

    Attributes:
        operands: (buffer name, byte offset) of loads, then stores.
        rest: lengths and strides, as the kernel's `lay_out` packed them; symbolic ones in a list.
        scalars: (host expression, dtype name) pairs.
        extent: what `lay_out` gave for `launch`.
        moves: what each call adds to the offset of an operand, by its number: an expression over
            lengths that integer arguments tell, times bytes.
        steps: in a chain, each operand's bytes from row to row along the loops that count them.
    """

    operands: tuple[tuple[str, int], ...]
    rest: Any
    scalars: tuple[tuple[str, np.dtype[Any]], ...]
    extent: Any
    moves: tuple[tuple[int, Dim, int], ...] = ()
    steps: tuple[tuple[int, ...], ...] = ()


@record
class BoundGroup:
    """Loop nests of one kernel that run at a time; empty ones are left out."""

    kernel: Kernel
    sections: tuple[tuple[int, BoundSection], ...]
    copies: tuple[tuple[str, str, Chain], ...]
    """(name, source buffer, views): reshapes that are no views of their memory."""
    blocks: Blocks | None = None
    """Its nests run one after another for some rows at a time."""


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
    unlaunched: list[tuple[str, np.dtype[Any]]] = field(default_factory=list)
    """Scalars of loop nests without elements: computed all the same, as they may raise."""
    by_rows: frozenset[tuple[int, int]] = frozenset()
    """Numbers of the kernels, and of their parts, whose nests run by turns on some rows."""
    sequence: Any = None
    """The backend's short form of `run`, where it has one."""

    @property
    def moves(self) -> bool:
        """Whether integer arguments move where some operand lies."""
        return any(section.moves for group in self.groups for _, section in group.sections)

    @property
    def kernels(self) -> list[Kernel]:
        """The compiled kernels, each once: some run in parts."""
        return list({id(group.kernel): group.kernel for group in self.groups}.values())

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
        pack_scalars(self.unlaunched, numbers)
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
                copied = views.apply_views(base, chain, {**self.sizes, **numbers}, module)
                arrays[name] = module.ascontiguousarray(copied)
                places[name] = address(arrays[name])
            for start in group.blocks.starts() if group.blocks else ((),):
                status |= self._run_group(group, blocks, places, start, numbers)
        return status

    def _run_group(
        self,
        group: BoundGroup,
        scalar_blocks: Sequence[bytes],
        places: Mapping[str, int],
        start: tuple[int, ...],
        numbers: Mapping[str, Any],
    ) -> int:
        """Launch each loop nest of a kernel, from some row on."""
        status = 0
        for (number, section), values in zip(group.sections, scalar_blocks, strict=True):
            pointers = [places.get(name, 0) + offset for name, offset in section.operands]
            for k, index, step in section.moves:
                pointers[k] += dims.evaluate(index, numbers) * step
            for k, steps in enumerate(section.steps):
                pointers[k] += sum(map(operator.mul, steps, start))
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
        value = numbers[text] if text in numbers else evaluate_scalar(text, numbers)
        if dtype.kind in "iu" or dtype.itemsize < 8:
            value = infer.convert_scalar(value, dtype)
        elif dtype.kind == "f":
            value = float(value)  # which says so of an integer that is too large
        if dtype.kind == "f" and dtype.itemsize < 8:
            packed += value.tobytes().ljust(8, b"\0")
        else:
            packed += struct.pack(_FORMAT_OF[dtype.kind, dtype.itemsize], value)
    return packed


def bind(
    spec: KernelSpec,
    arrays: Mapping[str, Any],
    sizes: dict[str, int],
    backend: Backend,
    only: Sequence[ArgSpec] | None = None,
    *,
    by_rows: bool = True,
    symbolic: bool = False,
) -> Launch:
    """Choose kernels and lay out blocks for arrays of these shapes and strides.

    Args:
        spec: the prepared graph.
        arrays: arguments by parameter name, and given outputs by buffer name.
        sizes: values of symbols.
        backend: where the arrays live.
        only: take kernels for these argument specs; nothing is compiled.
        by_rows: chains run on some rows at a time, where they can; else nest by nest.
        symbolic: lengths and strides are symbolic; words are not packed, and nothing can run.

    Raises:
        Unsupported, CompileError: a kernel cannot be made.
        LookupError: these layouts need others than `only`.
    """
    moving = frozenset[str]() if symbolic else spec.moving
    layouts = Layouts(spec, arrays, sizes, by_rows=by_rows, moving=moving)
    launch = Launch(backend, sizes=sizes, fresh=layouts.fresh)
    launch.temporary_bytes = layouts.temporary_bytes
    launch.by_rows = frozenset(layouts.blocks)
    for number, group in enumerate(spec.plan.groups):
        parts = [
            (bind_group(layouts, (number, k), part), layouts.take_copies())
            for k, part in enumerate(group.parts)
        ]
        specs = (found for bound, _ in parts for found, _ in bound)
        arg_spec = ArgSpec(backend.name, tuple(specs))
        launch.arg_specs.append(arg_spec)
        if only is not None and arg_spec != only[number]:
            raise LookupError(arg_spec)
        for nests, (bound, _) in zip(group.parts, parts, strict=True):
            for section, (_, loops) in zip(nests.sections, bound, strict=True):
                launch.unlaunched += () if loops else _may_raise(section)
        if all(loops is None for bound, _ in parts for _, loops in bound):
            continue  # nothing but empty arrays, whose strides tell nothing
        kernel = kernel_for(spec, number, arg_spec, backend)
        first = 0
        for part, (bound, copies) in enumerate(parts):
            blocks = layouts.blocks.get((number, part))
            lay_out: Callable[..., Any] = kernel.words_of if symbolic else kernel.lay_out
            if blocks is not None:
                lay_out = partial(kernel.lay_out_rows, turns=math.prod(blocks.turns))
            kept = tuple(
                (k, BoundSection(operands, rest, loops.scalars, extent, loops.moves, loops.steps))
                for k, (_, loops) in enumerate(bound, first)
                if loops is not None
                for rest, extent in (lay_out(k, loops.lengths, loops.strides),)
                for operands in ((*loops.operands, *_scratch(launch, extent, f"{number}.{k}")),)
            )
            first += len(bound)
            if kept:
                launch.groups.append(BoundGroup(kernel, kept, copies, blocks))
        launch.kernel_count += 1
    launch.sequence = None if only or launch.unlaunched else backend.sequence(launch)
    return launch


def _may_raise(section: Section) -> list[tuple[str, np.dtype[Any]]]:
    """Scalars of a loop nest that are more than a Python float or a length taken as a float."""
    leaves = (section.leaves[k] for k in scalar_nodes(section))
    return [(x.text, x.dtype) for x in leaves if x.dtype.kind != "f" or not x.text.isalnum()]


def _scratch(launch: Launch, extent: Any, where: str) -> Iterator[tuple[str, int]]:
    """The operand of the memory that a backend wants from us for a loop nest, if it does."""
    size = getattr(extent, "room_bytes", 0)
    if size:
        name = f"t.{where}"
        launch.fresh.append(Fresh(name, (size,), np.dtype(np.uint8), None))
        launch.temporary_bytes += size
        yield name, 0


def contiguous_specs(spec: KernelSpec, backend_name: str) -> list[ArgSpec]:
    """The argument spec of each group for C-contiguous arguments, whatever their lengths.

    Raises:
        Unsupported: the graph has indices or reshapes that no lengths tried here have.
    """
    for unit in LENGTHS:
        try:
            return _contiguous_specs(spec, backend_name, unit)
        except (IndexError, ValueError):
            continue
    found = f"lengths of {' and '.join(map(str, LENGTHS))} do not fit"
    advice = "debug_get_fused_kernel_code(graph, args) takes those of arrays"
    raise Unsupported("shape-pattern", "contiguous arguments", f"{found}; {advice}", "")


#: What lengths are multiples of, that the usual numbers of groups and parts divide: the first that
#: fits is taken.
LENGTHS = (96, 720720)


def _contiguous_specs(spec: KernelSpec, backend_name: str, unit: int) -> list[ArgSpec]:
    """Argument specs for different multiples of a length."""
    symbols = [s for p in spec.graph.parameters for dim in p.shape for s in dims.symbols(dim)]
    sizes = {name: unit * (place + 1) for place, name in enumerate(dict.fromkeys(symbols))}
    for place, name in enumerate(name for name in spec.graph.scalar_lengths if name not in sizes):
        sizes[name] = unit // 2 + place  # most are indices into an axis, or bounds along one
    arrays = {
        p.name: _stand_in(tuple(dims.evaluate(dim, sizes) for dim in p.shape), p.dtype)
        for p in spec.graph.parameters
        if p.dtype is not None
    }
    layouts = Layouts(spec, arrays, sizes)
    return [
        ArgSpec(backend_name, specs_of(layouts, number, group))
        for number, group in enumerate(spec.plan.groups)
    ]


def _stand_in(shape: tuple[int, ...], dtype: np.dtype[Any]) -> np.ndarray[Any, Any]:
    """An array without memory, in place of a contiguous copy: its shape and strides are read."""
    strides = layouts.contiguous_strides(shape, dtype.itemsize)
    return np.lib.stride_tricks.as_strided(np.empty(1, dtype), shape, strides)
