"""Few columns: some rows beside each other are taken as one wide row.

Points of three coordinates, features of a few numbers: a row fills no vector, and what is left of
each vector is masked out. Where rows lie directly behind one another, a group of them is one row of
as many more columns, which are whole vectors. What a column of the group comes to is joined after
each stage, and what a later stage needs of a column is repeated for all of its group.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from fuser.backends.cpu import conversion, tuning
from fuser.backends.cpu.body import Module, Value
from fuser.backends.cpu.loops import begin_loop
from fuser.backends.cpu.reducing import accumulators
from fuser.backends.cpu.reducing.accumulators import Accumulator
from fuser.backends.cpu.reducing.column_reduction import PADDING
from fuser.backends.cpu.reducing.column_tiles import RESULT, TiledColumns, can_be_tiled
from fuser.backends.cpu.reducing.online_columns import OnlineColumns
from fuser.backends.cpu.reducing.reduction import deal, element_bytes
from fuser.backends.cpu.reducing.reduction_stages import stages_of
from fuser.codegen import LoopNest
from fuser.ir.specs import CONTIGUOUS


def group_of(columns: int) -> int:
    """How many rows one flattened row has, for a number of columns."""
    return next(group for most, group in tuning.FLATTENED_GROUPS if columns <= most)


def are_dense(nest: LoopNest, lengths: Sequence[int], strides: Sequence[Sequence[int]]) -> bool:
    """Whether rows lie directly behind one another.

    Args:
        nest: columns.
        lengths: of all loops: outside, columns, rows.
        strides: of loads, then of stores, in bytes.
    """
    sizes = {k: conversion.bytes_of(nest.operands[k].dtype) for k in _moving(nest)}
    return all(tuple(strides[k][-2:]) == (size, lengths[-2] * size) for k, size in sizes.items())


def can_be_flattened(nest: LoopNest) -> bool:
    """Whether a nest's rows can be grouped: elements lie beside each other, and none is placed."""
    if not can_be_tiled(nest) or nest.checked:
        return False
    stages, operands = stages_of(nest), nest.operands
    running = [a for stage in stages.loops for a in stages.reductions_of(stage)]
    plain = all(
        operands[k].access == CONTIGUOUS and not operands[k].counted for k in _moving(nest)
    )
    return plain and not any(a.places for a in running)


def _moving(nest: LoopNest) -> list[int]:
    """Operands with an element for each row and column."""
    stages, count = stages_of(nest), len(nest.loads)
    loads = [k for k in range(count) if stages.levels[k] == 2]
    return loads + [count + k for k in range(len(nest.stores)) if stages.store_level(k) == 2]


