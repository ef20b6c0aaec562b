"""The script for a machine with a device, rehearsed over the double of CuPy."""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path
from typing import Any

import pytest

from fuser.reports.record import load
from tests.backends.gpu import fake_cupy

device_run = pytest.importorskip("tools.device_run", reason="tools/ is in a checkout only")


def lines(folder: Path) -> list[dict[str, Any]]:
    """What a run has written."""
    return [json.loads(line) for line in (folder / "device.jsonl").read_text().splitlines()]


def test_a_rehearsal_finds_everything_right(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Tests and speeds run as on a device; checkers that are not there are said."""
    if reason := fake_cupy.reason_to_skip():
        pytest.skip(reason)
    which, absent = shutil.which, ("ncu", "compute-sanitizer", "nvidia-smi")
    monkeypatch.setattr(shutil, "which", lambda name: None if name in absent else which(name))
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.setattr(device_run, "REHEARSED", "float32 and (map or columns)")
    monkeypatch.setattr(device_run, "TIMED", 3)  # calls that nobody times
    monkeypatch.setattr(device_run, "TOGETHER", 2)
    parts = "tests,memcheck,traffic,events,speeds"
    given = [str(tmp_path), "--rehearse", "--parts", parts, "--budget-s", "600"]
    with fake_cupy.put_back():
        assert device_run.main(given) == 0, (tmp_path / "logs.txt").read_text()
    found = {line["part"]: line for line in lines(tmp_path)}
    assert list(found) == parts.split(",")
    assert all("skipped" in found[part] for part in ("memcheck", "traffic"))
    assert found["tests"]["last_line"][0].startswith("3 passed")
    (record,) = (tmp_path / "speeds").glob("*/record.json")
    (cell,) = load(record).cells
    assert {run.variant: run.status for run in cell.runs} == dict.fromkeys(
        ("eager", "cupy_fused", "cupy"), "ok"
    )


def test_what_fails_or_runs_out_of_time_is_wrong(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The next part runs; a part for which no time is left is wrong, too."""
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.setattr(device_run, "LEAST_S", 0.3)
    run = device_run.Run(tmp_path, 60.0, rehearse=False)
    run.call("right", [sys.executable, "-c", "print(3)"])
    run.call("failing", [sys.executable, "-c", "1 / 0"])
    run.call("late", [sys.executable, "-c", "import time; time.sleep(30)"], 0.5)
    run.end_s = 0.0
    run.call("no more", [sys.executable, "-c", "print(3)"])
    assert [line["right"] for line in lines(tmp_path)] == [True, False, False, False]
    assert "ZeroDivisionError" in (tmp_path / "logs.txt").read_text()
    assert run.wrong == 3
    assert '"late"' in capsys.readouterr().out


def test_counted_bytes_are_read_from_ncus_table() -> None:
    """Other lines before it, units, thousands, several launches of one kernel."""
    text = """==PROF== Connected
"ID","Process ID","Kernel Name","Metric Name","Metric Unit","Metric Value"
"0","7","a_0_narrow","dram__bytes_read.sum","Gbyte","1.5"
"0","7","a_0_narrow","dram__bytes_write.sum","Mbyte","1,000"
"1","7","a_0_narrow","dram__bytes_read.sum","Kbyte","2"
"2","7","b_0_narrow(Arguments0)","dram__bytes_read.sum","byte","16"
"2","7","b_0_narrow(Arguments0)","gpu__time_duration.sum","nsecond","5"
"""
    found = device_run.counted_bytes(text)
    assert found == {"a_0_narrow": 1.5e9 + 1e9 + 2e3, "b_0_narrow": 16.0}
    assert device_run.counted_bytes("nothing") == {}
