"""Element loops as LLVM IR text: scalar code, which LLVM's own passes optimise.

A module has two functions. One is what Python calls (`element_calls`); the other does the work.
Its arguments are addresses, lengths and strides of arrays, no two of which overlap where one is
written, then numbers. It returns 0, 1 where the run ended early, 2 where a signal's handler has
raised.
"""

from __future__ import annotations

from collections.abc import Sequence

from fuser.backends.cpu import conversion, element_calls
from fuser.backends.cpu.body import Body, Features, Module, Value, float_bits
from fuser.backends.cpu.element_calls import ENDED, INTERRUPTED, Way
from fuser.backends.cpu.spelling import spell
from fuser.base.errors import Unsupported
from fuser.element_loops.code import (
    SHORT,
    Block,
    Check,
    Code,
    Constant,
    Expression,
    For,
    Get,
    If,
    Leave,
    Length,
    Load,
    Operation,
    Repeat,
    Set,
    Statement,
    Store,
    everything,
    has_loops,
)
from fuser.element_loops.region import CONTIGUOUS, STRIDED
from fuser.element_loops.row_blocks import blocked
from fuser.element_loops.unroll_and_jam import jammed

#: Turns of loops between two looks at Ctrl-C, iterations of innermost loops that count as one, and
#: how many are so few that nobody counts.
_TURNS, _ELEMENTS, _FEW = 1 << 16, 64, 256
#: Iterations of a small loop that a condition ends between two such looks, and the statements of
#: one that is small.
_COPIES, _SMALL = 4, 12
_FLOATS = ("float", "double")
#: Lines up to which loops as they stand are optimised, where others look at no index.
OPTIMISED_LINES = 1_000


def emit(code: Code, way: Way, name: str, features: Features) -> str:
    """The module of an element loop.

    Args:
        code: what it does.
        way: how the arguments of its calls are.
        name: of the function that Python calls.
        features: what the processor can do.

    Raises:
        Unsupported: an operation has no spelling.
    """
    module = Module(features)
    parts = [element_calls.emit(module, code, way, name)]
    if way.restored:
        parts.append(_Emitter(module, code, way.layouts, name).sure())
    whole = _Emitter(module, code, way.layouts, name)
    if (found := _versions(code)) is not None:
        rest = _Emitter(module, code, way.layouts, f"{name}.rest")
        text = rest.text(code.plain)
        parts.append(text.replace(" noinline ", " noinline optnone ", 1)
                     if text.count("\n") > OPTIMISED_LINES else text)  # fmt: skip
        module.functions += [*parts, whole.text(found.then, test=found.test)]
    else:
        module.functions += [*parts, whole.text(code.body)]
    return module.text()


def _versions(code: Code) -> If | None:
    """What chooses between loops that look at no index and the same as they stand; else None."""
    one = code.body[0] if len(code.body) == 1 else None
    return one if isinstance(one, If) and one.other == code.plain else None


