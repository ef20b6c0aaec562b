"""The callable that `fuse` makes: finds what a call needs, runs it, or falls back."""

from __future__ import annotations

import functools
import inspect
import threading
import weakref
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from fuser import (
    captures,
    counters,
    dims,
    executor,
    fallback,
    native_call,
    regions,
    scalars,
    timeline,
    trees,
    views,
)
from fuser.errors import ArgumentError, FuserError, Reason, Unsupported
from fuser.executor import CannotRun
from fuser.externs import CallFailed, PatternMiss
from fuser.ready import MISSED, READY_LIMIT, exact_key, make_ready
from fuser.scalars import HostScalar
from fuser.specialisation import Call, Specialisation, specialise
from fuser.specs import KernelSpec
from fuser.timeline import phase
from fuser.traced_array import TracedArray
from fuser.tracer import OutAlias, OutNode, OutScalar, OutView, Trace, trace_call

MODES = ("fused", "unfused", "fallback")
POLICIES = ("warn", "allow", "error")

#: Value guards may make this many specialisations of one signature before it falls back.
VALUE_LIMIT = 8
#: Different signatures (dtypes, ranks, static values) that one function remembers.
SIGNATURE_LIMIT = 512


@dataclass(eq=False)
class _Signature:
    """What is known for one combination of dtypes, ranks and static values."""

    found: list[Specialisation] = field(default_factory=list)
    refused: Reason | None = None
    refused_names: list[captures.NameGuard] = field(default_factory=list)
    lock: threading.RLock = field(default_factory=threading.RLock)


