"""Whether two traces of a function agree: else it depends on more than its arguments."""

from __future__ import annotations

from typing import Any

from fuser.errors import Unsupported
from fuser.trace_result import Trace


def compare(first: Trace, second: Trace, name: str) -> dict[str, Any]:
    """Check that two traces agree; find captured arrays that are made anew by each run.

    Raises:
        Unsupported: they differ: the function is impure.
    """
    same = first.graph.text == second.graph.text and first.structure == second.structure
    same = same and first.value_guards == second.value_guards and first.writes == second.writes
    if not same or len(first.leaves) != len(second.leaves):
        raise Unsupported("impure", name, "another graph in the second trace", "")
    fresh: dict[str, Any] = {}
    hidden = [p.name for p in first.graph.parameters if p.captured]
    for label, one, other in zip(
        hidden, first.graph.captured, second.graph.captured, strict=True
    ):
        if one is other or _same_memory(one, other):
            continue
        if one.tobytes() != other.tobytes():
            raise Unsupported("impure", name, "an array with other values in the second trace", "")
        fresh[label] = one.copy()
    return fresh


def _same_memory(one: Any, other: Any) -> bool:
    """Whether two views made one after another look at the same living memory."""
    if one.base is None or other.base is None or not one.size:
        return False
    return bool(
        one.__array_interface__["data"] == other.__array_interface__["data"]
        and one.strides == other.strides
    )
