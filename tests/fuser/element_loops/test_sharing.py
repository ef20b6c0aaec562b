"""Loops whose iterations threads share: which ones, and what they give."""

from __future__ import annotations

import multiprocessing
import os
import signal
import time
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import fuser
from fuser.backends.cpu.machine import workers
from fuser.element_loops.code import For, everything
from fuser.element_loops.sharing import shared
from fuser.element_loops.translate import translated
from tests.fuser.comparing import faults, same
from tests.settings import settings

_I = "for i in range(a.shape[0]):\n    "
SHARED = {
    "rows": _I + "for j in range(a.shape[1]):\n        a[i, j] += b[j, i]",
    "sums": _I + "s = 0.0\n    for j in range(b.shape[1]):\n        s += b[i, j]\n    x[i] = s",
    "rows further on": "for i in range(1, len(x)):\n    for j in range(3):\n"
    "        x[i - 1] += y[j]",
    "columns": "for j in range(a.shape[1]):\n    for i in range(1, a.shape[0]):\n"
    "        a[i, j] += a[i - 1, j]",
    "while": _I + "k = 0\n    while b[i, k] < c:\n        k += 1\n    x[i] = k",
    "a branch": _I + "if b[i, 0] > c:\n        t = c\n    else:\n        t = 1.0\n"
    "    for j in range(a.shape[1]):\n        a[i, j] = t",
    "slices": _I + "a[i, : i + 1] *= c\n    a[i, : i + 1] += b[: i + 1, i]",
    "steps around it": "for t in range(n):\n    " + _I.replace("    ", "        ")
    + "for j in range(a.shape[1]):\n            a[i, j] += x[j]\n    x[0] += a[0, 0]",
    "one loop": "for i in range(len(x)):\n    x[i] = y[i] * c",
}  # fmt: skip
IN_ORDER = {
    "the row before": "for i in range(1, a.shape[0]):\n    for j in range(a.shape[1]):\n"
    "        a[i, j] += a[i - 1, j]",
    "one element": _I + "for j in range(a.shape[1]):\n        x[0] += a[i, j]",
    "a number that is carried": _I + "for j in range(a.shape[1]):\n        c += b[i, j]\n"
    "    x[i] = c",
    "a number that is left": _I + "s = 0.0\n    for j in range(b.shape[1]):\n        s += b[i, j]\n"
    "    x[i] = s\ny[0] = s",
    "a number that may be carried": "t = 0.0\n" + _I + "if b[i, 0] > c:\n        t = b[i, 0]\n"
    "    for j in range(a.shape[1]):\n        a[i, j] = t",
    "break": _I + "for j in range(a.shape[1]):\n        a[i, j] = c\n    if b[i, 0] > c:\n"
    "        break",
    "rows that are computed": _I + "for j in range(a.shape[1]):\n        a[i % 3, j] += b[i, j]",
    "from the end": "for i in range(-2, 2):\n    for j in range(a.shape[1]):\n        a[i, j] = c",
    "the diagonal": _I + "for j in range(a.shape[1]):\n        a[i, j] = a[j, i]",
    "the next steps": "for t in range(n):\n    for j in range(len(x)):\n        x[j] += y[j]",
}  # fmt: skip
_NAMES = (("a", "float64[2]"), ("b", "float64[2]"), ("c", "pyfloat"), ("n", "pyint"),
          ("x", "float64[1]"), ("y", "float64[1]"))  # fmt: skip


def _count(source: str, plain: bool = True) -> int:
    code = translated(source, _NAMES, ())[0]
    found = everything(shared(code.plain, code, lambda array: plain))
    return sum(isinstance(each, For) and each.shared for each in found)


@pytest.mark.parametrize("name", SHARED)
def test_iterations_that_are_independent(name: str) -> None:
    """The outermost loop of a nest; not where arrays may have an element twice."""
    assert _count(SHARED[name]) == 1
    assert not _count(SHARED[name], plain=False)


@pytest.mark.parametrize("name", IN_ORDER)
def test_iterations_that_depend_on_each_other(name: str) -> None:
    """They run one after another."""
    assert not _count(IN_ORDER[name])


def test_loops_within_others() -> None:
    """A few of them are shared: each is compiled as a function of its own."""
    inner = "for j in range(a.shape[1]):\n            a[i, j] += x[j]\n    x[0] += a[0, 0]\n"
    rows = "    " + _I.replace("    ", "        ") + inner
    assert [_count("for t in range(n):\n" + times * rows) for times in (3, 4, 9)] == [3, 4, 4]


@pytest.fixture(params=[1, 2, 5])
def threads(request: pytest.FixtureRequest) -> Iterator[int]:
    """Numbers of threads."""
    with settings(num_threads=request.param):
        yield request.param


def _triangle(a: Any, c: Any, alpha: float) -> None:
    for i in range(a.shape[0]):
        c[i, : i + 1] *= alpha
        for k in range(a.shape[1]):
            c[i, : i + 1] += alpha * a[i, k] * a[: i + 1, k]


