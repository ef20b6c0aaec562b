"""Records with known true ratios: what the engine would write had a machine behaved like this.

No number here was measured. Times follow a call overhead plus bytes over bandwidth, times noise
with a share between processes and a share between blocks.
"""

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from fuser.reports.record import (
    Anatomy,
    Arithmetic,
    Boundary,
    Ceiling,
    Cell,
    FirstCall,
    Ledger,
    Machine,
    MachineLoad,
    Record,
    Run,
    Samples,
    SizeName,
    Status,
    Variant,
)

BANDWIDTH = {"cache": 60e9, "memory": 12e9}
LAST_CACHE = 32 << 20
TRACE = [
    {"name": name, "cat": "fuser", "ph": "X", "ts": 5e9 + start, "dur": length, "pid": 1, "tid": 1}
    for name, start, length in (
        ("trace", 0, 800), ("schedule", 900, 300), ("emit", 1400, 500), ("parse", 2100, 600),
        ("llvm", 2800, 5900), ("compile", 2000, 7000), ("bind", 1300, 7800), ("launch", 9200, 40),
        ("launch", 9300, 20),
    )
]
STAGES = {"trace": 0.06, "rewrite": 0.08, "schedule": 0.05, "emit": 0.11, "llvm": 0.6, "load": 0.1}


@dataclass(frozen=True)
class Workload:
    """What a synthetic workload costs."""

    name: str
    family: str
    operations: int
    inputs: int
    formula: str
    must_refuse: bool = False


WORKLOADS = (
    Workload("add", "elementwise chain", 1, 2, "a + b"),
    Workload("axpy", "elementwise chain", 2, 2, "2.5 * x + y"),
    Workload("polynomial", "elementwise chain", 6, 1, "((0.25*x + 0.75)*x - 1.5)*x - 2"),
    Workload("gelu_bias", "elementwise chain", 10, 2, "0.5*u*(1 + tanh(0.797*(u + 0.0447*u**3)))"),
    Workload("silu_mul", "elementwise chain", 5, 2, "x / (1 + exp(-x)) * z"),
    Workload("distance", "elementwise chain", 8, 3, "a**2 + b**2 - 2*a*b*cos(c)"),
    Workload("black_scholes", "transcendental", 65, 3, "call and put of five-term normal"),
    Workload("cos_sin_chain", "transcendental", 44, 1, "repeat x = cos(x) + sin(x), 22 times"),
    Workload("where_clip", "comparisons", 4, 2, "where(x > y, clip(x, 0, 1), y)"),
    Workload("scale_bias_relu", "broadcast and bias", 3, 1, "maximum(x*s + b, 0)"),
    Workload("laplacian_2d", "stencils", 5, 1, "five-point Laplacian by shifted slices"),
    Workload("hill_shading", "real data", 18, 1, "shade of the elevation model"),
    Workload("tone_mapping", "real data", 7, 1, "Reinhard curve on the photograph"),
    Workload("sort_rows", "must refuse", 2, 1, "sort(x, axis=-1) * 2", must_refuse=True),
)

VARIANTS = (
    Variant("eager", "eager", "plain NumPy"),
    Variant("fallback", "fallback", "the fuser running NumPy operation by operation"),
    Variant("unfused", "unfused", "our compiler, one kernel per operation"),
    Variant("fused", "fused", "one kernel per group"),
    Variant("eager_again", "aa", "the second half of the A/A pair"),
    Variant("numexpr", "peer", "numexpr", absent_reason="not installed: pip install numexpr"),
)


def true_seconds(workload: Workload, elements: int, kind: str) -> float:
    """Seconds of one call on the imagined machine."""
    bytes_moved = 4 * elements * _words(workload, kind)
    working_set = 4 * elements * (workload.inputs + 1)
    speed = BANDWIDTH["cache" if working_set <= LAST_CACHE else "memory"]
    launch = {"eager": 0.6e-6, "aa": 0.6e-6, "fallback": 0.9e-6, "unfused": 0.1e-6}.get(kind)
    overhead = 0.12e-6 if launch is None else launch * workload.operations
    overhead += 3e-6 if kind == "fallback" else 0.0
    return overhead + bytes_moved / (speed * (0.8 if kind in ("eager", "aa", "fallback") else 0.9))


