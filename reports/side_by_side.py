"""Two checkouts side by side: the records of runs with `--baseline DIR` as one page.

Each figure is the new checkout's time over that of the baseline, as both were timed in turns, in
one run: above 1 the new one is slower. A table holds where the geometric mean of its figures is at
most 1.02; each cell beyond 1.15 needs its reason. Beside a cell's median stand the least
and the largest of its blocks or processes.
"""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pandas as pd

from fuser.reports.analysis import Analysis
from fuser.reports.record import Record, Run
from fuser.reports.statistics import block_seconds, geometric_mean

MOST_MEAN, MOST_CELL = 1.02, 1.15
"""What a table's geometric mean and one cell may be."""
SHOWN = 10
"""Cells that are listed, the slowest first; of those beyond the limit all are."""
OURS, OTHERS = "fused", "baseline"
FORMS = {"": "fresh", "_into": "into"}
"""What follows the names of the variants, and what it means: where results go."""
LEGEND = """\
Figures are the new checkout's time over the baseline's, timed in turns: above 1 the new one is
slower. *Beyond* says how many cells pass the limit, and in brackets how many of them in every
block."""
COLUMNS = ["cell", "ratio", "ratio_low", "ratio_high", "old_s", "reason"]


def paired(numerator: Run, denominator: Run) -> tuple[float, float, float] | None:
    """The median ratio of paired blocks, the least and the largest; None where there is no pair.

    Of one pair there is no range: NaN.
    """
    first, second = block_seconds(numerator.samples), block_seconds(denominator.samples)
    ratios = [first[key] / second[key] for key in sorted(first.keys() & second.keys())]
    if not ratios:
        return None
    ends = (np.nan, np.nan) if len(ratios) < 2 else (min(ratios), max(ratios))
    return (float(np.median(ratios)), *ends)


def has_baseline(record: Record) -> bool:
    """Whether another checkout was timed in this run."""
    return any(each.kind == OTHERS for each in record.variants)


def table(record: Record) -> pd.DataFrame:
    """The figures of a run, the slowest first, then what has none, with the reason.

    A row is a form of a cell that both checkouts were to have; without a baseline there is none.
    """
    forms = FORMS if any(each.name == f"{OURS}_into" for each in record.variants) else {"": ""}
    lines = []
    for cell in record.cells:
        runs = {each.variant: each for each in cell.runs}
        for suffix, form in forms.items():
            new, old = runs.get(f"{OURS}{suffix}"), runs.get(f"{OTHERS}{suffix}")
            if new is not None and old is not None:
                lines.append({"cell": f"{cell.id} {form}".strip(), **_figures(new, old)})
    shown = pd.DataFrame(lines, columns=COLUMNS)
    return shown.sort_values("ratio", ascending=False, kind="stable", ignore_index=True)


def _figures(new: Run, old: Run) -> dict[str, Any]:
    found = paired(new, old)
    if found is None:
        reasons = [each.reason for each in (new, old) if not each.samples.seconds]
        return {"reason": next(filter(None, reasons), "no block that both have")}
    old_s = float(np.median(list(block_seconds(old.samples).values())))
    return dict(zip(COLUMNS[1:], (*found, old_s), strict=False))


def side_by_side_table(analysis: Analysis) -> pd.DataFrame:
    """As `table`, of a run that is analysed."""
    return table(analysis.record)


def mean(shown: pd.DataFrame) -> float:
    """The geometric mean of a table's ratios; NaN of none."""
    ratios = list(shown["ratio"].dropna())
    return geometric_mean(ratios) if ratios else np.nan


def holds(shown: pd.DataFrame) -> bool:
    """Whether something was measured, and the mean is within its limit."""
    return mean(shown) <= MOST_MEAN


def verdict(shown: pd.DataFrame) -> str:
    """Whether a table holds, in a few words."""
    beyond, gaps = (shown["ratio"] > MOST_CELL).sum(), shown["ratio"].isna().sum()
    if gaps == len(shown):
        return "nothing was measured"
    said = "holds" if holds(shown) else f"MISSED: its mean is above {MOST_MEAN}"
    reasons = f"; {beyond} cells need a reason" if beyond else ""
    return f"{said}{reasons}" + (f"; {gaps} were not measured" if gaps else "")


def sentences(record: Record, shown: pd.DataFrame) -> list[str]:
    """The mean of a run's figures, judged; nothing where no other checkout was timed."""
    if not len(shown):
        return []
    head = f"New to old, the geometric mean of {shown['ratio'].count()} figures: "
    return [f"{head}{mean(shown):.3f}, {verdict(shown)}."]


def page(records: Sequence[Record]) -> str:
    """The page in Markdown: a line for each table, then its slowest cells and what is missing."""
    first, tables = records[0], [(record.preset, table(record)) for record in records]
    pairs = [(record.commit, record.settings.get("baseline")) for record in records]
    commits = " against ".join(str(each)[:12] for each in pairs[0])
    lines = [
        "# Two checkouts side by side", "", f"{commits}; {first.machine.cpu}, {first.machine.os}.",
        "",
    ]
    if len(set(pairs)) > 1:
        lines += ["**These records are not all of the same two commits.**", ""]
    if any(record.dirty for record in records):
        lines += ["**Files of the new checkout differed from its commit.**", ""]
    lines += [
        LEGEND, "", f"| table | cells | geometric mean | beyond {MOST_CELL} | fastest | verdict |",
        "|---|---|---|---|---|---|",
    ]
    for title, shown in tables:
        beyond, sure = ((shown[name] > MOST_CELL).sum() for name in ("ratio", "ratio_low"))
        lines.append(
            f"| {title} | {shown['ratio'].count()} | {mean(shown):.3f} | {beyond} ({sure}) "
            f"| {shown['ratio'].min():.2f} | {verdict(shown)} |"
        )
    for title, shown in tables:
        lines += ["", f"## {title}", "", "| cell | new to old [range] | baseline µs |"]
        lines.append("|---|---|---|")
        most = max(SHOWN, (shown["ratio"] > MOST_CELL).sum())
        lines += map(_line, shown[shown["ratio"].notna()][:most].itertuples())
        lines += _missing(shown)
    return "\n".join(lines) + "\n"


def _missing(shown: pd.DataFrame) -> Iterator[str]:
    """What has no figure; many with one reason are counted."""
    for reason, cells in shown.groupby("reason", sort=False)["cell"]:
        named = ", ".join(cells) if len(cells) <= SHOWN else f"{len(cells)} figures"
        yield f"- {named}: {reason}"


def _line(cell: Any) -> str:
    """One row."""
    ends = "" if np.isnan(cell.ratio_low) else f" [{cell.ratio_low:.2f}, {cell.ratio_high:.2f}]"
    return f"| {cell.cell} | {cell.ratio:.3f}{ends} | {1e6 * cell.old_s:.4g} |"
