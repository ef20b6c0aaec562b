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
        "Eager is NumPy or CuPy itself, one operation at a time. One row a workload, sorted by "
        "the fused ratio at the largest size. A bar is the 95% "
        "interval over processes; one that meets the edge goes on. Hollow marks are left out of "
        "the summaries.",
        "runs",
        figure_speedup.draw,
    ),
    Chart(
        "traffic",
        "traffic",
        "How many bytes does a call move, and how few could it?",
        "Counted from the graph and the schedule, not measured. The bar at the left end is the "
        "least that any implementation must move.",
        "traffic",
        figure_traffic.draw,
    ),
    Chart(
        "waterfall",
        "traffic",
        "Which arrays still cross kernels, and what does each cost?",
        "From the least that kernels must move, up step by step to what a call does move. Beside "
        "each array: its bytes, what they cost at the speed of a copy, why it crosses. Only "
        "workloads where more than the least is moved are here, ten at most; the table has all.",
        "boundaries",
        figure_waterfall.draw,
    ),
    Chart(
        "memory",
        "traffic",
        "How much memory does a call need beside its arguments?",
        "Results and temporaries together, measured: the most that is held at once, at the "
        "largest size of each workload. At 0.01 bytes or less no array is held at all; calls on "
        "fewer than 1,024 elements are in the table alone.",
        "memory",
        figure_memory.draw,
    ),
    Chart(
        "bandwidth",
        "traffic",
        "How near does each row come to the speed of this machine's memory?",
        "Least bytes divided by time, against copy, triad and read measured in the same run. A "
        "point at the line moves memory as fast as a plain copy does; thin lines are 95% "
        "intervals. Calls on less than 4 KiB are in the table alone: they cost more than their "
        "memory.",
        "bandwidth",
        figure_bandwidth.draw,
    ),
    Chart(
        "roofline",
        "traffic",
        "Is it memory or arithmetic that limits each workload, and does fusing change that?",
        "An arrow leads from unfused to fused at the largest size. Fusing moves a point right: "
        "fewer bytes for the same operations. The slope is the memory's speed, the flat line "
        "arithmetic's, both measured in this run. An exp or sin counts as one operation, though "
        "it takes tens: such workloads meet the arithmetic limit below the flat line.",
        "roofline",
        figure_roofline.draw,
    ),
    Chart(
        "anatomy",
        "overhead",
        "Where does the time of a short call go?",
        "The parts are measured one by one and the whole by itself; how near their sum comes to "
        "it is said above the bars. Medians over processes; the line is their range.",
        "anatomy",
        figure_anatomy.draw,
    ),
    Chart(
        "sweep",
        "overhead",
        "What does a call cost when there is little to do, and when does fusing start to pay?",
        "The flat left end of a line is the cost of the call itself; where it rises, memory and "
        "arithmetic take over. Shaded: the 95% interval; hollow marks have none, or one wider than "
        "a factor of ten. A dashed line: from there on that variant stays faster than eager, its "
        "interval at the foot. Of more than nine workloads the first nine are drawn; the table has "
        "all.",
        "break_even",
        figure_sweep.draw,
    ),
    Chart(
        "compile",
        "overhead",
        "What does the first call cost, and where does its time go?",
        "The first call of the fused function at its smallest size, median over processes; the "
        "line is their range. The function is traced, its kernels are scheduled, bound to the "
        "arrays' layout and emitted as text; LLVM parses that and makes machine code (llvm). "
        "Disk: the cache is asked and filled; compile: the rest of compiling.",
        "compile",
        figure_compile.draw,
    ),
    Chart(
        "first_calls",
        "overhead",
        "What is left of the first call when machine code is on disk?",
        "Cold: nothing is kept from earlier. Disk cache: a new process that finds the machine "
        "code of an earlier one. Median over processes; the line is the 95% interval.",
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
        "Calls after which the first one, compilation included, and the later ones take less "
        "time together than as many eager calls. Lines: what the 95% interval of the ratio to "
        "eager makes of it.",
        "repay",
        figure_repay.draw,
    ),
    Chart(
        "split",
        "overhead",
        "Does fusing save by fewer launches or by fewer bytes?",
        "Bars: what a model of launches, bytes and operations, fitted on this run, makes of the "
        "removed kernels and the removed traffic. Dots: what was really saved, unfused to fused, "
        "with its 95% interval. The gap is what the model does not explain.",
        "split",
        figure_model.draw,
    ),
    Chart(
        "compare",
        "compare",
        "What became faster or slower since the base?",
        "Each row's time relative to eager in the same processes, head over base, with its "
        "95% interval (Welch). Shaded: what equal things differ by on this machine; between the "
        "dashed lines a change is too small to matter. A bar that meets the edge goes on. Of more "
        "than 40 rows those farthest from 1.",
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
