"""Random functions of loops over elements, run plainly and fused, and compared.

`python -m tests.fuser.element_loops.random_programs KIND FIRST LAST` judges functions by their
seeds: `loops` have numbers of all dtypes, slices and helpers (`random_loops`), `indices` computes
them in arrays that lie in the middle of larger ones (`random_indices`), `columns` are nests of two
loops whose iterations may stand apart (`random_columns`).
"""

from __future__ import annotations

import linecache
import random
import sys
from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from typing import Any

import numpy as np

import fuser
from tests.fuser.comparing import faults, same


class Writer:
    """Writes one function; `statement` is the kind's."""

    def __init__(self, seed: int) -> None:
        """Begin with its body."""
        self.random = random.Random(seed)
        self.lines: list[str] = []
        self.depth = 1

    def pick(self, *texts: str) -> str:
        """One of several."""
        return self.random.choice(texts)

    def emit(self, text: str) -> None:
        """A line."""
        self.lines.append("    " * self.depth + text)

    def block(self, count: int, *given: Any) -> None:
        """Statements in something."""
        self.depth += 1
        for _ in range(count):
            self.statement(*given)
        self.depth -= 1

    def statement(self, *given: Any) -> None:
        """A statement."""
        raise NotImplementedError


@dataclass(frozen=True)
class Kind:
    """A kind of random functions.

    Attributes:
        program: the source of a module whose `f` is one, by a seed.
        arguments: those of a call, and arrays that have to be left as the plain function does.
        seeds: of the arguments of each call, by the function's.
    """

    program: Callable[[int], str]
    arguments: Callable[[int], tuple[list[Any], list[Any]]]
    seeds: Callable[[int], list[int]]

    def judge(self, seed: int) -> str:
        """What differs between a function and itself fused, or nothing."""
        plain = loaded(self.program(seed), f"{self.program.__module__} {seed}")
        fused, before = fuser.fuse(plain, fallback="allow"), faults()
        for turn, given in enumerate(self.seeds(seed)):
            (wanted, expected), (found, left) = self.arguments(given), self.arguments(given)
            one, other = outcome(plain, wanted), outcome(fused, found)
            if one[0] != other[0] or not same(one[1], other[1]):
                return f"call {turn}: {one} and {other}"
            if not all(map(same, expected, left)):
                return f"call {turn}: what is left in arguments, or beside them"
        return str(fused.fallbacks) if faults() > before else ""


def loaded(source: str, name: str) -> Any:
    """The function of a source, which Python finds."""
    linecache.cache[f"<{name}>"] = len(source), None, source.splitlines(keepends=True), f"<{name}>"
    names: dict[str, Any] = {"__name__": name.replace(" ", "_")}
    exec(compile(source, f"<{name}>", "exec"), names)
    return names["f"]


def outcome(function: Callable[..., Any], args: list[Any]) -> tuple[str, Any]:
    """What a call gives, or raises."""
    try:
        with np.errstate(all="ignore"):
            return "gives", function(*args)
    except Exception as error:  # noqa: BLE001 - it is compared
        kinds = type(error).__mro__  # ours are kinds of Python's
        return "raises", next(kind.__name__ for kind in kinds if kind.__module__ == "builtins")


def main(name: str, first: int, last: int) -> None:
    """Judge functions of a kind."""
    kind = import_module(f"tests.fuser.element_loops.random_{name}").KIND
    wrong = 0
    for seed in range(first, last):
        if told := kind.judge(seed):
            wrong += 1
            print(f"{seed}: {told}\n{kind.program(seed)}", flush=True)
    print(f"{last - first} judged, {wrong} wrong")


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
