"""Calls of NumPy functions that have no fused form: how a graph spells them, and how they run.

The text of a call is `call.output [view] [scalar] function(arguments)`, for instance
`0.1 numpy.linalg.svd(a0, full_matrices=False)`: the second result of the first such call. `a0`
is the call's first operand (`a0[()]` where NumPy has a scalar), `host('s0 * 2')` a number known
when the function is called, `closure('name', a1)` a function that reaches values of the call.
`view`: the result shares memory with an operand; `scalar`: it is a NumPy scalar;
`silent(divide)`: the function had silenced these errors. `fuser.read(a0, 's1')` tells a number of
the program from a value, `fuser.decided(host('s1 > 0'), True)` is a decision and its outcome
(`fuser.capture.decisions`). Nothing but literals, these names and functions of a table is read
back: `resolve` has it.

`spell` writes arguments as such text. Python functions that NumPy calls for each row have names in
it: two functions that do the same, as a lambda that is made anew by every call, have one name.
"""

from __future__ import annotations

import ast
import math
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from importlib import import_module
from types import CellType, FunctionType
from typing import Any

import numpy as np

from fuser.base import forks, host_expressions, trees
from fuser.base.caches import memo
from fuser.base.error_states import silent
from fuser.base.errors import GraphError, Reason
from fuser.base.host_expressions import evaluate_scalar, rename_scalars, scalar_symbols, short
from fuser.base.packages import NUMPY_MODULES, ROUTINES, SCIPY_PACKAGES
from fuser.base.records import record
from fuser.ir import attribute_text, dims, function_table, infer, layouts, views
from fuser.ir.attributes import Attribute
from fuser.ir.graph import Graph, Node
from fuser.ir.ops import UFUNC_PAIRS, UFUNC_ROWS

#: What packages of SciPy have beside: it changes settings of the process, or tells of them.
_SETTINGS = frozenset(
    "errstate seterr geterr set_backend skip_backend set_global_backend register_backend "
    "get_workers set_workers".split()
)
#: What reads a number of a program off a value, what decides by such numbers which way a program
#: goes, and what makes an array as long as one.
READ, DECIDED, COUNTED = "fuser.read", "fuser.decided", "fuser.counted"
ROWS_TIMES = "fuser.rows_times"
#: Functions of NumPy that write files.
FILES = frozenset("save savez savez_compressed savetxt".split())
#: A module whose functions draw what they give, and the methods of its generators that do so.
RANDOM = "cupy.random"
DRAWN = {
    name: name
    for name in (
        "rand randn random_sample randint uniform normal standard_normal lognormal exponential "
        "standard_exponential gamma standard_gamma beta binomial poisson geometric laplace "
        "logistic gumbel chisquare choice permutation"
    ).split()
} | dict.fromkeys(("random", "ranf", "sample"), "random_sample")
#: Methods of universal functions.
_UFUNC_METHODS = frozenset("reduce accumulate reduceat outer at".split())
#: Methods of arrays: they depend on their arguments alone.
METHODS = frozenset(
    "__getitem__ all any argmax argmin argpartition argsort astype byteswap choose clip compress "
    "conj conjugate copy cumprod cumsum diagonal dot flatten max mean min nonzero partition prod "
    "ravel repeat reshape round searchsorted sort squeeze std sum swapaxes take trace transpose "
    "var view".split()
)


class PatternMiss(Exception):  # noqa: N818 - a signal, not a fault
    """A result has another rank, dtype or length than this graph was made for.

    Attributes:
        paused: where a program has ended, whose decision has another outcome.
    """

    paused: Any = None


class CallFailed(Exception):  # noqa: N818 - a signal: the plain function is run instead
    """A function that runs between kernels raised; nothing has been written yet."""

    def __init__(self, operation: str, error: Exception) -> None:
        """Keep what was raised."""
        super().__init__(str(error))
        self.cause = error
        self.reason = Reason("runtime-check", operation, f"{type(error).__name__}: {error}")


