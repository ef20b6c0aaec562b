"""The code of an element loop: typed expressions and structured statements, as frozen records.

A dtype is the name of NumPy's; Python's `int` is `int64`, its `float` is `float64`. Whatever may
raise, overflow or leave the checked language ends the run: the region's copies are dropped, and
the plain function runs the call.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Iterator
from typing import TypeAlias

from fuser.base.records import changed, record


@record
class Constant:
    """A number."""

    dtype: str
    value: int | float | bool


@record
class Get:
    """What a variable holds."""

    slot: str
    dtype: str


@record
class Length:
    """The length of an array's axis."""

    array: int
    axis: int
    dtype: str = "int64"


@record
class Load:
    """An element of an array, by indices that lie within it; `checked`: else the run ends."""

    array: int
    indices: tuple[Expression, ...]
    dtype: str
    checked: bool = True


@record
class Operation:
    """A row of the op table, or one of `OWN`; its operands are of one dtype."""

    name: str
    dtype: str
    args: tuple[Expression, ...]


Expression: TypeAlias = Constant | Get | Length | Load | Operation

#: Operations that are no rows of the op table. Those that begin with `checked_` end the run where
#: Python raises, where the result has more than 64 bits, or, of floats, where finite numbers give
#: one that is not; `truncated` does, too. `exact_`: the result is known to have 64 bits;
#: `positive_`: the divisor is known to be positive. All others are rows, with NumPy's meaning.
OWN = (
    "convert", "checked_convert", "truncated", "nonzero", "select", "add_in_any_order",
    "positive_floor_divide", "positive_remainder", "exact_add", "exact_subtract", "exact_multiply",
)  # fmt: skip


@record
class Set:
    """Give a variable a value."""

    slot: str
    value: Expression


@record
class Store:
    """Give an element of an array a value of its dtype."""

    array: int
    indices: tuple[Expression, ...]
    value: Expression
    checked: bool = True


@record
class Check:
    """End the run unless a truth value holds."""

    test: Expression


@record
class If:
    """Two branches."""

    test: Expression
    then: tuple[Statement, ...]
    other: tuple[Statement, ...]


@record
class Block:
    """Statements that `Leave` of the same label leaves."""

    label: int
    body: tuple[Statement, ...]


@record
class Leave:
    """Go on after the block of a label."""

    label: int


@record
class Repeat:
    """Statements without end: a `Leave` inside ends them."""

    body: tuple[Statement, ...]


#: Integers that a loop is over which need not look at Ctrl-C.
SHORT = 2**22


@record
class For:
    """Statements for each of the integers from `start` to `stop`.

    The step is a number that is not zero, or an expression that is positive. `short`: there are at
    most `SHORT` of them, so that nobody waits for its end. `shared`: they may run at the same time.
    """

    slot: str
    start: Expression
    stop: Expression
    step: int | Expression
    body: tuple[Statement, ...]
    short: bool = False
    shared: bool = False



@record
class Point:
    """Have an array that is chosen stand for another one, of the same lengths."""

    array: int
    source: int


@record
class Fresh:
    """Have an array that is chosen stand for one of several that none of `held` stands for."""

    array: int
    rooms: tuple[int, ...]
    held: tuple[int, ...]


@record
class Apart:
    """End the run where an array that is chosen stands for the same as another."""

    array: int
    other: int


Statement: TypeAlias = (
    Set | Store | Check | If | Block | Leave | Repeat | For | Point | Fresh | Apart
)


@record
class Array:
    """An array: the name that the function has for it, if it is an operand.

    Attributes:
        name: that name.
        dtype: of its elements.
        rank: how many axes it has.
        written: whether elements are written.
        within: of scratch memory: for each axis, an operand and an axis of it, that are as long.
        chosen: it has no memory: a variable says which array it stands for.
        pairs: NumPy has one axis less: the last one is of the parts of complex numbers.
    """

    name: str
    dtype: str
    rank: int
    written: bool
    within: tuple[tuple[int, int], ...] = ()
    chosen: bool = False
    pairs: bool = False

    @property
    def given(self) -> tuple[str, int]:
        """The dtype and the rank of the array that NumPy has."""
        if not self.pairs:
            return self.dtype, self.rank
        return {"float32": "complex64"}.get(self.dtype, "complex128"), self.rank - 1


@record
class Variable:
    """A number among the operands, or among the results; a NumPy scalar or a Python number."""

    name: str
    slot: str
    dtype: str
    kind: str


