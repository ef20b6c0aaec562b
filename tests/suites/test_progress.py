"""What a person sees: a line now and then, a bar on a terminal, a time that is left."""

import io

import pytest

from fuser.suites.engine import Engine
from fuser.suites.plan import Plan, variants_for
from fuser.suites.progress import (
    BarProgress,
    LineProgress,
    Progress,
    clock_text,
    for_terminal,
    left_s,
)


def test_lines_say_how_much_is_done_and_what_runs() -> None:
    """Each with the share done, the time left and the row at work."""
    stream = io.StringIO()
    progress = LineProgress(stream, every_s=0.0)
    progress.start(100.0)
    progress.update(0.5, "process 1 of 2: timing axpy")
    progress.stop()
    assert " 50%" in stream.getvalue()
    assert "left  process 1 of 2: timing axpy" in stream.getvalue()


def test_lines_are_rare() -> None:
    """Not one for every event."""
    stream = io.StringIO()
    progress = LineProgress(stream, every_s=100.0)
    progress.start(1.0)
    for step in range(50):
        progress.update(step / 50, "timing")
    assert stream.getvalue() == ""


def test_the_bar_draws_without_a_thread() -> None:
    """A refresh thread would disturb the timing."""
    progress = BarProgress()
    assert not progress.bar.live.auto_refresh
    progress.start(1.0)
    progress.update(0.5, "timing")
    progress.stop()


def test_no_bar_without_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    """In a log, lines; when quiet, nothing."""
    monkeypatch.setattr("sys.stderr", io.StringIO())
    assert isinstance(for_terminal(), LineProgress)
    assert type(for_terminal(quiet=True)) is Progress


def test_the_time_left_moves_from_estimate_to_pace() -> None:
    """At the start the estimate counts, at the end what was seen."""
    assert left_s(0.0, 0.0, 100.0) == 100.0
    assert left_s(50.0, 0.5, 100.0) == pytest.approx(50.0)
    assert left_s(200.0, 0.99, 100.0) == pytest.approx(2.0, abs=0.1)


@pytest.mark.parametrize(
    ("seconds", "text"), [(5, "5 s"), (65, "1 min 05 s"), (-1, "0 s"), (7_384, "2 h 03 min")]
)
def test_times_are_readable(seconds: float, text: str) -> None:
    """Hours, minutes and seconds."""
    assert clock_text(seconds) == text


class Shown(Progress):
    """Keeps what it is told."""

    def __init__(self) -> None:
        self.fractions: list[float] = []

    def update(self, fraction: float, text: str) -> None:
        """Keep it."""
        self.fractions.append(fraction)


def test_progress_never_goes_back() -> None:
    """Processes that take turns are not equally far, and one may be started again."""
    shown = Shown()
    engine = Engine(Plan([], variants_for(["eager"])), shown)
    for process, fraction in ((0, 0.6), (1, 0.2), (0, 0.5), (1, 0.9)):
        engine.shown_s = 0.0
        engine._take(process, {"event": "progress", "text": "timing", "fraction": fraction})
    assert shown.fractions == sorted(shown.fractions)
    assert len(shown.fractions) == 4
