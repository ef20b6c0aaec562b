"""Lists that a loop has appended to: how many items one has, or what they are, it tells when run.

One is in the place of the list where the function goes on. It can be asked for its length, and
becomes an array where NumPy's functions take it; one of numbers can be returned.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import numpy as np

from fuser.base.errors import Unsupported
from fuser.ir.graph import Node
from fuser.tracing.late_numbers import KINDS, LateNumber, read
from fuser.tracing.trace_state import Storage
from fuser.tracing.traced_array import TracedArray


class ListAskedError(Unsupported):
    """A list is asked for what only Python's own could tell: its loop is unrolled."""


Made = TypeVar("Made")


def unrolled_if_asked(trace: Callable[[bool], Made]) -> Made:
    """What a trace gives in which loops may append to lists; where one is asked for more, unrolled.

    Args:
        trace: it; whether there may be such loops.
    """
    try:
        return trace(True)
    except ListAskedError:
        return trace(False)


class LateList:
    """In the place of a list that a loop leaves.

    Attributes:
        room: an array that begins with the items that the loop has appended.
        step: -1 where it is seen backwards.
    """

    #: What is raised where more is asked; how many items there are; a new array of them.
    error: type[Unsupported] = Unsupported
    length: Callable[[], Any]
    rows: Callable[[], Any]

    def __init__(self, room: TracedArray, step: int = 1) -> None:
        """Keep what holds the items."""
        self.room, self.step = room, step

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
            raise self.refused(told)
        return self.rows()

    def numbers(self) -> Any:
        """The same, where the items are numbers of one kind and the list may be returned.

        Raises:
            Unsupported: it may not.
        """
        raise self.refused("the list itself")

    def item(self, index: Any) -> Any:
        """One item."""
        raise self.refused("an item of it, or a part")

    def total(self) -> Any:
        """Its sum."""
        raise self.refused("its sum")

    def extreme(self, largest: bool) -> Any:
        """The largest of it, or the least."""
        raise self.refused("the largest or least of its items")

    def refused(self, found: str) -> Unsupported:
        """Why the function cannot go on so."""
        told = f"{found}; make an array of the list (np.array) and use that"
        return self.error("not-traceable", "a list that a loop appends to", told)

    def __array__(self, *args: Any, **kwargs: Any) -> Any:
        """Where its items are asked for."""
        raise self.refused("its items")

    def __bool__(self) -> bool:
        """Whether it has items."""
        return bool(self.length() != 0)

    def __iter__(self) -> Any:
        """Likewise."""
        raise self.refused("its items one by one")

    def __getitem__(self, index: Any) -> Any:
        """The list backwards, or an item."""
        if type(index) is slice and (index.start, index.stop, index.step) == (None, None, -1):
            turned = object.__new__(type(self))
            vars(turned).update(vars(self), step=-self.step)
            return turned
        return self.item(index)

    def append(self, item: Any) -> None:
        """It is full."""
        raise self.refused("append after the loop")

    def __array_function__(self, function: Any, types: Any, args: Any, kwargs: Any) -> Any:
        """A function of NumPy's, which makes an array of it first."""
        return function(*map(as_array, args), **{k: as_array(v) for k, v in kwargs.items()})

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **options: Any) -> Any:
        """Likewise."""
        return getattr(ufunc, method)(*map(as_array, inputs), **options)


class CountedList(LateList):
    """Of a loop over elements, which may append in some iterations.

    Attributes:
        count: how many items there are.
    """

    def __init__(self, room: TracedArray, count: Any) -> None:
        """Keep the count, too."""
        super().__init__(room)
        self.count = count

    def length(self) -> Any:
        """As told when the loop has run."""
        self.count = read(self.count)
        return self.count

    def rows(self) -> Any:
        """As much of the room as is filled."""
        found = self.room[: self.length()][:: self.step]
        if found.dtype != np.float64 and self.count == 0:
            return found.astype(np.float64)
        return found.copy()


