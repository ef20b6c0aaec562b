"""Vectors of elements in and out of memory, as LLVM IR text: whole, masked or strided."""

from __future__ import annotations

from fuser.backends.cpu import conversion
from fuser.backends.cpu.body import Body, Value, iota, mangled, vector_type
from fuser.ir.specs import CONTIGUOUS, INVARIANT, TensorDesc

#: Counted operands have elements of eight bytes.
POSITION_SHIFT = 3


def lane_mask(b: Body, rest: str, lanes: int) -> Value:
    """The lanes that `rest` left-over elements fill."""
    if lanes == 1:
        return b.constant_bits("i1", 1, 1)
    narrow = b.value(f"trunc i64 {rest} to i32", "i32", 1)
    return b.compare("icmp ult", iota(lanes, "i32"), b.splat(narrow, lanes))


def put_register(b: Body, value: Value, address: str, align: int = 1) -> None:
    """Write the lanes of a register side by side; a truth value takes a byte."""
    raw = b.cast("zext", value, "i8") if value.scalar == "i1" else value
    b.line(f"store {raw.typed}, ptr {address}, align {align}")


def get_register(b: Body, scalar: str, lanes: int, address: str, align: int = 1) -> Value:
    """Read what `put_register` wrote."""
    memory = "i8" if scalar == "i1" else scalar
    kind = vector_type(memory, lanes)
    raw = b.value(f"load {kind}, ptr {address}, align {align}", memory, lanes)
    return b.compare("icmp ne", raw, b.iconst(raw, 0)) if scalar == "i1" else raw


def load_one(b: Body, desc: TensorDesc, address: str) -> Value:
    """One element as a scalar."""
    if desc.counted:
        return position(b, desc, address)
    memory = conversion.MEMORY[desc.dtype]
    raw = b.value(f"load {memory}, ptr {address}, align 1", memory, 1)
    return conversion.from_memory(b, raw, desc.dtype)


def load(
    b: Body, desc: TensorDesc, address: str, mask: Value | None, step: str, lanes: int
) -> Value:
    """A vector of elements; lanes outside the mask repeat the first.

    Args:
        b: where to write.
        desc: how the operand is met along the lanes.
        address: of the first element.
        mask: None for all lanes.
        step: bytes from one lane's element to the next one's.
        lanes: how many elements.
    """
    memory = conversion.MEMORY[desc.dtype]
    vector = vector_type(memory, lanes)
    if desc.access == INVARIANT or lanes == 1:
        return b.splat(load_one(b, desc, address), lanes)
    if desc.counted:
        places = iota(lanes)
        if mask is not None:
            places = b.select(mask, places, b.iconst(places, 0))
        return positions(b, desc, address, places, step)
    if desc.access == CONTIGUOUS and mask is None:
        raw = b.value(f"load {vector}, ptr {address}, align 1", memory, lanes)
        return conversion.from_memory(b, raw, desc.dtype)
    if mask is None:
        from fuser.backends.cpu import spacing  # many kernels need none

        raw = spacing.picked(b, memory, address, step, lanes)
        return conversion.from_memory(b, raw, desc.dtype)
    first = b.value(f"load {memory}, ptr {address}, align 1", memory, 1)
    rest = b.splat(first, lanes)
    bits = f"<{lanes} x i1>"
    if desc.access == CONTIGUOUS:
        symbol = f"llvm.masked.load.{mangled(memory, lanes)}.p0"
        b.module.declare(symbol, vector, ("ptr", "i32", bits, vector))
        text = f"call {vector} @{symbol}(ptr {address}, i32 1, {mask.typed}, {rest.typed})"
        return conversion.from_memory(b, b.value(text, memory, lanes), desc.dtype)
    pointers = _addresses(b, address, step, lanes)
    symbol = f"llvm.masked.gather.{mangled(memory, lanes)}.v{lanes}p0"
    b.module.declare(symbol, vector, (f"<{lanes} x ptr>", "i32", bits, vector))
    text = f"call {vector} @{symbol}({pointers.typed}, i32 1, {mask.typed}, {rest.typed})"
    return conversion.from_memory(b, b.value(text, memory, lanes), desc.dtype)


def position(b: Body, desc: TensorDesc, address: str) -> Value:
    """The element of a counted operand: its address, in elements where it is not located."""
    whole = b.value(f"ptrtoint ptr {address} to i64", "i64", 1)
    return whole if desc.located else b.op("ashr", whole, b.iconst(whole, POSITION_SHIFT))


def positions(b: Body, desc: TensorDesc, address: str, places: Value, step: str) -> Value:
    """Elements of a counted operand.

    Args:
        b: where to write.
        desc: how it is met along the lanes.
        address: of the first element.
        places: which elements, counted from the first.
        step: bytes from one element to the next one.
    """
    literal = places == iota(places.lanes)
    one, pace = position(b, desc, address), str(1 << POSITION_SHIFT)
    first = b.splat(one, places.lanes)
    if desc.access != CONTIGUOUS:
        whole, pace = Value(step, "i64", 1), step
        if not desc.located:
            whole = b.op("ashr", whole, b.constant_bits("i64", 1, POSITION_SHIFT))
        places = b.op("mul", places, b.splat(whole, places.lanes))
    elif desc.located:
        places = b.op("mul", places, b.iconst(places, 1 << POSITION_SHIFT))
    found = b.op("add", first, places)
    if desc.located:
        b.spaced[found.text] = one, pace, literal
    return found


def store(
    b: Body,
    desc: TensorDesc,
    value: Value,
    address: str,
    mask: Value | None,
    step: str,
    *,
    past: bool = False,
) -> None:
    """Write a vector of elements, or the lanes in the mask; `past` the caches: it is aligned."""
    lanes = value.lanes
    raw = conversion.to_memory(b, value, desc.dtype)
    if past and desc.access == CONTIGUOUS and mask is None and lanes > 1:
        size = lanes * conversion.bytes_of(desc.dtype)
        aligned = min(size & -size, 64)
        b.line(f"store {raw.typed}, ptr {address}, align {aligned}, !nontemporal !0")
        return
    if (desc.access == CONTIGUOUS and mask is None) or lanes == 1:
        b.line(f"store {raw.typed}, ptr {address}, align 1")
        return
    bits = f"<{lanes} x i1>"
    chosen = mask or b.constant_bits("i1", lanes, 1)
    if desc.access == CONTIGUOUS:
        symbol = f"llvm.masked.store.{mangled(raw.scalar, lanes)}.p0"
        b.module.declare(symbol, "void", (raw.type, "ptr", "i32", bits))
        b.line(f"call void @{symbol}({raw.typed}, ptr {address}, i32 1, {chosen.typed})")
        return
    pointers = _addresses(b, address, step, lanes)
    symbol = f"llvm.masked.scatter.{mangled(raw.scalar, lanes)}.v{lanes}p0"
    b.module.declare(symbol, "void", (raw.type, f"<{lanes} x ptr>", "i32", bits))
    b.line(f"call void @{symbol}({raw.typed}, {pointers.typed}, i32 1, {chosen.typed})")


def _addresses(b: Body, address: str, step: str, lanes: int) -> Value:
    """Addresses of elements that lie `step` bytes apart."""
    steps = b.splat(Value(step, "i64", 1), lanes)
    offsets = b.op("mul", iota(lanes), steps)
    text = f"getelementptr i8, ptr {address}, {offsets.typed}"
    return b.value(text, "ptr", lanes)
