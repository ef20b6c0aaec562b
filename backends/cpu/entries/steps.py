"""Expressions over lengths as rows that the dispatcher computes, each into a place of its own.

Place 0 holds the number 1. Lengths and strides that arguments tell come next, as they are matched;
then what is computed of them: products, sums, and quotients rounded down. All else in a table
(words of the template, lengths of results, sizes, guards) is a place, or a place and a factor.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from fuser.backends.cpu.entries.names import NotServed
from fuser.backends.cpu.machine import layout
from fuser.ir import dims
from fuser.ir.dims import Dim, Length
from fuser.runtime.symbolic import Assumptions, quotient

#: No sum that the dispatcher computes is larger.
MOST = 1 << 62


class TooLarge(Exception):  # noqa: N818 - a signal: smaller lengths may do
    """An expression may be too large for a word."""


class Steps:
    """The places of a table's expressions, and the rows that compute them."""

    def __init__(self, symbols: Mapping[str, int], assumptions: Assumptions) -> None:
        """Begin with the places of symbols."""
        self.rows: list[list[int]] = []
        self._places = dict(symbols)
        self._next = 1 + len(symbols)
        self._assumptions = assumptions

    def scaled(self, dim: Dim) -> tuple[int, int]:
        """An expression as a factor and a place.

        Raises:
            TooLarge: it may be too large for a word.
            NotServed: there are too many.
        """
        self._check(dim)
        if isinstance(dim, int):
            return dim, 0
        if len(dim.terms) == 1:
            ((names, factor),) = dim.terms
            return factor, self._product(names)
        return 1, self._sum(dim.text, dim)

    def place(self, dim: Dim) -> int:
        """The place of an expression."""
        factor, place = self.scaled(dim)
        if factor == 1:
            return place
        return self._made(str(dim), [(factor, place, 0)])

    def _check(self, dim: Dim) -> None:
        """Refuse what may be too large, in sum or in a part.

        Raises:
            TooLarge: it may be.
        """
        total = 0
        for names, factor in dims.terms_of(dim):
            low, high = self._assumptions.interval(_term(names))
            total += abs(factor) * max(abs(low), abs(high))
        if total >= MOST:
            raise TooLarge

    def _product(self, names: Sequence[str]) -> int:
        """The place of a product of symbols and quotients."""
        if not names:
            return 0
        key = "*".join(names)
        if key in self._places:
            return self._places[key]
        if len(names) > 1:
            return self._made(key, [(1, self._product(names[:-1]), self._product(names[-1:]))])
        top, bottom = quotient(key)
        self._check(top)
        return self._sum(key, top, self.place(bottom))

    def _sum(self, key: str, dim: Dim, divisor: int = 0) -> int:
        """The place of a sum, divided if a divisor's place is given."""
        if key in self._places:
            return self._places[key]
        return self._made(
            key,
            [
                (factor, self._product(names[:-1]), self._product(names[-1:]))
                for names, factor in dims.terms_of(dim) or (((), 0),)
            ],
            divisor,
        )

    def _made(
        self, key: str, products: Sequence[tuple[int, int, int]], divisor: int = 0
    ) -> int:
        """A new place for a sum of products of a factor and two places."""
        if key in self._places:
            return self._places[key]
        place = self._places[key] = self._next
        self._next += 1
        if place >= layout.MOST_SYMBOLS:
            raise NotServed
        for k, (factor, left, right) in enumerate(products, 1):
            self.rows.append(
                layout.words(
                    "STEP", place=place, more=int(k > 1), factor=factor, left=left, right=right,
                    divisor=divisor if k == len(products) else 0,
                )
            )  # fmt: skip
        return place


def _term(names: tuple[str, ...]) -> Dim:
    """A product of symbols and quotients as an expression."""
    return Length(((names, 1),)) if names else 1
