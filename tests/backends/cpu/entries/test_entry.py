"""The native entry gives exactly what the slow path gives: results, errors, reference counts."""

import gc
import pickle
import threading
from collections.abc import Callable
from time import monotonic, sleep
from typing import Any

import numpy as np
import pytest

import fuser
from fuser.backend import CompileError
from fuser.backends.cpu.entries import entry
from tests.backends.cpu import entry_calls
from tests.settings import settings
from tests.threads import on_threads


def _line(a: Any, b: Any, c: Any) -> Any:
    return a * b + c


@pytest.fixture
def line() -> fuser.FusedFunction:
    """A fresh fused function."""
    return fuser.fuse(_line)


def _hits(function: fuser.FusedFunction, *args: Any, **kwargs: Any) -> int:
    """How many of three calls with these arguments were served natively."""
    expected = _line(*args)
    function(*args, **kwargs)
    before = function._native.hits if function._native else 0
    for _ in range(3):
        result = function(*args, **kwargs)
        assert type(result) is type(expected)
        assert np.array_equal(result, expected, equal_nan=True)
        assert result.dtype == expected.dtype
    return (function._native.hits if function._native else 0) - before


VECTOR = np.linspace(-2, 2, 37, dtype=np.float32)
TABLE = np.linspace(-2, 2, 35, dtype=np.float64).reshape(5, 7)
NATIVE = {
    "one element": (VECTOR[:1], VECTOR[1:2], VECTOR[2:3]),
    "vectors": (VECTOR, VECTOR, VECTOR),
    "matrices": (TABLE, TABLE, TABLE),
    "scalar": (VECTOR, 2.5, VECTOR),
    "scalars": (TABLE, 2.5, -0.0),
    "strided": (VECTOR[::2], VECTOR[::2], VECTOR[::-2]),
    "integers": (np.arange(9), np.arange(9), np.arange(9)),
    "mixed": (VECTOR, VECTOR.astype(np.float64), VECTOR),
    "read-only": (np.frombuffer(VECTOR.tobytes(), np.float32), VECTOR, VECTOR),
    "misaligned": (
        np.frombuffer(b"\0" + VECTOR.tobytes(), np.uint8)[1:].view(np.float32), VECTOR, VECTOR,
    ),
    "integer scalar": (VECTOR, 2, VECTOR),
    "truth": (VECTOR, True, VECTOR),
    "complex number": (VECTOR, 2j, VECTOR),
    "integers and an integer": (np.arange(9, dtype=np.int8), 3, np.arange(9, dtype=np.int8)),
    "broadcast": (TABLE, TABLE[0], TABLE),
    "broadcast columns": (TABLE, TABLE[:, :1].copy(), TABLE),
    "outer": (TABLE[:, :1].copy(), TABLE[:1], TABLE[0]),
    "NumPy scalars": (TABLE, np.float64(3), np.float32(4)),
    "NumPy scalars only": (np.float64(2), np.float64(3), np.int16(4)),
    "0-d": (np.array(2.0), TABLE, np.array(4.0)),
    "0-d only": (np.array(2.0), np.array(3.0), np.array(4.0)),
    "unpickled": tuple(pickle.loads(pickle.dumps((VECTOR, VECTOR, VECTOR)))),
}  # fmt: skip
EXACT = {
    "transposed": (TABLE.T, TABLE.T, TABLE.T),
    "columns": (TABLE[:, 1:4], TABLE[:, :3], TABLE[:, ::2][:, :3]),
    "reversed": (TABLE[::-1], TABLE[:, ::-1], TABLE),
    "empty": (VECTOR[:0], VECTOR[:0], VECTOR[:0]),
    "repeated": (np.broadcast_to(VECTOR[:1], 37), VECTOR, VECTOR),
}
PYTHON = {
    "byte order": (VECTOR.astype(">f4"), VECTOR, VECTOR),
}


@pytest.mark.parametrize("args", NATIVE.values(), ids=NATIVE.keys())
def test_short_calls_are_served_natively(line: fuser.FusedFunction, args: Any) -> None:
    """Contiguous arrays of one shape, strided vectors, Python floats."""
    assert _hits(line, *args) == 3


@pytest.mark.parametrize("args", EXACT.values(), ids=EXACT.keys())
def test_other_layouts_are_served_with_their_own_lengths(
    line: fuser.FusedFunction, args: Any
) -> None:
    """Memory order and strides too are NumPy's."""
    assert _hits(line, *args) == 3
    assert line(*args).strides == _line(*args).strides


