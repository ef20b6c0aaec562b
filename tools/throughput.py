"""How fast large arrays are computed: the fuser, its peers and the machine's ceilings, in one run.

    python tools/throughput.py record.json --budget-s 1200
    python tools/throughput.py record.json --set rows --budget-s 1500

Every runner lives in a process of its own and holds the same inputs. What a runner wants converted
is converted beforehand, but for arrays with gaps: a copy of those is part of its call. For each
workload, dtype and size the runners are timed in turns, in random order, so that a drift of the
machine meets all; every round has its arrays in other memory, so that no round's pages are lucky
for all. A peer that is far behind the best one is timed once, and not at larger sizes;
one that does not answer in time is ended, and its cells say so. The raw seconds are saved after
each cell; a run that is interrupted, or out of time, goes on where it stopped when it is started
again.
`python -m fuser.reports.throughput RECORD PAGE` makes the table.

`--baseline DIR` times our fuser of another checkout next to this one's, by that checkout's own
server; `--peers baseline` leaves all others and the ceilings out. `python -m
fuser.reports.side_by_side RECORD… PAGE` makes the page of both.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import random
import select
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(Path(__file__).resolve().parent), str(ROOT)]

from throughput_sets import SETS, Cell  # noqa: E402 - both are put on the path above

from fuser.suites.probes import machine  # noqa: E402

SERVER = Path(__file__).with_name("throughput_server.py")
OURS, CEILING, MEMORY, BASELINE = "fused", "c", "memory", "baseline"
FAR_BEHIND = 1.5
"""A peer this many times slower than the best one of a cell is timed once."""
HOPELESS, JUDGED_ELEMENTS = 3.0, 1 << 22
"""A peer this many times slower than the best one, at this size or more, is left out at larger
sizes."""
CLOSE_ELEMENTS = 1 << 25
"""At this size or more, only peers that were not far behind at a smaller one take part."""
TRIALS, TRIAL_S = 3, 0.05
"""First samples of a runner, where one is quicker than this: one alone may have met a pause."""
LATE, BEHIND = "not measured: timed out", "far behind at a smaller size"
LEAST_ROUNDS, MOST_ROUNDS = 3, 15
ENOUGH_ROUNDS, QUICK_ROUND_S = 9, 0.15
"""Rounds that are taken however late it is, where they are quick."""
LOADING_S = 60.0
"""A server loads its runner within this time."""
PAUSE_S, LONGEST_PAUSE_S = 0.003, 0.2
"""Between two runners: the first one's threads stop spinning. Those of libgomp, which the C loops,
numba and torch have, spin for 8 to 20 ms: on two cores one would be gone for the next runner."""
ENVIRONMENT = {"OPENBLAS_THREAD_TIMEOUT": "20"}
"""Idle threads of OpenBLAS would spin for 2^26 cycles, far beyond the pause, on others' time."""
BOUND = {"OMP_PROC_BIND": "true"}
"""Of the ceilings: each thread has a processor of its own, whatever the kernel does on waking."""
COMPILING, LARGE_BYTES = 3, 1 << 27
"""What is compiled first has so many times the limit; larger arrays have more in proportion."""


