"""Random loops over elements give what they give without us, exceptions and writes included."""

from __future__ import annotations

import pytest

from tests.fuser.element_loops import random_columns, random_indices, random_loops

KINDS = {
    "loops": random_loops.KIND, "indices": random_indices.KIND, "columns": random_columns.KIND,
}  # fmt: skip


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", KINDS)
@pytest.mark.parametrize("seed", range(16))
def test_random_programs(seed: int, name: str) -> None:
    """Several calls each; what is outside raises, and nothing beside an array is written."""
    told = KINDS[name].judge(seed)
    assert not told, f"{told}\n{KINDS[name].program(seed)}"
