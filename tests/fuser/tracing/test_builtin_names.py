"""What a traced function is told of its arguments by Python's own functions."""

import builtins
import collections.abc
import contextlib
import copy
import functools
import io
import math
import numbers
import pickle
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import fuser
from tests.fuser.comparing import assert_same

X = np.arange(4.0)



@functools.lru_cache
def _remembers(number: Any) -> Any:
    """Keeps its results."""
    return type(number) is int


def _has_flag(x: Any, flag: bool) -> Any:
    """Compares with True itself."""
    return x if flag is True else x * 5


def _class_of_classes(x: Any) -> Any:
    """Derives a class from `type`."""

    class Kind(type):
        """Another."""

    return x * (2 if issubclass(Kind, type) and isinstance(Kind("A", (), {}), type) else 3)


def _matched(x: Any, s: Any) -> Any:
    """Decides by a pattern."""
    match s:
        case bool():
            return x * 2
        case int():
            return x * 3
        case float():
            return x * 4
    return x * 5


FUSED: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {
    "type is": (lambda x: x * (2 if type(x) is np.ndarray else 3), (X,)),
    "type ==": (lambda x: x * (2 if type(x) == np.ndarray else 3), (X,)),  # noqa: E721
    "type in": (lambda x: x * (2 if type(x) in (np.ndarray, list) else 3), (X,)),
    "type as key": (lambda x: x * {np.ndarray: 2}.get(type(x), 3), (X,)),
    "type's name": (lambda x: x * len(type(x).__name__), (X,)),
    "type of int": (lambda x, s: x * (2 if type(s) is int else 3), (X, 4)),
    "type of bool": (lambda x, s: x * (2 if type(s) is int else 3), (X, True)),
    "type of length": (lambda x: x * (2 if type(x.shape[0]) is int else 3), (X,)),
    "type of total": (lambda x: x * (2 if type(x.sum()) is np.float64 else 3), (X,)),
    "type of scalar": (lambda x: x * (2 if type(x) is np.float32 else 3), (np.float32(2),)),
    "types": (lambda x, s: x * (2 if [*map(type, (x, s))] == [np.ndarray, int] else 3), (X, 4)),
    "a class's type": (lambda x: x * (2 if type(np.float32) is type else 3), (X,)),
    "builtins.type": (lambda x: x * (2 if builtins.type(x) is np.ndarray else 3), (X,)),
    "type in a list": (lambda v: [a * (2 if type(a) is np.ndarray else 3) for a in v], ([X, X],)),
    "class": (lambda x: x * (2 if x.__class__ is np.ndarray else 3), (X,)),
    "isinstance": (lambda x: x * (2 if isinstance(x, np.ndarray) else 3), (X,)),
    "isinstance of total": (lambda x: x * (2 if isinstance(x.sum(), float) else 3), (X,)),
    "integral": (lambda x, s: x * (2 if isinstance(s, numbers.Integral) else 3), (X, 4)),
    "iterable": (lambda x: x * (2 if isinstance(x, collections.abc.Iterable) else 3), (X,)),
    "iterable total": (
        lambda x: x * (2 if isinstance(x.sum(), collections.abc.Iterable) else 3), (X,)
    ),
    "sized total": (lambda x: x * (2 if isinstance(x.sum(), collections.abc.Sized) else 3), (X,)),
    "iterated total": (lambda x: x * (2 if np.iterable(x.sum()) else 3), (X,)),
    "total's length": (lambda x: x * (2 if hasattr(x.sum(), "__len__") else 3), (X,)),
    "array interface": (lambda x: x * (2 if hasattr(x, "__array_interface__") else 3), (X,)),
    "array of a float": (lambda x, s: x * (2 if hasattr(s, "__array__") else 3), (X, 0.5)),
    "index of a float": (lambda x, s: x * (2 if hasattr(s, "__index__") else 3), (X, 0.5)),
    "dims": (lambda x: x * (2 if hasattr(x, "dims") else 3), (X,)),
    "node": (lambda x: x * getattr(x, "node", 3), (X,)),
    "hint": (lambda x, s: x * getattr(s, "hint", 3), (X, 4)),
    "is True": (lambda x, s: x * (2 if s is True else 3), (X, True)),
    "is False": (lambda x, s: x * (2 if s is False else 3), (X, True)),
    "comparison is True": (lambda x, s: x * (2 if (s > 2) is True else 3), (X, 4)),
    "helper is True": (lambda x, s: _has_flag(x, s) + 1, (X, True)),
    "remembering": (lambda x, s: x * (2 if _remembers(s) else 3), (X, 4)),
    "floor": (lambda x, s: x + (math.floor(s) - 2**53), (X, 2**53 + 1)),
    "ceil": (lambda x, s: x + (math.ceil(s) - 2**53), (X, 2**53 + 1)),
    "text of a number": (lambda x, s: x * len(f"{s!r} {s}"), (X, 0.125)),
    "matched": (_matched, (X, 4)),
    "copied": (lambda x: copy.deepcopy(x) + copy.copy(x), (X,)),
    "copied number": (lambda x, s: x + copy.deepcopy(s), (X, 4)),
    "pickled number": (lambda x, s: x + pickle.loads(pickle.dumps(s)), (X, 4)),
    "a class of classes": (_class_of_classes, (X,)),
    "returned": (lambda x: (x * 2, type(x), type), (X,)),
}  # fmt: skip


