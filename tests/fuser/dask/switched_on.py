"""A pytest plugin under which Dask's own tests run with the optimisation: `tox -e dask`."""

from typing import Any

import dask

import fuser
from fuser.dask import users


def pytest_configure(config: Any) -> None:
    """Switch it on for all arrays; Dask's own configuration names the markers of its tests."""
    for marker in ("array_expr", "gpu", "network", "normal_and_array_expr", "slow"):
        config.addinivalue_line("markers", f"{marker}: one of Dask's tests")
    dask.config.set(array_optimize=fuser.dask.optimize)
    of_dask = users.is_dasks
    users.is_dasks = lambda module: of_dask(module) and ".tests." not in str(module)


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """Say what was fused: a run in which nothing was is no proof."""
    found = fuser.stats()
    kernels, launches = fuser.n_compiled_kernels(), found.get("launches", 0)
    terminalreporter.write_line(f"fuser: {kernels} kernels compiled, {launches} launches")


def pytest_sessionfinish(session: Any) -> None:
    """Fail where no kernel ran."""
    if session.testscollected and not fuser.stats().get("launches"):
        session.exitstatus = 1