@record
class Operand:
    """The place of an operand among a call's arguments; `scalar`: NumPy has a scalar there."""

    index: int
    scalar: bool = False


@record
class Number:
    """A number computed from scalar arguments and lengths."""

    text: str


@record
class Closure:
    """A function whose cells hold values of the call: its name (see `name_of`), and those."""

    name: str
    values: tuple[Any, ...]


@record
class Unset:
    """A new array without values: of some lengths, or one that lies as another does."""

    like: Any
    dtype: np.dtype[Any]


@record(slots=False, eq=False)
class Call(Attribute):
    """The attribute of an opaque node: which result of which call it is.

    Attributes:
        text: as a graph's text spells it.
        number: calls run in this order.
        output: which of the call's results the node is.
        shares: the result shares memory with an operand.
        scalar: the result is a NumPy scalar.
        name: the function, `numpy.linalg.svd`.
        args: positional arguments: literals, with Operand and Number in them.
        kwargs: keyword arguments.
        silenced: kinds of floating-point errors that NumPy does not tell of; "warnings" for all.
    """

    text: str
    number: int
    output: int
    shares: bool
    scalar: bool
    name: str
    args: tuple[Any, ...]
    kwargs: Mapping[str, Any]
    silenced: tuple[str, ...] = ()

    def _spelled(self) -> str:
        return self.text

    @property
    def numbers(self) -> list[str]:
        """The host expressions among the arguments."""
        found, waiting = [], [*self.args, *self.kwargs.values()]
        while waiting:
            part = waiting.pop()
            if type(part) is Number:
                found.append(part.text)
            elif type(part) in (tuple, list):
                waiting += part
            elif type(part) is dict:
                waiting += part.values()
            elif type(part) is slice:
                waiting += (part.start, part.stop, part.step)
            elif type(part) is Closure:
                waiting += part.values
            elif type(part) is Unset:
                waiting.append(part.like)
        return found

    @property
    def symbols(self) -> tuple[str, ...]:
        """Those of its numbers."""
        return tuple(sorted(set().union(*map(scalar_symbols, self.numbers))))

    def renamed(self, names: Mapping[str, Any]) -> Call:
        """With other symbols in its numbers and lengths."""
        return read(rename(self.text, names))

    @property
    def tells(self) -> str:
        """The number that the call reads off its operand, by name; "" for other calls."""
        return str(self.args[1]) if self.name == READ else ""

    @property
    def is_inner(self) -> bool:
        """Whether it is a step of the program itself, and no function that the user has called."""
        return self.name in (READ, DECIDED, COUNTED)

    @property
    def takes_less(self) -> bool:
        """Whether it does what the user's call does in less time."""
        return self.name == ROWS_TIMES

    @property
    def changes(self) -> bool:
        """Whether it changes a copy of its first operand, and gives that."""
        return self.name in ("fuser.updated", "fuser.changed")

    @property
    def short_name(self) -> str:
        """The function in the user's terms: `np.linalg.svd`."""
        special = {
            "numpy.ndarray.__getitem__": "indexing",
            "fuser.updated": "assignment",
            "fuser.vectorized": "np.vectorize",
            ROWS_TIMES: "np.matmul",
        }
        if self.name == "fuser.changed":
            return str(self.args[2]).replace("numpy.", "np.", 1)
        short = self.name.replace("numpy.ndarray.", "ndarray.").replace("numpy.", "np.", 1)
        return special.get(self.name, short)


# -- reading --------------------------------------------------------------------------------


