"""Timing in turns: what is told, what is left of arguments, and what the interval means."""

from typing import Any

import numpy as np
import pytest

import fuser
from fuser.calls.comparison import LEAST_ROUNDS, Comparison, median_interval

X = np.linspace(0.0, 1.0, 1000)


def test_it_tells_both_times_and_an_interval() -> None:
    """The interval holds the ratio; the text says what it is of."""
    found = fuser.fuse(lambda x: np.sqrt(x) * 2 + 1).benchmark(X, seconds=0.02)
    assert found.low <= found.speedup <= found.high
    assert found.plain_s > 0
    assert found.fused_s > 0
    assert found.rounds >= LEAST_ROUNDS
    assert found.fallbacks == []
    assert "95% interval" in str(found)
    assert str(found) == repr(found)
    assert "<pre>" in found._repr_html_()


def test_arguments_are_as_they_were() -> None:
    """The function writes into one of them at each call."""

    @fuser.fuse
    def doubled(x: Any, y: Any) -> None:
        x *= y

    x = X.copy()
    doubled.benchmark(x, np.full(1000, 2.0), seconds=0.01)
    assert x.tobytes() == X.tobytes()


def test_why_it_is_not_fused_is_part_of_it() -> None:
    """Else the ratio would say something of fusing."""
    fused = fuser.fuse(lambda x: len(str(x)) + x, fallback="allow")
    found = fused.benchmark(X, seconds=0.01)
    assert [reason.code for reason in found.fallbacks] == ["array-conversion"]
    assert "not fused" in str(found)


def test_seconds_are_positive() -> None:
    """Anything else is refused."""
    with pytest.raises(fuser.ArgumentError, match="seconds > 0"):
        fuser.fuse(lambda x: x + 1).benchmark(X, seconds=0)


@pytest.mark.parametrize(("count", "place"), [(6, 0), (7, 0), (9, 1), (20, 5), (100, 39)])
def test_interval_of_the_median(count: int, place: int) -> None:
    """The order statistics that tables of the binomial distribution give."""
    values = [float(each) for each in range(count)]
    assert median_interval(values[::-1]) == (place, count - 1 - place)


def test_the_interval_holds_the_median_as_often_as_it_says() -> None:
    """Of 400 samples of a skewed distribution, at least 93%."""
    rng = np.random.default_rng(7)
    held = 0
    for _ in range(400):
        low, high = median_interval(list(rng.exponential(size=21)))
        held += low <= np.log(2) <= high
    assert held >= 372


@pytest.mark.parametrize(
    ("low", "high", "said"), [(0.9, 1.1, "no diff"), (1.2, 1.4, "faster"), (0.5, 0.7, "slower")]
)
def test_verdict(low: float, high: float, said: str) -> None:
    """An interval with 1 in it says nothing."""
    assert said in Comparison("f", 1.0, low, high, 2.5, 1e-7, 9).verdict
