"""Where arguments are found: the call's own first, then what is in containers, level by level."""

from typing import Any

import numpy as np
import pytest

from fuser.backend import ServedCall
from fuser.backends.cpu.entries.containers import out_slot, places_of
from fuser.backends.cpu.entries.names import NotServed
from fuser.backends.cpu.machine import layout
from fuser.base import trees


def _served(args: tuple[Any, ...], names: tuple[str, ...] = (), out: Any = None, **kw: Any) -> Any:
    structure, leaves = trees.flatten((args, kw))
    return ServedCall(None, None, {}, {}, leaves, names, out, structure)


def test_plain_arguments_are_where_the_interpreter_puts_them() -> None:
    """`out=` may stand between other keywords."""
    out = np.ones(2)
    found = places_of(_served((1, 2), ("a", "out", "b"), out, a=3, b=4))
    assert (found.given, found.slots, found.targets) == (5, (0, 1, 2, 4), (3,))
    assert (found.rows, found.held) == ((), 0)


def test_items_follow_level_by_level() -> None:
    """Each container comes after the one that it is in."""
    call = _served(((1, [2, 3]), 4), ("d", "out"), (5, 6), d={"x": 7, "y": (8,)})
    found = places_of(call)
    assert found.given == 4
    slots = dict(zip(call.leaves, found.slots, strict=True))
    assert slots == {1: 4, 4: 1, 7: 6, 2: 8, 3: 9, 8: 10}
    assert found.targets == (11, 12)
    assert out_slot(call) == 3
    kinds = [row[layout.place("UNPACK", "kind")] for row in found.rows]
    assert kinds == [layout.OF_TUPLE, layout.OF_DICT, layout.OF_LIST, layout.OF_TUPLE,
                     layout.OF_TUPLE]  # fmt: skip
    assert found.held == 13 - 4


def test_there_is_room_for_so_many() -> None:
    """More are left to Python."""
    with pytest.raises(NotServed):
        places_of(_served((list(range(layout.MOST_ARGUMENTS)),)))
