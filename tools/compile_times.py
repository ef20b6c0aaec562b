"""Compile times beside their aims: `python tools/compile_times.py [--runs N] [FILE]`.

Five figures, each from processes of its own that begin with nothing kept, medians of the runs:

1. gelu, cold: the first call in a process that has imported fuser and llvmlite, with no disk
   cache: tracing, planning, LLVM's start, machine code, and the result.
2. 400 operations, cold: the same for a chain that is 400 operations long.
3. From 64 to 4,096 operations: the exponent of the first call's time, fitted by least squares
   in logarithms; in one process, after a first call of something else.
4. A warm disk cache: `import fuser` and the first call of gelu in a process that has imported
   NumPy, with the machine code that an earlier process has kept.
5. The first `fuse` of a process that has imported fuser: it loads what first calls need, which is
   no part of 1 and 2, but of 4.

`--baseline DIR`: the same processes, and imports, take turns between this checkout and another one;
`python -m fuser.reports.side_by_side` makes a page of the record.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from math import log
from pathlib import Path
from statistics import linear_regression, median
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
LENGTHS = (64, 128, 256, 512, 1024, 2048, 4096)

#: What every process begins with; `clock` is its only clock.
HEAD = """
import json, sys
from time import perf_counter as clock
import numpy as np
sys.path.insert(0, {root!r})

def gelu(x, b):
    y = x + b
    return 0.5 * y * (1 + np.tanh(0.7978845608028654 * (y + 0.044715 * y * y * y)))

