"""Decisions: what a traced function asks of values, and how it goes on with the answers.

`bool(x.sum() > 0)`, `float(x.max())`, `x.item()` want a number while the function is traced. The
number is computed for this call, from the graph so far and this call's arguments: writes so far
are in stand-ins, and nothing real is written. The trace goes on with it, in one of two ways.

- A number that is *used* (`float`, `int`, `item` in arithmetic, as an index, a bound, a length) is
  a run-time number of what follows, as a Python number among the arguments is: later calls read it
  anew, and nothing is compiled for its value. In the graph it is a call `fuser.read(a0, 's1')`,
  which tells the number `s1` between two stages of kernels.
- A number that *decides* (`if`, `while`, `assert`, `and`, `min`; `range` of it) makes the trace one
  path of several: a call `fuser.decided(host('s1 > 0'), True)` stands where it was asked, with
  the outcome that this path was traced for. What a truth value is asked for decides at once;
  a comparison of numbers that were read decides by its outcome, not by the numbers.

So a path is a program as others are, stages and calls in their order, and the function is a tree
of such paths: those that agree up to a decision share what stands before it, and part there.
A later call runs the stages before a decision, looks at the outcome and goes on along the path
that has it, with what is stored so far. Where no path has it, NumPy has written nothing yet:
the function is traced anew, told the numbers that this call's kernels have read up to there, so
that it goes the same way (`fuser.calls.program_fast_path`). No call that depends on more than its
operands is ever part of a trace, so what a trace computes twice shows nowhere.

What a path raises, it raises in NumPy: the trace of such a path ends there, and calls that take
it run the plain function once the decisions before it are known, with the exception and the
writes that Python leaves. So do paths that cannot be fused, while others stay fused.

Limits: `READS` numbers on one path; `VALUE_LIMIT` paths (`fuser.calls.trace_cache`) for one kind of
arguments. The value of a float itself decides nothing (text, a key of a dictionary): there would be
no end of paths. Bodies of loop regions decide nothing by values.
Where kernels round other than NumPy does, a decision about a value near its bound may differ.
"""

from __future__ import annotations

from typing import Any

from fuser.base.errors import FuserError, Unsupported, user_line
from fuser.capture.results import finish
from fuser.ir import opaque_calls
from fuser.ir.dims import Dim
from fuser.ir.graph import Node
from fuser.ir.infer import dtype_of
from fuser.ir.opaque_calls import COUNTED, DECIDED, READ
from fuser.tracing.trace_result import Trace
from fuser.tracing.trace_state import Tracing
from fuser.tracing.traced_scalars import HostScalar

#: Numbers that one path reads off values, at most: each is a stage of its own.
READS = 64


def read(tracing: Tracing, node: Node) -> HostScalar:
    """The number that a node without axes holds: in this call, and read anew in later ones.

    Raises:
        Unsupported: it is asked for in a loop's body, or has no Python number.
    """
    known = tracing.reads.get(id(node))
    if known is not None:
        return known[1]  # type: ignore[no-any-return]
    if any(leaf < 0 for _, leaf in tracing.scalars):
        raise Unsupported("control-flow", "a value", "a loop's iterations have different values")
    if node.dtype.kind not in "biuf":
        raise Unsupported("array-conversion", "a value", f"a number of dtype {node.dtype}")
    place, told = len(tracing.reads), tracing.replay.numbers
    if place >= READS:
        raise Unsupported("many-paths", "a value", f"{READS} values on one path")
    if place == len(told):
        told.append(tracing.evaluate(node).item())
    name = f"s{len(tracing.scalars) + place}"
    _call(tracing, f"{READ}(a0, {name!r})", (node,), node.dtype, told[place])
    number = HostScalar(tracing, name, told[place])
    tracing.reads[id(node)] = node, number
    return number


def shown(tracing: Tracing, array: Any, what: str) -> Any:
    """What an array is in this call, for a text: most often that of an error.

    A function that raises is run plainly; one that goes on has made use of values, and is refused.

    Raises:
        Unsupported: it is asked for in a loop's body.
    """
    if any(leaf < 0 for _, leaf in tracing.scalars):
        raise Unsupported("array-conversion", what, f"on {array.node.type}")
    if tracing.failed is None:
        tracing.failed = Unsupported("array-conversion", what, f"on {array.node.type}")
    found = tracing.evaluate(array.node)
    return found[()] if array.generic else found


def decide(tracing: Tracing, text: str, value: Any) -> None:
    """Note that the function goes on as it does because an expression has this value.

    Raises:
        Unsupported: it is a float, of which there are too many.
    """
    if text in tracing.decisions:
        return
    if type(value) not in (bool, int):
        kind = type(value).__name__
        raise Unsupported("array-conversion", "a value", f"the value of a {kind} decides")
    if not tracing.decisions:
        tracing.guards_before = len(tracing.value_guards)
    tracing.decisions[text] = value, user_line()
    _call(tracing, f"{DECIDED}(host({text!r}), {value!r})", (), dtype_of(bool), True)


def stopped(tracing: Tracing) -> Trace | None:
    """The path to where a function cannot go on as a graph; None where no decision led there."""
    asked = [node.payload.number for node, _ in tracing.externs.values()
             if node.payload.name == DECIDED]  # fmt: skip
    if not asked:
        return None
    for argument in tracing.arguments:  # nothing was written yet
        argument.storage.node = argument.initial
    tracing.externs = {
        key: (node, value)
        for key, (node, value) in tracing.externs.items()
        if node.payload.number <= asked[-1]
    }
    tracing.hazards = {}
    try:
        return finish(tracing, ())
    except FuserError:
        return None


def length_of_number(tracing: Tracing, text: str, value: int) -> Dim:
    """An integer that was read, as an expression over lengths: it may be an index or a bound.

    It is the length of an array that nobody reads; an integer less than 0 is minus a length.
    """
    found = tracing.told_late.get(text)
    if found is None:
        sign = -1 if value < 0 else 1
        tracing.guard_value(f"({text}) >= 0", value >= 0)
        length = tracing.new_late_length(sign * value)
        number = text if sign > 0 else f"-({text})"
        array = opaque_calls.counted(sign * value)
        call = f"{COUNTED}(host({number!r}))"
        _call(tracing, call, (), array.dtype, array, (length,))
        found = tracing.told_late[text] = length * sign
    return tracing.resolve(found)


def _call(
    tracing: Tracing, text: str, args: tuple[Node, ...], dtype: Any, value: Any,
    shape: tuple[Dim, ...] = (),
) -> None:  # fmt: skip
    """Add a step between stages, and what it gives in this call."""
    known = value if shape else dtype.type(value)
    tracing.called(text, args, user_line(), [("" if shape else "scalar ", shape, dtype, known)])
