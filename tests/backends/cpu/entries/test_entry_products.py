"""Words of a launch as products of lengths."""

import pytest

from fuser.backends.cpu.entries.entry_names import NotServed
from fuser.backends.cpu.entries.entry_products import Pattern, Probe


def test_numbers_are_factored_into_symbols() -> None:
    """A stride counts in items; what is no product of both probes is refused."""
    one = Probe({1: 11, 2: 13}, {1: 1, 2: 8}, {}, None)  # type: ignore[arg-type]
    other = Probe({1: 41, 2: 43}, {1: 1, 2: 8}, {}, None)  # type: ignore[arg-type]
    pattern = Pattern.__new__(Pattern)
    pattern.probes = [one, other]
    assert pattern.solve([4 * 11 * 11, 4 * 41 * 41])[:3] == [4, 1, 1]
    assert pattern.solve([8 * 13, 8 * 43])[:2] == [1, 2]
    assert pattern.solve([0, 0])[0] == 0
    assert pattern.solve([24, 24])[:2] == [24, 0]
    for values in ([10, 40], [11, 43], [13, 43], [11**5, 41**5]):
        with pytest.raises(NotServed):
            pattern.solve(values)
    assert pattern.value([3, 1, 1, 2, 0, 0], {1: 5, 2: 7}) == 3 * 5 * 5 * 7


def test_two_probes_are_no_proof() -> None:
    """(n - 3) (n - 5) + 2 n is 2 n for lengths of 3 and 5: the third point of the grid tells."""
    pattern = Pattern.__new__(Pattern)
    pattern.probes = [Probe({1: n}, {1: 1}, {}, None) for n in (3, 5, 7)]  # type: ignore[arg-type]
    assert pattern.solve([2 * n for n in (3, 5, 7)])[:2] == [2, 1]
    with pytest.raises(NotServed):
        pattern.solve([(n - 3) * (n - 5) + 2 * n for n in (3, 5, 7)])


@pytest.mark.parametrize(("text", "product"), [
    ("n0", [1, 1]), ("(n1 * 1) * n0", [1, 1, 2]), ("n0 + n0", [2, 1]), ("-n0", [-1, 1]),
    ("n0 % 4", None), ("n0 * n0 - n0", None), ("min(n0, 7)", None), ("n0 // 2", None),
    ("(-1) ** n0", None), ("n0 * n0 * n0", None), ("n0 * (3 * n1)", None),
    ("n9", None), ("n0 * 1.0", None), ("7", [7]),
])  # fmt: skip
def test_numbers_are_products_where_their_text_says_so(
    text: str, product: list[int] | None
) -> None:
    """All else is computed at each call; so is what a word may be too short for."""
    pattern = Pattern.__new__(Pattern)
    pattern.symbols = {"n0": 1, "n1": 2}
    found = pattern.product_of(text)
    assert found == (product and [*product, 0, 0, 0, 0, 0][:6])
