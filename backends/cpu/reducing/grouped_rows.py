"""Rows by groups: lanes of partial results of several rows are turned, then joined as columns.

Joining the lanes of one row's sum costs more than adding 64 elements does: each halving waits for
the one before. Here every row of a group leaves one vector of partial results in memory; the
square is turned, and what was a halving of one row is an addition of whole vectors, each lane a
row. What follows from the results is computed for all rows of the group at once, too.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial

import numpy as np

from fuser.backends.cpu import conversion
from fuser.backends.cpu.body import Module, Value
from fuser.backends.cpu.costs import Extent
from fuser.backends.cpu.loops import begin_loop
from fuser.backends.cpu.machine.target import stream_bytes
from fuser.backends.cpu.reducing import accumulators, turning
from fuser.backends.cpu.reducing.accumulators import Accumulator
from fuser.backends.cpu.reducing.emit_reduction import element_bytes
from fuser.backends.cpu.reducing.reduction_stages import Stages
from fuser.backends.cpu.reducing.row_reduction import RowReduction, joined
from fuser.backends.cpu.vector_memory import lane_mask, load, store
from fuser.codegen import LoopNest
from fuser.records import changed
from fuser.specs import INVARIANT, TensorDesc

#: Bytes of one value of every row of a group, and lanes of partial results that a row leaves.
GROUP_BYTES, LANES = 64, 8
#: Bytes of a group's operands, at most: where they are read once, where later stages are to find
#: them in the first cache, and where they come from memory, which waits during later stages.
MOST_ONCE_BYTES, MOST_BYTES, MOST_FAR_BYTES = 1 << 17, 1 << 15, 10 << 10
#: Elements in all, at least: smaller calls are served for all lengths at once (`entry_patterns`).
LEAST = 1 << 17
#: Elements of one chunk, about, and groups that keep many threads busy.
CHUNK, JOBS = 1 << 14, 32


def group_of(nest: LoopNest) -> int:
    """Rows of one group."""
    return GROUP_BYTES // max(4, nest.itemsize)


def can_be_grouped(nest: LoopNest) -> bool:
    """Whether a nest's rows can be computed by groups: numbers, none of them kept or placed."""
    if nest.strategy != "row" or nest.reduced != 1 or nest.rank < 2 or nest.checked:
        return False
    stages = Stages(nest)
    running = [a for stage in stages.loops for a in stages.reductions_of(stage)]
    plain = all(not a.places and a.register != "i1" for a in running)
    return bool(running) and plain and not stages.kept


