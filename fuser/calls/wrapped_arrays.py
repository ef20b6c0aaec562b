"""Arguments that wrap arrays: of pandas and xarray, torch's tensors on the CPU, np.memmap, buffers.

What labelled ones compute is more than NumPy's operations: labels are aligned, missing values
skipped. Where a function is elementwise, and all labels are equal, it is just that; then kernels
compute the values, and the labels are put on. What the function gives for the first two elements
says of which class and dtype results are, and what they are called. Where the values of a DataArray
are Dask's, those of results are, too. Tensors of one shape are read in this way without a copy, and
results are tensors.

`np.memmap` is a subclass that adds a file to an array. Most results of its operations are plain
arrays, but slices, copies and some others are of the subclass again. So the first call of a kind is
NumPy's; where no result of it was mapped, kernels serve the later ones, on the same memory.

A buffer (a memoryview, a bytearray, array.array, mmap) is an array to some of NumPy's functions,
and to nothing else. Where the source of a function shows that these alone read it, the function is
called with NumPy's array of that memory.

Everything else is left to the library, with a reason.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Callable, Sequence
from functools import partial
from types import CodeType, FunctionType
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.lib.stride_tricks import as_strided

from fuser.backend import chosen
from fuser.base import budget, notices, trees
from fuser.base.caches import memo
from fuser.base.call_keys import leaf_names
from fuser.base.errors import Unsupported
from fuser.base.packages import root
from fuser.base.protocols import module_of
from fuser.base.syntax_trees import tree_nodes
from fuser.calls import lazy_arrays
from fuser.calls.importlib_bootstrap_frame import Plainly
from fuser.calls.lazy_arrays import is_buffer, is_labelled, is_mapped
from fuser.calls.running import copied_into
from fuser.calls.specialisation import Specialisation
from fuser.capture.staging import definition
from fuser.executor import CannotRun
from fuser.ir.graph import Graph
from fuser.tracing.trace_result import OutNode

if TYPE_CHECKING:
    from fuser.calls.owner import Owner

#: Elements that a function is tried on.
FEW = 2
#: Names of arguments that are remembered for one way to run a function, with what it gave for few.
TRIED_LIMIT = 64
#: Under which a specialisation remembers whether no result was mapped.
_PLAIN = "memmap"


def caller(
    function: Owner, structure: Any, leaves: Sequence[Any], out: Any
) -> Callable[..., Any] | None:
    """What runs a call with such arguments: of function, structure, arguments and `out=`.

    Args:
        function: the fused one.
        structure: how its arguments nest.
        leaves: the arguments.
        out: arrays of `out=`, or None.

    Returns:
        None where no argument is such an array.
    """
    if any(map(is_labelled, leaves)):
        return partial(_call, _labelled)
    if out is None and any(map(is_mapped, leaves)):
        return partial(_call, _mapped)
    if out is None:
        values = memory_of(function, structure, leaves)
        return None if values is None else partial(_on_arrays, values)
    return None


def _call(
    way: Callable[..., Any], function: Any, structure: Any, leaves: list[Any], out: Any
) -> Any:
    """Run a function with wrapped arguments, or a `Plainly`.

    Args:
        way: gives what runs it on the arrays.
        function: the fused one.
        structure: how its arguments nest.
        leaves: the arguments.
        out: arrays of `out=`, or None.

    Raises:
        FusionError: it cannot be fused, and the policy is "error".
    """
    try:
        run = way(function, structure, leaves, out)
    except (CannotRun, Unsupported) as error:
        reason = error.reason
    else:
        return run()
    function.note_reason(reason)
    notices.record(reason, function.fallback, function._name)
    return Plainly(function.__wrapped__, None if out is None else partial(copied_into, out))


def _known(function: Owner, structure: Any, values: list[Any]) -> Specialisation:
    """The specialisation that holds for plain arrays.

    Raises:
        CannotRun, Unsupported: the function cannot be fused for such arguments.
    """
    with chosen(function.backend), budget.limited(function._name):
        found: Specialisation = function._find_call(structure, values).specialisation
    return found


# -- memory-mapped --------------------------------------------------------------------------


def _mapped(function: Any, structure: Any, leaves: list[Any], _: Any) -> Callable[[], Any]:
    """As `_call`, for memory-mapped arguments.

    Raises:
        CannotRun, Unsupported: the function cannot be fused, or a result is mapped.
    """
    values = [leaf.view(np.ndarray) if is_mapped(leaf) else leaf for leaf in leaves]
    tried = _known(function, structure, values).tried

    def run() -> Any:
        if _PLAIN in tried:
            args, kwargs = trees.unflatten(structure, values)
            return function(*args, **kwargs)
        return Plainly(function.__wrapped__, note)

    def note(result: Any) -> Any:
        tried[_PLAIN] = not any(isinstance(each, np.memmap) for each in trees.flatten(result)[1])
        return result

    if not tried.get(_PLAIN, True):
        found = "a result that is memory-mapped"
        raise Unsupported("unsupported-array", function._name, found, "")
    return run


# -- buffers --------------------------------------------------------------------------------

#: They read a buffer as they read an array of its memory; ufuncs do, too.
_READERS = (np.asarray, np.asanyarray, np.array, np.ascontiguousarray, np.asfortranarray)
#: Buffers of fewer bytes are NumPy's: such a call takes some 50 us before kernels begin.
_LEAST = 1 << 19
#: By such names a function may get at its arguments otherwise.
_OTHERWISE = frozenset({"locals", "vars", "dir", "eval", "exec"})


def _on_arrays(values: list[Any], function: Any, structure: Any, *_: Any) -> Any:
    """Run a function with arrays in place of its arguments."""
    args, kwargs = trees.unflatten(structure, values)
    return function(*args, **kwargs)


def _held(leaves: Sequence[Any]) -> int:
    """Bytes of all buffers; none where one is released or closed."""
    try:
        return sum(memoryview(leaf).nbytes for leaf in leaves if is_buffer(leaf))
    except ValueError:
        return 0


def memory_of(owner: Owner, structure: Any, leaves: Sequence[Any]) -> list[Any] | None:
    """The arguments of a function, with arrays in place of buffers, which are not copied.

    Args:
        owner: the fused one.
        structure: how its arguments nest.
        leaves: the arguments.

    Returns:
        None where the function may read a buffer as anything but an array, and where NumPy is to
        run calls with small ones.
    """
    if owner.fallback != "error" and _held(leaves) < _LEAST:
        return None
    function = owner.__wrapped__
    names = leaf_names(function, structure)
    found = {name for name, leaf in zip(names, leaves, strict=True) if is_buffer(leaf)}
    if type(function) is not FunctionType:
        return None
    code, known = function.__code__, function.__globals__
    numpys = frozenset(name for name in code.co_names if known.get(name) is np)
    if not _readers_alone(code, code.co_filename, frozenset(found), numpys):
        return None
    try:
        values = [np.asarray(leaf) if is_buffer(leaf) else leaf for leaf in leaves]
    except (ValueError, TypeError, NotImplementedError):  # released, or of no elements of NumPy's
        return None
    kinds = {value.dtype.kind for value, leaf in zip(values, leaves, strict=True)
             if is_buffer(leaf)}  # fmt: skip
    return values if kinds <= set("biufc") else None


@memo(256)
def _readers_alone(
    code: CodeType, _: str, names: frozenset[str], numpys: frozenset[str]
) -> bool:
    """Whether source code gives these arguments to `_READERS` and ufuncs, and to nothing else.

    From an assignment `x = np.asarray(x)` on, the name is an array's.
    """
    left, tree = set(names), definition(code)
    if tree is None or not left <= set(code.co_varnames[: code.co_argcount]):
        return False
    numpys = numpys.difference(code.co_varnames, code.co_cellvars, code.co_freevars)
    for statement in tree.body:
        nodes = tree_nodes(statement)
        read = {id(each) for node in nodes for each in _read_by(node, numpys)}
        made = None
        if isinstance(statement, ast.Assign) and len(statement.targets) == 1:
            made = statement.targets[0] if _read_by(statement.value, numpys) else None
        for node in nodes:
            name = node.id if isinstance(node, ast.Name) else ""
            passed = id(node) in read or node is made
            if isinstance(node, ast.Global) or name in _OTHERWISE or (name in left and not passed):
                return False
        if isinstance(made, ast.Name):
            left.discard(made.id)
    return True


def _read_by(node: ast.AST, numpys: frozenset[str]) -> list[ast.expr]:
    """The arguments of a call that are read as arrays are."""
    if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)):
        return []
    called, starred = node.func.value, any(isinstance(a, ast.Starred) for a in node.args)
    if starred or not (isinstance(called, ast.Name) and called.id in numpys):
        return []
    function = getattr(np, node.func.attr, None)
    if isinstance(function, np.ufunc):
        return node.args[: function.nin]
    return node.args[:1] if any(function is each for each in _READERS) else []


# -- labelled -------------------------------------------------------------------------------


def _labelled(function: Any, structure: Any, leaves: list[Any], out: Any) -> Callable[[], Any]:
    """As `_call`, for labelled arguments.

    Raises:
        CannotRun, Unsupported: it is not elementwise, or labels differ.
    """
    if out is not None:
        raise _refusal(function, structure, leaves, "and out=")
    values = _values(function, structure, leaves)
    nested, samples = trees.flatten(_few(function, structure, leaves, values))
    args, kwargs = trees.unflatten(structure, values)

    def run() -> Any:
        results = trees.flatten(function(*args, **kwargs))[1]
        like = next(leaf for leaf in leaves if is_labelled(leaf))
        return trees.unflatten(nested, [
            _with_labels(value, like, sample)
            for value, sample in zip(results, samples, strict=True)
        ])  # fmt: skip

    return run


def _refusal(function: Owner, structure: Any, leaves: Sequence[Any], found: str) -> Unsupported:
    """Why the library that knows the labels runs a call."""
    names = leaf_names(function.__wrapped__, structure)
    name, leaf = next(pair for pair in zip(names, leaves, strict=True) if is_labelled(pair[1]))
    library = root(module_of(type(leaf)))
    kind = f"{'an' if library.startswith('x') else 'a'} {library} {type(leaf).__name__}"
    code = "unsupported-array" if _is_tensor(leaf) else "labelled-array"
    return Unsupported(code, name, f"{kind} {found}", "")


def _is_tensor(leaf: Any) -> bool:
    """Whether a wrapped argument is a tensor of torch's."""
    return root(module_of(type(leaf))) == "torch"


