"""Random programs of loops over elements, run plainly and fused, and compared.

`python -m tests.fuser.element_loops.random_loops FIRST LAST` judges programs by their seeds.
"""

from __future__ import annotations

import linecache
import random
import sys
from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np

import fuser
from tests.fuser.comparing import faults

DTYPES = ("float64", "float32", "int64", "int32", "uint8", "bool", "int8", "uint64")
HELPER = "def h(a, b):\n    if a < b:\n        return a + 1\n    return b * 2\n\n"


class _Writer:
    """Writes one program."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.lines: list[str] = []
        self.indices = ["n", "m"]
        self.names = ["n", "m", "f", "s", "t"]
        self.depth = 0
        self.loops = 0
        self.rows = self.random.random() < 0.35

    def pick(self, *texts: str) -> str:
        """One of several."""
        return self.random.choice(texts)

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

    def emit(self, text: str) -> None:
        """A line."""
        self.lines.append("    " * (self.depth + 1) + text)

    def statement(self, inside: bool) -> None:
        """A statement."""
        chance = self.random.random()
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
        elif chance < 0.68 and self.depth < 4:
            self.emit(f"if {self.condition()}:")
            self.block(inside, self.random.randint(1, 2))
            if self.random.random() < 0.4:
                self.emit("else:")
                self.block(inside, 1)
        elif chance < 0.88 and self.depth < 4 and self.loops < 3:
            self.loop()
        elif chance < 0.92 and inside:
            self.emit(f"if {self.condition()}:")
            self.emit("    " + self.pick("break", "continue", "break"))
        elif chance < 0.95:
            self.emit("s, t = t, s")
        else:
            self.emit(f"t = {self.number()}")

    def block(self, inside: bool, count: int) -> None:
        """Some statements."""
        self.depth += 1
        for _ in range(count):
            self.statement(inside)
        self.depth -= 1

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
            self.block(True, self.random.randint(1, 3))
            if self.random.random() < 0.8:
                self.indices.remove(name)
            if self.random.random() < 0.7:
                self.names.remove(name)
            if self.random.random() < 0.1:
                self.emit("else:")
                self.block(False, 1)
        elif chance < 0.88:
            self.emit(self.pick(
                "for v in x:", "for q, v in enumerate(y):", "for v, w in zip(x, z):"
            ))  # fmt: skip
            self.names.append("v")
            self.block(True, self.random.randint(1, 2))
            self.names.remove("v")
        else:
            name = f"c{self.loops}"
            self.emit(f"{name} = 0")
            self.emit(f"while {self.condition()} and {name} < 6:")
            self.emit(f"    {name} += 1")
            self.block(True, self.random.randint(1, 3))


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


def arguments(seed: int) -> list[Any]:
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
    return [*arrays, n, int(rng.integers(0, 4)), float(rng.standard_normal()),
            bool(rng.integers(0, 2))]  # fmt: skip


def loaded(seed: int) -> Any:
    """The function of a program, with its source where Python finds it."""
    source, name = program(seed), f"<random loops {seed}>"
    linecache.cache[name] = (len(source), None, source.splitlines(keepends=True), name)
    names: dict[str, Any] = {"__name__": f"random_loops_{seed}"}
    exec(compile(source, name, "exec"), names)
    return names["f"]


def same(one: Any, other: Any) -> bool:
    """Whether two results are the same, bit for bit but for NaN."""
    if isinstance(one, tuple):
        return type(other) is tuple and all(map(same, one, other))
    if type(one) is not type(other):
        return False
    if isinstance(one, (np.ndarray, np.generic)):
        if one.dtype != other.dtype or one.shape != other.shape:
            return False
        left, right = np.asarray(one), np.asarray(other)
        if left.dtype.kind != "f":
            return bool(np.array_equal(left, right))
        nan = np.isnan(left)
        return bool(
            np.array_equal(nan, np.isnan(right))
            and np.where(nan, 0, left).tobytes() == np.where(nan, 0, right).tobytes()
        )
    return repr(one) == repr(other)


def outcome(function: Callable[..., Any], args: list[Any]) -> tuple[str, Any]:
    """What a call gives, or raises."""
    try:
        with np.errstate(all="ignore"):
            return "gives", function(*args)
    except Exception as error:  # noqa: BLE001 - it is compared
        kinds = type(error).__mro__  # ours are kinds of Python's
        return "raises", next(kind.__name__ for kind in kinds if kind.__module__ == "builtins")


def judge(seed: int) -> str:
    """What differs between a program and itself fused, or nothing."""
    plain = loaded(seed)
    fused, before = fuser.fuse(plain, fallback="allow"), faults()
    for turn in range(3):
        of_args = seed * 7 + min(turn, 1)
        wanted, found = arguments(of_args), arguments(of_args)
        one, other = outcome(plain, wanted), outcome(fused, found)
        if one[0] != other[0] or not same(one[1], other[1]):
            return f"call {turn}: {one} and {other}"
        if not all(map(same, wanted, found)):
            return f"call {turn}: what is left in arguments"
    return str(fused.fallbacks) if faults() > before else ""


def main(first: int, last: int) -> None:
    """Judge programs."""
    found: Counter[str] = Counter()
    for seed in range(first, last):
        told = judge(seed)
        found["wrong" if told else "right"] += 1
        if told:
            print(f"{seed}: {told}\n{program(seed)}")
    print(dict(found))


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
