"""Worker threads: right answers from any number of threads, callers and forks."""

import ctypes
import os
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import fuser
from fuser.backends.cpu.machine import workers
from fuser.backends.cpu.machine.processors import machine_threads
from tests.children import said
from tests.settings import settings
from tests.threads import on_threads

pytestmark = pytest.mark.skipif(
    workers.workers() is None, reason="native workers exist on Linux only"
)


def _cubic(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    return x * x * x - y


def _call(threads: int, *arrays: np.ndarray) -> np.ndarray:
    with settings(num_threads=threads):
        return fuser.fuse(_cubic)(*arrays)


def _team() -> Any:
    found = workers.workers()
    assert found is not None
    return found


def _native(chunk: Callable[[int, int, int, int], None]) -> tuple[Any, int]:
    """A function of one chunk's extent as native code calls it, to be kept, and its address."""

    def called(block: int, *extent: int) -> int:
        chunk(*extent)
        return 0

    kind = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p, *[ctypes.c_int64] * 4)
    function = kind(called)
    address = ctypes.cast(function, ctypes.c_void_p).value
    assert address is not None
    return function, address


def _status_of_child(work: Callable[[], int]) -> int:
    """What a forked child ends with."""
    child = os.fork()
    if child == 0:
        status = 99
        try:
            status = work()
        finally:
            os._exit(status)
    _, status = os.waitpid(child, 0)
    return os.waitstatus_to_exitcode(status)


@pytest.mark.parametrize("shape", [(1_000_003,), (1009, 1013), (3, 400_001), (400_001, 3)])
def test_the_same_bits_whatever_the_number_of_threads(shape: tuple[int, ...]) -> None:
    """One to five threads give identical results, rows broadcast or not."""
    generator = np.random.default_rng(1)
    x = generator.normal(size=shape)
    y = generator.normal(size=shape[-1:])
    expected = _cubic(x, y)
    for threads in (1, 2, 5):
        assert np.array_equal(_call(threads, x, y), expected)


def test_many_callers_at_once_neither_deadlock_nor_disturb_each_other() -> None:
    """While one caller has the team, the others run alone."""
    x = np.random.default_rng(2).normal(size=400_000)
    expected = _cubic(x, x)
    wrong: list[int] = []
    function = fuser.fuse(_cubic)

    def work(number: int) -> None:
        for _ in range(30):
            if not np.array_equal(function(x, x), expected):
                wrong.append(number)

    on_threads(work, 6)
    assert not wrong


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this platform has no fork")
def test_a_forked_child_makes_workers_of_its_own() -> None:
    """The parent's workers do not exist in the child; its calls work all the same."""
    x = np.random.default_rng(3).normal(size=400_000)
    expected = _call(2, x, x)
    assert _status_of_child(lambda: int(not np.array_equal(_call(2, x, x), expected))) == 0


def test_workers_leave_the_processor_of_a_caller() -> None:
    """They are moved by what they may use, and may use all of it afterwards."""
    x = np.random.default_rng(4).normal(size=400_000)
    _call(2, x, x)
    team = _team()
    deadline_s = time.monotonic() + 60
    while not (tasks := team.tasks()) and time.monotonic() < deadline_s:
        time.sleep(0.001)  # a worker tells its number when it begins
    assert tasks
    allowed = os.sched_getaffinity(0)
    try:
        for processor in sorted(allowed):
            team.leave(processor)
            for task in tasks:
                os.sched_setaffinity(task, {processor})
            team.leave(processor)
            assert all(os.sched_getaffinity(task) == allowed for task in tasks)
            team.leave(-1)
            assert all(os.sched_getaffinity(task) == allowed for task in tasks)
            assert np.array_equal(_call(2, x, x), _cubic(x, x))
    finally:
        for task in team.tasks():
            os.sched_setaffinity(task, allowed)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this platform has no fork")
def test_a_forked_child_moves_no_worker_of_its_parent() -> None:
    """It knows no workers until it has its own."""
    x = np.random.default_rng(5).normal(size=400_000)
    _call(2, x, x)
    team = _team()
    assert _status_of_child(lambda: len(team.tasks())) == 0


