"""Values for which a kernel stops the call, so that NumPy runs the function and raises."""

from __future__ import annotations

from typing import Any

import numpy as np

from fuser.graph import make_constant


def unless(value: Any, problem: Any) -> Any:
    """The same value; where there is a problem for some element, the call is NumPy's.

    Kernels stop so at whole numbers to a negative power, which NumPy refuses, too: here 2 to the
    power of 0, which is 1, or of -1.
    """
    tracing = value.tracing
    power = tracing.cast(problem.node, np.dtype(np.int64))
    power = tracing.node("negative", [power])
    two = make_constant(2, np.dtype(np.int64))
    one = tracing.cast(tracing.node("power", [two, power]), value.dtype)
    return tracing.wrap(tracing.node("multiply", [value.node, one]), value.generic)
