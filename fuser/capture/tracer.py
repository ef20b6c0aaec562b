"""Tracing: the user's function runs on stand-ins for arrays, and a graph comes out."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from fuser.base import budget
from fuser.base.call_keys import changed_argument, leaf_names
from fuser.base.errors import Unsupported, refusals
from fuser.base.protocols import has, is_array
from fuser.base.trees import changeable, flatten, unflatten
from fuser.capture.effects import LARGEST_KEPT
from fuser.capture.results import finish
from fuser.ir import function_table, opaque_calls
from fuser.ir.dims import Dim
from fuser.ir.function_table import plain_function
from fuser.ir.graph import Node, make_constant, make_input, make_scalar, walk
from fuser.ir.infer import convert_scalar
from fuser.ir.ops import component
from fuser.numpy_functions import load_families
from fuser.numpy_functions.ufuncs import fused_ufunc
from fuser.tracing.admitted_dtypes import check_array, check_dtype, is_known, traced_for
from fuser.tracing.caught_errors import check_refusals
from fuser.tracing.late_lists import unrolled_if_asked
from fuser.tracing.late_numbers import LateNumber, as_operands, read
from fuser.tracing.operands import check_out, check_target
from fuser.tracing.trace_result import Replay, Trace
from fuser.tracing.trace_state import LATER, Argument, Storage, Tracing
from fuser.tracing.traced_array import TracedArray
from fuser.tracing.traced_scalars import HostScalar
from fuser.tracing.valueless import check_values

if TYPE_CHECKING:
    from fuser.capture.namespace import Substitution


#: Reasons for which one call, not the whole function, runs in NumPy.
BREAK_CODES = ("unsupported-function", "unsupported-argument", "unsupported-dtype")
#: Ufuncs of SciPy's that kernels have.
_OF_SCIPY = frozenset(("expit", "erf", "erfc"))


class Tracer(Tracing):
    """One trace in progress: what is done to stand-ins becomes nodes, or calls between kernels."""

    def add_array(self, array: Any, leaf: int | None) -> TracedArray:
        """Stand in for an array argument (`leaf`) or a captured array (None)."""
        check_array(array, "argument" if leaf is not None else "captured array")
        shape: list[Dim] = []
        shape.extend(map(self.new_length, array.shape))
        node = make_input(f"x{len(self.arguments)}", array.dtype, tuple(shape))
        storage = Storage(node, len(self.arguments))
        self.arguments.append(Argument(storage, array, node, leaf))
        made: TracedArray = TracedArray.make(self, storage, (), isinstance(array, np.generic))
        return made

    def add_scalar(self, value: Any, leaf: int) -> Any:
        """Stand in for a Python scalar argument."""
        budget.spend("numbers")
        scalar = HostScalar(self, f"s{len(self.scalars)}", value)
        self.scalars.append((scalar, leaf))
        return bool(scalar) if self.exact_truth and type(value) is bool else scalar

    def capture(self, array: Any) -> TracedArray:
        """Stand in for a real array that the function reached: a hidden input by reference."""
        self.spare.discard(id(array))
        found = self._found(array)
        if found is None:
            found = self.captured[id(array)] = self.add_array(array, None)
            if isinstance(array, np.ndarray) and array.flags.writeable:
                if array.nbytes <= LARGEST_KEPT:
                    self.values.append((array, array.tobytes()))
        return found

    def _found(self, array: Any) -> TracedArray | None:
        """The stand-in that an array has already."""
        found: TracedArray | None = self.captured.get(id(array))
        if found is not None and self.by_identity:
            argument = found.storage.argument
            if argument is not None and self.arguments[argument].leaf is not None:
                self.named_arguments[id(array)] = array
        return found

    def by_name(self, array: Any, spare: bool) -> TracedArray:
        """Stand in for an array that the function sees no other way: nothing can write into it.

        Args:
            array: what it reaches.
            spare: it is one of many that something holds, and may not be used.
        """
        self.seen.add(id(array))
        found = self._found(array)
        if found is None:
            found = self.captured[id(array)] = self.add_array(array, None)
            if spare:
                self.spare.add(id(array))
        if not spare:
            self.spare.discard(id(array))
        return found

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
            try:
                convert_scalar(value.hint, dtype)
            except OverflowError:  # which the function may catch: so it goes on for this number
                value._guarded()
                raise
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
                raise Unsupported(
                    "not-traceable", "nested trace", "an array that belongs to another traced call"
                )
            return value
        if isinstance(value, np.generic):
            check_dtype(value.dtype, "scalar")
            return value
        if type(value) is complex and is_known(np.dtype(complex)):
            return value
        if isinstance(value, np.ndarray) or has(value, "__cuda_array_interface__"):
            return self.capture(value)
        if isinstance(value, (list, tuple)):
            from fuser.tracing.sequences import has_traced, put_together

            traced = has_traced(value)
            return put_together(self, value) if traced else self.capture(np.asarray(value))
        if isinstance(value, LateNumber):
            return self.operand(read(value))
        raise Unsupported("unsupported-array", "operand", f"{type(value).__name__}")

    def evaluate(self, node: Node) -> Any:
        """The value of a node in this call, computed operation by operation."""
        check_values(f"np.{node.op.name}", "its value is asked for while the function is traced")
        from fuser.fallback import evaluate

        arrays = {argument.initial.payload.name: argument.array for argument in self.arguments}
        with np.errstate(all="ignore"), budget.unclocked():
            for each in walk([node]):
                if each.op.is_input and each.payload.name not in arrays:
                    name = each.payload.name
                    arrays[name] = self.evaluate(self.placeholders[name])
                elif self.externs.get(id(each), (each, None))[1] is LATER:
                    self._run_loop(each)
            known = {key: value for key, (_, value) in self.externs.items()}
            known |= {key: value for key, (_, value) in self.computed.items()}
            found: dict[int, Any] = {}
            try:
                value = evaluate(node, known, arrays, self.numbers(), found)
            except ValueError as error:  # of these values alone: kernels would stop there
                raise Unsupported("runtime-check", "a value", str(error)) from None
        if self.reads:  # a later one may need the same: decisions in a row are no more than NumPy's
            self._keep(node, found)
        return value

    def _keep(self, node: Node, found: Mapping[int, Any]) -> None:
        """Keep what was computed for a node, as far as it is small."""
        for each in walk([node]):
            value = found.get(id(each))
            size = getattr(value, "nbytes", 0)
            if value is not None and self.computed_bytes + size <= LARGEST_KEPT:
                self.computed[id(each)] = each, value
                self.computed_bytes += size

    def _run_loop(self, node: Node) -> None:
        """Have the results of a loop, operation by operation: a call needs them now."""
        call = node.payload
        operands = [self.evaluate(arg) for arg in node.args]
        from fuser.ir.loops import IterationFailed  # most functions have no loops

        try:
            found = opaque_calls.invoke(call, operands, self.numbers())
        except IterationFailed as error:  # with these values alone
            raise Unsupported("runtime-check", "loop", str(error)) from None
        for key, (other, value) in list(self.externs.items()):
            if value is LATER and other.payload.number == call.number:
                self.externs[key] = other, found[other.payload.output]

    def apply_ufunc(
        self, ufunc: np.ufunc, method: str, inputs: Sequence[Any], options: dict[str, Any]
    ) -> Any:
        """Trace `ufunc(*inputs, **options)`; NumPy runs it where it has no fused form."""
        self.errors.look()
        if any(type(value) is LateNumber for value in inputs):
            inputs = as_operands(ufunc, inputs)
        if any(map(_is_foreign, inputs)):
            return self._call_ufunc(ufunc, method, inputs, options)
        if ufunc.__name__ in _OF_SCIPY and method == "__call__" and not options:
            from fuser.capture.other_packages import scipy_ufunc

            if (made := scipy_ufunc(ufunc, inputs)) is not None:
                return made
        try:
            return fused_ufunc(self, ufunc, method, inputs, dict(options))
        except Unsupported as error:
            if error.reason.code not in BREAK_CODES:
                raise
        return self._call_ufunc(ufunc, method, inputs, options)

    def _call_ufunc(
        self, ufunc: np.ufunc, method: str, inputs: Sequence[Any], options: dict[str, Any]
    ) -> Any:
        """Have NumPy run a ufunc between kernels."""
        from fuser.capture.opaque_tracing import call_ufunc

        return call_ufunc(self, ufunc, method, inputs, options)

    def apply_kernel(self, kernel: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
        """Trace a function of elements of CuPy's; NotImplemented where NumPy has none."""
        from fuser.capture.numpy_alike import overridden

        return overridden(self, kernel, args, kwargs)

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

    def apply_function(self, function: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
        """Trace a NumPy function that is no ufunc; NumPy runs it where it has no fused form."""
        from fuser.capture.opaque_tracing import call_function
        from fuser.tracing import complex_functions

        self.errors.look()
        function = plain_function(function)
        handler = function_table.handlers().get(function)
        leaves = flatten((args, kwargs))[1]
        if _gives_scalar(args, kwargs):
            name = f"np.{function.__name__}"
            raise Unsupported("unsupported-argument", name, "out= beside a NumPy scalar")
        if handler is None or any(map(_is_foreign, leaves)):
            return call_function(self, function, args, kwargs)
        if function not in complex_functions.SERVED and complex_functions.has_complex(leaves):
            return call_function(self, function, args, kwargs)
        try:
            return handler(self, *args, **kwargs)
        except TypeError as error:
            if "argument" not in str(error) or handler.__name__ not in str(error):
                raise
        except Unsupported as error:
            if error.reason.code not in BREAK_CODES:
                raise
        return call_function(self, function, args, kwargs)

    # -- what stand-ins leave to files above them ----------------------------------------------

    def read(self, node: Node) -> Any:
        """The number that a node without axes holds, which later calls read anew."""
        self._refuse_draws()
        from fuser.capture import decisions

        return decisions.read(self, node)

    def shown(self, array: Any, what: str) -> Any:
        """What an array is in this call, as text has it: a function that goes on is refused."""
        self._refuse_draws()
        from fuser.capture import decisions

        return decisions.shown(self, array, what)

    def decide(self, text: str, value: Any) -> None:
        """Record a decision: the path holds where an expression of read numbers has this value."""
        self._refuse_draws()
        from fuser.capture import decisions

        decisions.decide(self, text, value)

    def _refuse_draws(self) -> None:
        """Of what was drawn for the trace alone no value counts.

        Raises:
            Unsupported: random numbers were drawn before.
        """
        if self.draws:
            raise Unsupported("impure", opaque_calls.RANDOM, "random numbers before a decision")

    def length_of_number(self, text: str, value: int) -> Dim:
        """An integer that was read, as an expression over lengths."""
        from fuser.capture import decisions

        return decisions.length_of_number(self, text, value)

    def call_named(
        self, name: str, args: Sequence[Any], kwargs: dict[str, Any], sample: Any = None
    ) -> Any:
        """Trace a call of a function by its name, which NumPy runs between kernels."""
        from fuser.capture.opaque_tracing import call_named

        return call_named(self, name, args, kwargs, sample=sample)

    def update(self, target: Any, index: Any, value: Any) -> None:
        """`target[index] = value` by NumPy, on a copy of the memory that `target` looks at."""
        from fuser.capture.opaque_tracing import update

        update(target, index, value)

    def take(self, array: Any, index: Any) -> Any:
        """`array[index]` with arrays, masks or lists in the index."""
        from fuser.capture.fancy_indexing import take

        return take(array, index)

    def put(self, array: Any, index: Any, value: Any) -> None:
        """`array[index] = value` with arrays, masks or lists in the index."""
        from fuser.capture.fancy_indexing import put

        put(array, index, value)

    def put_together(self, value: Any, dtype: np.dtype[Any]) -> Any:
        """A list with stand-ins in it as one array; any other value itself."""
        from fuser.tracing.sequences import has_traced, put_together

        return put_together(self, value, dtype) if has_traced(value) else value


def _gives_scalar(args: Sequence[Any], kwargs: dict[str, Any]) -> bool:
    """Whether a NumPy scalar is reduced into `out=`: the result is a scalar beside it."""
    scalar = bool(args) and isinstance(args[0], TracedArray) and args[0].generic
    return scalar and kwargs.get("out") is not None


def _is_foreign(value: Any) -> bool:
    """Whether a value is a stand-in for an array that only NumPy knows what to do with."""
    return issubclass(type(value), TracedArray) and value.foreign


function_table.loaded_by(load_families)


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
        met: a list that takes what the function was run with in place of its names; its `end` has
            to be called.

    Raises:
        Unsupported: with the reason why the function cannot be fused.
        Exception: what the function itself raises.
    """
    with traced_for(leaves):
        if met is not None:
            return _trace(function, tree, leaves, replay, arrays, named, met)
        return unrolled_if_asked(lambda lists: _trace(
            function, tree, leaves, Replay(lists=lists), arrays, named, None
        ))  # fmt: skip


def _trace(
    function: Callable[..., Any], tree: Any, leaves: Sequence[Any], replay: Any, arrays: bool,
    named: bool, met: list[Substitution] | None,
) -> Trace:  # fmt: skip
    """Run `function` on stand-ins, with the dtypes that are admitted now."""
    from fuser.capture.namespace import Substitution

    tracing = Tracer(
        replay=Replay() if replay is None else replay, names=leaf_names(function, tree),
        arrays=arrays, named=named,
    )  # fmt: skip
    substitution = Substitution(tracing, getattr(function, "__objects__", ()))
    tracing.original = substitution.copies.original
    tracing.has_copy = substitution.copies.has
    if met is not None:
        met.append(substitution)
        return _traced(tracing, function, tree, leaves, substitution)
    try:
        return _traced(tracing, function, tree, leaves, substitution)
    finally:
        substitution.end()


def _traced(
    tracing: Tracer, function: Callable[..., Any], tree: Any, leaves: Sequence[Any],
    substitution: Substitution,
) -> Trace:  # fmt: skip
    """Run `function` with what a substitution has in place of its names."""
    from fuser.capture.namespace import compares_arrays, compares_lists, decides_by_truth

    tracing.replay.place = 0
    tracing.exact_truth = decides_by_truth(function)
    tracing.by_identity = compares_arrays(function)
    stand_ins: list[Any] = []
    for place, leaf in enumerate(leaves):
        if is_array(leaf):
            known = tracing.captured.get(id(leaf)) if tracing.by_identity else None
            stand_ins.append(tracing.add_array(leaf, place) if known is None else known)
            if tracing.by_identity:  # one array has one stand-in, by whatever names it is reached
                tracing.captured[id(leaf)] = stand_ins[-1]
        elif type(leaf) is bool or type(leaf) is int or type(leaf) is float:
            stand_ins.append(tracing.add_scalar(leaf, place))
        else:
            stand_ins.append(substitution.argument(leaf))
    args, kwargs = unflatten(tree, stand_ins)
    tracing.given = [each for each in changeable((args, kwargs)) if len(each[0]) > 1]
    if tracing.given and compares_lists(function, len(tracing.given)):
        name = str(getattr(function, "__name__", "function"))
        raise Unsupported("not-traceable", name, "it may ask whether two lists are one")
    with refusals() as refused:
        try:
            result = substitution.called(function)(*args, **kwargs)
            check_refusals(refused)
        finally:
            refused.clear()  # which lead to this frame
    substitution.check_globals()
    tracing.errors.end()
    if tracing.failed is not None:  # the function has caught it: control flow by values
        raise tracing.failed
    tracing.check_captured()
    if (changed := changed_argument(function, tree, (args, kwargs), stand_ins)) is not None:
        name = str(getattr(function, "__name__", "function"))
        raise Unsupported("side-effect", name, f"what {changed} holds", "")
    trace = finish(tracing, result)
    if tracing.draws:
        _check_draws(trace, tracing.draws)
    return trace


def _check_draws(trace: Trace, count: int) -> None:
    """Refuse a trace that draws other numbers than the function does.

    Raises:
        Unsupported: a draw is in a loop, or not used.
    """
    names = [call[0].payload.name for call in opaque_calls.calls_of(trace.graph)]
    drawn = [name for name in names if name.startswith(opaque_calls.RANDOM)]
    if len(drawn) != count:
        found = "random numbers that are not used, or in a loop"
        raise Unsupported("impure", opaque_calls.RANDOM, found)
