"""What a call costs beside NumPy's same line: `python tools/call_times.py [--processes N] [FILE]`.

Each row times two statements, as `timeit` does: a call of a fused function, and the line that it
computes written out, which so pays for no call of a Python function. Arrays are small, so that the
time is that of the call. In each process the two alternate for a number of rounds; its ratio is the
median of the rounds' ratios. The figure is the geometric mean over the processes, with Student's t
interval of its logarithm. Ratios above 1 mean that fusing does not pay at that size.

`--baseline DIR`: processes take turns between this checkout and another one, and the record is what
`python -m fuser.reports.side_by_side` makes a page of.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from timeit import Timer
from typing import Any

import numpy as np
from rich.progress import track

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

import fuser  # noqa: E402 - found by the path above
from fuser.reports import side_by_side  # noqa: E402
from fuser.reports.statistics import t_interval  # noqa: E402
from fuser.suites.probes import machine  # noqa: E402


def _multiply_add(a: Any, b: Any, c: Any) -> Any:
    return a * b + c


def _two(a: Any, b: Any, c: Any) -> Any:
    return a * b, a + c


def _add_to(a: Any, b: Any, c: Any) -> Any:
    a += b * c
    return a


def _softmax(a: Any, b: Any, c: Any) -> Any:
    e = np.exp(a - a.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def _array(*shape: int, dtype: Any = np.float32) -> Any:
    return np.linspace(0.5, 1.5, int(np.prod(shape)), dtype=dtype).reshape(shape)


@dataclass(frozen=True)
class Case:
    """One row.

    Attributes:
        title: what is called.
        function: the function that is fused; `f` in the statements.
        fused: the statement that calls it.
        plain: NumPy's line.
        operands: the names in the statements.
        aim: the ratio asked for, if one is.
    """

    title: str
    function: Any
    fused: str
    plain: str
    operands: Mapping[str, Any]
    aim: float | None = None


def cases() -> list[Case]:
    """The rows of the table."""
    one = {name: _array(1) for name in "abc"}
    few = {name: _array(16)[::2] for name in "abc"}
    square = {name: _array(4, 4) for name in "abc"}
    line = "a * b + c"
    call = "f(a, b, c)"
    into = "np.multiply(a, b, out=o); np.add(o, c, out=o)"
    return [
        Case("one element", _multiply_add, call, line, one, 0.25),
        Case("Python scalars", _multiply_add, call, line, {**one, "b": 2.0, "c": 3.0}, 0.4),
        Case("out=", _multiply_add, "f(a, b, c, out=o)", into, {**one, "o": _array(1)}, 0.4),
        Case("2-d, contiguous", _multiply_add, call, line, square, 0.4),
        Case("strided", _multiply_add, call, line, few, 0.4),
        Case("2-d, strided", _multiply_add, call, line, {n: square[n][:, ::2] for n in "abc"}),
        Case("rows and columns", _multiply_add, call, line,
             {"a": square["a"], "b": _array(4), "c": _array(4, 1)}),
        Case("keywords", _multiply_add, "f(a=a, b=b, c=c)", line, one),
        Case("NumPy's scalars", _multiply_add, call, line, {n: np.float32(1.5) for n in "abc"}),
        Case("mixed dtypes", _multiply_add, call, line, {**one, "b": _array(1, dtype=np.float64)}),
        Case("two results", _two, call, "(a * b, a + c)", one),
        Case("in place", _add_to, call, "a += b * c", one),
        Case("softmax of 4 x 4", _softmax, call, "e = np.exp(a - a.max(-1, keepdims=True)); "
             "e / e.sum(-1, keepdims=True)", square),
    ]  # fmt: skip


def ratio(case: Case, rounds: int, calls: int) -> tuple[float, float]:
    """The median ratio of alternating rounds in this process, and a fused call's seconds."""
    names = {"given": {**case.operands, "f": fuser.fuse(case.function, fallback="error")}, "np": np}
    setup = "; ".join(f"{name} = given[{name!r}]" for name in names["given"])
    fused, plain = (Timer(line, setup, globals=names) for line in (case.fused, case.plain))
    for timer in (fused, plain):
        timer.timeit(1000)
    ours, theirs = [], []
    for _ in range(rounds):
        ours.append(fused.timeit(calls) / calls)
        theirs.append(plain.timeit(calls) / calls)
    return float(np.median(np.divide(ours, theirs))), float(np.median(ours))


