"""The memory order that NumPy would give every value of a graph."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from fuser.ir import dims, layouts
from fuser.ir.graph import Graph, Node
from fuser.ir.layouts import Layout


def all_c_order(graph: Graph, arrays: Mapping[str, Any]) -> bool:
    """Whether every result is in C order without looking closer."""
    if any(node.op.reorders for node in graph.nodes):
        return False
    return all(array.flags.c_contiguous for array in arrays.values())


def memory_orders(
    graph: Graph, arrays: Mapping[str, Any], sizes: Mapping[str, int]
) -> dict[int, list[int]]:
    """The axis order, outermost first, that NumPy would give every value of a graph."""
    found: dict[int, Layout] = {}
    orders: dict[int, list[int]] = {}
    for node in graph.nodes:
        shape = tuple(dims.evaluate(dim, sizes) for dim in node.shape)
        if node.op.is_input:
            seen = found[id(node)] = layouts.layout_of(arrays[node.payload.name], node.shape)
            orders[id(node)] = layouts.axis_order(len(shape), [seen], copied=True)
            continue
        if node.op.is_iota:
            found[id(node)] = layouts.contiguous(shape, node.shape, node.dtype.itemsize)
            continue
        if not node.args:
            found[id(node)] = Layout(0, (), (), (), ())
            continue
        operands = [found[id(arg)] for arg in node.args]
        if node.op.is_update or node.op.scatters:  # what is written into stays where it is
            base = found[id(node)] = operands[-1 if node.op.scatters else 0]
            orders[id(node)] = layouts.axis_order(len(base.shape), [base], copied=True)
            continue
        if node.op.structure and not node.op.joins:
            seen = found[id(node)] = _seen(operands[0], node, sizes, shape)
            orders[id(node)] = layouts.axis_order(len(seen.shape), [seen], copied=True)
            continue
        if node.op.reduction:
            operands = [_without(operands[0], node.payload.axes, node)]
        if node.op.gathers:
            operands = operands[:-1]
        copied = node.payload.order if node.op.converts else ""
        if copied and node.payload.like:
            order = _order_like(node, found)
        elif copied == "C" or node.op.places:
            order = list(range(len(shape)))
        else:
            whole = bool(copied or node.op.joins)
            order = layouts.axis_order(len(shape), operands, copied=whole)
        orders[id(node)] = order
        if node.op.converts and not copied:  # converted in passing: no array of its own
            found[id(node)] = operands[0]
            continue
        strides = layouts.ordered_strides(shape, order, 1)
        found[id(node)] = Layout(0, shape, strides, node.shape, (False,) * len(shape))
    return orders


def _order_like(node: Node, found: Mapping[int, Layout]) -> list[int]:
    """The order of another array than the one that a cast converts, as the cast says."""
    like = node
    for place in node.payload.like:
        like = like.args[place] if like.args else like
    layout = found[id(like)]
    if len(layout.shape) != len(node.shape):  # a stage of a program knows no more of it
        return list(range(len(node.shape)))
    if node.payload.order == "K":
        return layouts.axis_order(len(layout.shape), [layout], copied=True)
    return _fortran_or_c(layout, like)


def _fortran_or_c(layout: Layout, node: Node) -> list[int]:
    """Fortran order for an array that is contiguous in that order alone, else C order."""
    source = node
    while source.op.structure and not source.op.joins and source.args:
        source = source.args[0]
    unit = source.dtype.itemsize if source.op.is_input else 1
    axes = list(range(len(layout.shape)))
    forms = [
        layouts.ordered_strides(layout.shape, order, unit) for order in (axes, axes[::-1])
    ]
    same = [
        all(n == 1 or s == wanted for n, s, wanted in zip(layout.shape, layout.strides, form,
                                                          strict=True))
        for form in forms
    ]
    return axes[::-1] if same == [False, True] and 0 not in layout.shape else axes


def _without(layout: Layout, axes: Sequence[int], node: Node) -> Layout:
    """The layout of an operand without its reduced axes: a result keeps the order of the rest."""
    kept = [axis for axis in range(len(layout.shape)) if axis not in axes]
    return Layout(
        0,
        tuple(layout.shape[a] for a in kept),
        tuple(layout.strides[a] for a in kept),
        node.shape,
        tuple(layout.repeated[a] for a in kept),
    )


def _seen(
    layout: Layout, node: Node, sizes: Mapping[str, int], shape: tuple[int, ...]
) -> Layout:
    """The layout of a view; a reshape that copies is contiguous."""
    try:
        return node.payload.layout(layout, sizes)  # type: ignore[no-any-return]
    except layouts.NeedsCopy:
        strides = layouts.contiguous_strides(shape, 1)
        return Layout(0, shape, strides, node.shape, (False,) * len(shape))
