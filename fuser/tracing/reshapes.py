"""Reshapes as views: of which memory they surely are, so that both see what is written.

NumPy copies where the axes that a reshape merges do not lie one after another in memory. One that
only splits axes is a view of any memory; others are where the array is contiguous in C order: made
so by the function itself, or an argument that is, which the trace then holds for. Transposed memory
as one axis is a copy, but for axes of one element; the trace then holds for which those are.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from fuser.base.errors import Unsupported
from fuser.ir.attributes import Extent, Region, full_box
from fuser.ir.dims import Dim
from fuser.ir.graph import Node
from fuser.ir.views import Index, Part, Reshape, Transpose, View
from fuser.tracing.memory_views import ComplexPart, Contiguous
from fuser.tracing.trace_state import Storage, Tracing


def check_writable(tracing: Tracing, storage: Storage) -> None:
    """Refuse a write that another array may have to see.

    Raises:
        Unsupported: a function between kernels gave a view of this memory, or this is one; or
            a reshape of it may be a copy or a view.
    """
    if storage.shared:
        raise Unsupported("write-into-view", "assignment", "memory that a result shares")
    leave_copies(tracing, storage)
    if storage.reshapes and not surely_views(tracing, storage):
        found = "a reshape of it may share its memory"
        raise _hidden_view(tracing, "write-into-view", "assignment", found)


def check_results(tracing: Tracing, results: Iterable[Any]) -> None:
    """Refuse results that share one reshape, which may be a copy: each would be made of its own.

    Raises:
        Unsupported: there are such.
    """
    seen: dict[int, Any] = {}
    for result in results:
        for view in result.views:
            first = seen.setdefault(id(view), result)
            through = isinstance(view, (Reshape, Contiguous)) and first is not result
            if through and not surely_views(tracing, result.storage):
                found = "a reshape that results share may be a copy"
                raise _hidden_view(tracing, "unsupported-layout", "a result", found)


def _hidden_view(tracing: Tracing, code: str, operation: str, found: str) -> Unsupported:
    """The reason that nobody knows whose memory a reshape is."""
    error = Unsupported(code, operation, found)
    arrays = [argument.array for argument in tracing.arguments]
    error.of_order = not all(array.flags.c_contiguous for array in arrays)
    return error


def leave_copies(tracing: Tracing, storage: Storage) -> None:
    """Give reshapes that are surely copies memory of their own, which no later write changes."""
    needed = _needed(tracing, storage) if storage.reshapes else None
    for entry in list(storage.reshapes) if needed is not None else ():
        left = any(each is entry for each in storage.reshapes)
        if left and _is_copy(tracing, *entry):
            tracing.in_order |= dict.fromkeys(needed or ())
            _leave(tracing, storage, entry[0])


def _leave(tracing: Tracing, storage: Storage, views: tuple[View, ...]) -> None:
    """Give what is seen through views of memory, the last of which copies, memory of its own."""
    count = len(views)

    def is_behind(others: tuple[View, ...]) -> bool:
        return len(others) >= count and others[count - 1] is views[-1]

    seen = [each for each in storage.through if is_behind(each.views)]
    if seen:  # else all have left in another branch
        own = Storage(type(seen[0]).make(tracing, storage, views, False).node)
        for each in seen:
            each.storage, each.views = own, each.views[count:]
        own.through = [each for each in seen if each.views]
        own.reshapes = [(way[count:], before, after) for way, before, after in storage.reshapes
                        if len(way) > count and is_behind(way)]  # fmt: skip
    storage.through = [each for each in storage.through if each.storage is storage]
    storage.reshapes = [entry for entry in storage.reshapes if not is_behind(entry[0])]


def _is_copy(
    tracing: Tracing, views: Sequence[View], before: Sequence[Dim], after: Sequence[Dim] | None
) -> bool | None:
    """Whether a reshape of contiguous memory copies it; None where that is not known.

    Transposed memory as one axis is a copy where axes of more than one element change places: the
    trace then holds for which axes those are.

    Args:
        tracing: the trace.
        views: how the memory is seen; the last of them is the reshape.
        before: the shape that is reshaped.
        after: what into; None where a copy is made if need be.
    """
    turned = views[-2] if len(views) > 1 else None
    if after is None or not isinstance(turned, Transpose) or not _runs_on(views[:-2]):
        return None
    if sum(tracing.resolve(dim) != 1 for dim in after) != 1:
        return None
    places = []
    for place, dim in zip(turned.order, map(tracing.resolve, before), strict=True):
        is_one = tracing.size(dim) == 1
        if not isinstance(dim, int):
            tracing.guard_value(f"({dim}) == 1", is_one)
        if not is_one:
            places.append(place)
    return places != sorted(places)


def surely_views(tracing: Tracing, storage: Storage) -> bool:
    """Whether all reshapes of some memory so far are views of it; notes what that takes."""
    needed: set[int] | None = None
    for views, before, after in storage.reshapes:
        if after is not None and only_splits(tracing, before, after):
            continue
        if needed is None:
            needed = _needed(tracing, storage)
        if needed is None:
            return False
        if not _runs_on(views[:-1]) and _is_copy(tracing, views, before, after) is not False:
            return False
    for place in needed or ():
        tracing.in_order[place] = None
    return True


def put_back(tracing: Tracing, base: Node, view: View, shown: Node) -> Node:
    """The value of what is seen through a view, by that of what the view shows.

    Args:
        tracing: the trace.
        base: the value before.
        view: a reshape, a diagonal, a part, or parts of complex numbers.
        shown: what it has to show.
    """
    if isinstance(view, Part):
        box = list(full_box(base.shape))
        box[view.axis] = view.span
        return tracing.node("update", [base, shown], Region(tuple(box)))
    if isinstance(view, Reshape):
        return tracing.node("reshape", [shown], Reshape(base.shape))
    if isinstance(view, Contiguous):
        return shown
    if isinstance(view, ComplexPart):
        is_real = view.name == "real"
        other = tracing.node("imag" if is_real else "real", [base])
        return tracing.node("join_complex", [shown, other] if is_real else [other, shown])
    rank = len(base.shape)  # the diagonal of the first two axes is the last one
    order = Transpose((rank - 2, *range(rank - 2)))
    turned = tracing.node("transpose", [shown], order) if rank > 2 else shown
    rows = tracing.node("index", [turned], Index((slice(None), None)))
    places = [tracing.node("positions", (), Extent(dim)) for dim in base.shape[:2]]
    around = [None] * (rank - 2)
    sides = [
        tracing.node("index", [place], Index((*lead, *around)))
        for place, lead in zip(places, ([slice(None), None], [None, slice(None)]), strict=True)
    ]
    on_it = tracing.node("equal", sides)
    return tracing.node("where", [on_it, rows, base])


def in_order(tracing: Tracing, storage: Storage) -> bool:
    """Whether some memory is the function's own and in C order; notes what that takes."""
    needed = None if storage.argument is not None else _needed(tracing, storage)
    for place in needed or ():
        tracing.in_order[place] = None
    return needed is not None


