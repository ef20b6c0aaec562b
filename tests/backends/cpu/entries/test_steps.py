"""Expressions over lengths as rows: computed as the dispatcher does, they are the expressions."""

from collections.abc import Mapping

import pytest

from fuser.backends.cpu.entries.names import NotServed
from fuser.backends.cpu.entries.steps import Steps, TooLarge
from fuser.backends.cpu.machine import layout
from fuser.ir import dims
from fuser.runtime.symbolic import Assumptions


def steps_of(most: int = 1 << 20) -> Steps:
    """Of two lengths."""
    known = Assumptions({"n0": 7, "n1": 5}, {"n0": (2, most), "n1": (2, most)})
    return Steps({"n0": 1, "n1": 2}, known)


def computed(steps: Steps, sizes: Mapping[str, int]) -> list[int]:
    """What the rows leave at each place."""
    places = [0] * layout.MOST_SYMBOLS
    places[:3] = [1, sizes["n0"], sizes["n1"]]
    for row in steps.rows:
        place, more, factor, left, right, divisor = row
        value = more * places[place] + factor * places[left] * places[right]
        places[place] = value // places[divisor] if divisor else value
    return places


@pytest.mark.parametrize("text", [
    "5", "n0", "8*n1", "n0*n1", "n0 - 1", "3*n0*n1 - 2*n1 + 7", "(n0 + 1) // 2", "4*(n0 // 3) + 1",
    "n0*n0*n1", "100 // n1 - n0", "(n0*n1 - 9) // (n1 + 1)", "((n0 + 7) // 8)*(n1 // 2)",
])  # fmt: skip
def test_rows_compute_an_expression(text: str) -> None:
    """As a factor and a place, and as a place; what is there already takes no rows."""
    steps, dim = steps_of(), dims.parse(text)
    factor, place = steps.scaled(dim)
    whole = steps.place(dim)
    count = len(steps.rows)
    for sizes in ({"n0": 7, "n1": 5}, {"n0": 2, "n1": 19}):
        places = computed(steps, sizes)
        assert factor * places[place] == places[whole] == dims.evaluate(dim, sizes)
    assert (steps.scaled(dim), steps.place(dim)) == ((factor, place), whole)
    assert len(steps.rows) == count


def test_single_lengths_and_numbers_take_no_rows() -> None:
    """They are a factor and the place of a symbol, or of 1."""
    steps = steps_of()
    assert steps.scaled(12) == (12, 0)
    assert steps.scaled(dims.parse("8*n1")) == (8, 2)
    assert steps.place(dims.parse("n0")) == 1
    assert not steps.rows


def test_what_a_word_cannot_hold_is_refused() -> None:
    """For lengths up to the longest; and more expressions than there are places."""
    with pytest.raises(TooLarge):
        steps_of(1 << 31).scaled(dims.parse("n0*n1"))
    with pytest.raises(TooLarge):
        steps_of().scaled(dims.parse("(n0*n1*n1*n1) // 3"))
    steps = steps_of()
    for k in range(3, layout.MOST_SYMBOLS):
        assert steps.place(dims.parse(f"n0 + {k}")) == k
    with pytest.raises(NotServed):
        steps.place(dims.parse("n1 + 1"))
