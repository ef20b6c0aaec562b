"""Ratios and intervals come out as computed by hand, and intervals cover what they claim."""

import math

import numpy as np
import pytest

from fuser.reports.record import Samples
from fuser.reports.statistics import (
    block_seconds,
    geometric_mean,
    geometric_mean_ratio,
    paired_log_ratios,
    ratio_between,
    ratio_of,
    reported_range,
    seconds_per_call,
    t_interval,
)


def make_samples(table: list[list[float]], calls: int = 1) -> Samples:
    """Make samples from seconds a call by process and block."""
    rows = [(p, b, s) for p, blocks in enumerate(table) for b, s in enumerate(blocks)]
    return Samples(
        process=[p for p, _, _ in rows],
        block=[b for _, b, _ in rows],
        order=list(range(len(rows))),
        calls=[calls] * len(rows),
        seconds=[s * calls for _, _, s in rows],
    )


def test_block_seconds_divides_by_calls_and_takes_the_median_within_a_block() -> None:
    """Several samples of one block are one number; unresolved samples are none."""
    samples = Samples([0] * 4, [0, 0, 0, 1], [0, 1, 2, 3], [10] * 4, [1.0, 3.0, 2.0, 0.0])
    assert block_seconds(samples) == {(0, 0): pytest.approx(0.2)}


def test_ratios_are_paired_by_process_and_block() -> None:
    """A drift that both variants see cancels; a block only one has is not used."""
    drift = [1.0, 2.0, 4.0]
    baseline = make_samples([[3 * d for d in drift] + [100.0], [3 * d for d in drift]])
    candidate = make_samples([drift, drift])
    logs = paired_log_ratios(baseline, candidate)
    assert logs == {0: pytest.approx(math.log(3)), 1: pytest.approx(math.log(3))}


def test_one_outlying_block_does_not_move_a_process() -> None:
    """The median over blocks is taken, not the mean."""
    baseline = make_samples([[2.0, 2.0, 2.0, 200.0, 2.0]])
    candidate = make_samples([[1.0] * 5])
    assert paired_log_ratios(baseline, candidate)[0] == pytest.approx(math.log(2))


def test_the_interval_is_students() -> None:
    """For 1, 2, 3: mean 2, s = 1, t(0.975, 2) = 4.302653 (tables), half width 2.484138."""
    low, high = t_interval([1.0, 2.0, 3.0]) or (0.0, 0.0)
    assert (low, high) == (pytest.approx(2 - 2.484138, abs=1e-6), pytest.approx(4.484138, abs=1e-6))


@pytest.mark.parametrize("values", [[], [1.0]])
def test_fewer_than_two_processes_give_no_interval(values: list[float]) -> None:
    """One process says nothing of the spread between processes."""
    assert t_interval(values) is None
    estimate = ratio_of(dict(enumerate(values)))
    assert estimate is None if not values else (estimate and estimate.low is None)


def test_a_confidence_outside_its_range_is_refused() -> None:
    """95 instead of 0.95 is a mistake, not a wide interval."""
    with pytest.raises(ValueError, match="confidence: found 95"):
        t_interval([1.0, 2.0], confidence=95)


@pytest.mark.parametrize("processes", [3, 5])
def test_intervals_cover_the_truth_as_often_as_they_claim(processes: int) -> None:
    """Simulated ratios with noise between processes and within: 95% of the intervals cover.

    The process medians are computed by the real code, from samples with heavy upper tails, as
    interruptions give them.
    """
    generator = np.random.default_rng(processes)
    trials, blocks, truth, covered = 2000, 6, math.log(1.3), 0
    for _ in range(trials):
        shape = (2, processes, blocks)
        noise = generator.normal(0, 0.008, shape) + generator.exponential(0.004, shape)
        process_noise = generator.normal(0, 0.006, (processes, 1))
        baseline = make_samples(np.exp(truth + process_noise + noise[0]).tolist())
        candidate = make_samples(np.exp(noise[1]).tolist())
        estimate = ratio_of(paired_log_ratios(baseline, candidate))
        assert estimate is not None
        assert estimate.low is not None
        assert estimate.high is not None
        covered += estimate.low <= math.exp(truth) <= estimate.high
    # Three standard errors of a share of 0.95 over the trials: 0.015.
    assert covered / trials == pytest.approx(0.95, abs=3 * math.sqrt(0.95 * 0.05 / trials))


