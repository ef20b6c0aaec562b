"""NumPy as a traced function sees it: array makers that take traced lengths and arrays.

NumPy's protocols reach a tracer only through functions that take arrays. `np.zeros(x.shape)` or
`np.asarray(x)` would turn a traced length into a number, or fail. So while it is traced, a function
runs with other globals: the same ones, but for NumPy's module, in which these few makers are ours.
The function itself, and what others see, is not changed.
"""

from __future__ import annotations

import dis
from collections.abc import Callable, Mapping
from functools import lru_cache, partial
from types import CellType, CodeType, FunctionType, MethodType
from typing import TYPE_CHECKING, Any

import numpy as np

from fuser import infer
from fuser.errors import DtypeError
from fuser.tracing import counting
from fuser.tracing.indices import length_of
from fuser.tracing.scalars import HostScalar
from fuser.tracing.traced_array import TracedArray

if TYPE_CHECKING:
    from fuser.tracer import Tracing

#: Functions of these packages do not see the arguments' shapes before NumPy does.
_FOREIGN = ("numpy", "fuser", "scipy", "pandas", "cupy")


def traced(function: Callable[..., Any], tracing: Tracing) -> Callable[..., Any]:
    """The same function with NumPy's array makers replaced; itself where that cannot be.

    Args:
        function: a Python function or method; others are returned as they are.
        tracing: where the makers put what they make.
    """
    found: Callable[..., Any] = _Substitution(tracing).callable(function)
    return found


class _Substitution:
    """One trace's replacements: each function and namespace is replaced once."""

    def __init__(self, tracing: Tracing) -> None:
        self.numpy = _Module(tracing)
        self.functions: dict[int, Any] = {}
        self.namespaces: dict[int, _Names] = {}
        self.makers = {id(getattr(np, name)): name for name in _MAKERS}

    def callable(self, function: Any) -> Any:
        """A function whose globals and closure are seen through this substitution."""
        if type(function) is MethodType:
            plain = self.callable(function.__func__)
            same = plain is function.__func__
            return function if same else MethodType(plain, function.__self__)
        if type(function) is not FunctionType or not _substitutable(function):
            return function
        found = self.functions.get(id(function))
        if found is None:
            found = self.functions[id(function)] = self._copy(function)
        return found

    def _copy(self, function: FunctionType) -> FunctionType:
        """The function with other globals and cells."""
        names = self.namespaces.get(id(function.__globals__))
        if names is None:
            names = self.namespaces[id(function.__globals__)] = _Names(self, function.__globals__)
        closure = function.__closure__
        if closure is not None:
            closure = tuple(self._cell(cell) for cell in closure)
        copy = FunctionType(
            function.__code__, names, function.__name__, function.__defaults__, closure
        )
        copy.__kwdefaults__ = function.__kwdefaults__
        copy.__dict__ = function.__dict__  # what is set on it shows, and is put back
        copy.__qualname__, copy.__module__ = function.__qualname__, function.__module__
        return copy

    def _cell(self, cell: CellType) -> CellType:
        """A cell with a replaced value, or the cell itself."""
        try:
            value = cell.cell_contents
        except ValueError:  # not set yet
            return cell
        new = self.value(value)
        return cell if new is value else CellType(new)

    def value(self, value: Any) -> Any:
        """What a name stands for while tracing."""
        if value is np:
            return self.numpy
        if id(value) in self.makers:
            return getattr(self.numpy, self.makers[id(value)])
        return self.callable(value) if type(value) is FunctionType else value


def _substitutable(function: FunctionType) -> bool:
    """Whether a copy of a function does what the function does."""
    module = (function.__module__ or "").partition(".")[0]
    return module not in _FOREIGN and not _writes_globals(function.__code__)


@lru_cache(maxsize=1024)
def _writes_globals(code: CodeType) -> bool:
    """Whether a function, or one inside it, assigns to global names or to its closure's."""
    writes = ("STORE_GLOBAL", "DELETE_GLOBAL")
    free = set(code.co_freevars)
    for step in dis.get_instructions(code):
        if step.opname in writes or (step.opname == "STORE_DEREF" and step.argval in free):
            return True
    return any(_writes_globals(part) for part in code.co_consts if isinstance(part, CodeType))


class _Names(dict[str, Any]):
    """A module's globals, looked up when they are needed."""

    def __init__(self, substitution: _Substitution, original: dict[str, Any]) -> None:
        super().__init__({"__builtins__": original.get("__builtins__", __builtins__)})
        self._substitution = substitution
        self._original = original

    def __missing__(self, key: str) -> Any:
        """A global of the module, replaced where it is NumPy's."""
        if key == "len" and key not in self._original:
            return _len
        return self._substitution.value(self._original[key])


class _Module:
    """NumPy with some functions replaced."""

    def __init__(self, tracing: Tracing) -> None:
        self._tracing = tracing

    def __getattr__(self, name: str) -> Any:
        """NumPy's own, or a maker of this trace."""
        maker = _MAKERS.get(name)
        return getattr(np, name) if maker is None else partial(maker, self._tracing)


def _len(value: Any, /) -> Any:
    """`len`, which of a traced array stays symbolic, as `x.shape[0]` does."""
    return value.shape[0] if isinstance(value, TracedArray) and value.ndim else len(value)


# -- makers ---------------------------------------------------------------------------------


