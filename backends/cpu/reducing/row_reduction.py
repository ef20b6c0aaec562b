"""Reductions whose innermost loop in memory is reduced: vectors of partial results of one row.

Of truths, one may decide a row's result, and what counts them needs no lane for each.
"""

from __future__ import annotations

from functools import partial, reduce

import numpy as np

from fuser.backends.cpu import conversion, tuning
from fuser.backends.cpu.body import Body, Module, Value
from fuser.backends.cpu.division import is_served, is_shared, prepare
from fuser.backends.cpu.loops import begin_loop
from fuser.backends.cpu.reducing import accumulators
from fuser.backends.cpu.reducing.accumulators import Accumulator
from fuser.backends.cpu.reducing.reduction import Reduction, deal
from fuser.backends.cpu.reducing.reduction_stages import native_lanes, stages_of, unrolled
from fuser.backends.cpu.spacing import shuffled
from fuser.backends.cpu.spelling import spell
from fuser.backends.cpu.vector_memory import lane_mask, load_one
from fuser.codegen import LoopNest
from fuser.ir.specs import CONTIGUOUS, INVARIANT


class RowTruths(Reduction):
    """What rows do with truths."""

    short = False
    """Whether a row's vectors are one block."""
    counts_truths = False
    """Whether sums of truths are numbers, not vectors, while a row is added."""

    def _addend(self, accumulator: Accumulator) -> Value:
        truth = self._counted(accumulator)
        return super()._addend(accumulator) if truth is None else self._operand(truth)

    def _counted(self, accumulator: Accumulator) -> int | None:
        """The truth that a sum of integers counts, in one number: not in a lane for each."""
        place = accumulator.operand - self.first
        if not self.counts_truths or not accumulator.row.adds or place < 0 or self.short:
            return None
        instruction, sums = self.nest.body[place], accumulator.register in ("i32", "i64")
        is_truth = instruction.row.converts and instruction.operand_dtype == "bool"
        moves = self.stages.levels[instruction.operands[0]] == 2
        return instruction.operands[0] if sums and is_truth and moves else None

    def _may_end_early(self, stage: int, running: list[Accumulator]) -> bool:
        """Whether further elements of a row may change nothing: truths, of which one is enough."""
        stages = self.stages
        if self.nest.checked or stages.stores_of(stage) or stages.left_by(stage):
            return False
        return bool(running) and all(a.register == "i1" for a in running)

    def _settled(self, running: list[Accumulator]) -> Value:
        """Whether every extreme of truths is what it can be at most."""
        b, found = self.b, []
        for accumulator in running:
            met = accumulator.parts[0]
            if not accumulator.row.greatest:
                met = b.op("xor", met, b.constant_bits("i1", met.lanes, 1))
            found.append(b.any(met))
        return reduce(partial(b.op, "and"), found)


#: Bytes of a vector of any processor, at most.
MOST_VECTOR_BYTES = 64
#: Bytes of a cache line, and those by which a stage alone asks for later elements.
LINE_BYTES, AHEAD_BYTES = 64, 4096


def looked_ahead(nest: LoopNest) -> list[int]:
    """Operands of which a nest's last stage asks for what comes later.

    Of several stages, the last one's work waits for no memory: it asks for the next row. One stage
    alone asks for what is `AHEAD_BYTES` away, in rows whose vectors cross lines of the cache:
    of whole lines, processors ask early enough themselves.
    """
    if nest.strategy != "row" or nest.reduced != 1 or nest.rank < 2:
        return []
    return [
        k for k, desc in enumerate(nest.loads)
        if desc.access == CONTIGUOUS and desc.beside != INVARIANT and not desc.counted
    ]  # fmt: skip


def block_of(nest: LoopNest) -> int:
    """Vectors that are added plainly before their sum is added with its rounding error."""
    return tuning.ROW_BLOCK if nest.itemsize > 4 else tuning.NARROW_ROW_BLOCK


