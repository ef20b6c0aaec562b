"""Ufuncs while tracing: the dtypes that NumPy computes in, then a node for each result.

Their methods are in `ufunc_methods`, which functions without any do not load.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from fuser.base.errors import Unsupported
from fuser.ir import opaque_calls
from fuser.ir.graph import Node, make_constant
from fuser.ir.ops import UFUNC_PAIRS, UFUNC_ROWS
from fuser.tracing.admitted_dtypes import check_dtype
from fuser.tracing.operands import check_out, fits_dtype, loop_dtypes
from fuser.tracing.trace_state import Tracing
from fuser.tracing.traced_array import TracedArray
from fuser.tracing.traced_scalars import HostScalar

COMPARISONS = ("equal", "not_equal", "less", "less_equal", "greater", "greater_equal")
LOGIC = ("logical_and", "logical_or", "logical_xor")


def fused_ufunc(
    tracing: Tracing, ufunc: np.ufunc, method: str, inputs: Sequence[Any], options: dict[str, Any]
) -> Any:
    """Trace `ufunc(*inputs, **options)` as nodes.

    Raises:
        Unsupported: it has no fused form.
    """
    name = ufunc.__name__
    if method in ("reduce", "accumulate") and len(inputs) == 1:
        from fuser.numpy_functions.ufunc_methods import accumulate, reduce_ufunc

        if method == "reduce":
            return reduce_ufunc(tracing, ufunc, inputs[0], options)
        return accumulate(tracing, ufunc, inputs[0], **options)
    if method == "at":
        from fuser.numpy_functions.gathers import at

        return at(tracing, ufunc, *inputs, **options)
    if method == "outer" and len(inputs) == 2 and ufunc.nin == 2:
        return _outer(tracing, ufunc, inputs, options)
    if method != "__call__":
        raise Unsupported("unsupported-function", f"np.{name}.{method}", "a ufunc method")
    if name in ("matmul", "vecdot"):
        return _product_of_vectors(tracing, name, inputs, options)
    out = options.pop("out", None)
    where = options.pop("where", True)
    dtype = options.pop("dtype", None)
    casting = options.pop("casting", "same_kind")
    if options.pop("order", "K") != "K" or options:
        raise Unsupported("unsupported-argument", f"np.{name}", f"{sorted(options) or 'order'}")
    operands = [tracing.operand(value) for value in inputs]
    targets = out if isinstance(out, tuple) else (out,) * ufunc.nout
    stores = [id(each.storage) for each in targets if isinstance(each, TracedArray)]
    if len(set(stores)) < len(stores):
        found = "two results into one array: which one stays depends on how NumPy goes about it"
        raise Unsupported("write-into-view", f"np.{name}", found)
    if any(isinstance(each, TracedArray) and each.generic for each in targets):
        raise TypeError("return arrays must be of ArrayType")  # whatever the operands are
    if where is not True and any(target is None for target in targets):
        raise Unsupported("where-without-out", f"np.{name}", "where= and no out=")
    results = _results(tracing, ufunc, operands, dtype, casting, targets)
    if any(target is None for target in targets):
        shape = results[0].shape
        for target in targets:  # a larger one enlarges the results that are made here, too
            if isinstance(target, TracedArray) and not tracing.same_lengths(target.dims, shape):
                raise Unsupported("unsupported-argument", f"np.{name}", "out= of another shape")
    generic = all(not isinstance(v, TracedArray) or not v.dims for v in operands)
    finished = [
        tracing.wrap(node, generic and not node.shape)
        if target is None
        else tracing.write(target, node, where, casting, name)
        for node, target in zip(results, targets, strict=True)
    ]
    return finished[0] if len(finished) == 1 else tuple(finished)


def _outer(
    tracing: Tracing, ufunc: np.ufunc, inputs: Sequence[Any], options: dict[str, Any]
) -> Any:
    """`ufunc.outer(a, b)`: every element of a with every element of b."""
    if any(isinstance(value, HostScalar) for value in inputs):
        raise Unsupported("unsupported-function", f"np.{ufunc.__name__}.outer", "a scalar")
    strong = [np.asarray(v)[()] if type(v) in (bool, int, float) else v for v in inputs]
    left, right = (tracing.operand(value) for value in strong)
    axes = right.ndim if isinstance(right, TracedArray) else 0
    if axes and isinstance(left, TracedArray):
        left = left[(..., *(None,) * axes)]
    return tracing.apply_ufunc(ufunc, "__call__", (left, right), options)


def _product_of_vectors(
    tracing: Tracing, name: str, inputs: Sequence[Any], options: dict[str, Any]
) -> Any:
    """`x @ y` where one is a vector, and `np.vecdot`: libraries do products of matrices better."""
    left, right = (tracing.operand(value) for value in inputs)
    both = isinstance(left, TracedArray) and isinstance(right, TracedArray)
    if not both or options or "b" in (left.dtype.kind, right.dtype.kind):
        raise Unsupported("unsupported-function", f"np.{name}", "operands that are not vectors")
    from fuser.numpy_functions.reductions import product_with_vector, products_summed

    if name == "matmul" and left.ndim > 2 and right.ndim == 2:
        return _product_of_rows(tracing, left, right)
    if name == "matmul" and (left.ndim, right.ndim) != (1, 1):
        return product_with_vector(tracing, left, right, "np.matmul")
    lengths = {tracing.size(array.dims[-1]) if array.dims else None for array in (left, right)}
    if len(lengths) > 1 or None in lengths or "c" in (left.dtype.kind, right.dtype.kind):
        raise Unsupported("unsupported-function", f"np.{name}", "vectors of different lengths")
    return products_summed(tracing, left, right, (left * right).dtype)


def _product_of_rows(tracing: Tracing, left: TracedArray, right: TracedArray) -> Any:
    """A stack of single rows times one matrix: NumPy calls BLAS for each, this once for all.

    The sums are those of the same products, in another order.

    Raises:
        Unsupported: it is no such stack, or not of floats: NumPy goes about it as it does.
    """
    kinds = left.dtype.kind + right.dtype.kind
    length = tracing.resolve(left.dims[-2])
    fits = tracing.same_lengths(left.dims[-1:], right.dims[:1])
    if tracing.size(length) != 1 or kinds != "ff" or not fits:
        raise Unsupported("unsupported-function", "np.matmul", "a product of matrices")
    if length != 1:
        tracing.guard_value(f"({length}) == 1", True)
    return tracing.call_named(opaque_calls.ROWS_TIMES, (left, right), {})


def _results(
    tracing: Tracing, ufunc: np.ufunc, operands: list[Any], dtype: Any, casting: str,
    targets: Sequence[Any],
) -> list[Node]:  # fmt: skip
    """The result nodes of a ufunc, one for each of its outputs, which `targets` can hold."""
    name = ufunc.__name__
    if name == "float_power":
        arrays = [v for v in operands if isinstance(v, (TracedArray, np.generic))]
        complexes = any(v.dtype.kind == "c" for v in arrays)  # numbers would be looked at
        if complexes or (dtype is not None and np.dtype(dtype) != np.float64):
            raise Unsupported(
                "unsupported-argument", "np.float_power",
                "complex numbers, or a dtype= that is not float64",
            )
        name, ufunc, dtype = "power", np.power, np.float64
    rows = UFUNC_PAIRS.get(name) or (UFUNC_ROWS.get(name),)
    if rows[0] is None:
        raise Unsupported(
            "unsupported-function", f"np.{name}", "a ufunc that is not in the table of operations"
        )
    if name in LOGIC or not any(isinstance(v, (TracedArray, np.generic)) for v in operands):
        for value in operands:  # NumPy has unsigned integers, or objects, for larger ones
            if not fits_dtype(value, np.dtype(np.int64)):
                raise Unsupported("scalar-range", f"np.{name}", f"{value!r} against int64")
    loop = loop_dtypes(ufunc, operands, dtype, casting)
    for target, found in zip(targets, loop[ufunc.nin :], strict=False):
        if isinstance(target, TracedArray):  # before shapes are looked at, as NumPy does
            check_out(found, target.dtype, casting, name)
    for value, wanted in zip(operands, loop, strict=False):
        check_dtype(wanted, f"np.{name}")
        if name in COMPARISONS and not fits_dtype(value, wanted):
            raise Unsupported("scalar-range", f"np.{name}", f"{value!r} against {wanted}")
    wanted_in = list(loop[: ufunc.nin])
    if name == "conjugate" and wanted_in[0].kind == "c":
        rows = ("conjugate",)
    if name in LOGIC and len(set(wanted_in)) > 1:
        wanted_in = [np.dtype(bool)] * 2
    if name in COMPARISONS and len(set(wanted_in)) > 1:
        return [_compare_signs(tracing, name, operands, wanted_in)]
    nodes = [tracing.operand_node(v, d) for v, d in zip(operands, wanted_in, strict=True)]
    return [tracing.node(str(row), nodes) for row in rows]


def _compare_signs(tracing: Tracing, name: str, operands: list[Any], loop: list[Any]) -> Node:
    """Compare a signed with an unsigned integer of 64 bits exactly."""
    nodes = [tracing.operand_node(v, d) for v, d in zip(operands, loop, strict=True)]
    signed = 0 if loop[0].kind == "i" else 1
    wide = [tracing.cast(node, np.uint64) for node in nodes]
    below = tracing.node("less", [nodes[signed], make_constant(0, np.int64)])
    plain = tracing.node(name, wide)
    # A negative number is less than every unsigned one.
    less = name.startswith("less") == (not signed)
    answer = {"equal": False, "not_equal": True}.get(name, less)
    return tracing.node("where", [below, make_constant(answer, bool), plain])