def extent_of(nest: LoopNest, lengths: Sequence[int], turns: int = 1) -> Extent | None:
    """How a nest runs in this form, or None where it does not.

    Args:
        nest: rows.
        lengths: of all loops: outside, rows, elements.
        turns: how many times as many rows there are in all.
    """
    if len(lengths) < 2 or not (elements := math.prod(lengths)):
        return None
    *outside, rows, reduced = lengths
    group = group_of(nest)
    if elements * turns < LEAST or rows < group or elements // reduced * turns < JOBS * group:
        return None
    if not can_be_grouped(nest):
        return None
    loads = [np.dtype(d.dtype).itemsize for d in nest.loads if d.access != INVARIANT]
    most = MOST_ONCE_BYTES
    if len(Stages(nest).loops) > 1:
        most = MOST_FAR_BYTES if elements * sum(loads) > stream_bytes() else MOST_BYTES
    if group * reduced * sum(loads) > most:
        return None
    fair = max(1, CHUNK // (reduced * group)) * group
    fair = min(fair, max(1, rows // JOBS // group) * group) if len(outside) == 0 else fair
    return Extent(math.prod(outside), rows, elements, 1, fair, "grouped")


class GroupedRows(RowReduction):
    """Emits one nest by groups of rows, which the inner loop counts."""

    def __init__(self, module: Module, nest: LoopNest, name: str) -> None:
        """Reserve memory for lanes of partial results, and for results."""
        super().__init__(module, nest, name, split=False)
        self.column = True  # what belongs to a result has a lane for each row
        self.across = nest.rank - 2
        """The loop over rows."""
        self.row_lanes = self.lanes
        self.group = group_of(nest)
        stages = self.stages
        running = [a for stage in stages.loops for a in stages.reductions_of(stage)]
        widest = self.native * max(element_bytes(a.register) for a in running)
        self.room = -(-widest * self.group // 64) * 64
        most = max(len(stages.reductions_of(stage)) for stage in stages.loops)
        wanted = {number for stage in stages.loops for number in stages.edge(stage)}
        size = 8 * self.group
        self.slots = {number: size * place for place, number in enumerate(sorted(wanted))}
        self.scratch = [
            f"  %lanes = alloca [{self.room * most} x i8], align 64",
            f"  %slots = alloca [{max(1, len(wanted)) * size} x i8], align 64",
        ]
        self.lanes_bytes = self.room * most

    def _header(self) -> None:
        super()._header()
        self.counts = self.lengths[-1:]
        self._count_vectors()
        step = 64  # bytes; every accumulator has a multiple of them
        loop = begin_loop(self.b, "0", str(self.lanes_bytes // step))  # a last group may be small
        place = self.moved("%lanes", self.number(f"mul i64 {loop.index}, {step}"))
        self.b.line(f"store <8 x i64> zeroinitializer, ptr {place}, align {step}")
        loop.end()

    # -- groups -----------------------------------------------------------------------------

    def _results_of(self, place: str) -> None:
        """All groups of one outer iteration."""
        count = self.number("sub i64 %iend, %ibegin")
        up = self.number(f"add i64 {count}, {self.group - 1}")
        groups = begin_loop(self.b, "0", self.number(f"udiv i64 {up}, {self.group}"))
        first = self.number(f"mul i64 {groups.index}, {self.group}")
        left = self.number(f"sub i64 {count}, {first}")
        few = self.b.value(f"icmp ult i64 {left}, {self.group}", "i1", 1).text
        self.size = self.number(f"select i1 {few}, i64 {left}, i64 {self.group}")
        self.lane_mask = lane_mask(self.b, self.size, self.group)
        self.group_rows = self._moved_rows(self.rows, self.number(f"add i64 {first}, %ibegin"))
        self._group()
        groups.end()

    def _moved_rows(self, rows: list[str], count: str) -> list[str]:
        """Addresses of operands some rows further on."""
        return [
            self.moved(row, self.number(f"mul i64 {count}, {self.strides[k][self.across]}"))
            for k, row in enumerate(rows)
        ]

    def _group(self) -> None:
        """All stages of one group."""
        stages, saved = self.stages, dict(self.values)
        self.lanes = self.group
        for k in range(len(self.nest.loads)):
            if stages.levels[k] == 1:
                self.values[k] = self._of_rows(k)
        self._results(0)
        for stage in range(stages.last + 1):
            if stage in stages.loops:
                running = stages.reductions_of(stage)
                self._rows(stage, running)
                for place, accumulator in enumerate(running):
                    accumulator.parts = self._turned(accumulator, place)
                    self._finish(accumulator, accumulator.parts)
            self._results(stage + 1)
        for place, (number, _) in enumerate(self.nest.stores):
            if stages.store_level(place) == 1:
                self._store_rows(len(self.nest.loads) + place, number)
        self.values, self.lanes = saved, self.row_lanes

    def _beside(self, k: int) -> TensorDesc:
        """How an operand that is one for a row is met along the rows."""
        return changed(self.operands[k], access=self.operands[k].beside or INVARIANT)

    def _of_rows(self, k: int) -> Value:
        """Load an operand that is one for a row."""
        desc, step = self._beside(k), self.strides[k][self.across]
        return load(self.b, desc, self.group_rows[k], self.lane_mask, step, self.group)

    def _store_rows(self, k: int, number: int) -> None:
        """Store a value that is one for a row."""
        desc, step = self._beside(k), self.strides[k][self.across]
        value = self._operand(number, self.group)
        store(self.b, desc, value, self.group_rows[k], self.lane_mask, step)

    # -- rows of a group --------------------------------------------------------------------

    def _rows(self, stage: int, running: list[Accumulator]) -> None:
        """One stage of all rows of a group; leaves lanes of their partial results."""
        b, of_group = self.b, dict(self.values)
        wanted = self.stages.edge(stage)
        for number in wanted:
            value = self._operand(number, self.group)
            raw = b.cast("zext", value, "i8") if value.scalar == "i1" else value
            b.line(f"store {raw.typed}, ptr {self.moved('%slots', str(self.slots[number]))}")
        self.lanes = self.row_lanes
        loop = begin_loop(b, "0", self.size)
        self.tops = self._moved_rows(self.group_rows, loop.index)
        for number in wanted:
            self.values[number] = self._of_row(number, loop.index)
        self._take_row(stage, running)
        for place, accumulator in enumerate(running):
            self._leave_lanes(accumulator, place, loop.index)
        loop.end()
        self.values, self.lanes = of_group, self.group

    def _of_row(self, number: int, row: str) -> Value:
        """What is one for a row, for one of them."""
        b, register = self.b, conversion.REGISTER[self.nest.dtype_of(number)]
        memory = "i8" if register == "i1" else register
        offset = self.number(f"mul i64 {row}, {element_bytes(memory)}")
        offset = self.number(f"add i64 {offset}, {self.slots[number]}")
        raw = b.value(f"load {memory}, ptr {self.moved('%slots', offset)}", memory, 1)
        return b.compare("icmp ne", raw, b.iconst(raw, 0)) if register == "i1" else raw

    def _leave_lanes(self, accumulator: Accumulator, place: int, row: str) -> None:
        """Join the vectors of one row's partial results to one, and write that down."""
        b, parts, lanes = self.b, accumulator.parts, self.native
        join = partial(joined, b, accumulator)
        parts = [accumulators.halved(b, part, join, lanes) for part in parts]
        value = parts[0] if len(parts) == 1 else accumulators.with_error(b, *parts)
        offset = self.number(f"mul i64 {row}, {lanes * element_bytes(accumulator.register)}")
        offset = self.number(f"add i64 {offset}, {place * self.room}")
        b.line(f"store {value.typed}, ptr {self.moved('%lanes', offset)}, align 1")

    def _turned(self, accumulator: Accumulator, place: int) -> list[Value]:
        """Join the lanes of all rows; a lane for each row."""
        b, register, lanes = self.b, accumulator.register, self.native
        kind, size = Value("", register, lanes).type, lanes * element_bytes(register)
        squares = []
        for first in range(0, self.group, lanes):
            rows = []
            for row in range(first, first + lanes):
                address = self.moved("%lanes", str(place * self.room + row * size))
                text = f"load {kind}, ptr {address}, align {min(size, 64)}"
                rows.append(b.value(text, register, lanes))
            squares.append(turning.join(b, accumulator, rows))
        return [turning.beside(b, list(part)) for part in zip(*squares, strict=True)]
