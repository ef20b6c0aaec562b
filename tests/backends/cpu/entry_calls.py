"""Calls of every kind that the native entry serves, and a count of what they leave behind.

`python -m tests.backends.cpu.entry_calls 1000000` makes a million calls of each kind and prints
what each costs and whether memory and reference counts stay flat; the tests make fewer.
"""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable
from time import perf_counter
from typing import Any

import numpy as np

import fuser
from tests.fuser import result_kinds

Call = Callable[[], Any]
VECTOR = np.linspace(-2, 2, 37, dtype=np.float32)
TABLE = np.linspace(-2, 2, 35, dtype=np.float64).reshape(5, 7)
BYTES = np.arange(9, dtype=np.int8)
OUT = np.empty_like(VECTOR)
PAIR = (np.empty_like(VECTOR), np.empty_like(VECTOR))
HALF = VECTOR.astype(np.float16)
NUMBER = np.float64(2.5)
SCALE = 2.5
OFFSET = np.ones(37, np.float32)
LARGE = np.linspace(-1, 1, 300_000)


def _softmax(x: Any) -> Any:
    powers = np.exp(x - x.max(axis=1, keepdims=True))
    return powers / powers.sum(axis=1, keepdims=True)


LINE = fuser.fuse(lambda a, b, c: a * b + c)
BOTH = fuser.fuse(lambda a, b: (a + b, a - b))
SCALED = fuser.fuse(lambda a, b: a * SCALE + b)
SHIFTED = fuser.fuse(lambda x: x + OFFSET)
NAMED = fuser.fuse(lambda a, b, alpha: a * alpha + b)
SOFTMAX = fuser.fuse(_softmax)
TOTAL = fuser.fuse(lambda x: (x * x).sum())
ALONG = fuser.fuse(lambda x, axis: x.sum(axis))
UNFUSED = fuser.fuse(lambda x: np.sqrt(x * x + 1) - x, mode="unfused")
POWER = fuser.fuse(lambda a, b: a**b)
MANY = fuser.fuse(lambda *arrays: sum(arrays))
ROOT = fuser.fuse(lambda x: np.sqrt(np.abs(x)) * x + np.exp(x))
OWN_OUT = fuser.fuse(result_kinds.own_out)
UFUNC_OUT = fuser.fuse(result_kinds.ufunc_out)
SILENT = fuser.fuse(result_kinds.silent_out)
IN_PLACE = fuser.fuse(result_kinds.in_place)
INSIDE = fuser.fuse(result_kinds.inside)
STEP = fuser.fuse(result_kinds.step)
VIEWS = fuser.fuse(lambda x: (z := x * x, z.T, x[::2]))
SAME = fuser.fuse(lambda x, y: (x, x * y, SCALE, None))
NEST = fuser.fuse(lambda x: {"a": [x + 1], "b": (x.sum(), x.shape)})
RATED = fuser.fuse(lambda x, a, n: x * (1 - a) if n > 2 else x + a)
INNER = fuser.fuse(lambda p, d: p[0] * d["x"] + d["y"][0])


def _raise(function: Call, error: type[Exception]) -> None:
    """Make a call that raises."""
    try:
        function()
    except error:
        return
    raise AssertionError(error)


