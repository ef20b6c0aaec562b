"""The immutable graph: interned nodes, and the canonical text, which `graph_text` reads back."""

from __future__ import annotations

import weakref
from _weakref import _remove_dead_weakref  # type: ignore[attr-defined] # as `weakref` does
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from fuser.base import budget, forks
from fuser.base.errors import GraphError
from fuser.base.records import field, record
from fuser.ir import dims, infer
from fuser.ir.attributes import NOTHING, Attribute, Bits, Expression, Name, dtype_name
from fuser.ir.dims import Dim, Shape
from fuser.ir.ops import Op, op


@record(eq=False, weakref_slot=True)
class Node:
    """One array value. `make` interns it, so equal graphs are one object and `is` compares them.

    Attributes:
        op: the row of the op table.
        args: operand nodes.
        shape: symbolic lengths; () for scalars and constants.
        dtype: native NumPy dtype.
        payload: what the row needs besides operands, as the attribute of its kind: an input's
            name, a constant's exact bits, a scalar's expression, a view, axes, a conversion.
    """

    op: Op
    args: tuple[Node, ...]
    shape: Shape
    dtype: np.dtype[Any]
    payload: Any = NOTHING

    def __repr__(self) -> str:
        """Operation and type; operands are not followed (graphs may be deep)."""
        return f"Node({self.op.name}{' ' + self.text if self.text else ''}: {self.type})"

    @property
    def text(self) -> str:
        """What stands in the braces of a graph's text."""
        return self.payload.text  # type: ignore[no-any-return]

    @property
    def type(self) -> str:
        """`float32[n0, 3]`."""
        return f"{dtype_name(self.dtype)}{dims.spell_shape(self.shape)}"


_Key = tuple[Any, ...]
_nodes: dict[_Key, weakref.KeyedRef[_Key, Node]] = {}


def _forget(gone: weakref.KeyedRef[_Key, Node]) -> None:
    """Take the entry of a node that is gone out, unless another has its place by now."""
    _remove_dead_weakref(_nodes, gone.key)


def size_bytes(node: Node, sizes: Mapping[str, int]) -> int:
    """Bytes of a value, with these lengths."""
    return dims.evaluate(dims.product(node.shape), sizes) * node.dtype.itemsize


def intern(
    op: Op, args: tuple[Node, ...], shape: Shape, dtype: np.dtype[Any],
    payload: Attribute = NOTHING,
) -> Node:  # fmt: skip
    """Return the one node with these fields. No checks: use `make` outside of passes."""
    budget.spend("steps")
    key = (op.name, tuple(map(id, args)), shape, dtype, payload.text)
    known = _nodes.get(key)
    made: Node | None = None
    while known is None or (found := known()) is None:
        if known is not None:
            _remove_dead_weakref(_nodes, key)
        if made is None:
            made = Node(op, args, shape, dtype, payload)
            mine = weakref.KeyedRef(made, _forget, key)
        known = _nodes.setdefault(key, mine)  # one step: who comes first publishes, without a lock
    return found


def make(
    name: str, *args: Node, payload: Attribute = NOTHING, equal: Mapping[str, Dim] = infer.NOTHING
) -> Node:
    """Build the node `name(args)` with its inferred shape and dtype.

    Args:
        name: a row of the op table that has operands.
        args: operand nodes, of one dtype where the row says so.
        payload: of the kind that the row has: of `index` an Index …
        equal: lengths that guards make equal to others, by text (`Graph.equal`).

    Raises:
        GraphError, ShapeError, DtypeError: the operands do not fit the row.
    """
    row = op(name)
    if row.arity not in (-1, len(args)):
        raise GraphError(f"{name} takes {row.arity} operands, found {len(args)}")
    dtype = infer.result_dtype(row, [arg.dtype for arg in args], payload)
    shape = infer.result_shape(row, [arg.shape for arg in args], payload, equal)
    return intern(row, args, shape, dtype, payload)


def make_input(name: str, dtype: Any, shape: Shape) -> Node:
    """An array argument."""
    return intern(op("input"), (), shape, infer.dtype_of(dtype), Name(name))


