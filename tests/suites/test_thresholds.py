"""Conditions under which a row fails."""

import pytest

from fuser.suites.thresholds import Threshold, ThresholdError

METRICS = ("speedup", "kernels")


def test_a_condition_names_rows_metric_and_limit() -> None:
    """Without rows it is for all of them."""
    first = Threshold.parse("axpy-*:speedup<1.5", METRICS)
    assert first == Threshold("axpy-*", "speedup", "<", 1.5)
    assert Threshold.parse("kernels>=2", METRICS) == Threshold("*", "kernels", ">=", 2.0)


@pytest.mark.parametrize("text", ["", "speedup", "nosuch<1", "speedup<x", "a:speedup=1", "<1"])
def test_another_form_says_what_is_expected(text: str) -> None:
    """With the metrics there are."""
    with pytest.raises(ThresholdError, match="the metrics are kernels, speedup"):
        Threshold.parse(text, METRICS)


def test_a_row_is_judged_by_the_conditions_that_name_it() -> None:
    """A metric that was not measured is no pass."""
    threshold = Threshold.parse("*-fused:speedup<1.5", METRICS)
    assert threshold.crossed("axpy-float32-64-fused", {"speedup": 1.6}) is None
    assert "1.4: speedup < 1.5" in (threshold.crossed("a-fused", {"speedup": 1.4}) or "")
    assert "was not measured" in (threshold.crossed("a-fused", {}) or "")
    assert threshold.crossed("a-eager", {}) is None
