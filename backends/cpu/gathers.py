"""Elements read and written at computed places, as LLVM IR text: with their bounds checked.

Kernels compute an element's address from an index, and the length and the stride of the axis that
it is of. An index beyond the axis raises the flag, upon which NumPy runs the call and raises; what
such a lane reads here is the flag's own memory, and it writes into the eight bytes after it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from fuser.backends.cpu import conversion
from fuser.backends.cpu.body import Body, Value, vector_type


def gather(b: Body, dtype: str, *operands: Value) -> Value:
    """Elements at computed places.

    Args:
        b: where to append.
        dtype: of the elements.
        operands: index, length and stride in bytes of each axis, and the address of what lies at
            the first place of them all; each of 64 bits.
    """
    address = _addresses(b, operands, 0)
    return conversion.from_memory(b, _fetched(b, conversion.MEMORY[dtype], address), dtype)


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
    *places, value = operands
    address, memory = _addresses(b, places, 8), conversion.MEMORY[dtype]
    # Addresses in two registers. Of those in one, AMD's processors expect that what the same
    # register held before was written there, and start anew (8 ns instead of 1).
    block = b.value("ptrtoint ptr %block to i64", "i64", 1)
    offset = b.op("sub", address, b.splat(block, address.lanes))
    for lane in range(value.lanes):
        place, one = (_lane(b, each, lane) for each in (offset, value))
        pointer = b.value(f"getelementptr i8, ptr %block, {place.typed}", "ptr", 1).text
        if combine is not None:
            raw = b.value(f"load {memory}, ptr {pointer}, align 1", memory, 1)
            one = combine(conversion.from_memory(b, raw, dtype), one)
        b.line(f"store {conversion.to_memory(b, one, dtype).typed}, ptr {pointer}, align 1")
    return value


def _lane(b: Body, value: Value, lane: int) -> Value:
    """One lane of a vector."""
    if value.lanes == 1:
        return value
    return b.value(f"extractelement {value.typed}, i64 {lane}", value.scalar, 1)


def _addresses(b: Body, operands: Sequence[Value], past: int) -> Value:
    """Addresses of elements at computed places; beyond an axis, so many bytes past the flag's."""
    *numbers, address = operands
    inside: Value | None = None
    for index, length, stride in zip(numbers[::3], numbers[1::3], numbers[2::3], strict=True):
        back = b.op("add", index, length)
        place = b.select(b.compare("icmp slt", index, b.iconst(index, 0)), back, index)
        fits = b.compare("icmp ult", place, length)
        inside = fits if inside is None else b.op("and", inside, fits)
        address = b.op("add", address, b.op("mul", place, stride))
    assert inside is not None
    b.raise_flag(b.op("xor", inside, b.constant_bits("i1", inside.lanes, 1)))
    spare = b.value("ptrtoint ptr %flag to i64", "i64", 1)
    spare = b.op("add", spare, b.iconst(spare, past)) if past else spare
    return b.select(inside, address, b.splat(spare, address.lanes))


def _fetched(b: Body, memory: str, address: Value) -> Value:
    """What lies at addresses, one after another."""
    lanes = address.lanes
    if lanes == 1:
        return _element(b, memory, address)
    vector = vector_type(memory, lanes)
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
