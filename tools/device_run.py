"""Runs on a machine with a CUDA device: is it right, and how quick; raw results into a folder.

Each command ends within eight minutes whatever happens; together they answer every question that
needs a device. On a bare machine with Python, NumPy, llvmlite, CuPy and pytest, from the checkout's
root (nothing is fetched, nothing but the checkout has to be carried):

    export PYTHONUNBUFFERED=1
    python3 tools/device_run.py "$OUT" --parts machine,smoke,variants,capture,overhead,tests
    python3 tools/device_run.py "$OUT" --parts machine,sanitizer,traffic
    python3 tools/device_run.py "$OUT" --parts machine,speeds,summary

Machine code is kept in `.device-cache` of the checkout, which git ignores: carry it from one
command to the next, and each compiles only what is new. What ran out of time counts as wrong.

Every part is on its own: what fails, or is not installed (torch, jax, ncu, compute-sanitizer …), is
written down with its error, and the next part runs. Results are one JSON object a line in
`device.jsonl`, written as they come; output of other programs is in `logs.txt`; at most five files
in one folder. The part `summary` makes `record.json` of the speeds, which is a run like any other:
`fuser-bench report folder/record.json --markdown page.md`, on any machine, has the best peer of
each cell and the share of a copy's speed. To keep them: copy the folder to `reports/recorded/`.

Without a device, the same over a double of CuPy, with small arrays and no clocks:
`python -m tests.backends.gpu.rehearsal folder`.
"""

from __future__ import annotations

import argparse
import csv
import json
import math
import os
import platform
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Callable
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(Path(__file__).resolve().parent), str(ROOT)]

from device_checks import CHECKS, variant_checks  # noqa: E402 - put on the path above
from device_ways import (  # noqa: E402
    COSTLY,
    HIDDEN,
    WORKLOADS,
    batch_times_ms,
    event_times_ms,
    fused,
    inputs,
    raw,
    ways,
)

from fuser.reports import record as saved  # noqa: E402

#: What the aims say: of other ways' time on small arrays; of planned bytes.
OF_RAW, OF_OTHERS, OF_PLANNED = 1.5, 0.5, 0.05
PACKAGES = ("numpy", "cupy-cuda13x", "cupy-cuda12x", "llvmlite", "torch", "jax", "ml-dtypes")
METRICS = ("dram__bytes_read.sum", "dram__bytes_write.sum")
#: What ncu counts beside the workloads, ten in all: rows that begin between vectors; longer ones.
TRAFFIC_TOO = (("softmax", 1003), ("softmax", 65_536), ("layer_norm", 50_257))
OURS = "fuser"
#: Names and kinds of ways in the record; the others are peers under their own names.
VARIANTS, KINDS = {OURS: "fused"}, {OURS: "fused", "eager": "eager"}
ABOUT = {"eager": "CuPy, one kernel an operation", "raw": "a kernel written by hand"}


class Record:
    """The results so far, on disk after every line."""

    def __init__(self, folder: Path, budget_s: float) -> None:
        """Begin a new file."""
        self.folder, self.end_s = folder, time.monotonic() + budget_s
        folder.mkdir(parents=True, exist_ok=True)
        self.path = folder / "device.jsonl"
        self.path.write_text("")

    def left_s(self) -> float:
        """Seconds of the budget that are left."""
        return self.end_s - time.monotonic()

    def add(self, part: str, **values: Any) -> None:
        """Write one line, and show it."""
        line = json.dumps({"part": part, **values}, default=str)
        with self.path.open("a") as file:
            file.write(line + "\n")
        print(line[:300], flush=True)

    def lines(self, part: str) -> list[dict[str, Any]]:
        """What one part has written."""
        found = [json.loads(line) for line in self.path.read_text().splitlines()]
        return [line for line in found if line["part"] == part]


