"""The immutable graph: interned nodes, canonical text, and `parse` back."""

from __future__ import annotations

import re
import weakref
from _weakref import _remove_dead_weakref  # type: ignore[attr-defined] # as `weakref` does
from collections.abc import Callable, Iterable, Mapping, Sequence
from keyword import iskeyword
from typing import Any

import numpy as np

from fuser import budget, dims, forks, infer
from fuser.dims import Dim
from fuser.errors import FuserError, GraphError
from fuser.host_expressions import SCALAR, names_in, short
from fuser.ops import Op, op
from fuser.records import field, record

Shape = tuple[Dim, ...]


@record(eq=False, weakref_slot=True)
class Node:
    """One array value. `make` interns it, so equal graphs are one object and `is` compares them.

    Attributes:
        op: the row of the op table.
        args: operand nodes.
        shape: symbolic lengths; () for scalars and constants.
        dtype: native NumPy dtype.
        payload: what the row needs besides operands: an input's name, a constant's exact bits
            in hexadecimal (0.0 is not -0.0), a scalar's expression, an index, axes, a dtype.
    """

    op: Op
    args: tuple[Node, ...]
    shape: Shape
    dtype: np.dtype[Any]
    payload: str = ""

    def __repr__(self) -> str:
        """Operation and type; operands are not followed (graphs may be deep)."""
        return f"Node({self.op.name}{' ' + self.payload if self.payload else ''}: {self.type})"

    @property
    def type(self) -> str:
        """`float32[n0, 3]`."""
        return f"{infer.dtype_name(self.dtype)}{infer.spell_shape(self.shape)}"


_Key = tuple[Any, ...]
_nodes: dict[_Key, weakref.KeyedRef[_Key, Node]] = {}


def _forget(gone: weakref.KeyedRef[_Key, Node]) -> None:
    """Take the entry of a node that is gone out, unless another has its place by now."""
    _remove_dead_weakref(_nodes, gone.key)


def size_bytes(node: Node, sizes: Mapping[str, int]) -> int:
    """Bytes of a value, with these lengths."""
    return dims.evaluate(dims.product(node.shape), sizes) * node.dtype.itemsize


