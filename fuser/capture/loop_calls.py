"""The call of a loop region in the place of a loop, and what names stand for after it."""

from __future__ import annotations

import re
from typing import Any

import numpy as np

from fuser.capture.before import NotALoop
from fuser.capture.loop_body import Body
from fuser.capture.loop_carried import Carried
from fuser.capture.loop_lengths import Lengths
from fuser.capture.loop_passes import Pass
from fuser.capture.loop_values import Slot, hint_of, is_number, is_written, text_of
from fuser.ir.graph import Node, make_input
from fuser.tracing.late_numbers import LateNumber
from fuser.tracing.trace_state import LATER, Storage
from fuser.tracing.traced_array import TracedArray
from fuser.tracing.traced_scalars import HostScalar

_OF_NUMPY = (np.ndarray, np.generic)


def region(found: Pass) -> dict[str, Any]:
    """Have a region stand for the loop; what names stand for after it.

    Raises:
        NotALoop: its iterations are not the same function of what the one before leaves.
        Again: what it leaves is of another kind than what it finds.
    """
    if found.tracing.in_order != found.before._saved["in_order"]:
        raise NotALoop("a reshape in it is a view for arrays in C order alone")
    return _Call(found).replace()


class _Call:
    """What stands for one loop."""

    def __init__(self, found: Pass) -> None:
        """Make the graph of its body."""
        self._pass, self._tracing, self._source = found, found.tracing, found.source
        self._carried, self._lengths = Carried(found), Lengths(found)
        self._body = Body(found, self._carried, self._lengths)
        self._body.build(self._lengths.guards())
        self._results = 0

    def replace(self) -> dict[str, Any]:
        """Put the call of the region in; what names stand for after it."""
        tracing, span, before = self._tracing, self._pass.span, self._pass.before
        carried, body = self._carried, self._body
        count, here = span.count()
        if carried.early:
            here = carried.early_count()
        elif not span.constant:
            if here < carried.depth:
                raise NotALoop(f"{here} iterations leave arrays from before the loop")
            tracing.guard_value(f"({count}) >= {carried.depth}", True)
            if carried.period > 1:
                tracing.guard_value(f"({count}) % {carried.period}", here % carried.period)
        elif here < carried.depth:
            raise NotALoop("few iterations")
        written = {id(slot) for slot in self._pass.slots if is_written(slot)}
        lefts, memories = self._pass.left(), [slot.storage for slot in self._pass.slots]
        text = body.text()
        before.put_back_calls()
        before.put_back_memory()
        self._lengths.drop()
        number = tracing.extern_count
        tracing.extern_count += 1
        line = self._source.where

        def result(place: int, like: Node, generic: bool) -> Node:
            self._results += 1
            if generic and not all(isinstance(a.array, _OF_NUMPY) for a in tracing.arguments):
                raise NotALoop("a number is carried that is no scalar of NumPy's")
            mark = "scalar " if generic else ""
            shape = tuple(map(tracing.resolve, like.shape))
            spelled = f"{number}.{place} {mark}{text}"
            node: Node = tracing.result_of_call(
                spelled, body.operands, line, shape, like.dtype, LATER
            )
            return node

        bound: dict[str, Any] = {}
        self._counted = ""
        if body.leaving.counted:
            length = tracing.new_late_length(carried.depth)
            like = make_input("x0", np.dtype(bool), (length,))
            result(len(carried.targets), like, False)
            self._counted = count = str(length)
        left_at: dict[int, TracedArray] = {}
        for place, slot in enumerate(self._pass.slots):
            path = carried.cycle.get(id(slot))
            if path is None or (carried.early and len(path) > 1):
                node = result(place, slot.placeholder, slot.generic)
                made = TracedArray.make(tracing, Storage(node), (), slot.generic)
                kind = self._pass.late.get(slot.names[0], "") if slot.names else ""
                left_in = LateNumber(tracing, node, kind) if kind else made
                bound.update(dict.fromkeys(slot.names, left_in))
                left_at[place] = made
                continue
            last = path[here % len(path)]
            if any(id(each) in written for each in path):
                memory = memories[self._pass.slots.index(last)]
                tracing.note_write(memory.argument)
                memory.replace(result(place, slot.placeholder, False))
            for name in slot.names:
                bound[name] = self._pass.given[last.names[0] if last.names else name]
        for name in carried.later:
            place = carried.place[name]
            target = carried.targets[place]
            if isinstance(target, Slot):
                bound[name] = self._pass.given[target.names[0]]
                continue
            left = lefts[name]
            if place not in left_at:
                node = result(place, left.node, left.generic)
                left_at[place] = TracedArray.make(tracing, Storage(node), (), left.generic)
            bound[name] = left_at[place]
        for name in self._pass.numbers:
            if name in self._source.kept:
                bound[name] = self._last_number(name, count, here)
        if self._source.index_read:
            bound[self._source.index] = self._last_index(count, here)
        if carried.early and body.leaving.least and not self._results:
            raise NotALoop("nothing runs that could tell how often it does")
        return bound

    def _last_number(self, name: str, count: str, here: int) -> Any:
        """What a number is after the last iteration: an integer that each adds the same to."""
        first, left = self._pass.given[name], self._pass.env[name]
        number = self._pass.numbers[name]
        found = re.fullmatch(rf"{number.text} ([+-]) (\d+)", left.text) if not (
            is_number(left) and type(left) is not HostScalar) else None  # fmt: skip
        if found is None or number.kind is not int:
            raise NotALoop(f"{name} is read after the loop")
        step = int(found[2]) * (1 if found[1] == "+" else -1)
        if not self._counted and self._pass.span.constant:
            if type(first) is int:
                return first + here * step
        hint = hint_of(first) + here * step
        return HostScalar(self._tracing, f"({text_of(first)}) + ({count}) * ({step})", hint)

    def _last_index(self, count: str, here: int) -> Any:
        """The index of the last iteration."""
        span = self._pass.span
        hint = hint_of(span.start) + (here - 1) * span.step
        if span.constant and not self._counted:
            return hint
        text = f"({text_of(span.start)}) + (({count}) - 1) * ({span.step})"
        return HostScalar(self._tracing, text, hint)
