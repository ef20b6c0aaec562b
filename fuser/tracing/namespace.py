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
from fuser.tracing import counting, sequences
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
        self.tracing = tracing
        self.numpy = _Module(tracing, np)
        self.plain = _Module(tracing, np, takes_lists=False)
        self.functions: dict[int, Any] = {}
        self.namespaces: dict[tuple[int, bool], _Names] = {}
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
        numpy = self.plain if _compares_identity(function.__code__) else self.numpy
        key = id(function.__globals__), numpy is self.plain
        names = self.namespaces.get(key)
        if names is None:
            names = self.namespaces[key] = _Names(self, function.__globals__, numpy)
        closure = function.__closure__
        if closure is not None:
            closure = tuple(self._cell(cell, numpy) for cell in closure)
        copy = FunctionType(
            function.__code__, names, function.__name__, function.__defaults__, closure
        )
        copy.__kwdefaults__ = function.__kwdefaults__
        copy.__dict__ = function.__dict__  # what is set on it shows, and is put back
        copy.__qualname__, copy.__module__ = function.__qualname__, function.__module__
        return copy

    def _cell(self, cell: CellType, numpy: _Module) -> CellType:
        """A cell with a replaced value, or the cell itself."""
        try:
            value = cell.cell_contents
        except ValueError:  # not set yet
            return cell
        new = self.value(value, numpy)
        return cell if new is value else CellType(new)

    def value(self, value: Any, numpy: _Module) -> Any:
        """What a name stands for while tracing, in code that sees this NumPy."""
        if value is np:
            return numpy
        if id(value) in self.makers:
            return getattr(numpy, self.makers[id(value)])
        if type(value) is _DISPATCHED:
            return numpy.taking_lists(value)
        if type(value) is np.ndarray and self.tracing.arrays and _is_plain(value.dtype):
            return self.tracing.capture(value)
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


@lru_cache(maxsize=1024)
def _compares_identity(code: CodeType) -> bool:
    """Whether a function may ask for the identity of anything but None, True and False."""
    before: Any = None
    for step in dis.get_instructions(code):
        if step.opname == "IS_OP" and not _is_constant(before):
            return True
        before = step
    return any(_compares_identity(part) for part in code.co_consts if isinstance(part, CodeType))


def _is_constant(step: Any) -> bool:
    """Whether an instruction puts None, True or False on the stack."""
    known = (None, True, False)
    return step.opname == "LOAD_CONST" and any(step.argval is each for each in known)


class _Names(dict[str, Any]):
    """A module's globals, looked up when they are needed."""

    def __init__(
        self, substitution: _Substitution, original: dict[str, Any], numpy: _Module
    ) -> None:
        super().__init__({"__builtins__": original.get("__builtins__", __builtins__)})
        self._substitution = substitution
        self._original = original
        self._numpy = numpy

    def __missing__(self, key: str) -> Any:
        """A global of the module, replaced where it is NumPy's."""
        if key == "len" and key not in self._original:
            return _len
        return self._substitution.value(self._original[key], self._numpy)


class _Module:
    """NumPy, or a part of it, with some functions replaced."""

    def __init__(self, tracing: Tracing, module: Any, takes_lists: bool = True) -> None:
        self._tracing = tracing
        self._module = module
        self._takes_lists = takes_lists
        self._taking: dict[int, Any] = {}

    def __getattr__(self, name: str) -> Any:
        """NumPy's own, or a maker of this trace."""
        if self._module is np:
            maker = _MAKERS.get(name)
            if maker is not None:
                bound = partial(maker, self._tracing)
                return partial(_stand_in, self._tracing, bound) if self._tracing.arrays else bound
            if name in _JOINERS:
                return _Joiner(self._tracing, name)
            if name == "linalg":
                return _Module(self._tracing, np.linalg, self._takes_lists)
        found = getattr(self._module, name)
        return self.taking_lists(found) if type(found) is _DISPATCHED else found

    def taking_lists(self, function: Any) -> Any:
        """A NumPy function that takes lists with traced values, which no protocol tells of."""
        if not self._takes_lists:
            return function
        made = self._taking.get(id(function))
        if made is None:
            made = self._taking[id(function)] = TakingLists(self._tracing, function)
        return made


#: NumPy's functions that hand their arguments over to `__array_function__`.
_DISPATCHED = type(np.sum)


