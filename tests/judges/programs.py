"""Judges random programs in worker processes, so that a crash or a hang is a finding too.

A long run: `python -m tests.judges.programs --seconds 3600 --seed 7`; it prints each failing
program, made smaller, as an entry for `corpus.py`. One program again: `--seed 7 --index 12`.
"""

from __future__ import annotations

import argparse
import faulthandler
import itertools
import json
import os
import queue
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from tests.judges import grammar, loop_grammar
from tests.judges.grammar import Program
from tests.judges.judging import World, judge
from tests.quick_code import quick_code

#: Seconds that one program may take with all its calls, and programs that one process judges.
LIMIT_S = 60.0
BATCH = 100


@dataclass
class Finding:
    """What came of one program."""

    seed: int
    index: int
    text: str
    difference: str
    calls: int = 0
    fused: int = 0


class Worker:
    """A process that judges one program after the other; it is replaced when it dies."""

    def __init__(self, batch: int = BATCH, how: str = "--worker") -> None:
        """Start nothing yet; each process will judge `batch` programs."""
        self.batch, self.how = batch, how
        self.process: subprocess.Popen[str] | None = None
        self.errors: Any = None
        self.answers: queue.Queue[str] = queue.Queue()
        self.served = 0

    def judge(self, text: str, name: str = "<program>") -> dict[str, Any]:
        """Judge one program, in a fresh process now and then."""
        if self.process is None or self.served >= self.batch:
            self.start()
        assert self.process is not None
        assert self.process.stdin is not None
        self.served += 1
        with suppress(BrokenPipeError):
            print(json.dumps([name, text]), file=self.process.stdin, flush=True)
        try:
            answer = self.answers.get(timeout=LIMIT_S + 10)
        except queue.Empty:
            answer = ""
        if answer:
            return dict(json.loads(answer))
        return {"difference": self.death()}

    def start(self) -> None:
        """Replace the process."""
        self.stop()
        self.errors = tempfile.TemporaryFile("w+")  # noqa: SIM115 - closed by `stop`
        environment = {**os.environ, "FUSER_CACHE": "off", "PYTHONWARNINGS": "ignore"}
        self.process = process = subprocess.Popen(
            [sys.executable, "-m", "tests.judges.programs", self.how], text=True,
            env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.errors,
        )  # fmt: skip
        answers: queue.Queue[str] = queue.Queue()
        self.answers, self.served = answers, 0

        def read() -> None:
            assert process.stdout is not None
            for line in process.stdout:
                answers.put(line)
            answers.put("")

        threading.Thread(target=read, daemon=True).start()

    def death(self) -> str:
        """How the process ended: a signal or a status, and where."""
        assert self.process is not None
        with suppress(subprocess.TimeoutExpired):
            self.process.wait(5)
        status = self.process.poll()
        self.errors.seek(0)
        text = self.errors.read()
        self.stop()
        if status is not None and status < 0:
            return f"crash: {signal.Signals(-status).name}\n{text[-3000:]}"
        kind = "hang" if status is None or "Timeout" in text else "crash: exit"
        return f"{kind}: status {status}\n{text[-3000:]}"

    def stop(self) -> None:
        """End the process."""
        if self.process is not None:
            self.process.kill()
            self.process.wait()
            self.errors.close()
        self.process, self.served = None, 0


def program(seed: int, index: int, kind: str = "") -> Program:
    """The program of that name; `kind`: "decisions", "loops" or any."""
    def make() -> grammar.Namespace:
        return dict(World().namespace)

    if kind == "loops":
        return loop_grammar.generate(seed, index, make)
    return grammar.generate(seed, index, make, kind == "decisions")


def findings(seed: int, indices: Iterable[int], kind: str = "") -> Iterator[Finding]:
    """Judge programs of one seed and kind."""
    worker = Worker()
    try:
        for index in indices:
            text = program(seed, index, kind).text()
            answer = worker.judge(text, f"<program {seed}/{index}>")
            yield Finding(seed, index, text, **answer)
    finally:
        worker.stop()


def kind_of(difference: str) -> str:
    """What sort of difference it is, without numbers."""
    words = difference.split(": ")
    return re.sub(r"[^a-z ]", "", (words[1] if words[0][:4] == "call" else words[0]).split("[")[0])


def smallest(whole: Program, difference: str, seconds: float = 60) -> tuple[Program, str]:
    """Leave out parts of a program while it fails in the same way."""
    worker, until, kind = Worker(), time.monotonic() + seconds, kind_of(difference)
    changed = True
    while changed and time.monotonic() < until:
        changed = False
        for less in whole.smaller():
            found = worker.judge(less.text())["difference"]
            if found and kind_of(found) == kind:
                whole, difference, changed = less, found, True
                break
    worker.stop()
    return whole, difference


def serve() -> None:
    """Judge what comes on the standard input, one program a line."""
    faulthandler.enable()
    for line in sys.stdin:
        name, text = json.loads(line)
        faulthandler.dump_traceback_later(LIMIT_S, exit=True)
        verdict = judge(text, name)
        faulthandler.cancel_dump_traceback_later()
        print(json.dumps(vars(verdict)), flush=True)


def main() -> int:
    """Judge programs for some time; return how many failed, or 99."""
    parser = argparse.ArgumentParser(description=__doc__, prog="python -m tests.judges.programs")
    parser.add_argument("--seconds", type=float, default=3600)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--index", type=int, help="this one program alone")
    for kind, shown in (("decisions", "values decide what they do"),
                        ("loops", "loops over whole arrays, with lists")):  # fmt: skip
        parser.add_argument(f"--{kind}", dest="kind", action="store_const", const=kind, help=shown)
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--quick-worker", action="store_true", help=argparse.SUPPRESS)
    parser.set_defaults(kind="")
    options = parser.parse_args()
    if options.worker:
        serve()
        return 0
    if options.quick_worker:
        with quick_code():
            serve()
        return 0
    from rich.progress import Progress, TextColumn

    indices = itertools.count(options.first) if options.index is None else [options.index]
    until, bad, done = time.monotonic() + options.seconds, 0, 0
    with Progress(*Progress.get_default_columns(), TextColumn("{task.fields[now]}")) as progress:
        task = progress.add_task("programs", total=options.seconds, now="")
        for finding in findings(options.seed, indices, options.kind):
            done += 1
            if finding.difference:
                bad += 1
                whole = program(options.seed, finding.index, options.kind)
                less, difference = smallest(whole, finding.difference)
                progress.console.print(
                    f"# seed {options.seed}, index {finding.index}\n# " +
                    difference.replace("\n", "\n# ") + "\n" + less.text(), markup=False,
                    highlight=False, soft_wrap=True,
                )  # fmt: skip
            left = until - time.monotonic()
            progress.update(task, completed=options.seconds - max(left, 0),
                            now=f"{done} judged, {bad} failed")  # fmt: skip
            if left < 0:
                break
    print(f"{done} judged, {bad} failed")
    return min(bad, 99)


if __name__ == "__main__":
    raise SystemExit(main())
