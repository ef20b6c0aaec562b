"""np.average with weights, and reductions that raise for some values: a kernel looks at them.

NumPy raises where weights sum to zero, or where a row is nothing but NaN. A kernel that meets such
a value stops the call, and NumPy runs the function: it raises what it always raises.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from fuser.base.errors import Unsupported
from fuser.ir import dims
from fuser.ir.function_table import HANDLERS, handles
from fuser.numpy_functions.array_functions import _array, _options, _refuse, result_type, unless
from fuser.numpy_functions.nan_reductions import without_nan
from fuser.tracing.indices import normal_axis
from fuser.tracing.trace_state import Tracing
from fuser.tracing.traced_array import TracedArray


@handles(np.average)
def _average(
    tracing: Tracing, a: Any, axis: Any = None, weights: Any = None, returned: Any = False,
    *, keepdims: Any = None,
) -> Any:  # fmt: skip
    """np.average: a mean, or a sum of products divided by the sum of weights."""
    x: Any = _array(tracing, a)
    rest = _options(keepdims=keepdims)
    if weights is None:
        _refuse("average", returned=returned or None)
        places = tuple(axis) if isinstance(axis, list) else axis
        found: Any = np.mean(x, axis=places, **rest)
        count = dims.product(found.dims)
        if not tracing.size(count):
            raise ZeroDivisionError("division by zero")  # NumPy counts operands for each result
        tracing.guard_reach(count, 1)
        return found
    weight: Any = _weights(tracing, x, weights, axis)
    dtype = result_type(x, weight)
    if x.dtype.kind != "f":
        dtype = np.result_type(dtype, np.float64)
    axes = None if axis is None else tuple(_in_given_order(x, axis))
    scale = np.sum(weight, axis=axes, dtype=dtype, **rest)
    total = np.sum(np.multiply(x, weight, dtype=dtype), axis=axes, **rest)
    scale = unless(scale, scale == 0.0)
    average = total / scale
    if not returned:
        return average
    if scale.ndim == average.ndim == 0:
        return average, scale
    return average, np.broadcast_to(scale, average.shape).copy()


def _in_given_order(x: TracedArray, axis: Any) -> list[int]:
    """Axes counted from the front, in their order, in which weights have them.

    Unlike `reductions.axes_of` it takes lists and truths, and says of repeated axes what np.average
    says.

    Raises:
        AxisError, TypeError, ValueError: out of range, no integer, or twice.
    """
    given = axis if isinstance(axis, (tuple, list)) else (axis,)
    found = [normal_axis(entry, x.ndim) for entry in given]
    if len(set(found)) != len(found):
        raise ValueError("repeated axis in `axis` argument")
    return found


def _weights(tracing: Tracing, x: TracedArray, weights: Any, axis: Any) -> Any:
    """Weights that broadcast to the array: of its shape, or along the axes that are averaged.

    Raises:
        Unsupported: of another shape, for which NumPy has errors; or no numbers.
    """
    weight: Any = _array(tracing, weights)
    if weight.dtype.kind not in "biuf" or x.dtype.kind not in "biuf":
        raise Unsupported("unsupported-argument", "np.average", "complex numbers")
    if weight.ndim == x.ndim:
        axes = list(range(x.ndim))
    elif axis is None:
        raise Unsupported("unsupported-argument", "np.average", "weights of another shape")
    else:
        axes = _in_given_order(x, axis)
    lengths = [x.dims[place] for place in axes]
    if not tracing.same_lengths(weight.dims, lengths):
        raise Unsupported("unsupported-argument", "np.average", "weights of another shape")
    tracing.hold_lengths(weight.dims, lengths)
    if weight.ndim == x.ndim:
        return weight
    turned = weight.transpose(*sorted(range(len(axes)), key=axes.__getitem__))
    return turned[tuple(slice(None) if k in axes else None for k in range(x.ndim))]


def _nan_place(function: Any, value: float) -> Callable[..., Any]:
    """np.nanargmin and np.nanargmax: NumPy raises where everything is NaN."""

    def handler(
        tracing: Tracing, a: Any, axis: Any = None, out: Any = None, *, keepdims: Any = None
    ) -> Any:
        _refuse(f"nan{function.__name__}", out=out)
        x, mask = without_nan(tracing, a, value)
        rest = _options(keepdims=keepdims)
        found = function(x, axis=axis, **rest)
        return found if mask is None else unless(found, np.all(mask, axis=axis, **rest))

    return handler


HANDLERS[np.nanargmin] = _nan_place(np.argmin, np.inf)
HANDLERS[np.nanargmax] = _nan_place(np.argmax, -np.inf)
