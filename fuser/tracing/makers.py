"""Makers of arrays while a function is traced: `np.zeros(x.shape)`, `np.asarray(x)` and others.

`namespace` puts them in the place of NumPy's own. What is made is part of the graph where a length
is traced or an array is; anything else is NumPy's.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from fuser.base.errors import DtypeError, Unsupported
from fuser.ir import infer
from fuser.ir.dims import Dim
from fuser.ir.graph import Node
from fuser.ir.views import Broadcast
from fuser.tracing.admitted_dtypes import is_known
from fuser.tracing.late_lists import is_late
from fuser.tracing.trace_state import Tracing
from fuser.tracing.traced_array import TracedArray
from fuser.tracing.traced_scalars import HostScalar


def stand_in(tracing: Tracing, maker: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """What a maker gives, as an array of the trace: results may be written into it."""
    made = maker(*args, **kwargs)
    if type(made) is not np.ndarray or not is_plain(made.dtype):
        return made
    if not _is_new(made, (*args, *kwargs.values())):  # writes into it are writes into another one
        return made
    node = tracing.capture(made).node
    return tracing.wrap(tracing.own(node, made.dtype, "K"))


def _is_new(made: Any, given: Sequence[Any]) -> bool:
    """Whether nothing that was given to a maker has the memory of what it made."""
    if any(hasattr(each, "__array__") and not isinstance(each, np.ndarray | np.generic)
           for each in given):  # fmt: skip
        return False
    while isinstance(made.base, np.ndarray):
        made = made.base
    if made.base is not None or not made.flags.owndata:
        return False
    arrays = [each for each in given if isinstance(each, np.ndarray)]
    return not any(np.may_share_memory(made, each) for each in arrays)


def is_plain(dtype: np.dtype[Any]) -> bool:
    """Whether the kernels that are traced for know a dtype."""
    return is_known(dtype) and dtype.isnative


def _shape_dims(shape: Any, always: bool = False) -> tuple[Dim, ...] | None:
    """Lengths, where one of them is traced; or `always`."""
    from fuser.tracing.indices import length_of

    entries = shape if isinstance(shape, (tuple, list)) else (shape,)
    if not always and not any(type(entry) is HostScalar for entry in entries):
        return None
    whole = all((e.kind if type(e) is HostScalar else type(e)) is int for e in entries)
    if not whole or any(_size_now(e) < 0 for e in entries):
        return None
    return tuple(length_of(e) if type(e) is HostScalar else int(e) for e in entries)


def _size_now(entry: Any) -> int:
    """A length in this call."""
    return int(entry.hint if type(entry) is HostScalar else entry)


def _filled(
    tracing: Tracing, name: str, shape: Any, value: Any, dtype: Any, options: Mapping[str, Any]
) -> Any:
    """An array of one value; NumPy's own function where no length is traced."""
    dims = _shape_dims(shape, tracing.arrays)
    plain = all(v is None or (k == "order" and v == "C") for k, v in options.items())
    try:
        wanted = infer.dtype_of(dtype) if dims is not None and plain else None
    except (DtypeError, TypeError):
        wanted = None
    if type(shape) is HostScalar and shape.kind is bool:
        shape = bool(shape)  # which NumPy takes for no length, unlike an object with an index
    if wanted is None or not is_known(wanted) or dims is None:
        given = (shape,) if name != "full" else (shape, value)
        if name == "full" and dtype is None:
            return np.full(*given, **options)
        return getattr(np, name)(*given, dtype=dtype, **options)
    node = tracing.operand_node(tracing.operand(value), wanted)
    wide = tracing.node("broadcast_to", [node], Broadcast(dims))
    return tracing.wrap(tracing.own(wide, wanted, "C"))


def blank(tracing: Tracing, dims: tuple[Dim, ...], dtype: np.dtype[Any]) -> Node:
    """Zeros that nothing writes into: they take no memory."""
    node = tracing.operand_node(tracing.operand(0), dtype)
    wide: Node = tracing.node("broadcast_to", [node], Broadcast(dims))
    return wide


