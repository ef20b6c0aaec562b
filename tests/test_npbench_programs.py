"""tools/npbench_programs.py: programs of a checkout of npbench, plain and fused."""

import json
import subprocess
import sys
from pathlib import Path

from tests.tree import ROOT

TOOL = ROOT / "tools" / "npbench_programs.py"
INFO = {"benchmark": {
    "module_name": "tiny", "relative_path": "small/tiny", "func_name": "kernel",
    "parameters": {"S": {"N": 50, "T": 3}},
    "init": {"func_name": "initialize", "input_args": ["N"], "output_args": ["x", "y"]},
    "input_args": ["T", "x", "y"],
}}  # fmt: skip
MAKER = """
import numpy as np

def initialize(N):
    return np.arange(N, dtype=np.float64), np.ones(N)
"""
PROGRAM = """
import numpy as np

def kernel(T, x, y):
    for _ in range(T):
        y[:] = np.sqrt(x * y + 1.0)
    return y.sum()
"""


def test_programs_are_timed_and_judged(tmp_path: Path) -> None:
    """Written arguments are judged, too; a program without a NumPy form says why it has no row."""
    place = tmp_path / "npbench" / "benchmarks" / "small" / "tiny"
    place.mkdir(parents=True)
    (tmp_path / "bench_info").mkdir()
    for name in ("tiny", "gone"):
        text = json.dumps(INFO).replace('"tiny"', f'"{name}"')
        (tmp_path / "bench_info" / f"{name}.json").write_text(text, encoding="utf-8")
    (place / "tiny.py").write_text(MAKER, encoding="utf-8")
    (place / "gone.py").write_text(MAKER, encoding="utf-8")
    (place / "tiny_numpy.py").write_text(PROGRAM, encoding="utf-8")
    rows = tmp_path / "rows.jsonl"
    ran = subprocess.run(
        [sys.executable, str(TOOL), str(tmp_path), "--output", str(rows)],
        capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert ran.returncode == 0, ran.stderr
    assert "2 programs, geometric means over NumPy" in ran.stdout
    gone, tiny = (json.loads(line) for line in rows.read_text(encoding="utf-8").splitlines())
    assert tiny["apart"] < 1e-12
    assert tiny["fused"] > 0
    assert "gone_numpy" in gone["failed"]
