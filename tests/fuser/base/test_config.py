"""Switches: read once, spelled right or refused."""

import os
import subprocess
import sys
from typing import Any

import pytest

from fuser.base.config import SWITCHES, read_environment
from fuser.base.errors import ConfigurationError


@pytest.mark.parametrize(
    ("variables", "field", "value"),
    [
        ({}, "check", False),
        ({"FUSER_CHECK": "1"}, "check", True),
        ({"FUSER_CACHE": "off"}, "disk_cache", False),
        ({"FUSER_POOL": "off"}, "pool", False),
        ({"FUSER_NUM_THREADS": "3"}, "num_threads", 3),
        ({"FUSER_BACKEND": "cpu"}, "backend", "cpu"),
        ({"FUSER_DUMP": "graph,llvm"}, "dump", {"graph", "llvm"}),
        ({"HOME": "/"}, "dump", set()),
    ],
)
def test_switches_are_read(variables: dict[str, str], field: str, value: Any) -> None:
    """Each in its own form."""
    assert getattr(read_environment(variables), field) == value


@pytest.mark.parametrize(
    ("variables", "message"),
    [
        ({"FUSER_DUMMP": "graph"}, "FUSER_DUMP"),
        ({"FUSER_SOMETHING": "1"}, "FUSER_SOMETHING"),
        ({"FUSER_CHECK": "perhaps"}, "perhaps"),
        ({"FUSER_NUM_THREADS": "0"}, "threads"),
        ({"FUSER_NUM_THREADS": "many"}, "threads"),
        ({"FUSER_DUMP": "grap"}, "grap"),
    ],
)
def test_misspellings_are_refused(variables: dict[str, str], message: str) -> None:
    """With what is meant, or what is known."""
    with pytest.raises(ConfigurationError, match=message):
        read_environment(variables)


def run(code: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """Run Python with switches set."""
    plain = {k: v for k, v in os.environ.items() if not k.startswith("FUSER_")}
    return subprocess.run(
        [sys.executable, "-c", code],
        env={**plain, **variables},
        capture_output=True,
        text=True,
        check=False,
    )


def test_a_misspelled_switch_stops_the_import() -> None:
    """Nobody wonders later why it had no effect."""
    done = run("import fuser", FUSER_CHEK="1")
    assert done.returncode != 0
    assert "FUSER_CHECK" in done.stderr


def test_stages_are_dumped() -> None:
    """Graph, rules, groups, llvm and asm go to stderr."""
    code = "import numpy as np, fuser; fuser.fuse(lambda x: x * 1 + np.exp(x))(np.ones(9))"
    done = run(code, FUSER_DUMP="graph,rules,groups,llvm,asm")
    assert done.returncode == 0, done.stderr
    for word in ("graph(x0: float64[n0]):", "x * 1 -> x", "kernel 0", "define", "ret"):
        assert word in done.stderr
    assert run(code).stderr == ""


def test_every_switch_has_a_meaning() -> None:
    """The page of switches tables them."""
    assert all(meaning for _, meaning in SWITCHES.values())


def test_a_misspelled_switch_is_a_line_in_the_command() -> None:
    """And a usage error."""
    plain = {k: v for k, v in os.environ.items() if not k.startswith("FUSER_")}
    done = subprocess.run(
        [sys.executable, "-m", "fuser.suites.commands.command", "doctor"],
        env={**plain, "FUSER_CHEK": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.count("\n") == 1
    assert "FUSER_CHECK" in done.stderr
