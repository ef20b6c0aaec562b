"""Several iterations of a loop at once: their loop nests run by turns on a few rows (time skewing).

While a loop gathers, the dispatcher puts the words of its loop nests into a queue in place of
running them. A loop nest of a later iteration may then follow an earlier one by a few rows, so
that rows are read again while they are in the cache. By how many rows it has to stay behind is
found from the addresses that each pair of loop nests reads and writes, whatever arrays they are:
what comes later in the queue never touches a row before what comes earlier is done with it.

Each thread has a band of rows. The rows that a loop nest computes of it become fewer at both ends,
by as many as its neighbour's are needed for; what is left between bands comes when all threads
are done. Every element is computed once, by the same operations, so the bits are the same.
"""

from __future__ import annotations

import ctypes
import math
import sys
import threading
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

import numpy as np

from fuser.backends.cpu import sequence
from fuser.backends.cpu.machine import layout, workers
from fuser.backends.cpu.machine.loader import load_forever
from fuser.base import forks
from fuser.base.records import record
from fuser.codegen import LoopNest
from fuser.kernel_spec import KernelSpec

#: Iterations at once, at most.
ITERATIONS = 8
#: Bytes of the arrays of an iteration from which on it is worth while.
LEAST_BYTES = 1 << 18
#: Bytes of an array's rows that a loop nest computes at a time.
TILE_BYTES = 1 << 14
#: A band has so many times the rows that it loses at its ends.
BAND_FACTOR = 4
#: 8-byte words that a queue has room for; batches that are known, and patterns of such.
ROOM, KNOWN, PATTERNS = 1 << 14, 16, 4
#: Bytes of a row where no loop nest has more than one axis.
LINE_BYTES = 1 << 13

#: What `threading.get_ident` gives, in machine code.
_IDENT = """\
declare i64 @pthread_self()

define internal i64 @ident() {
entry:
  %thread = call i64 @pthread_self()
  ret i64 %thread
}

""" if sys.platform != "win32" else """\
declare i32 @GetCurrentThreadId()

define internal i64 @ident() {
entry:
  %thread = call i32 @GetCurrentThreadId()
  %wide = zext i32 %thread to i64
  ret i64 %wide
}

"""

#: The dispatcher's part. What cannot wait has what waits run before it: so does what makes arrays,
#: which may be gone when its kernels run.
GATHER = _IDENT + """\
define internal i1 @makes_arrays(ptr %table) {
entry:
  %count = get i64 %table TABLE.outputs
  %list = get ptr %table TABLE.output_list
  for %k below %count else no
  %output = row OUTPUT %list %k
  %given = get i64 %output OUTPUT.given
  %fresh = icmp slt i64 %given, 0
  br i1 %fresh, label %yes, label %more
more:
  next %k
yes:
  ret i1 true
no:
  ret i1 false
}

define internal i1 @gather(ptr %queue, ptr %api, ptr %table, ptr %words, i64 %nests) {
entry:
  %owner = get i64 %queue QUEUE.owner
  %self = call i64 @ident()
  %mine = icmp eq i64 %owner, %self
  br i1 %mine, label %measure, label %no
measure:
  %n = phi i64 [ 0, %entry ], [ %n1, %measure ]
  %at = phi i64 [ 0, %entry ], [ %count, %measure ]
  %head = getelementptr i64, ptr %words, i64 %at
  %block.words = get i64 %head HEAD.words
  %block.end = add i64 %at, %block.words
  %head.words = udiv i64 HEAD.size, 8
  %count = add i64 %block.end, %head.words
  %n1 = add i64 %n, 1
  %more.nests = icmp ult i64 %n1, %nests
  br i1 %more.nests, label %measure, label %look
look:
  %temporaries = get i64 %table TABLE.temporaries
  %prologue = get i64 %table TABLE.prologue
  %flags = get i64 %table TABLE.flags
  %status = and i64 %flags, LAYOUT.STATUS
  %own.memory = or i64 %temporaries, %prologue
  %asks = or i64 %own.memory, %status
  %asks.nothing = icmp eq i64 %asks, 0
  %makes = call i1 @makes_arrays(ptr %table)
  %waits = select i1 %makes, i1 false, i1 %asks.nothing
  %used = get i64 %queue QUEUE.used
  %after = add i64 %used, %count
  %room = get i64 %queue QUEUE.room
  %fits = icmp ule i64 %after, %room
  %good = and i1 %waits, %fits
  %buffer = get ptr %queue QUEUE.buffer
  %before = get i64 %queue QUEUE.nests
  br i1 %good, label %take, label %drain
take:
  %end = getelementptr i64, ptr %buffer, i64 %used
  %bytes = shl i64 %count, 3
  call void @llvm.memcpy.p0.p0.i64(ptr %end, ptr %words, i64 %bytes, i1 false)
  %more = add i64 %before, %nests
  put i64 %after %queue QUEUE.used
  put i64 %more %queue QUEUE.nests
  ret i1 true
drain:
  put i64 0 %queue QUEUE.used
  put i64 0 %queue QUEUE.nests
  %team = get ptr %api API.team
  %ran = call i32 @sequence(ptr %buffer, i64 %before, ptr %team)
  ret i1 false
no:
  ret i1 false
}

"""

