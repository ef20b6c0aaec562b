"""What is kept of earlier runs, and what a run says when its machine is not itself."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from fuser.reports.record import Machine, Record
from fuser.suites.probes import noise
from tests.reports import synthetic
from tests.reports.test_comparison import FEW


@pytest.fixture(autouse=True)
def _folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The user's own file stays as it is."""
    monkeypatch.setattr(noise, "path", lambda: tmp_path / "state" / "machines.json")


def run_of(compute_s: float, spread: float = 0.001, seed: int = 0) -> Record:
    """Return a run whose anchors took so long."""
    record = synthetic.record(processes=3, blocks=4, noise=spread, workloads=FEW)
    anchors = {"compute_s": [compute_s] * 4, "memory_s": [0.01] * 4}
    return replace(record, run_id=f"run{seed}", call_overhead={"anchors": anchors})


def test_runs_are_remembered_by_machine() -> None:
    """The newest twenty of each; another machine's are apart."""
    for seed in range(noise.KEPT + 2):
        noise.remember(run_of(1e-5, seed=seed))
    past = noise.known(run_of(1e-5).machine)
    assert len(past) == noise.KEPT
    assert past[-1].run_id == f"run{noise.KEPT + 1}"
    assert past[-1].compute_s == 1e-5
    floor = noise.usual_floor(past)
    assert floor is not None
    assert 1 < floor < 1.05
    assert noise.known(Machine("another", 1)) == []


def test_a_slower_or_noisier_machine_is_noted() -> None:
    """Against the median of the runs before; the same machine is not."""
    for seed in range(3):
        noise.remember(run_of(1e-5, seed=seed))
    past = noise.known(run_of(1e-5).machine)
    assert noise.unlike_before(run_of(1e-5), past) == []
    assert "arithmetic anchor took 1.50 times" in noise.unlike_before(run_of(1.5e-5), past)[0]
    noisy = noise.unlike_before(run_of(1e-5, spread=0.05), past)
    assert "equal things differed by" in noisy[0]


def test_a_damaged_file_is_none() -> None:
    """Nor does a folder that cannot be written stop a run."""
    noise.path().parent.mkdir()
    noise.path().write_text("{", encoding="utf-8")
    assert noise.known(run_of(1.0).machine) == []
    noise.path().write_text(json.dumps({noise.fingerprint(run_of(1.0).machine): [{"x": 1}]}))
    assert noise.known(run_of(1.0).machine) == []
    noise.path().unlink()
    noise.path().mkdir()
    noise.remember(run_of(1.0))
