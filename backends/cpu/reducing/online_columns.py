"""Online (single-pass) reductions of columns: parts are read once, as `online_reductions` allows.

A part is some rows of a tile. A few of its rows, far apart, are summed first: their results are
the references of the part (for a variance, about its mean). Then all rows are summed once, with
these references. Who finishes the last part of a tile joins all of them, in order, and so gets the
columns' results; where one is not finite though what it needs is a number, its columns are
computed again, stage by stage.

Words after the strides, in parts: number of parts, length of one, words of what follows: for each
tile two counters (parts that are done, and whether the results are there); then scalars. The memory
at the last address has vectors of all columns: for each part what it leaves, then results that
elements need.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial

from fuser.backends.cpu import conversion, tuning
from fuser.backends.cpu.body import Module, Value
from fuser.backends.cpu.reducing.accumulators import Accumulator
from fuser.backends.cpu.reducing.column_reduction import PADDING, ColumnReduction
from fuser.backends.cpu.reducing.column_tiles import (
    RESULT,
    TiledColumns,
    can_be_tiled,
    kept_bytes,
    tile_of,
)
from fuser.backends.cpu.reducing.online_sums import OnlineSums, doubled, guessed, wide
from fuser.backends.cpu.reducing.reduction import AWAIT, element_bytes
from fuser.backends.cpu.reducing.reduction_stages import Stages, stages_of
from fuser.backends.cpu.vector_memory import get_register, put_register
from fuser.base.caches import memo
from fuser.codegen import Instruction, LoopNest
from fuser.traffic.online_reductions import Merged, merging

Key = tuple[int, int]
"""A value, and which part of it."""
#: Stands for all stages of a part at once.
ALL = -2
#: Each vector begins with a line of the cache: at a multiple of so many elements of 4 bytes.
ALIGNED = 16


class AllAtOnce(Stages):
    """Stages of a part: `ALL` has the reductions of every one."""

    def reduced_by(self, stage: int) -> list[tuple[int, Instruction]]:
        """The reductions of one stage, or of all."""
        if stage != ALL:
            return super().reduced_by(stage)
        return [one for each in self.loops for one in super(AllAtOnce, self).reduced_by(each)]


class ColumnRoom:
    """What is written down, and bytes of each for all columns."""

    def __init__(self, nest: LoopNest, merged: Merged) -> None:
        """Count all."""
        stages, local = stages_of(nest), AllAtOnce(merged.local)

        def result(of: LoopNest, number: int) -> tuple[Key, str]:
            return (number, RESULT), conversion.REGISTER[of.dtype_of(number)]

        self.left: list[tuple[Key, str]] = [
            ((a.number, 0), a.register) for a in local.reductions_of(ALL)
        ]
        """What a part leaves: its running values, and what they refer to."""
        self.left += [result(merged.local, number) for number in merged.references]
        known = {key for key, _ in self.left}
        made = (number for number in local.edge(ALL) if number >= local.first)
        beside = (result(merged.local, number) for number in made)
        self.own = [each for each in beside if each[0] not in known]
        """What elements of a part need beside."""
        self.results: list[tuple[int, str]] = []
        if stages.ends_with_stores:
            self.results = [
                (number, conversion.REGISTER[nest.dtype_of(number)])
                for number in stages.edge(stages.last)
                if number >= stages.first
            ]
        scalars = [of for _, of in (*self.left, *self.own)]
        self.width = max(map(element_bytes, (*scalars, *(of for _, of in self.results))))

    def size_bytes(self, rows: int, parts: int, columns: int) -> int:
        """Of all parts of so many outer iterations."""
        vectors = rows * (parts * len(self.left) + len(self.results))
        return vectors * (-(-(columns + PADDING) // ALIGNED) * ALIGNED) * self.width


#: Tiles begin at multiples of so many columns; counters of one tile.
CHUNK, COUNTERS = 256, 2


@memo(256)
def find(nest: LoopNest) -> Merged | None:
    """How a nest's columns are merged from parts; None where another way does as well or must."""
    if nest.checked or not can_be_tiled(nest):
        return None
    stages = stages_of(nest)
    stored = [s for s in stages.loops if stages.stores_of(s)]
    if stored and (stored != [stages.last] or not stages.ends_with_stores):
        return None
    if len(stages.loops) == len(stored):
        return None
    found = merging(nest)
    if found is None or any(m.exponential for m in found.mergings.values()):
        return None
    if kept_bytes(nest) + kept_bytes(found.local) > tuning.TILED_COLUMN_BYTES:
        return None
    kept = [a for s in stages.loops for a in stages.reductions_of(s)]
    return None if any(a.places for a in kept) else found