class FusedFunction(native_call.NativelyCallable):  # type: ignore[misc] # made at run time
    """A function whose array operations run as fused kernels.

    Called with NumPy arrays it runs on the CPU backend, with CuPy arrays on the GPU backend. It
    gives what the plain function gives. `out=` takes an array, or a tuple of arrays for several
    outputs, to write results into.
    """

    def __init__(
        self,
        function: Callable[..., Any],
        *,
        backend: str | None = None,
        mode: str = "fused",
        fallback: str = "warn",
        fastmath: bool = False,
        errstate: bool = False,
    ) -> None:
        """See `fuser.fuse`."""
        if mode not in MODES:
            raise ArgumentError(f"mode is {mode!r}; use {', '.join(MODES)}")
        if fallback not in POLICIES:
            raise ArgumentError(f"fallback is {fallback!r}; use {', '.join(POLICIES)}")
        if not callable(function):
            raise ArgumentError(f"fuse takes a function, found {type(function).__name__}")
        functools.update_wrapper(self, function)
        self.__wrapped__: Callable[..., Any] = function
        self.backend = backend
        self.mode = mode
        self.fallback = fallback
        self.fastmath = fastmath
        self.errstate = errstate
        self.fallbacks: list[Reason] = []
        self._signatures: dict[Any, _Signature] = {}
        self._keep: list[Any] = []
        self._native: Any = None
        self._ready: dict[Any, Any] = {}
        self._takes_out = "out" not in _parameter_names(function)
        _all_functions.add(self)

    def __repr__(self) -> str:
        """The function's name and the mode."""
        name = getattr(self.__wrapped__, "__qualname__", repr(self.__wrapped__))
        return f"<fused function {name}, mode {self.mode}>"

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        """Bind as a method does."""
        return self if instance is None else functools.partial(self, instance)

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle by reference where the name leads back here, else by the function."""
        from fuser.fused_function import _find, _make

        module = getattr(self, "__module__", None)
        name = getattr(self, "__qualname__", "")
        if module and _lookup(module, name) is self:
            return _find, (module, name)
        options = (self.backend, self.mode, self.fallback, self.fastmath, self.errstate)
        return _make, (self.__wrapped__, options)

    # -- calls ------------------------------------------------------------------------------

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Run the function, fused where it can be."""
        if not kwargs:
            key = exact_key(args)
            ready = self._ready.get(key) if key is not None else None
            if ready is not None and ready.holds():
                result = ready.run(args)
                if result is not MISSED:
                    return result
        names = tuple(kwargs)
        out = kwargs.pop("out", None) if self._takes_out and "out" in kwargs else None
        structure, leaves = trees.flatten((args, kwargs))
        if any(issubclass(type(leaf), (TracedArray, HostScalar)) for leaf in leaves):
            return self.__wrapped__(*args, **kwargs)
        try:
            call, result = self._find_and_run(structure, leaves, out)
            if len(args) + len(kwargs) == len(leaves) and not timeline.listening():
                native = self._go_native(call, leaves, names, out)
                if not native and not names:
                    self._get_ready(call, args)
            return result
        except (CannotRun, Unsupported) as error:
            return self._fall_back(error.reason, args, kwargs, out)

    #: Where native entries send what they do not know.
    _slow_call = __call__

    def _get_ready(self, call: Call, args: tuple[Any, ...]) -> None:
        """Remember how calls with exactly these shapes and strides run."""
        key = exact_key(args)
        if key is None:
            return
        if len(self._ready) >= READY_LIMIT:
            self._ready = {}
        made = make_ready(call)
        if made is not None:
            self._ready[key] = made

    def _go_native(
        self, call: Call, leaves: Sequence[Any], names: tuple[str, ...], out: Any
    ) -> bool:
        """Have the backend serve calls like this one without Python; whether it will."""
        if self._native is not None and self._native.stale():
            self._native.renew()
        spec = call.specialisation.spec
        if not _NATIVE or not isinstance(spec, KernelSpec):
            return False
        if out is None and "out" in names and self._takes_out:
            return False
        given = {} if out is None else {"o0": out}
        launch = executor.known_launch(spec, call.arrays, given)
        if launch is None:
            return False
        arrays = {**call.arrays, **given}
        served = native_call.ServedCall(
            call.specialisation, launch, arrays, call.sizes, leaves, names, out
        )
        return launch.backend.install_entry(self, served)

    def _find_and_run(self, structure: Any, leaves: list[Any], out: Any) -> tuple[Call, Any]:
        """Run the first specialisation that holds; some only know when they run.

        Raises:
            CannotRun, Unsupported: the function cannot be fused for such arguments.
        """
        missed: list[Specialisation] = []
        while True:
            call = self._find_call(structure, leaves, missed)
            try:
                return call, self._run(call, leaves, out)
            except PatternMiss as error:
                missed.append(call.specialisation)
                if len(missed) > VALUE_LIMIT:
                    raise CannotRun(Reason("value-guards", self._name, str(error))) from None

    def _find_call(
        self, structure: Any, leaves: list[Any], missed: Sequence[Specialisation] = ()
    ) -> Call:
        """A specialisation that holds for the call; traced and compiled when there is none.

        Args:
            structure: how the arguments nest.
            leaves: the arguments.
            missed: specialisations that were found not to hold while they ran.

        Raises:
            CannotRun, Unsupported: the function cannot be fused for such arguments.
        """
        key = signature(structure, leaves, self._keep)
        entry = self._signatures.get(key)
        if entry is None:
            if len(self._signatures) >= SIGNATURE_LIMIT:
                raise Unsupported("value-guards", self._name, f"{SIGNATURE_LIMIT} signatures", "")
            entry = self._signatures.setdefault(key, _Signature())
        for specialisation in entry.found:
            call = specialisation.match(leaves)
            if call is not None and specialisation not in missed:
                return call
        with entry.lock:
            for specialisation in entry.found:  # another thread may have made it meanwhile
                call = specialisation.match(leaves)
                if call is not None and specialisation not in missed:
                    return call
            return self._specialise(entry, structure, leaves)

    @property
    def _name(self) -> str:
        return str(getattr(self.__wrapped__, "__name__", "function"))

    def _specialise(self, entry: _Signature, structure: Any, leaves: list[Any]) -> Call:
        """Trace and prepare a new specialisation."""
        if entry.refused is not None and all(guard.holds() for guard in entry.refused_names):
            raise CannotRun(entry.refused)
        objects = [leaf for leaf in leaves if not isinstance(leaf, (np.ndarray, np.generic))]
        names = captures.find_guards(self.__wrapped__, objects)
        guarded = sum(bool(s.trace.value_guards or s.trace.hints) for s in entry.found)
        try:
            if guarded >= VALUE_LIMIT:
                raise Unsupported("value-guards", self._name, f"{guarded} values so far", "")
            with phase("trace", self._name):
                trace, constants = self._trace_twice(structure, leaves)
        except Unsupported as error:
            if error.reason.code not in ("scalar-range", "runtime-check"):  # of these values only
                entry.refused, entry.refused_names = error.reason, names
            raise
        from fuser import partition

        spec = None
        if self.mode != "fallback":
            self._note_seams(entry, trace, names)
            spec = partition.prepare(trace.graph, self.mode, self.fastmath, self.errstate)
        specialisation = specialise(trace, spec, names, constants)
        call = specialisation.match(leaves)
        if call is None:
            reason = Reason("impure", self._name, "a guard fails right after tracing")
            entry.refused, entry.refused_names = reason, names
            raise CannotRun(reason)
        entry.found = [*entry.found, specialisation]
        return call

    def _note_seams(
        self, entry: _Signature, trace: Trace, names: list[captures.NameGuard]
    ) -> None:
        """Say which functions run in NumPy between kernels.

        Raises:
            CannotRun: the policy is "error", or there is nothing that kernels would do.
        """
        from fuser import partition

        whole = partition.nothing_fuses(trace.graph)
        for reason in partition.seam_reasons(trace.graph):
            if self.fallback == "error" or whole is not None:
                entry.refused, entry.refused_names = reason, names
                raise CannotRun(reason)
            if reason not in self.fallbacks:
                self.fallbacks.append(reason)
            fallback.say(reason, self.fallback)

    def _trace_twice(self, structure: Any, leaves: list[Any]) -> tuple[Trace, dict[str, Any]]:
        """Trace, and trace again to see whether the function is pure.

        Returns:
            The first trace, and captured arrays that the function makes anew each time.
        """
        from fuser.extern_tracing import Replay

        replay = Replay()
        try:
            first = trace_call(self.__wrapped__, structure, leaves, replay)
            second = trace_call(self.__wrapped__, structure, leaves, replay)
        except (FuserError, OverflowError):  # a Python int that does not fit: as at later calls
            raise
        except Exception as error:
            found = f"{type(error).__name__}: {error}"
            raise Unsupported("not-traceable", self._name, found) from error
        return first, _compare(first, second, self._name)

    # -- running ----------------------------------------------------------------------------

    def _run(self, call: Call, leaves: Sequence[Any], out: Any) -> Any:
        """Compute the outputs of one call and put them together."""
        trace, spec = call.specialisation.trace, call.specialisation.spec
        targets = _targets(trace, out, call.sizes)
        _check_hazards(call)
        given: dict[int, Any] = dict(targets)
        names = [p.name for p in trace.graph.parameters]
        for parameter, output, region in trace.writes:
            array = call.arrays[names[parameter]]
            if not array.flags.writeable:
                raise ValueError("output array is read-only")
            given[output] = array[regions.slices(region, call.sizes)] if region else array
        if spec is None:
            results = self._interpret(call, given)
        elif not isinstance(spec, KernelSpec):
            from fuser import partition

            check = call.specialisation.check_late
            partition.count_seams(spec)
            results = partition.execute(spec, call.arrays, call.numbers, given, check)
        else:
            results = executor.execute(spec, call.arrays, call.numbers, call.sizes, given)
        leaves_out = [
            _result(leaf, results, call, names, place, targets)
            for place, leaf in enumerate(trace.leaves)
        ]
        if out is None:
            return trees.unflatten(trace.structure, leaves_out)
        wanted = out if isinstance(out, tuple) else (out,)
        for target, leaf, value in zip(wanted, trace.leaves, leaves_out, strict=True):
            if isinstance(leaf, OutView):
                _check_target(target, value.shape, value.dtype)
                np.copyto(target, value, casting="same_kind")
        return out

    def _interpret(self, call: Call, given: Mapping[int, Any]) -> list[Any]:
        """Mode "fallback": NumPy or CuPy, operation by operation."""
        module = _module_of(call.arrays)
        graph = call.specialisation.trace.graph
        try:
            check = call.specialisation.check_late
            results = list(fallback.interpret(graph, call.arrays, call.numbers, module, check))
        except CallFailed as error:
            raise CannotRun(error.reason) from None
        for place, target in given.items():
            executor.check_shape(target, np.shape(results[place]))
        for place, target in given.items():
            module.copyto(target, results[place], casting="same_kind")
            results[place] = target
        return results

    def _fall_back(self, reason: Reason, args: Any, kwargs: Any, out: Any) -> Any:
        """Run the plain function and say why."""
        plain = reason.code == "not-traceable"
        if plain:  # the function's own error, of wrong arguments for instance, comes first
            result = self.__wrapped__(*args, **kwargs)
        if reason.code != "runtime-check" and reason not in self.fallbacks:
            self.fallbacks.append(reason)
        if reason.code != "runtime-check" or not self.errstate:
            fallback.record(reason, self.fallback if reason.code != "runtime-check" else "allow")
        if not plain:
            result = self.__wrapped__(*args, **kwargs)
        if out is None:
            return result
        _, found = trees.flatten(result)
        wanted = out if isinstance(out, tuple) else (out,)
        if len(found) != len(wanted):
            raise ArgumentError(f"out has {len(wanted)} arrays, the function gives {len(found)}")
        for target, value in zip(wanted, found, strict=True):
            _check_target(target, np.shape(value), np.result_type(value))
            np.copyto(target, value, casting="same_kind")
        return out

    # -- looking inside ---------------------------------------------------------------------

    def explain(self, *args: Any, **kwargs: Any) -> Any:
        """What happens when the function is called with these arguments, and why.

        Returns:
            An Explanation: printable; `.groups`, `.candidates`, `.fallbacks`, `.ledger`.
        """
        from fuser.explanation import explain_call

        return explain_call(self, args, kwargs)

    def source(self, *args: Any, kind: str = "source", **kwargs: Any) -> dict[str, str]:
        """The generated text of each kernel that these arguments run.

        Args:
            args: as for a call.
            kind: "source", "optimized", "asm", or "ptx" where the backend has it.
            kwargs: as for a call.

        Raises:
            FusionError: the call cannot be fused.
        """
        from fuser.explanation import kernels_of_call

        return {kernel.name: kernel.text(kind) for kernel in kernels_of_call(self, args, kwargs)}

    def clear(self) -> None:
        """Forget every specialisation; running calls keep what they use."""
        self._signatures = {}
        self._ready = {}
        self._keep = []
        if self._native is not None:
            self._native.detach()


