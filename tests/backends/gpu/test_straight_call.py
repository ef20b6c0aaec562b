"""Known calls as one function: they give what the longer ways give, or leave it to them."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest

import fuser
from fuser import backend
from fuser.backends.gpu import array_fields
from fuser.base.errors import BackendError
from tests.backends.gpu import fake_cupy
from tests.results import parts_of
from tests.tree import ROOT

#: Whose instructions are not counted, in a checkout of any name.
TESTS = str(ROOT / "tests")
X = np.random.default_rng(3).normal(size=(9, 40)).astype(np.float32)

cupy = fake_cupy.for_a_file()


#: name -> (function, arguments, whether a known call is one function)
CALLS: dict[str, tuple[Callable[..., Any], tuple[Any, ...], bool]] = {
    "arrays": (lambda x, y: x * 2 + y, (X, X), True),
    "repeated": (lambda x, y: x * y, (X, X[:1]), True),
    "numbers": (lambda x, a, b, c: np.where(c, x * a, x + b), (X, 2.5, 3, True), True),
    "of integers": (lambda x, n: x % n, (np.arange(-9, 9), 5), True),
    "half": (lambda x, s: x * s, (X.astype(np.float16), 2.5), True),
    "double": (lambda x, s: x * s, (X.astype(np.float64), 0.1), True),
    "complex": (lambda x: x * 1j, (X.astype(np.complex64),), True),
    "complex by a number": (lambda x, s: x * s, (X.astype(np.complex64), 2.5), True),
    "several results": (lambda x, y: (x + y, x.sum(-1), y), (X, X), True),
    "several kernels": (lambda x: x.var(-1).max(), (X,), True),
    "an expression": (lambda x, s: x * (1 - s), (X, 0.25), True),
    "another order": (lambda x, y: x + y, (X.T, X.T), True),
    "one argument back": (lambda x, y: (x + 1, y), (X, X), True),
    "a branch": (lambda x, n: x + 1 if n > 2 else x - 1, (X, 3), False),
    "no array": (lambda x: (x, 3), (X,), False),
}


@pytest.mark.parametrize("name", CALLS)
def test_results_are_those_of_the_longer_way(cupy: Any, name: str) -> None:
    """Values, dtypes, memory order; every further call is counted once."""
    function, arguments, straight = CALLS[name]
    fused = fuser.fuse(function, fallback="error")
    given = [cupy.asarray(a) if isinstance(a, np.ndarray) else a for a in arguments]
    first = parts_of(fused(*given))
    assert (fused._latest is not None) is straight
    before = fuser.stats()["launches"]
    second = parts_of(fused(*given))
    launched = fuser.stats()["launches"] - before
    assert launched == len(fused.explain(*given).groups)
    for one, other in zip(first, second, strict=True):
        if not hasattr(one, "get"):
            assert one == other
            continue
        assert (one.dtype, one.shape, one.strides) == (other.dtype, other.shape, other.strides)
        np.testing.assert_array_equal(one.get(), other.get())


def test_other_arguments_take_other_ways(cupy: Any) -> None:
    """Other lengths, layouts, dtypes, kinds of numbers: right whatever was called before."""
    fused = fuser.fuse(lambda x, s: x * s, fallback="error")
    strided = np.ones((9, 80), np.float32)[:, ::2]
    for x in (X, X[:3], X.T, X.astype(np.float64), strided, X[:0], X):
        for number in (2.5, 3, 2.5):
            found = fused(cupy.asarray(x), number)
            np.testing.assert_array_equal(found.get(), x * number)
            assert found.dtype == (x * number).dtype


def test_numbers_out_of_range_are_what_numpy_makes_of_them(cupy: Any) -> None:
    """Infinity for floats, an error for integers; large integers are rounded once."""
    fused = fuser.fuse(lambda x, s: x * s, fallback="error")
    x, k = cupy.asarray(X), cupy.asarray(np.arange(5, dtype=np.int32))
    for number in (2.5, 1e300, float("nan"), -0.0, 2**60 + 1, 1e-45):
        with np.errstate(all="ignore"):
            wanted = X * number
        np.testing.assert_array_equal(fused(x, number).get(), wanted)
        np.testing.assert_array_equal(fused(x, number).get(), wanted)
    np.testing.assert_array_equal(fused(k, 3).get(), np.arange(5) * 3)
    for _ in range(2):
        with pytest.raises(OverflowError):
            fused(k, 2**40)


def test_an_expression_of_numbers_raises_what_python_raises(cupy: Any) -> None:
    """In whichever way the call is served."""
    fused = fuser.fuse(lambda x, s: x * (1 / s), fallback="allow")
    x = cupy.asarray(X)
    for number in (4.0, 4.0, 0.0, 2.0, 0.0):
        if number:
            np.testing.assert_array_equal(fused(x, number).get(), X * np.float32(1 / number))
            continue
        with pytest.raises(ZeroDivisionError, match="division by zero"):
            fused(x, number)
    squared = fuser.fuse(lambda x, s: x * (s * s - 1), fallback="allow")
    for number in (2.0, 2.0, 1e200, 3.0):
        with np.errstate(all="ignore"):
            wanted = X * np.float32(number * number - 1)
        np.testing.assert_array_equal(squared(x, number).get(), wanted)
    assert squared._latest is not None


def test_what_is_wrong_with_an_array_is_said(cupy: Any) -> None:
    """Addresses between elements; on another device than the current one it runs there."""
    fused = fuser.fuse(lambda x: x + 1, fallback="error")
    x = cupy.asarray(X[0])
    fused(x)
    assert fused._latest is not None
    with cupy.cuda.Device(1):
        found = fused(x)
    assert found.device_id == 0
    np.testing.assert_array_equal(found.get(), X[0] + 1)
    raw = cupy.zeros(161, np.uint8)
    odd = cupy.ndarray((40,), np.float32, raw.data + 1)
    with pytest.raises(BackendError, match="aligned"):
        fused(odd)


def test_given_arrays_are_written_in_a_short_way(cupy: Any) -> None:
    """Apart from the arguments, as one of them, or across them: right whatever came before."""
    fused = fuser.fuse(lambda x, y: x * 2 + y, fallback="error")
    memory, y = cupy.asarray(np.arange(100, dtype=np.float32)), cupy.asarray(X[0])
    x, after, across = memory[:40], memory[40:80], memory[20:60]
    assert fused(x, y, out=after) is after
    short = fused._latest_out
    assert short is not None
    for out in (after, x, across, after, memory[60:], x, cupy.empty(40, np.float32), after[::-1]):
        wanted = x.get() * 2 + X[0]
        assert fused(x, y, out=out) is out
        np.testing.assert_array_equal(out.get(), wanted)
    before = fuser.stats()["launches"]
    fused(x, y, out=after)
    assert short.run((x, y), after) is after
    assert short.run((x, y), across) is not across
    assert short.run((x, y), x) is not x
    assert fuser.stats()["launches"] == before + 2
    with pytest.raises(fuser.ShapeError):
        fused(x, y, out=memory)
    with pytest.raises(fuser.FusionError):
        fused(x, y, out=cupy.empty(40, np.float64))


def test_an_array_that_is_argument_and_output_stays_that(cupy: Any) -> None:
    """Known in place, a call with two arrays looks again; and the other way round."""
    fused = fuser.fuse(lambda x: x * 2, fallback="error")
    x, other = cupy.asarray(X), cupy.empty_like(cupy.asarray(X))
    for out in (x, x, other, other, x, other):
        wanted = x.get() * 2
        assert fused(x, out=out) is out
        np.testing.assert_array_equal(out.get(), wanted)


class _Shared:
    """Another library's array."""

    def __init__(self, values: Any) -> None:
        self.values = values
        self.on_device: Any = None

    def __dlpack__(self, **_: Any) -> Any:
        return self.on_device

    def __dlpack_device__(self) -> tuple[int, int]:
        return 2, 0


