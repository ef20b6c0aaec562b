"""Which forms loop nests were given: what one of the modules of forms answered."""

from types import ModuleType
from typing import Any

import pytest

import fuser


def extents_of(module: ModuleType, monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """A list that grows by each answer of the module's `extent_of`; None: not this form."""
    fuser.clear_caches()  # what is known is not asked for again
    real, found = module.extent_of, []

    def spy(*given: Any) -> Any:
        found.append(real(*given))
        return found[-1]

    monkeypatch.setattr(module, "extent_of", spy)
    return found
