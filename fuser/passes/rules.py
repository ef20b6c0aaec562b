"""Rewrite rules in three tables: EXACT, BOUNDED and FAST. Each rule is a row with its equation."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from fuser.base.errors import FuserError
from fuser.base.records import field, record
from fuser.ir.attributes import Cast, dtype_name
from fuser.ir.dims import Dim
from fuser.ir.graph import Node, constant_value, make, make_constant
from fuser.ir.views import Broadcast, Index, IndexPart

Equal = Mapping[str, Dim]
Apply = Callable[[Node, Equal], Node | None]


@record
class Rule:
    """One rewrite: its equation, the rows it starts from, and the function that applies it."""

    equation: str
    ops: tuple[str, ...]
    apply: Apply


@record
class Table:
    """Rules of one strictness, by the row that they start from."""

    name: str
    rules: list[Rule] = field(default_factory=list)

    def rule(self, equation: str, *ops: str) -> Callable[[Apply], Apply]:
        """Add a rule for nodes of the given rows."""

        def add(apply: Apply) -> Apply:
            self.rules.append(Rule(equation, ops, apply))
            return apply

        return add


#: The same bits for every dtype admitted, NaN and -0.0 included.
EXACT = Table("EXACT")
#: Within the row's ulp everywhere.
BOUNDED = Table("BOUNDED")
#: Only with fastmath=True.
FAST = Table("FAST")


def _constant(node: Node) -> object:
    """A constant's value, or None."""
    return constant_value(node) if node.op.name == "constant" else None


def _same_type(new: Node, old: Node) -> bool:
    return (new.shape, new.dtype) == (old.shape, old.dtype)


@EXACT.rule("x * 1 -> x", "multiply")
def drop_factor_one(node: Node, equal: Equal) -> Node | None:
    """Exact. Not so x + 0 (turns -0.0 into 0.0) or x * 0 (loses NaN), which have no rule here."""
    for x, one in (node.args, node.args[::-1]):
        value = _constant(one)
        if value is not None and value == 1 and _same_type(x, node):
            return x
    return None


@BOUNDED.rule("x**1 -> x", "power")
@EXACT.rule("x / 1 -> x", "divide")
def drop_one(node: Node, equal: Equal) -> Node | None:
    """Exact: division by one changes nothing, and the first power no more than a signalling NaN."""
    x, one = node.args
    value = _constant(one)
    return x if value is not None and value == 1 and _same_type(x, node) else None


@EXACT.rule("x - 0 -> x", "subtract")
def drop_minus_zero(node: Node, equal: Equal) -> Node | None:
    """Exact for +0.0 (-0.0 - 0.0 is -0.0); subtracting -0.0 would turn -0.0 into 0.0."""
    x, zero = node.args
    value = _constant(zero)
    plain = value is not None and value == 0 and not np.signbit(np.float64(value))
    return x if plain and _same_type(x, node) else None


@EXACT.rule("x + 0 -> x", "add")
def drop_added_zero(node: Node, equal: Equal) -> Node | None:
    """Exact for integers; -0.0 + 0.0 is 0.0."""
    if node.dtype.kind not in "iu":
        return None
    for x, zero in (node.args, node.args[::-1]):
        if _constant(zero.args[0] if zero.op.repeats else zero) == 0 and _same_type(x, node):
            return x
    return None


@EXACT.rule("-(-x) -> x", "negative")
def drop_double_negative(node: Node, equal: Equal) -> Node | None:
    """Exact for floats (the sign bit twice) and wrapping integers."""
    (inner,) = node.args
    return inner.args[0] if inner.op.name == "negative" else None


@EXACT.rule("~(~x) -> x", "invert")
def drop_double_invert(node: Node, equal: Equal) -> Node | None:
    """Exact."""
    (inner,) = node.args
    return inner.args[0] if inner.op.name == "invert" else None


@EXACT.rule("not not b -> b", "logical_not")
def drop_double_not(node: Node, equal: Equal) -> Node | None:
    """Exact for bool operands only."""
    (inner,) = node.args
    if inner.op.name == "logical_not" and inner.args[0].dtype == np.dtype(bool):
        return inner.args[0]
    return None


@EXACT.rule("+x -> x", "positive")
def drop_positive(node: Node, equal: Equal) -> Node | None:
    """Exact."""
    return node.args[0]


@EXACT.rule("||x|| -> |x|; |-x| -> |x|", "absolute", "fabs")
def drop_inner_sign(node: Node, equal: Equal) -> Node | None:
    """Exact for floats, whose sign bit is dropped anyway."""
    (inner,) = node.args
    if node.dtype.kind == "f" and inner.op.name in ("absolute", "fabs", "negative"):
        return make(node.op.name, inner.args[0])
    return None


@EXACT.rule("cast(x, dtype of x) -> x", "cast")
def drop_cast(node: Node, equal: Equal) -> Node | None:
    """Exact."""
    (x,) = node.args
    return x if x.dtype == node.dtype else None


