"""One map loop nest as a function: arguments, loads, computation, stores.

Values are computed at one of three levels: once a call, once a row, once a vector. The loops
around them are put together in `vector_loop.py`. A nest that runs several iterations for each block
of elements has a fourth, once an iteration: the body of a loop within that over vectors, in which
what goes around stays in registers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from fuser.backends.cpu import conversion, tuning
from fuser.backends.cpu.body import Body, Features, Module, Value, vector_type
from fuser.backends.cpu.spelling import EXACT_IN_HALF, HEAVY_CODE, spell
from fuser.base.records import changed, field, record
from fuser.codegen import Instruction, LoopNest, Repeated
from fuser.ir.ops import before_first
from fuser.ir.specs import CONTIGUOUS, INVARIANT, TensorDesc

if TYPE_CHECKING:
    from fuser.backends.cpu.division import Divisor
    from fuser.backends.cpu.spacing import Turns

#: Bodies of at most so much code, in light operations, take two native vectors at a time.
UNROLL_LIMIT = 450
#: Vectors that go through iterations together, even if they find no registers: twice as fast as
#: two. Lanes of them at most, where elements lie beside each other and where they lie apart.
REPEATED_VECTORS, MOST_LANES, MOST_APART = 8, 256, 64


def packs(nest: LoopNest) -> bool:
    """Whether strided operands go through scratch memory: in two loops they may be transposed.

    In one loop, picking elements in the body is as fast, and needs no second pass.
    """
    return nest.rank > 1 and any(desc.picked for desc in nest.loads)


def streams(nest: LoopNest) -> bool:
    """Whether results of a nest can be written past the caches: they are contiguous."""
    whole = all(desc.access == CONTIGUOUS for _, desc in nest.stores)
    return nest.strategy == "map" and whole


def beside(desc: TensorDesc) -> TensorDesc:
    """An operand as it is met in scratch memory: what is picked up else lies together there."""
    return changed(desc, access=CONTIGUOUS) if desc.picked else desc


def lanes_of(nest: LoopNest, features: Features, vectors: int = 2) -> int:
    """How many elements the body computes at a time: so many native vectors where it is light."""
    size = nest.itemsize
    native = max(1, features.vector_bytes // max(4, size) if size > 1 else 16)
    if size <= 2 and not any(t.dtype == "float16" for t in nest.loads):
        native = features.vector_bytes // max(1, size)
    if nest.repeated is not None:  # an iteration waits for the one before it
        apart = any(t.picked for t in nest.operands)
        several = native * (REPEATED_VECTORS if vectors > 1 else 1)
        return min(several, MOST_APART if apart else MOST_LANES)
    strided = any(t.picked for t in nest.loads)
    rows = [i.row for i in nest.body]
    gathers = any(row.gathers or row.scatters for row in rows)
    if strided or gathers or any(t.access != CONTIGUOUS for _, t in nest.stores):
        return min(native, 16)
    light = not any(row.heavy for row in rows)
    if light and nest.strategy != "scan" and any(row.scans for row in rows):
        return min(native, tuning.SCAN_BYTES // max(4, size))
    code = sum(HEAVY_CODE if row.heavy else 1 for row in rows)
    return native * vectors if code <= UNROLL_LIMIT else native


def levels_of(nest: LoopNest) -> dict[int, int]:
    """Where each value is computed: it is as variable as its most variable operand."""
    levels = dict.fromkeys(range(nest.value_count), 0)
    for k, desc in enumerate(nest.loads):
        levels[k] = 1 if desc.access == INVARIANT else 2
    if nest.repeated is not None:
        loop = nest.repeated
        levels |= dict.fromkeys((*dict(loop.carried), *loop.moving, *loop.counted), 3)
    first = nest.value_count - len(nest.body)
    for number, instruction in enumerate(nest.body, first):
        level = max((levels[k] for k in instruction.operands), default=0)
        levels[number] = 2 if instruction.row.scans or instruction.row.scatters else level
    return levels


@record(frozen=False, slots=False)
class Section:
    """The bodies of one loop nest's function.

    Attributes:
        module: where what the bodies call is declared.
        nest: the loops.
        name: the function's name.
        linkage: "internal " where only this module calls it.
        stream: write past the caches; destinations must then be aligned to 64 bytes.
        lanes: how many elements the body computes at a time; 0 for as many as are usual.
        carried: results that run along a loop: each one's number, what is before the first, and
            what goes on.
        begun: what the first iteration finds of what goes around, by number.
    """

    module: Module
    nest: LoopNest
    name: str
    linkage: str = ""
    stream: bool = False
    lanes: int = 0
    carried: dict[int, tuple[Value, Value]] = field(default_factory=dict)
    begun: dict[int, Value] = field(default_factory=dict)
    values: dict[int, Value] = field(default_factory=dict)
    levels: dict[int, int] = field(default_factory=dict)
    divisors: dict[int, Divisor] = field(default_factory=dict)

    def compute(self) -> None:
        """Fill the bodies of the section's levels."""
        nest = self.nest
        self.lanes = self.lanes or lanes_of(nest, self.module.features)
        self.operands = nest.operands
        self.pairs = self._paired()
        # Level 0 is computed once a call, level 1 once a row, level 2 once a vector.
        self.bodies = [Body(self.module, prefix) for prefix in "urv"]
        self.turn = Body(self.module, "t")
        for body in (*self.bodies[1:], self.turn):
            body.alike = self.bodies[0].alike
        self.bodies[1].block, self.bodies[2].block, self.turn.block = "row", "vec", "turn"
        self._header()
        self._leaves()
        self.levels = levels_of(nest)
        self._row_start()
        self._loads()
        for place, instruction in enumerate(nest.body):
            self._instruction(nest.value_count - len(nest.body) + place, instruction)
        if nest.repeated is not None:
            self._turns_around(nest.repeated)
        self._stores()

    def _turns_around(self, repeated: Repeated) -> None:
        """Put the loop over iterations behind what all of them have in common."""
        b, turn = self.bodies[2], self.turn
        left = {load: self._operand(value, 3) for load, value in repeated.carried}
        more = None if repeated.goes_on < 0 else turn.any(self._operand(repeated.goes_on, 3)).text
        before = b.block
        b.line("br label %turn")
        b.start("turn")
        b.line(f"%turns.left = phi i64 [ {self.trips}, %{before} ], "
               f"[ %turns.next, %{turn.block} ]")  # fmt: skip
        for load, value in left.items():
            b.line(f"{self.values[load].text} = phi {value.type} "
                   f"[ {self.begun[load].text}, %{before} ], [ {value.text}, %{turn.block} ]")
        for k in repeated.counted:
            b.line(f"%count{k} = phi {self.begun[k].scalar} [ {self.begun[k].text}, %{before} ], "
                   f"[ %count.next{k}, %{turn.block} ]")  # fmt: skip
        for load in repeated.moving:
            b.line(f"%move{load} = phi ptr [ %row{load}, %{before} ], "
                   f"[ %move.next{load}, %{turn.block} ]")  # fmt: skip
        b.lines += turn.lines
        b.flagged = b.flagged or turn.flagged
        for load in repeated.moving:
            step = self.along[load]
            b.line(f"%move.next{load} = getelementptr i8, ptr %move{load}, i64 {step}")
        for k in repeated.counted:
            kind, by = self.begun[k].scalar, str(repeated.step)
            add = f"add i64 %count{k}, {by}" if kind == "i64" else f"fadd {kind} %count{k}, {by}.0"
            b.line(f"%count.next{k} = {add}")
        b.line("%turns.next = sub i64 %turns.left, 1")
        b.line("%turns.some = icmp ne i64 %turns.next, 0")
        if more is not None:
            b.line(f"%turns.more = and i1 %turns.some, {more}")
        b.branch("%turns.some" if more is None else "%turns.more", "turn", "turn.end", "turn.end")

    # -- arguments --------------------------------------------------------------------------

    def _word(self, body: Body, place: int, scalar: str) -> str:
        """Load one word of the argument block."""
        address = body.fresh()
        body.line(f"{address} = getelementptr i8, ptr %block, i64 {8 * place}")
        return body.value(f"load {scalar}, ptr {address}", scalar, 1).text

    def _header(self) -> None:
        """Read addresses, lengths and strides."""
        top = self.bodies[0]
        count, rank = len(self.operands), self.nest.rank
        self.pointers = [self._word(top, k, "ptr") for k in range(count)]
        self.lengths = [self._word(top, count + d, "i64") for d in range(rank - 1)]
        first = count + rank - 1
        self.outer = [
            [self._word(top, first + k * rank + d, "i64") for d in range(rank - 1)]
            for k in range(count)
        ]
        self.inner = [
            self._word(top, first + k * rank + rank - 1, "i64")
            if desc.access not in (CONTIGUOUS, INVARIANT)
            else str(conversion.bytes_of(desc.dtype) if desc.access == CONTIGUOUS else 0)
            for k, desc in enumerate(self.operands)
        ]
        self.first_scalar = first + count * rank
        if self.nest.repeated is not None:  # the first loop is that over iterations
            self.trips, *self.lengths = self.lengths
            self.along = [steps.pop(0) for steps in self.outer]

    def _leaves(self) -> None:
        """Scalars and constants, one lane each."""
        nest, top = self.nest, self.bodies[0]
        number = len(nest.loads)
        for place, dtype in enumerate(nest.scalars):
            memory = conversion.MEMORY[dtype]
            address = top.fresh()
            top.line(
                f"{address} = getelementptr i8, ptr %block, i64 {8 * (self.first_scalar + place)}"
            )
            raw = top.value(f"load {memory}, ptr {address}", memory, 1)
            self.values[number] = conversion.from_memory(top, raw, dtype)
            number += 1
        for dtype, bits in nest.constants:
            self.values[number] = conversion.constant(dtype, bits)
            number += 1
        for k in nest.repeated.counted if nest.repeated is not None else ():
            self.begun[k] = self.values[k]
            self.values[k] = Value(f"%count{k}", self.values[k].scalar, 1)

    # -- rows -------------------------------------------------------------------------------

    def _row_start(self) -> None:
        """What is known of a row when it begins, at the addresses `%row<k>`."""
        self.turns = [self._take_turns(k) for k in self.pairs]

    def lay_rows(self, body: Body, number: str, stem: str) -> str:
        """Append each operand's address in the row of a number, as `%<stem><k>`.

        Returns:
            The row's place along the loop before the innermost.
        """
        rest = number
        places: list[str] = []
        for d in range(len(self.lengths) - 1, 0, -1):  # the first outer loop takes what is left
            length = self.lengths[d]
            places.insert(0, body.value(f"urem i64 {rest}, {length}", "i64", 1).text)
            rest = body.value(f"udiv i64 {rest}, {length}", "i64", 1).text
        if self.lengths:
            places.insert(0, rest)
        for k in range(len(self.operands)):
            offset = body.value(f"mul i64 %ibegin, {self.inner[k]}", "i64", 1).text
            for d, place in enumerate(places):
                step = body.value(f"mul i64 {place}, {self.outer[k][d]}", "i64", 1).text
                offset = body.value(f"add i64 {offset}, {step}", "i64", 1).text
            body.line(f"%{stem}{k} = getelementptr i8, ptr {self.pointers[k]}, i64 {offset}")
        return places[-1] if places else "0"

    def _take_turns(self, k: int) -> str:
        """Whether an operand and the next one take turns in memory in this row."""
        from fuser.backends.cpu import spacing

        size = conversion.bytes_of(self.operands[k].dtype)
        places, steps = (f"%row{k}", f"%row{k + 1}"), (self.inner[k], self.inner[k + 1])
        return spacing.take_turns(self.bodies[1], places, steps, size)

    # -- loads and stores -------------------------------------------------------------------

    def _loads(self) -> None:
        """Read every operand: once a row where it is invariant, else once a vector."""
        repeated = self.nest.repeated
        for k, desc in enumerate(self.nest.loads):
            memory = conversion.MEMORY[desc.dtype]
            if repeated is not None and k in repeated.moving:
                b = self.turn
                raw = b.value(f"load {memory}, ptr %move{k}, align 1", memory, 1)
                self.values[k] = conversion.from_memory(b, raw, desc.dtype)
                continue
            if desc.counted:
                self.values[k] = self._position(k, desc)
                continue
            if desc.access == INVARIANT:
                row = self.bodies[1]
                raw = row.value(f"load {memory}, ptr %row{k}, align 1", memory, 1)
                self.values[k] = conversion.from_memory(row, raw, desc.dtype)
                continue
            b = self.bodies[2]
            if desc.access == CONTIGUOUS:
                vector = vector_type(memory, self.lanes)
                raw = b.value(f"load {vector}, ptr %q{k}, align 1", memory, self.lanes)
            elif k - 1 in self.pairs:
                continue
            else:
                from fuser.backends.cpu import spacing  # many kernels need none

                if k in self.pairs:
                    raw, other = spacing.picked_pair(b, memory, self._turns(k), self.lanes)
                    self.values[k + 1] = conversion.from_memory(b, other, desc.dtype)
                else:
                    raw = spacing.picked(b, memory, f"%q{k}", f"%st{k}", self.lanes)
            self.values[k] = conversion.from_memory(b, raw, desc.dtype)
        for k, _ in repeated.carried if repeated is not None else ():
            self.begun[k] = self.bodies[1].splat(self.values[k], self.lanes)
            self.values[k] = Value(f"%around{k}", self.begun[k].scalar, self.lanes)

    def _position(self, k: int, desc: TensorDesc) -> Value:
        """The elements of a counted operand; lanes past the last one repeat it."""
        from fuser.backends.cpu.vector_memory import position, positions

        if desc.access == INVARIANT:
            return position(self.bodies[1], desc, f"%row{k}")
        places = Value("%places", "i64", self.lanes)
        return positions(self.bodies[2], desc, f"%q{k}", places, f"%st{k}")

    def _stores(self) -> None:
        """Write every destination."""
        b, apart = self.bodies[2], []
        for place, (number, desc) in enumerate(self.nest.stores):
            k = len(self.nest.loads) + place
            if desc.located:
                continue  # it is written where it is computed
            raw = conversion.to_memory(b, self._operand(number, 2), desc.dtype)
            if desc.access == CONTIGUOUS:
                whole = min(64, self.lanes * conversion.bytes_of(desc.dtype))
                past = f"align {whole}, !nontemporal !0" if self.stream else "align 1"
                b.line(f"store {raw.typed}, ptr %q{k}, {past}")
                continue
            apart.append((raw, f"%q{k}", f"%st{k}"))
        if apart:
            from fuser.backends.cpu import interleaving

            interleaving.lay_all(b, apart)

    def _paired(self) -> list[int]:
        """The first of every two loads that may take turns in memory."""
        if not any(desc.picked for desc in self.nest.loads):
            return []
        from fuser.backends.cpu import spacing

        return spacing.paired(self.nest.loads, self.lanes)

    def _turns(self, k: int) -> Turns:
        """Two operands that may take turns."""
        from fuser.backends.cpu.spacing import Turns

        return Turns(f"%turns{k}", (f"%q{k}", f"%q{k + 1}"), (f"%st{k}", f"%st{k + 1}"))

    # -- computation ------------------------------------------------------------------------

    def _operand(self, number: int, level: int) -> Value:
        """A value as a given level wants it: constants and row values are repeated in lanes."""
        value = self.values[number]
        own = self.levels[number]
        if level < 2 or own == 2 or (own == 3 and value.lanes == self.lanes):
            return value
        if not value.text.startswith("%"):  # a constant
            text = f"splat ({value.scalar} {value.text})" if self.lanes > 1 else value.text
            return Value(text, value.scalar, self.lanes)
        key = -1 - number
        if key not in self.values:
            body = self.turn if own == 3 else self.bodies[own]
            self.values[key] = body.splat(value, self.lanes)
        return self.values[key]

    def _instruction(self, number: int, instruction: Instruction) -> None:
        """Spell one operation at its level."""
        level = self.levels[number]
        b = self.turn if level == 3 else self.bodies[level]
        # What an iteration computes of its number alone is the same for all elements.
        once = level == 3 and all(self.values[k].lanes == 1 for k in instruction.operands)
        operands = [self._operand(k, 1 if once else level) for k in instruction.operands]
        if instruction.row.converts:
            source = instruction.operand_dtype
            result = conversion.convert(b, operands[0], source, instruction.dtype)
        elif instruction.row.scans:
            result = self._running(b, number, instruction, operands[0])
        elif instruction.row.scatters:
            result = self._scatter(b, instruction, operands)
        elif (quotient := self._shared_quotient(b, instruction, operands)) is not None:
            result = quotient
        else:
            result = spell(b, instruction.op, instruction.operand_dtype, operands)
            if instruction.dtype == "float16" and instruction.op not in EXACT_IN_HALF:
                result = conversion.round_half(b, result)
        if self.nest.checked:
            self._check(b, instruction, operands, result)
        self.values[number] = result

    def _running(self, b: Body, number: int, instruction: Instruction, value: Value) -> Value:
        """A result that takes the one before it.

        Along rows, one lane after another; the loop around has the one before them in `%before`,
        and `%carry` keeps it for what is left over. Down columns, lanes are results beside each
        other. What is before the first one gives the element itself.
        """
        lanes = value.lanes if self.nest.strategy == "scan" else 1
        found = before_first(instruction.row, instruction.operand_dtype)
        start = b.number(Value("", value.scalar, lanes), found)
        if self.nest.strategy == "scan":
            before = Value(f"%before{number}", value.scalar, value.lanes)
            result = self._next(b, instruction, before, value)
            self.carried[number] = start, result
            return result
        vector, scalar = "poison", value.scalar
        last = Value(f"%before{number}", scalar, 1)
        for lane in range(value.lanes):
            one = value
            if value.lanes > 1:
                one = b.value(f"extractelement {value.typed}, i64 {lane}", scalar, 1)
            last = self._next(b, instruction, last, one)
            if value.lanes > 1:
                text = f"insertelement {value.type} {vector}, {last.typed}, i64 {lane}"
                vector = b.value(text, scalar, value.lanes).text
        b.line(f"store {last.typed}, ptr %carry{number}")
        self.carried[number] = start, last
        return Value(vector, scalar, value.lanes) if value.lanes > 1 else last

    def _scatter(self, b: Body, instruction: Instruction, operands: list[Value]) -> Value:
        """What is written at computed places."""
        from fuser.backends.cpu.gathers import scatter  # most kernels have none

        row, dtype = instruction.row.combine, instruction.dtype

        def combined(there: Value, value: Value) -> Value:
            found = spell(b, row, dtype, [there, value])
            if dtype == "float16" and row not in EXACT_IN_HALF:
                found = conversion.round_half(b, found)
            if self.nest.checked:
                self._check(b, instruction, [there, value], found)
            return found

        return scatter(b, dtype, operands, combined if row else None)

    def _next(self, b: Body, instruction: Instruction, before: Value, value: Value) -> Value:
        """One result of a scan."""
        row = instruction.row.combine
        found = spell(b, row, instruction.operand_dtype, [before, value])
        if instruction.dtype == "float16" and row not in EXACT_IN_HALF:
            found = conversion.round_half(b, found)
        return found

    def _shared_quotient(
        self, b: Body, instruction: Instruction, operands: list[Value]
    ) -> Value | None:
        """A quotient by what stays the same in the loop over vectors; None of all else."""
        if not instruction.row.is_quotient:
            return None
        from fuser.backends.cpu.division import divide, is_served, is_shared, prepare

        if not (is_served(self.module.features) and is_shared(instruction, self.levels)):
            return None
        number = instruction.operands[1]
        if number not in self.divisors:
            body = self.bodies[self.levels[number]]
            self.divisors[number] = prepare(body, self.values[number], self.lanes)
        return divide(b, operands[0], self.divisors[number])

    def _check(
        self, b: Body, instruction: Instruction, operands: list[Value], result: Value
    ) -> None:
        """Note what NumPy would warn of: a result that is not finite, a zero divisor."""
        if "float" in instruction.dtype:
            size = b.intrinsic("llvm.fabs", result)
            b.raise_flag(b.compare("fcmp ueq", size, b.fconst(size, float("inf"))))
        elif instruction.row.divides:
            divisor = operands[1]
            b.raise_flag(b.compare("icmp eq", divisor, b.iconst(divisor, 0)))
