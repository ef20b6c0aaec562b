"""NumPy functions that are not ufuncs, spelled with rows of the op table and views.

Those that give views are index arithmetic: nothing is copied.
"""

from __future__ import annotations

from collections.abc import Sequence
from operator import index
from typing import Any

import numpy as np

from fuser.base.errors import Unsupported
from fuser.ir import dims, infer
from fuser.ir.function_table import handles
from fuser.ir.graph import make_constant
from fuser.ir.views import Broadcast
from fuser.tracing.operands import fits_dtype, loop_dtypes
from fuser.tracing.trace_state import Tracing
from fuser.tracing.traced_array import TracedArray
from fuser.tracing.traced_scalars import HostScalar


def _array(tracing: Tracing, value: Any) -> TracedArray:
    """A traced array from any operand."""
    if isinstance(value, TracedArray):
        return value
    plain = tracing.operand(value)
    if isinstance(plain, TracedArray):
        return plain
    dtype = result_type(plain)
    made: TracedArray = tracing.wrap(tracing.operand_node(plain, dtype))
    return made


def result_type(*values: Any) -> np.dtype[Any]:
    """NumPy's promotion: Python scalars are weak, everything else is strong."""
    kinds = []
    for value in values:
        if isinstance(value, TracedArray):
            kinds.append(value.dtype)
        elif isinstance(value, HostScalar):
            kinds.append(value.kind(1))
        elif isinstance(value, np.generic):
            kinds.append(value.dtype)
        else:
            kinds.append(type(value)(1))
    return infer.dtype_of(np.result_type(*kinds))


def _refuse(name: str, **options: Any) -> None:
    """Refuse options that have no fused form, where they were given."""
    for option, value in _options(**options).items():
        raise Unsupported("unsupported-argument", f"np.{name}", f"{option}={value!r}")


def _options(**options: Any) -> dict[str, Any]:
    """Those of a function's optional arguments that were given."""
    meant = ("initial", "where")  # of which None is a value
    given = {k: v for k, v in options.items() if v is not np._NoValue}
    return {k: v for k, v in given.items() if v is not None or k in meant}


def _sequence(value: Any) -> Sequence[Any]:
    """One entry or several, as several."""
    return value if isinstance(value, (tuple, list)) else (value,)


def unless(value: Any, problem: Any) -> Any:
    """The same value; where there is a problem for some element, the call is NumPy's.

    Kernels stop so at whole numbers to a negative power, which NumPy refuses, too: here 1 to the
    power of 0 or of -1.
    """
    tracing = value.tracing
    power = tracing.cast(problem.node, np.dtype(np.int64))
    power = tracing.node("negative", [power])
    base = make_constant(1, np.dtype(np.int64))
    one = tracing.cast(tracing.node("power", [base, power]), value.dtype)
    return tracing.wrap(tracing.node("multiply", [value.node, one]), value.generic)


# -- choice, limits, rounding ---------------------------------------------------------------


@handles(np.where)
def _where(tracing: Tracing, condition: Any, x: Any = None, y: Any = None) -> Any:
    """np.where with all three operands."""
    if x is None or y is None:
        raise Unsupported(
            "unsupported-function", "np.where", "with one operand it searches for indices"
        )
    operands = [tracing.operand(value) for value in (condition, x, y)]
    dtype = result_type(*operands[1:])
    mask = tracing.operand_node(operands[0], np.dtype(bool))
    for choice in operands[1:]:
        if not fits_dtype(choice, dtype):  # np.where lets it wrap around
            raise Unsupported("scalar-range", "np.where", f"{choice!r} against {dtype}")
    nodes = [tracing.operand_node(value, dtype) for value in operands[1:]]
    return tracing.wrap(tracing.node("where", [mask, *nodes]))


