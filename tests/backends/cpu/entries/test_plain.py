"""Calls that are the plain function's: after a few, no Python looks at them any more."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import fuser
from fuser.backends.cpu.entries import entry

X = np.array([1.5, -2.0, 3.0])
CALLS = 12


def _largest(x: Any) -> Any:
    """A value decides."""
    return x + 1 if x.max() > 0 else x


def _of_list(arrays: list[Any]) -> Any:
    """The same of a list's first array."""
    return _largest(arrays[0]) * len(arrays)


def _served(function: Any) -> int:
    """Calls that the dispatcher sent to the plain function."""
    place = entry.layout.place("TABLE", "calls")
    passed = sum(table[place] for table, _, _ in function._native._plain.values())
    return int(function._native.hits + passed)


def test_refused_calls_of_any_length_go_there() -> None:
    """What is refused for all such arrays is NumPy's, and counted, however long they are."""
    function = fuser.fuse(lambda x: np.sort(x), fallback="allow")
    for length in range(CALLS):
        function(np.arange(length, dtype=float))
    before, told = _served(function), fuser.stats()["fallbacks"]
    for array in (np.arange(90.0), np.arange(91.0)):
        assert function(array).tolist() == array.tolist()
    assert _served(function) == before + 2
    assert fuser.stats()["fallbacks"] == told + 2


@pytest.mark.parametrize(
    ("plain", "args", "kwargs"),
    [
        (_largest, (X,), {}),
        (_largest, (), {"x": X}),
        (_of_list, ([X, X],), {}),
        (lambda pair: _of_list(list(pair["a"])), ({"a": (X, X)},), {}),
        (lambda x, text, none, number: x * len(text) if x[0] > number else none,
         (X, "ab", None, 0.5), {}),
    ],
    ids=["array", "keyword", "list", "nested", "others"],
)  # fmt: skip
def test_refused_calls_go_straight_to_the_plain_function(
    plain: Callable[..., Any], args: Any, kwargs: Any
) -> None:
    """They give what it gives, and each counts as a fallback."""
    function = fuser.fuse(plain, fallback="allow")
    if function(*args, **kwargs) is not None and not function.fallbacks:
        pytest.skip("it is fused")
    before = fuser.stats()["fallbacks"]
    for _ in range(CALLS):
        assert np.array_equal(function(*args, **kwargs), plain(*args, **kwargs))
    assert _served(function)
    assert fuser.stats()["fallbacks"] == before + CALLS


def test_other_arguments_are_looked_at() -> None:
    """Another dtype, rank or type has a table of its own, or kernels."""
    function = fuser.fuse(_largest, fallback="allow")
    for _ in range(CALLS):
        function(X)
    served = _served(function)
    for other in (X.astype(np.float32), X[None], np.float64(2), 3.0):
        wanted = _largest(np.asarray(other))
        assert np.array_equal(function(np.asarray(other)), wanted)
    assert _served(function) == served


def test_a_call_that_raises_goes_there_too() -> None:
    """Lengths that do not fit: the kernels' own calls are served as before."""
    function = fuser.fuse(lambda x, y: x * y + 1, fallback="error")
    allowed = fuser.fuse(lambda x, y: x * y + 1, fallback="allow")
    for _ in range(CALLS):
        for each in (function, allowed):
            with pytest.raises(ValueError):
                each(X, X[:2])
            assert np.array_equal(each(X, X), X * X + 1)
    assert allowed._native._plain
    assert not function._native._plain


def test_a_number_of_calls_later_python_looks_again() -> None:
    """What decides may have changed: then such calls are fused."""
    space: dict[str, Any] = {"FLAG": True}
    exec("def f(x): return x + 1 if FLAG and x.max() > 0 else x * 2", space)
    function = fuser.fuse(space["f"], fallback="allow")
    for _ in range(CALLS):
        function(X)
    space["FLAG"] = False
    for _ in range(2000):  # no guard may be looked at meanwhile
        assert np.array_equal(function(X), X * 2)
    before = fuser.stats()["fallbacks"]
    function(X)
    assert fuser.stats()["fallbacks"] == before


def test_many_kinds_take_turns() -> None:
    """More than there are tables for."""
    function = fuser.fuse(lambda x, y: x * y, fallback="allow")
    for _ in range(CALLS):
        for length in range(2, 40):
            with pytest.raises(ValueError):
                function(np.ones(length), np.ones(length + 1))
    assert len(function._native._plain) <= entry.python_calls.PLAIN_LIMIT
    fuser.clear_caches()
    assert function(X, X).shape == X.shape


