"""The script for a machine with a device, rehearsed over the double of CuPy."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.backends.gpu import fake_cupy

device_run = pytest.importorskip("tools.device_run", reason="tools/ is in a checkout only")


def test_parts_that_fail_do_not_stop_the_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Results are right, times are there, and what is missing is written down with its error."""
    if reason := fake_cupy.reason_to_skip():
        pytest.skip(reason)
    monkeypatch.setattr(device_run, "HIDDEN", (16,))
    monkeypatch.setattr(device_run, "_times_ms", lambda *_: [1.0])
    monkeypatch.setitem(
        device_run.PARTS, "speeds", lambda record: device_run.speeds(record, elements=1 << 10)
    )
    monkeypatch.setitem(device_run.PARTS, "broken", lambda record: 1 / 0)
    device_run._fused.cache_clear()
    with fake_cupy.installed():
        status = device_run.main([str(tmp_path), "--parts", "broken,machine,smoke,speeds"])
    device_run._fused.cache_clear()
    assert status == 1
    lines = [json.loads(line) for line in (tmp_path / "device.jsonl").read_text().splitlines()]
    assert {line["workload"] for line in lines if line["part"] == "smoke"} == set(
        device_run.WORKLOADS
    )
    assert all(line["right"] for line in lines if line["part"] == "smoke")
    assert any("ZeroDivisionError" in line["error"] for line in lines if line["part"] == "failed")
    ours = [line for line in lines if line["part"] == "speed" and line["way"] == "fuser"]
    assert len(ours) == len(device_run.WORKLOADS)
    assert all("gigabytes_per_s" in line for line in ours)
