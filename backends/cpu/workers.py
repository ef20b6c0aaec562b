"""Worker threads in native code: parked on a futex, woken for one kernel, sharing its chunks.

One team works at a time; a second caller that comes meanwhile runs alone. A caller that has done
all chunks waits only for workers that have taken part: one that has not been scheduled yet is no
longer wanted, so a busy machine costs no time slices. Each thread begins with chunks of its own
share, the same in every call, whose operands may still lie in its cache; then it takes what is left
of the others'. Where later chunks wait for earlier ones, all take them in order. Workers spin for
some microseconds after a job (the next one often follows) and then sleep. A forked child starts
without workers and makes its own when it needs them. Chunks are the same whatever the number of
threads, so results are too.
"""

from __future__ import annotations

import ctypes
import os
import platform
import sys
import threading
from functools import cache
from typing import Any

from fuser import config, native_call
from fuser.backends.cpu.processors import machine_threads

#: Elements of one chunk along the innermost loop; a multiple of every number of lanes.
CHUNK = 1 << 14
#: Rows of one chunk where strided operands are packed by tiles.
TILED_ROWS = 64
#: Added to a number of helpers where chunks are taken in order.
ORDERED = 256

_SYSCALL_FUTEX = {"x86_64": 202, "aarch64": 98}

