"""Random functions of loops over elements: numbers of all dtypes, slices, helpers, decisions."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.fuser.element_loops.random_programs import Kind, Writer

DTYPES = ("float64", "float32", "int64", "int32", "uint8", "bool", "int8", "uint64")
HELPER = "def h(a, b):\n    if a < b:\n        return a + 1\n    return b * 2\n\n"


class _Writer(Writer):
    """Writes one function of numbers."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self.indices = ["n", "m"]
        self.names = ["n", "m", "f", "s", "t"]
        self.loops = 0
        self.rows = self.random.random() < 0.35

    def index(self) -> str:
        """An index, mostly within."""
        own = [name for name in self.indices if name in "ijk"]
        chance = self.random.random()
        if own and chance < 0.6:
            return self.pick(*own)
        if own and chance < 0.8:
            return f"{self.pick(*own)} {self.pick('-', '+')} {self.random.randint(1, 2)}"
        if chance < 0.9:
            return str(self.random.randint(-3, 3))
        return f"int({self.number(1)}) % 5" if chance < 0.93 else self.pick(*self.indices)

    def element(self) -> str:
        """An element of an array."""
        name = self.pick("A", "B", "x", "y", "z")
        if name in "AB":
            return f"{name}[{self.index()}, {self.index()}]"
        return f"{name}[{self.index()}]"

    def part(self) -> str:
        """A slice."""
        name = self.pick("A", "B", "x", "y", "z")
        cut = self.pick(":", ":", "1:", ":-1", "::-1", f":{self.index()}", f"{self.index()}:")
        if name in "xyz":
            return f"{name}[{cut}]"
        return f"{name}[{self.index()}, {cut}]" if self.random.random() < 0.7 else (
            f"{name}[{cut}, {self.index()}]"
        )

    def row(self, depth: int = 2) -> str:
        """An expression of slices."""
        chance = self.random.random()
        if depth <= 0 or chance < 0.4:
            return self.part()
        if chance < 0.75:
            return f"({self.row(depth - 1)} {self.pick('+', '-', '*')} {self.row(depth - 1)})"
        if chance < 0.95:
            return f"({self.row(depth - 1)} {self.pick('+', '-', '*')} {self.number(1)})"
        return f"np.{self.pick('maximum', 'minimum')}({self.row(depth - 1)}, {self.number(0)})"

    def whole(self, depth: int) -> str:
        """An expression that is an integer, mostly."""
        if depth <= 0 or self.random.random() < 0.4:
            return self.pick(*self.indices, str(self.random.randint(-3, 9)), self.element())
        operator = self.pick("&", "|", "^", "<<", ">>", "//", "%", "+", "*")
        right = str(self.random.randint(0, 4)) if operator in ("<<", ">>") else None
        return f"({self.whole(depth - 1)} {operator} {right or self.whole(depth - 1)})"

    def number(self, depth: int = 3) -> str:
        """An expression."""
        chance = self.random.random()
        one = depth - 1
        if depth <= 0 or chance < 0.25:
            value = str(round(self.random.uniform(-2, 2), 2))
            return self.pick(*self.names, str(self.random.randint(-3, 9)), value, "p", "True")
        if chance < 0.5:
            return self.element()
        if chance < 0.8:
            operator = self.pick("+", "-", "*", "+", "-", "*", "/", "//", "%")
            return f"({self.number(one)} {operator} {self.number(one)})"
        if chance < 0.85:
            return self.whole(2)
        if chance < 0.88:
            return f"({self.number(one)} if {self.condition(one)} else {self.number(one)})"
        if chance < 0.91:
            return f"{self.pick('min', 'max')}({self.number(one)}, {self.number(one)})"
        if chance < 0.95:
            return f"{self.pick('-', '+', 'abs')}({self.number(one)})"
        if chance < 0.96:
            return f"{self.number(one)} ** {self.random.randint(0, 3)}"
        if chance < 0.97:
            return f"h({self.number(one)}, {self.number(one)})"
        if chance < 0.98:
            return f"{self.pick('np.sqrt', 'np.abs', 'np.float32')}({self.number(one)})"
        if chance < 0.99:
            return f"{self.pick('int', 'float', 'bool')}({self.number(one)})"
        if self.rows:
            return f"{self.pick('np.max', 'np.min')}({self.row(1)})"
        return f"len({self.pick('x', 'y', 'A')})"

    def condition(self, depth: int = 2) -> str:
        """A test."""
        chance = self.random.random()
        one = depth - 1
        if chance < 0.7:
            sign = self.pick("<", "<=", "==", "!=", ">", ">=")
            return f"{self.number(one)} {sign} {self.number(one)}"
        if chance < 0.8 and depth > 0:
            return f"({self.condition(one)} {self.pick('and', 'or')} {self.condition(one)})"
        if chance < 0.85:
            return f"not {self.number(one)}"
        if chance < 0.9:
            return f"0 <= {self.number(one)} < {self.number(one)}"
        return self.number(one)

    def statement(self, *given: Any) -> None:
        """A statement; whether it stands in a loop is given."""
        (inside,), chance = given, self.random.random()
        if self.rows and chance < 0.2:
            self.emit(f"{self.part()} {self.pick('=', '=', '+=', '-=')} {self.row()}")
        elif chance < 0.3:
            self.emit(f"{self.element()} {self.pick('=', '=', '+=', '-=', '*=')} {self.number()}")
        elif chance < 0.55:
            name = self.pick("s", "t", "u")
            if name == "u" and "u" not in self.names:
                self.emit(f"u = {self.number()}")
                self.names.append("u")
            else:
                self.emit(f"{name} {self.pick('=', '=', '+=', '*=', '-=')} {self.number()}")
        elif chance < 0.68 and self.depth < 5:
            self.emit(f"if {self.condition()}:")
            self.block(self.random.randint(1, 2), inside)
            if self.random.random() < 0.4:
                self.emit("else:")
                self.block(1, inside)
        elif chance < 0.88 and self.depth < 5 and self.loops < 3:
            self.loop()
        elif chance < 0.92 and inside:
            self.emit(f"if {self.condition()}:")
            self.emit("    " + self.pick("break", "continue", "break"))
        elif chance < 0.95:
            self.emit("s, t = t, s")
        else:
            self.emit(f"t = {self.number()}")

    def loop(self) -> None:
        """A loop."""
        self.loops += 1
        free = [name for name in "ijk" if name not in self.indices]
        chance = self.random.random()
        if free and chance < 0.75:
            name, own = free[0], [each for each in self.indices if each in "ijk"]
            span = self.pick(
                "range(n)", "range(1, n)", "range(n - 1, -1, -1)", "range(m)", "range(len(x))",
                "range(0, n, 2)", "range(A.shape[1])", *(f"range({each})" for each in own),
                *(f"range({each} + 1, n)" for each in own),
            )  # fmt: skip
            self.emit(f"for {name} in {span}:")
            self.indices.append(name)
            self.names.append(name)
            self.block(self.random.randint(1, 3), True)
            if self.random.random() < 0.8:
                self.indices.remove(name)
            if self.random.random() < 0.7:
                self.names.remove(name)
            if self.random.random() < 0.1:
                self.emit("else:")
                self.block(1, False)
        elif chance < 0.88:
            self.emit(self.pick(
                "for v in x:", "for q, v in enumerate(y):", "for v, w in zip(x, z):"
            ))  # fmt: skip
            self.names.append("v")
            self.block(self.random.randint(1, 2), True)
            self.names.remove("v")
        else:
            name = f"c{self.loops}"
            self.emit(f"{name} = 0")
            self.emit(f"while {self.condition()} and {name} < 6:")
            self.emit(f"    {name} += 1")
            self.block(self.random.randint(1, 3), True)


