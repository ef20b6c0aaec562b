"""Loop nests that reduce, as LLVM IR text with explicit vectors.

A nest runs through its elements once for every stage; a stage ends where a reduction's result is
needed. Row: the innermost loop in memory is reduced, see `row_reduction`, for places
`row_places`. Column: elements beside each other belong to different results, see
`column_reduction`.

Forms of one nest, chosen by lengths and strides alone (see `reduction_forms`):
plain: each row, or vector of columns, is computed as a whole.
split: few, long rows or columns are computed in parts; each part's partial results are kept in
the argument block, and whoever needs them waits until the block counts all parts, then joins them
in order. Parts depend on lengths, so the bits are the same whatever the number of threads.
joined split: as split, of rows with one stage: who finishes the last part joins all of them, so
that nobody waits, and parts may be computed in any order.
long: rows that are longer than the cache, see `online_rows`.
merged: columns that are read once for all reductions, see `online_columns`.

The function's arguments are those of `emit`; words of the block are addresses, lengths of all
loops, strides of all loops operand by operand (reduced loops last); in split form the number of
parts, the length of a part, the words of the partial results, and those; then scalars.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from fuser.backends.cpu import conversion, spacing
from fuser.backends.cpu.body import BITS, Module, Value
from fuser.backends.cpu.division import divide, is_shared
from fuser.backends.cpu.loops import begin_loop
from fuser.backends.cpu.reducing import accumulators
from fuser.backends.cpu.reducing.accumulators import Accumulator
from fuser.backends.cpu.reducing.reduction_frame import Frame
from fuser.backends.cpu.spelling import EXACT_IN_HALF, spell
from fuser.backends.cpu.vector_memory import load, store
from fuser.codegen import Instruction, LoopNest

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
    skipped: frozenset[int] = frozenset()
    """Values of a result's shape that are computed elsewhere."""
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
            b.line(f"br i1 {both}, label %{write}, label %{done}")
            b.start(write)
        self._store_each_result()
        if self.split:
            b.line(f"br label %{done}")
            b.start(done)

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
            if number in self.values or number in self.skipped:
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
        """What is squared before it is added: it need not be rounded in between.

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
        b.line(f"br i1 {mine}, label %{work}, label %{after}")
        b.start(work)
        self._stage(stage, running)
        self._keep(stage, running)
        last = not running and at == self.stages.final
        b.line(f"br label %{after if last else done}")
        b.start(after)
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
                raw = b.cast("zext", value, "i8") if scalar == "i1" else value
                b.line(f"store {raw.typed}, ptr {address}, align 1")
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
                memory = "i8" if scalar == "i1" else scalar
                kind = Value("", memory, lanes).type
                raw = b.value(f"load {kind}, ptr {address}, align 1", memory, lanes)
                if scalar == "i1":
                    raw = b.compare("icmp ne", raw, b.iconst(raw, 0))
                accumulator.parts.append(raw)
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
