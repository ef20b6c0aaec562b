"""The one argument of a kernel: a structure by value, in memory that is written again and again."""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Callable

#: What the driver copies a launch's arguments from: an array of addresses, here of one.
_Addresses = ctypes.c_void_p * 1


class Arguments:
    """A block of 8-byte words. A launch copies it, so it can be written again after that.

    Attributes:
        memory: the block, for `struct.pack_into`.
        address: where it begins.
        list_address: where the address of the block stands, as `cuLaunchKernel` wants it.
    """

    __slots__ = ("_list", "address", "list_address", "memory")

    def __init__(self, block: bytes) -> None:
        """Take a copy of a block."""
        self.memory = (ctypes.c_char * len(block)).from_buffer_copy(block)
        self.address = ctypes.addressof(self.memory)
        self._list = _Addresses(self.address)
        self.list_address = ctypes.addressof(self._list)


#: (grid, block, bytes of shared memory, stream, arguments) -> None: enqueues a kernel.
Function = Callable[[int, int, int, int, Arguments], None]


class Prepared:
    """One loop nest's launches with everything written down but addresses and scalars.

    The block is: the address of a flag where there is one; scratch memory, counters and the number
    of the launch where several may follow each other; addresses of operands, what `lay_out` packed,
    scalars.

    Attributes:
        function: the kernel.
        sizes: blocks, threads of a block, bytes of shared memory.
        template: the block without addresses and scalars.
        heads: how many words come first, those before the operands' addresses and these.
        scalars_at: where the scalars begin, in bytes.
        phase_at: where the launch's number is.
        phases: numbers of the launches after the first.
    """

    __slots__ = ("_free", "_pack", "function", "heads", "phase_at", "phases", "scalars_at", "sizes",
                 "template")  # fmt: skip

    def __init__(
        self, function: Function, sizes: tuple[int, int, int], heads: int, operands: int,
        rest: bytes, scalars: int, phases: int = 1,
    ) -> None:  # fmt: skip
        """Lay the block out.

        Args:
            function: the kernel on the current device.
            sizes: blocks, threads of a block, bytes of shared memory.
            heads: words before the operands' addresses; the last of them is the launch's number.
            operands: how many addresses of operands there are.
            rest: words after them.
            scalars: words of scalars at the end.
            phases: launches, one after another.
        """
        self.function, self.sizes, self.heads = function, sizes, heads + operands
        self._pack = struct.Struct(f"={self.heads}q").pack_into
        self.template = bytes(8 * self.heads) + rest + bytes(8 * scalars)
        self.scalars_at = len(self.template) - 8 * scalars
        self.phase_at, self.phases = 8 * (heads - 1), range(1, phases)
        self._free: list[Arguments] = []

    @property
    def handle(self) -> int:
        """What the driver calls the kernel."""
        handle: int = self.function.handle  # type: ignore[attr-defined]
        return handle

    def enqueue(self, stream: int, words: list[int], scalars: bytes) -> None:
        """Write the block and launch; threads that do so at once have blocks of their own.

        Args:
            stream: CuPy's current one.
            words: what is before the operands' addresses, and these.
            scalars: packed.
        """
        try:
            arguments = self._free.pop()
        except IndexError:
            arguments = Arguments(self.template)
        memory = arguments.memory
        self._pack(memory, 0, *words)
        if scalars:
            ctypes.memmove(arguments.address + self.scalars_at, scalars, len(scalars))
        self.function(*self.sizes, stream, arguments)
        for phase in self.phases:
            WORD.pack_into(memory, self.phase_at, phase)
            self.function(*self.sizes, stream, arguments)
        self._free.append(arguments)


#: One word of a block.
WORD = struct.Struct("=Q")
