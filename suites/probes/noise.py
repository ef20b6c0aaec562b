"""What earlier runs found out about this machine: its noise, and how fast it usually is.

A run's own A/A pairs are few. The noise floors of the runs before it say what this machine can
tell apart; the anchors say whether it is today the machine that it was.
"""

import json
import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from typing import Any

from fuser.reports.record import Machine, Record

KEPT = 20
"""Runs of one machine that are kept."""
SLOWER = 1.1
"""A machine whose anchors take this much longer than usual is not itself."""


@dataclass(frozen=True, slots=True)
class Past:
    """What one run says of its machine."""

    run_id: str
    floor: float | None  # 1.008: ratios of equal things came out as far from 1 as this
    processes: int
    compute_s: float | None
    memory_s: float | None


def path() -> Path:
    """Return the file: $XDG_STATE_HOME or ~/.local/state, or the platform's own place."""
    if sys.platform == "win32":
        base = Path(os.environ.get("LOCALAPPDATA", Path.home() / "AppData" / "Local"))
    elif sys.platform == "darwin":
        base = Path.home() / "Library" / "Application Support"
    else:
        base = Path(os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state")
    return base / "fuser-bench" / "machines.json"


def fingerprint(machine: Machine) -> str:
    """Return what makes a machine the same one."""
    return f"{machine.cpu}, {machine.cores_logical} cores, {machine.memory_bytes >> 30} GiB"


def past_of(record: Record) -> Past:
    """Return what a run says of its machine."""
    from fuser.reports.analysis import analyse

    analysis = analyse(record)
    anchors = (record.call_overhead or {}).get("anchors") or {}
    return Past(
        record.run_id, analysis.floor.ratio if analysis.floor else None, analysis.processes,
        _median(anchors.get("compute_s")), _median(anchors.get("memory_s")),
    )


def _median(values: Sequence[float] | None) -> float | None:
    return median(values) if values else None


def known(machine: Machine) -> list[Past]:
    """Return the earlier runs of a machine, the oldest first; none where nothing can be read."""
    found = _read().get(fingerprint(machine), [])
    try:
        return [Past(**each) for each in found]
    except TypeError:  # another version's file
        return []


def remember(record: Record) -> None:
    """Keep what a run says of its machine; where that cannot be written, nothing is kept."""
    everything = dict(_read())
    past = [asdict(each) for each in known(record.machine)][-(KEPT - 1) :]
    everything[fingerprint(record.machine)] = [*past, asdict(past_of(record))]
    target = path()
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        temporary = target.with_suffix(f".{os.getpid()}.tmp")
        temporary.write_text(json.dumps(everything, indent=1) + "\n", encoding="utf-8")
        temporary.replace(target)
    except OSError:
        return


def _read() -> Mapping[str, Any]:
    try:
        found = json.loads(path().read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def usual_floor(past: Sequence[Past]) -> float | None:
    """Return the median noise floor of earlier runs, as a ratio."""
    floors = [each.floor for each in past if each.floor is not None]
    return median(floors) if floors else None


def unlike_before(record: Record, past: Sequence[Past]) -> list[str]:
    """Return notes on how a run's machine differs from what it usually is."""
    from fuser.reports.weaknesses import apart

    now, notes = past_of(record), []
    for name, work in (("compute_s", "arithmetic"), ("memory_s", "memory")):
        before = [getattr(each, name) for each in past if getattr(each, name) is not None]
        seconds = getattr(now, name)
        if len(before) >= 2 and seconds is not None and seconds > SLOWER * median(before):
            times = seconds / median(before)
            notes.append(
                f"the {work} anchor took {times:.2f} times as long as in {len(before)} earlier "
                "runs of this machine: it was busy, or its clock was lower"
            )
    floor = usual_floor(past)
    if floor is not None and now.floor is not None and now.floor - 1 > 2 * (floor - 1):
        notes.append(
            f"noise: equal things differed by {apart(now.floor)}, usually by {apart(floor)}"
        )
    return notes