@pytest.mark.filterwarnings("ignore::fuser.FallbackWarning")
@pytest.mark.parametrize("args", PYTHON.values(), ids=PYTHON.keys())
def test_other_calls_go_to_the_plain_function(line: fuser.FusedFunction, args: Any) -> None:
    """Kernels keep what is theirs."""
    line(VECTOR, VECTOR, VECTOR)
    for _ in range(8):
        assert np.array_equal(line(*args), _line(*args))
    before = fuser.stats()["fallbacks"]
    assert _hits(line, VECTOR, VECTOR, VECTOR) == 3
    assert fuser.stats()["fallbacks"] == before


def test_many_signatures_live_side_by_side(line: fuser.FusedFunction) -> None:
    """Dtypes and ranks of one function do not drive each other out."""
    for args in NATIVE.values():
        line(*args)
    for args in NATIVE.values():
        assert _hits(line, *args) == 3


def test_out_is_written_and_returned(line: fuser.FusedFunction) -> None:
    """Fresh, and exactly one of the inputs; a shifted overlap goes to Python and is right."""
    out = np.empty_like(VECTOR)
    assert line(VECTOR, VECTOR, VECTOR, out=out) is out
    line(VECTOR, VECTOR, VECTOR)
    before = line._native.hits
    assert line(VECTOR, VECTOR, VECTOR, out=out) is out
    assert line._native.hits == before + 1
    assert np.array_equal(out, _line(VECTOR, VECTOR, VECTOR))
    same = VECTOR.copy()
    line(same, same, same, out=same)
    assert np.array_equal(same, _line(VECTOR, VECTOR, VECTOR))
    memory = np.arange(50.0)
    expected = _line(memory[:-1], memory[:-1], memory[:-1])
    line(memory[:-1], memory[:-1], memory[:-1], out=memory[1:])
    assert np.array_equal(memory[1:], expected)


@pytest.mark.parametrize(
    ("call", "error"),
    [
        (lambda f, x: f(x, x), TypeError),
        (lambda f, x: f(x, x, x, 1), TypeError),
        (lambda f, x: f(x, x, x[:-1]), ValueError),
        (lambda f, x: f(x, x, x, wrong=1), TypeError),
        (lambda f, x: f(x, x, x, out=np.empty(3, np.float32)), ValueError),
        (lambda f, x: f(x, x, x, out=np.frombuffer(x.tobytes(), np.float32)), ValueError),
    ],
)
def test_errors_are_those_of_the_slow_path(
    line: fuser.FusedFunction, call: Callable[..., Any], error: type[Exception]
) -> None:
    """And the function works afterwards."""
    line(VECTOR, VECTOR, VECTOR)
    with pytest.raises(error):
        call(line, VECTOR)
    assert _hits(line, VECTOR, VECTOR, VECTOR) == 3


@pytest.mark.parametrize("name", entry_calls.SERVED)
def test_calls_of_every_kind_leave_nothing_behind(name: str) -> None:
    """Native ones: `python -m tests.backends.cpu.entry_calls` makes a million of each."""
    call, count = entry_calls.SERVED[name], 20 if name == "threads" else 2000
    for _ in range(3):
        call()
    before = entry_calls.native_hits()
    assert not entry_calls.leaks(entry_calls.changes(call, count), count)
    assert entry_calls.native_hits() - before >= count


@pytest.mark.filterwarnings("ignore::fuser.FallbackWarning")
@pytest.mark.parametrize("name", entry_calls.REFUSED)
def test_errors_leave_nothing_behind(name: str) -> None:
    """The exceptions of the slow path come through."""
    assert not entry_calls.leaks(entry_calls.changes(entry_calls.REFUSED[name], 20), 20)


def test_settings_send_calls_back_to_python_once(line: fuser.FusedFunction) -> None:
    """Switching fusing off is obeyed at once; switched on again, calls are native again."""
    _hits(line, VECTOR, VECTOR, VECTOR)
    fuser.override_can_fuse_on_cpu(False)
    try:
        before = fuser.stats().get("fallback.switched-off", 0)
        with pytest.warns(fuser.FallbackWarning):
            line(VECTOR, VECTOR, VECTOR)
        assert fuser.stats()["fallback.switched-off"] == before + 1
    finally:
        fuser.override_can_fuse_on_cpu(True)
    assert _hits(line, VECTOR, VECTOR, VECTOR) == 3
    with fuser.profile() as timeline:
        line(VECTOR, VECTOR, VECTOR)
    assert timeline.phases
    fuser.clear_caches()
    assert _hits(line, VECTOR, VECTOR, VECTOR) == 3


def test_a_function_that_dies_takes_its_tables_along() -> None:
    """No cycle through native memory keeps it alive."""
    import weakref

    function = fuser.fuse(lambda a, b: a - b)
    function(VECTOR, VECTOR)
    function(VECTOR, VECTOR)
    gone = weakref.ref(function)
    del function
    gc.collect()
    assert gone() is None


