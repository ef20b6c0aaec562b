"""Functions without a fused form, while tracing: they run once, and tracing goes on.

Their operands are written as text, and what they gave before is known again.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from types import FunctionType
from typing import Any

import numpy as np

from fuser.base import budget, trees
from fuser.base.errors import Unsupported, user_line
from fuser.base.protocols import has
from fuser.ir import opaque_calls
from fuser.ir.dims import Shape
from fuser.ir.function_table import plain_function
from fuser.ir.graph import Node, make_constant
from fuser.ir.views import Diagonal, Index, Part, Transpose
from fuser.tracing.admitted_dtypes import is_known
from fuser.tracing.late_numbers import KINDS, LateNumber, read
from fuser.tracing.operands import check_target
from fuser.tracing.reshapes import check_writable
from fuser.tracing.trace_result import Record
from fuser.tracing.trace_state import Storage, Tracing
from fuser.tracing.traced_array import ArrayOfAxes, TracedArray, method
from fuser.tracing.traced_memory import THROUGH, TracedMemory
from fuser.tracing.traced_scalars import HostScalar
from fuser.tracing.valueless import check_values


class Operands:
    """The operands of one call, numbered as they are spelled."""

    def __init__(self, tracing: Tracing) -> None:
        self.tracing = tracing
        self.arrays: list[Any] = []
        self.nodes: list[Node] = []

    def text(self, value: Any) -> str | None:
        """`a0` for an array, `host('n0')` for a traced number; None for anything else."""
        from fuser.ir import opaque_calls

        value = read(value)
        if isinstance(value, TracedArray):
            if value.tracing is not self.tracing:
                raise Unsupported(
                    "not-traceable", "nested trace", "an array that belongs to another traced call"
                )
            return self._add(value, value.node, value.generic)
        if type(value) is HostScalar:
            return f"host({value.text!r})"
        if isinstance(value, np.generic) and opaque_calls.named_dtype(value.dtype):
            return self._add(value, make_constant(value, value.dtype), True)
        if isinstance(value, np.ndarray) or has(value, "__cuda_array_interface__"):
            array = self.tracing.capture(value)
            return self._add(array, array.node, False)
        if callable(value) and not isinstance(value, type):
            return _function_text(value, self.text, self.tracing)
        return None

    def _add(self, value: Any, node: Node, scalar: bool) -> str:
        self.arrays.append(value)
        self.nodes.append(node)
        return f"a{len(self.nodes) - 1}{'[()]' if scalar else ''}"


def _function_text(
    value: Any, operand: Callable[[Any], str | None], tracing: Tracing
) -> str | None:
    """`function('numpy.sum')` for a function that NumPy is to call; None where it has no name.

    One that reaches traced values is `closure('module.name', a2)`, with them after its name.
    """
    from fuser.capture.namespace import original  # which is not loaded with this file
    from fuser.ir import opaque_calls

    function = plain_function(value)
    if type(function) is not FunctionType or name_of(function) is not None:
        name = name_of(function)
        return None if name is None else f"function({name!r})"
    traced: list[Any] = []
    plain = original(function, traced, opaque_calls.FREE)
    known = None if plain is None else opaque_calls.name_of(plain)
    if known is None:
        return None
    tracing.uncopied.append(plain)
    held = [operand(each) for each in traced]
    if None in held:
        return None
    parts = ", ".join([repr(known), *map(str, held)])
    return f"closure({parts})" if held else f"function({parts})"


def name_of(function: Any) -> str | None:
    """The name by which NumPy's function is found again, or None."""
    module = getattr(function, "__module__", None) or "numpy"
    names = [f"{module}.{getattr(function, '__name__', '')}"]
    names.append(f"numpy.{getattr(function, '__name__', '')}")
    for name in names:
        try:
            if opaque_calls.resolve(name) is function:
                return name
        except Exception:  # noqa: BLE001 - odd names of other packages: then it is not NumPy's
            continue
    return None


#: What is found of a function that changes an array of NumPy's own.
CHANGES = "it changes what it is given"
#: They change their first argument.
_CHANGES = frozenset("put place putmask fill_diagonal put_along_axis".split())
#: They change the world outside of the function, or ask for more than values.
_EFFECTS = frozenset(
    "copyto save savez savez_compressed savetxt shares_memory may_share_memory".split()
)
#: Calls whose result has the outer lengths of its two operands.
_PRODUCTS = ("numpy.matmul(a0, a1)", "numpy.dot(a0, a1)")


