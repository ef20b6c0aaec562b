"""Running values of reductions, as LLVM IR text: how they start, take values in and are joined.

Floating-point sums of rows add blocks of vectors, and blocks to each other with the rounding
error kept (Knuth's TwoSum; Ogita, Rump and Oishi, "Accurate sum and dot product", SIAM J. Sci.
Comput. 26(6), 2005), so that the error does not grow with the row's length.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial, reduce

from fuser.backends.cpu import conversion, tuning
from fuser.backends.cpu.body import BITS, Body, Value, iota
from fuser.backends.cpu.spelling import spell
from fuser.base.records import field, record
from fuser.ir.ops import TABLE, Op, identity


@record(frozen=False, slots=False)
class Accumulator:
    """The running value of one reduction in one loop."""

    number: int
    op: str
    dtype: str
    operand: int
    parts: list[Value] = field(default_factory=list)
    """One vector; for argmax and argmin also places, for sums of floats in rows also the error, for
    an extreme that notes NaN also where there was none yet."""
    noted: bool = False
    """Whether NaN are noted beside, by this extreme or by another one of the same values."""
    ordered: Value | None = None
    """After a row: the lanes in which there was no NaN, if these are noted beside."""

    @property
    def row(self) -> Op:
        """The row of the op table."""
        return TABLE[self.op]

    @property
    def places(self) -> bool:
        """Whether the result is a place."""
        return self.row.places

    @property
    def exact(self) -> bool:
        """Whether rounding errors are worth keeping."""
        return self.row.adds and "float" in self.dtype

    @property
    def register(self) -> str:
        """The scalar LLVM type of the value."""
        return conversion.REGISTER[self.dtype]

    @property
    def index(self) -> str:
        """The scalar LLVM type of places within one loop, as wide as the value where it can be.

        No loop of a reduction that gives places is longer than `fused_kernel.LONGEST_PLACES`.
        """
        return "i64" if BITS[self.register] == 64 else "i32"

    def saved(self, *, column: bool) -> list[str]:
        """Scalar LLVM types of what is kept of one part of a row or column."""
        if self.places:
            return [self.register, "i64"]
        return [self.register] * (2 if self.exact and not column else 1)


def start(b: Body, accumulator: Accumulator, lanes: int) -> list[Value]:
    """What a reduction starts from.

    The first place of a lane is right from the start: its value is at least the worst one.
    """
    like = Value("", accumulator.register, lanes)
    value = b.number(like, identity(accumulator.row, accumulator.dtype))
    if accumulator.places:
        return [value, b.constant_bits(accumulator.index, lanes, 0)]
    return [value]


def zero(b: Body, accumulator: Accumulator, lanes: int) -> Value:
    """No rounding error yet."""
    return b.constant_bits(accumulator.register, lanes, 0)


def take(
    b: Body,
    accumulator: Accumulator,
    value: Value,
    mask: Value | None,
    index: Value | None,
    *,
    squared: bool = False,
) -> None:
    """Take one vector in; lanes outside the mask change nothing.

    Args:
        b: where to write.
        accumulator: its parts are replaced.
        value: the vector.
        mask: None for all lanes.
        index: for places, the number of the turn in every lane.
        squared: the value's square is added, with one rounding; its processor has FMA.
    """
    if mask is not None and not accumulator.noted:  # an extreme may meet the first one again
        value = b.select(mask, value, start(b, accumulator, value.lanes)[0])
    old = accumulator.parts
    truths = old[1:] if accumulator.noted else []
    if accumulator.places:
        assert index is not None
        if len(old) == 3:
            accumulator.parts = _place_taken(b, accumulator, value, index)
            return
        better = _better(b, accumulator, value, old[0])
        accumulator.parts = [b.select(better, value, old[0]), b.select(better, index, old[1])]
    elif len(old) == 2 and not accumulator.noted:
        total, error = two_sum(b, old[0], value)
        accumulator.parts = [total, b.op("fadd", old[1], error)]
    elif squared:
        accumulator.parts = [b.fma(value, value, old[0])]
    elif accumulator.noted:
        accumulator.parts = [more_extreme(b, accumulator, old[0], value)]
        accumulator.parts += _still_ordered(b, value, truths)
    else:
        accumulator.parts = [_pair(b, accumulator, old[0], value)]


def count(b: Body, accumulator: Accumulator, truths: Value, mask: Value | None) -> None:
    """Add how many of a vector's truths are true to a sum in one lane."""
    if mask is not None:
        truths = b.op("and", truths, mask)
    bits = b.value(f"bitcast {truths.typed} to i{truths.lanes}", f"i{truths.lanes}", 1)
    number, register = b.intrinsic("llvm.ctpop", bits), accumulator.register
    if truths.lanes != BITS[register]:
        way = "zext" if truths.lanes < BITS[register] else "trunc"
        number = b.cast(way, number, register)
    accumulator.parts = [b.op("add", accumulator.parts[0], number)]


