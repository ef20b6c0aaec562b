"""Rows by groups: lanes of partial results of several rows are turned, then joined as columns.

Joining the lanes of one row's sum costs more than adding 64 elements does: each halving waits for
the one before. Here every row of a group leaves one vector of partial results in memory; the
square is turned, and what was a halving of one row is an addition of whole vectors, each lane a
row. What follows from the results is computed for all rows of the group at once, too.
"""

from __future__ import annotations

from functools import partial

from fuser.backends.cpu import conversion, tuning
from fuser.backends.cpu.body import Module, Value
from fuser.backends.cpu.division import Divisor, is_served, is_shared, prepare
from fuser.backends.cpu.loops import begin_loop
from fuser.backends.cpu.reducing import accumulators, lane_transpose
from fuser.backends.cpu.reducing.accumulators import Accumulator
from fuser.backends.cpu.reducing.reduction import element_bytes
from fuser.backends.cpu.reducing.reduction_stages import stages_of
from fuser.backends.cpu.reducing.row_reduction import RowReduction, joined
from fuser.backends.cpu.vector_memory import lane_mask, load, store
from fuser.base.records import changed
from fuser.codegen import LoopNest
from fuser.ir.specs import INVARIANT, TensorDesc


def batch_of(nest: LoopNest, *, small: bool = False) -> int:
    """Rows of one batch."""
    return (tuning.SMALL_BATCH_BYTES if small else tuning.BATCH_BYTES) // max(4, nest.itemsize)


def moving_of(nest: LoopNest) -> list[TensorDesc]:
    """Loads that have a row of elements for each row."""
    return [desc for desc in nest.loads if INVARIANT not in (desc.access, desc.beside)]


def can_be_batched(nest: LoopNest) -> bool:
    """Whether a nest's rows can be computed by groups: numbers, none of them kept or placed."""
    if nest.strategy != "row" or nest.reduced != 1 or nest.rank < 2 or nest.checked:
        return False
    stages = stages_of(nest)
    running = [a for stage in stages.loops for a in stages.reductions_of(stage)]
    plain = all(not a.places and a.register != "i1" for a in running)
    return bool(running) and plain and not stages.kept


