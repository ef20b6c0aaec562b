"""tools/scheduler_limits.py: each limit of the scheduler with several values."""

import pytest

from fuser.scheduling import clustering
from tests.tree import tool


def test_every_limit_exists_and_is_put_back() -> None:
    """Two values of one limit are measured on small arrays; all names are real."""
    limits = tool("scheduler_limits")
    for limit in limits.LIMITS:
        assert all(getattr(module, limit.name) > 0 for module in limit.modules)
        assert getattr(limit.modules[0], limit.name) in limit.values
    before = clustering.MAX_OPERANDS
    (limit,) = [entry for entry in limits.LIMITS if entry.name == "MAX_OPERANDS"]
    rows = limits.measure(limit, 1, side=16)
    assert before == clustering.MAX_OPERANDS
    assert [row[0] for row in rows] == list(limit.values)
    assert rows[0][2] > rows[-1][2]  # loop nests
    assert all(row[-1] > 0 for row in rows)


def test_a_table_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    """With the value in force marked; no limit has that name, so none is measured."""
    assert tool("scheduler_limits").main(["NO_SUCH_LIMIT"]) == 0
    assert capsys.readouterr().out == ""
