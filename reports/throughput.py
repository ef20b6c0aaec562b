"""The table of arrays' speed: from a record of `tools/throughput.py` to one page.

    cd reports/recorded && python -m fuser.reports.throughput throughput.json throughput.md
    cd reports/recorded && python -m fuser.reports.throughput reductions.json reductions.md

A ratio is a peer's time over ours, paired round by round, with the least and the largest of all
rounds. That is no interval: each runner has one process, and an interval needs three. The share
is that of the ceiling: the C loop's time where that is well above what moving the bytes takes,
else the bytes over the memory's measured speed, sampled beside ours in every round and paired like
a peer's; over ours into an array that is there. A ceiling's threads have a processor each; peers
run as they come.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from fuser.reports.statistics import geometric_mean

OURS, CEILING, MEMORY, INTO = "fused", "c", "memory", "into"
BASELINE = "baseline"
"""Ours, of another checkout: `fuser.reports.side_by_side` has the page of it."""
NO_PEERS = (OURS, CEILING, MEMORY, BASELINE)
LARGE_BYTES = 64_000_000
COMPUTE_BOUND = 1.3
"""A C loop this many times slower than moving its bytes is bound by its arithmetic."""

TITLES = {
    "pointwise": "Large arrays: times, peers, ceilings",
    "rows": "Reductions and normalisations: times, peers, ceilings",
    "others": "Further workloads: times and peers",
}
"""Of the sets of `tools/throughput_sets.py`."""
TARGET_SHARES = {"pointwise": 0.85, "rows": 0.8}
"""Of the ceiling: what each set is held against. Further workloads have no form in C, so that for
those that calculate much the memory's speed is no ceiling to be held against."""
COLUMNS = (
    "workload", "dtype", "elements", "fresh ms", "best peer", "times as fast [rounds]", "into ms",
    "best peer, into", "times as fast, into", "ceiling", "share",
)  # fmt: skip
LEGEND = """\
Times are ours, medians over rounds: *fresh* in new arrays, *into* arrays that are there. *Times as
fast* is the time of the fastest peer over ours, paired round by round: the median, and the least
and the largest of the rounds. Each runner has one process, so this is no interval for others.
*Ceiling* is what bounds a cell: a loop in C, or the speed of the memory in a copy, triad or read of
as many bytes; *share* is that time over the better of ours."""


def best_form(row: Mapping[str, Any]) -> str | None:
    """A runner's form with the least median, of those that were timed."""
    medians = {form: float(np.median(times)) for form, times in row.get("seconds", {}).items()}
    return min(medians, key=lambda form: medians[form], default=None)


def paired(theirs: list[float], ours: list[float]) -> tuple[float, float, float]:
    """The median ratio of paired times, the least and the largest; NaN where there is one pair."""
    if len(theirs) != len(ours):  # one that was timed once, before the rounds
        return float(np.median(theirs) / np.median(ours)), np.nan, np.nan
    ratios = np.asarray(theirs) / np.asarray(ours)
    ends = (np.nan, np.nan) if len(ratios) < 2 else (float(ratios.min()), float(ratios.max()))
    return (float(np.median(ratios)), *ends)


def ceiling_s(cell: Mapping[str, Any]) -> tuple[list[float], str]:
    """The least times that a cell could take, round by round, and what bounds it.

    Records of before kept one speed of the memory for each size, not one for each round.
    """
    ours = cell["rows"][OURS]
    read, written = ours["input_bytes"], ours["output_bytes"]
    by = "read" if read > 6 * written else "triad" if read > 1.5 * written else "copy"
    memory = cell["rows"].get(MEMORY, {})
    if "seconds" in memory:
        share = (read + written) / memory["bytes"][by]
        least_s = [share * each for each in memory["seconds"][by]]
    elif by in cell.get("bandwidth", {}):
        least_s = [(read + written) / cell["bandwidth"][by]]
    else:  # no compiler, no ceiling
        return [], ""
    c = cell["rows"].get(CEILING, {}).get("seconds", {}).get("fresh")
    if c and float(np.median(c)) > COMPUTE_BOUND * float(np.median(least_s)):
        return list(c), "C"
    return least_s, by