#: Whether fused functions can be entered natively in this interpreter.
_NATIVE = native_call.enable_vectorcall(FusedFunction)

_all_functions: weakref.WeakSet[FusedFunction] = weakref.WeakSet()


def _parameter_names(function: Callable[..., Any]) -> tuple[str, ...]:
    """Names of a function's parameters; none where they cannot be known."""
    try:
        return tuple(inspect.signature(function).parameters)
    except (TypeError, ValueError):
        return ()


def _lookup(module: str, name: str) -> Any:
    """The object called `module.name`, or None."""
    import sys

    found: Any = sys.modules.get(module)
    for part in name.split("."):
        found = getattr(found, part, None)
    return found


def _find(module: str, name: str) -> Any:
    """Unpickle by reference."""
    import importlib

    importlib.import_module(module)
    return _lookup(module, name)


def _make(function: Callable[..., Any], options: tuple[Any, ...]) -> FusedFunction:
    """Unpickle by function."""
    backend, mode, policy, fastmath, errstate = options
    return FusedFunction(
        function, backend=backend, mode=mode, fallback=policy, fastmath=fastmath, errstate=errstate
    )


def signature(structure: Any, leaves: Sequence[Any], keep: list[Any]) -> Any:
    """The key of a call: dtypes and ranks of arrays, types of scalars, static values."""
    parts: list[Any] = []
    for leaf in leaves:
        kind = type(leaf)
        if kind is np.ndarray:
            parts.append((leaf.dtype, leaf.ndim))
        elif kind in (float, int, bool):
            parts.append(kind)
        elif isinstance(leaf, np.generic):
            parts.append(("scalar", leaf.dtype))
        elif hasattr(leaf, "dtype") and hasattr(leaf, "ndim") and not isinstance(leaf, type):
            parts.append((kind, leaf.dtype, leaf.ndim))
        else:
            parts.append(_static(leaf, keep))
    return (trees.spell(structure), tuple(parts))


