"""One process's share, in this process: batches, events, deadlines."""

from collections import Counter
from itertools import pairwise

import pytest

from fuser.suites import preparing, sampling
from fuser.suites.measuring import Event, Limits, Measurement
from fuser.suites.plan import CellPlan
from fuser.suites.registry import resolve
from fuser.suites.runners import EagerRunner, Runner
from tests.suites import cheats


def measured(cells: int, limits: Limits, runner: Runner | None = None) -> list[Event]:
    """Measure DOUBLE at several sizes and return the events."""
    events: list[Event] = []
    plans = [CellPlan("double", "float32", 1000 + index, "sweep") for index in range(cells)]
    rows = [(index, plan, cheats.DOUBLE, [0]) for index, plan in enumerate(plans)]
    Measurement(rows, {0: runner or EagerRunner()}, limits, events.append).run()
    return events


SHORT = Limits(
    time_s=0.3, least_sample_s=1e-4, least_blocks=2, most_blocks=5, memory_bytes=1 << 20, seed=1
)


def test_every_row_is_prepared_timed_and_checked() -> None:
    """Three checks a row, at most the wanted blocks, and progress that does not go back."""
    events = measured(3, SHORT)
    kinds = Counter(event["event"] for event in events)
    assert kinds["first"] == 3
    assert kinds["check"] == 9
    assert 3 * 2 <= kinds["sample"] <= 3 * 5
    fractions = [event["fraction"] for event in events if event["event"] == "progress"]
    assert fractions == sorted(fractions)
    assert 0 <= fractions[0] <= fractions[-1] <= 1


def test_cells_that_do_not_fit_the_memory_are_measured_in_batches() -> None:
    """With no room at all each cell is a batch: prepared, timed and verified before the next."""
    small = Limits(
        time_s=0.3, least_sample_s=1e-4, least_blocks=2, most_blocks=2, memory_bytes=1, seed=1
    )
    events = measured(3, small)
    order = [event["cell"] for event in events if "cell" in event]
    assert sum(a != b for a, b in pairwise(order)) == 2
    shares = [event["fraction"] for event in events if event["event"] == "progress"]
    assert shares == sorted(shares)
    timed = [share for share in shares if share <= 0.34]
    assert len(timed) >= len(shares) / 4  # the first of three says that a third is done, no more


def test_out_of_time_every_cell_still_gets_the_least_blocks() -> None:
    """A budget of nothing leaves no row without samples."""
    hurried = Limits(
        time_s=0.0, least_sample_s=1e-4, least_blocks=2, most_blocks=50, memory_bytes=1 << 20,
        seed=1,
    )
    samples = Counter(event["cell"] for event in measured(3, hurried) if event["event"] == "sample")
    assert samples == {0: 2, 1: 2, 2: 2}


def test_a_cell_that_does_not_fit_the_memory_is_not_run(monkeypatch: pytest.MonkeyPatch) -> None:
    """It says what it needs and what there is, and the others are measured."""
    monkeypatch.setattr(preparing, "available_memory_bytes", lambda: 8 * 4 * 1001)
    events = measured(3, SHORT)
    dropped = [event for event in events if event["event"] == "dropped"]
    assert [event["cell"] for event in dropped] == [2]
    assert "needs about 0.0 GB" in dropped[0]["reason"]
    assert {event["cell"] for event in events if event["event"] == "sample"} == {0, 1}


def test_a_seed_repeats_the_order() -> None:
    """The same seed prepares cells in the same order, another in another."""
    first, again = (
        [event["cell"] for event in measured(6, SHORT) if event["event"] == "first"]
        for _ in range(2)
    )
    assert first == again


class RaisingLater(cheats.Honest):
    """Works twice, then raises."""

    def prepare(self, function: object, arguments: object) -> object:  # type: ignore[override]
        """Return a function with two good calls."""
        results = iter([cheats.double(*arguments)] * 2)  # type: ignore[misc]
        return lambda *given: next(results)


class CountingNone(cheats.Honest):
    """NumPy under a fuser's name that has a count of fallbacks, and never moves it."""

    def fallbacks(self) -> int:
        """Return nothing, whatever was called."""
        return 0


class CountingEach(CountingNone):
    """The same, with every call counted."""

    count = 0

    def fallbacks(self) -> int:
        """Return a number that has grown since it was asked for last."""
        self.count += 1
        return self.count


@pytest.mark.parametrize(
    ("runner", "said"),
    [(cheats.Honest, True), (CountingNone, True), (CountingEach, False), (EagerRunner, False)],
)
def test_numpy_under_the_name_of_a_fuser_is_said(runner: type[Runner], said: bool) -> None:
    """Of the row, and once of the run; not of one that counts its fallbacks."""
    events = measured(1, SHORT, runner())
    rows = [each for each in events if each["event"] == "own_function"]
    notes = [each["text"] for each in events if each["event"] == "note"]
    assert [(each["cell"], each["variant"]) for each in rows] == [(0, 0)] * said
    assert [each.endswith("left out of the means") for each in notes] == [True] * said


def test_an_error_while_timed_is_a_failed_row() -> None:
    """Its text is kept, and nothing else of the run is lost."""
    events = measured(1, SHORT, RaisingLater())
    dropped = [event for event in events if event["event"] == "dropped"]
    assert dropped[0]["status"] == "failed"
    assert "StopIteration" in dropped[0]["reason"]


def test_the_warm_up_call_is_not_timed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Between two readings of the clock there are exactly the calls that the sample counts."""
    calls: list[str] = []
    clock = sampling.time.perf_counter

    def reading() -> float:
        calls.append("clock")
        return clock()

    monkeypatch.setattr(sampling, "now_s", reading)
    sampling.timed_calls(lambda: calls.append("call"), (), 3)
    assert calls == ["clock", "call", "call", "call", "clock"]


def test_numbers_among_the_arguments_stay_what_they_are() -> None:
    """Where each set of inputs has numbers of its own, the checked block keeps those it passes."""
    workload = resolve("multiply_add_scalars")
    events: list[Event] = []
    plan = CellPlan("multiply_add_scalars", "float32", 16, "M")
    Measurement([(0, plan, workload, [0])], {0: EagerRunner()}, SHORT, events.append).run()
    checks = [event["problem"] for event in events if event["event"] == "check"]
    assert checks == ["", "", ""]