#: Runs bands of rows, or what lies between two of them, as a kernel whose rows they are.
TEXT = layout.spell_out("""\
define internal i64 @within(i64 %x, i64 %low, i64 %high) {
entry:
  %less = icmp slt i64 %x, %high
  %least = select i1 %less, i64 %x, i64 %high
  %more = icmp sgt i64 %least, %low
  %found = select i1 %more, i64 %least, i64 %low
  ret i64 %found
}

define internal i32 @skewed(ptr %plan, i64 %first, i64 %end, i64 %ignored, i64 %ignored.end) {
entry:
  %launches = get i64 %plan BATCH.launches
  %height = get i64 %plan BATCH.height
  %bands = get i64 %plan BATCH.bands
  %tile = get i64 %plan BATCH.tile
  %tiles = get i64 %plan BATCH.tiles
  %list = getelementptr i8, ptr %plan, i64 BATCH.size
  %between = icmp eq i64 %tiles, 0
  %turns = select i1 %between, i64 1, i64 %tiles
  %count = sub i64 %end, %first
  for %b below %count else done
  %k = add i64 %first, %b
  %k1 = add i64 %k, 1
  %below = mul i64 %k, %height
  %above = mul i64 %k1, %height
  %y0 = udiv i64 %below, %bands
  %y1 = udiv i64 %above, %bands
  %is.lowest = icmp eq i64 %k, 0
  %is.highest = icmp eq i64 %k1, %bands
  br label %tiled
tiled:
  for %t below %turns else banded
  %t.done = add i64 %t, 1
  %is.last = icmp eq i64 %t.done, %turns
  %is.first = icmp eq i64 %t, 0
  %up = mul i64 %t, %tile
  %behind = add i64 %y0, %up
  %ahead = add i64 %behind, %tile
  br label %launched
launched:
  for %l below %launches else turned
  %step = row LAUNCHED %list %l
  %kernel = get ptr %step LAUNCHED.kernel
  %block = get ptr %step LAUNCHED.block
  %rows = get i64 %step LAUNCHED.rows
  %scale = get i64 %step LAUNCHED.scale
  %length = get i64 %step LAUNCHED.length
  %other = get i64 %step LAUNCHED.other
  %is.inner = get i64 %step LAUNCHED.inner
  %low.lag = get i64 %step LAUNCHED.low
  %high.lag = get i64 %step LAUNCHED.high
  %low.end = add i64 %y0, %low.lag
  %high.end = sub i64 %y1, %high.lag
  %low.own = select i1 %is.lowest, i64 0, i64 %low.end
  %high.own = select i1 %is.highest, i64 %rows, i64 %high.end
  %low = call i64 @within(i64 %low.own, i64 0, i64 %rows)
  %high = call i64 @within(i64 %high.own, i64 0, i64 %rows)
  %lagged = sub i64 %behind, %high.lag
  %leading = sub i64 %ahead, %high.lag
  %from.here = call i64 @within(i64 %lagged, i64 %low, i64 %high)
  %to.here = call i64 @within(i64 %leading, i64 %low, i64 %high)
  %from.tile = select i1 %is.first, i64 %low, i64 %from.here
  %to.tile = select i1 %is.last, i64 %high, i64 %to.here
  %gap.start = sub i64 %y0, %high.lag
  %gap.from = call i64 @within(i64 %gap.start, i64 0, i64 %rows)
  %gap.to = call i64 @within(i64 %low.end, i64 0, i64 %rows)
  %from = select i1 %between, i64 %gap.from, i64 %from.tile
  %to = select i1 %between, i64 %gap.to, i64 %to.tile
  %some = icmp slt i64 %from, %to
  br i1 %some, label %work, label %l.next
work:
  %begin = mul i64 %from, %scale
  %whole = mul i64 %to, %scale
  %stop = call i64 @within(i64 %whole, i64 0, i64 %length)
  %inner = icmp ne i64 %is.inner, 0
  %ob = select i1 %inner, i64 0, i64 %begin
  %oe = select i1 %inner, i64 %other, i64 %stop
  %ib = select i1 %inner, i64 %begin, i64 0
  %ie = select i1 %inner, i64 %stop, i64 %other
  %status = call i32 %kernel(ptr %block, i64 %ob, i64 %oe, i64 %ib, i64 %ie)
  next %l
turned:
  next %t
banded:
  next %b
done:
  ret i32 0
}

define void @batched(ptr %plan, ptr %between, i64 %bands, ptr %team, i32 %helpers) {
entry:
  %is.one = icmp eq i64 %bands, 1
  br i1 %is.one, label %one, label %several
one:
  %alone = call i32 @skewed(ptr %plan, i64 0, i64 1, i64 0, i64 0)
  ret void
several:
  %shared = call i32 %team(ptr @skewed, ptr %plan, i64 %bands, i64 1, i64 1, i64 1, i64 1,
                           i64 %bands, i32 %helpers)
  %rest = call i32 @skewed(ptr %between, i64 1, i64 %bands, i64 0, i64 0)
  ret void
}
""")


