"""The native call of an element loop, as LLVM IR text: from Python's arguments to its results.

`ptr @name(ptr self, ptr args, i64 count, ptr names)` is a vectorcall function. Its arguments are
the loop's arrays, then its numbers. It compares each with what the code was made for, and that no
array that is written overlaps another; it gives `missed` where one is different, or where the run
has ended early, with arrays as they were. Else it gives the numbers that the loop leaves, as NumPy
scalars: none, one, or a tuple of them. It writes into the arrays that it is given.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from fuser.backends.cpu import conversion
from fuser.backends.cpu.body import Module
from fuser.backends.cpu.machine import layout
from fuser.base.records import record
from fuser.element_loops.code import Array, Code, Repeat, everything
from fuser.element_loops.kinds import GIVEN
from fuser.element_loops.region import CONTIGUOUS, ROWS

#: What a run gives: 0, why it has ended, or that it needs loops which are not compiled yet.
ENDED, INTERRUPTED, WANTED = 1, 2, 3
#: Elements from which on other threads of Python's may run meanwhile.
_MANY = 4096
#: Bytes from which on memory comes from the pool.
_POOLED = 1 << 16
_ALIGNED = 0x100
#: Words of the table that a call finds in its object; after them the types that numbers may have,
#: two for each, and the dtype of each result.
WORDS = (
    "ndarray", "missed", "none", "new_scalar", "pool_malloc", "pool_free", "restores", "mode",
    "mode_seen", "team", "helpers", "rest", "make_rest",
)  # fmt: skip
_SYMBOLS = {
    "PyErr_CheckSignals": ("i32", ()),
    "PyEval_RestoreThread": ("void", ("ptr",)),
    "PyEval_SaveThread": ("ptr", ()),
    "PyGILState_Ensure": ("i32", ()),
    "PyGILState_Release": ("void", ("i32",)),
    "PyLong_AsLongLongAndOverflow": ("i64", ("ptr", "ptr")),
    "PyObject_CallObject": ("ptr", ("ptr", "ptr")),
    "PyTuple_New": ("ptr", ("i64",)),
    "PyTuple_SetItem": ("i32", ("ptr", "i64", "ptr")),
    "Py_DecRef": ("void", ("ptr",)),
    "Py_IncRef": ("void", ("ptr",)),
    "free": ("void", ("ptr",)),
    "malloc": ("ptr", ("i64",)),
    "memcpy": ("ptr", ("ptr", "ptr", "i64")),
}


@record
class Way:
    """How a call's arguments are.

    Attributes:
        layouts: how each array lies, a letter for each.
        dtypes: NumPy's number of each array's dtype.
        restored: the places of arrays that are as they were where a run ends early, if a word of
            the table says so: the first call, on copies, and later ones have one machine code.
    """

    layouts: str
    dtypes: tuple[int, ...]
    restored: frozenset[int]


def parameters(arrays: Sequence[Array]) -> list[tuple[str, str]]:
    """Types and names of the arguments of the function that does the work, which tell of arrays."""
    found: list[tuple[str, str]] = []
    for place, array in enumerate(arrays):
        if array.chosen:
            continue
        found.append(("ptr", f"%data{place}"))
        for axis in range(array.rank):
            found.append(("i64", f"%length{place}.{axis}"))
            found.append(("i64", f"%stride{place}.{axis}"))
    return found


def emit(module: Module, code: Code, way: Way, name: str) -> str:
    """The function that Python calls."""
    declare(module)
    return layout.spell_out(_Call(code, way, name).text())


def declare(module: Module) -> None:
    """Declare what loops call."""
    for symbol, (result, arguments) in _SYMBOLS.items():
        module.declare(symbol, result, arguments)
    module.helpers |= _HELPERS


_HELPERS = {
    "poll": """define internal i1 @poll() noinline cold #0 {
  %state = call i32 @PyGILState_Ensure()
  %thread = call ptr @PyEval_SaveThread()  ; others may run, where nobody let them before
  call void @PyEval_RestoreThread(ptr %thread)
  %raised = call i32 @PyErr_CheckSignals()
  call void @PyGILState_Release(i32 %state)
  %found = icmp ne i32 %raised, 0
  ret i1 %found
}""",
    "take": f"""define internal ptr @take(ptr %pool, i64 %size) noinline #0 {{
  %large = icmp uge i64 %size, {_POOLED}
  %there = icmp ne ptr %pool, null
  %pooled = and i1 %large, %there
  br i1 %pooled, label %big, label %small
