"""Loop nests that hand rows to each other, as one native function: `fuser.scheduling.row_tiles`.

Each item is one block of rows: all nests of the chain run on it, one after another, and what lies
between them is in memory of the calling thread's own, which the next block takes again. What is
left over after whole blocks is a block that begins within the last one: the same item computes
both, as nests may write a result twice on the way, so that no other thread may do so meanwhile.

The block of arguments holds the number of nests and of loops that count rows, the bytes that are
kept, the words of all nests, and whether some rows are left over; for each loop its blocks, the
rows of one and all rows; then nest by nest: function, outer iterations, inner length, words and
addresses of its arguments, these arguments, the bytes from row to row for each address and loop,
and for each address whether it is one of what is kept.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Mapping
from functools import cache
from typing import Any

from fuser.backends.cpu import costs, tuning
from fuser.backends.cpu.machine.loader import load_forever
from fuser.ir.dims import Dim
from fuser.ir.specs import is_counted
from fuser.runtime.launch import BoundGroup, BoundSection

#: What is kept starts at multiples of this many bytes.
ALIGNMENT = 64

TEXT = """\
declare ptr @malloc(i64)
declare void @free(ptr)

define i32 @row_chain(ptr %block, i64 %obegin, i64 %oend, i64 %ibegin, i64 %iend) {
entry:
  %links = load i64, ptr %block
  %axes.at = getelementptr i64, ptr %block, i64 1
  %axes = load i64, ptr %axes.at
  %room.at = getelementptr i64, ptr %block, i64 2
  %room = load i64, ptr %room.at
  %words.at = getelementptr i64, ptr %block, i64 3
  %words = load i64, ptr %words.at
  %tail.at = getelementptr i64, ptr %block, i64 4
  %tail = load i64, ptr %tail.at
  %ahead = mul i64 %axes, 3
  %first = add i64 %ahead, 5
  %area = getelementptr i64, ptr %block, i64 %first
  %copy = alloca i64, i64 %words, align 16
  %starts = alloca i64, i64 %axes, align 16
  %padded = add i64 %room, 64
  %memory = call ptr @malloc(i64 %padded)
  %none = icmp eq ptr %memory, null
  br i1 %none, label %refused, label %copying
refused:
  ret i32 1
copying:
  %c = phi i64 [ 0, %entry ], [ %c1, %copying ]
  %from = getelementptr i64, ptr %area, i64 %c
  %to = getelementptr i64, ptr %copy, i64 %c
  %word = load i64, ptr %from
  store i64 %word, ptr %to
  %c1 = add i64 %c, 1
  %copied = icmp eq i64 %c1, %words
  br i1 %copied, label %begin, label %copying
begin:
  %memory.at = ptrtoint ptr %memory to i64
  %up = add i64 %memory.at, 63
  %base = and i64 %up, -64
  br label %items
items:
  %item = phi i64 [ %obegin, %begin ], [ %item1, %item.next ]
  %status = phi i32 [ 0, %begin ], [ %status1, %item.next ]
  %more = icmp ult i64 %item, %oend
  br i1 %more, label %places, label %done
places:
  %a = phi i64 [ %axes, %items ], [ %a1, %places ]
  %rest = phi i64 [ %item, %items ], [ %rest1, %places ]
  %a1 = sub i64 %a, 1
  %triple = mul i64 %a1, 3
  %turns.w = add i64 %triple, 5
  %turns.at = getelementptr i64, ptr %block, i64 %turns.w
  %turns = load i64, ptr %turns.at
  %rows.at = getelementptr i64, ptr %turns.at, i64 1
  %rows = load i64, ptr %rows.at
  %digit = urem i64 %rest, %turns
  %rest1 = udiv i64 %rest, %turns
  %start = mul i64 %digit, %rows
  %start.at = getelementptr i64, ptr %starts, i64 %a1
  store i64 %start, ptr %start.at
  %placed = icmp eq i64 %a1, 0
  br i1 %placed, label %nests, label %places
nests:
  %l = phi i64 [ 0, %places ], [ 0, %rest.of.rows ], [ %l1, %run ]
  %at = phi i64 [ 0, %places ], [ 0, %rest.of.rows ], [ %at1, %run ]
  %status.now = phi i32 [ %status, %places ], [ %status1, %rest.of.rows ], [ %status1, %run ]
  %head = getelementptr i64, ptr %area, i64 %at
  %outer.at = getelementptr i64, ptr %head, i64 1
  %outer = load i64, ptr %outer.at
  %inner.at = getelementptr i64, ptr %head, i64 2
  %inner = load i64, ptr %inner.at
  %size.at = getelementptr i64, ptr %head, i64 3
  %size = load i64, ptr %size.at
  %pointers.at = getelementptr i64, ptr %head, i64 4
  %pointers = load i64, ptr %pointers.at
  %arguments = getelementptr i64, ptr %head, i64 5
  %steps = getelementptr i64, ptr %arguments, i64 %size
  %all.steps = mul i64 %pointers, %axes
  %kept = getelementptr i64, ptr %steps, i64 %all.steps
  %own.w = add i64 %at, 5
  %own = getelementptr i64, ptr %copy, i64 %own.w
  br label %addresses
addresses:
  %p = phi i64 [ 0, %nests ], [ %p1, %address.done ]
  %known = icmp eq i64 %p, %pointers
  br i1 %known, label %run, label %address
address:
  %given.at = getelementptr i64, ptr %arguments, i64 %p
  %given = load i64, ptr %given.at
  %is.kept.at = getelementptr i64, ptr %kept, i64 %p
  %is.kept = load i64, ptr %is.kept.at
  %mine = mul i64 %is.kept, %base
  %whole = add i64 %given, %mine
  %row.w = mul i64 %p, %axes
  br label %along
along:
  %k = phi i64 [ 0, %address ], [ %k1, %along ]
  %sum = phi i64 [ %whole, %address ], [ %sum1, %along ]
  %step.w = add i64 %row.w, %k
  %step.at = getelementptr i64, ptr %steps, i64 %step.w
  %step = load i64, ptr %step.at
  %from.at = getelementptr i64, ptr %starts, i64 %k
  %from.row = load i64, ptr %from.at
  %bytes = mul i64 %step, %from.row
  %sum1 = add i64 %sum, %bytes
  %k1 = add i64 %k, 1
  %summed = icmp eq i64 %k1, %axes
  br i1 %summed, label %address.done, label %along
address.done:
  %put = getelementptr i64, ptr %own, i64 %p
  store i64 %sum1, ptr %put
  %p1 = add i64 %p, 1
  br label %addresses
run:
  %fn = load ptr, ptr %head
  %s = call i32 %fn(ptr %own, i64 0, i64 %outer, i64 0, i64 %inner)
  %status1 = or i32 %status.now, %s
  %l1 = add i64 %l, 1
  %after.steps = add i64 %all.steps, %pointers
  %after.head = add i64 %size, 5
  %span = add i64 %after.head, %after.steps
  %at1 = add i64 %at, %span
  %all.run = icmp eq i64 %l1, %links
  br i1 %all.run, label %item.done, label %nests
item.done:
  %last = sub i64 %axes, 1
  %last.start.at = getelementptr i64, ptr %starts, i64 %last
  %last.start = load i64, ptr %last.start.at
  %last.triple = mul i64 %last, 3
  %last.w = add i64 %last.triple, 5
  %last.turns.at = getelementptr i64, ptr %block, i64 %last.w
  %last.turns = load i64, ptr %last.turns.at
  %last.rows.at = getelementptr i64, ptr %last.turns.at, i64 1
  %last.rows = load i64, ptr %last.rows.at
  %last.count.at = getelementptr i64, ptr %last.turns.at, i64 2
  %last.count = load i64, ptr %last.count.at
  %last.turn = sub i64 %last.turns, 1
  %last.begin = mul i64 %last.turn, %last.rows
  %at.end = icmp eq i64 %last.start, %last.begin
  %some.left = icmp ne i64 %tail, 0
  %again = and i1 %at.end, %some.left
  br i1 %again, label %rest.of.rows, label %item.next
rest.of.rows:
  %final = sub i64 %last.count, %last.rows
  store i64 %final, ptr %last.start.at
  br label %nests
item.next:
  %item1 = add i64 %item, 1
  br label %items
done:
  call void @free(ptr %memory)
  ret i32 %status
}
"""


@cache
def _address() -> int:
    """The native function's address."""
    return load_forever(TEXT, ("row_chain",))["row_chain"]


