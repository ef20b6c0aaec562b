"""Fixed work that says how fast the machine is just now."""

import pytest

from fuser.suites import anchors


def test_both_anchors_take_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Arithmetic in the first cache takes microseconds, memory beyond the caches more."""
    monkeypatch.setattr(anchors, "MEMORY_BYTES", 1 << 20)
    found = anchors.measure()
    assert set(found) == {"compute_s", "memory_s"}
    assert all(0 < each < 0.1 for each in found.values())