def program(seed: int) -> str:
    """The source of a function."""
    writer = _Writer(seed)
    writer.emit(writer.pick("s = 0", "s = 0", "s = 0.0", "s = 1", "s = x[0]"))
    writer.emit(writer.pick("t = 0.0", "t = n", "t = f", "t = 2", "t = y[1]"))
    writer.loop()
    for _ in range(writer.random.randint(0, 2)):
        writer.statement(False)
    writer.emit("return " + writer.pick("s", "s, t", "t, A", "s, t, B", "x"))
    body = "\n".join(writer.lines)
    return f"import numpy as np\n\n{HELPER}def f(A, B, x, y, z, n, m, f, p):\n{body}\n"


def _arguments(seed: int) -> tuple[list[Any], list[Any]]:
    """Arrays in several layouts, and numbers."""
    rng = np.random.default_rng(seed)
    n = int(rng.integers(1, 6))

    def made(*shape: int) -> Any:
        dtype = np.dtype(rng.choice(DTYPES, p=[0.4, 0.15, 0.15, 0.1, 0.08, 0.04, 0.04, 0.04]))
        if dtype.kind == "f":
            array = rng.standard_normal(shape) * 3
        else:
            low, high = {"b": (0, 2), "u": (0, 10)}.get(dtype.kind, (-9, 10))
            array = rng.integers(low, high, shape)
        array = array.astype(dtype)
        chance = rng.random()
        if chance < 0.15:
            return np.asfortranarray(array)
        if chance < 0.25:
            return np.repeat(array, 2, axis=-1)[..., ::2]
        return array[::-1] if chance < 0.3 else array

    arrays = [made(n, n), made(n, n), made(n), made(n + 1), made(n)]
    given = [*arrays, n, int(rng.integers(0, 4)), float(rng.standard_normal()),
             bool(rng.integers(0, 2))]  # fmt: skip
    return given, given


KIND = Kind(program, _arguments, lambda seed: [7 * seed, 7 * seed + 1, 7 * seed + 1])
