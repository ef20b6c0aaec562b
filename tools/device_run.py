"""One run on a machine with a CUDA device: is it right, and how quick; raw results into a folder.

    python tools/device_run.py results/ --budget-s 560

Needs Python, NumPy and CuPy, and this checkout on the path; torch is measured where it is there.
Every part is on its own: what fails is written down with its error, and the next part runs. Results
are one JSON object a line in `device.jsonl`, written as they come, beside the tests' own output.
Times are CUDA events around single calls, with as many sets of inputs as exceed the L2 cache.
"""

from __future__ import annotations

import argparse
import functools
import json
import platform
import shutil
import statistics
import subprocess
import sys
import time
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).resolve().parent.parent
Formula = Callable[..., Any]


def axpy(np_like: Any, x: Any, y: Any) -> Any:
    """Two reads, one write."""
    return 2.5 * x + y


def gelu(np_like: Any, x: Any) -> Any:
    """One read, one write, a costly function between."""
    return 0.5 * x * (1.0 + np_like.tanh(0.7978845608 * (x + 0.044715 * x * x * x)))


def softmax(np_like: Any, x: Any) -> Any:
    """Rows: kept between three passes."""
    e = np_like.exp(x - x.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)


def layer_norm(np_like: Any, x: Any) -> Any:
    """Rows: two reductions, one after the other."""
    centred = x - x.mean(axis=-1, keepdims=True)
    variance = (centred * centred).mean(axis=-1, keepdims=True)
    return centred / np_like.sqrt(variance + 1e-5)


def rms_norm(np_like: Any, x: Any) -> Any:
    """Rows: one reduction."""
    return x / np_like.sqrt((x * x).mean(axis=-1, keepdims=True) + 1e-5)


def total(np_like: Any, x: Any) -> Any:
    """Everything into one number."""
    return (x * x).sum()


def column_means(np_like: Any, x: Any) -> Any:
    """Down columns."""
    return x.mean(axis=0)


#: name -> formula, number of inputs, bytes moved for each element (float32), whether by rows
WORKLOADS: dict[str, tuple[Formula, int, int, bool]] = {
    "axpy": (axpy, 2, 12, False),
    "gelu": (gelu, 1, 8, False),
    "total": (total, 1, 4, False),
    "softmax": (softmax, 1, 8, True),
    "layer_norm": (layer_norm, 1, 8, True),
    "rms_norm": (rms_norm, 1, 8, True),
    "column_means": (column_means, 1, 4, True),
}
HIDDEN = (768, 4096, 16_384, 65_536)
_AXPY = r"""
extern "C" __global__ void axpy(const float4* x, const float4* y, float4* out, long long n) {
    for (long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x; i < n;
         i += (long long)gridDim.x * blockDim.x) {
        float4 a = x[i], b = y[i];
        b.x += 2.5f * a.x; b.y += 2.5f * a.y; b.z += 2.5f * a.z; b.w += 2.5f * a.w;
        out[i] = b;
    }
}"""


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


def machine(record: Record) -> None:
    """What this is."""
    import cupy

    record.add("machine", python=sys.version, platform=platform.platform(),
               numpy=np.__version__, cupy=cupy.__version__,
               attributes=dict(cupy.cuda.Device().attributes))  # fmt: skip
    if program := shutil.which("nvidia-smi"):
        done = subprocess.run([program, "-q"], capture_output=True, text=True, timeout=30)
        (record.folder / "nvidia-smi.txt").write_text(done.stdout)


def smoke(record: Record) -> None:
    """Every workload once, small, against NumPy in double precision."""
    for name, (formula, count, _, by_rows) in WORKLOADS.items():
        shape = (37, 1003) if by_rows else (37 * 1003,)
        arrays = _inputs(shape, count)
        want = formula(np, *(array.get().astype(np.float64) for array in arrays))
        found = _fused(name)(*arrays)
        error = float(np.max(np.abs(found.get() - want) / (np.abs(want) + 1e-3)))
        record.add("smoke", workload=name, relative_error=error, right=error < 1e-4)


def tests(record: Record) -> None:
    """The shared suite and the device's own tests."""
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider",
               "tests/backends/gpu/test_gpu_device.py",
               f"--junitxml={record.folder / 'tests.xml'}"]  # fmt: skip
    _run(record, "tests", command, min(240.0, record.left_s() / 2))