def measure(processes: int, rounds: int = 15, calls: int = 10_000) -> dict[str, list[list[float]]]:
    """Ratios and seconds of every row, by process."""
    found: dict[str, list[list[float]]] = {case.title: [] for case in cases()}
    command = [sys.executable, __file__, "--one", f"{rounds},{calls}"]
    for _ in track(range(processes), "timing calls, by process", transient=True):
        run = subprocess.run(command, check=True, text=True, stdout=subprocess.PIPE)
        for title, pair in json.loads(run.stdout).items():
            found[title].append(pair)
    return found


def beside(
    baseline: Path, processes: int, rounds: int = 15, calls: int = 10_000
) -> dict[str, dict[str, list[float]]]:
    """Seconds of every row that two checkouts have, by process: ours `new`, the other's `old`."""
    tools = {"new": Path(__file__), "old": baseline / "tools" / Path(__file__).name}
    found: dict[str, dict[str, list[float]]] = {}
    for process in track(range(processes), "timing calls, by process", transient=True):
        for side in side_by_side.turns(process):
            command = [sys.executable, str(tools[side]), "--one", f"{rounds},{calls}"]
            run = subprocess.run(command, check=True, text=True, stdout=subprocess.PIPE)
            for title, (_, seconds) in json.loads(run.stdout).items():
                found.setdefault(title, {"new": [], "old": []})[side].append(seconds)
    return found


def lines(found: Mapping[str, Sequence[Sequence[float]]]) -> list[str]:
    """The table: ns a call, the ratio with its interval over processes, and the aim."""
    aims = {case.title: case.aim for case in cases()}
    shown = [f"{'':18}{'ns a call':>10}{'ratio to NumPy':>24}{'aim':>7}"]
    for title, pairs in found.items():
        logs = np.log([pair[0] for pair in pairs])
        low, high = t_interval(logs) or (np.nan, np.nan)
        nanoseconds = 1e9 * float(np.median([pair[1] for pair in pairs]))
        aim = aims[title]
        verdict = "" if aim is None else f"{aim:7.2f}  {'reached' if high <= aim else 'NOT shown'}"
        middle = f"{np.exp(logs.mean()):.3f} [{np.exp(low):.3f}, {np.exp(high):.3f}]"
        shown.append(f"{title:18}{nanoseconds:10.0f}{middle:>24}{verdict}")
    return shown


def main() -> None:
    """Measure, print, and keep the raw ratios where a file is named."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split(":", maxsplit=1)[0])
    parser.add_argument("record", nargs="?", type=Path, help="keeps the raw figures, as JSON")
    parser.add_argument("--processes", type=int, default=7)
    parser.add_argument("--baseline", type=Path, help="a checkout that is timed beside this one")
    parser.add_argument("--one", help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    if chosen.one:
        rounds, calls = map(int, chosen.one.split(","))
        print(json.dumps({case.title: ratio(case, rounds, calls) for case in cases()}))
        return
    record = machine.describe_run(chosen.baseline)
    if chosen.baseline:
        record |= {"table": "calls", "beside": beside(chosen.baseline, chosen.processes)}
        print(side_by_side.page([record]))
    else:
        found = measure(chosen.processes)
        record |= {"calls": found}
        print("\n".join(lines(found)))
    if chosen.record:
        chosen.record.write_text(json.dumps(record, indent=1) + "\n")


if __name__ == "__main__":
    main()
