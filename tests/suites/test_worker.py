"""The worker process: its job survives JSON, its events arrive, its position can be read."""

import json
import os
from pathlib import Path

from fuser.suites.measuring import Limits
from fuser.suites.plan import CellPlan
from fuser.suites.worker import EventWriter, Job, Position, main
from tests.suites import cheats

JOB = Job(
    process=3,
    limits=Limits(
        time_s=0.2, least_sample_s=1e-4, least_blocks=2, most_blocks=2, memory_bytes=1 << 20, seed=3
    ),
    cells=[(5, CellPlan(f"{cheats.MODULE}:DOUBLE", "float32", 64, "S"))],
    rows=[[0]],
    variants={0: "fuser.suites.runners:EagerRunner"},
    ceilings=False,
)


def test_a_job_survives_json() -> None:
    """What the engine writes is what the worker reads."""
    again = Job.from_json(JOB.to_json())
    assert again.limits == JOB.limits
    assert list(again.cells) == list(JOB.cells)
    assert again.variants == JOB.variants


def test_a_whole_job(tmp_path: Path) -> None:
    """Events end with `done`, carry the plan's indices, and the position names the last row."""
    (tmp_path / "job").write_text(JOB.to_json(), encoding="utf-8")
    events_path, position_path = tmp_path / "events", tmp_path / "position"
    descriptor = os.open(events_path, os.O_WRONLY | os.O_CREAT)
    assert main([str(tmp_path / "job"), str(descriptor), str(position_path)]) == 0
    events = [json.loads(line) for line in events_path.read_text().splitlines()]
    assert events[-1]["event"] == "done"
    assert {event["cell"] for event in events if "cell" in event} == {5}
    assert Position.read(position_path) == (5, 0)


def test_events_wait_for_each_other(tmp_path: Path) -> None:
    """Only the first is written at once: a write would wake the parent between two samples."""
    writer = EventWriter(os.open(tmp_path / "events", os.O_WRONLY | os.O_CREAT))
    writer.emit({"event": "progress"})
    writer.emit({"event": "sample"})
    assert json.loads((tmp_path / "events").read_text()) == {"event": "progress"}
    writer.flush()
    assert json.loads((tmp_path / "events").read_text().splitlines()[1]) == {"event": "sample"}
    writer.stream.close()


def test_a_position_that_was_never_marked(tmp_path: Path) -> None:
    """Neither a missing nor an empty file names a row."""
    assert Position.read(tmp_path / "nowhere") is None
    (tmp_path / "empty").touch()
    assert Position.read(tmp_path / "empty") is None
