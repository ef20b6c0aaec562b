"""Whether the processor's counters can be read."""

import sys

import pytest

from fuser.suites.probes import counters


def test_an_answer_comes_with_its_reason() -> None:
    """None where they can be read; else what is in the way."""
    reason = counters.unavailable()
    assert reason is None or len(reason) > 10


def test_other_systems_have_none(monkeypatch: pytest.MonkeyPatch) -> None:
    """perf events are Linux's, on the processors whose call number is known."""
    monkeypatch.setattr(counters, "SYSCALLS", {})
    assert "not known here" in (counters.unavailable() or "") or sys.platform != "linux"
    monkeypatch.setattr(sys, "platform", "darwin")
    assert counters.unavailable() == "perf events are Linux's"