def test_arrays_in_other_layouts_have_tables_of_their_own() -> None:
    """Reversed, or read-only: the first of them that is refused says nothing of the others."""
    fixed = X.copy()
    fixed.flags.writeable = False
    function = fuser.fuse(lambda x: np.sort(x), fallback="allow")
    for array in (X[::-1], X, fixed):
        for _ in range(CALLS):
            function(array)
        served = _served(function)
        for _ in range(CALLS):
            assert function(array).tolist() == sorted(X)
        assert _served(function) == served + CALLS


class _Marked(np.ndarray):
    """A subclass, which NumPy computes with."""


@pytest.mark.parametrize(
    "made",
    [
        lambda k: np.arange(k % 5 + 1.0).view(_Marked), lambda k: np.zeros(2, ">f8"),
        lambda k: np.longdouble(k), lambda k: np.zeros(3, [("a", "f8"), ("b", f"V{k % 2 + 1}")]),
        lambda k: np.arange(k % 3).astype("M8[s]"),
    ],
    ids=["subclass", "byte order", "longdouble", "records", "dates"],
)  # fmt: skip
def test_other_objects_of_a_kind_that_numpy_takes_go_there(made: Callable[[int], Any]) -> None:
    """Each call has a new array or number: none but the first few is looked at by Python."""
    function = fuser.fuse(lambda x: x[...], fallback="allow")
    for k in range(8 * CALLS):
        function(made(k))
    assert _served(function) > 4 * CALLS


@pytest.mark.parametrize(
    "values", [[float(k) for k in range(300)], dict.fromkeys(range(200), X), (X, [0] * 20_000)],
    ids=["numbers", "arrays", "more than are looked at"],
)  # fmt: skip
def test_long_lists_go_there_by_their_class(values: Any) -> None:
    """What they hold is not compared: that would take longer than the function."""
    function = fuser.fuse(lambda x, values: x * len(values), fallback="allow")
    for _ in range(8 * CALLS):
        assert np.array_equal(function(X, values), X * len(values))
    assert _served(function) > 4 * CALLS


def test_tables_that_are_alike_serve_one_after_another() -> None:
    """One that has served its number of calls hides no other: objects are compared by type."""
    function = fuser.fuse(lambda x: np.asarray(x) + 1, fallback="allow")
    views = [memoryview(bytearray(4)) for _ in range(4)]
    for _ in range(400):
        for view in views:
            function(view)
    served = _served(function)
    for _ in range(100):
        for view in views:
            assert function(view).tolist() == [1, 1, 1, 1]
    assert _served(function) > served + 360


def test_new_objects_go_there_in_the_end() -> None:
    """Texts that come once each are traced at first; they take no room from other kinds."""
    function = fuser.fuse(lambda x, text: x * len(text), fallback="allow")
    for k in range(700):
        function(X, f"text {k}")
    assert len(function._signatures) < 100
    served = _served(function)
    for k in range(100):
        assert np.array_equal(function(X, f"other {k}"), X * len(f"other {k}"))
    assert _served(function) > served + 90


def test_equal_slices_and_one_array_twice_are_served_natively() -> None:
    """Python compares them before a kernel runs."""
    function = fuser.fuse(lambda x, y, part: (x[part] * 2 + y[part], x is y), fallback="error")
    for _ in range(CALLS):
        x = np.arange(6.0)
        for y, part in ((x, slice(1, 3)), (x.copy(), slice(1, 3)), (x, slice(0, 4))):
            found, same = function(x, y, part)
            assert np.array_equal(found, x[part] * 2 + y[part])
            assert same is (x is y)
    assert function._native.hits > CALLS


def _bounded(x: Any, n: int) -> Any:
    """Some numbers raise."""
    if n > 5:
        raise ValueError(n)
    return x * n


def test_calls_after_some_that_raised_are_counted_with_their_reason() -> None:
    """Values that do not raise run in NumPy for some calls, which count as fallbacks."""
    function = fuser.fuse(_bounded, fallback="allow")
    for _ in range(CALLS):
        with pytest.raises(ValueError, match="9"):
            function(X, 9)
    before, served = fuser.stats().get("fallbacks", 0), _served(function)
    assert served
    for _ in range(CALLS):
        assert np.array_equal(function(X, 3), X * 3)
    assert _served(function) == served + CALLS
    assert fuser.stats()["fallbacks"] == before + CALLS
    (reason,) = function.fallbacks
    assert reason.code == "runtime-check"
    assert function.fallback_counts == {reason: served + CALLS}