class TakingLists:
    """A NumPy function while it is traced: called with lists, it is traced, too."""

    def __init__(self, tracing: Tracing, function: Any) -> None:
        """Stand for `function`."""
        self._tracing = tracing
        self.__wrapped__ = function

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Run or trace the function."""
        if any(sequences.has_traced(value) for value in (*args, *kwargs.values())):
            return self._tracing.apply_function(self.__wrapped__, args, kwargs)
        return self.__wrapped__(*args, **kwargs)

    def __getattr__(self, name: str) -> Any:
        """Everything else is the function's own."""
        return getattr(self.__wrapped__, name)

    def __eq__(self, other: object) -> bool:
        """Equal to the function."""
        return plain_function(other) is self.__wrapped__

    def __hash__(self) -> int:
        """The function's."""
        return hash(self.__wrapped__)

    def __repr__(self) -> str:
        """The function's."""
        return repr(self.__wrapped__)


def plain_function(value: Any) -> Any:
    """NumPy's own function where a trace has put another in its place."""
    return value.__wrapped__ if type(value) is TakingLists else value


def original(
    function: FunctionType, traced: list[Any] | None = None, free: Any = None
) -> FunctionType | None:
    """A function without what a trace has put into its globals and cells.

    None where it reaches what is known only while tracing, but for arrays and numbers in its own
    cells, where `traced` is given: they are added to it, and their cells hold `free`.
    """
    names, cells = function.__globals__, function.__closure__ or ()
    try:
        held = [cell.cell_contents for cell in cells]
    except ValueError:  # a cell that nothing has been put into
        return None
    given = [*(function.__defaults__ or ()), *(function.__kwdefaults__ or {}).values()]
    plain = [_untraced(value) for value in held]
    for place, value in enumerate(held):
        if traced is not None and isinstance(value, (TracedArray, HostScalar)):
            traced.append(value)
            plain[place] = free
    if any(value is _TRACED for value in (*plain, *map(_untraced, given))):
        return None
    same = all(new is old for new, old in zip(plain, held, strict=True))
    if type(names) is not _Names and same:
        return function
    known = names._original if type(names) is _Names else names
    closure = tuple(
        cell if new is old else CellType(new)
        for cell, old, new in zip(cells, held, plain, strict=True)
    )
    made = FunctionType(
        function.__code__, known, function.__name__, function.__defaults__, closure or None
    )
    made.__kwdefaults__ = function.__kwdefaults__
    made.__qualname__, made.__module__ = function.__qualname__, function.__module__
    return made


_TRACED = object()


def _untraced(value: Any) -> Any:
    """What a name stands for without a trace; `_TRACED` for what is known only in it."""
    if issubclass(type(value), (TracedArray, HostScalar)) or type(value) in (partial, _Joiner):
        return _TRACED
    if type(value) is _Module:
        return value._module
    if type(value) in (list, tuple, dict, set):
        return _TRACED  # what is in it may change
    if type(value) is FunctionType:
        return original(value) or _TRACED
    return plain_function(value)


class _Joiner:
    """np.r_ and np.c_: arrays and numbers joined along an axis."""

    def __init__(self, tracing: Tracing, name: str) -> None:
        self._tracing = tracing
        self._name = name

    def __getitem__(self, key: Any) -> Any:
        """Traced arrays joined; NumPy's own for everything else."""
        items = key if isinstance(key, tuple) else (key,)
        ranks = [np.ndim(item) for item in items if not isinstance(item, (str, slice))]
        known = len(ranks) == len(items) and _some_array(items)
        if not known or not set(ranks) <= ({0, 1} if self._name == "r_" else {1, 2}):
            return getattr(np, self._name)[key]
        if self._name == "c_":
            return np.column_stack(items)
        from fuser.tracing.array_functions import result_type

        dtype = result_type(*map(self._tracing.operand, items))
        return np.concatenate([np.atleast_1d(_strong(item, dtype)) for item in items])


_JOINERS = ("r_", "c_")


def _some_array(items: Any) -> bool:
    """Whether one of several values is a traced array, and all are arrays or numbers."""
    known = (TracedArray, HostScalar, np.ndarray, np.generic, int, float)
    whole = all(type(item) in (bool, int, float) or isinstance(item, known) for item in items)
    return whole and any(isinstance(item, TracedArray) for item in items)


