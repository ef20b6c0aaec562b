"""Fixed work that says how fast the machine is just now."""

import pytest

from fuser.suites.probes import anchors


def test_both_anchors_take_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Both are measured, in seconds."""
    monkeypatch.setattr(anchors, "MEMORY_BYTES", 1 << 20)
    found = anchors.measure()
    assert set(found) == {"compute_s", "memory_s"}
    assert min(found.values()) > 0
