"""Tables of calls that a Python function serves, once the dispatcher has compared the arguments.

Such a function runs a program's stages and what stands between them. It may give `MISSED`: then the
dispatcher goes on as if the table did not fit. What it raises goes to the caller.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from fuser.backend import MISSED, PythonCall
from fuser.backends.cpu.entries.containers import places_of
from fuser.backends.cpu.entries.names import NotServed, describe_names
from fuser.backends.cpu.machine import layout
from fuser.backends.cpu.machine.arrays import reach
from fuser.base.protocols import is_a

TEXT = """\
define internal ptr @ask(ptr %context, ptr %api, ptr %table, ptr %values, ptr %bases,
                         ptr %symbols) {
entry:
  %callee = get ptr %table TABLE.callee
  %pairs = get i64 %table TABLE.overlaps
  %no.pairs = icmp eq i64 %pairs, 0
  br i1 %no.pairs, label %call, label %overlaps
overlaps:
  %apart = call i1 @apart(ptr %table, ptr %bases, ptr %symbols)
  br i1 %apart, label %call, label %slow
call:
  %found = call ptr @called(ptr %api, ptr %table, ptr %values, ptr %callee)
  %missed = get ptr %api API.missed
  %is.missed = icmp eq ptr %found, %missed
  br i1 %is.missed, label %drop, label %give
drop:
  %decref = get ptr %api API.decref
  call void %decref(ptr %found)
  br label %slow
give:
  %calls = get i64 %table TABLE.calls
  %calls1 = add i64 %calls, 1
  put i64 %calls1 %table TABLE.calls
  %hits = get i64 %context CONTEXT.hits
  %hits1 = add i64 %hits, 1
  put i64 %hits1 %context CONTEXT.hits
  ret ptr %found
slow:
  ret ptr inttoptr (i64 1 to ptr)
}
"""


def python_table(call: PythonCall) -> tuple[Any, list[Any]]:
    """A table for calls with arguments like these, and what it points at.

    Raises:
        NotServed: the dispatcher cannot compare them.
    """
    places = places_of(call)
    keep: list[Any] = [call.names, places]
    function = call.function
    guards, asked = describe_names(call.guards, keep)
    if asked:  # they are compared in Python
        function, guards = _guarded(call), []
    keep.append(function)

    def native(rows: Sequence[Sequence[int]]) -> int:
        listed = layout.array(rows)
        keep.append(listed)
        return layout.address(listed)

    record_of = dict(call.places)
    records = [
        {"slot": slot, **_record(leaf, keep)}
        for leaf, slot in zip(call.leaves, places.slots, strict=True)
    ]
    arrays = {name: call.leaves[place] for name, place in record_of.items()} | dict(call.captured)
    for name, array in call.captured.items():
        record_of[name] = len(records)
        found = _record(array, keep)
        records.append({"slot": layout.CAPTURED, "object": id(array), **found})
    for name, array in arrays.items():
        if type(array) is np.ndarray:
            axes = native([array.shape, array.strides])
            records[record_of[name]] |= {"kind": layout.EXACT_ARRAY, "axes": axes}
    for name in call.written:
        records[record_of[name]]["flags"] = layout.IS_WRITEABLE
    keep.append(call.captured)
    if len(call.leaves) > layout.MOST_LEAVES or len(records) > layout.MOST_BASES:
        raise NotServed
    rows: dict[str, Sequence[Sequence[int]]] = {
        "record": [layout.words("RECORD", **record) for record in records],
        "guard": guards,
        "overlap": _overlaps(call, record_of, arrays),
        "unpack": places.rows,
    }
    values = {f"{name}s": len(part) for name, part in rows.items()}
    values |= {f"{name}_list": native(part) for name, part in rows.items()}
    words = layout.words(
        "TABLE", nargs=places.given - len(call.names), names=len(call.names),
        name_list=native([[id(name) for name in call.names]]), given=places.given,
        held=places.held, callee=id(function), numbers=len(call.leaves),
        number_list=native([places.slots]), **values,
    )  # fmt: skip
    return layout.array([words]), keep


def _guarded(call: PythonCall) -> Callable[..., Any]:
    """What serves a call as long as names are as they were."""
    function, holds = call.function, call.holds

    def guarded(*args: Any) -> Any:
        return function(*args) if holds() else MISSED

    return guarded


def _record(leaf: Any, keep: list[Any]) -> dict[str, int]:
    """How an argument is compared: an array by dtype and rank, a number by its type.

    Args:
        leaf: the argument.
        keep: what is compared with, to be kept.

    Raises:
        NotServed: it cannot be compared.
    """
    kind = type(leaf)
    keep.append(kind)
    found = {"type": id(kind)}
    if kind is np.ndarray:
        if leaf.ndim > layout.MOST_RANK:
            raise NotServed
        keep.append(leaf.dtype)
        return found | {"kind": layout.ANY_ARRAY, "expected": id(leaf.dtype), "rank": leaf.ndim}
    if kind is float or kind is int or kind is bool:
        return found | {"kind": layout.NUMBER}
    if is_a(leaf, (np.ndarray, np.generic)):
        if leaf.dtype.kind not in "biufc":
            raise NotServed
        return found | {"kind": layout.GENERIC}
    keep.append(leaf)  # another one may get its id
    return found | {"kind": layout.OBJECT, "expected": id(leaf)}


def _overlaps(
    call: PythonCall, record_of: Mapping[str, int], arrays: Mapping[str, Any]
) -> list[list[int]]:
    """Arrays that must not share memory, as rows."""
    rows = []
    for first, then in call.apart:
        one, other = arrays[first], arrays[then]
        if not one.size or not other.size:
            continue
        (low_w, high_w), (low_r, high_r) = reach(one), reach(other)
        rows.append(
            layout.words(
                "OVERLAP", written=record_of[first], read=record_of[then], low_w=low_w,
                low_r=low_r, factor_w=high_w, factor_r=high_r,
            )
        )  # fmt: skip
    return rows
