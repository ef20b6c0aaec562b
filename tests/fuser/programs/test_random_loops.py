"""Random functions with a loop over arrays do fused what they do plainly.

`python -m tests.fuser.programs.test_random_loops SEED COUNT` judges more of them.
"""

from __future__ import annotations

import importlib.util
import random
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fuser
from fuser.base import trees
from tests.fuser.comparing import difference, faults, run_plain

NAMES = ("a", "b", "c", "d")
#: Sums in these programs are rounded otherwise, and iterations may make that larger.
ULP = 1e7
#: From this seed on, tests have `not`, `and`, `or` and comparisons in a row in them, and NumPy's
#: functions get parts whose lengths the index tells.
COMBINED = 500_000
TRIPS = (((3, 2), (0, 1), (1, 1), (2, 2), (5, 2)), ((1, 1), (4, 0), (2, 1)))


class _Writer:
    """Writes one random function."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)
        self._ways = random.Random(f"ways out of {seed}")  # programs are as they were without these
        self._tests = random.Random(f"tests of {seed}") if seed >= COMBINED else None

    def _one(self, *texts: str) -> str:
        """One of these."""
        return self._random.choice(texts)

    def _expression(self, depth: int = 0) -> str:
        """A whole array."""
        name = self._one(*NAMES)
        if depth > 2:
            return name
        inner = self._expression(depth + 1)
        return self._one(
            name, name, f"{name} * {self._one('0.5', '2', 's', 'dt', 't')}", f"(-{name})",
            f"({inner} + {name})", f"({inner} - {name})", f"np.minimum({name}, {inner})",
            f"np.where({name} > 0, {name}, {inner})", f"({name}.sum() + {name})",
            f"np.sort({name})", f"{name}.copy()", f"{name}[::-1]", f"({name} + g)",
        )  # fmt: skip

    def _part(self, part: str) -> str:
        """Something of the shape of a slice."""
        one, other = self._one(*NAMES), self._one(*NAMES)
        if part in ("[1:]", "[:-1]"):
            parts = self._one("[1:]", "[:-1]"), self._one("[1:]", "[:-1]")
            return f"{one}{parts[0]} * 0.5 + {other}{parts[1]}"
        if part == "[2:-2]":
            return f"{one}[{self._one('4:', ':-4', '1:-3', '2:-2')}] - {other}[2:-2]"
        return f"{one}{part} * 0.5"

    def _statement(self) -> str:
        """A statement of the body."""
        name, other, third = (self._one(*NAMES) for _ in range(3))
        if self._tests is not None and self._tests.random() < 0.2:
            return self._tests.choice(
                [f"{name}[t:] = np.sort({other}[t:])", f"{name}[:t] += np.sort({other}[:t]) * 0.5",
                 f"{name}[t] = {other}[t:] @ {third}[t:] * 0.1",
                 f"{name}[t:] = {other}[: len({name}) - t] @ np.eye(len({name}) - t)",
                 f"{name} = {name} * 0.5 + np.sort({other}[t : t + 4]).sum()"]
            )
        part = self._one("[1:]", "[:-1]", "[2:-2]", "[:]", "[::2]")
        return self._one(
            f"{name}{part} = {self._part(part)}", f"{name}{part} = {self._part(part)}",
            f"{name} = {self._expression()}", f"{name} = {self._expression()}",
            f"{name}, {other} = {other}, {name}",
            f"{name} {self._one('+=', '-=', '*=')} {self._one('0.5', 'dt', other)}",
            f"{name}{part} {self._one('+=', '*=')} {self._part(part)}",
            f"s = s {self._one('+ dt', '* 0.5', '+ 1')}",
            f"{self._one('e', 'f')} = {self._expression()}",
            f"np.add({name}, {other}, out={third})", f"w[:] = {name}[1:-1]",
            f"{name} = {name} * 0.5 + {other}[t]", f"{name}[t] = {other}.sum() * 0.5",
            f"{name}[t:] = {self._one(name, other)}[t:] * 0.5",
            f"{name}[t + 1] = {self._one(name, other)}[t] - {other}[t + 1]",
            f"{name}[:t] {self._one('=', '+=')} {other}[:t] * 0.5",
            self._edges(), self._edges(), self._lengths(),
        )  # fmt: skip

    def _edges(self) -> str:
        """One value that goes to several places, of one array or of several."""
        places = [
            f"{self._one(*NAMES)}{self._one('[0]', '[-1]', '[:1]', '[-1:]', '[2:4]', '[1:-1]')}"
            for _ in range(self._random.randint(2, 4))
        ]
        name = self._one(*NAMES)
        value = self._one(
            "0", "1.5", "s", f"{name}[3]", f"{name}.max()", f"np.sort({name})[5]", f"{name}[4:5]"
        )
        return " = ".join([*places, value])

    def _lengths(self) -> str:
        """A statement with a number that is a length."""
        name, other, third = (self._one(*NAMES) for _ in range(3))
        chosen = f"{other}[{third} > {self._one('0', 't * 0.2')}]"
        number = self._one(
            f"{chosen}.mean()", f"{chosen}.sum() * 0.5", f"{chosen}.size", f"{other}[:t].mean()",
            f"{other}[t:].mean()", f"{other}[t:].shape[0]", f"len({other}[:t + 1])",
            "np.ones(t + 1).mean()", f"({other} + {chosen}.shape[0]).max()",
        )  # fmt: skip
        return self._one(f"{name} = {name} * 0.5 + {number}", f"{name}[0] = {number}")

    def _test(self) -> str:
        """What decides."""
        name = self._one(*NAMES)
        return self._one(
            f"{name}.sum() > 0.5", f"np.abs({name}).max() < 4", f"{name}[0] > 0", "t % 3 == 1",
            "t > 2", "s > 1", f"{name}[1] > 0 and {name}[2] < 1", "m == 1",
            f"{name}[{name} > 0].size > 5", f"len({name}[t:]) > 9",
        )  # fmt: skip

    def _decision(self) -> list[str]:
        """A decision, which may end the iteration or the loop."""
        inside = self._one(
            f"    {self._statement()}", f"    {self._statement()}", "    break", "    continue",
            f"    {self._statement()}\n            break",
        )  # fmt: skip
        test = self._test()
        if self._tests is not None:
            other, name = self._test(), self._tests.choice(NAMES)
            test = self._tests.choice(
                [f"not {test}", f"not ({test})", f"{test} or {other}", f"not ({test} and {other})",
                 f"not {test} and not {other}", f"-1 < {name}.sum() < 3", f"0 < {name}[0] <= t",
                 f"{test} and ({other} or not {name}[1] > 0)"]
            )
        lines = [f"if {test}:", inside]
        if self._random.random() < 0.4:
            lines += ["else:", f"    {self._statement()}"]
        return lines

    def _head(self) -> list[str]:
        """What repeats the body: over a range, or while something is true."""
        span = self._one("n", "1, n + 1", "n, 0, -1", "0, 2 * n, 2")
        name = self._one(*NAMES)
        test = self._one(
            f"t < n and np.abs({name}).max() < 50", f"{name}.sum() < 9 and t < 2 * n", "t < n",
            f"np.abs({name}[0]) < 5 and t < 4",
        )  # fmt: skip
        if self._random.random() < 0.6:
            return [f"for t in range({span}):"]
        return [f"while {test}:", "    t += 1"]

    def text(self) -> str:
        """A module with the function."""
        before = [
            self._one("c = a * 0.5", "c = b", "c = np.zeros_like(a)", "c = a.copy()", "c = a[:]"),
            self._one("d = b + 1.0", "d = a", "d = np.ones_like(a)", "d = c", "d = b[::-1]"),
            self._one("w = a[1:-1]", "w = c[1:-1]", "w = d[1:-1]", "w = b.copy()[1:-1]"),
            self._one("s = 0.5", "s = 1", "s = dt"), "e = f = b",
        ]  # fmt: skip
        body = [self._statement() for _ in range(self._random.randint(1, 5))]
        if self._random.random() < 0.5:
            place = self._random.randint(0, len(body))
            body[place:place] = self._decision()
        if self._random.random() < 0.15:
            body += ["for j in range(m):", f"    {self._statement()}"]
        last = self._one("a, b", "c, d", "a, c, w", "a, b, c, d, w", "d, e, f", "a, b, t")
        lines = ["import numpy as np", "g = np.linspace(0, 1, 12)", "def f(a, b, n, m, dt):"]
        lines += [f"    {line}" for line in before]
        head = self._head()
        if head == ["for t in range(n):"] and self._ways.random() < 0.5:
            name = self._ways.choice(NAMES)
            over = self._ways.choice(
                [f"zip(range(n), {name})", f"enumerate({name}[:n])",
                 f"zip(range(n), reversed({name}))"]
            )
            head = [f"for t, r in {over}:"]
            used = self._ways.choice(["{0} = {0} + r", "{0}[1] = r", "{0}[0] = {0}[2] - r"])
            body = [*body, used.format(self._ways.choice(NAMES))]
        lines += ["    t = 0", *(f"    {line}" for line in head)]
        way = self._ways.choice(["break", "break", "return a, c", "return d"])
        lines += [f"        {line}".replace("break", way) for line in body]
        if self._ways.random() < 0.2:
            lines += ["    else:", "        b = b + 1.0"]
        return "\n".join([*lines, f"    return {last}", ""])


def differs(seed: int, folder: Path) -> tuple[str, bool]:
    """How a random function differs, with its text; and whether its loop became a region."""
    text = _Writer(seed).text()
    path = folder / f"program_{seed}.py"
    path.write_text(text)  # a loop is seen by its source
    found = importlib.util.spec_from_file_location(path.stem, path)
    assert found is not None
    assert found.loader is not None
    module = importlib.util.module_from_spec(found)
    found.loader.exec_module(module)
    fused, before = fuser.fuse(module.f, fallback="allow"), faults()
    for trips in TRIPS[seed % len(TRIPS)]:
        plain = np.random.default_rng(seed).standard_normal((2, 12))
        own = plain.copy()
        wanted = run_plain(module.f, [*plain, *trips, 0.25], {})
        got = run_plain(fused, [*own, *trips, 0.25], {})
        if isinstance(wanted, Exception) or isinstance(got, Exception):
            if type(wanted) is not type(got):
                return f"{trips}: {wanted!r} against {got!r}\n{text}", False
            continue
        one, two = trees.flatten((wanted, plain))[1], trees.flatten((got, own))[1]
        if len(one) != len(two):
            return f"{trips}: {len(one)} results against {len(two)}\n{text}", False
        told = [difference(x, y, ULP) for x, y in zip(one, two, strict=True)]
        told += [type(x) is not type(y) for x, y in zip(one, two, strict=True)]
        if any(told) or _sharing(one) != _sharing(two):
            return f"{trips}: {told}\n{text}", False
    if faults() > before:
        return f"{fused.fallbacks}\n{text}", False
    graphs = [known.trace.graph.text for entry in fused._signatures.values()
              for known in entry.found]  # fmt: skip
    return "", any("fuser.loop" in graph for graph in graphs)


def _sharing(arrays: list[Any]) -> list[list[bool]]:
    """Which of several arrays share memory."""
    return [[bool(np.shares_memory(one, other)) for other in arrays] for one in arrays]


#: Decisions in the first iteration choose among arrays that others see; a view changes its place
#: with an array that is written.
_FOUND = (93033, 93034, 120159, 120273, 130021, 140296, 180186, 180221)


@pytest.mark.parametrize("seed", [*range(30), *range(COMBINED, COMBINED + 20), *_FOUND])
def test_random_loops(seed: int, tmp_path: Path) -> None:
    """Values, which results share memory, what is left in the arguments, exceptions."""
    text, _ = differs(seed, tmp_path)
    assert not text, text


def main(seed: int, count: int) -> None:
    """Judge many, and say which differ."""
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        regions = 0
        for number in range(seed, seed + count):
            text, region = differs(number, Path(folder))
            regions += region
            if text:
                print(number, text)
        print(f"{count} programs, {regions} of them with a region")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:3]))