def _strong(item: Any, dtype: np.dtype[Any]) -> Any:
    """A Python number as one of a dtype."""
    if isinstance(item, TracedArray) or type(item) is not HostScalar:
        return dtype.type(item) if type(item) in (bool, int, float) else item
    return item._tracing.wrap(item._tracing.operand_node(item, dtype))


def _len(value: Any, /) -> Any:
    """`len`, which of a traced array stays symbolic, as `x.shape[0]` does."""
    return value.shape[0] if isinstance(value, TracedArray) and value.ndim else len(value)


# -- makers ---------------------------------------------------------------------------------


def _stand_in(tracing: Tracing, maker: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """What a maker gives, as an array of the trace: results may be written into it."""
    made = maker(*args, **kwargs)
    if type(made) is not np.ndarray or not _is_plain(made.dtype):
        return made
    node = tracing.capture(made).node
    return tracing.wrap(tracing.own(node, made.dtype, "K"))


def _is_plain(dtype: np.dtype[Any]) -> bool:
    """Whether kernels know a dtype whatever the device."""
    return dtype.kind in "biuf" and dtype.itemsize <= 8 and dtype.isnative


def _shape_dims(shape: Any, always: bool = False) -> tuple[str, ...] | None:
    """Lengths as text where one of them is traced; or `always`."""
    entries = shape if isinstance(shape, (tuple, list)) else (shape,)
    if not always and not any(type(entry) is HostScalar for entry in entries):
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
    dims = _shape_dims(shape, tracing.arrays)
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
    if isinstance(fill_value, TracedArray) and order == "C" and set(options) == {"order"}:
        lengths = shape if isinstance(shape, (tuple, list)) else (shape,)
        wide: Any = np.broadcast_to(fill_value, tuple(lengths))
        wanted = fill_value.dtype if dtype is None else infer.dtype_of(dtype)
        return tracing.wrap(tracing.own(wide.node, wanted, "C"))
    number = type(fill_value) in (bool, int, float, HostScalar)
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
    if isinstance(a, TracedArray) and order in (None, "K", "A") and not _given(options):
        if dtype is None:
            return tracing.wrap(a.node) if a.generic else a
        return a.astype(dtype, copy=False)
    if order is None and sequences.has_traced(a) and not _given(options):
        return sequences.put_together(tracing, a, dtype)
    return np.asarray(a, dtype=dtype, order=order, **options)


def _array(tracing: Tracing, object: Any, dtype: Any = None, **options: Any) -> Any:
    """np.array: a copy of a traced array, or traced values of one shape put together."""
    copy = options.get("copy", True)
    plain = not _given({k: v for k, v in options.items() if k != "copy"})
    if plain and copy is None and isinstance(object, TracedArray) and not object.generic:
        return _asarray(tracing, object, dtype)
    plain = plain and copy is True
    if plain and isinstance(object, TracedArray):
        wanted = object.dtype if dtype is None else infer.dtype_of(dtype)
        return tracing.wrap(tracing.own(object.node, wanted, "K"))
    if plain and sequences.has_traced(object):
        return sequences.put_together(tracing, object, dtype)
    return np.array(object, dtype=dtype, **options)


def _given(options: Mapping[str, Any]) -> bool:
    """Whether an option says anything."""
    return any(value is not None for value in options.values())


def _contiguous(tracing: Tracing, a: Any, dtype: Any = None, **options: Any) -> Any:
    """np.ascontiguousarray of a traced array: itself or a copy in C order, of an axis at least."""
    if not isinstance(a, TracedArray) or _given(options):
        return np.ascontiguousarray(a, dtype=dtype, **options)
    wanted = a.dtype if dtype is None else infer.dtype_of(dtype)
    whole = a if a.ndim else a[None]
    if wanted == a.dtype and not whole.generic:
        return whole._contiguous("C")
    return tracing.wrap(tracing.own(whole.node, wanted, "C"))


_MAKERS: dict[str, Callable[..., Any]] = {
    "zeros": _zeros, "ones": _ones, "empty": _empty, "full": _full, "asarray": _asarray,
    "asanyarray": _asarray, "array": _array, "ascontiguousarray": _contiguous,
    "arange": counting.arange, "linspace": counting.linspace, "indices": counting.indices,
    "tri": counting.tri, "eye": counting.eye, "identity": counting.identity,
}  # fmt: skip
