"""Names that hardly ever change: replacing one is heard at the next call."""

import builtins
from typing import Any

import numpy as np
import pytest

import fuser
from fuser.capture.captures import ABSENT
from fuser.capture.read_names import ReadNames, Unchanged

X = np.linspace(0.1, 1, 5)


def test_names_of_a_namespace_hold_until_one_is_replaced() -> None:
    """Other names may change; one that is put back holds again."""
    space: dict[str, Any] = {"a": int, "c": 1}
    guard = Unchanged(space, [("a", int), ("b", ABSENT)])
    assert guard.holds()
    space["c"] = 2
    assert guard.holds()
    assert guard.holds()
    space["a"] = float
    assert not guard.holds()
    assert not guard.holds()
    space["a"] = int
    assert guard.holds()
    space["b"] = 1
    assert not guard.holds()


def test_a_name_that_is_not_there_is_the_built_in_one() -> None:
    """Both are guarded."""
    read, space = ReadNames(), {"np": np}
    read.note(space, "len")
    read.note(space, "np")
    found = {id(guard.space): dict(guard.names) for guard in read.guards([], [])}
    assert found[id(space)] == {"len": ABSENT, "np": np}
    assert found[id(vars(builtins))] == {"len": len}


@pytest.mark.parametrize("rank", [1, 2])
def test_calls_without_python_hear_it_too(rank: int) -> None:
    """The native entry compares one number; other names of the module may come and go."""
    space: dict[str, Any] = {"np": np}
    exec("def f(x):\n    return np.exp(x) + abs(x)\n", space)
    fused = fuser.fuse(space["f"], fallback="error")
    x = X.reshape((1,) * (rank - 1) + (5,))
    for step in range(40):
        space[f"other {step}"] = step
        np.testing.assert_allclose(fused(x), np.exp(x) + x)
    assert fused._native is not None
    space["abs"] = np.negative
    np.testing.assert_allclose(fused(x), np.exp(x) - x)
    del space["abs"]
    for _ in range(3):
        np.testing.assert_allclose(fused(x), np.exp(x) + x)
    space["f"].__code__ = (lambda x: np.exp(x) * 2).__code__
    np.testing.assert_allclose(fused(x), np.exp(x) * 2)