def make_scalar(expression: str, dtype: Any) -> Node:
    """A Python scalar known at call time: an expression over scalars and lengths, then cast."""
    return intern(op("scalar"), (), (), infer.dtype_of(dtype), Expression(expression))


def make_constant(value: Any, dtype: Any) -> Node:
    """A constant, kept by its exact bits."""
    array = np.asarray(value, dtype=infer.dtype_of(dtype))
    bits = int.from_bytes(array.tobytes(), "little")
    return intern(op("constant"), (), (), array.dtype, Bits(bits, array.itemsize))


def constant_value(node: Node) -> Any:
    """The NumPy scalar that a constant node stands for."""
    raw = node.payload.bits.to_bytes(node.dtype.itemsize, "little")
    return np.frombuffer(raw, node.dtype)[0]


def walk(
    outputs: Iterable[Node], until: Callable[[Node], bool] | None = None
) -> list[Node]:
    """All nodes that the outputs need, operands first; never recursive.

    Args:
        outputs: the nodes where it begins.
        until: nodes of which it says so are among them, and what only they need is not.
    """
    order: list[Node] = []
    waiting: dict[int, bool] = {}  # by `id`, whether a node waits for its operands; else it is done
    stack = list(outputs)[::-1]
    while stack:
        node = stack.pop()
        key = id(node)
        waits = waiting.get(key)
        if waits is None and node.args and not (until is not None and until(node)):
            waiting[key] = True
            stack.append(node)
            stack += node.args[::-1]
        elif waits is not False:
            waiting[key] = False
            order.append(node)
    return order


def put_on_line(made: Iterable[Node], line: str, lines: dict[int, str]) -> None:
    """Note that what an operation became is on its line, as far as it is on none."""
    stack = list(made)
    while stack:
        node = stack.pop()
        if node.args and id(node) not in lines:
            lines[id(node)] = line
            stack += node.args


def rebuild(
    outputs: Sequence[Node], change: Callable[[Node, tuple[Node, ...]], Node]
) -> list[Node]:
    """Map every node, operands first: `change(node, new operands)` gives its replacement."""
    new: dict[int, Node] = {}
    for node in walk(outputs):
        new[id(node)] = change(node, tuple(new[id(arg)] for arg in node.args))
    return [new[id(node)] for node in outputs]


@record
class Parameter:
    """One argument of a graph: an array (dtype and shape) or a Python scalar (kind).

    Attributes:
        name: its canonical name, `x0` for arrays, `s0` for scalars.
        dtype: the array's dtype, or None for a Python scalar.
        shape: symbolic lengths of an array.
        kind: "float", "int" or "bool" for a Python scalar, else "".
        captured: the array is not an argument but was captured by the traced function.
    """

    name: str
    dtype: np.dtype[Any] | None
    shape: Shape = ()
    kind: str = ""
    captured: bool = False

    @property
    def binds(self) -> list[str]:
        """The symbols that an array's shape tells."""
        return [str(dim) for dim in self.shape if str(dim).isalnum() and dim != 1]

    def __str__(self) -> str:
        """`x0: float32[n0]` or `s0: float`."""
        if self.dtype is None:
            return f"{self.name}: {self.kind}"
        mark = " captured" if self.captured else ""
        return f"{self.name}: {dtype_name(self.dtype)}{dims.spell_shape(self.shape)}{mark}"