def chain(length):
    def function(x, y):
        for step in range(length // 2):
            x = (x * y) + y if step % 2 else (x * y) - y
        return x
    return function

x = np.linspace(-1, 1, 1024, dtype=np.float32)
"""
COLD = HEAD + """
import llvmlite.binding, fuser
fusing = clock()
function = fuser.fuse({function}, fallback="error")
start = clock()
function(x, x)
print(json.dumps([clock() - start, start - fusing]))
"""
GROWING = HEAD + """
import llvmlite.binding, fuser
fuser.fuse(gelu)(x, x)
found = []
for length in {lengths}:
    function = fuser.fuse(chain(length), fallback="error")
    start = clock()
    function(x, x)
    found.append(clock() - start)
print(json.dumps(found))
"""
WARM = HEAD + """
start = clock()
import fuser
fuser.fuse(gelu, fallback="error")(x, x)
print(json.dumps([clock() - start]))
"""
IMPORT = HEAD + """
start = clock()
import fuser
print(json.dumps([clock() - start]))
"""
#: What the machine's speed is judged by.
NUMPY = """
import json
from time import perf_counter as clock
start = clock()
import numpy
print(json.dumps([clock() - start]))
"""


@dataclass(frozen=True)
class Figure:
    """One measured figure and its aim: the most that it may be."""

    name: str
    value: float
    aim: float
    unit: str

    def __str__(self) -> str:
        """A line of the table."""
        verdict = "reached" if self.value <= self.aim else "MISSED"
        return f"{self.name:<42} {self.value:8.3f} {self.unit:<9} {self.aim:8.3f}  {verdict}"


def times_s(code: str, cache: str, folder: str) -> list[float]:
    """What a new process prints: times in seconds.

    Args:
        code: the process's program.
        cache: "on" or "off": the disk cache.
        folder: where the disk cache is.
    """
    # Modules are read as bytecode, as they are where the package is installed.
    environment = {
        **os.environ,
        "FUSER_CACHE": cache,
        "XDG_CACHE_HOME": folder,
        "PYTHONPYCACHEPREFIX": folder,
        "PYTHONDONTWRITEBYTECODE": "",
    }
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment, check=True, capture_output=True, text=True
    )
    found: list[float] = json.loads(done.stdout)
    return found


def exponent(lengths: Sequence[int], spent_s: Sequence[float]) -> float:
    """The slope of log(time) over log(length), by least squares."""
    return linear_regression([log(n) for n in lengths], [log(s) for s in spent_s]).slope


def measure(runs: int, lengths: Sequence[int] = LENGTHS) -> list[Figure]:
    """Measure all figures.

    Args:
        runs: processes for each; their median counts.
        lengths: of the chains that the exponent is fitted to.
    """
    head = {"root": str(ROOT)}
    with tempfile.TemporaryDirectory(prefix="fuser-compile-times-") as folder:
        for code in (COLD.format(**head, function="gelu"), WARM.format(**head)):
            times_s(code, "on", folder)  # fills the cache; bytecode of all that is imported
        gelu, chained = (
            [times_s(COLD.format(**head, function=name), "off", folder) for _ in range(runs)]
            for name in ("gelu", "chain(400)")
        )
        code = GROWING.format(**head, lengths=tuple(lengths))
        grown = [times_s(code, "off", folder) for _ in range(max(1, runs // 2))]
        fitted = exponent(lengths, [median(column) for column in zip(*grown, strict=True)])
        code = WARM.format(**head)
        warm_s = median(times_s(code, "on", folder)[0] for _ in range(runs))
    return [
        Figure("gelu, cold", median(call for call, _ in gelu) * 1e3, 30, "ms"),
        Figure("400 operations, cold", median(call for call, _ in chained), 0.2, "s"),
        Figure(f"{lengths[0]} to {lengths[-1]} operations", fitted, 1.2, "exponent"),
        Figure("import and gelu from a warm disk cache", warm_s * 1e3, 100, "ms"),
        Figure("the first fuse() of a process", median(first for _, first in gelu) * 1e3, 30, "ms"),
    ]


def beside(
    baseline: Path, runs: int, longest: int = LENGTHS[-1]
) -> dict[str, dict[str, list[float]]]:
    """Seconds of two checkouts' processes in turns: ours `new`, the other's `old`."""
    from fuser.reports import side_by_side

    figures: dict[str, tuple[str, dict[str, Any], str, int]] = {
        "import": (IMPORT, {}, "on", 0), "gelu, cold": (COLD, {"function": "gelu"}, "off", 0),
        "the first fuse() of a process": (COLD, {"function": "gelu"}, "off", 1),
        "400 operations, cold": (COLD, {"function": "chain(400)"}, "off", 0),
        f"{longest} operations": (GROWING, {"lengths": (longest,)}, "off", 0),
        "import and gelu from a warm disk cache": (WARM, {}, "on", 0),
    }  # fmt: skip
    found: dict[str, dict[str, list[float]]] = {name: {"new": [], "old": []} for name in figures}
    with tempfile.TemporaryDirectory(prefix="fuser-compile-times-") as folder:
        roots = {"new": ROOT, "old": baseline.resolve()}
        for run in range(-1, runs):  # the first fills the caches
            for name, (code, further, cache, which) in figures.items():
                for side in side_by_side.turns(run):
                    spelled = code.format(root=str(roots[side]), **further)
                    taken_s = times_s(spelled, cache, f"{folder}/{side}")[which]
                    found[name][side] += [taken_s] if run >= 0 else []
    return found


def keep(record: Path, figures: Sequence[Figure], numpy_s: float) -> None:
    """Write the figures and what they were measured on."""
    from fuser.suites.probes import machine

    found = {
        **machine.describe_run(), "import_numpy_s": numpy_s,
        "figures": [asdict(figure) for figure in figures],
    }  # fmt: skip
    record.write_text(json.dumps(found, indent=1) + "\n")


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the figures beside their aims; 1 if one is missed."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--runs", type=int, default=7, help="processes for each figure")
    parser.add_argument("record", nargs="?", type=Path, help="keeps the figures, as JSON")
    parser.add_argument("--baseline", type=Path, help="a checkout that is timed beside this one")
    options = parser.parse_args(arguments)
    sys.path.insert(0, str(ROOT))  # processes that measure load nothing of it beside their own
    if options.baseline:
        return _beside(options)
    figures = measure(options.runs)
    with tempfile.TemporaryDirectory() as folder:
        numpy_s = median(times_s(NUMPY, "off", folder)[0] for _ in range(options.runs))
    print(f"import numpy takes {numpy_s * 1e3:.0f} ms here; the aims are for about 100\n")
    print(f"{'':<42} {'measured':>8} {'':<9} {'at most':>8}")
    for figure in figures:
        print(figure)
    if options.record:
        keep(options.record, figures, numpy_s)
    return 0 if all(figure.value <= figure.aim for figure in figures) else 1


def _beside(options: argparse.Namespace) -> int:
    """Print and keep the times of two checkouts."""
    from fuser.reports import side_by_side
    from fuser.suites.probes import machine

    found = machine.describe_run(options.baseline)
    found |= {"table": "compile", "beside": beside(options.baseline, options.runs)}
    print(side_by_side.page([found]))
    if options.record:
        options.record.write_text(json.dumps(found, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
