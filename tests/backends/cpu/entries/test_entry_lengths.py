"""Tables for every length are not used for lengths that a min or max treats otherwise."""

from typing import Any

import numpy as np
import pytest

import fuser
from fuser.backends.cpu.entries import entry
from fuser.backends.cpu.entries.entry_lengths import _degree
from fuser.backends.cpu.entries.entry_names import NotServed

FUNCTIONS: dict[str, Any] = {
    "a part's sum": lambda x: x[3:6].sum(),
    "a sum beside": lambda x: x[:3].sum() + x,
    "a part": lambda x: x[3:6] * 2,
    "a part's largest": lambda x: x[3:6].max(initial=0) * x,
    "behind a place": lambda x: x[20:].sum() + x,
    "far behind": lambda x: x[200:].sum() * 2,
    "up to a place": lambda x: x[:200] + 1,
    "of the last": lambda x: x[-3:].sum() + x,
    "of every second": lambda x: x[::2].sum() + x,
    "of parts of parts": lambda x: x[1:][:4][2:].sum() * x,
    "rows": lambda x: x[:, None][:4].sum(0) * x,
    "shifted": lambda x: np.roll(x, 3) + x,
    "two": lambda x: x[2:5].sum() - x[:2].sum(),
}


@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize("lengths", [
    (8, 8, 9, 10, 11, 5, 4, 3, 2, 1, 0, 5, 2, 7, 6),
    (50, 60, 61, 62, 63, 230, 231, 19, 20, 21, 250, 3, 240),
    (300, 301, 302, 303, 100, 199, 200, 201, 30, 2, 1, 400),
])  # fmt: skip
def test_short_and_long_arrays(name: str, lengths: tuple[int, ...]) -> None:
    """Whatever lengths came before."""
    function = FUNCTIONS[name]
    fused = fuser.fuse(function, fallback="allow")
    room = np.arange(1.0, 500.0)
    for length in lengths:
        for _ in range(2):
            x = room[:length]
            np.testing.assert_array_equal(fused(x), function(x), str(length))


@pytest.mark.parametrize(("text", "names", "found"), [
    ("3", {"n0"}, 0), ("n0*n1 - 1", {"n0"}, 1), ("n0*n1 - 1", {"n0", "n1"}, 2),
    ("max(n0*n0 - 3, 0) + n1", {"n0"}, 2), ("(n0 + n1)*n0", {"n0", "n1"}, 2),
])  # fmt: skip
def test_degrees_of_lengths(text: str, names: set[str], found: int) -> None:
    """Of polynomials; a quotient has none."""
    assert _degree(text, names) == found
    with pytest.raises(NotServed):
        _degree(f"({text}) // 2", names)


def test_numbers_computed_from_lengths_are_served_for_all_lengths() -> None:
    """Natively, with their guards, from the second length on."""
    entry.load()
    function = fuser.fuse(lambda x: x * (len(x) % 4) + 6 // (len(x) - 3))
    for length in (8, 9, 10, 11, 5, 4):
        function(np.ones(length))
    before = function._native.hits
    for length in (6, 7, 12, 13):
        x = np.arange(1.0, length + 1)
        np.testing.assert_array_equal(function(x), x * (length % 4) + 6 // (length - 3))
    assert function._native.hits == before + 4
    with pytest.raises(ZeroDivisionError):
        function(np.ones(3))