@memo(4096)
def read(text: str) -> Call:
    """Read a call's text.

    Raises:
        GraphError: it is not understood.
    """
    found = re.fullmatch(
        r"(\d+)\.(\d+) (view )?(scalar )?(?:silent\(([a-z,]*)\) )?(.*)", text, re.DOTALL
    )
    if found is None:
        raise GraphError(f"this opaque call is not understood: {short(text)!r}")
    tree = host_expressions.parsed(found[6], "an opaque call")
    if not isinstance(tree, ast.Call):
        raise GraphError(f"an opaque call is a call, found {short(found[6])!r}")
    try:
        args = tuple(_read(part) for part in tree.args)
        kwargs = _keywords(tree)
        name = ast.unparse(tree.func)
    except RecursionError:
        raise GraphError(f"an opaque call is nested too deeply: {short(text)!r}") from None
    resolve(name)
    if name == "fuser.changed":
        resolve(args[2] if len(args) > 2 and type(args[2]) is str else "")
    elif writes := [key for key in kwargs if key == "out" or key.startswith("overwrite")]:
        raise GraphError(f"an opaque call cannot have {writes[0]}=: it may write into an operand")
    silenced = tuple((found[5] or "").split(",")) if found[5] else ()
    marks = bool(found[3]), bool(found[4])
    return Call(text, int(found[1]), int(found[2]), *marks, name, args, kwargs, silenced)


def _keywords(tree: ast.Call) -> dict[str, Any]:
    """Keyword arguments by name.

    Raises:
        GraphError: one has no name, `**mapping`, or a name comes twice.
    """
    names = {pair.arg for pair in tree.keywords if pair.arg}
    if len(names) != len(tree.keywords):
        raise GraphError("an opaque call has a keyword twice, or one without a name")
    return {str(pair.arg): _read(pair.value) for pair in tree.keywords}


def _read(node: ast.expr) -> Any:
    """One argument: a literal, an operand, a number, a slice or a dtype."""
    if isinstance(node, ast.Constant):
        long = type(node.value) is int and node.value.bit_length() > host_expressions.MOST_BITS
        if not long:
            return node.value
    if isinstance(node, ast.Tuple):
        return tuple(_read(part) for part in node.elts)
    if isinstance(node, ast.List):
        return [_read(part) for part in node.elts]
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        number = _read(node.operand)
        if type(number) in (int, float, complex):
            return -number
    if isinstance(node, ast.Subscript):
        operand = _read(node.value)
        if isinstance(operand, Operand):
            return Operand(operand.index, True)
    if isinstance(node, ast.Name):
        if node.id in ("inf", "nan"):
            return math.inf if node.id == "inf" else math.nan
        if re.fullmatch(r"a\d+", node.id):
            return Operand(int(node.id[1:]))
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
        parts = [_read(part) for part in node.args]
        if node.func.id == "dict" and not parts:
            return _keywords(node)
        made = _READ.get(node.func.id)
        if made is not None and not node.keywords:
            try:
                return made(*parts)
            except (TypeError, ValueError):  # too many of them, or of other kinds
                pass
    raise GraphError(f"an opaque call cannot have this argument: {short(ast.unparse(node))}")


def _number(text: str) -> Number:
    """A host expression.

    Raises:
        GraphError: it is none.
    """
    host_expressions.names_in(_text(text), host_expressions.SCALAR)
    return Number(text)


def _dtype(name: str) -> np.dtype[Any]:
    """A dtype by its name.

    Raises:
        GraphError: it is no name alone.
    """
    if not re.fullmatch(r"[a-z][a-z0-9_]*", _text(name)):
        raise GraphError(f"{short(name)!r} is no name of a dtype")
    return np.dtype(name)


def _text(value: Any) -> str:
    """An argument that has to be a text."""
    if type(value) is not str:
        raise GraphError(f"an opaque call has a {type(value).__name__} where a text belongs")
    return value


def _function(name: str) -> Any:
    """A function among the arguments: NumPy's, or one that has a name here."""
    _text(name)
    plain = name.startswith(("numpy.", "math.", "scipy."))
    return resolve(name) if plain else function_named(name)


def _closure(name: str, *values: Any) -> Closure:
    """A function that reaches values of the call.

    Raises:
        GraphError: this process has none of that name.
    """
    function_named(_text(name))
    return Closure(name, values)


def _unset(like: Any, dtype: str) -> Unset:
    """A new array without values.

    Raises:
        GraphError: it is not said how long it is.
    """
    if not isinstance(like, (tuple, Operand)):
        raise GraphError("an array without values has lengths, or lies as another does")
    return Unset(like, _dtype(dtype))


