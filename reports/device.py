"""The page of a run on a machine with a GPU: from the raw lines of `tools/device_run.py`.

    python -m fuser.reports.device reports/recorded/<name>/device.jsonl page.md

Ratios are another way's median time over ours, by the host's clock over batches of calls, with
a 95% interval by resampling; shares are those of a copy's speed in the same run. All of it is
computed from the raw times again, so that a page can be checked on any machine.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

#: What the aims say: of the copy's speed; the least ratio that an interval must reach.
OF_COPY, LEAST = 0.90, 0.95

Line = Mapping[str, Any]


def read(path: Path) -> list[Line]:
    """The lines of a run; one that was cut off is left out."""
    found = []
    for text in path.read_text().splitlines():
        try:
            found.append(json.loads(text))
        except json.JSONDecodeError:
            break
    return found


def ratio_interval(
    theirs: list[float], ours: list[float], random: np.random.Generator
) -> tuple[float, float, float]:
    """A ratio of medians with its 95% interval by resampling: above 1, ours is quicker."""
    draws = [
        np.median(random.choice(theirs, len(theirs))) / np.median(random.choice(ours, len(ours)))
        for _ in range(1000)
    ]
    low, high = np.percentile(draws, [2.5, 97.5])
    return float(low), float(np.median(theirs) / np.median(ours)), float(high)


def cells(lines: Iterable[Line]) -> list[dict[str, Any]]:
    """Ours beside the best other way, for each workload and shape that both have times of."""
    ways: dict[tuple[str, str], dict[str, Line]] = {}
    for line in lines:
        if line["part"] == "speed" and "batch_ms" in line:
            key = (line["workload"], str(line["shape"]))
            ways.setdefault(key, {})[line["way"]] = line
    random, found = np.random.default_rng(0), []
    for (workload, shape), rows in ways.items():
        others = {way: row for way, row in rows.items() if way != "fuser"}
        if "fuser" not in rows or not others:
            continue
        ours = rows["fuser"]
        peer = min(others, key=lambda way: float(np.median(others[way]["batch_ms"])))
        low, ratio, high = ratio_interval(others[peer]["batch_ms"], ours["batch_ms"], random)
        found.append({
            "workload": workload, "shape": shape, "gigabytes_per_s": ours["gigabytes_per_s"],
            "of_copy": ours["of_copy"], "best_peer": peer, "ratio": ratio, "interval": [low, high],
            "holds": bool(ours["of_copy"] >= OF_COPY and high >= LEAST),
        })  # fmt: skip
    return found


def geometric_mean(found: list[dict[str, Any]]) -> float:
    """Of all cells' ratios."""
    return float(np.exp(np.mean([np.log(cell["ratio"]) for cell in found])))


def page(lines: list[Line]) -> str:
    """As Markdown."""
    by_part: dict[str, list[Line]] = {}
    for line in lines:
        by_part.setdefault(line["part"], []).append(line)
    parts = ["# A run on a GPU", *_machine(by_part), *_checks(lines), *_speeds(by_part)]
    for part, columns in _TABLES.items():
        rows = [line for line in by_part.get(part, []) if columns[0] in line and columns[1] in line]
        if rows:
            parts += ["", f"## {part.capitalize()}", "", *_table(columns, rows)]
    return "\n".join(parts) + "\n"


#: part -> what its table shows
_TABLES = {
    "overhead": ("way", "us"),
    "overhead-aim": ("way", "ratio", "limit", "holds"),
    "traffic": ("workload", "planned_bytes", "counted_bytes", "ratio", "holds"),
    "took": ("name", "elapsed_s"),
}


def _machine(by_part: Mapping[str, list[Line]]) -> list[str]:
    """What it ran on."""
    found = by_part.get("machine", [])
    if not found:
        return ["", "The machine was not described."]
    versions = {k: v for k, v in found[-1].get("versions", {}).items() if v}
    named = ", ".join(f"{name} {version}" for name, version in versions.items())
    count = found[-1].get("attributes", {}).get("MultiProcessorCount", "unknown")
    return ["", f"{found[-1].get('platform', '')}; {count} multiprocessors; {named}."]


def _checks(lines: list[Line]) -> list[str]:
    """What was right, wrong, failed and skipped."""
    checked = [line for line in lines if "right" in line]
    wrong = [line for line in checked if not line["right"]]
    failed = [line for line in lines if line["part"] == "failed"]
    skipped = [line for line in lines if "skipped" in line and line["part"] != "speed"]
    said = [f"{len(checked) - len(wrong)} of {len(checked)} checks are right."]
    said += [f"- wrong: {line['part']} {_named(line)}" for line in wrong]
    said += [f"- failed: {line['name']}: {line['error'].strip().splitlines()[-1]}"
             for line in failed]  # fmt: skip
    said += [f"- skipped: {line['part']}: {line['skipped']}" for line in skipped]
    return ["", "## Checks", "", *said]


def _named(line: Line) -> str:
    """What a check was of."""
    return " ".join(str(line[key]) for key in ("workload", "call", "last_line") if key in line)


def _speeds(by_part: Mapping[str, list[Line]]) -> list[str]:
    """Ours, of the copy and beside the best other way."""
    found = cells(by_part.get("speed", []))
    if not found:
        return []
    copies = by_part.get("copy", [])
    said = [f"A copy moves {copies[-1]['gigabytes_per_s']:.0f} GB/s."] if copies else []
    holding = sum(cell["holds"] for cell in found)
    said.append(f"Geometric mean over the best other way: {geometric_mean(found):.2f}; "
                f"{holding} of {len(found)} cells reach {OF_COPY} of the copy and are not below "
                f"{LEAST} of that way.")  # fmt: skip
    columns = ("workload", "shape", "gigabytes_per_s", "of_copy", "best_peer", "ratio", "interval")
    missing = [line for line in by_part["speed"] if "batch_ms" not in line]
    said += [f"- {line['workload']} {line['shape']} {line['way']}: "
             f"{line.get('error') or line.get('skipped')}" for line in missing]  # fmt: skip
    return ["", "## Speeds", "", *said, "", *_table(columns, found)]


def _table(columns: tuple[str, ...], rows: Iterable[Mapping[str, Any]]) -> list[str]:
    """Markdown."""
    return [
        f"| {' | '.join(name.replace('_', ' ') for name in columns)} |",
        f"|{'---|' * len(columns)}",
        *(f"| {' | '.join(_spelt(row.get(name, '')) for name in columns)} |" for row in rows),
    ]


def _spelt(value: Any) -> str:
    """A cell of a table."""
    if isinstance(value, list):
        return " to ".join(map(_spelt, value))
    if isinstance(value, float):
        return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"
    return f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else str(value)


def main(arguments: list[str] | None = None) -> None:
    """Write the page."""
    parser = argparse.ArgumentParser(description="The page of a run on a machine with a GPU.")
    parser.add_argument("record", type=Path)
    parser.add_argument("target", type=Path)
    options = parser.parse_args(arguments)
    try:
        options.target.write_text(page(read(options.record)))
    except OSError as error:
        parser.error(str(error))


if __name__ == "__main__":
    main()
