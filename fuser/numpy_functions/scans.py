"""np.cumsum, np.cumprod and ufunc.accumulate: results that run along an axis, in NumPy's order."""

from __future__ import annotations

from typing import Any

import numpy as np

from fuser.base.errors import Unsupported
from fuser.ir.attributes import Axis
from fuser.ir.function_table import handles
from fuser.numpy_functions.array_functions import _array as array_of
from fuser.tracing.admitted_dtypes import has_scans
from fuser.tracing.indices import normal_axis
from fuser.tracing.trace_state import Tracing

_ROWS = {
    "add": "running_sum", "multiply": "running_product", "maximum": "running_maximum",
    "minimum": "running_minimum",
}  # fmt: skip


@handles(np.cumsum)
def _cumsum(tracing: Tracing, a: Any, axis: Any = None, dtype: Any = None, out: Any = None) -> Any:
    """np.cumsum."""
    return _along(tracing, np.add, a, axis, dtype, out)


@handles(np.cumprod)
def _cumprod(tracing: Tracing, a: Any, axis: Any = None, dtype: Any = None, out: Any = None) -> Any:
    """np.cumprod."""
    return _along(tracing, np.multiply, a, axis, dtype, out)


def accumulate(
    tracing: Tracing, ufunc: np.ufunc, a: Any, axis: Any = 0, dtype: Any = None, out: Any = None
) -> Any:
    """`ufunc.accumulate`, along the first axis unless told otherwise."""
    if ufunc.__name__ not in _ROWS or axis is None:
        name = f"np.{ufunc.__name__}.accumulate"
        raise Unsupported("unsupported-function", name, "")
    return _along(tracing, ufunc, a, axis, dtype, out)


def _along(tracing: Tracing, ufunc: np.ufunc, a: Any, axis: Any, dtype: Any, out: Any) -> Any:
    """Running results along one axis, or of all elements in C order."""
    name = f"np.{ufunc.__name__}.accumulate"
    x = array_of(tracing, a)
    target = out[0] if isinstance(out, tuple) else out
    plain = x.dtype.kind in "biuf" and x.ndim and type(axis) in (int, _NONE)
    if not has_scans() or not plain:
        raise Unsupported("unsupported-function", name, "operands of these dtypes or shapes")
    if target is not None and dtype is None:  # NumPy computes in another dtype then
        raise Unsupported("unsupported-argument", name, "out= without dtype=")
    wanted = ufunc.accumulate(np.zeros(1, x.dtype), dtype=dtype).dtype
    if wanted.kind not in "biuf" or (wanted.kind == "b" and ufunc in _SUMS):
        raise Unsupported("unsupported-dtype", name, f"{wanted}")
    if axis is None:
        x, axis = x.ravel(), 0
    node = tracing.cast(x.node, wanted)
    place = normal_axis(axis, x.ndim)
    found = tracing.node(_ROWS[ufunc.__name__], [node], Axis(place))
    if target is None:
        return tracing.wrap(found)
    return tracing.write(target, found, True, "same_kind", name)


_NONE = type(None)
_SUMS = (np.add, np.multiply)