def intern(
    op: Op, args: tuple[Node, ...], shape: Shape, dtype: np.dtype[Any], payload: str
) -> Node:
    """Return the one node with these fields. No checks: use `make` outside of passes."""
    budget.spend("steps")
    key = (op.name, tuple(map(id, args)), shape, dtype, payload)
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
    name: str, *args: Node, payload: str = "", equal: Mapping[str, Dim] = infer.NOTHING
) -> Node:
    """Build the node `name(args)` with its inferred shape and dtype.

    Args:
        name: a row of the op table that has operands.
        args: operand nodes, of one dtype where the row says so.
        payload: for `cast` a dtype name, for `index` the index …
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
    return intern(op("input"), (), shape, infer.dtype_of(dtype), name)


def make_scalar(expression: str, dtype: Any) -> Node:
    """A Python scalar known at call time: an expression over scalars and lengths, then cast."""
    return intern(op("scalar"), (), (), infer.dtype_of(dtype), expression)


def make_constant(value: Any, dtype: Any) -> Node:
    """A constant, kept by its exact bits."""
    array = np.asarray(value, dtype=infer.dtype_of(dtype))
    bits = int.from_bytes(array.tobytes(), "little")
    return intern(op("constant"), (), (), array.dtype, f"0x{bits:0{2 * array.itemsize}x}")


def constant_value(node: Node) -> Any:
    """The NumPy scalar that a constant node stands for."""
    raw = int(node.payload, 16).to_bytes(node.dtype.itemsize, "little")
    return np.frombuffer(raw, node.dtype)[0]


def walk(outputs: Iterable[Node]) -> list[Node]:
    """All nodes that the outputs need, operands first; never recursive."""
    order: list[Node] = []
    done: set[int] = set()
    stack: list[tuple[Node, bool]] = [(node, False) for node in reversed(list(outputs))]
    while stack:
        node, ready = stack.pop()
        if id(node) in done:
            continue
        if ready or not node.args:
            done.add(id(node))
            order.append(node)
            continue
        stack.append((node, True))
        stack.extend((arg, False) for arg in reversed(node.args) if id(arg) not in done)
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

    def __str__(self) -> str:
        """`x0: float32[n0]` or `s0: float`."""
        if self.dtype is None:
            return f"{self.name}: {self.kind}"
        mark = " captured" if self.captured else ""
        return f"{self.name}: {self.dtype.name}{infer.spell_shape(self.shape)}{mark}"


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
    def has_externs(self) -> bool:
        """Whether some function runs in NumPy between kernels."""
        return any(node.op.name == "extern" for node in self.nodes)

    @forks.cached_property
    def equal(self) -> dict[str, Dim]:
        """What guards say: the text of a length -> the length that it equals."""
        return dims.representatives(self.guards)

    @forks.cached_property
    def text(self) -> str:
        """The canonical text; see `parse`."""
        label: dict[int, str] = {}
        rows: list[str] = []
        for node in self.nodes:
            if node.op.name == "input":
                label[id(node)] = node.payload
                continue
            label[id(node)] = f"%{len(rows)}"
            payload = f"{{{node.payload}}}" if node.payload else ""
            listed = " ".join([f"{node.op.name}{payload}", *(label[id(a)] for a in node.args)])
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


_NAME = r"[A-Za-z][A-Za-z0-9_]*"
_WHOLE = r"-?[0-9]+"
_AXES = r"([0-9]+(, [0-9]+)*)?"
_LENGTHS = r"[A-Za-z0-9_ +*/(),-]*"
_ENTRY = rf"(None|{_WHOLE}|({_WHOLE})?:({_WHOLE})?(:{_WHOLE})?)"
_HEADER = re.compile(r"graph\((.*)\):")
_LABEL = re.compile(r"%[0-9]+")
_OPERATION = re.compile(rf"({_NAME})(.*)")
_OPERANDS = re.compile(rf"( (%[0-9]+|{_NAME}))*")
#: Rows that no text has: inputs are parameters, and the others only planned graphs have.
_LOWERED = frozenset("input scalar constant component from_components interleave".split())
#: What stands in the braces of an operation; numbers, lengths and dtypes are looked at when they
#: are read. Other rows of the op table have none, those that reduce have axes.
_PAYLOADS = {
    "index": rf"({_ENTRY}(, {_ENTRY})*)?",
    "transpose": _AXES,
    "cast": r"[a-z0-9]+( [ACFK](\.[0-9]+)*)?",
    "concatenate": r"[0-9]+",
    "positions": _LENGTHS,
    "reshape": _LENGTHS,
    "broadcast_to": _LENGTHS,
    "part": r"[A-Za-z0-9_ +*/(),;-]*",
    "update": r"[A-Za-z0-9_ +*/(),;:-]*",
}


def parse(text: str) -> Graph:
    """Read a graph's canonical text.

    The text may come from anywhere: it has operations, numbers, lengths, dtypes and names of
    functions that `fuser.partitioning.externs` lists, and reading it calls nothing.

    Args:
        text: what `str(graph)` gives.

    Raises:
        GraphError: a line that is not understood, or that says another shape or dtype than the
            operation gives.
    """
    if not isinstance(text, str):
        raise GraphError(f"a graph's text is a str, found {type(text).__name__}")
    try:
        return _parse(text)
    except FuserError:
        raise
    except Exception as error:  # noqa: BLE001 - whatever a text may hold
        raise GraphError(f"a graph's text is not understood: {error}") from None


def _parse(text: str) -> Graph:
    """Read a graph line by line."""
    lines = [line.strip() for line in text.strip().split("\n") if line.strip()]
    if not lines or not (header := _HEADER.fullmatch(lines[0])):
        found = f", found {lines[0][:40]!r}" if lines else "; this one is empty"
        raise GraphError(f"a graph's text starts with 'graph(…):'{found}")
    parameters = tuple(_parse_parameter(part) for part in _split(header[1]))
    if len({p.name for p in parameters}) < len(parameters):
        raise GraphError("two parameters of a graph have one name")
    values: dict[str, Node] = {
        p.name: make_input(p.name, p.dtype, p.shape) for p in parameters if p.dtype is not None
    }
    guards: list[tuple[Dim, Dim]] = []
    for line in lines[1:]:
        if line.startswith("where "):
            left, _, right = line[6:].partition(" == ")
            guards.append((dims.parse(left), dims.parse(right)))
        elif line.startswith("return"):
            wanted = [name.strip() for name in line[6:].split(",") if name.strip()]
            if missing := [name for name in wanted if name not in values]:
                raise GraphError(f"return names {short(missing[0])}, which no line defines")
            graph = Graph(parameters, tuple(values[name] for name in wanted), tuple(guards))
            _check_names(graph)
            return graph
        else:
            _parse_row(line, values, dims.representatives(guards))
    raise GraphError("a graph's text ends with 'return …'")


def _check_names(graph: Graph) -> None:
    """Check that every scalar and length that a graph speaks of is known when it runs.

    Raises:
        GraphError: one is not.
    """
    shapes = [parameter.shape for parameter in graph.parameters]
    shapes += [node.shape for node in graph.nodes if node.op.name == "extern"]
    lengths = {str(dim) for shape in shapes for dim in shape}
    known = lengths | {parameter.name for parameter in graph.parameters}
    told = [dim for node in graph.nodes for dim in node.shape]
    told += [dim for shape in shapes for dim in shape]
    told += [dim for pair in graph.guards for dim in pair]
    told += [dim for node in graph.nodes for dim in _bounds(node)]
    for dim in told:
        if unknown := [name for name in dims.symbols(dim) if name not in lengths]:
            raise GraphError(f"length {unknown[0]} is that of no array of the graph")
    for node in graph.nodes:
        texts = [node.payload] if node.op.name == "scalar" else []
        if node.op.name == "extern":
            from fuser.partitioning import externs  # which needs this module

            texts = externs.numbers_of(node.payload)
        for text in texts:
            if unknown := sorted(names_in(text, SCALAR) - known):
                raise GraphError(f"{short(text)!r} names {unknown[0]}, which is no argument")


def _bounds(node: Node) -> list[Dim]:
    """The lengths that an operation speaks of beside its shape."""
    if node.op.name == "part":
        return list(infer.parse_part(node.payload)[1:3])
    if node.op.name == "update":
        from fuser.tracing import regions  # which needs this module

        return [bound for span in regions.parse(node.payload) for bound in span[:2]]
    return []


def _split(text: str) -> list[str]:
    """Split at commas outside brackets."""
    parts, depth, start = [], 0, 0
    for place, letter in enumerate(text):
        depth += (letter in "[(") - (letter in "])")
        if letter == "," and depth == 0:
            parts.append(text[start:place].strip())
            start = place + 1
    return [part for part in (*parts, text[start:].strip()) if part]


def _parse_parameter(text: str) -> Parameter:
    """Read `x0: float32[n0]`, perhaps ` captured`, or `s0: float`."""
    name, _, kind = text.partition(": ")
    reserved = iskeyword(name) or name in SCALAR.functions or name in SCALAR.constants
    if reserved or not re.fullmatch(_NAME, name):
        raise GraphError(f"{short(name)!r} is no name of a parameter")
    if kind in ("float", "int", "bool"):
        return Parameter(name, None, (), kind)
    found = re.fullmatch(r"(\w+)\[(.*)\]( captured)?", kind)
    if not found:
        raise GraphError(f"parameter {short(text)!r} is neither an array nor a scalar")
    dtype = _dtype(found[1])
    return Parameter(name, dtype, infer.parse_shape(found[2]), "", bool(found[3]))


def _dtype(name: str) -> np.dtype[Any]:
    """Read the name of a dtype of numbers.

    Raises:
        GraphError: it is none.
    """
    try:
        dtype = np.dtype(name) if re.fullmatch(r"[a-z]+[0-9]*", name) else None
    except TypeError:
        dtype = None
    if dtype is None or dtype.name != name or (dtype.kind not in "biufc" and name != "bfloat16"):
        raise GraphError(f"{short(name)!r} is not a dtype of graphs")
    return dtype


def _parse_row(line: str, values: dict[str, Node], equal: Mapping[str, Dim]) -> None:
    """Read one operation, `%2 = name{payload} %0 %1 : dtype[shape]`, into `values`."""
    written, _, type_text = line.rpartition(" : ")
    label, _, rest = written.partition(" = ")
    found = _OPERATION.fullmatch(rest)
    if not found or not _LABEL.fullmatch(label) or label in values:
        raise GraphError(f"this line of a graph is not understood: {short(line)!r}")
    name, rest = found[1], found[2]
    payload = ""
    if rest.startswith("{"):
        payload, closed, rest = rest[1:].rpartition("}")
        rest = rest if closed else "}"
    if not _OPERANDS.fullmatch(rest):
        raise GraphError(f"this line of a graph is not understood: {short(line)!r}")
    row, operands = op(name), rest.split()
    if unknown := [operand for operand in operands if operand not in values]:
        raise GraphError(f"{label} uses {short(unknown[0])}, which no line above defines")
    args = [values[operand] for operand in operands]
    dtype, _, shape = type_text.removesuffix("]").partition("[")
    try:
        node = _node(row, args, payload, _dtype(dtype), shape, equal)
    except FuserError:
        raise
    except Exception as error:  # noqa: BLE001 - whatever a text may hold
        shown = f"{name}{{{short(payload)}}}"
        raise GraphError(f"{label}: {shown} is not understood: {error}") from None
    if node.type != type_text:
        raise GraphError(f"{label} says {short(type_text)}, but {name} gives {node.type}")
    values[label] = node


def _node(
    row: Op, args: list[Node], payload: str, dtype: np.dtype[Any], shape: str,
    equal: Mapping[str, Dim],
) -> Node:  # fmt: skip
    """The node of an operation that has been read, with its payload looked at.

    Raises:
        GraphError: it is nothing that the operation may have.
    """
    if row.name == "extern":
        from fuser.partitioning import externs  # which needs this module

        externs.read(payload)
        return intern(row, tuple(args), infer.parse_shape(shape), dtype, payload)
    if row.name in ("scalar", "constant") and not args:
        digits = rf"0x[0-9a-f]{{{2 * dtype.itemsize}}}"
        if row.name == "scalar":
            names_in(payload, SCALAR)
        elif not re.fullmatch(digits, payload):
            raise GraphError(f"{short(payload)!r} is no constant of dtype {dtype}")
        return intern(row, (), (), dtype, payload)
    pattern = _AXES if row.reduction else _PAYLOADS.get(row.name, "")
    if row.name in _LOWERED or not re.fullmatch(pattern, payload):
        raise GraphError(f"{row.name} cannot have {short(payload)!r}")
    if row.name == "cast":
        _dtype(payload.partition(" ")[0])
    if row.name == "update":
        from fuser.tracing import regions  # which needs this module

        if len(regions.parse(payload)) != len(args[0].shape):
            raise GraphError(f"update: {short(payload)!r} is no part of {args[0].type}")
    return make(row.name, *args, payload=payload, equal=equal)
