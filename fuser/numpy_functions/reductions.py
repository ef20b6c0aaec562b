"""NumPy's reductions, spelled with the rows sum, prod, max, min, argmax and argmin.

Means, variances and deviations are in `averages`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from fuser.base.errors import Unsupported
from fuser.ir import dims, infer
from fuser.ir.attributes import Axes
from fuser.ir.function_table import HANDLERS
from fuser.ir.graph import Node, make_constant
from fuser.ir.ops import TABLE, identity
from fuser.ir.views import insert_axes
from fuser.numpy_functions.array_functions import _array, unless
from fuser.tracing import selections
from fuser.tracing.indices import normal_axis
from fuser.tracing.operands import check_target
from fuser.tracing.trace_state import Tracing
from fuser.tracing.traced_array import TracedArray

Ready = Callable[..., Any]
NO_VALUE = np._NoValue  # NumPy's mark for "not given"


def given(value: Any) -> bool:
    """Whether an option was given."""
    return value is not NO_VALUE and value is not None


def axes_of(x: TracedArray, axis: Any) -> tuple[int, ...]:
    """Axes counted from the front, in order.

    Raises:
        AxisError, TypeError, ValueError: out of range, no integer, or twice, as NumPy says.
    """
    if axis is None:
        return tuple(range(x.ndim))
    entries = axis if isinstance(axis, tuple) else (axis,)
    axes = [normal_axis(not_a_truth(entry), x.ndim) for entry in entries]
    if len(set(axes)) != len(axes):
        raise ValueError("duplicate value in 'axis'")
    return tuple(sorted(axes))


def not_a_truth(axis: Any) -> Any:
    """An axis that is no bool, which NumPy's reductions refuse.

    Raises:
        TypeError: it is one.
    """
    if isinstance(axis, (bool, np.bool_)):
        raise TypeError("an integer is required for the axis")
    return axis


def finished(tracing: Tracing, node: Node, out: Any, function: str, same: bool = False) -> Any:
    """A reduction's result, in `out=` where that is given, which has to have its shape.

    Args:
        tracing: the trace.
        node: the reduction.
        out: the array, or None.
        function: NumPy's name, for messages.
        same: `out` has to have the dtype as well, in which NumPy computes then.

    Raises:
        Unsupported: it has not; NumPy knows what to do.
    """
    if out is None:
        return tracing.wrap(node, not node.shape)
    check_target(out, f"np.{function}")
    fits = isinstance(out, TracedArray) and tracing.same_lengths(out.dims, node.shape)
    if not fits or (same and out.dtype != node.dtype):
        raise Unsupported("unsupported-argument", f"np.{function}", "an out= that is not one array")
    tracing.hold_lengths(out.dims, node.shape)
    return tracing.write(out, node, True, "same_kind", function)


def _keep(tracing: Tracing, node: Node, axes: Sequence[int], rank: int) -> Node:
    """Put the reduced axes back with length 1."""
    return tracing.node("index", [node], insert_axes(rank, axes)) if axes else node


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
    x, row = as_traced(tracing, a), TABLE[name]
    axes = axes_of(x, axis)
    node = tracing.cast(x.node, dtype)
    if initial is None:  # the first element, which has to be there
        if row.accumulates:
            raise Unsupported("unsupported-argument", f"np.{function}", "initial=None")
        initial = NO_VALUE
    if where is not True and where is not NO_VALUE:
        if row.selects and initial is NO_VALUE:
            raise ValueError(
                f"reduction operation '{function}' does not have an identity, so to use a where "
                "mask one has to specify 'initial'"
            )
        mask = tracing.mask_node(where)
        if len(mask.shape) > x.ndim or not tracing.fits_into(x.dims, mask.shape):
            raise Unsupported("unsupported-argument", f"np.{function}", "where= is too large")
        rest = make_constant(identity(row, dtype.name), dtype)
        node = tracing.node("where", [mask, node, rest])
    if not axes:
        # Nothing to combine; in the memory order of an operation, which differs from a copy's.
        plain = dtype.kind in "biuf"
        result = tracing.node("maximum", [node, node]) if plain else tracing.own(node, dtype, "K")
        if row.adds and initial is NO_VALUE:
            result = _from_zero(tracing, node) or result
    else:
        if row.selects and initial is NO_VALUE:
            _need_elements(tracing, node, axes, function)
        payload = Axes(tuple(axes))
        if row.adds and dtype.kind == "c":  # its parts have sums of their own
            parts = [tracing.node(part, [node]) for part in ("real", "imag")]
            sums = [tracing.node("sum", [part], payload) for part in parts]
            result = tracing.node("join_complex", sums)
        else:
            result = tracing.node(name, [node], payload)
    if initial is not NO_VALUE:
        start = tracing.operand_node(tracing.operand(initial), dtype)
        result = tracing.node(row.combine, [start, result])
    if keepdims and keepdims is not NO_VALUE:
        result = _keep(tracing, result, axes, len(node.shape))
    return finished(tracing, result, out, function)


def _from_zero(tracing: Tracing, first: Node) -> Node | None:
    """The first number of a sum added to 0.0, which NumPy begins with: -0.0 is 0.0 then.

    None where that changes nothing.
    """
    squared = first.op.multiplies and len(set(map(id, first.args))) == 1
    if first.dtype.kind != "f" or squared or first.op.never_negative_zero:
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
    return _array(tracing, a)


def _sum_dtype(x: np.dtype[Any], dtype: Any) -> np.dtype[Any]:
    """NumPy adds small integers in the platform's integer."""
    if dtype is not None:
        return infer.dtype_of(dtype)
    if x.kind in "bi" and x.itemsize < 8:
        return np.dtype(np.int64)
    return np.dtype(np.uint64) if x.kind == "u" else x


