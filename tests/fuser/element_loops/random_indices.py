"""Random functions of loops over elements that compute indices: what is written, where it ends."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.fuser.element_loops.random_programs import Kind, Writer

_APART = 200


class _Writer(Writer):
    """Writes one function of indices."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self.lines += ["    i = 0", "    j = n", "    c = 0"]
        self.loops: list[str] = []
        self.count = 0

    def name(self) -> str:
        """An integer."""
        names = (*self.loops, *self.loops, "i", "j", "n", "m")
        return self.pick(*names, "len(x)", "len(y)")

    def whole(self, depth: int = 2) -> str:
        """An integer expression."""
        chance = self.random.random()
        if depth == 0 or chance < 0.35:
            return self.name() if self.random.random() < 0.75 else str(self.random.randint(-3, 4))
        left, right = self.whole(depth - 1), self.whole(depth - 1)
        if chance < 0.65:
            return f"({left} {self.pick('+', '-')} {right})"
        if chance < 0.72:
            return f"({left} * {self.random.randint(-2, 3)})"
        if chance < 0.8:
            return f"({left} // {self.random.randint(1, 3)})"
        if chance < 0.88:
            return f"({left} % {self.pick('n', 'len(x)', '3', '5', f'({right})')})"
        if chance < 0.94:
            return f"{self.pick('min', 'max')}({left}, {right})"
        return self.pick(f"k[{left}]", f"u[{left}]", f"({left} >> 1)", f"({left} & 3)")

    def condition(self) -> str:
        """A comparison, or two."""
        found = f"{self.whole(1)} {self.pick('<', '<=', '>', '>=', '!=', '==')} {self.whole(1)}"
        if self.random.random() < 0.3:
            found += f" {self.pick('and', 'or')} {self.condition()}"
        return f"not ({found})" if self.random.random() < 0.1 else found

    def statement(self, *given: Any) -> None:
        """One statement."""
        chance = self.random.random()
        if chance < 0.3:
            self.emit(f"{self.pick('x', 'y')}[{self.whole()}] += 1")
        elif chance < 0.4:
            self.emit(f"x[{self.whole()}] = y[{self.whole()}] + {self.name()}")
        elif chance < 0.6:
            self.emit(f"{self.pick('i', 'j')} {self.pick('=', '+=', '-=')} {self.whole(1)}")
        elif chance < 0.75 and self.depth < 5:
            self.emit(f"if {self.condition()}:")
            self.block(self.random.randint(1, 2))
            if self.random.random() < 0.4:
                self.emit("else:")
                self.block(1)
        elif chance < 0.82 and self.loops:
            self.emit(f"if {self.condition()}:")
            self.emit(f"    {self.pick('break', 'continue')}")
        elif self.depth < 4:
            self.loop()
        else:
            self.emit(f"{self.pick('i', 'j')} {self.pick('+', '-')}= 1")

    def loop(self) -> None:
        """A loop."""
        self.count += 1
        if self.random.random() < 0.5:
            name = f"l{self.count}"
            ends = [self.whole(1) for _ in range(self.random.randint(1, 2))]
            if len(ends) == 2 and self.random.random() < 0.6:
                ends.append(self.pick("-1", "2", "-2", "m", "(m + 1)", "-1"))
            self.emit(f"for {name} in range({', '.join(ends)}):")
            self.loops.append(name)
            self.block(self.random.randint(1, 3))
            self.loops.remove(name)
            return
        test = self.pick(self.condition(), f"i < {self.whole(1)}", "i < j", "j >= 0", "i * i < n")
        self.emit(f"while {test}:")
        self.emit("    c += 1")
        self.emit("    if c > 40:")
        self.emit("        break")
        self.loops.append("c")
        self.block(self.random.randint(1, 3))
        self.loops.remove("c")
        if self.random.random() < 0.7:
            self.emit(f"    {self.pick('i += 1', 'j -= 1', 'i += 2', 'i = (i + j) // 2 + 1')}")


def program(seed: int) -> str:
    """The source of a function."""
    writer = _Writer(seed)
    for _ in range(writer.random.randint(1, 2)):
        writer.loop()
        writer.statement()
    body = "\n".join(writer.lines)
    return f"def f(x, y, k, u, n, m):\n{body}\n    return i, j, c\n"


def _arguments(seed: int) -> tuple[list[Any], list[Any]]:
    """Arrays and numbers; and what the arrays are parts of."""
    rng = np.random.default_rng(seed)
    n = int(rng.integers(0, 8))
    whole: list[Any] = []
    parts: list[Any] = []
    for length, dtype in ((n, "f8"), (n + int(rng.integers(0, 2)), "f8"), (6, "i8"), (6, "u1")):
        made = rng.integers(0 if dtype == "u1" else -n, n + 1, 2 * _APART + length).astype(dtype)
        whole.append(made)
        parts.append(made[_APART : _APART + length])
    if rng.random() < 0.2:
        parts[0] = whole[0][_APART + n - 1 : _APART - 1 : -1] if n else parts[0]
    return [*parts, n, int(rng.integers(-2, 5))], whole


KIND = Kind(program, _arguments, lambda seed: [11 * seed + turn // 2 for turn in range(6)])