big:
  %found = call ptr %pool(ptr null, i64 %size)
  ret ptr %found
small:
  %some = add i64 %size, 1
  %made = call ptr @malloc(i64 %some)
  ret ptr %made
}}""",
    "give": f"""define internal void @give(ptr %pool, ptr %memory, i64 %size) noinline #0 {{
  %large = icmp uge i64 %size, {_POOLED}
  %there = icmp ne ptr %pool, null
  %pooled = and i1 %large, %there
  br i1 %pooled, label %big, label %small
big:
  call void %pool(ptr null, ptr %memory, i64 %size)
  ret void
small:
  call void @free(ptr %memory)
  ret void
}}""",
}


class _Call:
    """Writes that function."""

    def __init__(self, code: Code, way: Way, name: str) -> None:
        self.code, self.way, self.name = code, way, name
        self.operands = code.operands
        self.lines: list[str] = []
        self._count = 0
        self._taken: list[tuple[str, str]] = []

    def text(self) -> str:
        """All of it."""
        code, count = self.code, len(self.operands) + len(self.code.numbers)
        self._add("%table = get ptr %self FUNCTION.context")
        for place, word in enumerate(WORDS):
            self._add(f"%{word} = get ptr %table {8 * place}")
        self._add("%given = and i64 %count, 9223372036854775807")
        self._need(f"icmp eq i64 %given, {count}")
        self._need("icmp eq ptr %names, null")
        for place in range(len(self.operands)):
            self._array(place)
        own = {place: array for place, array in enumerate(code.arrays) if not array.chosen}
        for place, array in own.items():
            if array.within:
                self._lengths_of_scratch(place)
            self._extent(place)
        for place, array in enumerate(self.operands):
            for other in range(len(self.operands)):
                if array.written and (other < place or not self.operands[other].written):
                    self._apart(place, other)
        for place in range(len(code.numbers)):
            self._number(place)
        for place, array in own.items():
            if array.within:
                self._take(f"%data{place}", f"%bytes{place}")
        if self.way.restored:
            self._add(f"%sure = call i1 @{self.name}.sure({', '.join(self._given())})")
            self._add("%copies = icmp eq ptr %restores, null")
            self._add("%spare = or i1 %sure, %copies")
        for place in sorted(self.way.restored):
            self._add(f"%held{place} = select i1 %spare, i64 0, i64 %bytes{place}")
            self._take(f"%kept{place}", f"%held{place}")
            self._add(f"call ptr @memcpy(ptr %kept{place}, ptr %data{place}, i64 %held{place})",
                      "copied")  # fmt: skip
        self._run()
        self._results()
        head = f"define ptr @{self.name}(ptr %self, ptr %args, i64 %count, ptr %names) #0 {{"
        return "\n".join([head, "entry:", *self.lines, "}"])

    # -- lines ----------------------------------------------------------------------------------

    def _add(self, text: str, stem: str = "") -> str:
        """A line; its result gets a name of this stem."""
        name = ""
        if stem:
            self._count += 1
            name = f"%{stem}.{self._count}"
            text = f"{name} = {text}"
        self.lines.append(f"  {text}")
        return name

    def _start(self, label: str) -> None:
        """What follows stands at a label."""
        self.lines.append(f"{label}:")

    def _need(self, condition: str) -> None:
        """The caller looks again unless something holds."""
        test = self._add(condition, "test")
        self._count += 1
        self._add(f"br i1 {test}, label %on.{self._count}, label %missed.0")
        self._start(f"on.{self._count}")

    # -- arguments ------------------------------------------------------------------------------

    def _array(self, place: int) -> None:
        """An array: its class, dtype, rank and flags; where its elements are."""
        array, lies = self.operands[place], self.way.layouts[place]
        self._add(f"%object{place} = at ptr %args {place}")
        kind = self._add(f"get ptr %object{place} OBJECT.type", "kind")
        self._need(f"icmp eq ptr {kind}, %ndarray")
        _, axes = array.given
        rank = self._add(f"get i32 %object{place} ARRAY.rank", "rank")
        self._need(f"icmp eq i32 {rank}, {axes}")
        descr = self._add(f"get ptr %object{place} ARRAY.dtype", "descr")
        number = self._add(f"get i32 {descr} DTYPE.number", "number")
        self._need(f"icmp eq i32 {number}, {self.way.dtypes[place]}")
        order = self._add(f"get i8 {descr} DTYPE.order", "order")
        self._need(f"icmp ne i8 {order}, {ord('>')}")
        wanted = _ALIGNED | (layout.IS_WRITEABLE if array.written else 0)
        wanted |= layout.IS_CONTIGUOUS if lies == CONTIGUOUS else 0
        flags = self._add(f"get i32 %object{place} ARRAY.flags", "flags")
        found = self._add(f"and i32 {flags}, {wanted}", "flags")
        self._need(f"icmp eq i32 {found}, {wanted}")
        self._add(f"%data{place} = get ptr %object{place} ARRAY.data")
        size = np.dtype(array.dtype).itemsize
        for word in ("length", "stride") if axes else ():
            self._add(f"%{word}s{place} = get ptr %object{place} ARRAY.{word}s")
            for axis in range(axes):
                self._add(f"%{word}{place}.{axis} = at i64 %{word}s{place} {axis}")
        if array.pairs:
            self._add(f"%length{place}.{axes} = add i64 2, 0")
            self._add(f"%stride{place}.{axes} = add i64 {size}, 0")
        elif lies == ROWS:
            self._need(f"icmp eq i64 %stride{place}.{array.rank - 1}, {size}")

    def _lengths_of_scratch(self, place: int) -> None:
        """Lengths and strides of scratch memory, which is contiguous."""
        array = self.code.arrays[place]
        for axis, (other, of) in enumerate(array.within):
            self._add(f"%length{place}.{axis} = add i64 %length{other}.{of}, 0")
        step = str(np.dtype(array.dtype).itemsize)
        for axis in reversed(range(array.rank)):
            self._add(f"%stride{place}.{axis} = add i64 {step}, 0")
            step = self._add(f"mul i64 {step}, %length{place}.{axis}", "step")

    def _extent(self, place: int) -> None:
        """How many elements an array has, and bytes if it is contiguous."""
        total = "1"
        for axis in range(self.code.arrays[place].rank):
            total = self._add(f"mul i64 {total}, %length{place}.{axis}", "total")
        size = np.dtype(self.code.arrays[place].dtype).itemsize
        self._add(f"%size{place} = add i64 {total}, 0")
        self._add(f"%bytes{place} = mul i64 {total}, {size}")

    def _ends(self, place: int) -> tuple[str, str]:
        """The first address of an array's elements, and the first after them."""
        array = self.operands[place]
        first = last = self._add(f"ptrtoint ptr %data{place} to i64", "at")
        for axis in range(array.rank):
            fewer = self._add(f"sub i64 %length{place}.{axis}, 1", "fewer")
            span = self._add(f"mul i64 {fewer}, %stride{place}.{axis}", "span")
            back = self._add(f"icmp slt i64 {span}, 0", "back")
            low = self._add(f"select i1 {back}, i64 {span}, i64 0", "low")
            high = self._add(f"select i1 {back}, i64 0, i64 {span}", "high")
            first = self._add(f"add i64 {first}, {low}", "first")
            last = self._add(f"add i64 {last}, {high}", "last")
        return first, self._add(f"add i64 {last}, {np.dtype(array.dtype).itemsize}", "last")

    def _apart(self, one: int, other: int) -> None:
        """Two arrays have no memory in common."""
        (first, last), (begin, end) = self._ends(one), self._ends(other)
        before = self._add(f"icmp ule i64 {last}, {begin}", "before")
        after = self._add(f"icmp ule i64 {end}, {first}", "after")
        apart = self._add(f"or i1 {before}, {after}", "apart")
        for place in (one, other):
            empty = self._add(f"icmp eq i64 %size{place}, 0", "empty")
            apart = self._add(f"or i1 {apart}, {empty}", "apart")
        self._need(f"icmp eq i1 {apart}, true")

    def _number(self, place: int) -> None:
        """A number: of Python's class or of NumPy's; integers are no larger than promised."""
        number = self.code.numbers[place]
        at = len(self.operands) + place
        self._add(f"%object{at} = at ptr %args {at}")
        kind = self._add(f"get ptr %object{at} OBJECT.type", "kind")
        words = 8 * (len(WORDS) + 2 * place)
        plain = self._add(f"get ptr %table {words}", "type")
        is_plain = self._add(f"icmp eq ptr {kind}, {plain}", "plain")
        other = self._add(f"get ptr %table {words + 8}", "type")
        is_other = self._add(f"icmp eq ptr {kind}, {other}", "other")
        self._need(f"or i1 {is_plain}, {is_other}")
        memory = conversion.MEMORY[number.dtype]
        if number.kind not in ("pyint", "pybool"):
            self._add(f"%number{place} = get {memory} %object{at} OBJECT.value")
            return
        whole, held, both = f"whole.{place}", f"held.{place}", f"both.{place}"
        self._add(f"br i1 {is_plain}, label %{whole}, label %{held}")
        self._start(whole)
        self._add(f"store i32 0, ptr %over{place}")
        self.lines.insert(0, f"  %over{place} = alloca i32")
        call = f"call i64 @PyLong_AsLongLongAndOverflow(ptr %object{at}, ptr %over{place})"
        value = self._add(call, "value")
        over = self._add(f"load i32, ptr %over{place}", "over")
        self._need(f"icmp eq i32 {over}, 0")
        if memory != "i64":
            value = self._add(f"trunc i64 {value} to {memory}", "value")
        self._add(f"br label %{whole}.end")
        self._start(f"{whole}.end")
        self._add(f"br label %{both}")
        self._start(held)
        raw = self._add(f"get {memory} %object{at} OBJECT.value", "raw")
        self._add(f"br label %{both}")
        self._start(both)
        self._add(f"%number{place} = phi {memory} [ {value}, %{whole}.end ], [ {raw}, %{held} ]")
        if number.kind == "pyint":
            moved = self._add(f"add i64 %number{place}, {GIVEN}", "moved")
            self._need(f"icmp ule i64 {moved}, {2 * GIVEN}")

    # -- the run --------------------------------------------------------------------------------

    def _given(self) -> list[str]:
        """The arguments of the function that does the work."""
        code = self.code
        given = [f"{kind} {text}" for kind, text in parameters(code.arrays)]
        return [
            *given,
            *(f"{conversion.MEMORY[n.dtype]} %number{k}" for k, n in enumerate(code.numbers)),
        ]

    def _take(self, name: str, size: str) -> None:
        """Memory of a size; the caller looks again where there is none."""
        self._add(f"{name} = call ptr @take(ptr %pool_malloc, i64 {size})")
        self._count += 1
        none = self._add(f"icmp eq ptr {name}, null", "none")
        self._add(f"br i1 {none}, label %back.{len(self._taken)}, label %on.{self._count}")
        self._start(f"on.{self._count}")
        self._taken.append((name, size))

    def _run(self) -> None:
        """Run the loop, with what it needs given back.

        A run that needs the loops as they stand has done nothing yet: Python compiles these, and it
        begins again.
        """
        code, words = self.code, max(1, len(self.code.results))
        self.lines.insert(0, f"  %results = alloca [{words + 2} x i64]")
        mode = self._add("load i64, ptr %mode", "mode")
        seen = self._add("ptrtoint ptr %mode_seen to i64", "seen")
        same = self._add(f"icmp eq i64 {mode}, {seen}", "same")
        team = self._add(f"getelementptr i64, ptr %table, i64 {WORDS.index('team')}", "team")
        team = self._add(f"select i1 {same}, ptr {team}, ptr null", "team")
        self._add(f"put ptr {team} %results {8 * words}")
        self._add("br label %again")
        self._start("again")
        rest = self._word_of_table("rest")
        self._add(f"put ptr {rest} %results {8 * (words + 1)}")
        call = f"call i64 @{self.name}.body({', '.join([*self._given(), 'ptr %results'])})"
        whole = any(number.kind == "pyint" for number in code.numbers)
        if whole or any(isinstance(each, Repeat) for each in everything(code.body)):
            self._add("%thread = call ptr @PyEval_SaveThread()")
            self._add(f"%status = {call}")
            self._add("call void @PyEval_RestoreThread(ptr %thread)")
        else:
            total = "0"
            for place in range(len(self.operands)):
                total = self._add(f"add i64 {total}, %size{place}", "total")
            many = self._add(f"icmp uge i64 {total}, {_MANY}", "many")
            self._add(f"br i1 {many}, label %apart, label %held")
            self._start("apart")
            self._add("%thread = call ptr @PyEval_SaveThread()")
            self._add(f"%status.apart = {call}")
            self._add("call void @PyEval_RestoreThread(ptr %thread)")
            self._add("br label %ran")
            self._start("held")
            self._add(f"%status.held = {call}")
            self._add("br label %ran")
            self._start("ran")
            ways = "[ %status.apart, %apart ], [ %status.held, %held ]"
            self._add(f"%status = phi i64 {ways}")
        self._compile_the_rest()
        if self.way.restored:
            self._add(f"%ended = icmp eq i64 %outcome, {ENDED}")
            self._add("br i1 %ended, label %restore, label %over")
            self._start("restore")
            for place in sorted(self.way.restored):
                restored = f"ptr %data{place}, ptr %kept{place}, i64 %held{place}"
                self._add(f"call ptr @memcpy({restored})", "copied")
            self._add("br label %over")
            self._start("over")
        for name, size in self._taken:
            self._add(f"call void @give(ptr %pool_free, ptr {name}, i64 {size})")
        self._add("switch i64 %outcome, label %raised [ i64 0, label %done "
                  f"i64 {ENDED}, label %missed.0 ]")  # fmt: skip

    def _word_of_table(self, word: str) -> str:
        """A word of the table as it is now."""
        return self._add(f"get ptr %table {8 * WORDS.index(word)}", "word")

    def _compile_the_rest(self) -> None:
        """Have Python compile what a run wants, and run again; it has ended where that fails."""
        self._add("br label %look")
        self._start("look")
        wanted = self._add(f"icmp eq i64 %status, {WANTED}", "wanted")
        self._add(f"br i1 {wanted}, label %want, label %came")
        self._start("want")
        make = self._word_of_table("make_rest")
        made = self._add(f"call ptr @PyObject_CallObject(ptr {make}, ptr null)", "made")
        none = self._add(f"icmp eq ptr {made}, null", "none")
        self._add(f"br i1 {none}, label %came, label %made")
        self._start("made")
        self._add(f"call void @Py_DecRef(ptr {made})")
        rest = self._word_of_table("rest")
        none = self._add(f"icmp eq ptr {rest}, null", "none")
        self._add(f"br i1 {none}, label %came, label %again")
        self._start("came")
        why = f"[ %status, %look ], [ {INTERRUPTED}, %want ], [ {ENDED}, %made ]"
        self._add(f"%outcome = phi i64 {why}")

    def _results(self) -> None:
        """What is given: nothing, missed, an exception, or numbers."""
        self._start("raised")
        self._add("ret ptr null")
        for left in range(len(self._taken) - 1, 0, -1):
            self._start(f"back.{left}")
            name, size = self._taken[left - 1]
            self._add(f"call void @give(ptr %pool_free, ptr {name}, i64 {size})")
            self._add(f"br label %back.{left - 1}")
        if self._taken:
            self._start("back.0")
            self._add("br label %missed.0")
        self._start("missed.0")
        self._add("call void @Py_IncRef(ptr %missed)")
        self._add("ret ptr %missed")
        self._start("done")
        first = 8 * (len(WORDS) + 2 * len(self.code.numbers))
        found: list[str] = []
        for place in range(len(self.code.results)):
            at = self._add(f"getelementptr i64, ptr %results, i64 {place}", "at")
            descr = self._add(f"get ptr %table {first + 8 * place}", "descr")
            made = self._add(f"call ptr %new_scalar(ptr {at}, ptr {descr}, ptr null)", "made")
            found.append(made)
        if not found:
            self._add("call void @Py_IncRef(ptr %none)")
            self._add("ret ptr %none")
        elif len(found) == 1:
            self._add(f"ret ptr {found[0]}")
        else:
            self._tuple(found)

    def _tuple(self, found: Sequence[str]) -> None:
        """A tuple of objects; an exception where one of them could not be made."""
        whole = self._add(f"call ptr @PyTuple_New(i64 {len(found)})", "whole")
        bad = self._add(f"icmp eq ptr {whole}, null", "bad")
        for each in found:
            none = self._add(f"icmp eq ptr {each}, null", "none")
            bad = self._add(f"or i1 {bad}, {none}", "bad")
        self._add(f"br i1 {bad}, label %failed, label %filled")
        self._start("failed")
        for each in (*found, whole):
            self._add(f"call void @Py_DecRef(ptr {each})")  # which takes null
        self._add("ret ptr null")
        self._start("filled")
        for place, each in enumerate(found):
            put = f"call i32 @PyTuple_SetItem(ptr {whole}, i64 {place}, ptr {each})"
            self._add(put, "put")
        self._add(f"ret ptr {whole}")
