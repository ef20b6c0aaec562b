"""Elements read and written at computed places, as LLVM IR text: with their bounds checked.

Kernels compute an element's address from an index, and the length and the stride of the axis that
it is of. An index beyond the axis raises the flag, upon which NumPy runs the call and raises; what
such a lane reads here is the flag's own memory, and its vector writes nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial, reduce
from typing import TypeAlias

from fuser.backends.cpu import conversion
from fuser.backends.cpu.body import BITS, Body, Value, mangled, vector_type

Axis: TypeAlias = tuple[Value, Value, Value]


def gather(b: Body, dtype: str, *operands: Value) -> Value:
    """Elements at computed places; those of one row that lie side by side as a vector.

    Args:
        b: where to append.
        dtype: of the elements.
        operands: index, length and stride in bytes of each axis, and the address of what lies at
            the first place of them all; each of 64 bits.
    """
    memory = conversion.MEMORY[dtype]
    if (found := _beside(b, dtype, operands)) is None:
        return conversion.from_memory(b, _fetched(b, memory, _addresses(b, operands)), dtype)
    (test, address), vector = found, vector_type(memory, operands[-1].lanes)
    row, apart, joined = map(b.label, ("beside", "apart", "joined"))
    b.line(f"br {test.typed}, label %{row}, label %{apart}")
    b.start(row)
    pointer = b.value(f"inttoptr {address.typed} to ptr", "ptr", 1)
    one = b.value(f"load {vector}, ptr {pointer.text}, align 1", memory, operands[-1].lanes)
    b.jump(joined, apart)
    other = _fetched(b, memory, _addresses(b, operands))
    end = b.block
    b.jump(joined)
    text = f"phi {vector} [ {one.text}, %{row} ], [ {other.text}, %{end} ]"
    return conversion.from_memory(b, b.value(text, memory, one.lanes), dtype)


def _beside(b: Body, dtype: str, operands: Sequence[Value]) -> tuple[Value, Value] | None:
    """Whether all lanes are side by side in a row within its axes, and the address of the first.

    None where only lanes tell: places differ from one to the next.
    """
    *numbers, address = operands
    spaced = b.spaced.get(address.text)
    known = [one for one in map(b.same, numbers) if one is not None]
    if spaced is None or address.lanes == 1 or len(known) < len(numbers):
        return None
    (at, step, all_rise), size = spaced, conversion.bytes_of(dtype)
    test = b.value(f"icmp eq i64 {step}, {size}", "i1", 1)
    if not all_rise:
        last = b.value(f"extractelement {address.typed}, i64 {address.lanes - 1}", "i64", 1)
        far = b.op("sub", last, at)
        rise = b.iconst(far, (address.lanes - 1) * size)
        test = b.op("and", test, b.compare("icmp eq", far, rise))
    for index, length, stride in zip(known[::3], known[1::3], known[2::3], strict=True):
        place = _counted(b, index, length)
        test = b.op("and", test, b.compare("icmp ult", place, length))
        at = b.op("add", at, b.op("mul", place, stride))
    return test, at


def _counted(b: Body, index: Value, length: Value) -> Value:
    """An index that counts from the start of its axis, where it is within."""
    back = b.op("add", index, length)
    return b.select(b.compare("icmp slt", index, b.iconst(index, 0)), back, index)


def scatter(
    b: Body, dtype: str, operands: Sequence[Value], combine: Callable[[Value, Value], Value] | None
) -> Value:
    """Write elements at computed places, one lane after another; gives what is written.

    Args:
        b: where to append.
        dtype: of the elements.
        operands: as of a gather, then what is written.
        combine: makes one of what is there and what is written; None: it takes its place.
    """
    *numbers, address, value = operands
    memory, lanes = conversion.MEMORY[dtype], value.lanes
    axes = _axes(numbers)
    back, inside, write, over = map(b.label, ("back", "inside", "write", "over"))
    offset, beyond = _offset(b, axes)
    b.branch(b.any(beyond).text, back, inside, rare=True)  # from the end, or beyond
    other, beyond = _offset(b, _from_the_start(b, axes))
    b.flagged, bad = True, b.label("bad")
    b.branch(b.any(beyond).text, bad, write, rare=True)  # then nothing is written
    b.line("store i32 1, ptr %flag")
    b.jump(over, inside)
    b.jump(write)
    text = f"phi {offset.type} [ {other.text}, %{back} ], [ {offset.text}, %{inside} ]"
    offset = b.value(text, "i64", lanes)
    # Addresses in two registers. Of those in one, AMD's processors expect that what the same
    # register held before was written there, and start anew (8 ns instead of 1).
    base = b.same(address)
    if base is None:
        base = b.value("ptrtoint ptr %block to i64", "i64", 1)
        offset = b.op("add", offset, b.op("sub", address, b.splat(base, lanes)))
    start = b.value(f"inttoptr {base.typed} to ptr", "ptr", 1)
    for lane in range(lanes):
        place, one = (_lane(b, each, lane) for each in (offset, value))
        pointer = b.value(f"getelementptr i8, {start.typed}, {place.typed}", "ptr", 1).text
        if combine is not None:
            raw = b.value(f"load {memory}, ptr {pointer}, align 1", memory, 1)
            one = combine(conversion.from_memory(b, raw, dtype), one)
        b.line(f"store {conversion.to_memory(b, one, dtype).typed}, ptr {pointer}, align 1")
    b.jump(over)
    return value


def _axes(numbers: Sequence[Value]) -> list[Axis]:
    """Index, length and stride of each axis."""
    return list(zip(numbers[::3], numbers[1::3], numbers[2::3], strict=True))


def _from_the_start(b: Body, axes: Sequence[Axis]) -> list[Axis]:
    """Axes with indices that count from their start, where they are within."""
    return [(_counted(b, index, length), length, stride) for index, length, stride in axes]


def _offset(b: Body, axes: Sequence[Axis]) -> tuple[Value, Value]:
    """How far places lie from an array's first element, and whether they are beyond an axis."""
    outside = [b.compare("icmp uge", index, length) for index, length, _ in axes]
    steps = [b.op("mul", index, stride) for index, _, stride in axes]
    return reduce(partial(b.op, "add"), steps), reduce(partial(b.op, "or"), outside)


