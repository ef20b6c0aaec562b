"""The native entry gives exactly what the slow path gives: results, errors, reference counts."""

import gc
import pickle
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import fuser
from fuser import fused_function

pytestmark = pytest.mark.skipif(
    not fused_function._NATIVE, reason="this interpreter has no native entry"
)


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
    "unpickled": tuple(pickle.loads(pickle.dumps((VECTOR, VECTOR, VECTOR)))),
}  # fmt: skip
PYTHON = {
    "broadcast": (TABLE, TABLE[0], TABLE),
    "transposed": (TABLE.T, TABLE.T, TABLE.T),
    "0-d": (np.float64(2), np.float64(3), np.float64(4)),
    "empty": (VECTOR[:0], VECTOR[:0], VECTOR[:0]),
    "byte order": (VECTOR.astype(">f4"), VECTOR, VECTOR),
    "integer scalar": (VECTOR, 2, VECTOR),
}


@pytest.mark.parametrize("args", NATIVE.values(), ids=NATIVE.keys())
def test_short_calls_are_served_natively(line: fuser.FusedFunction, args: Any) -> None:
    """Contiguous arrays of one shape, strided vectors, Python floats."""
    assert _hits(line, *args) == 3


@pytest.mark.filterwarnings("ignore::fuser.FallbackWarning")
@pytest.mark.parametrize("args", PYTHON.values(), ids=PYTHON.keys())
def test_other_calls_go_to_python(line: fuser.FusedFunction, args: Any) -> None:
    """They get the same results there."""
    line(VECTOR, VECTOR, VECTOR)
    assert _hits(line, *args) == 0


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


def test_reference_counts_stay_flat(line: fuser.FusedFunction) -> None:
    """Of arguments, outputs, dtypes and the function, over a hundred thousand calls."""
    out = np.empty_like(VECTOR)
    for _ in range(3):  # tables are made now
        line(VECTOR, VECTOR, VECTOR)
        line(VECTOR, 2.5, VECTOR)
        line(VECTOR, VECTOR, VECTOR, out=out)
    watched = (VECTOR, VECTOR.dtype, out, line, np.ndarray, "out")
    before = [sys.getrefcount(thing) for thing in watched]
    for _ in range(30_000):
        line(VECTOR, VECTOR, VECTOR)
        line(VECTOR, 2.5, VECTOR)
        line(VECTOR, VECTOR, VECTOR, out=out)
    after = [sys.getrefcount(thing) for thing in watched]
    assert max(abs(a - b) for a, b in zip(after, before, strict=True)) <= 2


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
