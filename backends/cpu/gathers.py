"""Elements read at computed places, as LLVM IR text: with their bounds checked.

Kernels compute an element's address from an index, and the length and the stride of the axis that
it is of. An index beyond the axis raises the flag, upon which NumPy runs the call and raises; what
such a lane reads here is the flag's own memory.
"""

from __future__ import annotations

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
    address = b.select(inside, address, b.splat(spare, address.lanes))
    return conversion.from_memory(b, _fetched(b, conversion.MEMORY[dtype], address), dtype)


def _fetched(b: Body, memory: str, address: Value) -> Value:
    """What lies at addresses, one after another."""
    lanes = address.lanes
    if lanes == 1:
        return _element(b, memory, address)
    vector = vector_type(memory, lanes)
    found = "poison"
    for lane in range(lanes):
        place = b.value(f"extractelement {address.typed}, i64 {lane}", "i64", 1)
        element = _element(b, memory, place)
        text = f"insertelement {vector} {found}, {element.typed}, i64 {lane}"
        found = b.value(text, memory, lanes).text
    return Value(found, memory, lanes)


def _element(b: Body, memory: str, address: Value) -> Value:
    """What lies at one address."""
    pointer = b.value(f"inttoptr {address.typed} to ptr", "ptr", 1)
    return b.value(f"load {memory}, ptr {pointer.text}, align 1", memory, 1)
