"""What may be said about a ratio: faster, slower, same within margin, inconclusive, not measured.

Sources:
    Schuirmann, "A comparison of the two one-sided tests procedure and the power approach",
    Journal of Pharmacokinetics and Biopharmaceutics 15(6), 1987, pp. 657-680.
    Student, "The probable error of a mean", Biometrika 6(1), 1908, pp. 1-25.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

import numpy as np
from scipy.special import stdtrit

from fuser.reports.statistics import CONFIDENCE, Estimate, LogRatios, ratio_of

SAME_MARGIN = 0.02
"""Ratios between 1/1.02 and 1.02 make no difference worth a decision."""


class Verdict(StrEnum):
    """What the samples allow to say about candidate against baseline."""

    FASTER = "faster"
    SLOWER = "slower"
    SAME = "same within margin"
    INCONCLUSIVE = "inconclusive"
    NOT_MEASURED = "not measured"


@dataclass(frozen=True, slots=True)
class NoiseFloor:
    """How far from 1 the ratio of a thing to itself comes out on this machine."""

    ratio: float  # 1.008: ratios nearer to 1 than this are noise
    pairs: int  # A/A pairs of cells
    values: int  # pairs times processes

    @property
    def log(self) -> float:
        """The floor as a distance in log ratio, a pure number."""
        return math.log(self.ratio)


def noise_floor(pairs: Sequence[LogRatios], processes: int) -> NoiseFloor | None:
    """Tell how large a difference between equal things a run of this many processes shows.

    The expected log ratio of an A/A pair is 0, so the spread is taken about 0 and pooled over all
    pairs and processes: a floor from one pair alone would be small by luck.

    Args:
        pairs: one mapping process -> log ratio (pure numbers) for each cell with an A/A pair.
        processes: the number of processes a ratio of this run is averaged over, at least 1.

    Returns:
        exp(t x rms / sqrt(processes)) with the t quantile for the number of pooled values, or
        None where there is no A/A pair.

    Raises:
        ValueError: `processes` is less than 1.

    Source:
        Student 1908, with the mean known to be 0, so that no degree of freedom is spent on it.
    """
    if processes < 1:
        raise ValueError(f"processes: found {processes}, expected at least 1")
    logs = np.asarray([log for pair in pairs for log in pair.values()], dtype=np.float64)
    if logs.size == 0:
        return None
    quantile = float(stdtrit(logs.size, (1 + CONFIDENCE) / 2))
    half = quantile * math.sqrt(float(np.mean(logs**2)) / processes)
    return NoiseFloor(math.exp(half), sum(1 for pair in pairs if pair), int(logs.size))


def verdict(
    log_ratios: LogRatios, floor: NoiseFloor | None = None, margin: float = SAME_MARGIN
) -> Verdict:
    """Say what the samples allow to be said.

    Equivalence is tested first: a difference that is certain but smaller than the margin is
    "same within margin". Both are judged by the intervals that are shown, which are no narrower
    than the noise floor: a difference below it is never called faster or slower, and on a noisy
    machine it is not called the same either.

    Args:
        log_ratios: process -> log ratio of baseline to candidate, pure numbers.
        floor: the A/A noise floor of the run; None where it was not measured.
        margin: relative difference that is still "same".

    Returns:
        `Verdict.NOT_MEASURED` with fewer than three processes: no interval, no verdict.

    Raises:
        ValueError: the margin is not positive.

    Source:
        Schuirmann 1987: two one-sided tests at level alpha are the question whether the
        1 - 2 alpha interval lies inside the margin.
    """
    if margin <= 0:
        raise ValueError(f"margin: found {margin}, expected a relative difference above 0")
    noise_log = floor.log if floor else 0.0
    narrow = ratio_of(log_ratios, 1 - 2 * (1 - CONFIDENCE), noise_log)
    return judged(narrow, ratio_of(log_ratios, noise_log=noise_log), margin)


def judged(narrow: Estimate | None, wide: Estimate | None, margin: float) -> Verdict:
    """Judge a ratio by its two intervals, as `verdict` says.

    Args:
        narrow: with the interval that has to lie inside the margin.
        wide: with the interval that has to exclude 1.
        margin: relative difference that is still "same".
    """
    if narrow is None or wide is None or narrow.low is None or narrow.high is None:
        return Verdict.NOT_MEASURED
    if 1 / (1 + margin) < narrow.low and narrow.high < 1 + margin:
        return Verdict.SAME
    if wide.low is not None and wide.low > 1:
        return Verdict.FASTER
    if wide.high is not None and wide.high < 1:
        return Verdict.SLOWER
    return Verdict.INCONCLUSIVE
