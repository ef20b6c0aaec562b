"""Kernels as text: short lines, NumPy's spelling of views, and the user's own names."""

from itertools import pairwise
from typing import Any

import numpy as np
import pytest

import fuser
from fuser.explain.kernel_text import folded, spell_guards

X = np.ones((20, 30), np.float32)


def text_of(function: Any, *args: Any) -> str:
    """The whole explanation of a call."""
    return str(fuser.fuse(function, fallback="allow").explain(*args))


def stencil(u: Any) -> Any:
    """Writes into a slice."""
    out = np.zeros_like(u)
    out[1:-1, 1:-1] = u[2:, 1:-1] + u[:-2, 1:-1]
    out[0, :] = out[1, :]
    return out


def centred(x: Any) -> Any:
    """A value per row and one per column."""
    return x - x.mean(1, keepdims=True) - x.mean(0)


def many(*arrays: Any) -> Any:
    """Many arguments and results."""
    return tuple(np.exp(a) + np.sin(b) for a, b in pairwise(arrays))


def steps(x: Any, y: Any) -> Any:
    """Two lines a hundred times."""
    for _ in range(100):
        x = x * y + 1
        y = np.abs(y) - 0.5
    return x, y


def product(q: Any, k: Any) -> Any:
    """NumPy sees a view of an argument."""
    return np.exp((q * 2) @ k.T) * 3


CASES: dict[str, tuple[Any, tuple[Any, ...], tuple[str, ...]]] = {
    "slices": (stencil, (X,), ("u[2:, 1:-1]", "o0[1:n0 - 1, 1:n1 - 1]", "n0 >= ")),
    "rows and columns": (centred, (X,), ("reduced along 0", "reads x, t0")),
    "turned": (lambda x: np.exp(x).T + x.T, (X,), ("reads x.T;",)),
    "many": (many, (X,) * 40, ("args[5], … (40 in all)", "(exp sin add) x 39", "and 27 more")),
    "again": (steps, (X, X + 1), ("multiply add\n", "… these 2 lines 100 times")),
    "graph-break": (
        product, (X, X + 1), ("np.matmul", "reads k.T: float32", "x3 holds np.matmul#1")),
    "refused": (lambda x: x if 7 in x else -x, (X,), ("[control-flow]",)),
    "decided": (lambda x: x * 2 if x.sum() > 0 else -x, (X,), ("decision: ", "reads s0 off")),
}


@pytest.mark.parametrize("name", CASES)
def test_texts_are_readable(name: str) -> None:
    """No line is wider than a terminal, none shows how views are spelled inside."""
    function, args, parts = CASES[name]
    text = text_of(function, *args)
    assert max(map(len, text.splitlines())) <= 96
    assert len(text.splitlines()) < 60
    for inner in (".part(", ".broadcast_to(", "max(n0, ", " is True"):
        assert inner not in text
    for part in parts:
        assert part in text


def twice(x: Any) -> Any:
    """Two products on one line, with a function of NumPy's between them."""
    return np.sort(x * 2) * 3


def test_a_program_calls_a_value_by_one_name() -> None:
    """Kernels, breaks and pairs of all stages agree, whoever compiled the same stage first."""
    other = fuser.fuse(lambda x: np.cumsum(x * 2), fallback="allow")
    other(X)
    explained = fuser.fuse(twice, fallback="allow").explain(X)
    line = twice.__code__.co_firstlineno + 2
    text = str(explained)
    kernels = text[: text.index("pairs considered")]
    assert f"multiply#1 (test_kernel_text.py:{line})" in kernels
    assert f"multiply#2 (test_kernel_text.py:{line})" in kernels
    assert kernels.count("test_kernel_text.py:") == kernels.count(f"test_kernel_text.py:{line}")
    names = {*explained.candidates["first"], *explained.candidates["second"]}
    assert len(names) == 3


def test_guards_are_bounds() -> None:
    """The strongest bound of each length is said, as one would say it."""
    from fuser.ir import dims

    n = dims.symbol("n0")
    equal = [(n, dims.maximum(n, 1)), (n - 2, dims.maximum(n - 2, 2)), (n, dims.symbol("n1"))]
    values = [("(n0) >= 2", True), ("(s0) > 3", False), ("s1", 5), ("((n0 + 1) - 1) != 0", True)]
    assert spell_guards(equal, values) == [
        "n0 >= 4", "n0 == n1", "s0 <= 3", "s1 is 5", "n0 != 0",
    ]  # fmt: skip
    assert spell_guards([], [("(s0) + (s1) > 3", True)]) == ["(s0) + (s1) > 3 is True"]
    assert spell_guards([], [("(max(n0 - 1, 0)) > 0", True)]) == ["n0 >= 2"]
    assert spell_guards([(1, dims.minimum(n, 1))], [("(n0) > 0", False)]) == ["n0 >= 1", "n0 <= 0"]


def test_repetitions_are_folded() -> None:
    """The sequence that explains most comes first; what does not come again stays."""
    assert folded(list("abababc")) == [(("a", "b"), 3), (("c",), 1)]
    assert folded(list("aab")) == [(("a",), 1), (("a",), 1), (("b",), 1)]
    assert folded([]) == []
