"""Break-even sizes and repaid calls are those of curves whose answer is known."""

import math

import pytest

from fuser.reports.break_even import calls_to_repay, crossing_size
from fuser.reports.statistics import Estimate


def test_the_crossing_is_interpolated() -> None:
    """Log ratio -0.1 at 100 and +0.1 at 10,000: half way in logarithm is 1,000."""
    rows = [dict.fromkeys(range(3), log) for log in (-0.5, -0.1, 0.1)]
    found = crossing_size([1, 100, 10_000], rows)
    assert isinstance(found, Estimate)
    assert found.value == pytest.approx(1000)
    assert found.low == pytest.approx(1000)


def test_the_last_crossing_counts() -> None:
    """Faster, then slower, then faster for good."""
    rows = [{0: 0.2}, {0: -0.1}, {0: 0.1}, {0: 0.3}]
    found = crossing_size([1, 10, 1000, 10_000], rows)
    assert isinstance(found, Estimate)
    assert found.value == pytest.approx(100)
    assert found.low is None  # one process


@pytest.mark.parametrize(
    ("rows", "expected"),
    [
        ([{0: 0.1}, {0: 0.2}], "faster at every size measured"),
        ([{0: 0.1}, {0: -0.2}], "not faster at the largest size measured"),
        ([{0: 0.1}, {}], "not measured at two sizes"),
        ([{0: 0.1}, {1: 0.1}], "no process measured every size"),
        (
            [{0: -0.1, 1: -2.0}, {0: 2.0, 1: 0.1}],
            "crossing not resolved: its interval holds every size measured",
        ),
    ],
)
def test_why_there_is_no_crossing(rows: list[dict[int, float]], expected: str) -> None:
    """A missing number comes with its reason."""
    assert crossing_size([1, 10], rows) == expected


def test_calls_to_repay() -> None:
    """10 ms of compiling, 1 ms saved a call: after 10 calls the sums are equal."""
    assert calls_to_repay(0.011, 0.001, 0.002) == 10
    assert calls_to_repay(0.001, 0.0005, 0.002) == 1
    assert math.isinf(calls_to_repay(0.01, 0.002, 0.001))
    with pytest.raises(ValueError, match="not negative"):
        calls_to_repay(-1.0, 0.1, 0.2)
