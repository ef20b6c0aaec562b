"""Functions whose work depends on the data: what is refused has to be said, and be right."""

from typing import Any

import numpy as np

from fuser.suites.workload import HEAVY_SIZES, Array, Workload, normals, uniforms

FAMILY = "must refuse"


def positive_roots(x: Array) -> Any:
    """The roots of the positive elements: how many there are depends on the data."""
    return np.sqrt(x[x > 0]) * 0.5


def newton_until_converged(x: Array) -> Any:
    """Heron's square root, repeated until no element moves: control flow that reads the data."""
    root = 0.5 * (x + 1)
    for _ in range(50):
        better = 0.5 * (root + x / root)
        if np.max(np.abs(better - root)) < 1e-3:
            return better
        root = better
    return root


WORKLOADS = (
    Workload(
        "newton_until_converged", FAMILY, "a loop that ends by the data", newton_until_converged,
        uniforms((0.5, 4.0)), sizes=HEAVY_SIZES, quick=True,
    ),
    Workload(
        "positive_roots", FAMILY, "roots of the positive elements", positive_roots, normals(1),
        sizes=HEAVY_SIZES, must_refuse=True,
    ),
)
