"""The presets: which cells a run measures, beside whom, in how many processes and how long.

`quick` and `full` say what fusing buys. The others are tables: `peers`, `rows` and `others` time
arrays beside other fusers and the machine's ceilings, with all processes in turns; `programs` times
whole programs beside loops written by hand; `dask` arrays in chunks beside eager Dask; `device`
CuPy's arrays beside CuPy and what it moves; `calls` times small calls beside NumPy's same line,
`compile` first calls in new processes.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, cast

from fuser.reports.record import SizeName
from fuser.suites import cold_figures
from fuser.suites.plan import CellPlan, Plan, of_checkout, variants_for
from fuser.suites.registry import program_workloads, workloads
from fuser.suites.workload import SWEEP, Axes, Workload

KIBI = 1 << 10
Shapes = tuple[tuple[int, Axes], ...]
"""Numbers of elements, each with the further axes that go with it."""
WHOLE_RUNS: Mapping[str, Mapping[str, Any]] = MappingProxyType({
    "quick": {"most_processes": 6},  # at most four minutes with the report
    "full": {"processes": 5, "most_processes": 10, "budget_s": 3600.0},
})

POINTWISE = (
    "axpy", "multiply_add_pairs", "polynomial", "add_ten_times", "shifted_powers", "hypotenuse",
    "gelu_bias", "silu_mul", "scale_bias_relu", "leaky_relu", "law_of_cosines",
    "wave_times_decay", "cos_sin_chain", "sine_and_log_root", "black_scholes", "where_odd",
    "boolean_mix", "clip_integers", "superbee", "bias_add", "standardise", "strided",
    "transposed", "mixed_dtypes",
)
NORMALISATIONS = ("softmax", "log_softmax", "layer_norm", "rms_norm", "batch_norm")
PER_ROW = (
    "row_logsumexp", "cross_entropy", "row_mean", "row_variance", "column_mean",
    "column_variance", "row_range", "row_argmax", "row_correlation",
)
WHOLE = ("sum_of_squares", "value_range", "dot")
FURTHER = (
    "fifty_first_power", "three_ranks", "weighted_sum", "first_powers", "exp_tan_sinh",
    "angle_sum", "sine_powers", "softplus_ratio", "great_circle", "rambo", "where_angle",
    "mixed_comparison", "escape_steps", "outer_distance", "reversed_difference", "fortran_pair",
    "permuted_relu", "rotated_pairs", "record_fields", "difference", "laplacian", "heat_step",
    "advection", "edge_strength", "wave_with_ends", "sgd_momentum", "adagrad_step", "lion_step",
    "adam_step", "hill_shading", "tone_mapping", "colour_conversion", "mean_absolute_error",
    "nearest_centre", "gravity", "kernel_density", "cross_spectrum", "phase_shift",
    "power_spectrum", "transfer_function", "coherence",
)
FURTHER_ROWS = (
    "softmax_backward", "masked_softmax", "layer_norm_backward", "add_rms_norm", "group_norm",
    "standard_rows", "unit_rows", "divergence", "gelu_backward_bias", "row_norm",
    "above_threshold",
)
"""Workloads of neither table above, to see whether what holds there holds elsewhere; none has a
form in C, and so no ceiling but the memory's."""


def _sizes(*kibi: int) -> Shapes:
    return tuple((KIBI * count, ()) for count in kibi)


def _along(axis: str, *shapes: tuple[int, int]) -> Shapes:
    return tuple((KIBI * count, ((axis, value),)) for count, value in shapes)


