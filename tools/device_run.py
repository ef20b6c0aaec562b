"""Runs on a machine with a CUDA device: is it right, and how quick; raw results into a folder.

Three commands of at most eight minutes answer every question that needs a device. On a machine with
CuPy, from the checkout's root, with the project installed (`pip install -e '.[bench,dev]'`):

    python tools/device_run.py FOLDER --parts machine,tests
    python tools/device_run.py FOLDER --parts memcheck,racecheck,synccheck,initcheck,traffic
    python tools/device_run.py FOLDER --parts events,small,speeds

Each part is one of the project's own commands, with a limit of time. What fails, or runs out of
time, counts as wrong, and the next part runs; what is not installed is said. Results are lines of
JSON in `device.jsonl`, output is in `logs.txt`; the run of `speeds` is in the folder too, for
`fuser-bench report` on any machine. Machine code is kept in `.device-cache` of the checkout, which
git ignores: carry it from one command to the next, and each compiles only what is new.

    python tools/device_run.py FOLDER --rehearse

does the same over the double of CuPy, without a device: every way to lay a nest over threads in
every dtype, small arrays, no checkers. It takes 80 s of processor time, and 30 minutes at most.
"""

from __future__ import annotations

import argparse
import csv
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).resolve().parent.parent
TESTS = "tests/backends/gpu/test_gpu_device.py"
#: Tests of every way to lay a nest over threads, in every dtype.
WAYS = "test_calls_in_dirty_memory_have_the_same_bits"
#: Tests that a rehearsal runs.
REHEARSED = WAYS
#: Seconds of a run, and of a rehearsal, whose kernels run on a host that others may use.
BUDGET_S, REHEARSAL_S = 470.0, 1800.0
CHECKERS = ("memcheck", "racecheck", "synccheck", "initcheck")
#: Part of the names of our kernels.
OURS = "_narrow"
METRICS = ("dram__bytes_read.sum", "dram__bytes_write.sum")
OF_PLANNED = 0.05
#: What ncu counts: workloads and lengths of rows; of some, rows begin between vectors.
COUNTED = (
    ("axpy", 0), ("gelu_bias", 0), ("sum_of_squares", 0), ("softmax", 4096), ("layer_norm", 4096),
    ("rms_norm", 4096), ("column_mean", 4096), ("softmax", 1003), ("softmax", 65_536),
    ("layer_norm", 50_257),
)  # fmt: skip
#: Samples between events, and calls in each.
TIMED, TOGETHER = 15, 20
#: What would have less time is not begun.
LEAST_S = 20.0


