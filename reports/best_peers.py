"""The fuser beside the best of its peers and beside what the machine allows, cell by cell.

A ratio is a peer's time over ours, paired block by block, with the least and the largest of all
blocks. That is no interval: where each variant has one process, none is known. The ceiling is a
loop in C where that takes well longer than moving the bytes, else the bytes over the speed of the
memory; the share is its time over the better of ours, in new arrays or into those that are there.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd

from fuser.reports.analysis import Analysis, working_set_bytes
from fuser.reports.ceilings import ceiling_for
from fuser.reports.record import Cell, Record, Run
from fuser.reports.side_by_side import paired
from fuser.reports.statistics import block_seconds, geometric_mean

PEER_KINDS = ("eager", "peer")
LARGE_BYTES = 64_000_000
COMPUTE_BOUND = 1.3
"""A C loop this many times slower than moving its bytes is bound by its arithmetic."""
TARGET_SHARES = {"peers": 0.85, "rows": 0.8, "device": 0.9}
"""Of the ceiling: what each table is held against. Further workloads have no form in C, so that for
those that calculate much the memory's speed is no ceiling to be held against."""
BEST_PEERS = [
    "cell", "workload", "dtype", "elements", "output_bytes", "fused_s", "best", "ratio",
    "ratio_low", "ratio_high", "into_s", "best_into", "into_ratio", "ceiling", "share",
]  # fmt: skip
LEGEND = """\
Times are ours, medians over blocks: *fresh* in new arrays, *into* arrays that are there. *Times as
fast* is the time of the fastest peer over ours, paired block by block: the median, and the least
and the largest of the blocks. *Ceiling* is what bounds a cell: a loop in C, or the speed of the
memory in a copy, triad or read; *share* is that time over the better of ours."""


def median_s(run: Run | None) -> float:
    """The median over blocks of a call's seconds; NaN where none was timed."""
    times = list(block_seconds(run.samples).values()) if run is not None else []
    return float(np.median(times)) if times else np.nan


def best_peers_table(analysis: Analysis) -> pd.DataFrame:
    """One row a cell: our seconds, the best peer with its ratio, the share of the ceiling.

    Empty where no peer, but NumPy, or not ours could be timed: other tables say more of those.
    """
    record = analysis.record
    peers = [each for each in record.variants if each.kind == "peer" and not each.absent_reason]
    kinds = {each.name: each.kind for each in record.variants}
    own = next((name for name, kind in kinds.items() if kind == "fused"), None)
    if own is None or not peers:
        return pd.DataFrame(columns=BEST_PEERS)
    lines = [_line(cell, own, kinds, analysis) for cell in record.cells]
    return pd.DataFrame(lines, columns=BEST_PEERS)


def _line(
    cell: Cell, own: str, kinds: Mapping[str, str], analysis: Analysis
) -> dict[str, Any]:
    """A cell's row; `own` is the name of our variant."""
    head = {
        "cell": cell.id, "workload": cell.workload, "dtype": cell.dtype, "elements": cell.elements,
        "output_bytes": cell.output_bytes,
    }  # fmt: skip
    timed = {run.variant: run for run in cell.runs if run.samples.seconds}
    ours = timed.get(own)
    if ours is None:
        run = next((each for each in cell.runs if each.variant == own), None)
        return {**head, "best": run.reason if run else "not measured"}
    peers = {name: run for name, run in timed.items() if kinds.get(name) in PEER_KINDS}
    if not peers:
        return {**head, "fused_s": median_s(ours), "best": f"no peer was measured ({_why(cell)})"}
    given = {name: run for name, run in timed.items() if name.removesuffix("_into") in peers}
    into = timed.get(f"{own}_into", ours)  # a number goes into no array
    best = min(peers, key=lambda name: median_s(peers[name]))
    best_into = min(given, key=lambda name: median_s(given[name]))
    ratio, low, high = _ratio(peers[best], ours)
    better = min(ours, into, key=median_s)
    ceiling, least_s, loop = _ceiling(cell, kinds, analysis)
    share = least_s / median_s(better) if loop is None else _ratio(loop, better)[0]
    return {
        **head, "fused_s": median_s(ours), "best": best, "ratio": ratio, "ratio_low": low,
        "ratio_high": high, "into_s": median_s(into), "best_into": best_into,
        "into_ratio": _ratio(given[best_into], into)[0], "ceiling": ceiling, "share": share,
    }  # fmt: skip


def _ratio(theirs: Run, ours: Run) -> tuple[float, float, float]:
    """Their time over ours; of medians where no block has both."""
    return paired(theirs, ours) or (median_s(theirs) / median_s(ours), np.nan, np.nan)


def _why(cell: Cell) -> str:
    return ", ".join(f"{run.variant}: {run.reason}" for run in cell.runs if run.reason)


def _ceiling(
    cell: Cell, kinds: Mapping[str, str], analysis: Analysis
) -> tuple[str, float, Run | None]:
    """What bounds a cell, the least seconds that it could take, and the loop in C if that does."""
    read, written = cell.input_bytes, cell.output_bytes
    by = "read" if read > 6 * written else "triad" if read > 1.5 * written else "copy"
    caches = analysis.record.machine.caches
    speed = ceiling_for(working_set_bytes(cell), analysis.speeds, caches, (by,))
    least_s = np.nan if speed is None else (read + written) / speed.typical
    loops = [run for run in cell.runs if kinds.get(run.variant) == "ceiling"]
    loop = next((run for run in loops if run.samples.seconds), None)
    if loop is not None and not median_s(loop) <= COMPUTE_BOUND * least_s:
        return loop.variant, median_s(loop), loop
    return ("" if speed is None else by), least_s, None


def summary(cells: pd.DataFrame, target: float | None = None) -> list[str]:
    """What the table says in a few lines; of ceilings only where there is a target."""
    known = cells.dropna(subset=["ratio"])
    lines = [f"{len(known)} of {len(cells)} cells have a ratio."]
    large = known["output_bytes"] >= LARGE_BYTES
    for title, part in (("of 64 MB or more", known[large]), ("below 64 MB", known[~large])):
        if len(part):
            lines.append(
                f"Results {title}: {geometric_mean(list(part['ratio'])):.2f} times the best "
                f"peer of each cell ({geometric_mean(list(part['into_ratio'])):.2f} into given "
                f"arrays), over {len(part)} cells."
            )
    behind, always = (int((known[end] < 0.95).sum()) for end in ("ratio", "ratio_high"))
    lines.append(f"Cells with a median below 0.95: {behind}, of which in every block: {always}.")
    if target is not None:
        reached = known[known["share"] >= target]
        lines.append(f"At {target} of the ceiling or more: {len(reached)} of {len(known)} cells.")
    return lines


def sentences(record: Record, table: pd.DataFrame) -> list[str]:
    """The summary of a record's table; nothing where no peer has a time."""
    known = table["ratio"].notna().any()
    return summary(table, TARGET_SHARES.get(record.preset)) if known else []
