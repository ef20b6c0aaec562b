"""The one writer of generated Python."""

import ast
import traceback

from fuser.base.generated import define
from tests.tree import source_files


def test_a_function_of_text() -> None:
    """It has its parameters, its defaults and what its scope names."""
    made = define("scaled", ["x", "by=factor"], ["y = x * by", "return y"], {"factor": 3})
    assert made(2) == 6
    assert made(2, 5) == 10


def test_blocks_are_indented_by_their_writer() -> None:
    """A line of a block keeps its own indent."""
    made = define("signed", ["x"], ["if x < 0:", "    return -1", "return 1"], {})
    assert [made(k) for k in (-2, 2)] == [-1, 1]


def test_a_traceback_shows_the_line() -> None:
    """The text is found by the function's globals, and nothing else keeps it."""
    made = define("divided", ["x"], ["y = 1 / x", "return y"], {})
    try:
        made(0)
    except ZeroDivisionError:
        shown = traceback.format_exc()
    assert "in divided" in shown
    assert "y = 1 / x" in shown


def test_no_other_file_runs_text() -> None:
    """Statements are run by this writer alone."""
    found = {
        module
        for module, path in source_files().items()
        if module.split(".")[1:2] not in (["suites"], ["reports"])
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Name)
        and node.func.id == "exec"
    }
    assert found == {"fuser.base.generated"}