def _words(workload: Workload, kind: str) -> float:
    """Array elements moved for each element of the largest input."""
    return workload.inputs + 1 if kind == "fused" else 2.5 * workload.operations + 0.5


def samples(
    seconds: float, generator: np.random.Generator, processes: int, blocks: int, noise: float
) -> Samples:
    """Draw samples around a true time: `noise` is the relative spread between processes."""
    calls = max(1, math.ceil(2e-4 / seconds))
    per_process = np.repeat(generator.normal(0, noise, processes), blocks)
    drawn = seconds * np.exp(per_process + generator.normal(0, noise, processes * blocks))
    return Samples(
        process=np.repeat(np.arange(processes), blocks).tolist(),
        block=np.tile(np.arange(blocks), processes).tolist(),
        order=generator.permutation(processes * blocks).tolist(),
        calls=[calls] * (processes * blocks),
        seconds=(drawn * calls).tolist(),
    )


def _status(workload: Workload, size: SizeName, kind: str) -> tuple[Status, str, bool]:
    """Most rows are fine; a few show what can go wrong."""
    if kind == "fallback":
        return "fell_back", "mode is fallback", True
    if workload.must_refuse and kind in ("fused", "unfused"):
        return "fell_back", "sort: not elementwise; it runs in NumPy", True
    if (workload.name, size, kind) == ("tone_mapping", "L", "fused"):
        return "fell_back", "power: float32 with an array exponent has no cpu form", False
    if (workload.name, size, kind) == ("where_clip", "S", "fused"):
        return "compiled_inside", "block 3: guard on the memory order of y missed", False
    if (workload.name, size, kind) == ("distance", "L", "unfused"):
        return "wrong", "max error 812 ulp at index 40,961; tolerance 12 ulp", False
    if kind == "peer":
        return "absent", "not installed: pip install numexpr", False
    return "ok", "", False


def cell(
    workload: Workload,
    elements: int,
    size: SizeName,
    generator: np.random.Generator,
    processes: int = 3,
    blocks: int = 8,
    noise: float = 0.006,
) -> Cell:
    """Make one cell with a run of each variant."""
    least = 4 * elements * (workload.inputs + 1)
    unfused = int(4 * elements * _words(workload, "unfused"))
    crossing = boundaries(workload, elements)
    planned = least + sum(each.moved_bytes for each in crossing)
    runs = []
    for variant in VARIANTS:
        status, reason, expected = _status(workload, size, variant.kind)
        timed_kind = "fallback" if status == "fell_back" else variant.kind
        seconds = true_seconds(workload, elements, timed_kind)
        timed = status in ("ok", "fell_back", "compiled_inside")
        compiled = variant.kind in ("fused", "unfused") and status in ("ok", "compiled_inside")
        scale = 0.0025 * (1 + workload.operations * (0.08 if variant.kind == "fused" else 0.5))
        stages = {name: [share * scale] * processes for name, share in STAGES.items()}
        runs.append(
            Run(
                variant.name,
                status,
                reason,
                expected,
                samples(seconds, generator, processes, blocks, noise) if timed else Samples(),
                [seconds + sum(STAGES.values()) * scale * 1.04] * processes if compiled else [],
                stages if compiled else {},
                max_error_ulp=(0.5 + 0.4 * workload.operations**0.5) if timed else None,
                tolerance=(4 + workload.operations) * 2.0**-23 if timed else None,
                checked_calls=3 if timed else 0,
                fallback_reasons=[reason] if status == "fell_back" else [],
                kernels=(1 if variant.kind == "fused" else workload.operations)
                if compiled
                else None,
                planned_bytes=(planned if variant.kind == "fused" else unfused)
                if compiled
                else None,
                peak_bytes=int(4 * elements * (1 if variant.kind == "fused" else 3))
                if timed and variant.kind != "peer"
                else None,
                texts={"plan": f"plan-{workload.name}", "source": "source"}
                if variant.kind == "fused" and compiled
                else {},
            )
        )
    return Cell(
        id=f"{workload.name}-float32-{elements}",
        workload=workload.name,
        family=workload.family,
        dtype="float32",
        size=size,
        elements=elements,
        formula=workload.formula,
        title=workload.formula,
        must_refuse=workload.must_refuse,
        synthetic=workload.family != "real data",
        note="tiled to beyond the cache" if workload.family == "real data" else "",
        input_bytes=4 * elements * workload.inputs,
        output_bytes=4 * elements,
        ledger=Ledger(None, None, least, None, None)
        if workload.must_refuse
        else Ledger(
            unfused, planned, least, 1 + sum(each.kind == "stored" for each in crossing),
            workload.operations,
            workload.operations * elements, elements, crossing,
        ),
        load=[
            MachineLoad(process, 0.5, 0.01, 0.001, [0.4, 0.3], [3.0e9, 3.0e9], 0)
            for process in range(processes)
        ],
        runs=runs,
    )