def _static(leaf: Any, keep: list[Any]) -> Any:
    """A static value in a key: by value where it can be hashed, else by identity."""
    try:
        hash(leaf)
    except TypeError:
        keep.append(leaf)  # so that its id is not given to another object
        return ("object", id(leaf))
    return (type(leaf), leaf)


def _compare(first: Trace, second: Trace, name: str) -> dict[str, Any]:
    """Check that two traces agree; find captured arrays that are made anew by each run.

    Raises:
        Unsupported: they differ: the function is impure.
    """
    same = first.graph.text == second.graph.text and first.structure == second.structure
    same = same and first.value_guards == second.value_guards and first.writes == second.writes
    if not same or len(first.leaves) != len(second.leaves):
        raise Unsupported("impure", name, "another graph in the second trace", "")
    fresh: dict[str, Any] = {}
    hidden = [p.name for p in first.graph.parameters if p.captured]
    for label, one, other in zip(
        hidden, first.graph.captured, second.graph.captured, strict=True
    ):
        if one is other or _same_memory(one, other):
            continue
        if one.tobytes() != other.tobytes():
            raise Unsupported("impure", name, "an array with other values in the second trace", "")
        fresh[label] = one.copy()
    return fresh


def _same_memory(one: Any, other: Any) -> bool:
    """Whether two views made one after another look at the same living memory."""
    if one.base is None or other.base is None or not one.size:
        return False
    return bool(
        one.__array_interface__["data"] == other.__array_interface__["data"]
        and one.strides == other.strides
    )


