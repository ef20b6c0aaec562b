"""What loops are looked at by: numbers, values that never change, arrays that iterations carry."""

from __future__ import annotations

import builtins
from typing import Any

import numpy as np

from fuser.base.records import record
from fuser.capture.before import isinstance_of
from fuser.ir import dims
from fuser.ir.graph import Node
from fuser.tracing.late_numbers import LateNumber
from fuser.tracing.trace_state import Storage
from fuser.tracing.traced_array import TracedArray
from fuser.tracing.traced_memory import TracedMemory
from fuser.tracing.traced_scalars import HostScalar

#: What a name stands for that nothing is assigned to yet.
UNBOUND = object()


@record(frozen=False, slots=False, eq=False)
class Slot:
    """A carried array: what a name, or memory that the body writes into, holds in an iteration.

    Attributes:
        names: the names that stand for it.
        storage: the memory of its placeholder.
        placeholder: the node.
        initial: what the first iteration finds.
        generic: it is a NumPy scalar.
        memory: it is a whole array's memory, which other names may see, too.
    """

    names: list[str]
    storage: Storage
    placeholder: Node
    initial: Node
    generic: bool
    memory: bool


@record(frozen=False)
class Span:
    """The range that a loop goes over: integers, some of which only a call tells.

    Attributes:
        start, stop: bounds, integers or stand-ins of them.
        step: an integer.
    """

    start: Any
    stop: Any
    step: int

    @property
    def constant(self) -> bool:
        """Whether the code states the bounds."""
        return type(self.start) is int and type(self.stop) is int

    @property
    def here(self) -> range:
        """The range that the loop has in the call that is traced."""
        return range(hint_of(self.start), hint_of(self.stop), self.step)

    def count(self) -> tuple[str, int]:
        """The number of iterations, as text and in this call."""
        start, stop, step = text_of(self.start), text_of(self.stop), self.step
        size = abs(step)
        gap = f"({stop}) - ({start})" if step > 0 else f"({start}) - ({stop})"
        text = gap if size == 1 else f"({gap} + {size - 1}) // {size}"
        return text, len(self.here)

    def at(self, text: str, place: int) -> Any:
        """The index at a position, which may lie outside: an expression, and what it is here."""
        here = hint_of(self.start) + place * self.step
        if self.constant or (type(self.start) is int and text == str(place)):
            return here
        tracing = (self.stop if type(self.start) is int else self.start)._tracing
        return HostScalar(tracing, f"({text_of(self.start)}) + ({text}) * ({self.step})", here)

    def later(self) -> Span:
        """The range without its first index."""
        return Span(self.at("1", 1), self.stop, self.step)


def is_written(slot: Slot) -> bool:
    """Whether the body writes into a carried array."""
    return slot.storage.node is not slot.placeholder


def is_plain(value: Any) -> bool:
    """Whether Python alone knows whether something is true."""
    return type(value) is not HostScalar and not isinstance_of(value, TracedArray)


def text_of(value: Any) -> str:
    """A number as a host expression."""
    return value.text if type(value) is HostScalar else repr(value)


def hint_of(value: Any) -> Any:
    """A number in this call."""
    return value.hint if type(value) is HostScalar else value


def is_value(value: Any) -> bool:
    """Whether a value is an array of the trace, a number, or something that never changes."""
    if isinstance_of(value, TracedArray) or type(value) in (HostScalar, LateNumber):
        return True
    if type(value) is tuple:
        return all(type(part) is not tuple and is_value(part) for part in value) and not any(
            isinstance_of(part, TracedMemory) for part in value
        )
    if isinstance_of(value, type):  # others may do anything when they are called
        return issubclass(value, np.generic) or getattr(builtins, value.__name__, None) is value
    kinds = (bool, int, float, complex, str, bytes, np.generic, np.dtype, slice)
    return value is None or value is Ellipsis or isinstance_of(value, kinds)


def is_number(value: Any) -> bool:
    """Whether a value is a Python number whose arithmetic a trace follows."""
    return type(value) in (int, float) or (type(value) is HostScalar and value.kind is not bool)


def integers_in(tracing: Any) -> dict[str, tuple[str, int]]:
    """Lengths that numbers are: by symbol, the number's name, and -1 where it is less than 0."""
    found: dict[str, tuple[str, int]] = {}
    for name, dim in tracing.told.items():
        (symbol,) = dims.symbols(dim)
        if name in {number.text for number, _ in tracing.scalars}:
            found[symbol] = name, 1 if dims.symbol(symbol) == dim else -1
    return found
