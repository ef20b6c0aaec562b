"""NumPy's reductions, spelled with the rows sum, prod, max, min, argmax and argmin.

Means, variances and deviations are in `averages`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from fuser import dims, infer
from fuser.errors import Unsupported
from fuser.graph import Node, make_constant
from fuser.planning.layers import layers
from fuser.tracer import Tracing
from fuser.tracing.indices import normal_axis
from fuser.tracing.traced_array import TracedArray

Ready = Callable[..., Any]
NO_VALUE = np._NoValue  # NumPy's mark for "not given"


def given(value: Any) -> bool:
    """Whether an option was given."""
    return value is not NO_VALUE and value is not None


def axes_of(x: TracedArray, axis: Any) -> tuple[int, ...]:
    """Axes counted from the front, in order.

    Raises:
        AxisError, ValueError: out of range, or twice, as NumPy says.
    """
    if axis is None:
        return tuple(range(x.ndim))
    entries = axis if isinstance(axis, (tuple, list)) else (axis,)
    axes = [normal_axis(entry, x.ndim) for entry in entries]
    if len(set(axes)) != len(axes):
        raise ValueError("duplicate value in 'axis'")
    return tuple(sorted(axes))


def _keep(tracing: Tracing, node: Node, axes: Sequence[int], rank: int) -> Node:
    """Put the reduced axes back with length 1."""
    parts = [None if axis in axes else slice(None) for axis in range(rank)]
    while parts and parts[-1] == slice(None):
        parts.pop()
    return tracing.node("index", [node], infer.spell_index(parts)) if axes else node


def _identity(name: str, dtype: np.dtype[Any]) -> Any:
    """What changes nothing."""
    if name in ("sum", "prod"):
        return 0 if name == "sum" else 1
    if dtype.kind in "fV":
        return -np.inf if name == "max" else np.inf
    if dtype.kind == "b":
        return name == "min"
    limits = np.iinfo(dtype)
    return limits.min if name == "max" else limits.max


def reduce(
    tracing: Tracing,
    name: str,
    a: Any,
    axis: Any,
    dtype: np.dtype[Any],
    *,
    keepdims: Any = False,
    initial: Any = NO_VALUE,
    where: Any = True,
    out: Any = None,
    function: str = "",
) -> Any:
    """One reduction with NumPy's options.

    Args:
        tracing: the trace.
        name: a reduction row.
        a: the operand.
        axis: None, an int or a tuple.
        dtype: what is computed in.
        keepdims: NumPy's option.
        initial: NumPy's option.
        where: NumPy's option.
        out: NumPy's option.
        function: NumPy's name, for messages.
    """
    x = as_traced(tracing, a)
    axes = axes_of(x, axis)
    node = tracing.cast(x.node, dtype)
    if where is not True and where is not NO_VALUE:
        if name in ("max", "min") and initial is NO_VALUE:
            raise ValueError(
                f"reduction operation '{function}' does not have an identity, so to use a where "
                "mask one has to specify 'initial'"
            )
        mask = tracing.mask_node(where)
        rest = make_constant(_identity(name, dtype), dtype)
        node = tracing.node("where", [mask, node, rest])
        if len(node.shape) != x.ndim:
            raise Unsupported("unsupported-argument", f"np.{function}", "where= of higher rank")
    if not axes:
        result = tracing.own(node, dtype, "K")  # nothing to combine: a copy
        if name == "sum" and initial is NO_VALUE:
            result = _from_zero(tracing, node) or result
    else:
        if name in ("max", "min") and initial is NO_VALUE:
            _need_elements(tracing, node, axes, function)
        payload = ", ".join(map(str, axes))
        if name == "sum" and dtype.kind == "c":  # its parts have sums of their own
            parts = [tracing.node(part, [node]) for part in ("real", "imag")]
            sums = [tracing.node("sum", [part], payload) for part in parts]
            result = tracing.node("join_complex", sums)
        elif (few := layers(tracing, node, axes) if name == "sum" else None) is not None:
            result = (initial is NO_VALUE and _from_zero(tracing, few[0])) or few[0]
            for layer in few[1:]:
                result = tracing.node("add", [result, layer])
        else:
            result = tracing.node(name, [node], payload)
    if initial is not NO_VALUE and initial is not None:
        start = tracing.operand_node(tracing.operand(initial), dtype)
        combine = {"sum": "add", "prod": "multiply", "max": "maximum", "min": "minimum"}[name]
        result = tracing.node(combine, [start, result])
    if keepdims and keepdims is not NO_VALUE:
        result = _keep(tracing, result, axes, len(node.shape))
    if out is not None:
        return tracing.write(out, result, True, "same_kind", function)
    return tracing.wrap(result, not result.shape)


def _from_zero(tracing: Tracing, first: Node) -> Node | None:
    """The first number of a sum added to 0.0, which NumPy begins with: -0.0 is 0.0 then.

    None where that changes nothing.
    """
    squared = first.op.name == "multiply" and first.args[0] is first.args[1]
    if first.dtype.kind != "f" or squared or first.op.name in ("square", "absolute", "exp"):
        return None
    return tracing.node("add", [make_constant(0, first.dtype), first])


def _need_elements(
    tracing: Tracing, node: Node, axes: Sequence[int], function: str
) -> None:
    """Refuse to take an extreme of nothing, now and in later calls of other lengths.

    Raises:
        ValueError: as NumPy's.
    """
    count = dims.product(tuple(node.shape[axis] for axis in axes))
    rest = dims.product(node.shape)
    if tracing.size(count) == 0 and (tracing.size(rest) == 0):
        names = {"max": "maximum", "min": "minimum"}
        raise ValueError(
            f"zero-size array to reduction operation {names.get(function, function)} "
            "which has no identity"
        )
    if not isinstance(tracing.resolve(count), int):
        tracing.guard_value(f"({count}) > 0", True)


def as_traced(tracing: Tracing, a: Any) -> TracedArray:
    """The operand as a traced array."""
    from fuser.tracing.array_functions import _array

    return _array(tracing, a)


def _sum_dtype(x: np.dtype[Any], dtype: Any) -> np.dtype[Any]:
    """NumPy adds small integers in the platform's integer."""
    if dtype is not None:
        return infer.dtype_of(dtype)
    if x.kind in "bi" and x.itemsize < 8:
        return np.dtype(np.int64)
    return np.dtype(np.uint64) if x.kind == "u" else x


