"""Code that a trace cannot see through: it goes the way that it goes with arrays, or NumPy runs."""

import contextlib
import cProfile
import functools
import io
import logging
import sys
import time
import types
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import fuser
from fuser.capture.watching import _parts, may_ask
from tests.fuser.comparing import assert_same

X = np.arange(4.0)


def _module() -> Any:
    """Another module with functions that ask."""
    made = types.ModuleType("helpers")
    text = """
import numpy as np
def doubled(x): return x * 2 if type(x) is np.ndarray else x * 3
def flagged(x, flag): return x * 2 if flag is True else x * 3
def told(x):
    print('x')
    return x * 2
def all_doubled(*each): return [a * 2 if type(a) is np.ndarray else a * 3 for a in each]
"""
    exec(text, vars(made))
    return made


helpers = _module()


class Layer:
    """An object whose methods ask."""

    def __init__(self) -> None:
        """With an array and a number."""
        self.w = np.full(4, 2.0)
        self.on = True

    def __call__(self, x: Any) -> Any:
        """By the type of the argument."""
        return x * 2 if type(x) is np.ndarray else x * 3

    def own(self, x: Any) -> Any:
        """By the type of an attribute."""
        return x * self.w if type(self.w) is np.ndarray else x * 3

    def both(self, x: Any) -> Any:
        """Calls the others, by their names."""
        return self(x) + self.own(x) + (1 if self.on is True else 2)


class Half:
    """An object in slots."""

    __slots__ = ("factor",)

    def __init__(self) -> None:
        """With a number."""
        self.factor = 0.5

    def __call__(self, x: Any) -> Any:
        """In the array's dtype."""
        return x * x.dtype.type(self.factor)


HALF = Half()
LAYER = Layer()
ASKING: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {
    "called object": (lambda x: LAYER(x) + 1, (X,)),
    "method of an argument": (lambda layer, x: layer.both(x) + 1, (Layer(), X)),
    "method": (Layer().both, (X,)),
    "module": (lambda x: helpers.doubled(x) + 1, (X,)),
    "several": (lambda x: helpers.all_doubled(x, x), (X,)),
    "partial": (lambda x: functools.partial(helpers.doubled)(x) + 1, (X,)),
    "in a list": (lambda x: [helpers.doubled][0](x) + 1, (X,)),
    "in a dict": (lambda x: {"f": helpers.doubled}["f"](x) + 1, (X,)),
    "flag": (lambda x, s: helpers.flagged(x, s) + 1, (X, True)),
    "text": (lambda x: x * (2 if eval("type(x)").__name__ == "ndarray" else 3), (X,)),
}


@pytest.mark.parametrize("name", ASKING)
def test_code_behind_names_goes_the_way_that_it_goes_with_arrays(name: str) -> None:
    """Or NumPy runs it, with the reason."""
    function, args = ASKING[name]
    assert_same(function, *args, fallback="allow")


def test_the_reason_says_which_function_asks_and_where() -> None:
    """What, and the line."""
    fused = fuser.fuse(lambda x: LAYER(x) + 1, fallback="error")
    with pytest.raises(fuser.FusionError, match=r"__call__ .*test_watching.py:\d+.*types"):
        fused(X)


def test_code_that_asks_of_other_things_is_fused() -> None:
    """A type of what is no stand-in decides nothing."""
    kind = Layer()
    fused = fuser.fuse(lambda x: x * len(type(kind).__name__), fallback="error")
    assert fused(X).tolist() == (X * 5).tolist()


def test_the_type_of_an_array_s_elements_is_no_question() -> None:
    """`x.dtype.type` in a method is what it is with arrays."""
    fused = fuser.fuse(lambda x: HALF(x) + 1, fallback="error")
    assert fused(X).tolist() == (X * 0.5 + 1).tolist()


def test_a_class_is_looked_at_once_and_each_of_its_objects() -> None:
    """What one of many objects holds may ask, though its class does not."""

    class Holder:
        """Of a function."""

        def __init__(self, held: Any) -> None:
            """With it."""
            self.held = held

    class Slotted:
        """The same, in a slot."""

        __slots__ = ("held",)

        def __init__(self, held: Any) -> None:
            """With it."""
            self.held = held

    def asks(x: Any) -> Any:
        return x * 2 if type(x) is np.ndarray else x

    for kind in (Holder, Slotted):
        many = [kind(np.abs) for _ in range(20)]
        assert not may_ask(lambda x: x + 1, [many])
        assert may_ask(lambda x: x + 1, [[*many, kind(asks)]])
        classes: set[int] = set()
        held = [len(_parts(each, classes)[1]) for each in many[:3]]
        assert held[0] > held[1] == held[2]


def test_printing_behind_names_is_done_at_every_call() -> None:
    """By NumPy's calls."""
    fused = fuser.fuse(lambda x: helpers.told(x) + 1, fallback="allow")
    fused(X)
    with contextlib.redirect_stdout(io.StringIO()) as text:
        for _ in range(2):
            fused(X)
    assert text.getvalue() == "x\nx\n"


