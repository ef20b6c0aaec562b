"""Before timing: what is dropped, what is counted, and what is said of a first call."""

import pytest

from fuser.suites.cell_state import Limits
from fuser.suites.measuring import Measurement
from fuser.suites.plan import CellPlan
from fuser.suites.preparing import Event, message, weight_of, with_rest
from fuser.suites.runners import Runner
from tests.suites import cheats

SHORT = Limits(
    time_s=0.1, least_sample_s=1e-4, least_blocks=2, most_blocks=2, memory_bytes=1 << 20, seed=1
)


def events_of(runner: Runner, limits: Limits = SHORT) -> list[Event]:
    """Measure DOUBLE with one runner."""
    events: list[Event] = []
    plan = CellPlan("double", "float32", 1000, "S")
    Measurement([(0, plan, cheats.DOUBLE, [0])], {0: runner}, limits, events.append).run()
    return events


def test_stages_add_up_to_the_whole() -> None:
    """What they leave is stage `rest`; no stages, no rest."""
    assert with_rest({"trace": 1.0}, 3.0) == {"trace": 1.0, "rest": 2.0}
    assert with_rest({"trace": 4.0}, 3.0)["rest"] == 0.0
    assert with_rest({}, 3.0) == {}


def test_large_cells_get_more_of_the_time() -> None:
    """Up to about ten times as much."""
    small, large = (weight_of(CellPlan("x", "float32", n, "S")) for n in (1, 1 << 22))
    assert small == pytest.approx(1.0, abs=1e-4)
    assert large == 11.0


def test_an_error_is_one_line() -> None:
    """Its kind and its text."""
    assert message(ValueError("no")) == "ValueError: no"


def test_what_was_compiled_before_has_no_first_call() -> None:
    """The event says None, so that the record keeps no time that compiled nothing."""
    runner = cheats.Honest()
    runner.reused = True
    first = next(each for each in events_of(runner) if each["event"] == "first")
    assert (first["first_call_s"], first["stages_s"]) == (None, {})


def test_a_row_whose_calls_are_too_long_is_not_run() -> None:
    """It says how long one takes."""
    limits = Limits(0.1, 1e-4, 2, 2, 1 << 20, 1, longest_call_s=0.0)
    events = events_of(cheats.Honest(), limits)
    dropped = next(each for each in events if each["event"] == "dropped")
    assert dropped["status"] == "not_run"
    assert "longer than 0 s" in dropped["reason"]
    assert not [each for each in events if each["event"] == "sample"]
