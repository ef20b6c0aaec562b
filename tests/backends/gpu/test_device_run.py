"""The script for a machine with a device, rehearsed over the double of CuPy."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from fuser.reports.markdown_page import markdown_page
from fuser.reports.record import load
from tests.backends.gpu import fake_cupy

device_run = pytest.importorskip("tools.device_run", reason="tools/ is in a checkout only")


@pytest.fixture
def rehearsed() -> Iterator[Any]:
    """The script over the double, with two variants."""
    if reason := fake_cupy.reason_to_skip():
        pytest.skip(reason)
    from tests.backends.gpu import rehearsal  # needs tools/

    with rehearsal.rehearsed("map", "held by lanes") as script:
        yield script


def test_parts_that_fail_do_not_stop_the_others(
    tmp_path: Path, rehearsed: Any, monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Results are right, times are there, and what is missing is written down with its error."""
    monkeypatch.setitem(rehearsed.PARTS, "broken", lambda record: 1 / 0)
    absent, which = ("ncu", "compute-sanitizer", "nvidia-smi", "nvcc"), shutil.which
    monkeypatch.setattr(
        shutil, "which", lambda name, *rest: None if name in absent else which(name, *rest)
    )
    monkeypatch.setenv("XDG_CACHE_HOME", "")  # put back afterwards
    parts = ("broken,machine,smoke,variants,capture,overhead,sanitizer,traffic,traffic-child,"
             "speeds,summary")  # fmt: skip
    given = [str(tmp_path), "--parts", parts, "--no-pool", "--cache", str(tmp_path / "kept")]
    status = rehearsed.main(given)
    assert status == 1
    lines = [json.loads(line) for line in (tmp_path / "device.jsonl").read_text().splitlines()]
    by_part: dict[str, list[Any]] = {}
    for line in lines:
        by_part.setdefault(line["part"], []).append(line)
    assert [line["name"] for line in by_part["failed"]] == ["broken"]
    assert "ZeroDivisionError" in by_part["failed"][0]["error"]
    checked = {line["workload"] for line in by_part["smoke"]}
    assert checked > set(rehearsed.WORKLOADS) | set(rehearsed.CHECKS)
    assert all(line["right"] for line in by_part["smoke"] + by_part["capture"])
    assert all(line.get("right", True) for line in by_part["variant"]), by_part["variant"]
    assert {line["dtype"] for line in by_part["variant"]} >= {"float16", "float32", "float64"}
    assert {line["workload"].rpartition(" ")[0] for line in by_part["variant"]} == set(
        rehearsed.device_checks_variants
    )
    ours = [line for line in by_part["speed"] if line["way"] == "fuser"]
    assert len(ours) == 2 * len(rehearsed.WORKLOADS)  # beside what is quick to make, and the others
    assert all("gigabytes_per_s" in line and line["right"] for line in ours)
    assert any("error" in line for line in by_part["speed"] if line["way"] == "raw")
    assert all("skipped" in by_part[part][0] for part in ("sanitizer", "traffic"))
    ways = {line["way"] for line in by_part["overhead"]}
    assert ways == {"fuser", "fuser-out", "eager", "raw", "raw-out"}
    assert by_part["summary"][0]["cells"] == len(rehearsed.WORKLOADS)
    count = sum("right" in line for line in lines)
    assert f"of {count} checks are right" in capsys.readouterr().out
    page = markdown_page(load(tmp_path / "record.json"))
    assert f"{len(rehearsed.WORKLOADS)} of {len(rehearsed.WORKLOADS)} cells have a ratio" in page
    assert "| softmax-float32-512x16 | 1.00" in page
    assert "of the ceiling or more" in page
    for line in by_part["planned"]:
        run = rehearsed.fused(line["workload"])
        assert line["planned_bytes"] > 0
        assert run is not None
        assert line["kernels"][0].endswith("_0_narrow")


def test_what_runs_out_of_time_is_wrong(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As what ends with another status than 0."""
    def late(command: list[str], **options: Any) -> Any:
        raise subprocess.TimeoutExpired(command, 1)

    record = device_run.Record(tmp_path, 100)
    device_run._run(record, "quick", [sys.executable, "-c", "print(3)"], 50)
    monkeypatch.setattr(subprocess, "run", late)
    device_run._run(record, "late", ["sleep"], 50)
    assert [record.lines(name)[0]["right"] for name in ("quick", "late")] == [True, False]


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
