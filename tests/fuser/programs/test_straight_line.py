"""Programs as one Python function: what it calls, what it compares, when it gives up."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import fuser
from fuser.backend import MISSED
from fuser.base import config
from fuser.calls import native_call
from fuser.calls.program_fast_path import ReadyProgram
from tests.requirements import needs_native_entry

X = np.random.default_rng(5).standard_normal((5, 4))


def ready_of(function: Any, *args: Any) -> tuple[Any, ReadyProgram]:
    """A fused function that has been called twice, and its short way."""
    fused = fuser.fuse(function, fallback="allow")
    for _ in range(2):
        fused(*args)
    (ready,) = fused._ready.values()
    assert isinstance(ready, ReadyProgram)
    return fused, ready


CALLS: dict[str, tuple[Any, tuple[Any, ...]]] = {
    "method": (lambda x: (x * 2).cumsum(axis=1) + 1, (X,)),
    "index": (lambda x, k: (x + 1)[k] * 2, (X, np.array([3, 0, 0]))),
    "index of several": (lambda x, k: (x + 1)[:, k] * 2, (X, np.array([3, 0, 0]))),
    "view of an operand": (lambda x: np.sort(x.T[1:]) * 2, (X,)),
    "reshaped": (lambda x: np.sort((x + 1).reshape(-1)) * 2, (X,)),
    "broadcast": (lambda x: np.sort(np.broadcast_to(x[0], x.shape), axis=0) * 2, (X,)),
    "lengths": (lambda x: np.partition(x * 2, x.shape[0] // 2, axis=0) + x.shape[1], (X,)),
    "scalar in a call": (lambda x, k: np.quantile(x * 2, k) + x, (X, 0.25)),
    "list": (lambda x: np.lib.stride_tricks.sliding_window_view(x * 2, [2, 2]).sum() + x, (X,)),
    "two results": (lambda x: np.linalg.qr(x * 2)[0] + np.linalg.qr(x * 2)[1].sum(), (X,)),
    "number": (lambda x: np.linalg.det(x.T @ x + 1) * x, (X,)),
}


@pytest.mark.parametrize("name", CALLS)
def test_a_step_calls_what_was_written(name: str) -> None:
    """With the same arguments, and others of the same kind."""
    function, args = CALLS[name]
    fused = fuser.fuse(function, fallback="allow")
    for turn in range(4):
        new = [a + turn / 4 if getattr(a, "dtype", None) == np.float64 else a for a in args]
        np.testing.assert_allclose(fused(*new), function(*new), rtol=1e-9)


@needs_native_entry
def test_arguments_are_compared_natively() -> None:
    """Other types, dtypes, shapes, strides and numbers of arguments are looked at by Python."""
    fused, _ = ready_of(lambda x, k: np.sort(x * k) + k, X, 2.0)
    hits = fused._native.hits
    np.testing.assert_array_equal(fused(X, 3.0), np.sort(X * 3) + 3)
    assert fused._native.hits == hits + 1
    others: list[tuple[Any, ...]] = [
        (X, 3), (X, np.float64(3)), (X.astype(np.float32), 3.0), (X[:3], 3.0), (X[:, ::2], 3.0),
        (np.asfortranarray(X), 3.0),
    ]  # fmt: skip
    for args in others:
        np.testing.assert_array_equal(fused(*args), np.sort(args[0] * args[1]) + args[1])
    for wrong in ((X,), (X, 3.0, 3.0)):
        with pytest.raises(TypeError):
            fused(*wrong)
    assert fused._native.hits == hits + 1


def test_keywords_containers_and_numpys_scalars_are_served() -> None:
    """Whatever way the arguments are given, once such a call has come twice."""

    def function(pair: Any, *, scale: Any, shift: Any = 0.0) -> Any:
        return {"a": np.sort(pair[0] * scale) + shift, "b": (pair[1] + 1,)}

    fused = fuser.fuse(function, fallback="allow")
    for turn in range(5):
        scale = np.float64(turn + 0.5)
        found = fused([X + turn, X], scale=scale)
        np.testing.assert_array_equal(found["a"], np.sort((X + turn) * scale))
        np.testing.assert_array_equal(found["b"][0], X + 1)
    if native_call.supported():
        assert fused._native.hits >= 2


def test_the_last_stage_writes_into_arguments_itself() -> None:
    """Whole ones and parts; where they share memory, results are NumPy's."""

    def function(x: Any, y: Any, m: Any) -> None:
        x += m @ y
        m[1:-1, :2] *= 2
        y[::2] = np.sort(y)[::2] - 1

    fused = fuser.fuse(function, fallback="allow")
    for turn in range(6):
        base = np.random.default_rng(turn).standard_normal(40)
        both = []
        for call in (function, fused):
            memory = base.copy()
            x, m = memory[:4], memory[8:24].reshape(4, 4)
            y = memory[2:6] if turn == 4 else memory[24:28]
            call(x, y, m)
            both.append(memory)
        np.testing.assert_allclose(both[1], both[0], rtol=1e-14)


