"""What type checkers see of a fused function: the function's own arguments and result."""

import subprocess
import sys

import pytest

from tests.tree import ROOT

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
'''


@pytest.fixture(scope="module")
def said(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """What mypy says; of the fuser it reads no more than it needs for that."""
    pytest.importorskip("mypy", reason="mypy is not installed: pip install mypy")
    folder = tmp_path_factory.mktemp("typed")
    (folder / "user.py").write_text(USER, encoding="utf-8")
    (folder / "mypy.ini").write_text(f"""
[mypy]
mypy_path = {ROOT}
cache_dir = {folder / "cache"}
strict = True
[mypy-fuser.*]
follow_imports = skip
[mypy-fuser]
follow_imports = silent
[mypy-fuser.interface]
follow_imports = silent
[mypy-fuser.calls.fused_function]
follow_imports = silent
[mypy-fuser.calls.comparison]
follow_imports = silent
[mypy-fuser.calls.explained]
follow_imports = silent
[mypy-fuser.base.records]
follow_imports = silent
""", encoding="utf-8")  # fmt: skip
    done = subprocess.run(
        [sys.executable, "-m", "mypy", "--config-file", "mypy.ini", "user.py"],
        cwd=folder, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.stderr == ""
    return done.stdout.splitlines()


def test_results_are_the_functions(said: list[str]) -> None:
    """Of functions with and without options, methods, and of `out=`."""
    told = [line.split('"')[1].replace("builtins.", "") for line in said if "Revealed" in line]
    array = told[0]
    assert array.startswith("numpy.ndarray[Any, numpy.dtype[numpy.float")
    assert told[1].startswith("numpy.ndarray")
    assert told[2:] == [f"tuple[{array}, int]", array, array, "float", "list[str]", "str"]


def test_wrong_arguments_are_errors(said: list[str]) -> None:
    """A value of another type, a keyword that is not there, an argument that is missing."""
    first = USER.splitlines().index('gelu("no")') + 1
    wrong = {int(line.split(":")[1]) for line in said if "error:" in line}
    assert wrong == {first, first + 1, first + 2}, said
