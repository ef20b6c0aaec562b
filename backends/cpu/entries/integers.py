"""Integer arguments that are indices or bounds: what the dispatcher computes of them, and asks."""

from __future__ import annotations

from typing import Any

import numpy as np

from fuser.backends.cpu.entries.draft import Draft
from fuser.backends.cpu.entries.names import NotServed
from fuser.backends.cpu.entries.tables import SCALAR_NAME
from fuser.backends.cpu.machine import layout
from fuser.base.host_expressions import evaluate_scalar
from fuser.capture import captures
from fuser.executor import outside
from fuser.ir import dims
from fuser.runtime.symbolic import Assumptions, NotSymbolic, Symbolic


def take_integers(
    draft: Draft, sizes: dict[str, Any], places: dict[str, int], assumptions: Assumptions,
    most: int,
) -> None:  # fmt: skip
    """Have integers that are indices or bounds be symbols of either sign.

    The lengths that they tell are not negative, and all views lie within what they look at:
    what has to be compared for that becomes guards.

    Args:
        draft: the table; its records of these integers are filled.
        sizes: lengths and integers of the call, which become expressions.
        places: where the dispatcher has symbols; theirs are added.
        assumptions: what is known of symbols.
        most: no integer is larger, or less than its negative.

    Raises:
        NotServed: one is too large, or no 64-bit integer.
    """
    call = draft.call
    graph = call.specialisation.trace.graph
    speaking = {name for _, right in graph.guards_of_integers for name in dims.symbols(right)}
    for name, place in (*call.specialisation.scalar_leaves, *call.specialisation.array_leaves):
        if name not in speaking or name not in graph.integers:
            continue
        leaf = call.leaves[place]
        if name in draft.fixed:
            sizes[name] = leaf
            continue
        wide = type(leaf) is np.int64
        if not (wide or type(leaf) is int) or not -most <= leaf <= most:
            raise NotServed
        assumptions.add(name, int(leaf), most)
        sizes[name] = assumptions.symbol(name)
        places[name] = len(places) + 1
        draft.records[draft.record_of[name]] |= {
            "kind": layout.INTEGER, "expected": places[name], "rank": most, "flags": int(wide),
        }  # fmt: skip
    for name, told in graph.scalar_lengths.items():
        sizes[name] = dims.evaluate(told, sizes)
        if sizes[name] < 0:
            raise NotServed
    if outside(graph, sizes):
        raise NotServed


def check_guards(draft: Draft, sizes: dict[str, Any]) -> None:
    """Guards that speak of lengths hold for symbolic ones, or are left to Python.

    Raises:
        NotServed: a length that no argument tells.
    """
    trace = draft.call.specialisation.trace
    for left, right in trace.graph.guards:
        if dims.evaluate(left, sizes) != dims.evaluate(right, sizes):
            raise NotServed
    for text, value in trace.value_guards:
        if SCALAR_NAME.search(text):
            continue
        try:
            now = evaluate_scalar(text, sizes)
        except NotSymbolic:
            draft.guards.append((text, value))
            continue
        if not captures.same_value(int(now) if isinstance(now, Symbolic) else now, value):
            raise NotServed
