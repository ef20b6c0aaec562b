"""The only clock of the core: phases of calls, kept while somebody listens."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from time import perf_counter_ns
from typing import TYPE_CHECKING

from fuser.base import forks
from fuser.base.config import bump_mode
from fuser.base.records import record

if TYPE_CHECKING:
    from pathlib import Path

    import pandas


@record
class Phase:
    """One timed phase: its name, what it worked on, start and length in nanoseconds."""

    name: str
    subject: str
    start_ns: int
    elapsed_ns: int
    thread: int


class Timeline:
    """The phases seen while it was listening."""

    def __init__(self) -> None:
        """Start empty."""
        self.phases: list[Phase] = []

    def to_pandas(self) -> pandas.DataFrame:
        """Return one row a phase: name, subject, start_s, elapsed_s, thread."""
        import pandas

        rows = [
            (p.name, p.subject, p.start_ns / 1e9, p.elapsed_ns / 1e9, p.thread)
            for p in self.phases
        ]
        return pandas.DataFrame(rows, columns=["name", "subject", "start_s", "elapsed_s", "thread"])

    def seconds(self) -> dict[str, float]:
        """Return the total seconds spent in each kind of phase."""
        total: dict[str, float] = {}
        for p in self.phases:
            total[p.name] = total.get(p.name, 0.0) + p.elapsed_ns / 1e9
        return total

    def to_json(self) -> str:
        """Return trace events as JSON text, which Perfetto and chrome://tracing open."""
        import json

        events = [
            {
                "name": p.name,
                "cat": "fuser",
                "ph": "X",
                "ts": p.start_ns / 1e3,
                "dur": p.elapsed_ns / 1e3,
                "pid": 1,
                "tid": p.thread,
                "args": {"subject": p.subject},
            }
            for p in self.phases
        ]
        return json.dumps({"traceEvents": events, "displayTimeUnit": "ns"})

    def save(self, path: str | Path) -> Path:
        """Write the trace events of `to_json` to a file at this path, and return the path."""
        from pathlib import Path

        target = Path(path)
        target.write_text(self.to_json())
        return target


_listeners: tuple[Timeline, ...] = ()
_lock = forks.lock()


def listening() -> bool:
    """Whether anybody wants phases; callers may skip the clock otherwise."""
    return bool(_listeners)


class phase:  # noqa: N801  (read as a verb at its places of use)
    """Time the block as one phase when somebody listens.

    A class and not a generator: a call through Python passes several of these.
    """

    __slots__ = ("_name", "_start_ns", "_subject")

    def __init__(self, name: str, subject: str = "") -> None:
        """Name the phase and what it works on."""
        self._name = name
        self._subject = subject
        self._start_ns = 0

    def __enter__(self) -> None:
        """Read the clock, if anybody wants to know."""
        if _listeners:
            self._start_ns = perf_counter_ns()

    def __exit__(self, *_: object) -> None:
        """Keep the phase; one that began before anybody listened is not kept."""
        if not self._start_ns:
            return
        elapsed_ns = perf_counter_ns() - self._start_ns
        thread = threading.get_ident()
        done = Phase(self._name, self._subject, self._start_ns, elapsed_ns, thread)
        for listener in _listeners:
            listener.phases.append(done)


@contextmanager
def profile() -> Iterator[Timeline]:
    """Collect the phases of every call inside the block.

    Yields:
        A Timeline: `.phases`, `.to_pandas()`, `.seconds()`, `.save(path)`.
    """
    global _listeners
    timeline = Timeline()
    with _lock:
        _listeners = (*_listeners, timeline)
        bump_mode()
    try:
        yield timeline
    finally:
        with _lock:
            _listeners = tuple(other for other in _listeners if other is not timeline)
            bump_mode()
