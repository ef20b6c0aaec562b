"""Whether two traces of a function agree."""

import math
import time
from typing import Any

import numpy as np
import pytest

import fuser
from fuser.base import trees
from fuser.base.errors import Unsupported
from fuser.capture import purity
from fuser.capture.purity import compare, is_evident
from fuser.capture.tracer import trace_call
from fuser.tracing.trace_result import Trace


def traced(function: Any) -> Trace:
    """One trace with a fixed argument."""
    structure, leaves = trees.flatten(((np.ones(3),), {}))
    return trace_call(function, structure, leaves)


def test_arrays_made_anew_are_constants() -> None:
    """The same values each time: a copy is kept."""
    def function(x: Any) -> Any:
        return x * np.frombuffer(bytes(24))

    found = compare(traced(function), traced(function), "f")
    assert [array.tolist() for array in found.values()] == [[0, 0, 0]]


def test_two_graphs_are_impure() -> None:
    """Other operations, or other numbers in an array."""
    with pytest.raises(Unsupported, match="impure"):
        compare(traced(lambda x: x + 1), traced(lambda x: x + 2), "f")
    tables = iter([np.zeros(3), np.ones(3)])
    first, second = (traced(lambda x: x * next(tables)) for _ in range(2))
    with pytest.raises(Unsupported, match="other values"):
        compare(first, second, "f")


STATE = {"calls": 0}
TABLE_OF_ONES = np.ones(3)
FACTOR = 2.5


def _helper(x: Any) -> Any:
    return np.tanh(x) * FACTOR


def _counting(x: Any) -> Any:
    STATE["calls"] += 1
    return x * STATE["calls"]


def _evident(x: Any, axis: int = -1) -> Any:
    total = sum(_helper(part) for part in [x, x + 1])
    return fuser.functional.softmax(total.sum(axis) / len(x.shape), axis=axis)


def test_code_of_numbers_and_numpy_needs_one_trace() -> None:
    """NumPy's functions, numbers, and functions that are like that themselves."""
    assert is_evident(_evident, [np.ones(3)])
    assert is_evident(lambda x: np.linalg.norm(x) + math.pi, [np.ones(3), 2.0])


@pytest.mark.parametrize(
    "function",
    [
        _counting,
        lambda x: x * time.time(),
        lambda x: x + np.random.rand(),  # noqa: NPY002 - people do
        lambda x: x + np.random.default_rng(0).random(3),
        lambda x: x * TABLE_OF_ONES,
        lambda x: x * id(x),
        lambda x: x * getattr(np, "ran" + "dom").rand(),
        lambda x: x * float(np.empty_like(np.ones(1))[0]),
        lambda x, seen=[]: seen.append(1) or x * len(seen),
        lambda x: next(_counting(part) for part in [x]),
        lambda x: x * fuser.stats()["launches"],
    ],
)
def test_other_code_is_traced_twice(function: Any) -> None:
    """Clocks, random numbers, counters, arrays and whatever else may change."""
    assert not is_evident(function, [np.ones(3)])
    assert not is_evident(_helper, [object()])


def test_lists_of_the_caller_s_are_no_copies() -> None:
    """Nor is one list two lists."""
    known: list[Any] = [np.ones(3)]

    def twice(x: Any) -> Any:
        made = [x + 1]
        return made, made

    def argument(x: Any, known: Any) -> Any:
        return {"a": known}, x + 1

    for function, arguments in ((lambda x: (known, x + 1), ()), (argument, (known,)), (twice, ())):
        fused = fuser.fuse(function, fallback="allow")
        for _ in range(2):
            first, second = fused(np.ones(3), *arguments)
            first = first["a"] if isinstance(first, dict) else first
            assert first is (second if function is twice else known)
        kept = [] if function is argument else ["array-conversion"]
        assert [reason.code for reason in fused.fallbacks] == kept


def _relaxed(x: Any, steps: int) -> Any:
    """A loop, a product, and an array that holds nothing at first."""
    weight = 0.5
    found = np.empty_like(x)
    for _ in range(steps):
        found[:] = x @ x
        x = sum(part * weight for part in (found, x)) + np.sqrt(x * x + 1)
    return x


def test_calls_and_loops_need_one_trace(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the code shows all that they depend on; variables of inner functions are its own."""
    traced: list[Any] = []
    original = purity.trace_call
    monkeypatch.setattr(
        purity, "trace_call", lambda *args: traced.append(args) or original(*args)
    )
    fused = fuser.fuse(_relaxed, fallback="allow")
    x = np.arange(9.0).reshape(3, 3) / 9
    np.testing.assert_allclose(fused(x, 3), _relaxed(x, 3), rtol=1e-13)
    assert len(traced) == 1


def test_a_variable_of_a_function_around_may_change() -> None:
    """It is stored there at each call."""
    seen = 0

    def counting(x: Any) -> Any:
        nonlocal seen
        seen += 1
        return x * seen

    assert not is_evident(counting, [np.ones(3)])
    fused = fuser.fuse(counting, fallback="allow")
    assert [fused(np.ones(1))[0] for _ in range(4)] == [1, 2, 3, 4]
