"""What mypy says, strictly, of every file of the package, and of a user's fused functions.

In an editable install mypy follows no finder, reads one file and says success. So it reads a copy
in which the four folders are one package, as the wheel has them, and the number of files that it
read is compared with the tree.
"""

import re
import shutil
import subprocess
import sys

import pytest

from tests.tree import FOLDERS, ROOT, source_files

USER = '''
from typing import Any
import numpy as np
import fuser

Array = np.ndarray[Any, np.dtype[np.float64]]

@fuser.fuse
def gelu(x: Array, scale: float = 1.0) -> Array:
    return np.tanh(x) * scale

@fuser.fuse(fallback="allow")
def both(x: Array) -> tuple[Array, int]:
    return x + 1, 2

class Model:
    @fuser.fuse
    def step(self, x: Array, rate: float) -> Array:
        return x * rate

x = np.ones(3)
print(gelu.__name__, gelu.__qualname__, Model().step.__name__)
reveal_type(gelu(x, scale=2.0))
reveal_type(gelu(x, out=x))
reveal_type(both(x))
reveal_type(Model().step(x, 0.5))
reveal_type(Model.step(Model(), x, 0.5))
reveal_type(gelu.benchmark(x).speedup)
reveal_type(gelu.explain(x).groups)
reveal_type(gelu.explain(x).to_svg())
gelu("no")
gelu(x, scle=2.0)
Model().step(x)
fuser.fuse(fallback="alow")
'''


@pytest.fixture(scope="module")
def said(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """What mypy says; what it found is kept in the checkout, for the next run."""
    pytest.importorskip("mypy", reason="mypy is not installed: pip install mypy")
    tree = tmp_path_factory.mktemp("typed")
    ignored = shutil.ignore_patterns("__pycache__", "recorded")
    for folder, package in FOLDERS.items():
        shutil.copytree(ROOT / folder, tree / package.replace(".", "/"), ignore=ignored)
    (tree / "user.py").write_text(USER, encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "-m", "mypy", "--config-file", ROOT / "pyproject.toml",
         "--cache-dir", ROOT / ".mypy_cache", "-p", "fuser", "-m", "user"],
        cwd=tree, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.stderr == ""
    return done.stdout.splitlines()


@pytest.mark.timeout(1200)
def test_every_file_is_typed(said: list[str]) -> None:
    """No error but in the user's program, and as many files read as the checkout has."""
    assert [line for line in said[:-1] if not line.startswith("user.py:")] == []
    read = re.search(r"checked (\d+) source files", said[-1])
    assert read is not None, said[-1]
    assert int(read[1]) == len(source_files()) + 1


def test_results_are_the_functions(said: list[str]) -> None:
    """Of functions with and without options, methods, and of `out=`."""
    told = [line.split('"')[1].replace("builtins.", "") for line in said if "Revealed" in line]
    array = told[0]
    assert array.startswith("numpy.ndarray[Any, numpy.dtype[numpy.float")
    assert told[1].startswith("numpy.ndarray")
    assert told[2:] == [f"tuple[{array}, int]", array, array, "float", "list[str]", "str"]


def test_wrong_arguments_are_errors(said: list[str]) -> None:
    """A value of another type, an unknown keyword, a missing argument, an option's value."""
    first = USER.splitlines().index('gelu("no")') + 1
    told = [line for line in said if line.startswith("user.py:") and "error:" in line]
    wrong = {int(line.split(":")[1]) for line in told}
    assert wrong == {*range(first, first + 4)}, said
