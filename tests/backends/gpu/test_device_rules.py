"""What a device enforces and a careless host does not: each rule is broken by a test elsewhere.

The double of CuPy gives freed memory out again at once, lets work wait until somebody looks, has a
context for each thread and two devices that differ, and refuses what a driver refuses.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest

import fuser
from fuser import backend
from fuser.backend import available, register_backend
from tests.backends.gpu import fake_arrays, fake_cupy
from tests.backends.gpu.all_programs import ALL, assert_means
from tests.backends.gpu.host import OPTIMISED, HostGpuBackend
from tests.backends.gpu.nvrtc import assembly_text
from tests.backends.gpu.units import nests_of, program_texts
from tests.requirements import require
from tests.settings import settings

cupy = fake_cupy.for_a_file()
register_backend("gpu-optimised", lambda: HostGpuBackend("gpu-optimised", *OPTIMISED))

#: Arithmetic without its rounding.
_LOOSE = re.compile(r"\b(mul|add|sub)\.(ftz\.)?f(32|64|16)\b")

ROWS = np.random.default_rng(5).normal(size=(41, 67)).astype(np.float32)


@contextmanager
def captured(cupy: Any) -> Iterator[list[Any]]:
    """What is launched inside becomes a graph, which the list has afterwards."""
    stream, found = cupy.cuda.Stream(non_blocking=True), []
    with stream:
        stream.begin_capture()
        try:
            yield found
        finally:
            found.append(stream.end_capture())


#: What a call keeps while it runs: an array between kernels, parts of split rows.
IN_BETWEEN: dict[str, Callable[..., Any]] = {
    "two kernels": lambda x: x.var(-1).mean(),
    "split rows": lambda x: x.sum(),
    "split columns": lambda x: np.abs(x).sum(axis=0),
    "three kernels": lambda x: (x - x.mean(-1, keepdims=True)).std(axis=0).max(),
}


@pytest.mark.parametrize("name", IN_BETWEEN)
def test_a_replayed_graph_writes_into_nobodys_memory(cupy: Any, name: str) -> None:
    """What was freed when the call ended is somebody else's by then."""
    function = IN_BETWEEN[name]
    rows = np.tile(ROWS, (70, 1))
    x = cupy.asarray(rows)
    fused = fuser.fuse(function, fallback="error")
    fused(x)
    fused(x)
    with captured(cupy) as graph:
        found = fused(x)
    others = [cupy.asarray(np.full(size, 7, np.uint8)) for size in range(512, 40_000, 512)]
    x *= 0.5
    graph[0].launch()
    np.testing.assert_allclose(found.get(), function(rows.astype(float) * 0.5), rtol=1e-5)
    assert all((other.get() == 7).all() for other in others)
    fuser.clear_caches()  # gives back what the graph works in


def test_blocks_of_a_stream_a_thread_and_a_graph_count_on_their_own(cupy: Any) -> None:
    """The last block finishes: one launch, whose counters are zeros before and after it."""
    rows = np.tile(ROWS, (70, 1))
    fused = fuser.fuse(lambda x: x.sum(), fallback="error")
    x = cupy.asarray(rows)
    device = backend.get_backend("gpu").device
    fused(x)
    before = fuser.stats()["launches"]
    wanted = fused(x).get()
    assert fuser.stats()["launches"] == before + 1
    with captured(cupy) as graph:
        found = fused(x)
    seen = {device.counters(1, stream, 0) for stream in (0, 7, 7)}
    thread = threading.Thread(target=lambda: seen.add(device.counters(1, 0, 0)))
    thread.start()
    thread.join()
    assert len(seen) == 3
    for _ in range(3):
        found.fill(0)
        graph[0].launch()
        assert found.get() == wanted == fused(x).get()
    fuser.clear_caches()


SCALARS = (np.float32(2.5), np.float64(-0.0), np.int8(-3), np.bool_(1), np.float16(0.5),
           np.complex128(1 - 2j), np.uint64(2**63))  # fmt: skip


@pytest.mark.parametrize("value", SCALARS)
def test_numpys_scalars_can_be_captured(cupy: Any, value: Any) -> None:
    """A copy from the host's memory waits; bits are kept."""
    fused = fuser.fuse(lambda x, s: x * s, fallback="error")
    x = cupy.asarray(ROWS)
    with np.errstate(all="ignore"):
        wanted = ROWS * value
    for _ in range(2):
        np.testing.assert_array_equal(fused(x, value).get(), wanted)
    with captured(cupy) as graph:
        found = fused(x, value)
    graph[0].launch()
    assert found.dtype == wanted.dtype
    np.testing.assert_array_equal(np.signbit(found.get().real), np.signbit(wanted.real))
    np.testing.assert_array_equal(found.get(), wanted)


@pytest.mark.parametrize("name", ["x * 2 + y", *IN_BETWEEN])
def test_a_fresh_thread_may_be_the_first_to_call(cupy: Any, name: str) -> None:
    """Loading, asking how many blocks there is room for, launching: each wants a context."""
    function = IN_BETWEEN.get(name, lambda x: x * 2 + x)
    x = cupy.asarray(ROWS)
    fused = fuser.fuse(function, fallback="error")
    found: list[Any] = []

    def call() -> None:
        try:
            found.append(fused(x))
        except Exception as error:  # noqa: BLE001 - the test shows it
            found.append(error)

    for _ in range(2):  # a second thread knows the kernels, and has no context, either
        thread = threading.Thread(target=call)
        thread.start()
        thread.join()
    for one in found:
        assert not isinstance(one, Exception), one
        np.testing.assert_allclose(one.get(), function(ROWS.astype(float)), rtol=1e-4)