def test_chunks_cover_whole_rows_or_parts_of_long_ones() -> None:
    """About CHUNK elements each; never none."""
    assert workers.chunking(1, 10**6) == (1, workers.CHUNK)
    assert workers.chunking(10**6, 3) == (workers.CHUNK // 3, 3)
    assert workers.chunking(5, 1) == (workers.CHUNK, 1)


def test_thread_count_follows_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    """set_num_threads first, then OMP_NUM_THREADS, then what the machine allows."""
    with settings(num_threads=3):
        assert workers.thread_count() == 3
    with settings(num_threads=None):
        monkeypatch.setenv("OMP_NUM_THREADS", "1")
        assert workers.thread_count() == 1
        monkeypatch.delenv("OMP_NUM_THREADS")
        assert workers.thread_count() == machine_threads() >= 1


MANY = """
import numpy as np, fuser
fuser.set_num_threads(10**9)
function, x = fuser.fuse(lambda x: x * x + 1), np.arange(1_000_003.0)
for _ in range(3):
    assert np.array_equal(function(x), x * x + 1)
"""


def test_more_threads_than_there_can_be() -> None:
    """As on a machine of many processors: their number has a limit, which workers' memory has."""
    with settings(num_threads=10**9):
        assert workers.thread_count() == workers.MOST_WORKERS + 1
    said("-c", MANY)


def test_what_a_helper_leaves_is_taken_by_others() -> None:
    """Chunks of every share are done once, with more helpers than processors and few chunks."""
    x = np.random.default_rng(6).normal(size=1 << 17)
    function = fuser.fuse(_cubic)
    for threads in (2, 7, 40):
        with settings(num_threads=threads):
            for length in (20_000, 65_537, x.size):
                assert np.array_equal(function(x[:length], x[:length]), _cubic(x, x)[:length])


@pytest.mark.parametrize(("outer", "inner", "chunks"), [
    (1, 1003, (1, 10)), (97, 5, (2, 5)), (13, 40, (3, 7)), (1, 3, (1, 1)), (64, 1, (1, 1)),
])  # fmt: skip
def test_chunks_in_line_may_be_one(outer: int, inner: int, chunks: tuple[int, int]) -> None:
    """Every element once, in no more calls than chunks, and in fewer where they are in line."""
    team = _team()
    calls: list[tuple[int, int, int, int]] = []
    _kept, address = _native(lambda *extent: calls.append(extent))
    total = -(-outer // chunks[0]) * -(-inner // chunks[1])
    in_line = outer <= chunks[0] or inner <= chunks[1]
    for threads in (2, 3, 9):
        for together in (False, True):
            calls.clear()
            team.run(address, b"", outer, inner, threads, chunks, together=together)
            done = np.zeros((outer, inner), np.int64)
            for first, last, begin, end in calls:
                done[first:last, begin:end] += 1
            assert (done == 1).all()
            if together and in_line and total > 8 * threads:
                assert len(calls) < total
            else:
                assert len(calls) <= total
            assert together or len(calls) == total


def test_chunks_that_wait_for_earlier_ones_are_taken_in_order() -> None:
    """When a chunk begins, at most those that other threads have just taken have not begun."""
    team = _team()
    begun: list[int] = []
    missing: list[int] = []

    def chunk(first: int, last: int, begin: int, end: int) -> None:
        missing.append(len(set(range(first)) - set(begun)))
        begun.append(first)

    _kept, address = _native(chunk)
    for _ in range(20):
        begun.clear()
        team.run(address, b"", 16, 1, 3, (1, 1), ordered=True)
        assert sorted(begun) == list(range(16))
    assert max(missing) <= 2


def test_sleeping_workers_are_not_woken_for_brief_work() -> None:
    """The caller does it in one piece; other work is shared out by chunks."""
    team = _team()
    calls: list[tuple[int, int, int, int]] = []
    _kept, address = _native(lambda *extent: calls.append(extent))
    team.run(address, b"", 16, 1, 2, (1, 1))
    assert len(calls) == 16
    sleeping, alive = (
        ctypes.c_int32.from_address(team._places[name]) for name in ("sleeping", "alive")
    )
    deadline_s = time.monotonic() + 60
    while not team._started == alive.value == sleeping.value and time.monotonic() < deadline_s:
        time.sleep(0.001)
    calls.clear()
    ctypes.c_int64.from_address(team._places["brief.at"]).value = 0  # long ago
    team.run(address, b"", 16, 1, 2, (1, 1), brief=True)
    assert calls == [(0, 16, 0, 1)]
    calls.clear()
    team.run(address, b"", 16, 1, 2, (1, 1))
    assert sorted(calls) == [(k, k + 1, 0, 1) for k in range(16)]
