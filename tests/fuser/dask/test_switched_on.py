"""The plugin under which Dask's own tests run: whether kernels ran, in all processes of pytest."""

from types import SimpleNamespace
from typing import Any

import pytest

import fuser
from tests.fuser.dask import switched_on


def test_launches_in_other_processes_count(monkeypatch: pytest.MonkeyPatch) -> None:
    """A run without any fails; each process of xdist tells its own when it ends."""
    monkeypatch.setattr(fuser, "stats", dict[str, int])
    config = SimpleNamespace()
    session: Any = SimpleNamespace(config=config, testscollected=1, exitstatus=0)
    switched_on.pytest_sessionfinish(session)
    assert session.exitstatus == 1
    session.exitstatus = 0
    for told in ({"launches": 3}, {}):
        switched_on.pytest_testnodedown(SimpleNamespace(config=config, workeroutput=told))
    switched_on.pytest_sessionfinish(session)
    assert session.exitstatus == 0
    monkeypatch.setattr(fuser, "stats", lambda: {"launches": 2})
    worker: Any = SimpleNamespace(config=SimpleNamespace(workeroutput={}))
    switched_on.pytest_sessionfinish(worker)
    assert worker.config.workeroutput == {"launches": 2}
