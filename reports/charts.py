"""The charts: the question each answers, how to read it, the table that says the same."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from matplotlib.figure import Figure

from fuser.reports import (
    figure_accuracy,
    figure_bandwidth,
    figure_compare,
    figure_compile,
    figure_heatmap,
    figure_speedup,
    figure_sweep,
    figure_traffic,
)
from fuser.reports.collection import Collection
from fuser.reports.style import Layout


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
        "How many times faster than eager NumPy is each mode?",
        "One row a workload, sorted by the fused ratio at the largest size. A bar is the 95% "
        "interval over processes; one that meets the edge goes on. Hollow marks are left out of "
        "the summaries.",
        "runs",
        figure_speedup.draw,
    ),
    Chart(
        "heatmap",
        "overview",
        "Which mode wins where, how surely, and how long does the work take?",
        "Ratio to eager with half the width of its interval; blue is faster, red slower. Cells "
        "with a star and no colour are left out of the summaries. The last column is eager's time.",
        "runs",
        figure_heatmap.draw,
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
        "bandwidth",
        "traffic",
        "How near does each row come to the speed of this machine's memory?",
        "Least bytes divided by time, against copy and triad measured in the same run. A point "
        "at the line moves memory as fast as a plain copy does. Calls on less than 4 KiB are in "
        "the table alone: they cost more than their memory.",
        "bandwidth",
        figure_bandwidth.draw,
    ),
    Chart(
        "sweep",
        "overhead",
        "What does a call cost when there is little to do, and when does fusing start to pay?",
        "The flat left end of a line is the cost of the call itself; where it rises, memory and "
        "arithmetic take over. Shaded: the 95% interval, of the lines and of the crossing. Of more "
        "than nine workloads the first nine are drawn; the table has all.",
        "break_even",
        figure_sweep.draw,
    ),
    Chart(
        "compile",
        "overhead",
        "What does the first call cost, and where does its time go?",
        "The first call of the fused function at its smallest size, median over processes.",
        "compile",
        figure_compile.draw_stages,
    ),
    Chart(
        "compile_scaling",
        "overhead",
        "Does compile time stay linear as the graph grows?",
        "An exponent of 1 is linear. It is fitted on the upper half of the sizes (dashed). "
        "Shaded: fastest to slowest repetition.",
        "compile_scaling",
        figure_compile.draw_scaling,
    ),
    Chart(
        "compare",
        "compare",
        "What became faster or slower since the base?",
        "Each row's time relative to eager NumPy in the same processes, head over base, with its "
        "95% interval (Welch). Shaded: what equal things differ by on this machine; between the "
        "dashed lines a change is too small to matter. Of more than 40 rows those farthest "
        "from 1.",
        "compare_times",
        figure_compare.draw,
    ),
    Chart(
        "accuracy",
        "evidence",
        "How large are the errors?",
        "The largest error of any element in the checked calls, against a float64 reference.",
        "accuracy",
        figure_accuracy.draw_accuracy,
    ),
    Chart(
        "noise",
        "evidence",
        "How large a difference does this machine show between equal things?",
        "Eager timed against itself in the same blocks. Ratios inside the band are called the "
        "same or inconclusive, never faster or slower.",
        "noise",
        figure_accuracy.draw_noise,
    ),
)
