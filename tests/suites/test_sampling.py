"""The clock: calls are counted, samples are long enough, results are released."""

import gc
from typing import Any

import numpy as np
import pytest

from fuser.suites import sampling
from fuser.suites.sampling import (
    call_overhead,
    calls_per_sample,
    clock_resolution_s,
    collector_off,
    timed_calls,
)


@pytest.mark.parametrize("calls", [1, 2, 17])
def test_a_sample_makes_exactly_its_calls_and_gives_the_last_result(calls: int) -> None:
    """The last call is among the timed ones."""
    counted = iter(range(1000))
    seconds, result = timed_calls(lambda _: next(counted), (0,), calls)
    assert result == calls - 1
    assert seconds > 0


def test_a_sample_is_long_enough() -> None:
    """A fast function is called often, a slow one once."""
    calls, call_s = calls_per_sample(len, ((),), 0.001)
    assert calls >= 100
    assert calls * call_s >= 0.0009
    assert calls_per_sample(np.sum, (np.ones(1_000_000),), 1e-5)[0] == 1


def test_one_call_that_was_kept_waiting_is_no_sample(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a busy machine the first may take as long as a sample; it is timed again."""
    waits = iter([0.002])

    def now_and_then(*call: Any) -> tuple[float, None]:
        """Calls of 1 us, of which the very first waits for others."""
        return next(waits, 0.0) + 1e-6 * call[2], None

    monkeypatch.setattr(sampling, "timed_calls", now_and_then)
    calls, call_s = calls_per_sample(len, ((),), 0.001)
    assert 1000 <= calls <= 1200
    assert call_s == pytest.approx(1e-6)


def test_the_collector_is_off_only_inside() -> None:
    """And on again after an error."""
    with collector_off():
        assert not gc.isenabled()
    assert gc.isenabled()

    def failing() -> None:
        with collector_off():
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        failing()
    assert gc.isenabled()


def test_the_loops_own_cost_is_measured() -> None:
    """An empty Python call has a cost, and so has the clock's step."""
    found = call_overhead(0.0005)
    assert min(found["empty_python_call_s"]) > 0
    assert found["clock_resolution_s"] > 0
    assert clock_resolution_s() > 0