def unset(tracing: Tracing, dims: tuple[Dim, ...], dtype: np.dtype[Any]) -> TracedArray:
    """An array whose elements have no values yet: zeros, or what a loop finds that writes them."""
    found: TracedArray = tracing.wrap(tracing.own(blank(tracing, dims, dtype), dtype, "C"))
    found.storage.unset = dims
    return found


def _zeros(
    tracing: Tracing, shape: Any, dtype: Any = float, order: str = "C", **options: Any
) -> Any:
    """np.zeros."""
    return _filled(tracing, "zeros", shape, 0, dtype, {"order": order, **options})


def _ones(
    tracing: Tracing, shape: Any, dtype: Any = None, order: str = "C", **options: Any
) -> Any:
    """np.ones."""
    wanted = float if dtype is None else dtype
    return _filled(tracing, "ones", shape, 1, wanted, {"order": order, **options})


def _empty(
    tracing: Tracing, shape: Any, dtype: Any = float, order: str = "C", **options: Any
) -> Any:
    """np.empty: unset values may be anything, so zeros, or what a loop finds that writes them."""
    found = _filled(tracing, "empty", shape, 0, dtype, {"order": order, **options})
    if isinstance(found, TracedArray):
        found.storage.unset = found.dims
    return found


def of_class(kind: Any) -> Callable[..., Any] | None:
    """What stands for a class of NumPy's where it is called: of the trace, and arguments."""
    if kind is np.ndarray:
        return _ndarray
    return partial(_number, kind) if type(kind) is type and kind in _NUMBERS else None


def _number(kind: type[np.generic], tracing: Tracing, *args: Any) -> Any:
    """A class of numbers: `np.float32(x)` of an array is an array; itself, if it is of these."""
    value = _seen(tracing, args[0], kind) if len(args) == 1 else None
    if not isinstance(value, TracedArray):
        return kind(*args)
    if value.dtype.kind == "c" and not issubclass(kind, np.complexfloating):
        return kind(*args)  # NumPy warns, or raises
    made = value.astype(kind, copy=False)
    return made if value.ndim else tracing.wrap(made.node, True)


def _seen(tracing: Tracing, value: Any, dtype: Any) -> Any:
    """A traced array of a loop's list, or what becomes an array of floats; all else as it is."""
    if is_late(value):
        return value.array(None if dtype is None else np.dtype(dtype))
    if type(value) is not HostScalar or value.kind not in (int, float):
        return value
    wanted = np.dtype(value.kind) if dtype is None else infer.dtype_of(dtype)
    if wanted.kind != "f" or not is_plain(wanted):
        return value
    return tracing.wrap(tracing.operand_node(tracing.operand(value), wanted))


def _ndarray(
    tracing: Tracing, shape: Any, dtype: Any = float, *args: Any, order: Any = None, **options: Any
) -> Any:
    """np.ndarray as a maker: as np.empty, where nothing but a dtype and C order is asked for."""
    if args or options:
        ordered = {} if order is None else {"order": order}
        made: Any = np.ndarray
        return made(shape, dtype, *args, **ordered, **options)
    return _empty(tracing, shape, dtype, "C" if order is None else order)


def _full(
    tracing: Tracing, shape: Any, fill_value: Any, dtype: Any = None, order: str = "C",
    **options: Any,
) -> Any:  # fmt: skip
    """np.full; of one number."""
    options = {"order": order, **options}
    if isinstance(fill_value, TracedArray) and order == "C" and set(options) == {"order"}:
        lengths = shape if isinstance(shape, (tuple, list)) else (shape,)
        wide: Any = np.broadcast_to(fill_value, tuple(lengths))
        wanted = fill_value.dtype if dtype is None else infer.dtype_of(dtype)
        return tracing.wrap(tracing.own(wide.node, wanted, "C"))
    number = type(fill_value) in (bool, int, float, complex, HostScalar)
    if not number and not isinstance(fill_value, np.generic):
        return np.full(shape, fill_value, dtype, **options)
    wanted = dtype
    if dtype is None and _shape_dims(shape, tracing.arrays) is not None:
        hint = getattr(fill_value, "hint", fill_value)
        wanted = np.asarray(hint).dtype
    return _filled(tracing, "full", shape, fill_value, wanted, options)


