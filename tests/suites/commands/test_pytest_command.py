"""`fuser-bench pytest`: each exit code from its cause, and pytest's own beside it."""

import pytest

from fuser.suites.commands.pytest_command import _names_tests
from tests.suites import sessions
from tests.suites.sessions import OURS, Ended

PLAIN = ("-p", "no:cacheprovider", "-p", "no:xdist", "-p", "no:benchmark")
TEST = """
import numpy as np
import pytest
from fuser.suites.runners import FusedRunner

pytest_plugins = ["fuser.suites.plugin"]


@pytest.mark.fuser_fail("{condition}")
def test_mine(fused_benchmark, monkeypatch):
    for name, method in ({spoilt}).items():
        monkeypatch.setattr(FusedRunner, name, method, raising=False)
    fused_benchmark(lambda x: x * x, np.linspace(0, 1, 64))
"""
CAUSES = {
    "right": ("median_s<0", "{}", 0, 0),
    "slow": ("median_s<9", "{}", 1, 1),
    "wrong": ("median_s<0", "{'fetch': lambda self, result: np.add(result, 1)}", 4, 1),
    "failing": (
        "median_s<0", "{'accept': lambda self, x: x if len(x[0]) == 16 else 1 / 0}", 3, 1
    ),
    "undecided": ("speedup<1e9", "{}", 5, 1),
    "typo": ("speedupp<1", "{}", 2, 4),
}
"""Condition, what is wrong with the runner, our code, pytest's."""


@pytest.fixture(scope="module")
def ended(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Ended]:
    """What each test file ended with."""
    folder = tmp_path_factory.mktemp("sessions")
    texts = {
        name: TEST.format(condition=condition, spoilt=spoilt)
        for name, (condition, spoilt, *_) in CAUSES.items()
    } | {"broken": "raise SyntaxError", "empty": ""}
    for name, text in texts.items():
        (folder / f"test_{name}.py").write_text(text, encoding="utf-8")
    each = [(OURS, [*PLAIN, f"test_{name}.py"]) for name in texts]
    return dict(zip(texts, sessions.run(folder, *each), strict=True))


@pytest.mark.parametrize("name", CAUSES)
def test_each_code_has_its_cause(ended: dict[str, Ended], name: str) -> None:
    """A right row, a threshold crossed, a wrong result, a row that fails, one process, a typo."""
    *_, code, raw = CAUSES[name]
    assert ended[name].code == code, ended[name].said
    assert ended[name].has(rf"\({code}\), pytest's own code {raw}\b")


def test_errors_of_usage_and_of_collecting(ended: dict[str, Ended]) -> None:
    """2; a file without tests measures nothing: 3; a metric that is misspelt has one near it."""
    assert [ended[name].code for name in ("broken", "empty")] == [2, 3]
    assert ended["typo"].has("near it: speedup")


def test_the_suite_is_meant_where_no_tests_are_named() -> None:
    """Values of options are no names."""
    assert not _names_tests(["-k", "axpy", "--benchmark-autosave"])
    assert _names_tests(["tests"])
    assert _names_tests(["-k", "axpy", "tests/test_tree.py::test_it"])
    assert _names_tests(["--pyargs", "my.package"])
