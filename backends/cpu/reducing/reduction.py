"""Loop nests that reduce, as LLVM IR text with explicit vectors: what rows and columns share.

A nest runs through its elements once for every stage; a stage ends where a reduction's result is
needed. Row: the innermost loop in memory is reduced, see `row_reduction`, for places `row_places`.
Column: elements beside each other belong to different results, see `column_reduction`.

A split reduction is computed in parts; each part's partial results are kept in the argument block.
Parts depend on lengths, so the bits are the same whatever the number of threads. Either whoever
needs the results waits until the block counts all parts, then joins them in order; or, of rows with
one stage, who finishes the last part joins all of them, so that nobody waits, and parts may be
computed in any order.

The function's arguments are those of `emit`; words of the block are addresses, lengths of all
loops, strides of all loops operand by operand (reduced loops last); of a split reduction the number
of parts, the length of a part, the words of the partial results, and those; then scalars.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from fuser.backends.cpu import conversion, spacing
from fuser.backends.cpu.body import BITS, Body, Module, Value
from fuser.backends.cpu.division import Divisor, divide, is_shared
from fuser.backends.cpu.loops import begin_loop
from fuser.backends.cpu.reducing import accumulators
from fuser.backends.cpu.reducing.accumulators import Accumulator
from fuser.backends.cpu.reducing.reduction_stages import Stages, native_lanes
from fuser.backends.cpu.spelling import EXACT_IN_HALF, spell
from fuser.backends.cpu.vector_memory import get_register, load, put_register, store
from fuser.codegen import Instruction, LoopNest


class Frame:
    """Emits the function of one nest around what `_results_of` writes."""

    linkage = ""
    """"internal " where only this module calls it."""

    vector_bytes = 0
    """Bytes of a vector; 0: of the processor's."""
    extra_operands = 0
    """Addresses in the block after those of operands."""

    def __init__(self, module: Module, nest: LoopNest, name: str, *, split: bool) -> None:
        """Prepare an empty function."""
        self.module, self.name, self.split = module, name, split
        self.nest = nest
        self.b = Body(module)
        self.native = native_lanes(self.nest, self.vector_bytes or module.features.vector_bytes)
        self.lanes = self.native
        self.operands = nest.operands
        self.column = nest.strategy == "column"
        self.values: dict[int, Value] = {}
        self.divisors: dict[int, Divisor] = {}
        """What divides elements of the loops that are being written."""
        self.stages = Stages(self.nest)
        self.first = self.stages.first
        self.scratch: list[str] = []
        """Lines that reserve memory on the stack, at the function's start."""
        self.tops: list[str] = []
        """Addresses of operands where the reduced loops begin."""

    def _results_of(self, place: str) -> None:
        """Compute what belongs to one turn of the loops that are counted outside."""
        raise NotImplementedError

    # -- the function -----------------------------------------------------------------------

    def emit(self) -> None:
        """Append the function to the module."""
        b = self.b
        self._header()
        self._items()
        b.line("ret i32 %status" if b.flagged else "ret i32 0")
        lines = [*self.scratch, *b.lines]
        if b.flagged:
            lines = ["  %flag = alloca i64", "  store i32 0, ptr %flag", *lines]
            lines.insert(len(lines) - 1, "  %status = load i32, ptr %flag")
        head = (
            f"define {self.linkage}i32 @{self.name}(ptr %block, i64 %obegin, i64 %oend, "
            "i64 %ibegin, i64 %iend) #0 {"
        )
        self.module.functions.append("\n".join([head, "entry:", *lines, "}"]))

    def _items(self) -> None:
        """The loop over outer iterations."""
        items = begin_loop(self.b, "%obegin", "%oend")
        self._item(items.index)
        items.end()

    def number(self, text: str) -> str:
        """Append one instruction on 64-bit integers."""
        return self.b.value(text, "i64", 1).text

    def _word(self, place: int | str, scalar: str) -> Value:
        """Load one word of the argument block."""
        b = self.b
        offset = str(8 * place) if isinstance(place, int) else self.number(f"shl i64 {place}, 3")
        address = b.value(f"getelementptr i8, ptr %block, i64 {offset}", "ptr", 1)
        return b.value(f"load {scalar}, ptr {address.text}", scalar, 1)

    def _header(self) -> None:
        """Addresses, lengths, strides, scalars and constants."""
        nest, count, rank = self.nest, len(self.operands), self.nest.rank
        self.pointers = [self._word(k, "ptr").text for k in range(count)]
        count += self.extra_operands
        self.lengths = [self._word(count + d, "i64").text for d in range(rank)]
        first = count + rank
        self.strides = [
            [self._word(first + k * rank + d, "i64").text for d in range(rank)]
            for k in range(len(self.operands))
        ]
        place, skipped = self._more_words(first + len(self.operands) * rank)
        number = len(nest.loads)
        for dtype in nest.scalars:
            at: int | str = place
            if skipped:
                at = self.number(f"add i64 {skipped}, {place}")
            raw = self._word(at, conversion.MEMORY[dtype])
            self.values[number] = conversion.from_memory(self.b, raw, dtype)
            number, place = number + 1, place + 1
        for dtype, bits in nest.constants:
            self.values[number] = conversion.constant(dtype, bits)
            number += 1

    def _more_words(self, place: int) -> tuple[int, str]:
        """Words after the strides: where they end, and how many more lie before the scalars."""
        if not self.split:
            return place, ""
        self.parts, self.part_length, skipped = (
            self._word(place + k, "i64").text for k in range(3)
        )
        self.counters = place + 3
        return self.counters, skipped

    def _item(self, item: str) -> None:
        """One outer iteration: a row, an outer iteration of columns, or a part of such."""
        self._go_to(item)
        self._results_of(self.place)

    def _go_to(self, item: str) -> None:
        """Addresses of operands in one outer iteration."""
        nest = self.nest
        kept = nest.rank - nest.reduced - int(self.column)  # loops that `item` counts
        self.begin, self.counts = "0", self.lengths[nest.rank - nest.reduced :]
        if self.split:
            item = self._part_of(item, kept)
        self.place = item
        places: list[str] = []
        for d in range(kept - 1, 0, -1):
            places.insert(0, self.number(f"urem i64 {item}, {self.lengths[d]}"))
            item = self.number(f"udiv i64 {item}, {self.lengths[d]}")
        if kept:
            places.insert(0, item)
        self.rows = []
        for k in range(len(self.operands)):
            offset = "0"
            for d, place in enumerate(places):
                step = self.number(f"mul i64 {place}, {self.strides[k][d]}")
                offset = self.number(f"add i64 {offset}, {step}")
            if self.split:
                along = self.strides[k][nest.rank - nest.reduced]
                step = self.number(f"mul i64 {self.begin}, {along}")
                offset = self.number(f"add i64 {offset}, {step}")
            self.rows.append(self.moved(self.pointers[k], offset))

    def moved(self, address: str, offset: str) -> str:
        """An address some bytes further on."""
        text = f"getelementptr i8, ptr {address}, i64 {offset}"
        return self.b.value(text, "ptr", 1).text

    def _less(self, one: str, other: str) -> str:
        """The smaller number."""
        less = self.b.value(f"icmp ult i64 {one}, {other}", "i1", 1).text
        return self.number(f"select i1 {less}, i64 {one}, i64 {other}")

    def _elements_of(self, part: str) -> str:
        """How many elements of the innermost loop a part has."""
        begin = self.number(f"mul i64 {part}, {self.part_length}")
        return self._elements_from(begin, self.lengths[-1])

    def _elements_from(self, begin: str, length: str) -> str:
        """How many of so many elements a part has that begins there."""
        return self._less(self.number(f"sub i64 {length}, {begin}"), self.part_length)

    def _part_of(self, item: str, kept: int) -> str:
        """Which stage and part an item is; returns the row that it belongs to."""
        rows = "1"
        for d in range(kept):
            rows = self.number(f"mul i64 {rows}, {self.lengths[d]}")
        job = self.number(f"udiv i64 {item}, {rows}")
        self.now = self.number(f"udiv i64 {job}, {self.parts}")
        self.part = self.number(f"urem i64 {job}, {self.parts}")
        self.rows_in_all = rows
        self.begin = self.number(f"mul i64 {self.part}, {self.part_length}")
        self.counts = [self._elements_from(self.begin, self.counts[0]), *self.counts[1:]]
        return self.number(f"urem i64 {item}, {rows}")


