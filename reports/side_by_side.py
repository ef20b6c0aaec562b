"""Two checkouts side by side: from records of the tools with `--baseline DIR` to one page.

    python -m fuser.reports.side_by_side pointwise.json rows.json calls.json compile.json PAGE

Each figure is the new checkout's time over that of the baseline, as both were timed in turns, in
one run: above 1 the new one is slower. A table holds where the geometric mean of its figures is at
most 1.02; each cell beyond 1.15 needs its reason. Beside a cell's median stand the least
and the largest of its rounds, or processes.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from fuser.reports.statistics import geometric_mean
from fuser.reports.throughput import BASELINE, OURS, paired

MOST_MEAN, MOST_CELL = 1.02, 1.15
"""What a table's geometric mean and one cell may be."""
SHOWN = 10
"""Cells that are listed, the slowest first; of those beyond the limit all are."""
LEGEND = """\
Figures are the new checkout's time over the baseline's, timed in turns: above 1 the new one is
slower. *Beyond* says how many cells pass the limit, and in brackets how many of them in every
round."""


class Cell(NamedTuple):
    """One figure: the median ratio new to old with its range, NaN where one pair was timed."""

    name: str
    ratio: float
    low: float
    high: float
    old_s: float


class Table(NamedTuple):
    """One record's figures, and what has none, with the reason."""

    title: str
    cells: list[Cell]
    missing: dict[str, str]

    @property
    def mean(self) -> float:
        """The geometric mean of the ratios; NaN of none."""
        return geometric_mean([cell.ratio for cell in self.cells]) if self.cells else np.nan

    @property
    def beyond(self) -> list[Cell]:
        """The cells beyond the limit, the slowest first."""
        return [cell for cell in self.slowest if cell.ratio > MOST_CELL]

    @property
    def slowest(self) -> list[Cell]:
        """All cells, the slowest first."""
        return sorted(self.cells, key=lambda cell: -cell.ratio)

    @property
    def verdict(self) -> str:
        """Whether the table holds, in a few words."""
        if not self.cells:
            return "nothing was measured"
        mean = "holds" if self.mean <= MOST_MEAN else f"MISSED: its mean is above {MOST_MEAN}"
        reasons = f"; {len(self.beyond)} cells need a reason" if self.beyond else ""
        gaps = f"; {len(self.missing)} were not measured" if self.missing else ""
        return f"{mean}{reasons}{gaps}"


def turns(round_number: int) -> tuple[str, str]:
    """The sides in the order of one round: each comes first in every other one."""
    return ("new", "old") if round_number % 2 == 0 else ("old", "new")


def samples(record: Mapping[str, Any]) -> tuple[str, dict[str, Mapping[str, Any]]]:
    """A record's title, and by cell the seconds `new` and `old`, or the `reason` for none.

    Raises:
        ValueError: it was measured without a baseline.
    """
    if "beside" in record:
        return str(record["table"]), dict(record["beside"])
    found: dict[str, Mapping[str, Any]] = {}
    for name, cell in record.get("cells", {}).items():
        if BASELINE not in cell["rows"]:
            continue
        new, old = cell["rows"][OURS], cell["rows"][BASELINE]
        for reason in (row["reason"] for row in (new, old) if "reason" in row):
            found[name] = {"reason": reason}
        forms = new.get("seconds", {}).keys() & old.get("seconds", {}).keys()
        for form in sorted(forms) if name not in found else ():
            found[f"{name} {form}"] = {"new": new["seconds"][form], "old": old["seconds"][form]}
    if not found:
        raise ValueError("no record of a run with --baseline")
    for name in record.get("wanted", ()):
        if name not in record["cells"]:
            found[name] = {"reason": "out of time"}
    return str(record.get("set", "pointwise")), found


def table(record: Mapping[str, Any]) -> Table:
    """The figures of a record.

    Raises:
        ValueError: as `samples`.
    """
    title, found = samples(record)
    cells, missing = [], {}
    for name, each in found.items():
        if "reason" in each or not (each["new"] and each["old"]):
            missing[name] = str(each.get("reason", "no sample"))
            continue
        ratio, low, high = paired(each["new"], each["old"])
        cells.append(Cell(name, ratio, low, high, float(np.median(each["old"]))))
    return Table(title, cells, missing)


def page(records: Sequence[Mapping[str, Any]]) -> str:
    """The page in Markdown: a line for each table, then its slowest cells and what is missing."""
    first, tables = records[0], [table(record) for record in records]
    machine = first["machine"]
    commits = " against ".join(str(first.get(key))[:12] for key in ("commit", "baseline"))
    mixed = {(record.get("commit"), record.get("baseline")) for record in records}
    lines = [
        "# Two checkouts side by side", "", f"{commits}; {machine['cpu']}, {machine['os']}.", "",
        *(["**These records are not all of the same two commits.**", ""] if len(mixed) > 1 else []),
        *(["**Files of the new checkout differed from its commit.**", ""]
          if any(record.get("dirty") for record in records) else []),
        LEGEND, "",
        f"| table | cells | geometric mean | beyond {MOST_CELL} | fastest | verdict |",
        "|---|---|---|---|---|---|",
    ]  # fmt: skip
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
        lines += [f"- {name}: {reason}" for name, reason in each.missing.items()]
    return "\n".join(lines) + "\n"


def _line(cell: Cell) -> str:
    """One cell."""
    ends = "" if np.isnan(cell.low) else f" [{cell.low:.2f}, {cell.high:.2f}]"
    return f"| {cell.name} | {cell.ratio:.3f}{ends} | {1e6 * cell.old_s:.4g} |"


def main(arguments: Sequence[str] | None = None) -> int:
    """Write the page; 1 where a table's mean is missed, or something was not measured."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("records", type=Path, nargs="+")
    parser.add_argument("page", type=Path)
    chosen = parser.parse_args(arguments)
    try:
        records = [json.loads(path.read_text(encoding="utf-8")) for path in chosen.records]
        text = page(records)
    except (OSError, ValueError, KeyError, TypeError) as error:
        parser.error(f"{error}: wanted are records of the tools with --baseline, then a page")
    chosen.page.write_text(text, encoding="utf-8")
    print(text.partition("\n## ")[0])
    tables = [table(record) for record in records]
    return 0 if all(each.cells and each.mean <= MOST_MEAN for each in tables) else 1


if __name__ == "__main__":
    sys.exit(main())