IN_CHUNKS = (
    "gelu_bias", "standard_columns", "anomaly", "softmax", "heat_with_edges", "black_scholes",
)
"""Workloads on Dask arrays."""
CHUNKED_ELEMENTS = 8 << 20
SIZES = _sizes(16, 256, 4096, 16384, 65536)
NORMALISED = _along(
    "hidden", (256, 64), (1024, 1023), (4096, 16385), (16384, 257), (16384, 4096), (16384, 65536)
)
REDUCED = _along("hidden", (256, 64), (1024, 1023), (16384, 257), (16384, 16385), (16384, 65536))
"""Arrays that stay in a core's cache, in the last one, and in none; rows from 64 to 65,536."""
ARRAYS: Mapping[str, Mapping[str, Shapes]] = MappingProxyType({
    "peers": dict.fromkeys(POINTWISE, SIZES),
    "rows": {
        **dict.fromkeys(NORMALISATIONS, NORMALISED),
        **dict.fromkeys(PER_ROW, REDUCED),
        **dict.fromkeys(WHOLE, _sizes(64, 1024, 16384)),
        "pairwise_distance": _along("dimensions", (256, 8), (1024, 64), (4096, 3), (16384, 3)),
    },
    "others": {
        **dict.fromkeys(FURTHER, _sizes(256, 16384)),
        **dict.fromkeys(FURTHER_ROWS, _along("hidden", (256, 1000), (16384, 1000))),
    },
    "device": {
        **dict.fromkeys(("axpy", "gelu_bias", "sum_of_squares"), _sizes(1, 65536)),
        **dict.fromkeys(
            ("softmax", "layer_norm", "rms_norm", "column_mean"),
            _along("hidden", *((65536, length) for length in (768, 4096, 16384, 65536))),
        ),
    },
})
SMALL_CALLS: Mapping[str, tuple[int, float | None]] = MappingProxyType({
    "multiply_add": (1, 0.25), "multiply_add_scalars": (1, 0.4), "multiply_add_square": (16, 0.4),
    "multiply_add_strided": (8, 0.4), "multiply_add_columns": (16, None),
    "multiply_add_broadcast": (16, None), "multiply_add_keywords": (1, None),
    "multiply_add_numpy_scalars": (1, None), "multiply_add_mixed": (1, None),
    "sum_and_difference": (1, None), "add_product_to": (1, None), "softmax_rows": (16, None),
})
"""Workloads whose statements are timed: elements, and the most of NumPy's time that a call may
take, where that is asked for."""


@dataclass(frozen=True, slots=True)
class Table:
    """A preset that is a table.

    Attributes:
        variants: that are timed.
        plan: fields of the plan.
    """

    variants: Sequence[str]
    plan: Mapping[str, Any] = field(default_factory=dict)


OURS = ("eager", "eager_into", "fused", "fused_into")
IN_TURNS = {
    "processes": 1, "budget_s": 1200.0, "most_blocks": 15, "least_blocks": 3,
    "least_sample_s": 0.004, "longest_call_s": 2.0, "alternate": True, "keep_texts": False,
    "reuse_compiled": True,
}
"""One process of each variant: further ones take as long again, and give intervals."""
LIBRARIES = ("numexpr", "numba", "jax", "torch")
TABLES: Mapping[str, Table] = MappingProxyType({
    "peers": Table((*OURS, *LIBRARIES, "c"), IN_TURNS),
    "rows": Table((*OURS, "loops", "jax", "torch", "c"), IN_TURNS),
    "others": Table((*OURS, *LIBRARIES), IN_TURNS),
    "programs": Table(
        ("eager", "fused", "numba", "loops", "loops_strict", "jax_loops"),
        {**IN_TURNS, "budget_s": 600.0, "reuse_compiled": False, "ceilings": False},
    ),
    "dask": Table(
        ("eager", "dask", "dask_optimized", "dask_fused", "dask_numba"),
        {**IN_TURNS, "budget_s": 420.0, "ceilings": False, "longest_call_s": 20.0},
    ),
    "device": Table(
        ("eager", "cupy_fused", "cupy", "cupy_fuse", "jax_cuda"),
        {**IN_TURNS, "budget_s": 420.0, "ceilings": False},
    ),
    "calls": Table(
        OURS,
        {"processes": 7, "budget_s": 120.0, "most_blocks": 15, "alternate": True,
         "ceilings": False, "keep_texts": False},
    ),
    "compile": Table(
        ("fused",),
        {"processes": 7, "budget_s": 300.0, "cold": True, "ceilings": False, "keep_texts": False},
    ),
})


def plan_of(preset: str, checkout: str = "", **changes: Any) -> Plan:
    """Return the plan of any preset, with the fuser of another checkout beside ours.

    Args:
        preset: its name.
        checkout: the folder of another checkout, whose fuser is timed beside ours.
        changes: fields of the plan.
    """
    if preset in TABLES:
        return table_plan(preset, checkout, **changes)
    settings: dict[str, Any] = {
        "cells": full_cells() if preset == "full" else quick_cells(), "preset": preset,
        "variants": variants_for(), "experiments": True,
        **WHOLE_RUNS[preset], **changes,
    }  # fmt: skip
    if checkout:
        settings["variants"] = [
            *settings["variants"], *of_checkout(settings["variants"], checkout)
        ]
        settings["alternate"] = True
    return Plan(**settings)