def _additive(name: str) -> Ready:
    """np.sum and np.prod."""

    def handler(
        tracing: Tracing, a: Any, axis: Any = None, dtype: Any = None, out: Any = None,
        keepdims: Any = False, initial: Any = NO_VALUE, where: Any = True,
    ) -> Any:  # fmt: skip
        x = as_traced(tracing, a)
        wanted = _sum_dtype(x.dtype, dtype)
        if wanted.kind == "b":  # a sum of truths tells whether any is, a product whether all are
            if initial is not NO_VALUE:
                raise Unsupported("unsupported-argument", f"np.{name}", "initial= and dtype=bool")
            truth = _truth("max" if name == "sum" else "min")
            return truth(tracing, x, axis, out, keepdims, where=where)
        return reduce(
            tracing, name, x, axis, wanted, keepdims=keepdims, initial=initial, where=where,
            out=out, function=name,
        )  # fmt: skip

    return handler


def _extreme(name: str) -> Ready:
    """np.max and np.min."""

    def handler(
        tracing: Tracing, a: Any, axis: Any = None, out: Any = None, keepdims: Any = False,
        initial: Any = NO_VALUE, where: Any = True,
    ) -> Any:  # fmt: skip
        x = as_traced(tracing, a)
        return reduce(
            tracing, name, x, axis, x.dtype, keepdims=keepdims, initial=initial, where=where,
            out=out, function=name,
        )  # fmt: skip

    return handler


def _truth(name: str) -> Ready:
    """np.any and np.all: the largest and smallest of truths."""

    def handler(
        tracing: Tracing, a: Any, axis: Any = None, out: Any = None, keepdims: Any = False, *,
        where: Any = True,
    ) -> Any:  # fmt: skip
        x = as_traced(tracing, a)
        initial = name == "min"  # of nothing
        return reduce(
            tracing, name, x, axis, np.dtype(bool), keepdims=keepdims, initial=initial,
            where=where, out=out, function="any" if name == "max" else "all",
        )  # fmt: skip

    return handler


def _place(name: str) -> Ready:
    """np.argmax and np.argmin."""

    def handler(
        tracing: Tracing, a: Any, axis: Any = None, out: Any = None, *, keepdims: Any = False
    ) -> Any:
        x = as_traced(tracing, a)
        rank = x.ndim
        flat = axis is None and rank != 1
        y = x.reshape(-1) if flat else x
        place = 0 if axis is None else normal_axis(axis, rank)
        if tracing.size(y.dims[place]) == 0:
            raise ValueError(f"attempt to get {name} of an empty sequence")
        if not isinstance(tracing.resolve(y.dims[place]), int):
            tracing.guard_value(f"({y.dims[place]}) > 0", True)
        result = tracing.node(name, [y.node], str(place))
        if keepdims and keepdims is not NO_VALUE:
            axes = tuple(range(rank)) if axis is None else (place,)
            result = _keep(tracing, result, axes, rank)
        if out is not None:
            return tracing.write(out, result, True, "same_kind", name)
        return tracing.wrap(result, not result.shape)

    return handler


def _count_nonzero(
    tracing: Tracing, a: Any, axis: Any = None, *, keepdims: Any = False
) -> Any:
    """np.count_nonzero: the sum of truths."""
    x = as_traced(tracing, a)
    truth = x.astype(bool, copy=False)  # whose memory order decides the result's
    whole = np.dtype(np.int64)
    return reduce(tracing, "sum", truth, axis, whole, keepdims=keepdims, function="count_nonzero")


