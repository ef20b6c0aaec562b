"""The language of a graph's text: expressions over lengths and scalars, checked, then computed.

Texts of graphs come from other processes and from files, so what they say is data. An expression
has names, numbers, operators and a few functions of numbers; it has no attributes, subscripts,
strings, comprehensions or other calls, and its names stand for numbers that the caller gives. What
is allowed is listed, everything else is a GraphError before anything is computed. Powers and
shifts of integers stop at `MOST_BITS`, so computing takes a time that the text's length bounds.
"""

from __future__ import annotations

import ast
import math
import re
from collections.abc import Mapping
from operator import attrgetter
from types import CodeType
from typing import Any

from fuser.base.caches import memo
from fuser.base.errors import GraphError, Unsupported
from fuser.base.records import record

#: Characters of an expression at most: Python takes some 20 ms to read and compile so many.
MOST_CHARACTERS = 20_000
#: Expressions in each other, each an operand of the next, at most.
MOST_LEVELS = 1_000
#: Bits that an integer may have where powers, shifts or their products make it.
MOST_BITS = 1 << 16
#: No quotes, brackets, colons, backslashes, other scripts or control characters.
_CHARACTERS = frozenset(
    "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_ .,+-*/%()<>=!&|^~"
)


@record(eq=False)
class Language:
    """What expressions of one kind may contain.

    Attributes:
        name: for messages.
        nodes: the operators, by their node types.
        numbers: types of constants.
        functions: number of arguments by name.
        constants: names that are not the caller's.
    """

    name: str
    nodes: tuple[type[ast.AST], ...]
    numbers: tuple[type, ...]
    functions: Mapping[str, int]
    constants: frozenset[str] = frozenset()


#: Lengths: integers.
LENGTH = Language(
    "length",
    (ast.Add, ast.Sub, ast.Mult, ast.FloorDiv, ast.Mod, ast.USub),
    (int,),
    {"min": 2, "max": 2},
)
#: Scalars: Python's numbers.
SCALAR = Language(
    "host expression",
    (ast.operator, ast.unaryop, ast.Compare, ast.cmpop),
    (int, float, complex, bool),
    {"min": 2, "max": 2, "abs": 1, "real": 1, "imag": 1},
    frozenset(("inf", "nan")),
)
_REFUSED = (ast.MatMult, ast.Not, ast.Is, ast.IsNot, ast.In, ast.NotIn)
_FRAME = (ast.Expression, ast.Load, ast.BinOp, ast.UnaryOp)


def parsed(text: str, what: str) -> ast.expr:
    """The syntax tree of a text's expression; nothing of it is allowed yet.

    Args:
        text: of any kind.
        what: it is to be, for messages.

    Raises:
        GraphError: it is no expression, or too long or too deep for Python's parser.
    """
    try:
        return ast.parse(text, mode="eval").body
    except (SyntaxError, ValueError, MemoryError, RecursionError, OverflowError) as error:
        told = getattr(error, "msg", None) or str(error) or "it is nested too deeply"
        raise GraphError(f"{what} {short(text)!r} is not an expression: {told}") from None


def short(text: str) -> str:
    """A text as messages show it."""
    return text if len(text) <= 80 else f"{text[:80]}…"


def _checked(text: str, language: Language) -> ast.Expression:
    """The syntax tree of an expression of a language.

    Raises:
        GraphError: it is none.
    """
    if len(text) > MOST_CHARACTERS or not _CHARACTERS.issuperset(text):
        long = len(text) > MOST_CHARACTERS
        told = "is too long" if long else "has characters that are not allowed"
        raise GraphError(f"{language.name} {short(text)!r} {told}")
    tree = ast.Expression(parsed(text, language.name))
    nodes = _nodes(tree)
    if nodes is None:
        raise GraphError(f"{language.name} {short(text)!r} is nested too deeply")
    functions = {node.func for node in nodes if isinstance(node, ast.Call)}
    for node in nodes:
        plain = isinstance(node, (*_FRAME, *language.nodes)) and not isinstance(node, _REFUSED)
        if isinstance(node, ast.Constant):
            plain = type(node.value) in language.numbers
            plain = plain and not (type(node.value) is int and _bits(node.value) > MOST_BITS)
        elif isinstance(node, ast.Name):
            plain = node in functions or node.id not in language.functions
            plain = plain and not node.id.startswith("_")
        elif isinstance(node, ast.Call):
            called = node.func.id if isinstance(node.func, ast.Name) else ""
            plain = language.functions.get(called) == len(node.args) and not node.keywords
        if not plain:
            raise GraphError(
                f"{language.name} {short(text)!r} has {type(node).__name__}, which is not allowed"
            )
    return tree