def _sparse(starts: Any, columns: Any, values: Any, x: Any) -> Any:
    y = np.empty(starts.shape[0] - 1)
    for i in range(y.shape[0]):
        row = columns[starts[i] : starts[i + 1]]
        y[i] = values[starts[i] : starts[i + 1]] @ x[row]
    return y


def test_results(threads: int) -> None:
    """Bit for bit, whatever the number of threads; long enough loops to be shared."""
    rng = np.random.default_rng(threads)
    fused, before = fuser.fuse(_triangle, fallback="error"), faults()
    a, c = rng.standard_normal((150, 90)), rng.standard_normal((150, 150))
    found = [c.copy() for _ in range(4)]
    for each in found[1:]:
        fused(a, each, 1.25)
    _triangle(a, found[0], 1.25)
    assert all(same(found[0], each) for each in found[1:])
    rows, count = 5000, 60_000
    starts = np.sort(rng.integers(0, count, rows + 1))
    columns, values = rng.integers(-rows, rows, count), rng.standard_normal(count)
    x = rng.standard_normal(rows)
    spmv = fuser.fuse(_sparse, fallback="error")
    wanted = _sparse(starts, columns, values, x)
    for _ in range(3):
        np.testing.assert_allclose(spmv(starts, columns, values, x), wanted, 1e-12, 1e-12)
    first = spmv(starts, columns, values, x)
    assert faults() == before
    with settings(num_threads=1):
        assert same(first, spmv(starts, columns, values, x))


def _filtered(x: Any, y: Any, decay: float) -> None:
    for j in range(1, x.shape[1]):
        y[:, j] = (1 - decay) * x[:, j] + decay * y[:, j - 1]


def test_blocks_of_rows(threads: int) -> None:
    """Loops over columns whose rows are independent are shared by rows, bit for bit."""
    fused = fuser.fuse(_filtered, fallback="error")
    for rows in (301, 64, 3, 1):
        x = np.random.default_rng(rows).standard_normal((rows, 200))
        wanted, before = x.copy(), faults()
        _filtered(x, wanted, 0.7)
        for _ in range(3):
            found = x.copy()
            fused(x, found, 0.7)
            assert same(wanted, found)
        assert faults() == before
        assert any("@share(" in text for text in fused.source(x, found, 0.7).values())


def test_an_index_outside_in_any_thread(threads: int) -> None:
    """NumPy's error; what was written is as NumPy leaves it."""

    def scattered(out: Any, table: Any, index: Any) -> None:
        for i in range(out.shape[0]):
            for j in range(out.shape[1]):
                out[i, j] = table[index[i, j]] * 2

    fused = fuser.fuse(scattered)
    index = np.random.default_rng(0).integers(0, 100, (4000, 20))
    table = np.arange(100.0)
    out = np.zeros((4000, 20))
    for _ in range(3):
        fused(out, table, index)
    assert same(out, table[index] * 2)
    index[3000, 7] = 100
    wanted, found = np.zeros((4000, 20)), np.zeros((4000, 20))
    for function, into in ((scattered, wanted), (fused, found)):
        with pytest.raises(IndexError):
            function(into, table, index)
    assert same(wanted, found)


@pytest.mark.skipif(not workers.supported(), reason="there is no team here")
def test_threads_take_part() -> None:
    """The text shares the loop."""
    fused = fuser.fuse(_triangle, fallback="error")
    a, c = np.ones((9, 3)), np.ones((9, 9))
    assert any("@share(" in text for text in fused.source(a, c, 1.0).values())


class _TimeIsUpError(Exception):
    """What a handler raises."""


def _long(out: Any, many: int) -> None:
    for i in range(out.shape[0]):
        t = 1.0 + i
        for _ in range(many):
            t = t * 0.5 + 1.0 / t
        out[i] = t


_LONG = fuser.fuse(_long, fallback="error")


@pytest.mark.skipif(not hasattr(signal, "SIGALRM"), reason="this system has no such signal")
def test_a_signal_ends_what_threads_share(threads: int) -> None:
    """Soon, though only the caller looks at it; and then it works again."""
    fused = fuser.fuse(_long, fallback="error")
    for _ in range(3):
        fused(np.zeros(64), 10)

    def up(*_: Any) -> None:
        raise _TimeIsUpError

    old = signal.signal(signal.SIGALRM, up)
    signal.setitimer(signal.ITIMER_REAL, 0.2)
    begin = time.monotonic()
    try:
        with pytest.raises(_TimeIsUpError):
            fused(np.zeros(64), 10**9)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, old)
    assert time.monotonic() - begin < 10
    wanted, found = np.zeros(64), np.zeros(64)
    _long(wanted, 1000)
    fused(found, 1000)
    assert same(wanted, found)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system does not fork")
def test_a_forked_child() -> None:
    """It has no threads until it makes its own."""
    wanted = np.zeros(400)
    for _ in range(3):
        _LONG(wanted, 5000)
    with multiprocessing.get_context("fork").Pool(1) as pool:
        for _ in range(3):
            found = pool.apply(_in_child)
            assert same(wanted, found)


def _in_child() -> Any:
    found = np.zeros(400)
    _LONG(found, 5000)
    return found
