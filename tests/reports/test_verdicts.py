"""Verdicts say what the samples allow, and false alarms stay below their rate."""

import math

import numpy as np
import pytest

from fuser.reports.verdicts import NoiseFloor, Verdict, noise_floor, verdict


def logs(*ratios: float) -> dict[int, float]:
    """Make log ratios by process from ratios."""
    return {process: math.log(ratio) for process, ratio in enumerate(ratios)}


CASES = [
    pytest.param((1.50, 1.52, 1.49), Verdict.FASTER, id="faster"),
    pytest.param((0.80, 0.81, 0.79), Verdict.SLOWER, id="slower"),
    pytest.param((1.001, 0.999, 1.002), Verdict.SAME, id="same"),
    pytest.param((1.2, 0.9, 1.1), Verdict.INCONCLUSIVE, id="spans 1"),
    pytest.param((1.008, 1.009, 1.0085), Verdict.SAME, id="certain but within the margin"),
    pytest.param((3.0,), Verdict.NOT_MEASURED, id="one process"),
    pytest.param((3.0, 3.0), Verdict.NOT_MEASURED, id="two processes"),
    pytest.param((), Verdict.NOT_MEASURED, id="nothing"),
]


@pytest.mark.parametrize(("ratios", "expected"), CASES)
def test_each_verdict_has_its_case(ratios: tuple[float, ...], expected: Verdict) -> None:
    """One example of each word."""
    assert verdict(logs(*ratios)) is expected


def test_a_difference_below_the_noise_floor_is_not_called_one() -> None:
    """Equal things differ by as much on this machine."""
    ratios = logs(1.049, 1.051, 1.05)
    assert verdict(ratios) is Verdict.FASTER
    assert verdict(ratios, NoiseFloor(1.045, 8, 24)) is Verdict.FASTER
    assert verdict(ratios, NoiseFloor(1.06, 8, 24)) is Verdict.INCONCLUSIVE
    assert verdict(logs(0.5, 0.6, 0.7), NoiseFloor(2.3, 8, 24)) is Verdict.INCONCLUSIVE
    assert verdict(logs(1.001, 0.999, 1.002), NoiseFloor(2.3, 8, 24)) is Verdict.INCONCLUSIVE
    assert verdict(logs(1.001, 0.999, 1.002), NoiseFloor(1.005, 8, 24)) is Verdict.SAME


def test_a_margin_that_is_none_is_refused() -> None:
    """With a margin of 0 nothing could ever be the same."""
    with pytest.raises(ValueError, match="margin"):
        verdict(logs(1.0, 1.0), margin=0)


def test_the_noise_floor_is_pooled_and_shrinks_with_processes() -> None:
    """Known spread: rms 1% over 40 values, t(0.975, 40) = 2.0211 (tables)."""
    pairs = [{0: 0.01, 1: -0.01, 2: 0.01, 3: -0.01}] * 10
    one, four = noise_floor(pairs, 1), noise_floor(pairs, 4)
    assert one is not None
    assert four is not None
    assert one.log == pytest.approx(0.020211, abs=1e-6)
    assert four.log == pytest.approx(one.log / 2)
    assert (one.pairs, one.values) == (10, 40)


def test_without_a_pair_the_floor_is_not_measured() -> None:
    """None, not zero: the page says so."""
    assert noise_floor([], 3) is None
    assert noise_floor([{}], 3) is None
    with pytest.raises(ValueError, match="processes"):
        noise_floor([], 0)


def test_equal_things_are_rarely_called_different() -> None:
    """A/A comparisons at 2% noise a process: 'faster' or 'slower' in at most 5% of 2,000."""
    generator = np.random.default_rng(3)
    draws = generator.normal(0, 0.02, (2000, 3))
    floor = noise_floor([dict(enumerate(row)) for row in generator.normal(0, 0.02, (20, 3))], 3)
    said = [verdict(dict(enumerate(row)), floor) for row in draws.tolist()]
    wrong = sum(each in (Verdict.FASTER, Verdict.SLOWER) for each in said)
    assert wrong / len(said) <= 0.05


def test_a_three_percent_delay_is_found_with_enough_processes() -> None:
    """At 0.8% noise a process, 8 processes: a 3% slowdown is called slower in over 95%."""
    generator = np.random.default_rng(4)
    floor = noise_floor([dict(enumerate(row)) for row in generator.normal(0, 0.008, (10, 8))], 8)
    draws = generator.normal(-math.log(1.03), 0.008, (1000, 8))
    found = sum(verdict(dict(enumerate(row)), floor) is Verdict.SLOWER for row in draws.tolist())
    assert found / 1000 > 0.95
