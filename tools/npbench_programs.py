"""Times npbench's NumPy programs as their authors wrote them: plain, fused, and their numba forms.

`python tools/npbench_programs.py CHECKOUT [NAME ...] [--preset S] [--numba] [--output FILE]`
takes a checkout of npbench, fuses each program's top function with `fallback="allow"`, and times it
in turns with the plain one; each program has a process of its own, without machine code from a
disk.
A row is right where all results, and all arguments after the call, lie within 1e-5 of NumPy's, by
the largest magnitude of an array. FILE gets a line of JSON for each program; one that is there is
not run again. At the end it prints the table, and geometric means over NumPy, in which a program
that did not finish counts 1.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

#: Forms for numba in npbench: as written, `parallel=True`, and with `prange`.
NUMBA_FORMS = ("numba_n", "numba_np", "numba_npr")
#: How far results may lie from NumPy's, and seconds that timing of one pair takes about.
TOLERANCE, TIMED_S = 1e-5, 2.0
Call = Callable[..., Any]


def distance(result: Any, expected: Any) -> float:
    """The largest distance, over the largest magnitude; infinite where kinds or shapes differ."""
    if isinstance(expected, (tuple, list)):
        if not isinstance(result, (tuple, list)) or len(result) != len(expected):
            return float("inf")
        return max((distance(*pair) for pair in zip(result, expected, strict=True)), default=0.0)
    if expected is None or result is None:
        return 0.0 if result is expected else float("inf")
    found, wanted = np.asarray(result), np.asarray(expected)
    if found.shape != wanted.shape or found.dtype != wanted.dtype:
        return float("inf")
    finite = np.isfinite(wanted)
    if not np.array_equal(finite, np.isfinite(found)):
        return float("inf")
    apart = np.abs(np.where(finite, found, 0) - np.where(finite, wanted, 0)).max(initial=0)
    return float(apart / (np.abs(np.where(finite, wanted, 0)).max(initial=0) or 1))


class Program:
    """One of npbench's programs, with the arguments of a call."""

    def __init__(self, checkout: Path, name: str, preset: str) -> None:
        """Read it, and make its arguments."""
        text = (checkout / "bench_info" / f"{name}.json").read_text(encoding="utf-8")
        self.info: Mapping[str, Any] = json.loads(text)["benchmark"]
        data = dict(self.info["parameters"][preset])
        if init := self.info.get("init"):
            made = getattr(self._module(""), init["func_name"])(
                *(data[each] for each in init["input_args"])
            )
            names = init["output_args"]
            data |= zip(names, made if len(names) > 1 else (made,), strict=True)
        self.arguments = [data[each] for each in self.info["input_args"]]
        self.plain = self.form("numpy")
        self.after = [_copy(each) for each in self.arguments]
        self.expected = self.plain(*self.after)
        pairs = zip(self.arguments, self.after, strict=True)
        self.written = [distance(after, before) != 0 for before, after in pairs]

    def _module(self, form: str) -> Any:
        place = self.info["relative_path"].replace("/", ".")
        name = "_".join(filter(None, (self.info["module_name"], form)))
        return importlib.import_module(f"npbench.benchmarks.{place}.{name}")

    def form(self, form: str) -> Call:
        """Its top function in one of the forms that npbench has."""
        found: Call = getattr(self._module(form), self.info["func_name"])
        return found

    def seconds(self, call: Call) -> float:
        """Seconds of one call; copies of what it writes are made before."""
        pairs = zip(self.arguments, self.written, strict=True)
        given = [_copy(each) if written else each for each, written in pairs]
        start = time.perf_counter()
        call(*given)
        return time.perf_counter() - start

    def apart(self, call: Call) -> tuple[float, float]:
        """How far results and arguments of a call are from NumPy's, and its seconds."""
        given = [_copy(each) for each in self.arguments]
        start = time.perf_counter()
        result = call(*given)
        took_s = time.perf_counter() - start
        pairs = zip(given, self.after, strict=True)
        return max(distance(result, self.expected), *(distance(*pair) for pair in pairs)), took_s

    def times_numpy(self, call: Call) -> float:
        """NumPy's time over that of a call: medians of samples in turns."""
        end = time.perf_counter() + TIMED_S
        plain: list[float] = []
        other: list[float] = []
        while len(plain) < 3 or (len(plain) < 41 and time.perf_counter() < end):
            plain.append(self.seconds(self.plain))
            other.append(self.seconds(call))
        return statistics.median(plain) / statistics.median(other)


def _copy(one: Any) -> Any:
    return one.copy() if isinstance(one, np.ndarray) else one


