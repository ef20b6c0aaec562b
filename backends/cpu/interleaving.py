"""Elements that lie in turn in memory, x0 y0 z0 x1 y1 z1 …, sorted into vectors and back.

Shuffles of two vectors at a time: as many as vectors for each doubling, and each with each of an
odd number.
"""

from __future__ import annotations

from collections.abc import Sequence

from fuser.backends.cpu import spacing
from fuser.backends.cpu.body import BITS, Body, Value
from fuser.backends.cpu.spacing import shuffled

#: Results in turn that are stored together.
COUNTS = (2, 3, 4)

#: A vector of elements as they are in memory, the first one's address, and the stride in bytes.
Apart = tuple[Value, str, str]


def lay_all(b: Body, stores: Sequence[Apart]) -> None:
    """Write vectors whose elements lie apart; together where they lie in turn, or two by two."""
    if len(stores) > COUNTS[-1]:
        lay_all(b, stores[:2])
        lay_all(b, stores[2:])
        return
    alike = len({value.type for value, *_ in stores}) == 1
    if len(stores) not in COUNTS or not alike or not spacing.served(stores[0][0].lanes):
        for value, address, step in stores:
            spacing.lay(b, value, address, step)
        return
    first, place, step = stores[0]
    size = BITS[first.scalar] // 8
    in_turn = b.value(f"icmp eq i64 {step}, {len(stores) * size}", "i1", 1)
    for number, (_, address, other) in enumerate(stores[1:], 1):
        same = b.value(f"icmp eq i64 {step}, {other}", "i1", 1)
        text = f"getelementptr i8, ptr {place}, i64 {number * size}"
        there = b.value(f"icmp eq ptr {b.value(text, 'ptr', 1).text}, {address}", "i1", 1)
        in_turn = b.op("and", in_turn, b.op("and", same, there))
    together, each, done = b.label("together"), b.label("each"), b.label("laid")
    b.branch(in_turn.text, together, each)
    for part, value in enumerate(lace(b, [value for value, *_ in stores])):
        text = f"getelementptr i8, ptr {place}, i64 {part * value.lanes * size}"
        b.line(f"store {value.typed}, ptr {b.value(text, 'ptr', 1).text}, align 1")
    b.jump(done, each)
    if len(stores) == 4:  # two results of complex numbers
        lay_all(b, stores[:2])
        lay_all(b, stores[2:])
    else:
        for value, address, other in stores:
            spacing.lay(b, value, address, other)
    b.jump(done)


def split(b: Body, vectors: Sequence[Value]) -> list[Value]:
    """Elements as they lie in memory, sorted: of each row's place in turn, row by row."""
    count, lanes = len(vectors), vectors[0].lanes
    if count == 1 or lanes == 1:
        return list(vectors)
    if count % 2 == 0:
        pairs = list(zip(vectors[::2], vectors[1::2], strict=True))
        halves = [
            split(b, [shuffled(b, x, y, range(odd, 2 * lanes, 2)) for x, y in pairs])
            for odd in (0, 1)
        ]
        return [vector for both in zip(*halves, strict=True) for vector in both]
    return [
        _merged(b, vectors, [divmod(place + count * lane, lanes) for lane in range(lanes)])
        for place in range(count)
    ]


def lace(b: Body, vectors: Sequence[Value]) -> list[Value]:
    """What `split` takes, from what it gives."""
    count, lanes = len(vectors), vectors[0].lanes
    if count == 1 or lanes == 1:
        return list(vectors)
    if count % 2 == 0:
        halves = zip(lace(b, vectors[::2]), lace(b, vectors[1::2]), strict=True)
        woven = [lane // 2 + lane % 2 * lanes for lane in range(2 * lanes)]
        return [
            shuffled(b, even, odd, places)
            for even, odd in halves
            for places in (woven[:lanes], woven[lanes:])
        ]
    flat = [(place, row) for row in range(lanes) for place in range(count)]
    return [_merged(b, vectors, flat[part * lanes :][:lanes]) for part in range(count)]


def _merged(b: Body, vectors: Sequence[Value], wanted: Sequence[tuple[int, int]]) -> Value:
    """A vector of lanes of others: which vector, and which of its lanes, for each."""
    lanes = len(wanted)
    found: Value | None = None
    for number, vector in enumerate(vectors):
        if found is None:
            found, before = vector, [lane if which == 0 else -1 for which, lane in wanted]
            continue
        places = [
            lanes + lane if which == number else old
            for (which, lane), old in zip(wanted, before, strict=True)
        ]
        found = shuffled(b, found, vector, places)
        before = [k if which <= number else -1 for k, (which, _) in enumerate(wanted)]
    assert found is not None
    return found
