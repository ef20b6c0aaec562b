"""Tables that serve one combination of lengths and strides, whatever they are.

Integer arguments that only move where kernels read, such as the index in `x[k]`, may be any.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Mapping
from functools import partial
from typing import Any

from fuser.backend import ServedCall
from fuser.backends.cpu import costs
from fuser.backends.cpu.entries.composed import exact_pair, pairs_apart
from fuser.backends.cpu.entries.containers import native
from fuser.backends.cpu.entries.draft import Draft
from fuser.backends.cpu.entries.integers import check_guards, take_integers
from fuser.backends.cpu.entries.names import NotServed
from fuser.backends.cpu.entries.steps import Steps, TooLarge
from fuser.backends.cpu.entries.tables import (
    PATIENCE_NS,
    arrays_of,
    describe_arguments,
    describe_outputs,
    describe_scalars,
    pack,
)
from fuser.backends.cpu.machine import layout, pool
from fuser.backends.cpu.sequence import Table
from fuser.ir import dims
from fuser.runtime.launch import Fresh
from fuser.runtime.symbolic import Assumptions, NotSymbolic, Symbolic

#: No index that a table serves is larger, or less than its negative.
MOST_INTEGER = 1 << 31


def exact_table(call: ServedCall) -> tuple[Any, Draft]:
    """A table for calls with exactly these lengths and strides, and any other indices.

    Raises:
        NotServed: the dispatcher cannot serve such calls.
    """
    draft = Draft(call)
    draft.table = Table(call.launch)
    describe_arguments(draft)
    sizes, places = dict(call.sizes), dict[str, int]()
    assumptions = Assumptions({}, {})
    if call.specialisation.trace.graph.guards_of_integers:
        if draft.written:
            raise NotServed  # they may say where kernels write
        try:
            take_integers(draft, sizes, places, assumptions, MOST_INTEGER)
            for name in call.specialisation.spec.shaping:
                operator.index(sizes[name])  # which pins it to the length of this call
            check_guards(draft, sizes)
        except NotSymbolic:
            raise NotServed from None
    arrays = arrays_of(draft)
    for name, array in arrays.items():
        record = draft.records[draft.record_of[name]]
        axes = native(draft.keep, [array.shape, array.strides])
        draft.keep.append(array.dtype)
        record |= {
            "kind": layout.EXACT_ARRAY, "expected": id(array.dtype), "rank": array.ndim,
            "axes": axes,
        }  # fmt: skip
    describe_scalars(draft, call.sizes)
    table = draft.table
    for at, name in table.places:
        table.words[at] += table.offsets.get(name, 0) + _shift(draft, name)
    try:
        _move(draft, sizes, places, assumptions)
    except (NotSymbolic, TooLarge):
        raise NotServed from None
    draft.team = table.share_out()
    spent = sum(kernel.work_ns(number, extent) for kernel, number, extent in table.nests)
    size = table.workspace_bytes
    rows = {
        "outputs": describe_outputs(draft, partial(_room, draft)),
        "overlaps": _exact_overlaps(draft, arrays),
        "temporaries": [layout.words("SCALED", factor=size)] if size else [],
    }
    draft.long = spent >= PATIENCE_NS or draft.team != 0  # what is brief has no team to share with
    # Parts are counted in the block, so each call needs a fresh one: none is brief.
    counted = any(costs.counts_parts(extent) for _, _, extent in table.nests)
    flags = layout.LONG if draft.long or counted else 0
    base_of = dict.fromkeys(table.temporaries, 0)
    return pack(draft, rows, base_of, limit=1, patience=1, flags=flags), draft


def _move(
    draft: Draft, sizes: Mapping[str, Any], places: dict[str, int], assumptions: Assumptions
) -> None:
    """What integer arguments add to operands' offsets, and what is compared of them.

    Raises:
        TooLarge: an offset may be too large for a word.
    """
    table, steps = draft.table, Steps(places, assumptions)
    moved: dict[int, Any] = {}
    for at, index, step in table.moves:
        moved[at] = moved.get(at, table.words[at]) + dims.evaluate(index, sizes) * step
    for at, offset in moved.items():
        if isinstance(offset, Symbolic):
            draft.lines.append([*steps.scaled(offset.dim), at])
        else:
            table.words[at] = offset
    draft.ranges += [
        layout.words("RANGE", place=steps.place(dim), low=low, width=high - low)
        for dim, low, high in assumptions.guards()
    ]
    draft.steps = steps.rows


def _room(draft: Draft, entry: Fresh) -> dict[str, int]:
    """The lengths and strides of an array to allocate."""
    size = math.prod(entry.shape) * entry.dtype.itemsize
    return {
        "dims": native(draft.keep, [entry.shape]),
        "strides": 0 if entry.order is None else native(draft.keep, [entry.strides]),
        "pooled": int(size >= pool.THRESHOLD),
    }


def _exact_overlaps(draft: Draft, names: Mapping[str, Any]) -> list[list[int]]:
    """What arrays that are written must not share memory with: arguments, and one another."""
    arrays, rows = draft.call.arrays, list[list[int]]()
    for written, read, in_place in pairs_apart(draft, names):
        places = draft.record_of[written], draft.record_of[read]
        shift = _shift(draft, written)
        rows += exact_pair(places, arrays[written], arrays[read], in_place=in_place, shift=shift)
    return rows


def _shift(draft: Draft, name: str) -> int:
    """How many bytes behind an argument's first element lies what is written of it."""
    if name not in draft.written:
        return 0
    address = draft.call.launch.backend.address
    whole = draft.call.arrays[draft.written[name]]
    return int(address(draft.call.arrays[name])) - int(address(whole))
