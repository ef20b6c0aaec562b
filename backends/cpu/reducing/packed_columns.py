"""Sums down packed columns, several outer iterations at a time.

The packed operands are the same in all outer iterations: what is loaded and computed of them alone
serves a group of these, from registers. Short rows are added as NumPy's are, one by one; others in
blocks, those of light bodies in four chains where NumPy has eight, and blocks are added to each
other with the error kept; rows of less than two such blocks are one. The last vector of columns
ends with the last one: it may share some with the vector before, and gives these the same bits
again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple

from fuser.backends.cpu import conversion, tuning
from fuser.backends.cpu.body import Module, Value
from fuser.backends.cpu.loops import begin_loop
from fuser.backends.cpu.reducing import accumulators
from fuser.backends.cpu.reducing.accumulators import Accumulator
from fuser.backends.cpu.reducing.column_reduction import ColumnReduction
from fuser.backends.cpu.reducing.reduction import deal
from fuser.backends.cpu.reducing.reduction_stages import stages_of
from fuser.backends.cpu.schedule import Schedule
from fuser.backends.cpu.spelling import spell
from fuser.backends.cpu.vector_memory import load, store
from fuser.backends.cpu.wrappers import CACHE_LINE
from fuser.codegen import LoopNest
from fuser.ir.specs import CONTIGUOUS


def schedule_of(columns: int, reduced: int) -> Schedule:
    """How rows are computed: there are at least so many columns, a power of two."""
    brief, short = reduced < tuning.PACKED_BRIEF, reduced < tuning.PACKED_SHORT
    return Schedule(
        vector_axis="strided", layout="pack",
        tile=min(tuning.PACKED_COLUMNS, 1 << columns.bit_length() >> 1),
        accumulate="plain" if short else "chained" if brief else "blocked",
    )  # fmt: skip


class Turn(NamedTuple):
    """One outer iteration of a group: where its operands lie, and its values."""

    rows: list[str]
    tops: list[str]
    values: dict[int, Value]


class Shape(NamedTuple):
    """How a nest is computed: outer iterations, native vectors and chains at a time."""

    turns: int
    vectors: int
    chains: int


def shape_of(nest: LoopNest, vector_bytes: int, most: int, *, short: bool) -> Shape:
    """What the registers of a processor hold of a nest's running values, half of them at most.

    Args:
        nest: turned rows.
        vector_bytes: of a register.
        most: native vectors beside each other, at most.
        short: whether rows have less than `tuning.PACKED_SHORT` elements.
    """
    stages = stages_of(nest)
    wide = vector_bytes >= tuning.WIDE_REGISTER_BYTES
    registers = tuning.RUNNING_REGISTERS if wide else tuning.RUNNING_REGISTERS // 2
    light = stages.cost <= tuning.PACKED_CHAINED_COST
    chains = tuning.PACKED_CHAINS if light and not short else 1
    running = max(
        sum(chains if a.exact else 1 for a in stages.reductions_of(stage)) for stage in stages.loops
    )
    alone = nest.rank - nest.reduced < 2 or len(stages.loops) > 1 or not light
    fitting = (
        Shape(count, vectors, chains)
        for count, vectors in tuning.PACKED_GROUPS
        if vectors <= most
        and count * vectors * running <= registers
        and (count == 1 or not alone)
    )
    return next(fitting, Shape(1, 1, chains))


def fills_lines(nest: LoopNest, lanes: int) -> bool:
    """Whether vectors of results are whole lines of the cache."""
    sizes = [conversion.bytes_of(desc.dtype) for _, desc in nest.stores]
    beside = all(desc.access == CONTIGUOUS for _, desc in nest.stores)
    return beside and not any(lanes * size % CACHE_LINE for size in sizes)


class PackedColumns(ColumnReduction):
    """Emits one nest whose packed operands, named by `packed`, are met as contiguous ones."""

    linkage = "internal "
    fused_squares = True

    def __init__(
        self,
        module: Module,
        nest: LoopNest,
        name: str,
        packed: list[int],
        schedule: Schedule,
        along: Mapping[int, int],
    ) -> None:
        """Choose how much is computed at a time.

        `along`: bytes from element to element of a row, where they are known.
        """
        super().__init__(module, nest, name, split=False, narrow=True)
        width = module.features.vector_bytes
        self.native = min(self.native, schedule.tile)
        self.short = schedule.accumulate == "plain"
        most = schedule.tile // self.native
        self.count, vectors, self.chains = shape_of(nest, width, most, short=self.short)
        self.brief = schedule.accumulate == "chained" and self.chains > 1
        self.along = along
        self.lanes = self.native * vectors
        self.shared = self._shared(packed)
        self.group: list[Turn] = []
        self.whole_lines = fills_lines(nest, self.lanes)

    def _shared(self, packed: list[int]) -> set[int]:
        """What is computed of packed operands alone, and these: the same in the whole group."""
        shared = set(packed)
        steady = {number for number, level in enumerate(self.stages.levels) if level == 0}
        for place, instruction in enumerate(self.nest.body):
            operands = set(instruction.operands)
            if operands & shared and operands <= shared | steady:
                shared.add(self.first + place)
        return shared

    def _header(self) -> None:
        super()._header()
        if self.short or self.brief:
            return
        block = tuning.PACKED_BLOCK if self.chains > 1 else tuning.PACKED_UNCHAINED_BLOCK
        count, size = self.lengths[-1], str(block)
        for length in tuning.PACKED_DOUBLED if self.chains > 1 else ():
            long = self.b.value(f"icmp uge i64 {count}, {length}", "i1", 1).text
            size = self.number(f"shl i64 {size}, {self.number(f'zext i1 {long} to i64')}")
        up = self.number(f"sub i64 {self.number(f'add i64 {count}, {size}')}, 1")
        self.block_size, self.blocks = size, self.number(f"udiv i64 {up}, {size}")

    # -- outer iterations -------------------------------------------------------------------

    def _more_words(self, place: int) -> tuple[int, str]:
        """Whether results are sent past the caches."""
        word = self._word(place, "i64")
        self.goes_past = self.b.compare("icmp ne", word, Value("0", "i64", 1))
        return place + 1, ""

    def _items(self) -> None:
        """Groups of outer iterations; the last one may compute its last iteration repeatedly."""
        b, count = self.b, self.count
        many = self.number("sub i64 %oend, %obegin")
        up = self.number(f"add i64 {many}, {count - 1}")
        last = self.number("sub i64 %oend, 1")
        groups = begin_loop(b, "0", self.number(f"udiv i64 {up}, {count}"))
        first = self.number(f"add i64 %obegin, {self.number(f'mul i64 {groups.index}, {count}')}")
        self.group = []
        for k in range(count):
            self._go_to(self._less(self.number(f"add i64 {first}, {k}"), last))
            self.group.append(Turn(self.rows, [], dict(self.values)))
        self._walk("%ibegin", "%iend", self._columns)
        groups.end()
        if self.whole_lines:
            b.line("fence seq_cst")  # streaming stores are not ordered by themselves

    def _walk(self, first: str, end: str, visit: Callable[..., None]) -> None:
        """Whole vectors of columns [first, end), which are at least as many as a vector has."""
        b, lanes = self.b, self.lanes
        columns = self.number(f"sub i64 {end}, {first}")
        up = self.number(f"add i64 {columns}, {lanes - 1}")
        loop = begin_loop(b, "0", self.number(f"udiv i64 {up}, {lanes}"))
        column = self.number(f"add i64 {first}, {self.number(f'mul i64 {loop.index}, {lanes}')}")
        visit(self._less(column, self.number(f"sub i64 {end}, {lanes}")), None, str(lanes))
        loop.end()

    def _turns(self) -> Iterator[Turn]:
        """Go through the group; what is shared is had from the first one."""
        first = self.group[0].values
        for turn in self.group:
            self.rows, self.tops, self.values = turn
            for number in self.shared & first.keys():
                turn.values.setdefault(number, first[number])
            yield turn

    def _columns(self, column: str, mask: Value | None, amount: str) -> None:
        self.current, self.mask, self.amount = column, mask, amount
        whole = self.group
        self.group = [
            Turn(turn.rows, self._at(turn.rows, column), dict(turn.values)) for turn in whole
        ]
        self._all_stages()
        self.group = whole

    def _all_stages(self) -> None:
        stages, saved = self.stages, self.values
        for _ in self._turns():
            for k in range(len(self.nest.loads)):
                if stages.levels[k] == 1:
                    self.values[k] = self._edge(k)
            self._results(0)
        for stage in range(stages.last + 1):
            if stage in stages.loops:
                self._sum_up(stage)
            for _ in self._turns():
                self._results(stage + 1)
        self._store_group()
        self.values = saved

    def _store_group(self) -> None:
        """Store the results, where that is wanted and they are aligned past the caches."""
        b = self.b
        if not self.whole_lines:
            for _ in self._turns():
                self._store_each_result()
            return
        address = self.group[0].tops[len(self.nest.loads)]
        within = self.number(f"ptrtoint ptr {address} to i64")
        within = self.number(f"and i64 {within}, {CACHE_LINE - 1}")
        aligned = b.value(f"icmp eq i64 {within}, 0", "i1", 1)
        past, plain, done = b.label("past"), b.label("plain"), b.label("stored")
        both = b.op("and", self.goes_past, aligned).text
        b.line(f"br i1 {both}, label %{past}, label %{plain}")
        for label, self.past in ((past, True), (plain, False)):
            b.start(label)
            for _ in self._turns():
                self._store_each_result()
            b.line(f"br label %{done}")
        b.start(done)

    def _store_result(self, k: int, number: int) -> None:
        value, step = self._operand(number), self._step(k)
        store(self.b, self.operands[k], value, self.tops[k], None, step, past=self.past)

    # -- sums -------------------------------------------------------------------------------

    def _sum_up(self, stage: int) -> None:
        """All elements of one stage, for all outer iterations of the group."""
        b, count = self.b, self.counts[0]
        self.running = [
            [a for a in self.stages.reductions_of(stage) if not k or a.number not in self.shared]
            for k in range(len(self.group))
        ]
        every = [a for own in self.running for a in own]
        for accumulator in every:
            accumulator.parts = accumulators.start(b, accumulator, self.lanes)
        exact = any(a.exact for a in every)
        if exact and self.brief:
            self._elements(stage, every, self._chained(stage, every, "0", count), count)
        elif exact and not self.short:
            self._blocks(stage, every)
        else:
            self._elements(stage, every, "0", count)
        for _, own in zip(self._turns(), self.running, strict=True):
            for accumulator in own:
                self._finish(accumulator, accumulator.parts)

    def _blocks(self, stage: int, every: list[Accumulator]) -> None:
        """Blocks: the first one's sums, and those of others added with the rounding errors."""
        b, count = self.b, self.counts[0]
        exact = [a for a in every if a.exact]
        size, blocks = self.block_size, self.blocks
        outer = begin_loop(b, "0", blocks)
        for accumulator in every:
            if accumulator.exact:
                accumulator.parts.append(accumulators.zero(b, accumulator, self.lanes))
            accumulator.parts = [outer.carry(part) for part in accumulator.parts]
        sums = [a.parts for a in exact]
        begin = self.number(f"mul i64 {outer.index}, {size}")
        end = self._less(self.number(f"add i64 {begin}, {size}"), count)
        for accumulator in exact:
            accumulator.parts = accumulators.start(b, accumulator, self.lanes)
        if self.chains > 1:
            begin = self._chained(stage, every, begin, end)
        self._elements(stage, every, begin, end)
        self._when(
            b.value(f"icmp ne i64 {outer.index}, 0", "i1", 1).text, exact,
            [[a.parts[0], low] for a, (_, low) in zip(exact, sums, strict=True)],
            lambda: [self._added(a, *old) for a, old in zip(exact, sums, strict=True)],
        )  # fmt: skip
        outer.end([part for accumulator in every for part in accumulator.parts])
        deal(outer.results, every)
        self._when(
            b.value(f"icmp ugt i64 {blocks}, 1", "i1", 1).text, exact,
            [[a.parts[0]] for a in exact],
            lambda: [[accumulators.with_error(b, *a.parts)] for a in exact],
        )  # fmt: skip

    def _added(self, accumulator: Accumulator, high: Value, low: Value) -> list[Value]:
        """A block's sum added to those before."""
        total, error = accumulators.two_sum(self.b, high, accumulator.parts[0])
        return [total, self.b.op("fadd", low, error)]

    def _when(
        self,
        condition: str,
        running: list[Accumulator],
        otherwise: list[list[Value]],
        write: Callable[[], list[list[Value]]],
    ) -> None:
        """Parts that are computed if a condition holds, and others if not."""
        b = self.b
        before, then, join = b.block, b.label("then"), b.label("joined")
        b.branch(condition, then, join)
        found = write()
        after = b.block
        b.jump(join)
        for accumulator, old, new in zip(running, otherwise, found, strict=True):
            accumulator.parts = [
                b.value(
                    f"phi {y.type} [ {x.text}, %{before} ], [ {y.text}, %{after} ]",
                    y.scalar,
                    y.lanes,
                )
                for x, y in zip(old, new, strict=True)
            ]

    def _chained(self, stage: int, every: list[Accumulator], begin: str, end: str) -> str:
        """As many elements of a block as all chains have; where the rest begins."""
        b, chains = self.b, self.chains
        size = self.number(f"sub i64 {end}, {begin}")
        turns = self.number(f"udiv i64 {size}, {chains}")
        loop = begin_loop(b, "0", turns)
        for accumulator in every:
            starts = accumulator.parts * (chains if accumulator.exact else 1)
            accumulator.parts = [loop.carry(part) for part in starts]
        whole = [a.parts for a in every]
        first = self.number(f"add i64 {begin}, {self.number(f'mul i64 {loop.index}, {chains}')}")
        for chain in range(chains):
            for accumulator, parts in zip(every, whole, strict=True):
                accumulator.parts = [parts[chain]] if accumulator.exact else parts
            self._take(stage, self.number(f"add i64 {first}, {chain}"))
            for accumulator, parts in zip(every, whole, strict=True):
                parts[chain if accumulator.exact else 0] = accumulator.parts[0]
        loop.end([part for parts in whole for part in parts])
        for accumulator, parts in zip(every, whole, strict=True):
            accumulator.parts = parts
        deal(loop.results, every)
        for accumulator in every:
            while len(accumulator.parts) > 1:
                pairs = zip(accumulator.parts[::2], accumulator.parts[1::2], strict=True)
                accumulator.parts = [
                    spell(b, "add", accumulator.dtype, [x, y]) for x, y in pairs
                ]
        return self.number(f"add i64 {begin}, {self.number(f'mul i64 {turns}, {chains}')}")

    def _elements(self, stage: int, every: list[Accumulator], begin: str, end: str) -> None:
        """The elements [begin, end) of every column, one after another."""
        loop = begin_loop(self.b, begin, end)
        for accumulator in every:
            accumulator.parts = [loop.carry(part) for part in accumulator.parts]
        self._take(stage, loop.index)
        loop.end([part for accumulator in every for part in accumulator.parts])
        deal(loop.results, every)

    def _take(self, stage: int, place: str) -> None:
        """One element of every column, for all outer iterations."""
        seen: dict[int, Value] = {}
        for turn, own in zip(self._turns(), self.running, strict=True):
            self.values = {**turn.values, **seen}
            self._take_element(stage, own, place)
            seen |= {number: self.values[number] for number in self.shared & self.values.keys()}

    def _take_element(self, stage: int, running: list[Accumulator], place: str) -> None:
        """One element of every column, of one outer iteration."""
        b = self.b
        for number in self.stages.needed(stage):
            if number in self.values:
                continue
            if number < len(self.nest.loads):
                step = self.along.get(number) or self.strides[number][-1]
                along = self.number(f"mul i64 {place}, {step}")
                desc, at = self.operands[number], self.moved(self.tops[number], along)
                self.values[number] = load(b, desc, at, None, self._step(number), self.lanes)
            else:
                self._instruction(number, self.nest.body[number - self.first], 2)
        for accumulator in running:
            squared = self._squared(accumulator) is not None
            value = self._addend(accumulator)
            accumulators.take(b, accumulator, value, None, None, squared=squared)
