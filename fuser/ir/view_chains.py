"""Chains of views: applied to arrays, merged where two are one, and followed axis by axis."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from fuser.base.caches import memo
from fuser.ir import dims
from fuser.ir.attributes import Box, full_box
from fuser.ir.dims import Shape
from fuser.ir.views import FULL, Chain, Index, Seen, View


def apply_views(array: Any, views: Sequence[View], sizes: Mapping[str, int], module: Any) -> Any:
    """A real array through views, by its own module's functions; reshapes may copy."""
    for view in views:
        array = view.of(array, sizes, module)
    return array


def compose(first: Chain, then: Chain) -> Chain:
    """Views one after another, merged where two are one."""
    chain = list(first)
    for view in then:
        if chain and (merged := _then(chain[-1], view)) is not None:
            chain[-1:] = merged
        else:
            chain.append(view)
    return tuple(chain)


@memo(16384)
def _then(first: View, view: View) -> Chain | None:
    """Kept: plans compose the same views again and again."""
    return first.then(view)


def insert_axes(rank: int, axes: Sequence[int]) -> Index:
    """The view that puts reduced axes back with length 1."""
    return Index.of_parts([None if axis in axes else FULL for axis in range(rank)])


@memo(4096)
def seen_through(shape: Shape, views: Chain) -> Seen | None:
    """An array of `shape` through views; None where axes of it are merged or split."""
    return seen_of_box(full_box(shape), views, shape)


def seen_of_box(box: Box, views: Chain, shape: Shape | None = None) -> Seen | None:
    """A box of an array through views; None where axes of it are merged or split."""
    lengths = tuple(dims.steps(*span) for span in box) if shape is None else shape
    ends = (True,) * len(lengths)
    seen: Seen | None = Seen(tuple(range(len(lengths))), ends, lengths, True, box)
    for view in views:
        seen = seen and view.seen(seen)
    return seen


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
