"""What loops go over: integers, arrays row by row, and `enumerate`, `zip` and `reversed` of these.

A loop over `enumerate(x)` is one over positions, of which each tells what the loop's variables are:
`k` and `x[k]`.
"""

from __future__ import annotations

import operator
from collections.abc import Iterator
from typing import Any

from fuser.base.records import record
from fuser.capture.before import isinstance_of
from fuser.capture.loop_values import Span, hint_of, text_of
from fuser.tracing.traced_array import TracedArray
from fuser.tracing.traced_scalars import HostScalar


@record
class Walk:
    """The iterable of a loop, before it is known whether its items are a function of positions.

    Attributes:
        function: `range`, `enumerate`, `zip` or `reversed` as the function names it; None for the
            argument itself.
        args: its arguments; walks among them.
    """

    function: Any
    args: tuple[Any, ...]

    def __iter__(self) -> Iterator[Any]:
        """What Python goes over."""
        return iter(_plain(self))

    def span(self, tracing: Any) -> Span | None:
        """The positions, or the integers of a range; None where they do not tell what is there."""
        if self._goes_over_integers:
            return _integers(self)
        length = _length(tracing, self)
        return None if length is None else Span(0, length, 1)

    def item(self, place: Any) -> Any:
        """What is at a position; of a range, the integer itself."""
        return place if self._goes_over_integers else _item(self, place)

    @property
    def _goes_over_integers(self) -> bool:
        """Whether it is a range, or one from its end."""
        return self.function is range or (
            self.function is reversed and len(self.args) == 1 and type(self.args[0]) is Walk
            and self.args[0].function is range
        )  # fmt: skip

    def arrays(self) -> Iterator[TracedArray]:
        """Yield the arrays that it goes over."""
        for arg in self.args:
            if type(arg) is Walk:
                yield from arg.arrays()
            elif isinstance_of(arg, TracedArray):
                yield arg


def is_integer(value: Any) -> bool:
    """Whether a value is an integer that is known, or that a call tells."""
    return type(value) is int or (type(value) is HostScalar and value.kind is int)


def _plain(over: Any) -> Any:
    """What Python has in the place of a walk."""
    if type(over) is not Walk:
        return over
    args = map(_plain, over.args)
    return next(args) if over.function is None else over.function(*args)


def _integers(over: Walk) -> Span | None:
    """The integers of a range, or of one from its end; None where its step is zero."""
    if over.function is reversed:
        span = _integers(over.args[0])
        if span is None:
            return None
        last = span.at(f"({span.count()[0]}) - 1", span.count()[1] - 1)
        return Span(last, span.at("-1", -1), -span.step)
    args = over.args
    if not 1 <= len(args) <= 3 or not all(map(is_integer, args)):
        return None
    start, stop, step = (0, *args, 1) if len(args) == 1 else (*args, 1)[:3]
    known = operator.index(step)  # which is a value that the trace is made for
    return Span(start, stop, known) if known else None


def _length(tracing: Any, over: Any) -> Any:
    """How many positions there are; None where that is not known."""
    if isinstance_of(over, TracedArray):
        whole = not (over.generic or over.views)  # a view may look at what iterations write
        return over.shape[0] if whole and over.ndim else None
    if type(over) is not Walk:
        return None
    if over._goes_over_integers:
        span = _integers(over)
        if span is None:
            return None
        text, count = span.count()
        if span.constant:
            return count
        tracing.guard_value(f"({text}) >= 0", True)
        return HostScalar(tracing, text, count)
    args = over.args
    if over.function is reversed:
        return _length(tracing, args[0]) if type(args[0]) is not Walk and len(args) == 1 else None
    if over.function is None:
        return _length(tracing, args[0])
    if over.function is enumerate:
        known = len(args) == 1 or (len(args) == 2 and is_integer(args[1]))
        return _length(tracing, args[0]) if known else None
    if over.function is not zip:
        return None
    lengths = [_length(tracing, arg) for arg in args]
    if any(length is None for length in lengths):
        return None
    least = min(lengths, key=hint_of)
    for length in lengths:
        if text_of(length) != text_of(least):
            tracing.guard_value(f"({text_of(least)}) <= ({text_of(length)})", True)
    return least


def _item(over: Any, place: Any) -> Any:
    """The item of an iterable at a symbolic position."""
    if isinstance_of(over, TracedArray):
        return over[place]
    args = over.args
    if over._goes_over_integers:
        span = _integers(over)
        assert span is not None
        return span.start + place * span.step
    if over.function is None:
        return _item(args[0], place)
    if over.function is reversed:
        return args[0][args[0].shape[0] - 1 - place]
    if over.function is zip:
        return tuple(_item(arg, place) for arg in args)
    first = args[1] if len(args) == 2 else 0
    return first + place, _item(args[0], place)
