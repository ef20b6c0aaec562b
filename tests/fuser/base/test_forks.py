"""Forked children: what other threads held or did at that moment does not stop them."""

from __future__ import annotations

import ast
import os
import sys
import threading

import pytest

from fuser.base import forks
from tests.children import said
from tests.tree import files_with

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="this platform has no fork")

#: What a script begins with; a child that hangs is ended by a signal.
HEAD = """
import os, signal, sys, threading
import numpy as np
import fuser
from fuser.base import forks

x = np.linspace(0, 1, 200_000)

def fork_and(work):
    child = os.fork()
    if child == 0:
        signal.alarm(60)
        try:
            work()
        except BaseException:
            import traceback
            traceback.print_exc()
            os._exit(1)
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0

def new_call():
    function = fuser.fuse(lambda x: np.sqrt(np.sin(x) * x) - x, fallback="error")
    assert np.allclose(function(x), np.sqrt(np.sin(x) * x) - x)
    assert fuser.stats()

def in_a_thread(work):
    ready, done = threading.Event(), threading.Event()
    thread = threading.Thread(target=work, args=(ready, done))
    thread.start()
    assert ready.wait(60)
    return thread, done
"""

HELD = HEAD + """
fuser.fuse(lambda x: x * x + 1)(x)

def hold(ready, done):
    locks = [lock for lock in forks._locks if lock is not fuser.capture.effects._tracing]
    for lock in locks:
        lock.acquire()
    ready.set()
    done.wait()
    for lock in locks:
        lock.release()

thread, done = in_a_thread(hold)
fork_and(new_call)
done.set()
thread.join()
new_call()
"""

TRACING = HEAD + """
seen = []
box = {"array": x}

def slow(y):
    box["array"] = y
    seen.append(1)
    started.set()
    go.wait(0.2)
    box["array"] = x
    return y + 1

started, go = threading.Event(), threading.Event()
fused = fuser.fuse(slow)
thread = threading.Thread(target=fused, args=(x,))
thread.start()
assert started.wait(60)

def look():
    assert box["array"] is x, box
    new_call()

fork_and(look)
thread.join()
"""

COMPILER = HEAD + """
fuser.fuse(lambda x: x * x + 1)(x)
from llvmlite.binding import ffi

def compile(ready, done):
    with ffi.lib._lock:
        ready.set()
        done.wait(0.2)

thread, done = in_a_thread(compile)
fork_and(new_call)
thread.join()
"""

IMPORTING = HEAD + """
def first_call(k):
    fuser.fuse(lambda x: np.tanh(x) * x + k)(x)

for k in range(3):
    thread = threading.Thread(target=first_call, args=(k,))
    thread.start()
    fork_and(new_call)
    thread.join()
"""

WORKING = HEAD + """
fuser.set_num_threads(3)
stop = threading.Event()
fused = [fuser.fuse(lambda x: x * x + 1), fuser.fuse(lambda x: (x - x.mean()) / x.std())]

def work():
    while not stop.is_set():
        for function in fused:
            function(x)

threads = [threading.Thread(target=work) for _ in range(6)]
for thread in threads:
    thread.start()

def same():
    for _ in range(3):
        assert np.array_equal(fused[0](x), x * x + 1)
    child = threading.Thread(target=fused[1], args=(x,))
    child.start()
    child.join()

for _ in range(12):
    fork_and(same)
stop.set()
for thread in threads:
    thread.join()
"""


#: Without a GIL threads that only look into a dict leave it locked in some children: 10 of 360
#: forks of CPython 3.13.5, with nothing of ours, hung when they looked into it.
IN_DICTS = pytest.mark.skipif(
    not getattr(sys, "_is_gil_enabled", lambda: True)(),
    reason="without a GIL CPython's own dicts may stay locked in a child",
)


@pytest.mark.parametrize("script", [
    HELD, TRACING, COMPILER, IMPORTING, pytest.param(WORKING, marks=IN_DICTS),
], ids=[
    "locks", "a-trace", "the-compiler", "imports", "kernels",
])  # fmt: skip
def test_a_child_goes_on_whatever_other_threads_did(script: str) -> None:
    """It compiles and calls new functions, and sees no stand-in of another thread's trace."""
    said("-W", "ignore", "-c", script, environment={"FUSER_CACHE": "off"})


def test_all_locks_are_made_by_forks() -> None:
    """One made by `threading` itself could be held for ever in a child."""
    for module, path, tree in files_with("threading"):
        room = module.split(".")[:2]
        if module == "fuser.base.forks" or room in (["fuser", "suites"], ["fuser", "reports"]):
            continue
        calls = (n for n in ast.walk(tree) if isinstance(n, ast.Call))
        for call in calls:
            made = {ast.unparse(part) for part in (call.func, *(k.value for k in call.keywords))}
            wrong = made & {"threading.Lock", "threading.RLock", "threading.Condition"}
            assert not wrong, f"{path}:{call.lineno}: use fuser.base.forks"


def test_who_forks_keeps_what_it_holds() -> None:
    """Its own reentrant lock is still its own, and can be given back."""
    lock = forks.lock()
    other = forks.lock()
    thread = threading.Thread(target=other.acquire)
    thread.start()
    thread.join()
    with lock:
        child = os.fork()
        if child == 0:
            held = lock._is_owned() and other.acquire(blocking=False)  # type: ignore[attr-defined]
            os._exit(0 if held else 1)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def test_attributes_are_computed_once_and_without_a_lock() -> None:
    """What a thread of the parent computes keeps no child from computing it."""

    class Squared:
        computed = 0

        @forks.cached_property
        def area(self) -> int:
            """The area."""
            self.computed += 1
            return 9

    one = Squared()
    assert (one.area, one.area, one.computed) == (9, 9, 1)
    assert Squared.area.__doc__ == "The area."
    assert "area" in vars(one)


def test_importers_by_every_kind_of_table(monkeypatch: pytest.MonkeyPatch) -> None:
    """CPython's table of who waits for an import is a dictionary, or has `get` and no `in`."""
    import _frozen_importlib

    class Table:
        """As CPython has it since 3.12."""

        def __init__(self, **found: object) -> None:
            self.get = {threading.get_ident(): found.get("here")}.get

    for table, waits in ((Table(), False), (Table(here=["a lock"]), True),
                         (Table(here=[]), False), ({}, False)):  # fmt: skip
        monkeypatch.setattr(_frozen_importlib, "_blocking_on", table)
        assert forks.imports_here() is waits
