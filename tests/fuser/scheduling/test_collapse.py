"""Loops in the order of memory: which axes are no loops."""

from fuser.ir import dims
from fuser.ir.layouts import Layout
from fuser.scheduling.collapse import collapse


def test_an_axis_that_one_operand_says_is_of_one_element_is_no_loop() -> None:
    """The last column of an array, `x[:, -1:]`, has `min(n1, 1)` elements beside others with 1."""
    rows, least = dims.symbol("n0"), dims.minimum(dims.symbol("n1"), 1)
    last = Layout(72, (7, 1), (80, 8), (rows, least), (False, False))
    first = Layout(0, (7, 1), (80, 8), (rows, 1), (False, False))
    for operands in ([last, first], [first, last], [first, first]):
        assert collapse((7, 1), operands, [8, 8], 1) == ([7], [[80], [80]])
    assert collapse((7, 1), [last, last], [8, 8], 1)[0] == [7, 1]  # it may be empty