_READ: dict[str, Any] = {
    "slice": slice, "dtype": _dtype, "host": _number, "function": _function, "closure": _closure,
    "unset": _unset,
}  # fmt: skip


@memo(512)
def resolve(name: str) -> Callable[..., Any]:
    """The function that a name stands for: one that changes nothing and reads nothing outside.

    Raises:
        GraphError: there is none of that name, or it is no such function.
    """
    if name in SPECIAL:
        return SPECIAL[name]
    module, _, last = name.rpartition(".")
    if module == "numpy.ndarray" and last in METHODS:
        return lambda array, *args, **kwargs: getattr(array, last)(*args, **kwargs)
    found = _member(module, last)
    if found is None and last in _UFUNC_METHODS:
        module, _, ufunc = module.rpartition(".")
        owner = _member(module, ufunc)
        found = getattr(owner, last) if isinstance(owner, np.ufunc) else None
    if found is None:
        raise GraphError(f"opaque calls are of NumPy's functions of arrays, found {short(name)!r}")
    return found


def _member(module: str, name: str) -> Callable[..., Any] | None:
    """A function of a module of NumPy's, of SciPy's or of Python's `math`, if it is in the table.

    Raises:
        GraphError: this process has no SciPy.
    """
    if name.startswith("_"):
        return None
    if module in NUMPY_MODULES and name not in FILES:
        owner: Any = np
        for part in module.split(".")[1:]:
            owner = getattr(owner, part)
        found = getattr(owner, name, None) if name in dir(owner) else None
        return found if isinstance(found, _OF_ARRAYS) else None
    if module == "math":
        found = getattr(math, name, None)
        return found if callable(found) else None
    if module == RANDOM:
        drawing = sys.modules.get(RANDOM) if name in DRAWN else None
        return None if drawing is None else getattr(drawing, name, None)
    root, _, package = module.partition(".")
    known = package in SCIPY_PACKAGES or module in ROUTINES
    if root != "scipy" or name in _SETTINGS or not known:
        return None
    try:
        owner = import_module(module)
    except ImportError:
        raise GraphError(f"this process has no SciPy for {name!r}") from None
    if module in ROUTINES:
        found = getattr(owner, name, None)
        return _with_scalars(found) if is_routine(found) and not _writes(found) else None
    found = getattr(owner, name, None) if name in owner.__all__ else None
    if package == "linalg" and callable(found):
        return _with_scalars(found)
    return found if callable(found) and not isinstance(found, type) else None


@memo(256)
def _with_scalars(function: Callable[..., Any]) -> Callable[..., Any]:
    """A function that gives NumPy scalars where this one, its `of_numbers`, gives numbers."""

    def called(*args: Any, **kwargs: Any) -> Any:
        return scalars_of(function(*args, **kwargs))

    called.of_numbers = function  # type: ignore[attr-defined]
    return called


def scalars_of(value: Any) -> Any:
    """NumPy's scalar for a Python number, in a tuple too; any other value itself."""
    if type(value) is tuple:
        return tuple(map(scalars_of, value))
    return np.asarray(value)[()] if type(value) in (bool, int, float) else value


def stands_for(name: str, function: Any) -> bool:
    """Whether a name stands for this function."""
    try:
        found = resolve(name)
    except GraphError:
        return False
    return getattr(found, "of_numbers", found) is function


def is_routine(value: Any) -> bool:
    """Whether a value is a routine of LAPACK's or BLAS's, as f2py wraps them."""
    return type(value).__name__ == "fortran" and type(value).__module__ in ("builtins", "fortran")


def _writes(routine: Any) -> bool:
    """Whether a routine changes an argument that its text says is a result, too.

    One that has an `overwrite_` switch for it works on a copy while that is off.
    """
    text = str(routine.__doc__)
    results, _, rest = text.partition("\n")[0].partition(" = ")
    given = re.findall(r"\w+", rest.partition("(")[2].partition("[")[0])
    kept = [*set(given).intersection(results.split(",")), *re.findall(r"and (\w+) storage", text)]
    return "in/output" in text or any(f"overwrite_{name}" not in text for name in kept)


