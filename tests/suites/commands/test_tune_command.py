"""The command that times every legal schedule of some rows."""

from __future__ import annotations

import json
from typing import Any

import pytest
from click.testing import CliRunner

from fuser.backends.cpu import tuning
from fuser.scheduling import clustering
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


@pytest.mark.parametrize(("module", "constant", "first", "second"), [
    (tuning, "ROW_UNROLL", "((6, 2), (24, 1))", "((6, 4), (24, 2))"),
    (clustering, "scheduling.clustering.WINDOW", "1", "32"),
])  # fmt: skip
def test_values_of_a_constant_take_turns(
    module: Any, constant: str, first: str, second: str
) -> None:
    """Each row's ratio and their mean for each value; the constant has its value afterwards."""
    name = constant.rpartition(".")[2]
    before, values = getattr(module, name), ("--value", first, "--value", second)
    given = ("row_range-float32-4096", "--processes", "1", "--constant", constant, *values)
    done = _ran(*given)
    assert done.exit_code == 0, done.output
    assert f"1 rows, {constant} is {before}" in done.output
    found = json.loads(_ran(*given, "--json").output)
    assert list(found["geometric_means"]) == [values[1], values[3]]
    assert all(0 < ratio < 100 for ratio in found["rows"][0]["ratios"].values())
    assert before == getattr(module, name)


@pytest.mark.parametrize(
    ("constant", "values"), [
        ("NOTHING", ("1",)), ("PARTS", ()), ("PARTS", ("1 +",)), ("", ("1",)),
        ("scheduling.clustering.NOTHING", ("1",)), ("nowhere.WINDOW", ("1",)),
    ],
)
def test_what_is_no_constant_or_value_is_refused(constant: str, values: tuple[str, ...]) -> None:
    """Names of the table, and numbers or tuples."""
    given = [word for value in values for word in ("--value", value)]
    done = _ran("row_range-float32-4096", "--constant", constant, *given)
    assert done.exit_code == 2
    assert "--constant" in done.output or "--value" in done.output