def _ptp(
    tracing: Tracing, a: Any, axis: Any = None, out: Any = None, keepdims: Any = False
) -> Any:
    """np.ptp: the largest minus the smallest."""
    x = as_traced(tracing, a)
    ends = [
        reduce(tracing, name, x, axis, x.dtype, keepdims=keepdims, function=name)
        for name in ("max", "min")
    ]
    return tracing.apply_ufunc(np.subtract, "__call__", ends, {"out": out})


def _norm(
    tracing: Tracing, x: Any, ord: Any = None, axis: Any = None, keepdims: bool = False
) -> Any:
    """np.linalg.norm of vectors, of every order, and Frobenius' norm of matrices."""
    values = as_traced(tracing, x)
    if values.dtype.kind != "f":
        values = values.astype(np.float64)
    options = {"axis": axis, "keepdims": keepdims}
    axes = axes_of(values, axis)
    if ord is None and axis is None:
        return np.sqrt(np.sum(np.square(values), **options))
    if len(axes) == 2 and (ord is None or ord in ("fro", "f")):
        return np.sqrt(np.sum(np.square(values), **options))
    if len(axes) != 1 or isinstance(ord, str):
        raise Unsupported("unsupported-argument", "np.linalg.norm", "a matrix norm")
    size = np.abs(values)
    if ord is None or ord == 2:
        return np.sqrt(np.sum(np.square(size), **options))
    if ord == 1:
        return np.sum(size, **options)
    if ord in (np.inf, -np.inf):
        return (np.max if ord > 0 else np.min)(size, **options)
    if ord == 0:
        return np.sum((values != 0).astype(values.dtype), **options)
    if not isinstance(ord, (int, float)):
        raise Unsupported("unsupported-argument", "np.linalg.norm", f"ord={ord!r}")
    return np.sum(size**ord, **options) ** (1 / ord)


def _dot(tracing: Tracing, a: Any, b: Any, out: Any = None) -> Any:
    """np.dot of vectors."""
    x, y = as_traced(tracing, a), as_traced(tracing, b)
    if x.ndim != 1 or y.ndim != 1 or out is not None:
        raise Unsupported("unsupported-function", "np.dot", "matrices")
    if tracing.size(x.dims[0]) != tracing.size(y.dims[0]):
        raise ValueError(
            f"shapes ({tracing.size(x.dims[0])},) and ({tracing.size(y.dims[0])},) not aligned"
        )
    dtype = (x * y).dtype
    if dtype.kind == "b":
        raise Unsupported("unsupported-dtype", "np.dot", "bool vectors")
    return products_summed(tracing, x, y, dtype)


def products_summed(tracing: Tracing, x: Any, y: Any, dtype: np.dtype[Any]) -> Any:
    """Products summed along the last axis; those of float16 as float32, as NumPy does."""
    inner = np.dtype(np.float32) if dtype.name == "float16" else dtype
    nodes = [tracing.cast(value.node, inner) for value in (x, y)]
    product = tracing.wrap(tracing.node("multiply", nodes))
    total = reduce(tracing, "sum", product, -1, inner, function="dot")
    return tracing.wrap(tracing.cast(total.node, dtype), total.generic)


_registered = False


def register() -> None:
    """Add the handlers; called when a trace first meets a NumPy function."""
    global _registered
    if _registered:
        return
    _registered = True
    from fuser.tracing import averages
    from fuser.tracing.array_functions import HANDLERS

    HANDLERS.update(
        {
            np.sum: _additive("sum"), np.prod: _additive("prod"), np.max: _extreme("max"),
            np.min: _extreme("min"), np.amax: _extreme("max"), np.amin: _extreme("min"),
            np.any: _truth("max"), np.all: _truth("min"), np.argmax: _place("argmax"),
            np.argmin: _place("argmin"), np.mean: averages.mean, np.var: averages.var,
            np.std: averages.std,
            np.count_nonzero: _count_nonzero, np.ptp: _ptp, np.linalg.norm: _norm,
            np.dot: _dot,
        }
    )  # fmt: skip


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
        raise Unsupported("unsupported-function", f"np.{ufunc.__name__}.reduce", "no such row")
    function = {"sum": np.sum, "prod": np.prod, "max": np.max, "min": np.min}.get(name)
    register()
    from fuser.tracing.array_functions import HANDLERS

    handler = HANDLERS[function or (np.any if name == "any" else np.all)]
    options = {key: value for key, value in options.items() if value is not None or key == "axis"}
    options.setdefault("axis", 0)
    if isinstance(options.get("out"), tuple):
        options["out"] = options["out"][0]
    if name in ("max", "min", "any", "all"):
        options.pop("dtype", None)
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
