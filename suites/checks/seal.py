"""What a runner must leave as it is: NumPy, the clock and the harness, which all rows share.

One that makes NumPy slower, or the clock, is not quicker for it. A worker looks at everything that
these modules and their classes name; what was put elsewhere is named and put back.
"""

import sys
from collections.abc import Iterator
from types import ModuleType
from typing import Any

import numpy as np

SHARED = ("numpy", "time", "gc")
HARNESS = (
    "fuser.suites.cell_state", "fuser.suites.checks.by_rows",
    "fuser.suites.checks.checked_samples", "fuser.suites.checks.edge_values",
    "fuser.suites.checks.inspection", "fuser.suites.checks.memory_checks",
    "fuser.suites.checks.verify", "fuser.suites.measuring", "fuser.suites.preparing",
    "fuser.suites.runners", "fuser.suites.sampling", "fuser.suites.workload",
)  # fmt: skip
MOST_NAMED = 3


class Seal:
    """Remembers what the shared modules hold; says what of it is no longer there."""

    def __init__(self) -> None:
        loaded = [sys.modules[name] for name in (*SHARED, *HARNESS) if name in sys.modules]
        self._kept = [each for module in loaded for each in _named(module)]
        self._flushes = flushes_subnormals()

    def broken(self) -> str | None:
        """Return what was changed since, or None; all but the processor's mode is put back."""
        changed = [
            (owner, name, value) for owner, name, value in self._kept
            if not _same(vars(owner).get(name), value)
        ]
        for owner, name, value in changed:
            setattr(owner, name, value)
        texts = [f"{owner.__name__}.{name}" for owner, name, _ in changed[:MOST_NAMED]]
        if len(changed) > MOST_NAMED:
            texts.append(f"{len(changed) - MOST_NAMED} more")
        if flushes_subnormals() and not self._flushes:
            self._flushes = True
            texts.append("how the processor treats subnormal numbers")
        return f"changed what all rows share: {', '.join(texts)}" if texts else None


def _named(module: ModuleType) -> Iterator[tuple[Any, str, Any]]:
    """Yield the owner, the name and the value of what a module and its own classes name."""
    for name, value in list(vars(module).items()):
        yield module, name, value
        if isinstance(value, type) and value.__module__ == module.__name__ != "numpy":
            for inner, held in list(vars(value).items()):
                if not inner.startswith("__") and not inner.startswith("_abc"):
                    yield value, inner, held


def _same(found: Any, value: Any) -> bool:
    """Whether a name holds what it held; `time.tzset()` makes the same names of zones anew."""
    return found is value or (type(found) is type(value) is tuple and found == value)


def flushes_subnormals() -> bool:
    """Return whether arithmetic in this thread takes numbers near to zero for zero."""
    smallest = np.full(1, np.finfo(np.float64).tiny)
    return not bool((smallest * 0.5)[0])
