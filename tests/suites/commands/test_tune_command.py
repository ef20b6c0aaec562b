"""The command that times every legal schedule of some rows."""

from __future__ import annotations

import json
from typing import Any

import pytest
from click.testing import CliRunner

from fuser.suites.commands import cli, tune_command


@pytest.fixture(autouse=True)
def _here(monkeypatch: pytest.MonkeyPatch) -> None:
    """Processes are not started: what they would do is done here."""
    monkeypatch.setattr(tune_command, "_fresh", lambda function, *given: function(*given))


def _ran(*arguments: str) -> Any:
    return CliRunner().invoke(cli.main, ["tune", *arguments, "--seconds", "0.01"])


def test_rows_have_their_regret() -> None:
    """As a table with its summary, and as JSON."""
    done = _ran("row_range-float32-4096", "--processes", "2")
    assert done.exit_code == 0, done.output
    assert "row_range-float32-4096" in done.output
    assert "1 loop nests: regret " in done.output
    found = json.loads(_ran("row_range-float32-4096", "--processes", "1", "--json").output)
    assert found["nests"] == 1
    row = found["rows"][0]
    assert row["regret"] >= 1
    assert row["schedules"] >= len(row["regret_of_processes"])


def test_what_is_refused_says_why() -> None:
    """A row without kernels is listed, and no mean is made of nothing."""
    done = _ran("--preset", "quick", "nothing_like_it")
    assert done.exit_code == 2
    assert "no workload" in done.output
    rows = [{"row": "a-float32-1", "refused": "no kernel, and why"}]
    assert tune_command._summary(rows) == {"nests": 0}
    tune_command._print(rows)


def test_the_summary_is_of_all_loop_nests() -> None:
    """A geometric mean, and the value that 95 of 100 are not above."""
    found = tune_command._summary([{"regret": 1.0 + k / 100} for k in range(100)])
    assert found["nests"] == 100
    assert found["regret_95th_percentile"] == pytest.approx(1.94)
    assert 1.45 < found["regret_geometric_mean"] < 1.5
