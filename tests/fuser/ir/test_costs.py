"""What operations cost, in light operations."""

import pytest

from fuser.ir import costs
from fuser.ir.ops import TABLE, op


@pytest.mark.parametrize(
    ("name", "floating", "expected"),
    [
        ("add", True, costs.LIGHT), ("cast", True, costs.LIGHT), ("sum", True, costs.LIGHT),
        ("divide", True, costs.ROOT), ("sqrt", True, costs.ROOT), ("exp", True, costs.HEAVY),
        ("remainder", True, costs.ROOT), ("remainder", False, costs.DIVISION),
        ("power", False, costs.HEAVY), ("reshape", True, 0), ("input", True, 0),
    ],
)  # fmt: skip
def test_time_of_rows(name: str, floating: bool, expected: int) -> None:
    """Light, root, heavy, division of integers; what moves data takes nothing."""
    assert costs.time_of(op(name), floating) == expected


def test_planning_counts_heavy_operations() -> None:
    """Others are one light operation each; bits count as the rows they stand for."""
    for row in TABLE.values():
        wanted = 0 if row.structure else costs.PLANNED if row.heavy else costs.LIGHT
        assert costs.planned(row) == wanted
    assert costs.planned_sum(0b1011, 0b0010) == 2 * costs.LIGHT + costs.PLANNED


def test_costly_rows_are_those_of_many_light_operations() -> None:
    """Roots, quotients and heavy functions."""
    for row in TABLE.values():
        assert costs.is_costly(row) == (costs.time_of(row) > costs.LIGHT)