_WEIGHTS: list[Any] = []
#: name -> (function, arguments, launches, bytecode instructions of ours in a known call at most,
#: where the dispatcher has compared the arguments, and where Python does)
COSTS: dict[str, tuple[Callable[..., Any], tuple[Any, ...], int, int, int]] = {
    "a map": (lambda x, y: x * 2 + y, (X, X), 1, 0, 260),
    "a number": (lambda x, s: x * s, (X, 2.5), 1, 0, 230),
    "an expression": (lambda x, s: x * (1 - s), (X, 0.25), 1, 220, 420),
    "two kernels": (lambda x: x.var(-1).mean(), (X,), 2, 10, 275),
    "several launches": (lambda x: np.exp(x - x.max()) / np.exp(x - x.max()).sum(),
                         (np.tile(X, (70, 1)).reshape(1, -1),), 2, 55, 330),
    "a captured array": (lambda x: x * _WEIGHTS[0], (X,), 1, 260, 350),
    "a NumPy scalar": (lambda x, s: x * s, (X, np.float32(2)), 1, 180, 305),
    "a DLPack array": (lambda x, y: x * 2 + y, (_Shared(X), X), 1, 365, 365),
}
#: What a known call asks the driver and the pool, launches aside: the device, its stream, memory.
_ASKED = {"getDevice": 1, "get_current_stream": 1, "alloc": 1, "streamIsCapturing": 0}


