"""Where the dispatcher finds each argument: also those inside of tuples, lists and dicts."""

from __future__ import annotations

import ctypes
from collections import deque
from collections.abc import Mapping, Sequence
from typing import Any

from fuser.backend import PlainCall, PythonCall, ServedCall
from fuser.backends.cpu.entries.names import NotServed
from fuser.backends.cpu.machine import layout
from fuser.base.records import record
from fuser.base.trees import Leaf, Path

#: One of what rows are listed.
_SINGULAR = {"temporaries": "temporary", "leaves": "leaf", "launches": "launch"}


@record
class Places:
    """The dispatcher's list of arguments: the call's own, then what is in containers.

    Attributes:
        given: how many the call has: positional ones and keywords.
        slots: where each leaf of the arguments is.
        targets: where each array of `out=` is.
        rows: containers, each after the one that it is in.
        held: how many items have to be held while a call runs.
        keep: what the rows name.
        containers: where each list and dict is, by its place among the arguments.
    """

    given: int
    slots: tuple[int, ...]
    targets: tuple[int, ...]
    rows: tuple[list[int], ...]
    held: int
    keep: tuple[Any, ...]
    containers: dict[Path, int]


def places_of(call: ServedCall | PythonCall | PlainCall) -> Places:
    """Look at how a call's arguments nest.

    Raises:
        NotServed: there are too many.
    """
    positional, keywords = call.structure
    given = len(positional) + len(call.names)
    waiting = deque[tuple[int, Any, Path]]((k, part, (0, k)) for k, part in enumerate(positional))
    for k, name in enumerate(call.names, len(positional)):
        if name in keywords:
            waiting.append((k, keywords[name], (1, name)))
    slots = [0] * len(call.leaves)
    rows: list[list[int]] = []
    keep: list[Any] = []
    place, containers = given, dict[Path, int]()
    while waiting:
        slot, part, path = waiting.popleft()
        if type(part) is Leaf:
            slots[part.index] = slot
            continue
        inner = list(part.items() if type(part) is dict else enumerate(part))
        rows.append(_row(slot, part, place, keep))
        if type(part) in (list, dict):
            containers[path] = slot
        waiting.extend((k, each, (*path, key)) for k, (key, each) in enumerate(inner, place))
        place += len(inner)
    targets: tuple[int, ...] = () if call.out is None else (out_slot(call),)
    if type(call.out) is tuple:
        rows.append(_row(targets[0], call.out, place, keep))
        targets = tuple(range(place, place + len(call.out)))
        place += len(call.out)
    if place > layout.MOST_ARGUMENTS:
        raise NotServed
    held = place - given if containers else 0
    return Places(given, tuple(slots), targets, tuple(rows), held, tuple(keep), containers)


def _row(slot: int, part: Any, place: int, keep: list[Any]) -> list[int]:
    """One container."""
    kinds: dict[type, int] = {dict: layout.OF_DICT, list: layout.OF_LIST}
    kind = kinds.get(type(part), layout.OF_TUPLE)
    keys = layout.array([[id(key) for key in part]]) if kind == layout.OF_DICT else None
    keep.extend([type(part), *(part if keys else ()), keys])
    return layout.words(
        "UNPACK", kind=kind, slot=slot, type=id(type(part)), length=len(part), place=place,
        keys=0 if keys is None else layout.address(keys),
    )  # fmt: skip


def out_slot(call: ServedCall | PythonCall | PlainCall) -> int:
    """Where the interpreter puts the array, or the tuple of arrays, of `out=`."""
    positional, _ = call.structure
    return len(positional) + call.names.index("out")


def table_of(
    call: ServedCall | PythonCall | PlainCall, places: Places, keep: list[Any],
    rows: Mapping[str, Sequence[Sequence[int]]], **values: int,
) -> ctypes.Array[ctypes.c_int64]:  # fmt: skip
    """A table: how many arguments its calls have, by which names, and how they nest; and its rows.

    Args:
        call: one that it serves.
        places: where the arguments of that are.
        keep: takes what the table points at.
        rows: lists of rows by the name of their count: records, outputs, overlaps.
        values: its other words.
    """
    asked = sum(len(rows.get(name, ())) for name in ("steps", "ranges", "overlaps"))
    for name, part in {**rows, "unpacks": places.rows}.items():
        values |= {name: len(part), f"{_SINGULAR.get(name, name[:-1])}_list": native(keep, part)}
    keep += [call.names, places]
    words = layout.words(
        "TABLE", nargs=places.given - len(call.names), names=len(call.names),
        name_list=native(keep, [[id(name) for name in call.names]]), given=places.given,
        held=places.held, conditions=asked, **values,
    )  # fmt: skip
    return layout.array([words])


def native(keep: list[Any], rows: Sequence[Sequence[int]]) -> int:
    """Rows in native memory, which a list keeps."""
    listed = layout.array(rows)
    keep.append(listed)
    return layout.address(listed)