def machine(record: Record) -> None:
    """What this is."""
    import cupy

    versions = {}
    for name in PACKAGES:
        try:
            versions[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            versions[name] = None
    tools = {name: shutil.which(name) for name in ("nvcc", "ncu", "compute-sanitizer")}
    record.add("machine", python=sys.version, platform=platform.platform(), versions=versions,
               tools=tools, attributes=dict(cupy.cuda.Device().attributes),
               device=_device_name())  # fmt: skip
    if program := shutil.which("nvidia-smi"):
        done = subprocess.run([program, "-q"], capture_output=True, text=True, timeout=30)
        (record.folder / "nvidia-smi.txt").write_text(done.stdout)


def _device_name() -> str:
    """What the driver calls the device."""
    import cupy

    try:
        return cupy.cuda.runtime.getDeviceProperties(0)["name"].decode()
    except Exception as error:  # noqa: BLE001 - a double of CuPy has none
        return f"unknown: {error}"


def smoke(record: Record) -> None:
    """Every workload once, small, against NumPy in double precision; random bits and complex."""
    import fuser

    for name, (formula, count, _, by_rows) in WORKLOADS.items():
        shape = (37, 1003) if by_rows else (37 * 1003,)
        arrays = inputs(shape, count)
        want = formula(np, *(array.get().astype(np.float64) for array in arrays))
        found = fused(name)(*arrays)
        error = float(np.max(np.abs(found.get() - want) / (np.abs(want) + 1e-3)))
        record.add("smoke", workload=name, relative_error=error, right=error < 1e-4)
    x = inputs((37, 1003), 1)[0]
    drop = fuser.fuse(lambda v: fuser.functional.dropout(v * 2, 0.25, seed=9), fallback="error")
    right = bool(np.array_equal(drop(x).get(), fuser.functional.dropout(x.get() * 2, 0.25, seed=9)))
    record.add("smoke", workload="dropout", right=right)
    ratio = fuser.fuse(lambda v: (v + 1j) / (v - 2j), fallback="error")
    wide = x.astype(np.complex64)
    want = (wide.get() + 1j) / (wide.get() - 2j)
    error = float(np.max(np.abs(ratio(wide).get() - want)))
    record.add("smoke", workload="complex", relative_error=error, right=error < 1e-5)
    for name, make in CHECKS.items():
        for call, right in enumerate(make()):  # later calls take shorter ways than the first
            record.add("smoke", workload=name, call=call, right=bool(right))


def variants(record: Record) -> None:
    """Every way to lay a nest over threads, in every dtype, three times: the same bits, near NumPy.

    Memory that the pool hands out is full of NaN before each call.
    """
    for name, dtype, found in variant_checks():
        record.add("variant", workload=name, dtype=dtype, **found)


def capture(record: Record) -> None:
    """Calls become a CUDA graph, which computes the same again from other values."""
    import cupy

    for name in ("axpy", "softmax", "total"):
        formula, count, _, by_rows = WORKLOADS[name]
        arrays = inputs((64, 1000) if by_rows else (64_000,), count)
        run = fused(name)
        run(*arrays)
        run(*arrays)
        stream = cupy.cuda.Stream(non_blocking=True)
        cupy.cuda.runtime.deviceSynchronize()
        with stream:
            stream.begin_capture()
            found = run(*arrays)
            graph = stream.end_capture()
            for array in arrays:
                array *= 0.5
            graph.launch(stream)
        stream.synchronize()
        want = formula(np, *(array.get().astype(np.float64) for array in arrays))
        error = float(np.max(np.abs(found.get() - want) / (np.abs(want) + 1e-3)))
        record.add("capture", workload=name, relative_error=error, right=error < 1e-4)


def tests(record: Record) -> None:
    """The shared suite and the device's own tests, in several processes where that can be."""
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider",
               "tests/backends/gpu/test_gpu_device.py",
               f"--junitxml={record.folder / 'tests.xml'}"]  # fmt: skip
    if find_spec("xdist"):
        command += ["-n", str(min(8, os.cpu_count() or 1))]
    _run(record, "tests", command, min(300.0, record.left_s() - 20))


def sanitizer(record: Record) -> None:
    """The small parts again under compute-sanitizer, our kernels alone, arrays in own memory."""
    program = shutil.which("compute-sanitizer")
    if program is None:
        record.add("sanitizer", skipped="no compute-sanitizer on the PATH")
        return
    told = subprocess.run([program, "--help"], capture_output=True, text=True, timeout=30).stdout
    option = next((name for name in ("--kernel-regex", "--kernel-name") if name in told), None)
    alone = [option, "kns=_narrow"] if option else []  # part of the names of our kernels
    for tool in ("memcheck", "racecheck", "synccheck", "initcheck"):
        with tempfile.TemporaryDirectory() as folder:
            command = [program, "--tool", tool, *alone, "--error-exitcode", "9", sys.executable,
                       __file__, folder, "--parts", "smoke,variants", "--no-pool"]  # fmt: skip
            _run(record, tool, command, min(150.0, record.left_s() - 20))