def tile_columns(nest: LoopNest) -> int:
    """Columns of a tile."""
    merged = find(nest)
    if merged is not None:
        return tile_of(nest, kept_bytes(nest) + kept_bytes(merged.local))
    once = len(stages_of(nest).loops) == 1
    return tile_of(nest, kept_bytes(nest)) if once else tuning.COLUMN_TILE


def lay_out(
    nest: LoopNest, rows: int, columns: int, parts: int, length: int
) -> tuple[list[int], int, int]:
    """How columns that are cut into parts are run.

    Args:
        nest: what is computed.
        rows: outer iterations.
        columns: of one.
        parts: of all columns.
        length: of one part, in rows.

    Returns:
        Words after the strides, items, and bytes of memory.
    """
    merged = find(nest)
    assert merged is not None
    counters = COUNTERS * rows * -(-columns // CHUNK)
    words = [parts, length, counters, *[0] * counters]
    room_bytes = ColumnRoom(nest, merged).size_bytes(rows, parts, columns)
    items = rows * parts * (2 if stages_of(nest).ends_with_stores else 1)
    return words, items, room_bytes


class OnlineColumns(OnlineSums, TiledColumns):
    """Emits one nest by parts of tiles."""

    exactly = False  # of 64 parts at most

    def __init__(
        self, module: Module, nest: LoopNest, name: str, *, split: bool
    ) -> None:
        """Reserve memory for what is written down of a part, beside that of the whole."""
        super().__init__(module, nest, name, split=split)
        found = find(nest)
        assert found is not None
        self.merged = found
        self.extra_operands = int(split)
        self.room = ColumnRoom(nest, found)
        self.merged_lanes = self.native
        self.local_stages = AllAtOnce(found.local)
        self.local_slots: dict[Key, tuple[int, str]] = {}
        columns = self.tile_columns + PADDING
        size = max(at + element_bytes(of) * columns for at, of in self.slots.values())
        for key, scalar in (*self.room.left, *self.room.own):
            self.local_slots[key] = size, scalar
            size += element_bytes(scalar) * columns
        self.scratch = [f"  %left = alloca [{size} x i8], align 64"]

    def _columns_of_tile(self) -> int:
        return tile_columns(self.nest)

    def _dividing(self, stage: int) -> list[int]:
        return [] if stage == ALL else super()._dividing(stage)

    @contextmanager
    def _as_part(self) -> Iterator[None]:
        """What is written inside belongs to the nest of a part."""
        whole = self.nest, self.stages, self.slots
        self.nest, self.stages, self.slots = self.merged.local, self.local_stages, self.local_slots
        self.fused_squares = True
        yield
        self.nest, self.stages, self.slots = whole
        self.fused_squares = False

    # -- items ------------------------------------------------------------------------------

    def _header(self) -> None:
        super()._header()
        if self.split:
            self.memory = self._word(len(self.operands), "ptr").text

    def _item(self, item: str) -> None:
        if not self.split:
            self.part_length, self.parts, self.part = self.lengths[-1], "1", "0"
        super()._item(item)

    def _part_of(self, item: str, kept: int) -> str:
        """As the base class; elements are stored from the last part on: it was read last."""
        b, later = self.b, self.counts
        place = super()._part_of(item, kept)
        if self.stages.ends_with_stores:
            storing = b.value(f"icmp ne i64 {self.now}, 0", "i1", 1).text
            turned = self.number(f"sub i64 {self.parts}, {self.part}")
            turned = self.number(f"sub i64 {turned}, 1")
            self.part = self.number(f"select i1 {storing}, i64 {turned}, i64 {self.part}")
            self.begin = self.number(f"mul i64 {self.part}, {self.part_length}")
            self.counts = [self._elements_of(self.part), *later[1:]]
        return place

    def _whole_tile(self) -> None:
        self._sum_up()
        self._visit(self._join_columns)
        if self.stages.ends_with_stores:
            self._blocks(self.stages.last)

    def _part_of_tile(self) -> None:
        b, stages = self.b, self.stages
        first = b.value(f"icmp eq i64 {self.now}, 0", "i1", 1).text
        with self._where(first):
            self._sum_up()
            self._visit(self._leave_part)
            text = f"atomicrmw add ptr {self._counter_of(0)}, i64 1 acq_rel"
            done = self.number(f"add i64 {self.number(text)}, 1")
            with self._where(b.value(f"icmp eq i64 {done}, {self.parts}", "i1", 1).text):
                self._visit(self._join_columns)
                if stages.ends_with_stores:
                    self._visit(self._leave_results)
                    b.line(f"store atomic i64 1, ptr {self._counter_of(1)} release, align 8")
        if not stages.ends_with_stores:
            return
        self.module.helpers["await"] = AWAIT
        self.module.declare("sched_yield", "i32", ())
        with self._where(b.value(f"xor i1 {first}, true", "i1", 1).text):
            b.line(f"call void @await(ptr {self._counter_of(1)}, i64 1)")
            self._visit(self._take_results)
            self._blocks(stages.last)

    def _counter_of(self, which: int) -> str:
        """The address of a tile's counter."""
        up = self.number(f"add i64 {self.lengths[self.beside]}, {CHUNK - 1}")
        tiles = self.number(f"udiv i64 {up}, {CHUNK}")
        place = self.number(f"mul i64 {self.place}, {tiles}")
        place = self.number(f"add i64 {place}, {self.number(f'udiv i64 {self.tile}, {CHUNK}')}")
        place = self.number(f"mul i64 {place}, {COUNTERS}")
        place = self.number(f"add i64 {place}, {self.counters + which}")
        return self.moved("%block", self.number(f"shl i64 {place}, 3"))

    # -- one part ---------------------------------------------------------------------------

    def _sum_up(self) -> None:
        """References from a few rows, then all sums of a part's rows."""
        b, count = self.b, self.counts[0]
        if not self.merged.references:
            with self._as_part():
                self._visit(self._begin_all)
                self._blocks(ALL)
            return
        root = b.intrinsic("llvm.sqrt", wide(b, count))
        some = b.cast("fptoui", b.op("fmul", root, b.fconst(root, tuning.ONLINE_SAMPLE)), "i64")
        some = b.intrinsic("llvm.umax", some, Value(str(tuning.ONLINE_LEAST_SAMPLE), "i64", 1))
        sample = b.intrinsic("llvm.umin", some, Value(count, "i64", 1)).text
        apart = self.number(f"udiv i64 {count}, {sample}")
        ratio = b.op("fdiv", wide(b, self.lengths[-1]), wide(b, sample))
        with self._as_part():
            self._visit(partial(self._begin, 0))

            def visit(column: str, mask: Value | None, amount: str) -> None:
                self._at_columns(column, mask, amount)
                self._block(0, "0", apart, sample)

            self._walk(self.tile, self.tile_end, visit)
            self._visit(partial(self._refer, ratio))
            self._blocks(ALL)

    def _begin_all(self) -> None:
        """All running values of one vector of columns begin."""
        self._results(0)
        self._write_down(ALL)

    def _refer(self, ratio: Value) -> None:
        """References of one vector of columns; all running values begin."""
        running = self.stages.reductions_of(0)
        self._results(0)
        self._read_running(running)
        for accumulator in running:
            self._finish(accumulator, accumulator.parts)
            value = self.values[accumulator.number]
            self.values[accumulator.number] = guessed(self.b, accumulator, value, ratio)
        self._results(1)
        self._write_down(ALL)

    def _leave_part(self) -> None:
        """Store the partial results of a vector of columns, for the thread that joins all parts."""
        with self._as_part():
            left = [self._read(key) for key, _ in self.room.left]
        for k, value in enumerate(left):
            put_register(self.b, value, self._place_of(self.part, k))

    def _place_of(self, part: str, k: int) -> str:
        """Where the current columns' share of something that a part leaves is."""
        place = self.number(f"mul i64 {self.place}, {self.parts}")
        place = self.number(f"add i64 {place}, {part}")
        place = self.number(f"mul i64 {place}, {len(self.room.left)}")
        return self._in_memory(self.number(f"add i64 {place}, {k}"), self.room.left[k][1])

    def _in_memory(self, vector: str, scalar: str) -> str:
        beside = self.number(f"mul i64 {self.current}, {element_bytes(scalar)}")
        return self.moved(self._vector_of_room(vector), beside)

    def _vector_of_room(self, vector: str) -> str:
        """Where one of the vectors of all columns begins."""
        more = PADDING + ALIGNED - 1
        columns = self.number(f"add i64 {self.lengths[self.beside]}, {more}")
        columns = self.number(f"and i64 {columns}, {-ALIGNED}")
        offset = self.number(f"mul i64 {vector}, {columns}")
        return self.moved(self.memory, self.number(f"mul i64 {offset}, {self.room.width}"))

    # -- results ----------------------------------------------------------------------------

    def _left_of(self, key: Key, part: str) -> Value:
        """What a part has left of the current columns."""
        if not self.split:
            with self._as_part():
                return self._read(key)
        k = [each for each, _ in self.room.left].index(key)
        return get_register(self.b, self.room.left[k][1], self.lanes, self._place_of(part, k))

    def _sum_of(self, number: int, part: str) -> tuple[Value, Value | None]:
        return doubled(self.b, self._left_of((number, 0), part)), None

    def _reference(self, number: int, part: str) -> Value:
        return self._left_of((number, RESULT), part)

    def _load_parts(self, stage: int, part: str, running: Sequence[Accumulator]) -> None:
        plain = dict(self.merged.plain)
        for accumulator in running:
            accumulator.parts = [self._left_of((plain[accumulator.number], 0), part)]

    def _join_columns(self) -> None:
        """Results of one vector of columns, from all its parts; they are written down."""
        b, stages = self.b, self.stages
        self._results(0)
        self._joined(0, stages.reductions_of(0))
        self._results(1)
        known = dict(self.values)
        wrong = b.constant_bits("i1", self.lanes, 0)
        later = [stage for stage in stages.loops if stage and stages.reductions_of(stage)]
        for stage in later:
            found = [self.merged.mergings[a.number] for a in stages.reductions_of(stage)]
            for merging_, value in zip(found, self._merge(found), strict=True):
                size = b.intrinsic("llvm.fabs", value)
                bad = b.compare("fcmp uge", size, b.fconst(size, float("inf")))
                for result in {s.result for f in merging_.factors for s in f.shifts}:
                    moved = self._operand(result)  # what is moved to no number is none
                    bad = b.op("and", bad, b.compare("fcmp ord", moved, moved))
                wrong = b.op("or", wrong, bad)
            self._results(stage + 1)
        self._write_down(ALL)
        with self._where(b.any(wrong).text):
            self.values = known
            self._compute_again(later)
        self.values = {k: v for k, v in known.items() if k < self.first}
        self._store_each_result()

    def _compute_again(self, later: Sequence[int]) -> None:
        """Results of one vector of columns as short columns' are."""
        counts, tops = self.counts, self.tops
        self.counts = [self.lengths[-1]]
        along = self.nest.rank - self.nest.reduced
        back = [self.number(f"mul i64 {self.begin}, {steps[along]}") for steps in self.strides]
        self.tops = [
            self.moved(top, self.number(f"sub i64 0, {step}"))
            for top, step in zip(tops, back, strict=True)
        ]
        for stage in later:
            running = self.stages.reductions_of(stage)
            ColumnReduction._stage(self, stage, running)
            for accumulator in running:
                self._finish(accumulator, accumulator.parts)
            self._results(stage + 1)
        self._write_down(ALL)
        self.counts, self.tops = counts, tops

    def _leave_results(self) -> None:
        """Hand results that elements need to all parts."""
        for k, (number, _) in enumerate(self.room.results):
            put_register(self.b, self._operand(number), self._result_at(k))

    def _take_results(self) -> None:
        """Write down results that elements need."""
        for k, (number, scalar) in enumerate(self.room.results):
            self.values[number] = get_register(self.b, scalar, self.lanes, self._result_at(k))
        self._write_down(ALL)

    def _result_at(self, k: int) -> str:
        """Where one of the results of the current columns is."""
        parts = self.number(f"mul i64 {self.rows_in_all}, {self.parts}")
        first = self.number(f"mul i64 {parts}, {len(self.room.left)}")
        place = self.number(f"mul i64 {self.place}, {len(self.room.results)}")
        place = self.number(f"add i64 {self.number(f'add i64 {first}, {place}')}, {k}")
        return self._in_memory(place, self.room.results[k][1])