def _is_lazy(values: Any) -> bool:
    """Whether values are computed later: by Dask."""
    return lazy_arrays.caller([values]) is not None


def _values(function: Owner, structure: Any, leaves: Sequence[Any]) -> list[Any]:
    """The arrays of labelled arguments, where all have the same labels.

    Raises:
        Unsupported: they differ, or an array cannot be had.
    """
    first: Any = next(leaf for leaf in leaves if is_labelled(leaf))
    if any(is_labelled(leaf) and hasattr(leaf, "data_vars") for leaf in leaves):
        raise _refusal(function, structure, leaves, "of several arrays")
    found = []
    for leaf in leaves:
        if not is_labelled(leaf):
            if getattr(leaf, "ndim", 0) or isinstance(leaf, (str, bytes)):
                raise _refusal(function, structure, leaves, "beside other arrays")
            found.append(leaf)
            continue
        if type(leaf) is not type(first) or not _same_labels(leaf, first):
            other = "another shape" if _is_tensor(leaf) else "other labels"
            raise _refusal(function, structure, leaves, f"beside one with {other}")
        if not _is_plain(leaf):
            found_here = (
                "of one element, of gradients, or none that NumPy can read" if _is_tensor(leaf)
                else "of several dtypes, or none of NumPy's"
            )
            raise _refusal(function, structure, leaves, found_here)
        if _is_tensor(leaf):
            found.append(leaf.numpy())
        else:
            found.append(leaf.data if hasattr(leaf, "dims") else leaf.to_numpy())
    return found


