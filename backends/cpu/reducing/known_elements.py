"""Reductions of so few elements that all are written out: each is loaded and computed once."""

from __future__ import annotations

from collections.abc import Callable

from fuser.backends.cpu.body import Value
from fuser.backends.cpu.reducing.emit_reduction import Reduction
from fuser.codegen import Instruction


class KnownElements(Reduction):
    """What one stage has loaded or computed of an element the next ones find in registers."""

    element = 0
    """Which element, or vector of elements, is met."""
    known: dict[tuple[int, int], Value]
    """What was loaded and computed of elements: (value, which element)."""

    def _instruction(self, number: int, instruction: Instruction, level: int) -> None:
        key = number, self.element
        if level == 2 and key in self.known:
            self.values[number] = self.known[key]
            return
        super()._instruction(number, instruction, level)
        if level == 2:
            self.known[key] = self.values[number]

    def _load_pair(
        self, k: int, address: Callable[[int], str], step: Callable[[int], str]
    ) -> None:
        keys = [(number, self.element) for number in (k, k + 1)]
        if not all(key in self.known for key in keys):
            super()._load_pair(k, address, step)
            self.known |= {key: self.values[key[0]] for key in keys}
        self.values |= {key[0]: self.known[key] for key in keys}

    def _load_vector(self, k: int, address: str, step: str, mask: Value | None) -> Value:
        key = k, self.element
        if key not in self.known:
            self.known[key] = super()._load_vector(k, address, step, mask)
        return self.known[key]
