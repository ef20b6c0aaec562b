"""Random NumPy programs as text: a seed and an index name one exactly.

A program is a module: captured arrays, helpers, a function `f` and `calls`, a generator that yields
the arguments of one call after the other and changes globals between them. `array` makes arguments.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from random import Random
from typing import Any

import numpy as np

Namespace = dict[str, Any]

UNARY = (
    "abs negative square sqrt floor rint sign isnan signbit exp log1p sin tanh cbrt conj "
    "logical_not reciprocal exp log arctan ascontiguousarray copy"
).split()
BINARY = "maximum minimum hypot arctan2 multiply subtract copysign fmax power greater".split()
OPERATORS = "+ - * / + - * // % < >= == != ** & | ^".split()
REDUCTIONS = "sum mean max min prod var std any all argmax argmin".split()
DTYPES = "float64 float64 float32 int64 int32 uint8 bool".split()
LAYOUTS = "C C C C F strided reversed misaligned readonly".split()
LENGTHS = (
    "n % 4; n // 2; n & 6; (-1) ** n; n + 1; n - 3; -n; (n + 1) // 2 - n // 2; 10 // (n - 5); "
    "n * m; n >> 1; len(x); x.shape[-1]; x.size; x.ndim; max(n, 3); min(n, m); n; n ^ 3"
).split("; ")
SLICES = (
    "1:, :-1, ::2, ::-1, 1:-1, :2, -3:, n // 2:, :n // 2, n % 3:, 0, -1, None, :, ..., :n - 1, "
    "::-2, :m, k:, 2:n"
).split(", ")
VIEWS = (
    "T; reshape(-1); ravel(); astype(np.float32); astype(int); copy(); real; imag; squeeze(); "
    "swapaxes(0, -1); flatten(); conj(); clip(0, 2); astype(bool); reshape(n, -1)"
).split("; ")
MAKERS = (
    "np.zeros(n); np.ones((n, m)); np.arange(n); np.linspace(0, 1, n); np.zeros(LENGTH); "
    "np.arange(LENGTH); np.full(LENGTH, 1.5); np.zeros_like(x); np.full_like(x, 2); np.eye(m); "
    "np.ones(n % 4); np.arange(n)[:, None]"
).split("; ")
OPAQUE = (
    "np.sort({0}, -1); {0} @ {1}; np.cumsum({0}); np.argsort({0}); np.sort({0})[::-1]; "
    "np.diff({0}); np.roll({0}, 1); {0}[{0} > 0]; np.outer({0}, {1}); np.flip({0}); "
    "np.tile({0}, 2); np.broadcast_to({0}, (2, *np.shape({0}))); np.nonzero({0})[0]"
).split("; ")
CONDITIONS = (
    "n > 6; n % 2; x is y; x.ndim == 1; x.shape == y.shape; np.sum(OPERAND) > 0; len(x) == 7; "
    "n == 5; OPERAND is x; x.dtype == np.float64; np.any(OPERAND); x.flags.c_contiguous; "
    "OPERAND is not None; np.shares_memory(x, y)"
).split("; ")
#: What values decide, and numbers that are read off them.
DECISIONS = (
    "np.sum(A) > 0; np.any(A); np.all(B); np.max(A) > np.min(B); not np.any(A > 1); np.sum(A); "
    "np.isnan(A).any(); 0 < np.mean(A) < 2; float(np.max(A)) > 1; A.sum() > 0 and B.max() > 1; "
    "int(np.argmax(A)) > 1; np.size(A) > 3 or np.sum(B) > 1; np.allclose(A, B); "
    "np.linalg.norm(A) > 2; np.sort(A, None)[0] > 0; np.max(A).item() < 3; A.flat[0] > 0.5"
).split("; ")
NUMBERS = (
    "float(np.max(A)); np.sum(A).item(); int(np.sum(A > 0)); int(np.argmax(A)); "
    "min(np.sum(A), np.sum(B)); max(A.max(), B.min(), 1); float(np.mean(A)) * 2; bool(np.any(A)); "
    "abs(float(np.min(A))) + 1; round(np.max(A)); int(np.max(A)); np.argmin(A).item()"
).split("; ")
HELPERS = (
    "def h(a, b):\n    return a * 2 - b",
    "def h(a, b):\n    a += b\n    return a",
    "def h(a, b):\n    a[...] = a * 0.5\n    return b",
    "def h(a, b):\n    c = a\n    c[:1] = 3\n    return c[::-1] + b",
    "def h(a, b=2):\n    for _ in range(2):\n        a = a - b\n    return a, b",
    "def h(a, b):\n    if a.ndim == 1:\n        return a.sum() + b\n    return a - b",
)


@dataclass(frozen=True)
class Program:
    """The parts of a program, so that some of them can be left out."""

    head: tuple[str, ...]
    captured: str
    parameters: str
    body: tuple[str, ...]
    result: str
    calls: tuple[str, ...]

    def text(self) -> str:
        """The module."""
        lines = ["import numpy as np", "from types import SimpleNamespace", "", *self.head, ""]
        function = [f"def f({self.parameters}):", *_indented(self.body), f"    {self.result}"]
        if self.captured:
            function = [*function, "return f"]
            lines += ["def make():", *_indented((self.captured, *function)), "", "f = make()"]
        else:
            lines += function
        lines += ["", "def calls():", "    global W, P", *_indented(self.calls)]
        return "\n".join(lines) + "\n"

    def smaller(self) -> list[Program]:
        """The program without one statement, a line of one, a call or a line before, all ways."""
        found = [
            replace(self, body=(*self.body[:k], "\n".join(lines[:j] + lines[j + 1 :]),
                                *self.body[k + 1 :]))
            for k, lines in enumerate(part.split("\n") for part in self.body)
            for j in range(1, len(lines))
        ]  # fmt: skip
        for name in ("calls", "body", "head"):
            parts = getattr(self, name)
            for k in range(len(parts)):
                if len(parts) > 1 or name == "head":
                    found.append(replace(self, **{name: parts[:k] + parts[k + 1 :]}))
        return found + ([replace(self, captured="")] if self.captured else [])


def _indented(statements: tuple[str, ...]) -> list[str]:
    return ["    " + line for text in statements for line in text.split("\n")]


def generate(
    seed: int, index: int, make: Callable[[], Namespace], decisions: bool = False
) -> Program:
    """Return one program.

    Args:
        seed: names a sequence of programs.
        index: which one of them.
        make: gives a fresh namespace, in which statements are tried: most of those that raise
            are left out.
        decisions: values decide often what the program does.
    """
    kind = _Decider if decisions else _Writer
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        return kind(Random(f"{seed}/{index}"), make).program()


class _Writer:
    """Writes one program, a statement at a time, and tries each on the arguments of all calls."""

    def __init__(self, random: Random, make: Callable[[], Namespace]) -> None:
        self.random, self.make = random, make
        self.pick = random.choice
        self.rank = self.pick((1, 1, 2))
        self.m = self.pick((2, 3, 4, 5, 17))
        self.number = 0
        self.names = ["x", "y"]
        self.dtypes = {name: self.pick(DTYPES) for name in "xyz"}
        if self.chance(0.5):
            self.dtypes = dict.fromkeys("xyz", self.pick(("float64", "float64", "float32")))

    def chance(self, share: float) -> bool:
        return self.random.random() < share

    def seeded(self) -> int:
        return self.random.randrange(1000)

    def program(self) -> Program:
        """Head, calls, then as many statements as run."""
        third = self.pick(("", "", "s", "o", "z"))
        head = self.head(third)
        captured = ""
        if self.chance(0.15):
            captured = f"C = array({self.seeded()}, 'float64', {self.fixed_shape()})"
            self.names.append("C")
        parameters = ", ".join(["x", "y", *([third] if third else [])])
        calls = self.calls(third)
        length_of = self.pick(("len(x)", "x.shape[0]", "y.shape[0]", "x.size"))
        body = [f"n, m, k = {length_of}, x.shape[-1], 1"]
        program = Program(tuple(head), captured, parameters, tuple(body), "return x", tuple(calls))
        environments = self.environments(program)
        if not environments:  # 0-d: no length
            body[0] = "n, m, k = x.size, 3, 1"
            program = replace(program, body=tuple(body))
            environments = self.environments(program)
        wanted, tries = self.random.randint(2, 8), 0
        while len(body) <= wanted and tries < 60:
            tries += 1
            name, statement = self.statement()
            if self.run(statement, environments):
                body.append(statement)
                if name:
                    self.names.append(name)
            elif self.chance(0.02):  # the function raises here
                body.append(statement)
                break
            else:  # what it has changed before it raised is forgotten
                environments = self.environments(replace(program, body=tuple(body)))
        return replace(program, body=tuple(body), result=self.result())

    def environments(self, program: Program) -> list[Namespace]:
        """The variables of the function at its end, for each call."""
        text = replace(program, result="return dict(locals())").text()
        namespace = self.make()
        found = []
        try:
            exec(compile(text, "<program>", "exec"), namespace)
            for arguments in namespace["calls"]():
                found.append({**namespace, **namespace["f"](*arguments)})
        except Exception:  # noqa: BLE001 - a program that raises is a program
            return found
        return found

    def run(self, statement: str, environments: list[Namespace]) -> bool:
        """Whether a statement runs, and makes nothing large."""
        if "return" in statement:
            return True
        try:
            code = compile(statement, "<statement>", "exec")
            for environment in environments:
                exec(code, environment)
                if any(getattr(v, "size", 0) > 5000 for k, v in environment.items() if k[0] == "t"):
                    return False
        except Exception:  # noqa: BLE001 - whatever it raises, it did not run
            return False
        return True

    def fixed_shape(self) -> str:
        """The shape of an array that is captured."""
        return self.pick(("()", "(1,)", f"({self.m},)", "(64,)", "(3000,)"))

    def head(self, third: str) -> list[str]:
        """Captured arrays and a helper."""
        head = []
        if self.chance(0.4):
            head.append(f"W = array({self.seeded()}, {self.pick(DTYPES)!r}, {self.fixed_shape()})")
            self.names += ["W", "W[:n]", "W.sum()"]
        if self.chance(0.25):
            holder = self.pick(("{'w': %s}", "SimpleNamespace(w=%s)"))
            made = f"array({self.seeded()}, 'float64', {self.fixed_shape()})"
            head.append(f"P = {holder % made}")
            self.names.append("P['w']" if holder[0] == "{" else "P.w")
        self.helper = self.chance(0.4)
        if self.helper:
            head.append(self.pick(HELPERS))
        self.names += {"s": ["s", "s"], "o": ["o.w", "o.v"], "z": ["z"]}.get(third, [])
        return head

    def shape(self, n: int, first: bool) -> str:
        """The shape of an argument where the length is n."""
        m = self.m
        if self.rank == 1:
            return self.pick([f"({n},)"] * 8 + ([] if first else ["()", "(1,)"]))
        others = [] if first else [f"({m},)", f"({n}, 1)", "(1, 1)"]
        return self.pick([f"({n}, {m})"] * 6 + others)

    def calls(self, third: str) -> list[str]:
        """Arguments of some calls: lengths, layouts and sharing change, now and then dtypes."""
        lengths = [self.pick((3, 5, 6, 7, 8, 16, 33)) for _ in range(3)]
        lengths = [lengths[0], lengths[0], *lengths, self.pick((0, 1, 2, 200))]
        if self.chance(0.1):
            last = f", {self.third(third, 3)}".replace("v=x", "v=1") if third else ""
            first = self.pick(("array(1, 'float64', ())", "np.float32(2.5)", "2.5"))
            return [f"yield {first}, 3{last}"] * 3
        shared = self.pick(("", "", "", "", "y = x", "y = x[::-1]", "y = x[:]", "whole"))
        captures = [name for name in self.names if name in ("W", "P['w']", "P.w")]
        calls = []
        for turn, n in enumerate(lengths):
            dtypes = self.dtypes if self.chance(0.9) else {k: self.pick(DTYPES) for k in "xyz"}
            lines = []
            if captures and turn and self.chance(0.5):
                lines.append(self.changed(self.pick(captures)))
            for name in "xy":
                layout = self.pick(LAYOUTS if self.chance(0.4) else ("C",))
                shape = self.shape(n, name == "x")
                lines.append(
                    f"{name} = array({self.seeded()}, {dtypes[name]!r}, {shape}, {layout!r})"
                )
            if shared == "whole":
                rest = "" if self.rank == 1 else f", {self.m}"
                lines.append(f"b = array({self.seeded()}, {dtypes['x']!r}, ({n + 1}{rest},))")
                lines.append("x, y = b[:-1], b[1:]")
            elif "W" in captures and self.chance(0.05):
                lines.append("W = x")
            elif shared and (turn % 2 or self.chance(0.5)):
                lines.append(shared)
            lines.append("yield x, y" + (f", {self.third(third, n)}" if third else ""))
            calls.append("\n".join(lines))
        return calls

    def changed(self, name: str) -> str:
        """A change of a captured array between calls."""
        forms = "{0}[...] = {0}[...] * 2; {0} = {0} + 1; {0}[..., :1] = 5; {0}[...] = {0} == 0"
        return self.pick(forms.split("; ")).format(name)

    def third(self, kind: str, n: int) -> str:
        """A last argument: a number, a holder of arrays, or an array."""
        if kind == "s":
            return self.pick("2 0.5 -1 True np.float32(1.5) 3 1e300 np.int8(3)".split())
        made = f"array({self.seeded()}, {self.dtypes['z']!r}, {self.shape(n, False)})"
        if kind == "z":
            return made
        return f"SimpleNamespace(w={made}, v={self.pick(('x', '2.0', '3'))})"

    def operand(self) -> str:
        """A name, a number, a part of an array or a length."""
        name = self.pick(self.names)
        if self.chance(0.12):
            return self.pick("2 0.5 -1 True 1e-3 np.float32(3) 3 0 2j 1j".split())
        if self.chance(0.12):
            return f"({self.pick(LENGTHS)})"
        if self.chance(0.2):
            return f"{name}[{self.index()}]"
        return name

    def index(self) -> str:
        """What stands between brackets."""
        if self.chance(0.15):
            return f"({self.pick(LENGTHS)}) % 3:"
        if self.rank == 2 and self.chance(0.5):
            return f"{self.pick(SLICES)}, {self.pick(SLICES)}"
        return self.pick(SLICES)

    def reduced(self, a: str) -> str:
        """A reduction of an expression."""
        axis = self.pick(("", "", "axis=0", "axis=-1", "axis=-1, keepdims=True", "keepdims=True"))
        name = self.pick(REDUCTIONS)
        return f"np.{name}({a}{', ' if axis else ''}{axis})"

    def expression(self, depth: int = 2) -> str:
        """A value."""
        if depth == 0 or self.chance(0.15):
            return self.operand()
        a, b = self.expression(depth - 1), self.operand()
        view = self.pick(VIEWS)
        made = self.pick(MAKERS).replace("LENGTH", self.pick(LENGTHS))
        joined = self.pick(("concatenate", "stack", "hstack", "vstack"))
        opaque = self.pick(OPAQUE)
        forms: tuple[tuple[int, Callable[[], str]], ...] = (
            (22, lambda: f"({a} {self.pick(OPERATORS)} {b})"),
            (10, lambda: f"np.{self.pick(UNARY)}({a})"),
            (5, lambda: f"np.{self.pick(BINARY)}({a}, {b})"),
            (8, lambda: self.reduced(a)),
            (4, lambda: f"np.where({a} > {b}, {a}, {self.operand()})"),
            (6, lambda: f"{self.pick(self.names)}[{self.index()}]"),
            (5, lambda: f"({a}).{view}" if a[0].isdigit() or a[0] == "-" else f"{a}.{view}"),
            (6, lambda: made),
            (3, lambda: f"np.{joined}([{a}, {b}])"),
            (4, lambda: opaque.format(a, b)),
            (2, lambda: f"h({a}, {b})" if self.helper else f"-{a}"),
            (1, lambda: f"np.abs({a} * 1j)"),
        )
        return self.random.choices([f for _, f in forms], [w for w, _ in forms])[0]()

    def target(self) -> str:
        """What is written into."""
        name = self.pick([name for name in self.names if "(" not in name and name != "s"])
        return name if self.chance(0.3) else f"{name}[{self.index()}]"

    def statement(self) -> tuple[str, str]:
        """The name that a statement makes (or an empty string), and the statement."""
        self.number += 1
        new = f"t{self.number}"
        write = self.pick(("=", "=", "+=", "*=", "-=", "/=", "//="))
        condition = self.pick(CONDITIONS).replace("OPERAND", self.operand())
        count = self.pick(("2", "3", "min(n, 4)", "n % 4", "len(x) // 3", "5"))
        one = self.expression(1)
        step, two, three = self.step(new), self.operand(), self.target()
        loop = f"{new} = {two}\nfor j in range({count}):\n    {step}"
        either = f"if {condition}:\n    {new} = {one}\nelse:\n    {new} = {two}"
        forms = (
            (50, new, f"{new} = {self.expression()}"),
            (14, "", f"{self.written()} {write} {one}"),
            (4, "", f"np.{self.pick(BINARY)}({two}, {self.operand()}, out={three})"),
            (2, "", f"np.copyto({three}, {one})"),
            (5, new, loop),
            (5, new, either),
            (3, "", f"if {condition}:\n    {three} {write} {one}"),
            (1, "", f"if {condition}:\n    return {two}"),
            (1, "", f"if {condition}:\n    raise ValueError(f'no {{n}}')"),
            (2, new, f"{new} = {self.pick(LENGTHS)}"),
            (2, "", f"n = {self.pick(LENGTHS)}"),
        )
        return self.random.choices([form[1:] for form in forms], [form[0] for form in forms])[0]

    def written(self) -> str:
        """A name or a part of an array, for an assignment that writes."""
        target = self.target()
        return target if "[" in target else f"{target}[...]"

    def step(self, new: str) -> str:
        """One statement of a loop."""
        return self.pick((
            f"{new} = {new} * 0.5 + {self.operand()}", f"x[j] = {self.operand()}",
            f"{new} = {new} + {self.operand()} * j", f"x[j:] += {self.operand()}",
            f"y[..., 1:] = y[..., :-1] + {self.operand()}", f"{new} = {self.expression(1)}",
            f"x[...] = np.minimum(x, {self.operand()})", f"{new} = {new} - {new}.mean()",
        ))

    def result(self) -> str:
        """The last line."""
        made = [name for name in self.names if name[0] == "t"] or ["x"]
        one, two = self.pick(made[-3:]), self.pick(self.names)
        last, index = made[-1], self.pick(SLICES)
        forms = (
            f"{last}; {last}; {last}; {one}, {two}; {one}; {one}, {one}; [{one}, ({two}, None)]; "
            f"{{'a': {one}, 'b': {two}}}; {one}, {one}[...]; x; None; {last}, x, y; {one} + {two}; "
            f"{one}[{index}]; {', '.join(made[-4:])}"
        )
        return "return " + self.pick(forms.split("; "))


class _Decider(_Writer):
    """Writes programs that go this way or that by what arrays hold."""

    def statement(self) -> tuple[str, str]:
        """A decision, a number that is read, or any other statement."""
        if self.chance(0.55):
            return super().statement()
        self.number += 1
        new = f"t{self.number}"
        condition = self.asked(self.pick(DECISIONS))
        one, two, three = self.expression(1), self.operand(), self.written()
        four = self.asked(self.pick(DECISIONS))
        step = f"{new}, k = {new} * 0.25 - 1, k + 1"
        changed = f"{three} {self.pick(('=', '+=', '*='))} {two}"
        forms = (
            (6, new, f"{new} = {one} if {condition} else {two}"),
            (6, new, f"if {condition}:\n    {new} = {one}\nelse:\n    {new} = {two}"),
            (4, "", f"if {condition}:\n    {changed}"),
            (2, "", f"if {condition}:\n    if {four}:\n        return {one}\n    {changed}"),
            (1, "", f"if {condition}:\n    {changed}\n    raise ValueError(str({two}))"),
            (1, "", f"assert {condition}, 'no'"),
            (2, new, f"{new}, k = {two}, 0\nwhile np.sum({new}) > 9 and k < 6:\n    {step}"),
            (6, new, f"{new} = {self.asked(self.pick(NUMBERS))}"),
            (2, new, f"{new} = {two}[:{self.asked(self.pick(NUMBERS))}]"),
            (2, new, f"{new} = x[{self.asked(self.pick(NUMBERS))}] + {one}"),
        )
        return self.random.choices([form[1:] for form in forms], [form[0] for form in forms])[0]

    def asked(self, form: str) -> str:
        """A question with operands put in."""
        arrays = [name for name in self.names if name[0] in "xytC"]
        return form.replace("A", self.pick(arrays)).replace("B", self.pick(arrays))