def table(record: Mapping[str, Any]) -> pd.DataFrame:
    """One row a cell: times in ms, the best peer, ratios and ranges, share of the ceiling."""
    rows = []
    for cell in record["cells"].values():
        ours = cell["rows"][OURS].get("seconds", {})
        head = {name: cell[name] for name in ("workload", "dtype", "elements")}
        head["shape"] = _shape(cell)
        if not ours:
            rows.append({**head, "best": cell["rows"][OURS].get("reason", "")})
            continue
        peers = {
            name: row["seconds"]
            for name, row in cell["rows"].items()
            if name not in NO_PEERS and row.get("seconds")
        }
        if not peers:
            rows.append({**head, "best": f"no peer was measured ({_reasons(cell)})"})
            continue
        fresh = {name: times["fresh"] for name, times in peers.items()}
        best = min(fresh, key=lambda name: float(np.median(fresh[name])))
        into = {name: times[best_form({"seconds": times}) or ""] for name, times in peers.items()}
        best_into = min(into, key=lambda name: float(np.median(into[name])))
        our_into = ours.get(INTO, ours["fresh"])  # a number goes into no array
        ratio, low, high = paired(fresh[best], ours["fresh"])
        least_s, bound = ceiling_s(cell)
        better = min(our_into, ours["fresh"], key=lambda times: float(np.median(times)))
        rows.append({
            **head, "output_bytes": cell["rows"][OURS]["output_bytes"],
            "fresh_ms": 1e3 * np.median(ours["fresh"]), "best": best, "ratio": ratio,
            "low": low, "high": high, "into_ms": 1e3 * np.median(our_into),
            "best_into": best_into,
            "into_ratio": float(np.median(into[best_into]) / np.median(our_into)),
            "share": paired(least_s, better)[0] if least_s else np.nan,
            "bound": bound,
        })  # fmt: skip
    return pd.DataFrame(rows)


def _reasons(cell: Mapping[str, Any]) -> str:
    """Why peers have no time."""
    return ", ".join(
        f"{name}: {row['reason']}"
        for name, row in cell["rows"].items()
        if name not in NO_PEERS and "reason" in row
    )


def _shape(cell: Mapping[str, Any]) -> str:
    """How many elements, and the lengths that belong to them."""
    further = (f", {name} {value:,}" for name, value in cell.get("axes", {}).items())
    return f"{cell['elements']:,}{''.join(further)}"


def summary(cells: pd.DataFrame, target: float | None = 0.85) -> list[str]:
    """What the table says in a few lines; of ceilings only where there is a target."""
    if "ratio" not in cells:
        return [f"0 of {len(cells)} cells have a ratio."]
    known = cells.dropna(subset=["ratio"])
    large = known["output_bytes"] >= LARGE_BYTES
    lines = [f"{len(known)} of {len(cells)} cells have a ratio."]
    for title, part in (("64 MB or more", known[large]), ("less", known[~large])):
        if len(part):
            lines.append(
                f"- Results of {title}: {geometric_mean(list(part['ratio'])):.2f} times the best "
                f"peer of each cell ({geometric_mean(list(part['into_ratio'])):.2f} into given "
                f"arrays), over {len(part)} cells."
            )
    behind, always = (int((known[end] < 0.95).sum()) for end in ("ratio", "high"))
    lines.append(f"- Cells with a median below 0.95: {behind}, of which in every round: {always}.")
    if target is not None:
        reached = known[known["share"] >= target]
        lines.append(f"- At {target} of the ceiling or more: {len(reached)} of {len(known)} cells.")
    return lines


def page(record: Mapping[str, Any]) -> str:
    """The page in Markdown."""
    cells = table(record)
    machine = record["machine"]
    peers = ", ".join(f"{name} {number}" for name, number in record["packages"].items())
    lines = [
        f"# {TITLES[_set_of(record)]}", "",
        f"{machine['cpu']}, {record['threads']} threads, {machine['os']}; {peers}.", "",
        *summary(cells, TARGET_SHARES.get(_set_of(record))), "", LEGEND, "",
        f"| {' | '.join(COLUMNS)} |", "|---" * len(COLUMNS) + "|",
    ]  # fmt: skip
    lines += [_line(row) for row in cells.to_dict("records")]
    return "\n".join(lines) + "\n"


def _set_of(record: Mapping[str, Any]) -> str:
    """Which set of workloads a record is of."""
    return str(record.get("set", "pointwise"))


def _line(row: Mapping[Any, Any]) -> str:
    """One row of the page's table."""
    head = f"| {row['workload']} | {row['dtype']} | {row['shape']} "
    if np.isnan(row.get("ratio", np.nan)):
        return f"{head}| | {row['best']} | | | | | | |"
    known = not np.isnan(row["low"])
    interval = f" [{row['low']:.2f}, {row['high']:.2f}]" if known else ""
    return (
        f"{head}| {row['fresh_ms']:.3g} | {row['best']} | {row['ratio']:.2f}{interval} "
        f"| {row['into_ms']:.3g} | {row['best_into']} | {row['into_ratio']:.2f} "
        f"| {row['bound']} | {row['share']:.2f} |"
    )


def main(arguments: Sequence[str] | None = None) -> None:
    """Write the page of a record."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("record", type=Path)
    parser.add_argument("page", type=Path)
    chosen = parser.parse_args(arguments)
    try:
        record = json.loads(chosen.record.read_text(encoding="utf-8"))
        if not isinstance(record, dict) or not isinstance(record.get("cells"), dict):
            raise ValueError("no record of tools/throughput.py")
        chosen.page.write_text(page(record), encoding="utf-8")
    except (OSError, ValueError) as error:
        parser.error(f"{chosen.record}: {error}")
    print("\n".join(summary(table(record), TARGET_SHARES.get(_set_of(record)))))


if __name__ == "__main__":
    main()