def is_short(nest: LoopNest, length: int, *, by_stage: bool) -> bool:
    """Whether a row is one block of vectors, so that its sums are plain and not pairwise."""
    stages = stages_of(nest)
    exact = any(a.exact for stage in stages.loops for a in stages.reductions_of(stage))
    vectors = unrolled(nest, tuning.ROW_UNROLL, by_stage=by_stage)
    if any(is_shared(instruction, stages.levels) for instruction in nest.body):
        vectors = min(vectors, tuning.DIVIDED_VECTORS)
    turn = native_lanes(nest, MOST_VECTOR_BYTES) * vectors
    return exact and nest.reduced == 1 and length // turn <= block_of(nest)


class RowReduction(RowTruths):
    """Emits one nest by rows."""

    by_stage = True
    """Whether each stage's vectors are as many as its own running values leave registers for."""
    looks_ahead = True
    """Whether the last of several stages asks for the next row."""

    def __init__(
        self,
        module: Module,
        nest: LoopNest,
        name: str,
        *,
        split: bool,
        short: bool = False,
    ) -> None:
        """Choose how many elements are computed at a time.

        With `short`, a row's vectors are one block.
        """
        super().__init__(module, nest, name, split=split)
        self.short = short
        self.block = block_of(self.nest)
        asks = self.looks_ahead and not split
        self.fetched = looked_ahead(self.nest) if asks else []
        """Operands whose later rows the last stage asks for."""
        self.later: list[str] = []
        """Addresses of the rows that the last stage asks for."""
        self.asking = ""
        """Whether a stage alone asks, in this row."""
        vectors = unrolled(nest, tuning.ROW_UNROLL, by_stage=self.by_stage)
        if is_served(module.features) and any(
            is_shared(instruction, self.stages.levels) for instruction in self.nest.body
        ):
            vectors = min(vectors, tuning.DIVIDED_VECTORS)
        self.lanes = self.native * vectors

    def _results_of(self, place: str) -> None:
        """All stages over one row."""
        self.tops = self.rows
        self._count_vectors()
        if self.fetched:
            self.later = self._next_rows()
        self._all_stages()

    def _count_vectors(self) -> None:
        """How many vectors a row has, and what is left over."""
        b, lanes = self.b, self.lanes
        self.vectors = self.number(f"udiv i64 {self.counts[-1]}, {lanes}")
        self.rest = self.number(f"urem i64 {self.counts[-1]}, {lanes}")
        self.mask = lane_mask(b, self.rest, lanes)
        if self.short:
            self.few_mask = lane_mask(b, self.rest, self.native)
            return
        up = self.number(f"add i64 {self.vectors}, {self.block - 1}")
        blocks = Value(self.number(f"udiv i64 {up}, {self.block}"), "i64", 1)
        self.blocks_of_row = b.intrinsic("llvm.umax", blocks, Value("1", "i64", 1)).text

    # -- rows that are asked for ------------------------------------------------------------

    def _along(self, k: int) -> str:
        """The stride between rows of an operand."""
        return self.strides[k][self.nest.rank - 2]

    def _next_rows(self) -> list[str]:
        """The next row of each operand, or what is some way ahead in this one."""
        if len(self.stages.loops) > 1:
            return [self.moved(self.rows[k], self._along(k)) for k in self.fetched]
        addresses = [self.number(f"ptrtoint ptr {self.rows[k]} to i64") for k in self.fetched]
        found = reduce(lambda one, other: self.number(f"or i64 {one}, {other}"), addresses)
        offset = self.number(f"and i64 {found}, {LINE_BYTES - 1}")
        self.asking = self.b.value(f"icmp ne i64 {offset}, 0", "i1", 1).text
        return [self.moved(self.rows[k], str(AHEAD_BYTES)) for k in self.fetched]

    def _fetch(self, done: str) -> None:
        """Ask for elements of later rows after `done`."""
        b = self.b
        b.module.declare("llvm.prefetch.p0", "void", ("ptr", "i32", "i32", "i32"))
        asked = b.label("asked")
        if self.asking:
            b.branch(self.asking, b.label("ask"), asked)
        for k, top in zip(self.fetched, self.later, strict=True):
            size = conversion.bytes_of(self.nest.loads[k].dtype)
            offset = self.number(f"mul i64 {done}, {size}")
            for line in range(0, self.lanes * size, LINE_BYTES):
                ahead = self.moved(top, self.number(f"add i64 {offset}, {line}"))
                b.line(f"call void @llvm.prefetch.p0(ptr {ahead}, i32 0, i32 3, i32 1)")
        if self.asking:
            b.jump(asked)

    def _edge(self, k: int) -> Value:
        return load_one(self.b, self.operands[k], self.rows[k])

    def _store_result(self, k: int, number: int) -> None:
        b = self.b
        raw = conversion.to_memory(b, self.values[number], self.operands[k].dtype)
        b.line(f"store {raw.typed}, ptr {self.rows[k]}, align 1")

    def _slot(self, scalar: str, place: str) -> tuple[str, int]:
        return self.number(f"shl i64 {place}, 3"), 1

    def _amount(self) -> str:
        return "1"

    def _whole(self) -> str:
        return "1"

    def _stage(self, stage: int, running: list[Accumulator]) -> None:
        """All reduced loops of one stage."""
        self._take_row(stage, running)
        for accumulator in running:
            accumulator.parts = accumulators.combine_lanes(
                self.b, accumulator, self.begin, keep_error=self.split
            )

    def _take_row(self, stage: int, running: list[Accumulator]) -> None:
        """All reduced loops of one stage; leaves lanes of partial results."""
        b = self.b
        self._prepare_divisors(stage)
        for accumulator in running:
            lanes = self.lanes if self._counted(accumulator) is None else 1
            accumulator.parts = accumulators.start(b, accumulator, lanes)
            if accumulator.exact and not self.short:
                accumulator.parts = [accumulators.zero(b, accumulator, self.native)] * 2
        accumulators.note(b, running, self.native)

        def inside(tops: list[str]) -> None:
            self._innermost(stage, running, tops)

        self._nested(0, self.tops, running, inside, self.nest.reduced - 1)
        accumulators.settle(b, running, self.native)
        if self.short:
            self._halve(running)

    def _halve(self, running: list[Accumulator]) -> None:
        """Join vectors of plain sums to one of each."""
        for accumulator in running:
            if accumulator.exact:
                join = partial(joined, self.b, accumulator)
                whole = accumulators.halved(self.b, accumulator.parts[0], join, self.native)
                accumulator.parts = [whole]

    def _prepare_divisors(self, stage: int) -> None:
        """Look at what divides the elements of a stage, before its loops."""
        self.divisors = {}
        for number in self.stages.computed(stage) if is_served(self.module.features) else []:
            instruction = self.nest.body[number - self.first]
            if is_shared(instruction, self.stages.levels):
                divisor = instruction.operands[1]
                if divisor not in self.divisors:
                    self.divisors[divisor] = prepare(self.b, self.values[divisor], self.lanes)

    def _step(self, k: int) -> str:
        """The stride between elements of a row, in bytes."""
        desc = self.operands[k]
        if desc.access == CONTIGUOUS:
            return str(np.dtype(desc.dtype).itemsize)
        return self.strides[k][-1]

    def _operands_of(
        self,
        stage: int,
        running: list[Accumulator],
        tops: list[str],
        done: str,
        mask: Value | None,
    ) -> list[Value]:
        """Load, compute and store a vector after `done` elements; what accumulators take in."""
        self.done = done

        def address(k: int) -> str:
            return self.moved(tops[k], self.number(f"mul i64 {done}, {self._step(k)}"))

        return self._vector(stage, running, address, self._step, mask)

    def _take_vector(
        self,
        stage: int,
        running: list[Accumulator],
        tops: list[str],
        vector: str,
        mask: Value | None = None,
    ) -> None:
        """One vector of a row."""
        done = self.number(f"mul i64 {vector}, {self.lanes}")
        self._take_at(stage, running, tops, done, mask, vector)

    def _take_at(
        self,
        stage: int,
        running: list[Accumulator],
        tops: list[str],
        done: str,
        mask: Value | None,
        vector: str = "0",
    ) -> None:
        """One vector of a row, after `done` elements."""
        if self.fetched and mask is None and stage == self.stages.loops[-1]:
            self._fetch(done)
        operands = self._operands_of(stage, running, tops, done, mask)
        for accumulator, value in zip(running, operands, strict=True):
            if self._counted(accumulator) is not None:
                accumulators.count(self.b, accumulator, value, mask)
                continue
            index = self._index(accumulator, vector)
            squared = self._squared(accumulator) is not None
            accumulators.take(self.b, accumulator, value, mask, index, squared=squared)

    def _innermost(self, stage: int, running: list[Accumulator], tops: list[str]) -> None:
        """Whole vectors and what is left over.

        What is left over comes last: memory is read from one end to the other, and of equal
        values the first one's place counts.
        """
        b = self.b
        if any(a.exact for a in running) and not self.short:
            self._blocks(stage, running, tops)
            return
        loop = begin_loop(b, "0", self.vectors)
        for accumulator in running:
            accumulator.parts = [loop.carry(part) for part in accumulator.parts]
        self._take_vector(stage, running, tops, loop.index)
        enough = self._settled(running) if self._may_end_early(stage, running) else None
        loop.end([part for accumulator in running for part in accumulator.parts], enough)
        deal(loop.results, running)
        some = b.value(f"icmp ne i64 {self.rest}, 0", "i1", 1).text
        self._left_over(stage, running, tops, some)

    def _left_over(
        self, stage: int, running: list[Accumulator], tops: list[str], some: str
    ) -> None:
        """The elements after the last whole vector, if there are `some`."""
        b = self.b
        tail, join = b.label("tail"), b.label("join")
        old = [list(a.parts) for a in running]
        ways = [(b.block, old)]
        b.branch(some, tail, join)
        if self._takes_few(stage, running):
            few, many = b.label("few"), b.label("many")
            is_few = b.value(f"icmp ule i64 {self.rest}, {self.native}", "i1", 1).text
            b.branch(is_few, few, many)
            self._take_few(stage, running, tops)
            ways.append((b.block, [a.parts for a in running]))
            b.jump(join, many)
            for accumulator, parts in zip(running, old, strict=True):
                accumulator.parts = list(parts)
        self._take_vector(stage, running, tops, self.vectors, self.mask)
        ways.append((b.block, [a.parts for a in running]))
        b.jump(join)
        for place, accumulator in enumerate(running):
            joined_parts = []
            for part, new in enumerate(accumulator.parts):
                found = ", ".join(f"[ {all_[place][part].text}, %{end} ]" for end, all_ in ways)
                joined_parts.append(b.value(f"phi {new.type} {found}", new.scalar, new.lanes))
            accumulator.parts = joined_parts

    def _takes_few(self, stage: int, running: list[Accumulator]) -> bool:
        """Whether what is left over may be one native vector, which has code of its own then."""
        if not self.short or self.lanes == self.native or self.divisors:
            return False
        light, _ = tuning.ROW_UNROLL[0]
        return self.stages.cost <= light and not any(a.places for a in running)

    def _take_few(self, stage: int, running: list[Accumulator], tops: list[str]) -> None:
        """What is left over, in the first native vector of each running value."""
        b, lanes, old = self.b, self.lanes, [a.parts for a in running]
        done = self.number(f"mul i64 {self.vectors}, {lanes}")
        kept, self.lanes = dict(self.values), self.native
        for number in self.stages.edge(stage):
            if self.values[number].lanes == lanes:
                first = accumulators.half(b, self.values[number], 0, self.native)
                self.values[number] = first
        for accumulator, (value, *truths) in zip(running, old, strict=True):
            accumulator.parts = [accumulators.half(b, value, 0, self.native), *truths[:1]]
        self._take_at(stage, running, tops, done, self.few_mask)
        for accumulator, (value, *truths) in zip(running, old, strict=True):
            first, *noted = accumulator.parts
            places = range(self.native)
            wide = shuffled(b, first, None, [*places, *[-1] * (lanes - self.native)])
            rest = range(lanes + self.native, 2 * lanes)
            accumulator.parts = [shuffled(b, wide, value, [*places, *rest]), *noted, *truths[1:]]
        self.values, self.lanes = kept, lanes

    def _blocks(self, stage: int, running: list[Accumulator], tops: list[str]) -> None:
        """Sum blocks of vectors; add what a block comes to with its rounding errors."""
        b = self.b
        exact, others = [a for a in running if a.exact], [a for a in running if not a.exact]
        ordered = [*exact, *others]
        some = b.value(f"icmp ne i64 {self.rest}, 0", "i1", 1).text
        outer = begin_loop(b, "0", self.blocks_of_row)
        for accumulator in ordered:
            accumulator.parts = [outer.carry(part) for part in accumulator.parts]
        sums = [a.parts for a in exact]
        begin = self.number(f"mul i64 {outer.index}, {self.block}")
        ahead = Value(self.number(f"add i64 {begin}, {self.block}"), "i64", 1)
        end = b.intrinsic("llvm.umin", ahead, Value(self.vectors, "i64", 1)).text
        for accumulator in exact:
            accumulator.parts = accumulators.start(b, accumulator, self.lanes)
        inner = begin_loop(b, begin, end)
        for accumulator in ordered:
            accumulator.parts = [inner.carry(part) for part in accumulator.parts]
        self._take_vector(stage, running, tops, inner.index)
        inner.end([part for accumulator in ordered for part in accumulator.parts])
        deal(inner.results, ordered)
        last = b.value(f"icmp eq i64 {end}, {self.vectors}", "i1", 1).text
        self._left_over(stage, running, tops, b.value(f"and i1 {last}, {some}", "i1", 1).text)
        self._halve(exact)
        self._add_blocks(outer.index, exact, sums)
        outer.end([part for accumulator in ordered for part in accumulator.parts])
        deal(outer.results, ordered)

    def _add_blocks(
        self, block: str, exact: list[Accumulator], sums: list[list[Value]]
    ) -> None:
        """Add the sums of one block to those of the blocks before; nothing to add to at first."""
        b = self.b
        first = [a.parts[0] for a in exact]
        head = b.block
        if self.nest.reduced == 1:
            add, join = b.label("add"), b.label("added")
            fresh = b.value(f"icmp eq i64 {block}, 0", "i1", 1).text
            b.branch(fresh, join, add, add)
        for accumulator, (high, low) in zip(exact, sums, strict=True):
            total, error = accumulators.two_sum(b, high, accumulator.parts[0])
            accumulator.parts = [total, b.op("fadd", low, error)]
        if self.nest.reduced > 1:
            return
        b.jump(join)
        for accumulator, value, (_, low) in zip(exact, first, sums, strict=True):
            accumulator.parts = [
                b.value(
                    f"phi {new.type} [ {was.text}, %{head} ], [ {new.text}, %{add} ]",
                    new.scalar,
                    new.lanes,
                )
                for was, new in zip([value, low], accumulator.parts, strict=True)
            ]


def joined(b: Body, accumulator: Accumulator, old: Value, new: Value) -> Value:
    """Two partial results as one, rounded."""
    name = accumulator.row.combine
    return spell(b, name, accumulator.dtype, [old, new])