@cache
def _native() -> Any:
    """The function that runs a batch."""
    address = load_forever(TEXT, ("batched",))["batched"]
    given = ctypes.c_char_p, ctypes.c_char_p, ctypes.c_int64, ctypes.c_void_p, ctypes.c_int32
    return ctypes.CFUNCTYPE(None, *given)(address)


@record
class _Touched:
    """An operand of a loop nest: the rows lie `step` bytes apart, and reach `span` bytes.

    A row that steps nowhere is met by all rows of the loop nest.
    """

    written: bool
    base: int
    step: int
    span: int
    rows: int

    @property
    def end(self) -> int:
        """Where the last row ends."""
        return self.base + (self.rows - 1) * self.step + self.span


@record(eq=False)
class _Queued:
    """A loop nest in a queue, but for where its arguments are; see `LAUNCHED`.

    `described` words behind where its operands are tell their lengths and steps.
    """

    kernel: int
    rows: int
    scale: int
    length: int
    other: int
    inner: bool
    described: int
    operands: tuple[_Touched, ...]


class Batch:
    """Gathers the loop nests of some functions, all of which one loop calls and no other."""

    def __init__(self, functions: Sequence[Any], specs: Sequence[KernelSpec]) -> None:
        """Prepare it.

        Args:
            functions: fused functions of kernels that write into their arguments alone.
            specs: their kernels.

        Raises:
            CompileError: the system lets no more code run.
        """
        self._functions, self._specs = functions, specs
        self._by_rows, self._in_order = _native(), sequence.native()
        self._buffer = (ctypes.c_int64 * ROOM)()
        self._taken = (ctypes.c_int64 * ROOM)()
        """What runs by rows, which nobody adds to: plans tell where arguments are in it."""
        self._queue = layout.array(
            [layout.words("QUEUE", room=ROOM, buffer=ctypes.addressof(self._buffer))]
        )
        self._lock = forks.lock()
        self._known: dict[tuple[int, bytes], tuple[Any, ...]] = {}
        self._patterns: list[_Pattern] = []
        self._size_bytes, self._iterations = 0, ITERATIONS
        self._waiting = 0
        self._runs = False

    def _word(self, name: str) -> int:
        return int(self._queue[layout.place("QUEUE", name)])

    def _set(self, name: str, value: int) -> None:
        self._queue[layout.place("QUEUE", name)] = value

    def begin(self, size_bytes: int) -> bool:
        """Gather what this thread calls from now on; whether it does.

        Where it does so for an outer call, which this one has interrupted, it stops doing so.

        Args:
            size_bytes: of the arrays that an iteration writes into.
        """
        if forks.held_here(self._lock):
            self.end()
            return False
        if size_bytes != self._size_bytes:
            self._size_bytes, self._iterations = size_bytes, ITERATIONS
        if size_bytes < LEAST_BYTES or self._iterations < 2 or not self._lock.acquire(False):
            return False
        self._waiting, self._runs = 0, False  # a fork may have left them so
        for name in ("owner", "used", "nests"):
            self._set(name, 0)
        contexts = [function._native for function in self._functions]
        if None in contexts:  # it takes the long way: what waits would run behind it
            self._lock.release()
            return False
        for context in contexts:
            context.gather_in(ctypes.addressof(self._queue))
        self._set("owner", threading.get_ident())
        return True

    def iterated(self) -> None:
        """An iteration is over."""
        self._waiting += 1
        if self._waiting >= self._iterations:
            self.flush()

    def end(self) -> None:
        """Run what waits, and gather no longer."""
        if forks.held_here(self._lock):
            self.flush()
            self._set("owner", 0)
            if not self._runs:
                self._lock.release()

    def flush(self) -> None:
        """Run what waits, if this thread gathers."""
        if self._runs or not forks.held_here(self._lock):
            return
        self._runs = True
        try:
            nests, waited, self._waiting = self._word("nests"), self._waiting, 0
            key = ctypes.string_at(self._buffer, 8 * self._word("used"))
            self._set("used", 0)
            self._set("nests", 0)
            if nests:
                self._run(key, nests, waited)
        finally:
            self._runs = False

    def _run(self, key: bytes, nests: int, waited: int) -> None:
        """Run the loop nests of a queue, which was taken after so many iterations."""
        team = workers.workers()
        threads = workers.thread_count() if team is not None else 1
        known = self._known.get((threads, key))
        if known is None:
            if len(self._known) >= KNOWN:
                self._known.clear()
            known = self._known[threads, key] = self._plan_like(key, nests, threads)
            if not known and waited >= self._iterations:
                self._iterations //= 2
                if self._iterations < 2:
                    self._set("owner", 0)
        address = team.team_address if team is not None else 0
        if not known:
            self._in_order(key, nests, address)
            return
        bands, plan, between, *_ = known
        helpers = team.start(bands - 1) if team is not None else 0
        ctypes.memmove(self._taken, key, len(key))
        self._by_rows(plan, between, bands, address, helpers)

    def _plan_like(self, key: bytes, nests: int, threads: int) -> tuple[Any, ...]:
        """The plan of a queue: that of another one of the same pattern, where there is one."""
        words = np.frombuffer(key, np.int64)
        for pattern in self._patterns:
            if (plan := pattern.plan(words, threads)) is not None:
                return plan
        return self._planned(words, nests, threads)

    def _planned(self, words: Any, nests: int, threads: int) -> tuple[Any, ...]:
        """How a queue runs by bands of rows; nothing where it has to run in order.

        Returns:
            How many bands there are, what runs in each and between them, and what that points to.
        """
        kernels = [group.kernel for spec in self._specs for launch in list(spec.launches.values())
                   for group in launch.groups]  # fmt: skip
        known = {place: nest for kernel in kernels for place, nest in kernel.plain_nests().items()}
        queued = _read(words.tolist(), nests, known)
        plan = self._skewed(queued, threads)
        plan = (*plan, kernels) if plan else ()
        if queued:
            if len(self._patterns) >= PATTERNS:
                self._patterns.clear()
            self._patterns.append(_Pattern(words, queued, threads, plan))
        return plan

    def _skewed(self, queued: Sequence[tuple[int, _Queued]], threads: int) -> tuple[Any, ...]:
        """The plan for loop nests, each with the word of the queue where its arguments begin."""
        lags = _lags([each for _, each in queued])
        if not lags:
            return ()
        height = max(each.rows for _, each in queued)
        low, high = (max(ends) for ends in zip(*lags, strict=True))
        if height // threads < BAND_FACTOR * (low + high):
            return ()
        step = max(part.step for _, each in queued for part in each.operands)
        tile = max(1, TILE_BYTES // max(step, 1))
        taken = ctypes.addressof(self._taken)
        rows = [
            layout.words("LAUNCHED", kernel=each.kernel, block=taken + 8 * at, rows=each.rows,
                         scale=each.scale, length=each.length, other=each.other,
                         inner=each.inner, low=lag[0], high=lag[1])
            for (at, each), lag in zip(queued, lags, strict=True)
        ]  # fmt: skip
        plans = []
        for tiles in (-(-(-(-height // threads) + high) // tile), 0):
            head = layout.words("BATCH", launches=len(queued), height=height, bands=threads,
                                tile=tile, tiles=tiles)  # fmt: skip
            plans.append(bytes(layout.array([head, *rows])))
        return threads, *plans


class _Pattern:
    """Queues that differ in where arrays are, and in numbers, alone: they have one plan.

    In all of them the same operands overlap, and lie as far apart in each other.
    """

    def __init__(
        self, words: Any, queued: Sequence[tuple[int, _Queued]], threads: int,
        plan: tuple[Any, ...],
    ) -> None:  # fmt: skip
        """That of a queue and its plan."""
        head = len(layout.FIELDS["HEAD"])
        places = [(at, len(each.operands), each.described) for at, each in queued]
        self._bases = np.concatenate([np.arange(at, at + n) for at, n, _ in places])
        self._forms = np.concatenate(
            [part for at, n, more in places
             for part in (np.arange(at - head, at), np.arange(at + n, at + n + more))]
        )  # fmt: skip
        self._sizes_bytes = np.array([part.end - part.base for _, each in queued
                                      for part in each.operands])  # fmt: skip
        self._length, self._known = len(words), bytes(words[self._forms])
        self._places, self._plan = self.places_of(words, threads), plan

    def places_of(self, words: Any, threads: int) -> bytes:
        """Which operands overlap, directly or by others, and where they lie in what they cover."""
        bases = words[self._bases]
        order = np.argsort(bases, kind="stable")
        starts = bases[order]
        ends = np.maximum.accumulate(starts + self._sizes_bytes[order])
        apart = np.ones(len(starts), bool)
        apart[1:] = starts[1:] >= ends[:-1]
        covers, offsets = np.empty_like(order), np.empty_like(bases)
        firsts = np.flatnonzero(apart)
        group = np.cumsum(apart) - 1
        covers[order], offsets[order] = group, starts - starts[firsts][group]
        _, first, number = np.unique(covers, return_index=True, return_inverse=True)
        return bytes(first[number]) + bytes(offsets) + bytes([threads & 255])

    def plan(self, words: Any, threads: int) -> tuple[Any, ...] | None:
        """The plan of such a queue that is known; None for others."""
        if len(words) != self._length or bytes(words[self._forms]) != self._known:
            return None
        return self._plan if self.places_of(words, threads) == self._places else None


def _read(
    words: Sequence[int], nests: int, known: Mapping[int, tuple[LoopNest, int]]
) -> list[tuple[int, _Queued]]:
    """The loop nests of a queue; none where one cannot run by rows.

    Returns:
        The word where the arguments of each begin, and what it is: one object for those alike.
    """
    size = len(layout.FIELDS["HEAD"])
    inner, length = layout.place("HEAD", "inner"), layout.place("HEAD", "words")
    found, at = list[tuple[int, Sequence[int]]](), 0
    for _ in range(nests):
        first = at + size
        found.append((first, tuple(words[at : first + words[at + length]])))
        at = first + words[at + length]
    kinds = dict[Sequence[int], Any]()
    for _, each in found:
        if each in kinds:
            continue
        nest, kernel = known.get(each[0], (None, 0))
        if nest is None:
            return []
        count, rank, block = len(nest.operands), nest.rank, each[size:]
        lengths = (*block[count : count + rank - 1], each[inner])
        steps = block[count + rank - 1 : count + rank - 1 + count * rank]
        strides = [steps[k * rank : k * rank + rank] for k in range(count)]
        kinds[each] = nest, kernel, block[:count], lengths, strides
    pitch = max((line[0] for *_, lengths, strides in kinds.values() for line in strides
                 if len(lengths) > 1 < lengths[0]), default=LINE_BYTES)  # fmt: skip
    queued = dict[Sequence[int], _Queued]()
    for each, (nest, kernel, bases, lengths, strides) in kinds.items():
        one = _queued(nest, kernel, bases, lengths, strides, pitch)
        if one is None:
            return []
        queued[each] = one
    return [(first, queued[each]) for first, each in found]


def _queued(
    nest: LoopNest,
    kernel: int,
    bases: Sequence[int],
    lengths: Sequence[int],
    strides: Sequence[Sequence[int]],
    pitch: int,
) -> _Queued | None:
    """A loop nest by rows: along its outermost axis, or so many bytes of its only one."""
    if min(lengths) < 1 or any(step < 0 for line in strides for step in line):
        return None
    itemsizes = [np.dtype(desc.dtype).itemsize for desc in nest.operands]
    if len(lengths) > 1:
        rows, scale = lengths[0], math.prod(lengths[1:-1])
        whole, other = rows * scale, lengths[-1]
        spans = [sum((n - 1) * step for n, step in zip(lengths[1:], line[1:], strict=True))
                 for line in strides]  # fmt: skip
        steps = [line[0] for line in strides]
    else:
        (whole,), other = lengths, 1
        scale = max(1, pitch // max(1, *(line[0] for line in strides)))
        rows = -(-whole // scale)
        steps = [scale * line[0] for line in strides]
        spans = [(scale - 1) * line[0] for line in strides]
    operands = [
        _Touched(k >= len(nest.loads), base, step, span + size, rows)
        for k, (base, step, span, size)
        in enumerate(zip(bases, steps, spans, itemsizes, strict=True))
    ]  # fmt: skip
    described = len(lengths) - 1 + len(strides) * len(lengths)
    inner = len(lengths) == 1
    return _Queued(kernel, rows, scale, whole, other, inner, described, tuple(operands))


def _lags(queued: Sequence[_Queued]) -> list[tuple[int, int]]:
    """By how many rows each loop nest begins later and ends earlier in a band than the band.

    It lags behind each earlier one, if one of the two writes what the other touches: all rows of
    the earlier one that meet a row of its own are done before that. Nothing where two have rows of
    other lengths.
    """
    apart: dict[tuple[int, int], tuple[int, int] | None] = {}
    lags = list[tuple[int, int]]()
    for place, later in enumerate(queued):
        low = high = 0
        for earlier, (earlier_low, earlier_high) in zip(queued[:place], lags, strict=True):
            pair = id(earlier), id(later)
            if pair not in apart:
                try:
                    apart[pair] = _reach(earlier, later)
                except ValueError:
                    return []
            if (met := apart[pair]) is not None:
                low, high = max(low, earlier_low + met[0]), max(high, earlier_high + met[1])
        lags.append((low, high))
    return lags


def _reach(earlier: _Queued, later: _Queued) -> tuple[int, int] | None:
    """How many rows below and above a row of the later loop nest those lie that it waits for.

    None where nothing of one is touched by the other.

    Raises:
        ValueError: rows have other lengths in the two.
    """
    found = list[tuple[int, int]]()
    for one in earlier.operands:
        for other in later.operands:
            if not (one.written or other.written):
                continue
            if one.base >= other.end or other.base >= one.end:
                continue
            step = one.step if one.rows > 1 else other.step
            if step < 1 or (step != other.step and other.rows > 1):
                raise ValueError(step)
            apart = other.base - one.base
            below = -1 - (apart - one.span) // step
            found.append((below, -(-(apart + other.span) // step) - 1))
    if not found:
        return None
    return max(below for below, _ in found), max(above for _, above in found)
