"""Boxes of arrays as text: `1:n0 - 1; 0:n1` says where an update writes, `0:n0:2` in steps."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fuser.ir import dims
from fuser.ir.dims import Dim

#: Places start, start + step, … below stop along each axis.
Span = tuple[Dim, Dim, int]
Bounds = tuple[Span, ...]


def spell(bounds: Bounds) -> str:
    """Write bounds: `1:n0 - 1; 0:n1:2`."""
    return "; ".join(
        f"{start}:{stop}" + (f":{step}" if step != 1 else "") for start, stop, step in bounds
    )


def parse(payload: str) -> Bounds:
    """Read bounds back."""
    spans = [part.split(":") for part in payload.split(";") if part.strip()]
    return tuple(
        (dims.parse(start.strip()), dims.parse(stop.strip()), int(step[0]) if step else 1)
        for start, stop, *step in spans
    )


def rename(payload: str, names: Any) -> str:
    """Replace symbols."""
    return spell(
        tuple(
            (dims.substitute(start, names), dims.substitute(stop, names), step)
            for start, stop, step in parse(payload)
        )
    )


def rename_by(change: Any, payload: str) -> str:
    """Replace bounds, each by itself."""
    bounds = parse(payload)
    return spell(tuple((change(start), change(stop), step) for start, stop, step in bounds))


def is_full(payload: str, shape: Sequence[Dim]) -> bool:
    """Whether a region is all of an array."""
    return parse(payload) == tuple((0, length, 1) for length in shape)


def disjoint(one: Span, two: Span) -> bool:
    """Whether two spans of an axis surely have no place in common."""
    gaps = (one[0] - two[1], two[0] - one[1])
    if any(isinstance(gap, int) and gap >= 0 for gap in gaps):
        return True
    step, shift = one[2], one[0] - two[0]
    return step == two[2] and isinstance(shift, int) and shift % step != 0


def symbols(payload: str) -> set[str]:
    """The lengths that the bounds of a region speak of."""
    bounds = [bound for start, stop, _ in parse(payload) for bound in (start, stop)]
    return {name for bound in bounds for name in dims.symbols(bound)}


def slices(payload: str, sizes: Any) -> tuple[slice, ...]:
    """The index of a region in an array of given lengths."""
    return tuple(
        slice(dims.evaluate(start, sizes), dims.evaluate(stop, sizes), step)
        for start, stop, step in parse(payload)
    )
