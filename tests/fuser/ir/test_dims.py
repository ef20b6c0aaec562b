"""Symbolic lengths are the integers that Python's own arithmetic gives."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fuser.base.errors import GraphError
from fuser.ir import dims

N, M = dims.symbol("n0"), dims.symbol("n1")
BOUND = st.one_of(st.none(), st.integers(-5, 5))
PARTS = st.builds(slice, BOUND, BOUND, st.sampled_from([None, 1, 2, 3, -1, -2, -3]))


@given(parts=st.lists(PARTS, min_size=1, max_size=4))
def test_lengths_of_slices_of_slices(parts: list[slice]) -> None:
    """For every length the expression has the length of Python's own range; text reads back."""
    length: dims.Dim = N
    for part in parts:
        length = dims.slice_length(length, part)
    assert dims.parse(str(length)) == length
    for size in range(9):
        plain = range(size)
        for part in parts:
            plain = plain[part]
        assert dims.evaluate(length, {"n0": size}) == len(plain)


def test_arithmetic_is_that_of_integers() -> None:
    """Sums, products, floor divisions, min and max of random expressions."""
    chance = random.Random(0)
    for _ in range(300):
        value, text = N, "n0"
        for _ in range(4):
            other, spelled = chance.choice([(M, "n1"), (2, "2"), (N, "n0"), (3, "3")])
            sign = chance.choice("+-*/<>")
            if sign == "+":
                value, text = value + other, f"({text} + {spelled})"
            elif sign == "-":
                value, text = value - other, f"({text} - {spelled})"
            elif sign == "*":
                value, text = value * other, f"({text} * {spelled})"
            elif sign == "/" and isinstance(other, int):
                value, text = value // other, f"({text} // {spelled})"
            elif sign == "<":
                value, text = dims.minimum(value, other), f"min({text}, {spelled})"
            elif sign == ">":
                value, text = dims.maximum(value, other), f"max({text}, {spelled})"
        for sizes in ({"n0": a, "n1": b} for a in (0, 1, 2, 7) for b in (0, 1, 5)):
            assert dims.evaluate(value, sizes) == eval(text, {}, sizes), (value, text)


@pytest.mark.parametrize(
    ("length", "text"),
    [
        (N + N - N, "n0"),
        (N * 2 + 4 - N * 2, "4"),
        ((N * 4) // 2, "2*n0"),
        ((N * 4 + 3) // 2, "2*n0 + 1"),
        ((N * 2 - 1) // 2, "n0 - 1"),
        ((N * 2 + 1) // 2, "n0"),
        (dims.minimum(dims.minimum(N, 5), 3), "min(n0, 3)"),
        (dims.maximum(dims.maximum(N - 1, 0) - 1, 0), "max(n0 - 2, 0)"),
        (dims.maximum(N + 1, 0), "n0 + 1"),
        (dims.maximum(dims.minimum(N - 3, 2), 0), "max(min(n0 - 3, 2), 0)"),
        (dims.minimum(N, 0), "0"),
        (dims.product((N, M, 2)), "2*n0*n1"),
    ],
)
def test_normal_forms(length: dims.Dim, text: str) -> None:
    """Equal lengths have one text."""
    assert str(length) == text
    assert dims.parse(text) == length


@pytest.mark.parametrize(
    "text", ["n0 + ", "n0 ** 2", "open(n0)", "n0.real", "n0 / 2", "'a'", "2.5"]
)
def test_text_that_is_no_length_is_refused(text: str) -> None:
    """Nothing but names, integers, + - * // min and max."""
    with pytest.raises(GraphError):
        dims.parse(text)


def test_representatives_follow_chains_and_prefer_integers() -> None:
    """One length stands for each class of equal ones, whichever way round pairs are given."""
    a, b, c = dims.minimum(N, 4), dims.minimum(M, 4), dims.symbol("n2")
    found = dims.representatives([(a, b), (b, a), (b, c)])
    assert {found.get(str(x), x) for x in (a, b, c)} == {a}
    found = dims.representatives([(a, b), (c, b), (c, 3)])
    assert {found.get(str(x), x) for x in (a, b, c)} == {3}


def test_a_symbol_stands_for_lengths_that_contain_it() -> None:
    """Else it would be replaced by a length that has to be replaced again."""
    padded = dims.minimum(N + 2, 9)
    for pair in ((padded, N), (N, padded)):
        assert dims.representatives([pair]) == {str(padded): N}
