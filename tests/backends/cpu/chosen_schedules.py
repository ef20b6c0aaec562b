"""Which schedules loop nests were given: what one of the chooser's questions was answered."""

from collections.abc import Iterator
from types import ModuleType
from typing import Any

import pytest

import fuser
from fuser.backends.cpu.schedule import Schedule
from fuser.backends.cpu.scheduling import choose_reduction, row_costs


def answers_of(module: ModuleType, name: str, monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """A list that grows by each answer to a question of the chooser; None: not so."""
    fuser.clear_caches()  # what is known is not asked for again
    real, found = getattr(module, name), []

    def spy(*given: Any) -> Any:
        found.append(real(*given))
        return found[-1]

    monkeypatch.setattr(module, name, spy)
    return found


def preferred(way: str, monkeypatch: pytest.MonkeyPatch) -> list[Schedule | None]:
    """Rows are run in one way wherever that is legal; a list that grows by each such schedule.

    Args:
        way: as `tuning.ROW_COSTS` has it.
        monkeypatch: of the test.
    """
    fuser.clear_caches()
    cost, ways = row_costs.cost_of, choose_reduction._ways
    found: list[Schedule | None] = []

    def spy(*given: Any) -> Iterator[tuple[str, Schedule]]:
        known = dict(ways(*given))
        found.append(known.get(way))
        return iter(known.items())

    monkeypatch.setattr(choose_reduction, "_ways", spy)
    monkeypatch.setattr(
        row_costs, "cost_of", lambda of, *given: -1 if of == way else cost(of, *given)
    )
    return found
