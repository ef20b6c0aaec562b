"""Ends a trace by the clock while the traced function runs Python that records no operation.

Every operation that is traced looks at the budget's clock; a function that computes with Python's
numbers for seconds records none. So one thread looks at the traces that are under way, and where
one has used up its time has `TooLong` raised in it, as Ctrl-C raises KeyboardInterrupt. That is
done only while the topmost frame is neither ours nor an import's: the next instructions that Python
checks for exceptions are the function's own, or the first of a function of ours that it calls, so
nothing of ours is left half done. It is raised again as long as the function catches it, and such a
trace is dropped: the clock selects nothing, the plain function runs.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys
import threading
import time
from types import FrameType

from fuser.base import forks
from fuser.base.budget import Budget
from fuser.base.packages import COMPILED, WAITING, root

#: Between two looks at all traces, in seconds; the thread ends with the first look that finds none.
_PERIOD_S = 0.05
#: Looks after which libraries are interrupted, too: the function's own frame may never be topmost.
_PATIENCE = 20
#: What an exception must not come up in: ours, and imports, whose modules would be half made.
_OURS = "fuser"
_IMPORTING = frozenset(("importlib", "_frozen_importlib", "_frozen_importlib_external"))
_LOGS = "logging"  # whose handlers hold locks
_LIBRARIES = (COMPILED | sys.stdlib_module_names) - {"__main__"}

_lock = forks.lock()
_watched: list[Watched] = []
_watching: list[int] = []  # the process whose thread is at it


class TooLong(BaseException):
    """Raised in a function whose trace has used up its time; no `except Exception` takes it."""


class Watched:
    """A trace that the clock ends.

    Attributes:
        fired: the exception was sent: whatever the function made of it, the trace is dropped.
    """

    def __init__(self, budget: Budget, frame: FrameType) -> None:
        """Begin; `end` has to be called.

        Args:
            budget: the open budget, whose clock it is.
            frame: of this thread, below everything that the trace runs.
        """
        self.fired = False
        self._budget = budget
        self._frame: FrameType | None = frame
        self._thread = threading.get_ident()
        self._clock = _clock_of(self._thread)
        self._looks = 0
        with _lock:
            _watched.append(self)
            if os.getpid() in _watching or not getattr(sys, "_is_gil_enabled", lambda: True)():
                return
            try:
                threading.Thread(target=_watch, name="fuser-watchdog", daemon=True).start()
            except RuntimeError:  # no more threads: the function runs to its end
                return
            _watching[:] = [os.getpid()]

    def end(self) -> None:
        """Send no exception any more; one that was sent before comes up here, or has come up.

        It is not taken back: CPython 3.11 would look for it for ever where a profiler listens.

        Raises:
            TooLong: it was sent just now; call this again.
        """
        with _lock:
            if self in _watched:
                _watched.remove(self)
            self._frame = None  # a local of that frame may hold us, and it all frames below
        _check()

    def look(self) -> None:
        """Send the exception if the time is used up, and the function can take it."""
        if self._budget.resting or self._budget.left_s(time.clock_gettime(self._clock)) > 0:
            return
        frame = sys._current_frames().get(self._thread)
        self._looks += 1
        if frame is not None and self._takes(frame):
            self.fired = True
            target, kind = ctypes.c_ulong(self._thread), ctypes.py_object(TooLong)
            ctypes.pythonapi.PyThreadState_SetAsyncExc(target, kind)

    def _takes(self, top: FrameType) -> bool:
        """Whether an exception may come up in a frame."""
        package = root(top.f_globals)
        if package in (_OURS, _LOGS) or package in WAITING:
            return False
        if package in _LIBRARIES and self._looks <= _PATIENCE:
            return False
        above: FrameType | None = top
        while above is not None and above is not self._frame:
            if root(above.f_globals) in _IMPORTING:
                return False
            above = above.f_back
        return above is not None  # else the trace has ended


def _clock_of(thread: int) -> int:
    """The clock of a thread's processor time; where there is none, one that goes on always."""
    return time.pthread_getcpuclockid(thread) if sys.platform == "linux" else time.CLOCK_MONOTONIC


def _check() -> None:
    """A call: Python looks for exceptions of other threads where a function begins."""


def _watch() -> None:
    """Look at all traces until there are none."""
    signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
    while True:
        time.sleep(_PERIOD_S)
        with _lock:
            for each in _watched:
                each.look()
            if not _watched:
                _watching.clear()
                return