def call_function(tracing: Tracing, function: Any, args: Sequence[Any], kwargs: Any) -> Any:
    """Trace a NumPy function as a call between kernels.

    Raises:
        Unsupported: its effect cannot be known from its result.
    """
    name = name_of(function)
    short = f"np.{getattr(function, '__name__', function)}"
    if name is None:
        raise Unsupported("unsupported-function", short, "")
    if isinstance(kwargs.get("out"), tuple):  # which ufuncs alone take
        raise Unsupported("write-into-view", short, "out= is a tuple")
    if name.rpartition(".")[2] in _CHANGES:
        change(name, args, kwargs)
        return None
    if name.rpartition(".")[2] in _EFFECTS:
        raise Unsupported("write-into-view", short, CHANGES)
    return call_named(tracing, name, args, kwargs)


def call_ufunc(
    tracing: Tracing, ufunc: np.ufunc, method: str, inputs: Sequence[Any], options: dict[str, Any]
) -> Any:
    """Trace a ufunc, or a method of it, as a call between kernels."""
    name = opaque_calls.ufunc_name(ufunc)
    if name is None:
        raise Unsupported("unsupported-function", f"np.{ufunc.__name__}", "")
    full = name if method == "__call__" else f"{name}.{method}"
    if method == "at":
        change(full, inputs, options)
        return None
    return call_named(tracing, full, inputs, options)


def call_named(
    tracing: Tracing,
    name: str,
    args: Sequence[Any],
    kwargs: dict[str, Any],
    like: Node | None = None,
    sample: Callable[..., Any] | None = None,
) -> Any:
    """Trace a call between kernels.

    Args:
        tracing: the trace.
        name: the function, as `opaque_calls.resolve` finds it.
        args: positional arguments.
        kwargs: keyword arguments; `out=` is written after the call.
        like: the result has this node's shape, whatever the lengths.
        sample: run in its place while tracing, of a function that gives something else each time.

    Returns:
        What the function returns, with stand-ins for arrays.

    Raises:
        Unsupported: an argument has no text, or a result is no array.
    """
    kwargs = {key: value for key, value in kwargs.items() if key != "out" or value is not None}
    out = kwargs.pop("out", None)
    operands = Operands(tracing)
    text = _spelled(name, args, kwargs, operands)
    if silenced := tracing.errors.ignored():
        text = f"silent({','.join(silenced)}) {text}"
    same = (text, *map(id, operands.nodes))
    calls = re.search(r"(function|closure)\('", text)  # which may give something else each time
    once = like is not None or calls is not None or sample is not None
    if once or same not in tracing.repeatable:
        types = tuple(node.type for node in operands.nodes)
        known = tracing.replay.take(text, types)
        record = known or _first_run(tracing, sample or name, text, operands)
        nodes = _nodes_of(tracing, text, record, operands, like)
        if not once and not any(record.shares):
            tracing.repeatable[same] = record, nodes  # which keep their operands, so ids last
    else:
        record, nodes = tracing.repeatable[same]
    results = _wrapped(tracing, text, record, nodes, operands)
    if out is not None:
        return _write_out(tracing, name, results, out)
    return trees.unflatten(record.structure, results)


def _spelled(
    name: str, args: Sequence[Any], kwargs: dict[str, Any], operands: Operands
) -> str:
    """The call as text."""
    parts: list[str] = []
    for key, value in [*((None, arg) for arg in args), *kwargs.items()]:
        text = opaque_calls.spell(value, operands.text)
        if text is None:
            short = name.replace("numpy.", "np.", 1)
            raise Unsupported("unsupported-argument", short, f"a {type(value).__name__} argument")
        parts.append(text if key is None else f"{key}={text}")
    return f"{name}({', '.join(parts)})"


