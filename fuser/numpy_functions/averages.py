"""np.mean, np.var, np.std and np.average: sums divided by how many elements, or weights, they have.

With them, reductions that raise or warn for some values: a kernel looks at them.

NumPy raises where weights sum to zero, or where a row is nothing but NaN, and warns of means of
nothing. A kernel that meets such a value stops the call, and NumPy runs the function: it raises, or
warns, as it always does.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from fuser.base.errors import Unsupported
from fuser.ir import dims, infer
from fuser.ir.function_table import HANDLERS, handles
from fuser.ir.graph import Node
from fuser.ir.ops import component
from fuser.ir.views import Broadcast
from fuser.numpy_functions.array_functions import _array, _options, _refuse, result_type, unless
from fuser.numpy_functions.nan_reductions import without_nan
from fuser.numpy_functions.reductions import (
    NO_VALUE,
    as_traced,
    axes_of,
    finished,
    given,
    of_selections,
    reduce,
    squared_size,
)
from fuser.tracing.indices import normal_axis
from fuser.tracing.trace_state import Tracing
from fuser.tracing.traced_array import TracedArray


def _count_of(tracing: Tracing, x: TracedArray, axes: Sequence[int], freedom: Any) -> Any:
    """How many elements are combined: a number that stays symbolic.

    Raises:
        Unsupported: there are no more than `freedom`, of which NumPy warns.
    """
    count = dims.product(tuple(x.dims[axis] for axis in axes))
    found = x._length(count)
    if type(freedom) is int and freedom >= 0:
        tracing.guard_reach(count, freedom + 1)
        few = tracing.size(count) <= freedom
    else:
        few = bool(found <= freedom)
    if few:
        raise Unsupported("runtime-check", "np.mean", "NumPy warns where too few are averaged")
    return found


def _more_than(chosen: Any, freedom: Any) -> Node:
    """How many elements a mask chooses; with too few for some result, the call is NumPy's."""
    found: Node = unless(chosen, chosen <= freedom).node
    return found


def _mean_dtypes(x: np.dtype[Any], dtype: Any) -> tuple[np.dtype[Any], np.dtype[Any]]:
    """What a mean is computed in, and what it is given in."""
    if dtype is not None:
        wanted = infer.dtype_of(dtype)
        return wanted, wanted
    if x.kind in "biu":
        return np.dtype(np.float64), np.dtype(np.float64)
    return (np.dtype(np.float32) if x.name in ("float16", "bfloat16") else x), x


def mean(
    tracing: Tracing, a: Any, axis: Any = None, dtype: Any = None, out: Any = None,
    keepdims: Any = False, *, where: Any = True,
) -> Any:  # fmt: skip
    """np.mean: the sum divided by the number of elements."""
    x = as_traced(tracing, a)
    inner, outer = _mean_dtypes(x.dtype, dtype)
    if inner.kind not in "fc" or (inner.kind == "c" and _masked(where)):
        raise Unsupported("unsupported-argument", "np.mean", f"dtype={inner}")
    node = _mean_node(tracing, x, axis, inner, keepdims, where)
    return finished(tracing, tracing.cast(node, outer), out, "mean", same=True)


def _mean_node(
    tracing: Tracing, x: TracedArray, axis: Any, dtype: np.dtype[Any], keepdims: Any, where: Any
) -> Node:
    """Sum over count."""
    options = {"keepdims": keepdims, "function": "mean"}
    total = reduce(tracing, "sum", x, axis, dtype, where=where, **options)
    if _masked(where):
        chosen = _chosen(tracing, x, axis, keepdims, where)
        return tracing.node("divide", [total.node, tracing.cast(_more_than(chosen, 0), dtype)])
    count = _count_of(tracing, x, axes_of(x, axis), 0)
    return tracing.node("divide", [total.node, tracing.operand_node(count, dtype)])


def _masked(where: Any) -> bool:
    """Whether a mask was given."""
    return where is not True and where is not NO_VALUE


def _chosen(tracing: Tracing, x: TracedArray, axis: Any, keepdims: Any, where: Any) -> Any:
    """How many elements a mask chooses for each result."""
    mask = tracing.mask_node(where)
    if mask.shape != x.node.shape:
        mask = tracing.node("broadcast_to", [mask], Broadcast(x.node.shape))
    options = {"keepdims": keepdims, "function": "mean"}
    found = reduce(tracing, "sum", tracing.wrap(mask), axis, np.dtype(np.int64), **options)
    return tracing.wrap(tracing.cast(found.node, np.dtype(np.float64)))


def _variance(name: str, root: bool) -> Callable[..., Any]:
    """np.var, the mean of squared distances from the mean, as NumPy computes it; or its root."""

    def handler(
        tracing: Tracing, a: Any, axis: Any = None, dtype: Any = None, out: Any = None,
        ddof: Any = 0, keepdims: Any = False, *, where: Any = True, mean: Any = NO_VALUE,
        correction: Any = NO_VALUE,
    ) -> Any:  # fmt: skip
        node = _var_node(tracing, a, axis, dtype, ddof, keepdims, where, mean, correction)
        node = tracing.node("sqrt", [node]) if root else node
        return finished(tracing, node, out, name, same=True)

    return handler


def _var_node(
    tracing: Tracing, a: Any, axis: Any, dtype: Any, ddof: Any, keepdims: Any, where: Any,
    mean: Any, correction: Any,
) -> Node:  # fmt: skip
    """The variance's node, in the dtype that NumPy gives."""
    x = as_traced(tracing, a)
    if given(mean):
        raise Unsupported("unsupported-argument", "np.var", "mean=")
    freedom = correction if given(correction) else ddof
    inner, outer = _mean_dtypes(x.dtype, dtype)
    if inner.kind not in "fc" or (inner.kind == "c") != (x.dtype.kind == "c"):
        raise Unsupported("unsupported-argument", "np.var", f"dtype={inner}")
    centre = _mean_node(tracing, x, axis, inner, True, where)
    wide = np.result_type(x.dtype, inner)  # a dtype= may be narrower than the array's
    away = tracing.node("subtract", [tracing.cast(node, wide) for node in (x.node, centre)])
    square = squared_size(tracing.wrap(away))
    inner, outer = component(inner), component(outer)
    options = {"keepdims": keepdims, "where": where, "function": "var"}
    total = reduce(tracing, "sum", square, axis, inner, **options)
    if _masked(where):
        chosen = _more_than(_chosen(tracing, x, axis, keepdims, where), freedom)
        less = tracing.node("subtract", [chosen, tracing.operand_node(freedom, chosen.dtype)])
        return tracing.cast(tracing.node("divide", [total.node, tracing.cast(less, inner)]), outer)
    count = _count_of(tracing, x, axes_of(x, axis), freedom)
    divisor = tracing.operand_node(count - freedom if freedom else count, inner)
    return tracing.cast(tracing.node("divide", [total.node, divisor]), outer)


_OWN: dict[Any, Any] = {
    np.mean: mean, np.var: _variance("var", False), np.std: _variance("std", True),
}  # fmt: skip

HANDLERS.update({function: of_selections(own) for function, own in _OWN.items()})


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