def _pair(b: Body, accumulator: Accumulator, old: Value, new: Value) -> Value:
    """Two partial results as one."""
    return spell(b, accumulator.row.combine, accumulator.dtype, [old, new])


def _better(b: Body, accumulator: Accumulator, new: Value, old: Value) -> Value:
    """Whether a later value is more extreme than an earlier one; the first NaN wins for good."""
    sign = "gt" if accumulator.row.greatest else "lt"
    if new.scalar in ("float", "double"):
        more = b.compare(f"fcmp u{sign}", new, old)
        return b.op("and", more, b.compare("fcmp ord", old, old))
    signed = accumulator.dtype.startswith("i")
    return b.compare(f"icmp {'s' if signed else 'u'}{sign}", new, old)


def watch(b: Body, accumulator: Accumulator) -> None:
    """Have a place of a float note beside where a NaN was met, if a mask can.

    Then the running value is one instruction's, and what waits for it is not it itself.
    """
    if accumulator.places and accumulator.register in ("float", "double") and b.features.masked:
        value = accumulator.parts[0]
        accumulator.parts = [*accumulator.parts, b.compare("fcmp uno", value, value)]


def unwatch(b: Body, accumulator: Accumulator) -> None:
    """Put what was noted beside back into the value."""
    if accumulator.places and len(accumulator.parts) == 3:
        value, index, nan = accumulator.parts
        accumulator.parts = [or_nan(b, value, nan), index]


def _place_taken(b: Body, accumulator: Accumulator, new: Value, index: Value) -> list[Value]:
    """The value, NaN left out, the place and where a NaN was met, after one more vector."""
    old, place, seen = accumulator.parts
    more = b.compare(f"fcmp o{'gt' if accumulator.row.greatest else 'lt'}", new, old)
    nan = b.compare("fcmp uno", new, new)
    fresh = b.op("xor", seen, b.constant_bits("i1", seen.lanes, 1))
    better = b.op("and", b.op("or", more, nan), fresh)
    return [b.select(more, new, old), b.select(better, index, place), b.op("or", seen, nan)]


# -- extremes of floats ---------------------------------------------------------------------
#
# NumPy's are NaN where any element is: a comparison of the running value with itself, one with the
# new one, and a choice. Where NaN are noted beside, one instruction of x86 gives the extreme, and
# one comparison tells of two vectors whether there is a NaN in them, whatever extremes are wanted.


def noters(running: Sequence[Accumulator]) -> list[int | None]:
    """For each reduction the place of the one that notes NaN for it; None where none does."""
    first: dict[int, int] = {}
    found: list[int | None] = []
    for place, accumulator in enumerate(running):
        served = accumulator.row.is_extreme and accumulator.dtype in ("float32", "float64")
        found.append(first.setdefault(accumulator.operand, place) if served else None)
    return found