def _check_out(out: Any, wanted: np.dtype[Any], function: str) -> None:
    """Refuse an `out=` of a dtype that has a say in what NumPy computes.

    It keeps what is reduced so far there. Of sums and products of integers that is the lower bits.

    Raises:
        Unsupported: it may be seen in the result.
    """
    if out is None:
        return
    check_target(out, f"np.{function}")
    found = out.dtype if isinstance(out, TracedArray) else np.dtype(object)
    lower = found.kind == wanted.kind and found.kind in "iu" and found.itemsize <= wanted.itemsize
    if found != wanted and not (lower and TABLE[function].accumulates):
        raise Unsupported("unsupported-argument", f"np.{function}", "out= of another dtype")


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
            truth = _truth("max" if TABLE[name].adds else "min")
            if out is not None:
                raise Unsupported("unsupported-argument", f"np.{name}", "out= and dtype=bool")
            return truth(tracing, x, axis, out, keepdims, where=where)
        _check_out(out, wanted, name)
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
        _check_out(out, x.dtype, name)
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
        initial = not TABLE[name].greatest  # of nothing
        return reduce(
            tracing, name, x, axis, np.dtype(bool), keepdims=keepdims, initial=initial,
            where=where, out=out, function="all" if initial else "any",
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
        place = 0 if axis is None else normal_axis(not_a_truth(axis), rank)
        if tracing.size(y.dims[place]) == 0:
            raise ValueError(f"attempt to get {name} of an empty sequence")
        if not isinstance(tracing.resolve(y.dims[place]), int):
            tracing.guard_value(f"({y.dims[place]}) > 0", True)
        result = tracing.node(name, [y.node], Axes((place,)))
        if keepdims and keepdims is not NO_VALUE:
            axes = tuple(range(rank)) if axis is None else (place,)
            result = _keep(tracing, result, axes, rank)
        return finished(tracing, result, out, name, same=True)

    return handler


def _count_nonzero(
    tracing: Tracing, a: Any, axis: Any = None, *, keepdims: Any = False, where: Any = True
) -> Any:
    """np.count_nonzero: the sum of truths."""
    x = as_traced(tracing, a)
    truth = x.astype(bool, copy=False)  # whose memory order decides the result's
    whole = np.dtype(np.int64)
    options = {"keepdims": keepdims, "where": where, "function": "count_nonzero"}
    return reduce(tracing, "sum", truth, axis, whole, **options)


def _norm(
    tracing: Tracing, x: Any, ord: Any = None, axis: Any = None, keepdims: bool = False
) -> Any:
    """np.linalg.norm of vectors, of every order, and Frobenius' norm of matrices."""
    values = as_traced(tracing, x)
    if values.dtype.kind not in "fc":
        values = values.astype(np.float64)
    options = {"axis": axis, "keepdims": keepdims}
    axes = axes_of(values, axis)
    if ord is None and axis is None:
        return np.sqrt(np.sum(squared_size(values), **options))
    if len(axes) == 2 and (ord is None or ord in ("fro", "f")):
        return np.sqrt(np.sum(squared_size(values), **options))
    if len(axes) != 1 or isinstance(ord, str):
        raise Unsupported("unsupported-argument", "np.linalg.norm", "a matrix norm")
    if ord is None or ord == 2:
        return np.sqrt(np.sum(squared_size(values), **options))
    size = np.abs(values)
    if ord == 1:
        return np.sum(size, **options)
    if ord in (np.inf, -np.inf):
        return (np.max if ord > 0 else np.min)(size, **options)
    if ord == 0:
        return np.sum((values != 0).astype(size.dtype), **options)
    if not isinstance(ord, (int, float)):
        raise Unsupported("unsupported-argument", "np.linalg.norm", f"ord={ord!r}")
    return np.sum(size**ord, **options) ** (1 / ord)


def squared_size(values: Any) -> Any:
    """Squares; of complex numbers those of both parts, added."""
    if values.dtype.kind == "c":
        return np.square(values.real) + np.square(values.imag)
    return np.square(values)


def _dot(tracing: Tracing, a: Any, b: Any, out: Any = None) -> Any:
    """np.dot where one operand is a vector."""
    x, y = as_traced(tracing, a), as_traced(tracing, b)
    if out is not None or not (x.ndim and y.ndim):
        raise Unsupported("unsupported-function", "np.dot", "matrices")
    if (x.ndim, y.ndim) != (1, 1):
        return product_with_vector(tracing, x, y, "np.dot")
    if tracing.size(x.dims[0]) != tracing.size(y.dims[0]):
        raise ValueError(
            f"shapes ({tracing.size(x.dims[0])},) and ({tracing.size(y.dims[0])},) not aligned"
        )
    dtype = (x * y).dtype
    if dtype.kind == "b":
        raise Unsupported("unsupported-dtype", "np.dot", "bool vectors")
    return products_summed(tracing, x, y, dtype)


def product_with_vector(tracing: Tracing, x: TracedArray, y: TracedArray, function: str) -> Any:
    """`A @ x`, where `x` may be a column, and `x @ A`: read once, beside what is around them.

    Raises:
        Unsupported: a product of matrices, of complex numbers or of truths, or NumPy's error.
    """
    row = x.ndim == 2
    vector = y if row else x
    column = row and y.ndim == 2 and tracing.size(y.dims[1]) == 1
    if {x.ndim, y.ndim} != {1, 2} and not column:
        raise Unsupported("unsupported-function", function, "a product of matrices")
    if {x.dtype.kind, y.dtype.kind} - set("iuf"):
        raise Unsupported("unsupported-function", function, "complex numbers or truths")
    inner = (x.dims[-1],), (y.dims[0],)
    if not tracing.same_lengths(*inner):
        raise Unsupported("unsupported-function", function, "lengths that differ")
    tracing.hold_lengths(*inner)
    if column:
        tracing.hold_exactly(y.dims[1])
    if _is_large(tracing, x if row else y):
        raise Unsupported("unsupported-function", function, "a matrix that a library reads faster")
    along = vector.T if column else vector if row else vector[:, None]
    one, other = (x, along) if row else (along, y)
    dtype = np.result_type(x.dtype, y.dtype)
    total = products_summed(tracing, one, other, dtype, axis=int(row), keepdims=column)
    return total + 0 if dtype.kind == "f" else total  # never -0.0: NumPy adds to 0.0


#: Bytes of a matrix that BLAS reads no slower than a kernel does, by several rows at a time: at 72
#: MB a kernel took 1.1 times as long, at 128 MB 1.6 times; at 8 MB 0.6 times.
_LARGE_BYTES = 48 << 20


def _is_large(tracing: Tracing, matrix: TracedArray) -> bool:
    """Whether a matrix lies in memory, and a product with it is a library's; noted as a guard."""
    node, total = matrix.storage.node, dims.product(tuple(map(tracing.resolve, matrix.dims)))
    if node.op.is_elementwise and node.args and not matrix.views:
        return False  # computed here: it need not be stored
    most = _LARGE_BYTES // matrix.dtype.itemsize
    large = tracing.size(total) > most
    if not isinstance(total, int):
        tracing.guard_value(f"({total}) > {most}", large)
    return large


def products_summed(
    tracing: Tracing, x: Any, y: Any, dtype: np.dtype[Any], axis: int = -1, keepdims: bool = False
) -> Any:
    """Products summed along an axis; those of float16 as float32, as NumPy does."""
    inner = np.dtype(np.float32) if dtype.name == "float16" else dtype
    nodes = [tracing.cast(value.node, inner) for value in (x, y)]
    product = tracing.wrap(tracing.node("multiply", nodes))
    total = reduce(tracing, "sum", product, axis, inner, keepdims=keepdims, function="dot")
    return tracing.wrap(tracing.cast(total.node, dtype), total.generic)


def of_selections(handler: Ready, extreme: str = "") -> Ready:
    """A reduction that takes the whole array and its mask for what a mask has selected.

    Args:
        handler: the reduction.
        extreme: "max" or "min"; that of nothing is NumPy's error.
    """

    def reduced(tracing: Tracing, a: Any, axis: Any = None, *args: Any, **options: Any) -> Any:
        plain = options.get("where", True) is True and not options.get("keepdims", False)
        traced = isinstance(a, TracedArray) and a.ndim > 0
        plain = plain and traced and not (args or (extreme and a.ndim > 1))
        flat = plain and (axis is None or (type(axis) is int and axis in (0, -a.ndim)))
        found = selections.spread(a) if flat else None
        if found is None:
            return handler(tracing, a, axis, *args, **options)
        whole, mask = found
        if a.ndim > 1:
            return handler(tracing, whole, axis, **{**options, "where": mask})
        if extreme and options.get("initial", NO_VALUE) is NO_VALUE:
            start = identity(TABLE[extreme], a.dtype.name)
            result = handler(tracing, whole, None, **{**options, "where": mask, "initial": start})
            return unless(result, ~_truth("max")(tracing, mask))
        return handler(tracing, whole, None, **{**options, "where": mask})

    return reduced


_ADDITIVE = {name: of_selections(_additive(name)) for name in ("sum", "prod")}
_EXTREME = {name: of_selections(_extreme(name), name) for name in ("max", "min")}

HANDLERS.update(
    {
        np.sum: _ADDITIVE["sum"], np.prod: _ADDITIVE["prod"], np.max: _EXTREME["max"],
        np.min: _EXTREME["min"], np.amax: _EXTREME["max"], np.amin: _EXTREME["min"],
        np.any: of_selections(_truth("max")), np.all: of_selections(_truth("min")),
        np.argmax: _place("argmax"),
        np.argmin: _place("argmin"), np.count_nonzero: of_selections(_count_nonzero),
        np.linalg.norm: _norm, np.dot: _dot,
    }
)  # fmt: skip
