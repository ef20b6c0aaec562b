"""A table for the native dispatcher while it is being made."""

from __future__ import annotations

from typing import Any

from fuser.backend import ServedCall
from fuser.backends.cpu.entries.containers import Places, places_of
from fuser.backends.cpu.sequence import Table
from fuser.base import forks
from fuser.base.records import field, record


@record(frozen=False, slots=False, eq=False)
class Draft:
    """What a table is made of while it is being made."""

    call: ServedCall
    table: Table = field(init=False)
    records: list[dict[str, int]] = field(default_factory=list)
    record_of: dict[str, int] = field(default_factory=dict)
    lines: list[list[int]] = field(default_factory=list)
    """Words of the template that depend on lengths."""
    steps: list[list[int]] = field(default_factory=list)
    ranges: list[list[int]] = field(default_factory=list)
    """Guards of lengths."""
    key: tuple[Any, ...] = ()
    """What tables for the same lengths have in common."""
    scalars: list[list[int]] = field(default_factory=list)
    keep: list[Any] = field(default_factory=list)
    integers: list[tuple[str, int, int]] = field(default_factory=list)
    """Ranges that Python integers must stay in."""
    template: Any = None
    scratch: Any = None
    team: int = 0
    long: bool = False
    generic: list[bool] = field(default_factory=list)
    """Of each output: whether NumPy gives a scalar."""
    composed: bool = False
    """Whether the result is more than one output: `leaves` tells what it is put together of."""
    leaves: list[list[int]] = field(default_factory=list)
    assembled: Any = None
    """The Python function that puts the leaves together."""
    fixed: set[str] = field(default_factory=set)
    """Scalars that must be the object that was seen: what they are for kernels is known."""
    written: dict[str, str] = field(default_factory=dict)
    """Arguments that kernels write into, by the output's name."""
    guards: list[tuple[str, Any]] = field(default_factory=list)
    """Expressions over scalars, and the values that they must have."""
    computed: list[tuple[str, type]] = field(default_factory=list)
    """Expressions over scalars that kernels take, and the types of their values."""
    equal: list[tuple[int, Any]] = field(default_factory=list)
    """Arguments, by their place, that must be equal to something."""
    in_part: bool = False
    """Whether one of them is written in a part of it."""

    @forks.cached_property
    def places(self) -> Places:
        """Where the arguments are."""
        return places_of(self.call)
