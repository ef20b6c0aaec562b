"""Integers that remember how they depend on lengths, and the guards that comparing them leaves."""

import math
import random
from typing import Any

import pytest

from fuser.ir import dims
from fuser.runtime.symbolic import Assumptions, NotSymbolic, Symbolic, dim_of, value_of

MOST = 1 << 31


def assumed(**values: int) -> tuple[Assumptions, dict[str, Any]]:
    """Symbols of at least 2, and their symbolic values."""
    known = Assumptions(values, dict.fromkeys(values, (2, MOST)))
    return known, {name: known.symbol(name) for name in values}


def test_arithmetic_keeps_the_expression() -> None:
    """What becomes a number is one."""
    _, names = assumed(n0=7, n1=5)
    n, m = names["n0"], names["n1"]
    assert str(dim_of(8 * (n - 1) * m + 3)) == "8*n0*n1 - 8*n1 + 3"
    assert value_of(8 * (n - 1) * m + 3) == 243
    assert dim_of((n + 1) // 2) == dims.parse("(n0 + 1) // 2")
    assert value_of(n % 4) == 3
    assert (-n) // 2 == -4
    assert type(n - n) is int
    assert math.prod([n, m, 2]) == 70


def test_comparisons_that_bounds_decide_leave_no_guard() -> None:
    """Every symbol is at least 2."""
    known, names = assumed(n0=7, n1=5)
    n, m = names["n0"], names["n1"]
    assert all((n > 0, n != 1, 8 * m >= 8, 8 * n * m > 8 * m, max(n, 1) is n))
    assert all((4 * m != 4, n * m != m, (n + 3) // 2 >= 2))
    assert known.guards() == []


def test_comparisons_that_lengths_decide_are_guards() -> None:
    """One interval an expression; what it implies is not asked again."""
    known, names = assumed(n0=7, n1=5)
    n, m = names["n0"], names["n1"]
    assert all((n > 3, n <= 40, n > 2, not n * m > 100, n // 2 >= 3, 100 // n > 5))
    assert [(str(dim), low, high) for dim, low, high in known.guards()] == [
        ("n0", 6, 16), ("n0*n1", 8, 100),
    ]  # fmt: skip


def test_numbers_that_python_needs_are_pinned() -> None:
    """An index, a hash or a text holds for this length only."""
    for use in (lambda n: [0] * n, hash, str, int, lambda n: f"{n} rows", lambda n: list(range(n))):
        known, names = assumed(n0=7)
        use(names["n0"])
        assert [guard[1:] for guard in known.guards()] == [(7, 7)]


def test_what_is_no_integer_expression_is_refused() -> None:
    """Quotients as floats, powers, bits."""
    _, names = assumed(n0=7)
    n = names["n0"]
    for use in (lambda: n / 2, lambda: 2**n, lambda: n & 6, lambda: n * 0.5, lambda: 0.5 - n,
                lambda: float(n)):  # fmt: skip
        with pytest.raises(NotSymbolic):
            use()
    with pytest.raises(ZeroDivisionError):
        n // (n - 7)


def test_the_same_guards_give_the_same_choices_and_values() -> None:
    """Random programs of comparisons: lengths that meet the guards go the same way."""

    def program(draw: random.Random, n: Any, m: Any) -> tuple[list[bool], Any]:
        values, taken = [n, m, 3, n * m], []
        for _ in range(8):
            a, b = draw.choice(values), draw.choice(values)
            what = draw.randrange(7)
            if what < 3:
                values.append((a + b, a - b, a * b)[what])
            elif what == 3:
                d = draw.choice((2, 3, 16))
                values.append(a // d)
                values.append(b % d)
            else:
                taken.append((a < b, a == b, a >= 3 * b)[what - 4])
                values.append(a if taken[-1] else b)
        return taken, values[-1]

    for seed in range(150):
        known, names = assumed(n0=2 + seed % 9, n1=2 + seed % 5)
        taken, last = program(random.Random(seed), names["n0"], names["n1"])
        met = 0
        for n in range(2, 24):
            for m in range(2, 24):
                sizes = {"n0": n, "n1": m}
                if all(low <= dims.evaluate(dim, sizes) <= high
                       for dim, low, high in known.guards()):  # fmt: skip
                    met += 1
                    assert program(random.Random(seed), n, m) == (
                        taken, dims.evaluate(dim_of(last), sizes)
                    ), (seed, n, m)  # fmt: skip
        assert met, seed


def test_a_symbolic_integer_is_no_plain_one() -> None:
    """So that nothing that only takes integers takes its value unnoticed."""
    assert not issubclass(Symbolic, int)