class RowChain:
    """A chain as a table of native calls meets it: a kernel of one nest.

    Attributes:
        words: its block of arguments; places of addresses hold offsets.
        places: (word, buffer name) of each operand that is not kept.
        scalars: (first word, wanted scalars) of each nest that has some.
        moves: (word, expression, bytes): what integer arguments add to an operand's offset.
    """

    def __init__(self, group: BoundGroup, sizes: Mapping[str, int]) -> None:
        """Lay the block out.

        Args:
            group: a chain.
            sizes: bytes of each buffer that it keeps.
        """
        assert group.blocks is not None
        self.group, self.blocks = group, group.blocks
        turns, shape, counts = list(self.blocks.turns), self.blocks.shape, self.blocks.counts
        tail = counts[-1] % shape[-1] != 0
        turns[-1] -= tail
        self.items = math.prod(turns)
        self.places: list[tuple[int, str]] = []
        self.scalars: list[tuple[int, Any]] = []
        self.moves: list[tuple[int, Dim, int]] = []
        self._room: dict[str, int] = {}
        room = 0
        for name, size in sizes.items():
            self._room[name] = room
            room += -(-max(size, 1) // ALIGNMENT) * ALIGNMENT
        triples = zip(turns, shape, counts, strict=True)
        self.words = [len(group.sections), len(counts), 0, 0, int(tail)]
        self.words += [number for three in triples for number in three]
        first = len(self.words)
        for number, section in group.sections:
            self._add(number, section)
        self.words[2:4] = [room, len(self.words) - first]

    def _add(self, number: int, section: BoundSection) -> None:
        """Append one nest."""
        head = self.group.kernel.share(number, section.extent, 1)  # type: ignore[attr-defined]
        pointers = len(section.operands)
        rest = struct.unpack(f"={len(section.rest) // 8}q", section.rest)
        size = pointers + len(rest) + len(section.scalars)
        first = len(self.words) + 5
        offsets, kept = [], []
        for k, (name, offset) in enumerate(section.operands):
            mine = name in self.blocks.kept
            kept.append(int(mine))
            offsets.append(offset + self._room.get(name, 0))
            if not mine and not is_counted(name):
                self.places.append((first + k, name))
        self.moves += [(first + k, index, step) for k, index, step in section.moves]
        if section.scalars:
            self.scalars.append((first + pointers + len(rest), section.scalars))
        steps = [step for row in section.steps for step in row]
        self.words += [*head[:3], size, pointers, *offsets, *rest, *[0] * len(section.scalars)]
        self.words += [*steps, *kept]

    # -- as a kernel ------------------------------------------------------------------------

    def work_ns(self, section: int, extent: Any) -> float:
        """Estimated nanoseconds of all blocks on one thread."""
        kernel: Any = self.group.kernel
        each = sum(kernel.work_ns(k, nest.extent) for k, nest in self.group.sections)
        return float(self.items * each)

    def share(self, section: int, extent: Any, threads: int) -> list[int]:
        """How blocks are shared out, as a kernel's nests are."""
        work = self.work_ns(section, extent)
        fair = -(-tuning.CHUNK_NS * self.items // max(work, 1.0))
        chunk = max(1, int(fair), -(-self.items // tuning.CHAIN_CHUNKS))
        total = -(-self.items // chunk)
        helpers = costs.helpers(work, total, threads)
        return [_address(), self.items, 1, chunk, 1, 1, total, helpers]
