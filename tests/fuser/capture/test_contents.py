"""Containers of all kinds: a change of what they hold is noticed, and put back after a trace."""

from array import array
from collections import Counter, OrderedDict, defaultdict, deque, namedtuple
from types import MappingProxyType
from typing import Any

import numpy as np
import pytest

import fuser
from fuser.base.errors import Unsupported
from fuser.capture.contents import CONTAINERS, is_other, parts_of, put_back, same_parts, snapshot

X = np.linspace(-1, 1, 5)


class Log(list[Any]):
    """A list that counts what is put into it."""

    puts = 0

    def __setitem__(self, place: Any, value: Any) -> None:
        """Restoring must not come here."""
        self.puts += 1
        super().__setitem__(place, value)


class Table(dict[Any, Any]):
    """A dict of one's own."""


def kinds() -> list[Any]:
    """One of each kind that may change in place."""
    return [
        OrderedDict(a=2.0), defaultdict(float, a=2.0), Counter(a=2), Table(a=2.0), Log([2.0]),
        deque([2.0], maxlen=3), bytearray(b"\2"), array("d", [2.0]),
    ]  # fmt: skip


def put(thing: Any, value: Any) -> None:
    """Change a container in place."""
    if isinstance(thing, dict):
        thing["a"] = value
    else:
        thing.append(value)


def last(thing: Any) -> Any:
    """What was put there last."""
    return thing["a"] if isinstance(thing, dict) else thing[-1]


@pytest.mark.parametrize("place", range(len(kinds())))
def test_a_change_is_noticed_at_the_next_call(place: int) -> None:
    """In a closure, as an argument, and in a bound argument of `functools.partial`."""
    from functools import partial

    thing = kinds()[place]
    read = fuser.fuse(lambda x: x * last(thing), fallback="allow")
    given = fuser.fuse(lambda x, held: x * last(held), fallback="allow")
    bound = fuser.fuse(partial(lambda held, x: x * last(held), thing), fallback="allow")
    for value in (3, 5, 7):
        for found in (read(X), given(X, thing), bound(X)):
            np.testing.assert_array_equal(found, X * last(thing))
        put(thing, value)


@pytest.mark.parametrize("place", range(len(kinds())))
def test_what_a_trace_puts_in_is_taken_out(place: int) -> None:
    """The plain function then puts it in once."""
    thing = kinds()[place]
    number = isinstance(thing, (bytearray, array, Counter))

    def keep(x: Any) -> Any:
        put(thing, len(thing) if number else x * 2)
        return x + 1

    np.testing.assert_array_equal(fuser.fuse(keep, fallback="allow")(X), X + 1)
    wanted = kinds()[place]
    put(wanted, len(wanted) if number else X * 2)
    assert repr(thing) == repr(wanted)


@pytest.mark.parametrize("place", range(len(kinds())))
def test_put_back(place: int) -> None:
    """Contents and order; a subclass's own methods are not used."""
    thing, before = kinds()[place], kinds()[place]
    parts = parts_of(thing)
    assert is_other(thing)
    assert type(parts) in (*CONTAINERS, bytes)
    put(thing, 3)
    assert not same_parts(parts_of(thing), parts)
    put_back(thing, parts)
    assert thing == before
    assert same_parts(parts_of(thing), parts)
    assert getattr(thing, "puts", 0) == 0


def test_views_and_named_tuples() -> None:
    """A view of a dict changes with it; a named tuple is one of these where it holds a list."""
    pair = namedtuple("pair", "one other")
    assert not is_other(pair(1, 2))
    assert is_other(pair(1, [2]))
    behind = {"a": 2.0}
    view = MappingProxyType(behind)
    fused = fuser.fuse(lambda x: x * view["a"], fallback="allow")
    np.testing.assert_array_equal(fused(X), X * 2)
    behind["a"] = 3.0
    np.testing.assert_array_equal(fused(X), X * 3)


def test_a_container_that_holds_itself() -> None:
    """Such a function runs in NumPy."""
    ring: list[Any] = [2.0]
    ring.append(ring)
    with pytest.raises(Unsupported, match="holds itself"):
        snapshot(ring, "ring")
    fused = fuser.fuse(lambda x: x * ring[0], fallback="allow")
    for _ in range(3):
        np.testing.assert_array_equal(fused(X), X * ring[0])
        ring[0] += 1


def test_a_key_that_cannot_be_compared() -> None:
    """It is the same key where it is the same object."""

    class Odd:
        def __eq__(self, other: object) -> bool:
            raise ValueError("odd")

        def __hash__(self) -> int:
            return 1

    table: dict[Any, Any] = {Odd(): 2.0}
    fused = fuser.fuse(lambda x: x * next(iter(table.values())), fallback="allow")
    np.testing.assert_array_equal(fused(X), X * 2)
    table.clear()
    table[Odd()] = 3.0
    np.testing.assert_array_equal(fused(X), X * 3)
