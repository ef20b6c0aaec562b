"""Lists that a loop over elements has appended numbers to: how many is known when it has run.

One is in the place of the list where the function goes on. It can be asked for its length, and
becomes an array where NumPy's functions take it.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from fuser.base.errors import Unsupported
from fuser.tracing.late_numbers import read
from fuser.tracing.traced_array import TracedArray


class LateList:
    """In the place of a list that a loop over elements leaves.

    Attributes:
        room: an array that begins with its items.
        count: how many they are.
        step: -1 where it is seen backwards.
    """

    def __init__(self, room: TracedArray, count: Any, step: int = 1) -> None:
        """Keep what holds the items."""
        self.room, self.count, self.step = room, count, step

    @property  # type: ignore[misc] # as mocks do
    def __class__(self) -> type:
        """What `isinstance` in the user's code is told."""
        return list

    def array(self, dtype: np.dtype[Any] | None = None) -> Any:
        """What `np.array` makes of it, before it is converted; of no items an array of floats.

        Items of Python's that do not fit into a dtype raise, where elements of arrays do not.
        """
        safe = dtype is None or np.can_cast(self.room.dtype, dtype, "safe")
        if not (safe or (dtype is not None and dtype.kind == "f")):
            raise _refused(f"an array of {dtype} where its items make one of {self.room.dtype}")
        self.count = read(self.count)
        found = self.room[: self.count][:: self.step]
        if found.dtype != np.float64 and self.count == 0:
            return found.astype(np.float64)
        return found.copy()

    def length(self) -> Any:
        """How many items it has."""
        self.count = read(self.count)
        return self.count

    def __getitem__(self, index: Any) -> LateList:
        """The list backwards."""
        if type(index) is slice and (index.start, index.stop, index.step) == (None, None, -1):
            return LateList(self.room, self.count, -self.step)
        raise _refused("an item of it, or a part")

    def __array__(self, *args: Any, **kwargs: Any) -> Any:
        """Where its items are asked for."""
        raise _refused("its items")

    def __bool__(self) -> bool:
        """Whether it has items."""
        return bool(self.length() != 0)

    def __iter__(self) -> Any:
        """Likewise."""
        raise _refused("its items one by one")

    def append(self, item: Any) -> None:
        """It is full."""
        raise _refused("append after the loop")

    def __array_function__(self, function: Any, types: Any, args: Any, kwargs: Any) -> Any:
        """A function of NumPy's, which makes an array of it first."""
        return function(*map(as_array, args), **{k: as_array(v) for k, v in kwargs.items()})

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **options: Any) -> Any:
        """Likewise."""
        return getattr(ufunc, method)(*map(as_array, inputs), **options)


def as_array(value: Any) -> Any:
    """The array of such a list; other values are themselves."""
    return value.array() if type(value) is LateList else value


def _refused(found: str) -> Unsupported:
    """Why the function cannot go on."""
    told = f"{found}; make an array of the list (np.array) and use that"
    return Unsupported("not-traceable", "a list that a loop over elements appends to", told)
