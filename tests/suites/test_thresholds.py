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
    with pytest.raises(ThresholdError, match=r"(the metrics are|known:) kernels, speedup"):
        Threshold.parse(text, METRICS)


def test_a_row_is_judged_by_the_conditions_that_name_it() -> None:
    """A metric that was not measured is no pass."""
    threshold = Threshold.parse("*-fused:kernels>2", METRICS)
    assert threshold.names(["axpy-float32-64-fused"])
    assert not threshold.names(["a-eager"])
    assert not threshold.holds({"kernels": 2})
    assert threshold.holds({"kernels": 3})
    assert threshold.holds({})
    assert threshold.finding("a-fused", {"kernels": 3}) == "a-fused: kernels is 3: kernels > 2"
    assert "was not measured" in threshold.finding("a-fused", {})
    assert threshold.undecided({})
    assert not threshold.undecided({"kernels": 3})


def test_a_family_is_named_too() -> None:
    """A group of rows has one threshold."""
    threshold = Threshold.parse("reductions:speedup<0.9", METRICS)
    assert threshold.names(["row_mean-float32-64-fused", "row_mean-float32-64", "reductions"])
    assert not threshold.names(["axpy-float32-64-fused", "axpy-float32-64", "elementwise"])


def test_an_interval_around_the_limit_decides_nothing() -> None:
    """Nor does a ratio of one process, which has none."""
    threshold = Threshold.parse("speedup<1.5", METRICS)

    def ratio(low: float | None, high: float | None) -> dict[str, float | None]:
        return {"speedup": 1.4, "speedup_low": low, "speedup_high": high}

    assert threshold.undecided(ratio(1.3, 1.6))
    assert "its interval is 1.3 to 1.6" in threshold.finding("a", ratio(1.3, 1.6))
    assert threshold.undecided(ratio(None, None))
    assert "no interval" in threshold.finding("a", ratio(None, None))
    assert not threshold.undecided(ratio(1.3, 1.45))
