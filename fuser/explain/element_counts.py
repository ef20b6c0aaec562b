"""What the loops of an element loop do: iterations, elements they read and write, carried numbers.

Iterations are counted where lengths and given numbers say how many there are; bounds that depend on
the loops around are evaluated for each of their iterations, up to a number. Where a branch or a way
out of a loop may leave some out, a count is the most that there can be.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np

from fuser.base.records import changed, record
from fuser.element_loops.code import (
    Array,
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
from fuser.element_loops.sharing import Flow
from fuser.ir.ops import TABLE

#: Iterations of loops around a loop for each of which its bounds are evaluated, at most.
_MOST = 2**20
_INFIX = {"add": "+", "subtract": "-", "multiply": "*", "floor_divide": "//", "remainder": "%"}
#: Numbers of one iteration, or of each: an array, one after another.
_Numbers: TypeAlias = Any


@record
class Work:
    """What one iteration does at most, loops in it aside.

    Attributes:
        read: bytes of elements.
        written: likewise.
        operations: simple ones, on single numbers.
        elementary: functions such as exp.
    """

    read: int = 0
    written: int = 0
    operations: int = 0
    elementary: int = 0

    def plus(self, other: Work) -> Work:
        """One after another."""
        return Work(*(getattr(self, k) + getattr(other, k) for k in _COUNTED))

    def either(self, other: Work) -> Work:
        """The most of each."""
        return Work(*(max(getattr(self, k), getattr(other, k)) for k in _COUNTED))


_COUNTED = ("read", "written", "operations", "elementary")


@record
class Loop:
    """A loop, or, around all of them, the statements of a code.

    Attributes:
        title: as Python spells it: `for i in range(n)`.
        iterations: how many there are in one call; None where its condition, or what it computes,
            tells.
        exact: no branch and no way out may leave some out.
        work: what one of them does.
        carried: names of numbers that one iteration leaves for the next.
        inner: loops in it.
    """

    title: str
    iterations: int | None
    exact: bool
    work: Work
    carried: tuple[str, ...]
    inner: tuple[Loop, ...]


def count(
    code: Code, lengths: Sequence[Sequence[int]], numbers: Mapping[str, Any]
) -> tuple[Loop, frozenset[int]]:
    """Count what a call does; and the places of arrays of which it reads elements.

    Args:
        code: an element loop's.
        lengths: of the axes of each operand.
        numbers: those given numbers that are known, by name.
    """
    counter = _Counter(code, lengths, numbers)
    return counter.whole, frozenset(counter.read)


def loops_in(one: Loop) -> Iterator[Loop]:
    """Yield a loop and those in it."""
    yield one
    for each in one.inner:
        yield from loops_in(each)


class _Counter:
    """Goes through statements in their order, with what variables hold, as far as it is known."""

    def __init__(
        self, code: Code, lengths: Sequence[Sequence[int]], numbers: Mapping[str, Any]
    ) -> None:
        self._arrays, self._lengths = code.arrays, lengths
        self._values: dict[str, _Numbers] = {
            each.slot: numbers[each.name] for each in code.numbers if each.name in numbers
        }
        self._texts: dict[str, str] = {}
        self.read: set[int] = set()
        with np.errstate(all="ignore"):
            work, inner = self._walk(code.plain, 1, True)
        self.whole = Loop("", 1, True, work, (), inner)

    def _walk(
        self, body: tuple[Statement, ...], times: int | None, exact: bool
    ) -> tuple[Work, tuple[Loop, ...]]:
        """What statements do that run so often, and the loops among them."""
        work, inner = Work(), []
        for one in body:
            if isinstance(one, Set):
                work = work.plus(self._of(one.value))
                self._set(one)
            elif isinstance(one, Store):
                work = work.plus(self._touched(one)).plus(self._of(one.value))
            elif isinstance(one, Check):
                work = work.plus(self._of(one.test))
            elif isinstance(one, (For, Repeat)):
                for bound in (one.start, one.stop) if isinstance(one, For) else ():
                    work = work.plus(self._of(bound))
                inner.append(self._loop(one, times, exact))
            elif isinstance(one, Block):
                done, loops = self._walk(one.body, times, exact)
                work, inner = work.plus(done), [*inner, *loops]
            elif isinstance(one, If):
                ways = [self._walk(way, times, False) for way in (one.then, one.other)]
                work = work.plus(self._of(one.test)).plus(ways[0][0].either(ways[1][0]))
                inner += [loop for _, loops in ways for loop in loops]
                self._forget((one,))
            exact = exact and not _may_leave((one,))
        return work, tuple(inner)

    def _loop(self, one: For | Repeat, times: int | None, exact: bool) -> Loop:
        """A loop that is come to so often."""
        carried = _carried(one.body)
        title, total = "while", None
        before = dict(self._values)
        bounds: list[_Numbers] = []
        if isinstance(one, For):
            title = self._title(one)
            bounds = [self._value(each) for each in (one.start, one.stop, _step(one))]
        self._forget((one,))
        if isinstance(one, For) and times is not None and not any(b is None for b in bounds):
            start, stop, step = bounds
            counts = np.maximum(0, -(-(stop - start) // step))
            total = int(np.sum(counts)) * (1 if np.ndim(counts) else times)
            if has_loops(one.body) and max(total, times) <= _MOST:
                self._spread(one.slot, np.broadcast_to(counts, times), start, step)
            else:
                self._spread(one.slot, None, None, None)
        exact = exact and not _may_leave(one.body)
        work, inner = self._walk(one.body, total, exact)
        self._values = before
        self._forget((one,))
        return Loop(title, total, exact, work, carried, inner)

    def _spread(self, slot: str, counts: _Numbers, start: _Numbers, step: _Numbers) -> None:
        """Have variables hold a number for each iteration of a loop; None: only if all are one."""
        if counts is None:
            self._values = {k: v for k, v in self._values.items() if not np.ndim(v)}
            return

        def repeated(value: _Numbers) -> _Numbers:
            return np.repeat(value, counts) if np.ndim(value) else value

        ends = np.cumsum(counts)
        inside = np.arange(ends[-1] if len(ends) else 0) - np.repeat(ends - counts, counts)
        first, pace = repeated(start), repeated(step)
        self._values = {k: repeated(v) for k, v in self._values.items()}
        self._values[slot] = first + inside * pace

    def _set(self, one: Set) -> None:
        """Note what a variable holds."""
        self._texts[one.slot] = self._spelled(one.value)
        value = self._value(one.value)
        if value is None:
            self._values.pop(one.slot, None)
        else:
            self._values[one.slot] = value

    def _forget(self, body: tuple[Statement, ...]) -> None:
        """Forget variables that statements set: some may not run, or run again."""
        for each in everything(body):
            if isinstance(each, (Set, For)):
                self._values.pop(each.slot, None)

    def _value(self, one: Expression) -> _Numbers:
        """What an expression gives; None where only the run tells."""
        if isinstance(one, Constant):
            return one.value
        if isinstance(one, Get):
            return self._values.get(one.slot)
        if isinstance(one, Length):
            return self._length(one.array, one.axis)
        if isinstance(one, Load):
            return None
        args = [self._value(arg) for arg in one.args]
        if any(arg is None for arg in args):
            return None
        name = _plain(one.name)
        if name == "select":
            return np.where(*args)[()]
        if name == "convert":
            return np.asarray(args[0]).astype(one.dtype)[()]
        row = TABLE.get(name)
        return None if row is None else row.numpy(*args)

    def _length(self, array: int, axis: int) -> int:
        """A length; scratch memory is as long as an operand's axis."""
        within = self._arrays[array].within
        return self._lengths[within[axis][0]][within[axis][1]] if within else (
            self._lengths[array][axis]
        )

    # -- work -----------------------------------------------------------------------------------

    def _of(self, one: Expression) -> Work:
        """What an expression does; bounds of loops and indices count nothing."""
        if isinstance(one, Load):
            return self._touched(one)
        if not isinstance(one, Operation):
            return Work()
        total = Work()
        for arg in one.args:
            total = total.plus(self._of(arg))
        row = TABLE.get(_plain(one.name))
        if row is None or row.converts:
            return total
        return total.plus(Work(elementary=1) if row.heavy else Work(operations=1))

    def _touched(self, one: Load | Store) -> Work:
        """An element that is read or written; of scratch memory, which stays in the cache, none."""
        array: Array = self._arrays[one.array]
        if array.within:
            return Work()
        size = np.dtype(array.dtype).itemsize
        found = Work(read=size) if isinstance(one, Load) else Work(written=size)
        if isinstance(one, Load):
            self.read.add(one.array)
        for index in one.indices:
            found = changed(found, read=found.read + self._of(index).read)
        return found

    # -- text -----------------------------------------------------------------------------------

    def _title(self, one: For) -> str:
        """A loop as Python spells it."""
        start, stop, step = (self._spelled(each) for each in (one.start, one.stop, _step(one)))
        listed = [start, stop, step] if step != "1" else [start, stop] if start != "0" else [stop]
        return f"for {_index(one)} in range({', '.join(listed)})"

    def _spelled(self, one: Expression) -> str:
        """An expression in the user's names, as far as they go."""
        if isinstance(one, Constant):
            return str(one.value)
        if isinstance(one, Get):
            return _name(one.slot) if _is_named(one.slot) else self._texts.get(one.slot, "…")
        if isinstance(one, Length):
            return f"{self._arrays[one.array].name}.shape[{one.axis}]"
        if isinstance(one, Load):
            return f"{self._arrays[one.array].name}[{', '.join(map(self._spelled, one.indices))}]"
        name = _plain(one.name)
        if name in _INFIX:
            return f" {_INFIX[name]} ".join(map(self._spelled, one.args))
        parts = [self._spelled(arg) for arg in one.args]
        return parts[-1] if name in ("convert", "select") else "…"


