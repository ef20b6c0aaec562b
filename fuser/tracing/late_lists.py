"""Lists that a loop has appended to: how many items one has, or what they are, it tells when run.

One is in the place of the list where the function goes on. It can be asked for its length, and
becomes an array where NumPy's functions take it; one of numbers can be returned.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

import numpy as np

from fuser.base.errors import Unsupported
from fuser.ir.graph import Node
from fuser.tracing.late_numbers import LateNumber, read
from fuser.tracing.trace_state import Storage
from fuser.tracing.traced_array import TracedArray


class ListAskedError(Unsupported):
    """A list is asked for what only Python's own could tell: its loop is unrolled."""


class LateList:
    """In the place of a list that a loop leaves.

    Attributes:
        room: an array that begins with the items that the loop has appended.
        count: how many these are.
        step: -1 where it is seen backwards.
        first: what the list had before the loop.
        kind: of what a loop over arrays appends: "array", "scalar" of NumPy's, or a kind of late
            numbers; "" of a loop over elements.
        held: memory that its items are, and what that held then; of a list of numbers, none.
    """

    def __init__(
        self, room: TracedArray, count: Any, step: int = 1, first: Sequence[Any] = (),
        kind: str = "", held: Sequence[tuple[Storage, Node]] = (),
    ) -> None:  # fmt: skip
        """Keep what holds the items."""
        self.room, self.count, self.step = room, count, step
        self.first, self.kind, self.held = tuple(first), kind, held

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
            told = f"an array of {dtype} where its items make one of {self.room.dtype}"
            raise self._refused(told)
        if self.kind:
            return self._rows()
        self.count = read(self.count)
        found = self.room[: self.count][:: self.step]
        if found.dtype != np.float64 and self.count == 0:
            return found.astype(np.float64)
        return found.copy()

    def _rows(self) -> Any:
        """The items of a loop over arrays, beside each other."""
        if any(storage.node is not node for storage, node in self.held):
            raise self._refused("its items after they were written into")
        found = self.room
        if self.first:
            from fuser.tracing import sequences

            before = sequences.put_together(self.room.tracing, list(self.first), None)
            if before.shape[1:] != found.shape[1:] or before.dtype != found.dtype:
                raise self._refused("items of several kinds")
            return np.concatenate([before, found])[:: self.step]
        return found[::-1].copy() if self.step < 0 else found.copy()

    def numbers(self) -> Any:
        """An array of its items, where these are numbers of one kind.

        Raises:
            ListAskedError: they are not.
        """
        if self.kind in ("", "array") or self.first:
            raise self._refused("the list itself")
        return self._rows()

    def length(self) -> Any:
        """How many items it has."""
        self.count = read(self.count)
        return self.count + len(self.first)

    def _refused(self, found: str) -> Unsupported:
        """Why the function cannot go on; of a loop over arrays, so."""
        told = f"{found}; make an array of the list (np.array) and use that"
        kind = ListAskedError if self.kind else Unsupported
        return kind("not-traceable", "a list that a loop appends to", told)

    def __array__(self, *args: Any, **kwargs: Any) -> Any:
        """Where its items are asked for."""
        raise self._refused("its items")

    def __bool__(self) -> bool:
        """Whether it has items."""
        return bool(self.length() != 0)

    def __iter__(self) -> Any:
        """Likewise; NumPy looks for whoever joins the items of a list (`np.stack`)."""
        if self.kind and sys._getframe(1).f_code.co_name == _LOOKS_FOR_ARRAYS:
            return iter((self,))
        raise self._refused("its items one by one")

    def __getitem__(self, index: Any) -> Any:
        """The list backwards; a number of it."""
        if type(index) is slice and (index.start, index.stop, index.step) == (None, None, -1):
            return LateList(self.room, self.count, -self.step, self.first, self.kind, self.held)
        if type(index) is not int or self.kind in ("", "array") or self.first or self.step < 0:
            raise self._refused("an item of it, or a part")
        item = self.room[index]
        if self.kind == "scalar":
            return item
        return LateNumber(item.tracing, item.node, self.kind)

    def append(self, item: Any) -> None:
        """It is full."""
        raise self._refused("append after the loop")

    def __getattr__(self, name: str) -> Any:
        """What else lists do."""
        if self.__dict__.get("kind") and not name.startswith("__"):
            raise self._refused(f"its {name}")
        raise AttributeError(name)

    def __array_function__(self, function: Any, types: Any, args: Any, kwargs: Any) -> Any:
        """A function of NumPy's, which makes an array of it first."""
        if self.kind and len(args) == 1 and args[0] is self and function in _JOINING:
            if kwargs.get("axis", 0) == 0 and kwargs.keys() <= {"axis"}:
                return self._joined(function)
        if self.kind and function in _OF_SEQUENCES:
            raise self._refused(f"{function.__name__} of it")
        return function(*map(as_array, args), **{k: as_array(v) for k, v in kwargs.items()})

    def _joined(self, function: Any) -> Any:
        """What a function that joins arrays makes of its items."""
        made = self._rows()
        if function is np.vstack and made.ndim != 2:
            raise self._refused("vstack of it")
        return made

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **options: Any) -> Any:
        """Likewise."""
        return getattr(ufunc, method)(*map(as_array, inputs), **options)


#: Functions that join the arrays of a list along an axis of their own, and more that are given one.
_JOINING = frozenset((np.stack, np.vstack))
_OF_SEQUENCES = _JOINING | {np.concatenate, np.hstack, np.dstack, np.column_stack, np.block}
#: A function of NumPy's own that goes over the list.
_LOOKS_FOR_ARRAYS = "_arrays_for_stack_dispatcher"


def as_array(value: Any) -> Any:
    """The array of such a list; other values are themselves."""
    return value.array() if type(value) is LateList else value
