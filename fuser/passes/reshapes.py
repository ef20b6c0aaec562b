"""An operation on reshaped arrays is the reshaped result of that operation on the arrays.

A transposed array as one axis is a copy for NumPy, and no loop nest reads it in place. What is
computed of it, element by element, has the same elements in the transposed array's own shape: the
pass computes it there, and reshapes what comes of it, which is a view of memory that is stored.
"""

from __future__ import annotations

from fuser.ir.dims import Shape
from fuser.ir.graph import Graph, Node, intern, make
from fuser.ir.views import Reshape


def behind(graph: Graph) -> Graph:
    """Move reshapes of transposed arrays to one axis behind elementwise operations.

    The same graph where there are none, or where anything but reshapes reads what comes of them.

    Args:
        graph: rewritten; lengths that are not spelled alike are taken for different ones.
    """
    if not any(node.op.reshapes and node.args[0].op.permutes for node in graph.nodes):
        return graph
    lines, new = dict(graph.lines), dict[int, Node]()
    moved: set[int] = set()
    for node in graph.nodes:
        args = tuple(new[id(arg)] for arg in node.args)
        found = _moved(node, args, moved)
        if found is not None:
            moved.add(id(found))
        elif any(id(arg) in moved for arg in args) and not node.op.reshapes:
            return graph
        elif any(a is not b for a, b in zip(args, node.args, strict=True)):
            found = intern(node.op, args, node.shape, node.dtype, node.payload)
        new[id(node)] = found or node
        if found is not None and (line := graph.line_of(node)) is not None:
            for made in (found, *found.args[: found.op.reshapes]):
                lines.setdefault(id(made), line)
    return graph.with_outputs([new[id(node)] for node in graph.outputs], lines) if moved else graph


def _moved(node: Node, args: tuple[Node, ...], moved: set[int]) -> Node | None:
    """An elementwise operation in the shape that its operands have been reshaped from."""
    if not node.op.is_elementwise or len(node.shape) != 1:
        return None
    turned = [arg.args[0] for arg in args if arg.op.reshapes
              and (arg.args[0].op.permutes or id(arg) in moved)]  # fmt: skip
    if not turned or any(arg.shape not in ((), node.shape) for arg in args):
        return None
    shape = turned[0].shape
    if any(each.shape != shape for each in turned):
        return None
    operands = [_reshaped(arg, shape) if arg.shape else arg for arg in args]
    made = intern(node.op, tuple(operands), shape, node.dtype, node.payload)
    return make("reshape", made, payload=Reshape(node.shape))


def _reshaped(arg: Node, shape: Shape) -> Node:
    """One axis in that shape: a view of any memory."""
    if arg.op.reshapes and arg.args[0].shape == shape:
        return arg.args[0]
    return make("reshape", arg, payload=Reshape(shape))
