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
