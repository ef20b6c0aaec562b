"""Processes that measure: their environment, and whether they are at rest."""

import os
from pathlib import Path

from fuser.suites.children import child_environment, runs, settle


def test_a_thread_that_runs_is_seen(tmp_path: Path) -> None:
    """Whatever its name; one that has ended meanwhile says nothing."""
    for number, state in enumerate(("S", "R")):
        place = tmp_path / "7" / "task" / str(number)
        place.mkdir(parents=True)
        (place / "stat").write_text(f"{number} (a) R (name) {state} 1 2")
        assert runs(7, tmp_path) == (state == "R")
    assert not runs(8, tmp_path)
    settle(os.getpid())


def test_idle_threads_of_openblas_sleep_soon() -> None:
    """A child's environment says so, and what is set already stays."""
    assert child_environment()["OPENBLAS_THREAD_TIMEOUT"] == os.environ.get(
        "OPENBLAS_THREAD_TIMEOUT", "20"
    )
