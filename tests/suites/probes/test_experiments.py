"""Experiments are events; one that fails is a note, and the others are still made."""

import json

import pytest

from fuser.suites.probes import experiments
from fuser.suites.runners import FusedRunner


def test_a_failure_is_a_note(monkeypatch: pytest.MonkeyPatch) -> None:
    """The text names the experiment and the error; others follow."""
    def broken() -> None:
        raise RuntimeError("no clock")

    nothing = lambda *_: iter(())  # noqa: E731
    monkeypatch.setattr(experiments.anatomy, "measure", broken)
    monkeypatch.setattr(experiments.first_calls, "measure", nothing)
    monkeypatch.setattr(experiments.arithmetic, "measure", nothing)
    found = list(experiments.measure(0, 2, FusedRunner()))
    assert [each["event"] for each in found] == ["note", "trace"]
    assert found[0]["text"] == "anatomy: RuntimeError: no clock"
    names = {each["name"] for each in json.loads(found[1]["text"])["traceEvents"]}
    assert {"trace", "launch"} <= names
