"""The pytest door: selection, rows in pytest-benchmark's tables and files, and without it."""

import importlib
import inspect
import json
from pathlib import Path

import pytest

pytest_plugins = ["pytester"]

SUITE = """
from fuser.suites.test_suites import test_row
"""
FAST = (
    "-p", "fuser.suites.plugin", "--fuser-processes=1", "--fuser-budget-s=1",
    "-p", "no:cacheprovider", "-p", "no:xdist",
)
ONE = ("-k", "axpy-float32-64-eager or axpy-float32-1024-eager_again")


@pytest.fixture
def suite(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> pytest.Pytester:
    """A folder whose only test is the suite's; the checkout is on the path."""
    from tests.tree import ROOT

    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    for name in ("PYTEST_XDIST_WORKER", "PYTEST_XDIST_WORKER_COUNT"):
        monkeypatch.delenv(name, raising=False)  # the pytest inside is a process of its own
    pytester.makepyfile(test_it=SUITE)
    return pytester


def test_selected_rows_are_measured_saved_and_compared(suite: pytest.Pytester) -> None:
    """Three of 220 rows are measured, shown, saved under stable names, and compared again."""
    pytest.importorskip("pytest_benchmark")
    first = suite.runpytest_subprocess(
        *FAST, *ONE, "--benchmark-autosave", "--fuser-csv=rows.csv",
        "--fuser-fail=axpy-float32-1024-*:median_s<1", "--fuser-fail=softmax*:kernels<1",
    )
    first.assert_outcomes(passed=2, failed=1)
    first.stdout.fnmatch_lines(["*axpy-float32-1024-eager_again: median_s is *: median_s < 1"])
    lines = (Path(suite.path) / "rows.csv").read_text(encoding="utf-8").splitlines()
    assert len(lines) == 4
    assert lines[0].startswith("cell,variant,status,reason,median_s,gigabytes_per_second")
    first.stdout.fnmatch_lines(["*measuring 3 rows*", "*axpy-float32-64 eager *ok"])
    first.stdout.fnmatch_lines(["3 of 3 rows are measured and right"])
    saved = next(Path(suite.path).glob(".benchmarks/*/0001_*.json"))
    document = json.loads(saved.read_text(encoding="utf-8"))
    names = {each["name"] for each in document["benchmarks"]}
    assert "test_row[axpy-float32-64-eager]" in names
    extra = document["benchmarks"][0]["extra_info"]
    assert {"gigabytes_per_second", "kernels", "max_error_ulp", "status"} <= extra.keys()
    assert document["fuser"]["finished"]
    again = suite.runpytest_subprocess(*FAST, *ONE, "--benchmark-compare")
    again.stdout.fnmatch_lines(["*test_row?axpy-float32-64-eager? (0001*"])
    compared = suite.run("pytest-benchmark", "compare", "0001")
    compared.stdout.fnmatch_lines(["*axpy-float32-64-eager*"])


def test_a_threshold_that_cannot_be_read_is_a_usage_error(suite: pytest.Pytester) -> None:
    """pytest's own code for that, and the metrics there are."""
    done = suite.runpytest_subprocess(*FAST, "--fuser-fail=nosuch<1")
    assert done.ret == pytest.ExitCode.USAGE_ERROR
    done.stderr.fnmatch_lines(["*there is no metric 'nosuch'; known: *speedup*"])
    done = suite.runpytest_subprocess(*FAST, "--fuser-fail=axpi-*:speedup<1")
    assert done.ret == pytest.ExitCode.USAGE_ERROR
    done.stderr.fnmatch_lines(["*no row is called 'axpi-[*]'; near it: axpy*"])


def test_what_is_used_of_pytest_benchmark_is_there() -> None:
    """The public names that the door needs; `tox -e contract-5.0` and the like try each version."""
    fixture = pytest.importorskip("pytest_benchmark.fixture").BenchmarkFixture
    parameters = inspect.signature(fixture.pedantic).parameters
    assert {"target", "rounds", "iterations"} <= parameters.keys()
    hooks = importlib.import_module("pytest_benchmark.hookspec")
    names = inspect.signature(hooks.pytest_benchmark_update_json).parameters
    assert list(names) == ["config", "benchmarks", "output_json"]


def test_without_pytest_benchmark_nothing_breaks(suite: pytest.Pytester) -> None:
    """The rows are measured and shown in our table, which says what is missing."""
    done = suite.runpytest_subprocess(*FAST, *ONE, "-p", "no:benchmark")
    done.assert_outcomes(passed=3)
    done.stdout.fnmatch_lines(["*pip install pytest-benchmark*"])


def test_a_users_function_is_benched(suite: pytest.Pytester) -> None:
    """`fused_benchmark` measures it in this process and returns the whole cell."""
    suite.makepyfile(
        test_it="""
        import numpy as np

        pytest_plugins = ["fuser.suites.plugin"]

        def test_mine(fused_benchmark):
            x = np.linspace(0, 1, 100)
            cell = fused_benchmark(lambda a, offset: a * a + offset, x, offset=1.0)
            assert {"eager", "eager_again", "fused"} <= {run.variant for run in cell.runs}
        """
    )
    done = suite.runpytest_subprocess("-p", "no:cacheprovider", "-p", "no:xdist")
    done.assert_outcomes(passed=1)
    done.stdout.fnmatch_lines(["test_mine-float64-100 fused *ok"])
    done = suite.runpytest_subprocess(
        "-p", "no:cacheprovider", "-p", "no:xdist", "-p", "fuser.suites.plugin",
        "--fuser-fail=test_mime*:speedup<0",
    )
    assert done.ret == pytest.ExitCode.USAGE_ERROR
    done.stdout.fnmatch_lines(["*no row is called 'test_mime[*]'; near it: test_mine*"])
