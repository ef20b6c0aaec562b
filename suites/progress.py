"""What a person sees while a run goes on: a bar on a terminal, a line now and then elsewhere."""

import sys
import time
from typing import TextIO

LINE_EVERY_S = 15.0


def clock_text(seconds: float) -> str:
    """Return `2 h 03 min`, `3 min 05 s` or `12 s`."""
    whole = max(0, round(seconds))
    if whole >= 3600:
        return f"{whole // 3600:,} h {whole % 3600 // 60:02d} min"
    return f"{whole // 60} min {whole % 60:02d} s" if whole >= 60 else f"{whole} s"


class Progress:
    """Says nothing; the base of those that do."""

    def start(self, estimate_s: float) -> None:
        """Begin; the whole is expected to take about so long."""

    def update(self, fraction: float, text: str) -> None:
        """Say how much of the whole is done, from 0 to 1, and what is at work."""

    def stop(self) -> None:
        """End, finished or not."""


class LineProgress(Progress):
    """Plain lines, at most one every 15 seconds: for logs."""

    def __init__(self, stream: TextIO | None = None, every_s: float = LINE_EVERY_S) -> None:
        self.stream = stream or sys.stderr
        self.every_s = every_s
        self.started_s = self.said_s = time.monotonic()
        self.estimate_s = 0.0

    def start(self, estimate_s: float) -> None:
        """Start the clock."""
        self.started_s = self.said_s = time.monotonic()
        self.estimate_s = estimate_s

    def update(self, fraction: float, text: str) -> None:
        """Print a line if the last one is old enough."""
        now_s = time.monotonic()
        if now_s - self.said_s < self.every_s:
            return
        self.said_s = now_s
        left = clock_text(left_s(now_s - self.started_s, fraction, self.estimate_s))
        print(f"{fraction:4.0%}  {left} left  {text}", file=self.stream, flush=True)


class BarProgress(Progress):
    """A bar, redrawn when something is reported: no thread of its own to disturb the timing."""

    def __init__(self) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, TaskProgressColumn, TextColumn
        from rich.progress import Progress as RichProgress

        self.bar = RichProgress(
            TextColumn("{task.fields[what]:<52.52}"), BarColumn(bar_width=20),
            TaskProgressColumn(), TextColumn("{task.fields[left]} left"),
            console=Console(stderr=True), auto_refresh=False, transient=True,
        )
        self.task = self.bar.add_task("", total=1.0, what="starting", left="")
        self.started_s = time.monotonic()
        self.estimate_s = 0.0

    def start(self, estimate_s: float) -> None:
        """Show the bar."""
        self.started_s, self.estimate_s = time.monotonic(), estimate_s
        self.bar.start()

    def update(self, fraction: float, text: str) -> None:
        """Redraw the bar."""
        elapsed_s = time.monotonic() - self.started_s
        left = clock_text(left_s(elapsed_s, fraction, self.estimate_s))
        self.bar.update(self.task, completed=fraction, what=text, left=left)
        self.bar.refresh()

    def stop(self) -> None:
        """Take the bar away."""
        self.bar.stop()


def left_s(elapsed_s: float, fraction: float, estimate_s: float) -> float:
    """Return the seconds left: by the estimate at first, by what was seen later."""
    by_estimate = max(0.0, estimate_s - elapsed_s)
    if fraction <= 0.02:
        return by_estimate
    by_pace = elapsed_s / fraction - elapsed_s
    return (1 - fraction) * by_estimate + fraction * by_pace


def for_terminal(quiet: bool = False) -> Progress:
    """Return what suits the standard error stream."""
    if quiet:
        return Progress()
    if sys.stderr.isatty():
        try:
            return BarProgress()
        except ImportError:  # rich belongs to the extra `bench`; lines do without
            return LineProgress()
    return LineProgress()
