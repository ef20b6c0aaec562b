"""One loop nest of a bound call, prepared for a device."""

from __future__ import annotations

from typing import Any

from fuser.ir.specs import is_counted


class Step:
    """One loop nest: its operands, its scalars, and how it is launched.

    Attributes:
        operands: names, None for what has no memory, and byte offsets.
        prepared: a launch that wants addresses and scalars alone, where there is one.
        scalars: (host expression, dtype) pairs.
    """

    __slots__ = ("_kernel", "extent", "number", "operands", "prepared", "rest", "scalars")

    def __init__(self, kernel: Any, number: int, section: Any) -> None:
        self._kernel, self.number = kernel, number
        self.rest, self.extent, self.scalars = section.rest, section.extent, section.scalars
        # Positions have no memory: they start at address 0.
        self.operands = [
            (None if is_counted(name) else name, offset) for name, offset in section.operands
        ]
        self.prepared = kernel.prepare(
            number, len(section.operands), section.rest, len(section.scalars), section.extent
        )

    def launch(self, backend: Any, pointers: list[int], scalars: bytes) -> int:
        """Enqueue what has several phases or may raise; not 0 when NumPy raises for a value."""
        block = backend.pack(pointers, self.rest + scalars)
        return int(self._kernel.launch(self.number, block, self.extent))
