"""NumPy functions that call another function, of an array and an axis or of each row."""

from __future__ import annotations

from typing import Any

import numpy as np

from fuser.base.errors import Unsupported
from fuser.ir.function_table import handles, plain_function
from fuser.numpy_functions.array_functions import _array
from fuser.tracing.indices import normal_axis
from fuser.tracing.trace_state import Tracing

#: Functions of a row that give a number, which take an axis: what they give for each row.
_OF_ROWS = frozenset(
    [np.sum, np.prod, np.mean, np.std, np.var, np.max, np.min, np.amax, np.amin, np.any, np.all,
     np.argmax, np.argmin, np.ptp, np.linalg.norm, np.count_nonzero]
)  # fmt: skip


@handles(np.apply_along_axis)
def _apply_along_axis(
    tracing: Tracing, func1d: Any, axis: Any, arr: Any, *args: Any, **kwargs: Any
) -> Any:
    """np.apply_along_axis of a reduction; any other function is NumPy's to call, row by row."""
    function = plain_function(func1d)
    x = _array(tracing, arr)
    rows = type(function) is type(np.sum) and function in _OF_ROWS and not (args or kwargs)
    if not rows or x.ndim < 2 or any(tracing.size(dim) == 0 for dim in x.dims):
        raise Unsupported(
            "unsupported-argument", "np.apply_along_axis",
            "a function that is not one of NumPy's reductions of a row",
        )
    for dim in x.dims:  # of none at all NumPy refuses to make rows
        tracing.guard_reach(dim, 1)
    found: Any = tracing.apply_function(function, (x,), {"axis": normal_axis(axis, x.ndim)})
    return found if found.ndim < 2 else tracing.wrap(tracing.own(found.node, found.dtype, "C"))
