"""What explains a row: arrays that cross kernels, memory held during a call, and texts to read."""

import gc
import tracemalloc
from collections.abc import Callable, Mapping
from hashlib import sha256
from typing import Any

from fuser.suites.workload import Arguments

LONGEST_TEXT = 120_000
"""Characters kept of one text: cosine and sine of 22 steps has an assembly of 60,000."""


def boundaries(explanation: Any) -> list[dict[str, Any]]:
    """List the arrays that cross the kernels of a plan, as fields of the record's `Boundary`.

    Args:
        explanation: what `explain` gives of a call. Its planned bytes are the least possible
            ones and these together.
    """
    return [
        {
            **{name: entry[name] for name in ("array", "value", "kind", "reason", "meaning")},
            "moved_bytes": int(entry["bytes"]), "written_by": entry["written_by"],
            "read_by": list(entry["read_by"]),
        }
        for entry in explanation.boundaries
    ]


def peak_bytes(call: Callable[..., Any], arguments: Arguments) -> int:
    """Return the most memory that one call holds at once, beyond what was held before it.

    Source: NumPy reports every array's data to tracemalloc (NumPy reference, "Memory management").
    """
    enabled = gc.isenabled()
    gc.disable()
    tracing = tracemalloc.is_tracing()
    if not tracing:
        tracemalloc.start()
    try:
        tracemalloc.reset_peak()
        before, _ = tracemalloc.get_traced_memory()
        result = call(*arguments)
        _, peak = tracemalloc.get_traced_memory()
        del result
    finally:
        if not tracing:
            tracemalloc.stop()
        if enabled:
            gc.enable()
    return max(0, peak - before)


class Texts:
    """The texts of compiled functions; the same source is compiled to assembly once."""

    def __init__(self) -> None:
        self._assembly: dict[str, str] = {}

    def of(self, prepared: Any, arguments: Arguments, explanation: Any) -> dict[str, str]:
        """Return plan, generated source and assembly of a call, by those names."""
        found = {"plan": str(explanation)}
        source = joined(prepared.source(*arguments))
        if not source:
            return found
        key = sha256(source.encode()).hexdigest()
        if key not in self._assembly:
            self._assembly[key] = joined(prepared.source(*arguments, kind="asm"))
        found |= {"source": source, "assembly": self._assembly[key]}
        return {name: shortened(text) for name, text in found.items()}


def joined(texts: Mapping[str, str]) -> str:
    """Return the texts of all kernels as one."""
    return "\n".join(texts[name].strip("\n") + "\n" for name in sorted(texts))


def shortened(text: str) -> str:
    """Return a text, or its start with a line that says how much is missing."""
    if len(text) <= LONGEST_TEXT:
        return text
    return f"{text[:LONGEST_TEXT]}\n... {len(text) - LONGEST_TEXT:,} more characters\n"