def measured(checkout: Path, name: str, preset: str, numba: bool) -> Iterator[dict[str, Any]]:
    """Yield the row of a program, measured in this process, each time with one more form."""
    sys.path.insert(0, str(checkout))
    np.seterr(all="ignore")
    program = Program(checkout, name, preset)
    row: dict[str, Any] = {"program": name, "preset": preset, "numba": {}}
    row["numpy_s"] = min(program.seconds(program.plain) for _ in range(3))

    import fuser  # not before: the plain calls above are NumPy's alone

    fused = fuser.fuse(program.plain, fallback="allow")
    first, row["first_s"] = program.apart(fused)
    row["apart"] = max(first, program.apart(fused)[0])
    row["fused"] = program.times_numpy(fused)
    row["reasons"] = [str(each).splitlines()[0] for each in fused.fallback_counts]
    yield row
    for form in NUMBA_FORMS if numba else ():
        try:
            call = program.form(form)
            program.apart(call)  # it is compiled
            if program.apart(call)[0] <= TOLERANCE:
                row["numba"][form] = program.times_numpy(call)
        except Exception as error:  # noqa: BLE001  (a form that is missing, or that numba refuses)
            row["numba"][form] = f"{type(error).__name__}: {error}".splitlines()[0]
        yield row


def mean(ratios: Sequence[float]) -> float:
    """The geometric mean."""
    return statistics.geometric_mean(ratios) if ratios else float("nan")


def table(rows: Sequence[Mapping[str, Any]]) -> str:
    """The rows and their means, as Markdown."""
    lines = ["| Program | Ours | numba | Our first call | Apart | Left to NumPy, and why |",
             "|---|--:|--:|--:|--:|---|"]  # fmt: skip
    ours, peers, ahead = [], [], 0
    for row in sorted(rows, key=lambda row: str(row["program"])):
        if "failed" in row:
            lines.append(f"| {row['program']} | — | — | — | — | {row['failed']} |")
            ours.append(1.0)
            peers.append(1.0)
            continue
        right = [each for each in row["numba"].values() if isinstance(each, float)]
        peer = max(right, default=None)
        ours.append(row["fused"] if row["apart"] <= TOLERANCE else 1.0)
        peers.append(peer or 1.0)
        ahead += peer is None or row["fused"] > peer
        lines.append(
            f"| {row['program']} | {row['fused']:.2f} x | {f'{peer:.2f} x' if peer else '—'} | "
            f"{row['first_s']:.2f} s | {row['apart']:.0e} | {'; '.join(row['reasons'][:1])} |"
        )
    head = (f"{len(rows)} programs, geometric means over NumPy: ours {mean(ours):.2f}, "
            f"numba's best form {mean(peers):.2f}; ours is ahead in {ahead}.")  # fmt: skip
    return "\n".join([head, "", *lines])


def main() -> None:
    """Run the programs, each in a process of its own."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("checkout", type=Path)
    parser.add_argument("names", nargs="*")
    parser.add_argument("--preset", default="S")
    parser.add_argument("--numba", action="store_true")
    parser.add_argument("--output", type=Path, default=Path("npbench.jsonl"))
    parser.add_argument("--limit-s", type=float, default=120.0)
    parser.add_argument("--one", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.one:
        for part in measured(given.checkout, given.names[0], given.preset, given.numba):
            print(json.dumps(part), flush=True)
        return
    found = sorted(path.stem for path in (given.checkout / "bench_info").glob("*.json"))
    if not found:
        parser.error(f"{given.checkout} is no checkout of npbench: it has no bench_info/*.json")
    rows = []
    if given.output.exists():
        lines = given.output.read_text(encoding="utf-8").splitlines()
        rows = [row for row in map(json.loads, lines) if row["preset"] == given.preset]
    done = {row["program"] for row in rows}
    names = [name for name in given.names or found if name not in done]
    for count, name in enumerate(names, 1):
        print(f"{count} of {len(names)}: {name}", file=sys.stderr, flush=True)
        command = [sys.executable, __file__, str(given.checkout.resolve()), name, "--one",
                   "--preset", given.preset, *(["--numba"] if given.numba else [])]  # fmt: skip
        try:
            ran = subprocess.run(
                command, capture_output=True, text=True, timeout=given.limit_s, check=False,
                env={**os.environ, "FUSER_CACHE": "off"},
            )  # fmt: skip
            failed = (ran.stderr.strip().splitlines() or ["no output"])[-1]
            row = json.loads(ran.stdout.splitlines()[-1]) if ran.returncode == 0 else None
        except subprocess.TimeoutExpired as late:  # what was measured until then counts
            printed = (late.stdout or b"").splitlines()
            row = json.loads(printed[-1]) if printed else None
            failed = f"it takes longer than {given.limit_s:g} s"
        rows.append(row or {"program": name, "preset": given.preset, "failed": failed})
        with given.output.open("a", encoding="utf-8") as file:
            file.write(json.dumps(rows[-1]) + "\n")
    print(table(rows))


if __name__ == "__main__":
    main()
