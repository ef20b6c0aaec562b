"""The first lines of the page: the machine, the run, and the summaries in words."""

import math
from collections import Counter
from dataclasses import dataclass

import pandas as pd

from fuser.reports.collection import Collection
from fuser.reports.labels import is_expected
from fuser.reports.plots.marks import SIZE_TITLES, rows_of
from fuser.reports.record import Record
from fuser.reports.spelling import bytes_text, ratio_text
from fuser.reports.statistics import no_interval

NUMBER = "impossible number"
NO_ROW = "no row"


@dataclass(frozen=True, slots=True)
class Card:
    """One summary: a ratio, its interval, and how many rows it is about."""

    what: str
    value: str
    interval: str
    rows: str
    second: str

    def __str__(self) -> str:
        """All of it in one line, for a terminal."""
        if self.value == NO_ROW:
            return f"{self.what}: {self.rows} have a figure"
        if not self.interval:
            return f"{self.what}: {self.value}, {self.rows}; {self.second}"
        return f"{self.what}: {self.value} ({self.interval}), {self.rows}; {self.second}"


def machine_line(record: Record) -> str:
    """Name the machine and what ran on it."""
    machine = record.machine
    physical = f" ({machine.cores_physical} physical)" if machine.cores_physical else ""
    parts = [machine.cpu, f"{machine.cores_logical} logical cores{physical}"]
    if machine.memory_bytes:
        parts.append(bytes_text(machine.memory_bytes))
    if machine.accelerator:
        parts.append(machine.accelerator)
    parts.append(machine.os)
    parts += [f"{name} {version}" for name, version in record.packages.items() if name != "fuser"]
    return ", ".join(part for part in parts if part)


def run_line(record: Record) -> str:
    """Say when and how it was measured."""
    day = record.created_utc.replace("T", " ").removesuffix("Z").removesuffix("+00:00")
    processes = max(
        (len(set(run.samples.process)) for cell in record.cells for run in cell.runs), default=0
    )
    cells = len(record.cells)
    words = [f"{day} UTC", f"preset {record.preset}", f"{cells} cell{'s' * (cells != 1)}"]
    words.append(f"{processes} process{'' if processes == 1 else 'es'}")
    if record.commit:
        words.append(f"commit {record.commit[:12]}{' with changes' if record.dirty else ''}")
    return ", ".join(words)


def cards_of(record: Record, summary: pd.DataFrame) -> list[Card]:
    """Give one card a size for fused against eager, and for fused against unfused.

    Args:
        record: the run.
        summary: its table of that name.
    """
    kinds = {each.name: each.kind for each in record.variants}
    cards = []
    for line in rows_of(summary):
        if kinds.get(str(line.variant)) != "fused":
            continue
        if line.baseline == "unfused" and "unfused" not in kinds.values():
            continue
        size = SIZE_TITLES[str(line.size)].lower()
        subject = str(line.variant).capitalize()
        what = f"{subject} against eager (plain NumPy), {size} sizes"
        if line.baseline == "unfused":
            what = f"Fusing itself (unfused to {line.variant}), {size} sizes"
        cards.append(
            Card(
                what,
                NO_ROW if math.isnan(line.speedup) else ratio_text(line.speedup),
                "" if math.isnan(line.speedup)
                else _interval(line.speedup_low, line.speedup_high, int(line.processes)),
                f"{line.counted} of {line.rows} rows",
                _second(line.speedup_all, int(line.counted_all), int(line.counted)),
            )
        )
    return cards


def _interval(low: float, high: float, processes: int) -> str:
    if math.isnan(low) or math.isnan(high):
        return no_interval(processes)
    spans = ", which spans 1: no difference is shown" if low <= 1 <= high else ""
    return f"95% interval {ratio_text(low)} to {ratio_text(high)}{spans}"


def _second(ratio: float, rows: int, counted: int) -> str:
    """Spell the mean that leaves nothing timed out."""
    if math.isnan(ratio):
        return ""
    if rows == counted:
        return "no timed row was left out"
    return f"{ratio_text(ratio)} over {rows} rows, those left out at their measured time"


def left_out_sentence(collection: Collection) -> str:
    """Count what the summaries are about and what they are not."""
    rows = [row for row in collection.analysis.rows if row.variant.kind != "eager"]
    counted = sum(row.label.counts and row.speedup is not None for row in rows)
    refused = sum(is_expected(row.label) for row in rows)
    labels = Counter(
        row.label.text for row in rows if row.label.is_left_out and not is_expected(row.label)
    )
    text = f"Ratios to eager are shown for {counted} of {len(rows)} rows."
    if any(row.cell.size == "sweep" for row in rows):
        text += " The averages leave out the size sweeps, which are shown as time against size."
    if refused:
        text += f" {refused} rows are left to NumPy: their workloads show what cannot be fused."
    if labels:
        text += " Left out: " + ", ".join(
            f"{count} {name}{'s' if name == NUMBER and count > 1 else ''}"
            for name, count in labels.items()
        )
        text += "; all are listed with their reasons."
    return text
