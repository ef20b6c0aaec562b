"""A process that has nothing yet: `python cold.py CHECKOUT PROGRAM` prints seconds as JSON.

It is run by its path, so that what is timed is all that is imported: NumPy, then the fuser of the
folder CHECKOUT. Results are compared with NumPy's after the clock has stopped. The programs:

- `gelu` imports fuser, then, with LLVM loaded, fuses and calls a function of nine operations;
- `chain` calls one of 400 operations;
- `growing` calls gelu, then functions of 64 to 4,096 operations;
- `disk` imports, fuses and calls gelu in one go, with what an earlier process has kept.
"""

import json
import sys
from collections.abc import Callable
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np

LENGTHS = (64, 128, 256, 512, 1024, 2048, 4096)
PROGRAMS = ("gelu", "chain", "growing", "disk")
WRONG = "wrong"
"""Beside the figures: what was no result of NumPy's."""


def gelu(x: Any, b: Any) -> Any:
    """A gelu with bias."""
    y = x + b
    return 0.5 * y * (1 + np.tanh(0.7978845608028654 * (y + 0.044715 * y * y * y)))


def chain(length: int) -> Callable[[Any, Any], Any]:
    """Return a function of so many operations, each needing the one before."""

    def function(x: Any, y: Any) -> Any:
        for step in range(length // 2):
            x = (x * y) + y if step % 2 else (x * y) - y
        return x

    return function


class Process:
    """What one process finds: seconds by the name of a figure."""

    def __init__(self) -> None:
        self.found: dict[str, Any] = {WRONG: []}
        self.x = np.linspace(-1, 1, 1024, dtype=np.float32)

    def call(self, name: str, function: Callable[..., Any], fuse: Callable[..., Any]) -> None:
        """Fuse a function and time its first call."""
        fused = fuse(function, fallback="error")
        start_s = perf_counter()
        result = fused(self.x, self.x)
        self.found[name] = perf_counter() - start_s
        self.judge(name, function, result)

    def judge(self, name: str, function: Callable[..., Any], result: Any) -> None:
        """Note a result that is not NumPy's."""
        if not np.allclose(result, function(self.x, self.x), rtol=1e-4, atol=1e-6):
            self.found[WRONG].append(name)

    def gelu(self) -> None:
        """Import, the first fuse(), the first call."""
        start_s = perf_counter()
        import fuser

        self.found["import_fuser"] = perf_counter() - start_s
        import llvmlite.binding  # noqa: F401 - how long it takes is not ours

        start_s = perf_counter()
        fused = fuser.fuse(gelu, fallback="error")
        ready_s = perf_counter()
        result = fused(self.x, self.x)
        self.found["gelu_cold"] = perf_counter() - ready_s
        self.found["first_fuse"] = ready_s - start_s
        self.judge("gelu_cold", gelu, result)

    def chain(self) -> None:
        """The first call of a long function."""
        import llvmlite.binding  # noqa: F401 - as above

        import fuser

        self.call("chain_400_cold", chain(400), fuser.fuse)

    def growing(self) -> None:
        """First calls of longer and longer functions."""
        import fuser

        self.call("gelu", gelu, fuser.fuse)
        del self.found["gelu"]
        for length in LENGTHS:
            self.call(f"chain_{length}", chain(length), fuser.fuse)

    def disk(self) -> None:
        """All that a process pays that finds its machine code on disk."""
        start_s = perf_counter()
        import fuser

        result = fuser.fuse(gelu, fallback="error")(self.x, self.x)
        self.found["import_and_gelu_from_disk"] = perf_counter() - start_s
        self.judge("import_and_gelu_from_disk", gelu, result)


if __name__ == "__main__":
    sys.path[0] = sys.argv[1]  # in place of this folder, whose files are no modules of their own
    process = Process()
    getattr(process, sys.argv[2])()
    if Path(sys.modules["fuser"].__file__ or "").parents[1] != Path(sys.argv[1]):
        sys.exit(f"no fuser in {sys.argv[1]}")
    print(json.dumps(process.found))