@EXACT.rule("cast(cast(x, wider), t) -> cast(x, t)", "cast")
def drop_inner_cast(node: Node, equal: Equal) -> Node | None:
    """Exact when the first cast loses nothing and changes no kind of number."""
    (inner,) = node.args
    if inner.op.name != "cast":
        return None
    source = inner.args[0]
    same_kind = source.dtype.kind == inner.dtype.kind
    widens = same_kind and source.dtype.itemsize <= inner.dtype.itemsize
    if not widens or (node.dtype.kind != source.dtype.kind and source.dtype.kind != "b"):
        return None
    return make("cast", source, payload=Cast(node.dtype))


@EXACT.rule("where(c, x, x) -> x", "where")
def drop_choice(node: Node, equal: Equal) -> Node | None:
    """Exact."""
    _, yes, no = node.args
    return yes if yes is no and _same_type(yes, node) else None


@EXACT.rule("where(True, x, y) -> x; where(False, x, y) -> y", "where")
def drop_decided_choice(node: Node, equal: Equal) -> Node | None:
    """Exact; an operand of a smaller shape is broadcast."""
    condition, yes, no = node.args
    value = _constant(condition)
    if value is None:
        return None
    chosen = yes if value else no
    if chosen.shape == node.shape:
        return chosen
    return make("broadcast_to", chosen, payload=Broadcast(node.shape))


@EXACT.rule("x[:] -> x", "index")
def drop_full_index(node: Node, equal: Equal) -> Node | None:
    """Exact."""
    return node.args[0] if not node.payload.parts else None


@EXACT.rule("x[i][j] -> x[k]", "index")
def join_indices(node: Node, equal: Equal) -> Node | None:
    """Exact: where one of them does nothing to an axis that the other one cuts."""
    (inner,) = node.args
    if not inner.op.indexes or (chain := inner.payload.then(node.payload)) is None:
        return None
    (x,) = inner.args
    made = make("index", x, payload=chain[0]) if chain else x
    return made if made.shape == node.shape else None


@EXACT.rule("reshape that adds or drops ones -> index", "reshape")
def index_ones(node: Node, equal: Equal) -> Node | None:
    """Exact: the same elements, in the same order."""
    (x,) = node.args
    longer = [[dim for dim in shape if dim != 1] for shape in (x.shape, node.shape)]
    if longer[0] != longer[1] or x.shape == node.shape:
        return None
    parts: list[IndexPart] = []
    wanted = list(node.shape)
    for dim in x.shape:
        while dim != 1 and wanted[0] == 1:
            parts.append(None)
            wanted.pop(0)
        parts.append(0 if dim == 1 else slice(None))
        if dim != 1:
            wanted.pop(0)
    made = make("index", x, payload=Index.of_parts([*parts, *[None] * len(wanted)]))
    return made if made.shape == node.shape else None


@EXACT.rule("broadcast_to(x, shape of x) -> x; reshape the same", "broadcast_to", "reshape")
def drop_same_shape(node: Node, equal: Equal) -> Node | None:
    """Exact."""
    return node.args[0] if node.args[0].shape == node.shape else None


@EXACT.rule("transpose by nothing -> x", "transpose")
def drop_transpose(node: Node, equal: Equal) -> Node | None:
    """Exact."""
    order = node.payload.order
    return node.args[0] if order == tuple(sorted(order)) else None


@EXACT.rule("x + (-y) -> x - y; x - (-y) -> x + y", "add", "subtract")
def move_negative(node: Node, equal: Equal) -> Node | None:
    """Exact: subtraction is defined so, and integers wrap around the same way."""
    x, y = node.args
    other = "subtract" if node.op.name == "add" else "add"
    if node.op.name == "add" and x.op.name == "negative" and y.op.name != "negative":
        x, y = y, x
    if y.op.name != "negative" or node.dtype.kind not in "iuf":
        return None
    return make(other, x, y.args[0], equal=equal)


@EXACT.rule("(-x) * (-y) -> x * y; (-x) / (-y) -> x / y", "multiply", "divide")
def drop_two_negatives(node: Node, equal: Equal) -> Node | None:
    """Exact: signs multiply."""
    if any(arg.op.name != "negative" for arg in node.args):
        return None
    return make(node.op.name, *(arg.args[0] for arg in node.args), equal=equal)


@EXACT.rule("(-x)**2 -> x**2; |x|**2 -> x**2", "square")
def drop_sign_before_square(node: Node, equal: Equal) -> Node | None:
    """Exact: signs multiply; integers wrap around the same way."""
    (inner,) = node.args
    signed = inner.op.name in ("negative", "absolute", "fabs")
    if not signed or inner.args[0].dtype != node.dtype:  # absolute values of complex numbers
        return None
    return make("square", inner.args[0])


@EXACT.rule("x / 2**k -> x * 2**-k", "divide")
def divide_by_power_of_two(node: Node, equal: Equal) -> Node | None:
    """Exact: the same real number is rounded once, if 2**-k is a normal number."""
    x, divisor = node.args
    value = _constant(divisor)
    if value is None or not np.isfinite(value) or value in (0, 1):  # type: ignore[call-overload]
        return None
    mantissa, _ = np.frexp(value)  # type: ignore[call-overload]
    with np.errstate(all="ignore"):
        inverse = node.dtype.type(1) / value
    tiny = np.finfo(node.dtype).tiny
    if abs(mantissa) != 0.5 or not np.isfinite(inverse) or abs(inverse) < tiny:
        return None
    return make("multiply", x, make_constant(inverse, node.dtype), equal=equal)


