"""Tracing: the user's function runs on stand-ins for arrays, and a graph comes out."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from fuser import budget, infer
from fuser.calling.call_keys import changed_argument, leaf_names
from fuser.calling.trees import flatten, unflatten
from fuser.dims import Dim
from fuser.errors import Unsupported, refusals, user_line
from fuser.graph import (
    Node,
    make_constant,
    make_input,
    make_scalar,
)
from fuser.graph import intern as intern_node
from fuser.ops import TABLE, component
from fuser.protocols import has, is_array
from fuser.records import field, record
from fuser.tracing.admitted import check_row, is_known, traced_for
from fuser.tracing.caught import check_refusals
from fuser.tracing.effects import LARGEST_KEPT
from fuser.tracing.error_states import ErrorState
from fuser.tracing.operands import (
    check_array,
    check_dtype,
    check_out,
    check_target,
    convert_scalar,
)
from fuser.tracing.results import finish
from fuser.tracing.scalars import HostScalar
from fuser.tracing.trace_result import (
    Trace,
)
from fuser.tracing.traced_array import TracedArray
from fuser.tracing.traced_lengths import Lengths
from fuser.tracing.traced_memory import Storage
from fuser.tracing.ufunc_tracing import fused_ufunc

if TYPE_CHECKING:
    from fuser.tracing.namespace import Substitution


def _same(value: Any) -> Any:
    """The value."""
    return value


@record(frozen=False)
class _Argument:
    """A parameter while tracing."""

    storage: Storage
    array: Any
    initial: Node
    leaf: int | None


@record(frozen=False, slots=False, eq=False)
class Tracing(Lengths):
    """One trace in progress."""

    sizes: dict[str, int] = field(default_factory=dict)
    equal: dict[str, Dim] = field(default_factory=dict)
    guards: list[tuple[Dim, Dim]] = field(default_factory=list)
    value_guards: dict[str, Any] = field(default_factory=dict)
    reaches: dict[str, int] = field(default_factory=dict)
    """How long axes have to be for the integer indices into them, by length."""
    arguments: list[_Argument] = field(default_factory=list)
    scalars: list[tuple[HostScalar, int]] = field(default_factory=list)
    lines: dict[int, str] = field(default_factory=dict)
    captured: dict[int, TracedArray] = field(default_factory=dict)
    seen: set[int] = field(default_factory=set)
    """Those that were found by names, by identity."""
    spare: set[int] = field(default_factory=set)
    """Those of them that the function may not use, by identity."""
    values: list[tuple[Any, bytes]] = field(default_factory=list)
    """Captured arrays, and what they held then."""
    written: dict[int, None] = field(default_factory=dict)
    hazards: dict[tuple[int, int], None] = field(default_factory=dict)
    replay: Any = None
    externs: dict[int, tuple[Node, Any]] = field(default_factory=dict)
    extern_count: int = 0
    repeatable: dict[tuple[Any, ...], tuple[Any, list[Node]]] = field(default_factory=dict)
    """Calls between kernels, by text and operands: what they gave, once."""
    picked: dict[int, tuple[Node, Node, Node]] = field(default_factory=dict)
    """What was read at one place of each row: the rows, and the places; by `id` of the result."""
    optional: dict[int, Node] = field(default_factory=dict)
    """Selections that cannot raise: they need not run where nothing reads them."""
    failed: Unsupported | None = None
    kept: list[Node] = field(default_factory=list)
    """Nodes of which `lines` tells: what is thrown away must not lend its line to another."""
    names: Sequence[str] = ()
    """What the user calls each leaf of the arguments."""
    common: dict[Any, tuple[Dim, ...]] = field(default_factory=dict)
    """Shapes that were broadcast: what came out, by what was known of lengths."""
    late: set[str] = field(default_factory=set)
    arrays: bool = False
    """Whether arrays that the function makes are stand-ins, too."""
    named: bool = True
    """Whether arrays that the function reaches by name are stand-ins, too."""
    original: Callable[[Any], Any] = _same
    """Gives what a copy is a copy of, and anything else itself."""
    in_order: dict[int, None] = field(default_factory=dict)
    """Arguments that have to be contiguous in C order."""
    errors: ErrorState = field(default_factory=ErrorState)
    exact_truth: bool = False
    """Whether the function asks what is True itself: no stand-in is."""

    # -- arguments --------------------------------------------------------------------------

    def add_array(self, array: Any, leaf: int | None) -> TracedArray:
        """Stand in for an array argument (`leaf`) or a captured array (None)."""
        check_array(array, "argument" if leaf is not None else "captured array")
        shape: list[Dim] = []
        shape.extend(map(self.new_length, array.shape))
        node = make_input(f"x{len(self.arguments)}", array.dtype, tuple(shape))
        storage = Storage(node, len(self.arguments))
        self.arguments.append(_Argument(storage, array, node, leaf))
        made: TracedArray = TracedArray.make(self, storage, (), isinstance(array, np.generic))
        return made

    def add_scalar(self, value: Any, leaf: int) -> Any:
        """Stand in for a Python scalar argument."""
        budget.spend("numbers")
        scalar = HostScalar(self, f"s{len(self.scalars)}", value)
        self.scalars.append((scalar, leaf))
        return bool(scalar) if self.exact_truth and type(value) is bool else scalar

    def guard_value(self, text: str, value: Any) -> None:
        """Note that this trace holds only while a host expression has this value."""
        self.value_guards[text] = value

    def guard_reach(self, length: Dim, reach: int) -> None:
        """Note that this trace holds only while an integer index lies within an axis.

        Kernels read there whatever the length is; and NumPy raises, also where the value is not
        used.
        """
        length = self.resolve(length)
        known = self.reaches.get(str(length), 0)
        if not isinstance(length, int) and reach > known:
            self.value_guards.pop(f"({length}) >= {known}", None)
            self.guard_value(f"({length}) >= {reach}", True)
            self.reaches[str(length)] = reach

    def note_read(self, arguments: Sequence[int]) -> None:
        """Note which arguments must not share memory: these are read after others' writes."""
        for other in self.written:
            for argument in arguments:
                if other != argument:
                    self.hazards[other, argument] = None

    def note_write(self, argument: int | None) -> None:
        """Note a write into an argument."""
        if argument is not None:
            self.note_read((argument,))
            self.written[argument] = None

    def capture(self, array: Any) -> TracedArray:
        """Stand in for a real array that the function reached: a hidden input by reference."""
        self.spare.discard(id(array))
        found = self.captured.get(id(array))
        if found is None:
            found = self.captured[id(array)] = self.add_array(array, None)
            if isinstance(array, np.ndarray) and array.flags.writeable:
                if array.nbytes <= LARGEST_KEPT:
                    self.values.append((array, array.tobytes()))
        return found

    def by_name(self, array: Any, spare: bool) -> TracedArray:
        """Stand in for an array that the function sees no other way: nothing can write into it.

        Args:
            array: what it reaches.
            spare: it is one of many that something holds, and may not be used.
        """
        self.seen.add(id(array))
        found = self.captured.get(id(array))
        if found is None:
            found = self.captured[id(array)] = self.add_array(array, None)
            if spare:
                self.spare.add(id(array))
        if not spare:
            self.spare.discard(id(array))
        return found

    def check_captured(self) -> None:
        """Refuse captured arrays that NumPy wrote into after the graph had read them.

        Raises:
            Unsupported: a kernel would read the new values.
        """
        for array, values in self.values:
            if array.tobytes() != values:
                raise Unsupported("side-effect", "captured array", "it is written while read", "")

    # -- nodes ------------------------------------------------------------------------------

    def node(self, name: str, args: Sequence[Node], payload: str = "") -> Node:
        """Build an elementwise or structural node, with this trace's notion of equal lengths."""
        row = TABLE[name]
        for arg in args:
            check_row(name, arg.dtype)
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
            self.hold_not_negative(shape)
        else:
            shape = self.broadcast(name, shapes)
        made = intern_node(row, tuple(args), shape, dtype, payload)
        line = self.lines.get(id(made))
        if line is None:
            line = self.lines[id(made)] = user_line()
            self.kept.append(made)
        budget.spend("writes" if name == "update" else "operations", line=line)
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
            if value.kind is complex:
                parts = [
                    make_scalar(f"{part}({value.text})", component(dtype))
                    for part in ("real", "imag")
                ]
                return self.cast(self.node("join_complex", parts), dtype)
            convert_scalar(value.hint, dtype)
            plain = component(dtype) if dtype.kind != "V" else np.dtype(np.float32)
            return self.cast(make_scalar(value.text, plain), dtype)
        return make_constant(convert_scalar(value, dtype), dtype)

    def mask_node(self, where: Any) -> Node:
        """The node of a mask that `where=` gives; an array has to be one of truth values."""
        mask = self.operand(where)
        if isinstance(mask, TracedArray) and mask.dtype.kind != "b" and not mask.generic:
            kinds = f"from {mask.dtype!r} to {np.dtype(bool)!r}"
            raise TypeError(f"Cannot cast array data {kinds} according to the rule 'safe'")
        return self.operand_node(mask, np.dtype(bool))

    def operand(self, value: Any) -> Any:
        """Bring an operand into one of: TracedArray, HostScalar, Python scalar, NumPy scalar."""
        if isinstance(value, (TracedArray, HostScalar, bool, int, float)):
            if isinstance(value, TracedArray) and value.tracing is not self:
                raise Unsupported("not-traceable", "nested trace", "a value of another trace")
            return value
        if isinstance(value, np.generic):
            check_dtype(value.dtype, "scalar")
            return value
        if type(value) is complex and is_known(np.dtype(complex)):
            return value
        if isinstance(value, np.ndarray) or has(value, "__cuda_array_interface__"):
            return self.capture(value)
        if isinstance(value, (list, tuple)):
            from fuser.tracing.sequences import has_traced, put_together  # it needs this module

            traced = has_traced(value)
            return put_together(self, value) if traced else self.capture(np.asarray(value))
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
        with np.errstate(all="ignore"), budget.unclocked():
            return evaluate(node, known, arrays, self.numbers())

    # -- ufuncs -----------------------------------------------------------------------------

    def apply_ufunc(
        self, ufunc: np.ufunc, method: str, inputs: Sequence[Any], options: dict[str, Any]
    ) -> Any:
        """Trace `ufunc(*inputs, **options)`; NumPy runs it where it has no fused form."""
        from fuser.tracing.extern_tracing import SEAM_CODES, ForeignArray, call_ufunc

        self.errors.look()
        if any(type(value) is ForeignArray for value in inputs):
            return call_ufunc(self, ufunc, method, inputs, options)
        if method == "__call__" and not options:
            from fuser.tracing.other_packages import scipy_ufunc

            if (made := scipy_ufunc(ufunc, inputs)) is not None:
                return made
        try:
            return fused_ufunc(self, ufunc, method, inputs, dict(options))
        except Unsupported as error:
            if error.reason.code not in SEAM_CODES:
                raise
        return call_ufunc(self, ufunc, method, inputs, options)

    def wrap(self, node: Node, generic: bool = False) -> TracedArray:
        """A new array whose value is `node`."""
        made: TracedArray = TracedArray.make(self, Storage(node), (), generic)
        return made

    def write(self, target: Any, node: Node, where: Any, casting: str, name: str) -> Any:
        """Write a result into an existing array, as `out=` does."""
        check_target(target, f"np.{name}")
        array = target if isinstance(target, TracedArray) else self.operand(target)
        if isinstance(target, np.generic) or (isinstance(array, TracedArray) and array.generic):
            raise TypeError("return arrays must be of ArrayType")
        if not isinstance(array, TracedArray):
            raise Unsupported("unsupported-argument", f"np.{name}", "out= is not an array")
        old = array.node
        check_out(node.dtype, old.dtype, casting, name)
        new = self.cast(node, old.dtype)
        if where is not True:
            new = self.node("where", [self.mask_node(where), new, old])
        array.assign(new, strict=name != "copyto")
        return target

    # -- functions --------------------------------------------------------------------------

    def apply_function(self, function: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
        """Trace a NumPy function that is no ufunc; NumPy runs it where it has no fused form."""
        from fuser.tracing import complex_functions
        from fuser.tracing.array_functions import handlers  # it needs this module
        from fuser.tracing.extern_tracing import SEAM_CODES, ForeignArray, call_function
        from fuser.tracing.namespace import plain_function

        self.errors.look()
        function = plain_function(function)
        handler = handlers().get(function)
        leaves = flatten((args, kwargs))[1]
        if handler is None or any(type(leaf) is ForeignArray for leaf in leaves):
            return call_function(self, function, args, kwargs)
        if function not in complex_functions.SERVED and complex_functions.has_complex(leaves):
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

def trace_call(
    function: Callable[..., Any], tree: Any, leaves: Sequence[Any], replay: Any = None,
    arrays: bool = False, named: bool = True, met: list[Substitution] | None = None,
) -> Trace:  # fmt: skip
    """Run `function` on stand-ins for its arguments, and for arrays that it reaches by name.

    Args:
        function: the user's function.
        tree: structure of `(args, kwargs)` with `Leaf` places.
        leaves: the arguments in the order of the structure.
        replay: what functions without a fused form gave in an earlier trace of this call.
        arrays: have stand-ins for the arrays that the function makes, too.
        named: have stand-ins for the arrays that it reaches by name.
        met: a list that takes what the function was run with in place of its names.

    Raises:
        Unsupported: with the reason why the function cannot be fused.
        Exception: what the function itself raises.
    """
    with traced_for(leaves):
        return _trace(function, tree, leaves, replay, arrays, named, met)


def _trace(
    function: Callable[..., Any], tree: Any, leaves: Sequence[Any], replay: Any, arrays: bool,
    named: bool, met: list[Substitution] | None,
) -> Trace:  # fmt: skip
    """Run `function` on stand-ins, with the dtypes that are admitted now."""
    from fuser.tracing.extern_operands import Replay
    from fuser.tracing.namespace import Substitution, decides_by_truth

    tracing = Tracing(
        replay=Replay() if replay is None else replay, names=leaf_names(function, tree),
        arrays=arrays, named=named,
    )  # fmt: skip
    substitution = Substitution(tracing, getattr(function, "__objects__", ()))
    tracing.original = substitution.copies.original
    if met is not None:
        met.append(substitution)
    tracing.replay.place = 0
    tracing.exact_truth = decides_by_truth(function)
    stand_ins: list[Any] = []
    for place, leaf in enumerate(leaves):
        if is_array(leaf):
            stand_ins.append(tracing.add_array(leaf, place))
        elif type(leaf) is bool or type(leaf) is int or type(leaf) is float:
            stand_ins.append(tracing.add_scalar(leaf, place))
        else:
            stand_ins.append(substitution.argument(leaf))
    args, kwargs = unflatten(tree, stand_ins)
    with refusals() as refused:
        result = substitution.called(function)(*args, **kwargs)
    check_refusals(refused)
    tracing.errors.end()
    if tracing.failed is not None:  # the function has caught it: control flow by values
        raise tracing.failed
    tracing.check_captured()
    if (changed := changed_argument(function, tree, (args, kwargs), stand_ins)) is not None:
        name = str(getattr(function, "__name__", "function"))
        raise Unsupported("side-effect", name, f"what {changed} holds", "")
    return finish(tracing, result)
