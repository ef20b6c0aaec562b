"""How many processors this process may use: affinity, and the limits of its control groups."""

from __future__ import annotations

import os
from collections.abc import Iterator
from functools import cache
from pathlib import Path

GROUPS = Path("/proc/self/cgroup")
MOUNT = Path("/sys/fs/cgroup")
#: Where version 1 mounts the controller of processor time.
CONTROLLERS = ("cpu", "cpu,cpuacct", "cpuacct,cpu")


@cache
def machine_threads() -> int:
    """Processors that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        count = len(os.sched_getaffinity(0))
    else:
        count = os.cpu_count() or 1
    share = quota()
    return count if share is None else max(1, min(count, int(share)))


def quota(groups: Path = GROUPS, mount: Path = MOUNT) -> float | None:
    """Processors' worth of time that control groups allow; None where they set no limit.

    A group's limit holds for all groups within it, so the least one on the way up counts. In a
    container the path may be the host's: what is not mounted is passed over.

    Args:
        groups: lists this process's groups, as /proc/self/cgroup does.
        mount: where the groups are mounted.
    """
    found = []
    for base, path in _homes(groups, mount):
        inside = path.strip("/")
        places = [base / inside, *(base / inside).parents] if inside else [base]
        for folder in places:
            limit = _version_2(folder) or _version_1(folder)
            if limit is not None:
                found.append(limit)
            if folder == base:
                break
    return min(found, default=None)


def _homes(groups: Path, mount: Path) -> Iterator[tuple[Path, str]]:
    """Where groups that limit processor time are mounted, and this process's path within."""
    try:
        lines = groups.read_text(encoding="utf-8").splitlines()
    except (OSError, ValueError):
        lines = []
    yield mount, ""
    for line in lines:
        number, controllers, path = [*line.split(":", 2), "", "", ""][:3]
        if number == "0" and not controllers:
            yield mount, path
        elif "cpu" in controllers.split(","):
            for name in CONTROLLERS:
                yield mount / name, path


def _version_2(folder: Path) -> float | None:
    """The limit in `cpu.max`: microseconds of each period, or `max`."""
    try:
        allowed, period = (folder / "cpu.max").read_text(encoding="ascii").split()
        return None if allowed == "max" else int(allowed) / int(period)
    except (OSError, ValueError, ZeroDivisionError):
        return None


def _version_1(folder: Path) -> float | None:
    """The limit in `cpu.cfs_quota_us`; -1 is none."""
    try:
        allowed = int((folder / "cpu.cfs_quota_us").read_text(encoding="ascii"))
        period = int((folder / "cpu.cfs_period_us").read_text(encoding="ascii"))
        return allowed / period if allowed > 0 else None
    except (OSError, ValueError, ZeroDivisionError):
        return None
