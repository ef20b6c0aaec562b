"""Random programs of one loop over whole arrays: which array does a name or an item stand for?

In an iteration names change places, arrays are written into after they were put into a list, values
decide what a name stands for and when the loop ends. Lists are appended to, read and cut.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable
from contextlib import suppress
from random import Random

import numpy as np

from tests.judges.grammar import Namespace, Program

HEADS = (
    "for k in range(n):; for k in range(n):; for k in range(1, n):; for k in range(n, 0, -1):; "
    "for k in range(25):; for k in range(0, n, 2):; for k, c in enumerate([0.5, 0.25] * n):; "
    "while (k := k + 1) < n:; while k < n and CONDITION:\n    k += 1"
).split("; ")
CONDITIONS = (
    "A.sum() > 0.5; A.sum() < h; np.allclose(A, B, atol=0.5); np.array_equal(A, B); h < t; "
    "not (A > 0.25).all(); k > 3; np.abs(A).max() > 0.75 and B.mean() < 0.5; A is B; m < k; "
    "len(L) > 2"
).split("; ")
VALUES = (
    "A * 0.5 + B; A * 0.5 + B; A - B * 0.25; np.roll(A, 1) * 0.5; np.maximum(A, B); A.copy(); "
    "A * 0.5; A * h; np.abs(A); A * 0.5 + k * 0.125; A; np.sqrt(np.abs(A)); A / (1 + B * B); "
    "A[::-1]"
).split("; ")
ITEMS = (
    "A; A; A.copy(); A.sum(); float(A[0]); A.max(); k; k * 0.5; A[1:3]; (A > 0).any(); A * 2; "
    "A[0]; float(A.max()) * 2; (A, k); h"
).split("; ")
STATEMENTS = (
    "A = VALUE; A = VALUE; A = VALUE; x = VALUE; y = VALUE; A, B = B, A; A[1:-1] = B[:-2] * 0.5; "
    "A[0] = k; A[:] *= 0.5; A[1:3] += B[1]; A += 0.5; A *= 0.75; A -= B * 0.25; h *= 0.75; "
    "h = t * 0.5 + 0.125; t = float(A.max()); m += 1; m = k; if CONDITION: A = VALUE; "
    "if CONDITION: A = VALUE\nelse: A = VALUE; if CONDITION: A[:] *= 0.5; if CONDITION: break; "
    "if CONDITION: continue; for j in range(2): A = A * 0.5 + B; g(A, L)"
).split("; ")
#: Statements that use a list.
USES = (
    "L.append(ITEM); L.append(ITEM); L.append(ITEM); L.append(ITEM); L += [ITEM]; "
    "L.extend([ITEM, ITEM]); L = L + [ITEM]; L = L[-3:]; A = A + len(L); L.pop(); "
    "if CONDITION: L.append(ITEM); for j in range(2): L.append(ITEM); L[-1] = ITEM; "
    "L[-1][...] *= 0.5; A = L[-1]; A = A * 0.5 + L[0]; L.insert(0, ITEM); "
    "L = [v * 0.5 for v in L]; g(A, L)"
).split("; ")
RESULTS = (
    "L; L; L; np.array(L); np.stack(L); len(L); L[-1]; sum(L); np.sum(L); L[0] if L else 0; L[1:]; "
    "[v * 2 for v in L]; tuple(L); max(map(np.max, L))"
).split("; ")
HELPERS = (
    "def g(a, l):\n    l.append(a * 2)",
    "def g(a, l):\n    a += 0.5\n    l.append(a)",
    "def g(a, l):\n    l.append(a[1:])\n    P.append(a.sum())",
)
LAYOUTS = "C C C C C C strided reversed readonly".split()
AFTER = "x += 1; y[0] = 5; L.append(x); x = x * 2 + h; L[0] = None; L[:] = [1.0]".split("; ")


#: Programs that are thrown away, at most, because they raise in their first call.
TRIES = 6


def generate(seed: int, index: int, make: Callable[[], Namespace]) -> Program:
    """Return one program: see `grammar.generate`."""
    random = Random(f"loops {seed}/{index}")
    for _ in range(TRIES):
        program, namespace = _Looper(random).program(), make()
        with warnings.catch_warnings(), np.errstate(all="ignore"), suppress(Exception):
            warnings.simplefilter("ignore")
            exec(compile(program.text(), "<program>", "exec"), namespace)
            namespace["f"](*next(namespace["calls"]()))
            break
    return program


class _Looper:
    """Writes one program; some raise in an iteration, which is an outcome like others."""

    def __init__(self, random: Random) -> None:
        self.random, self.pick = random, random.choice
        self.names = ["x", "y", "x", "y"]
        self.lists = self.pick((["p"], ["p"], ["p", "q"], ["p", "q"], ["P", "q"]))

    def chance(self, share: float) -> bool:
        return self.random.random() < share

    def filled(self, text: str) -> str:
        """A form with names, values and lists put in."""
        forms = {"CONDITION": CONDITIONS, "VALUE": VALUES, "ITEM": ITEMS}
        for word, choices in forms.items():
            while word in text:
                text = text.replace(word, self.filled(self.pick(choices)), 1)
        for place, names in (("A", self.names), ("B", self.names), ("L", self.lists)):
            text = re.sub(rf"\b{place}\b", self.pick(names), text)
        return text

    def program(self) -> Program:
        """What stands before the loop, the loop, and what comes after it."""
        head = ["P = []", self.pick(HELPERS)]
        body = ["k, m, h, t = 0, 5, 0.75, 1.0"]
        for name in "zw":
            if self.chance(0.4):
                body.append(self.filled(f"{name} = {self.pick(VALUES)}"))
                self.names.append(name)
        for name in self.lists:
            if name != "P":
                first = self.filled(self.pick(ITEMS)) if self.chance(0.3) else ""
                body.append(f"{name} = [{first}]")
        forms = [self.pick(STATEMENTS) for _ in range(self.random.randint(1, 4))]
        forms += [self.pick(USES) for _ in range(self.random.randint(0, 3))]
        self.random.shuffle(forms)
        lines = [line for form in forms for line in self.filled(form).split("\n")]
        loop = [self.filled(self.pick(HEADS)), *(f"    {line}" for line in lines)]
        body.append("\n".join(loop))
        body += [self.filled(self.pick(AFTER)) for _ in range(self.random.randint(0, 1))]
        results = [self.pick(self.names), *(self.filled(self.pick(RESULTS)) for _ in self.lists)]
        results += [self.pick(["h", "k", "m", "t", "x", "y"])]
        return Program(tuple(head), "", "x, y, n", tuple(body),
                       f"return {', '.join(results)}", tuple(self.calls()))  # fmt: skip

    def calls(self) -> list[str]:
        """Arguments of some calls: the number of iterations and what is shared change."""
        found, shared = [], self.pick(("", "", "", "y = x", "y = x[::-1]"))
        for turn, n in enumerate((20, 20, 21, self.pick((0, 1, 2)), 9, 20)):
            lines = [f"{name} = array({self.random.randrange(1000)}, 'float64', (6,), "
                     f"{self.pick(LAYOUTS)!r})" for name in "xy"]  # fmt: skip
            lines += [shared] if shared and turn > 1 else []
            found.append("\n".join([*lines, f"yield x, y, {n}"]))
        return found
