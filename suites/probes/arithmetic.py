"""How fast this machine computes when memory is no limit: the flat roof of a roofline.

Four polynomials of the same value, each a chain of multiplications and additions that needs only
its own last step, so that the processor can work on several at once; on arrays that stay in the
first cache (one thread) or are long beside what threads cost to wake (all of them). The fuser's
own kernels run them: no other code could be compared with a fused row more fairly.
"""

from collections.abc import Iterator
from typing import Any

import numpy as np

from fuser.suites.probes.ceilings import fuser_threads
from fuser.suites.sampling import seconds_of

STEPS = 16
CHAINS = 4
OPERATIONS = CHAINS * 2 * STEPS
"""Of one element: a multiplication and an addition a step, and the chains' sum, without the first
multiplication of three chains, which all have alike."""
SHORT, LONG = 1 << 12, 1 << 20
DTYPES = ("float32", "float64")


def polynomials(x: Any) -> Any:
    """Return the sum of four polynomials by Horner's rule."""
    total = None
    for chain in range(CHAINS):
        value = x
        for step in range(STEPS):
            value = value * x + (0.5 + 0.125 * ((chain + step) % 5))
        total = value if total is None else total + value
    return total


def measure(threads: int, process: int, samples: int) -> Iterator[dict[str, Any]]:
    """Yield the speeds as fields of the record, on one thread and on all."""
    import fuser
    for dtype in DTYPES:
        for used, elements in {1: SHORT, threads: LONG if threads > 1 else SHORT}.items():
            x = np.full(elements, 0.25, dtype)
            with fuser_threads(used):
                fused = fuser.fuse(polynomials, fallback="error")
                fused(x)
                seconds = seconds_of(fused, (x,), samples, 0.001)
            yield {
                "dtype": dtype, "operations": OPERATIONS * elements, "threads": used,
                "process": process, "seconds": seconds,
            }
