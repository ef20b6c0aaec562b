"""Complex numbers as two real ones, for backends whose kernels have no complex values.

Arguments and results stay arrays of complex numbers: a kernel reads their real and imaginary parts
as views of one buffer (`component`), and writes both into another (`from_components`). Everything
between is real. Operations are NumPy's, one by one: products have four multiplications, quotients
are R. L. Smith's ("Algorithm 116: complex division", CACM 5(8), 1962) with NumPy's answer to a zero
divisor, absolute values are hypot. Exponentials follow C99 (ISO/IEC 9899:1999, annex G.6.3.1) where
parts are infinite or NaN.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from fuser.ir.attributes import Cast
from fuser.ir.dims import Shape
from fuser.ir.graph import (
    Graph,
    Node,
    constant_value,
    intern,
    make_constant,
    make_scalar,
    put_on_line,
)
from fuser.ir.ops import component, op
from fuser.ir.views import Broadcast, Component

#: The real and the imaginary part of a value.
Pair = tuple[Node, Node]

#: Rows of complex operands that are spelled here.
ROWS = frozenset(
    "add subtract multiply divide negative positive absolute square reciprocal exp equal not_equal "
    "isnan isinf isfinite where cast real imag conjugate join_complex".split()
)


def lowered(graph: Graph) -> Graph:
    """The graph with real values alone, but for what it takes and gives.

    Args:
        graph: rewritten; its complex rows are among `ROWS`.
    """
    pairs: dict[int, Pair] = {}
    plain: dict[int, Node] = {}
    axis: dict[int, str] = {}
    lines = dict(graph.lines)
    for node in graph.nodes:
        before = graph.line_of(node)
        if node.dtype.kind == "c":
            axis[id(node)] = _axis(node, axis)
            known = axis.get(id(node.args[0]), "") if len(node.args) == 1 else ""
            if spelled := ON_AXIS.get((node.op.name, known)):
                pairs[id(node)] = spelled(node.shape, pairs[id(node.args[0])])
            else:
                pairs[id(node)] = _pair(node, pairs, plain)
        else:
            plain[id(node)] = _widened(_real(node, pairs, plain), node)
        if before:
            put_on_line(pairs.get(id(node)) or (plain[id(node)],), before, lines)
    outputs = [
        intern(op("from_components"), _both(pairs[id(node)], node), node.shape, node.dtype)
        if node.dtype.kind == "c"
        else plain[id(node)]
        for node in graph.outputs
    ]
    for output, node in zip(outputs, graph.outputs, strict=True):
        put_on_line((output,), graph.line_of(node), lines)
    return graph.with_outputs(outputs, lines)


def _axis(node: Node, known: Mapping[int, str]) -> str:
    """The axis of the plane that a value lies on: "real", "imaginary", or "" where none is known.

    The other part is zero then, or NaN where this one is infinite or NaN.
    """
    if node.op.converts:
        source = node.args[0]
        return known[id(source)] if source.dtype.kind == "c" else "real"
    if node.op.is_constant:
        value = constant_value(node)
        if not np.isfinite(value):
            return ""
        return "real" if value.imag == 0 else "imaginary" if value.real == 0 else ""
    if any(arg.dtype.kind != "c" for arg in node.args) or not node.args:
        return ""
    axes = [known[id(arg)] for arg in node.args]
    return AXES[node.op.name](*axes) if node.op.name in AXES else ""


def _product_axis(left: str, right: str) -> str:
    """The axis of a product."""
    return "" if "" in (left, right) else "real" if left == right else "imaginary"


def _pair(node: Node, pairs: Mapping[int, Pair], plain: Mapping[int, Node]) -> Pair:
    """The parts of a complex value."""
    row, dtype = node.op, component(node.dtype)
    if row.is_input:
        size = dtype.itemsize
        first, second = (
            intern(op("component"), (node,), node.shape, dtype, Component(k * size)) for k in (0, 1)
        )
        return first, second
    if row.is_constant:
        value = constant_value(node)
        return make_constant(value.real, dtype), make_constant(value.imag, dtype)
    if row.is_scalar:
        text = f"({node.payload.expression})"
        return make_scalar(f"real({text})", dtype), make_scalar(f"imag({text})", dtype)
    if row.converts:
        return _converted(node, pairs, plain)
    if row.name in OF_REAL:
        return OF_REAL[row.name](node, pairs, plain)
    operands = [pairs[id(arg)] for arg in node.args]
    if row.structure:
        whole = [
            _both(parts, arg)
            for arg, parts in zip(node.args, operands, strict=True)
        ]
        real, imaginary = (
            intern(row, parts, node.shape, dtype, node.payload)
            for parts in zip(*whole, strict=True)
        )
        return real, imaginary
    return ARITHMETIC[row.name](node.shape, *operands)


def _chosen(node: Node, pairs: Mapping[int, Pair], plain: Mapping[int, Node]) -> Pair:
    """The parts of one value or another."""
    condition = plain[id(node.args[0])]
    left, right = (pairs[id(arg)] for arg in node.args[1:])
    real, imaginary = (
        _made("where", node.shape, condition, *both) for both in zip(left, right, strict=True)
    )
    return real, imaginary


def _joined(node: Node, pairs: Mapping[int, Pair], plain: Mapping[int, Node]) -> Pair:
    """The parts that a value is made of."""
    return _both((plain[id(node.args[0])], plain[id(node.args[1])]), node)


def _converted(node: Node, pairs: Mapping[int, Pair], plain: Mapping[int, Node]) -> Pair:
    """The parts of a cast to complex numbers."""
    (source,) = node.args
    dtype = component(node.dtype)
    if source.dtype.kind == "c":
        real, imaginary = pairs[id(source)]
        return _cast(real, dtype), _cast(imaginary, dtype)
    return _cast(plain[id(source)], dtype), make_constant(0.0, dtype)


def _cast(node: Node, dtype: np.dtype[np.generic]) -> Node:
    """A value in another dtype."""
    if node.dtype == dtype:
        return node
    return intern(op("cast"), (node,), node.shape, dtype, Cast(dtype))


def _both(pair: Pair, whole: Node) -> Pair:
    """Both parts with the shape of what they are parts of."""
    return _widened(pair[0], whole), _widened(pair[1], whole)


def _widened(node: Node, whole: Node) -> Node:
    """A part with the shape of what it is part of."""
    if node.shape == whole.shape:
        return node
    return intern(op("broadcast_to"), (node,), whole.shape, node.dtype, Broadcast(whole.shape))


def _real(node: Node, pairs: Mapping[int, Pair], plain: Mapping[int, Node]) -> Node:
    """A value that is not complex, whose operands may be."""
    if not any(arg.dtype.kind == "c" for arg in node.args):
        same = all(plain[id(arg)] is arg for arg in node.args)
        args = tuple(plain[id(arg)] for arg in node.args)
        return node if same else intern(node.op, args, node.shape, node.dtype, node.payload)
    operands = [pairs[id(arg)] for arg in node.args]
    if node.op.name in PLAIN:
        return PLAIN[node.op.name](node.shape, *operands[0])
    if node.op.converts:  # NumPy drops the imaginary part, but asks it whether it is zero
        (real, imaginary), dtype = operands[0], node.dtype
        if dtype.kind != "b":
            return _cast(real, dtype)
        zero = make_constant(0.0, real.dtype)
        parts = [_made("not_equal", node.shape, each, zero) for each in (real, imaginary)]
        return _made("logical_or", node.shape, *parts)
    first, second = (
        _made(node.op.name, node.shape, *parts) for parts in zip(*operands, strict=True)
    )
    return _made(TRUTHS[node.op.name], node.shape, first, second)


# -- arithmetic -----------------------------------------------------------------------------


def _made(name: str, shape: Shape, *args: Node) -> Node:
    """An elementwise operation of values that are broadcast to a shape."""
    row = op(name)
    dtype = np.dtype(bool) if row.result == "bool" else args[-1].dtype
    if all(not arg.shape for arg in args):
        shape = ()
    return intern(row, args, shape, dtype)


def _componentwise(name: str) -> Callable[..., Pair]:
    """A row that is the same of each part."""

    def made(shape: Shape, *operands: Pair) -> Pair:
        real, imaginary = (_made(name, shape, *parts) for parts in zip(*operands, strict=True))
        return real, imaginary

    return made


def _conjugate(shape: Shape, z: Pair) -> Pair:
    return z[0], _made("negative", shape, z[1])


def _multiply(shape: Shape, z: Pair, w: Pair) -> Pair:
    (a, b), (c, d) = z, w

    def product(x: Node, y: Node) -> Node:
        return _made("multiply", shape, x, y)

    real = _made("subtract", shape, product(a, c), product(b, d))
    return real, _made("add", shape, product(a, d), product(b, c))


def _square(shape: Shape, z: Pair) -> Pair:
    return _multiply(shape, z, z)


def _divide(shape: Shape, z: Pair, w: Pair) -> Pair:
    (a, b), (c, d) = z, w
    own = c.shape or d.shape  # what depends on the divisor alone is no wider than it
    wide, high = _made("absolute", own, c), _made("absolute", own, d)
    swap = _made("less", own, wide, high)
    p, q = _made("where", own, swap, d, c), _made("where", own, swap, c, d)
    ratio = _made("divide", own, q, p)
    scale = _made("add", own, p, _made("multiply", own, q, ratio))
    scale = _made("divide", own, make_constant(1.0, c.dtype), scale)
    x, y = _made("where", shape, swap, b, a), _made("where", shape, swap, a, b)
    scaled = _made("multiply", shape, x, ratio)
    real = _made("add", shape, x, _made("multiply", shape, y, ratio))
    real = _made("multiply", shape, real, scale)
    less, more = _made("subtract", shape, scaled, y), _made("subtract", shape, y, scaled)
    turned = _made("where", shape, swap, less, more)
    imaginary = _made("multiply", shape, turned, scale)
    zero = make_constant(0.0, c.dtype)
    none = _made(
        "logical_and", own, _made("equal", own, wide, zero), _made("equal", own, high, zero)
    )
    found = (
        _made("where", shape, none, _made("divide", shape, part, wide), other)
        for part, other in ((a, real), (b, imaginary))
    )
    return next(found), next(found)


def _reciprocal(shape: Shape, w: Pair) -> Pair:
    c, d = w
    one = make_constant(1.0, c.dtype)
    swap = _made("greater", shape, _made("absolute", shape, d), _made("absolute", shape, c))
    p, q = _made("where", shape, swap, d, c), _made("where", shape, swap, c, d)
    ratio = _made("divide", shape, q, p)
    scale = _made("add", shape, p, _made("multiply", shape, q, ratio))
    near, far = _made("divide", shape, one, scale), _made("divide", shape, ratio, scale)
    real = _made("where", shape, swap, far, near)
    return real, _made("negative", shape, _made("where", shape, swap, near, far))


def _exp(shape: Shape, z: Pair) -> Pair:
    """exp(x) (cos y + i sin y); half of exp(x) at a time, which may be beyond the largest float."""
    x, y = z
    zero, half = make_constant(0.0, x.dtype), make_constant(0.5, x.dtype)
    low, high = (make_constant(sign * np.inf, x.dtype) for sign in (-1.0, 1.0))
    root = _made("exp", shape, _made("multiply", shape, half, x))
    parts = []
    for name in ("cos", "sin"):
        turned = _made(name, shape, y)
        parts.append(_made("multiply", shape, _made("multiply", shape, root, turned), root))
    real, imaginary = parts
    lost = _made("logical_not", shape, _made("isfinite", shape, y))
    gone = _made("logical_and", shape, lost, _made("equal", shape, x, low))
    far = _made("logical_and", shape, lost, _made("equal", shape, x, high))
    plain = _made("equal", shape, y, zero)
    real = _made("where", shape, far, high, _made("where", shape, gone, zero, real))
    whole = _made("exp", shape, x)
    real = _made("where", shape, plain, whole, real)
    imaginary = _made("where", shape, gone, zero, imaginary)
    return real, _made("where", shape, plain, y, imaginary)


def _turned(shape: Shape, z: Pair) -> Pair:
    """exp(i y): a real part of zero makes no difference, one of NaN none beside such a y."""
    return _made("cos", shape, z[1]), _made("sin", shape, z[1])


#: Complex results of complex operands: a function of the result's shape and the operands' parts.
ARITHMETIC: Mapping[str, Callable[..., Pair]] = {
    **{name: _componentwise(name) for name in ("add", "subtract", "negative", "positive")},
    "conjugate": _conjugate,
    "multiply": _multiply,
    "square": _square,
    "divide": _divide,
    "reciprocal": _reciprocal,
    "exp": _exp,
}

#: Rows of complex operands whose result is complex, that take others too.
OF_REAL: Mapping[str, Callable[[Node, Mapping[int, Pair], Mapping[int, Node]], Pair]] = {
    "join_complex": _joined,
    "where": _chosen,
}

#: Rows that are simpler where the operand lies on one axis of the plane.
ON_AXIS: Mapping[tuple[str, str], Callable[..., Pair]] = {("exp", "imaginary"): _turned}

#: On which axis a result lies, by those of the operands; "" is unknown.
AXES: Mapping[str, Callable[..., str]] = {
    **{
        name: lambda axis: axis
        for name in (
            "negative", "positive", "conjugate", "index", "transpose", "broadcast_to", "reshape",
            "part", "diagonal",
        )
    },
    "add": lambda left, right: left if left == right else "",
    "subtract": lambda left, right: left if left == right else "",
    "multiply": _product_axis,
}  # fmt: skip

#: Rows of one complex operand whose result is a number.
PLAIN: Mapping[str, Callable[[Shape, Node, Node], Node]] = {
    "real": lambda _, real, imaginary: real,
    "imag": lambda _, real, imaginary: imaginary,
    "absolute": lambda shape, real, imaginary: _made("hypot", shape, real, imaginary),
}

#: Rows whose result is a truth value: how those of both parts are joined.
TRUTHS: Mapping[str, str] = {
    "equal": "logical_and", "isfinite": "logical_and",
    "not_equal": "logical_or", "isnan": "logical_or", "isinf": "logical_or",
}  # fmt: skip
