"""Judges what becomes of a process in which the n-th mmap, mprotect, malloc, write or fork fails.

A process imports fuser, fuses and calls with `faults.c` before the C library. No call may crash or
hang; it gives NumPy's result or one of the exceptions below, and once nothing fails any more the
same calls are right. A long run: `python -m tests.judges.faults --all`.

Of allocations only those of a mebibyte and more fail, which are arrays: LLVM ends a process in
which it gets no memory (`--bytes 65536` shows it), and no caller of it can help that.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from tests.requirements import find

CALLS = "mmap mprotect malloc write fork pthread_create memfd_create ftruncate".split()
LIMIT_S = 90.0
#: Calls that fail: only the n-th, or all from there on.
FOREVER = 1 << 40


@dataclass(frozen=True)
class Fault:
    """What fails: which function, from which call on, how many, and allocations of what size."""

    call: str
    first: int = 0
    count: int = 1
    least_bytes: int = 1 << 20

    def __str__(self) -> str:
        """Its name in the tests."""
        return f"{self.call}-{self.first}{'-and-all-after' if self.count > 1 else ''}"


@dataclass(frozen=True)
class Outcome:
    """What came of a fault: what is wrong, if anything, and how many calls were counted."""

    wrong: str
    counts: dict[str, int]
    errors: list[str]


def build(folder: Path) -> Path | None:
    """Compile `faults.c`; None where there is no compiler or no LD_PRELOAD."""
    compiler = find("cxx")
    if compiler is None or not sys.platform.startswith("linux"):
        return None
    library = folder / "faults.so"
    source = Path(__file__).with_suffix(".c")
    subprocess.run(
        [compiler, "-x", "c", "-O1", "-shared", "-fPIC", "-o", library, source, "-ldl"],
        check=True, capture_output=True,
    )  # fmt: skip
    return library


def run(library: Path, fault: Fault) -> Outcome:
    """Run the process with one fault, in a cache folder of its own."""
    with tempfile.TemporaryDirectory() as folder:
        environment = {
            **os.environ, "LD_PRELOAD": str(library), "FAULT_CALL": fault.call,
            "FAULT_FROM": str(fault.first), "FAULT_COUNT": str(fault.count),
            "FAULT_BYTES": str(fault.least_bytes),
            "XDG_CACHE_HOME": folder, "FUSER_CACHE": "on", "FUSER_CHECK": "0",
            "FUSER_NUM_THREADS": "2", "OPENBLAS_NUM_THREADS": "1", "PYTHONDONTWRITEBYTECODE": "1",
        }  # fmt: skip
        command = [sys.executable, "-X", "faulthandler", "-m", "tests.judges.faults", "--child"]
        try:
            done = subprocess.run(
                command, env=environment, capture_output=True, text=True, timeout=LIMIT_S,
                check=False,
            )  # fmt: skip
        except subprocess.TimeoutExpired as late:
            return Outcome(f"hang: {str(late.stderr or '')[-2000:]}", {}, [])
        if done.returncode:
            name = signal.Signals(-done.returncode).name if done.returncode < 0 else "exit"
            return Outcome(f"crash: {name} {done.returncode}\n{done.stderr[-2000:]}", {}, [])
        answer = json.loads(done.stdout.splitlines()[-1])
        left = [str(path.name) for path in Path(folder).rglob("*.tmp")]
        wrong = answer["wrong"] + ([f"half-written: {left}"] if left else [])
        return Outcome("; ".join(wrong), answer["counts"], answer["errors"])


def _steps() -> Iterator[tuple[str, Callable[[], Any], Callable[[], Any]]]:
    """What the process does: a name, the fused way and NumPy's."""
    import numpy as np

    fused: dict[Callable[..., Any], Callable[..., Any]] = {}

    def line(x: Any, y: Any) -> Any:
        return x * 2 + y

    def rows(x: Any) -> Any:
        return x - x.max(-1, keepdims=True)

    def sorted_between(x: Any) -> Any:
        return np.sort(x * 3, -1) + 1

    def write(x: Any) -> Any:
        x[1:] += x[:-1] * 2
        return x

    def call(function: Callable[..., Any], *arrays: Any) -> Any:
        import fuser

        if function not in fused:
            fused[function] = fuser.fuse(function, fallback="allow")
        return fused[function](*(array.copy() for array in arrays))

    def forked() -> Any:
        reader, writer = os.pipe()
        child = os.fork()
        if not child:
            with suppress(BaseException):
                os.write(writer, np.asarray(call(line, small, small + 1)).tobytes())
            os._exit(0)
        os.close(writer)
        with os.fdopen(reader, "rb") as file:
            found = np.frombuffer(file.read())
        os.waitpid(child, 0)
        if not found.size:
            raise MemoryError("the child had no result")
        return found

    def cleared() -> Any:
        import fuser

        fuser.clear_caches()
        return call(line, small, small)

    small, large = np.arange(5.0), np.arange(1_500_000.0)
    table = large.reshape(1500, 1000)
    yield "small", lambda: call(line, small, small + 1), lambda: line(small, small + 1)
    yield "large", lambda: call(line, large, large + 1), lambda: line(large, large + 1)
    yield "rows", lambda: call(rows, table), lambda: rows(table)
    yield "sorted", lambda: call(sorted_between, table), lambda: sorted_between(table)
    yield "write", lambda: call(write, large), lambda: write(large.copy())
    yield "fork", forked, lambda: line(small, small + 1)
    yield "cleared", cleared, lambda: line(small, small)


