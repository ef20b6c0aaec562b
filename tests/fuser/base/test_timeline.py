"""Phases of calls: collected while somebody listens, to pandas and to a trace-event file."""

import json
from pathlib import Path

import numpy as np
import pytest

import fuser
from fuser.base import timeline


def test_phases_of_a_first_and_a_second_call(tmp_path: Path) -> None:
    """The first call traces, compiles and launches; the second only launches."""
    fused, x = fuser.fuse(lambda x: np.exp(x) * 3.5 - x), np.linspace(0, 1, 99)
    with fuser.profile() as first:
        fused(x)
    with fuser.profile() as second:
        fused(x)
    names = {phase.name for phase in first.phases}
    assert {"trace", "rewrite", "schedule", "emit", "compile", "launch"} <= names
    assert {"trace", "compile"}.isdisjoint(phase.name for phase in second.phases)
    assert any(phase.name == "launch" for phase in second.phases)
    frame = first.to_pandas()
    assert list(frame.columns) == ["name", "subject", "start_s", "elapsed_s", "thread"]
    assert len(frame) == len(first.phases)
    assert (frame["elapsed_s"] >= 0).all()
    assert first.seconds()["compile"] == pytest.approx(
        frame.loc[frame["name"] == "compile", "elapsed_s"].sum()
    )
    events = json.loads(first.save(tmp_path / "trace.json").read_text())["traceEvents"]
    assert len(events) == len(first.phases)
    assert all(event["ph"] == "X" and event["dur"] >= 0 and "ts" in event for event in events)


def test_nobody_listens() -> None:
    """Nothing is kept outside the block; blocks nest."""
    assert not timeline.listening()
    with fuser.profile() as outer, fuser.profile() as inner:
        assert timeline.listening()
        with timeline.phase("work", "mine"):
            pass
    assert [p.subject for p in outer.phases] == [p.subject for p in inner.phases] == ["mine"]
    with timeline.phase("later"):
        pass
    assert len(outer.phases) == 1
