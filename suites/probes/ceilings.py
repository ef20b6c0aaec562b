"""How fast this machine moves memory, measured beside the workloads.

`copy` reads one array and writes another. `triad` is a = b + s c: in NumPy's two passes five
arrays moved, in a fused kernel three, as in McCalpin's STREAM. `read` finds the largest element.
Bytes are the loads and stores of the code; the read-for-ownership that a store may cause is not
counted. Each is measured with plain NumPy and, where the fuser is in the process, with its own
kernels: so that a fused row is held against a ceiling of as many threads, woken the same way.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np

from fuser.suites.sampling import seconds_of
from fuser.suites.workload import Array

DEFAULT_L2_BYTES = 1 << 20
DEFAULT_L3_BYTES = 32 << 20
MOST_BYTES = 256 << 20
SCALAR = np.float32(3.0)


def working_sets(caches: Mapping[str, int]) -> list[int]:
    """Return bytes inside one core's cache, in the shared one, and well beyond it.

    In the shared cache there are two: just more than a core's own, where several cores together
    still have all of it in theirs, and a quarter of it. Nothing between is faster than the first.
    """
    own, shared = caches.get("L2", DEFAULT_L2_BYTES), caches.get("L3", DEFAULT_L3_BYTES)
    between = [size for size in (own + own // 4, shared // 4) if own < size < shared]
    return [own // 2, *sorted(between), min(4 * shared, MOST_BYTES)]


@dataclass(frozen=True, slots=True)
class Pass:
    """One way over the arrays: how many there are, and how many times one of them is moved."""

    name: str
    arrays: int
    moved: int
    run: Callable[..., object]
    fresh: Callable[..., object] | None = None
    """A fused kernel's function without `out=`: one such call installs its native entry."""


def measure(
    caches: Mapping[str, int], cores: int, process: int, samples: int, fused: bool = False
) -> Iterator[dict[str, Any]]:
    """Yield the ceilings as fields of the record: at each size, on one and on all cores.

    `fused` measures with the fuser's kernels too.
    """
    inside, *others = working_sets(caches)
    for working_set_bytes in (inside, *others):
        # waking threads costs more than a pass inside a core's cache: all cores only beyond it
        for threads in sorted({1, cores}) if working_set_bytes != inside else [1]:
            for by, passes in (("numpy", PASSES), ("fuser", fused_passes() if fused else ())):
                for each in passes:
                    elements = working_set_bytes // each.arrays // 4
                    seconds = _seconds(each, by, elements, threads, samples)
                    yield {
                        "name": each.name, "bytes_moved": each.moved * elements * 4,
                        "working_set_bytes": each.arrays * elements * 4, "threads": threads,
                        "process": process, "seconds": seconds, "by": by,
                    }


def _copy(target: Array, source: Array) -> None:
    np.copyto(target, source)


def _triad(target: Array, source: Array, other: Array) -> None:
    np.multiply(other, SCALAR, out=target)
    np.add(target, source, out=target)


def _read(source: Array) -> None:
    np.maximum.reduce(source)


PASSES = (Pass("copy", 2, 2, _copy), Pass("triad", 3, 5, _triad), Pass("read", 1, 1, _read))


def fused_passes() -> Sequence[Pass]:
    """Return the same as fused kernels: each one pass."""
    import fuser

    copy = fuser.fuse(lambda source: +source)
    triad = fuser.fuse(lambda source, other: source + SCALAR * other)
    return (
        Pass("copy", 2, 2, lambda target, source: copy(source, out=target), copy),
        Pass("triad", 3, 3, lambda target, *given: triad(*given, out=target), triad),
        Pass("read", 1, 1, fuser.fuse(lambda source: np.max(source))),
    )


@contextmanager
def fuser_threads(threads: int) -> Iterator[None]:
    """Let the fuser use so many threads, as long as this lasts."""
    from fuser.base import config

    before = config.current().num_threads
    config.change(num_threads=threads)
    try:
        yield
    finally:
        config.change(num_threads=before)


def _seconds(each: Pass, by: str, elements: int, threads: int, samples: int) -> list[float]:
    """Time one pass over all arrays; NumPy's threads have each their own part of them."""
    data = [np.full(elements, index + 1.0, np.float32) for index in range(each.arrays)]
    if by == "fuser":
        with fuser_threads(threads):
            if each.fresh is not None:
                each.fresh(*data[1:])
            return _samples(each.run, tuple(data), samples)
    if threads == 1:
        return _samples(each.run, tuple(data), samples)
    parts = list(zip(*(np.array_split(array, threads) for array in data), strict=True))
    with ThreadPoolExecutor(threads) as pool:

        def all_parts() -> None:
            for future in [pool.submit(each.run, *part) for part in parts]:
                future.result()

        return _samples(all_parts, (), samples)


def _samples(function: Callable[..., object], arguments: Any, samples: int) -> list[float]:
    function(*arguments)
    return seconds_of(function, arguments, samples, 0.001)