def child() -> None:
    """What a process with a fault does; prints what went wrong."""
    import numpy as np

    # NumPy's own expectations before anything fails, and what a step may raise.
    steps = [(name, fused, plain()) for name, fused, plain in _steps()]
    wrong: list[str] = []
    errors: list[str] = []
    for turn in ("with the fault", "afterwards"):
        if turn == "with the fault":
            os.access("/faults/on", 0)
        for name, fused, wanted in steps:
            try:
                found = fused()
                if not (np.shape(found) == wanted.shape and bool((found == wanted).all())):
                    wrong.append(f"{name} {turn}: values")
            except Exception as error:  # noqa: BLE001 - judged here
                said = f"{name} {turn}: {type(error).__name__}: {error}"
                (errors if turn == "with the fault" and _may_be(error) else wrong).append(said)
        os.access("/faults/off", 0)
    counts = {}
    for call in CALLS:
        low, high = 0, 1 << 20
        while low < high:  # the greatest N of which more than N - 1 were made
            middle = (low + high) // 2
            more = os.access(f"/faults/{call}", middle)
            low, high = (middle + 1, high) if more else (low, middle)
        counts[call] = low
    print(json.dumps({"wrong": wrong, "errors": errors, "counts": counts}))


def _may_be(error: Exception) -> bool:
    """Whether an exception says that memory, a file or a process could not be had."""
    ours = any(kind.__name__ == "FuserError" for kind in type(error).__mro__)
    return ours or isinstance(error, (MemoryError, OSError, ImportError))


def faults(counts: dict[str, int], most: int) -> list[Fault]:
    """Which faults to try: of each function at most so many, first ones, then fewer and fewer."""
    found = []
    for call, number in counts.items():
        if number <= most:
            chosen = list(range(1, number + 1))
        else:
            chosen = sorted({round(number ** (k / (most - 1))) for k in range(most)})
        found += [Fault(call, n) for n in chosen]
        found += [Fault(call, n, FOREVER) for n in chosen[:: max(1, len(chosen) // 2)]]
    return found


def main() -> int:
    """Try all faults, or some of each function; return how many went wrong."""
    parser = argparse.ArgumentParser(description=__doc__, prog="python -m tests.judges.faults")
    parser.add_argument("--all", action="store_true", help="every call that is made")
    parser.add_argument("--call", choices=CALLS, help="faults of this function alone")
    parser.add_argument("--bytes", type=int, default=1 << 20, help="least size of allocations")
    parser.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        child()
        return 0
    from rich.progress import track

    with tempfile.TemporaryDirectory() as folder:
        library = build(Path(folder))
        if library is None:
            print("needs Linux and a C++ compiler")
            return 2
        counts = run(library, Fault("malloc", least_bytes=options.bytes)).counts
        print(counts)
        wanted = {c: n for c, n in counts.items() if options.call in (None, c)}
        bad = 0
        for fault in track(faults(wanted, 1 << 30 if options.all else 8), "faults"):
            outcome = run(library, replace(fault, least_bytes=options.bytes))
            if outcome.wrong:
                bad += 1
                print(f"{fault}: {outcome.wrong}", flush=True)
    print(f"{bad} went wrong")
    return min(bad, 99)


if __name__ == "__main__":
    raise SystemExit(main())
