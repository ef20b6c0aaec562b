"""Errors that tracing has raised: such a call raises the same again without being traced."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any

from fuser import captures

#: Combinations of lengths and numbers whose error is remembered, for one signature.
LIMIT = 64


class KnownErrors:
    """Errors by what tracing sees of arguments: beside dtypes and ranks, lengths and numbers."""

    def __init__(self) -> None:
        """Know none."""
        self._known: dict[Any, tuple[Exception, list[captures.NameGuard]]] = {}

    def keep(
        self, leaves: Sequence[Any], error: Exception, names: list[captures.NameGuard]
    ) -> None:
        """Remember what arguments like these lead to, as long as names mean what they mean now."""
        if len(self._known) >= LIMIT:
            self._known.clear()
        self._known[_values(leaves)] = (copy.copy(error), names)

    def raise_known(self, leaves: Sequence[Any]) -> None:
        """Raise what arguments like these have led to; nothing happens where that is unknown."""
        found = self._known.get(_values(leaves)) if self._known else None
        if found is not None and all(guard.holds() for guard in found[1]):
            raise copy.copy(found[0])


def _values(leaves: Sequence[Any]) -> tuple[Any, ...]:
    """Lengths of arrays, and Python numbers to the last bit."""
    return tuple(
        repr(leaf) if type(leaf) in (float, int, bool) else getattr(leaf, "shape", None)
        for leaf in leaves
    )
