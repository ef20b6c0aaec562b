"""What crosses the borders between kernels, as plain data that adds up to the planned bytes."""

from typing import Any

import numpy as np
import pytest

import fuser
from fuser.scheduling.verdicts import VERDICTS

X = np.arange(200, dtype=np.float32).reshape(10, 20)
V = np.arange(20, dtype=np.float32)


def centred_both(x: Any) -> Any:
    """Along rows, then along columns: two passes whatever is done."""
    rows = x - x.mean(-1, keepdims=True)
    return rows - rows.mean(0)


#: name -> (function, arguments, arrays that cross a border)
CROSSING: dict[str, tuple[Any, tuple[Any, ...], list[str]]] = {
    "nothing": (lambda x: np.exp(x) - x.max(-1, keepdims=True), (X,), []),
    "two axes": (lambda x: (x.sum(0), x.sum(1)), (X,), ["x0"]),
    "costly row": (lambda x, v: x * np.exp(v), (X, V), []),
    "rows, columns": (centred_both, (X,), ["x0", "t0"]),
    "joined": (lambda v: np.concatenate([v, -v]).reshape(2, -1) * 2, (V,), ["t0"]),
}


@pytest.mark.parametrize("name", CROSSING)
def test_boundaries_and_least_bytes_add_up(name: str) -> None:
    """Each array that crosses, why, and what it costs beyond the least possible."""
    function, args, arrays = CROSSING[name]
    found = fuser.fuse(function, fallback="error").explain(*args)
    assert [entry["array"] for entry in found.boundaries] == arrays
    assert found.ledger is not None
    extra = sum(entry["bytes"] for entry in found.boundaries)
    assert found.ledger.least_bytes + extra == found.ledger.planned_bytes
    for entry in found.boundaries:
        assert entry["bytes"] == entry["bytes_written"] + entry["bytes_read"] > 0
        assert entry["reason"] in VERDICTS
        assert entry["meaning"] == VERDICTS[entry["reason"]]
        assert entry["estimated_cost_s"] > 0
        assert entry["read_by"]
        assert (entry["written_by"] is None) == (entry["kind"] == "read-again")


def test_boundaries_of_stored_values() -> None:
    """What was stored names its operation and its kernels; the text shows it."""
    fuser.clear_caches()  # an equal graph of another file would lend its lines
    found = fuser.fuse(centred_both, fallback="error").explain(X)
    stored = [entry for entry in found.boundaries if entry["kind"] == "stored"]
    assert stored
    for entry in stored:
        assert entry["value"].startswith("sum#")
        assert "test_ledger.py:" in entry["value"]
        assert entry["written_by"] < min(entry["read_by"])
    assert "between kernels:" in str(found)
