"""`ufunc.reduce`: the reductions of `reductions`, with the options that ufuncs have."""

from __future__ import annotations

from typing import Any

import numpy as np

from fuser.base.errors import Unsupported
from fuser.ir.function_table import HANDLERS
from fuser.ir.ops import TABLE
from fuser.numpy_functions.reductions import as_traced
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
