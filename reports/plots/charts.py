"""The charts: the question each answers, how to read it, the table that says the same."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from matplotlib.figure import Figure

from fuser.reports.collection import Collection
from fuser.reports.plots import (
    figure_accuracy,
    figure_anatomy,
    figure_bandwidth,
    figure_compare,
    figure_compile,
    figure_heatmap,
    figure_memory,
    figure_model,
    figure_phases,
    figure_repay,
    figure_roofline,
    figure_speedup,
    figure_sweep,
    figure_traffic,
    figure_waterfall,
)
from fuser.reports.plots.style import Layout


@dataclass(frozen=True, slots=True)
class Chart:
    """One figure of the page."""

    name: str  # of the PNG, and of the anchor in the page
    section: str
    question: str
    reading: str  # one sentence: how to read it
    table: str  # the table that says the same
    draw: Callable[[Collection, Layout], Figure | None]


CHARTS: Sequence[Chart] = (
    Chart(
        "speedup",
        "overview",
        "How many times faster than eager is each mode?",
        "Each line is a workload, sorted by the fused ratio at the largest size. Eager is NumPy "
        "or CuPy itself, one operation at a time. A bar is the 95% interval over processes; one "
        "that meets the edge goes on. Hollow marks are left out of the summaries.",
        "runs",
        figure_speedup.draw,
    ),
    Chart(
        "heatmap",
        "overview",
        "Which mode wins where, how surely, and how long does the work take?",
        "Ratio to eager with half the width of its interval; blue is faster, red slower: filled "
        "where that is sure, outlined where it is inconclusive. Cells with a star and a broken "
        "line are left out of the summaries. The last column is eager's time.",
        "runs",
        figure_heatmap.draw,
    ),
    Chart(
        "traffic",
        "traffic",
        "How many bytes does a call move, and how few could it?",
        "Bytes are counted from the graph and the schedule, not measured. The bar at the left end "
        "is the least that any implementation must move.",
        "traffic",
        figure_traffic.draw,
    ),
    Chart(
        "waterfall",
        "traffic",
        "Which arrays still cross kernels, and what does each cost?",
        "A workload begins at the least bytes that kernels must move. Each step adds an array "
        "that one kernel stores and another one reads; beside it stand its bytes, their time at "
        "the speed of a copy, and why it is stored. Ten workloads at most are drawn, of those "
        "that move more than the least; the table has all.",
        "boundaries",
        figure_waterfall.draw,
    ),
    Chart(
        "memory",
        "traffic",
        "How much memory does a call need beside its arguments?",
        "The most memory that results and temporaries hold at once, measured at the largest size "
        "of each workload. At 0.01 bytes or less no array is held at all; calls on fewer than "
        "1,024 elements are in the table alone.",
        "memory",
        figure_memory.draw,
    ),
    Chart(
        "bandwidth",
        "traffic",
        "How near does each row come to the speed of this machine's memory?",
        "The least bytes of each call divided by its time, beside copy, triad and read measured "
        "in the same run. A point on the line moves memory as fast as a plain copy does; thin "
        "lines are 95% intervals. Calls on less than 4 KiB are in the table alone: they cost more "
        "than their memory.",
        "bandwidth",
        figure_bandwidth.draw,
    ),
    Chart(
        "roofline",
        "traffic",
        "Is it memory or arithmetic that limits each workload, and does fusing change that?",
        "An arrow leads from unfused to fused at the largest size. Fusing moves a point to the "
        "right: fewer bytes for the same operations. The slope is the speed of memory, the flat "
        "line that of arithmetic, both measured in this run. An exp or sin counts as one "
        "operation, though it takes tens: such workloads meet the limit of arithmetic below the "
        "flat line.",
        "roofline",
        figure_roofline.draw,
    ),
    Chart(
        "anatomy",
        "overhead",
        "Where does the time of a short call go?",
        "The parts are measured one by one, and the whole by itself; the title says how near "
        "their sum comes to it. Bars are medians over processes, lines their range.",
        "anatomy",
        figure_anatomy.draw,
    ),
    Chart(
        "sweep",
        "overhead",
        "What does a call cost when there is little to do, and when does fusing start to pay?",
        "The flat left end of a line is the cost of the call itself; where the line rises, memory "
        "and arithmetic take over. The 95% interval is shaded; hollow marks have none, or one "
        "wider than a factor of ten. A dashed line marks the size from which a variant stays "
        "faster than eager, the bar at its foot the interval of that size. The first nine "
        "workloads are drawn; the table has all.",
        "break_even",
        figure_sweep.draw,
    ),
    Chart(
        "compile",
        "overhead",
        "What does the first call cost, and where does its time go?",
        "The first call of the fused function at its smallest size: bars are medians over "
        "processes, lines their range. The function is traced, its kernels are scheduled, bound "
        "to the arrays' layout and emitted as text; LLVM parses the text and makes machine code "
        "(llvm). The cache on disk is asked and filled (disk); compile is the rest of compiling.",
        "compile",
        figure_compile.draw,
    ),
    Chart(
        "first_calls",
        "overhead",
        "What is left of the first call when machine code is on disk?",
        "A cold call finds nothing that was kept. A call from the disk cache is one of a new "
        "process that finds the machine code of an earlier one. Bars are medians over processes, "
        "lines the 95% interval.",
        "first_calls",
        figure_compile.draw_states,
    ),
    Chart(
        "phases",
        "overhead",
        "What does a first call do, phase by phase?",
        "A flame graph of one first call: a phase stands under the one that it is part of, as wide "
        "as it takes. Phases too short for their name have it in the table, and in trace.json.",
        "phases",
        figure_phases.draw,
    ),
    Chart(
        "repay",
        "overhead",
        "After how many calls has compiling paid for itself?",
        "The number of calls after which the first one, compilation included, and the later ones "
        "take less time together than as many eager calls. Lines show the numbers for both ends "
        "of the 95% interval of the ratio to eager.",
        "repay",
        figure_repay.draw,
    ),
    Chart(
        "split",
        "overhead",
        "Does fusing save by fewer launches or by fewer bytes?",
        "Bars show the saving that a model of launches, bytes and operations, fitted on this run, "
        "predicts from the removed kernels and the removed traffic. Dots show the saving that was "
        "measured, unfused to fused, with its 95% interval. The gap is what the model does not "
        "explain.",
        "split",
        figure_model.draw_split,
    ),
    Chart(
        "prediction",
        "overhead",
        "How far can that model be trusted?",
        "On the line the model is right; in the grey band it is within a factor of two.",
        "split",
        figure_model.draw_prediction,
    ),
    Chart(
        "compare",
        "compare",
        "What became faster or slower since the base?",
        "Each row's time relative to eager in the same processes, head over base, with its "
        "95% interval (Welch). Shaded: what equal things differ by on this machine; between the "
        "dashed lines a change is too small to matter. A bar that meets the edge goes on. Of more "
        "than 40 rows those farthest from 1 are drawn.",
        "compare_times",
        figure_compare.draw,
    ),
    Chart(
        "accuracy",
        "evidence",
        "How large are the errors?",
        "The largest error of any element in the checked calls, against a float64 reference, at "
        "the size where it comes nearest to what is admitted; the table has every size.",
        "accuracy",
        figure_accuracy.draw_accuracy,
    ),
    Chart(
        "noise",
        "evidence",
        "How large a difference does this machine show between equal things?",
        "Eager timed against itself in the same blocks, with 95% intervals; a bar that meets the "
        "edge goes on. Ratios inside the band are called the same or inconclusive, never faster "
        "or slower.",
        "noise",
        figure_accuracy.draw_noise,
    ),
)
