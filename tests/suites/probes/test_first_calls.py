"""The second first call finds machine code on disk and compiles nothing."""

import os

from fuser.base import config
from fuser.suites.probes import first_calls
from fuser.suites.runners import FusedRunner


def test_cold_compiles_and_warm_reads() -> None:
    """Stages add up to the call; settings and environment are as before."""
    before = config.current().disk_cache, os.environ.get("XDG_CACHE_HOME")
    runner = FusedRunner()
    runner.start()
    cold, warm = first_calls.measure(runner, ["axpy"])
    assert (cold["state"], warm["state"]) == ("cold", "disk cache")
    assert "llvm" in cold["stages_s"]
    assert "llvm" not in warm["stages_s"]
    assert "trace" in warm["stages_s"]
    assert abs(sum(cold["stages_s"].values()) / cold["seconds"] - 1) < 0.05
    assert (config.current().disk_cache, os.environ.get("XDG_CACHE_HOME")) == before