#: Types of NumPy's functions of arrays.
_OF_ARRAYS = (np.ufunc, type(np.sum))


def ufunc_name(ufunc: np.ufunc) -> str | None:
    """The name by which a ufunc of NumPy's or SciPy's is found again."""
    modules = (("numpy", np), ("scipy.special", sys.modules.get("scipy.special")))
    for package, module in modules:
        if getattr(module, ufunc.__name__, None) is ufunc:
            return f"{package}.{ufunc.__name__}"
    return None


def vectorized(function: Any, options: dict[str, Any], *args: Any, **kwargs: Any) -> Any:
    """What np.vectorize's objects give."""
    excluded = set(options["excluded"])
    return np.vectorize(function, **{**options, "excluded": excluded})(*args, **kwargs)


def updated(array: Any, chain: Sequence[tuple[str, str]], index: Any, value: Any) -> Any:
    """A copy of an array after `array[views][index] = value`."""
    new, seen = _copied(array, chain)
    seen[index] = value
    return new


def changed(
    array: Any, chain: Sequence[tuple[str, str]], name: str, *args: Any, **kwargs: Any
) -> Any:
    """A copy of an array after a function has changed what views of it show."""
    new, seen = _copied(array, chain)
    resolve(name)(seen, *args, **kwargs)
    return new


def _copied(array: Any, chain: Sequence[tuple[str, str]]) -> tuple[Any, Any]:
    """A copy of an array, and what views of it show.

    Raises:
        PatternMiss: a view is a copy.
    """
    new = array.copy("K") if layouts.is_array(array) else array.copy()
    seen = views.apply_views(new, [attribute_text.read(*view) for view in chain], {}, np)
    if chain and not np.may_share_memory(seen, new):
        raise PatternMiss("a view of this memory is a copy")
    return new, seen


def read_number(array: Any, name: str) -> Any:
    """The scalar that an array of one element holds."""
    return array[()]


def decided(found: Any, outcome: Any) -> Any:
    """True: a decision has the outcome that a program was made for.

    Raises:
        PatternMiss: it has another one.
    """
    if type(found) is not type(outcome) or found != outcome:
        raise PatternMiss(f"a decision is {found!r}, not {outcome!r}")
    return np.True_


def counted(length: int) -> Any:
    """An array of a length, into whose memory nobody looks: it tells kernels the length."""
    return np.empty(length, np.bool_)


def rows_times(rows: Any, matrix: Any) -> Any:
    """`rows @ matrix`, of a stack of single rows: one call of BLAS in place of one for each.

    Of rows in another memory order the result has that order, too: NumPy makes it.
    """
    if not rows.flags.c_contiguous:
        return rows @ matrix
    *stack, _, inner = rows.shape
    flat = rows.reshape(math.prod(stack), inner)
    return (flat @ matrix).reshape(*stack, 1, matrix.shape[1])


#: The calls that stand for a loop region (`loops`), and for a loop over elements.
LOOP = "fuser.loop"
ELEMENT_LOOP = "fuser.element_loop"
LOOPS = (LOOP, ELEMENT_LOOP)
#: What is called by names that no module has; of loops, it is handed in.
SPECIAL: dict[str, Callable[..., Any]] = {
    "fuser.updated": updated, "fuser.changed": changed, "fuser.vectorized": vectorized,
    READ: read_number, DECIDED: decided, COUNTED: counted, ROWS_TIMES: rows_times,
}  # fmt: skip


# -- running --------------------------------------------------------------------------------


