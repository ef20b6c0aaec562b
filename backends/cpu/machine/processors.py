"""What this process may use: processors by affinity and control groups, memory by limits."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from functools import cache
from typing import TypeAlias

_Path: TypeAlias = str | os.PathLike[str]  # pathlib would cost milliseconds

GROUPS = "/proc/self/cgroup"
MOUNT = "/sys/fs/cgroup"
#: Where version 1 mounts the controller of processor time.
CONTROLLERS = ("cpu", "cpu,cpuacct", "cpuacct,cpu")


@cache
def machine_threads() -> int:
    """Processors that this process may use."""
    try:
        count = len(os.sched_getaffinity(0))
    except (AttributeError, OSError):  # not on every platform, and a sandbox may refuse to tell
        count = os.cpu_count() or 1
    share = quota()
    return count if share is None else max(1, min(count, int(share)))


def quota(groups: _Path = GROUPS, mount: _Path = MOUNT) -> float | None:
    """Processors' worth of time that control groups allow; None where they set no limit.

    A group's limit holds for all groups within it, so the least one on the way up counts. In a
    container the path may be the host's: what is not mounted is passed over.

    Args:
        groups: lists this process's groups, as /proc/self/cgroup does.
        mount: where the groups are mounted.
    """
    limits = (_version_2(place) or _version_1(place) for place in _folders(groups, mount, "cpu"))
    return min((limit for limit in limits if limit is not None), default=None)


def memory_limit(groups: _Path = GROUPS, mount: _Path = MOUNT) -> int | None:
    """Bytes that control groups and the process's own limits allow; None where there is none.

    Args:
        groups: see `quota`.
        mount: likewise.
    """
    found = _own_limits()
    for folder in _folders(groups, mount, "memory"):
        for name in ("memory.max", "memory.limit_in_bytes"):
            with suppress(OSError, ValueError):  # `max` is no number
                found.append(int(_text(folder, name)))
    return min(found, default=None)


def _own_limits() -> list[int]:
    """Bytes of address space and of data that this process may have (`ulimit -v`, `ulimit -d`)."""
    try:
        import resource
    except ImportError:  # not on every platform
        return []
    limits = (resource.getrlimit(kind)[0] for kind in (resource.RLIMIT_AS, resource.RLIMIT_DATA))
    return [limit for limit in limits if limit != resource.RLIM_INFINITY]


def _folders(groups: _Path, mount: _Path, controller: str) -> Iterator[str]:
    """Groups that this process is in, each with those around it."""
    for base, path in _homes(groups, mount, controller):
        parts = [part for part in path.split("/") if part]
        for count in range(len(parts), -1, -1):
            yield os.path.join(base, *parts[:count])


def _homes(groups: _Path, mount: _Path, controller: str) -> Iterator[tuple[_Path, str]]:
    """Where groups with a controller are mounted, and this process's path within."""
    try:
        lines = _text(groups).splitlines()
    except (OSError, ValueError):
        lines = []
    yield mount, ""
    for line in lines:
        number, controllers, path = [*line.split(":", 2), "", "", ""][:3]
        if number == "0" and not controllers:
            yield mount, path
        elif controller in controllers.split(","):
            for name in CONTROLLERS if controller == "cpu" else (controller,):
                yield os.path.join(mount, name), path


def _text(*parts: _Path) -> str:
    """What a file says."""
    with open(os.path.join(*parts), encoding="utf-8") as file:
        return file.read()


def _version_2(folder: str) -> float | None:
    """The limit in `cpu.max`: microseconds of each period, or `max`."""
    try:
        allowed, period = _text(folder, "cpu.max").split()
        return None if allowed == "max" else int(allowed) / int(period)
    except (OSError, ValueError, ZeroDivisionError):
        return None


def _version_1(folder: str) -> float | None:
    """The limit in `cpu.cfs_quota_us`; -1 is none."""
    try:
        allowed = int(_text(folder, "cpu.cfs_quota_us"))
        period = int(_text(folder, "cpu.cfs_period_us"))
        return allowed / period if allowed > 0 else None
    except (OSError, ValueError, ZeroDivisionError):
        return None
