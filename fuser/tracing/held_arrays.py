"""Arrays that a function reaches and no kernel reads: a trace holds for what is in them.

NumPy computes with them while the function is traced, `x * np.exp(weights)`, and what comes out is
a constant; or the function decides by them. Kernels read those that meet arguments when they run.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from fuser.errors import Unsupported
from fuser.tracing.captures import NameGuard
from fuser.tracing.contents import CONTAINERS, Contents
from fuser.tracing.trace_result import OutStatic, Trace

#: Bytes of an array that are compared at each call, at most; where something is surely computed
#: of NumPy's own arrays, more are worth it.
LARGEST, LARGEST_COMPUTED = 1 << 16, 1 << 20


class Held:
    """What an array holds."""

    def __init__(self, array: Any) -> None:
        """Look at `array`."""
        self.array = array

    def get(self, name: str, default: Any) -> bytes:
        """As a namespace's."""
        return bytes(self.array.tobytes())


def guards_of_contents(
    names: Iterable[NameGuard], trace: Trace, constants: Iterable[str], leaves: Sequence[Any],
    function: str,
) -> list[NameGuard]:  # fmt: skip
    """Guards of what arrays hold.

    Args:
        names: what the function reaches.
        trace: of the function.
        constants: captured arrays that the function makes anew each time.
        leaves: its arguments.
        function: what it is called, for messages.

    Raises:
        Unsupported: an array is too large to be compared at each call.
    """
    hidden = [parameter.name for parameter in trace.graph.parameters if parameter.captured]
    made = frozenset(constants)
    read = [array for name, array in zip(hidden, trace.graph.captured, strict=True)
            if name not in made]  # fmt: skip
    read += [leaf for leaf in leaves if type(leaf) is np.ndarray]
    fresh = any(isinstance(leaf, OutStatic) and leaf.fresh for leaf in trace.leaves)
    computed = fresh or bool(made)
    found: dict[int, NameGuard] = {}
    for guard in names:
        for array in _arrays(guard.expected):
            if id(array) in found or not _may_change(array) or _is_read(array, read):
                continue
            if array.nbytes > (LARGEST_COMPUTED if computed else LARGEST):
                if computed:
                    shown = f"{guard.name}, an array of {array.nbytes} bytes that is no argument"
                    raise Unsupported("array-conversion", function, shown, "")
                continue
            held = Held(array)
            found[id(array)] = NameGuard(held, guard.name, held.get("", None), True)
    return list(found.values())


def _arrays(value: Any) -> Iterator[Any]:
    """Arrays that a name stands for, or that its containers hold."""
    if type(value) is np.ndarray:
        yield value
        return
    parts = value.parts if type(value) is Contents else value
    if type(parts) in CONTAINERS:
        for part in parts.values() if type(parts) is dict else parts:
            yield from _arrays(part)


def _may_change(array: Any) -> bool:
    """Whether an array may be written into, by its name or another."""
    if array.dtype.hasobject or not array.size:
        return False
    return array.flags.writeable or isinstance(array.base, np.ndarray)


def _is_read(array: Any, read: Iterable[Any]) -> bool:
    """Whether kernels read an array's memory when they run."""
    return any(type(each) is np.ndarray and np.may_share_memory(array, each) for each in read)