class Run:
    """The results so far, on disk after every line, and the time that is left."""

    def __init__(self, folder: Path, budget_s: float, rehearse: bool) -> None:
        """Go on in a folder that may have results of other parts."""
        self.folder, self.rehearse = folder, rehearse
        self.end_s = time.monotonic() + budget_s
        self.wrong = 0
        folder.mkdir(parents=True, exist_ok=True)
        path = [str(ROOT / "tests/backends/gpu/double")] if rehearse else []
        path.append(str(ROOT))
        sys.path[:0] = path
        self.environment = os.environ | {
            "PYTHONPATH": os.pathsep.join([*path, os.environ.get("PYTHONPATH", "")]),
            "XDG_CACHE_HOME": str(ROOT / ".device-cache"), "PYTHONUNBUFFERED": "1",
        }  # fmt: skip

    def add(self, part: str, **values: Any) -> None:
        """Write one line, and show it."""
        self.wrong += values.get("right") is False
        line = json.dumps({"part": part, **values})
        with (self.folder / "device.jsonl").open("a") as file:
            file.write(line + "\n")
        print(line[:300], flush=True)

    def call(self, part: str, command: list[str], limit_s: float = 300.0) -> str:
        """Run a program; its output is in the log, and whether it went well is a line."""
        limit_s = min(limit_s, self.end_s - time.monotonic() - LEAST_S)
        if limit_s < LEAST_S:
            self.add(part, skipped="no time is left", right=False)
            return ""
        print(f"{part}: at most {limit_s:.0f} s: {' '.join(command)}", flush=True)
        begin_s = time.monotonic()
        with tempfile.TemporaryFile("w+", errors="replace") as file:
            try:
                status: Any = subprocess.run(
                    command, cwd=ROOT, env=self.environment, stdout=file,
                    stderr=subprocess.STDOUT, timeout=limit_s, check=False,
                ).returncode  # fmt: skip
            except subprocess.TimeoutExpired:
                status = "out of time"
            file.seek(0)
            text = file.read()
        with (self.folder / "logs.txt").open("a") as log:
            log.write(f"==== {part}: {' '.join(command)}\n{text[-200_000:]}\n")
        self.add(part, status=status, last_line=text.strip().splitlines()[-1:],
                 elapsed_s=round(time.monotonic() - begin_s, 1), right=status == 0)  # fmt: skip
        return text

    def pytest(self, part: str, *options: str, before: tuple[str, ...] = ()) -> None:
        """Run the device's tests, or some of them."""
        fewer = ["-k", REHEARSED] if self.rehearse else []
        command = [*before, sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", TESTS]
        self.call(part, [*command, *options, *fewer], REHEARSAL_S if self.rehearse else 300.0)


def machine(run: Run) -> None:
    """What this is."""
    run.call("machine", [sys.executable, "-m", "fuser.suites.commands.command", "doctor"], 120)
    if program := shutil.which("nvidia-smi"):
        run.call("nvidia-smi", [program, "-q"], 60)


def tests(run: Run) -> None:
    """Everything that the tests ask of a device: values, bits, memory, streams, CUDA graphs."""
    run.pytest("tests", f"--junitxml={run.folder.absolute() / 'tests.xml'}")


def checked(tool: str, run: Run) -> None:
    """Every way and dtype under a checker, our kernels alone, each array in memory of its own."""
    program = shutil.which("compute-sanitizer")
    if program is None:
        run.add(tool, skipped="no compute-sanitizer on the PATH")
        return
    before = (program, "--tool", tool, "--kernel-regex", f"kns={OURS}", "--error-exitcode", "9")
    run.pytest(tool, "-k", WAYS, "-p", "tests.backends.gpu.own_memory", before=before)


def traffic(run: Run) -> None:
    """Bytes that ncu counts at the device's memory, beside those of the plans."""
    program = shutil.which("ncu")
    if program is None:
        run.add("traffic", skipped="no ncu on the PATH")
        return
    with tempfile.TemporaryDirectory() as folder:
        found = counted_bytes(run.call("ncu", [
            program, "--clock-control", "none", "--csv", "--metrics", ",".join(METRICS),
            "--kernel-name", "regex:_(narrow|wide)$", sys.executable, __file__, folder,
            "--parts", "planned",
        ]))  # fmt: skip
        lines = (Path(folder) / "device.jsonl").read_text().splitlines()
    if not found:  # counters need a permission that not every machine gives
        run.add("traffic", skipped="ncu counted nothing; logs.txt has what it said")
        return
    for line in lines:
        plan = json.loads(line) | {"part": "traffic"}
        ratio = sum(found.get(name, 0.0) for name in plan.pop("kernels")) / plan["planned_bytes"]
        run.add(**plan, counted_to_planned=ratio, right=abs(ratio - 1) <= OF_PLANNED)


def _counted(run: Run, bits: int) -> Iterator[tuple[str, int, Any, list[Any]]]:
    """Workloads that ncu counts: name, length of rows, our function, arrays of 2**bits elements."""
    import cupy

    import fuser
    from fuser.suites.registry import workloads

    for name, hidden in COUNTED:
        axes = {"hidden": hidden} if hidden else {}
        arrays = workloads()[name].inputs(1 << (13 if run.rehearse else bits), "float32", 0, axes)
        given = [cupy.asarray(each) if hasattr(each, "shape") else each for each in arrays]
        yield name, hidden, fuser.fuse(workloads()[name].function, fallback="error"), given


def events(run: Run) -> None:
    """Milliseconds between events on the stream around some calls: the host's time is not in them.

    The first call compiles, and its result is held against the formula in double precision.
    """
    import cupy

    for name, hidden, fused, given in _counted(run, 26):
        wide = [each.astype(np.float64) if hasattr(each, "astype") else each for each in given]
        right = bool(cupy.allclose(fused(*given), fused.__wrapped__(*wide), rtol=1e-3, atol=1e-4))
        times_ms = []
        for _ in range(TIMED):
            first, last = cupy.cuda.Event(), cupy.cuda.Event()
            first.record()
            for _ in range(TOGETHER):
                fused(*given)
            last.record()
            last.synchronize()
            times_ms.append(cupy.cuda.get_elapsed_time(first, last) / TOGETHER)
        planned_bytes = fused.explain(*given).ledger.planned_bytes
        speed = planned_bytes / 1e6 / statistics.median(times_ms)
        run.add("events", workload=name, row=hidden, times_ms=times_ms, right=right,
                planned_gigabytes_per_s=speed)  # fmt: skip


def planned(run: Run) -> None:
    """What ncu watches: each workload once, so large that a cache's share is some per cent."""
    import cupy

    for name, hidden, fused, given in _counted(run, 28):
        fused(*given)
        cupy.cuda.runtime.deviceSynchronize()
        # A kernel's name is that of its text, its loop nest and the variant that ran.
        kernels = [f"{stem}_{k}_{kind}{width}" for stem in fused.source(*given) for k in range(8)
                   for kind in ("", "split_", "held_", "long_")
                   for width in ("narrow", "wide")]  # fmt: skip
        run.add("planned", workload=name, row=hidden, kernels=kernels,
                planned_bytes=fused.explain(*given).ledger.planned_bytes)  # fmt: skip


def counted_bytes(text: str) -> dict[str, float]:
    """Bytes by kernel from ncu's table: of all launches of a name, which may be phases of one.

    Args:
        text: ncu's output, other lines before its CSV.
    """
    lines = text.splitlines()
    first = next((k for k, line in enumerate(lines) if line.startswith('"ID"')), len(lines))
    scale = {"byte": 1.0, "Kbyte": 1e3, "Mbyte": 1e6, "Gbyte": 1e9}
    found: dict[str, float] = {}
    for row in csv.DictReader(lines[first:]):
        metric, name = row.get("Metric Name"), row.get("Kernel Name")
        if metric not in METRICS or not name:
            continue
        value = float(str(row["Metric Value"]).replace(",", ""))
        stem = name.partition("(")[0]
        found[stem] = found.get(stem, 0.0) + value * scale[str(row["Metric Unit"])]
    return found


def speeds(run: Run) -> None:
    """The preset's workloads beside CuPy, its fuser, JAX and a copy; each result is verified."""
    _measure("speeds", run, [])


def small(run: Run) -> None:
    """What a call costs on arrays so small that launching is all of it."""
    _measure("small", run, ["axpy", "gelu_bias", "--sizes", "1024", "--budget-s", "60"])


def _measure(part: str, run: Run, given: list[str]) -> None:
    """Run the preset of devices, or some of its workloads; over the double it has few peers."""
    if run.rehearse:
        given = ["axpy", "--sizes", "1024", "--dtypes", "float32", "--budget-s", "60",
                 "--variants", "eager,cupy_fused,cupy", "--no-report"]  # fmt: skip
    command = [sys.executable, "-m", "fuser.suites.commands.command", "run", "--preset", "device"]
    run.call(part, [*command, *given, "--output", str(run.folder / part)], 450)


PARTS: dict[str, Callable[[Run], None]] = {
    "machine": machine, "tests": tests, **{each: partial(checked, each) for each in CHECKERS},
    "traffic": traffic, "planned": planned, "events": events, "small": small, "speeds": speeds,
}  # fmt: skip


def main(arguments: list[str] | None = None) -> int:
    """Run the parts; 0 where all of them ended in time and found everything right."""
    parser = argparse.ArgumentParser(description="One run on a machine with a CUDA device.")
    parser.add_argument("folder", type=Path)
    every = [each for each in PARTS if each != "planned"]  # it is a part of `traffic`
    parser.add_argument("--parts", default=",".join(every), help=", ".join(PARTS))
    parser.add_argument("--budget-s", type=float)
    parser.add_argument("--rehearse", action="store_true", help="over a double of CuPy")
    options = parser.parse_args(arguments)
    budget_s = options.budget_s or (REHEARSAL_S if options.rehearse else BUDGET_S)
    run = Run(options.folder, budget_s, options.rehearse)
    for name in options.parts.split(","):
        PARTS[name](run)
    print(f"{run.wrong} parts or figures are wrong; {run.folder / 'device.jsonl'} has them all")
    return 1 if run.wrong else 0


if __name__ == "__main__":
    sys.exit(main())
