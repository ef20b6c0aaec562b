"""Methods of ufuncs: `ufunc.reduce` and `ufunc.accumulate`, and np.cumsum and np.cumprod.

The first is a reduction of `reductions`, with the options that ufuncs have. The others give results
that run along an axis, in NumPy's order.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from fuser.base.errors import Unsupported
from fuser.ir.attributes import Axis
from fuser.ir.function_table import HANDLERS, handles
from fuser.ir.ops import TABLE
from fuser.numpy_functions.array_functions import _array as array_of
from fuser.numpy_functions.reductions import as_traced
from fuser.tracing.admitted_dtypes import has_scans
from fuser.tracing.indices import normal_axis
from fuser.tracing.trace_state import Tracing

_UFUNCS = {
    "add": "sum", "multiply": "prod", "maximum": "max", "minimum": "min", "logical_or": "any",
    "logical_and": "all",
}  # fmt: skip


def reduce_ufunc(tracing: Tracing, ufunc: np.ufunc, a: Any, options: dict[str, Any]) -> Any:
    """`ufunc.reduce`: over the first axis unless told otherwise."""
    if ufunc is np.logaddexp and options.keys() <= {"axis", "keepdims"}:
        return _log_of_sum(tracing, a, **options)
    name = _UFUNCS.get(ufunc.__name__)
    if name is None:
        raise Unsupported(
            "unsupported-function", f"np.{ufunc.__name__}.reduce",
            "a ufunc whose reduction is not in the table of operations",
        )
    function = {"sum": np.sum, "prod": np.prod, "max": np.max, "min": np.min}.get(name)

    handler = HANDLERS[function or (np.any if name == "any" else np.all)]
    meant = ("axis", "initial", "where")  # of which None is a value
    options = {key: value for key, value in options.items() if value is not None or key in meant}
    options.setdefault("axis", 0)
    if isinstance(options.get("out"), tuple):
        options["out"] = options["out"][0]
    whole = name in TABLE and TABLE[name].selects
    if whole and (dtype := options.pop("dtype", None)) is not None:
        a = as_traced(tracing, a).astype(dtype, copy=False)
    if name in ("any", "all") and np.dtype(options.pop("dtype", bool)) != bool:
        raise Unsupported("unsupported-argument", f"np.{ufunc.__name__}.reduce", "dtype=")
    return handler(tracing, a, **options)


def _log_of_sum(tracing: Tracing, a: Any, axis: Any = 0, keepdims: bool = False) -> Any:
    """`np.logaddexp.reduce` of floats: shifted by the greatest, unless that is infinite or NaN.

    NumPy adds one element after another, with an exponential and a logarithm for each.
    """
    x = as_traced(tracing, a)
    if x.dtype.name not in ("float32", "float64"):
        raise Unsupported("unsupported-dtype", "np.logaddexp.reduce", x.dtype.name)

    def shift(keep: bool) -> Any:
        largest = np.max(x, axis=axis, keepdims=keep, initial=-np.inf)
        return np.where(np.isfinite(largest), largest, 0)

    total = np.sum(np.exp(x - shift(True)), axis=axis, keepdims=keepdims)
    return np.log(total) + shift(keepdims)


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