@handles(np.clip)
def _clip(
    tracing: Tracing,
    a: Any,
    a_min: Any = None,
    a_max: Any = None,
    out: Any = None,
    *,
    min: Any = None,
    max: Any = None,
    **options: Any,
) -> Any:
    """np.clip: the larger of a and a_min, then the smaller of that and a_max."""
    _refuse("clip", **options)
    low = min if a_min is None else a_min
    high = max if a_max is None else a_max
    value = tracing.operand(a)
    if isinstance(value, TracedArray) and value.dtype.kind in "iu":
        # NumPy leaves Python integers out that limit nothing (_methods.py, _clip).
        limits = np.iinfo(value.dtype)
        low = None if type(low) is int and low <= limits.min else low
        high = None if type(high) is int and high >= limits.max else high
    bounds = [tracing.operand(b) for b in (low, high) if b is not None]
    operands = [value, *bounds]
    ufunc = {0: np.positive, 1: np.maximum, 2: np.maximum}[len(bounds)]
    dtype = result_type(*operands) if len(bounds) == 2 else None
    wanted = dtype or loop_dtypes(ufunc, operands, None, "same_kind")[0]
    for bound in bounds:
        if not fits_dtype(bound, wanted):
            raise Unsupported("scalar-range", "np.clip", f"{bound!r} against {wanted}")
    node = tracing.operand_node(value, wanted)
    limits_ = [tracing.operand_node(bound, wanted) for bound in bounds]
    # NumPy's loop for two scalar bounds keeps a zero that equals a bound; of equal operands
    # maximum and minimum give the second, in float16 the first.
    keep = len(bounds) == 2 and wanted.name in ("float32", "float64")
    keep = keep and not any(limit.shape for limit in limits_)
    if not bounds:
        node = tracing.own(node, wanted, "K")
    if low is not None:
        node = tracing.node("maximum", [limits_[0], node] if keep else [node, limits_[0]])
    if high is not None:
        node = tracing.node("minimum", [limits_[-1], node] if keep else [node, limits_[-1]])
    if out is not None:
        return tracing.write(out, node, True, "same_kind", "clip")
    return tracing.wrap(node, not node.shape)


_INTEGERS = np.arange(2)
#: Whether np.round of integers is the array itself, as before NumPy 2.4.
_KEEPS_INTEGERS = np.round(_INTEGERS) is _INTEGERS


@handles(np.round, np.around)
def _round(tracing: Tracing, a: Any, decimals: Any = 0, out: Any = None) -> Any:
    """np.round: half to even, scaled by a power of ten as NumPy scales."""
    x = _array(tracing, a)
    digits = index(decimals)
    if x.dtype.kind == "b":
        raise Unsupported("unsupported-argument", "np.round", "a bool array")
    if x.dtype.kind != "f":
        if digits < 0:
            raise Unsupported("unsupported-argument", "np.round", "integers with decimals below 0")
        if _KEEPS_INTEGERS and x.dtype.kind in "iu" and out is None and x is a and x.node.shape:
            return x
        node = tracing.own(x.node, x.dtype, "K")
    elif digits == 0:
        node = tracing.node("rint", [x.node])
    else:
        scale = make_constant(float(10 ** abs(digits)), x.dtype)
        first, last = ("multiply", "divide") if digits > 0 else ("divide", "multiply")
        node = tracing.node("rint", [tracing.node(first, [x.node, scale])])
        node = tracing.node(last, [node, scale])
        if len(node.shape) > 1:
            node = tracing.own(node, x.dtype, "A", 0, 0, 0, 0)
    if out is not None:
        if not isinstance(out, TracedArray) or not tracing.same_lengths(out.dims, node.shape):
            raise Unsupported("unsupported-argument", "np.round", "out= of another shape")
        tracing.hold_lengths(out.dims, node.shape)
        return tracing.write(out, node, True, "same_kind", "round")
    return tracing.wrap(node, not node.shape)


@handles(np.imag)
def _imag(tracing: Tracing, val: Any) -> Any:
    """Imaginary parts; zeros of a real array."""
    array = _array(tracing, val)
    if array.dtype.kind == "c":
        return array.imag
    none = _zeros_like(tracing, array)
    if array.generic:
        return tracing.wrap(none.node, generic=True)
    if array.ndim > 1:
        none = tracing.wrap(tracing.own(none.node, none.dtype, "A", 0, 2, 0))
    return none._view(Broadcast(none.dims))  # NumPy's are read-only, too


# -- new arrays -----------------------------------------------------------------------------


def _filled(tracing: Tracing, a: Any, value: Any, dtype: Any, options: dict[str, Any]) -> Any:
    """An array of a's shape with one value everywhere."""
    if options.pop("order", "K") != "K" or options.pop("shape", None) is not None:
        raise Unsupported("unsupported-argument", "np.full_like", "order= or shape=")
    options.pop("subok", None)
    options.pop("device", None)
    like = _array(tracing, a)
    wanted = like.dtype if dtype is None else infer.dtype_of(dtype)
    node = tracing.operand_node(tracing.operand(value), wanted)
    shape = Broadcast(like.dims)
    # Its memory order follows the prototype's: the value depends on it in name only.
    keep = tracing.node(
        "where", [make_constant(True, bool), node, tracing.own(like.node, wanted, "K")]
    )
    return tracing.wrap(tracing.node("broadcast_to", [node], shape) if not like.dims else keep)