def _dtypes(labelled: Any) -> list[Any]:
    """The dtypes of values: of each column, where there are columns."""
    if _is_tensor(labelled):
        return [labelled.numpy().dtype]
    return list(labelled.dtypes) if hasattr(labelled, "columns") else [labelled.dtype]


def _is_plain(leaf: Any) -> bool:
    """Whether the values are one NumPy array of numbers."""
    if _is_tensor(leaf):
        try:
            return leaf.ndim > 0 and leaf.numpy().dtype.kind in "biuf"
        except (RuntimeError, TypeError):  # of a device, of gradients, sparse, bfloat16
            return False
    if hasattr(leaf, "dims") and type(leaf.data) is not np.ndarray and not _is_lazy(leaf.data):
        return False
    dtypes = _dtypes(leaf)
    numbers = all(isinstance(each, np.dtype) and each.kind in "biuf" for each in dtypes)
    return bool(numbers and dtypes and all(each == dtypes[0] for each in dtypes))


def _same_labels(one: Any, other: Any) -> bool:
    """Whether two values of one class have the same labels, in the same order."""
    if one is other:
        return True
    if _is_tensor(one):
        return bool(one.shape == other.shape)
    if hasattr(one, "dims"):
        return bool(one.dims == other.dims and one.coords.identical(other.coords))
    if not (one.index is other.index or one.index.identical(other.index)):
        return False
    return not hasattr(one, "columns") or bool(one.columns.identical(other.columns))