_TEXT = """\
%job = type {{ ptr, ptr, i64, i64, i64, i64, i64, i64, i64 }}
@job = internal global %job zeroinitializer, align 64
@generation = global i32 0, align 64
@next = internal global [256 x [8 x i64]] zeroinitializer, align 64
@ticket = global i32 0, align 64
@finished = global i32 0, align 64
@sleeping = internal global i32 0, align 64
@busy = global i32 0, align 64
@status = internal global i32 0
@spins = global i32 2000

declare i64 @syscall(i64, ...)
declare void @llvm.x86.sse2.pause()

define internal void @chunks(i64 %me) {{
entry:
  %fn = load ptr, ptr @job
  %block = load ptr, ptr getelementptr (i8, ptr @job, i64 8)
  %outer = load i64, ptr getelementptr (i8, ptr @job, i64 16)
  %inner = load i64, ptr getelementptr (i8, ptr @job, i64 24)
  %ochunk = load i64, ptr getelementptr (i8, ptr @job, i64 32)
  %ichunk = load i64, ptr getelementptr (i8, ptr @job, i64 40)
  %iparts = load i64, ptr getelementptr (i8, ptr @job, i64 48)
  %total = load i64, ptr getelementptr (i8, ptr @job, i64 56)
  %shares = load i64, ptr getelementptr (i8, ptr @job, i64 64)
  br label %share
share:
  %k = phi i64 [ 0, %entry ], [ %k1, %empty ]
  %ahead = add i64 %me, %k
  %s = urem i64 %ahead, %shares
  %place = getelementptr [8 x i64], ptr @next, i64 %s
  %s1 = add i64 %s, 1
  %most = mul i64 %s1, %total
  %end = udiv i64 %most, %shares
  br label %loop
loop:
  %seen.next = load atomic i64, ptr %place monotonic, align 8
  %left = icmp ult i64 %seen.next, %end
  br i1 %left, label %take, label %empty
take:
  %c = atomicrmw add ptr %place, i64 1 acq_rel
  %some = icmp ult i64 %c, %end
  br i1 %some, label %work, label %empty
work:
  %o = udiv i64 %c, %iparts
  %i = urem i64 %c, %iparts
  %ob = mul i64 %o, %ochunk
  %oe0 = add i64 %ob, %ochunk
  %ocut = icmp ult i64 %oe0, %outer
  %oe = select i1 %ocut, i64 %oe0, i64 %outer
  %ib = mul i64 %i, %ichunk
  %ie0 = add i64 %ib, %ichunk
  %icut = icmp ult i64 %ie0, %inner
  %ie = select i1 %icut, i64 %ie0, i64 %inner
  %got = call i32 %fn(ptr %block, i64 %ob, i64 %oe, i64 %ib, i64 %ie)
  %seen = atomicrmw or ptr @status, i32 %got acq_rel
  br label %loop
empty:
  %k1 = add i64 %k, 1
  %others = icmp ult i64 %k1, %shares
  br i1 %others, label %share, label %done
done:
  ret void
}}

define internal i32 @wait(ptr %word, i32 %old) {{
entry:
  %limit = load i32, ptr @spins
  br label %spin
spin:
  %n = phi i32 [ 0, %entry ], [ %n1, %again ]
  %now = load atomic i32, ptr %word acquire, align 4
  %changed = icmp ne i32 %now, %old
  br i1 %changed, label %done, label %again
again:
  {pause}
  %n1 = add i32 %n, 1
  %more = icmp ult i32 %n1, %limit
  br i1 %more, label %spin, label %sleep
sleep:
  %s = atomicrmw add ptr @sleeping, i32 1 seq_cst
  %check = load atomic i32, ptr %word seq_cst, align 4
  %still = icmp eq i32 %check, %old
  br i1 %still, label %futex, label %awake
futex:
  %ignored = call i64 (i64, ...) @syscall(i64 {futex}, ptr %word, i32 128,
              i32 %old, ptr null, ptr null, i32 0)
  br label %awake
awake:
  %t = atomicrmw sub ptr @sleeping, i32 1 seq_cst
  %after = load atomic i32, ptr %word acquire, align 4
  %moved = icmp ne i32 %after, %old
  br i1 %moved, label %done, label %sleep
done:
  %result = phi i32 [ %now, %spin ], [ %after, %awake ]
  ret i32 %result
}}

define internal void @wake(ptr %word, i32 %count) {{
entry:
  fence seq_cst
  %s = load atomic i32, ptr @sleeping seq_cst, align 4
  %any = icmp ne i32 %s, 0
  br i1 %any, label %call, label %done
call:
  %ignored = call i64 (i64, ...) @syscall(i64 {futex}, ptr %word, i32 129,
              i32 %count, ptr null, ptr null, i32 0)
  br label %done
done:
  ret void
}}

define ptr @worker(ptr %seen.at.start) {{
entry:
  %start = ptrtoint ptr %seen.at.start to i64
  %first = trunc i64 %start to i32
  %number = lshr i64 %start, 32
  br label %loop
loop:
  %seen = phi i32 [ %first, %entry ], [ %now, %next ]
  %now = call i32 @wait(ptr @generation, i32 %seen)
  %t0 = load atomic i32, ptr @ticket acquire, align 4
  br label %take
take:
  %t = phi i32 [ %t0, %loop ], [ %other, %again ]
  %job.count = and i32 %t, -256
  %same = icmp eq i32 %job.count, %now
  %free = and i32 %t, 255
  %some = icmp ne i32 %free, 0
  %wanted = and i1 %same, %some
  br i1 %wanted, label %try, label %next
try:
  %less = sub i32 %t, 1
  %pair = cmpxchg ptr @ticket, i32 %t, i32 %less acq_rel acquire
  %other = extractvalue {{ i32, i1 }} %pair, 0
  %got = extractvalue {{ i32, i1 }} %pair, 1
  br i1 %got, label %join, label %again
again:
  br label %take
join:
  %shares = load i64, ptr getelementptr (i8, ptr @job, i64 64)
  %mine = urem i64 %number, %shares
  call void @chunks(i64 %mine)
  %before = atomicrmw add ptr @finished, i32 1 acq_rel
  call void @wake(ptr @finished, i32 1)
  br label %next
next:
  br label %loop
}}

define i32 @team(ptr %fn, ptr %block, i64 %outer, i64 %inner, i64 %ochunk, i64 %ichunk,
                 i64 %iparts, i64 %total, i32 %wanted) {{
entry:
  %helpers = and i32 %wanted, 255
  %pair = cmpxchg ptr @busy, i32 0, i32 1 acquire monotonic
  %mine = extractvalue {{ i32, i1 }} %pair, 1
  br i1 %mine, label %lead, label %alone
alone:
  %a = call i32 %fn(ptr %block, i64 0, i64 %outer, i64 0, i64 %inner)
  ret i32 %a
lead:
  store ptr %fn, ptr @job
  store ptr %block, ptr getelementptr (i8, ptr @job, i64 8)
  store i64 %outer, ptr getelementptr (i8, ptr @job, i64 16)
  store i64 %inner, ptr getelementptr (i8, ptr @job, i64 24)
  store i64 %ochunk, ptr getelementptr (i8, ptr @job, i64 32)
  store i64 %ichunk, ptr getelementptr (i8, ptr @job, i64 40)
  store i64 %iparts, ptr getelementptr (i8, ptr @job, i64 48)
  store i64 %total, ptr getelementptr (i8, ptr @job, i64 56)
  store i32 0, ptr @status
  %more.helpers = zext i32 %helpers to i64
  %all.shares = add i64 %more.helpers, 1
  %ordered = icmp ugt i32 %wanted, 255
  %shares = select i1 %ordered, i64 1, i64 %all.shares
  store i64 %shares, ptr getelementptr (i8, ptr @job, i64 64)
  br label %deal
deal:
  %s = phi i64 [ 0, %lead ], [ %s1, %deal ]
  %part = mul i64 %s, %total
  %begin = udiv i64 %part, %shares
  %place = getelementptr [8 x i64], ptr @next, i64 %s
  store atomic i64 %begin, ptr %place monotonic, align 8
  %s1 = add i64 %s, 1
  %more = icmp ult i64 %s1, %shares
  br i1 %more, label %deal, label %call
call:
  store atomic i32 0, ptr @finished monotonic, align 4
  %g = load atomic i32, ptr @generation monotonic, align 4
  %new = add i32 %g, 256
  %tickets = or i32 %new, %helpers
  store atomic i32 %tickets, ptr @ticket release, align 4
  store atomic i32 %new, ptr @generation seq_cst, align 4
  call void @wake(ptr @generation, i32 %helpers)
  call void @chunks(i64 0)
  %old = atomicrmw xchg ptr @ticket, i32 %new acq_rel
  %unused = and i32 %old, 255
  %joined = sub i32 %helpers, %unused
  br label %until
until:
  %done = load atomic i32, ptr @finished acquire, align 4
  %all = icmp eq i32 %done, %joined
  br i1 %all, label %finish, label %pause
pause:
  %ignored = call i32 @wait(ptr @finished, i32 %done)
  br label %until
finish:
  %found = load i32, ptr @status
  store atomic i32 0, ptr @busy release, align 4
  ret i32 %found
}}
"""