def _run(record: Record, name: str, command: list[str], limit_s: float) -> str:
    """A program, its output at the end of the log; its status is a line of the record."""
    if limit_s < 10:
        record.add(name, skipped="no time left")
        return ""
    with tempfile.TemporaryFile("w+", errors="replace") as file:
        try:
            status: Any = subprocess.run(
                command, cwd=ROOT, stdout=file, stderr=subprocess.STDOUT, timeout=limit_s
            ).returncode
        except subprocess.TimeoutExpired:
            status = "out of time"
        file.seek(0)
        text = file.read()
    with (record.folder / "logs.txt").open("a") as log:
        log.write(f"==== {name}: {' '.join(command)}\n{text[-200_000:]}\n")
    record.add(name, status=status, last_line=text.strip().splitlines()[-1:], right=status == 0)
    return text


def traffic(record: Record) -> None:
    """Bytes that ncu counts at the device's memory, beside the planned ones."""
    program = shutil.which("ncu")
    if program is None:
        record.add("traffic", skipped="no ncu on the PATH")
        return
    with tempfile.TemporaryDirectory() as folder:
        command = [program, "--clock-control", "none", "--csv", "--metrics", ",".join(METRICS),
                   "--kernel-name", "regex:_(narrow|wide)$", sys.executable, __file__, folder,
                   "--parts", "traffic-child"]  # fmt: skip
        text = _run(record, "ncu", command, min(300.0, record.left_s() - 20))
        child = Path(folder) / "device.jsonl"
        planned = [json.loads(line) for line in child.read_text().splitlines()]
    counted = counted_bytes(text)
    if not counted:  # counters need a permission that not every machine gives
        record.add("traffic", skipped="ncu counted nothing; logs.txt has what it said")
        return
    for entry in planned:
        if entry["part"] != "planned":
            continue
        found = sum(counted.get(name, 0.0) for name in entry["kernels"])
        ratio = found / entry["planned_bytes"]
        record.add("traffic", workload=entry["workload"], row=entry["row"],
                   planned_bytes=entry["planned_bytes"], counted_bytes=found, ratio=ratio,
                   holds=abs(ratio - 1) <= OF_PLANNED)  # fmt: skip


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