class Client:
    """One server process, started anew where one has been ended."""

    def __init__(
        self, name: str, python: str, timeout_s: float, environment: dict[str, str] | None = None,
        baseline: Path | None = None,
    ) -> None:  # fmt: skip
        """Start it; it answers when its runner is loaded.

        Args:
            name: of its row, and of its runner.
            python: who runs it.
            timeout_s: for one answer.
            environment: beside our own.
            baseline: our runner of another checkout instead, by its own server.
        """
        self.name = name
        self._environment = {**os.environ, **ENVIRONMENT, **(environment or {})}
        self._command = [python, str(SERVER), name]
        if baseline is not None:
            self._command = [python, str(baseline / "tools" / SERVER.name), OURS]
        self._timeout_s = timeout_s
        self._start()
        self.settle()

    def _start(self) -> None:
        self.process = subprocess.Popen(
            self._command, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL, text=True, env=self._environment,
        )  # fmt: skip
        self._read(max(self._timeout_s, LOADING_S))

    def ask(self, do: str, patience: float = 1.0, **request: Any) -> dict[str, Any]:
        """Send a request and wait for its answer, or end the process when it is late."""
        if self.process.poll() is not None:
            self._start()
        assert self.process.stdin is not None
        try:
            self.process.stdin.write(json.dumps({"do": do, **request}) + "\n")
            self.process.stdin.flush()
        except BrokenPipeError:
            return {"reason": "its process has ended"}
        return self._read(self._timeout_s * patience)

    def settle(self) -> None:
        """Wait until none of its threads runs any more."""
        ends_s = time.monotonic() + LONGEST_PAUSE_S
        time.sleep(PAUSE_S)
        while _runs(self.process.pid) and time.monotonic() < ends_s:
            time.sleep(PAUSE_S / 3)

    def _read(self, timeout_s: float) -> dict[str, Any]:
        """One answer: servers write whole lines."""
        assert self.process.stdout is not None
        if not select.select([self.process.stdout], [], [], timeout_s)[0]:
            self.stop()
            return {"reason": LATE}
        line = self.process.stdout.readline()
        answer: dict[str, Any] = json.loads(line) if line else {"reason": "its process has ended"}
        return answer

    def stop(self) -> None:
        """End the process."""
        self.process.kill()
        self.process.wait()