def sanitizer(record: Record) -> None:
    """The smoke part again under compute-sanitizer."""
    program = shutil.which("compute-sanitizer")
    if program is None:
        record.add("sanitizer", skipped="no compute-sanitizer on the PATH")
        return
    for tool in ("memcheck", "racecheck"):
        command = [program, "--tool", tool, "--error-exitcode", "9", sys.executable, __file__,
                   str(record.folder / tool), "--parts", "smoke"]  # fmt: skip
        _run(record, tool, command, min(60.0, record.left_s() / 3))


def _run(record: Record, name: str, command: list[str], limit_s: float) -> None:
    """A program with its output in a file."""
    log = record.folder / f"{name}.log"
    with log.open("w") as file:
        try:
            status = subprocess.run(
                command, cwd=ROOT, stdout=file, stderr=subprocess.STDOUT, timeout=limit_s
            ).returncode
        except subprocess.TimeoutExpired:
            status = None
    last = log.read_text(errors="replace").strip().splitlines()[-1:]
    record.add(name, status="out of time" if status is None else status, last_line=last)


def _inputs(shape: tuple[int, ...], count: int, seed: int = 0) -> list[Any]:
    """Random numbers on the device."""
    import cupy

    random = np.random.default_rng(seed)
    few = random.normal(size=min(int(np.prod(shape)), 1 << 22)).astype(np.float32)
    return [cupy.asarray(np.resize(few, shape)) for _ in range(count)]


@functools.cache
def _fused(name: str) -> Any:
    """A workload as a fused function."""
    import fuser

    formula = WORKLOADS[name][0]
    return fuser.fuse(functools.partial(formula, np), fallback="error")


def _ways(name: str) -> Iterator[tuple[str, Callable[[], Callable[..., Any]]]]:
    """Each way to run a workload, made only when it is its turn."""
    import cupy

    formula = WORKLOADS[name][0]
    yield "fuser", lambda: _fused(name)
    yield "eager", lambda: functools.partial(formula, cupy)
    if name in ("axpy", "gelu"):
        yield "cupy.fuse", lambda: cupy.fuse()(functools.partial(formula, cupy))
    if name == "axpy":
        yield "raw", lambda: _raw_axpy(cupy)
    yield "torch.compile", lambda: _torch(name)


