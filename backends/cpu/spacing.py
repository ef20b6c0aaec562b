"""Elements at a stride of two to four, or backwards: shuffled out of whole vectors, and into them.

Strides are numbers of a call, so code chooses among these forms as it runs, vector by vector (the
branch always goes the same way); any other stride is served element by element. The last vector
that is read ends with the last element, and gaps are left out by masks where elements are written,
so nothing but the elements' own span is touched, and no gap is written: another thread's results
may lie there.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise

from fuser.backends.cpu.body import BITS, Body, Value, vector_type
from fuser.base.records import record
from fuser.ir.specs import TensorDesc

#: Loads of these dtypes, the parts of complex numbers, may take turns in memory.
PAIRED = ("float32", "float64")
#: Strides, in elements, that have a form.
STEPS = (-1, 2, 3, 4)


def pick_vector(b: Body, scalar: str, address: str, step: int, lanes: int) -> Value:
    """The elements at an address and one stride after another behind it, for a known stride.

    Args:
        b: where to append.
        scalar: their type in memory.
        address: of the first element.
        step: one of `STEPS`.
        lanes: how many, a power of two from two on.
    """
    kind, size = f"i{BITS[scalar]}", BITS[scalar] // 8
    if step == -1:
        block = _load(b, kind, address, -(lanes - 1) * size, lanes)
        return _typed(b, shuffled(b, block, None, range(lanes - 1, -1, -1)), scalar)
    # Part k holds the elements from k * lanes on, but the last one ends with the last element.
    starts = [k * lanes for k in range(step - 1)] + [(lanes - 1) * (step - 1)]
    parts = [_load(b, kind, address, start * size, lanes) for start in starts]
    where = [min(step * lane // lanes, step - 1) for lane in range(lanes)]
    inside = [step * lane - starts[part] for lane, part in enumerate(where)]
    if step == 4:
        half = lanes // 2
        pairs = [
            [lanes * (where[lane] % 2) + inside[lane] for lane in range(first, first + half)]
            for first in (0, half)
        ]
        low = shuffled(b, parts[0], parts[1], pairs[0])
        high = shuffled(b, parts[2], parts[3], pairs[1])
        return _typed(b, shuffled(b, low, high, range(lanes)), scalar)
    found = parts[0]
    done = 1
    for number in range(1, step):
        places = [
            lanes + inside[lane] if where[lane] == number
            else -1 if where[lane] > number
            else lane if done > 1
            else inside[lane]
            for lane in range(lanes)
        ]  # fmt: skip
        found = shuffled(b, found, parts[number], places)
        done += 1
    return _typed(b, found, scalar)


def lay_vector(b: Body, value: Value, address: str, step: int) -> None:
    """Write elements at an address and one known stride after another behind it.

    Strides other than -1 take masked stores.
    """
    lanes, size = value.lanes, BITS[value.scalar] // 8
    whole = b.cast("bitcast", value, f"i{BITS[value.scalar]}")
    if step == -1:
        turned = shuffled(b, whole, None, range(lanes - 1, -1, -1))
        b.line(f"store {turned.typed}, ptr {_moved(b, address, -(lanes - 1) * size)}, align 1")
        return
    symbol = f"llvm.masked.store.v{lanes}{whole.scalar}.p0"
    b.module.declare(symbol, "void", (whole.type, "ptr", "i32", f"<{lanes} x i1>"))
    for part in range(step):
        places = range(part * lanes, (part + 1) * lanes)
        spread = shuffled(b, whole, None, [-1 if p % step else p // step for p in places])
        bits = ", ".join(f"i1 {'false' if p % step else 'true'}" for p in places)
        target = _moved(b, address, part * lanes * size)
        b.line(f"call void @{symbol}({spread.typed}, ptr {target}, i32 1, <{lanes} x i1> <{bits}>)")


def picked(b: Body, scalar: str, address: str, step: str, lanes: int) -> Value:
    """The elements at an address and one stride in bytes after another behind it.

    Args:
        b: where to append.
        scalar: their type in memory.
        address: of the first element.
        step: the stride, a value.
        lanes: how many.
    """
    if not served(lanes):
        return one_by_one(b, scalar, address, step, lanes)

    def form(known: int) -> Callable[[], Value]:
        return lambda: pick_vector(b, scalar, address, known, lanes)

    results = chosen(
        b, step, BITS[scalar] // 8, {known: form(known) for known in STEPS},
        lambda: one_by_one(b, scalar, address, step, lanes),
    )  # fmt: skip
    kind = vector_type(scalar, lanes)
    listed = ", ".join(f"[ {found.text}, %{block} ]" for found, block in results if found)
    return b.value(f"phi {kind} {listed}", scalar, lanes)


def lay(b: Body, value: Value, address: str, step: str) -> None:
    """Write elements at an address and one stride in bytes after another behind it."""
    steps = STEPS if b.features.masked else STEPS[:1]

    def form(known: int) -> Callable[[], None]:
        return lambda: lay_vector(b, value, address, known)

    if served(value.lanes):
        chosen(
            b, step, BITS[value.scalar] // 8, {known: form(known) for known in steps},
            lambda: _lay_one_by_one(b, value, address, step),
        )  # fmt: skip
    else:
        _lay_one_by_one(b, value, address, step)


@record
class Turns:
    """Two loads of one dtype whose elements lie apart: do they take turns in memory?

    So the parts of complex numbers do. It is known once a row: what is read then is whole vectors,
    which hold both.

    Attributes:
        flag: whether they do.
        addresses: of the first element of each.
        steps: their strides in bytes.
    """

    flag: str
    addresses: tuple[str, str]
    steps: tuple[str, str]


def paired(loads: Sequence[TensorDesc], lanes: int) -> list[int]:
    """The first of every two loads that may take turns in memory."""
    found: list[int] = []
    if not served(lanes):
        return found
    for k, (desc, after) in enumerate(pairwise(loads)):
        apart = desc.picked and after.picked and desc.dtype == after.dtype
        if apart and k - 1 not in found and desc.dtype in PAIRED:
            found.append(k)
    return found


def take_turns(b: Body, addresses: tuple[str, str], steps: tuple[str, str], size: int) -> str:
    """Whether elements of some size at two addresses take turns: a flag."""
    beside = b.value(f"getelementptr i8, ptr {addresses[0]}, i64 {size}", "ptr", 1).text
    flag = b.value(f"icmp eq ptr {beside}, {addresses[1]}", "i1", 1).text
    for step in steps:
        equal = b.value(f"icmp eq i64 {step}, {2 * size}", "i1", 1).text
        flag = b.value(f"and i1 {flag}, {equal}", "i1", 1).text
    return flag


def picked_pair(b: Body, scalar: str, turns: Turns, lanes: int) -> tuple[Value, Value]:
    """The elements of two operands, which may take turns."""
    kind, size = f"i{BITS[scalar]}", BITS[scalar] // 8
    together, alone, join = b.label("turns"), b.label("alone"), b.label("turned")
    b.branch(turns.flag, together, alone)
    low, high = (_load(b, kind, turns.addresses[0], k * lanes * size, lanes) for k in (0, 1))
    found = []
    for first in (0, 1):
        places = range(first, 2 * lanes, 2)
        found.append([(_typed(b, shuffled(b, low, high, places), scalar), b.block)])
    b.jump(join, alone)
    for ways, address, step in zip(found, turns.addresses, turns.steps, strict=True):
        ways.append((picked(b, scalar, address, step, lanes), b.block))
    block = b.block
    b.jump(join)
    left, right = (
        b.value(
            f"phi {vector_type(scalar, lanes)} [ {ways[0][0].text}, %{ways[0][1]} ], "
            f"[ {ways[1][0].text}, %{block} ]",
            scalar, lanes,
        )
        for ways in found
    )  # fmt: skip
    return left, right


def served(lanes: int) -> bool:
    """Whether vectors of so many lanes have forms for known strides."""
    return lanes >= 4 and lanes & (lanes - 1) == 0


def chosen(
    b: Body,
    step: str,
    size: int,
    forms: Mapping[int, Callable[[], Value | None]],
    other: Callable[[], Value | None],
) -> list[tuple[Value | None, str]]:
    """Code for each known stride and for all others, one of which runs.

    Args:
        b: where to append.
        step: the stride in bytes, a value.
        size: bytes of an element.
        forms: what appends the code for a known stride, in elements.
        other: what appends the code for any other stride.

    Returns:
        Of each its result and the block in which it ends; a phi may follow.
    """
    labels = {known: b.label("step") for known in forms}
    rest, join = b.label("any.step"), b.label("stepped")
    # One comparison after another: a jump through a table costs thirty cycles where indirect
    # branches are not predicted, as a defence or in some virtual machines.
    for known, label in labels.items():
        further = b.label("other.step")
        equal = b.value(f"icmp eq i64 {step}, {known * size}", "i1", 1).text
        b.branch(equal, label, further, further)
    b.line(f"br label %{rest}")
    results: list[tuple[Value | None, str]] = []
    for label, form in ((rest, other), *((labels[known], forms[known]) for known in forms)):
        b.start(label)
        found = form()
        results.append((found, b.block))
        b.line(f"br label %{join}")
    b.start(join)
    return results


def shuffled(b: Body, left: Value, right: Value | None, lanes: Sequence[int]) -> Value:
    """Lanes of one vector or of two; -1 is any."""
    other = right.text if right is not None else "poison"
    mask = ", ".join("i32 poison" if lane < 0 else f"i32 {lane}" for lane in lanes)
    text = f"shufflevector {left.typed}, {left.type} {other}, <{len(lanes)} x i32> <{mask}>"
    return b.value(text, left.scalar, len(lanes))


def one_by_one(b: Body, scalar: str, address: str, step: str, lanes: int) -> Value:
    """Elements that lie apart, one after another: gather instructions are slower on many hosts."""
    found = Value("poison", scalar, lanes)
    step = _kept_apart(b, step, lanes)
    for lane in range(lanes):
        one = b.value(f"load {scalar}, ptr {address}, align 1", scalar, 1)
        if lanes == 1:
            return one
        text = f"insertelement {found.typed}, {one.typed}, i64 {lane}"
        found = b.value(text, scalar, lanes)
        if lane + 1 < lanes:
            address = b.value(f"getelementptr i8, ptr {address}, i64 {step}", "ptr", 1).text
    return found


def _kept_apart(b: Body, step: str, lanes: int) -> str:
    """A stride that LLVM does not know to be the same in every turn of a loop around.

    It would keep each element's address from turn to turn otherwise, in memory for want of
    registers, and move all of them in turns that pick no element one by one, too.
    """
    return b.value(f"freeze i64 {step}", "i64", 1).text if lanes > 1 else step


def _lay_one_by_one(b: Body, value: Value, address: str, step: str) -> None:
    """Write elements one after another."""
    step = _kept_apart(b, step, value.lanes)
    for lane in range(value.lanes):
        one = value
        if value.lanes > 1:
            one = b.value(f"extractelement {value.typed}, i64 {lane}", value.scalar, 1)
        b.line(f"store {one.typed}, ptr {address}, align 1")
        if lane + 1 < value.lanes:
            address = b.value(f"getelementptr i8, ptr {address}, i64 {step}", "ptr", 1).text


def _load(b: Body, kind: str, address: str, offset: int, lanes: int) -> Value:
    """Read elements that lie beside each other, some bytes from an address."""
    place = _moved(b, address, offset)
    return b.value(f"load {vector_type(kind, lanes)}, ptr {place}, align 1", kind, lanes)


def _moved(b: Body, address: str, offset: int) -> str:
    """An address some bytes further on."""
    return b.value(f"getelementptr i8, ptr {address}, i64 {offset}", "ptr", 1).text


def _typed(b: Body, value: Value, scalar: str) -> Value:
    """Integers as elements of their own type."""
    return value if value.scalar == scalar else b.cast("bitcast", value, scalar)