def boundaries(workload: Workload, elements: int) -> list[Boundary]:
    """What crosses kernels: nothing, but for two workloads."""
    stored = Boundary(
        "t0", "exp#3 (model.py:12)", "stored", 8 * elements, "reduction-elsewhere",
        "a reduction that is used over other axes than those of its loops", 0, (1, 2),
    )
    again = Boundary(
        "x1", "y", "read-again", elements, "other-loops", "their loops differ", None, (0, 1)
    )
    many = [replace(again, array=f"x{k}", value=f"y{k}") for k in range(2, 9)]
    found = {
        "gelu_bias": [stored, again],
        "distance": [stored, *many],
        "laplacian_2d": [replace(again, moved_bytes=4 * elements)],
    }
    return found.get(workload.name, [])


def experiments(processes: int) -> dict[str, object]:
    """What the experiments of a run find: calls taken apart, first calls, arithmetic."""
    native = {"interpreter and entry": 2e-8, "checks and launch": 3e-8, "kernel": 5e-9}
    python = {"arguments": 3e-6, "lookup and guards": 6e-6, "launch": 9e-6, "clock readings": 1e-6}
    cold = {"trace": 8e-4, "emit": 7e-4, "llvm": 6e-3, "load": 3e-4, "rest": 1e-4}
    each = [0.99, 1.0, 1.01][:processes]
    quick, slow = ([whole * one for one in each] for whole in (5.7e-8, 2.5e-5))

    def spread(parts: dict[str, float]) -> dict[str, list[float]]:
        return {name: [value * one for one in each] for name, value in parts.items()}

    return {
        "arithmetic": [
            Arithmetic("float32", 10**9, threads, process, [0.02 / threads])
            for threads in (1, 2)
            for process in range(processes)
        ],
        "anatomy": [
            Anatomy(
                "a*b + c", "native", "ablation", spread(native), quick,
                [[-4e-9 * one, -2e-9 * one, 0.0] for one in each],
            ),
            Anatomy("a*b + c", "python", "stamps", spread(python), slow),
        ],
        "first_calls": [
            FirstCall("gelu_bias", state, [sum(stages.values())] * len(each), spread(stages))  # type: ignore[arg-type]
            for state, stages in (
                ("cold", cold), ("disk cache", {**cold, "llvm": 0.0, "load": 5e-4}),
            )
        ],
        "texts": {
            "source": "define i32 @kernel(ptr %block) {\n  ret i32 0\n}\n",
            "trace": json.dumps({"traceEvents": TRACE}),
            **{f"plan-{one.name}": f"plan of {one.name}: 1 kernel" for one in WORKLOADS},
        },
    }  # fmt: skip


