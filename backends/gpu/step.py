"""One loop nest of a bound call, prepared for a device."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from fuser.ir.specs import is_counted

#: Addresses of memory that a call takes for itself are multiples of this.
ALIGNED = 256


class Step:
    """One loop nest: its operands, its scalars, and how it is launched.

    Attributes:
        operands: names, None for what has no memory, and byte offsets.
        prepared: its launches, with everything written down but addresses and scalars.
        enqueue: launches with addresses and scalars; what comes before operands among these is
            the flag's where there is one, then memory's, counters' and 0 where it reduces.
        scalars: (host expression, dtype) pairs.
        scratch: where its memory lies in that of the call; None where it takes no such words.
        flag: gives a flag and what reads it, or None.
        flagged: whether it may note a value for which NumPy raises.
    """

    __slots__ = ("enqueue", "flag", "flagged", "operands", "prepared", "scalars", "scratch")

    def __init__(self, kernel: Any, number: int, section: Any, taken: int) -> None:
        """Prepare the launch.

        Args:
            kernel: of the loop nest.
            number: of the loop nest in it.
            section: bound.
            taken: bytes that others have of the memory of the call.
        """
        self.scalars = section.scalars
        # Positions have no memory: they start at address 0.
        self.operands = [
            (None if is_counted(name) else name, offset) for name, offset in section.operands
        ]
        self.flagged: bool = kernel.flags(number)
        self.flag: Callable[[], Any] = lambda: kernel.flag(number)
        self.scratch: int | None = taken if kernel.reduces(number) else None
        self.prepared = kernel.prepare(
            number, len(section.operands), section.rest, len(section.scalars), section.extent
        )
        self.enqueue = self.prepared.enqueue


class Steps:
    """What a call does, one after another.

    Attributes:
        steps: its loop nests.
        made: (name, how) of the arrays that a call makes.
        rooms: by name, where arrays that live during a call lie in its memory.
        scratch_bytes: that memory.
        counters: how many zeros kernels count in.
    """

    steps: list[Step]
    made: list[tuple[str, partial[Any]]]
    rooms: dict[str, int]
    scratch_bytes: int
    counters: int


def whole(size_bytes: int) -> int:
    """The bytes that so many take among others."""
    return -(-size_bytes // ALIGNED) * ALIGNED