def filled(value: Any, operands: Sequence[Any], numbers: Mapping[str, Any]) -> Any:
    """An argument with its operands and numbers put in."""
    kind = type(value)
    if kind is Operand:
        array = operands[value.index]
        return array[()] if value.scalar else array
    if kind is Number:
        return evaluate_scalar(value.text, numbers)
    if kind is Closure:
        held = [filled(part, operands, numbers) for part in value.values]
        return with_values(value.name, *held)
    if kind is tuple or kind is list:
        return kind(filled(part, operands, numbers) for part in value)
    if kind is dict:
        return {key: filled(part, operands, numbers) for key, part in value.items()}
    if kind is slice:
        bounds = (filled(b, operands, numbers) for b in (value.start, value.stop, value.step))
        return slice(*bounds)
    if kind is Unset:
        return maker_of(value)(filled(value.like, operands, numbers), value.dtype)
    return value


def maker_of(part: Unset) -> Callable[..., Any]:
    """What makes an array without values."""
    made: Any = np.empty_like if type(part.like) is Operand else np.empty
    return made  # type: ignore[no-any-return] # a function of NumPy's


def invoke(call: Call, operands: Sequence[Any], numbers: Mapping[str, Any]) -> list[Any]:
    """Run a call; its results in order, however they nest."""
    args = [filled(part, operands, numbers) for part in call.args]
    kwargs = {key: filled(part, operands, numbers) for key, part in call.kwargs.items()}
    with silent(call.silenced) if call.silenced else nullcontext():
        return trees.flatten(resolve(call.name)(*args, **kwargs))[1]


def run(
    nodes: Sequence[Node], operands: Sequence[Any], numbers: dict[str, Any],
    results: Sequence[Any] | None = None,
) -> list[Any]:  # fmt: skip
    """Run one call, check its results and note the lengths that only they tell.

    Args:
        nodes: the extern nodes of this call, one for each result that is used.
        operands: arrays in the order of the nodes' operands.
        numbers: scalars and lengths by name; new lengths are added.
        results: what the call has given, where it was run another way.

    Returns:
        The results of `nodes`, in their order.

    Raises:
        CallFailed: the function raised.
        PatternMiss: a result is of another kind than the graph says.
    """
    call = nodes[0].payload
    try:
        results = invoke(call, operands, numbers) if results is None else results
    except PatternMiss:
        raise
    except Exception as error:  # whatever it is: the plain function raises it again
        raise CallFailed(call.short_name, error) from error
    found = []
    for node in nodes:
        place = node.payload
        if place.output >= len(results):
            raise PatternMiss(f"{call.short_name} gave {len(results)} results")
        value = results[place.output]
        _check(node, place, value, operands)
        _bind(node, value.shape, numbers)
        if place.tells:
            numbers[place.tells] = value.item()
        found.append(value)
    return found


def _check(node: Node, call: Call, value: Any, operands: Sequence[Any]) -> None:
    """Compare a result with what the graph says of it.

    Raises:
        PatternMiss: they differ.
    """
    if not hasattr(value, "dtype") or not hasattr(value, "shape"):
        raise PatternMiss(f"{call.short_name} gave {type(value).__name__}")
    same = infer.dtype_of(value.dtype) == node.dtype and value.dtype.isnative
    if not same or value.ndim != len(node.shape) or isinstance(value, np.generic) != call.scalar:
        raise PatternMiss(f"{call.short_name} gave {value.dtype} of rank {value.ndim}")
    if shares_memory(value, operands) and not call.shares:
        raise PatternMiss(f"{call.short_name} gave a view of its operand")


def shares_memory(value: Any, operands: Sequence[Any]) -> bool:
    """Whether a result may look at an operand's memory."""
    if not layouts.is_array(value):
        return False
    return any(layouts.is_array(array) and np.may_share_memory(value, array) for array in operands)


def _bind(node: Node, shape: Sequence[int], numbers: dict[str, Any]) -> None:
    """Note lengths that are new, and compare those that are known.

    Raises:
        PatternMiss: a length differs.
    """
    for dim, length in zip(node.shape, shape, strict=True):
        if isinstance(dim, dims.Length) and dim.text.isalnum() and dim.text not in numbers:
            numbers[dim.text] = length
    for dim, length in zip(node.shape, shape, strict=True):
        known = isinstance(dim, int) or all(name in numbers for name in dims.symbols(dim))
        if known and dims.evaluate(dim, numbers) != length:
            raise PatternMiss(f"length {length} where the graph has {dim}")