class Run:
    """Everything that one run measures, and the record that it fills."""

    def __init__(self, chosen: argparse.Namespace, peers: list[str]) -> None:
        """Read what an earlier run has recorded; start the servers."""
        self.path: Path = chosen.record
        self.ends_s = time.monotonic() + chosen.budget_s
        self.started_s = time.monotonic()
        self.random = random.Random(0)
        self.record: dict[str, Any] = {"cells": {}}
        if self.path.exists():
            self.record = json.loads(self.path.read_text(encoding="utf-8"))
        self.record |= {
            **machine.describe_run(chosen.baseline), "set": chosen.set,
            "threads": machine.usable_cores(),
        }  # fmt: skip
        limit_s, own_s = chosen.timeout_s, 6 * chosen.timeout_s
        alone = BASELINE in peers
        self.peers = [Client(name, chosen.python, limit_s) for name in peers if name != BASELINE]
        self.ours = Client(OURS, chosen.python, own_s)
        self.beside: list[Client] = []
        if chosen.baseline is not None:
            self.beside.append(Client(BASELINE, chosen.python, own_s, baseline=chosen.baseline))
        if not alone:
            self.beside.append(Client(CEILING, chosen.python, own_s, BOUND))
        self.memory = None if alone else Client(MEMORY, chosen.python, own_s, BOUND)
        self.compiled: set[tuple[str, str, str]] = set()
        self.hopeless: dict[tuple[str, str, str], str] = {}
        self.behind: set[tuple[str, str, str]] = set()

    def clients(self) -> list[Client]:
        """Every server."""
        memory = [] if self.memory is None else [self.memory]
        return [self.ours, *self.beside, *memory, *self.peers]

    def measure(self, cells: list[Cell]) -> None:
        """Measure what is not recorded yet, until the time is spent."""
        waiting = [cell for cell in cells if cell.key not in self.record["cells"]]
        self.record["wanted"] = [cell.key for cell in cells]
        weights = [_weight(cell) for cell in waiting]
        for place, cell in enumerate(waiting):
            left_s = self.ends_s - time.monotonic()
            if left_s < 5:
                print(f"\nout of time: {len(waiting) - place} cells are left for another run")
                return
            share_s = left_s * weights[place] / sum(weights[place:])
            self._show(place, len(waiting), cell.key)
            found = self._cell(cell, share_s)
            self.record["cells"][cell.key] = found
            self._save()
        self._show(len(waiting), len(waiting), "done")
        print()

    def _show(self, done: int, count: int, cell: str) -> None:
        filled = 30 * done // max(count, 1)
        elapsed_s = time.monotonic() - self.started_s
        print(
            f"\r[{'#' * filled:<30}] {done}/{count} {elapsed_s:5.0f} s "
            f"{cell:<42}", end="", file=sys.stderr, flush=True,
        )  # fmt: skip

    def _cell(self, cell: Cell, share_s: float) -> dict[str, Any]:
        """Measure one cell: prepare all, drop those far behind, then time in turns."""
        started_s = time.monotonic()
        where = {"workload": cell.workload, "dtype": cell.dtype, "elements": cell.elements}
        where |= {"axes": dict(cell.axes)} if cell.axes else {}
        rows: dict[str, Any] = {}
        shared = tempfile.TemporaryDirectory(prefix="throughput-", dir=_memory())
        taking: list[Client] = []
        for client in (self.ours, *self.beside, *self.peers):
            rows[client.name] = row = self._prepared(client, where, shared.name, cell.itemsize)
            if "seconds" in row:
                taking.append(client)
            taking = self._leaders(taking, rows, cell)
        shared.cleanup()
        self._forget_first(taking, rows)
        touched = _touched_bytes(rows[OURS]) or cell.itemsize * cell.elements
        if self.memory is not None:
            rows[MEMORY] = self.memory.ask("passes", touched_bytes=touched)
            self.memory.settle()
            if "calls" in rows[MEMORY]:
                rows[MEMORY]["seconds"] = {}
                taking.append(self.memory)
        timing_s = time.monotonic()
        for rounds in range(MOST_ROUNDS):
            now_s = time.monotonic()
            quick = rounds and (now_s - timing_s) / rounds < QUICK_ROUND_S
            if now_s - started_s > share_s and rounds >= (ENOUGH_ROUNDS if quick else LEAST_ROUNDS):
                break
            for client in self._turns(taking):
                calls = rows[client.name]["calls"]
                _add(rows[client.name], client.ask("time", calls=calls, anew=True))
                client.settle()
            taking = [client for client in taking if "reason" not in rows[client.name]]
        for client in taking:
            client.ask("drop")
        return {**where, "rows": rows}

    def _turns(self, taking: list[Client]) -> list[Client]:
        """Clients in random order, ceilings next to ours: slow phases of the machine have both."""
        near = [each for each in taking if each not in self.peers]
        rest = [each for each in taking if each in self.peers]
        groups = [self.random.sample(near, len(near)), *([each] for each in rest)]
        return [each for group in self.random.sample(groups, len(groups)) for each in group]

    def _prepared(
        self, client: Client, where: dict[str, Any], folder: str, itemsize: int
    ) -> dict[str, Any]:
        """A runner's row, with its first samples; or why it has none."""
        kind = (client.name, where["workload"], where["dtype"])
        if kind in self.hopeless:
            return {"reason": self.hopeless[kind]}
        if kind in self.behind and where["elements"] >= CLOSE_ELEMENTS:
            return {"reason": BEHIND}
        patience = max(1.0, itemsize * where["elements"] / LARGE_BYTES)
        patience *= 1 if kind in self.compiled else COMPILING
        self.compiled.add(kind)
        row = client.ask("prepare", patience, **where, folder=folder)
        self._try(client, row)
        client.settle()
        if "reason" in row:
            row.pop("seconds", None)
            if row["reason"] == LATE and client in self.peers:
                self.hopeless[kind] = f"{LATE} at a smaller size"
        return row

    def _try(self, client: Client, row: dict[str, Any]) -> None:
        """Take first samples, if it could be prepared."""
        if "calls" in row:
            row["seconds"] = {}
            for _ in range(TRIALS):
                sample = client.ask("time", calls=row["calls"])
                _add(row, sample)
                if "reason" in sample or sum(sample.values()) > TRIAL_S:
                    break

    def _leaders(
        self, taking: list[Client], rows: dict[str, Any], cell: Cell
    ) -> list[Client]:
        """Those worth timing again; the others free their memory."""
        times = {
            each.name: min(map(min, rows[each.name]["seconds"].values()))
            for each in taking
            if each in self.peers
        }
        best_s = min(times.values(), default=math.inf)
        kept = []
        for client in taking:
            factor = times.get(client.name, 0.0) / best_s
            kind = (client.name, cell.workload, cell.dtype)
            if factor > FAR_BEHIND:
                client.ask("drop")
                if cell.elements >= JUDGED_ELEMENTS:
                    self.behind.add(kind)
            else:
                kept.append(client)
            if factor > HOPELESS and cell.elements >= JUDGED_ELEMENTS:
                self.hopeless[kind] = BEHIND
        return kept

    def _forget_first(self, taking: list[Client], rows: dict[str, Any]) -> None:
        """The first sample of those that are timed again was a trial."""
        for client in taking:
            rows[client.name]["seconds"] = {}

    def _save(self) -> None:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        temporary = self.path.with_suffix(".tmp")
        temporary.write_text(json.dumps(self.record), encoding="utf-8")
        temporary.replace(self.path)