@record(slots=False, eq=False)
class Graph:
    """Array arguments and scalars in, arrays out. Immutable; equal texts are equal graphs.

    Attributes:
        parameters: the arguments in order, captured arrays last.
        outputs: one node a result.
        guards: pairs of lengths that must be equal, beyond what the parameters' shapes say.
        names: the user's name of each parameter, for people.
        lines: `file:line` by `id(node)`, for people.
        captured: the arrays behind captured parameters, in order.
    """

    parameters: tuple[Parameter, ...]
    outputs: tuple[Node, ...]
    guards: tuple[tuple[Dim, Dim], ...] = ()
    names: tuple[str, ...] = ()
    lines: Mapping[int, str] = field(default_factory=dict)
    captured: tuple[Any, ...] = ()

    @forks.cached_property
    def nodes(self) -> tuple[Node, ...]:
        """Every node, operands first."""
        return tuple(walk(self.outputs))

    @forks.cached_property
    def reduces(self) -> bool:
        """Whether there is a reduction."""
        return any(node.op.reduction for node in self.nodes)

    @forks.cached_property
    def has_externs(self) -> bool:
        """Whether some function runs in NumPy between kernels."""
        return any(node.op.is_opaque for node in self.nodes)

    @forks.cached_property
    def equal(self) -> dict[str, Dim]:
        """What guards say: the text of a length -> the length that it equals."""
        return dims.representatives(self.guards)

    @forks.cached_property
    def scalar_lengths(self) -> dict[str, Dim]:
        """Lengths that integer arguments tell, by symbol: of `where n1 == s0`, n1 is s0.

        They are indices, bounds of slices and lengths of new arrays.
        """
        return {
            left.text: right
            for left, right in self.guards_of_integers
            if isinstance(left, dims.Length) and left.text.isalnum()
        }

    def with_lengths_of(self, length: int) -> dict[str, int]:
        """Every length as one number, by symbol; indices and bounds as half of it.

        Args:
            length: the number.
        """
        shapes = (*(p.shape for p in self.parameters), *(node.shape for node in self.nodes))
        named = (name for shape in shapes for dim in shape for name in dims.symbols(dim))
        return dict.fromkeys(named, length) | dict.fromkeys(self.scalar_lengths, length // 2)

    @forks.cached_property
    def guards_of_integers(self) -> tuple[tuple[Dim, Dim], ...]:
        """Guards that speak of integer arguments, such as `n1 == s0` and `n0 - 2 == s0`."""
        return tuple(
            pair for pair in self.guards if not self.integers.isdisjoint(dims.symbols(pair[1]))
        )

    @forks.cached_property
    def integers(self) -> frozenset[str]:
        """Names of the arguments that are integers: Python's, and NumPy's scalars."""
        return frozenset(p.name for p in self.parameters if p.kind == "int") | self.integer_arrays

    @forks.cached_property
    def integer_arrays(self) -> frozenset[str]:
        """Names of the arguments without axes whose values are integers."""
        numbers = (p for p in self.parameters if p.dtype is not None and not p.shape)
        return frozenset(p.name for p in numbers if p.dtype is not None and p.dtype.kind in "iu")

    @forks.cached_property
    def text(self) -> str:
        """The canonical text; `fuser.ir.graph_text.parse` reads it."""
        label: dict[int, str] = {}
        rows: list[str] = []
        for node in self.nodes:
            if node.op.is_input:
                label[id(node)] = node.text
                continue
            label[id(node)] = f"%{len(rows)}"
            braces = f"{{{node.text}}}" if node.text else ""
            listed = " ".join([f"{node.op.name}{braces}", *(label[id(a)] for a in node.args)])
            rows.append(f"  %{len(rows)} = {listed} : {node.type}")
        header = ", ".join(map(str, self.parameters))
        where = [f"  where {left} == {right}" for left, right in self.guards]
        last = "  return " + ", ".join(label[id(node)] for node in self.outputs)
        return "\n".join([f"graph({header}):", *where, *rows, last.rstrip()])

    def __str__(self) -> str:
        """The canonical text."""
        return self.text

    def __eq__(self, other: object) -> bool:
        """Same canonical text."""
        return isinstance(other, Graph) and other.text == self.text

    def __hash__(self) -> int:
        """Hash of the canonical text."""
        return hash(self.text)

    def line_of(self, node: Node) -> str:
        """`file:line` where the user wrote the operation of a node; "" where it is not known."""
        return self.lines.get(id(node), "")

    def with_outputs(
        self, outputs: Sequence[Node], lines: Mapping[int, str] | None = None
    ) -> Graph:
        """The same arguments with other outputs (a pass's result), and other lines if given."""
        return Graph(
            self.parameters,
            tuple(outputs),
            self.guards,
            self.names,
            self.lines if lines is None else lines,
            self.captured,
        )
