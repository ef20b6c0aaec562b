"""Worker threads in native code: parked on a futex, woken for one kernel, sharing its chunks.

One team works at a time; a second caller that comes meanwhile runs alone. A caller that has done
all chunks waits only for workers that have taken part: one that has not been scheduled yet is no
longer wanted, so a busy machine costs no time slices. Waking one takes a caller up to 10 us on a
virtual machine, and it comes 20 us later: for brief work sleeping ones are left alone, unless such
work comes again and again. Each thread begins with chunks of its own share, the same in every call,
whose operands may still lie in its cache; then it takes of the others' while more than one chunk is
left there (where last chunks went from one thread to another, a step of a stencil in the second
cache took 1.3 times as long). Where later chunks wait for earlier ones, all take them in order.
Workers spin for 80 us or more after a job (the next one often follows) and then sleep. A forked
child starts without workers and makes its own when it needs them. Chunks are the same whatever the
number of threads, so results are too. The code is in `team_code.py`.

Some kernels wake a thread on its waker's own processor, virtual machines that pack their threads
above all, and leave it in that queue for milliseconds while others idle. So a caller that nobody
helped twice, or whose helper was on its processor, moves its workers to others of its own; they are
bound to none (measured on two processors: of 60 samples of 4 ms, 45 had one thread's speed
before, now 5).
"""

from __future__ import annotations

import ctypes
import os
import platform
import sys
from functools import cache
from typing import Any

from fuser.backend import CompileError
from fuser.backends.cpu.machine import team_code
from fuser.backends.cpu.machine.loader import load_forever
from fuser.backends.cpu.machine.processors import machine_threads
from fuser.backends.cpu.machine.team_code import BRIEF, MOST_WORKERS, ORDERED, TOGETHER
from fuser.base import config, forks

#: Elements of one chunk along the innermost loop; a multiple of every number of lanes.
CHUNK = 1 << 14
#: Of pthread_sigmask: from now on, these signals and no others are blocked.
_SET_MASK = 2
#: Rows of one chunk where strided operands are packed by tiles.
TILED_ROWS = 64


class Workers:
    """A team of native threads."""

    def __init__(self) -> None:
        """Compile the team's code; threads start when they are first wanted."""
        text = team_code.text(platform.machine())
        exports = (
            "worker", "team", "generation", "busy", "finished", "tasks", "spread", "sleeping",
            "alive", "brief.at",
        )  # fmt: skip
        self._places = load_forever(text, exports, quick=True)
        integer, pointer = ctypes.c_int64, ctypes.c_void_p
        self._team = ctypes.CFUNCTYPE(
            ctypes.c_int32, pointer, ctypes.c_char_p, *[integer] * 6, ctypes.c_int32
        )(self._places["team"])
        self.team_address = self._places["team"]
        self._started = 0
        self._lock = forks.lock()
        self._create = ctypes.CDLL(None).pthread_create
        self._create.argtypes = [pointer, pointer, pointer, pointer]
        self._mask = ctypes.CDLL(None).pthread_sigmask
        self._mask.argtypes = [ctypes.c_int, pointer, pointer]
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=self._forget)

    def _forget(self) -> None:
        """In a forked child: no workers exist, nothing is under way."""
        self._started = 0
        config.bump_mode()
        for name in ("busy", "finished", "sleeping", "alive"):
            ctypes.c_int32.from_address(self._places[name]).value = 0
        ctypes.memset(self._places["tasks"], 0, 4 * MOST_WORKERS)

    def start(self, helpers: int) -> int:
        """Have at least this many workers, as far as there can be; returns how many there are."""
        helpers = min(helpers, MOST_WORKERS)
        if self._started >= helpers:
            return helpers
        with self._lock:
            generation = ctypes.c_uint32.from_address(self._places["generation"])
            while self._started < helpers:
                self._started += 1  # before anything else: a signal handler takes the next number
                start = self._started << 32 | generation.value
                if not self._thread(start):  # no more are allowed: the ones there are will do
                    self._started -= 1
                    break
        return min(self._started, helpers)

    def _thread(self, start: int) -> bool:
        """Start one worker, whether it can be; signals are for the interpreter's own threads."""
        handle = ctypes.c_uint64(0)
        every, before = (ctypes.c_uint64 * 16)(*[~0] * 16), (ctypes.c_uint64 * 16)()
        self._mask(_SET_MASK, every, before)
        try:
            return not self._create(ctypes.byref(handle), None, self._places["worker"], start)
        finally:
            self._mask(_SET_MASK, before, None)

    def tasks(self) -> list[int]:
        """The kernel's numbers of workers that have begun."""
        numbers = (ctypes.c_int32 * MOST_WORKERS).from_address(self._places["tasks"])
        return [number for number in numbers if number]

    def leave(self, processor: int) -> None:
        """Move workers from a processor to others that the calling thread may use."""
        ctypes.CFUNCTYPE(None, ctypes.c_int32)(self._places["spread"])(processor)

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
        together: bool = False,
        brief: bool = False,
    ) -> int:
        """Run a kernel function over its extent with several threads.

        `chunks` are the rows and elements of one chunk, by default those of `chunking`; they are
        taken in order if later ones wait for earlier ones, and some together where that is all one.
        What is brief the caller does alone where workers sleep.

        Each job has as many tickets as helpers, marked with its number: a worker that is late
        finds none left, or another job's number.
        """
        helpers = self.start(threads - 1) | (ORDERED if ordered else 0)
        helpers |= (TOGETHER if together else 0) | (BRIEF if brief else 0)
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


_made_lock = forks.lock()
_teams: list[Workers | None] = []


@cache
def supported() -> bool:
    """Whether the platform has a futex; the team itself is compiled when it is first wanted."""
    known = sys.platform == "linux" and platform.machine() in team_code.SYSCALLS
    return known and all(hasattr(ctypes.CDLL(None), n) for n in ("syscall", "sched_getcpu"))


@cache
def _made() -> Workers | None:
    """The process's team; None where the platform has no futex, or lets no more code run."""
    try:
        return Workers() if supported() else None
    except CompileError:
        return None


def workers() -> Workers | None:
    """The process's team; None where there is none."""
    if _teams:
        return _teams[0]
    if forks.imports_here():  # others may hold the lock and wait for that import
        return None
    with _made_lock:
        if not _teams:
            _teams.append(_made())
        return _teams[0]


def thread_count() -> int:
    """Threads that kernels may use: set_num_threads, FUSER_NUM_THREADS, OMP_NUM_THREADS, all."""
    return 1 if config.is_single_threaded() else min(_wanted(), MOST_WORKERS + 1)


def _wanted() -> int:
    """Threads that kernels may use, if there can be as many."""
    wanted = config.current().num_threads
    if wanted is not None:
        return wanted
    limit = os.environ.get("OMP_NUM_THREADS", "").split(",")[0]
    if limit.isdigit() and int(limit) > 0:
        return min(int(limit), machine_threads())
    return machine_threads()