def _touched_bytes(row: dict[str, Any]) -> int:
    """Memory that a call reads and writes: the ceiling's arrays hold as much, as warm as these."""
    return int(row.get("input_bytes", 0)) + int(row.get("output_bytes", 0))


def _add(row: dict[str, Any], sample: dict[str, Any]) -> None:
    """Keep one sample of every form."""
    if "reason" in sample:
        row["reason"] = sample["reason"]
        return
    for form, seconds in sample.items():
        row["seconds"].setdefault(form, []).append(seconds)


def _runs(pid: int, root: Path = Path("/proc")) -> bool:
    """Whether a thread of a process runs, or wants to; False where the system does not say.

    Clocks of another process would not do: they are brought up to date every few milliseconds.
    """
    for place in (root / str(pid) / "task").glob("*/stat"):
        try:
            text = place.read_text(encoding="utf-8", errors="replace")
        except OSError:  # it has ended
            continue
        if text.rpartition(")")[2].split()[0] == "R":  # its name may hold brackets
            return True
    return False


def _memory() -> str | None:
    """Where files are in memory: inputs are made once and read by every server."""
    place = Path("/dev/shm")
    return str(place) if place.is_dir() else None


def _weight(cell: Cell) -> float:
    """A cell's share of the time: a second for small ones, ten for the largest."""
    return 1.0 + cell.elements / (1 << 24) * (2.5 if cell.itemsize == 8 else 1.5)


def main() -> None:
    """Measure, as the command line says."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("record", type=Path, help="where the raw results are kept, as JSON")
    parser.add_argument("--budget-s", type=float, default=1200.0)
    parser.add_argument("--set", choices=SETS, default="pointwise", help="which cells")
    parser.add_argument("--workloads", help="these, by comma; module:NAME too")
    parser.add_argument("--sizes", help="only cells of so many elements, by comma")
    parser.add_argument("--peers", help="instead of those of the set, by comma")
    parser.add_argument(
        "--baseline", type=Path, help="a checkout that is timed beside; --peers baseline: alone"
    )
    parser.add_argument(
        "--timeout-s", type=float, default=20.0,
        help="a peer whose answer takes longer is ended (ours and the C loops have six times that)",
    )  # fmt: skip
    parser.add_argument("--python", default=sys.executable, help="one that has the peers")
    chosen = parser.parse_args()
    wanted = SETS[chosen.set]
    if chosen.baseline is not None and not (chosen.baseline / "tools" / SERVER.name).is_file():
        parser.error(f"--baseline {chosen.baseline}: no checkout with tools/{SERVER.name}")
    if chosen.peers and BASELINE in chosen.peers.split(",") and chosen.baseline is None:
        parser.error("--peers baseline wants --baseline DIR")
    names = chosen.workloads.split(",") if chosen.workloads else None
    sizes = [int(size) for size in chosen.sizes.split(",")] if chosen.sizes else None
    run = Run(chosen, chosen.peers.split(",") if chosen.peers else list(wanted.peers))
    try:
        run.measure(wanted.cells(names, sizes))
    except KeyboardInterrupt:
        print("\ninterrupted; what was measured is kept")
    finally:
        for client in run.clients():
            client.stop()


if __name__ == "__main__":
    main()
