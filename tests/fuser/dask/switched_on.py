"""A pytest plugin under which Dask's own tests run with the optimisation: `tox -e dask`."""

from typing import Any

import dask
import pytest

import fuser
from fuser.dask import users


def pytest_configure(config: Any) -> None:
    """Switch it on for all arrays; Dask's own configuration names the markers of its tests."""
    for marker in ("array_expr", "gpu", "network", "normal_and_array_expr", "slow"):
        config.addinivalue_line("markers", f"{marker}: one of Dask's tests")
    dask.config.set(array_optimize=fuser.dask.optimize)
    of_dask = users.is_dasks
    users.is_dasks = lambda module: of_dask(module) and ".tests." not in str(module)


def _launches(config: Any) -> int:
    """How often kernels ran, in this process and in those of xdist that have ended."""
    return fuser.stats().get("launches", 0) + getattr(config, "launches_elsewhere", 0)


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    """Add what a process of xdist has launched."""
    told = getattr(node, "workeroutput", {}).get("launches", 0)
    node.config.launches_elsewhere = getattr(node.config, "launches_elsewhere", 0) + told


def pytest_terminal_summary(terminalreporter: Any, config: Any) -> None:
    """Say what was fused: a run in which nothing was is no proof."""
    terminalreporter.write_line(f"fuser: {_launches(config)} launches of kernels")


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: Any) -> None:
    """Fail where no kernel ran, in whichever process."""
    told = getattr(session.config, "workeroutput", None)
    if told is not None:
        told["launches"] = _launches(session.config)
    elif session.testscollected and not _launches(session.config):
        session.exitstatus = 1
