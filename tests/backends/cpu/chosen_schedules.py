"""Which schedules loop nests were given: what one of the chooser's questions was answered."""

from types import ModuleType
from typing import Any

import pytest

import fuser


def answers_of(module: ModuleType, name: str, monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """A list that grows by each answer to a question of the chooser; None: not so."""
    fuser.clear_caches()  # what is known is not asked for again
    real, found = getattr(module, name), []

    def spy(*given: Any) -> Any:
        found.append(real(*given))
        return found[-1]

    monkeypatch.setattr(module, name, spy)
    return found