class _Flattened(TiledColumns):
    """Takes rows by groups, and columns of a group apart and together again."""

    is_flattened = False
    """Whether what is being written meets groups of rows."""

    def __init__(self, module: Module, nest: LoopNest, name: str, *, split: bool) -> None:
        """Reserve memory for operands that are one number a column, too."""
        super().__init__(module, nest, name, split=split)
        columns = self.tile_columns + PADDING
        every = [self.slots, getattr(self, "local_slots", self.slots)]
        size = max(
            (at + element_bytes(of) * columns for slots in every for at, of in slots.values()),
            default=0,
        )
        for k, desc in enumerate(nest.loads):
            if self.stages.levels[k] < 2:
                scalar = conversion.REGISTER[desc.dtype]
                for slots in every:
                    slots[k, RESULT] = size, scalar
                size += element_bytes(scalar) * columns
        self.scratch = [f"  %left = alloca [{max(size, 1)} x i8], align 64"]

    def _header(self) -> None:
        super()._header()
        self.columns = self.lengths[self.beside]
        self.group = str(tuning.FLATTENED_GROUPS[-1][1])
        for most, group in reversed(tuning.FLATTENED_GROUPS[:-1]):
            few = self.b.value(f"icmp ule i64 {self.columns}, {most}", "i1", 1).text
            self.group = self.number(f"select i1 {few}, i64 {group}, i64 {self.group}")

    @contextmanager
    def _groups(self) -> Iterator[tuple[str, str]]:
        """What is written inside meets groups: their number, and that of rows left over."""
        saved = self.lengths, self.strides, self.counts, self.tile_end
        along, (count,) = self.nest.rank - self.nest.reduced, self.counts
        wide = self.number(f"mul i64 {self.columns}, {self.group}")
        groups = self.number(f"udiv i64 {count}, {self.group}")
        rest = self.number(f"urem i64 {count}, {self.group}")
        self.lengths = [*self.lengths]
        self.lengths[self.beside] = wide
        self.lengths[-1] = self.number(f"udiv i64 {self.lengths[-1]}, {self.group}")
        self.strides = [[*steps] for steps in self.strides]
        for steps in self.strides:
            steps[along] = self.number(f"mul i64 {steps[along]}, {self.group}")
        self.counts, self.is_flattened = [groups], True
        self.tile_end = self.number(f"add i64 {self.tile}, {wide}")
        yield groups, rest
        self.lengths, self.strides, self.counts, self.tile_end = saved
        self.is_flattened = False

    def _blocks(self, stage: int) -> None:
        """All rows of a stage: groups, then some columns of one more for those left over."""
        b = self.b
        self._spread(stage)
        with self._groups() as (groups, rest):
            super()._blocks(stage)
            with self._where(b.value(f"icmp ne i64 {rest}, 0", "i1", 1).text):
                some = self.number(f"mul i64 {rest}, {self.columns}")

                def visit(column: str, mask: Value | None, amount: str) -> None:
                    self._at_columns(column, mask, amount)
                    self._block(stage, groups, "1", "1")

                widths, self.widths = self.widths, [self.native]
                self._walk(self.tile, self.number(f"add i64 {self.tile}, {some}"), visit)
                self.widths = widths
        if self.stages.reductions_of(stage):
            self._visit(lambda: self._fold(self.stages.reductions_of(stage)))

    def _spread(self, stage: int) -> None:
        """Repeat for all columns of a group what a stage needs of one column."""
        b = self.b
        wanted = {*self.stages.edge(stage), *(a.number for a in self.stages.reductions_of(stage))}
        keys = [key for key in self.slots if key[0] in wanted]
        if not keys:
            return
        loop = begin_loop(b, "1", self.group)
        onward = self.number(f"mul i64 {loop.index}, {self.columns}")

        def repeat() -> None:
            values = [self._read(key) for key in keys]
            self.current = self.number(f"add i64 {self.current}, {onward}")
            for key, value in zip(keys, values, strict=True):
                self._write(key, value)

        self._visit(repeat)
        loop.end()

    def _fold(self, running: list[Accumulator]) -> None:
        """Join what one vector of columns came to in all places of a group."""
        b, first = self.b, self.current
        for accumulator in running:
            value = self._read((accumulator.number, 0))
            accumulator.parts = [value]
            if accumulator.exact:
                accumulator.parts.append(accumulators.zero(b, accumulator, self.lanes))
        loop = begin_loop(b, "1", self.group)
        for accumulator in running:
            accumulator.parts = [loop.carry(part) for part in accumulator.parts]
        onward = self.number(f"mul i64 {loop.index}, {self.columns}")
        self.current = self.number(f"add i64 {first}, {onward}")
        for accumulator in running:
            accumulators.take(b, accumulator, self._read((accumulator.number, 0)), None, None)
        self.current = first
        loop.end([part for accumulator in running for part in accumulator.parts])
        deal(loop.results, running)
        for accumulator in running:
            value, *errors = accumulator.parts
            for error in errors:
                value = accumulators.with_error(b, value, error)
            self._write((accumulator.number, 0), value)

    def _taken(self) -> Value | None:
        return self.mask if self.is_flattened else None

    def _operand(self, number: int, lanes: int = 0) -> Value:
        """As the base class; an operand that is one number a column was written down."""
        apart = number < len(self.nest.loads) and number not in self.values
        if not (self.is_flattened and apart):
            return super()._operand(number, lanes)
        self.values[number] = self._read((number, RESULT))
        found = super()._operand(number, lanes)
        del self.values[number]
        return found

    def _write_down(self, stage: int) -> None:
        super()._write_down(stage)
        for k in range(len(self.nest.loads)):
            if (k, RESULT) in self.slots and k not in self.values:
                self._write((k, RESULT), self._edge(k))


class FlattenedColumns(_Flattened):
    """Emits one nest stage by stage."""


class FlattenedOnline(_Flattened, OnlineColumns):
    """Emits one nest whose parts are read once."""