def computed_as(node: Node) -> tuple[Node, tuple[View, ...]]:
    """The value that a result is a reshape of, where it is computed in that shape, and the view."""
    if node.op.reshapes and node.args[0].op.is_update:
        return node.args[0], (node.payload,)
    return node, ()


def only_splits(tracing: Tracing, before: Sequence[Dim], after: Sequence[Dim]) -> bool:
    """Whether every axis of the old shape becomes axes of its own in the new one."""
    old = [dim for dim in map(tracing.resolve, before) if dim != 1]
    new = [dim for dim in map(tracing.resolve, after) if dim != 1]
    for backwards in (False, True):
        while len(old) > 1 and (count := _first_split(old, new, backwards)):
            old = old[:-1] if backwards else old[1:]
            new = new[:-count] if backwards else new[count:]
    return len(old) < 2


def _first_split(old: Sequence[Dim], new: Sequence[Dim], backwards: bool) -> int:
    """How many axes at one end of the new shape are the old one's last one there; 0 if none."""
    place = -1 if backwards else 0
    product: Dim = 1
    for count, dim in enumerate(reversed(new) if backwards else new, 1):
        product = product * dim
        if product == old[place]:
            return count
    return 0


def _runs_on(views: Sequence[View]) -> bool:
    """Whether what views of contiguous memory show is contiguous, too."""
    for view in views:
        if isinstance(view, (Reshape, Contiguous)) or (isinstance(view, Part) and view.axis == 0):
            continue
        if not isinstance(view, Index):
            return False
        whole = True  # only places along axes so far
        for part in view.entries:
            if not whole and part != slice(None):
                return False
            if isinstance(part, slice):
                whole = False
                if part.step not in (None, 1):
                    return False
    return True


def _needed(tracing: Tracing, storage: Storage) -> set[int] | None:
    """Which arguments have to be in C order for some memory to be; None if that is not known.

    Those that are not in this call are no use: then it is not known, either.
    """
    needed: set[int] = set()
    if storage.argument is not None:
        needed.add(storage.argument)
    elif not _in_order(tracing, storage.first, needed):
        return None
    found = [tracing.arguments[place] for place in needed]
    known = all(one.leaf is not None and one.array.flags.c_contiguous for one in found)
    return needed if known else None


def _copies(node: Node, order: str) -> bool:
    """Whether a conversion makes an array of its own in a memory order."""
    return bool(node.payload.order == order and not node.payload.like)


def _in_order(tracing: Tracing, first: Node, needed: set[int]) -> bool:
    """Whether a new array is in C order, given that the arguments are which are added."""
    if first.op.is_view or first.op.is_opaque or first.op.is_input:
        return False  # a view's memory is another one's
    inputs = {id(a.initial): place for place, a in enumerate(tracing.arguments)}
    waiting, seen = [first], set()
    while waiting:
        node = waiting.pop()
        row = node.op
        if id(node) in seen or len(node.shape) < 2:
            continue
        seen.add(id(node))
        if row.converts and _copies(node, "C"):
            continue
        if row.is_iota or row.places:
            continue
        if row.is_input:
            if id(node) not in inputs:  # what an iteration of a loop finds
                return False
            needed.add(inputs[id(node)])
            continue
        known = not row.structure or row.joins or row.indexes or row.reshapes or row.is_update
        if row.converts and node.payload.order and not _copies(node, "K"):
            known = False
        if not known:
            return False
        waiting.extend(node.args[:1] if row.is_update else node.args)
    return True