def check_guards(graph: Graph, numbers: Mapping[str, Any]) -> None:
    """Check the graph's guards on lengths, as far as they are known.

    Raises:
        PatternMiss: two lengths differ that must be equal.
    """
    for left, right in graph.guards:
        if all(name in numbers for dim in (left, right) for name in dims.symbols(dim)):
            if dims.evaluate(left, numbers) != dims.evaluate(right, numbers):
                raise PatternMiss(f"{left} is not {right}")


# -- calls of a graph -----------------------------------------------------------------------


MASK_INDEX = (
    "a boolean mask as an index cannot be fused: how many elements it picks is known only when it "
    "runs; use np.where(mask, a, b), or multiply by the mask"
)
ARRAY_INDEX = (
    "this index is not fused: an array of several axes or of one number, arrays beside slices, a "
    "step, or of an array without elements; NumPy picks the elements between kernels"
)


def calls_of(graph: Graph) -> list[list[Node]]:
    """The extern nodes of a graph, call by call in the order of execution."""
    found: dict[int, list[Node]] = {}
    for node in graph.nodes:
        if node.op.is_opaque:
            found.setdefault(node.payload.number, []).append(node)
    return [found[number] for number in sorted(found)]


def reason_of(node: Node, line: str) -> Reason:
    """Why a call runs in NumPy, in the fixed vocabulary."""
    call = node.payload
    dtypes = [*(arg.dtype for arg in node.args), node.dtype]
    for dtype in dtypes:
        if dtype.kind not in "biufc" or (dtype.kind == "c" and _takes_real(call)):
            return Reason("unsupported-dtype", call.short_name, f"dtype {dtype}", line)
    if call.name in ("numpy.ndarray.__getitem__", "fuser.updated"):
        found = MASK_INDEX if any(arg.dtype.kind == "b" for arg in node.args[1:]) else ARRAY_INDEX
        return Reason("unsupported-argument", call.short_name, found, line)
    name = str(call.args[2]) if call.name == "fuser.changed" else call.name
    code = "unsupported-argument" if _has_fused_form(name) else "unsupported-function"
    return Reason(code, call.short_name, "NumPy runs it between kernels", line)


def _takes_real(call: Call) -> bool:
    """Whether the function that is called has a fused form, of real numbers."""
    return not call.name.startswith("fuser.") and _has_fused_form(call.name)


def _has_fused_form(name: str) -> bool:
    """Whether other calls of the function are fused."""
    if name.startswith("numpy.ndarray."):
        return name.rpartition(".")[2] in ("astype", "copy", "reshape", "ravel", "flatten")
    if name == "numpy.where":
        return False  # with one operand it is a search, with three it is always fused
    function = resolve(name)
    known = isinstance(function, np.ufunc) and (
        function.__name__ in UFUNC_ROWS or function.__name__ in UFUNC_PAIRS
    )
    try:
        return known or function in function_table.handlers()
    except TypeError:  # not hashable
        return False


# -- arguments as text --------------------------------------------------------------------------