@EXACT.rule("max(x, x) -> x; min(x, x) -> x; x & x -> x; x | x -> x", "maximum", "minimum",
            "fmax", "fmin", "bitwise_and", "bitwise_or")  # fmt: skip
def drop_same_operands(node: Node, equal: Equal) -> Node | None:
    """Exact, NaN included."""
    x, y = node.args
    return x if x is y and _same_type(x, node) else None


@EXACT.rule("not (x == y) -> x != y; not (x != y) -> x == y", "logical_not")
def turn_comparison(node: Node, equal: Equal) -> Node | None:
    """Exact, NaN included; not so for < and >, of which NaN makes both false."""
    (inner,) = node.args
    turned = {"equal": "not_equal", "not_equal": "equal"}.get(inner.op.name)
    return make(turned, *inner.args, equal=equal) if turned else None


@EXACT.rule("where(not c, x, y) -> where(c, y, x)", "where")
def turn_choice(node: Node, equal: Equal) -> Node | None:
    """Exact, for conditions that are bool themselves."""
    condition, yes, no = node.args
    if condition.op.name != "logical_not" or condition.args[0].dtype != np.dtype(bool):
        return None
    return make("where", condition.args[0], no, yes, equal=equal)


#: Rows whose result on constants is the same in NumPy and in every backend: one exact rounding.
FOLDED = tuple(
    "add subtract multiply divide negative absolute square sqrt reciprocal equal not_equal less "
    "less_equal greater greater_equal logical_and logical_or logical_xor logical_not bitwise_and "
    "bitwise_or bitwise_xor invert maximum minimum where cast".split()
)


@EXACT.rule("op(constants) -> constant", *FOLDED)
def fold_constants(node: Node, equal: Equal) -> Node | None:
    """Exact: only rows with one correct rounding (or none) are computed here."""
    if any(arg.op.name != "constant" for arg in node.args):
        return None
    values = [np.asarray(constant_value(arg)) for arg in node.args]
    with np.errstate(all="ignore"):
        if node.op.name == "cast":
            if values[0].dtype.kind == "f" and node.dtype.kind in "iu":
                return None  # out of range is unspecified
            return make_constant(values[0].astype(node.dtype), node.dtype)
        return make_constant(node.op.numpy(*values), node.dtype)


@BOUNDED.rule("x**2 -> x*x; x**3 -> x*x*x; x**4 -> (x*x)*(x*x); x**5 -> that * x", "power")
def small_power(node: Node, equal: Equal) -> Node | None:
    """At most three roundings, 2 ulp; integers wrap around the same way.

    float16 is multiplied in float32 and rounded once, as NumPy's power rounds it.
    """
    x, exponent = node.args
    value = _constant(exponent)
    if value is None or value not in (2, 3, 4, 5) or not _same_type(x, node):
        return None
    if node.dtype == np.float16 and value != 2:
        wide = make("cast", x, payload=Cast(np.dtype("float32")))
        power = make("power", wide, make_constant(value, np.float32), equal=equal)
        return make("cast", power, payload=Cast(np.dtype("float16")))
    square = make("square", x, equal=equal)
    if value == 2:
        return square
    if value == 3:
        return make("multiply", square, x, equal=equal)
    fourth = make("square", square, equal=equal)
    return fourth if value == 4 else make("multiply", fourth, x, equal=equal)


@BOUNDED.rule("x**-1 -> 1/x", "power")
def inverse_power(node: Node, equal: Equal) -> Node | None:
    """One rounding, where a power has up to 3 ulp; signs of zeros and infinities agree."""
    x, exponent = node.args
    value = _constant(exponent)
    if value is None or value != -1 or dtype_name(node.dtype) not in ("float32", "float64"):
        return None
    return make("reciprocal", x) if _same_type(x, node) else None


@FAST.rule("x / c -> x * (1/c)", "divide")
def divide_by_constant(node: Node, equal: Equal) -> Node | None:
    """Not exact unless c is a power of two: one rounding more."""
    x, divisor = node.args
    value = _constant(divisor)
    if value is None or value == 0 or not np.isfinite(value):  # type: ignore[call-overload]
        return None
    with np.errstate(all="ignore"):
        inverse = node.dtype.type(1) / value
    if not np.isfinite(inverse) or abs(inverse) < np.finfo(node.dtype).tiny:
        return None
    return make("multiply", x, make_constant(inverse, node.dtype), equal=equal)


TABLES = (EXACT, BOUNDED, FAST)


def table(name: str) -> Table:
    """Look a table up by name."""
    for entry in TABLES:
        if entry.name == name:
            return entry
    raise FuserError(f"there is no rule table {name!r}; use EXACT, BOUNDED or FAST")
