"""Tracing: the user's function runs on stand-ins for arrays, and a graph comes out."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any

import numpy as np

from fuser import dims, externs, facts, infer, regions, scalars
from fuser.dims import Dim
from fuser.errors import ShapeError, Unsupported, user_line
from fuser.graph import (
    Graph,
    Node,
    Parameter,
    make,
    make_constant,
    make_input,
    make_scalar,
    rebuild,
    walk,
)
from fuser.graph import intern as intern_node
from fuser.ops import DTYPES, TABLE, UFUNC_PAIRS, UFUNC_ROWS
from fuser.scalars import HostScalar
from fuser.traced_array import Storage, TracedArray
from fuser.trees import Leaf, flatten, unflatten

View = tuple[str, str]
#: A parameter, a graph output, and where in the parameter's array it is written back.
Write = tuple[int, int, str]
COMPARISONS = ("equal", "not_equal", "less", "less_equal", "greater", "greater_equal")
LOGIC = ("logical_and", "logical_or", "logical_xor")


@dataclass(frozen=True, slots=True)
class OutNode:
    """An output computed by the graph; `generic`: NumPy gives a scalar, not a 0-d array."""

    index: int
    generic: bool


@dataclass(frozen=True, slots=True)
class OutView:
    """A view of another output."""

    index: int
    views: tuple[View, ...]


@dataclass(frozen=True, slots=True)
class OutAlias:
    """An output that is a parameter itself, or a view of it."""

    parameter: int
    views: tuple[View, ...]


@dataclass(frozen=True, slots=True)
class OutScalar:
    """An output that is a Python scalar computed on the host."""

    text: str
    kind: str


@dataclass(frozen=True, slots=True)
class OutStatic:
    """An output that does not depend on the arguments' values.

    `fresh`: the function makes a new array at every call, so callers get copies.
    """

    value: Any
    fresh: bool = False


@dataclass(frozen=True, eq=False)
class Trace:
    """What one trace found.

    Attributes:
        graph: the canonical graph; its outputs are OutNodes first, then values written back.
        structure: how outputs nest; leaves are indices into `leaves`.
        leaves: OutNode, OutAlias, OutScalar or OutStatic.
        writes: (parameter, graph output, region) of what is written back into arguments, in
            order; a region is spelled as in update nodes, "" is the whole array.
        value_guards: (host expression, value) pairs that this trace holds for.
        parameter_leaves: for each parameter, the index of the argument leaf; None if captured.
        hazards: pairs of parameters that must not share memory: the first is written before
            the second is read or written.
        hints: lengths in the traced call that only functions run between kernels tell.
    """

    graph: Graph
    structure: Any
    leaves: tuple[Any, ...]
    writes: tuple[Write, ...]
    value_guards: tuple[tuple[str, Any], ...]
    parameter_leaves: tuple[int | None, ...]
    hazards: tuple[tuple[int, int], ...] = ()
    hints: Mapping[str, int] = field(default_factory=dict)


@dataclass(slots=True)
class _Argument:
    """A parameter while tracing."""

    storage: Storage
    array: Any
    initial: Node
    leaf: int | None


@dataclass(eq=False)
class Tracing:
    """One trace in progress."""

    sizes: dict[str, int] = field(default_factory=dict)
    equal: dict[str, Dim] = field(default_factory=dict)
    guards: list[tuple[Dim, Dim]] = field(default_factory=list)
    value_guards: dict[str, Any] = field(default_factory=dict)
    arguments: list[_Argument] = field(default_factory=list)
    scalars: list[tuple[HostScalar, int]] = field(default_factory=list)
    lines: dict[int, str] = field(default_factory=dict)
    captured: dict[int, TracedArray] = field(default_factory=dict)
    written: dict[int, None] = field(default_factory=dict)
    hazards: dict[tuple[int, int], None] = field(default_factory=dict)
    replay: Any = None
    externs: dict[int, tuple[Node, Any]] = field(default_factory=dict)
    extern_count: int = 0
    failed: Unsupported | None = None

    # -- arguments --------------------------------------------------------------------------

    def add_array(self, array: Any, leaf: int | None) -> TracedArray:
        """Stand in for an array argument (`leaf`) or a captured array (None)."""
        check_array(array, "argument" if leaf is not None else "captured array")
        shape: list[Dim] = []
        shape.extend(map(self.new_length, array.shape))
        node = make_input(f"x{len(self.arguments)}", array.dtype, tuple(shape))
        storage = Storage(node, len(self.arguments))
        self.arguments.append(_Argument(storage, array, node, leaf))
        return TracedArray(self, storage, (), isinstance(array, np.generic))

    def add_scalar(self, value: Any, leaf: int) -> HostScalar:
        """Stand in for a Python scalar argument."""
        scalar = HostScalar(self, f"s{len(self.scalars)}", value)
        self.scalars.append((scalar, leaf))
        return scalar

    def guard_value(self, text: str, value: Any) -> None:
        """Note that this trace holds only while a host expression has this value."""
        self.value_guards[text] = value

    def note_read(self, argument: int | None) -> None:
        """Note which arguments must not share memory: this one is read after others' writes."""
        if argument is not None:
            for other in self.written:
                if other != argument:
                    self.hazards[other, argument] = None

    def note_write(self, argument: int | None) -> None:
        """Note a write into an argument."""
        self.note_read(argument)
        if argument is not None:
            self.written[argument] = None

    def capture(self, array: Any) -> TracedArray:
        """Stand in for a real array that the function reached: a hidden input by reference."""
        found = self.captured.get(id(array))
        if found is None:
            found = self.captured[id(array)] = self.add_array(array, None)
        return found

    # -- lengths ----------------------------------------------------------------------------

    def new_length(self, length: int) -> Dim:
        """A symbol for a length of this call."""
        name = f"n{len(self.sizes)}"
        self.sizes[name] = length
        return dims.symbol(name)

    def size_of(self, value: Any) -> Any:
        """The number that a Python or traced scalar is in this call."""
        return value.hint if isinstance(value, HostScalar) else value

    def resolve(self, dim: Dim) -> Dim:
        """Replace symbols by what they were found to equal."""
        while not isinstance(dim, int) and any(s in self.equal for s in dims.symbols(dim)):
            dim = dims.substitute(dim, self.equal)
        return dim

    def size(self, dim: Dim) -> int:
        """The length in this call."""
        return dims.evaluate(dim, self.sizes)

    def unify(self, left: Dim, right: Dim, context: Callable[[], str]) -> Dim:
        """Broadcast two lengths against each other, noting what has to hold for it."""
        left, right = self.resolve(left), self.resolve(right)
        if self.guards and left != right:
            same = dims.representatives(self.guards)
            left = self.resolve(same.get(str(left), left))
            right = self.resolve(same.get(str(right), right))
        if left == right or right == 1:
            return left
        if left == 1:
            return right
        here, there = self.size(left), self.size(right)
        if here == there:
            self._hold(left, right)
            return self.resolve(left)
        if here == 1:
            self._hold(left, 1)
            return right
        if there == 1:
            self._hold(right, 1)
            return left
        raise ShapeError(f"{context()}: {here} against {there}. Make the two lengths equal, "
                         "or make one of them 1.")  # fmt: skip

    def hold_at_least(self, length: Dim, bound: int) -> None:
        """Note that this trace holds only where a length is at least `bound`."""
        length = self.resolve(length)
        if not isinstance(length, int):
            pair = facts.at_least(length, bound)
            if pair[0] != pair[1] and pair not in self.guards:
                self.guards.append(pair)

    def _hold(self, left: Dim, right: Dim) -> None:
        """Record `left == right`, as a substitution where one side is a plain symbol."""
        pairs = [(right, left), (left, right)]
        if not isinstance(left, int) and not isinstance(right, int):
            plain = [(a, b) for a, b in pairs if str(a) in self.sizes]
            plain.sort(key=lambda pair: -int(str(pair[0])[1:]))  # later symbols give way
            pairs = plain
        for old, new in pairs:
            if not isinstance(old, int) and str(old) in self.sizes:
                if str(old) not in dims.symbols(new):
                    self.equal[str(old)] = new
                    return
        self.guards.append((left, right))

    def known_equal(self) -> dict[str, Dim]:
        """Lengths found equal so far, by text."""
        found = dims.representatives(self.guards)
        for name in self.equal:
            length = self.resolve(dims.symbol(name))
            found[name] = found.get(str(length), length)
        return found

    def broadcast(self, name: str, shapes: Sequence[tuple[Dim, ...]]) -> tuple[Dim, ...]:
        """The common shape of several operands."""
        if all(shape == shapes[0] for shape in shapes):
            return shapes[0]
        rank = max(map(len, shapes))
        result: list[Dim] = []
        for axis in range(-rank, 0):
            length: Dim = 1
            for shape in shapes:
                if len(shape) >= -axis:
                    length = self.unify(
                        length,
                        shape[axis],
                        lambda axis=axis: self._mismatch(name, shapes, axis),  # type: ignore[misc]
                    )
            result.append(length)
        return tuple(result)

    def _mismatch(self, name: str, shapes: Sequence[tuple[Dim, ...]], axis: int) -> str:
        """Say which shapes do not broadcast."""
        found = [str(tuple(self.size(dim) for dim in shape)) for shape in shapes]
        line = user_line()
        return (
            f"{name}: shapes {' and '.join(found)} do not broadcast at axis {axis}"
            f"{f' ({line})' if line else ''}"
        )

    # -- nodes ------------------------------------------------------------------------------

    def node(self, name: str, args: Sequence[Node], payload: str = "") -> Node:
        """Build an elementwise or structural node, with this trace's notion of equal lengths."""
        row = TABLE[name]
        dtype = infer.result_dtype(row, [arg.dtype for arg in args], payload)
        shapes = [arg.shape for arg in args]
        if row.reduction:
            shape = infer.result_shape(row, shapes, payload)
        elif row.structure:
            equal: Mapping[str, Dim] = infer.NOTHING
            if name == "concatenate":
                equal = self.known_equal()
                shapes = [tuple(map(self.resolve, shape)) for shape in shapes]
            shape = infer.result_shape(row, shapes, payload, equal)
        else:
            shape = self.broadcast(name, shapes)
        made = intern_node(row, tuple(args), shape, dtype, payload)
        if id(made) not in self.lines:
            self.lines[id(made)] = user_line()
        return made

    def cast(self, node: Node, dtype: Any) -> Node:
        """Convert a node; nothing where it has the dtype already."""
        dtype = infer.dtype_of(dtype)
        check_dtype(dtype, "cast")
        return node if node.dtype == dtype else self.node("cast", [node], dtype.name)

    def own(self, node: Node, dtype: Any, order: str) -> Node:
        """A converted copy of a node, in memory order "K" or "C"."""
        dtype = infer.dtype_of(dtype)
        check_dtype(dtype, "cast")
        return self.node("cast", [node], f"{dtype.name} {order}")

    def operand_node(self, value: Any, dtype: np.dtype[Any]) -> Node:
        """The node of one operand, converted to the dtype that the operation computes in."""
        if isinstance(value, TracedArray):
            return self.cast(value.node, dtype)
        if isinstance(value, HostScalar):
            convert_scalar(value.hint, dtype)
            return make_scalar(value.text, dtype)
        return make_constant(convert_scalar(value, dtype), dtype)

    def operand(self, value: Any) -> Any:
        """Bring an operand into one of: TracedArray, HostScalar, Python scalar, NumPy scalar."""
        if isinstance(value, (TracedArray, HostScalar, bool, int, float)):
            if isinstance(value, TracedArray) and value.tracing is not self:
                raise Unsupported("not-traceable", "nested trace", "a value of another trace")
            return value
        if isinstance(value, np.generic):
            check_dtype(value.dtype, "scalar")
            return value
        if isinstance(value, np.ndarray) or hasattr(value, "__cuda_array_interface__"):
            return self.capture(value)
        if isinstance(value, (list, tuple)):
            if any(isinstance(v, (TracedArray, HostScalar)) for v in value):
                raise Unsupported("array-conversion", "sequence of arrays", "a list as operand")
            return self.capture(np.asarray(value))
        raise Unsupported("unsupported-array", "operand", f"{type(value).__name__}")

    # -- values of this call ----------------------------------------------------------------

    def numbers(self) -> dict[str, Any]:
        """Scalars and lengths of this call, by name."""
        return {**self.sizes, **{scalar.text: scalar.hint for scalar, _ in self.scalars}}

    def evaluate(self, node: Node) -> Any:
        """The value of a node in this call, computed operation by operation."""
        from fuser.fallback import evaluate  # it needs this module

        arrays = {argument.initial.payload: argument.array for argument in self.arguments}
        known = {key: value for key, (_, value) in self.externs.items()}
        with np.errstate(all="ignore"):
            return evaluate(node, known, arrays, self.numbers())

    # -- ufuncs -----------------------------------------------------------------------------

    def apply_ufunc(
        self, ufunc: np.ufunc, method: str, inputs: Sequence[Any], options: dict[str, Any]
    ) -> Any:
        """Trace `ufunc(*inputs, **options)`; NumPy runs it where it has no fused form."""
        from fuser.extern_tracing import SEAM_CODES, ForeignArray, call_ufunc

        if any(type(value) is ForeignArray for value in inputs):
            return call_ufunc(self, ufunc, method, inputs, options)
        try:
            return self._fused_ufunc(ufunc, method, inputs, dict(options))
        except Unsupported as error:
            if error.reason.code not in SEAM_CODES:
                raise
        return call_ufunc(self, ufunc, method, inputs, options)

    def _fused_ufunc(
        self, ufunc: np.ufunc, method: str, inputs: Sequence[Any], options: dict[str, Any]
    ) -> Any:
        """Trace `ufunc(*inputs, **options)` as nodes.

        Raises:
            Unsupported: it has no fused form.
        """
        name = ufunc.__name__
        if method == "reduce" and len(inputs) == 1:
            from fuser.reductions import reduce_ufunc

            return reduce_ufunc(self, ufunc, inputs[0], options)
        if method == "outer" and len(inputs) == 2 and ufunc.nin == 2:
            return self._outer(ufunc, inputs, options)
        if method != "__call__":
            raise Unsupported("unsupported-function", f"np.{name}.{method}", "a ufunc method")
        out = options.pop("out", None)
        where = options.pop("where", True)
        dtype = options.pop("dtype", None)
        casting = options.pop("casting", "same_kind")
        if options.pop("order", "K") != "K" or options:
            raise Unsupported("unsupported-argument", f"np.{name}", f"{sorted(options) or 'order'}")
        operands = [self.operand(value) for value in inputs]
        targets = out if isinstance(out, tuple) else (out,) * ufunc.nout
        if where is not True and any(target is None for target in targets):
            raise Unsupported("where-without-out", f"np.{name}", "where= and no out=")
        results = self._results(ufunc, operands, dtype, casting)
        generic = all(not isinstance(v, TracedArray) or not v.shape for v in operands)
        finished = [
            self.wrap(node, generic and not node.shape)
            if target is None
            else self.write(target, node, where, casting, name)
            for node, target in zip(results, targets, strict=True)
        ]
        return finished[0] if len(finished) == 1 else tuple(finished)

    def _outer(self, ufunc: np.ufunc, inputs: Sequence[Any], options: dict[str, Any]) -> Any:
        """`ufunc.outer(a, b)`: every element of a with every element of b."""
        if any(isinstance(value, HostScalar) for value in inputs):
            raise Unsupported("unsupported-function", f"np.{ufunc.__name__}.outer", "a scalar")
        strong = [np.asarray(v)[()] if type(v) in (bool, int, float) else v for v in inputs]
        left, right = (self.operand(value) for value in strong)
        axes = right.ndim if isinstance(right, TracedArray) else 0
        if axes and isinstance(left, TracedArray):
            left = left[(..., *(None,) * axes)]
        return self.apply_ufunc(ufunc, "__call__", (left, right), options)

    def _results(
        self, ufunc: np.ufunc, operands: list[Any], dtype: Any, casting: str
    ) -> list[Node]:
        """The result nodes of a ufunc, one for each of its outputs."""
        name = ufunc.__name__
        if name == "float_power":
            name, ufunc, dtype = "power", np.power, np.float64
        rows = UFUNC_PAIRS.get(name) or (UFUNC_ROWS.get(name),)
        if rows[0] is None:
            raise Unsupported("unsupported-function", f"np.{name}", "no row in the op table")
        loop = loop_dtypes(ufunc, operands, dtype, casting)
        for value, wanted in zip(operands, loop, strict=False):
            check_dtype(wanted, f"np.{name}")
            if name in COMPARISONS and not fits_dtype(value, wanted):
                raise Unsupported("scalar-range", f"np.{name}", f"{value!r} against {wanted}")
        wanted_in = list(loop[: ufunc.nin])
        if name in LOGIC and len(set(wanted_in)) > 1:
            wanted_in = [np.dtype(bool)] * 2
        if name in COMPARISONS and len(set(wanted_in)) > 1:
            return [self._compare_signs(name, operands, wanted_in)]
        nodes = [self.operand_node(v, d) for v, d in zip(operands, wanted_in, strict=True)]
        return [self.node(str(row), nodes) for row in rows]

    def _compare_signs(self, name: str, operands: list[Any], loop: list[Any]) -> Node:
        """Compare a signed with an unsigned integer of 64 bits exactly."""
        nodes = [self.operand_node(v, d) for v, d in zip(operands, loop, strict=True)]
        signed = 0 if loop[0].kind == "i" else 1
        wide = [self.cast(node, np.uint64) for node in nodes]
        below = self.node("less", [nodes[signed], make_constant(0, np.int64)])
        plain = self.node(name, wide)
        # A negative number is less than every unsigned one.
        less = name.startswith("less") == (not signed)
        answer = {"equal": False, "not_equal": True}.get(name, less)
        return self.node("where", [below, make_constant(answer, bool), plain])

    def wrap(self, node: Node, generic: bool = False) -> TracedArray:
        """A new array whose value is `node`."""
        return TracedArray(self, Storage(node), (), generic)

    def write(self, target: Any, node: Node, where: Any, casting: str, name: str) -> Any:
        """Write a result into an existing array, as `out=` does."""
        if type(target) is np.ndarray:
            # The function may go on with the array itself, which nothing has been written to.
            raise Unsupported("write-into-constant", f"np.{name}", "an array made by NumPy alone")
        array = target if isinstance(target, TracedArray) else self.operand(target)
        if not isinstance(array, TracedArray):
            raise Unsupported("unsupported-argument", f"np.{name}", "out= is not an array")
        old = array.node
        if not np.can_cast(node.dtype, old.dtype, casting):  # type: ignore[arg-type]
            raise TypeError(
                f"Cannot cast ufunc '{name}' output from {node.dtype!r} to {old.dtype!r} "
                f"with casting rule '{casting}'"
            )
        new = self.cast(node, old.dtype)
        if where is not True:
            mask = self.operand_node(self.operand(where), np.dtype(bool))
            new = self.node("where", [mask, new, old])
        array.assign(new, strict=name != "copyto")
        return target

    # -- functions --------------------------------------------------------------------------

    def apply_function(self, function: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
        """Trace a NumPy function that is no ufunc; NumPy runs it where it has no fused form."""
        from fuser import array_formulas  # they need this module
        from fuser.array_functions import HANDLERS
        from fuser.extern_tracing import SEAM_CODES, ForeignArray, call_function
        from fuser.reductions import register

        register()
        array_formulas.register()
        handler = HANDLERS.get(function)
        leaves = flatten((args, kwargs))[1]
        if handler is None or any(type(leaf) is ForeignArray for leaf in leaves):
            return call_function(self, function, args, kwargs)
        try:
            return handler(self, *args, **kwargs)
        except TypeError as error:
            if "argument" not in str(error) or handler.__name__ not in str(error):
                raise
        except Unsupported as error:
            if error.reason.code not in SEAM_CODES:
                raise
        return call_function(self, function, args, kwargs)

    # -- the end ----------------------------------------------------------------------------

    def finish(self, result: Any) -> Trace:
        """Turn what the function returned into a canonical graph and the way to its outputs."""
        structure, found = flatten(result)
        nodes: list[Node] = []
        whole: dict[int, int] = {}
        for leaf in found:  # values first, so that views of them can be real views
            if isinstance(leaf, TracedArray) and not leaf.views and not self._argument_of(leaf):
                if id(leaf.storage) not in whole:
                    whole[id(leaf.storage)] = len(nodes)
                    nodes.append(leaf.node)
        leaves = [self._leaf(leaf, nodes, whole) for leaf in found]
        writes: list[Write] = []
        for place, argument in enumerate(self.arguments):
            if argument.storage.node is not argument.initial:
                for region, node in _written(argument):
                    writes.append((place, len(nodes), region))
                    nodes.append(node)
        nodes.extend(self._unused(nodes))
        return _canonical(self, structure, leaves, nodes, writes)

    def _unused(self, nodes: Sequence[Node]) -> list[Node]:
        """A result of each call that nothing needs: the call may raise, so it runs all the same."""
        used = {externs.read(n.payload).number for n in walk(nodes) if n.op.name == "extern"}
        found: dict[int, Node] = {}
        for node, _ in reversed(self.externs.values()):  # a later one may need an earlier one
            number = externs.read(node.payload).number
            if number not in used:
                found[number] = node
                used |= {
                    externs.read(n.payload).number for n in walk([node]) if n.op.name == "extern"
                }
        return list(found.values())

    def _argument_of(self, leaf: TracedArray) -> int | None:
        """1 + the parameter whose memory an output shares, or None."""
        for place, argument in enumerate(self.arguments):
            if leaf.storage is argument.storage:
                return place + 1
        return None

    def _leaf(
        self, leaf: Any, nodes: list[Node], whole: dict[int, int]
    ) -> Any:
        """Describe one output."""
        if isinstance(leaf, HostScalar):
            return OutScalar(leaf.text, leaf.kind.__name__)
        if not isinstance(leaf, TracedArray):
            known = id(leaf) in self.captured
            return OutStatic(leaf, fresh=isinstance(leaf, np.ndarray) and not known)
        if place := self._argument_of(leaf):
            return OutAlias(place - 1, leaf.views)
        if id(leaf.storage) not in whole:
            whole[id(leaf.storage)] = len(nodes)
            nodes.append(leaf.storage.node)
        place = whole[id(leaf.storage)]
        return OutView(place, leaf.views) if leaf.views else OutNode(place, leaf.generic)


def _written(argument: _Argument) -> list[tuple[str, Node]]:
    """What was written into an argument, and where, in order."""
    found: list[tuple[str, Node]] = []
    node = argument.storage.node
    while node is not argument.initial and node.op.name == "update":
        found.insert(0, (node.payload, node.args[1]))
        node = node.args[0]
    return found if node is argument.initial else [("", argument.storage.node)]


def check_array(array: Any, what: str) -> None:
    """Refuse arrays whose meaning is more than dtype, shape and strides."""
    if type(array) is not np.ndarray and not isinstance(array, np.generic):
        if isinstance(array, np.ndarray):
            raise Unsupported("unsupported-array", what, f"{type(array).__name__}, a subclass")
    if not array.dtype.isnative:
        raise Unsupported("byte-order", what, f"dtype {array.dtype.str}")
    check_dtype(array.dtype, what)


def check_dtype(dtype: np.dtype[Any], what: str) -> None:
    """Refuse dtypes that have no column in the op table."""
    if dtype not in _KNOWN:
        raise Unsupported("unsupported-dtype", what, f"dtype {dtype}")


_KNOWN = frozenset(map(np.dtype, DTYPES))


def loop_dtypes(
    ufunc: np.ufunc, operands: Sequence[Any], dtype: Any, casting: str
) -> tuple[np.dtype[Any], ...]:
    """The dtypes that NumPy itself would compute in, inputs then outputs.

    Raises:
        TypeError: NumPy's own, where it has no loop.
    """
    kinds: list[Any] = []
    for value in operands:
        if isinstance(value, TracedArray):
            kinds.append(value.dtype)
        elif isinstance(value, np.generic):
            kinds.append(value.dtype)
        else:
            kind = value.kind if isinstance(value, HostScalar) else type(value)
            kinds.append(np.dtype(bool) if kind is bool else kind)
    if all(isinstance(kind, type) for kind in kinds):
        kinds = [np.dtype(kind) for kind in kinds]
    return _resolved(ufunc, tuple(kinds), None if dtype is None else np.dtype(dtype), casting)


@lru_cache(maxsize=4096)
def _resolved(
    ufunc: np.ufunc, kinds: tuple[Any, ...], dtype: Any, casting: str
) -> tuple[np.dtype[Any], ...]:
    """Ask NumPy, once for each combination."""
    options: dict[str, Any] = {"casting": casting}
    if dtype is not None:
        options["signature"] = (None,) * ufunc.nin + (dtype,) * ufunc.nout
    found = ufunc.resolve_dtypes((*kinds, *(None,) * ufunc.nout), **options)
    return tuple(infer.dtype_of(d) for d in found)


def fits_dtype(value: Any, dtype: np.dtype[Any]) -> bool:
    """Whether a Python integer is in the range of the integer dtype that it meets."""
    number = value.hint if isinstance(value, HostScalar) else value
    if type(number) is not int or dtype.kind not in "iu":
        return True
    limits = np.iinfo(dtype)
    fits = bool(limits.min <= number <= limits.max)
    if fits and isinstance(value, HostScalar):  # later values may not
        value._tracing.guard_value(f"{limits.min} <= ({value.text}) <= {limits.max}", True)
    return fits


def convert_scalar(value: Any, dtype: np.dtype[Any]) -> Any:
    """Convert a scalar as NumPy does when it meets an array of `dtype`.

    Raises:
        OverflowError: a Python integer that the dtype cannot hold.
    """
    with np.errstate(all="ignore"):
        if isinstance(value, np.generic):
            return value.astype(dtype)
        return dtype.type(value)


# -- a whole function -----------------------------------------------------------------------


def trace_call(
    function: Callable[..., Any], tree: Any, leaves: Sequence[Any], replay: Any = None
) -> Trace:
    """Run `function` on stand-ins for its arguments.

    Args:
        function: the user's function.
        tree: structure of `(args, kwargs)` with `Leaf` places.
        leaves: the arguments in the order of the structure.
        replay: what functions without a fused form gave in an earlier trace of this call.

    Raises:
        Unsupported: with the reason why the function cannot be fused.
        Exception: what the function itself raises.
    """
    from fuser.extern_tracing import Replay

    tracing = Tracing(replay=Replay() if replay is None else replay)
    tracing.replay.place = 0
    stand_ins: list[Any] = []
    for place, leaf in enumerate(leaves):
        if isinstance(leaf, type):  # np.float32 itself has an array's attributes
            stand_ins.append(leaf)
        elif hasattr(leaf, "__array_interface__") or hasattr(leaf, "__cuda_array_interface__"):
            stand_ins.append(tracing.add_array(leaf, place))
        elif type(leaf) in (bool, int, float):
            stand_ins.append(tracing.add_scalar(leaf, place))
        else:
            stand_ins.append(leaf)
    args, kwargs = unflatten(tree, stand_ins)
    from fuser.namespace import traced

    result = traced(function, tracing)(*args, **kwargs)
    if tracing.failed is not None:  # the function has caught it: control flow by values
        raise tracing.failed
    return tracing.finish(result)


def _canonical(
    tracing: Tracing,
    structure: Any,
    leaves: list[Any],
    nodes: list[Node],
    writes: list[Write],
) -> Trace:
    """Rename symbols in order of appearance and rebuild all nodes with equal lengths merged."""
    resolved = [tuple(map(tracing.resolve, a.initial.shape)) for a in tracing.arguments]
    names: dict[str, Dim] = {}
    known = {symbol for shape in resolved for dim in shape for symbol in dims.symbols(dim)}
    resolved += [tuple(map(tracing.resolve, node.shape)) for node, _ in tracing.externs.values()]
    for shape in resolved:
        for dim in shape:
            for symbol in dims.symbols(dim):
                names.setdefault(symbol, dims.symbol(f"n{len(names)}"))
    full = {
        name: dims.substitute(tracing.resolve(dims.symbol(name)), names) for name in tracing.sizes
    }
    guards = [(dims.substitute(a, full), dims.substitute(b, full)) for a, b in tracing.guards]
    guards = [pair for pair in dict.fromkeys(guards) if pair[0] != pair[1]]
    equal = dims.representatives(guards)
    lines: dict[int, str] = {}

    def change(node: Node, args: tuple[Node, ...]) -> Node:
        try:
            new = _renamed(node, args, full, equal)
        except ShapeError as error:  # NumPy took these shapes: lengths not seen to be equal
            raise Unsupported("not-traceable", node.op.name, str(error), "") from None
        if id(node) in tracing.lines:
            lines.setdefault(id(new), tracing.lines[id(node)])
        return new

    outputs = rebuild(nodes, change)
    parameters, parameter_leaves, captured = _parameters(tracing, full)
    graph = Graph(
        tuple(parameters), tuple(outputs), tuple(guards), (), lines, tuple(captured)
    )
    value_guards = tuple(
        (scalars.rename(text, full), value) for text, value in tracing.value_guards.items()
    )
    leaves = [
        replace(leaf, text=scalars.rename(leaf.text, full)) if isinstance(leaf, OutScalar) else leaf
        for leaf in leaves
    ]
    leaves = [
        replace(leaf, views=tuple(_renamed_view(v, full) for v in leaf.views))
        if isinstance(leaf, (OutAlias, OutView))
        else leaf
        for leaf in leaves
    ]
    hints = {
        str(full[name]): size
        for name, size in tracing.sizes.items()
        if name not in known and full[name] == names.get(name)
    }
    order = _interleave(tracing)
    place_of = {place: new for new, place in enumerate(order)}
    leaves = [
        OutAlias(place_of[leaf.parameter], leaf.views) if isinstance(leaf, OutAlias) else leaf
        for leaf in leaves
    ]
    return Trace(
        graph,
        structure,
        tuple(leaves),
        tuple(
            (place_of[place], output, regions.rename(region, full))
            for place, output, region in writes
        ),
        value_guards,
        tuple(parameter_leaves),
        tuple((place_of[first], place_of[then]) for first, then in tracing.hazards),
        hints,
    )


def whole_graph(trace: Trace) -> Graph:
    """The trace as one graph: every array that the function returns, then what it writes.

    Calls need less: arguments that are returned, and views, are no kernel's work. A returned
    Python number becomes a 0-d array; what else is returned (None, text) is no array.
    """
    graph = trace.graph
    inputs = {p.name: make_input(p.name, p.dtype, p.shape) for p in graph.parameters if p.dtype}
    outputs: list[Node] = []
    for leaf in trace.leaves:
        if isinstance(leaf, OutNode):
            outputs.append(graph.outputs[leaf.index])
        elif isinstance(leaf, OutScalar):
            outputs.append(make_scalar(leaf.text, np.dtype(leaf.kind)))
        elif isinstance(leaf, (OutView, OutAlias)):
            node = (
                graph.outputs[leaf.index]
                if isinstance(leaf, OutView)
                else inputs[graph.parameters[leaf.parameter].name]
            )
            for name, payload in leaf.views:
                node = make(name, node, payload=payload, equal=graph.equal)
            outputs.append(node)
        elif isinstance(leaf.value, (bool, int, float, np.generic)):
            dtype = infer.dtype_of(np.asarray(leaf.value).dtype)
            check_dtype(dtype, "returned value")
            outputs.append(make_constant(leaf.value, dtype))
    written: dict[int, Node] = {}
    for parameter, output, region in trace.writes:
        node = graph.outputs[output]
        if region:
            old = written.get(parameter, inputs[graph.parameters[parameter].name])
            node = make("update", old, node, payload=region)
        written[parameter] = node
    outputs += list(written.values())
    return graph.with_outputs(outputs)


def _interleave(tracing: Tracing) -> list[int]:
    """Order of parameters: arguments and scalars by leaf, then captured arrays.

    Array k is entry k; scalar k is entry -1 - k.
    """
    arrays = [(a.leaf, k) for k, a in enumerate(tracing.arguments) if a.leaf is not None]
    numbers = [(leaf, -1 - k) for k, (_, leaf) in enumerate(tracing.scalars)]
    hidden = [k for k, a in enumerate(tracing.arguments) if a.leaf is None]
    return [place for _, place in sorted([*arrays, *numbers])] + hidden


def _parameters(
    tracing: Tracing, names: dict[str, Dim]
) -> tuple[list[Parameter], list[int | None], list[Any]]:
    """The graph's parameters, the argument leaf of each, and the captured arrays."""
    parameters: list[Parameter] = []
    leaves: list[int | None] = []
    captured: list[Any] = []
    for place in _interleave(tracing):
        if place < 0:
            scalar, leaf = tracing.scalars[-1 - place]
            parameters.append(Parameter(scalar.text, None, (), scalar.kind.__name__))
            leaves.append(leaf)
            continue
        argument = tracing.arguments[place]
        node = argument.initial
        shape = tuple(dims.substitute(dim, names) for dim in node.shape)
        hidden = argument.leaf is None
        parameters.append(Parameter(node.payload, node.dtype, shape, "", hidden))
        leaves.append(argument.leaf)
        if hidden:
            captured.append(argument.array)
    return parameters, leaves, captured


def _renamed_view(view: View, names: dict[str, Dim]) -> View:
    """Rename lengths in a view's payload."""
    name, payload = view
    if name in ("reshape", "broadcast_to"):
        shape = (dims.substitute(dim, names) for dim in infer.parse_shape(payload))
        return name, ", ".join(map(str, shape))
    return (name, regions.rename(payload, names)) if name == "update" else view


def _renamed(
    node: Node, args: tuple[Node, ...], names: dict[str, Dim], equal: dict[str, Dim]
) -> Node:
    """One node with its lengths renamed."""
    if node.op.name == "input":
        shape = tuple(dims.substitute(dim, names) for dim in node.shape)
        return make_input(node.payload, node.dtype, shape)
    if node.op.name == "scalar":
        return make_scalar(scalars.rename(node.payload, names), node.dtype)
    if node.op.name == "constant":
        return node
    if node.op.name == "extern":
        shape = tuple(dims.substitute(dim, names) for dim in node.shape)
        return intern_node(node.op, args, shape, node.dtype, externs.rename(node.payload, names))
    payload = _renamed_view((node.op.name, node.payload), names)[1]
    return make(node.op.name, *args, payload=payload, equal=equal)


__all__ = ["Leaf", "Trace", "Tracing", "trace_call", "walk"]
