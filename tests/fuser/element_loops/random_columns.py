"""Random functions of two nested loops over elements: which iterations depend on which others."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.fuser.element_loops.random_programs import Kind, Writer


class _Writer(Writer):
    """Writes one function whose indices lie within; a mild one has hardly any dependence."""

    def __init__(self, seed: int) -> None:
        """As the base; two of three are mild."""
        super().__init__(seed)
        self.mild = self.random.random() < 0.7

    def index(self, *own: str) -> str:
        """An index: of a loop, beside it, or the same in all iterations."""
        chance = self.random.random()
        if chance < 0.75:
            return self.pick(*own)
        return f"{self.pick(*own)} {self.pick('-', '+')} 1" if chance < 0.9 else self.pick("0", "m")

    def element(self, *own: str, written: bool = False) -> str:
        """An element."""
        name = self.pick("a", "a", "b", "c", "x", "y")
        if self.mild and self.random.random() < 0.95:
            if written or name == "a":
                column = "j" if written or self.random.random() < 0.7 else "j - 1"
                return f"a[{'k' if len(own) > 1 else 'm'}, {column}]"
        if name in "xy":
            return f"{name}[{self.index(*own)}]"
        if self.random.random() < 0.7:
            return f"{name}[{', '.join(reversed(own))}]"
        return f"{name}[{self.index(*own)}, {self.index(*own)}]"

    def value(self, *own: str) -> str:
        """An expression."""
        numbers = ("0.5", "m") if self.mild and len(own) > 1 else ("s", "t", "0.5", "m")
        parts = [self.element(*own) if self.random.random() < 0.6 else self.pick(*numbers)
                 for _ in range(self.random.randint(1, 3))]  # fmt: skip
        return f" {self.pick('+', '-', '*')} ".join(parts)

    def statement(self, *given: Any) -> None:
        """A statement; the loops around it are given."""
        chance = self.random.random()
        if chance < (0.2 if self.mild else 0.35):
            sign = self.pick("=", "+=", "-=")
            self.emit(f"{self.pick('s', 't')} {sign} {self.value(*given)}")
        elif chance < 0.45 and len(given) == 1:
            self.emit(f"{self.pick('a', 'b')}[:, {given[0]}] {self.pick('=', '+=')} "
                      f"{self.pick('c', 'a', 'b')}[:, {self.index(*given)}] * {self.value(*given)}")
        else:
            target = self.element(*given, written=True)
            self.emit(f"{target} {self.pick('=', '+=')} {self.value(*given)}")


def program(seed: int) -> str:
    """The source of a function."""
    writer = _Writer(seed)
    for _ in range(writer.random.randint(1, 2)):
        span = writer.pick("range(1, n - 1)", "range(n - 2, 0, -1)", "range(1, n - 1)")
        writer.emit(f"for j in {span}:")
        alone = writer.mild and writer.random.random() < 0.5
        writer.block(0 if alone else writer.random.randint(0, 2), "j")
        writer.depth += 1
        for _ in range(writer.random.randint(1, 2)):
            if not alone and writer.random.random() < 0.6:
                writer.emit(writer.pick("s = 0.0", "t = x[j]", "s = t = 0.5"))
            span = "range(j)" if writer.random.random() < 0.2 else "range(1, n - 1)"
            writer.emit(f"for k in {span}:")
            writer.block(writer.random.randint(1, 2), "j", "k")
        if not alone and writer.random.random() < 0.6:
            writer.emit(writer.pick("a[0, j] = s", "x[j] = s", "y[j] = t", "b[m, j] += s"))
        writer.depth -= 1
    body = "\n".join(writer.lines)
    begin = "def f(a, b, c, x, y, n, m):\n    s = t = 0.25\n    j = k = 0"
    return f"{begin}\n{body}\n    return s, t, j, k\n"


def _arguments(seed: int) -> tuple[list[Any], list[Any]]:
    """Square arrays of two layouts, vectors, and numbers."""
    rng = np.random.default_rng(seed)
    n = int(rng.choice([1, 2, 4, 7, 10, 11, 19, 21]))
    arrays = [rng.integers(-4, 5, shape) / 4.0 for shape in ((n, n), (n, n), (n, n), n, n)]
    if rng.random() < 0.3:
        arrays[0] = np.asfortranarray(arrays[0])
    return [*arrays, n, min(1, n - 1)], arrays


KIND = Kind(program, _arguments, lambda seed: [5 * seed + turn for turn in range(5)])
