"""What stands behind a row: its samples, plan, generated source, assembly, and how to repeat it.

The page opens these when a person asks for them. They are kept in it once each, compressed: the
same source serves every size of a workload.
"""

import base64
import gzip
import json
from typing import Any

from fuser.reports.analysis import Analysis, Row
from fuser.reports.display import anchor_of
from fuser.reports.record import MachineLoad
from fuser.reports.statistics import block_seconds
from fuser.reports.tables import reproduce_command

MOST_SAMPLES = 240
"""Of one row; of more, every so-many-th is drawn."""
HIDDEN_TEXTS = ("trace",)
"""Texts of the record that belong to no row."""


def details(analysis: Analysis) -> dict[str, Any]:
    """Collect the details of every row that was timed or has a text.

    Returns:
        `rows`: anchor -> title, command, samples as [process, seconds a call], keys of texts,
        what crosses kernels; `texts`: key -> text.
    """
    rows = {
        anchor_of("runs", {"cell": row.cell.id, "variant": row.variant.name}): _row(row, analysis)
        for row in analysis.rows
        if row.run.samples.seconds or row.run.texts
    }
    texts = {
        key: text for key, text in analysis.record.texts.items() if key not in HIDDEN_TEXTS
    }
    return {"rows": rows, "texts": texts}


def _row(row: Row, analysis: Analysis) -> dict[str, Any]:
    """The details of one row."""
    drawn = [
        [process, float(f"{seconds:.4g}")]
        for (process, _), seconds in block_seconds(row.run.samples).items()
    ]
    step = -(-len(drawn) // MOST_SAMPLES) or 1
    found: dict[str, Any] = {
        "title": f"{row.cell.id}, {row.variant.name}",
        "command": reproduce_command(analysis, row.cell),
        "samples": drawn[::step],
        "texts": dict(row.run.texts),
    }
    if row.label.text:
        found["label"] = f"{row.label.text}: {row.label.reason}"
    if row.variant.kind == "fused" and row.cell.ledger.boundaries:
        found["crossing"] = [
            f"{each.value}: {each.moved_bytes:,} bytes, {each.meaning or each.reason}"
            for each in row.cell.ledger.boundaries
        ]
    if row.cell.load:
        found["load"] = [_load_text(each) for each in row.cell.load]
    return found


def _load_text(load: MachineLoad) -> str:
    """Say what else the machine did while one process measured a cell."""
    said = [f"other processes used {load.other_cores:.2f} processors"]
    if load.steal_s is not None:
        said.append(f"the hypervisor took {load.steal_cores:.2f}")
    if load.load:
        said.append("load average " + " → ".join(f"{each:.2f}" for each in load.load))
    if load.frequency_hz:
        said.append(
            "clock rate " + " → ".join(f"{each / 1e9:.2f}" for each in load.frequency_hz) + " GHz"
        )
    if load.throttles:
        said.append(f"slowed for heat {load.throttles} times")
    return f"process {load.process + 1}, {load.wall_s:.2g} s: {', '.join(said)}"


def packed(analysis: Analysis) -> str:
    """Return the details as compressed JSON in letters that an HTML page can hold."""
    text = json.dumps(details(analysis), ensure_ascii=False, separators=(",", ":"))
    return base64.b64encode(gzip.compress(text.encode(), mtime=0)).decode("ascii")