def spell(value: Any, operand: Callable[[Any], str | None]) -> str | None:
    """Write an argument; None where it has no text.

    Args:
        value: the argument.
        operand: gives the text of arrays and traced numbers, None for anything else.
    """
    known = operand(value)
    if known is not None:
        return known
    kind = type(value)
    if value is None or value is Ellipsis or kind in (bool, int):
        return "..." if value is Ellipsis else repr(value)
    if kind is str:
        return None if "host(" in value else repr(value)
    if kind is float:
        return repr(value)
    if isinstance(value, np.dtype) or (isinstance(value, type) and _is_dtype(value)):
        name = np.dtype(value).name
        return f"dtype({name!r})" if _round_trips(np.dtype(value)) else None
    if kind is slice:
        parts = [spell(bound, operand) for bound in (value.start, value.stop, value.step)]
        return None if None in parts else f"slice({', '.join(map(str, parts))})"
    if kind in (tuple, list):
        parts = [spell(part, operand) for part in value]
        if None in parts:
            return None
        inner = ", ".join(map(str, parts))
        return f"[{inner}]" if kind is list else f"({inner}{',' if len(parts) == 1 else ''})"
    if kind is dict and all(type(key) is str for key in value):
        pairs = [(key, spell(part, operand)) for key, part in value.items()]
        if any(part is None for _, part in pairs):
            return None
        return f"dict({', '.join(f'{key}={part}' for key, part in pairs)})"
    return None


def _is_dtype(kind: type) -> bool:
    """Whether a type names a dtype."""
    return kind in (bool, int, float, complex) or issubclass(kind, np.generic)


def _round_trips(dtype: np.dtype[Any]) -> bool:
    """Whether a dtype is known by its name alone."""
    try:
        return re.fullmatch(r"\w+", dtype.name) is not None and np.dtype(dtype.name) == dtype
    except TypeError:
        return False


def named_dtype(dtype: np.dtype[Any]) -> bool:
    """Whether arrays of this dtype can pass between calls of NumPy functions."""
    return dtype.kind in "biufc" and dtype.isnative and _round_trips(dtype)


def rename(text: str, names: Mapping[str, Any]) -> str:
    """Replace symbols in the numbers of a call."""
    return respell(text, lambda number: rename_scalars(number, names))


def respell(text: str, change: Callable[[str], str]) -> str:
    """Replace the numbers of a call, each by what a function makes of its text."""
    return re.sub(_HOST, lambda found: f"host({change(found[1])!r})", text)


_HOST = r"host\('([^']*)'\)"


# -- Python functions that NumPy calls for each row, and names for them ------------------------

#: What a cell holds that is kept free for a value of each call.
FREE = object()
#: More functions than this are not remembered: what calls another one runs as a whole.
FUNCTION_LIMIT = 1024
_lock = forks.lock()
_functions: dict[str, FunctionType] = {}
_names: dict[Any, str] = {}


def name_of(function: FunctionType) -> str | None:
    """The name of a function in this process; None where there are too many."""
    key = _key(function)
    with _lock:
        found = _names.get(key)
        if found is None and len(_functions) < FUNCTION_LIMIT:
            plain = f"{function.__module__}.{function.__qualname__}"
            found, number = plain, 1
            while found in _functions:
                number += 1
                found = f"{plain}#{number}"
            _functions[found], _names[key] = function, found
        return found


def function_named(name: str) -> FunctionType:
    """The function of a name.

    Raises:
        GraphError: this process has none.
    """
    if name not in _functions:
        raise GraphError(f"this process knows no function {name!r}")
    return _functions[name]


def with_values(name: str, *values: Any) -> FunctionType:
    """The function of a name, with values in the cells that are kept free for them."""
    function, given = function_named(name), iter(values)
    cells = (
        CellType(next(given)) if cell.cell_contents is FREE else cell
        for cell in function.__closure__ or ()
    )
    made = FunctionType(
        function.__code__, function.__globals__, function.__name__, function.__defaults__,
        tuple(cells),
    )  # fmt: skip
    made.__kwdefaults__ = function.__kwdefaults__
    made.__qualname__ = function.__qualname__
    return made


def _key(function: FunctionType) -> Any:
    """What a function does: its code, and what it reaches, by identity; the function keeps that."""
    cells = function.__closure__ or ()
    reached = [*(function.__defaults__ or ()), *(cell.cell_contents for cell in cells)]
    words = tuple((word, id(value)) for word, value in (function.__kwdefaults__ or {}).items())
    parts = tuple(_key(part) if type(part) is FunctionType else id(part) for part in reached)
    return function.__code__, id(function.__globals__), len(cells), parts, words