class Workers:
    """A team of native threads."""

    def __init__(self) -> None:
        """Compile the team's code; threads start when they are first wanted."""
        from fuser.backends.cpu.native import load_forever

        machine = platform.machine()
        pause = "call void @llvm.x86.sse2.pause()" if machine == "x86_64" else "fence seq_cst"
        text = _TEXT.format(futex=_SYSCALL_FUTEX[machine], pause=pause)
        if machine != "x86_64":
            text = text.replace("declare void @llvm.x86.sse2.pause()\n", "")
        exports = ("worker", "team", "generation", "busy", "finished")
        self._places = load_forever(text, exports, quick=True)
        integer, pointer = ctypes.c_int64, ctypes.c_void_p
        self._team = ctypes.CFUNCTYPE(
            ctypes.c_int32, pointer, ctypes.c_char_p, *[integer] * 6, ctypes.c_int32
        )(self._places["team"])
        self.team_address = self._places["team"]
        self._started = 0
        self._lock = threading.Lock()
        self._create = ctypes.CDLL(None).pthread_create
        self._create.argtypes = [pointer, pointer, pointer, pointer]
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=self._forget)

    def _forget(self) -> None:
        """In a forked child: no workers exist, nothing is under way."""
        self._started = 0
        self._lock = threading.Lock()
        native_call.bump_mode()
        for name in ("busy", "finished"):
            ctypes.c_int32.from_address(self._places[name]).value = 0

    def start(self, helpers: int) -> int:
        """Have at least this many workers; returns how many there are."""
        if self._started >= helpers:
            return helpers
        with self._lock:
            generation = ctypes.c_uint32.from_address(self._places["generation"])
            while self._started < helpers:
                handle = ctypes.c_uint64(0)
                start = (self._started + 1) << 32 | generation.value
                failed = self._create(ctypes.byref(handle), None, self._places["worker"], start)
                if failed:  # no more threads allowed: the ones there are will do
                    break
                self._started += 1
        return min(self._started, helpers)

    def run(
        self,
        function: int,
        block: Any,
        outer: int,
        inner: int,
        threads: int,
        chunks: tuple[int, int] | None = None,
        *,
        ordered: bool = False,
    ) -> int:
        """Run a kernel function over its extent with several threads.

        `chunks` are the rows and elements of one chunk, by default those of `chunking`; they are
        taken in order if later ones wait for earlier ones.

        Each job has as many tickets as helpers, marked with its number: a worker that is late
        finds none left, or another job's number.
        """
        helpers = self.start(min(threads - 1, 255)) | (ORDERED if ordered else 0)
        ochunk, ichunk = chunks or chunking(outer, inner)
        iparts = -(-inner // ichunk)
        total = -(-outer // ochunk) * iparts
        return int(
            self._team(function, block, outer, inner, ochunk, ichunk, iparts, total, helpers)
        )


def chunking(
    outer: int, inner: int, tiled: bool = False, chunk: int = CHUNK
) -> tuple[int, int]:
    """Rows and elements of one chunk: about `chunk` elements, whole rows where they are short.

    Chunks of a nest that works in tiles are at least a tile high where there are enough rows.
    """
    if tiled and outer > 1 and inner > chunk // TILED_ROWS:
        rows = min(outer, TILED_ROWS)
        return rows, max(256, chunk // rows)
    if inner >= chunk:
        return 1, chunk
    return max(1, chunk // max(inner, 1)), max(inner, 1)


_made_lock = threading.Lock()


@cache
def supported() -> bool:
    """Whether the platform has a futex; the team itself is compiled when it is first wanted."""
    known = sys.platform == "linux" and platform.machine() in _SYSCALL_FUTEX
    return known and hasattr(ctypes.CDLL(None), "syscall")


@cache
def _made() -> Workers | None:
    """The process's team, or None where the platform has no futex."""
    return Workers() if supported() else None


def workers() -> Workers | None:
    """The process's team; None where there is none."""
    with _made_lock:
        return _made()


def thread_count() -> int:
    """Threads that kernels may use: set_num_threads, FUSER_NUM_THREADS, OMP_NUM_THREADS, all."""
    wanted = config.current().num_threads
    if wanted is not None:
        return wanted
    limit = os.environ.get("OMP_NUM_THREADS", "").split(",")[0]
    if limit.isdigit() and int(limit) > 0:
        return min(int(limit), machine_threads())
    return machine_threads()