def note(b: Body, running: Sequence[Accumulator], native: int) -> None:
    """Have extremes that have just begun note NaN beside: for every two native vectors."""
    for place, (accumulator, noter) in enumerate(zip(running, noters(running), strict=True)):
        accumulator.noted = noter is not None
        if noter != place:
            continue
        (value,) = accumulator.parts
        lanes = min(native, value.lanes)
        bits = "i1" if b.features.masked else f"i{BITS[value.scalar]}"
        full = b.constant_bits(bits, lanes, (1 << BITS[bits]) - 1)
        accumulator.parts += [full] * max(1, value.lanes // lanes // 2)


def settle(b: Body, running: Sequence[Accumulator], native: int) -> None:
    """Join each extreme's vectors to one, and what was noted beside to lanes without NaN."""
    for place, noter in enumerate(noters(running)):
        if noter is None:
            continue
        accumulator = running[place]
        value, *truths = accumulator.parts
        join = partial(more_extreme, b, accumulator)
        accumulator.parts = [halved(b, value, join, min(native, value.lanes))]
        accumulator.ordered = running[noter].ordered
        if truths:
            ordered = reduce(partial(b.op, "and"), truths)
            if ordered.scalar != "i1":
                ordered = b.compare("icmp ne", ordered, b.iconst(ordered, 0))
            accumulator.ordered = ordered


def more_extreme(b: Body, accumulator: Accumulator, old: Value, new: Value) -> Value:
    """The more extreme value, the new one where they are equal; any where one is NaN."""
    sign = "gt" if accumulator.row.greatest else "lt"
    return b.select(b.compare(f"fcmp o{sign}", old, new), old, new)


def or_nan(b: Body, value: Value, nan: Value) -> Value:
    """A value, or NaN."""
    return b.select(nan, b.fconst(value, float("nan")), value)


def any_nan(b: Body, ordered: Value) -> Value:
    """Whether any lane is not ordered."""
    return b.any(b.op("xor", ordered, b.constant_bits("i1", ordered.lanes, 1)))


def _still_ordered(b: Body, value: Value, truths: list[Value]) -> list[Value]:
    """Where there was no NaN yet, after one more vector: two native vectors for each truth."""
    found = []
    for pair, old in enumerate(truths):
        first = second = value
        if value.lanes > old.lanes:
            first, second = (
                half(b, value, (2 * pair + k) * old.lanes, old.lanes) for k in (0, 1)
            )
        both = b.compare("fcmp ord", first, second)
        if old.scalar != "i1":
            both = b.cast("sext", both, old.scalar)
        found.append(b.op("and", old, both))
    return found


def combine_lanes(
    b: Body, accumulator: Accumulator, first: str, *, keep_error: bool
) -> list[Value]:
    """One partial result from the lanes of a row.

    Args:
        b: where to write.
        accumulator: its parts are vectors; for sums of floats a sum and its error.
        first: where the loop began in the row, for places.
        keep_error: whether other parts of the row are still to be added.
    """
    if accumulator.places:
        return _combine_places(b, accumulator, first)
    parts = accumulator.parts
    if accumulator.ordered is not None:
        join = partial(more_extreme, b, accumulator)
        return [or_nan(b, halved(b, parts[0], join), any_nan(b, accumulator.ordered))]
    if len(parts) == 1 and not accumulator.exact:
        return [halved(b, parts[0], lambda x, y: _pair(b, accumulator, x, y))]
    if accumulator.register == "float":
        return _combine_wide(b, parts, keep_error)
    lanes = parts[0].lanes
    while lanes > 1:
        lanes //= 2
        low, high = ([half(b, part, begin, lanes) for part in parts] for begin in (0, lanes))
        total, error = two_sum(b, low[0], high[0])
        if len(low) > 1:
            error = b.op("fadd", b.op("fadd", low[1], high[1]), error)
        parts = [total, error]
    return parts


def _combine_wide(b: Body, parts: list[Value], keep_error: bool) -> list[Value]:
    """Lanes of float sums, added as doubles: the sum, and its error if that is wanted."""
    sums, *errors = parts

    def add(x: Value, y: Value) -> Value:
        return b.op("fadd", x, y)

    few = min(sums.lanes, tuning.WAITING_LANES)
    total = halved(b, b.cast("fpext", sums, "double"), add, few)
    for each in errors:
        error = b.cast("fpext", halved(b, each, add, few), "double")
        # It is not a number where a sum on the way was not finite: then it does not count.
        error = b.select(b.compare("fcmp ord", error, error), error, b.fconst(error, 0.0))
        total = add(total, error)
    total = halved(b, total, add)
    rounded = b.cast("fptrunc", total, "float")
    if not keep_error:
        return [rounded]
    rest = b.op("fsub", total, b.cast("fpext", rounded, "double"))
    return [rounded, b.cast("fptrunc", rest, "float")]


def halved(
    b: Body, value: Value, join: Callable[[Value, Value], Value], lanes: int = 1
) -> Value:
    """Values from all lanes in a few lanes, by halves."""
    while value.lanes > lanes:
        size = value.lanes // 2
        value = join(half(b, value, 0, size), half(b, value, size, size))
    return value


def _combine_places(b: Body, accumulator: Accumulator, first: str) -> list[Value]:
    """The extreme value of all lanes and its first place in the row."""
    value, index = accumulator.parts
    lanes = value.lanes
    best = halved(b, value, lambda x, y: _pair(b, accumulator, x, y))
    place = b.op("add", b.op("mul", index, b.constant_bits(index.scalar, lanes, lanes)),
                 iota(lanes, index.scalar))  # fmt: skip
    wide = b.splat(best, lanes)
    if value.scalar in ("float", "double"):
        found = b.compare("fcmp oeq", value, wide)
        found = b.op("or", found, b.compare("fcmp uno", value, value))
    else:
        found = b.compare("icmp eq", value, wide)
    none = b.constant_bits(index.scalar, lanes, (1 << BITS[index.scalar]) - 1)
    place = b.select(found, place, none)
    place = halved(b, place, lambda x, y: b.select(b.compare("icmp ult", x, y), x, y))
    if place.scalar != "i64":
        place = b.cast("zext", place, "i64")
    return [best, b.op("add", place, Value(first, "i64", 1))]


def merge(
    b: Body, accumulator: Accumulator, old: list[Value], new: list[Value]
) -> list[Value]:
    """Join two parts of a row or column; `old` came first, and has an error where sums do."""
    if accumulator.places:
        take_new = _better(b, accumulator, new[0], old[0])
        return [b.select(take_new, x, y) for x, y in zip(new, old, strict=True)]
    if accumulator.exact:
        total, error = two_sum(b, old[0], new[0])
        rest = old[1] if len(new) == 1 else b.op("fadd", old[1], new[1])
        return [total, b.op("fadd", rest, error)]
    return [_pair(b, accumulator, old[0], new[0])]


def finish(b: Body, accumulator: Accumulator, parts: list[Value]) -> Value:
    """The result. float16 sums and products are rounded once, at the end, as NumPy's."""
    if accumulator.places:
        return parts[1]
    value = parts[0]
    if len(parts) == 2:
        value = with_error(b, value, parts[1])
    if accumulator.dtype == "float16" and accumulator.row.accumulates:
        return conversion.round_half(b, value)
    return value


def with_error(b: Body, total: Value, error: Value) -> Value:
    """A sum and its error, which is not a number where the sum is not finite: the sum then."""
    size = b.intrinsic("llvm.fabs", error)
    finite = b.compare("fcmp olt", size, b.fconst(size, float("inf")))
    return b.select(finite, b.op("fadd", total, error), total)


def half(b: Body, value: Value, begin: int, lanes: int) -> Value:
    """Lanes [begin, begin + lanes)."""
    if lanes == 1:
        return b.value(f"extractelement {value.typed}, i64 {begin}", value.scalar, 1)
    places = ", ".join(f"i32 {begin + k}" for k in range(lanes))
    text = f"shufflevector {value.typed}, {value.type} poison, <{lanes} x i32> <{places}>"
    return b.value(text, value.scalar, lanes)


def two_sum(b: Body, x: Value, y: Value) -> tuple[Value, Value]:
    """x + y and its rounding error, exactly; the error is NaN where the sum is not finite."""
    total = b.op("fadd", x, y)
    part = b.op("fsub", total, x)
    rest = b.op("fsub", total, part)
    return total, b.op("fadd", b.op("fsub", x, rest), b.op("fsub", y, part))