def table_cells(preset: str) -> list[CellPlan]:
    """Return the cells of a table: every workload in all its dtypes, or the first for calls."""
    if preset == "compile":
        return [
            CellPlan(cold_figures.spec(each), "float32", cold_figures.ELEMENTS, "sweep")
            for each in cold_figures.WORKLOADS
        ]
    if preset == "programs":
        return [
            CellPlan(name, each.dtypes[0], each.sizes["M"], "M")
            for name, each in program_workloads().items()
        ]
    if preset == "dask":
        return [
            CellPlan(name, "float64", CHUNKED_ELEMENTS,
                     named_size(workloads()[name], CHUNKED_ELEMENTS))
            for name in IN_CHUNKS
        ]
    if preset == "calls":
        return [
            CellPlan(name, "float32", elements, named_size(workloads()[name], elements))
            for name, (elements, _) in SMALL_CALLS.items()
        ]
    return [
        CellPlan(name, dtype, elements, named_size(workloads()[name], elements),
                 set_axes(workloads()[name], dict(axes)))
        for name, shapes in ARRAYS[preset].items()
        for dtype in workloads()[name].dtypes
        for elements, axes in shapes
    ]


def table_plan(preset: str, checkout: str = "", **changes: Any) -> Plan:
    """Return the plan of a table.

    Args:
        preset: its name.
        checkout: the folder of another checkout, whose fuser is timed beside ours, alone where
            `changes` names no variants.
        changes: fields of the plan.

    Raises:
        ValueError: the table has no variant that another checkout could have.
    """
    table = TABLES[preset]
    cells = table_cells(preset)
    aims = cold_figures.AIMS if preset == "compile" else {
        name: aim for name, (_, aim) in SMALL_CALLS.items() if aim is not None
    }
    settings = {**table.plan, "preset": preset, "cells": cells, **changes}
    if preset in ("calls", "compile"):
        settings["aims"] = {
            each.id: aims[each.id.partition("-")[0]]
            for each in cells if each.id.partition("-")[0] in aims
        }
    names = [each for each in table.variants if not checkout or each.startswith("fused")]
    if not names:
        raise ValueError(f"preset {preset}: no variant of it can be had from another checkout")
    variants = list(settings.pop("variants", None) or variants_for(names, aa=False))
    if checkout:
        settings["ceilings"] = False
        variants += of_checkout(variants, checkout)
    return Plan(**{**settings, "variants": variants})


def quick_cells(chosen: Mapping[str, Workload] | None = None) -> list[CellPlan]:
    """Return the quick preset: first dtype, sizes S and M, six sizes for the sweep workloads.

    `chosen` holds other workloads by the name or `module:attribute` that worker processes resolve.
    """
    cells: dict[str, CellPlan] = {}
    for name, workload in (workloads() if chosen is None else chosen).items():
        if chosen is None and not workload.quick:
            continue
        for cell in _cells(name, workload, workload.dtypes[:1], ("S", "M")):
            cells[cell.id] = cell
        if workload.sweep:
            _add_sweep(cells, name, workload)
    return list(cells.values())


def full_cells() -> list[CellPlan]:
    """Return every workload, dtype and size, sweeps, and every value of an axis at size M.

    Size L and the axes are those of the first dtype.
    """
    cells: dict[str, CellPlan] = {}
    for name, workload in workloads().items():
        found = _cells(name, workload, workload.dtypes, ("S", "M"))
        found += _cells(name, workload, workload.dtypes[:1], ("L",))
        found += _along_axes(name, workload)
        for cell in found:
            cells[cell.id] = cell
        if workload.sweep:
            _add_sweep(cells, name, workload)
    return list(cells.values())


def _along_axes(name: str, workload: Workload) -> list[CellPlan]:
    return [
        CellPlan(name, workload.dtypes[0], workload.sizes["M"], "sweep", ((axis, value),))
        for axis, values in workload.axes.items()
        for value in values[1:]
    ]


def _cells(
    name: str, workload: Workload, dtypes: Sequence[str], sizes: Sequence[SizeName]
) -> list[CellPlan]:
    return [
        CellPlan(name, dtype, workload.sizes[size], size)
        for dtype in dtypes
        for size in sizes
    ]


def _add_sweep(cells: dict[str, CellPlan], name: str, workload: Workload) -> None:
    """Add the sweep's sizes; those no larger than the workload's own M, whatever its presets."""
    for elements in SWEEP:
        elements = min(elements, workload.sizes["M"])
        cell = CellPlan(name, workload.dtypes[0], elements, "sweep")
        cells.setdefault(cell.id, cell)


def named_size(workload: Workload, elements: int) -> SizeName:
    """Return the preset of so many elements, or that it is one of a sweep."""
    named = [preset for preset, count in workload.sizes.items() if count == elements]
    return cast(SizeName, named[0] if named else "sweep")


def set_axes(workload: Workload, values: Mapping[str, int]) -> Axes:
    """Return those of the values that differ from the workload's defaults, in its order."""
    return tuple(
        (name, values[name])
        for name, known in workload.axes.items()
        if values.get(name, known[0]) != known[0]
    )