TABLE = np.arange(4.0)


def test_arrays_of_the_functions_surroundings_are_read_anew() -> None:
    """Their values may change, and their layout in place; what is made inside stays."""
    global TABLE

    def function(x: Any) -> Any:
        return np.sort(x * TABLE) @ np.eye(4) + TABLE

    fused, ready = ready_of(function, X)
    TABLE[1] = 7.0
    np.testing.assert_allclose(ready.run((X,)), function(X))
    np.testing.assert_allclose(fused(X), function(X))
    TABLE = np.arange(8.0)[::2]
    assert not ready.holds()
    np.testing.assert_allclose(fused(X), function(X))


def test_lengths_that_only_a_function_tells_are_compared() -> None:
    """A division by a length that a result has."""

    def function(x: Any) -> Any:
        found = np.unique(x) * 2.0
        return found / found.shape[0] if found.shape[0] > 2 else found

    fused = fuser.fuse(function, fallback="allow")
    for values in ([1, 2, 3, 4], [1, 1, 2, 2], [1, 1, 2, 3], [4, 3, 2, 1]):
        x = np.array(values, np.float64)
        np.testing.assert_allclose(fused(x), function(x))


def test_settings_end_it() -> None:
    """A setting changes what runs: the function is looked at again."""
    fused, ready = ready_of(lambda x: np.sort(x * 2) + 1, X)
    config.bump_mode()
    assert not ready.holds()
    np.testing.assert_array_equal(fused(X), np.sort(X * 2) + 1)


def test_results_of_another_length_are_taken() -> None:
    """Kernels know no lengths; a function that raises for them ends it."""
    fused, ready = ready_of(lambda x: np.unique(x) * 2.5, np.arange(4.0))
    np.testing.assert_array_equal(ready.run((np.zeros(4),)), [0.0])
    np.testing.assert_array_equal(fused(np.zeros(4)), [0.0])


def test_errors_are_numpys() -> None:
    """A function that raises in a later call raises to the caller."""
    fused, ready = ready_of(lambda x: np.linalg.inv(x * 2) + 1, np.eye(3))
    assert ready.run((np.zeros((3, 3)),)) is MISSED
    with pytest.raises(np.linalg.LinAlgError):
        fused(np.zeros((3, 3)))


def test_values_die_when_nothing_needs_them() -> None:
    """What a step gave is not kept to the end of the call."""
    _, ready = ready_of(lambda x: np.sort(np.sort(x * 2) + 1) * 3, X)
    code = ready.line.__code__  # type: ignore[attr-defined] # a plain function
    import dis

    gone = [i.argval for i in dis.get_instructions(code) if i.opname == "DELETE_FAST"]
    assert len([name for name in gone if name.startswith("v")]) >= 3


def test_what_a_function_gives_that_it_was_given_stays_as_it_is() -> None:
    """Nothing of the caller's is written."""

    def function(x: Any, k: Any) -> Any:
        return np.linalg.matrix_power(x, k) * 2 - x[0]

    x = np.random.default_rng(2).standard_normal((70, 70)) / 9
    kept = x.copy()
    fused = fuser.fuse(function, fallback="allow")
    for k in (2, 2, 2, 2, 1, 1, 2, 0, 1, 2):
        np.testing.assert_allclose(fused(x, k), function(x, k), rtol=1e-9, atol=1e-12)
        np.testing.assert_array_equal(x, kept)
