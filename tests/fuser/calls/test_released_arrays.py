"""Arrays of a call die with their last name, and not when Python's collector runs."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import numpy as np
import pytest

import fuser
from fuser.base.errors import FusionError

HELD = np.zeros(3)


def _element_loop(x: Any) -> Any:
    for k in range(len(x) - 1):
        x[k + 1] = x[k] + 1
    return x * 2


def _array_loop(x: Any) -> Any:
    u = x.copy()
    for _ in range(5):
        u[1:-1] = u[2:] - u[:-2]
    return u


def _decision(x: Any) -> Any:
    return np.exp(x) if x.sum() > 0 else x - 1


def _while(x: Any) -> Any:
    x = x * 40
    while x.max() > 1:
        x = x / 2
    return x


def _write(x: Any) -> Any:
    x += 1
    return np.exp(x)


def _raises(x: Any) -> Any:
    y = x + 1
    raise KeyError(y.size)


def _misfit(x: Any) -> Any:
    return x + np.ones(7)


def _host(x: Any) -> Any:
    return np.linalg.norm(np.sort(x)) + x


def _text(x: Any) -> Any:
    return x + len(str(x))


def _list(x: Any) -> Any:
    return x.tolist()


def _finally(x: Any) -> Any:
    try:
        return np.concatenate([x, [1, 2, 3]])
    finally:
        x[0] = 1


def _catches(x: Any) -> Any:
    try:
        return x + np.ones(7)
    except ValueError:
        return x * 2


def _side_effect(x: Any) -> Any:
    HELD.flags.writeable = not HELD.flags.writeable
    return x * 2


def _sorted_twice(x: Any) -> Any:
    y = np.sort(x) * 2
    return np.cumsum(np.sort(y)) + y, y.sum()


def _nested(pair: Any) -> Any:
    return {"sum": pair[0] + pair[1]["x"]}


FUNCTIONS = [
    np.negative, _element_loop, _array_loop, _decision, _while, _write, _raises, _misfit, _host,
    _text, _list, _finally, _catches, _side_effect, _sorted_twice,
]  # fmt: skip


def _new() -> Any:
    """An array of an argument."""
    return np.linspace(0.1, 1, 1000)


def _alive_after_call(fused: Any, nested: bool = False) -> int:
    """How many arrays of a call, results too, are there when no name is left."""
    given = [_new(), _new()] if nested else [_new()]
    seen = [weakref.ref(array) for array in given]
    try:
        result = fused((given[0], {"x": given[1]})) if nested else fused(given[0])
    except (KeyError, ValueError, FusionError):
        result = None
    parts = result if isinstance(result, tuple) else (result,)
    parts = tuple(result.values()) if isinstance(result, dict) else parts
    seen += [weakref.ref(part) for part in parts if isinstance(part, np.ndarray)]
    del given, result, parts
    return sum(each() is not None for each in seen)


@pytest.fixture
def at_rest() -> Iterator[None]:
    """Python's collector of circles is at rest."""
    gc.collect()
    gc.disable()
    yield
    gc.enable()


@pytest.mark.usefixtures("at_rest")
@pytest.mark.parametrize("policy", ["allow", "error"])
@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda function: function.__name__)
def test_arrays_die_with_their_last_name(function: Any, policy: str) -> None:
    """After first calls, later ones, and those after `clear_caches`."""
    fused = fuser.fuse(function, fallback=policy)
    for call in range(6):
        if call == 4:
            fuser.clear_caches()
        assert _alive_after_call(fused) == 0, call


@pytest.mark.usefixtures("at_rest")
def test_arrays_in_containers_die_too() -> None:
    """Those that lists, tuples and dicts of arguments hold."""
    fused = fuser.fuse(_nested, fallback="error")
    assert [_alive_after_call(fused, nested=True) for _ in range(4)] == [0, 0, 0, 0]


@pytest.mark.usefixtures("at_rest")
@pytest.mark.parametrize("function", [_decision, _sorted_twice, _text, _raises])
@pytest.mark.parametrize("way", ["explain", "source", "warmup"])
def test_looking_inside_keeps_no_arrays(function: Any, way: str) -> None:
    """What looks at a call without running it."""
    fused = fuser.fuse(function, fallback="allow")
    x = _new()
    seen = weakref.ref(x)
    with suppress(FusionError, KeyError):
        getattr(fused, way)(x)
    del x
    assert seen() is None


def test_an_error_that_somebody_handles_keeps_its_frames() -> None:
    """A call in an `except` block: what is handled there is left as it is."""
    fused = fuser.fuse(_text, fallback="allow")
    try:
        raise LookupError
    except LookupError as error:
        fused(np.ones(3))
        kept = error.__traceback__
    assert kept is not None
