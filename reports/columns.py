"""What the page shows of each table: columns, their titles, units and hints.

Ratios stand right after the names of a row, where a narrow window shows them.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Column:
    """One column of a table in the page."""

    name: str  # in the DataFrame
    title: str
    form: str = "text"
    hint: str = ""  # shown when the pointer rests on the title


WORKLOAD = Column("workload", "Workload")
DTYPE = Column("dtype", "Dtype")
SIZE = Column("size", "Size", "size")
ELEMENTS = Column("elements", "Elements", "elements", "of the largest input")
VARIANT = Column("variant", "Variant")
CELL = Column("cell", "Row", "code")
PLACE, ROW = (WORKLOAD, DTYPE, ELEMENTS), (WORKLOAD, DTYPE, ELEMENTS, VARIANT)

COLUMNS: Mapping[str, Sequence[Column]] = {
    "side_by_side": (
        CELL,
        Column("ratio", "New to old", "ratio", "above 1 the new checkout is slower"),
        Column("old_s", "Baseline takes", "seconds"),
        Column("reason", "Not measured", "long"),
    ),
    "whole_programs": (
        Column("program", "Program"),
        Column("ours", "Ours", "ratio", "NumPy's time over ours: above 1 ours is faster"),
        Column("best_ratio", "Best peer's", "ratio", "NumPy's time over the best peer's"),
        Column("best", "Best peer"),
        Column("numpy_s", "NumPy takes", "seconds"),
        Column("first_call_s", "Our first call", "seconds"),
        Column("note", "What is left to NumPy, and why", "long"),
    ),
    "chunks": (
        WORKLOAD, VARIANT,
        Column("call_s", "One call", "seconds", "graph, optimisation and all chunks"),
        Column("speedup", "Against eager Dask", "ratio", "eager Dask / this"),
        Column("tasks", "Tasks", "count", "of the optimised graph"),
        Column("handed_bytes", "Between tasks", "bytes", "what tasks give, for each that needs it"),
        Column("peak_bytes", "Held at the peak", "bytes", "beyond the arguments"),
        Column("note", "Note", "long"),
    ),
    "best_peers": (
        CELL,
        Column("ratio", "Times as fast", "ratio", "the best peer's time over ours"),
        Column("best", "Best peer"),
        Column("fused_s", "Fresh", "seconds", "results in new arrays"),
        Column("into_s", "Into", "seconds", "results in arrays that are there"),
        Column("best_into", "Best peer, into"),
        Column("into_ratio", "Times as fast, into", "ratio"),
        Column("ceiling", "Ceiling", "text", "what bounds the cell: a loop in C, or the memory"),
        Column("share", "Share", "percent", "the ceiling's time over the better of ours"),
    ),
    "aims": (
        CELL,
        Column("eager_ratio", "Of NumPy's time", "ratio", "below 1 the fused call is quicker"),
        VARIANT,
        Column("call_s", "One call", "seconds"),
        Column("aim", "At most", "number", "of that ratio, else in seconds"),
        Column("verdict", "Verdict"),
    ),
    "summary": (
        SIZE,
        Column("variant", "Variant"),
        Column("speedup", "Geometric mean", "ratio", "above 1 the variant is faster"),
        Column("baseline", "Against"),
        Column("counted", "Rows", "of rows"),
        Column("speedup_all", "With left-out rows", "ratio", "at their measured time"),
        Column("counted_all", "Rows", "of rows"),
        Column("faster", "Faster", "count"),
        Column("slower", "Slower", "count"),
        Column("same_within_margin", "Same", "count", "within the margin"),
        Column("inconclusive", "Inconclusive", "count"),
        Column("refused_as_expected", "Refused as expected", "count"),
        Column("left_out", "Left out", "count"),
    ),
    "extremes": (
        WORKLOAD,
        Column("speedup", "Against eager", "ratio", "eager / variant"),
        Column("place", "Of all"),
        *ROW[1:],
        Column("verdict", "Verdict"),
        Column("eager_s", "Eager takes", "seconds"),
        Column("call_s", "This takes", "seconds"),
        Column("fusion_gain", "Fusion gains", "ratio", "unfused / fused"),
    ),
    "runs": (
        WORKLOAD, VARIANT,
        Column("speedup", "Against eager", "ratio", "eager / variant"),
        *PLACE[1:],
        Column("call_s", "One call", "seconds"),
        Column("verdict", "Verdict", "verdict", "or why the row is left out"),
        Column("fusion_gain", "Fusion gains", "ratio", "unfused / fused"),
        Column("kernels", "Kernels", "count", "launched by one call"),
        Column("first_call_s", "First call", "seconds", "compilation included"),
        Column("calls_to_repay", "Repaid after", "repay", "calls, against eager"),
        Column("samples", "Samples", "count"),
    ),
    "left_out": (
        CELL, VARIANT,
        Column("label", "Why"),
        Column("measured_ratio", "Against eager as timed", "ratio", "not in the summaries"),
        Column("reason", "Reason", "long"),
    ),
    "fresh_into": (
        WORKLOAD,
        Column("fresh_ratio", "Fresh", "ratio", "eager / fused, new arrays"),
        Column("into_ratio", "Into", "ratio", "eager into / fused into"),
        *PLACE[1:],
        Column("eager_s", "Eager, fresh", "seconds"),
        Column("fused_s", "Fused, fresh", "seconds"),
        Column("eager_into_s", "Eager, into", "seconds", "out= in the last operation"),
        Column("fused_into_s", "Fused, into", "seconds", "out="),
        Column("note", "Note", "long"),
    ),
    "traffic": (
        WORKLOAD,
        Column("saving", "Unfused / planned", "ratio"),
        *PLACE[1:],
        Column("unfused_bytes", "Unfused", "bytes"),
        Column("planned_bytes", "Planned", "bytes"),
        Column("least_bytes", "Least", "bytes"),
        Column("least_share", "Least / planned", "percent"),
        Column("kernels_unfused", "Kernels unfused", "count"),
        Column("kernels_fused", "fused", "count"),
    ),
    "bandwidth": (
        *ROW,
        Column("working_set_bytes", "Working set", "bytes"),
        Column("bytes_per_second", "Least traffic", "rate"),
        Column("copy_bytes_per_second", "Copy ceiling", "rate"),
        Column("copy_share", "Share", "percent"),
    ),
    "ceilings": (
        Column("name", "Anchor"),
        Column("by", "Code"),
        Column("threads", "Threads", "count"),
        Column("working_set_bytes", "Working set", "bytes"),
        Column("bytes_per_second", "Typical", "rate"),
        Column("fastest_bytes_per_second", "Fastest process", "rate"),
        Column("processes", "Processes", "count"),
    ),
    "break_even": (
        WORKLOAD,
        DTYPE,
        VARIANT,
        Column("least_elements", "Smallest size", "elements"),
        Column("call_s", "One call there", "seconds"),
        Column("crossing_elements", "Overtakes eager at", "elements", "elements"),
        Column("note", "Note", "long"),
    ),
    "compile": (
        *ROW,
        Column("first_call_s", "First call", "seconds"),
    ),
    "accuracy": (
        *ROW,
        Column("max_error_ulp", "Largest error, ulp", "number"),
        Column("max_relative_error", "Largest relative error", "number"),
        Column("tolerance", "Tolerance", "number"),
        Column("checked_calls", "Checked calls", "count"),
        Column("label", "Label"),
    ),
    "noise": (
        WORKLOAD,
        Column("ratio", "Eager / eager again", "ratio"),
        *PLACE[1:],
        Column("call_s", "One eager call", "seconds"),
    ),
    "compare_times": (
        CELL, VARIANT,
        Column("ratio", "Head / base", "ratio", "time of a call; above 1 is slower"),
        Column("verdict", "Verdict", "text"),
        Column("basis", "Basis", "text", "relative to eager in the same processes, or seconds"),
        Column("gated", "Gated"),
    ),
    "compare_counts": (
        CELL, VARIANT,
        Column("what", "What"),
        Column("base", "Base"),
        Column("head", "Head"),
        Column("finding", "Finding"),
    ),
    "boundaries": (
        *PLACE,
        Column("value", "Array", "code", "the operation that makes it, and its line"),
        Column("kind", "Kind"),
        Column("kernels", "Kernels", "text", "written by → read by"),
        Column("moved_bytes", "Bytes", "bytes", "written and read because it crosses"),
        Column("of_least", "Of the least", "percent", "share of the least traffic of the call"),
        Column("cost_s", "Estimated cost", "seconds", "at the speed of a copy"),
        Column("meaning", "Why it crosses", "long"),
    ),
    "memory": (
        *ROW,
        Column("peak_bytes", "Held at the peak", "bytes", "beyond the arguments"),
        Column("temporary_bytes", "Without the results", "bytes"),
        Column("per_element", "Bytes an element", "number"),
    ),
    "roofline": (
        *ROW,
        Column("operations", "Operations", "elements", "on elements, a call"),
        Column("moved_bytes", "Bytes moved", "bytes", "planned, a call"),
        Column("intensity", "Operations a byte", "number"),
        Column("operations_per_s", "Operations", "operations"),
        Column("roof_per_s", "Roof", "operations", "possible at this intensity"),
        Column("roof_share", "Of the roof", "percent"),
        Column("limit", "Roof set by"),
    ),
    "anatomy": (
        Column("path", "Path"),
        Column("subject", "Call"),
        Column("part", "Part"),
        Column("part_s", "Time", "seconds", "median over processes, and their range"),
        Column("share", "Of the whole", "percent"),
        Column("closes", "Sum against the whole"),
    ),
    "first_calls": (
        WORKLOAD,
        Column("state", "Machine code"),
        Column("stage", "Stage"),
        Column("stage_s", "Time", "seconds", "median over processes"),
        Column("share", "Of the call", "percent"),
    ),
    "phases": (
        Column("phase", "Phase"),
        Column("level", "Level", "count", "0: part of no other"),
        Column("start_s", "Began after", "seconds"),
        Column("elapsed_s", "Time", "seconds"),
        Column("share", "Of the call", "percent"),
    ),
    "repay": (
        *ROW,
        Column("first_call_s", "First call", "seconds", "cold, compilation included"),
        Column("call_s", "A later call", "seconds"),
        Column("eager_s", "Eager", "seconds"),
        Column("calls_to_repay", "Repaid after", "repay", "calls"),
        Column("disk_first_call_s", "First call from disk", "seconds"),
        Column("disk_calls_to_repay", "Repaid after", "repay", "calls, machine code on disk"),
    ),
    "model": (
        Column("place", "Working set"),
        Column("rows", "Rows", "count"),
        Column("term", "Costs"),
        Column("cost_s", "Time", "tiny", "with two jackknife errors"),
        Column("note", "That is", "long"),
        Column("error", "Prediction error", "percent", "median, workloads left out of the fit"),
    ),
    "split": (
        *PLACE,
        Column("unfused_s", "Unfused", "seconds"),
        Column("fused_s", "Fused", "seconds"),
        Column("saved", "Saved", "percent", "of the unfused time, measured"),
        Column("launches", "by launches", "percent", "removed kernels, by the model"),
        Column("bytes", "by bytes", "percent", "removed traffic, by the model"),
        Column("rest", "not explained", "percent", "what of the saving the two leave"),
        Column("predicted_s", "Fused, predicted", "seconds"),
        Column("place", "Working set"),
    ),
    "samples": (
        CELL, VARIANT,
        Column("processes", "Processes", "count"),
        Column("blocks", "Blocks", "count"),
        Column("calls", "Calls", "count"),
        Column("fastest_s", "Fastest", "seconds"),
        Column("median_s", "Median", "seconds"),
        Column("slowest_s", "Slowest", "seconds"),
        Column("deviation", "Spread", "percent", "median absolute deviation of the blocks"),
        Column("reproduce", "Measure again", "code"),
    ),
}
"""What the page shows of each table; the CSV has every column. Beside these, `compile` has a run's
own stages, and `whole_programs` its peers."""