def _shape_dims(shape: Any) -> tuple[str, ...] | None:
    """Lengths as text where one of them is traced."""
    entries = shape if isinstance(shape, (tuple, list)) else (shape,)
    if not any(type(entry) is HostScalar for entry in entries):
        return None
    whole = all(type(e) is HostScalar or type(e) is int for e in entries)
    if not whole or any(_size_now(e) < 0 for e in entries):
        return None
    return tuple(str(length_of(e)) if type(e) is HostScalar else str(e) for e in entries)


def _size_now(entry: Any) -> int:
    """A length in this call."""
    return int(entry.hint if type(entry) is HostScalar else entry)


def _filled(
    tracing: Tracing, name: str, shape: Any, value: Any, dtype: Any, options: Mapping[str, Any]
) -> Any:
    """An array of one value; NumPy's own function where no length is traced."""
    dims = _shape_dims(shape)
    plain = all(v is None or (k == "order" and v == "C") for k, v in options.items())
    try:
        wanted = infer.dtype_of(dtype) if dims is not None and plain else None
    except (DtypeError, TypeError):
        wanted = None
    if wanted is None or wanted.kind not in "biuf" or wanted.itemsize > 8 or dims is None:
        given = (shape,) if name != "full" else (shape, value)
        if name == "full" and dtype is None:
            return np.full(*given, **options)
        return getattr(np, name)(*given, dtype=dtype, **options)
    node = tracing.operand_node(tracing.operand(value), wanted)
    wide = tracing.node("broadcast_to", [node], ", ".join(dims))
    return tracing.wrap(tracing.own(wide, wanted, "C"))


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
    """np.empty: unset values may be anything, so zeros."""
    return _filled(tracing, "empty", shape, 0, dtype, {"order": order, **options})


def _full(
    tracing: Tracing, shape: Any, fill_value: Any, dtype: Any = None, order: str = "C",
    **options: Any,
) -> Any:  # fmt: skip
    """np.full; of one number."""
    options = {"order": order, **options}
    number = type(fill_value) in (bool, int, float, HostScalar)
    if not number and not isinstance(fill_value, np.generic):
        return np.full(shape, fill_value, dtype, **options)
    wanted = dtype
    if dtype is None and _shape_dims(shape) is not None:
        hint = getattr(fill_value, "hint", fill_value)
        wanted = np.asarray(hint).dtype
    return _filled(tracing, "full", shape, fill_value, wanted, options)


def _asarray(
    tracing: Tracing, a: Any, dtype: Any = None, order: Any = None, **options: Any
) -> Any:
    """np.asarray of a traced array: itself, or converted."""
    if isinstance(a, TracedArray) and order in (None, "K", "A") and not _given(options):
        if dtype is None:
            return tracing.wrap(a.node) if a.generic else a
        return a.astype(dtype, copy=False)
    return np.asarray(a, dtype=dtype, order=order, **options)


def _array(tracing: Tracing, object: Any, dtype: Any = None, **options: Any) -> Any:
    """np.array: a copy of a traced array, or traced values of one shape put together."""
    plain = not _given({k: v for k, v in options.items() if (k, v) != ("copy", True)})
    if plain and isinstance(object, TracedArray):
        wanted = object.dtype if dtype is None else infer.dtype_of(dtype)
        return tracing.wrap(tracing.own(object.node, wanted, "K"))
    if plain and isinstance(object, (list, tuple)) and _has_traced(object):
        made = _put_together(object)
        if made is not None:
            return made if dtype is None else made.astype(dtype, copy=False)
    return np.array(object, dtype=dtype, **options)


def _given(options: Mapping[str, Any]) -> bool:
    """Whether an option says anything."""
    return any(value is not None for value in options.values())


def _has_traced(values: Any) -> bool:
    """Whether a nested sequence holds a traced array."""
    return any(
        isinstance(v, TracedArray) or (isinstance(v, (list, tuple)) and _has_traced(v))
        for v in values
    )


def _put_together(values: Any) -> Any:
    """Traced arrays of one rank, or sequences of them, along a new first axis; else None."""
    parts = [_put_together(v) if isinstance(v, (list, tuple)) else v for v in values]
    if not all(isinstance(part, TracedArray) for part in parts):
        return None
    if len({part.ndim for part in parts}) != 1:
        return None
    return np.stack(parts)


def _contiguous(tracing: Tracing, a: Any, dtype: Any = None, **options: Any) -> Any:
    """np.ascontiguousarray of a traced array: a copy in C order of at least one axis."""
    if not isinstance(a, TracedArray) or _given(options):
        return np.ascontiguousarray(a, dtype=dtype, **options)
    wanted = a.dtype if dtype is None else infer.dtype_of(dtype)
    whole = tracing.wrap(a.node) if a.ndim else a[None]
    made = tracing.wrap(tracing.own(whole.node, wanted, "C"))
    if wanted == a.dtype:  # of memory in C order it is a view
        a.storage.shared = made.storage.shared = True
    return made


_MAKERS: dict[str, Callable[..., Any]] = {
    "zeros": _zeros, "ones": _ones, "empty": _empty, "full": _full, "asarray": _asarray,
    "asanyarray": _asarray, "array": _array, "ascontiguousarray": _contiguous,
    "arange": counting.arange, "linspace": counting.linspace, "indices": counting.indices,
    "tri": counting.tri, "eye": counting.eye, "identity": counting.identity,
}  # fmt: skip