def test_calls_that_always_have_out_are_served_natively_too() -> None:
    """The first one makes the entry, with one kernel."""
    function = fuser.fuse(lambda a, b: a * 7.25 + b - 0.375)  # a graph of this test's own
    out = np.empty_like(VECTOR)
    kernels = fuser.n_compiled_kernels()
    for _ in range(3):
        assert function(VECTOR, VECTOR, out=out) is out
    assert function._native.hits == 2
    assert fuser.n_compiled_kernels() - kernels == 1
    assert np.array_equal(out, function.__wrapped__(VECTOR, VECTOR))


def test_the_dispatcher_is_loaded_for_the_second_call(monkeypatch: pytest.MonkeyPatch) -> None:
    """A process that calls everything once does not pay for it."""
    monkeypatch.setattr(entry, "_loaded", [])
    function = fuser.fuse(lambda a, b: a * 8.25 + b)
    function(VECTOR, VECTOR)
    assert not entry._loaded
    function(VECTOR, VECTOR)
    assert entry._loaded
    function(VECTOR, VECTOR)
    assert function._native.hits == 1


def test_changed_names_are_noticed() -> None:
    """Globals, closures, defaults and attributes; an equal object is no change of meaning."""
    scope: dict[str, Any] = {"scale": 2.0}
    exec("def scaled(x, by=3.0): return x * scale * by", scope)
    function = fuser.fuse(scope["scaled"])
    for scale in (2.0, 5.0, 5, -1.5, float("1e0")):
        scope["scale"] = scale
        for _ in range(3):
            assert np.array_equal(function(VECTOR), VECTOR * scale * 3.0)
    assert function._native.hits
    scope["scaled"].__defaults__ = (4.0,)
    for _ in range(3):
        assert np.array_equal(function(VECTOR), VECTOR * scope["scale"] * 4.0)
    shift = 1.0

    def shifted(x: Any) -> Any:
        return x + shift

    closed = fuser.fuse(shifted)
    for shift in (1.0, 2.0, 3.0):
        for _ in range(3):
            assert np.array_equal(closed(VECTOR), VECTOR + np.float32(shift))
    assert closed._native.hits >= 3


def test_long_work_runs_without_the_gil() -> None:
    """Another thread sees the call under way."""
    x = np.linspace(-1, 1, 500_000)
    function = fuser.fuse(lambda x: np.sin(x) * np.exp(x) + np.cos(x))
    expected = function.__wrapped__(x)
    for _ in range(3):
        function(x)
    stop = threading.Event()

    def work() -> None:
        while not stop.is_set():
            function(x)

    thread = threading.Thread(target=work)
    thread.start()
    try:
        end = monotonic() + 20
        while not (seen := function._native._word("running")) and monotonic() < end:
            sleep(0)
    finally:
        stop.set()
        thread.join()
    assert seen == 1
    assert np.allclose(function(x), expected, rtol=1e-14)
    assert function._native._word("running") == 0


def test_many_threads_call_at_once() -> None:
    """Short and long calls of one function in eight threads give one thread's results."""
    function = fuser.fuse(lambda a, b: np.sqrt(np.abs(a)) * b + 1)
    arrays = [np.random.default_rng(n).normal(size=n) for n in (1, 37, 1000, 300_000)]
    expected = [function.__wrapped__(x, x) for x in arrays]
    wrong: list[int] = []

    def work(_: int) -> None:
        for _ in range(10):
            for k, x in enumerate(arrays):
                if not np.array_equal(function(x, x), expected[k]):
                    wrong.append(k)

    on_threads(work, 8)
    assert not wrong


def test_more_ways_than_there_is_room_for(
    line: fuser.FusedFunction, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Tables are made anew; results stay right."""
    monkeypatch.setattr(entry, "TABLE_LIMIT", 4)
    for _ in range(2):
        for n in range(1, 8):
            x = np.arange(2.0 * n).reshape(2, n).T
            for _ in range(3):
                assert np.array_equal(line(x, x, x), _line(x, x, x))
    assert line._native.count <= 4


@pytest.mark.parametrize("code", ["compile-failed", "backend-unavailable"])
def test_a_dispatcher_that_llvm_refuses_is_an_error_of_ours(
    monkeypatch: pytest.MonkeyPatch, code: str
) -> None:
    """With FUSER_CHECK=1 its text must compile; a system that refuses memory is none of ours."""

    def refuse() -> None:
        raise CompileError(code, "so")

    monkeypatch.setattr(entry, "_loaded", [])
    monkeypatch.setattr(entry, "_Entry", refuse)
    with settings(check=True):
        if code == "compile-failed":
            with pytest.raises(AssertionError, match="so"):
                entry.load()
        else:
            assert entry.load() is None
