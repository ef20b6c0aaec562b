"""NumPy's reductions that leave NaN out: formulas over plain reductions.

Where nothing is left NumPy warns: a kernel that meets this stops the call, and NumPy runs it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from fuser.ir.function_table import HANDLERS, handles
from fuser.numpy_functions.array_functions import _array, _options, _refuse, unless
from fuser.tracing.trace_state import Tracing


def without_nan(tracing: Tracing, a: Any, value: float) -> tuple[Any, Any]:
    """The array with `value` for NaN, and where NaN was; None for dtypes that have none."""
    x: Any = _array(tracing, a)
    if x.dtype.kind != "f":
        return x, None
    mask = np.isnan(x)
    return np.where(mask, x.dtype.type(value), x), mask


def _nan_extreme(function: Any, bottom: float) -> Callable[..., Any]:
    """np.nanmax and np.nanmin."""

    def handler(
        tracing: Tracing, a: Any, axis: Any = None, out: Any = None, keepdims: Any = None,
        initial: Any = np._NoValue, where: Any = np._NoValue,
    ) -> Any:  # fmt: skip
        _refuse(function.__name__, out=out, initial=initial, where=where)
        x, mask = without_nan(tracing, a, bottom)
        rest = _options(keepdims=keepdims)
        best = function(x, axis=axis, **rest)
        return best if mask is None else unless(best, np.all(mask, axis=axis, **rest))

    return handler


HANDLERS[np.nanmax] = _nan_extreme(np.max, -np.inf)
HANDLERS[np.nanmin] = _nan_extreme(np.min, np.inf)


def _mean_parts(x: Any, mask: Any, axis: Any, keepdims: Any, where: Any) -> tuple[Any, Any]:
    """The sum of what is not NaN, divided by how many they are, in the sum's dtype; the count."""
    rest = _options(keepdims=keepdims, where=where)
    count: Any = np.sum(~mask, axis=axis, dtype=np.intp, **rest)
    count = unless(count, count == 0)
    total = np.sum(x, axis=axis, **rest)
    return np.true_divide(total, count, dtype=None).astype(total.dtype), count


@handles(np.nanmean)
def _nanmean(
    tracing: Tracing, a: Any, axis: Any = None, dtype: Any = None, out: Any = None,
    keepdims: Any = None, where: Any = np._NoValue,
) -> Any:  # fmt: skip
    """np.nanmean: the mean of what is not NaN."""
    x, mask = without_nan(tracing, a, 0)
    rest = _options(keepdims=keepdims, where=where)
    if mask is None:
        return np.mean(x, axis=axis, **_options(dtype=dtype, out=out), **rest)
    _refuse("nanmean", dtype=dtype, out=out)
    return _mean_parts(x, mask, axis, keepdims, where)[0]


def _nan_variance(name: str) -> Callable[..., Any]:
    """np.nanvar and np.nanstd."""

    def handler(
        tracing: Tracing, a: Any, axis: Any = None, dtype: Any = None, out: Any = None,
        ddof: Any = 0, keepdims: Any = None, *, where: Any = np._NoValue, mean: Any = None,
        correction: Any = None,
    ) -> Any:  # fmt: skip
        plain = np.var if name == "nanvar" else np.std
        x, mask = without_nan(tracing, a, 0)
        _refuse(name, dtype=dtype, out=out, where=where, mean=mean, correction=correction)
        if mask is None:
            return plain(x, axis=axis, ddof=ddof, **_options(keepdims=keepdims))
        mean_value, _ = _mean_parts(x, mask, axis, True, np._NoValue)
        centred = np.where(mask, x.dtype.type(0), x - mean_value)
        rest = _options(keepdims=keepdims)
        free: Any = np.sum(~mask, axis=axis, dtype=np.intp, **rest) - ddof
        total = np.sum(centred * centred, axis=axis, **rest)
        result = np.true_divide(total, unless(free, free <= 0)).astype(total.dtype)
        return result if name == "nanvar" else np.sqrt(result)

    return handler


HANDLERS[np.nanvar] = _nan_variance("nanvar")
HANDLERS[np.nanstd] = _nan_variance("nanstd")
