"""Lengths that numbers are in a loop, and conditions that have to hold in every iteration."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from fuser.base.host_expressions import evaluate_scalar, rename_scalars, scalar_symbols
from fuser.capture.before import Again, NotALoop
from fuser.capture.loop_passes import Pass
from fuser.capture.loop_values import integers_in
from fuser.ir import dims

#: Conditions of numbers that a loop may change: where they fail, Python raises, or goes elsewhere.
_DOMAIN = re.compile(r"\(.*\) (>= \d+|!= 0)|-?\d+ <= \(.*\) <= \d+")


class Lengths:
    """What a loop's lengths are.

    Attributes:
        integers: lengths that numbers are, see `integers_in`.
        moving: those of numbers that iterations change.
        told_inside: those that only calls in the body tell.
    """

    def __init__(self, found: Pass) -> None:
        """Look at what the passes have found."""
        self._pass, self._tracing = found, found.tracing
        self.integers = integers_in(self._tracing)
        self.moving = {symbol for symbol, (name, _) in self.integers.items()
                       if name in self._pass.symbols}  # fmt: skip
        self.told_inside = self._tracing.late - self._pass.before.late

    def guards(self) -> list[tuple[str, bool]]:
        """Conditions that hold in every iteration; those of the whole loop stay with the trace."""
        symbols, tracing = self._pass.symbols, self._tracing
        found: list[tuple[str, bool]] = []
        for text, value in list(tracing.value_guards.items()):
            spelled = self.spelled(text)
            if not self.told_inside.isdisjoint(scalar_symbols(spelled)):
                raise NotALoop("a length that only a call in it tells decides what it does")
            if symbols.isdisjoint(scalar_symbols(spelled)):
                continue
            if value is not True or not _DOMAIN.fullmatch(text):
                raise NotALoop("its index, or a number that it changes, decides what it does")
            del tracing.value_guards[text]
            text = spelled
            found.append((text, True))
            if scalar_symbols(text) & symbols == {self._pass.index.text}:
                self._check_range(lambda numbers, text=text: evaluate_scalar(text, numbers))  # type: ignore[misc]
        for left, right in tracing.guards:
            names = {s for dim in (left, right) for s in dims.symbols(dim)} & self.moving
            if names and {self.integers[name][0] for name in names} == {self._pass.index.text}:
                self._check_range(
                    lambda numbers, left=left, right=right:  # type: ignore[misc]
                    dims.evaluate(left, numbers) == dims.evaluate(right, numbers)
                )
        return found

    def spelled(self, text: str) -> str:
        """A host expression with lengths as they were found to be; moving ones are numbers."""
        names: dict[str, str] = {}
        for symbol in scalar_symbols(text) & self._tracing.sizes.keys():
            dim = self._tracing.resolve(dims.symbol(symbol))
            numbers = {name: f"{self.integers[name][1]} * {self.integers[name][0]}"
                       for name in self.moving.intersection(dims.symbols(dim))}  # fmt: skip
            names[symbol] = rename_scalars(str(dim), numbers)
        return rename_scalars(text, names)

    def _check_range(self, holds: Callable[[dict[str, int]], Any]) -> None:
        """Refuse what some iterations surely meet otherwise; the others look at each index.

        Raises:
            Again: only the first iteration is as the one that was looked at.
        """
        found, tracing, index = self._pass, self._tracing, self._pass.index.text
        span = found.span.here
        own = [(symbol, sign) for symbol, (name, sign) in self.integers.items() if name == index]
        places = [span[0], span[1 % len(span)]]
        if not found.is_limited:
            places += [span[len(span) // 2], span[-1]]
        for place in places:
            numbers = {**tracing.numbers(), index: place}
            numbers.update({symbol: sign * place for symbol, sign in own})
            if not holds(numbers) or any(numbers[symbol] < 0 for symbol, _ in own):
                kind = NotALoop if found.peeled or place == span[0] else Again
                raise kind("what it does depends on its index")

    def drop(self) -> None:
        """Forget what was found of lengths that only the body tells."""
        tracing = self._tracing
        gone = self.told_inside | self.moving
        symbols = self._pass.symbols
        tracing.told = {k: dim for k, dim in tracing.told.items() if k not in symbols}
        if gone:
            tracing.guards = [
                pair for pair in tracing.guards
                if gone.isdisjoint(s for dim in pair for s in dims.symbols(dim))
            ]  # fmt: skip
            for text in [t for t in tracing.value_guards if scalar_symbols(t) & gone]:
                del tracing.value_guards[text]
            tracing.common = {}