def _asarray(
    tracing: Tracing, a: Any, dtype: Any = None, order: Any = None, **options: Any
) -> Any:
    """np.asarray of a traced array: itself, or converted."""
    from fuser.tracing import sequences

    a = _seen(tracing, a, dtype)
    if isinstance(a, TracedArray) and order in (None, "K", "A") and not _given(options):
        if dtype is None:
            return tracing.wrap(a.node) if a.generic else a
        return a.astype(dtype, copy=False)
    if order is None and sequences.has_traced(a) and not _given(options):
        return sequences.put_together(tracing, a, dtype)
    return np.asarray(a, dtype=dtype, order=order, **options)


def _array(
    tracing: Tracing, object: Any, dtype: Any = None, *, copy: Any = True, order: Any = "K",
    subok: bool = False, ndmin: int = 0, like: Any = None,
) -> Any:  # fmt: skip
    """np.array: a copy of a traced array, or traced values of one shape put together."""
    from fuser.tracing import sequences

    source = _seen(tracing, object, dtype)
    if source is not object and is_late(object) and dtype in (None, source.dtype):
        return source  # it is new
    alone = isinstance(source, TracedArray)
    usual = order in (None, "K") or (alone and copy is True and order in ("C", "F"))
    itself = alone and not source.generic and dtype in (None, source.dtype)
    usual = usual and like is None and (copy is True or copy is None or itself)
    if not usual or not (alone or sequences.has_traced(source)):
        given = {} if like is None else {"like": like}
        return np.array(
            source, dtype=dtype, copy=copy, order=order, subok=subok, ndmin=ndmin, **given
        )
    if not alone:
        made = sequences.put_together(tracing, source, dtype)
    elif copy is True:
        whole = source if dtype is None else source.astype(dtype, copy=False)
        made = tracing.wrap(whole.copy("K" if order is None else order).node)
    else:
        made = _asarray(tracing, source, dtype)
    return made[(None,) * (ndmin - made.ndim)] if made.ndim < ndmin else made


def _given(options: Mapping[str, Any]) -> bool:
    """Whether an option says anything."""
    return any(value is not None for value in options.values())


def _contiguous(tracing: Tracing, a: Any, dtype: Any = None, **options: Any) -> Any:
    """np.ascontiguousarray of a traced array: itself or a copy in C order, of an axis at least."""
    if not isinstance(a, TracedArray) or _given(options):
        return np.ascontiguousarray(a, dtype=dtype, **options)
    wanted = a.dtype if dtype is None else infer.dtype_of(dtype)
    whole = a if a.ndim else a[None]
    place = a.storage.argument
    if tracing.by_identity and place is not None and not whole.views and wanted == a.dtype:
        if not tracing.arguments[place].array.flags.c_contiguous:
            found = "the function compares arrays by `is`, and one that is copied here"
            raise Unsupported("not-traceable", "np.ascontiguousarray", found)
        tracing.in_order[place] = None
        return whole
    if wanted == a.dtype and not whole.generic:
        return whole._contiguous("C")
    return tracing.wrap(tracing.own(whole.node, wanted, "C"))


def _counting(name: str) -> Callable[..., Any]:
    """A maker of `counting`, which is imported when it is called first."""

    def maker(*args: Any, **kwargs: Any) -> Any:
        from fuser.tracing import counting

        return counting.MAKERS[name](*args, **kwargs)

    return maker


MAKERS: dict[str, Callable[..., Any]] = {
    "zeros": _zeros, "ones": _ones, "empty": _empty, "full": _full, "asarray": _asarray,
    "asanyarray": _asarray, "array": _array, "ascontiguousarray": _contiguous,
    "arange": _counting("arange"), "linspace": _counting("linspace"),
    "indices": _counting("indices"), "tri": _counting("tri"), "eye": _counting("eye"),
    "identity": _counting("identity"),
}  # fmt: skip
#: NumPy's classes of numbers and truths; what has no dtype of kernels is refused where it is made.
_NUMBERS = frozenset(
    kind for kind in np.sctypeDict.values() if issubclass(kind, (np.number, np.bool_))
)