def _raw_axpy(cupy: Any) -> Callable[..., Any]:
    """A kernel as one writes it by hand."""
    kernel = cupy.RawKernel(_AXPY, "axpy")
    blocks = 8 * cupy.cuda.Device().attributes["MultiProcessorCount"]

    def run(x: Any, y: Any) -> Any:
        out = cupy.empty_like(x)
        kernel((blocks,), (256,), (x, y, out, np.int64(x.size // 4)))
        return out

    return run


def _torch(name: str) -> Callable[..., Any]:
    """torch.compile on the same memory, through DLPack, on CuPy's stream."""
    import cupy
    import torch

    compiled = torch.compile(functools.partial(WORKLOADS[name][0], torch), dynamic=False)
    if name in ("softmax", "layer_norm", "rms_norm", "column_means"):
        compiled = torch.compile(_TORCH[name], dynamic=False)
    seen: dict[int, Any] = {}

    def run(*arrays: Any) -> Any:
        tensors = [seen.setdefault(a.data.ptr, torch.from_dlpack(a)) for a in arrays]
        stream = torch.cuda.ExternalStream(cupy.cuda.get_current_stream().ptr)
        with torch.no_grad(), torch.cuda.stream(stream):
            return compiled(*tensors)

    return run


def _torch_layer_norm(x: Any) -> Any:
    centred = x - x.mean(-1, keepdim=True)
    return centred / ((centred * centred).mean(-1, keepdim=True) + 1e-5).sqrt()


#: What torch's arrays spell otherwise.
_TORCH: dict[str, Callable[[Any], Any]] = {
    "softmax": lambda x: x.softmax(-1),
    "layer_norm": _torch_layer_norm,
    "rms_norm": lambda x: x / ((x * x).mean(-1, keepdim=True) + 1e-5).sqrt(),
    "column_means": lambda x: x.mean(0),
}


def _times_ms(run: Callable[..., Any], sets: list[list[Any]], limit_s: float) -> list[float]:
    """Milliseconds of single calls by events; inputs are rotated."""
    import cupy

    for arrays in sets[:2]:
        run(*arrays)
    cupy.cuda.runtime.deviceSynchronize()
    found: list[float] = []
    end = time.monotonic() + limit_s
    while len(found) < 100 and (len(found) < 10 or time.monotonic() < end):
        first, last = cupy.cuda.Event(), cupy.cuda.Event()
        first.record()
        run(*sets[len(found) % len(sets)])
        last.record()
        last.synchronize()
        found.append(float(cupy.cuda.get_elapsed_time(first, last)))
    return found


def speeds(record: Record, elements: int = 1 << 26) -> None:
    """Every workload at every width, every way; beside them a copy of as much memory."""
    import cupy

    source = _inputs((elements,), 1)[0]
    target = cupy.empty_like(source)
    copies = _times_ms(lambda: cupy.copyto(target, source), [[]], 1.0)
    gigabytes = 2 * source.nbytes / 1e9
    ceiling = gigabytes / (statistics.median(copies) / 1e3)
    record.add("copy", times_ms=copies, gigabytes_per_s=ceiling)
    for name, (_, count, each, by_rows) in WORKLOADS.items():
        for hidden in HIDDEN if by_rows else (0,):
            shape = (max(1, elements // hidden), hidden) if hidden else (elements,)
            sets = [_inputs(shape, count, seed) for seed in range(2)]
            for way, make in _ways(name):
                if record.left_s() < 40:
                    record.add("speed", workload=name, way=way, shape=shape, skipped="no time left")
                    continue
                try:
                    times = _times_ms(make(), sets, 0.5)
                except Exception as error:  # noqa: BLE001 - a peer may fail in any way of its own
                    record.add("speed", workload=name, way=way, shape=shape, error=repr(error))
                    continue
                speed = each * shape[0] * (hidden or 1) / 1e9 / (statistics.median(times) / 1e3)
                record.add("speed", workload=name, way=way, shape=shape, median_ms=statistics
                           .median(times), gigabytes_per_s=speed, of_copy=speed / ceiling,
                           times_ms=times)  # fmt: skip


def overhead(record: Record, calls: int = 2000) -> None:
    """Host time of a call on small arrays: what a launch costs from Python."""
    import cupy

    arrays = _inputs((1024,), 2)
    for way, make in _ways("axpy"):
        try:
            run = make()
            for _ in range(20):
                run(*arrays)
            samples = []
            for _ in range(5):
                cupy.cuda.runtime.deviceSynchronize()
                begin = time.perf_counter()
                for _ in range(calls // 5):
                    run(*arrays)
                samples.append((time.perf_counter() - begin) / (calls // 5) * 1e6)
            cupy.cuda.runtime.deviceSynchronize()
            record.add("overhead", way=way, us=statistics.median(samples), samples_us=samples)
        except Exception as error:  # noqa: BLE001 - a peer may fail in any way of its own
            record.add("overhead", way=way, error=repr(error))


PARTS: dict[str, Callable[[Record], None]] = {
    "machine": machine, "smoke": smoke, "tests": tests, "sanitizer": sanitizer,
    "overhead": overhead, "speeds": speeds,
}  # fmt: skip


def main(arguments: list[str] | None = None) -> int:
    """Run the parts; 0 where all of them came to an end and what was computed is right."""
    parser = argparse.ArgumentParser(description="One run on a machine with a CUDA device.")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--parts", default=",".join(PARTS))
    parser.add_argument("--budget-s", type=float, default=560.0)
    options = parser.parse_args(arguments)
    sys.path.insert(0, str(ROOT))
    record = Record(options.folder, options.budget_s)
    failed = 0
    for name in options.parts.split(","):
        begin = time.monotonic()
        try:
            PARTS[name](record)
        except Exception:  # noqa: BLE001 - the next part may still tell something
            failed += 1
            record.add("failed", name=name, error=traceback.format_exc())
        record.add("took", name=name, elapsed_s=round(time.monotonic() - begin, 2))
    lines = [json.loads(line) for line in record.path.read_text().splitlines()]
    wrong = [line for line in lines if line.get("right") is False]
    return 1 if failed or wrong else 0


if __name__ == "__main__":
    sys.exit(main())
