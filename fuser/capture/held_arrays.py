"""Arrays that a function reaches past all stand-ins: a trace holds for what is in them.

NumPy computes with them while the function is traced, and what comes out is a constant; or the
function decides by them.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from fuser.base.errors import Unsupported
from fuser.base.records import changed
from fuser.capture.captures import Asked, NameGuard, arrays_of, has_elements
from fuser.capture.contents import snapshot
from fuser.capture.effects import form_of
from fuser.tracing.trace_result import Trace

#: Bytes of an array that are compared at each call, at most.
LARGEST = 1 << 16


def _held(array: Any) -> Asked:
    """Whether an array holds still what it holds now."""
    form, values = form_of(array), array.tobytes()
    return Asked(lambda: form_of(array) == form and bool(array.tobytes() == values))


def guards_of_contents(names: Iterable[NameGuard], function: str) -> list[NameGuard]:
    """Guards of what arrays hold.

    Args:
        names: what the function reaches past all stand-ins.
        function: what it is called, for messages.

    Raises:
        Unsupported: an array cannot be compared at each call.
    """
    found: dict[int, NameGuard] = {}
    for guard in names:
        for array in arrays_of(guard.expected):
            if id(array) in found:
                continue
            if type(array) is not np.ndarray:
                shown = f"{guard.name}, a {type(array).__name__} that is no argument"
                raise Unsupported("unsupported-array", function, shown, "")
            if array.dtype.hasobject:
                shown = f"{guard.name}, an array of objects that is no argument"
                raise Unsupported("unsupported-dtype", function, shown, "")
            if array.nbytes > LARGEST:
                shown = f"{guard.name}, an array of {array.nbytes} bytes that is no argument"
                raise Unsupported("array-conversion", function, shown, "")
            found[id(array)] = NameGuard(_held(array), guard.name, True, False)
    return list(found.values())


def further_guards(
    holders: Iterable[tuple[Any, str, Any]], trace: Trace, known: Iterable[NameGuard]
) -> list[NameGuard]:
    """Guards of names under which a trace found its arrays, and which no code spells.

    Args:
        holders: namespaces, names in them, and what these stand for.
        trace: of the function.
        known: guards that there are already.
    """
    read = {id(array) for array in trace.graph.captured}
    guarded = {guard.place for guard in known}
    found: dict[tuple[int, str], NameGuard] = {}
    for scope, name, value in holders:
        guard = NameGuard(scope, name, value, not has_elements(value))
        if guard.place in guarded or guard.place in found:
            continue
        seen = snapshot(value, name)
        if any(id(array) in read for array in arrays_of(seen)):
            found[guard.place] = changed(guard, expected=seen)
    return list(found.values())


def reaches_arrays(names: Iterable[NameGuard]) -> bool:
    """Whether names stand for arrays, or for containers of them."""
    return any(True for guard in names for _ in arrays_of(guard.expected))
