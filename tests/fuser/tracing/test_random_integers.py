"""Random programs that slice by integer arguments, for random integers, beside NumPy."""

from random import Random
from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

import fuser
from tests.fuser.comparing import compare
from tests.fuser.randomly import randomly

PLACES = "k j k+1 k-1 -k n-k k//2 2*k k%n k+j k-j n//2 0 1 -1 min(k,j) abs(k)".split()
VALUES = "1 k j*0.5".split()
MADE = "np.zeros(abs(k)%5) | np.arange(abs(j)+1)*1.0 | x*2 | np.zeros_like(x)".split(" | ")
LENGTHS = (0, 1, 2, 5, 6)


def index(random: Random) -> str:
    """An integer or a slice, some with a step."""
    if random.random() < 0.4:
        return random.choice(PLACES)
    start, stop = (random.choice([*PLACES, ""]) for _ in range(2))
    if random.random() < 0.2:
        stop = f"{start or 0}+2"
    return f"{start}:{stop}{random.choice(['', '', '', '', '', ':2', ':-1', ':k'])}"


def statement(random: Random, names: list[str]) -> str:
    """A write into a part of a value, or a new value, which joins the names."""
    target, source, other = (random.choice(names) for _ in range(3))
    kind = random.randrange(5)
    if kind == 0:
        return f"{target}[{index(random)}] = {source}[{index(random)}] * 2"
    if kind == 1:
        return f"{target}[{index(random)}] += {random.choice(VALUES)}"
    if kind == 2:
        element = f"{source}[{random.choice(PLACES)}]"
        return f"{target}[{random.choice(PLACES)}] = {random.choice([*VALUES, element])}"
    seen = f"{source}[{index(random)}]"
    added = random.choice([*VALUES, f"{other}[{index(random)}]"])
    names.append(f"v{len(names)}")
    return f"{names[-1]} = {random.choice([f'{seen} + {added}', seen, random.choice(MADE)])}"


def program(random: Random) -> Any:
    """A function of two arrays and two integers; its text is its docstring."""
    names = ["x", "y"]
    lines = ["n = len(x)", *(statement(random, names) for _ in range(random.randint(1, 4)))]
    lines.append(f"return ({', '.join(names[2:])}{', ' * (len(names) > 2)}x.sum(),)")
    text = "\n    ".join(["def drawn(x, y, k, j):", *lines])
    scope: dict[str, Any] = {"np": np}
    exec(text, scope)
    scope["drawn"].__doc__ = text
    return scope["drawn"]


@randomly(40)
@given(seed=st.integers(0, 2**32))
def test_random_programs_are_numpys(seed: int) -> None:
    """Values, writes and exceptions; the same array twice, rows apart, NumPy's scalars."""
    random = Random(seed)
    drawn = program(random)
    fused = fuser.fuse(drawn, fallback="allow", mode=random.choice(["fused", "fused", "unfused"]))
    columns = np.arange(3.0) if random.random() < 0.5 else None
    for _ in range(12):
        n = random.choice(LENGTHS)
        m = random.choice((n, n, n, 3))
        x, y = np.arange(1.0, n + 1), np.arange(10.0, 10 + m)
        if columns is not None:
            x, y = x[:, None] * (columns + 1), y[:, None] + columns
        if random.random() < 0.2:
            x = np.repeat(x, 2, axis=0)[::2]
        if random.random() < 0.1:
            y = x
        k: Any = random.randint(-n - 2, n + 2)
        j = random.randint(-n - 1, n + 1)
        k = np.int64(k) if random.random() < 0.2 else k
        assert compare(fused, x, y, k, j) == "", (drawn.__doc__, n, m, k, j)
