"""tools/baseline.py: plans, texts and results of all programs, recorded and compared."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.tree import ROOT, tool

TOOL = ROOT / "tools" / "baseline.py"
ABOUT = {"commit": "c", "target": "avx2", "features": "f", "numpy": "2", "libc": "2"}
ENTRY = {"plan": "p", "kernels": 2, "bytes": 64, "texts": ["plain a", "stream b"], "gpu": "g",
         "results": ["r"]}  # fmt: skip
TESTS = """
import fuser, numpy as np

def test_a_program():
    rows = np.ones((6, 4), np.float32)
    fuser.fuse(lambda x, y: x[::2] * y + 3.0, fallback="error")(rows, np.ones(4, np.float32))
"""


def run(*arguments: str, hash_seed: str = "0") -> tuple[int, str]:
    """The tool's exit status, and what it printed."""
    done = subprocess.run(
        [sys.executable, str(TOOL), *arguments], capture_output=True, text=True, timeout=300,
        check=False, env={**os.environ, "PYTHONHASHSEED": hash_seed},
    )  # fmt: skip
    assert done.returncode in (0, 1), done.stderr
    return done.returncode, done.stdout


@pytest.mark.parametrize(
    ("changed", "expected"),
    [
        ({}, []),
        ({"plan": "q"}, ["plans changed"]),
        ({"kernels": 1, "bytes": 96}, ["fewer kernels", "more planned bytes"]),
        ({"texts": ["plain a", "stream c"]}, ["texts changed"]),
        ({"texts": ["a", "past b"]}, []),  # digests alone: older records have names before them
        ({"gpu": "h", "results": ["s"]}, ["GPU texts changed", "results changed"]),
        ({"error": "ValueError"}, ["errors that came"]),
    ],
)
def test_what_differs_is_named(changed: dict[str, Any], expected: list[str]) -> None:
    """Each kind of difference between two entries, and none where there is none."""
    assert list(tool("baseline").changes(ENTRY, {**ENTRY, **changed})) == expected


def test_differences_are_counted() -> None:
    """Counts first, then names; entries of one side alone; other NumPys give other bits."""
    old = {"about": ABOUT, "entries": {"one": ENTRY, "two": ENTRY, "gone": ENTRY}}
    new = {"about": ABOUT, "entries": {"one": ENTRY, "two": {**ENTRY, "texts": ["plain a"]}}}
    compare = tool("baseline").comparison
    lines, same = compare(old, new, {"two": "tests/test_x.py::test_y two"})
    assert not same
    assert "      1 texts gone" in lines
    assert "      1 only before" in lines
    assert "  tests/test_x.py::test_y two" in lines
    assert compare(old, old, {})[1]
    lines, same = compare({**old, "entries": {"one": ENTRY}}, old, {})
    assert same, "what was not recorded is no difference"
    assert "      2 only now" in lines
    other = {"about": {**ABOUT, "numpy": "3"}, "entries": {"one": {**ENTRY, "results": ["s"]}}}
    lines, same = compare({"about": ABOUT, "entries": {"one": ENTRY}}, other, {})
    assert same
    assert "results are not compared: numpy 2 and 3 (1 differ)" in lines
    with pytest.raises(ValueError, match="different processors"):
        compare(old, {"about": {**ABOUT, "target": "avx512"}, "entries": {}}, {})


def test_programs_are_gathered_recorded_and_compared(tmp_path: Path) -> None:
    """The same record under two hash seeds; a changed one is told, with the test's name."""
    (tmp_path / "test_it.py").write_text(TESTS, encoding="utf-8")
    folder, target = str(tmp_path / "kept"), tmp_path / "kept" / "plans-avx2.xz"
    run("gather", folder, "--tests", f"-n 0 {tmp_path / 'test_it.py'}")
    only = ("--only", "test_it|^axpy-float32-S", "--jobs", "1")
    run("record", folder, *only)
    first = target.read_bytes()
    run("record", folder, "--only", "^axpy-float32-S-fused", "--jobs", "1", hash_seed="7")
    assert target.read_bytes() == first, "a part that is recorded again leaves the rest"
    assert run("compare", folder, *only, hash_seed="7")[0] == 0
    record = json.loads(tool("baseline").read(target))
    program = next(entry for name, entry in record["entries"].items() if "axpy" not in name)
    assert program.keys() == ENTRY.keys()
    assert all("error" not in entry for entry in record["entries"].values())
    assert len(record["entries"]) == 3
    program["texts"][0] = "plain 00000000"
    tool("baseline").write(target, json.dumps(record))
    status, told = run("compare", folder, *only)
    assert status == 1
    assert "test_it.py::test_a_program" in told
    assert "      1 texts changed" in told


@pytest.mark.parametrize("dtype", ["bool", "uint8", "int64", "float16", "float32", "complex128"])
def test_arguments_have_the_layouts_of_the_calls(dtype: str) -> None:
    """Shapes and strides of any sign, and the same values each time."""
    laid_out, size = tool("baseline_programs")._laid_out, np.dtype(dtype).itemsize
    layouts = (((3, 4), (8, 2)), ((4,), (-3,)), ((2, 3), (0, 1)), ((0, 3), (3, 1)), ((), ()))
    for shape, steps in layouts:
        strides = tuple(step * size for step in steps)
        one, two = (
            laid_out(np.random.default_rng(7), np.dtype(dtype), shape, strides) for _ in range(2)
        )
        assert (one.shape, one.strides, one.dtype) == (shape, strides, dtype)
        np.testing.assert_array_equal(one, two)


def test_a_process_that_ends_is_an_entry(tmp_path: Path) -> None:
    """The program that ended it says so; the next one has a new process."""
    code = "import os\nprint('{}', flush=True)\nprint(input(), flush=True)\nos._exit(1)"

    def start() -> subprocess.Popen[str]:
        return subprocess.Popen(
            [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    worker = tool("baseline").Worker(start)
    assert worker.ask({"one": 1}) == {"one": 1}
    assert {**worker.ask({"two": 2})} in ({"error": "its process has ended"}, {"two": 2})
    worker.process.wait()
    assert worker.ask({"three": 3}) == {"three": 3}
    worker.stop()


def test_what_is_no_checkout_is_said(tmp_path: Path) -> None:
    """Nothing is recorded of a folder whose fuser is not the one that was imported."""
    module = tool("baseline")
    checkout = module.Checkout(tmp_path, str(tmp_path))
    checkout.environment["PYTHONPATH"] = str(ROOT)
    with pytest.raises(SystemExit, match="is it a checkout"):
        module.look(checkout, [], "avx2", 1)
