"""Odd hosts and moments: compiling while the interpreter ends, small stacks, deep nesting."""

import subprocess
import sys
from typing import Any

import numpy as np
import pytest

import fuser
from tests.tree import ROOT

HEAD = """
import faulthandler, sys, threading, time
import numpy as np, fuser
faulthandler.dump_traceback_later(50, exit=True)
x = np.linspace(0, 1, 1000)

def new(k):
    return fuser.fuse(lambda x: np.exp(x * k) + x.sum() - np.tanh(x + k).max(), fallback="error")
"""
ENDING = """
def work(first, last):
    for k in range(first, last):
        new(k / 7)(x)

for first in (0, 10_000, 20_000):
    last = first + (10_000 if {daemon} else 4)
    threading.Thread(target=work, args=(first, last), daemon={daemon}).start()
time.sleep({pause})
"""
STACK = """
# CPython 3.14 compiles and imports nothing itself with less.
threading.stack_size((64 if sys.version_info < (3, 14) else 256) << 10)
found = []

def work():
    fused = new(2)
    for _ in range(4):
        found.append(np.allclose(fused(x), np.exp(x * 2) + x.sum() - np.tanh(x + 2).max()))

thread = threading.Thread(target=work)
thread.start()
thread.join()
assert found == [True] * 4
"""

HALFWAY = """
import importlib.util, types
import llvmlite.binding  # which itself imports some of them

for name in ("random", "numpy.random", "logging", "cupy", "ml_dtypes", "cloudpickle"):
    spec = importlib.util.spec_from_loader(name, loader=None)
    spec._initializing = True  # what Python's import sets until a module has run
    sys.modules[name] = types.ModuleType(name)
    sys.modules[name].__spec__ = spec
y = np.ones(1000)
assert np.array_equal(new(3)(y), np.exp(y * 3) + y.sum() - np.tanh(y + 3).max())
fuser.fuse(lambda x: np.array(x.tolist()), fallback="allow")(y)
"""


def _run(script: str) -> None:
    """Run a script in a process of its own, which ends well and says nothing."""
    ran = subprocess.run(
        [sys.executable, "-c", HEAD + script], capture_output=True, text=True, cwd=ROOT,
        timeout=90, check=False,
    )  # fmt: skip
    assert (ran.returncode, ran.stderr) == (0, "")


@pytest.mark.parametrize("daemon", [True, False])
@pytest.mark.parametrize("pause", [0, 0.2])
def test_threads_that_compile_while_the_interpreter_ends(daemon: bool, pause: float) -> None:
    """Daemons are left behind, others are waited for."""
    _run(ENDING.format(daemon=daemon, pause=pause))


def test_modules_that_another_thread_is_in_the_middle_of_importing() -> None:
    """They are as good as not imported: nothing is looked up in them."""
    _run(HALFWAY)


def test_a_thread_with_a_small_stack() -> None:
    """Compiling takes no more of it than NumPy's own calls do."""
    _run(STACK)


@pytest.mark.parametrize("kind", [list, dict, tuple])
def test_arguments_and_names_nested_2000_deep(kind: type) -> None:
    """NumPy runs them, with the reason; results may nest as deep."""
    nested: Any = np.ones(3)
    for _ in range(2000):
        nested = {"a": nested} if kind is dict else kind([nested])

    def inside(value: Any) -> Any:
        while isinstance(value, kind):
            value = value["a" if kind is dict else 0]
        return value * 2

    def named(x: Any) -> Any:
        return inside(nested) + x

    def deep(x: Any) -> Any:
        found: Any = x * 2
        for _ in range(2000):
            found = {"a": found} if kind is dict else kind([found])
        return found

    for _ in range(8):
        for plain, given in ((inside, nested), (named, np.ones(3))):
            fused = fuser.fuse(plain, fallback="allow")
            assert np.array_equal(fused(given), plain(given))
            assert fused.fallbacks
    assert np.array_equal(inside(fuser.fuse(deep, fallback="allow")(np.ones(3))), np.full(3, 4.0))
