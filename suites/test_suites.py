"""The suite as tests: one for each cell and variant. The engine measures; a test shows its row."""

from collections.abc import Callable

from fuser.reports.record import Run


def test_row(row: Callable[[], Run]) -> None:
    """The row was measured, its results are right, and it is shown with pytest-benchmark."""
    row()