def _warning(x: Any) -> Any:
    """By its module."""
    warnings.warn("seen", stacklevel=1)
    return x * 2


def _sleeping(x: Any) -> Any:
    """For no time at all."""
    time.sleep(0)
    return x * 2


WARN = warnings.warn
WARN_SO = functools.partial(warnings.warn, "seen", stacklevel=1)
LOG = logging.getLogger("fuser.tests.watching")
OUTSIDE: dict[str, Callable[..., Any]] = {
    "warning": _warning,
    "by a name of its own": lambda x: (WARN("seen", stacklevel=1), x * 2)[1],
    "partly given": lambda x: (WARN_SO(), x * 2)[1],
    "log": lambda x: (LOG.error("seen"), x * 2)[1],
    "log by values": lambda x: (LOG.error("%d", len(x)), x * 2)[1],
    "print in a row": lambda x: np.apply_along_axis(helpers.told, 0, x) + 1,
    "print": lambda x: helpers.told(x) + 1,
}


@pytest.mark.parametrize("name", OUTSIDE)
def test_warnings_logs_and_prints_are_made_once_by_every_call(name: str) -> None:
    """Also by the first call, which is traced."""
    fused = fuser.fuse(OUTSIDE[name], fallback="allow")
    logged: list[str] = []
    handler = logging.Handler()
    handler.emit = lambda record: logged.append(record.getMessage())  # type: ignore[method-assign]
    LOG.addHandler(handler)
    try:
        for number in (1, 2, 3):
            with (
                warnings.catch_warnings(record=True) as warned,
                contextlib.redirect_stdout(io.StringIO()) as text,
            ):
                warnings.simplefilter("always")
                assert fused(X[:number]).shape == (number,)
            assert len(warned) + text.getvalue().count("x") + len(logged) == 1
            logged.clear()
    finally:
        LOG.removeHandler(handler)


def test_the_reason_says_what_has_an_effect_and_where() -> None:
    """By the name of the function."""
    for function, name in ((_warning, "warn"), (OUTSIDE["log"], "log"), (_sleeping, "sleep")):
        fused = fuser.fuse(function, fallback="error")
        with pytest.raises(fuser.FusionError, match=rf"{name}\(\) .*test_watching.*side-eff"):
            fused(X)


def test_logging_that_is_switched_off_is_fused() -> None:
    """And noticed where it is switched on."""
    fused = fuser.fuse(lambda x: (LOG.debug("seen"), x * 2)[1], fallback="error")
    assert fused(X).tolist() == (X * 2).tolist()
    LOG.setLevel(logging.DEBUG)
    try:
        with pytest.raises(fuser.FusionError, match="log"):
            fused(X)
    finally:
        LOG.setLevel(logging.NOTSET)


def test_files_are_written_once(tmp_path: Any) -> None:
    """Before a trace could."""
    path = tmp_path / "text"

    def noted(x: Any) -> Any:
        with open(path, "a") as file:
            file.write("x")
        return x * 2

    fused = fuser.fuse(noted, fallback="allow")
    fused(X)
    fused(X)
    assert path.read_text() == "xx"


IMPORTING = """
def doubled(x):
    from imported_in_a_trace import twice
    if x.ndim > 5:
        print("so the trace is watched")
    return twice(x) + 1
"""


def test_imports_may_write_what_they_compiled(
    tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Python keeps the code of a module in a file when it is imported first, traced or not."""
    (tmp_path / "imported_in_a_trace.py").write_text("def twice(x):\n    return x * 2\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(sys, "dont_write_bytecode", False)
    monkeypatch.setattr(sys, "pycache_prefix", None)

    space: dict[str, Any] = {}
    exec(IMPORTING, space)
    doubled = space["doubled"]
    fused = fuser.fuse(doubled, fallback="error")
    try:
        np.testing.assert_array_equal(fused(np.arange(3.0)), [1.0, 3.0, 5.0])
    finally:
        sys.modules.pop("imported_in_a_trace", None)
    assert list(tmp_path.glob("__pycache__/*.pyc"))


def test_profilers_go_on() -> None:
    """One in Python sees calls afterwards; one in C does, too."""
    seen: list[str] = []

    def profiler(frame: Any, event: str, arg: Any) -> None:
        """Notes names."""
        seen.append(frame.f_code.co_name)

    def after() -> None:
        """Is called afterwards."""

    before = sys.getprofile()
    sys.setprofile(profiler)
    try:
        fuser.fuse(lambda x: LAYER.own(x) + 1, fallback="allow")(X)
        after()
    finally:
        sys.setprofile(before)
    assert "after" in seen

    with cProfile.Profile() as profile:
        assert_same(lambda x: helpers.doubled(x) + 2, X, fallback="allow")
        after()
    assert any(key[2] == "after" for key in _stats(profile))


def _stats(profile: Any) -> Any:
    """What a profile has counted."""
    profile.create_stats()
    return profile.stats
