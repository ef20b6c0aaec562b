"""Symbolic lengths: integers, or normalised polynomials over symbols, min, max and floor division.

Two lengths are equal for every size exactly when they are the same object or compare equal here
(sound, not complete: some equal expressions are not seen to be equal).
"""

from __future__ import annotations

import ast
import math
import re
from collections.abc import Iterable, Mapping
from typing import Any, Union

from fuser.base import host_expressions
from fuser.base.caches import memo
from fuser.base.errors import GraphError
from fuser.base.host_expressions import LENGTH

Dim = Union[int, "Length"]
Shape = tuple[Dim, ...]
Monomial = tuple[str, ...]

#: Products of terms that one multiplication makes at most: a text may ask for any number.
MOST_TERMS = 4096


class Length:
    """A polynomial with integer coefficients over atoms.

    An atom is a symbol (`n0`) or the text of a min, max or floor division. Terms are sorted, so
    equal polynomials have equal texts. Immutable and hashable.
    """

    __slots__ = ("_hash", "terms", "text")

    def __init__(self, terms: tuple[tuple[Monomial, int], ...]) -> None:
        """Take sorted, merged, non-zero terms; use `symbol` and operators instead."""
        self.terms = terms
        self.text = spell(terms)
        self._hash = hash(self.text)

    def __eq__(self, other: object) -> bool:
        """Same polynomial."""
        return isinstance(other, Length) and other.text == self.text

    def __hash__(self) -> int:
        """Hash of the normal form."""
        return self._hash

    def __repr__(self) -> str:
        """The normal form, a Python expression."""
        return self.text

    def __add__(self, other: Dim) -> Dim:
        """Sum."""
        return _sum(self, other)

    __radd__ = __add__

    def __neg__(self) -> Dim:
        """Negation."""
        return self * -1

    def __sub__(self, other: Dim) -> Dim:
        """Difference."""
        return self + (other * -1)

    def __rsub__(self, other: Dim) -> Dim:
        """Difference, reflected."""
        return (self * -1) + other

    def __mul__(self, other: Dim) -> Dim:
        """Product."""
        return _times(self, other)

    __rmul__ = __mul__

    def __floordiv__(self, other: Dim) -> Dim:
        """Floor division; done here where every coefficient divides: `(2*n0 + 1) // 2` is `n0`."""
        if other == 1:
            return self
        if isinstance(other, int) and all(v % other == 0 for names, v in self.terms if names):
            divided = ((names, value // other) for names, value in self.terms)
            return _build(tuple((names, value) for names, value in divided if value))
        return _atom(f"({_inner(self)} // {_inner(other)})")

    def __rfloordiv__(self, other: int) -> Dim:
        """Floor division of an integer by this length."""
        return _atom(f"({other} // {_inner(self)})")

    def __mod__(self, other: Dim) -> Dim:
        """Remainder, with the sign of `other` as in Python: `n0 - n1*(n0 // n1)`."""
        return self - (self // other) * other

    def __rmod__(self, other: int) -> Dim:
        """Remainder of an integer by this length."""
        return other - (other // self) * self


def _inner(value: Dim) -> str:
    """A length inside a division: in parentheses unless it is one symbol or integer."""
    text = str(value)
    return text if text.isalnum() else f"({text})"


def terms_of(value: Dim) -> tuple[tuple[Monomial, int], ...]:
    """The terms of either kind of dim: (names, factor) pairs.

    Args:
        value: a length.
    """
    if isinstance(value, Length):
        return value.terms
    return (((), value),) if value else ()


def _merge(
    left: tuple[tuple[Monomial, int], ...], right: tuple[tuple[Monomial, int], ...]
) -> tuple[tuple[Monomial, int], ...]:
    """Add two lists of terms and sort them: constants last."""
    total: dict[Monomial, int] = {}
    for names, value in (*left, *right):
        total[names] = total.get(names, 0) + value
    kept = [(names, value) for names, value in total.items() if value]
    return tuple(sorted(kept, key=lambda term: (not term[0], term[0])))


@memo(4096)
def _sum(left: Length, right: Dim) -> Dim:
    """Kept: plans and traces add the same few lengths again and again."""
    return _build(_rejoined(_merge(left.terms, terms_of(right))))


@memo(4096)
def _times(left: Length, right: Dim) -> Dim:
    """The product of two lengths."""
    if len(left.terms) * len(terms_of(right)) > MOST_TERMS:
        text = host_expressions.short(left.text)
        raise GraphError(f"a length has more than {MOST_TERMS} terms: {text}")
    product: list[tuple[Monomial, int]] = []
    for names, a in left.terms:
        for others, b in terms_of(right):
            product.append((tuple(sorted(names + others)), a * b))
    return _build(_merge(tuple(product), ()))


def _rejoined(terms: tuple[tuple[Monomial, int], ...]) -> tuple[tuple[Monomial, int], ...]:
    """Put the two parts of a length together: `min(x, 3) + max(x - 3, 0)` is `x`."""
    for names, number in terms:
        found = re.fullmatch(r"min\((.*), (\d+)\)", names[0]) if len(names) == 1 else None
        if found is None:
            continue
        whole = parse(found[1])
        other = str(whole - int(found[2]))
        rest = ((f"max({other}, 0)",), number)
        if rest in terms and isinstance(whole, Length):
            kept = tuple(term for term in terms if term not in ((names, number), rest))
            return _merge(kept, terms_of(whole * number))
    return terms


def _build(terms: tuple[tuple[Monomial, int], ...]) -> Dim:
    """Return a plain integer where nothing symbolic is left."""
    if not terms:
        return 0
    if len(terms) == 1 and not terms[0][0]:
        return terms[0][1]
    return Length(terms)


def spell(terms: Iterable[tuple[Monomial, int]]) -> str:
    """Write terms, in this order, as a Python expression: `2*n0*n1 + n2 - 1`."""
    text = ""
    for names, value in terms:
        body = "*".join(names)
        size = abs(value)
        piece = body if size == 1 and body else f"{size}*{body}" if body else str(size)
        sign = "-" if value < 0 else "+"
        text = f"{text} {sign} {piece}" if text else (f"-{piece}" if value < 0 else piece)
    return text


def _atom(text: str) -> Length:
    """A polynomial that is one atom."""
    return Length((((text,), 1),))


@memo(4096)
def symbol(name: str) -> Length:
    """The length called `name`."""
    return _atom(name)


@memo(4096)
def maximum(left: Dim, right: Dim) -> Dim:
    """The larger of two lengths; `max(max(n - 1, 0) - 1, 0)` becomes `max(n - 2, 0)`."""
    if isinstance(left, int) and isinstance(right, int):
        return max(left, right)
    if left == right:
        return left
    if isinstance(left, int):
        left, right = right, left
    if right == 0 and isinstance(left, Length):
        return _not_negative(left)
    if (inner := _limited("max", left, right)) is not None:
        return maximum(inner[0], max(inner[1], right))  # type: ignore[type-var]
    return _atom(f"max({left}, {right})")


def _limited(name: str, value: Dim, limit: Dim) -> tuple[Dim, int] | None:
    """The operands of `min(operand, integer)` inside another min with an integer; so max."""
    if not isinstance(limit, int) or not isinstance(value, Length):
        return None
    if len(value.terms) != 1 or value.terms[0][1] != 1 or len(value.terms[0][0]) != 1:
        return None
    found = re.fullmatch(rf"{name}\((.*), (-?\d+)\)", value.terms[0][0][0])
    return (parse(found[1]), int(found[2])) if found else None


def _not_negative(value: Length) -> Dim:
    """`max(value, 0)`, merged with a max inside it where that is exact."""
    if _bounds(value.text)[0] >= 0:
        return value
    constant = sum(number for names, number in value.terms if not names)
    rest = [(names, number) for names, number in value.terms if names]
    if len(rest) == 1 and rest[0][1] == 1 and len(rest[0][0]) == 1 and constant < 0:
        inside = rest[0][0][0]
        if inside.startswith("max(") and inside.endswith(", 0)"):
            return maximum(parse(inside[4:-4]) + constant, 0)
    return _atom(f"max({value}, 0)")


@memo(4096)
def _bounds(text: str) -> tuple[float, float]:
    """The least and the largest number that an expression can be while symbols are lengths."""
    return _bounds_of(host_expressions.parsed(text, "length"))


def _bounds_of(node: ast.AST) -> tuple[float, float]:
    """Interval arithmetic over an expression; cautious, not tight."""
    if isinstance(node, ast.Name):
        return 0, math.inf
    if isinstance(node, ast.Constant):
        return node.value, node.value  # type: ignore[return-value]
    if isinstance(node, ast.UnaryOp):
        low, high = _bounds_of(node.operand)
        return -high, -low
    if isinstance(node, ast.Call):
        parts = [_bounds_of(arg) for arg in node.args]
        choose = min if ast.unparse(node.func) == "min" else max
        return choose(low for low, _ in parts), choose(high for _, high in parts)
    if not isinstance(node, ast.BinOp):
        return -math.inf, math.inf
    (low, high), (low2, high2) = _bounds_of(node.left), _bounds_of(node.right)
    if isinstance(node.op, ast.Add):
        return low + low2, high + high2
    if isinstance(node.op, ast.Sub):
        return low - high2, high - low2
    if low >= 0 and low2 >= 0:  # a product or a quotient of lengths
        return 0, math.inf
    return -math.inf, math.inf


@memo(4096)
def minimum(left: Dim, right: Dim) -> Dim:
    """The smaller of two lengths."""
    if isinstance(left, int) and isinstance(right, int):
        return min(left, right)
    if left == right:
        return left
    if isinstance(left, int):
        left, right = right, left
    if right == 0:
        assert isinstance(left, Length)
        return 0 if _bounds(left.text)[0] >= 0 else _atom(f"min({left}, 0)")
    if (inner := _limited("min", left, right)) is not None:
        return minimum(inner[0], min(inner[1], right))  # type: ignore[type-var]
    return _atom(f"min({left}, {right})")


class _Names(dict[str, Any]):
    """Names for `eval`: unknown ones are symbols."""

    def __missing__(self, key: str) -> Length:
        """Any other name is a length."""
        return symbol(key)


@memo(4096)
def parse(text: str) -> Dim:
    """Read a length back from its text.

    Raises:
        GraphError: the text is not an expression over names, integers, + - * // % min and max.
    """
    return substitute(text, _Names())


@memo(4096)
def parse_shape(text: str) -> Shape:
    """Read `n0, max(n1 - 1, 0), 3` back: commas inside parentheses do not separate."""
    parts, depth, start = [], 0, 0
    for place, letter in enumerate(text):
        depth += (letter == "(") - (letter == ")")
        if letter == "," and depth == 0:
            parts.append(text[start:place])
            start = place + 1
    parts.append(text[start:])
    return tuple(parse(part.strip()) for part in parts if part.strip())


def spell_shape(shape: Shape) -> str:
    """`[n0, 3]`."""
    return f"[{', '.join(map(str, shape))}]"


def substitute(value: Dim | str, names: Mapping[str, Dim]) -> Dim:
    """Replace symbols by lengths or integers and normalise again."""
    if isinstance(value, int):
        return value
    if isinstance(value, Length):
        if (alone := names.get(value.text)) is not None and value.text.isalnum():
            return alone
        if names.keys().isdisjoint(symbols(value)):
            return value
    scope = _Names(names)
    scope.update(max=maximum, min=minimum)
    result = host_expressions.evaluate(str(value), LENGTH, scope)
    assert isinstance(result, (int, Length))
    return result


def evaluate(value: Dim, sizes: Mapping[str, int]) -> int:
    """The number that a length is for given symbols."""
    if isinstance(value, int):
        return value
    if value.text in sizes:
        return sizes[value.text]
    found: int = host_expressions.evaluate(value.text, LENGTH, dict(sizes))
    return found


def rise(value: Dim, by: Mapping[str, int]) -> int:
    """By how much a sum rises when symbols do by these numbers; no product of them is in it."""
    return sum(factor * by.get(names[0], 0) for names, factor in terms_of(value) if names)


def symbols(value: Dim) -> tuple[str, ...]:
    """The symbols of a length, in order of appearance, each once."""
    return () if isinstance(value, int) else _symbols(value.text)


@memo(4096)
def _symbols(text: str) -> tuple[str, ...]:
    """The symbols of a length's text."""
    found = re.findall(r"[A-Za-z_]\w*", text)
    return tuple(dict.fromkeys(name for name in found if name not in ("min", "max")))


def slice_length(length: Dim, part: slice) -> Dim:
    """The length of `range(length)[part]` for integer or absent bounds."""
    step = 1 if part.step is None else part.step
    if step < 0:
        return _ceil_div(_backward(length, part), -step)
    start = 0 if part.start is None else part.start
    stop = part.stop
    if start >= 0:
        rest = maximum(length - start, 0)
        if stop is None:
            size = rest
        elif stop < 0:
            size = maximum(length + stop - start, 0)
        else:
            size = 0 if stop <= start else minimum(rest, stop - start)
    elif stop is None:
        size = minimum(length, -start)
    elif stop < 0:
        size = 0 if stop <= start else minimum(maximum(length + stop, 0), stop - start)
    else:
        size = maximum(minimum(length, stop) - maximum(length + start, 0), 0)
    return _ceil_div(size, step)


def _backward(length: Dim, part: slice) -> Dim:
    """How many positions lie between start and stop when walking down."""
    last = length - 1
    if part.start is None:
        first = last
    elif part.start >= 0:
        first = minimum(last, part.start)
    else:
        first = maximum(length + part.start, -1)
    if part.stop is None:
        end: Dim = -1
    elif part.stop >= 0:
        end = minimum(last, part.stop)
    else:
        end = maximum(length + part.stop, -1)
    return maximum(first - end, 0)


def steps(start: Dim, stop: Dim, step: int) -> Dim:
    """How many of the places start, start + step, … lie below stop, where start <= stop."""
    size = stop - start
    return _ceil_div(size if step == 1 else maximum(size, 0), step)


def _ceil_div(value: Dim, step: int) -> Dim:
    """Division that rounds up."""
    return value if step == 1 else (value + (step - 1)) // step


def product(shape: tuple[Dim, ...]) -> Dim:
    """The number of elements of a shape."""
    total: Dim = 1
    for dim in shape:
        total = dim if type(total) is int and total == 1 else total * dim
    return total


def representatives(guards: Iterable[tuple[Dim, Dim]]) -> dict[str, Dim]:
    """What pairs of equal lengths say: the text of a length -> the one that stands for it.

    Chains are followed, so one length of each class stands for all of them; an integer does
    where there is one, and a symbol for lengths that contain it.
    """
    found: dict[str, Dim] = {}

    def root(length: Dim) -> Dim:
        while not isinstance(length, int) and length.text in found:
            length = found[length.text]
        return length

    for left, right in guards:
        kept, gone = root(left), root(right)
        if isinstance(gone, int) or gone.text in symbols(kept):  # `n0`, not `min(n0 + 2, 9)`
            kept, gone = gone, kept
        if kept != gone and not isinstance(gone, int):
            found[gone.text] = kept
    return {text: root(length) for text, length in found.items()}
