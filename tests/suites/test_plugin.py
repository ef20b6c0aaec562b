"""The pytest door: selection, rows in pytest-benchmark's tables and files, and without it."""

import importlib
import inspect
import json
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.suites import sessions
from tests.suites.sessions import Ended

SUITE = """
from fuser.suites.test_suites import test_row
"""
OWN = """
import numpy as np

pytest_plugins = ["fuser.suites.plugin"]

def test_mine(fused_benchmark):
    x = np.linspace(0, 1, 100)
    cell = fused_benchmark(lambda a, offset: a * a + offset, x, offset=1.0)
    assert {"eager", "eager_again", "fused"} <= {run.variant for run in cell.runs}
"""
PLAIN = ("-p", "no:cacheprovider", "-p", "no:xdist", "-p", "fuser.suites.plugin")
FAST = (*PLAIN, "--fuser-processes=1", "--fuser-budget-s=1", "test_it.py")
ONE = ("-k", "axpy-float32-64-eager or axpy-float32-1024-eager_again")
SESSIONS = {
    "measured": (
        *FAST, *ONE, "--benchmark-autosave", "--fuser-csv=rows.csv",
        "--fuser-fail=axpy-float32-1024-*:median_s<1", "--fuser-fail=softmax*:kernels<1",
    ),
    "compared": (*FAST, *ONE, "--benchmark-compare"),
    "no such metric": (*FAST, "--fuser-fail=nosuch<1"),
    "no such row": (*FAST, "--fuser-fail=axpi-*:speedup<1"),
    "without": (*FAST, *ONE, "-p", "no:benchmark"),
    "own": (*PLAIN, "test_own.py"),
    "no such own": (*PLAIN, "test_own.py", "--fuser-fail=test_mime*:speedup<0"),
}


class Door(NamedTuple):
    """A folder whose only tests are the suite's and one of a person's own; how sessions ended."""

    folder: Path
    ended: dict[str, Ended]


@pytest.fixture(scope="module")
def door(tmp_path_factory: pytest.TempPathFactory) -> Door:
    """All sessions."""
    pytest.importorskip("pytest_benchmark")
    folder = tmp_path_factory.mktemp("door")
    (folder / "test_it.py").write_text(SUITE, encoding="utf-8")
    (folder / "test_own.py").write_text(OWN, encoding="utf-8")
    found = sessions.run(folder, *(("", each) for each in SESSIONS.values()))
    return Door(folder, dict(zip(SESSIONS, found, strict=True)))


def test_selected_rows_are_measured_saved_and_compared(door: Door) -> None:
    """Three of 220 rows are measured, shown, saved under stable names, and compared again."""
    first = door.ended["measured"]
    assert first.has("1 failed, 2 passed", "measuring 3 rows", "axpy-float32-64 eager .*ok")
    assert first.has(r"axpy-float32-1024-eager_again: median_s is .*: median_s < 1")
    assert first.has("3 of 3 rows are measured and right")
    lines = (door.folder / "rows.csv").read_text(encoding="utf-8").splitlines()
    assert len(lines) == 4
    assert lines[0].startswith("cell,variant,status,reason,median_s,gigabytes_per_second")
    saved = next(door.folder.glob(".benchmarks/*/0001_*.json"))
    document = json.loads(saved.read_text(encoding="utf-8"))
    names = {each["name"] for each in document["benchmarks"]}
    assert "test_row[axpy-float32-64-eager]" in names
    extra = document["benchmarks"][0]["extra_info"]
    assert {"gigabytes_per_second", "kernels", "max_error_ulp", "status"} <= extra.keys()
    assert document["fuser"]["finished"]
    assert door.ended["compared"].has(r"test_row.axpy-float32-64-eager. \(0001")


@pytest.mark.parametrize(
    ("session", "said"),
    [
        ("no such metric", "there is no metric 'nosuch'; known: .*speedup"),
        ("no such row", r"no row is called 'axpi-\*'; near it: axpy"),
        ("no such own", r"no row is called 'test_mime\*'; near it: test_mine"),
    ],
)
def test_a_threshold_that_cannot_be_read_is_a_usage_error(
    door: Door, session: str, said: str
) -> None:
    """pytest's own code for that, and the names there are."""
    assert door.ended[session].code == pytest.ExitCode.USAGE_ERROR
    assert door.ended[session].has(said)


def test_what_is_used_of_pytest_benchmark_is_there() -> None:
    """The public names that the door needs; `tox -e contract-5.0` and the like try each version."""
    fixture = pytest.importorskip("pytest_benchmark.fixture").BenchmarkFixture
    parameters = inspect.signature(fixture.pedantic).parameters
    assert {"target", "rounds", "iterations"} <= parameters.keys()
    hooks = importlib.import_module("pytest_benchmark.hookspec")
    names = inspect.signature(hooks.pytest_benchmark_update_json).parameters
    assert list(names) == ["config", "benchmarks", "output_json"]


def test_without_pytest_benchmark_nothing_breaks(door: Door) -> None:
    """The rows are measured and shown in our table, which says what is missing."""
    assert door.ended["without"].has("3 passed", "pip install pytest-benchmark")


def test_a_users_function_is_benched(door: Door) -> None:
    """`fused_benchmark` measures it in this process and returns the whole cell."""
    assert door.ended["own"].has("1 passed", "test_mine-float64-100 fused .*ok")
