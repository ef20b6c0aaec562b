"""numexpr: the formula traced into a graph and spelled as one expression string."""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

import numpy as np

import fuser
from fuser.ir.graph import Graph, Node, constant_value
from fuser.suites.probes import machine
from fuser.suites.runners import NotExpressibleError, Runner, refusals
from fuser.suites.workload import Arguments

LONGEST = 4_000
"""Characters: a value used twice is spelled twice, so that long chains double with every step."""

SPELLING: Mapping[str, str] = MappingProxyType({
    "add": "({} + {})", "subtract": "({} - {})", "multiply": "({} * {})", "divide": "({} / {})",
    "power": "({} ** {})", "square": "({} ** 2)", "negative": "(-{})", "positive": "{}",
    "reciprocal": "(1 / {})", "absolute": "abs({})", "fabs": "abs({})",
    "equal": "({} == {})", "not_equal": "({} != {})", "less": "({} < {})",
    "less_equal": "({} <= {})", "greater": "({} > {})", "greater_equal": "({} >= {})",
    "bitwise_and": "({} & {})", "bitwise_or": "({} | {})", "bitwise_xor": "({} ^ {})",
    "invert": "(~{})", "left_shift": "({} << {})", "right_shift": "({} >> {})",
    "where": "where({}, {}, {})", "cast": "{}",
    "fmod": "({} % {})",
    "maximum": "where({0} > {1}, {0}, {1})", "minimum": "where({0} < {1}, {0}, {1})",
} | {
    name: f"{name}({{}})"
    for name in (
        "sqrt", "exp", "expm1", "log", "log10", "log1p", "sin", "cos", "tan", "arcsin", "arccos",
        "arctan", "sinh", "cosh", "tanh", "arcsinh", "arccosh", "arctanh", "floor", "ceil",
    )
} | {"arctan2": "arctan2({}, {})"})
"""numexpr's form of our operations. Not `remainder`: numexpr's % truncates, NumPy's floors."""


class NumexprRunner(Runner):
    """Evaluates one string; where the formula is not one expression of what numexpr has, none."""

    name = "numexpr"
    needs = MappingProxyType({"numexpr": "numexpr"})
    description = "numexpr.evaluate of the traced formula, all cores"

    def start(self) -> None:
        """Import numexpr and start its threads."""
        import numexpr

        numexpr.set_num_threads(machine.usable_cores())
        numexpr.evaluate("x + x", {"x": np.ones(1 << 17, np.float32)}, {})

    def prepare(self, function: Callable[..., Any], arguments: Arguments) -> Callable[..., Any]:
        """Return a call of numexpr.evaluate with the formula's text."""
        import numexpr

        graph = _traced(function, arguments)
        text, constants = expression(graph)
        names = [each.name for each in graph.parameters]
        scalars = {
            node.text: node.dtype.type for node in graph.nodes if node.op.is_scalar
        }
        casts = [scalars.get(name) for name in names]

        def call(*given: Any) -> Any:
            values = dict(constants)
            for name, cast, value in zip(names, casts, given, strict=True):
                values[name] = value if cast is None else cast(value)
            return evaluate(text, values, {})

        evaluate = numexpr.evaluate
        with refusals("numexpr", NotImplementedError, ValueError, TypeError, KeyError):
            call(*arguments)
        return call


def _traced(function: Callable[..., Any], arguments: Arguments) -> Graph:
    with refusals("not one expression", fuser.FuserError):
        return fuser.trace(function, *arguments)


def expression(graph: Graph) -> tuple[str, dict[str, Any]]:
    """Return a graph as numexpr's text, and the constants that it names.

    A number of the formula is a named 0-d array of its exact dtype: numexpr takes a Python float
    in the text for a double, and the result would be one. Whole numbers may stand in the text.

    Raises:
        NotExpressibleError: several results, an operation that numexpr lacks, or too long.
    """
    if len(graph.outputs) != 1:
        raise NotExpressibleError(
            f"numexpr evaluates one expression, the formula has {len(graph.outputs)} results"
        )
    spelled: dict[int, str] = {}
    constants: dict[str, Any] = {}
    for node in graph.nodes:
        text = _spelled(node, [spelled[id(each)] for each in node.args], constants)
        if len(text) > LONGEST:
            raise NotExpressibleError(
                "as one expression, without names for values used twice, the formula is longer "
                f"than {LONGEST} characters"
            )
        spelled[id(node)] = text
    return spelled[id(graph.outputs[0])], constants


def _spelled(node: Node, operands: list[str], constants: dict[str, Any]) -> str:
    name = node.op.name
    if node.op.is_input or node.op.is_scalar:
        if not node.text.isidentifier():
            raise NotExpressibleError(f"a number computed from the arguments: {node.text}")
        return str(node.text)
    if node.op.is_constant:
        value = constant_value(node)
        whole = not np.signbit(value) if node.dtype.kind == "f" else True
        if np.isfinite(value) and value == int(value) and 0 <= value < 1 << 30 and whole:
            return str(int(value))
        label = f"c{len(constants)}"
        constants[label] = value
        return label
    if name not in SPELLING:
        raise NotExpressibleError(f"numexpr has no form of {name}")
    if node.op.divides and node.dtype.kind != "f":
        raise NotExpressibleError("numexpr's % of integers")
    return SPELLING[name].format(*operands)
