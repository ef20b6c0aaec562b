"""Fused functions that signal handlers and finalisers call at any moment: no deadlock or crash."""

from __future__ import annotations

import os
import sys

import pytest

from tests.children import said

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="timers are those of POSIX")

HEAD = """
import faulthandler, gc, signal, sys, threading, time, warnings
import numpy as np, numpy.testing
faulthandler.dump_traceback_later(100, exit=True)
BUSY = False
CALLS = [0]
x = np.linspace(0, 1, 3000)

def new(k):
    return [lambda x, k=k: np.sqrt(x + k) * 2 - x, lambda x, k=k: (x * k).sum() + x,
            lambda x, k=k: np.sort(x * k) + 1, lambda x, k=k: x[k % 9:].max() - x][k % 4]

def call(fused, plain):
    CALLS[0] += 1
    np.testing.assert_allclose(fused(x), plain(x), rtol=1e-12)
"""

SIGNALS = HEAD + """
def handler(*_):
    global BUSY
    if BUSY:
        return
    BUSY, start = True, time.monotonic()
    try:
        import fuser  # perhaps in the middle of its first import
        if hasattr(fuser, "fuse"):
            k = CALLS[0]
            call(shared[k % len(shared)], plain[k % len(plain)]) if shared else None
            function = new(k)
            call(fuser.fuse(function, fallback="allow"), function)
            fuser.stats()
            if k % 7 == 0:
                fuser.clear_caches()
            if not fuser.base.forks.imports_here():
                fuser.parse(str(fuser.trace(function, x)))
    finally:
        BUSY = False
        if time.monotonic() < until:  # what is interrupted goes on for as long
            signal.setitimer(signal.ITIMER_REAL, time.monotonic() - start + 0.002, 0.002)

until = time.monotonic() + 2.5
shared, plain = [], []
signal.signal(signal.SIGALRM, handler)
import fuser
signal.setitimer(signal.ITIMER_REAL, 0.002, 0.002)
plain = [new(k) for k in range(4)]
shared = [fuser.fuse(each, fallback="allow") for each in plain]
k = 100
threads = [threading.Thread(target=lambda: [call(f, p) for _ in range(50) for f, p in
                                            zip(shared, plain)])]
for thread in threads:
    thread.start()
while k < 103 or time.monotonic() < until:
    for fused, each in zip(shared, plain):
        call(fused, each)
    function = new(k)
    call(fuser.fuse(function, fallback="allow"), function)
    if k % 5 == 0:
        fuser.clear_caches()
    k += 1
until = 0
signal.setitimer(signal.ITIMER_REAL, 0)
for thread in threads:
    thread.join()
for fused, each in zip(shared, plain):
    call(fused, each)
assert CALLS[0] > 8
print("done")
"""

FINALISERS = HEAD + """
import fuser

class Last:
    def __del__(self):
        function = new(CALLS[0])
        call(fuser.fuse(function, fallback="allow"), function)
        call(shared, plain)

plain = new(0)
shared = fuser.fuse(plain, fallback="allow")
gc.set_threshold(50)
for k in range(40):
    cycle = [Last()]
    cycle.append(cycle)
    del cycle
    function = new(k)
    call(fuser.fuse(function, fallback="allow"), function)
    call(shared, plain)
gc.collect()
print("done")
"""


@pytest.mark.parametrize("script", [SIGNALS, FINALISERS], ids=["signals", "finalisers"])
def test_calls_in_the_middle_of_others(script: str) -> None:
    """The same function and new ones, while the main thread traces, compiles, clears and calls."""
    assert said("-W", "ignore", "-c", script, environment={"FUSER_CACHE": "off"}) == "done\n"


BLOCKED = """
import os, threading, numpy as np
import fuser

fuser.set_num_threads(2)
x = np.linspace(0, 1, 2_000_000)
function = fuser.fuse(lambda x: np.sin(x) * np.exp(x), fallback="error")
for _ in range(5):
    function(x)

def blocked(task):
    lines = open(f"/proc/self/task/{task}/status").read().splitlines()
    return int(next(line for line in lines if line.startswith("SigBlk")).split()[1], 16)

known = {thread.native_id for thread in threading.enumerate()}
from fuser.backends.cpu.machine import workers
tasks = workers.workers().tasks()
assert tasks and not known & set(tasks)
every = (1 << 64) - 1
for number in (9, 19, 32, 33):  # SIGKILL, SIGSTOP, and two that the C library keeps
    every &= ~(1 << number - 1)
assert all(blocked(task) & every == every for task in tasks), [hex(blocked(t)) for t in tasks]
assert blocked(os.getpid()) == 0
print("done")
"""


@pytest.mark.skipif(sys.platform != "linux", reason="/proc and workers are Linux's")
def test_workers_block_all_signals() -> None:
    """So that they reach the interpreter's own threads; the caller's mask is as it was."""
    assert said("-c", BLOCKED) == "done\n"
