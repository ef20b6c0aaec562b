"""Schedules that timing found better on this machine than `choose`'s, kept beside machine code.

An entry holds for one loop nest (the hash of its text, which says the processor's features, too)
and one class of lengths: those with as many binary digits. The file is that of this processor, of
the number of processors that the process may use, and of `SPACE`. Only schedules that give the same
bits as the chosen one are kept, so a program's results do not depend on this table.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

from fuser.backends.cpu.emit import emit
from fuser.backends.cpu.machine import processors, target
from fuser.backends.cpu.schedule import DEFAULT, Schedule
from fuser.backends.cpu.scheduling.schedules import is_legal, same_bits
from fuser.base import config, disk_cache, forks
from fuser.base.caches import digest
from fuser.base.records import changed
from fuser.codegen import LoopNest

SPACE = 3
"""The version of what a schedule can say: schedules of other versions are not read."""
SUFFIX = ".tuned"
Lengths = Sequence[int]
Strides = Sequence[Sequence[int]]
Entries = dict[str, list[tuple[tuple[int, ...], Schedule]]]

_known: Entries | None = None
_lock = forks.lock()


def known() -> Entries:
    """What is kept for this machine, read once a process: (digits of lengths, schedule) by nest."""
    global _known
    if _known is None:
        _known = _read()
    return _known


def in_use() -> bool:
    """Whether anything is kept and read: never under continuous integration, which says `CI`."""
    return config.current().disk_cache and not os.environ.get("CI")


def digest_of(nest: LoopNest) -> str:
    """What a loop nest is known by: the hash of its usual text."""
    return digest(emit([nest], "nest", target.host_features()).encode()).hex()


def find(
    digest: str, nest: LoopNest, lengths: Lengths, strides: Strides, chosen: Schedule
) -> Schedule:
    """The schedule that is kept for a nest at these lengths; else the chosen one.

    Args:
        digest: as `digest_of` gives it.
        nest: what is computed.
        lengths: of all loops.
        strides: of loads, then of stores, in bytes.
        chosen: what `choose` takes.
    """
    for digits, schedule in known().get(digest, ()):
        if len(digits) == len(lengths) and all(map(_has_digits, lengths, digits)):
            fits = same_bits(nest, schedule, chosen) and is_legal(nest, schedule, lengths, strides)
            return schedule if fits else chosen
    return chosen


def keep(nest: LoopNest, lengths: Lengths, schedule: Schedule | None) -> None:
    """Keep a schedule for a nest at lengths like these; None forgets what is kept."""
    global _known
    digest, digits = digest_of(nest), tuple(length.bit_length() for length in lengths)
    with _lock:
        entries = _read()  # another process may have kept something meanwhile
        others = [entry for entry in entries.get(digest, ()) if entry[0] != digits]
        entries[digest] = [*others, (digits, schedule)] if schedule is not None else others
        if in_use():
            import json  # no call needs it, but for what is kept

            text = {
                key: [[given, _fields(kept)] for given, kept in some]
                for key, some in entries.items() if some
            }  # fmt: skip
            disk_cache.write(_key(), json.dumps(text).encode(), SUFFIX)
        _known = entries


def _has_digits(length: int, digits: int) -> bool:
    """Whether a length, which may be symbolic, has so many binary digits."""
    return (1 << digits) >> 1 <= length < 1 << digits


def _fields(schedule: Schedule) -> Mapping[str, Any]:
    """What differs from the usual schedule."""
    names = type(schedule).__match_args__
    pairs = ((name, getattr(schedule, name)) for name in names)
    return {name: value for name, value in pairs if value != getattr(DEFAULT, name)}


def _key() -> str:
    """The file's name."""
    share = processors.quota()
    given = f"schedules {SPACE} {processors.machine_threads()} {share}"
    return disk_cache.key_of(given, target.environment())


def _read() -> Entries:
    """What the file says; nothing where there is none, or it is of another form."""
    content = disk_cache.read(_key(), SUFFIX) if in_use() else None
    if content is None:
        return dict(_known or {})
    import json

    try:
        return {
            str(digest): [(tuple(map(int, digits)), _schedule(fields)) for digits, fields in some]
            for digest, some in json.loads(content).items()
        }
    except (AttributeError, TypeError, ValueError):
        return {}


def _schedule(fields: Mapping[str, Any]) -> Schedule:
    """A schedule from its fields; whether it is legal is asked where it is used."""
    return changed(DEFAULT, **fields)
