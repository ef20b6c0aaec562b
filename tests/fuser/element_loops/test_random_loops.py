"""Random loops over elements give what they give without us, exceptions and writes included."""

from __future__ import annotations

import pytest

from tests.fuser.element_loops.random_loops import judge, program


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("seed", range(24))
def test_random_loops(seed: int) -> None:
    """Three calls each."""
    told = judge(seed)
    assert not told, f"{told}\n{program(seed)}"