def ceilings(generator: np.random.Generator, processes: int) -> list[Ceiling]:
    """Copy and triad of the imagined machine at four working sets, on one and two threads."""
    made = []
    for name, factor in (("copy", 1.0), ("triad", 1.04)):
        for working_set in (1 << 14, 1 << 18, 1 << 23, 1 << 28):
            speed = BANDWIDTH["cache" if working_set <= LAST_CACHE else "memory"] * factor
            for threads in (1, 2):
                for process in range(processes):
                    seconds = working_set / speed / (0.6 if threads == 1 else 1.0)
                    drawn = seconds * np.exp(generator.normal(0, 0.01, 5))
                    made.append(
                        Ceiling(name, working_set, working_set, threads, process, drawn.tolist())  # type: ignore[arg-type]
                    )
    return made


def record(
    processes: int = 3,
    blocks: int = 8,
    noise: float = 0.006,
    workloads: Sequence[Workload] = WORKLOADS,
    seed: int = 1,
) -> Record:
    """Make a quick-like record: every workload at S and L, three of them swept over sizes."""
    generator = np.random.default_rng(seed)
    made: list[Cell] = []
    for workload in workloads:
        for size, elements in (("S", 4096), ("L", 1 << 24)):
            made.append(
                cell(workload, elements, size, generator, processes, blocks, noise)  # type: ignore[arg-type]
            )
    for workload in [each for each in workloads if each.name in ("axpy", "gelu_bias", "silu_mul")]:
        for elements in (1, 64, 1 << 10, 1 << 15, 1 << 19, 1 << 22):
            made.append(cell(workload, elements, "sweep", generator, processes, blocks, noise))
    return Record(
        run_id="20261120T090000Z-5a17ed",
        created_utc="2026-11-20T09:00:00Z",
        finished=True,
        preset="quick",
        machine=Machine(
            "Synthetic processor (no number here was measured)", 2, 2, 8 << 30,
            {"L1d": 48 << 10, "L2": 2 << 20, "L3": LAST_CACHE}, "Linux 6.1", None, [0.4, 0.3, 0.2],
            None, ["avx512f", "fma"],
        ),
        command=["fuser-bench", "run", "--quick"],
        seed=seed,
        settings={"processes": processes, "blocks": blocks, "budget_s": 240},
        packages={"python": "3.11.7", "numpy": "2.4.6", "llvmlite": "0.50.0", "fuser": "0.1.0"},
        commit="0123456789abcdef", dirty=False,
        ceilings=ceilings(generator, processes),
        variants=VARIANTS,
        cells=made,
        notes=["Synthetic record for tests of the reports."],
        **experiments(processes),  # type: ignore[arg-type]
    )  # fmt: skip


def base(workloads: Sequence[Workload] = WORKLOADS) -> Record:
    """Make an earlier run of the same rows, in which one workload was slower and one faster."""
    factors = {"axpy": 1.3, "gelu_bias": 0.8}
    cells = []
    made = record(workloads=workloads, seed=2)
    for each in made.cells:
        factor = factors.get(each.workload, 1.0)
        runs = [
            replace(run, samples=_scaled(run.samples, factor)) if run.variant == "fused" else run
            for run in each.runs
        ]
        cells.append(replace(each, runs=runs))
    return replace(made, run_id="20261119T090000Z-ba5e00", cells=cells)


def _scaled(given: Samples, factor: float) -> Samples:
    return replace(given, seconds=[each * factor for each in given.seconds])


def empty() -> Record:
    """Make the record of a run that was interrupted before it measured anything."""
    return replace(
        record(), finished=False, cells=(), ceilings=(), notes=(), variants=(),
        arithmetic=(), anatomy=(), first_calls=(), texts={},
    )