class _Emitter:
    """Writes the function that does the work."""

    def __init__(self, module: Module, code: Code, layouts: str, name: str) -> None:
        self.b = Body(module)
        self.code, self.name = code, name
        self.layouts = layouts.ljust(len(code.arrays), CONTIGUOUS)  # scratch memory is
        self.slots: dict[tuple[str, str], str] = {}
        self.labels: dict[int, str] = {}
        self.open = True
        self.depth = 0

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
        return [f"  {slot} = alloca {conversion.REGISTER[dtype]}"
                for (_, dtype), slot in self.slots.items()]  # fmt: skip

    def text(
        self, body: tuple[Statement, ...], test: Expression | None = None
    ) -> str:
        """The function that does the work.

        Args:
            body: its statements.
            test: where it does not hold, a second function does the work: the loops as they stand,
                which few calls need. A long one is not optimised, in a tenth of the time.
        """
        given = self._take_numbers()
        parameters = element_calls.parameters(self.code.arrays)
        if test is not None:
            self._leave_to_the_rest(self.value(test), [f"{k} {text}" for k, text in parameters],
                                    given)  # fmt: skip
        by_rows = lambda array: self.layouts[array] != STRIDED  # noqa: E731
        body = blocked(body, self.code.arrays, by_rows)
        self._statements(jammed(body, self.code.arrays))
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
        head = [f"define internal i64 @{self.name}.body({listed}) noinline #0 {{", "entry:"]
        head += self._allocated()
        head += ["  %turns = alloca i64", f"  store i64 {_TURNS}, ptr %turns", "  br label %begin"]
        ends = ["ended:", f"  ret i64 {ENDED}", "interrupted:", f"  ret i64 {INTERRUPTED}", "}"]
        return "\n".join([*head, "begin:", *self.b.lines, *ends])

    def _leave_to_the_rest(self, test: Value, *given: Sequence[str]) -> None:
        """Call the other function where a test does not hold."""
        b = self.b
        known, rest = b.label("known"), b.label("rest")
        b.line(f"br i1 {test.text}, label %{known}, label %{rest}")
        b.start(rest)
        listed = ", ".join([*(each for some in given for each in some), "ptr %results"])
        found = b.value(f"call i64 @{self.name}.rest.body({listed})", "i64", 1)
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

    def _unless(self, bad: Value, target: str = "ended") -> None:
        """Go elsewhere if something holds."""
        on = self.b.label("on")
        self.b.line(f"br i1 {bad.text}, label %{target}, label %{on}")
        self.b.start(on)

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
        elif isinstance(one, Check):
            test = self.value(one.test)
            on = b.label("on")
            b.line(f"br i1 {test.text}, label %{on}, label %ended")
            b.start(on)
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
        b.line(f"br label %{part}")
        b.start(part)
        index = self._get(one.slot, "int64")
        left = b.op("sub", stop, index) if up else b.op("sub", index, stop)
        most = b.iconst(index, SHORT)
        end = b.op("add" if up else "sub", index, most)
        end = b.select(b.compare("icmp sgt", left, most), end, stop)
        self._counted(one, end, step, up, None)
        index = self._get(one.slot, "int64")
        more = b.compare("icmp slt" if up else "icmp sgt", index, stop)
        b.line(f"br i1 {more.text}, label %{next_part}, label %{last}")
        b.start(next_part)
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
        b.line(f"br i1 {more.text}, label %{work}, label %{done}")
        b.start(work)
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
        b.line(f"br i1 {out.text}, label %{look}, label %{head}")
        b.start(look)
        self._look(after)

    def _look(self, then: str) -> None:
        """Look at Ctrl-C, and go on elsewhere."""
        b = self.b
        b.line(f"store i64 {_TURNS}, ptr %turns")
        seen = b.value("call i1 @poll()", "i1", 1)
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
                length = f"%length{array}.{axis}"
                self._unless(b.value(f"icmp uge i64 {place.text}, {length}", "i1", 1))
        layout, kind = self.layouts[array], conversion.MEMORY[known.dtype]
        base = Value(f"%data{array}", "ptr", 1)
        if layout == CONTIGUOUS and known.rank > 1:
            place = places[0]
            for axis, each in enumerate(places[1:], 1):
                row = b.value(f"mul i64 {place.text}, %length{array}.{axis}", "i64", 1)
                place = b.value(f"add i64 {row.text}, {each.text}", "i64", 1)
            places = [place]
        elif layout != CONTIGUOUS:
            whole = places if layout == STRIDED else places[:-1]
            for axis, each in enumerate(whole):
                step = b.value(f"mul i64 {each.text}, %stride{array}.{axis}", "i64", 1)
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
            return Value(f"%length{one.array}.{one.axis}", "i64", 1)
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
        b.line(f"br label %{head}")
        b.start(head)
        n = b.value(f"load i64, ptr {left}", "i64", 1)
        some = b.compare("icmp ne", n, b.iconst(n, 0))
        b.line(f"br i1 {some.text}, label %{more}, label %{done}")
        b.start(more)
        bit = b.compare("icmp ne", b.op("and", n, b.iconst(n, 1)), b.iconst(n, 0))
        b.line(f"br i1 {bit.text}, label %{odd}, label %{even}")
        b.start(odd)
        product = self._overflowing(
            "mul", b.value(f"load i64, ptr {total}", "i64", 1),
            b.value(f"load i64, ptr {base}", "i64", 1),
        )  # fmt: skip
        b.line(f"store {product.typed}, ptr {total}")
        b.line(f"br label %{even}")
        b.start(even)
        rest = b.op("lshr", n, b.iconst(n, 1))
        b.line(f"store {rest.typed}, ptr {left}")
        last, again = b.compare("icmp eq", rest, b.iconst(n, 0)), b.label("square")
        b.line(f"br i1 {last.text}, label %{done}, label %{again}")
        b.start(again)
        factor = b.value(f"load i64, ptr {base}", "i64", 1)
        b.line(f"store {self._overflowing('mul', factor, factor).typed}, ptr {base}")
        b.line(f"br label %{head}")
        b.start(done)
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