def _lane(b: Body, value: Value, lane: int) -> Value:
    """One lane of a vector."""
    if value.lanes == 1:
        return value
    return b.value(f"extractelement {value.typed}, i64 {lane}", value.scalar, 1)


def _addresses(b: Body, operands: Sequence[Value]) -> Value:
    """Addresses of elements at computed places; beyond an axis, the flag's."""
    *numbers, address = operands
    axes = _axes(numbers)
    back, inside, over = map(b.label, ("back", "inside", "found"))
    offset, beyond = _offset(b, axes)
    b.branch(b.any(beyond).text, back, inside, rare=True)
    other, beyond = _offset(b, _from_the_start(b, axes))
    b.raise_flag(beyond)
    spare = b.value("ptrtoint ptr %flag to i64", "i64", 1)
    counted = b.select(beyond, b.splat(spare, address.lanes), b.op("add", address, other))
    b.jump(over, inside)
    plain = b.op("add", address, offset)
    b.jump(over)
    text = f"phi {plain.type} [ {counted.text}, %{back} ], [ {plain.text}, %{inside} ]"
    return b.value(text, "i64", plain.lanes)


def _fetched(b: Body, memory: str, address: Value) -> Value:
    """What lies at addresses."""
    lanes = address.lanes
    if lanes == 1:
        return _element(b, memory, address)
    vector = vector_type(memory, lanes)
    if b.features.gathers and BITS[memory] >= 32:
        places, bits = vector_type("ptr", lanes), vector_type("i1", lanes)
        symbol = f"llvm.masked.gather.{mangled(memory, lanes)}.v{lanes}p0"
        b.module.declare(symbol, vector, (places, "i32", bits, vector))
        at = b.value(f"inttoptr {address.typed} to {places}", "ptr", lanes)
        given = f"{at.typed}, i32 1, {bits} splat (i1 true), {vector} poison"
        return b.value(f"call {vector} @{symbol}({given})", memory, lanes)
    found = "poison"
    for lane in range(lanes):
        element = _element(b, memory, _lane(b, address, lane))
        text = f"insertelement {vector} {found}, {element.typed}, i64 {lane}"
        found = b.value(text, memory, lanes).text
    return Value(found, memory, lanes)


def _element(b: Body, memory: str, address: Value) -> Value:
    """What lies at one address."""
    pointer = b.value(f"inttoptr {address.typed} to ptr", "ptr", 1)
    return b.value(f"load {memory}, ptr {pointer.text}, align 1", memory, 1)
