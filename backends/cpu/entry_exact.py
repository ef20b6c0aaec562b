"""Tables that serve one combination of lengths and strides, whatever they are."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from fuser.backends.cpu import entry_fields as fields
from fuser.backends.cpu import pool
from fuser.backends.cpu.entry_tables import (
    PATIENCE_NS,
    Draft,
    arrays_of,
    check_outputs,
    describe_arguments,
    describe_scalars,
    native,
    output,
    pack,
    product,
    reads_in_place,
)
from fuser.backends.cpu.sequence import Table
from fuser.native_call import ServedCall


def exact_table(call: ServedCall) -> tuple[Any, Draft]:
    """A table for calls with exactly these lengths and strides.

    Raises:
        NotServed: the dispatcher cannot serve such calls.
    """
    check_outputs(call)
    draft = Draft(call, Table(call.launch))
    describe_arguments(draft)
    arrays = arrays_of(draft)
    for name, array in arrays.items():
        record = draft.records[draft.record_of[name]]
        axes = native(draft, [array.shape, array.strides])
        draft.keep.append(array.dtype)
        record |= {
            "kind": fields.EXACT_ARRAY, "expected": id(array.dtype), "rank": array.ndim,
            "axes": axes,
        }  # fmt: skip
    describe_scalars(draft, call.sizes)
    table = draft.table
    for at, name in table.places:
        table.words[at] += table.offsets.get(name, 0)
    draft.team = table.share_out()
    spent = sum(kernel.work_ns(number, extent) for kernel, number, extent in table.nests)
    size = table.workspace_bytes
    rows = {
        "outputs": _exact_outputs(draft),
        "overlaps": _exact_overlaps(draft, arrays),
        "temporaries": [product(size)] if size else [],
        "work": [],
        "ranges": [],
    }
    draft.long = spent >= PATIENCE_NS
    flags = fields.LONG if draft.long else 0
    base_of = dict.fromkeys(table.temporaries, 0)
    return pack(draft, rows, base_of, limit=1, patience=1, flags=flags), draft


def _exact_outputs(draft: Draft) -> list[list[int]]:
    """The arrays to allocate, with their lengths and strides."""
    fresh = {entry.name: entry for entry in draft.table.outputs}
    rows = []
    for k, leaf in enumerate(draft.call.specialisation.trace.leaves):
        if f"o{k}" in draft.record_of:
            rows.append(fields.words("OUTPUT", given=draft.record_of[f"o{k}"]))
            continue
        entry = fresh[f"o{k}"]
        size = math.prod(entry.shape) * entry.dtype.itemsize
        row = {
            "dims": native(draft, [entry.shape]),
            "strides": 0 if entry.order is None else native(draft, [entry.strides]),
            "pooled": int(size >= pool.THRESHOLD),
        }
        rows.append(output(draft, entry, leaf.generic, **row))
    return rows


def _exact_overlaps(draft: Draft, arrays: Mapping[str, Any]) -> list[list[int]]:
    """What arrays of `out=` must not share memory with: arguments, and one another."""
    names = [name for name, array in arrays.items() if array.size]
    targets = [name for name in names if name in _targets(draft)]
    rows = []
    for k, written in enumerate(targets):
        target = arrays[written]
        low_w, high_w = _reach(target)
        for name in names:
            if name in targets[: k + 1]:
                continue
            array = arrays[name]
            same = array.strides == target.strides and array.shape == target.shape
            same = same and array.dtype.itemsize == target.dtype.itemsize
            low_r, high_r = _reach(array)
            rows.append(
                fields.words(
                    "OVERLAP", written=draft.record_of[written], read=draft.record_of[name],
                    same=int(same and reads_in_place(draft.call.specialisation.spec, name)),
                    low_w=low_w, low_r=low_r, factor_w=high_w, factor_r=high_r,
                )
            )  # fmt: skip
    return rows


def _targets(draft: Draft) -> set[str]:
    """Names of results that are written into arrays of `out=`."""
    if draft.call.out is None:
        return set()
    count = len(draft.call.out) if type(draft.call.out) is tuple else 1
    return {f"o{k}" for k in range(count)}


def _reach(array: Any) -> tuple[int, int]:
    """How many bytes an array reaches before and after its first element's address."""
    spans = [(n - 1) * s for n, s in zip(array.shape, array.strides, strict=True)]
    low = -sum(span for span in spans if span < 0)
    return low, sum(span for span in spans if span > 0) + array.dtype.itemsize