class RowBatches(RowReduction):
    """Emits one nest by groups of rows, which the inner loop counts."""

    by_stage = looks_ahead = False

    def __init__(
        self,
        module: Module,
        nest: LoopNest,
        name: str,
        *,
        group: int,
        short: bool = False,
    ) -> None:
        """Reserve memory for lanes of partial results, and for results, of so many rows."""
        super().__init__(module, nest, name, split=False, short=short)
        self.column = True  # what belongs to a result has a lane for each row
        self.across = nest.rank - 2
        """The loop over rows."""
        self.row_lanes = self.lanes
        self.group = group
        stages = self.stages
        counts = {stage: len(stages.reductions_of(stage)) for stage in stages.loops}
        running = [a for stage in stages.loops for a in stages.reductions_of(stage)]
        widest = self.native * max(element_bytes(a.register) for a in running)
        self.room = -(-widest * self.group // 64) * 64
        first, *others = stages.loops
        alone = not stages.edge(first) and not stages.stores_of(first)
        self.ahead = bool(others) and alone and len(moving_of(nest)) == 1
        """Whether the last loop over rows also takes the next group's rows through the first:
        that work need not wait for results. Two operands of two groups leave the first cache."""
        self.first_place = max(counts[stage] for stage in others) if self.ahead else 0
        places = self.first_place + max(counts.values())
        self.notes = self.room * places
        """Where it is noted which rows have a NaN, after lanes of partial results."""
        self.lanes_bytes = self.notes + -(-self.group * places // 64) * 64
        self.slots: dict[tuple[int, int], int] = {}
        """Where values that are one for a row lie, and what is known of them as divisors."""
        for stage in stages.loops:
            for number in stages.edge(stage):
                for part in range(3 if number in self._divisors_of(stage) else 1):
                    self.slots.setdefault((number, part), 8 * self.group * len(self.slots))
        self.scratch = [
            f"  %lanes = alloca [{self.lanes_bytes} x i8], align 64",
            f"  %slots = alloca [{8 * self.group * max(1, len(self.slots))} x i8], align 64",
        ]

    def _header(self) -> None:
        super()._header()
        self.counts = self.lengths[-1:]
        self._count_vectors()
        step = 64  # bytes; every accumulator has a multiple of them
        loop = begin_loop(self.b, "0", str(self.lanes_bytes // step))  # a last group may be small
        place = self.moved("%lanes", self.number(f"mul i64 {loop.index}, {step}"))
        self.b.line(f"store <8 x i64> zeroinitializer, ptr {place}, align {step}")
        loop.end()
        for number, instruction in enumerate(self.nest.body, self.first):
            if self.stages.levels[number] == 0 and self.stages.is_plain_result(number, 0):
                self._instruction(number, instruction, 0)

    # -- groups -----------------------------------------------------------------------------

    def _results_of(self, place: str) -> None:
        """All groups of one outer iteration."""
        b, count = self.b, self.number("sub i64 %iend, %ibegin")
        begin = self._moved_rows(self.rows, "%ibegin")
        if self.ahead:
            self.size = self._rows_of_group(count)
            first = self.stages.loops[0]
            self._rows(first, begin)
        up = self.number(f"add i64 {count}, {self.group - 1}")
        groups = begin_loop(b, "0", self.number(f"udiv i64 {up}, {self.group}"))
        done = self.number(f"mul i64 {groups.index}, {self.group}")
        left = self.number(f"sub i64 {count}, {done}")
        self.size = self._rows_of_group(left)
        self.next_size = self._rows_of_group(self.number(f"sub i64 {left}, {self.size}"))
        self.lane_mask = lane_mask(b, self.size, self.group)
        self.group_rows = self._moved_rows(begin, done)
        self._group()
        groups.end()

    def _rows_of_group(self, left: str) -> str:
        """How many of the rows that are left a group has."""
        few = self.b.value(f"icmp ult i64 {left}, {self.group}", "i1", 1).text
        return self.number(f"select i1 {few}, i64 {left}, i64 {self.group}")

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
                if not (self.ahead and stage == stages.loops[0]):
                    self._note_edges(stage)
                    self._rows(stage, self.group_rows)
                running, first = stages.reductions_of(stage), self._place(stage)
                noters = accumulators.noters(running)
                for place, (accumulator, noter) in enumerate(zip(running, noters, strict=True)):
                    accumulator.noted = noter is not None
                    accumulator.parts = self._turned(accumulator, first + place)
                    if noter is not None:
                        self._put_nan(accumulator, first + noter)
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

    def _place(self, stage: int) -> int:
        """Where lanes of a stage's reductions begin: the first one's are there before the last."""
        return self.first_place if stage == self.stages.loops[0] else 0

    def _divisors_of(self, stage: int) -> list[int]:
        """What divides the elements of a stage."""
        if not is_served(self.module.features):
            return []
        body = [self.nest.body[n - self.first] for n in self.stages.computed(stage)]
        return [i.operands[1] for i in body if is_shared(i, self.stages.levels)]

    def _note_edges(self, stage: int) -> None:
        """Write down what is one for a row and needed by the elements of a stage."""
        b, divisors = self.b, self._divisors_of(stage)
        for number in self.stages.edge(stage):
            value = self._operand(number, self.group)
            noted = [b.cast("zext", value, "i8") if value.scalar == "i1" else value]
            if number in divisors:
                noted += prepare(b, value, self.group)[1:]
            for part, each in enumerate(noted):
                place = self.moved("%slots", str(self.slots[number, part]))
                b.line(f"store {each.typed}, ptr {place}, align 64")

    def _rows(self, stage: int, rows: list[str]) -> None:
        """One stage of all rows of a group; leaves lanes of their partial results."""
        b, of_group, first = self.b, dict(self.values), self.stages.loops[0]
        self.lanes = self.row_lanes
        self.steady_divisors = {
            number: prepare(b, self.values[number], self.lanes)
            for number in dict.fromkeys(self._divisors_of(stage) + self._divisors_of(first))
            if self.stages.levels[number] == 0
        }
        loop = begin_loop(b, "0", self.size)
        self._row(stage, rows, loop.index)
        if self.ahead and stage == self.stages.loops[-1]:
            further, past = b.label("next"), b.label("taken")
            some = b.value(f"icmp ult i64 {loop.index}, {self.next_size}", "i1", 1).text
            b.branch(some, further, past)
            following = self._moved_rows(rows, str(self.group))
            self._row(first, following, loop.index)
            b.jump(past)
        loop.end()
        self.values, self.lanes = of_group, self.group

    def _row(self, stage: int, rows: list[str], index: str) -> None:
        """One stage of one row of a group."""
        self.tops = self._moved_rows(rows, index)
        for number in self.stages.edge(stage):
            self.values[number] = self._of_row(number, index)
        self.row = index
        running = self.stages.reductions_of(stage)
        self._take_row(stage, running)
        self._leave_lanes(running, self._place(stage), index)

    def _prepare_divisors(self, stage: int) -> None:
        """Take what was computed of the divisors of all rows at once."""
        self.divisors = {
            number: self.steady_divisors.get(number)
            or Divisor(*(self._of_row(number, self.row, part) for part in range(3)))
            for number in self._divisors_of(stage)
        }

    def _of_row(self, number: int, row: str, part: int = 0) -> Value:
        """What is one for a row, for one of them, in every lane."""
        register = conversion.REGISTER[self.nest.dtype_of(number)] if part < 2 else "i64"
        memory = "i8" if register == "i1" else register
        b, offset = self.b, self.number(f"mul i64 {row}, {element_bytes(memory)}")
        offset = self.number(f"add i64 {offset}, {self.slots[number, part]}")
        raw = b.value(f"load {memory}, ptr {self.moved('%slots', offset)}", memory, 1)
        one = b.compare("icmp ne", raw, b.iconst(raw, 0)) if register == "i1" else raw
        return b.splat(one, self.lanes)

    def _leave_lanes(self, running: list[Accumulator], first: int, row: str) -> None:
        """Join the vectors of one row's partial results to one of each, and write these down."""
        b, lanes = self.b, self.native
        values = []
        for accumulator in running:
            join = partial(joined, b, accumulator)
            values.append([accumulators.halved(b, part, join, lanes) for part in accumulator.parts])
        sums = [parts for parts in values if len(parts) == 2]
        if sums:  # there are no errors in rows of one block
            before, several, after = b.block, b.label("several"), b.label("one")
            more = b.value(f"icmp ugt i64 {self.blocks_of_row}, 1", "i1", 1).text
            b.branch(more, several, after)
            whole = [accumulators.with_error(b, *parts) for parts in sums]
            b.jump(after)
            for parts, new in zip(sums, whole, strict=True):
                text = f"phi {new.type} [ {parts[0].text}, %{before} ], [ {new.text}, %{several} ]"
                parts[0] = b.value(text, new.scalar, new.lanes)
        for place, (accumulator, (value, *_)) in enumerate(zip(running, values, strict=True)):
            size = lanes * element_bytes(accumulator.register)
            offset = self.number(f"mul i64 {row}, {size}")
            offset = self.number(f"add i64 {offset}, {(first + place) * self.room}")
            address = self.moved("%lanes", offset)
            b.line(f"store {value.typed}, ptr {address}, align {min(size, 64)}")
        for place, noter in enumerate(accumulators.noters(running)):
            ordered = running[place].ordered
            if noter == place and ordered is not None:
                nan = b.cast("zext", accumulators.any_nan(b, ordered), "i8")
                at = self.number(f"add i64 {row}, {self._note(first + place)}")
                b.line(f"store {nan.typed}, ptr {self.moved('%lanes', at)}")

    def _note(self, place: int) -> int:
        """Where NaN of rows are noted by one reduction."""
        return self.notes + self.group * place

    def _put_nan(self, accumulator: Accumulator, place: int) -> None:
        """Extremes of rows that have a NaN are NaN."""
        b, address = self.b, self.moved("%lanes", str(self._note(place)))
        raw = b.value(f"load <{self.group} x i8>, ptr {address}, align 8", "i8", self.group)
        nan = b.compare("icmp ne", raw, b.iconst(raw, 0))
        accumulator.parts = [accumulators.or_nan(b, part, nan) for part in accumulator.parts]

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
            squares.append(lane_transpose.join(b, accumulator, rows))
        return [lane_transpose.beside(b, list(part)) for part in zip(*squares, strict=True)]
