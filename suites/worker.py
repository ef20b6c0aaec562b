"""A worker process: reads its job as JSON, measures, writes events as JSON lines.

Started by the engine as `python -m fuser.suites.worker JOB EVENTS POSITION`. Events are gathered
and written about twice a second between samples: every write wakes the parent, which on a small
machine takes a core from the code under measurement. Which row is at work stands in the position
file, whose update wakes nobody; when the process dies, the engine reads there who did it.
"""

import json
import os
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from fuser.suites import runners
from fuser.suites.measuring import Emit, Event, Limits, Measurement
from fuser.suites.plan import CellPlan
from fuser.suites.preparing import NOBODY, Turn, at_once
from fuser.suites.probes import anchors, ceilings, experiments, machine
from fuser.suites.registry import resolve
from fuser.suites.sampling import call_overhead

GO = "go"
"""What a process is told whose turn it is."""
FLUSH_S = 0.5
POSITION_BYTES = 24
CEILING_SAMPLES = 5


@dataclass(frozen=True, slots=True)
class Job:
    """What one worker does. `rows[i]` holds the variants (indices of `variants`) of cell i."""

    process: int
    limits: Limits
    cells: Sequence[tuple[int, CellPlan]]
    rows: Sequence[Sequence[int]]
    variants: Mapping[int, str]
    ceilings: bool
    experiments: int | None = None  # the variant that they are made with
    keep_texts: bool = False
    reuse_compiled: bool = False
    checkout: str = ""  # folder of another checkout, whose fuser is measured

    def to_json(self) -> str:
        """Return the job as text."""
        return json.dumps(asdict(self))

    @staticmethod
    def from_json(text: str) -> "Job":
        """Return the job of a text."""
        fields = json.loads(text)
        fields["limits"] = Limits(**fields["limits"])
        fields["cells"] = [(index, _cell(plan)) for index, plan in fields["cells"]]
        fields["variants"] = {int(index): spec for index, spec in fields["variants"].items()}
        return Job(**fields)


def _cell(fields: Mapping[str, Any]) -> CellPlan:
    axes = tuple((str(name), int(value)) for name, value in fields["axes"])
    return CellPlan(**{**fields, "axes": axes})


class EventWriter:
    """Gathers events and writes them now and then."""

    def __init__(self, descriptor: int) -> None:
        self.stream = os.fdopen(descriptor, "w", encoding="utf-8")
        self.waiting: list[str] = []
        self.written_s = -FLUSH_S  # the first event is written at once: the process is alive

    def emit(self, event: Event) -> None:
        """Keep an event; write all that is kept when the last write is long ago."""
        self.waiting.append(json.dumps(event))
        if time.monotonic() - self.written_s > FLUSH_S:
            self.flush()

    def flush(self) -> None:
        """Write what is kept."""
        self.stream.write("".join(f"{line}\n" for line in self.waiting))
        self.stream.flush()
        self.waiting.clear()
        self.written_s = time.monotonic()


class Position:
    """A small file that says which cell and variant is at work."""

    def __init__(self, path: Path) -> None:
        self.descriptor = os.open(path, os.O_WRONLY | os.O_CREAT)

    def mark(self, cell: int, variant: int) -> None:
        """Write the cell's and the variant's index."""
        os.pwrite(self.descriptor, f"{cell} {variant}".ljust(POSITION_BYTES).encode(), 0)

    @staticmethod
    def read(path: Path) -> tuple[int, int] | None:
        """Return what was marked last; None where nothing was."""
        try:
            cell, variant = path.read_text(encoding="ascii").split()
        except (OSError, ValueError):
            return None
        return int(cell), int(variant)


class Turns:
    """Waits for the engine's word where several processes are alive and one may work at a time."""

    def __init__(self, writer: EventWriter) -> None:
        self.writer = writer

    def __call__(self, cell: int, step: int) -> bool:
        """Say which step of which cell is next, and wait; False: there is no time for it."""
        self.writer.emit({"event": "turn", "cell": cell, "step": step})
        self.writer.flush()
        return sys.stdin.readline().strip() == GO


def work(job: Job, emit: Emit, position: Position, turn: Turn = at_once) -> None:
    """Do a whole job."""
    emit({"event": "progress", "text": "starting", "fraction": 0.0})
    used: dict[int, runners.Runner] = {}
    for variant, spec in job.variants.items():
        position.mark(-1, variant)
        used[variant] = runners.load(spec)
        used[variant].start()
        used[variant].reuses = job.reuse_compiled
        used[variant].keeps_texts = job.keep_texts and used[variant].kind == "fused"
    position.mark(-1, NOBODY)
    emit({"event": "overhead", **call_overhead(job.limits.least_sample_s)})
    for runner in used.values():
        for speed in runner.ceilings(job.process):
            emit({"event": "ceiling", **speed})
    if job.ceilings:
        emit({"event": "anchors", **anchors.measure()})
        emit({"event": "progress", "text": "memory speed", "fraction": 0.0})
        sizes, cores = machine.cache_sizes(), machine.usable_cores()
        fused = any(each.kind == "fused" for each in used.values())
        for ceiling in ceilings.measure(sizes, cores, job.process, CEILING_SAMPLES, fused):
            emit({"event": "ceiling", **ceiling})
    cells = [
        (index, plan, resolve(plan.workload), rows)
        for (index, plan), rows in zip(job.cells, job.rows, strict=True)
    ]
    Measurement(cells, used, job.limits, emit, position.mark, turn).run()
    if job.ceilings:
        emit({"event": "anchors", **anchors.measure()})
    if job.experiments is not None:
        position.mark(-1, NOBODY)
        emit({"event": "progress", "text": "anatomy of a call", "fraction": 0.98})
        runner = used[job.experiments]
        for event in experiments.measure(job.process, machine.usable_cores(), runner):
            emit(event)


def main(arguments: Sequence[str]) -> int:
    """Run the job of a file, write events to a descriptor, positions to another file."""
    job_path, descriptor, position_path = arguments
    writer = EventWriter(int(descriptor))
    job = Job.from_json(Path(job_path).read_text(encoding="utf-8"))
    started = time.monotonic()
    turn = Turns(writer) if job.limits.together > 1 else at_once
    work(job, writer.emit, Position(Path(position_path)), turn)
    done: dict[str, Any] = {"event": "done", "seconds": time.monotonic() - started}
    writer.emit(done)
    writer.flush()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
