"""Chains of views: merged where two are one, and recognised where they only repeat a result."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from itertools import dropwhile

from fuser.base.records import record
from fuser.ir import infer
from fuser.ir.dims import Dim

Shape = tuple[Dim, ...]
View = tuple[str, str]
Chain = tuple[View, ...]


def compose(first: Chain, then: Chain) -> Chain:
    """Views one after another, merged where two simple slices are one."""
    chain = list(first)
    for view in then:
        if chain and (merged := _merge(chain[-1], view)) is not None:
            chain[-1:] = merged
        else:
            chain.append(view)
    return tuple(chain)


@lru_cache(maxsize=16384)
def _merge(first: View, then: View) -> tuple[View, ...] | None:
    """`x[1:][:-1]` is `x[1:-1]`; None where two views are not merged."""
    if first[0] == then[0] == "transpose":
        inner, outer = ([int(a) for a in v[1].split(",") if a.strip()] for v in (first, then))
        order = [inner[axis] for axis in outer]
        merged = ("transpose", ", ".join(map(str, order)))
        return () if order == sorted(order) else (merged,)
    if first[0] == then[0] and first[0] in ("broadcast_to", "reshape"):
        return (then,)
    if first[0] == "index" and then[0] == "broadcast_to":
        return _without_leading_axes(first, then)
    if first[0] != "index" or then[0] != "index":
        return None
    left, right = infer.parse_index(first[1]), infer.parse_index(then[1])
    if any(not isinstance(part, slice) for part in (*left, *right)):
        return None
    size = max(len(left), len(right))
    left += (slice(None),) * (size - len(left))
    right += (slice(None),) * (size - len(right))
    parts = []
    for a, b in zip(left, right, strict=True):
        assert isinstance(a, slice)
        assert isinstance(b, slice)
        part = _merge_slices(a, b)
        if part is None:
            return None
        parts.append(part)
    while parts and parts[-1] == slice(None):
        parts.pop()
    return (("index", infer.spell_index(parts)),) if parts else ()


def _without_leading_axes(first: View, then: View) -> tuple[View, ...] | None:
    """`x[None, :, None]` seen through a broadcast is `x[:, None]`: that puts axes in front.

    Not so of single numbers: a total that others need too is rather had in a kernel before them.
    """
    parts = infer.parse_index(first[1])
    if len(parts) == len(infer.parse_shape(then[1])) and all(part is None for part in parts):
        return None
    rest = list(dropwhile(lambda part: part is None, parts))
    if len(rest) == len(parts):
        return None
    while rest and rest[-1] == slice(None):
        rest.pop()
    return (("index", infer.spell_index(rest)), then) if rest else (then,)


def _merge_slices(a: slice, b: slice) -> slice | None:
    """Merge slices that only drop elements from the ends."""
    if b == slice(None):
        return a
    if a == slice(None):
        return b
    for part in (a, b):
        drops = (part.start or 0) >= 0 and (part.stop is None or part.stop < 0)
        if part.step is not None or not drops:
            return None
    start = (a.start or 0) + (b.start or 0)
    stop = (a.stop or 0) + (b.stop or 0)
    return slice(start or None, stop or None)


def insert_axes(rank: int, axes: Sequence[int]) -> View:
    """The view that puts reduced axes back with length 1."""
    parts = [None if axis in axes else slice(None) for axis in range(rank)]
    while parts and parts[-1] == slice(None):
        parts.pop()
    return ("index", infer.spell_index(parts))


@record
class Seen:
    """What an array looks like through views.

    Attributes:
        axes: the array's axis behind each axis that is seen; None for one that only repeats.
        ends: whether each is seen from end to end.
        whole: nothing is left out: axes are only moved, added and repeated.
    """

    axes: tuple[int | None, ...]
    ends: tuple[bool, ...]
    whole: bool


@lru_cache(maxsize=4096)
def seen_through(shape: Shape, views: Chain) -> Seen | None:
    """An array of `shape` through views; None where axes of it are merged or split."""
    axes: list[int | None] = list(range(len(shape)))
    ends, lengths = [True] * len(shape), list(shape)
    whole = True
    for name, payload in views:
        if name == "transpose":
            order = infer.parse_axes(payload)
            axes, ends = [axes[k] for k in order], [ends[k] for k in order]
            lengths = [lengths[k] for k in order]
        elif name == "broadcast_to":
            wide = infer.parse_shape(payload)
            lead = len(wide) - len(lengths)
            for k, (length, wanted) in enumerate(zip(lengths, wide[lead:], strict=True)):
                axes[k] = None if length == 1 and wanted != 1 else axes[k]
            axes, ends = [*[None] * lead, *axes], [True] * lead + ends
            lengths = list(wide)
        elif name == "part":
            along = infer.parse_part(payload)[0]
            ends[along], lengths[along], whole = False, -1, False
        elif name == "index":
            place = 0
            for part in infer.parse_index(payload):
                if part is None:
                    axes.insert(place, None)
                    ends.insert(place, True)
                    lengths.insert(place, 1)
                elif isinstance(part, slice):
                    if part != slice(None):
                        ends[place], lengths[place], whole = False, -1, False
                else:
                    whole = whole and axes[place] is None
                    del axes[place], ends[place], lengths[place]
                    continue
                place += 1
        elif name != "component":
            return None
    return Seen(tuple(axes), tuple(ends), whole)


def spans(shape: Shape, views: Chain, target: Shape, axes: tuple[int, ...]) -> bool:
    """Whether views repeat a result of `shape` along the reduced axes and do nothing else."""
    kept = iter(range(len(shape)))
    wanted = tuple(None if axis in axes else next(kept, -1) for axis in range(len(target)))
    seen = seen_through(shape, views)
    return seen is not None and seen.whole and seen.axes == wanted


def repeats(shape: Shape, views: Chain, axes: tuple[int, ...]) -> bool:
    """Whether an array of `shape`, seen through views, is surely the same along some axes."""
    seen = seen_through(shape, views)
    return seen is not None and all(seen.axes[axis] is None for axis in axes)
