"""Two pieces of fixed work, one of arithmetic and one of memory: how fast the machine is just now.

Each process times both before and after its rows. Where they drift within a run, or between runs,
the machine changed: another program, a lower clock.
"""

from typing import Any

import numpy as np

from fuser.suites.sampling import seconds_of

COMPUTE_ELEMENTS = 2048
"""In float64 well inside a core's first cache."""
MEMORY_BYTES = 64 << 20
SAMPLES = 5
LEAST_SAMPLE_S = 0.002


def measure() -> dict[str, Any]:
    """Return the median seconds of one pass of each, as the fields of an event."""
    angles = np.linspace(0.1, 1.0, COMPUTE_ELEMENTS)
    result = np.empty_like(angles)
    source = np.ones(MEMORY_BYTES // 2, np.uint8)
    target = np.empty_like(source)
    return {
        name: float(np.median(seconds_of(function, arguments, SAMPLES, LEAST_SAMPLE_S)))
        for name, function, arguments in (
            ("compute_s", np.sin, (angles, result)), ("memory_s", np.copyto, (target, source)),
        )
    }
