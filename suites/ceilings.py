"""How fast this machine moves memory, measured beside the workloads with plain NumPy.

`copy` reads one array and writes another. `triad` is a = b + s c in NumPy's two passes: five
arrays moved (McCalpin's STREAM counts three, because its loop is one pass). Bytes are the loads
and stores of the code; the read-for-ownership that a store may cause is not counted.
"""

from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np

from fuser.suites.sampling import calls_per_sample, collector_off, timed_calls
from fuser.suites.workload import Array

DEFAULT_L2_BYTES = 1 << 20
DEFAULT_L3_BYTES = 32 << 20
MOST_BYTES = 256 << 20
SCALAR = np.float32(3.0)


def working_sets(caches: Mapping[str, int]) -> tuple[int, int]:
    """Return a working set inside one core's cache and one well beyond the last level, in bytes."""
    inside = caches.get("L2", DEFAULT_L2_BYTES) // 2
    beyond = 4 * caches.get("L3", DEFAULT_L3_BYTES)
    return inside, min(beyond, MOST_BYTES)


def measure(
    caches: Mapping[str, int], cores: int, process: int, samples: int
) -> list[dict[str, Any]]:
    """Return the ceilings as fields of the record: each at both sizes, on one and on all cores."""
    found = []
    inside, beyond = working_sets(caches)
    for working_set_bytes in (inside, beyond):
        # waking threads costs more than an in-cache pass: all cores only beyond the cache
        for threads in sorted({1, cores}) if working_set_bytes == beyond else [1]:
            for name, arrays, moved, passes in (("copy", 2, 2, _copy), ("triad", 3, 5, _triad)):
                elements = working_set_bytes // arrays // 4
                seconds = _seconds(passes, arrays, elements, threads, samples)
                found.append({
                    "name": name, "bytes_moved": moved * elements * 4,
                    "working_set_bytes": arrays * elements * 4, "threads": threads,
                    "process": process, "seconds": seconds,
                })
    return found


def _copy(target: Array, source: Array) -> None:
    np.copyto(target, source)


def _triad(target: Array, source: Array, other: Array) -> None:
    np.multiply(other, SCALAR, out=target)
    np.add(target, source, out=target)


def _seconds(
    passes: Callable[..., None], arrays: int, elements: int, threads: int, samples: int
) -> list[float]:
    """Time one pass over all arrays, each thread on its own part of them."""
    data = [np.full(elements, index + 1.0, np.float32) for index in range(arrays)]
    if threads == 1:
        return _samples(passes, tuple(data), samples)
    parts = list(zip(*(np.array_split(each, threads) for each in data), strict=True))
    with ThreadPoolExecutor(threads) as pool:

        def all_parts() -> None:
            for future in [pool.submit(passes, *part) for part in parts]:
                future.result()

        return _samples(all_parts, (), samples)


def _samples(function: Callable[..., None], arguments: Any, samples: int) -> list[float]:
    function(*arguments)
    calls, _ = calls_per_sample(function, arguments, 0.001)
    with collector_off():
        return [timed_calls(function, arguments, calls)[0] / calls for _ in range(samples)]