def _first_run(tracing: Tracing, function: Any, text: str, operands: Operands) -> Record:
    """Run a function, or that of a name, on the values of this call, which it may not change."""
    call = opaque_calls.read(f"0.0 {text}")
    check_values(call.short_name, "it does not go by chunks")
    values = [_read_only(tracing.evaluate(node)) for node in operands.nodes]
    # A mistake in these is ours: only what the function itself raises is left to NumPy.
    arguments = [opaque_calls.filled(part, values, tracing.numbers()) for part in call.args]
    keywords = opaque_calls.filled(dict(call.kwargs), values, tracing.numbers())
    try:
        with np.errstate(all="ignore"), budget.unclocked():
            run = opaque_calls.resolve(function) if type(function) is str else function
            plain = getattr(run, "of_numbers", run)
            result = plain(*arguments, **keywords)
    except opaque_calls.PatternMiss as error:
        raise Unsupported("write-into-view", call.short_name, str(error)) from None
    except Unsupported:  # of a function that is called, for each row
        raise
    except Exception as error:  # whatever it is, the plain function raises it again
        if isinstance(error, ValueError) and "read-only" in str(error):
            raise Unsupported(
                "write-into-view", call.short_name, "it writes into its argument"
            ) from None
        tracing.failed = Unsupported(
            "runtime-check", call.short_name, f"{type(error).__name__}: {error}"
        )
        raise tracing.failed from error
    given = trees.flatten(result)[1]
    result = result if plain is run else opaque_calls.scalars_of(result)
    structure, found = trees.flatten(result)
    kinds = [_NUMBERS[type(old)] if type(old) is not type(new) else ""
             for old, new in zip(given, found, strict=True)]  # fmt: skip
    for value in found:
        _check_result(call.short_name, value)
    shares = [opaque_calls.shares_memory(value, values) for value in found]
    types = tuple(node.type for node in operands.nodes)
    record = Record(text, types, structure, found, shares, kinds)
    tracing.replay.add(record)
    return record


#: Kinds of Python numbers.
_NUMBERS = {kind: name for name, kind in KINDS.items()}


def _check_result(short: str, value: Any) -> None:
    """Refuse results that tell Python something about values, or nothing at all."""
    if value is None:
        raise Unsupported("write-into-view", short, "it returns nothing, so it changes something")
    if isinstance(value, (bool, int, float, complex)) and not isinstance(value, np.generic):
        raise Unsupported("control-flow", short, f"it gives a Python {type(value).__name__}")
    if type(value) is not np.ndarray and not isinstance(value, np.generic):
        if not has(value, "__cuda_array_interface__"):
            raise Unsupported("array-conversion", short, f"it gives {type(value).__name__}")
    if not opaque_calls.named_dtype(value.dtype):
        raise Unsupported("unsupported-dtype", short, f"it gives dtype {value.dtype}")


def _read_only(value: Any) -> Any:
    """The same memory, not to be written into."""
    if type(value) is not np.ndarray:
        return value
    seen = value.view()
    seen.flags.writeable = False
    return seen


def _nodes_of(
    tracing: Tracing, text: str, record: Record, operands: Operands, like: Node | None
) -> list[Node]:
    """Nodes of the results of a call; their lengths are symbols of their own, or known before."""
    known = _shape_of_product(text, operands.nodes) if like is None else like.shape
    return tracing.called(text, operands.nodes, user_line(), [
        (
            ("view " if shares else "") + ("scalar " if isinstance(value, np.generic) else ""),
            tuple(map(tracing.new_late_length, value.shape)) if known is None else known,
            value.dtype, value,
        )
        for value, shares in zip(record.values, record.shares, strict=True)
    ])  # fmt: skip


def _shape_of_product(text: str, operands: Sequence[Node]) -> Shape | None:
    """The shape of a product of vectors and matrices; None for other calls."""
    if text not in _PRODUCTS or not all(len(node.shape) in (1, 2) for node in operands):
        return None
    left, right = (node.shape for node in operands)
    return (*left[:-1], *right[1:])


def _wrapped(
    tracing: Tracing, text: str, record: Record, nodes: Sequence[Node], operands: Operands
) -> list[Any]:
    """Stand-ins for the results of a call."""
    found: list[Any] = []
    given = zip(nodes, record.values, record.shares, record.kinds, strict=True)
    for node, value, shares, kind in given:
        if kind:
            found.append(LateNumber(tracing, node, kind))
            continue
        storage = Storage(node)
        if shares:
            _link(storage, operands.arrays, text)
        known = node.dtype.kind in "biuf" or is_known(node.dtype)
        make = TracedArray.make if known else ForeignArray
        found.append(make(tracing, storage, (), isinstance(value, np.generic)))
    return found


def _link(storage: Storage, operands: Sequence[Any], text: str) -> None:
    """A result may look at its operands' memory: none of them can be written into later on.

    Raises:
        Unsupported: an argument was written into before, so its memory is not up to date.
    """
    storage.shared = True
    for array in operands:
        if isinstance(array, TracedArray):
            if array.storage.written and array.storage.argument is not None:
                raise Unsupported(
                    "write-into-view", text.partition("(")[0],
                    "a view of an array that was written into",
                )
            array.storage.shared = True
            looks_at = (*storage.looks_at, *array.storage.looks_at)
            storage.looks_at = tuple(dict.fromkeys(looks_at))


