"""Integers that remember how they depend on the lengths of a call.

Binding computes extents, strides and offsets from lengths, and chooses by comparing them. Run on
`Symbolic` integers instead of plain ones, the same code gives each of these as an expression over
lengths, and each comparison that the lengths of this call decide becomes a guard: an interval in
which an expression has to lie, for the choice to be the same. For all lengths that meet the
guards, binding would make the same choices and give the values of the same expressions.

What a plain integer is asked for (an index, a hash, a text) is answered for this call's lengths,
and pins the expression to the value that it has: so nothing leaves unnoticed. What has no integer
expression (a quotient as a float, a power) raises `NotSymbolic`.
"""

from __future__ import annotations

import ast
import math
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Union

from fuser.base import host_expressions
from fuser.base.caches import memo
from fuser.ir import dims
from fuser.ir.dims import Dim, Length

Integer = Union[int, "Symbolic"]
Guard = tuple[Length, int, int]
"""An expression and the interval in which it has to lie, ends included."""


class NotSymbolic(Exception):  # noqa: N818 - a signal: such a value is computed at each call
    """A value is no integer expression over lengths."""


class Assumptions:
    """What holds of the symbols of a call: their values, their bounds, and the guards met so far.

    Attributes:
        values: of this call, by symbol.
        bounds: the interval of each symbol that is checked anyway.
    """

    def __init__(self, values: Mapping[str, int], bounds: Mapping[str, tuple[int, int]]) -> None:
        """Know the symbols; each value lies within its bounds."""
        self.values = dict(values)
        self.bounds = dict(bounds)
        self._known: dict[Length, tuple[int, int]] = {}
        self._quotients: dict[str, int] = {}

    def add(self, name: str, value: int, most: int) -> None:
        """Know one more symbol: a stride, not 0, of either sign."""
        self.values[name], self.bounds[name] = value, (-most, most)

    def symbol(self, name: str) -> Symbolic:
        """The value called `name`."""
        return Symbolic(dims.symbol(name), self.values[name], self)

    def guards(self, upper: Mapping[Dim, int] = MappingProxyType({})) -> list[Guard]:
        """What has to be compared at each call; what the bounds of symbols imply is left out.

        Args:
            upper: what expressions are known not to exceed anyway.
        """
        known = self._known
        single = {d: each for d, each in known.items() if _is_symbol(d)}
        self._known = single
        implied = {d: self.interval(d) for d in known if d not in single}
        self._known = known
        kept: list[Guard] = []
        for dim, (low, high) in known.items():
            least, most = self.bounds[dim.text] if dim in single else implied[dim]
            if low > least or high < min(most, upper.get(dim, most)):
                kept.append((dim, low, high))
        return kept

    def value(self, dim: Dim) -> int:
        """What an expression is in this call."""
        total = 0
        for names, factor in dims.terms_of(dim):
            for name in names:
                factor *= self._value_of(name)
            total += factor
        return total

    def _value_of(self, name: str) -> int:
        """The value of a symbol or of a quotient."""
        if name in self.values:
            return self.values[name]
        if name not in self._quotients:
            top, bottom = quotient(name)
            self._quotients[name] = self.value(top) // self.value(bottom)
        return self._quotients[name]

    def interval(self, dim: Dim) -> tuple[int, int]:
        """The least and the largest value that an expression can have; cautious, not tight."""
        low = high = 0
        for names, factor in dims.terms_of(dim):
            ends = (factor, factor)
            for name in names:
                ends = _product(ends, self._of_name(name))
            low, high = low + ends[0], high + ends[1]
        if isinstance(dim, Length):
            least, most = self._known.get(dim, (low, high))
            low, high = max(low, least), min(high, most)
        return low, high

    def _of_name(self, name: str) -> tuple[int, int]:
        """The interval of a symbol or of a quotient."""
        if name in self.bounds:
            low, high = self.bounds[name]
            least, most = self._known.get(dims.symbol(name), (low, high))
            return max(low, least), min(high, most)
        top, bottom = quotient(name)
        (low, high), (least, most) = self.interval(top), self.interval(bottom)
        if least < 1:
            raise NotSymbolic
        ends = [n // d for n in (low, high) for d in (least, most)]
        return min(ends), max(ends)

    def at_least(self, dim: Dim, least: int) -> bool:
        """Whether an expression is so large, in this call; a guard where that is not always so."""
        if isinstance(dim, int):
            return dim >= least
        constant = sum(value for names, value in dim.terms if not names)
        terms = [(names, value) for names, value in dim.terms if names]
        if not constant and least in (0, 1) and (shorter := self._without_factor(terms)) != terms:
            return self.at_least(_length(shorter, 1), least)
        unit = math.gcd(*(value for _, value in terms))
        rest = least - constant
        if terms[0][1] > 0:
            return self._reaches(_length(terms, unit), -(-rest // unit))
        return not self._reaches(_length(terms, -unit), -rest // unit + 1)

    def _without_factor(self, terms: list[tuple[Any, int]]) -> list[tuple[Any, int]]:
        """Terms of a sum without what all are multiplied by, where that is positive.

        Whether the sum is at least 0, or at least 1, stays the same.
        """
        for name in dict.fromkeys(terms[0][0]):
            while all(name in names for names, _ in terms) and self._of_name(name)[0] > 0:
                terms = [(_without(name, names), value) for names, value in terms]
        return terms

    def _reaches(self, dim: Length, least: int) -> bool:
        """`at_least` of an expression without constant and common factor."""
        names = dim.terms[0][0]
        if len(dim.terms) == 1 and len(names) == 1 and names[0] not in self.bounds:
            top, bottom = quotient(names[0])
            if isinstance(bottom, int) and bottom > 0:
                return self.at_least(top, least * bottom)
            if isinstance(top, int) and top > 0 < least and self.interval(bottom)[0] > 0:
                return not self.at_least(bottom, top // least + 1)
        low, high = self.interval(dim)
        if low >= least or high < least:
            return low >= least
        first, last = self._known.get(dim, (low, high))
        if self.value(dim) >= least:
            self._known[dim] = (max(first, least), last)
            return True
        self._known[dim] = (first, min(last, least - 1))
        return False

    def is_zero(self, dim: Dim) -> bool:
        """Whether an expression is 0, in this call; a guard where that is not always so."""
        if isinstance(dim, int):
            return dim == 0
        constant = sum(value for names, value in dim.terms if not names)
        if constant % math.gcd(*(value for names, value in dim.terms if names)):
            return False
        if self.value(dim) > 0:
            return not self.at_least(dim, 1)
        return self.at_least(dim, 0) and not self.at_least(dim, 1)


def _is_symbol(dim: Length) -> bool:
    return dim.text.isidentifier()


def _without(name: str, names: tuple[str, ...]) -> tuple[str, ...]:
    """The factors of a term but one."""
    place = names.index(name)
    return (*names[:place], *names[place + 1 :])


def _length(terms: list[tuple[Any, int]], unit: int) -> Any:
    """The sum of terms divided by a number."""
    divided = [(names, value // unit) for names, value in terms]
    if all(not names for names, _ in divided):
        return sum(value for _, value in divided)
    return Length(tuple(sorted(divided, key=lambda term: (not term[0], term[0]))))


def _product(one: tuple[int, int], other: tuple[int, int]) -> tuple[int, int]:
    """The interval of a product."""
    ends = [a * b for a in one for b in other]
    return min(ends), max(ends)


@memo(4096)
def quotient(text: str) -> tuple[Dim, Dim]:
    """Dividend and divisor of an atom of a length.

    Raises:
        NotSymbolic: it is a min or a max.
    """
    node = host_expressions.parsed(text, "length")
    if not isinstance(node, ast.BinOp) or not isinstance(node.op, ast.FloorDiv):
        raise NotSymbolic
    return dims.parse(ast.unparse(node.left)), dims.parse(ast.unparse(node.right))


def _refused(*_: Any) -> Any:
    raise NotSymbolic


def _foreign(other: Any) -> Integer:
    """What an operator says of an operand that is no integer.

    Raises:
        NotSymbolic: it is another number.
    """
    if isinstance(other, (float, complex)):
        raise NotSymbolic
    return NotImplemented  # type: ignore[no-any-return] # Python asks the other operand


class Symbolic:
    """An integer with its expression: see the module."""

    __slots__ = ("_assumptions", "dim", "value")

    def __init__(self, dim: Length, value: int, assumptions: Assumptions) -> None:
        """Take an expression, and its value in this call."""
        self.dim, self.value, self._assumptions = dim, value, assumptions

    def _made(self, dim: Dim, value: int) -> Integer:
        return dim if isinstance(dim, int) else Symbolic(dim, value, self._assumptions)

    def __add__(self, other: Any) -> Integer:
        """Sum."""
        if not isinstance(other, _KINDS):
            return _foreign(other)
        return self._made(self.dim + dim_of(other), self.value + value_of(other))

    __radd__ = __add__

    def __neg__(self) -> Integer:
        """Negation."""
        return self._made(-self.dim, -self.value)

    def __sub__(self, other: Any) -> Integer:
        """Difference."""
        found: Integer = self + -other
        return found

    def __rsub__(self, other: Integer) -> Integer:
        """Difference, reflected."""
        return -self + other

    def __mul__(self, other: Any) -> Integer:
        """Product."""
        if not isinstance(other, _KINDS):
            return _foreign(other)
        return self._made(self.dim * dim_of(other), self.value * value_of(other))

    __rmul__ = __mul__

    def __floordiv__(self, other: Integer) -> Integer:
        """Floor division; by what is negative, of the negated."""
        return _divided(self, other, self._assumptions)

    def __rfloordiv__(self, other: Integer) -> Integer:
        """Floor division, reflected."""
        return _divided(other, self, self._assumptions)

    def __mod__(self, other: Integer) -> Integer:
        """Remainder, with the sign of the divisor."""
        return self - self // other * other

    def __rmod__(self, other: Integer) -> Integer:
        """Remainder, reflected."""
        return other - other // self * self

    def __abs__(self) -> Integer:
        """The value without its sign."""
        return self if self >= 0 else -self

    def __ge__(self, other: Any) -> bool:
        """Comparison: a guard."""
        if isinstance(other, float):
            other = math.ceil(other)
        return self._assumptions.at_least(self.dim - dim_of(other), 0)

    def __gt__(self, other: Any) -> bool:
        """Comparison: a guard."""
        if isinstance(other, float):
            other = math.floor(other)
        return self._assumptions.at_least(self.dim - dim_of(other), 1)

    def __lt__(self, other: Any) -> bool:
        """Comparison: a guard."""
        return not self >= other

    def __le__(self, other: Any) -> bool:
        """Comparison: a guard."""
        return not self > other

    def __eq__(self, other: object) -> bool:
        """Comparison: a guard."""
        if not isinstance(other, _KINDS):
            return NotImplemented
        return self._assumptions.is_zero(self.dim - dim_of(other))

    def __bool__(self) -> bool:
        """Comparison with 0: a guard."""
        return not self._assumptions.is_zero(self.dim)

    def __index__(self) -> int:
        """The value: pinned."""
        assert self == self.value
        return self.value

    __int__ = __index__

    def __hash__(self) -> int:
        """Of the value: pinned."""
        return hash(self.__index__())

    def __repr__(self) -> str:
        """The value: pinned."""
        return repr(self.__index__())

    def bit_length(self) -> int:
        """Of a positive value: a guard."""
        bits = self.value.bit_length()
        if not (self > 0 and self >= 1 << bits - 1 and self < 1 << bits):
            raise NotSymbolic
        return bits

    __truediv__ = __rtruediv__ = __pow__ = __rpow__ = __float__ = __complex__ = _refused
    __and__ = __rand__ = __or__ = __ror__ = __xor__ = __rxor__ = __invert__ = _refused
    __lshift__ = __rlshift__ = __rshift__ = __rrshift__ = __divmod__ = __rdivmod__ = _refused


_KINDS = (int, Symbolic)


def dim_of(value: Integer) -> Dim:
    """The expression of a symbolic integer; a plain one is its own."""
    return value.dim if isinstance(value, Symbolic) else int(value)


def value_of(value: Integer) -> int:
    """The value that an integer has in this call; nothing is pinned."""
    return value.value if isinstance(value, Symbolic) else value


def _divided(top: Any, bottom: Any, assumptions: Assumptions) -> Integer:
    """Floor division by a divisor whose sign is guarded.

    Raises:
        ZeroDivisionError: the divisor is 0.
    """
    if not isinstance(top, _KINDS) or not isinstance(bottom, _KINDS):
        raise NotSymbolic
    if bottom == 0:
        raise ZeroDivisionError("integer division or modulo by zero")
    if bottom < 0:
        top, bottom = -top, -bottom
    found = dim_of(top) // dim_of(bottom)
    value = value_of(top) // value_of(bottom)
    return found if isinstance(found, int) else Symbolic(found, value, assumptions)