def traffic_child(record: Record, elements: int = 1 << 30) -> None:
    """What ncu watches: each workload once, so large that the cache's share is below a per cent."""
    import cupy

    counted = [(name, count, 4096 if by_rows else 0)
               for name, (_, count, _, by_rows) in WORKLOADS.items()]
    counted += [(name, 1, hidden) for name, hidden in TRAFFIC_TOO]
    for name, count, hidden in counted:
        arrays = inputs((elements // hidden, hidden) if hidden else (elements,), count)
        run = fused(name)
        run(*arrays)
        cupy.cuda.runtime.deviceSynchronize()
        # A kernel's name is that of its text, its loop nest and the variant that ran.
        kinds = ("", "split_", "held_", "long_")
        kernels = [f"{stem}_{k}_{kind}{width}" for stem in run.source(*arrays) for k in range(8)
                   for kind in kinds for width in ("narrow", "wide")]  # fmt: skip
        planned = run.explain(*arrays).ledger.planned_bytes
        record.add("planned", workload=name, row=hidden, planned_bytes=planned, kernels=kernels)
        del arrays
        cupy.get_default_memory_pool().free_all_blocks()


def speeds(record: Record, elements: int = 1 << 26) -> None:
    """Every workload at every width, every way; beside them a copy of as much memory."""
    import cupy

    source = inputs((elements,), 1)[0]
    target = cupy.empty_like(source)
    copies = event_times_ms(lambda: cupy.copyto(target, source), [[]], 1.0)
    ceiling = 2 * source.nbytes / 1e9 / (statistics.median(copies) / 1e3)
    record.add("copy", times_ms=copies, gigabytes_per_s=ceiling, moved_bytes=2 * source.nbytes)
    for costly in (False, True):  # what takes long to compile comes when all the rest is there
        _time_ways(record, elements, ceiling, costly)


def _time_ways(record: Record, elements: int, ceiling: float, costly: bool) -> None:
    """Every workload at every width, ours in turns with the ways that are costly to make or not."""
    import cupy

    for name, (formula, count, each, by_rows) in WORKLOADS.items():
        for hidden in HIDDEN if by_rows else (0,):
            shape = (max(1, elements // hidden), hidden) if hidden else (elements,)
            sets = [inputs(shape, count, seed) for seed in range(2)]
            cell = {"workload": name, "shape": shape, "costly": costly}
            runs: dict[str, Callable[..., Any]] = {}
            off: dict[str, float] = {}
            for way, make in ways(name):
                if way != OURS and (way in COSTLY) is not costly:
                    continue
                if record.left_s() < 30:
                    record.add("speed", **cell, way=way, skipped="no time left")
                    continue
                try:
                    run = make()
                    off[way] = _error(formula, run(*sets[0]), sets[0])
                except Exception as error:  # noqa: BLE001 - a peer may fail in any way of its own
                    record.add("speed", **cell, way=way, error=repr(error)[:500])
                else:
                    runs[way] = run
            for way, batches in (batch_times_ms(runs, sets, 0.3) if runs else {}).items():
                # An event on CuPy's stream says nothing of another library's streams.
                single = [] if way == "jax" else event_times_ms(runs[way], sets, 0.3)
                best = statistics.median(single or batches)
                speed = each * shape[0] * (hidden or 1) / 1e9 / (best / 1e3)
                record.add("speed", **cell, way=way, median_ms=best, gigabytes_per_s=speed,
                           of_copy=speed / ceiling, times_ms=single, batch_ms=batches,
                           relative_error=off[way], right=off[way] < 1e-3)  # fmt: skip
            del sets, runs
            cupy.get_default_memory_pool().free_all_blocks()


def _error(formula: Callable[..., Any], found: Any, arrays: list[Any]) -> float:
    """How far a result is off that of CuPy in double precision: the largest relative error."""
    import cupy

    found = found if isinstance(found, cupy.ndarray) else cupy.from_dlpack(found)
    want = formula(cupy, *(array.astype(np.float64) for array in arrays))
    return float((cupy.abs(found - want) / (cupy.abs(want) + 1e-3)).max())


def summary(record: Record) -> None:
    """The speeds as a run that `fuser-bench report` and the others read, on any machine."""
    lines, found = record.lines("speed"), dict[tuple[str, ...], list[dict[str, Any]]]()
    for line in lines:
        found.setdefault((line["workload"], *map(str, line["shape"])), []).append(line)
    copies = [each for each in record.lines("copy") if each["times_ms"]]
    about = next(iter(record.lines("machine")), {})
    made = saved.Record(
        run_id=f"device-{time.strftime('%Y%m%dT%H%M%SZ', time.gmtime())}",
        created_utc=time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()), finished=True,
        preset="device", command=[Path(sys.argv[0]).name, *sys.argv[1:]],
        machine=saved.Machine(
            platform.processor() or platform.machine(), os.cpu_count() or 1,
            os=f"{platform.system()} {platform.release()}", accelerator=about.get("device"),
        ),
        packages={name: v for name, v in about.get("versions", {}).items() if v},
        ceilings=[
            saved.Ceiling("copy", each["moved_bytes"], each["moved_bytes"], 1, 0,
                          [ms / 1e3 for ms in each["times_ms"]], "cupy")
            for each in copies
        ],
        variants=[
            saved.Variant(VARIANTS.get(way, way), KINDS.get(way, "peer"), ABOUT.get(way, ""))
            for way in dict.fromkeys(line["way"] for line in lines)
        ],
        cells=[_cell(key, some) for key, some in found.items()],
    )  # fmt: skip
    document = json.dumps(saved.to_document(made))
    (record.folder / "record.json").write_text(document)
    record.add("summary", cells=len(made.cells), variants=[each.name for each in made.variants])


def _cell(key: tuple[str, ...], lines: list[dict[str, Any]]) -> saved.Cell:
    """One workload at one shape; ours is timed twice where ways are costly to make."""
    workload, *shape = key
    _, count, each, _ = WORKLOADS[workload]
    elements = math.prod(map(int, shape))
    runs = []
    for way in dict.fromkeys(line["way"] for line in lines):
        own = [line for line in lines if line["way"] == way]
        timed = [
            (1000 * line["costly"] + k, ms / 1e3)
            for line in own for k, ms in enumerate(line.get("batch_ms", ()))
        ]  # fmt: skip
        reasons = [line.get("error") or line.get("skipped") or "" for line in own]
        blocks, seconds = [at for at, _ in timed], [each_s for _, each_s in timed]
        samples = saved.Samples([0] * len(timed), blocks, blocks, [1] * len(timed), seconds)
        status = "ok" if timed else "failed" if "error" in own[0] else "not_run"
        runs.append(saved.Run(VARIANTS.get(way, way), status, "; ".join(filter(None, reasons)),
                              samples=samples))  # fmt: skip
    return saved.Cell(
        f"{workload}-float32-{'x'.join(shape)}", workload, "device", "float32", "L", elements,
        input_bytes=4 * count * elements, output_bytes=max(4, (each - 4 * count) * elements),
        runs=runs,
    )  # fmt: skip


def overhead(record: Record, calls: int = 2000) -> None:
    """Host time of a call on small arrays: what a launch costs from Python, way by way."""
    import cupy

    arrays = inputs((1024,), 2)
    out = cupy.empty_like(arrays[0])
    options = [("fuser-out", lambda: lambda *given: fused("axpy")(*given, out=out)),
               ("raw-out", lambda: raw("axpy", out)), *ways("axpy")]  # fmt: skip
    found: dict[str, float] = {}
    for way, make in options:
        try:
            run = make()
            for _ in range(20):
                run(*arrays)
            samples = []
            for _ in range(10):
                cupy.cuda.runtime.deviceSynchronize()
                begin = time.perf_counter()
                for _ in range(calls // 10):
                    run(*arrays)
                samples.append((time.perf_counter() - begin) / (calls // 10) * 1e6)
            cupy.cuda.runtime.deviceSynchronize()
            found[way] = statistics.median(samples)
            record.add("overhead", way=way, us=found[way], samples_us=samples)
        except Exception as error:  # noqa: BLE001 - a peer may fail in any way of its own
            record.add("overhead", way=way, error=repr(error)[:500])
    limits = {"raw": OF_RAW, "raw-out": OF_RAW, "cupy.fuse": OF_OTHERS, "torch.compile": OF_OTHERS}
    for way, limit in limits.items():
        ours = "fuser-out" if way.endswith("-out") else "fuser"
        if way in found and ours in found:
            ratio = found[ours] / found[way]
            record.add("overhead-aim", way=way, ratio=ratio, limit=limit, holds=ratio <= limit)


PARTS: dict[str, Callable[[Record], None]] = {
    "machine": machine, "smoke": smoke, "variants": variants, "capture": capture,
    "overhead": overhead, "tests": tests,
    "sanitizer": sanitizer, "traffic": traffic, "traffic-child": traffic_child, "speeds": speeds,
    "summary": summary,
}  # fmt: skip


def main(arguments: list[str] | None = None) -> int:
    """Run the parts; 0 where all of them came to an end and what was computed is right."""
    parser = argparse.ArgumentParser(description="One run on a machine with a CUDA device.")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--parts", default="machine,smoke,variants,capture,overhead,tests")
    parser.add_argument("--budget-s", type=float, default=470.0)
    parser.add_argument("--cache", type=Path, default=ROOT / ".device-cache",
                        help="where machine code is kept between commands")  # fmt: skip
    parser.add_argument("--no-pool", action="store_true", help="memory straight from CUDA")
    options = parser.parse_args(arguments)
    record = Record(options.folder, options.budget_s)
    os.environ["XDG_CACHE_HOME"] = str(options.cache.absolute())
    if options.no_pool:  # a checker sees the end of each array only where it has its own memory
        import cupy

        cupy.cuda.set_allocator(None)
    failed = 0
    print(f"{options.parts}: at most {options.budget_s:.0f} s, until "
          f"{time.strftime('%H:%M:%S', time.localtime(time.time() + options.budget_s))}; "
          f"results so far are in {record.path}", flush=True)  # fmt: skip
    for name in options.parts.split(","):
        begin = time.monotonic()
        try:
            PARTS[name](record)
        except Exception:  # noqa: BLE001 - the next part may still tell something
            failed += 1
            record.add("failed", name=name, error=traceback.format_exc())
        record.add("took", name=name, elapsed_s=round(time.monotonic() - begin, 2))
        print(f"{name} is done, {record.left_s():.0f} s are left", flush=True)
    lines = [json.loads(line) for line in record.path.read_text().splitlines()]
    checked = [line for line in lines if "right" in line]
    wrong = [line for line in checked if not line["right"]]
    print(f"{len(checked) - len(wrong)} of {len(checked)} checks are right", *wrong, sep="\n")
    return 1 if failed or wrong else 0


if __name__ == "__main__":
    sys.exit(main())
