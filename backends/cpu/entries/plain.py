"""Calls that end in the plain function, or in an error, each time: they go there at once.

Such a call takes a long look by Python, which tells what it always tells. Other values of such
arguments may have kernels, so these tables are the last to be asked. The plain function is right
for any call, whatever changes meanwhile; what could be fused again is found because a table serves
a number of calls only, and the next one is looked at by Python.
"""

from __future__ import annotations

from collections.abc import MutableSequence
from typing import Any, cast

import numpy as np

from fuser.backend import PlainCall
from fuser.backends.cpu.entries import match
from fuser.backends.cpu.entries.containers import places_of
from fuser.backends.cpu.entries.names import NotServed
from fuser.backends.cpu.machine import layout
from fuser.base import counters

TEXT = """\
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
  br i1 %over, label %none, label %pass
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

#: Kinds of calls that one function serves so.
LIMIT = 16


class PlainTable:
    """One kind of calls that are the plain function's."""

    def __init__(self, call: PlainCall) -> None:
        """Recognise such calls: arrays by dtype and layout, or rank, other arguments by type.

        Raises:
            NotServed: there are too many arguments.
        """
        places = places_of(call)
        self._keep: list[Any] = [call.function, call.names, places]
        records = []
        for slot, value in zip(places.slots, call.leaves, strict=True):
            record = {"slot": slot, "type": id(type(value)), "kind": layout.NUMBER}
            self._keep.append(type(value))
            if isinstance(value, np.ndarray):
                axes = layout.array([[*value.shape, *value.strides]])
                self._keep += [axes, value.dtype]
                flags = layout.IS_WRITEABLE if value.flags.writeable else 0
                any_lengths = call.whole and value.flags.c_contiguous
                flags |= layout.IS_CONTIGUOUS if any_lengths else 0
                record |= {
                    "kind": layout.ANY_ARRAY if any_lengths else layout.EXACT_ARRAY,
                    "expected": id(value.dtype), "rank": value.ndim,
                    "axes": layout.address(axes), "flags": flags,
                }  # fmt: skip
            records.append(layout.words("RECORD", **record))
        if len(records) > layout.MOST_BASES:
            raise NotServed
        lists = [records, places.rows, [[id(name) for name in call.names]]]
        rows, containers, names = map(layout.array, lists)
        self.words = layout.array(
            [
                layout.words(
                    "TABLE", nargs=places.given - len(call.names), names=len(call.names),
                    name_list=layout.address(names), records=len(records),
                    record_list=layout.address(rows), unpacks=len(places.rows),
                    unpack_list=layout.address(containers), given=places.given,
                    callee=id(call.function),
                )
            ]
        )  # fmt: skip
        self._keep += [rows, containers, names]
        counted = cast("MutableSequence[int]", self.words)
        calls = layout.place("TABLE", "calls")
        self._tally = counters.Tally(counted, calls, call.counts, call.told)

    def serve(self, number: int) -> None:
        """Serve so many calls from now on."""
        self.words[layout.place("TABLE", "left")] = number