class StackedList(LateList):
    """Of a loop over whole arrays, which appends in every iteration: JAX's `scan` calls it `ys`.

    Attributes:
        first: what the list had before the loop.
        kind: of the items: "array", "scalar" of NumPy's, or a kind of late numbers.
        held: memory that its items are, and what that held then; of a list of numbers, none.
    """

    error = ListAskedError

    def __init__(
        self, room: TracedArray, first: Sequence[Any], kind: str,
        held: Sequence[tuple[Storage, Node]], count: Any = None, begun: int = 0,
    ) -> None:  # fmt: skip
        """Keep them, too.

        Args:
            room: what holds the items that the loop has appended.
            first: see above.
            kind: see above.
            held: see above.
            count: how many items it has counted, of a loop that may end early; else None.
            begun: how many of these are in `first`.
        """
        super().__init__(room)
        self.first, self.kind, self.held = tuple(first), kind, held
        self._count, self._begun = count, begun

    @property
    def filled(self) -> Any:
        """How many items of the room there are: a loop that ends early tells it when run."""
        if self._count is None:
            return self.room.shape[0]
        self._count = read(self._count)
        return self._count - self._begun

    def length(self) -> Any:
        """Those before the loop, too."""
        return self.filled + len(self.first)

    def rows(self) -> Any:
        """The items beside each other; of none, an empty array of floats."""
        if any(storage.node is not node for storage, node in self.held):
            raise self.refused("its items after they were written into")
        found = self.room
        if self._count is not None:
            if not self.length():
                return np.zeros(0)
            found = found[: self.filled]
        if self.first:
            from fuser.tracing import sequences

            before = sequences.put_together(self.room.tracing, list(self.first), None)
            if before.shape[1:] != found.shape[1:] or before.dtype != found.dtype:
                raise self.refused("items of several kinds")
            return np.concatenate([before, found])[:: self.step]
        return found[::-1].copy() if self.step < 0 else found.copy()

    def numbers(self) -> Any:
        """The rows, if all items are numbers of one kind."""
        if self.kind == "array" or not all(map(self._is_alike, self.first)):
            return super().numbers()
        found = self.rows()
        return found if isinstance(found, TracedArray) else self.room[:0].copy()

    def _is_alike(self, item: Any) -> bool:
        """Whether an item from before the loop is of the kind that the loop appends."""
        if self.kind == "scalar":
            return bool(getattr(item, "generic", False)) and item.dtype == self.room.dtype
        return getattr(item, "kind", type(item)) in (self.kind, KINDS[self.kind])

    def item(self, index: Any) -> Any:
        """A number of it."""
        if type(index) is not int or self.kind == "array" or self.first or self.step < 0:
            return super().item(index)
        if self._count is not None:
            if not -self.filled <= index < self.filled:
                raise IndexError("list index out of range")
            index += self.filled if index < 0 else 0
        return self._number(self.room[index])

    def total(self) -> Any:
        """Its sum in Python's order, from 0; that of Python's floats has no errors since 3.12."""
        plain = self.kind == "scalar" or (self.kind == "pyfloat" and sys.version_info < (3, 12))
        if self.first or self.room.dtype.kind not in "iuf" or not (plain or self.kind == "array"):
            return super().total()
        if self._count is not None and not self.length():
            return 0
        sums = np.add.accumulate(self.rows(), axis=0, dtype=self.room.dtype)
        return self._number(sums[-1] + 0)

    def extreme(self, largest: bool) -> Any:
        """Python's: the first of the largest, where NaN is none unless it comes first."""
        if self.first or self.room.dtype.kind not in "iuf" or self.kind == "array":
            return super().extreme(largest)
        if self._count is not None and not self.length():
            return max([]) if largest else min([])  # raises
        rows = compared = self.rows()
        if rows.dtype.kind == "f":
            compared = np.where(np.isnan(rows), -np.inf if largest else np.inf, rows)
        place = compared.argmax() if largest else compared.argmin()
        if rows.dtype.kind == "f":
            place = np.where(np.isnan(rows[0]), 0, place)
        return self._number(np.take(rows, place))

    def _number(self, item: Any) -> Any:
        """A number as the items are."""
        if self.kind in ("scalar", "array"):
            return item
        return LateNumber(item.tracing, item.node, self.kind)

    def __iter__(self) -> Any:
        """Refused, but where NumPy looks for whoever joins the items of a list (`np.stack`)."""
        if sys._getframe(1).f_code.co_name == _LOOKS_FOR_ARRAYS:
            return iter((self,))
        return super().__iter__()

    def __getattr__(self, name: str) -> Any:
        """What else lists do."""
        if name.startswith("__"):
            raise AttributeError(name)
        raise self.refused(f"its {name}")

    def __array_function__(self, function: Any, types: Any, args: Any, kwargs: Any) -> Any:
        """As of any list; a function that joins arrays gives its rows."""
        if len(args) == 1 and args[0] is self and function in _JOINING:
            if kwargs.get("axis", 0) == 0 and kwargs.keys() <= {"axis"}:
                made = self.rows()
                if not isinstance(made, TracedArray):
                    return function([])
                if function is np.vstack and made.ndim != 2:
                    raise self.refused("vstack of it")
                return made
        if function in _OF_SEQUENCES:
            raise self.refused(f"{function.__name__} of it")
        return super().__array_function__(function, types, args, kwargs)


#: Functions that join the arrays of a list along an axis of their own, and more that are given one.
_JOINING = frozenset((np.stack, np.vstack))
_OF_SEQUENCES = _JOINING | {np.concatenate, np.hstack, np.dstack, np.column_stack, np.block}
#: A function of NumPy's own that goes over the list.
_LOOKS_FOR_ARRAYS = "_arrays_for_stack_dispatcher"


def is_late(value: Any) -> bool:
    """Whether a value is in the place of a list."""
    return issubclass(type(value), LateList)


def as_array(value: Any) -> Any:
    """The array of such a list; other values are themselves."""
    return value.array() if is_late(value) else value
