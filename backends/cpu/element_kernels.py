"""Element loops as machine code: a kernel for each way in which their arrays lie in memory."""

from __future__ import annotations

import ctypes
import hashlib
import signal
import struct
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from fuser.backends.cpu import element_loops
from fuser.backends.cpu.machine import arrays, loader
from fuser.backends.cpu.machine.target import host_features
from fuser.base import budget, counters
from fuser.base.errors import Unsupported
from fuser.element_loops.code import Code
from fuser.element_loops.kinds import GIVEN
from fuser.element_loops.region import RunEnded

#: How a number of a dtype is packed into a word.
_PACKED = {
    "bool": "?7x", "int8": "b7x", "uint8": "B7x", "int16": "h6x", "uint16": "H6x", "int32": "i4x",
    "uint32": "I4x", "int64": "q", "uint64": "Q", "float32": "f4x", "float64": "d",
}  # fmt: skip


class ElementKernel:
    """Runs one element loop."""

    def __init__(self, code: Code) -> None:
        """Prepare it; the first run compiles.

        Raises:
            Unsupported: where objects of arrays lie in memory is not known here.
        """
        if not arrays.layout_is_known():
            raise Unsupported(
                "unsupported-layout", "loop", "where arrays lie in this interpreter", ""
            )
        self.code = code
        self.texts: dict[str, str] = {}
        self._compiled: dict[str, Callable[..., int]] = {}
        self._kept: list[Any] = []
        self._numbers = struct.Struct("=" + "".join(_PACKED[n.dtype] for n in code.numbers))
        self._results = struct.Struct("=" + "".join(_PACKED[n.dtype] for n in code.results))
        self._types = [np.dtype(n.dtype).type for n in code.results]
        self._whole = [place for place, n in enumerate(code.numbers) if n.kind == "pyint"]
        self._pointers = struct.Struct(f"={len(code.arrays)}Q")

    def run(self, given: Sequence[Any], numbers: Sequence[Any]) -> list[Any]:
        """Run it on arrays, which are written into, and numbers; the numbers that it leaves.

        Raises:
            RunEnded: the plain function has to run; arrays may have been written into.
        """
        layouts = "".join(map(_layout, given))
        kernel = self._compiled.get(layouts)
        if kernel is None:
            kernel = self._compile(layouts)
        for place in self._whole:  # which code takes for less than others
            if not -GIVEN <= numbers[place] <= GIVEN:
                raise RunEnded("an integer is too large")
        try:
            words = self._numbers.pack(*numbers)
        except struct.error as error:
            raise RunEnded(str(error)) from None
        size = self._results.size
        results = ctypes.create_string_buffer(size) if size else None
        status = kernel(self._pointers.pack(*map(id, given)), words, results)
        if status == element_loops.INTERRUPTED:
            signal.raise_signal(signal.SIGINT)
        if status:
            raise RunEnded("it reached what only the plain function does")
        if results is None:
            return []
        found = self._results.unpack_from(results)
        return [kind(value) for kind, value in zip(self._types, found, strict=True)]

    def _compile(self, layouts: str) -> Callable[..., int]:
        """The kernel for arrays that lie so."""
        digest = hashlib.sha256(repr((self.code.body, self.code.arrays, layouts)).encode())
        name = f"elements_{digest.hexdigest()[:16]}"
        text = loader.OPTIMISED + element_loops.emit(self.code, layouts, name, host_features())
        budget.spend("instructions", text.count("\n"))
        budget.spend("kernels")
        library, (address,) = loader.load(
            loader.to_object(text), (name,), loader.imports_of(text)
        )
        counters.count("kernels")
        self._kept.append(library)
        self.texts[layouts] = text
        kind = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_char_p, ctypes.c_char_p, ctypes.c_char_p)
        kernel: Callable[..., int] = kind(address)
        self._compiled[layouts] = kernel
        return kernel


def _layout(array: Any) -> str:
    """How an array lies in memory.

    Raises:
        RunEnded: it is none that machine code may read.
    """
    if type(array) is not np.ndarray or not array.flags.aligned or not array.dtype.isnative:
        raise RunEnded("an array of another kind")
    if array.flags.c_contiguous:
        return element_loops.CONTIGUOUS
    if array.strides[-1] == array.itemsize:
        return element_loops.ROWS
    return element_loops.STRIDED
