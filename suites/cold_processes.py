"""First calls from processes that begin with nothing, taken in turns by our fuser and another's."""

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

import fuser
from fuser.suites.children import child_environment
from fuser.suites.cold import PROGRAMS, WRONG
from fuser.suites.measuring import Event
from fuser.suites.plan import Plan

LONGEST_S = 120.0
"""A process is ended that takes longer."""
WARM = "disk"
"""The program that finds machine code on disk; the others are told to keep none."""


def measure(plan: Plan) -> Iterator[tuple[int, Event]]:
    """Yield the events of all processes, each with its number; the first ones fill the caches."""
    cells = {each.workload.rpartition(":")[2]: at for at, each in enumerate(plan.cells)}
    variants = [at for at, each in enumerate(plan.variants) if each.absent_reason is None]
    with tempfile.TemporaryDirectory(prefix="fuser-bench-cold-") as folder:
        for process in range(-1, plan.processes):
            for program in PROGRAMS:
                # each comes first in every other process
                for variant in variants if process % 2 == 0 else reversed(variants):
                    done = max(0, process) * len(PROGRAMS) + PROGRAMS.index(program)
                    yield process, {
                        "event": "progress", "text": f"first calls: {program}",
                        "fraction": done / (plan.processes * len(PROGRAMS)),
                    }
                    checkout = plan.variants[variant].checkout
                    found = figures(program, checkout, Path(folder) / str(variant))
                    for event in _events(found, cells, variant) if process >= 0 else ():
                        yield process, event


def figures(program: str, checkout: str, folder: Path) -> dict[str, float | list[str] | str]:
    """Return what a new process finds: seconds by figure, and what was wrong; or the reason."""
    root = checkout or str(Path(fuser.__file__).resolve().parent.parent)
    environment = {
        **child_environment(), "FUSER_CACHE": "on" if program == WARM else "off",
        "XDG_CACHE_HOME": str(folder),
        # modules are read as bytecode, as they are where the package is installed
        "PYTHONPYCACHEPREFIX": str(folder), "PYTHONDONTWRITEBYTECODE": "",
    }
    environment.pop("PYTHONPATH")
    script = Path(__file__).with_name("cold.py")
    try:
        done = subprocess.run(
            [sys.executable, str(script), root, program], env=environment, check=True,
            stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=LONGEST_S,
        )
    except subprocess.TimeoutExpired:
        return {"reason": f"its process did not end within {LONGEST_S:.0f} s"}
    except subprocess.CalledProcessError as error:
        return {"reason": f"its process failed: {_last_line(error.stderr)}"}
    found: dict[str, float | list[str] | str] = json.loads(done.stdout)
    return found


def _last_line(text: str) -> str:
    return "".join(text.strip().splitlines()[-1:]).replace(os.getcwd() + os.sep, "")


def _events(
    found: dict[str, float | list[str] | str], cells: dict[str, int], variant: int
) -> Iterator[Event]:
    if "reason" in found:
        yield {"event": "note", "text": f"first calls: {found['reason']}"}
        return
    wrong = found.pop(WRONG)
    assert isinstance(wrong, Sequence)
    for name in found.keys() & cells.keys():
        row = {"cell": cells[name], "variant": variant}
        problem = "its result is not NumPy's" if name in wrong else ""
        yield {"event": "check", **row, "relative": None, "ulp": None, "problem": problem}
        yield {
            "event": "sample", **row, "block": 0, "order": 0, "calls": 1, "seconds": found[name],
            "checked": True,
        }
