"""A graph's canonical text, read back: it may come from anywhere, and reading it calls nothing."""

from __future__ import annotations

import re
from collections.abc import Mapping
from keyword import iskeyword
from typing import Any

import numpy as np

from fuser.base.errors import FuserError, GraphError
from fuser.base.host_expressions import SCALAR, names_in, short
from fuser.ir import attribute_text, dims, opaque_calls
from fuser.ir.attributes import Attribute, Bits, Expression, Region
from fuser.ir.dims import Dim
from fuser.ir.graph import Graph, Node, Parameter, intern, make, make_input
from fuser.ir.ops import Op, op

_NAME = r"[A-Za-z][A-Za-z0-9_]*"
_HEADER = re.compile(r"graph\((.*)\):")
_LABEL = re.compile(r"%[0-9]+")
_OPERATION = re.compile(rf"({_NAME})(.*)")
_OPERANDS = re.compile(rf"( (%[0-9]+|{_NAME}))*")
#: Rows that no text has: inputs are parameters, and the others are in planned graphs only.
_LOWERED = frozenset("input scalar constant address component from_components interleave".split())


def parse(text: str) -> Graph:
    """Read a graph's canonical text.

    The text may come from anywhere: it has operations, numbers, lengths, dtypes and names of
    functions that `fuser.ir.opaque_calls` lists, and reading it calls nothing.

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
    shapes += [node.shape for node in graph.nodes if node.op.is_opaque]
    lengths = {str(dim) for shape in shapes for dim in shape}
    lengths |= graph.scalar_lengths.keys()
    known = lengths | {parameter.name for parameter in graph.parameters}
    known |= {node.payload.tells for node in graph.nodes if node.op.is_opaque}
    told = [dim for node in graph.nodes for dim in node.shape]
    told += [dim for shape in shapes for dim in shape]
    told += [dim for node in graph.nodes for dim in node.payload.lengths]
    guarded = [dim for pair in graph.guards for dim in pair]
    pairs = ((told, lengths), (guarded, lengths | graph.integers))
    for dim, names in ((dim, names) for listed, names in pairs for dim in listed):
        if unknown := [name for name in dims.symbols(dim) if name not in names]:
            raise GraphError(f"length {unknown[0]} is that of no array of the graph")
    for node in graph.nodes:
        texts = [node.payload.expression] if node.op.is_scalar else []
        if node.op.is_opaque:
            texts = node.payload.numbers
        for text in texts:
            if unknown := sorted(names_in(text, SCALAR) - known):
                raise GraphError(f"{short(text)!r} names {unknown[0]}, which is no argument")


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
    return Parameter(name, dtype, dims.parse_shape(found[2]), "", bool(found[3]))


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
    row: Op, args: list[Node], text: str, dtype: np.dtype[Any], shape: str,
    equal: Mapping[str, Dim],
) -> Node:  # fmt: skip
    """The node of an operation that has been read, with its attribute.

    Raises:
        GraphError: it is nothing that the operation may have.
    """
    if row.is_opaque:
        call = opaque_calls.read(text)
        return intern(row, tuple(args), dims.parse_shape(shape), dtype, call)
    if row.uniform and not args:
        return intern(row, (), (), dtype, _number(row, text, dtype))
    if row.name in _LOWERED:
        raise GraphError(f"{row.name} cannot have {short(text)!r}")
    if row.converts:
        _dtype(text.partition(" ")[0])
    attribute = attribute_text.read(row.name, text)
    if isinstance(attribute, Region) and len(attribute.box) != len(args[0].shape):
        raise GraphError(f"update: {short(text)!r} is no part of {args[0].type}")
    return make(row.name, *args, payload=attribute, equal=equal)


def _number(row: Op, text: str, dtype: np.dtype[Any]) -> Attribute:
    """What a scalar or a constant has.

    Raises:
        GraphError: it is no expression, or not so many bits.
    """
    if row.is_scalar:
        names_in(text, SCALAR)
        return Expression(text)
    if not re.fullmatch(rf"0x[0-9a-f]{{{2 * dtype.itemsize}}}", text):
        raise GraphError(f"{short(text)!r} is no constant of dtype {dtype}")
    return Bits(int(text, 16), dtype.itemsize)