@record(slots=False, eq=False)
class Code:
    """One element loop.

    Attributes:
        arrays: what it reads and writes; after operands, scratch memory.
        numbers: what variables hold at the beginning.
        results: what is left in variables.
        body: what it does.
        plain: likewise, before any index was looked at earlier: as the source says it.
        loops: how many loops there are, and how deep.
        sure: where it holds, no run ends early.
        small: axes of operands, by their numbers, that have to be short.
    """

    arrays: tuple[Array, ...]
    numbers: tuple[Variable, ...]
    results: tuple[Variable, ...]
    body: tuple[Statement, ...]
    plain: tuple[Statement, ...]
    loops: tuple[int, int]
    sure: Expression
    small: tuple[tuple[int, int], ...] = ()

    @property
    def operands(self) -> tuple[Array, ...]:
        """The arrays that callers hand in; the others are scratch memory, contiguous in C order."""
        return tuple(array for array in self.arrays if not array.within)


def inner(statement: Statement) -> Iterator[tuple[Statement, ...]]:
    """Yield the bodies of a statement."""
    if isinstance(statement, If):
        yield statement.then
        yield statement.other
    elif isinstance(statement, (Block, Repeat, For)):
        yield statement.body


def with_bodies(
    statement: Statement, of: Callable[[tuple[Statement, ...]], tuple[Statement, ...]]
) -> Statement:
    """A statement whose bodies are what a function gives of them."""
    if isinstance(statement, If):
        return If(statement.test, of(statement.then), of(statement.other))
    if isinstance(statement, (Block, Repeat, For)):
        return changed(statement, body=of(statement.body))
    return statement


def has_loops(body: tuple[Statement, ...]) -> bool:
    """Whether loops stand among statements, or inside of them."""
    return any(isinstance(each, (For, Repeat)) for each in everything(body))


def everything(body: tuple[Statement, ...]) -> Iterator[Statement]:
    """Yield all statements, and those in them."""
    waiting = [iter(body)]
    while waiting:
        each = next(waiting[-1], None)
        if each is None:
            waiting.pop()
            continue
        yield each
        waiting += [iter(part) for part in reversed(tuple(inner(each)))]


def expressions_of(one: Statement) -> tuple[Expression, ...]:
    """The expressions that a statement itself has, without those of statements in it."""
    if isinstance(one, Set):
        return (one.value,)
    if isinstance(one, Store):
        return (*one.indices, one.value)
    if isinstance(one, (Check, If)):
        return (one.test,)
    if isinstance(one, For):
        step = () if isinstance(one.step, int) else (one.step,)
        return (one.start, one.stop, *step)
    return ()


def parts_of(one: Expression) -> Iterator[Expression]:
    """Yield an expression, and those in it."""
    yield one
    inside = one.args if isinstance(one, Operation) else ()
    for part in one.indices if isinstance(one, Load) else inside:
        yield from parts_of(part)


def parts_in(body: Iterable[Statement]) -> Iterator[Statement | Expression]:
    """Yield statements, and all that is in their own expressions."""
    for one in body:
        yield one
        for each in expressions_of(one):
            yield from parts_of(each)


def with_parts(one: Expression, of: Callable[[Expression], Expression]) -> Expression:
    """An expression whose operands, or indices, are what a function gives of them."""
    if isinstance(one, Operation):
        return changed(one, args=tuple(map(of, one.args)))
    return changed(one, indices=tuple(map(of, one.indices))) if isinstance(one, Load) else one


def with_expressions(one: Statement, of: Callable[[Expression], Expression]) -> Statement:
    """A statement without bodies whose expressions are what a function gives of them."""
    if isinstance(one, Set):
        return Set(one.slot, of(one.value))
    if isinstance(one, Store):
        return Store(one.array, tuple(map(of, one.indices)), of(one.value), one.checked)
    return Check(of(one.test)) if isinstance(one, Check) else one


def sets_in(body: tuple[Statement, ...]) -> set[str]:
    """The variables that statements set, and those in them."""
    return {each.slot for each in everything(body) if isinstance(each, (Set, For))}


def stays(one: Expression, changing: Container[str]) -> bool:
    """Whether an expression is the same while some variables change: it reads no element."""
    return not any(
        isinstance(part, Load) or (isinstance(part, Get) and part.slot in changing)
        for part in parts_of(one)
    )


def may_end_in(body: tuple[Statement, ...]) -> bool:
    """Whether a run of statements may end early, where Python raises or its integers grow."""
    return any(
        isinstance(part, (Check, Apart)) or (isinstance(part, (Load, Store)) and part.checked)
        or (isinstance(part, Operation) and part.name.startswith(("checked_", "truncated")))
        for part in parts_in(everything(body))
    )  # fmt: skip
