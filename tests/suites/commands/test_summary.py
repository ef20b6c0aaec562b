"""What a run ends with: findings of many cells with one reason are one line."""

import pytest

from fuser.suites.commands.summary import MANY, finding_lines
from tests.reports.tables import cell, record


@pytest.mark.parametrize("count", [1, MANY + 1])
def test_what_many_cells_have_in_common_is_said_once(count: int) -> None:
    """Few are named each."""
    cells = [cell(f"cell{k}", fused="out of memory") for k in range(count)]
    lines = list(finding_lines(record("rows", *cells)))
    assert len(lines) == 1
    assert lines[0].startswith("failed: cell0, fused" if count == 1 else f"failed: {count} cells")
