"""The texts of attributes, read back: what stands in the braces of a graph's text, by operation.

Each attribute writes its own (`Attribute.text`). A text may come from anywhere: its form is looked
at first; numbers, lengths and dtypes are looked at when they are read.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from fuser.base.caches import memo
from fuser.base.errors import GraphError
from fuser.base.host_expressions import short
from fuser.ir import dims
from fuser.ir.attributes import NOTHING, Attribute, Axes, Axis, Cast, Extent, Places, Region, Span
from fuser.ir.ops import TABLE
from fuser.ir.views import Broadcast, Diagonal, Index, IndexPart, Part, Reshape, Transpose


def _integers(text: str) -> tuple[int, ...]:
    return tuple(map(int, text.split(","))) if text else ()


def _cast(text: str) -> Cast:
    """`float32`, `float32 C` or `float32 A.0.1`."""
    name, _, order = text.partition(" ")
    letter, *like = order.split(".")
    return Cast(np.dtype(name), letter, tuple(map(int, like)))


def _region(text: str) -> Region:
    """`1:n0 - 1; 0:n1:2`."""
    spans = [span.split(":") for span in text.split(";") if span.strip()]
    return Region(tuple(map(_span, spans)))


def _span(bounds: Sequence[str]) -> Span:
    """Start, stop and perhaps step."""
    start, stop, *step = bounds
    return dims.parse(start.strip()), dims.parse(stop.strip()), int(step[0]) if step else 1


def _index(text: str) -> Index:
    """`1:, ::-1, 0, None`."""
    parts: list[IndexPart] = []
    for piece in filter(None, (piece.strip() for piece in text.split(","))):
        if piece == "None":
            parts.append(None)
        elif ":" in piece:
            parts.append(slice(*(int(bound) if bound else None for bound in piece.split(":"))))
        else:
            parts.append(int(piece))
    return Index(tuple(parts))


def _part(text: str) -> Part:
    """`axis; start; stop` or `axis; start; stop; step`."""
    axis, start, stop, *step = text.split(";")
    return Part(int(axis), dims.parse(start.strip()), dims.parse(stop.strip()), *map(int, step))


_WHOLE = r"-?[0-9]+"
_AXES = r"([0-9]+(, [0-9]+)*)?"
_LENGTHS = r"[A-Za-z0-9_ +*/(),-]*"
_ENTRY = rf"(None|{_WHOLE}|({_WHOLE})?:({_WHOLE})?(:{_WHOLE})?)"
_AXIS = (r"[0-9]+", lambda text: Axis(int(text)))
_PLACES = (rf"({_WHOLE}(, {_WHOLE})*)?", lambda text: Places(_integers(text)))
_REDUCED = (_AXES, lambda text: Axes(_integers(text)))
#: The form of an operation's text, and what it says.
_READERS: Mapping[str, tuple[str, Callable[[str], Attribute]]] = {
    **{row.name: _REDUCED for row in TABLE.values() if row.reduction},
    **{row.name: _AXIS for row in TABLE.values() if row.scans},
    **{row.name: _PLACES for row in TABLE.values() if row.gathers or row.scatters},
    "concatenate": _AXIS,
    "cast": (r"[a-z0-9]+( [ACFK](\.[0-9]+)*)?", _cast),
    "positions": (_LENGTHS, lambda text: Extent(dims.parse(text))),
    "update": (r"[A-Za-z0-9_ +*/(),;:-]*", _region),
    "index": (rf"({_ENTRY}(, {_ENTRY})*)?", _index),
    "transpose": (_AXES, lambda text: Transpose(_integers(text))),
    "reshape": (_LENGTHS, lambda text: Reshape(dims.parse_shape(text))),
    "broadcast_to": (_LENGTHS, lambda text: Broadcast(dims.parse_shape(text))),
    "part": (r"[A-Za-z0-9_ +*/(),;-]*", _part),
    "diagonal": ("", lambda text: Diagonal()),
}


@memo(4096)
def read(name: str, text: str) -> Any:
    """The attribute of an operation, by the operation's name.

    Raises:
        ValueError, GraphError: the operation cannot have such a text.
    """
    form, reader = _READERS.get(name, ("", lambda text: NOTHING))
    if not re.fullmatch(form, text):
        raise GraphError(f"{name} cannot have {short(text)!r}")
    return reader(text)
