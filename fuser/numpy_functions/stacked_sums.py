"""Sums over an axis along which a few arrays were put together: the arrays are added instead.

`np.linalg.norm(np.cross(a, b), axis=-1)` needs no array of the three products. The additions are
those that NumPy makes along so short an axis, in its order.
"""

from __future__ import annotations

from collections.abc import Sequence

from fuser.ir.attributes import dtype_name
from fuser.ir.graph import Node
from fuser.ir.views import Index
from fuser.tracing.trace_state import Tracing

#: NumPy adds up to seven elements one after another, more of them in several sums side by side.
_LAYERS = 7


def layers(tracing: Tracing, node: Node, axes: Sequence[int]) -> list[Node] | None:
    """The parts of a node along an axis, where a join of single layers is all that it consists of.

    Args:
        tracing: the trace.
        node: what is summed.
        axes: over which axes.

    Returns:
        Arrays of the sum's shape, in order; None where there are none, or where the memory order
        of the sum is not known from them.
    """
    if len(axes) != 1 or len(node.shape) > 2 or dtype_name(node.dtype) == "float16":
        return None
    axis, chain = axes[0], [node]
    while not chain[-1].op.concatenates:
        above = chain[-1]
        wide = [arg for arg in above.args if arg.shape == node.shape]
        rest = [arg for arg in above.args if arg.shape != node.shape]
        row = above.op
        if not wide or any(arg is not wide[0] for arg in wide) or any(arg.shape for arg in rest):
            return None
        if not row.is_elementwise or row.raises:
            return None
        chain.append(wide[0])
    join = chain.pop()
    whole = join.payload.axis == axis and 1 < len(join.args) <= _LAYERS
    if not whole or any(tracing.resolve(part.shape[axis]) != 1 for part in join.args):
        return None
    index = Index((*[slice(None)] * axis, 0))
    return [_through(tracing, tracing.node("index", [part], index), join, chain)
            for part in join.args]  # fmt: skip


def _through(tracing: Tracing, layer: Node, join: Node, chain: Sequence[Node]) -> Node:
    """What the operations after a join make of one of its layers."""
    below = join
    for node in reversed(chain):
        if node.op.converts:
            layer = tracing.cast(layer, node.dtype)
        else:
            operands = [layer if arg is below else arg for arg in node.args]
            layer = tracing.node(node.op.name, operands, node.payload)
        below = node
    return layer