def _few(function: Owner, structure: Any, leaves: Sequence[Any], values: list[Any]) -> Any:
    """What the function gives for the first elements, if that is the same through NumPy.

    Raises:
        CannotRun, Unsupported: it is not elementwise, or not the same.
    """
    found = _known(function, structure, [
        as_strided(np.zeros(1, each.dtype), each.shape, (0,) * each.ndim) if _is_lazy(each)
        else each for each in values
    ])  # fmt: skip
    trace, shape = found.trace, np.shape(next(v for v in values if np.ndim(v)))
    odd = _not_elementwise(trace.graph)
    if odd or trace.writes or not all(isinstance(leaf, OutNode) for leaf in trace.leaves):
        raise _refusal(function, structure, leaves, f"and {odd or 'a result that is no new one'}")
    tried = found.tried
    key = tuple(_title(leaf) for leaf in leaves if is_labelled(leaf))
    if key in tried:
        return tried[key]
    args, kwargs = trees.unflatten(structure, [_first(leaf) for leaf in leaves])
    few = function.__wrapped__(*args, **kwargs)
    like = next(leaf for leaf in leaves if is_labelled(leaf))
    samples = trees.flatten(few)[1]
    for sample, node in zip(samples, trace.graph.outputs, strict=False):
        alike = type(sample) is type(like) and _same_labels(sample, _first(like))
        if not alike or any(dtype != node.dtype for dtype in _dtypes(sample)):
            raise _refusal(function, structure, leaves, "whose results are not NumPy's")
    if len(samples) != len(trace.leaves) or any(len(n.shape) != len(shape)
                                                for n in trace.graph.outputs):  # fmt: skip
        raise _refusal(function, structure, leaves, "whose results are not NumPy's")
    if not any(getattr(leaf, "attrs", None) for leaf in leaves if is_labelled(leaf)):
        if len(tried) >= TRIED_LIMIT:
            tried.clear()
        tried[key] = few
    return few


def _title(leaf: Any) -> Any:
    """What names results: of a frame its columns, of which results have the same."""
    if hasattr(leaf, "columns"):
        return "frame", bool(leaf.attrs)
    if _is_tensor(leaf):
        return "tensor"
    return repr(leaf.name), bool(leaf.attrs)


def _first(leaf: Any) -> Any:
    """The first elements of a labelled argument; any other as it is."""
    if not is_labelled(leaf):
        return leaf
    return leaf.iloc[:FEW] if hasattr(leaf, "iloc") else leaf[:FEW]


def _not_elementwise(graph: Graph) -> str:
    """An operation of which such libraries may give something else than NumPy; "" for none.

    They fill what division of integers by zero gives, and what powers of NaN are.
    """
    for node in graph.nodes:
        row = node.op
        plain = row.is_input or row.uniform or row.converts
        if not plain and (not row.is_elementwise or row.raises or not row.shared):
            return f"np.{row.name}"
        if row.divides and not row.is_quotient:
            return f"np.{row.name}"
    return ""


def _with_labels(values: Any, like: Any, sample: Any) -> Any:
    """Values with the labels of an argument, named as a result of the first elements is."""
    if _is_tensor(like):
        return sys.modules["torch"].from_numpy(values)
    if hasattr(like, "dims"):
        found = like.copy(data=values)
        found.name, found.attrs = sample.name, dict(sample.attrs)
        return found
    kind: Any = type(like)
    if hasattr(like, "columns"):
        found = kind(values, index=like.index, columns=like.columns, copy=False)
    else:
        found = kind(values, index=like.index, name=sample.name, copy=False)
    found.attrs = dict(sample.attrs)
    return found