#: What the entry serves, by name.
SERVED: dict[str, Call] = {
    "arrays": lambda: LINE(VECTOR, VECTOR, VECTOR),
    "a float": lambda: LINE(VECTOR, 2.5, VECTOR),
    "an integer": lambda: LINE(VECTOR, 3, VECTOR),
    "a larger integer": lambda: LINE(VECTOR, 10**6, VECTOR),
    "a truth value": lambda: LINE(VECTOR, True, VECTOR),
    "integers": lambda: LINE(BYTES, 3, BYTES),
    "out": lambda: LINE(VECTOR, VECTOR, VECTOR, out=OUT),
    "two arrays of out": lambda: BOTH(VECTOR, VECTOR, out=PAIR),
    "a float beside float16": lambda: LINE(HALF, 2.5, HALF),
    "an integer beside float16": lambda: LINE(HALF, 3, HALF),
    "a truth value beside float16": lambda: LINE(HALF, True, HALF),
    "broadcast": lambda: LINE(TABLE, TABLE[0], TABLE),
    "transposed": lambda: LINE(TABLE.T, TABLE.T, TABLE.T),
    "strided": lambda: LINE(VECTOR[::2], VECTOR[::2], VECTOR[::-2]),
    "a NumPy scalar": lambda: LINE(TABLE, NUMBER, TABLE),
    "only NumPy scalars": lambda: LINE(NUMBER, NUMBER, NUMBER),
    "two results": lambda: BOTH(TABLE, TABLE),
    "a global": lambda: SCALED(VECTOR, VECTOR),
    "a captured array": lambda: SHIFTED(VECTOR),
    "a keyword": lambda: NAMED(VECTOR, VECTOR, alpha=2.0),
    "keywords in another order": lambda: NAMED(VECTOR, alpha=2.5, b=VECTOR),
    "softmax": lambda: SOFTMAX(TABLE),
    "a scalar result": lambda: TOTAL(TABLE),
    "an axis": lambda: ALONG(TABLE, 1),
    "an axis as a keyword": lambda: ALONG(TABLE, axis=0),
    "several kernels": lambda: UNFUSED(TABLE),
    "a status": lambda: POWER(BYTES, BYTES),
    "32 arguments": lambda: MANY(*(VECTOR,) * 32),
    "an out of its own": lambda: OWN_OUT(VECTOR, VECTOR, OUT),
    "an out of its own, by name": lambda: OWN_OUT(VECTOR, VECTOR, out=OUT),
    "an out of its own, of ufuncs": lambda: UFUNC_OUT(VECTOR, VECTOR, OUT),
    "an out that is not returned": lambda: SILENT(VECTOR, VECTOR, OUT),
    "in place": lambda: IN_PLACE(OUT, VECTOR),
    "a part in place": lambda: INSIDE(OUT, VECTOR),
    "several in place": lambda: STEP(OUT, VECTOR, *PAIR, 1e-3),
    "views of results and arguments": lambda: VIEWS(TABLE),
    "an argument, a global and nothing": lambda: SAME(VECTOR, VECTOR),
    "a nest of results": lambda: NEST(TABLE),
    "a nest of arguments": lambda: INNER([VECTOR], {"x": VECTOR, "y": (VECTOR,)}),
    "an expression of numbers": lambda: RATED(VECTOR, 0.25, 3),
    "empty arrays": lambda: LINE(VECTOR[:0], VECTOR[:0], VECTOR[:0]),
    "threads": lambda: ROOT(LARGE),
}
#: What Python answers: they cost milliseconds, so fewer are made.
REFUSED: dict[str, Call] = {
    "lengths that differ": lambda: _raise(lambda: LINE(VECTOR, VECTOR, VECTOR[1:]), ValueError),
    "an integer out of range": lambda: _raise(lambda: LINE(BYTES, 1000, BYTES), OverflowError),
    "out= overlaps": lambda: LINE(OUT, VECTOR, OUT[::-1], out=OUT),
    "an argument is missing": lambda: _raise(lambda: LINE(VECTOR, VECTOR), TypeError),
    "a negative power": lambda: _raise(lambda: POWER(BYTES, -BYTES), ValueError),
}
WATCHED: dict[str, Any] = {
    "vector": VECTOR, "table": TABLE, "bytes": BYTES, "out": OUT, "number": NUMBER,
    "scale": SCALE, "offset": OFFSET, "float32": VECTOR.dtype, "float64": TABLE.dtype,
    "int8": BYTES.dtype, "ndarray": np.ndarray, "alpha": "alpha", "line": LINE, "both": BOTH,
    "None": None, "large": LARGE, "pair": PAIR, "of a pair": PAIR[1], "half": HALF,
    "float16": HALF.dtype,
}  # fmt: skip


def native_hits() -> int:
    """Calls of these functions that were served natively."""
    functions = (LINE, BOTH, SCALED, SHIFTED, NAMED, SOFTMAX, TOTAL, ALONG, UNFUSED, POWER, MANY,
                 ROOT, OWN_OUT, UFUNC_OUT, SILENT, IN_PLACE, INSIDE, STEP, VIEWS, SAME, NEST,
                 INNER, RATED)  # fmt: skip
    return sum(function._native.hits for function in functions if function._native)


def changes(call: Call, count: int) -> dict[str, int]:
    """How reference counts, and blocks and bytes of memory, differ after many calls."""
    for _ in range(min(count, 20)):
        call()
    gc.collect()
    before = {name: sys.getrefcount(thing) for name, thing in WATCHED.items()}
    blocks, resident = sys.getallocatedblocks(), _resident_bytes()
    for _ in range(count):
        call()
    gc.collect()
    after = {name: sys.getrefcount(thing) for name, thing in WATCHED.items()}
    found = {name: after[name] - before[name] for name in WATCHED}
    found["blocks"] = sys.getallocatedblocks() - blocks
    found["bytes"] = _resident_bytes() - resident
    return found


def _resident_bytes() -> int:
    """Memory of this process, or 0 where the system does not say."""
    try:
        with open("/proc/self/statm") as numbers:
            return int(numbers.read().split()[1]) << 12
    except OSError:
        return 0


def leaks(found: dict[str, int], count: int) -> dict[str, int]:
    """What has grown with the number of calls; memory may be given back meanwhile."""
    allowed = {"blocks": count // 20 + 200, "bytes": 4 << 20}
    grown = {n: by if n == "bytes" else abs(by) for n, by in found.items()}
    return {n: found[n] for n, by in grown.items() if by > allowed.get(n, 2)}


def main(count: int) -> int:
    """Make `count` calls of each kind; the number of kinds that leave something behind."""
    bad = 0
    for name, call in (SERVED | REFUSED).items():
        wanted = count if name in SERVED else max(10, count // 1000)
        wanted = max(10, wanted // 1000) if name == "threads" else wanted
        start = perf_counter()
        found = leaks(changes(call, wanted), wanted)
        each = (perf_counter() - start) / wanted
        bad += bool(found)
        sys.stdout.write(f"{name:28} {wanted:8} calls {each * 1e9:9.0f} ns  {found or 'flat'}\n")
        sys.stdout.flush()
    return bad


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]) if len(sys.argv) > 1 else 1_000_000))