def test_seconds_per_call_is_the_mean_of_process_medians() -> None:
    """Medians 2 and 8 microseconds: their geometric mean is 4."""
    estimate = seconds_per_call(make_samples([[2e-6, 2e-6, 9e-6], [8e-6] * 3], calls=50))
    assert estimate is not None
    assert estimate.value == pytest.approx(4e-6)
    assert estimate.processes == 2


def test_nothing_timed_has_no_time() -> None:
    """Neither zero nor NaN stands in for what was not measured."""
    assert seconds_per_call(Samples()) is None
    assert ratio_of({}) is None
    assert geometric_mean_ratio([]) is None
    assert geometric_mean_ratio([{}]) is None


def test_geometric_means() -> None:
    """A ratio and its inverse cancel; what is no ratio is refused."""
    assert geometric_mean([4.0, 0.25]) == pytest.approx(1.0)
    for wrong in ([], [1.0, 0.0], [math.inf], [math.nan]):
        with pytest.raises(ValueError, match="geometric_mean"):
            geometric_mean(wrong)


def test_the_interval_of_a_summary_is_over_processes() -> None:
    """Rows that differ a lot from one another do not widen it; processes that differ do."""
    rows = [dict.fromkeys(range(3), math.log(ratio)) for ratio in (2, 8)]
    estimate = geometric_mean_ratio(rows)
    assert estimate is not None
    assert (estimate.value, estimate.low, estimate.high) == pytest.approx((4.0, 4.0, 4.0))
    cut_short = geometric_mean_ratio([*rows, {0: 0.0}])
    assert cut_short is not None
    assert cut_short.low is None  # one process measured every row
    assert cut_short.value == pytest.approx(16 ** (1 / 3))


def test_estimates_say_when_they_have_no_interval() -> None:
    """The text never shows a lone number as if it were certain."""
    told = [ratio_of(dict.fromkeys(range(count), 0.1)) for count in (1, 2, 3)]
    texts = [each.as_text() for each in told if each is not None]
    assert texts == [
        "1.11 [no interval: 1 process]", "1.11 [no interval: 2 processes]", "1.11 [1.11, 1.11]",
    ]  # fmt: skip


THREE, TWO = {0: 1.99, 1: 2.0, 2: 2.01}, {0: 1.99, 1: 2.01}


def test_no_interval_from_fewer_than_three_processes() -> None:
    """Of ratios, times, means of rows, runs compared, and ranges; the value is there."""
    seconds = make_samples([[2e-6] * 3] * 2)
    for made in (
        ratio_of(TWO), seconds_per_call(seconds), geometric_mean_ratio([TWO, TWO]),
        geometric_mean_ratio([THREE, TWO]), ratio_between(TWO, THREE), ratio_between(THREE, TWO),
    ):  # fmt: skip
        assert made is not None
        assert (made.low, made.high, made.processes) == (None, None, 2)
        assert made.value > 0
        assert "no interval: 2 processes" in made.as_text()
    assert math.isnan(reported_range([1.0, 2.0])[0])
    assert reported_range([3.0, 1.0, 2.0]) == (1.0, 3.0)


def test_no_interval_is_narrower_than_the_noise() -> None:
    """Where equal things differ by a factor of two, so do both ends from the value, at least."""
    noise_log = math.log(2)
    for made in (
        ratio_of(THREE, noise_log=noise_log),
        seconds_per_call(make_samples([[2e-6] * 3] * 3), noise_log=noise_log),
        geometric_mean_ratio([THREE, THREE], noise_log=noise_log),
        ratio_between(THREE, THREE, noise_log=noise_log),
    ):
        assert made is not None
        assert (made.low, made.high) == pytest.approx((made.value / 2, made.value * 2))
    wide = {0: 0.0, 1: 3.0, 2: -3.0}
    assert ratio_of(wide, noise_log=0.01) == ratio_of(wide), "it was wider before"
