"""Memory inside a trace: what an array is a view of, and what a write into it changes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from fuser.base.errors import Unsupported
from fuser.ir import dims
from fuser.ir.dims import Dim
from fuser.ir.graph import Node
from fuser.ir.views import Broadcast, Diagonal, Index, Reshape, View
from fuser.tracing.memory_views import ComplexPart, Contiguous
from fuser.tracing.trace_state import Storage, Tracing
from fuser.tracing.traced_scalars import HostScalar

#: Views that writes go through: what they show changes first, then what they are of.
THROUGH: tuple[type[View], ...] = (Reshape, Contiguous, Diagonal, ComplexPart)


class TracedMemory:
    """What an array inside a trace looks at, and what it knows of itself.

    Attributes:
        generic: NumPy would have a scalar here, not a 0-d array.
    """

    __slots__ = ("_dtype", "_shape", "generic", "storage", "tracing", "views")

    def __init__(
        self, tracing: Tracing, storage: Storage, views: tuple[View, ...], generic: bool
    ) -> None:
        """Stand for `storage` seen through `views`."""
        self.tracing = tracing
        self.storage = storage
        self.views = views
        self.generic = generic
        if any(isinstance(view, (Reshape, Contiguous)) for view in views):
            storage.through.append(self)
        node = self.node
        self._shape = node.shape
        self._dtype = node.dtype

    @classmethod
    def make(
        cls, tracing: Tracing, storage: Storage, views: tuple[View, ...], generic: bool
    ) -> Any:
        """A stand-in of the class that such an array or scalar has."""
        return cls(tracing, storage, views, generic)

    @property
    def node(self) -> Node:
        """The value now."""
        self.tracing.note_read(self.storage.looks_at)
        node = self.storage.node
        for view in self.views:
            if not isinstance(view, Contiguous):
                node = self.tracing.node(view.op, [node], view.attribute)
            elif view.order:
                node = self.tracing.own(node, node.dtype, view.order)
        return node

    def assign(self, node: Node, strict: bool = False) -> None:
        """Replace the whole value, as writing into the array does.

        Args:
            node: the new value; it is broadcast to the array's shape.
            strict: extra leading axes of length 1 are refused, as ufuncs do for `out=`.

        Raises:
            ValueError: it does not broadcast to the array's shape.
            Unsupported: it is not known what else looks at the memory.
        """
        from fuser.tracing import reshapes

        tracing = self.tracing
        if Diagonal() in self.views:
            raise ValueError("assignment destination is read-only")  # so are NumPy's diagonals
        given = node.shape
        extra = len(given) - len(self._shape)
        if extra > 0 and not strict and all(tracing.size(dim) == 1 for dim in given[:extra]):
            tracing.fits_into((1,) * extra, given[:extra])  # in later calls, too
            node = tracing.node("index", [node], Index((0,) * extra))
        if not tracing.fits_into(self._shape, node.shape):
            raise ValueError(
                f"could not broadcast shape {tuple(map(tracing.size, given))} "
                f"into an array of shape {tuple(map(tracing.size, self._shape))}"
            )
        if node.shape != self._shape:
            shape = tuple(map(tracing.resolve, self._shape))
            node = tracing.node("broadcast_to", [node], Broadcast(shape))
        reshapes.check_writable(tracing, self.storage)
        in_place = strict and any(arg is self.storage.node for arg in node.args)
        # Where other operands lie in another order, the result of the same operation would, too.
        in_place = in_place and all(a is self.storage.node or not a.shape for a in node.args)
        order_matters = len(self._shape) > 1 and not in_place
        if self.views or order_matters or node.op.is_opaque:
            self._update(node)
            return
        tracing.note_write(self.storage.argument)
        self.storage.replace(node)

    def _update(self, node: Node) -> None:
        """Write a value of this view's shape into the memory behind it."""
        from fuser.tracing import boxes

        tracing, storage = self.tracing, self.storage
        if self._changed_behind(lambda shown: shown._update(node)):
            return
        target = boxes.locate(tracing, storage.node.shape, self.views, storage.reach)
        if target is None:
            tracing.update(self, ..., tracing.wrap(node))
            return
        if target.empty:
            return
        storage.reach = max(storage.reach, target.reach)
        value = boxes.laid_out(tracing, target, node)
        tracing.note_write(storage.argument)
        storage.replace(tracing.node("update", [storage.node, value], target.region))

    def _changed_behind(
        self, change: Callable[[Any], None], through: tuple[type[View], ...] = THROUGH
    ) -> bool:
        """Change what the last reshape or diagonal on the way shows, and then what it is of.

        Args:
            change: given the same views of what is shown, as if that were memory of its own.
            through: views that are left behind.

        Returns:
            False where this is not seen through any: nothing is done.
        """
        from fuser.tracing import reshapes

        tracing, storage = self.tracing, self.storage
        places = [k for k, view in enumerate(self.views) if isinstance(view, through)]
        if not places:
            return False
        before, view = self.views[: places[-1]], self.views[places[-1]]
        base = TracedMemory(tracing, storage, before, False)
        shown = Storage(TracedMemory(tracing, storage, (*before, view), False).node)
        shown.reach = storage.reach
        change(self.make(tracing, shown, self.views[places[-1] + 1 :], False))
        storage.reach = max(storage.reach, shown.reach)
        value = reshapes.put_back(tracing, base.node, view, shown.node)
        if not before and isinstance(view, Reshape) and reshapes.in_order(tracing, storage):
            storage.replace(value)  # memory of one order, in whatever shape it is computed
        else:
            base._update(value)
        return True

    def _view(self, view: View, generic: bool = False) -> Any:
        """Another way to see the same memory; a scalar has none, it is copied."""
        if self.generic and isinstance(view, Broadcast):
            return self.make(self.tracing, Storage(self.node), (view,), False)
        if self.generic:
            node = self.tracing.node(view.op, [self.node], view.attribute)
            is_index = isinstance(view, Index)
            return self.tracing.wrap(node, generic or (not is_index and not node.shape))
        seen = self.make(self.tracing, self.storage, (*self.views, view), generic)
        if isinstance(view, (Reshape, Contiguous)):  # of some memory it is a copy
            after = seen._shape if isinstance(view, Reshape) else None
            self.storage.reshapes.append((seen.views, self._shape, after))
        return self.tracing.wrap(seen.node, True) if generic else seen  # a scalar is a copy

    @property  # type: ignore[misc] # as mocks do
    def __class__(self) -> type:
        """What `isinstance` in the user's code is told: an array, or a NumPy scalar."""
        return self.dtype.type if self.generic else np.ndarray

    # -- what an array knows of itself ------------------------------------------------------

    def _length(self, dim: Dim) -> Any:
        """A length as the user sees it: an int, or a number that stays symbolic."""
        dim = self.tracing.resolve(dim)
        if isinstance(dim, int):
            return dim
        return HostScalar(self.tracing, str(dim), self.tracing.size(dim))

    @property
    def shape(self) -> tuple[Any, ...]:
        """Lengths; used in arithmetic they stay symbolic, used as structure they are guards."""
        return tuple(self._length(dim) for dim in self._shape)

    @shape.setter
    def shape(self, value: Any) -> None:
        """Refused."""
        raise Unsupported("unsupported-function", "ndarray.shape = ...", "")

    @property
    def dtype(self) -> np.dtype[Any]:
        """The dtype."""
        return self._dtype

    @dtype.setter
    def dtype(self, value: Any) -> None:
        """Refused: the same bytes would be other values."""
        raise Unsupported("unsupported-function", "ndarray.dtype = ...", "")

    @property
    def dims(self) -> tuple[Dim, ...]:
        """Symbolic lengths."""
        return self._shape

    @property
    def ndim(self) -> int:
        """The rank."""
        return len(self._shape)

    @property
    def size(self) -> Any:
        """The number of elements."""
        return self._length(dims.product(self._shape))

    @property
    def itemsize(self) -> int:
        """Bytes an element."""
        return self.dtype.itemsize

    @property
    def nbytes(self) -> Any:
        """Bytes in all."""
        return self._length(dims.product(self._shape) * self.dtype.itemsize)

    def __repr__(self) -> str:
        """Refused, unless the function raises: see `Tracing.shown`."""
        return repr(self.tracing.shown(self, "str()"))

    def __str__(self) -> str:
        """Likewise."""
        return str(self.tracing.shown(self, "str()"))