def _nodes(tree: ast.AST) -> list[ast.AST] | None:
    """All nodes of a syntax tree; None where it has more than `MOST_LEVELS`."""
    found: list[ast.AST] = []
    level = [tree]
    for _ in range(MOST_LEVELS):
        found += level
        level = [child for node in level for child in ast.iter_child_nodes(node)]
        if not level:
            return found
    return None


@memo(4096)
def compiled(text: str, language: Language) -> CodeType:
    """Check and compile an expression.

    Raises:
        GraphError: it is none of the language, or too deep.
    """
    tree = _checked(text, language)
    if any(isinstance(node, (ast.Pow, ast.LShift)) for node in ast.walk(tree)):
        _bound(tree)
    try:
        return compile(tree, f"<{language.name}>", "eval")
    except (ValueError, MemoryError, RecursionError) as error:
        raise GraphError(f"{language.name} {short(text)!r} is too deep: {error}") from None


def _bound(tree: ast.AST) -> None:
    """Put functions that stop at `MOST_BITS` in the place of operators that make long integers."""

    def bounded(node: Any) -> Any:
        name = _BOUNDED.get(type(node.op)) if isinstance(node, ast.BinOp) else None
        if name is None:
            return node
        function = ast.copy_location(ast.Name(name, ast.Load()), node)
        return ast.copy_location(ast.Call(function, [node.left, node.right], []), node)

    waiting = [tree]
    while waiting:
        node = waiting.pop()
        for field, value in ast.iter_fields(node):
            if isinstance(value, list):
                value[:] = map(bounded, value)
                waiting += value
            elif isinstance(value, ast.AST):
                setattr(node, field, bounded(value))
                waiting.append(getattr(node, field))


def _bits(value: Any) -> int:
    """How many bits an integer has."""
    return value.bit_length() if isinstance(value, int) else 0


def _within(bits: float, sign: str) -> None:
    """Refuse an integer that would be too long."""
    if bits > MOST_BITS:
        raise Unsupported("scalar-range", sign, f"an integer of more than {MOST_BITS} bits", "")


def _power(base: Any, exponent: Any) -> Any:
    """`base ** exponent`."""
    if isinstance(base, int) and isinstance(exponent, int) and exponent > 0:
        _within(_bits(base) * exponent if _bits(base) > 1 else 0, "**")
    return base**exponent


def _shifted(value: Any, count: Any) -> Any:
    """`value << count`."""
    if isinstance(value, int) and isinstance(count, int) and value:
        _within(_bits(value) + max(count, 0), "<<")
    return value << count


def _product(left: Any, right: Any) -> Any:
    """`left * right`."""
    _within(_bits(left) + _bits(right), "*")
    return left * right


#: Their names are no identifiers, so no text has them.
_BOUNDED = {ast.Pow: "a ** b", ast.LShift: "a << b", ast.Mult: "a * b"}
#: What compiled expressions see beside their names; lengths bring functions of their own.
SCOPE: dict[str, Any] = {
    "__builtins__": {},
    "max": max,
    "min": min,
    "abs": abs,
    "real": attrgetter("real"),
    "imag": attrgetter("imag"),
    "inf": math.inf,
    "nan": math.nan,
    "a ** b": _power,
    "a << b": _shifted,
    "a * b": _product,
}


def evaluate(text: str, language: Language, names: Mapping[str, Any]) -> Any:
    """Compute an expression with Python's own arithmetic, or with that of the names' values.

    Args:
        text: the expression.
        language: it is one of.
        names: values; those of functions come before Python's.

    Raises:
        GraphError: the text is no expression of the language.
        Unsupported: it makes an integer of more than `MOST_BITS`.
    """
    return eval(compiled(text, language), SCOPE, names)


@memo(4096)
def names_in(text: str, language: Language) -> frozenset[str]:
    """The scalars and lengths that an expression speaks of.

    Raises:
        GraphError: the text is no expression of the language.
    """
    known = language.constants | language.functions.keys()
    names = (node.id for node in ast.walk(_checked(text, language)) if isinstance(node, ast.Name))
    return frozenset(names) - known


# -- expressions over scalars and lengths ---------------------------------------------------


def evaluate_scalar(text: str, names: Mapping[str, Any]) -> Any:
    """Compute a host expression with Python's own arithmetic.

    Args:
        text: an expression over scalar names (`s0`) and lengths (`n0`).
        names: their values.
    """
    return evaluate(text, SCALAR, dict(names))


_SYMBOL = r"\b[nsx]\d+\b"


def scalar_symbols(text: str) -> set[str]:
    """The scalars and lengths in a host expression."""
    return set(re.findall(_SYMBOL, text))


def rename_scalars(text: str, names: Mapping[str, Any]) -> str:
    """Replace symbols in a host expression."""

    def replace(found: re.Match[str]) -> str:
        new = names.get(found[0], found[0])
        return str(new) if isinstance(new, int) or re.fullmatch(_SYMBOL, str(new)) else f"({new})"

    return re.sub(_SYMBOL, replace, text)
