"""Parts of arrays in element loops: slices, what is computed of them element by element, and sums.

An expression of slices is not stored: it says how one element of it comes about, and the statement
that takes it becomes a loop. Where an assignment reads the memory that it writes into, and not just
each element before it is written, all elements are computed before the first is written, in scratch
memory; that is decided when the loop runs, by where the slices lie.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Protocol

import numpy as np

from fuser.base.records import record
from fuser.element_loops import complex_numbers, kinds, operators
from fuser.element_loops.code import Constant, Expression, Get, Length, Load, Operation, Store
from fuser.element_loops.complex_numbers import Complex, Number
from fuser.element_loops.kinds import COMPLEX, GIVEN, NotTypedError
from fuser.element_loops.operators import FALSE, TRUE, Value

ZERO, ONE = Constant("int64", 0), Constant("int64", 1)
#: Elements of a sum that are added in any order, and such sums that are added up before others.
BLOCK = 1024, 64
#: Rows and columns of matrices whose products are computed here: those of larger ones are BLAS's,
#: a call of which takes about as long as so many multiplications, to the power of three.
SMALL = 16


@record
class Span:
    """The elements `start`, `start + step` … of an axis."""

    start: Expression
    length: Expression
    step: int


@record
class Index:
    """One element of an axis; `sure`: it lies within."""

    place: Expression
    sure: bool


@record
class Slice:
    """A part of an array: a span or an element of each axis."""

    array: int
    axes: tuple[Span | Index, ...]

    @property
    def spans(self) -> list[tuple[int, Span]]:
        """The axes that are left, with their numbers."""
        return [(k, axis) for k, axis in enumerate(self.axes) if isinstance(axis, Span)]


@record
class Lanes:
    """What is computed element by element.

    Attributes:
        lengths: of its axes.
        element: what one element is, by its indices.
        reads: the parts of arrays that it reads.
        within: for each axis, an array and an axis of it that is as long, or longer.
    """

    lengths: tuple[Expression, ...]
    element: Callable[[tuple[Expression, ...]], Number]
    reads: tuple[Slice, ...]
    within: tuple[tuple[int, int], ...]


class Translator(Protocol):
    """What is asked of the translator here."""

    arrays: list[Any]
    out: list[Any]
    written: set[int]
    of_planes: bool
    products: list[tuple[int, int]]

    def temporary(self, value: Value) -> Value:
        """A number in a variable of its own."""

    def settled(self, value: Number) -> Number:
        """Likewise, or in two."""

    def check(self, test: Expression) -> None:
        """End the run unless something holds."""

    def count(self, length: Expression, body: Callable[[Expression], None]) -> None:
        """Append a loop over 0, 1 … below a length."""

    def choose(
        self, test: Expression, then: Callable[[], None], other: Callable[[], None]
    ) -> None:
        """Append two ways on, of which neither changes a variable of the source."""

    def scratch(self, key: Any, dtype: str, within: tuple[tuple[int, int], ...]) -> int:
        """An array for what is computed, as long as axes of others."""

    def variable(self) -> str:
        """A new variable."""

    def may_be_one(self, array: int, other: int) -> bool:
        """Whether two arrays may be one when the loop runs."""

    def set_variable(self, slot: str, value: Expression) -> None:
        """Give it a value."""


# -- numbers --------------------------------------------------------------------------------------


def plus(one: Expression, other: Expression) -> Expression:
    """A sum of indices."""
    if isinstance(one, Constant) and isinstance(other, Constant):
        return Constant("int64", int(one.value) + int(other.value))
    if other == ZERO:
        return one
    return other if one == ZERO else Operation("exact_add", "int64", (one, other))


def minus(one: Expression, other: Expression) -> Expression:
    """A difference of indices."""
    if one == other:
        return ZERO
    if isinstance(one, Constant) and isinstance(other, Constant):
        return Constant("int64", int(one.value) - int(other.value))
    return one if other == ZERO else Operation("exact_subtract", "int64", (one, other))


def times(one: Expression, factor: int) -> Expression:
    """A multiple of an index."""
    if factor == 1:
        return one
    return Operation("exact_multiply", "int64", (one, Constant("int64", factor)))


def least(one: Expression, other: Expression) -> Expression:
    """The smaller of two."""
    return one if one == other else Operation("minimum", "int64", (one, other))


def most(one: Expression, other: Expression) -> Expression:
    """The larger of two."""
    return one if one == other else Operation("maximum", "int64", (one, other))


def is_plain(code: Expression) -> bool:
    """Whether an expression of indices reads no array: within a statement it stays what it is."""
    if isinstance(code, Operation):
        return all(map(is_plain, code.args))
    return not isinstance(code, Load)


def held(t: Translator, code: Expression) -> Expression:
    """An index that is the same within a statement."""
    return code if is_plain(code) else t.temporary(operators.python(code)).code


# -- slices ---------------------------------------------------------------------------------------


def is_complex(t: Translator, part: Slice) -> bool:
    """Whether the elements of a part are complex numbers."""
    known = t.arrays[part.array]
    return bool(known.pairs) and len(part.axes) < known.rank


def component(part: Slice, imaginary: bool) -> Slice:
    """The real parts of complex elements, or the imaginary ones."""
    return Slice(part.array, (*part.axes, Index(ONE if imaginary else ZERO, True)))


def load(t: Translator, part: Slice, indices: Sequence[Expression], checked: bool) -> Number:
    """An element of a part."""
    known = t.arrays[part.array]

    def of(one: Slice) -> Value:
        return operators.scalar(Load(one.array, element_of(one, indices), known.dtype, checked))

    if not is_complex(t, part):
        return of(part)
    return Complex(of(component(part, False)), of(component(part, True)), known.given[0])


def store(
    t: Translator, part: Slice, indices: Sequence[Expression], value: Number,
    checked: bool = False, wraps: bool = False,
) -> None:  # fmt: skip
    """Give an element of a part a value.

    Raises:
        NotTypedError: a complex number where a real one belongs.
    """
    known = t.arrays[part.array]
    if is_complex(t, part):
        both = [t.temporary(operators.scalar(each))
                for each in complex_numbers.parts(value, known.given[0])]  # fmt: skip
        for imaginary, each in enumerate(both):
            store(t, component(part, bool(imaginary)), indices, each, checked)
        return
    if isinstance(value, Complex):
        raise NotTypedError("a complex number in an array of real ones")
    made = operators.cast(value, known.dtype, wraps)
    t.out.append(Store(part.array, element_of(part, indices), made, checked))


def whole(t: Translator, array: int) -> Slice:
    """All of an array."""
    rank = t.arrays[array].given[1]
    return Slice(array, tuple(Span(ZERO, Length(array, axis), 1) for axis in range(rank)))


def span_of(
    t: Translator, outer: Span, start: Value | None, stop: Value | None, step: int
) -> Span:
    """A slice of a span, as Python cuts it."""
    length = outer.length
    last = minus(length, ONE)

    def clipped(bound: Value | None, default: Expression) -> Expression:
        if bound is None:
            return default
        code, low, high = held(t, bound.code), bound.type.low, bound.type.high
        if high < 0:
            code = plus(length, code)
        elif low < 0:
            below = Operation("less", "bool", (code, ZERO))
            code = Operation("select", "int64", (below, plus(code, length), code))
        if step > 0:
            code = code if low >= 0 else most(code, ZERO)
            return code if code == ZERO else least(code, length)
        code = code if low >= 0 else most(code, Constant("int64", -1))
        return least(code, last)

    first = clipped(start, ZERO if step > 0 else last)
    end = clipped(stop, length if step > 0 else Constant("int64", -1))
    gap = minus(end, first) if step > 0 else minus(first, end)
    size = abs(step)
    if size > 1:
        wide = plus(gap, Constant("int64", size - 1))
        gap = Operation("floor_divide", "int64", (wide, Constant("int64", size)))
    count = gap if gap == length else most(gap, ZERO)
    first = held(t, plus(outer.start, times(first, outer.step)))
    return Span(first, held(t, count), outer.step * step)


def place_in(t: Translator, outer: Span, index: Value) -> Index:
    """An element of a span."""
    code = index.code
    if index.type.high < 0:
        code = plus(outer.length, code)
    elif index.type.low < 0:
        code = held(t, code)
        below = Operation("less", "bool", (code, ZERO))
        code = Operation("select", "int64", (below, plus(code, outer.length), code))
    if outer.start == ZERO and outer.step == 1 and isinstance(outer.length, Length):
        return Index(code, False)
    code = held(t, code)
    inside = operators.both(
        Operation("greater_equal", "bool", (code, ZERO)),
        Operation("less", "bool", (code, outer.length)),
    )
    t.check(inside)
    return Index(plus(outer.start, times(code, outer.step)), True)


def flipped(part: Slice) -> Slice:
    """`np.flip` of a part: each axis from its end."""

    def back(axis: Span) -> Span:
        last = times(minus(axis.length, ONE), axis.step)
        return Span(plus(axis.start, last), axis.length, -axis.step)

    axes = (back(axis) if isinstance(axis, Span) else axis for axis in part.axes)
    return Slice(part.array, tuple(axes))


def element_of(part: Slice, indices: Sequence[Expression]) -> tuple[Expression, ...]:
    """The indices of one element of a part in its array."""
    waiting = list(indices)
    return tuple(
        axis.place if isinstance(axis, Index)
        else plus(axis.start, times(waiting.pop(0), axis.step))
        for axis in part.axes
    )  # fmt: skip


def checked_once(t: Translator, part: Slice) -> Slice:
    """A part whose single indices have been looked at, so that none of its elements need be."""
    axes: list[Span | Index] = []
    for number, axis in enumerate(part.axes):
        if isinstance(axis, Index):
            place = held(t, axis.place)
            if not axis.sure:
                length = Length(part.array, number)
                t.check(Operation("greater_equal", "bool", (place, ZERO)))
                t.check(Operation("less", "bool", (place, length)))
            axes.append(Index(place, True))
        else:
            axes.append(axis)
    return Slice(part.array, tuple(axes))


def lanes_of(t: Translator, part: Slice) -> Lanes:
    """The elements of a part."""
    part = checked_once(t, part)

    def element(indices: tuple[Expression, ...]) -> Number:
        return load(t, part, indices, False)

    spans = part.spans
    lengths = tuple(span.length for _, span in spans)
    return Lanes(lengths, element, (part,), tuple((part.array, axis) for axis, _ in spans))


def each(t: Translator, function: Callable[..., Number], values: Sequence[Any]) -> Lanes:
    """A function of elements, and of numbers.

    Raises:
        NotTypedError: lengths are those of other ranks.
    """
    known = [v if isinstance(v, Lanes) else t.settled(v) for v in values]
    widest = max((v for v in known if isinstance(v, Lanes)), key=lambda v: len(v.lengths))
    rank = len(widest.lengths)
    for one in known:
        if isinstance(one, Lanes):
            same_lengths(t, one.lengths, widest.lengths[rank - len(one.lengths) :])

    def element(indices: tuple[Expression, ...]) -> Number:
        return function(*(
            v.element(indices[rank - len(v.lengths) :]) if isinstance(v, Lanes) else v
            for v in known
        ))  # fmt: skip

    reads = tuple(part for v in known if isinstance(v, Lanes) for part in v.reads)
    return Lanes(widest.lengths, element, reads, widest.within)


def same_lengths(
    t: Translator, one: Sequence[Expression], other: Sequence[Expression]
) -> None:
    """End the run where lengths differ: NumPy raises, or repeats an axis of one element."""
    for left, right in zip(one, other, strict=True):
        if left != right:
            t.check(Operation("equal", "bool", (left, right)))


def gathered(t: Translator, part: Slice, index: Lanes) -> Lanes:
    """The elements of an array of one axis at places that are computed.

    Raises:
        NotTypedError: places are no integers, or the array has more axes.
    """
    if len(part.spans) != 1 or len(index.lengths) != 1:
        raise NotTypedError("an array as index of more than one axis")
    part = checked_once(t, part)
    ((axis, span),) = part.spans

    def element(indices: tuple[Expression, ...]) -> Number:
        place = index.element(indices)
        if isinstance(place, Complex):
            raise NotTypedError("an index that is no integer")
        if place.type.dtype == "bool" or place.type.dtype.startswith(("float", "uint64")):
            raise NotTypedError("an index that is no integer")
        whole_place = operators.python(operators.convert(place.code, "int64"))
        found = place_in(t, span, t.temporary(whole_place))
        axes = list(part.axes)
        axes[axis] = found
        return load(t, Slice(part.array, tuple(axes)), (), not found.sure)

    return Lanes(index.lengths, element, (part, *index.reads), index.within)


# -- loops over them ------------------------------------------------------------------------------


def for_each(
    t: Translator, lengths: Sequence[Expression], body: Callable[[tuple[Expression, ...]], None]
) -> None:
    """Append loops over all indices."""

    def nested(found: tuple[Expression, ...]) -> None:
        if len(found) == len(lengths):
            body(found)
            return
        t.count(lengths[len(found)], lambda index: nested((*found, index)))

    nested(())


def kept(t: Translator, key: Any, lanes: Lanes) -> Slice:
    """What is computed, in memory of its own."""
    dtype = dtype_of(t, lanes)
    array = t.scratch(key, dtype, lanes.within)
    whole_array = Slice(array, tuple(Span(ZERO, n, 1) for n in lanes.lengths))
    for_each(t, lanes.lengths, lambda i: store(t, whole_array, i, lanes.element(i), wraps=True))
    spans = [Span(ZERO, t.temporary(operators.python(n)).code, 1) for n in lanes.lengths]
    return Slice(array, tuple(spans))


def dtype_of(t: Translator, lanes: Lanes) -> str:
    """The dtype of what is computed.

    Raises:
        NotTypedError: only the run tells.
    """
    before, t.out = t.out, []
    try:
        probe = lanes.element(tuple(Get("probe", "int64") for _ in lanes.lengths))
    finally:
        t.out = before
    if isinstance(probe, Complex):
        return probe.dtype
    found = {kinds.dtype_of(kind) for kind in probe.type.kinds}
    if len(found) > 1:
        raise NotTypedError("arrays of a dtype that only the run tells")
    return found.pop()


def _is_plane(part: Slice) -> bool:
    """Whether a part has two axes or more, is the same in all iterations, and lies in rows."""

    def stays(code: Expression) -> bool:
        if isinstance(code, Operation):
            return all(map(stays, code.args))
        return isinstance(code, (Constant, Length))

    spans = [span for _, span in part.spans]
    rows = isinstance(part.axes[-1], Span) and part.axes[-1].step == 1
    return rows and len(spans) > 1 and all(stays(s.start) and stays(s.length) for s in spans)


def assign(t: Translator, key: Any, target: Slice, value: Any, same_kind: bool = False) -> None:
    """`target[...] = value`, as NumPy does it: what is read is read before anything is written.

    Args:
        t: the translator.
        key: of the statement.
        target: what is written into.
        value: a number, or lanes.
        same_kind: an operation in place, whose result has to be of the same kind.

    Raises:
        NotTypedError: kinds or ranks do not fit.
    """
    target = checked_once(t, target)
    known = t.arrays[target.array]
    dtype = known.given[0] if is_complex(t, target) else known.dtype
    t.written.add(target.array)
    lengths = tuple(span.length for _, span in target.spans)
    if not isinstance(value, Lanes):
        if isinstance(value, Value) and dtype == known.dtype:
            value = Value(operators.cast(value, dtype), kinds.of(dtype), TRUE)
        number = t.settled(value)
        for_each(t, lengths, lambda indices: store(t, target, indices, number))
        return
    t.of_planes = t.of_planes or _is_plane(target)
    if len(value.lengths) > len(lengths):
        raise NotTypedError("an array of more axes than what it is assigned to")
    same_lengths(t, value.lengths, lengths[len(lengths) - len(value.lengths) :])
    found = dtype_of(t, value)
    if same_kind and not np.can_cast(found, dtype, "same_kind"):
        raise NotTypedError(f"an operation in place that gives {found} in an array of {dtype}")

    def put(lanes: Lanes) -> None:
        def body(indices: tuple[Expression, ...]) -> None:
            part = indices[len(indices) - len(value.lengths) :]
            store(t, target, indices, lanes.element(part), wraps=True)

        for_each(t, lengths, body)

    def direct() -> None:
        put(value)

    def apart() -> None:
        put(lanes_of(t, kept(t, key, value)))

    safe: Expression = TRUE
    for part in value.reads:
        if part.array == target.array and safe != FALSE:
            safe = operators.both(safe, _is_harmless(part, target))
        elif part.array != target.array and t.may_be_one(part.array, target.array):
            safe = FALSE
    if safe == TRUE:
        direct()
    elif safe == FALSE:
        apart()
    else:
        t.choose(t.temporary(operators.python(safe)).code, direct, apart)


def _is_harmless(part: Slice, target: Slice) -> Expression:
    """Whether reads of a part do not meet what has been written into another of the same array.

    That is so where each element is read when it is written, or later; or the parts have no
    element in common.
    """
    if part == target:
        return TRUE
    same: Expression = TRUE
    ahead: Expression = TRUE
    disjoint: Expression = FALSE
    rank = len(target.spans)
    for one, other in zip(part.axes, target.axes, strict=False):  # one may be parts of the other's
        (low, high, start), (left, right, first) = _extent(one), _extent(other)
        for end, begin in ((high, left), (right, low)):
            disjoint = operators.either(disjoint, _less(end, begin))
        if isinstance(one, Span) != isinstance(other, Span):
            same = ahead = FALSE
        elif isinstance(one, Span) and isinstance(other, Span):
            equal = _equal(start, first) if one.step == other.step else FALSE
            same = operators.both(same, equal)
            later = Operation("greater_equal", "bool", (start, first))
            forward = one.step == other.step and one.step > 0 and rank == 1
            ahead = operators.both(ahead, later if forward else FALSE)
        else:
            equal = _equal(start, first)
            same, ahead = operators.both(same, equal), operators.both(ahead, equal)
    return operators.either(disjoint, operators.either(same, ahead))


def _extent(axis: Span | Index) -> tuple[Expression, Expression, Expression]:
    """The least and the largest place on an axis, and the first."""
    if isinstance(axis, Index):
        return axis.place, axis.place, axis.place
    last = plus(axis.start, times(minus(axis.length, ONE), axis.step))
    return (axis.start, last, axis.start) if axis.step > 0 else (last, axis.start, axis.start)


def _less(one: Expression, other: Expression) -> Expression:
    """Whether one place comes before another."""
    if one == other:
        return FALSE
    if isinstance(one, Constant) and isinstance(other, Constant):
        return TRUE if one.value < other.value else FALSE
    return Operation("less", "bool", (one, other))


def _equal(one: Expression, other: Expression) -> Expression:
    """Whether two places are one."""
    if one == other:
        return TRUE
    if isinstance(one, Constant) and isinstance(other, Constant):
        return FALSE
    return Operation("equal", "bool", (one, other))


# -- reductions -----------------------------------------------------------------------------------

#: What sums of a dtype are computed in.
_SUMMED = {
    "bool": "int64", "int8": "int64", "int16": "int64", "int32": "int64", "int64": "int64",
    "uint8": "uint64", "uint16": "uint64", "uint32": "uint64", "uint64": "uint64",
    "float32": "float32", "float64": "float64",
}  # fmt: skip


def total(t: Translator, lanes: Lanes, dtype: str) -> Number:
    """A sum: of integers as they come, of floats in blocks whose elements are added in any order.

    So a sum of n floats has an error of some n / 65536 + 64 + 1024 / (numbers in a vector)
    roundings at most.
    """
    if len(lanes.lengths) > 1:
        return total(t, _of_rows(lanes, lambda row: total(t, row, dtype)), dtype)
    if dtype not in COMPLEX:
        return _total(t, lanes, dtype)

    def of(part: str) -> Value:
        elements = each(t, lambda z: complex_numbers.unary(part, z), [lanes])
        return _total(t, elements, COMPLEX[dtype])

    return Complex(of("real"), of("imag"), dtype)


def _total(t: Translator, lanes: Lanes, dtype: str) -> Value:
    """A sum of real numbers."""
    (length,) = lanes.lengths
    zero = Constant(dtype, 0.0 if dtype.startswith("float") else 0)
    slots = [t.variable() for _ in range(3)]
    for slot in slots:
        t.set_variable(slot, zero)

    def add(slot: str, value: Expression, name: str = "add") -> None:
        t.set_variable(slot, Operation(name, dtype, (Get(slot, dtype), value)))

    def one(slot: str) -> Callable[[Expression, Expression], None]:
        def body(first: Expression, index: Expression) -> None:
            value = lanes.element((plus(first, index),))
            assert isinstance(value, Value)
            add(slot, operators.convert(value.code, dtype), "add_in_any_order")

        return body

    if not dtype.startswith("float"):
        t.count(length, lambda index: one(slots[0])(ZERO, index))
        return operators.scalar(Get(slots[0], dtype))
    inner, blocks = BLOCK

    def block(size: int, then: Callable[[Expression, Expression], None]) -> Callable[..., None]:
        def body(first: Expression, number: Expression) -> None:
            begin = t.temporary(operators.python(plus(first, times(number, size)))).code
            left = minus(length, begin)
            then(begin, least(left, Constant("int64", size)))

        return body

    def innermost(begin: Expression, count: Expression) -> None:
        t.set_variable(slots[0], zero)
        count = t.temporary(operators.python(count)).code
        t.count(count, lambda index: one(slots[0])(begin, index))
        add(slots[1], Get(slots[0], dtype))

    def middle(begin: Expression, count: Expression) -> None:
        t.set_variable(slots[1], zero)
        wide = plus(count, Constant("int64", inner - 1))
        parts = Operation("floor_divide", "int64", (wide, Constant("int64", inner)))
        number = t.temporary(operators.python(parts)).code
        t.count(number, lambda index: block(inner, innermost)(begin, index))
        add(slots[2], Get(slots[1], dtype))

    short = Operation("less_equal", "bool", (length, Constant("int64", inner)))

    def long() -> None:
        size = inner * blocks
        wide = plus(length, Constant("int64", size - 1))
        parts = Operation("floor_divide", "int64", (wide, Constant("int64", size)))
        number = t.temporary(operators.python(parts)).code
        t.count(number, lambda index: block(size, middle)(ZERO, index))

    t.choose(short, lambda: t.count(length, lambda index: one(slots[2])(ZERO, index)), long)
    return operators.scalar(Get(slots[2], dtype))


def _of_rows(lanes: Lanes, function: Callable[[Lanes], Number]) -> Lanes:
    """What a function gives for all that stands at each index of the first axis."""

    def element(first: tuple[Expression, ...]) -> Number:
        rest = Lanes(
            lanes.lengths[1:], lambda i: lanes.element((*first, *i)), (), lanes.within[1:]
        )
        return function(rest)

    return Lanes(lanes.lengths[:1], element, lanes.reads, lanes.within[:1])


def product(t: Translator, key: Any, left: Lanes, right: Lanes) -> Number | Slice:
    """`left @ right`: a number, or memory of its own with a small matrix or a vector.

    Raises:
        NotTypedError: they have more than two axes, or no dtype that the run does not tell.
    """
    if max(len(left.lengths), len(right.lengths)) > 2:
        raise NotTypedError("a product of arrays of more than two axes")
    rows, columns = left.lengths[:-1], right.lengths[1:]

    def summed_up(indices: tuple[Expression, ...]) -> Number:
        row, column = indices[: len(rows)], indices[len(rows) :]
        factors = (
            Lanes((left.lengths[-1],), lambda k: left.element((*row, *k)), (), left.within[-1:]),
            Lanes((right.lengths[0],), lambda k: right.element((*k, *column)), (),
                  right.within[:1]),
        )  # fmt: skip
        both = each(t, partial(complex_numbers.binary, "multiply"), factors)
        dtype = dtype_of(t, both)
        if dtype == "bool":
            raise NotTypedError("a product of truth values")
        return t.settled(total(t, both, dtype))

    if not rows and not columns:
        return summed_up(())
    t.products += [*left.within, *right.within]
    for length in (*left.lengths, *columns):
        t.check(Operation("less_equal", "bool", (length, Constant("int64", SMALL))))
    same_lengths(t, left.lengths[-1:], right.lengths[:1])
    found = Lanes((*rows, *columns), summed_up, (), (*left.within[:-1], *right.within[1:]))
    return kept(t, key, found)


def summed(t: Translator, lanes: Lanes) -> Number:
    """`x.sum()`."""
    dtype = dtype_of(t, lanes)
    return t.settled(total(t, lanes, _SUMMED.get(dtype, dtype)))


def mean(t: Translator, lanes: Lanes) -> Number:
    """`x.mean()`; of nothing NumPy warns."""
    count = operators.constant(1)
    for length in lanes.lengths:
        t.check(Operation("greater", "bool", (length, ZERO)))
        count = operators.binary("multiply", count, operators.python(length, 0, GIVEN))
    dtype = dtype_of(t, lanes)
    dtype = dtype if dtype.startswith(("float", "complex")) else "float64"
    return t.settled(complex_numbers.binary("divide", total(t, lanes, dtype), count))


def tested(t: Translator, lanes: Lanes, all_of_them: bool) -> Value:
    """`x.all()` and `x.any()`."""
    slot = t.variable()
    t.set_variable(slot, TRUE if all_of_them else FALSE)
    join = operators.both if all_of_them else operators.either

    def body(indices: tuple[Expression, ...]) -> None:
        test = complex_numbers.truth(lanes.element(indices))
        t.set_variable(slot, join(Get(slot, "bool"), test))

    for_each(t, lanes.lengths, body)
    return t.temporary(operators.scalar(Get(slot, "bool")))


def extreme(t: Translator, name: str, lanes: Lanes) -> Value:
    """`x.max()` and `x.min()`: NaN where there is one; of nothing NumPy raises."""
    return _extreme(t, name, lanes, False)[0]


def place_of_extreme(t: Translator, name: str, lanes: Lanes) -> Value:
    """`x.argmax()` and `x.argmin()`: the first one; the first NaN where there is one.

    Raises:
        NotTypedError: there are several axes.
    """
    if len(lanes.lengths) > 1:
        raise NotTypedError("the place of an extreme of more than one axis")
    return _extreme(t, name, lanes, True)[1]


def _beyond(name: str, value: Expression, old: Expression) -> Expression:
    """Whether a number is larger or smaller than another one, or the first NaN."""
    found: Expression = Operation("greater" if name == "maximum" else "less", "bool", (value, old))
    if value.dtype.startswith("float"):
        unlike = [Operation("not_equal", "bool", (each, each)) for each in (value, old)]
        found = operators.either(found, operators.both(unlike[0], operators.negated(unlike[1])))
    return found


def _extreme(t: Translator, name: str, lanes: Lanes, placed: bool) -> tuple[Value, Value]:
    """The largest or smallest element; where `placed`, its first place along the first axis."""
    if len(lanes.lengths) > 1:
        lanes = _of_rows(lanes, lambda row: extreme(t, name, row))
    (length,) = lanes.lengths
    t.check(Operation("greater", "bool", (length, ZERO)))
    dtype = dtype_of(t, lanes)
    if dtype in COMPLEX:
        raise NotTypedError(f"{name} of complex numbers")
    slot, place = t.variable(), t.variable()

    def at(index: Expression) -> Expression:
        value = lanes.element((index,))
        assert isinstance(value, Value)
        return value.code

    t.set_variable(slot, at(ZERO))
    t.set_variable(place, ZERO)

    def body(index: Expression) -> None:
        value, old = at(index), Get(slot, dtype)
        if placed:
            value = t.temporary(operators.scalar(value)).code
            beyond: Expression = _beyond(name, value, old)
            to = Operation("select", "int64", (beyond, index, Get(place, "int64")))
            t.set_variable(place, to)
        t.set_variable(slot, Operation(name, dtype, (old, value)))

    t.count(length, body)
    kind = kinds.Type(frozenset(("int64",)), 0, GIVEN)
    found = t.temporary(operators.scalar(Get(slot, dtype)))
    return found, t.temporary(Value(Get(place, "int64"), kind, TRUE))
