"""Calls that Python sends to the plain function, as native entries do once they are loaded.

To load these pays where there are many such calls. Until then a look at each would take longer than
NumPy's operations do: of a program with many functions between kernels a hundred times as long.
"""

from __future__ import annotations

from typing import Any

from fuser.backend import FEWEST_PLAIN, PlainCall
from fuser.base import config, counters
from fuser.calls.importlib_bootstrap_frame import Plainly


class PlainCalls(config.Standing):
    """Some calls that end in the plain function, until one is looked at again."""

    def __init__(self, call: PlainCall, seen: dict[Any, int], key: Any) -> None:
        """Serve calls like one that was looked at.

        Args:
            call: it.
            seen: how many were, or would have been looked at, by what they have in common.
            key: what this one has in common with them.
        """
        super().__init__(())
        self._call, self._seen, self._key = call, seen, key
        self._left = FEWEST_PLAIN

    def holds(self) -> bool:
        """Whether to serve one more."""
        return self._left > 0 and super().holds()

    def served(self) -> Plainly:
        """One more, counted."""
        self._left -= 1
        self._seen[self._key] = self._seen.get(self._key, 0) + 1
        counters.add_soon(self._call.counts)
        self._call.told(1)
        return Plainly(self._call.function)
