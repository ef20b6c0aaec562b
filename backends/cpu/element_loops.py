"""Element loops as LLVM IR text: scalar code, which LLVM's own passes optimise.

A module has two functions. One is what Python calls (`element_calls`); the other does the work.
Its arguments are addresses, lengths and strides of arrays, no two of which overlap where one is
written, then numbers. It returns 0, 1 where the run ended early, 2 where a signal's handler has
raised.
"""

from __future__ import annotations

from collections.abc import Sequence

from fuser.backends.cpu import conversion, element_calls, element_threads
from fuser.backends.cpu.body import Body, Features, Module, Value, float_bits
from fuser.backends.cpu.element_calls import ENDED, INTERRUPTED, WANTED, Way
from fuser.backends.cpu.spelling import spell
from fuser.base.errors import Unsupported
from fuser.base.records import changed
from fuser.element_loops.code import (
    SHORT,
    Apart,
    Block,
    Check,
    Code,
    Constant,
    Expression,
    For,
    Fresh,
    Get,
    If,
    Leave,
    Length,
    Load,
    Operation,
    Point,
    Repeat,
    Set,
    Statement,
    Store,
    everything,
    has_loops,
    parts_in,
)
from fuser.element_loops.region import CONTIGUOUS, STRIDED
from fuser.element_loops.row_blocks import blocked
from fuser.element_loops.sharing import shared
from fuser.element_loops.unroll_and_jam import WIDTH, jammed

#: Turns of loops between two looks at Ctrl-C, iterations of innermost loops that count as one, and
#: how many are so few that nobody counts.
_TURNS, _ELEMENTS, _FEW = 1 << 16, 64, 256
#: Iterations of a small loop that a condition ends between two such looks, and the statements of
#: one that is small.
_COPIES, _SMALL = 4, 12
_FLOATS = ("float", "double")
#: Lines up to which loops as they stand are optimised, where others look at no index.
OPTIMISED_LINES = 1_000


def emit(code: Code, way: Way, name: str, features: Features, team: bool = False) -> str:
    """The module of an element loop.

    Args:
        code: what it does.
        way: how the arguments of its calls are.
        name: of the function that Python calls.
        features: what the processor can do.
        team: there are threads that may share its loops.

    Raises:
        Unsupported: an operation has no spelling.
    """
    module = Module(features)
    parts = [element_calls.emit(module, code, way, name)]
    if way.restored:
        parts.append(_Emitter(module, code, way.layouts, name).sure())
    whole = _Emitter(module, code, way.layouts, name)
    whole.team = team
    found = _versions(code)
    text = whole.text(code.body) if found is None else whole.text(found.then, test=found.test)
    module.functions += [*parts, text]
    module.functions += whole.shares
    return module.text()


def emit_rest(code: Code, way: Way, name: str, features: Features, team: bool = False) -> str:
    """The module of an element loop's function `rest`: its loops as they stand, see `_versions`.

    Few calls need it, and none is shared among threads. A long one is not optimised, in a tenth of
    the time.
    """
    module = Module(features)
    element_calls.declare(module)
    text = _Emitter(module, code, way.layouts, rest_of(name)).text(code.plain, alone=True)
    long = text.count("\n") > OPTIMISED_LINES
    module.functions.append(text.replace(" noinline ", " noinline optnone ", 1) if long else text)
    return module.text()


def rest_of(name: str) -> str:
    """The name of the function that runs a kernel's loops as they stand."""
    return f"{name}.rest"


def _versions(code: Code) -> If | None:
    """What chooses between loops that look at no index and the same as they stand; else None."""
    one = code.body[0] if len(code.body) == 1 else None
    return one if isinstance(one, If) and one.other == code.plain else None


