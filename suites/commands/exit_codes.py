"""What `fuser-bench` ends with, and pytest's own codes as these."""

from collections.abc import Collection
from enum import IntEnum


class ExitCode(IntEnum):
    """The codes of every subcommand; `compare --gate` has those from `reports.comparison`."""

    OK = 0
    REGRESSION = 1
    USAGE = 2
    NOTHING = 3  # nothing was measured, or a required row is missing
    WRONG = 4
    INCONCLUSIVE = 5
    INTERRUPTED = 130


GRAVEST_FIRST = (
    ExitCode.WRONG, ExitCode.NOTHING, ExitCode.REGRESSION, ExitCode.INCONCLUSIVE,
)
PYTEST_FAILED = 1
PYTEST_INTERRUPTED = 2
PYTEST_INTERNAL = 3
PYTEST_USAGE = 4
PYTEST_EMPTY = 5


def gravest(found: Collection[ExitCode]) -> ExitCode:
    """Return the gravest of several findings; OK where there are none."""
    return next((each for each in GRAVEST_FIRST if each in found), ExitCode.OK)


def from_pytest(
    raw: int, found: Collection[ExitCode], measured: int, by_hand: bool
) -> ExitCode:
    """Return what a session of pytest means.

    Args:
        raw: pytest's own code.
        found: why each failed test failed: REGRESSION for one that says nothing of ours.
        measured: how many rows have a speed.
        by_hand: it was interrupted by Ctrl-C, and not by errors while collecting.
    """
    if ExitCode.WRONG in found:
        return ExitCode.WRONG
    if by_hand:
        return ExitCode.INTERRUPTED
    if raw in (PYTEST_USAGE, PYTEST_INTERRUPTED):
        return ExitCode.USAGE
    if raw in (PYTEST_INTERNAL, PYTEST_EMPTY):
        return ExitCode.NOTHING
    if raw == PYTEST_FAILED:
        return gravest(found) or ExitCode.REGRESSION
    return ExitCode.OK if measured else ExitCode.NOTHING
