"""Small pieces of native code that live as long as the process: compiled once, never unloaded."""

from __future__ import annotations

import ctypes
from typing import Any

from fuser.backends.cpu.backend import imports_of
from fuser.backends.cpu.machine import loader

_keep: list[Any] = []


def load_forever(
    text: str, exports: tuple[str, ...], quick: bool = False
) -> dict[str, int]:
    """Compile a module whose code outlives the interpreter's own shutdown.

    Other libraries may hold its addresses (NumPy frees arrays after our module is gone), so the
    objects that own the code get a reference that is never given back.

    Args:
        text: LLVM IR.
        exports: names to look up.
        quick: compile sooner, to slower code: for what runs a few times a call at most.

    Returns:
        Addresses by name.
    """
    library, addresses = loader.load(loader.to_object(text, quick), exports, imports_of(text))
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(library))
    _keep.append(library)
    return dict(zip(exports, addresses, strict=True))
