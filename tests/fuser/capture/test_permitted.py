"""What a trace may call and read: a list of what depends on its operands alone."""

import ctypes
import datetime
import gc
import importlib
import io
import math
import operator
import os
import queue
import random
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fuser
from fuser.capture.permitted import is_open, is_permitted, is_permitted_code, may_hold

X = np.arange(4.0)


class Plain:
    """Attributes alone."""

    __slots__ = ("a", "b")


class Closing(Plain):
    """It does something when it goes."""

    def __del__(self) -> None:
        """Nothing, here."""


@pytest.mark.parametrize(
    "function",
    [math.sin, abs, sorted, [].append, {}.get, "".join, operator.add, np.array, random.random,
     io.StringIO().write, threading.Lock().__exit__, os.fspath, datetime.date.min.isoformat],
)  # fmt: skip
def test_what_depends_on_its_operands_may_be_called(function: Any) -> None:
    """Functions and methods in C."""
    assert is_permitted(function)


@pytest.mark.parametrize(
    "function",
    [os.stat, time.time, open, print, np.fromfile, datetime.datetime.now, threading.Lock().locked,
     np.zeros(1).tofile, os.getcwd],
)  # fmt: skip
def test_what_reads_more_may_not(function: Any) -> None:
    """Files, clocks, settings, locks."""
    assert not is_permitted(function)


def test_functions_of_numpy_in_python_are_told_by_their_module() -> None:
    """Those of arrays are known, those of files and settings are not."""
    for function in (np.full, np.eye, np.ones):
        assert is_permitted_code(function.__globals__["__name__"], function.__name__)
    for function in (np.load, np.loadtxt, np.get_printoptions, np.geterr, np.memmap.__new__):
        assert not is_permitted_code(function.__globals__["__name__"], function.__name__)


@pytest.mark.parametrize("kind", [Plain, int, list, dict, np.ndarray, ValueError, random.Random])
def test_objects_that_are_no_more_than_attributes(kind: type) -> None:
    """Classes in Python, and built-in types that are known."""
    assert is_open(kind)


@pytest.mark.parametrize("kind", [ctypes.c_double, ctypes.Structure, io.FileIO, threading.local])
def test_objects_that_may_hold_anything(kind: type) -> None:
    """Other types in C, and classes from them."""
    assert not is_open(kind)


def test_objects_that_do_more_when_they_go_are_not_made_in_traces() -> None:
    """`__del__`; memory that reads as a file may be made."""
    assert may_hold(Closing)
    assert not may_hold(Plain)
    assert not may_hold(io.StringIO)


def test_the_reason_names_what_was_called_and_where() -> None:
    """And a lock that a function holds meanwhile is let go."""
    lock = threading.Lock()

    def stamped(x: Any) -> Any:
        with lock:
            return x + time.time()

    fused = fuser.fuse(stamped, fallback="allow")
    fused(X)
    assert not lock.locked()
    assert [(reason.code, reason.operation) for reason in fused.fallbacks] == [("impure", "time()")]
    assert "test_permitted.py" in fused.fallbacks[0].where


def test_what_interrupts_a_trace_is_not_the_functions_doing() -> None:
    """Memory is cleared in the middle, and somebody times that."""
    seen: list[float] = []

    def note(phase: str, info: dict[str, int]) -> None:
        """Read the clock."""
        seen.append(time.perf_counter())

    def work(x: Any) -> Any:
        """Code that is watched, and makes lists."""
        return x * getattr(x, "ndim") + len([[] for _ in [None] * 1000])  # noqa: B009

    fused = fuser.fuse(work, fallback="error")
    before = gc.get_threshold()
    gc.callbacks.append(note)
    gc.set_threshold(100)
    try:
        found = fused(np.ones(3))
    finally:
        gc.set_threshold(*before)
        gc.callbacks.remove(note)
    assert seen
    assert found.tolist() == [1001.0] * 3


MODULE = """
import os
import numpy as np
import fuser
PATH = {path!r}
traced = fuser.fuse(lambda x: x * 0 + os.stat(PATH).st_size, fallback="allow")
FIRST = traced(np.ones(3))[0]
"""


def test_files_are_read_anew_where_a_module_is_imported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What an import does by itself is no affair of a function; what the function does is."""
    file = tmp_path / "some.txt"
    file.write_text("abc")
    (tmp_path / "module_that_calls.py").write_text(MODULE.format(path=str(file)))
    monkeypatch.syspath_prepend(tmp_path)
    module = importlib.import_module("module_that_calls")
    assert module.FIRST == 3
    file.write_text("abcdefgh")
    assert module.traced(np.ones(3))[0] == 8


def test_files_are_read_anew_where_memory_is_cleared(tmp_path: Path) -> None:
    """A first call in a callback of the collector is a call as any other."""
    file = tmp_path / "some.txt"
    file.write_text("abc")
    traced = fuser.fuse(lambda x: x * 0 + os.stat(file).st_size, fallback="allow")
    found: list[float] = []

    def told(phase: str, _: object) -> None:
        if phase == "start" and not found:
            found.append(traced(np.ones(3))[0])

    gc.callbacks.append(told)
    try:
        gc.collect()
    finally:
        gc.callbacks.remove(told)
    assert found == [3]
    file.write_text("abcdefgh")
    assert traced(np.ones(3))[0] == 8


@pytest.mark.parametrize(
    ("each", "look"),
    [(threading.Barrier(1), threading.Barrier.wait), (threading.Event(), threading.Event.set),
     (queue.Queue(), queue.Queue.empty), (threading.Semaphore(9), threading.Semaphore.acquire)],
)  # fmt: skip
def test_functions_that_wait_for_threads_run_as_they_are(each: Any, look: Any) -> None:
    """A trace would hold up the calls that it waits for, and set no event that others wait for."""

    def meeting(x: Any) -> Any:
        look(each)
        return x * 2

    fused = fuser.fuse(meeting, fallback="allow")
    assert np.array_equal(fused(X), X * 2)
    found = f"it may wait for other threads at a {type(each).__name__}"
    assert [(reason.code, reason.found) for reason in fused.fallbacks] == [("impure", found)]