@pytest.mark.parametrize("native", [True, False])
@pytest.mark.parametrize("name", COSTS)
def test_what_a_known_call_costs(
    cupy: Any, name: str, native: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Launches, other calls of CuPy's, and the interpreter's instructions in code of ours.

    These are counts of any machine, those of the generated function included. At some 10 to 20 ns
    each, 250 are 3 to 5 us, of which the driver's own are 2.
    """
    function, arguments, launches, most, most_in_python = COSTS[name]
    _WEIGHTS[:] = [cupy.asarray(X[0])]
    if not native:
        monkeypatch.setattr(array_fields, "array_fields", lambda: None)
    with _counted(cupy) as asked:
        fused = fuser.fuse(function, fallback="error")
        given = [cupy.asarray(a) if isinstance(a, np.ndarray) else a for a in arguments]
        for argument in arguments:
            if isinstance(argument, _Shared):
                argument.on_device = cupy.asarray(argument.values)
        for _ in range(3):
            fused(*given)
        assert fused._latest is not None
        asked.clear()
        steps = _instructions(fused, *given)
    assert asked.pop("launchKernel") == launches
    assert all(count <= _ASKED[call] for call, count in asked.items()), asked
    assert (steps > 0) is (most > 0 or not native)
    assert steps <= (most if native else most_in_python)


def _instructions(fused: Any, *arguments: Any) -> int:
    """Of the interpreter, in code of ours, for one call."""
    steps, before = [0], sys.gettrace()

    def look(frame: Any, event: str, argument: Any) -> Any:
        file = frame.f_code.co_filename
        ours = "/fuser/" in file or "/backends/gpu/" in file
        if not (ours or file.startswith("fuser generated")) or file.startswith(TESTS):
            return None
        frame.f_trace_opcodes = True
        steps[0] += event == "opcode"
        return look

    sys.settrace(look)
    try:
        fused(*arguments)
    finally:
        sys.settrace(before)
    return steps[0]


def test_what_calls_with_lengths_in_turns_cost(cupy: Any) -> None:
    """Each has its own function, which is looked up; not the longer way, which takes 1,060."""
    fused = fuser.fuse(lambda x, y: x * 2 + y, fallback="error")
    given = [[cupy.asarray(X[:rows])] * 2 for rows in (9, 4, 7)]
    for _ in range(3):
        for arguments in given:
            fused(*arguments)
    assert all(_instructions(fused, *arguments) <= 650 for arguments in given)


@contextmanager
def _counted(cupy: Any) -> Iterator[Counter[str]]:
    """How often functions of the driver and the pool are called, by name."""
    found: Counter[str] = Counter()
    homes = {"launchKernel": cupy.cuda.driver, "getDevice": cupy.cuda.runtime,
             "streamIsCapturing": cupy.cuda.runtime, "alloc": cupy.cuda,
             "get_current_stream": cupy.cuda}  # fmt: skip

    def counting(name: str, own: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any) -> Any:
            found[name] += 1
            return own(*arguments)

        return call

    with pytest.MonkeyPatch.context() as patch:
        for name, home in homes.items():
            patch.setattr(home, name, counting(name, getattr(home, name)))
        backend._instances.pop("gpu", None)  # what it has looked up
        fuser.clear_caches()
        yield found
    backend._instances.pop("gpu", None)
    fuser.clear_caches()


def test_the_line_of_a_known_call(cupy: Any) -> None:
    """It writes addresses in place and calls the driver: no function of ours between."""
    fused = fuser.fuse(lambda x, s: np.exp(x * s).sum(), fallback="error")
    x = cupy.asarray(np.tile(X, (70, 1)))
    for _ in range(2):
        fused(x, 0.5)
    line = fused._latest._straight
    text = line.__globals__["__loader__"].get_source("")
    kept = [each.function.handle for each in line.__globals__["kept"]]
    assert kept
    assert all(f"launch({handle}, " in text for handle in kept)
    assert text.count("try: launch(") == text.count("again(launch, ")
    called = {name for name in line.__code__.co_names if name in line.__globals__}
    owners = {getattr(line.__globals__[name], "__module__", None) for name in called}
    ours = {name for name in owners if name and name.startswith(("fuser", "backends"))}
    assert ours <= {"fuser.calls.prepared", "fuser.backends.gpu.device", __name__,
                    "fuser.backends.gpu.straight_call"}  # fmt: skip