def _check_hazards(call: Call) -> None:
    """Refuse arguments that share memory, where one is written before the other is read.

    Raises:
        Unsupported: then only the function itself gives the right answer.
    """
    trace = call.specialisation.trace
    for pair in trace.hazards:
        first, then = (call.arrays[trace.graph.parameters[place].name] for place in pair)
        if first is then or np.may_share_memory(first, then):
            raise Unsupported("write-into-view", "assignment", "arguments that share memory", "")


def _targets(trace: Trace, out: Any, sizes: Mapping[str, int]) -> dict[int, Any]:
    """Which graph outputs are written into which arrays of `out=`.

    Raises:
        ArgumentError: a wrong number of arrays, or an output that is no array.
        ShapeError: an array of another shape than its output.
    """
    if out is None:
        return {}
    wanted = out if isinstance(out, tuple) else (out,)
    if len(wanted) != len(trace.leaves):
        raise ArgumentError(f"out has {len(wanted)} arrays, the function gives {len(trace.leaves)}")
    targets: dict[int, Any] = {}
    for target, leaf in zip(wanted, trace.leaves, strict=True):
        if isinstance(leaf, OutView) and hasattr(target, "dtype"):
            continue  # the value that it is a view of is computed, then the view is copied
        if not isinstance(leaf, OutNode):
            raise Unsupported("unsupported-argument", "out=", "an output that is an argument", "")
        node = trace.graph.outputs[leaf.index]
        if not hasattr(target, "dtype") or not hasattr(target, "strides"):
            raise ArgumentError(f"out is an array, found {type(target).__name__}")
        if leaf.index in targets or target.dtype != node.dtype:
            raise Unsupported("unsupported-argument", "out=", f"dtype {target.dtype}", "")
        if all(symbol in sizes for dim in node.shape for symbol in dims.symbols(dim)):
            executor.check_shape(target, tuple(dims.evaluate(dim, sizes) for dim in node.shape))
        if not target.flags.writeable:
            raise ValueError("output array is read-only")
        targets[leaf.index] = target
    return targets


def _check_target(target: Any, shape: Any, dtype: Any) -> None:
    """Check an array of `out=` against a result.

    Raises:
        ShapeError, TypeError, ValueError: it cannot take the result.
    """
    executor.check_shape(target, shape)
    if not np.can_cast(dtype, target.dtype, "same_kind"):
        raise TypeError(f"out has dtype {target.dtype}, the result has {dtype}")


def _result(
    leaf: Any,
    results: Sequence[Any],
    call: Call,
    names: Sequence[str],
    place: int,
    targets: Mapping[int, Any],
) -> Any:
    """One output as NumPy would give it."""
    if isinstance(leaf, OutNode):
        value = results[leaf.index]
        if leaf.generic and leaf.index not in targets and hasattr(value, "ndim"):
            return value[()]
        return np.asarray(value) if isinstance(value, np.generic) and not leaf.generic else value
    if isinstance(leaf, OutView):
        base = results[leaf.index]
        return views.apply_views(base, leaf.views, call.sizes, np)
    if isinstance(leaf, OutAlias):
        array = call.arrays[names[leaf.parameter]]
        if not leaf.views:
            return array
        return views.apply_views(array, leaf.views, call.sizes, _module_of(call.arrays))
    if isinstance(leaf, OutScalar):
        return scalars.evaluate(leaf.text, call.numbers)
    value = leaf.value
    return value.copy() if type(value) is np.ndarray and leaf.fresh else value


def _module_of(arrays: Mapping[str, Any]) -> Any:
    """NumPy, or the backend's array module."""
    if all(isinstance(array, (np.ndarray, np.generic)) for array in arrays.values()):
        return np
    from fuser.backend import backend_of, get_backend

    return get_backend(backend_of(arrays.values())).array_module


def clear_all() -> None:
    """Forget the specialisations of every fused function."""
    for function in list(_all_functions):
        function.clear()
    counters.count("clears")