@pytest.mark.parametrize("name", FUSED)
def test_functions_that_ask_go_the_way_that_they_go_with_arrays(name: str) -> None:
    """In fused calls, which decide by classes, attributes and truth as NumPy's do."""
    function, args = FUSED[name]
    allowed = "allow" if name in ("returned", "a class of classes") else "error"
    assert_same(function, *args, fallback=allowed)


REFUSED: dict[str, Callable[[Any], Any]] = {
    "repr": lambda x: x * len(repr(x)),
    "str": lambda x: x * len(str(x)),
    "format": lambda x: x * len(f"{x}"),
    "size of": lambda x: x * sys.getsizeof(x),
    "id": lambda x: x * (2 if id(x) == id(np) else 3),
    "interface": lambda x: x * len(x.__array_interface__),
    "pickle": lambda x: x * len(pickle.dumps(x)),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_only_arrays_can_tell_runs_in_numpy(name: str) -> None:
    """With the reason."""
    fused = fuser.fuse(REFUSED[name], fallback="allow")
    assert_same(fused, X)
    assert [reason.code for reason in fused.fallbacks]


def test_truth_itself_is_one_kernel_for_each_value() -> None:
    """Later calls with another flag go the other way."""
    fused = fuser.fuse(_has_flag, fallback="error")
    for flag in (True, False, True, False):
        assert fused(X, flag).tolist() == _has_flag(X, flag).tolist()


def test_what_prints_prints_at_every_call() -> None:
    """Once a call, and what NumPy would print."""

    def told(x: Any) -> Any:
        """Prints."""
        print("a", x.shape)
        return x * 2

    fused = fuser.fuse(told, fallback="allow")
    with contextlib.redirect_stdout(io.StringIO()) as text:
        for _ in range(3):
            fused(X)
    assert text.getvalue() == "a (4,)\n" * 3
    assert [reason.code for reason in fused.fallbacks] == ["side-effect"]


def test_functions_that_remember_do_not_remember_stand_ins() -> None:
    """What is kept is kept of numbers."""
    seen: list[Any] = []

    @functools.lru_cache
    def kept(number: Any) -> Any:
        """Keeps what it is given."""
        seen.append(number)
        return number

    fuser.fuse(lambda x, s: x * kept(s), fallback="allow")(X, 3)
    assert all(type(number) is int for number in seen)