#: Waits until a counter has reached a number. Who gives its processor to another process gets it
#: back after milliseconds, so that comes late: beside other work batch norms of 1 M elements took
#: 5 to 10 times as long with 4,096 looks before it.
AWAIT = """\
define internal void @await(ptr %counter, i64 %wanted) noinline #0 {
entry:
  br label %look
look:
  %n = phi i64 [ 0, %entry ], [ %n1, %again ]
  %seen = load atomic i64, ptr %counter acquire, align 8
  %there = icmp uge i64 %seen, %wanted
  br i1 %there, label %done, label %wait
wait:
  %n1 = add i64 %n, 1
  %long = icmp ugt i64 %n, 262144
  br i1 %long, label %yield, label %again
yield:
  %ignored = call i32 @sched_yield()
  br label %again
again:
  br label %look
done:
  ret void
}"""


class Reduction(Frame):
    """Emits one nest; rows and columns differ in `_results_of` and in how they loop."""

    postponed = -1
    """A stage that waits until all others are done for many results."""
    fused_squares = True
    """Whether squares may be added with one rounding."""
    finds_pairs = True
    """Whether loads may be met two by two."""
    past = False
    """Whether whole vectors of elements are stored past the caches: they are aligned then."""

    # -- what rows and columns do differently -----------------------------------------------

    def _stage(self, stage: int, running: list[Accumulator]) -> None:
        """The loops of one stage; leaves partial results in the accumulators."""
        raise NotImplementedError

    def _leave(self) -> None:
        """Note what a stage that is postponed will need."""
        raise NotImplementedError

    def _edge(self, k: int) -> Value:
        """Load an operand that is the same along the reduced loops."""
        raise NotImplementedError

    def _store_result(self, k: int, number: int) -> None:
        """Store a value of a result's shape."""
        raise NotImplementedError

    def _slot(self, scalar: str, place: str) -> tuple[str, int]:
        """Where a partial result is kept, and in how many lanes."""
        raise NotImplementedError

    def _amount(self) -> str:
        """How many results a part counts when it is done."""
        raise NotImplementedError

    def __init__(self, module: Module, nest: LoopNest, name: str, *, split: bool) -> None:
        """Find loads that may take turns in memory."""
        super().__init__(module, nest, name, split=split)
        self.pairs = spacing.paired(self.nest.loads, self.native) if self.finds_pairs else []
        """The first of every two."""

    # -- stages -----------------------------------------------------------------------------

    def _all_stages(self) -> None:
        """All stages of one row or vector of columns."""
        b, stages = self.b, self.stages
        saved = dict(self.values)
        done = b.label("done")
        self._load_edges()
        for stage in range(stages.last + 1):
            running = stages.reductions_of(stage)
            if stage in stages.loops:
                if stage == self.postponed:
                    self._leave()
                elif self.split:
                    self._part(stage, running, done)
                else:
                    self._whole_stage(stage, running)
            self._results(stage + 1)
        self._store_results(done)
        self.values = saved

    def _load_edges(self) -> None:
        """What is known of a result before the first stage."""
        for k in range(len(self.nest.loads)):
            if self.stages.levels[k] == 1:
                self.values[k] = self._edge(k)
        self._results(0)

    def _whole_stage(self, stage: int, running: list[Accumulator]) -> None:
        """The loops of one stage, and its results."""
        self._stage(stage, running)
        for accumulator in running:
            self._finish(accumulator, accumulator.parts)

    def _store_results(self, done: str) -> None:
        """Stores of a result's shape; in split form the last stage's first part makes them."""
        b = self.b
        if self.split:
            write = b.label("write")
            last = b.value(f"icmp eq i64 {self.now}, {self.stages.final}", "i1", 1).text
            zeroth = b.value(f"icmp eq i64 {self.part}, 0", "i1", 1).text
            both = b.value(f"and i1 {last}, {zeroth}", "i1", 1).text
            b.branch(both, write, done)
        self._store_each_result()
        if self.split:
            b.jump(done)

    def _store_each_result(self) -> None:
        """Store what has a result's shape."""
        for place, (number, _) in enumerate(self.nest.stores):
            if self.stages.store_level(place) == 1:
                self._store_result(len(self.nest.loads) + place, number)

    def _finish(self, accumulator: Accumulator, parts: list[Value]) -> None:
        """Note a reduction's result."""
        self.values[accumulator.number] = accumulators.finish(self.b, accumulator, parts)

    def _results(self, stage: int) -> None:
        """Values of a result's shape that a stage makes computable."""
        for place, instruction in enumerate(self.nest.body):
            number = self.first + place
            if number in self.values:
                continue
            if self.stages.is_plain_result(number, stage):
                self._instruction(number, instruction, self.stages.levels[number])

    def _instruction(self, number: int, instruction: Instruction, level: int) -> None:
        """Spell one operation."""
        b = self.b
        wide = level == 2 or (level == 1 and self.column)
        lanes = self.lanes if wide else 1
        operands = [self._operand(k, lanes) for k in instruction.operands]
        if instruction.row.converts:
            source = instruction.operand_dtype
            result = conversion.convert(b, operands[0], source, instruction.dtype)
        elif instruction.operands[-1] in self.divisors and is_shared(
            instruction, self.stages.levels
        ):
            result = divide(b, operands[0], self.divisors[instruction.operands[1]])
        else:
            result = spell(b, instruction.op, instruction.operand_dtype, operands)
            if instruction.dtype == "float16" and instruction.op not in EXACT_IN_HALF:
                result = conversion.round_half(b, result)
        self.values[number] = result

    def _operand(self, number: int, lanes: int = 0) -> Value:
        """A value in as many lanes as the vector has."""
        value, lanes = self.values[number], lanes or self.lanes
        if value.lanes == lanes:
            return value
        if not value.text.startswith("%"):
            text = f"splat ({value.scalar} {value.text})" if lanes > 1 else value.text
            return Value(text, value.scalar, lanes)
        return self.b.splat(value, lanes)

    # -- one vector of elements -------------------------------------------------------------

    def _vector(
        self,
        stage: int,
        running: list[Accumulator],
        address: Callable[[int], str],
        step: Callable[[int], str],
        mask: Value | None,
    ) -> list[Value]:
        """Load, compute and store one vector; returns the accumulators' operands."""
        stages, kept = self.stages, dict(self.values)

        def put(place: int, number: int) -> None:
            self._store_vector(place, self._operand(number), address, step, mask)

        needed, seconds = stages.needed(stage), {k + 1 for k in self.pairs}
        for number in needed:
            if mask is None and number in seconds and number - 1 in needed:
                continue  # loaded with the one before
            if mask is None and number in self.pairs and number + 1 in needed:
                self._load_pair(number, address, step)
            elif number < len(self.nest.loads) or stages.is_kept(number, stage):
                k = number
                if number >= self.first:
                    k = len(self.nest.loads) + stages.kept[number].place
                self.values[number] = self._load_vector(k, address(k), step(k), mask)
            else:
                self._instruction(number, self.nest.body[number - self.first], 2)
        operands = [self._addend(a) for a in running]
        for number, place in stages.left_by(stage):
            put(place, number)
        for place in stages.stores_of(stage):
            put(place, self.nest.stores[place][0])
        self.values = kept
        return operands

    def _load_vector(self, k: int, address: str, step: str, mask: Value | None) -> Value:
        """Load one vector of elements."""
        return load(self.b, self.operands[k], address, mask, step, self.lanes)

    def _load_pair(
        self, k: int, address: Callable[[int], str], step: Callable[[int], str]
    ) -> None:
        """Load vectors of an operand and the next one, which may take turns in memory."""
        places, steps = (address(k), address(k + 1)), (step(k), step(k + 1))
        dtype = self.operands[k].dtype
        size, memory = conversion.bytes_of(dtype), conversion.MEMORY[dtype]
        turns = spacing.Turns(spacing.take_turns(self.b, places, steps, size), places, steps)
        for number, raw in enumerate(spacing.picked_pair(self.b, memory, turns, self.lanes), k):
            self.values[number] = conversion.from_memory(self.b, raw, dtype)

    def _addend(self, accumulator: Accumulator) -> Value:
        """What a reduction takes in: of a square, what is squared."""
        factor = self._squared(accumulator)
        return self._operand(accumulator.operand if factor is None else factor)

    def _squared(self, accumulator: Accumulator) -> int | None:
        """The factor of a square that is added: a fused multiply-add need not round it in between.

        Squares are added to sums of squares, so nothing is finite that was not without that.
        """
        place = accumulator.operand - self.first
        served = accumulator.dtype in ("float32", "float64") and self.module.features.fma
        if not accumulator.exact or place < 0 or not served or not self.fused_squares:
            return None
        instruction = self.nest.body[place]
        factors = set(instruction.operands)
        square = instruction.row.multiplies and len(factors) == 1
        return factors.pop() if square and accumulator.operand not in self.stages.kept else None

    def _store_vector(
        self,
        place: int,
        value: Value,
        address: Callable[[int], str],
        step: Callable[[int], str],
        mask: Value | None,
    ) -> None:
        """Store one vector of elements."""
        k = len(self.nest.loads) + place
        store(self.b, self.operands[k], value, address(k), mask, step(k), past=self.past)

    def _index(self, accumulator: Accumulator, turn: str) -> Value | None:
        """A loop's turn in every lane, where places are wanted."""
        if not accumulator.places:
            return None
        one = Value(turn, "i64", 1)
        if accumulator.index != "i64":
            one = self.b.cast("trunc", one, accumulator.index)
        return self.b.splat(one, self.lanes)

    def _nested(
        self,
        depth: int,
        tops: list[str],
        running: list[Accumulator],
        inside: Callable[[list[str]], None],
        last: int,
    ) -> None:
        """Reduced loops from `depth` up to, not including, `last`, then what is inside them."""
        if depth == last:
            inside(tops)
            return
        b = self.b
        loop = begin_loop(b, "0", self.counts[depth])
        for accumulator in running:
            accumulator.parts = [loop.carry(part) for part in accumulator.parts]
        self.turn = loop.index
        along = self.nest.rank - self.nest.reduced + depth
        moved = []
        for k, top in enumerate(tops):
            offset = self.number(f"mul i64 {loop.index}, {self.strides[k][along]}")
            moved.append(self.moved(top, offset))
        self._nested(depth + 1, moved, running, inside, last)
        loop.end([part for accumulator in running for part in accumulator.parts])
        deal(loop.results, running)

    # -- parts ------------------------------------------------------------------------------

    def _part(self, stage: int, running: list[Accumulator], done: str) -> None:
        """One stage in split form: a part of it is computed, or all parts are joined."""
        b, at = self.b, self.stages.loops.index(stage)
        work, after = b.label("part"), b.label("parts")
        mine = b.value(f"icmp eq i64 {self.now}, {at}", "i1", 1).text
        b.branch(mine, work, after)
        self._stage(stage, running)
        self._keep(stage, running)
        last = not running and at == self.stages.final
        b.jump(after if last else done, after)
        if running:
            self._join(stage, running)

    def _counter(self, stage: int) -> str:
        """The address of the count of finished results of a stage."""
        loops = len(self.stages.loops)
        place = self.number(f"mul i64 {self.place}, {loops}")
        place = self.number(f"add i64 {place}, {self.counters + self.stages.loops.index(stage)}")
        return self.moved("%block", self.number(f"shl i64 {place}, 3"))

    def _slot_of(self, stage: int, part: str, place: int, scalar: str) -> tuple[str, int]:
        """The address of one partial result."""
        loops, slots = len(self.stages.loops), self.stages.slots(column=self.column)
        first = self.number(f"mul i64 {self.rows_in_all}, {loops}")
        first = self.number(f"add i64 {first}, {self.counters}")
        row = self.number(f"mul i64 {self.place}, {slots}")
        row = self.number(f"add i64 {row}, {self.stages.first_slot(stage, self.column) + place}")
        row = self.number(f"mul i64 {row}, {self.parts}")
        row = self.number(f"add i64 {row}, {part}")
        offset, lanes = self._slot(scalar, row)
        base = self.moved("%block", self.number(f"shl i64 {first}, 3"))
        return self.moved(base, offset), lanes

    def _keep(self, stage: int, running: list[Accumulator]) -> str:
        """Write a part's partial results, and count them; how many were counted before."""
        b = self.b
        place = 0
        for accumulator in running:
            for value, scalar in zip(
                accumulator.parts, accumulator.saved(column=self.column), strict=True
            ):
                address, _ = self._slot_of(stage, self.part, place, scalar)
                put_register(b, value, address)
                place += 1
        if not running:
            return "0"
        text = f"atomicrmw add ptr {self._counter(stage)}, i64 {self._amount()} acq_rel"
        return self.number(text)

    def _load_parts(self, stage: int, part: str, running: Sequence[Accumulator]) -> None:
        """Read a part's partial results."""
        b = self.b
        place = 0
        for accumulator in running:
            accumulator.parts = []
            for scalar in accumulator.saved(column=self.column):
                address, lanes = self._slot_of(stage, part, place, scalar)
                accumulator.parts.append(get_register(b, scalar, lanes, address))
                place += 1

    def _join(self, stage: int, running: list[Accumulator]) -> None:
        """Wait for all parts of a stage and join them in order."""
        self.module.helpers["await"] = AWAIT
        self.module.declare("sched_yield", "i32", ())
        wanted = self.number(f"mul i64 {self.parts}, {self._whole()}")
        self.b.line(f"call void @await(ptr {self._counter(stage)}, i64 {wanted})")
        self._joined(stage, running)

    def _joined(self, stage: int, running: list[Accumulator]) -> None:
        """Join all parts of a stage in order."""
        b = self.b
        self._load_parts(stage, "0", running)
        for accumulator in running:
            if accumulator.exact and len(accumulator.parts) == 1:
                accumulator.parts.append(accumulators.zero(b, accumulator, self.lanes))
        loop = begin_loop(b, "1", self.parts)
        joined = []
        for accumulator in running:
            accumulator.parts = [loop.carry(part) for part in accumulator.parts]
            joined.append(accumulator.parts)
        self._load_parts(stage, loop.index, running)
        ends: list[Value] = []
        for accumulator, old in zip(running, joined, strict=True):
            ends += accumulators.merge(b, accumulator, old, accumulator.parts)
            accumulator.parts = old
        loop.end(ends)
        deal(loop.results, running)
        for accumulator in running:
            self._finish(accumulator, accumulator.parts)

    def _whole(self) -> str:
        """How many results all parts of one number count."""
        raise NotImplementedError


def deal(values: list[Value], running: Sequence[Accumulator]) -> None:
    """Hand a loop's results out to its accumulators."""
    place = 0
    for accumulator in running:
        width = len(accumulator.parts)
        accumulator.parts = values[place : place + width]
        place += width


def element_bytes(scalar: str) -> int:
    """Bytes of a partial result in the block."""
    return max(1, BITS[scalar] // 8)