def _write_out(tracing: Tracing, name: str, results: Sequence[Any], out: Any) -> Any:
    """Write results into the arrays of `out=`, which have to fit exactly."""
    targets = out if isinstance(out, tuple) else (out,)
    short = name.replace("numpy.", "np.", 1)
    same = len(targets) == len(results)
    for target, result in zip(targets, results, strict=False):
        check_target(target, short)
        same = same and isinstance(target, TracedArray) and target.dtype == result.dtype
        same = same and tracing.same_lengths(target.dims, result.dims)
    if not same:
        raise Unsupported("unsupported-argument", short, "out= of another dtype or shape")
    for target, result in zip(targets, results, strict=True):
        tracing.write(target, result.node, True, "same_kind", short)
    return out if len(targets) > 1 else targets[0]


class ForeignArray(ArrayOfAxes):
    """A result of a dtype that kernels do not know: NumPy does all that is done to it."""

    __slots__ = ()
    foreign = True

    @classmethod
    def make(cls, *parts: Any) -> Any:
        """Another of its kind."""
        return cls(*parts)

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **options: Any) -> Any:
        """In NumPy."""
        return call_ufunc(self.tracing, ufunc, method, inputs, options)

    def __array_function__(self, function: Any, types: Any, args: Any, kwargs: Any) -> Any:
        """In NumPy."""
        return self.tracing.apply_function(function, args, kwargs)

    def __getitem__(self, index: Any) -> Any:
        """In NumPy."""
        return call_named(self.tracing, "numpy.ndarray.__getitem__", (self, index), {})

    def __setitem__(self, index: Any, value: Any) -> None:
        """In NumPy, on a copy."""
        update(self, index, value)

    def __pow__(self, other: Any) -> Any:
        """In NumPy."""
        return np.power(self, other)

    @property
    def real(self) -> Any:
        """In NumPy."""
        return call_named(self.tracing, "numpy.real", (self,), {})

    @real.setter
    def real(self, value: Any) -> None:
        """Refused."""
        self._refuse("unsupported-function", "ndarray.real = ...")

    @property
    def imag(self) -> Any:
        """In NumPy."""
        return call_named(self.tracing, "numpy.imag", (self,), {})

    @imag.setter
    def imag(self, value: Any) -> None:
        """Refused."""
        self._refuse("unsupported-function", "ndarray.imag = ...")


for _name in (
    "transpose swapaxes reshape ravel flatten squeeze astype copy clip round conj conjugate sum "
    "prod mean var std any all argmax argmin max min dot"
).split():
    setattr(ForeignArray, _name, method(_name))


def update(target: TracedMemory, index: Any, value: Any) -> None:
    """`target[index] = value` by NumPy, on a copy of the memory that `target` looks at.

    Raises:
        Unsupported: the memory cannot be written into.
    """
    new_value(target, "fuser.updated", (index, value), {})


def new_value(target: TracedMemory, name: str, args: tuple[Any, ...], kwargs: Any) -> None:
    """Give the memory that `target` looks at the value that a call between kernels makes of it.

    Raises:
        Unsupported: the memory cannot be written into.
    """
    tracing = target.tracing
    if Diagonal() in target.views:
        raise ValueError("assignment destination is read-only")
    check_writable(tracing, target.storage)
    storage = target.storage  # its own now, where it was a copy
    through = (*THROUGH, Part)
    if target._changed_behind(lambda shown: new_value(shown, name, args, kwargs), through):
        return
    if not all(isinstance(view, (Index, Transpose)) for view in target.views):
        raise Unsupported(
            "write-into-view", "assignment", "a view that is neither a slice nor a transpose"
        )
    make: Any = target.make if not target.views else TracedArray.make
    whole = make(tracing, storage, (), False)
    chain = tuple((view.op, view.text) for view in target.views)
    made = call_named(tracing, name, (whole, chain, *args), kwargs, like=storage.node)
    tracing.note_write(storage.argument)
    storage.replace(made.storage.node)


def change(name: str, args: Sequence[Any], kwargs: dict[str, Any]) -> None:
    """Have NumPy change a copy of the first argument, and take that for its value.

    Raises:
        Unsupported: the first argument is no traced array.
    """
    short = name.replace("numpy.", "np.", 1)
    target = args[0] if args else None
    if not isinstance(target, TracedArray):
        raise Unsupported("write-into-view", short, CHANGES)
    if target.generic:
        raise Unsupported("unsupported-argument", short, "a scalar")
    new_value(target, "fuser.changed", (name, *args[1:]), kwargs)
