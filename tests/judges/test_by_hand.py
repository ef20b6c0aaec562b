"""Small nasty programs, written by hand: each does fused what it does plainly, call by call.

What they are about: which object a result is and whose memory it shares; values that are read from
outside or replaced between calls; what a function leaves behind when it is traced, gives up, or
raises. `by_hand.txt` has them, each under its name.
"""

import re
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.judges.programs import Worker
from tests.tree import ROOT

TEXT = (ROOT / "tests" / "judges" / "by_hand.txt").read_text()
PARTS = re.split(r"^=== (.*)\n", TEXT, flags=re.M)[1:]
PROGRAMS: dict[str, str] = dict(zip(PARTS[::2], PARTS[1::2], strict=True))
#: Programs that ran without a fallback at every call when this was written.
FUSED = 452
#: Programs that one process judges.
BATCH = 250

Verdicts = dict[str, tuple[int, int, str]]


@pytest.fixture(scope="module")
def said() -> Verdicts:
    """Calls, those without a fallback, and the first difference, of each program."""
    names = list(PROGRAMS)
    with ThreadPoolExecutor(2) as pool:
        halves = list(pool.map(_judged, (names[::2], names[1::2])))
    return halves[0] | halves[1]


def _judged(names: list[str]) -> Verdicts:
    """Verdicts on programs, some to a process."""
    worker, found = Worker(BATCH, "--quick-worker"), Verdicts()
    try:
        for name in names:
            told = worker.judge(PROGRAMS[name], name)
            found[name] = (told.get("calls", 0), told.get("fused", 0), told["difference"])
    finally:
        worker.stop()
    return found


@pytest.mark.parametrize("name", PROGRAMS)
def test_programs_by_hand(said: Verdicts, name: str) -> None:
    """No difference in values, objects, memory, writes or exceptions."""
    calls, _, difference = said[name]
    assert calls
    assert not difference


def test_nine_tenths_of_them_stay_fused(said: Verdicts) -> None:
    """Refusing is no way out of a difference."""
    assert sum(calls == fused > 0 for calls, fused, _ in said.values()) >= 0.9 * FUSED
