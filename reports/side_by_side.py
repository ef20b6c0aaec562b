"""Two checkouts side by side: the records of runs with `--baseline DIR` as one page.

Each figure is the new checkout's time over that of the baseline, as both were timed in turns, in
one run: above 1 the new one is slower. A table holds where the geometric mean of its figures is at
most 1.02; each cell beyond 1.15 needs its reason. Beside a cell's median stand the least
and the largest of its blocks or processes.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np
import pandas as pd

from fuser.reports.analysis import Analysis
from fuser.reports.record import Cell, Record, Run
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


class Ratio(NamedTuple):
    """One figure: the median ratio new to old with its range, NaN where one pair was timed."""

    name: str
    ratio: float
    low: float
    high: float
    old_s: float


class Table(NamedTuple):
    """One record's figures, and what has none, with the reason."""

    title: str
    cells: list[Ratio]
    missing: dict[str, str]

    @property
    def mean(self) -> float:
        """The geometric mean of the ratios; NaN of none."""
        return geometric_mean([cell.ratio for cell in self.cells]) if self.cells else np.nan

    @property
    def beyond(self) -> list[Ratio]:
        """The cells beyond the limit, the slowest first."""
        return [cell for cell in self.slowest if cell.ratio > MOST_CELL]

    @property
    def slowest(self) -> list[Ratio]:
        """All cells, the slowest first."""
        return sorted(self.cells, key=lambda cell: -cell.ratio)

    @property
    def holds(self) -> bool:
        """Whether something was measured, and the mean is within its limit."""
        return bool(self.cells) and self.mean <= MOST_MEAN

    @property
    def verdict(self) -> str:
        """Whether the table holds, in a few words."""
        if not self.cells:
            return "nothing was measured"
        mean = "holds" if self.holds else f"MISSED: its mean is above {MOST_MEAN}"
        reasons = f"; {len(self.beyond)} cells need a reason" if self.beyond else ""
        gaps = f"; {len(self.missing)} were not measured" if self.missing else ""
        return f"{mean}{reasons}{gaps}"


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


def table(record: Record) -> Table:
    """The figures of a record."""
    forms = FORMS if any(each.name == f"{OURS}_into" for each in record.variants) else {"": ""}
    cells: list[Ratio] = []
    missing: dict[str, str] = {}
    for cell in record.cells:
        for name, new, old in _pairs(cell, forms):
            found = paired(new, old)
            if found is None:
                reasons = [each.reason for each in (new, old) if not each.samples.seconds]
                missing[name] = next(filter(None, reasons), "no block that both have")
            else:
                old_s = float(np.median(list(block_seconds(old.samples).values())))
                cells.append(Ratio(name, *found, old_s))
    return Table(record.preset, cells, missing)


def side_by_side_table(analysis: Analysis) -> pd.DataFrame:
    """The figures of a run as a table, the slowest first, then what has none; empty without."""
    if not has_baseline(analysis.record):
        return pd.DataFrame(columns=COLUMNS)
    found = table(analysis.record)
    lines = [
        {"cell": each.name, "ratio": each.ratio, "ratio_low": each.low, "ratio_high": each.high,
         "old_s": each.old_s}
        for each in found.slowest
    ]  # fmt: skip
    lines += [{"cell": name, "reason": reason} for name, reason in found.missing.items()]
    return pd.DataFrame(lines, columns=COLUMNS)


def sentences(record: Record, shown: pd.DataFrame) -> list[str]:
    """The mean of a run's figures, judged; nothing where no other checkout was timed."""
    if not len(shown):
        return []
    found = table(record)
    head = f"New to old, the geometric mean of {len(found.cells)} figures: "
    return [f"{head}{found.mean:.3f}, {found.verdict}."]


def _pairs(cell: Cell, forms: Mapping[str, str]) -> Iterator[tuple[str, Run, Run]]:
    """Each form of a cell that both checkouts were to have, with its name."""
    runs = {each.variant: each for each in cell.runs}
    for suffix, form in forms.items():
        new, old = runs.get(f"{OURS}{suffix}"), runs.get(f"{OTHERS}{suffix}")
        if new is not None and old is not None:
            yield f"{cell.id} {form}".strip(), new, old


def page(records: Sequence[Record]) -> str:
    """The page in Markdown: a line for each table, then its slowest cells and what is missing."""
    first, tables = records[0], [table(record) for record in records]
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
    for each in tables:
        sure = sum(cell.low > MOST_CELL for cell in each.beyond)
        least = min((cell.ratio for cell in each.cells), default=np.nan)
        lines.append(
            f"| {each.title} | {len(each.cells)} | {each.mean:.3f} | {len(each.beyond)} ({sure}) "
            f"| {least:.2f} | {each.verdict} |"
        )
    for each in tables:
        lines += ["", f"## {each.title}", "", "| cell | new to old [range] | baseline µs |"]
        lines.append("|---|---|---|")
        lines += map(_line, each.slowest[: max(SHOWN, len(each.beyond))])
        lines += _missing(each.missing)
    return "\n".join(lines) + "\n"


def _missing(missing: Mapping[str, str]) -> Iterator[str]:
    """What has no figure; many with one reason are counted."""
    for reason in dict.fromkeys(missing.values()):
        names = [name for name, each in missing.items() if each == reason]
        yield f"- {names[0] if len(names) == 1 else _named(names)}: {reason}"


def _named(names: Sequence[str]) -> str:
    return ", ".join(names) if len(names) <= SHOWN else f"{len(names)} figures"


def _line(cell: Ratio) -> str:
    """One cell."""
    ends = "" if np.isnan(cell.low) else f" [{cell.low:.2f}, {cell.high:.2f}]"
    return f"| {cell.name} | {cell.ratio:.3f}{ends} | {1e6 * cell.old_s:.4g} |"
