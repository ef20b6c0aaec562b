"""Tables of calls that a Python function serves, once the dispatcher has compared the arguments.

Such a function runs a program's stages and what stands between them. It may give `MISSED`: then the
dispatcher goes on as if the table did not fit. What it raises goes to the caller.

Or it is the plain function: of calls that end there, or in an error, each time, after a long look
by Python, which tells what it always tells. Other values of such arguments may have kernels, so
these tables are the last to be asked. The plain function is right for any call, whatever changes
meanwhile; what could be fused again is found because a table serves a number of calls only, and
the next one is looked at by Python.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from fuser.backend import MISSED, PlainCall, PythonCall
from fuser.backends.cpu.entries import device_launch, match
from fuser.backends.cpu.entries.composed import exact_pair
from fuser.backends.cpu.entries.containers import native, places_of, table_of
from fuser.backends.cpu.entries.names import NotServed, describe_names
from fuser.backends.cpu.machine import layout
from fuser.base.call_keys import is_cupy
from fuser.base.protocols import is_a

TEXT = """\
define internal void @hit(ptr %context) alwaysinline {
entry:
  %hits = get i64 %context CONTEXT.hits
  %hits1 = add i64 %hits, 1
  put i64 %hits1 %context CONTEXT.hits
  ret void
}

define internal void @counted(ptr %context, ptr %table) alwaysinline {
entry:
  %calls = get i64 %table TABLE.calls
  %calls1 = add i64 %calls, 1
  put i64 %calls1 %table TABLE.calls
  call void @hit(ptr %context)
  ret void
}

define internal ptr @ask(ptr %context, ptr %api, ptr %table, ptr %values) {
entry:
  %callee = get ptr %table TABLE.callee
  %found = call ptr @called(ptr %api, ptr %table, ptr %values, ptr %callee)
  %missed = get ptr %api API.missed
  %is.missed = icmp eq ptr %found, %missed
  br i1 %is.missed, label %drop, label %give
drop:
  %decref = get ptr %api API.decref
  call void %decref(ptr %found)
  br label %slow
give:
  call void @counted(ptr %context, ptr %table)
  ret ptr %found
slow:
  ret ptr inttoptr (i64 1 to ptr)
}