def test_a_plan_is_for_the_device_that_it_was_made_on(cupy: Any) -> None:
    """A row that one device keeps in shared memory is more than another one has."""
    rows = np.tile(ROWS[:2], (1, 900))
    fused = fuser.fuse(lambda x: x - x.max(-1, keepdims=True), fallback="error")
    wanted = rows - rows.max(-1, keepdims=True)
    for number in (0, 1, 1, 0, 1):
        with cupy.cuda.Device(number):
            np.testing.assert_array_equal(fused(cupy.asarray(rows)).get(), wanted)


class _Tensor:
    """Another library's array: its memory is used for something else as soon as it dies."""

    def __init__(self, cupy: Any, values: Any) -> None:
        self.array = cupy.asarray(values)
        self.values = self.array.get  # settles, before anything is under way
        self.memory = self.array._memory

    def __dlpack__(self, **_: Any) -> Any:
        shared = fake_arrays.wrap(self.memory[:])
        holder = type("Holder", (), {"__array_interface__": self.memory.__array_interface__})()
        holder.tensor = _Released(self.memory)
        shared._memory = np.asarray(holder)
        return shared

    def __dlpack_device__(self) -> tuple[int, int]:
        return 2, 0


class _Released:
    """Another library gets its memory back."""

    def __init__(self, memory: Any) -> None:
        self.memory = memory

    def __del__(self) -> None:
        self.memory[...] = np.nan


def test_an_adopted_array_lives_until_its_kernels_have_run(cupy: Any) -> None:
    """The call returns long before: its owner may not have the memory back yet."""
    fused = fuser.fuse(lambda x: x * 2, fallback="error")
    for _ in range(3):  # the long way, and the short one
        found = fused(_Tensor(cupy, ROWS))
        np.testing.assert_array_equal(found.get(), ROWS * 2)
    tensor = _Tensor(cupy, ROWS)
    fused(tensor)
    fake_arrays.settle()
    fused(_Tensor(cupy, ROWS))
    assert np.isnan(tensor.memory).all(), "what is done is let go with the next call"


def test_columns_with_many_results_have_room(cupy: Any) -> None:
    """Every thread has a place for its state in shared memory: fewer threads, then."""
    def function(x: Any) -> Any:
        return tuple((x * k).sum(axis=0) for k in range(1, 81))

    (nest,) = nests_of(function, ROWS.astype(np.float64))
    fused = fuser.fuse(function, fallback="error")
    assert nest.strategy == "column"
    for found, wanted in zip(fused(cupy.asarray(ROWS.astype(float))), function(ROWS), strict=True):
        np.testing.assert_allclose(found.get(), wanted, rtol=1e-3, atol=1e-3)


def test_a_captured_array_takes_the_short_way(cupy: Any) -> None:
    """By reference: what is written into it later is seen, and so is another shape."""
    weights = cupy.asarray(ROWS[0])
    fused = fuser.fuse(lambda x: x * weights + weights.sum(), fallback="error")
    x = cupy.asarray(ROWS)
    for factor in (1.0, 2.0, 3.0):
        weights[...] = cupy.asarray(ROWS[0] * np.float32(factor))
        wanted = ROWS * (ROWS[0] * factor) + (ROWS[0].astype(float) * factor).sum()
        np.testing.assert_allclose(fused(x).get(), wanted, rtol=1e-5, atol=1e-5)
    assert fused._latest is not None
    weights = cupy.asarray(ROWS[:1])
    np.testing.assert_allclose(fused(x).get(), ROWS * ROWS[:1] + ROWS[0].sum(), rtol=1e-4)


#: Every strategy: see test_races.py.
_STRATEGIES = (
    "axpy", "four-axes", "half", "row-sums", "total", "column-sums", "tall-columns", "softmax",
    "softmax-long", "softmax-held-block", "softmax-tail", "softmax-parts", "several",
)  # fmt: skip


@pytest.mark.parametrize("name", _STRATEGIES)
def test_programs_mean_the_same_when_the_compiler_does_its_best(name: str) -> None:
    """With -O2: what is undefined shows there."""
    if reason := available("gpu-optimised"):
        pytest.skip(reason)
    with settings(backend="gpu-optimised"):
        function, arguments = ALL[name]
        assert_means(name, fuser.fuse(function, fallback="error")(*arguments))


def loose_products(text: str) -> list[str]:
    """Lines of a unit's PTX in which an assembler may join a product and a sum."""
    lines = assembly_text(require("nvrtc"), text).splitlines()
    return [line for line in lines if _LOOSE.search(line)]


def test_no_product_may_be_contracted() -> None:
    """An assembler may join `mul` and `add` to one rounding; `mul.rn` it leaves alone.

    The driver assembles PTX itself where a device is newer than the compiler.
    """
    texts = program_texts()
    for name in ("axpy", "laplacian", "black-scholes", "half", "softmax", "layer-norm", "total"):
        for text in texts[name]:
            assert not loose_products(text), name
