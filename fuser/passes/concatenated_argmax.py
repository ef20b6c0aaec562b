"""Where the largest or smallest element of joined arrays is, from its place in each part.

`np.stack([a, b, c]).argmax(0)` compares the layers, `np.concatenate([x, y]).argmax()` the extremes
of x and y: what is joined is never stored. Ties go to the first, and so do NaNs, as in NumPy.
"""

from __future__ import annotations

import numpy as np

from fuser.ir.attributes import Axes
from fuser.ir.dims import Dim, Shape
from fuser.ir.graph import Node, intern, make, make_constant, make_scalar
from fuser.ir.ops import op

#: The reduction that gives the element at a place, and the two operations that compare them.
EXTREMES = {"argmax": ("max", "maximum", "greater"), "argmin": ("min", "minimum", "less")}


def of_layers(node: Node, layers: list[Node]) -> Node:
    """The place among layers of an axis.

    Args:
        node: argmax or argmin.
        layers: what is compared, element by element.
    """
    combine = op(EXTREMES[node.op.name][1])
    best = layers[0]
    for layer in layers[1:]:
        best = intern(combine, (best, layer), node.shape, best.dtype)
    found = make_constant(len(layers) - 1, node.dtype)
    for place in reversed(range(len(layers) - 1)):
        hit = make("equal", layers[place], best)
        if best.dtype.kind == "f":
            hit = make("logical_or", hit, make("isnan", layers[place]))
        found = make("where", hit, make_constant(place, node.dtype), found)
    return found


def of_parts(node: Node, joined: Node) -> Node:
    """The place along the axis of a concatenation.

    Args:
        node: argmax or argmin over that axis alone.
        joined: its operand; no part of it is joined again.
    """
    extreme, combine, better = EXTREMES[node.op.name]
    axis = joined.payload.axis
    best = found = None
    start: Dim = 0
    for part in joined.args:
        value = _reduced(extreme, part, node.shape, node.payload)
        place = make("add", _reduced(node.op.name, part, node.shape, node.payload),
                     _length(start, node.dtype))  # fmt: skip
        start = start + part.shape[axis]
        if best is None or found is None:
            best, found = value, place
            continue
        wins = make(better, value, best)
        if best.dtype.kind == "f":
            here, there = make("isnan", value), make("isnan", best)
            first = make("logical_and", here, make("logical_not", there))
            wins = make("logical_or", wins, first)
        found = make("where", wins, place, found)
        best = intern(op(combine), (best, value), node.shape, best.dtype)
    assert found is not None
    return found


def _reduced(name: str, part: Node, shape: Shape, payload: Axes) -> Node:
    """A reduction of one part."""
    dtype = np.dtype(np.int64) if name in EXTREMES else part.dtype
    return intern(op(name), (part,), shape, dtype, payload)


def _length(length: Dim, dtype: np.dtype[np.generic]) -> Node:
    """A length as a value."""
    if isinstance(length, int):
        return make_constant(length, dtype)
    return make_scalar(str(length), dtype)


def are_parts(joined: Node, axes: tuple[int, ...]) -> bool:
    """Whether a value is a concatenation of plain parts along the one axis that is reduced."""
    plain = joined.op.concatenates and not any(part.op.joins for part in joined.args)
    return plain and axes == (joined.payload.axis,)