@handles(np.zeros_like)
def _zeros_like(tracing: Tracing, a: Any, dtype: Any = None, **options: Any) -> Any:
    """np.zeros_like: one number everywhere, where NumPy's own code copies an array of one."""
    return _filled(tracing, a, 0, dtype, options)


@handles(np.ones_like)
def _ones_like(tracing: Tracing, a: Any, dtype: Any = None, **options: Any) -> Any:
    """np.ones_like."""
    return _filled(tracing, a, 1, dtype, options)


@handles(np.full_like)
def _full_like(tracing: Tracing, a: Any, fill_value: Any, dtype: Any = None, **options: Any) -> Any:
    """np.full_like."""
    return _filled(tracing, a, fill_value, dtype, options)


@handles(np.empty_like)
def _empty_like(tracing: Tracing, prototype: Any, dtype: Any = None, **options: Any) -> Any:
    """np.empty_like: unset values may be anything, so zeros, or what a loop finds there."""
    found = _filled(tracing, prototype, 0, dtype, options)
    if isinstance(found, TracedArray) and found.dims:
        found.storage.unset = _array(tracing, prototype)
    return found


#: Kinds of numbers, each of which NumPy takes for those after it.
_KINDS = "bifc"


@handles(np.copyto)
def _copyto(
    tracing: Tracing, dst: Any, src: Any, casting: str = "same_kind", where: Any = True
) -> None:
    """np.copyto."""
    plain = tracing.operand(src)
    target = _array(tracing, dst)
    dtype = plain.dtype if isinstance(plain, (TracedArray, np.generic)) else target.dtype
    if not isinstance(plain, (TracedArray, np.generic)) and casting != "unsafe":
        kind = plain.kind if type(plain) is HostScalar else type(plain)
        if casting != "same_kind":
            raise Unsupported("unsupported-argument", "np.copyto", f"a number, casting={casting!r}")
        if _KINDS.index(np.dtype(kind).kind) > _KINDS.index(dtype.kind.replace("u", "i")):
            found = np.dtype(kind)
            raise TypeError(
                f"Cannot cast scalar from {found!r} to {dtype!r} according to the rule 'same_kind'"
            )
    tracing.write(dst, tracing.operand_node(plain, dtype), where, casting, "copyto")


# -- questions about arrays -----------------------------------------------------------------


@handles(np.result_type)
def _result_type(tracing: Tracing, *values: Any) -> Any:
    """np.result_type."""
    plain = [getattr(v, "hint", v) if type(v) is HostScalar else v for v in values]
    return np.result_type(*(v.dtype if isinstance(v, TracedArray) else v for v in plain))


@handles(np.can_cast)
def _can_cast(tracing: Tracing, from_: Any, to: Any, casting: str = "safe") -> Any:
    """np.can_cast."""
    source = from_.dtype if isinstance(from_, TracedArray) else from_
    return np.can_cast(source, to, casting)  # type: ignore[arg-type]


@handles(np.broadcast_to)
def _broadcast_to(tracing: Tracing, array: Any, shape: Any, subok: bool = False) -> Any:
    """np.broadcast_to."""
    x = _array(tracing, array)
    wanted: list[dims.Dim] = []
    for entry in _sequence(shape):
        if isinstance(entry, HostScalar):
            from fuser.tracing.indices import length_of

            wanted.append(length_of(entry))
        else:
            wanted.append(int(entry))
    if not tracing.fits_into(wanted, x.dims):
        raise ValueError("input operand has more dimensions than allowed by the axis remapping")
    return x._view(Broadcast(tuple(wanted)))


@handles(np.broadcast_arrays)
def _broadcast_arrays(tracing: Tracing, *args: Any, subok: bool = False) -> Any:
    """np.broadcast_arrays."""
    arrays = [_array(tracing, a) for a in args]
    arrays = [tracing.wrap(a.node) if a.generic else a for a in arrays]
    found = tracing.broadcast("broadcast_arrays", [a.dims for a in arrays])
    shape = tuple(map(tracing.resolve, found))
    alike = [tuple(map(tracing.resolve, a.dims)) == shape for a in arrays]
    seen = tuple(
        a if same else a._view(Broadcast(shape)) for a, same in zip(arrays, alike, strict=True)
    )
    tracing.repeated += [a for a, same in zip(seen, alike, strict=True) if not same]
    return seen
