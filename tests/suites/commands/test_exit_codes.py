"""pytest's codes as ours."""

import pytest

from fuser.suites.commands.exit_codes import ExitCode, from_pytest, gravest


@pytest.mark.parametrize(
    ("raw", "found", "measured", "by_hand", "code"),
    [
        (0, (), 3, False, ExitCode.OK),
        (0, (), 0, False, ExitCode.NOTHING),  # every row was skipped
        (1, (ExitCode.REGRESSION, ExitCode.INCONCLUSIVE), 3, False, ExitCode.REGRESSION),
        (1, (ExitCode.INCONCLUSIVE,), 3, False, ExitCode.INCONCLUSIVE),
        (1, (), 3, False, ExitCode.REGRESSION),  # pytest-benchmark's own gate
        (1, (ExitCode.WRONG, ExitCode.NOTHING), 3, False, ExitCode.WRONG),
        (1, (ExitCode.NOTHING, ExitCode.REGRESSION), 3, False, ExitCode.NOTHING),
        (2, (), 0, False, ExitCode.USAGE),  # errors while collecting
        (2, (), 3, True, ExitCode.INTERRUPTED),
        (3, (), 3, False, ExitCode.NOTHING),
        (4, (), 0, False, ExitCode.USAGE),
        (5, (), 0, False, ExitCode.NOTHING),
    ],
)
def test_a_session_means(
    raw: int, found: tuple[ExitCode, ...], measured: int, by_hand: bool, code: ExitCode
) -> None:
    """Each code of pytest, with what the plugin saw."""
    assert from_pytest(raw, found, measured, by_hand) == code


def test_the_gravest_finding_decides() -> None:
    """As in a comparison."""
    assert gravest([]) == ExitCode.OK
    assert gravest([ExitCode.REGRESSION, ExitCode.WRONG]) == ExitCode.WRONG
