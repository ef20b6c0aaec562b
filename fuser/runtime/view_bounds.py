"""Whether every view of a graph lies within what it looks at, for the lengths of a call.

Graphs that were traced say so by their guards. A graph's text may come from anywhere, and kernels
check no bounds: so each combination of lengths is looked at once, before kernels are bound to it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from fuser.ir import dims, infer, regions
from fuser.ir.graph import Graph, Node

Lengths = tuple[int, ...]


def outside(graph: Graph, sizes: Mapping[str, int]) -> str:
    """What does not fit, in words; "" where all does.

    Args:
        graph: the graph, whose guards hold.
        sizes: lengths by symbol.
    """
    for node in graph.nodes:
        if not _fits(node, sizes):
            operands = " and ".join(arg.type for arg in node.args)
            return f"{node.op.name}{{{node.payload}}} of {operands} for {dict(sizes)}"
    return ""


def _fits(node: Node, sizes: Mapping[str, int]) -> bool:
    """Whether the elements of a node are elements of its operands."""
    check = _CHECKS.get(node.op.name)
    if check is None:
        return True
    shape = _lengths(node.shape, sizes)
    operands = [_lengths(arg.shape, sizes) for arg in node.args]
    return all(length >= 0 for length in shape) and check(node.payload, shape, operands, sizes)


def _part(payload: str, shape: Lengths, operands: list[Lengths], sizes: Mapping[str, int]) -> bool:
    """A range of one axis."""
    axis, *span = infer.parse_part(payload)
    return _spans(span, operands[0][axis], sizes, shape[axis])


def _update(
    payload: str, shape: Lengths, operands: list[Lengths], sizes: Mapping[str, int]
) -> bool:
    """A region that is written: as large as what is written into it."""
    spans = regions.parse(payload)
    return len(operands[1]) == len(spans) and all(
        _spans(span, length, sizes, count)
        for span, length, count in zip(spans, operands[0], operands[1], strict=True)
    )


def _index(payload: str, shape: Lengths, operands: list[Lengths], sizes: Mapping[str, int]) -> bool:
    """Basic indexing: slices are cut to the axis, integers are not."""
    parts = [part for part in infer.parse_index(payload) if part is not None]
    pairs = zip(parts, operands[0], strict=False)
    return all(isinstance(p, slice) or -length <= p < length for p, length in pairs)


def _broadcast(
    payload: str, shape: Lengths, operands: list[Lengths], sizes: Mapping[str, int]
) -> bool:
    """Axes of length 1, repeated, and new ones before."""
    lead = len(shape) - len(operands[0])
    return lead >= 0 and all(
        mine in (1, length) for mine, length in zip(operands[0], shape[lead:], strict=True)
    )


#: By row: whether the elements that its payload speaks of are there. Rows without an entry have
#: shapes that follow from those of their operands.
_CHECKS: Mapping[str, Callable[[str, Lengths, list[Lengths], Mapping[str, int]], bool]] = {
    "part": _part,
    "update": _update,
    "index": _index,
    "broadcast_to": _broadcast,
    "reshape": lambda _, shape, operands, __: dims.product(shape) == dims.product(operands[0]),
    "positions": lambda *_: True,
    "diagonal": lambda _, __, operands, ___: operands[0][0] == operands[0][1],
}


def _lengths(shape: Sequence[dims.Dim], sizes: Mapping[str, int]) -> Lengths:
    """A shape's lengths."""
    return tuple(dims.evaluate(dim, sizes) for dim in shape)


def _spans(span: Sequence[dims.Dim], length: int, sizes: Mapping[str, int], count: int) -> bool:
    """Whether start, start + step, … below stop are so many places of an axis."""
    start, stop = (dims.evaluate(bound, sizes) for bound in span[:2])
    step = span[2]
    assert isinstance(step, int)
    places = range(start, stop, step)
    return start >= 0 and step > 0 and count == len(places) and (not places or places[-1] < length)