def _plain(name: str) -> str:
    """The row of the op table that an operation's name stands for, if it is one."""
    for word in ("checked_", "exact_", "positive_"):
        name = name.removeprefix(word)
    return name


def _step(one: For) -> Expression:
    """A loop's step."""
    return Constant("int64", one.step) if isinstance(one.step, int) else one.step


def _is_named(slot: str) -> bool:
    """Whether a variable is one of the source's."""
    return slot.rpartition("/")[2].partition(".")[0].isidentifier() and "." in slot


def _name(slot: str) -> str:
    """The name that the source has for a variable."""
    return slot.rpartition("/")[2].partition(".")[0]


def _index(one: For) -> str:
    """The name of a loop's index."""
    for each in everything(one.body):
        if isinstance(each, Set) and each.value == Get(one.slot, "int64"):
            return _name(each.slot) if _is_named(each.slot) else "_"
        if not isinstance(each, Block):
            break
    return "_"


def _may_leave(body: tuple[Statement, ...]) -> bool:
    """Whether statements may lead out of themselves."""
    own = {each.label for each in everything(body) if isinstance(each, Block)}
    return any(isinstance(each, Leave) and each.label not in own for each in everything(body))


def _carried(body: tuple[Statement, ...]) -> tuple[str, ...]:
    """Names of numbers that an iteration reads before it sets them, and sets."""
    flow = Flow()
    flow.statements(body, set())
    sets = {each.slot for each in everything(body) if isinstance(each, Set)}
    found = (slot for slot in flow.read if slot in sets and _is_named(slot))
    return tuple(dict.fromkeys(map(_name, found)))