class _Emitter:
    """Writes the function that does the work."""

    def __init__(self, module: Module, code: Code, layouts: str, name: str) -> None:
        self.b = Body(module)
        self.code, self.name = code, name
        lies = STRIDED if any(each != CONTIGUOUS for each in layouts) else CONTIGUOUS
        self.layouts = layouts + "".join(
            lies if array.chosen else CONTIGUOUS for array in code.arrays[len(layouts) :]
        )
        self.slots: dict[tuple[str, str], str] = {}
        self.labels: dict[int, str] = {}
        self.open = True
        self.depth = 0
        self.poll, self.team = "@poll()", False
        self.shares: list[str] = []
        self.rooms: list[str] = []

    def sure(self) -> str:
        """A function of the same arguments: whether no run ends early."""
        given = self._take_numbers()
        self.b.line(f"ret {self.value(self.code.sure).typed}")
        known = element_calls.parameters(self.code.arrays)
        listed = ", ".join([*(f"{kind} {text}" for kind, text in known), *given])
        head = [f"define internal i1 @{self.name}.sure({listed}) #0 {{", "entry:"]
        return "\n".join([*head, *self._allocated(), "  br label %begin", "begin:",
                          *self.b.lines, "}"])  # fmt: skip

    def _take_numbers(self) -> list[str]:
        """Set variables to what numbers are; these as parameters."""
        given: list[str] = []
        for place, number in enumerate(self.code.numbers):
            raw = Value(f"%number{place}", conversion.MEMORY[number.dtype], 1)
            given.append(raw.typed)
            value = conversion.from_memory(self.b, raw, number.dtype)
            self._set(number.slot, value, number.dtype)
        return given

    def _allocated(self) -> list[str]:
        """The variables."""
        slots = [f"  {slot} = alloca {conversion.REGISTER[dtype]}"
                 for (_, dtype), slot in self.slots.items()]  # fmt: skip
        return slots + self.rooms

    def _place(self, array: int) -> str:
        """The variable that says which array one stands for: its address and strides."""
        name, words = f"%place{array}", self.code.arrays[array].rank + 1
        room = f"  {name} = alloca [{words} x i64]\n  store i64 0, ptr {name}"
        if room not in self.rooms:
            self.rooms.append(room)
        return name

    def _told(self, array: int) -> list[Value]:
        """The address and the strides of an array."""
        known = self.code.arrays[array]
        kinds = ["ptr", *["i64"] * known.rank]
        if not known.chosen:
            texts = [f"%data{array}", *(f"%stride{array}.{k}" for k in range(known.rank))]
            return [Value(text, kind, 1) for text, kind in zip(texts, kinds, strict=True)]
        words = (self._word(self._place(array), place) for place in range(len(kinds)))
        return [self.b.value(f"load {kind}, ptr {at.text}", kind, 1)
                for kind, at in zip(kinds, words, strict=True)]  # fmt: skip

    def _length_of(self, array: int, axis: int) -> str:
        """The length of an axis."""
        known = self.code.arrays[array]
        array, axis = known.within[axis] if known.chosen else (array, axis)
        return f"%length{array}.{axis}"

    def _choose(self, one: Point | Fresh) -> None:
        """Have an array that is chosen stand for another one."""
        b = self.b
        if isinstance(one, Point):
            told = self._told(one.source)
        else:
            *others, last = (self._told(room) for room in one.rooms)
            held = [self._told(array)[0] for array in one.held]
            told = last
            for room in reversed(others):
                taken = b.constant_bits("i1", 1, 0)
                for each in held:
                    taken = b.op("or", taken, b.compare("icmp eq", room[0], each))
                told = [b.select(taken, other, own)
                        for own, other in zip(room, told, strict=True)]  # fmt: skip
        for place, each in enumerate(told):
            at = self._word(self._place(one.array), place)
            b.line(f"store {each.typed}, ptr {at.text}")

    def text(
        self, body: tuple[Statement, ...], test: Expression | None = None, alone: bool = False
    ) -> str:
        """The function that does the work.

        Args:
            body: its statements.
            test: where it does not hold, a function of another module does the work.
            alone: it is that function.
        """
        given = self._take_numbers()
        parameters = element_calls.parameters(self.code.arrays)
        if test is not None:
            self._leave_to_the_rest(self.value(test), [f"{k} {text}" for k, text in parameters],
                                    given)  # fmt: skip
        self._statements(self._arranged(body))
        if self.open:
            for place, result in enumerate(self.code.results):
                value = self._get(result.slot, result.dtype)
                self._to_word(self._word("%results", place), value, result.dtype)
            self.b.line("ret i64 0")
        arguments = [
            f"{kind} noalias {text}" if kind == "ptr" else f"{kind} {text}"
            for kind, text in parameters
        ]
        listed = ", ".join([*arguments, *given, "ptr noalias %results"])
        called = f"i64 @{self.name}" if alone else f"internal i64 @{self.name}.body"
        return self._function(f"{called}({listed})", "i64")

    def _function(self, head: str, kind: str) -> str:
        """The function of these statements, which gives why they have ended."""
        lines = [f"define {head} noinline #0 {{", "entry:", *self._allocated()]
        lines += ["  %turns = alloca i64", f"  store i64 {_TURNS}, ptr %turns", "  br label %begin"]
        ends = ["ended:", f"  ret {kind} {ENDED}", "interrupted:", f"  ret {kind} {INTERRUPTED}"]
        return "\n".join([*lines, "begin:", *self.b.lines, *ends, "}"])

    def _arranged(self, body: tuple[Statement, ...]) -> tuple[Statement, ...]:
        """Statements, with loops in the order that is best; some of them are shared."""
        arrays = self.code.arrays
        if any(array.chosen for array in arrays):  # two of which may be one
            return body
        body = blocked(body, arrays, lambda array: self.layouts[array] != STRIDED)
        if self.team:
            body = shared(body, self.code, lambda array: self.layouts[array] == CONTIGUOUS)
        return jammed(body)

    # -- threads ------------------------------------------------------------------------------

    def _shared(self, one: For) -> None:
        """A loop whose iterations are a function of their own, which threads may run."""
        b, name = self.b, f"{self.name}.share{len(self.shares)}"
        words = element_threads.Words(f"%block{len(self.shares)}")
        for kind, text in element_calls.parameters(self.code.arrays):
            words.put(b, Value(text, kind, 1))
        taken = {
            (part.slot, part.dtype): None
            for part in parts_in(everything((one,))) if isinstance(part, Get)
        }  # fmt: skip
        sets = {each.slot for each in everything(one.body) if isinstance(each, (Set, For))}
        taken = {pair: None for pair in taken if pair[0] not in {*sets, one.slot}}
        for slot, dtype in taken:
            words.put(b, conversion.to_memory(b, self._get(slot, dtype), dtype))
        start, stop = self.value(one.start), self.value(one.stop)
        words.put(b, start)
        self.rooms.append(words.room)
        part = _Emitter(b.module, self.code, self.layouts, name)
        text, unit = part.share(one, list(taken))
        self.shares.append(text)
        far = b.op("sub", stop, start)
        if one.step != 1:
            assert isinstance(one.step, int)
            up = b.op("add", far, b.iconst(far, one.step - 1))
            far = self._divided("floor_divide", up, one.step)
        status = words.run(b, name, far, unit, self._team())
        ended, on = b.label("stopped"), b.label("on")
        some = b.compare("icmp ne", status, b.iconst(status, 0))
        b.branch(some.text, ended, on)
        raised = b.compare("icmp uge", status, b.iconst(status, INTERRUPTED))
        b.branch(raised.text, "interrupted", "ended", on)

    def _team(self) -> Value:
        """Where the team's function and the number of its threads lie."""
        at = self._word("%results", max(1, len(self.code.results)))
        return self.b.value(f"load ptr, ptr {at.text}", "ptr", 1)

    def share(self, one: For, taken: Sequence[tuple[str, str]]) -> tuple[str, int]:
        """The functions of some iterations of a loop: what threads call, and what does the work.

        How many of them run together is given, too.

        Args:
            one: the loop.
            taken: variables that it reads, which are words after what tells of arrays.
        """
        b, self.poll = self.b, "@poll.shared(ptr %block)"
        known = element_calls.parameters(self.code.arrays)
        place = len(known)
        for slot, dtype in taken:
            raw = element_threads.get(b, place, conversion.MEMORY[dtype])
            self._set(slot, conversion.from_memory(b, raw, dtype), dtype)
            place += 1
        start = element_threads.get(b, place, "i64")
        assert isinstance(one.step, int)
        ends = []
        for each in ("first", "last"):
            far = b.op("mul", Value(f"%{each}", "i64", 1), b.iconst(start, one.step))
            self._set(f"share {each}", b.op("add", start, far), "int64")
            ends.append(Get(f"share {each}", "int64"))
        loop = changed(one, start=ends[0], stop=ends[1], shared=False)
        body = jammed((loop,))
        self._statements(body)
        own = (each for each in everything(body) if isinstance(each, For) and each.slot == one.slot)
        unit = WIDTH if any(each.step == WIDTH for each in own) else 1
        b.line("ret i32 0")
        kinds = {"ptr": "ptr noalias"}
        given = ", ".join(f"{kinds.get(kind, kind)} {text}" for kind, text in known)
        head = f"internal i32 @{self.name}.work({given}, ptr %block, i64 %first, i64 %last)"
        entry = element_threads.entry(self.name, known)
        return "\n\n".join([entry, self._function(head, "i32")]), unit

    def _leave_to_the_rest(self, test: Value, *given: Sequence[str]) -> None:
        """Call the other function where a test does not hold, once it is compiled."""
        b = self.b
        known, rest, there, none = (b.label(each) for each in ("known", "rest", "there", "none"))
        b.branch(test.text, known, rest, rest)
        at = self._word("%results", max(1, len(self.code.results)) + 1)
        called = b.value(f"load ptr, ptr {at.text}", "ptr", 1)
        b.branch(b.compare("icmp eq", called, Value("null", "ptr", 1)).text, none, there, none)
        b.line(f"ret i64 {WANTED}")
        b.start(there)
        listed = ", ".join([*(each for some in given for each in some), "ptr %results"])
        found = b.value(f"call i64 {called.text}({listed})", "i64", 1)
        b.line(f"ret {found.typed}")
        b.start(known)

    # -- words and variables ----------------------------------------------------------------

    def _word(self, base: str, place: int) -> Value:
        """The address of a word."""
        return self.b.value(f"getelementptr i8, ptr {base}, i64 {8 * place}", "ptr", 1)

    def _from_word(self, at: Value, dtype: str) -> Value:
        """Read a number."""
        kind = conversion.MEMORY[dtype]
        raw = self.b.value(f"load {kind}, ptr {at.text}", kind, 1)
        return conversion.from_memory(self.b, raw, dtype)

    def _to_word(self, at: Value, value: Value, dtype: str) -> None:
        """Write a number."""
        raw = conversion.to_memory(self.b, value, dtype)
        self.b.line(f"store {raw.typed}, ptr {at.text}")

    def _slot(self, slot: str, dtype: str) -> str:
        """Where a variable is."""
        return self.slots.setdefault((slot, dtype), f"%slot{len(self.slots)}")

    def _get(self, slot: str, dtype: str) -> Value:
        """What a variable holds."""
        kind = conversion.REGISTER[dtype]
        return self.b.value(f"load {kind}, ptr {self._slot(slot, dtype)}", kind, 1)

    def _set(self, slot: str, value: Value, dtype: str) -> None:
        """Give a variable a value."""
        self.b.line(f"store {value.typed}, ptr {self._slot(slot, dtype)}")

    # -- statements ---------------------------------------------------------------------------

    def _go(self, label: str) -> None:
        """Go on at a label."""
        self.b.line(f"br label %{label}")
        self.open = False

    def _start(self, label: str) -> None:
        """What follows stands at a label."""
        if self.open:
            self._go(label)
        self.b.start(label)
        self.open = True

    def _unless(self, bad: Value) -> None:
        """Go elsewhere if something holds."""
        on = self.b.label("on")
        self.b.branch(bad.text, "ended", on, on)

    def _statements(self, body: Sequence[Statement]) -> None:
        """Statements one after another."""
        for each in body:
            if not self.open:
                return
            self._statement(each)

    def _statement(self, one: Statement) -> None:
        """One statement."""
        b = self.b
        if isinstance(one, Set):
            self._set(one.slot, self.value(one.value), one.value.dtype)
        elif isinstance(one, Store):
            dtype = self.code.arrays[one.array].dtype
            raw = conversion.to_memory(b, self.value(one.value), dtype)
            at = self._address(one.array, one.indices, one.checked)
            b.line(f"store {raw.typed}, ptr {at.text}")
        elif isinstance(one, (Point, Fresh)):
            self._choose(one)
        elif isinstance(one, Apart):
            places = (self._told(array)[0] for array in (one.array, one.other))
            self._unless(b.compare("icmp eq", *places))
        elif isinstance(one, Check):
            test = self.value(one.test)
            on = b.label("on")
            b.branch(test.text, on, "ended")
        elif isinstance(one, If):
            then, other, after = b.label("then"), b.label("else"), b.label("after")
            test = self.value(one.test)
            b.line(f"br i1 {test.text}, label %{then}, label %{other}")
            reached = False
            for label, body in ((then, one.then), (other, one.other)):
                b.start(label)
                self.open = True
                self._statements(body)
                if self.open:
                    self._go(after)
                    reached = True
            if reached:
                b.start(after)
            self.open = reached
        elif isinstance(one, Block):
            label = self.labels[one.label] = b.label("end")
            left = len(b.lines)
            self._statements(one.body)
            if self.open or any(f"label %{label}" in line for line in b.lines[left:]):
                self._start(label)
        elif isinstance(one, Leave):
            self._go(self.labels[one.label])
        elif isinstance(one, Repeat):
            outer, again = b.label("outer"), b.label("again")
            self._start(outer)
            self._start(again)
            self.depth += 1
            for _ in range(_COPIES if _is_small(one.body) else 1):
                self._statements(one.body)
            self.depth -= 1
            if self.open:
                self._again(again, outer)
        elif one.shared:
            self._shared(one)
        else:
            self._for(one)

    def _for(self, one: For) -> None:
        """A loop over integers."""
        b = self.b
        start, stop = self.value(one.start), self.value(one.stop)
        step = b.iconst(start, one.step) if isinstance(one.step, int) else self.value(one.step)
        up = not isinstance(one.step, int) or one.step > 0
        self._set(one.slot, start, "int64")
        if (count := _iterations(one)) is not None and count <= _FEW:
            self._counted(one, stop, step, up, None)
            return
        if has_loops(one.body) and not one.short:
            outer = b.label("outer")
            self._start(outer)
            self._counted(one, stop, step, up, outer)
            return
        if self.depth:
            self._charge(start, stop, up)
        if one.short:
            self._counted(one, stop, step, up, None)
            return
        # So many elements at a time, after which Ctrl-C is looked at.
        part, last, next_part = b.label("part"), b.label("last"), b.label("next")
        b.jump(part)
        index = self._get(one.slot, "int64")
        left = b.op("sub", stop, index) if up else b.op("sub", index, stop)
        most = b.iconst(index, SHORT)
        end = b.op("add" if up else "sub", index, most)
        end = b.select(b.compare("icmp sgt", left, most), end, stop)
        self._counted(one, end, step, up, None)
        index = self._get(one.slot, "int64")
        more = b.compare("icmp slt" if up else "icmp sgt", index, stop)
        b.branch(more.text, next_part, last)
        self._look(part)
        b.start(last)
        self.open = True

    def _charge(self, start: Value, stop: Value, up: bool) -> None:
        """Count what the iterations of a loop take."""
        b = self.b
        far = b.op("sub", stop, start) if up else b.op("sub", start, stop)
        far = b.select(b.compare("icmp slt", far, b.iconst(far, 0)), b.iconst(far, 0), far)
        cost = b.op("lshr", far, b.iconst(far, _ELEMENTS.bit_length() - 1))
        left = b.value("load i64, ptr %turns", "i64", 1)
        b.line(f"store {b.op('sub', left, cost).typed}, ptr %turns")

    def _counted(
        self, one: For, stop: Value, step: Value, up: bool, poll: str | None
    ) -> None:
        """A loop whose index has its first value; `poll`: where looks at Ctrl-C lead to."""
        b = self.b
        head, work, done = b.label("head"), b.label("work"), b.label("done")
        self._start(head)
        index = self._get(one.slot, "int64")
        more = b.compare("icmp slt" if up else "icmp sgt", index, stop)
        b.branch(more.text, work, done)
        self.depth += 1
        self._statements(one.body)
        self.depth -= 1
        if self.open:
            now = self._get(one.slot, "int64")
            self._set(one.slot, b.value(f"add nsw i64 {now.text}, {step.text}", "i64", 1), "int64")
            if poll is None:
                self._go(head)
            else:
                self._again(head, poll)
        b.start(done)
        self.open = True

    def _again(self, head: str, after: str) -> None:
        """Go on with the next iteration; look at Ctrl-C now and then, and go on outside."""
        b = self.b
        left = b.value("load i64, ptr %turns", "i64", 1)
        fewer = b.op("sub", left, b.iconst(left, 1))
        b.line(f"store {fewer.typed}, ptr %turns")
        out = b.compare("icmp slt", fewer, b.iconst(fewer, 0))
        look = b.label("look")
        b.branch(out.text, look, head)
        self._look(after)

    def _look(self, then: str) -> None:
        """Look at Ctrl-C, and go on elsewhere."""
        b = self.b
        b.line(f"store i64 {_TURNS}, ptr %turns")
        seen = b.value(f"call i1 {self.poll}", "i1", 1)
        b.line(f"br i1 {seen.text}, label %interrupted, label %{then}")
        self.open = False

    # -- elements -------------------------------------------------------------------------------

    def _address(self, array: int, indices: Sequence[Expression], checked: bool) -> Value:
        """Where an element is; the run ends where an index is outside."""
        b = self.b
        known = self.code.arrays[array]
        places = [self.value(index) for index in indices]
        if checked:
            for axis, place in enumerate(places):
                length = self._length_of(array, axis)
                self._unless(b.value(f"icmp uge i64 {place.text}, {length}", "i1", 1))
        layout, kind = self.layouts[array], conversion.MEMORY[known.dtype]
        base, *strides = self._told(array)
        if layout == CONTIGUOUS and known.rank > 1:
            place = places[0]
            for axis, each in enumerate(places[1:], 1):
                row = b.value(f"mul i64 {place.text}, {self._length_of(array, axis)}", "i64", 1)
                place = b.value(f"add i64 {row.text}, {each.text}", "i64", 1)
            places = [place]
        elif layout != CONTIGUOUS:
            whole = places if layout == STRIDED else places[:-1]
            for axis, each in enumerate(whole):
                step = b.value(f"mul i64 {each.text}, {strides[axis].text}", "i64", 1)
                base = b.value(f"getelementptr i8, ptr {base.text}, i64 {step.text}", "ptr", 1)
            places = [] if layout == STRIDED else places[-1:]
        for place in places:
            text = f"getelementptr {kind}, ptr {base.text}, i64 {place.text}"
            base = b.value(text, "ptr", 1)
        return base

    # -- expressions ----------------------------------------------------------------------------

    def value(self, one: Expression) -> Value:
        """What an expression gives, in a register."""
        b = self.b
        if isinstance(one, Constant):
            kind = conversion.REGISTER[one.dtype]
            if kind in _FLOATS:
                return b.constant_bits(kind, 1, float_bits(kind, float(one.value)))
            return b.constant_bits(kind, 1, int(one.value) & (2**64 - 1) if kind == "i64"
                                   else int(one.value) & ((1 << int(kind[1:])) - 1))  # fmt: skip
        if isinstance(one, Get):
            return self._get(one.slot, one.dtype)
        if isinstance(one, Length):
            return Value(self._length_of(one.array, one.axis), "i64", 1)
        if isinstance(one, Load):
            at = self._address(one.array, one.indices, one.checked)
            return self._from_word(at, one.dtype)
        return self._operation(one)

    def _operation(self, one: Operation) -> Value:
        """An operation."""
        b, name, dtype = self.b, one.name, one.dtype
        args = [self.value(arg) for arg in one.args]
        if name == "convert":
            return conversion.convert(b, args[0], one.args[0].dtype, dtype)
        if name == "nonzero":
            return conversion.convert(b, args[0], one.args[0].dtype, "bool")
        if name == "checked_convert":
            return self._held(args[0], one.args[0].dtype, dtype)
        if name == "truncated":
            return self._truncated(args[0])
        if name == "add_in_any_order":
            if dtype.startswith("float"):
                kind = args[0].scalar
                return b.value(f"fadd reassoc {args[0].typed}, {args[1].text}", kind, 1)
            return spell(b, "add", dtype, args)
        if name == "select":
            return b.select(*args)
        if name.startswith("exact_"):
            word = {"exact_add": "add", "exact_subtract": "sub"}.get(name, "mul")
            return b.value(f"{word} nsw {args[0].typed}, {args[1].text}", args[0].scalar, 1)
        if name.startswith("positive_"):
            return self._divided_by(name.removeprefix("positive_"), *args)
        if name in ("floor_divide", "remainder") and dtype.startswith("int"):
            divisor = one.args[1]
            if isinstance(divisor, Constant) and divisor.value > 0:
                return self._divided(name, args[0], int(divisor.value))
        if name.startswith("checked_"):
            return self._checked(name.removeprefix("checked_"), dtype, args)
        return spell(b, name, one.args[-1].dtype, args)

    def _divided(self, name: str, x: Value, divisor: int) -> Value:
        """A signed integer divided by a positive constant, rounded down; or what is left."""
        b = self.b
        if divisor & (divisor - 1) == 0:
            if name == "remainder":
                return b.op("and", x, b.iconst(x, divisor - 1))
            return b.op("ashr", x, b.iconst(x, divisor.bit_length() - 1))
        return self._divided_by(name, x, b.iconst(x, divisor))

    def _divided_by(self, name: str, x: Value, divisor: Value) -> Value:
        """A signed integer divided by a positive one, rounded down; or what is left."""
        b = self.b
        left = b.op("srem", x, divisor)
        below = b.op("ashr", left, b.iconst(x, int(x.scalar[1:]) - 1))
        if name == "remainder":
            return b.op("add", left, b.op("and", below, divisor))
        return b.op("add", b.op("sdiv", x, divisor), below)

    def _held(self, x: Value, source: str, target: str) -> Value:
        """A value in another dtype, which has to hold it exactly."""
        b = self.b
        if source == "bool":
            return conversion.convert(b, x, source, target)
        made = conversion.convert(b, x, source, target)
        if source.startswith("float"):
            back = conversion.convert(b, made, target, source)
            same = b.compare("fcmp ueq", x, back)
        elif target.startswith("float"):
            limit = 53 if target == "float64" else 24
            wide = conversion.convert(b, x, source, "int64")
            moved = b.op("add", wide, b.iconst(wide, 1 << limit))
            same = b.compare("icmp ule", moved, b.iconst(wide, 2 << limit))
        else:
            back = conversion.convert(b, made, target, source)
            same = b.compare("icmp eq", x, back)
            if source.startswith("u") != target.startswith("u"):
                kind = made if source.startswith("u") else x
                positive = b.compare("icmp sge", kind, b.iconst(kind, 0))
                same = b.op("and", same, positive)
        self._unless(b.op("xor", same, b.constant_bits("i1", 1, 1)))
        return made

    def _truncated(self, x: Value) -> Value:
        """An integer of 64 bits from a float, towards zero."""
        b = self.b
        inside = b.compare("fcmp olt", b.intrinsic("llvm.fabs", x), b.fconst(x, 2.0**63))
        self._unless(b.op("xor", inside, b.constant_bits("i1", 1, 1)))
        return b.cast("fptosi", x, "i64")

    def _checked(self, name: str, dtype: str, args: list[Value]) -> Value:
        """An operation of Python's, which raises, or has results of more than 64 bits."""
        b = self.b
        x = args[0]
        if dtype.startswith("float"):
            return self._checked_float(name, dtype, args)
        zero = b.iconst(x, 0)
        if name in ("add", "subtract", "multiply"):
            return self._overflowing({"add": "add", "subtract": "sub"}.get(name, "mul"), *args)
        if name == "negative":
            return self._overflowing("sub", zero, x)
        if name == "absolute":
            minus = self._overflowing("sub", zero, x)
            return b.select(b.compare("icmp slt", x, zero), minus, x)
        y = args[1]
        if name in ("floor_divide", "remainder"):
            self._unless(b.compare("icmp eq", y, b.iconst(y, 0)))
            if name == "floor_divide":
                least = b.compare("icmp eq", x, b.iconst(x, -(2**63)))
                minus = b.compare("icmp eq", y, b.iconst(y, -1))
                self._unless(b.op("and", least, minus))
            return spell(b, name, dtype, args)
        self._unless(b.compare("icmp slt", y, b.iconst(y, 0)))
        if name == "right_shift":
            return spell(b, name, dtype, args)
        if name == "left_shift":
            self._unless(b.compare("icmp sge", y, b.iconst(y, 64)))
            made = b.op("shl", x, y)
            same = b.compare("icmp ne", b.op("ashr", made, y), x)
            self._unless(same)
            return made
        if name == "power":
            return self._power(x, y)
        raise Unsupported(
            "unsupported-op", name, "a loop over elements cannot have this operation", ""
        )

    def _overflowing(self, name: str, x: Value, y: Value) -> Value:
        """An operation whose result has to have 64 bits."""
        b = self.b
        symbol = f"llvm.s{name}.with.overflow.i64"
        b.module.declare(symbol, "{ i64, i1 }", ("i64", "i64"))
        pair = b.value(f"call {{ i64, i1 }} @{symbol}({x.typed}, {y.typed})", "pair", 1)
        over = b.value(f"extractvalue {{ i64, i1 }} {pair.text}, 1", "i1", 1)
        self._unless(over)
        return b.value(f"extractvalue {{ i64, i1 }} {pair.text}, 0", "i64", 1)

    def _power(self, x: Value, y: Value) -> Value:
        """A power of an integer, by squaring; it ends the run where a product overflows."""
        b = self.b
        total, base, left = (self._slot(f"power {b.label('p')}", "int64") for _ in range(3))
        for slot, value in ((total, b.iconst(x, 1)), (base, x), (left, y)):
            b.line(f"store {value.typed}, ptr {slot}")
        head, odd, even, more, done = map(b.label, ("head", "odd", "even", "more", "done"))
        b.jump(head)
        n = b.value(f"load i64, ptr {left}", "i64", 1)
        some = b.compare("icmp ne", n, b.iconst(n, 0))
        b.branch(some.text, more, done)
        bit = b.compare("icmp ne", b.op("and", n, b.iconst(n, 1)), b.iconst(n, 0))
        b.branch(bit.text, odd, even)
        product = self._overflowing(
            "mul", b.value(f"load i64, ptr {total}", "i64", 1),
            b.value(f"load i64, ptr {base}", "i64", 1),
        )  # fmt: skip
        b.line(f"store {product.typed}, ptr {total}")
        b.jump(even)
        rest = b.op("lshr", n, b.iconst(n, 1))
        b.line(f"store {rest.typed}, ptr {left}")
        last, again = b.compare("icmp eq", rest, b.iconst(n, 0)), b.label("square")
        b.branch(last.text, done, again, again)
        factor = b.value(f"load i64, ptr {base}", "i64", 1)
        b.line(f"store {self._overflowing('mul', factor, factor).typed}, ptr {base}")
        b.jump(head, done)
        return b.value(f"load i64, ptr {total}", "i64", 1)

    def _checked_float(self, name: str, dtype: str, args: list[Value]) -> Value:
        """An operation of Python's on floats: a zero divisor, or finite numbers that give none."""
        b = self.b
        if name in ("divide", "floor_divide", "remainder"):
            self._unless(b.compare("fcmp oeq", args[1], b.fconst(args[1], 0.0)))
            return spell(b, name, dtype, args)
        if dtype == "float64" and name == "negative":
            return spell(b, name, dtype, args)
        made = spell(b, name, dtype, args)
        infinite = b.fconst(made, float("inf"))

        def finite(x: Value) -> Value:
            return b.compare("fcmp one", b.intrinsic("llvm.fabs", x), infinite)

        bad = b.op("xor", finite(made), b.constant_bits("i1", 1, 1))
        for arg in args:
            bad = b.op("and", bad, finite(arg))
        self._unless(bad)
        return made


def _is_small(body: tuple[Statement, ...]) -> bool:
    """Whether statements are few, and no loops."""
    return not has_loops(body) and sum(1 for _ in everything(body)) <= _SMALL


def _iterations(one: For) -> int | None:
    """How many iterations a loop has, with those in it; None where only the run tells."""
    if not isinstance(one.start, Constant) or not isinstance(one.stop, Constant):
        return None
    count = abs(int(one.stop.value) - int(one.start.value))
    for each in everything(one.body):
        if isinstance(each, Repeat):
            return None
        if isinstance(each, For):
            inside = _iterations(each)
            if inside is None:
                return None
            count *= max(1, inside)
    return count