define internal ptr @plain(ptr %context, ptr %api, ptr %args, i64 %n, ptr %kwnames, i64 %given,
                           ptr %bases, ptr %symbols) noinline {
entry:
  %flat = alloca [LAYOUT.MOST_ARGUMENTS x ptr], align 16
  %tables = get ptr %context CONTEXT.plains
  %count = get i64 %context CONTEXT.plain_count
  br label %loop
loop:
  %k = phi i64 [ 0, %entry ], [ %k1, %next ]
  %some = icmp ult i64 %k, %count
  br i1 %some, label %try, label %none
""" + match.COMPARE + """\
  br i1 %matched, label %found, label %next
next:
  %k1 = add i64 %k, 1
  br label %loop
found:
  %left = get i64 %table TABLE.left
  %over = icmp eq i64 %left, 0
  br i1 %over, label %next, label %pass
pass:
  %less = sub i64 %left, 1
  put i64 %less %table TABLE.left
  %calls = get i64 %table TABLE.calls
  %more = add i64 %calls, 1
  put i64 %more %table TABLE.calls
  %function = get ptr %table TABLE.callee
  ret ptr %function
none:
  ret ptr null
}
"""

#: Kinds of calls of one function that are the plain function's.
PLAIN_LIMIT = 16


def python_table(call: PythonCall) -> tuple[Any, list[Any]]:
    """A table for calls with arguments like these, and what it points at.

    Raises:
        NotServed: the dispatcher cannot compare them.
    """
    places, keep = places_of(call), list[Any]()
    function = call.function
    fields = call.device_fields
    guards, asked = describe_names(call.guards, keep)
    if asked:  # they are compared in Python
        function, guards = _guarded(call), []
    record_of = dict(call.places)
    records = [
        {"slot": slot, **_record(leaf, keep, fields)}
        for leaf, slot in zip(call.leaves, places.slots, strict=True)
    ]
    arrays = {name: call.leaves[place] for name, place in record_of.items()} | dict(call.captured)
    if call.out is not None:
        name = call.apart[0][0]
        record_of[name], arrays[name] = len(records), call.out
        records.append({"slot": places.targets[0], **_record(call.out, keep, fields)})
    for name, array in call.captured.items():
        record_of[name] = len(records)
        found = _record(array, keep, fields)
        records.append({"slot": layout.CAPTURED, "object": id(array), **found})
    for name, array in arrays.items():
        if type(array) is np.ndarray:
            records[record_of[name]] |= _exactly(array, keep)
    for name in call.written:
        records[record_of[name]]["flags"] = layout.IS_WRITEABLE
    if len(call.leaves) > layout.MOST_LEAVES or len(records) > layout.MOST_BASES:
        raise NotServed
    rows = {
        "records": [layout.words("RECORD", **record) for record in records],
        "guards": guards,
        "overlaps": [
            row
            for one, other in call.apart
            for row in exact_pair(
                (record_of[one], record_of[other]), arrays[one], arrays[other],
                in_place=call.out is not None and _alike(arrays[one], arrays[other]),
            )
        ],
        "numbers": [[slot] for slot in (*places.slots, *places.targets)],
    }
    values = {"callee": id(function)}
    if call.natively is not None and not asked:
        more, words = device_launch.describe(call, call.natively, record_of, len(records),
                                             places.slots, keep)  # fmt: skip
        rows, values = rows | more, values | words
    keep += [function, call.captured]
    return table_of(call, places, keep, rows, **values), keep


def plain_table(call: PlainCall) -> tuple[Any, list[Any]]:
    """The same of calls that are the plain function's: other arguments are compared by type.

    Raises:
        NotServed: there are too many arguments.
    """
    places, keep = places_of(call), list[Any]()
    records = []
    for slot, value in zip(places.slots, call.leaves, strict=True):
        record = {"slot": slot, "type": id(type(value)), "kind": layout.NUMBER}
        keep.append(type(value))
        if isinstance(value, np.ndarray):
            flags = layout.IS_WRITEABLE if value.flags.writeable else 0
            keep.append(value.dtype)
            record |= {"expected": id(value.dtype), "rank": value.ndim}
            if call.whole and value.flags.c_contiguous:
                record |= {"kind": layout.ANY_ARRAY, "flags": flags | layout.IS_CONTIGUOUS}
            else:
                record |= {"flags": flags, **_exactly(value, keep)}
        records.append(layout.words("RECORD", **record))
    if len(records) > layout.MOST_BASES:
        raise NotServed
    keep.append(call.function)
    return table_of(call, places, keep, {"records": records}, callee=id(call.function)), keep


def _exactly(array: Any, keep: list[Any]) -> dict[str, int]:
    """How an array is compared that must have these lengths and strides."""
    return {"kind": layout.EXACT_ARRAY, "axes": native(keep, [array.shape, array.strides])}


def _alike(one: Any, other: Any) -> bool:
    """Whether two arrays of a device begin at one address."""
    return bool(one.data.ptr == other.data.ptr)


def _guarded(call: PythonCall) -> Callable[..., Any]:
    """What serves a call as long as names are as they were."""
    function, holds = call.function, call.holds

    def guarded(*args: Any) -> Any:
        return function(*args) if holds() else MISSED

    return guarded


def _record(leaf: Any, keep: list[Any], fields: Any) -> dict[str, int]:
    """How an argument is compared: an array by dtype and rank, a number by its type.

    Args:
        leaf: the argument.
        keep: what is compared with, to be kept.
        fields: see `PythonCall`.

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
    if is_cupy(kind):
        if fields is None:
            raise NotServed
        keep.append(leaf.dtype)
        where = [leaf.data.device_id, leaf.itemsize - 1]
        axes = native(keep, [leaf.shape, leaf.strides, where])
        return found | {"kind": layout.DEVICE_ARRAY, "expected": id(leaf.dtype),
                        "rank": leaf.ndim, "axes": axes}
    if kind is float or kind is int or kind is bool:
        return found | {"kind": layout.NUMBER}
    if is_a(leaf, (np.ndarray, np.generic)):
        if leaf.dtype.kind not in "biufc":
            raise NotServed
        return found | {"kind": layout.GENERIC}
    keep.append(leaf)  # another one may get its id
    return found | {"kind": layout.OBJECT, "expected": id(leaf)}
