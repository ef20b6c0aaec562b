"""Programs that were found by the fuzzer, as small as it made them, and kinds that are known."""

from __future__ import annotations

import re
from dataclasses import dataclass


@dataclass(frozen=True)
class Known:
    """A kind of failure that is not mended yet.

    Attributes:
        name: of the kind; its example has this name in the tests.
        reason: what is wrong.
        source: a pattern that is found in programs of this kind.
        difference: a pattern that is found in what the judge says of them.
        example: a program of the kind; when it passes, the kind has to go.
    """

    name: str
    reason: str
    source: str
    difference: str
    example: str

    def is_it(self, text: str, difference: str) -> bool:
        """Whether a program that differs so is of this kind."""
        found = re.search(self.source, text) and re.search(self.difference, difference)
        return found is not None


MODULE = """import numpy as np
from types import SimpleNamespace

"""

KNOWN: tuple[Known, ...] = (
    Known(
        "identity",
        "results that are one array, or a captured or held array, are returned as copies",
        r"return",
        r"^call \d+: sharing: "
        r"((fused: result\S* shares memory with result\S*|NumPy: [^;]*)(; |$))+$",
        MODULE + """
def f(x):
    t = x[1:]
    return t, t

def calls():
    yield (array(1, "float64", (5,)),)
""",
    ),
    Known(
        "read-only",
        "the imaginary part of a real array, and a read-only array of a holder, can be written to",
        r"return",
        r"^call \d+: result\S*: writeable False against True$",
        MODULE + """
def f(x):
    return x.imag

def calls():
    yield (array(1, "float64", (5,)),)
""",
    ),
    Known(
        "x-is-y",
        "in a trace an array is never another argument's array",
        r" is (not )?[xyzW]\b",
        r"^call \d+: ",
        MODULE + """
def f(x, y):
    return x + 1 if x is y else x - 1

def calls():
    x = array(1, "float64", (5,))
    yield x, x
""",
    ),
    Known(
        "changed-captures",
        "captured arrays that change between calls are not always read again",
        r"(?m)^ {4,}(W|P\.w|P\['w'\])\[.* = ",
        r"^call [2-9]: (result|arguments|memory)",
        MODULE + """
W = array(1, "float64", (100000,))

def f(x):
    return x * np.exp(W).sum()

def calls():
    for _ in range(3):
        yield (array(1, "float64", (5,)),)
        W[...] = W[...] * 2
""",
    ),
    Known(
        "lengths",
        "expressions of lengths that are no products are guessed from two of them",
        r"[^*][*] \(?\(?n|//|%|\^|&",
        r"^call [2-9]: (result|arguments|memory|.*ZeroDivisionError)",
        MODULE + """
def f(x):
    return x * (len(x) % 4)

def calls():
    for n in (6, 7, 8, 9, 10):
        yield (array(1, "float64", (n,)),)
""",
    ),
    Known(
        "read-only-message",
        "an assignment to a read-only argument has the words of a ufunc's out=",
        r"readonly",
        r"assignment destination is read-only.* against .*output array is read-only",
        MODULE + """
def f(x):
    x[:2] = 1

def calls():
    yield (array(1, "float64", (5,), "readonly"),)
""",
    ),
    Known(
        "writes-before-exceptions",
        "what a function has written before it raises is not always there",
        r"[-+*/]?=|out=|copyto",
        r"^call \d+: (arguments|memory|globals|earlier).* after \w+Error$",
        MODULE + """
def f(x):
    x[1:] = x[:-1] + 2
    return x + x[:2]

def calls():
    yield (array(1, "float64", (5,)),)
""",
    ),
    Known(
        "constant-results",
        "a result that depends on no value is one array for all calls",
        r"return",
        r"^call \d+: (sharing: fused: result\S* (is|shares memory with) earlier result|earlier )",
        MODULE + """
def f(x, y):
    t = -np.ones((x.size, 3))
    np.sort(t * x, -1)
    return t

def calls():
    yield array(1, "float64", ()), 3
    yield array(1, "float64", ()), 3
""",
    ),
    Known(
        "parts-of-scalars",
        "the imaginary part of an integer or bool scalar is a 0-d array",
        r"\.imag|\.real",
        r"^call \d+: result\S*: (u?int\d+|bool) .* against ndarray",
        MODULE + """
def f(x):
    return np.sum(x).imag

def calls():
    yield (array(1, "int64", (5,)),)
""",
    ),
    Known(
        "which-error",
        "of two errors in one assignment the shapes' is raised, and NumPy raises the dtypes'",
        r"[-+*/]=",
        r"^call \d+: error: UFuncTypeError.* against ShapeError",
        MODULE + """
W = array(1, "int64", (3000,))

def f(x):
    W[:8][:2] -= x
    return x

def calls():
    yield (array(1, "float64", (16,)),)
""",
    ),
)
