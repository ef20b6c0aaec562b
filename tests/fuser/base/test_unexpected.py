"""Mistakes of this package are told from what a traced function raises itself."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import FunctionType
from typing import Any

import numpy as np
import pytest

import fuser
from fuser.backends.cpu.entries import entry
from fuser.base import config
from fuser.calls.fused_function import PATIENCE
from fuser.capture import loop_passes, results
from fuser.ir import opaque_calls
from fuser.tracing import traced_array
from tests.fuser.comparing import faults
from tests.requirements import needs_native_entry

TEXT = """
import numpy as np

def looped(x):
    t = x
    for k in range(len(x)):
        t = t * 0.5 + k
    return t

def plain(x):
    return x + 1.0

def broken_off(x):
    return np.sort(x) + 1

def missing(x):
    return x.no_such_attribute

def of_number(x):
    return x + float(x.sum()).size

def caught(x):
    try:
        return x.no_such_attribute
    except AttributeError:
        return x + 1.0

def unbound(x):
    return x + no_such_name

def keyed(x):
    return x + {}["key"]
"""


@pytest.fixture
def module(tmp_path: Path) -> Any:
    """Functions whose source is at hand."""
    path = tmp_path / "functions.py"
    path.write_text(TEXT)
    names: dict[str, Any] = {"__name__": "functions"}
    exec(compile(TEXT, str(path), "exec"), names)
    return names


def _broken(*args: Any, **keywords: Any) -> Any:
    return None.no_such_attribute  # type: ignore[attr-defined]


def _of_the_package(function: Callable[..., Any]) -> Any:
    """The function as a module of the package would have it."""
    return FunctionType(function.__code__, {"__name__": "fuser.mistaken"})


#: A place, and a function whose trace or call comes by it.
PLACES = {
    "a pass over a loop": (loop_passes.Pass, "look", "looped"),
    "what a trace leaves": (results, "canonical", "plain"),
    "what NumPy is given between kernels": (opaque_calls, "filled", "broken_off"),
    "an operator of a stand-in": (traced_array.TracedArray, "__mul__", "looped"),
}


@pytest.mark.parametrize("name", PLACES)
def test_a_mistake_is_an_internal_error(
    monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest, module: Any, name: str
) -> None:
    """NumPy runs the call, and the reason says that it was a mistake of ours."""
    owner, attribute, function = PLACES[name]
    monkeypatch.setattr(owner, attribute, _of_the_package(_broken))
    before = config.change(check=False)
    request.addfinalizer(lambda: config.restore(before))
    fused, count = fuser.fuse(module[function], fallback="allow"), faults()
    x = np.arange(5.0)
    np.testing.assert_array_equal(fused(x), module[function](x))
    assert [reason.code for reason in fused.fallbacks] == ["internal-error"]
    assert faults() == count + 1


@needs_native_entry
def test_a_dispatcher_that_cannot_be_made_is_left_out(
    monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    """It only shortens calls: those go on without it, and it is not made again by each of them."""
    tries: list[int] = []

    def broken() -> Any:
        tries.append(1)
        raise RuntimeError("not understood")

    def noting(x: Any) -> Any:
        seen.append(1)
        return x + 1

    seen: list[int] = []
    monkeypatch.setattr(entry, "_Entry", broken)
    monkeypatch.setattr(entry, "_loaded", [])
    before = config.change(check=False)
    request.addfinalizer(lambda: config.restore(before))
    fused, x = fuser.fuse(noting, fallback="allow"), np.arange(5.0)
    for _ in range(2 * PATIENCE + 2):
        np.testing.assert_array_equal(fused(x), x + 1)
    assert [reason.code for reason in fused.fallbacks] == ["side-effect"]
    assert len(tries) == 1


@pytest.mark.parametrize("name", PLACES)
def test_with_checks_it_is_raised(
    monkeypatch: pytest.MonkeyPatch, module: Any, name: str
) -> None:
    """Whoever works on this package sees it."""
    owner, attribute, function = PLACES[name]
    monkeypatch.setattr(owner, attribute, _of_the_package(_broken))
    with pytest.raises(AttributeError, match="no_such_attribute"):
        fuser.fuse(module[function], fallback="allow")(np.arange(5.0))


@pytest.mark.parametrize("name", ["missing", "of_number", "caught", "unbound", "keyed"])
def test_what_a_function_raises_itself_is_its_own(module: Any, name: str) -> None:
    """It is raised, or caught, as by the plain function."""
    fused, before = fuser.fuse(module[name], fallback="allow"), faults()
    for _ in range(6):
        try:
            wanted = module[name](np.arange(5.0))
        except (AttributeError, NameError, KeyError) as error:
            with pytest.raises(type(error)):
                fused(np.arange(5.0))
        else:
            np.testing.assert_array_equal(fused(np.arange(5.0)), wanted)
    assert faults() == before
