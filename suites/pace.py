"""How long one NumPy call of a workload takes on this machine, roughly, before a run begins.

A workload of one's own is tried in a process of its own: it may raise, hang or crash.
"""

import json
import math
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from fuser.suites.children import child_environment
from fuser.suites.registry import resolve
from fuser.suites.sampling import timed_calls
from fuser.suites.workload import Workload

FEW, MANY = 16, 1 << 19
"""Elements on which a workload's pace is taken."""
BEGUN = "pace of a workload"
"""What the process says before the first call."""
PATIENCE_S = 30.0
"""For both calls and their warm-up together; with it a process has time to start."""


@dataclass(frozen=True, slots=True)
class Pace:
    """What NumPy takes for one workload: seconds a call, and seconds an element beyond that.

    A call that does not end takes for ever. One that raises takes no time, and one of which nothing
    was found out: its row will say what it is.
    """

    call_s: float
    element_s: float = 0.0

    def estimate_s(self, elements: int) -> float:
        """Guess one call's seconds."""
        return self.call_s + elements * self.element_s


@lru_cache(maxsize=1024)
def pace(spec: str, dtype: str) -> Pace:
    """Return the pace of a workload, by the name that `resolve` knows."""
    if resolve(spec).unavailable() is not None:
        return Pace(0.0)
    if ":" in spec and not spec.startswith("fuser."):
        return _pace_elsewhere(spec, dtype)
    few_s, many_s = _calls_s(resolve(spec), dtype)
    return _pace_of(few_s, many_s)


def _pace_of(few_s: float, many_s: float) -> Pace:
    return Pace(few_s, max(0.0, many_s - few_s) / (MANY - FEW))


def _calls_s(workload: Workload, dtype: str) -> Iterator[float]:
    """Yield the seconds of a call on few and on many elements, each when it is known.

    Of a workload that is for fewer, those on its middle size tell what so many would take.
    """
    many = max(2 * FEW, min(MANY, workload.sizes["M"]))
    few_s = 0.0
    for elements in (FEW, many):
        arguments = workload.inputs(elements, dtype, 0)
        with np.errstate(all="ignore"):
            workload.function(*arguments)
            call_s = timed_calls(workload.function, arguments, 1)[0]
        yield call_s if elements == FEW else few_s + (call_s - few_s) * (MANY - FEW) / (many - FEW)
        few_s = call_s


def _pace_elsewhere(spec: str, dtype: str) -> Pace:
    """Take the pace in a process that is stopped when it takes too long."""
    command = [sys.executable, "-m", "fuser.suites.pace", spec, dtype]
    ended = True
    try:
        output = subprocess.run(
            command, env=child_environment(), stdin=subprocess.DEVNULL, capture_output=True,
            timeout=PATIENCE_S, check=False,
        ).stdout  # fmt: skip
    except subprocess.TimeoutExpired as error:
        output, ended = error.stdout or b"", False
    found = _seconds_in(output)
    if len(found) == 2:
        return _pace_of(*found)
    if ended or BEGUN.encode() not in output:  # a busy machine may take long to begin
        return Pace(0.0)
    return _pace_of(found[0], PATIENCE_S) if found else Pace(math.inf)


def _seconds_in(output: bytes) -> list[float]:
    """Return what the process said, between the lines that a workload may print."""
    found = []
    for line in output.decode(errors="replace").splitlines():
        head, _, text = line.partition("call_s ")
        if not head and text:
            found.append(float(json.loads(text)))
    return found


def main(arguments: Sequence[str]) -> int:
    """Print a workload's seconds, a line each."""
    spec, dtype = arguments
    workload = resolve(spec)
    print(BEGUN, flush=True)
    for seconds in _calls_s(workload, dtype):
        print("call_s", json.dumps(seconds), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
