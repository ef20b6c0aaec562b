"""A compiled CPU kernel: machine code of one group, and how to launch it."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any

from fuser.backend import Kernel
from fuser.backends.cpu import loader

_PROTOTYPE = ctypes.CFUNCTYPE(
    ctypes.c_int32,
    ctypes.c_char_p,
    ctypes.c_int64,
    ctypes.c_int64,
    ctypes.c_int64,
    ctypes.c_int64,
)


class FusedKernelCPU(Kernel):
    """Machine code for the loop nests of one group."""

    def __init__(self, name: str, text: str, code: bytes, sections: int, imports: Sequence[str]):
        """Load an object file.

        Args:
            name: the stem of the functions' names.
            text: the LLVM IR that it was made from.
            code: the object file.
            sections: how many loop nests it has.
            imports: C library symbols that it calls.
        """
        self.name = name
        self._text = text
        self.code = code
        exports = [f"{name}.{k}" for k in range(sections)]
        self._library, self.addresses = loader.load(code, exports, imports)
        self._functions = [_PROTOTYPE(address) for address in self.addresses]

    def launch(self, section: int, block: Any, extent: tuple[int, int]) -> int:
        """Run one loop nest over its whole extent; the GIL is released meanwhile."""
        return int(self._functions[section](block, 0, extent[0], 0, extent[1]))

    def text(self, kind: str) -> str:
        """LLVM IR ("source", "optimized": this backend runs no optimiser) or "asm"."""
        if kind in ("source", "optimized"):
            return self._text
        if kind == "asm":
            return loader.assembly(self._text)
        raise ValueError(f"the CPU backend has no {kind!r} text; use source, optimized or asm")
