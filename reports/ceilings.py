"""How fast this machine moves memory, by working-set class, from the anchors of the same run."""

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from fuser.reports.record import Ceiling, Record

OUTERMOST = "memory"
"""The class of working sets beyond the last cache."""


@dataclass(frozen=True, slots=True)
class Speed:
    """Bytes a second of one anchor at one working set and thread count."""

    name: str
    working_set_bytes: int
    threads: int
    typical: float  # median over processes of the process median
    fastest: float  # of the process medians
    processes: int
    by: str = "numpy"


def working_set_class(working_set_bytes: int, caches: Mapping[str, int]) -> str:
    """Name the smallest cache that holds a working set.

    Args:
        working_set_bytes: inputs and outputs of one call together.
        caches: cache name -> bytes, as the record's machine has them; instruction caches ignored.

    Returns:
        The cache's name, or "memory" where none holds it or none is known.
    """
    holding = ((size, name) for name, size in caches.items() if working_set_bytes <= size)
    return min((each for each in holding if not each[1].endswith("i")), default=(0, OUTERMOST))[1]


def _of_class(
    working_set_bytes: int, speeds: Sequence[Speed], caches: Mapping[str, int]
) -> list[Speed]:
    """The anchors of a working set's class: many are of the same few working sets."""
    wanted = working_set_class(working_set_bytes, caches)
    sizes = {each.working_set_bytes for each in speeds}
    same = {size for size in sizes if working_set_class(size, caches) == wanted}
    return [each for each in speeds if each.working_set_bytes in same]


def ceiling_speeds(ceilings: Sequence[Ceiling]) -> list[Speed]:
    """Summarise the anchors of a run, sorted by name, threads and working set.

    Args:
        ceilings: as recorded; each of `seconds` moved `bytes_moved`.

    Returns:
        One `Speed` (bytes a second) for each name, thread count, working set and code timed.
    """
    groups: dict[tuple[str, int, int, str], dict[int, list[float]]] = defaultdict(dict)
    for each in ceilings:
        speeds = [each.bytes_moved / seconds for seconds in each.seconds if seconds > 0]
        if speeds:
            key = (each.name, each.threads, each.working_set_bytes, each.by)
            groups[key].setdefault(each.process, []).extend(speeds)
    result = []
    for (name, threads, working_set, by), processes in sorted(groups.items()):
        medians = [float(np.median(speeds)) for speeds in processes.values()]
        typical, fastest = float(np.median(medians)), max(medians)
        result.append(Speed(name, working_set, threads, typical, fastest, len(medians), by))
    return result


def ceiling_for(
    working_set_bytes: int, speeds: Sequence[Speed], caches: Mapping[str, int], names: Sequence[str]
) -> Speed | None:
    """Pick the ceiling that a cell of this working set is held against.

    Args:
        working_set_bytes: inputs and outputs of one call together.
        speeds: as `ceiling_speeds` gives them.
        caches: as in `working_set_class`.
        names: which anchors may serve: ("copy",) or all of them.

    Returns:
        Among the anchors of the same class, those nearest in working set, and of these the
        fastest over thread counts; None where no anchor was timed in this class.
    """
    named = [each for each in speeds if each.name in names]
    same = _of_class(working_set_bytes, named, caches)
    if not same or working_set_bytes <= 0:
        return None

    def distance(speed: Speed) -> float:
        return abs(math.log(max(speed.working_set_bytes, 1) / working_set_bytes))

    nearest = min(distance(each) for each in same)
    close = [each for each in same if distance(each) <= nearest + 1e-9]
    return max(close, key=lambda each: each.typical)


def fastest_for(working_set_bytes: int, record: Record, speeds: Sequence[Speed]) -> float | None:
    """Give the bytes a second that nothing of this class can exceed: the fastest anchor seen.

    Returns:
        Bytes a second over all anchors, thread counts and processes of the working-set class.
        None where no anchor was timed in it, or where the anchors used fewer threads than a
        kernel may: then nothing is known to be impossible.
    """
    machine = record.machine
    threads = int(record.settings.get("threads") or machine.cores_physical or machine.cores_logical)
    same = _of_class(working_set_bytes, speeds, machine.caches)
    if max((speed.threads for speed in same), default=0) < threads:
        return None
    return max(speed.fastest for speed in same)
