"""`fuser-bench pytest`: each exit code from its cause, and pytest's own beside it."""

import sys

import pytest

from fuser.suites.commands.pytest_command import _names_tests
from tests.tree import ROOT

pytest_plugins = ["pytester"]

OURS = ("-p", "no:cacheprovider", "-p", "no:xdist", "-p", "no:benchmark")
TEST = """
import numpy as np
import pytest

pytest_plugins = ["fuser.suites.plugin"]


@pytest.mark.fuser_fail("CONDITION")
def test_mine(fused_benchmark):
    fused_benchmark(lambda x: x * x, np.linspace(0, 1, 64))
"""
CAUSES = [
    ("right", "median_s<0", "", 0, 0),
    ("slow", "median_s<9", "", 1, 1),
    ("wrong", "median_s<0", "fetch = lambda self, result: np.add(result, 1)", 4, 1),
    ("failing", "median_s<0", "accept = lambda self, x: x if len(x[0]) == 16 else 1 / 0", 3, 1),
    ("undecided", "speedup<1e9", "", 5, 1),
]
SPOILT = """
from fuser.suites.runners import FusedRunner

FusedRunner."""


@pytest.mark.parametrize(("name", "condition", "spoilt", "code", "raw"), CAUSES)
def test_each_code_has_its_cause(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, name: str, condition: str,
    spoilt: str, code: int, raw: int,
) -> None:
    """A right row, a threshold crossed, a wrong result, a row that fails, one process."""
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    text = TEST.replace("CONDITION", condition)
    pytester.makepyfile(test_it=text + (SPOILT + spoilt if spoilt else ""))
    command = (sys.executable, "-m", "fuser.suites.commands.command", "pytest", *OURS, "test_it.py")
    done = pytester.run(*command)
    assert done.ret == code, (name, done.outlines)
    assert done.outlines[-1].endswith(f"({code}), pytest's own code {raw}")


def test_errors_of_usage_and_of_collecting(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    """2; a file without tests measures nothing: 3."""
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    pytester.makepyfile(test_broken="raise SyntaxError", test_empty="")
    command = (sys.executable, "-m", "fuser.suites.commands.command", "pytest", *OURS)
    assert pytester.run(*command, "test_broken.py").ret == 2
    assert pytester.run(*command, "test_empty.py").ret == 3
    pytester.makepyfile(test_typo=TEST.replace("CONDITION", "speedupp<1"))
    done = pytester.run(*command, "test_typo.py")
    assert done.ret == 2
    assert any("near it: speedup" in line for line in (*done.outlines, *done.errlines))


def test_the_suite_is_meant_where_no_tests_are_named() -> None:
    """Values of options are no names."""
    assert not _names_tests(["-k", "axpy", "--benchmark-autosave"])
    assert _names_tests(["tests"])
    assert _names_tests(["-k", "axpy", "tests/test_tree.py::test_it"])
    assert _names_tests(["--pyargs", "my.package"])
