"""The callable that `fuse` makes: finds what a call needs, runs it, or falls back."""

from __future__ import annotations

import functools
import itertools
import operator
import sys
import weakref
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from types import GenericAlias, MethodType
from typing import (
    TYPE_CHECKING,
    Any,
    Concatenate,
    Generic,
    ParamSpec,
    Self,
    TypeVar,
    overload,
)

import numpy as np

from fuser import executor
from fuser.backend import (
    FEWEST_PLAIN,
    MISSED,
    OWNERS,
    CompileError,
    PlainCall,
    PythonCall,
    ServedCall,
    adopted_leaves,
    chosen,
    elsewhere,
)
from fuser.base import budget, caches, config, counters, forks, notices, timeline, trees
from fuser.base.call_keys import (
    READY_LIMIT,
    exact_key,
    is_cupy,
    refusal_key,
    signature,
    takes_keyword,
)
from fuser.base.errors import (
    ArgumentError,
    FuserError,
    FusionError,
    Reason,
    Unsupported,
    let_go,
)
from fuser.base.protocols import is_a, type_has
from fuser.base.unexpected import internal_errors
from fuser.calls import (
    importlib_bootstrap_frame,
    lazy_arrays,
    loading,
    native_call,
    pickling,
    running,
)
from fuser.calls.importlib_bootstrap_frame import Plainly
from fuser.calls.running import copied_into, given_buffers
from fuser.calls.specialisation import READY_NS, Call, Specialisation, is_brief
from fuser.capture.effects import tracing_here
from fuser.executor import CannotRun
from fuser.ir.opaque_calls import PatternMiss
from fuser.kernel_spec import KernelSpec
from fuser.program_spec import Program
from fuser.tracing.traced_array import TracedArray
from fuser.tracing.traced_scalars import HostScalar

if TYPE_CHECKING:
    from fuser.calls.attributes import Frames, Hidden
    from fuser.calls.comparison import Comparison
    from fuser.calls.explained import Explained
    from fuser.calls.plain_calls import PlainCalls
    from fuser.calls.trace_cache import Signature

MODES = ("fused", "unfused", "fallback")
POLICIES = ("warn", "allow", "error")
RESULTS = ("backend", "arguments")


def check_option(name: str, value: Any, known: Sequence[str]) -> None:
    """Refuse a value that an option cannot have.

    Raises:
        ArgumentError: it is none of those known; the message has those near it.
    """
    if value not in known:
        from fuser.base.near import near_it  # only for the message

        raise ArgumentError(f"{name} cannot be {value!r}; {near_it(value, known)}")


_OUT = {"out"}
_SHORT_WAY = "the short way of later calls"
#: Backends that arrays lead to by themselves: later calls need not say which.
_OWN_ARRAYS = (None, "", *OWNERS)
#: Why small calls are the plain function's in the end.
LONG_WAY = "every call takes a look by Python, which takes longer than NumPy"
#: Different signatures (dtypes, ranks, static values) that one function remembers.
SIGNATURE_LIMIT = 512
#: Traces of calls of one kind, none of which is used again, after which they are rare.
TRACES = 16
#: Signatures of short calls that are known when further objects are not traced, though they come
#: again: a trace takes as long as thousands of such calls.
OBJECTS = 64
#: Calls of one kind that are looked at before the plain function is called without a look.
PATIENCE = 4
#: Times that the steps of a program are written down anew for calls with the same shapes.
MISSED_LIMIT = 4
#: Values in arguments by which calls of the plain function are told apart; where there are more,
#: lists and dicts are known by their class alone.
MOST_COMPARED = 64
#: Different reasons for not fusing that one function remembers.
REASON_LIMIT = 256


P = ParamSpec("P")
Q = ParamSpec("Q")
Owning = TypeVar("Owning")
Result = TypeVar("Result", covariant=True)
Out = TypeVar("Out")

if TYPE_CHECKING:

    class _Base(Generic[P, Result]):
        """What a type checker sees of the base."""

else:  # the base is made at run time, and takes no parameters
    _Base = {(P, Result): native_call.NativelyCallable}


class _OfFunction:
    """An attribute that functions have: the plain function's, read there and set there."""

    def __set_name__(self, owner: type, name: str) -> None:
        """Know what it is called."""
        self._name = name

    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        """The plain function's; missing where that is no function."""
        return self if instance is None else getattr(instance.__wrapped__, self._name)

    def __set__(self, instance: Any, value: Any) -> None:
        """Change the plain function, as later calls notice."""
        setattr(instance.__wrapped__, self._name, value)


class FusedFunction(_Base[P, Result]):
    """A function whose array operations run as fused kernels.

    Called with NumPy arrays it runs on the CPU backend, with CuPy arrays on the GPU backend. It
    gives what the plain function gives. `out=` takes an array, or a tuple of arrays for several
    outputs, to write results into.

    Attributes:
        fallbacks: reasons for which calls, or functions in them, were not fused; each once.
    """

    if not TYPE_CHECKING:
        __class_getitem__ = classmethod(GenericAlias)  # FusedFunction[[int], float] in annotations
        __code__, __defaults__, __kwdefaults__ = _OfFunction(), _OfFunction(), _OfFunction()
        __closure__, __globals__ = _OfFunction(), _OfFunction()
    else:
        __name__: str
        __qualname__: str

    def __init__(
        self,
        function: Callable[P, Result],
        *,
        backend: str | None = None,
        mode: str = "fused",
        fallback: str = "warn",
        fastmath: bool = False,
        errstate: bool = False,
        kernel_name: str | None = None,
        results: str = "backend",
    ) -> None:
        """See `fuser.fuse`."""
        check_option("mode", mode, MODES)
        check_option("fallback", fallback, POLICIES)
        check_option("results", results, RESULTS)
        for name, flag in (("fastmath", fastmath), ("errstate", errstate)):
            if type(flag) is not bool:
                raise ArgumentError(f"{name} is {flag!r}; use True or False")
        if kernel_name is not None and type(kernel_name) is not str:
            raise ArgumentError(f"kernel_name is {kernel_name!r}; use a string")
        if not callable(function):
            raise ArgumentError(f"fuse takes a function, found {type(function).__name__}")
        loading.load(backend)  # an unknown name is an error here
        functools.update_wrapper(self, function)
        self.__wrapped__: Callable[..., Any] = function
        self.backend = backend
        self.mode = mode
        self.fallback = fallback
        self.fastmath = fastmath
        self.errstate = errstate
        self.kernel_name = kernel_name
        self.results = results
        self.fallbacks: list[Reason] = []
        self._fallback_counts: dict[Reason, int] = {}
        self._signatures: dict[Any, Signature] = {}
        self._native: Any = None
        self._ready: dict[Any, Any] = {}
        self._latest: Any = None
        self._latest_out: Any = None
        self._takes_out = not takes_keyword(function, "out")
        self._long: dict[Any, int] = {}
        self._ended_there: dict[Any, tuple[int, int]] = {}
        self._plain: dict[Any, PlainCalls] = {}
        self._met: dict[Any, Callable[[], Any]] = {}
        self._brief = False  # the call that was traced last, see `is_brief`
        self._frames: Frames | None = None  # the function is known to assign attributes
        self._hidden: Hidden | None = None
        self._by_value: Any = None
        self._lazily: Any = None  # how calls with Dask arrays ended, see `fuser.dask.arrays`
        _all_functions.add(self)

    def __setattr__(self, name: str, value: Any) -> None:
        """Set an attribute; a `__dict__`, as of IPython's autoreload, only adds what is not there.

        How calls are served is in the object's own, and what is there is what native entries read.
        """
        if name == "__dict__":
            value = {**value, **self.__dict__}
        object.__setattr__(self, name, value)

    def __repr__(self) -> str:
        """The function's name and the mode."""
        name = getattr(self.__wrapped__, "__qualname__", repr(self.__wrapped__))
        return f"<fused function {name}, mode {self.mode}>"

    @overload
    def __get__(self, instance: None, owner: Any = None) -> Self: ...
    @overload
    def __get__(
        self: FusedFunction[Concatenate[Owning, Q], Result], instance: Owning, owner: Any = None
    ) -> Callable[Q, Result]: ...
    def __get__(self, instance: Any, owner: Any = None) -> Any:
        """Bind as a method does."""
        return self if instance is None else MethodType(self, instance)

    def __reduce_ex__(self, protocol: Any) -> tuple[Any, ...]:
        """Pickle by reference where other processes find the name, else by the function."""
        return pickling.reduced(self, protocol)

    def __copy__(self) -> Self:
        """A function is its own copy."""
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        """A copy of what the function belongs to has its own; a function is its own copy."""
        import copy  # a first call needs none

        copied = copy.deepcopy(self.__wrapped__, memo)
        return self if copied is self.__wrapped__ else pickling.fused(copied, self.options)

    @property
    def stage_kind(self) -> Callable[..., Any]:
        """What makes a fused function of a stage's kernels, also for one that is made otherwise."""
        return FusedFunction

    @property
    def options(self) -> dict[str, Any]:
        """What `fuse` was given beside the function."""
        names = "backend mode fallback fastmath errstate kernel_name results".split()
        return {name: getattr(self, name) for name in names}

    @property
    def by_value(self) -> Callable[..., Any]:
        """A copy of the plain function whose name leads here, see `pickling`."""
        copied = pickling.named_copy(self.__wrapped__, self._by_value, "by_value")
        self._by_value = copied
        return copied

    # -- calls ------------------------------------------------------------------------------

    @overload
    def __call__(self, /, *args: P.args, **kwargs: P.kwargs) -> Result: ...
    @overload
    def __call__(self, /, *args: Any, out: Out, **kwargs: Any) -> Out: ...
    def __call__(self, /, *args: Any, **kwargs: Any) -> Any:
        """Run the function, fused where it can be."""

    if not TYPE_CHECKING:
        __call__ = importlib_bootstrap_frame.call

    def _served(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """What a call gives, or a `Plainly`; arrays of `out=` are no keyword of it then."""
        if self._plain:
            plain = self._plain.get(refusal_key(args, kwargs, exactly=True))
            if plain is not None and plain.holds():
                return plain.served()
        if self._lazily is not None and (found := self._lazily(self, args, kwargs)) is not MISSED:
            return found
        try:
            if not kwargs:
                if self._plain and self._latest is not None:  # else it was tried before
                    result = self._latest.try_again(args)
                    if result is not MISSED:
                        if self._long:
                            self._long.clear()
                        return result
                key = exact_key(args)
                ready = self._ready.get(key) if key is not None else None
                if ready is not None and ready.holds():
                    result = ready.run(args)
                    if result is not MISSED:
                        if self._long:
                            self._long.clear()
                        return result
            elif self._latest_out is not None and kwargs.keys() == _OUT:
                result = self._latest_out.run(args, kwargs["out"])
                if result is not MISSED:
                    return result
        except Unsupported:  # an integer that no kernel's arithmetic has: below it becomes a reason
            pass
        if self._frames and not kwargs and (frame := self._frames.latest(args)) is not None:
            return _run_frame(self, *frame, args, kwargs, None)
        fell: list[Reason] = []
        ended = functools.partial(self._ended, args, dict(kwargs) if kwargs else kwargs, fell)
        try:
            result = self._long_way(args, kwargs, fell)
        except Exception:
            ended(True)
            raise
        if type(result) is Plainly:
            result.ended = ended
        else:
            ended(False)
        return result

    def _ended(
        self, args: tuple[Any, ...], kwargs: dict[str, Any], fell: Sequence[Reason], raised: bool
    ) -> None:
        """Count a call of which no short way was known."""
        if raised:  # the function's own error is no reason not to trace it
            self._count_long(args, kwargs, [r for r in fell if r.code != "not-traceable"])
        elif fell:
            self._count_long(args, kwargs, fell)
        elif self._long:
            self._long.pop(refusal_key(args, kwargs), None)

    def _long_way(
        self, args: tuple[Any, ...], kwargs: dict[str, Any], fell: list[Reason]
    ) -> Any:
        """As `_served`, where no short way is known; `fell` takes why NumPy runs such calls."""
        names = tuple(kwargs)
        out = kwargs.pop("out", None) if self._takes_out and "out" in kwargs else None
        reason: Reason | None = None
        handled = sys.exc_info()[1]
        try:
            structure, leaves = trees.flatten((args, kwargs))
        except Unsupported as error:
            reason = error.reason
        if reason is not None:
            fell.append(reason)
            return self._fall_back(reason, out)
        if any(issubclass(type(leaf), (TracedArray, HostScalar)) for leaf in leaves):
            return Plainly(self.__wrapped__)
        if (taken := adopted_leaves(leaves)) is not leaves:
            from fuser.calls import adopted_arrays  # most programs have none

            return adopted_arrays.call(self, structure, leaves, taken, out)
        if (device := elsewhere(leaves)) is not None:
            with device:
                return self(*args, **kwargs) if out is None else self(*args, **kwargs, out=out)
        if self._frames and (frame := self._frames.find(self, structure, leaves)) is not None:
            return self._through(frame, args, kwargs, out, fell)
        if budget.is_open() or tracing_here() or forks.imports_here():
            return self._fall_back(self._reentered, out)
        if (lazily := lazy_arrays.caller(leaves)) is not None:
            return lazily(self, structure, leaves, out)
        wraps = any(map(lazy_arrays.is_wrapped, leaves))
        if wraps and not lazy_arrays.is_of_labels(self.__wrapped__):
            from fuser.calls import wrapped_arrays  # most programs have none

            if (wrapped := wrapped_arrays.caller(self, structure, leaves, out)) is not None:
                return wrapped(self, structure, leaves, out)
        try:
            with chosen(self.backend), budget.limited(self._name):
                call, result = self._find_and_run(structure, leaves, out)
                whole: Any = (args, kwargs)
                for place, path in call.specialisation.trace.given_back if out is None else ():
                    given = functools.reduce(operator.getitem, path, whole)
                    result = trees.put(result, place, given)
                if self.backend in _OWN_ARRAYS and not timeline.listening():
                    short = self._shorten(call, structure, leaves, args, names, out)
                    if not short and out is None and self._may_give_way and is_brief(call):
                        fell.append(Reason("no-gain", self._name, LONG_WAY))
            return result
        except (CannotRun, Unsupported) as error:
            reason = error.reason
            frame = _frame_for(self, error, structure, leaves)
            stopped = error.call if type(error) is CannotRun else None
            if stopped is not None and self.fallback != "error" and not timeline.listening():
                self._shorten(stopped, structure, leaves, args, names, out)
            let_go(error, handled)
        except (running.ReadOnlyError, running.OutOfRangeError):
            if out is not None:
                raise
        # No exception of ours is handled any more: the plain function must not meet one.
        if reason is None:  # it raises itself, after what it writes before that
            fell.append(self._raising)
            return Plainly(self.__wrapped__)
        if frame is not None:
            return self._through(frame, args, kwargs, out, fell)
        fell.append(reason)
        return self._fall_back(reason, out, (structure, leaves))

    def _through(
        self, frame: tuple[Any, Any], args: Any, kwargs: Any, out: Any, fell: list[Reason]
    ) -> Any:
        """Run what is run instead of a function that assigns attributes, see `attributes`."""
        found = _run_frame(self, *frame, args, kwargs, out)
        known = self._frames if out is None and self._may_give_way else None
        if known is not None and known.gives_way(*frame):
            fell.append(Reason("no-gain", self._name, LONG_WAY))
        return found

    def _confirm(self, structure: Any, leaves: Sequence[Any]) -> None:
        """Do not trace such calls again: the plain function ran where its trace had raised."""
        entry = self._signatures.get(signature(structure, leaves))
        if entry is not None and entry.suspected is not None:
            entry.refuse(*entry.suspected)

    def seen_as(self, args: tuple[Any, ...], kwargs: Any) -> tuple[Any, Any, Any]:
        """The function and arguments that a call is run by: see `attributes.Frame`.

        Args:
            args: of the call.
            kwargs: likewise.
        """
        handled = sys.exc_info()[1]
        structure, leaves = trees.flatten((args, kwargs))
        frame = self._frames.find(self, structure, leaves) if self._frames else None
        method = type(self.__wrapped__) is MethodType
        if frame is None and (method or not all(map(_is_plain_leaf, leaves))):
            try:
                self._find_call(structure, leaves)
            except (CannotRun, Unsupported) as error:
                frame = _frame_for(self, error, structure, leaves)
                let_go(error, handled)
        return (self, args, kwargs) if frame is None else (frame[0].fused, tuple(frame[1]), {})

    def known_for(self, structure: Any, leaves: list[Any]) -> Sequence[Specialisation]:
        """The specialisations of calls with such arguments.

        Args:
            structure: how the arguments lie in containers.
            leaves: the arguments.
        """
        entry = self._signatures.get(signature(structure, leaves))
        return () if entry is None else entry.found

    #: Where native entries send what they do not know.
    _slow_call = __call__

    def _count_long(self, args: tuple[Any, ...], kwargs: Any, fell: Sequence[Reason]) -> None:
        """Count a call that Python looked at, and that ended in the plain function or in an error.

        After a few in a row the backend sends such calls there: that is where they end anyway.

        Args:
            args: of the call.
            kwargs: likewise.
            fell: why the plain function ran, if it did.
        """
        anew = bool(fell) and fell[-1] == self._anew
        leaves = trees.flatten((args, kwargs))[1] if anew else []
        key = _kind_of(leaves, True) if anew else refusal_key(args, kwargs)
        if len(self._long) >= READY_LIMIT and key not in self._long:
            self._long.clear()
            self._ended_there.clear()
        seen = self._long[key] = self._long.get(key, 0) + 1
        reason = fell[-1] if fell else self._raising
        often = self._ends_there_often(key, seen, reason)
        comes_again = not (self._knows_enough or all(map(_is_plain_leaf, leaves)))
        nested = anew and len(leaves) != len(args) + len(kwargs)
        patience = SIGNATURE_LIMIT if comes_again else OBJECTS if nested else PATIENCE
        if seen < patience or not _NATIVE or self.fallback == "error" or timeline.listening():
            return
        if self.backend not in _OWN_ARRAYS or (self._takes_out and "out" in kwargs):
            return
        with suppress(FuserError), internal_errors(_SHORT_WAY):
            entry, (structure, leaves) = None, trees.shallow(args, kwargs)
            with suppress(Unsupported):  # there are more values than are looked at
                structure, leaves = trees.flatten((args, kwargs))
                entry = self._signatures.get(signature(structure, leaves))
            if all(map(_is_itself, leaves)):
                if entry is not None and reason.code == "many-paths":
                    entry.part(reason, seen)
                if entry is not None and entry.stop(leaves, often):
                    self._forget_ways()
                told = functools.partial(_count_reason, self._fallback_counts, reason)
                whole = entry is not None and entry.refused == reason and not entry.found
                whole = whole or anew
                arrays = [leaf for leaf in leaves if is_a(leaf, np.ndarray)]
                laid_out = [(a.flags.c_contiguous, a.flags.writeable) for a in arrays]
                alike = whole and all(contiguous for contiguous, _ in laid_out)
                exact = (*laid_out, None if alike else exact_key(tuple(leaves)))
                if anew or len(leaves) > MOST_COMPARED:
                    structure, leaves = trees.shallow(args, kwargs)
                call = PlainCall(
                    self.__wrapped__, (key, exact), leaves, tuple(kwargs), structure,
                    notices.counts_of(reason), told, seen, whole,
                )  # fmt: skip
                if reason not in self.fallbacks and len(self.fallbacks) < REASON_LIMIT:
                    self.fallbacks.append(reason)
                installed = executor.planned_for(arrays).install(self, call)
                if not installed and not any(is_cupy(type(leaf)) for leaf in leaves):
                    self._serve_plainly(call, args, kwargs)

    def _ends_there_often(self, key: Any, seen: int, reason: Reason) -> bool:
        """Whether at least as many calls ended in the plain function as were served natively.

        Args:
            key: what the calls have in common that end there.
            seen: how many of them have been looked at.
            reason: why they do.
        """
        served = 0 if self._native is None else self._native.hits
        ended = seen + self.fallback_counts.get(reason, 0)
        if seen == 1 or key not in self._ended_there:
            self._ended_there[key] = served, ended - 1
        if seen < TRACES and ended < TRACES * FEWEST_PLAIN:
            return False
        served_then, ended_then = self._ended_there[key]
        self._ended_there[key] = served, ended
        return ended - ended_then >= served - served_then

    def _serve_plainly(self, call: PlainCall, args: tuple[Any, ...], kwargs: Any) -> None:
        """Have the plain function run some calls like one that ended there."""
        from fuser.calls.plain_calls import PlainCalls  # most functions have none

        if len(self._plain) >= READY_LIMIT:
            self._plain.clear()
        exactly = refusal_key(args, kwargs, exactly=True)
        self._plain[exactly] = PlainCalls(call, self._long, call.key[0])

    @property
    def _may_give_way(self) -> bool:
        """Whether small calls may be the plain function's because that is faster."""
        return self.fallback != "error" and self.mode != "fallback"

    def _shorten(
        self, call: Call, structure: Any, leaves: Sequence[Any], args: tuple[Any, ...],
        names: tuple[str, ...], out: Any,
    ) -> bool:  # fmt: skip
        """Have later calls like this one take a short way; the result of this one is there.

        Returns:
            Whether they do, or may.
        """
        given = bool(call.specialisation.trace.given_back)
        entry = self._signatures.get(signature(structure, leaves))
        looking_ns = call.specialisation.looking_ns
        in_vain_ns = 0.0 if entry is None else entry.in_vain_ns
        brief = looking_ns and is_brief(call, max(looking_ns, in_vain_ns))
        if brief and out is None and self._may_give_way:
            return False
        try:
            with internal_errors(_SHORT_WAY):
                if self._go_native(call, structure, leaves, names, out):
                    return True
                return not given and self._get_ready(call, structure, leaves, args, names, out)
        except (CannotRun, Unsupported, CompileError) as error:  # later calls take the long way
            code = error.code if isinstance(error, CompileError) else error.reason.code
            counters.count(f"no-short-way.{code}")
        return False

    def _get_ready(
        self, call: Call, structure: Any, leaves: Sequence[Any], args: tuple[Any, ...],
        names: tuple[str, ...], out: Any,
    ) -> bool:  # fmt: skip
        """Remember how calls with exactly these shapes and strides run; whether it can be."""
        key = exact_key(tuple(leaves) if out is None else (*leaves, out))
        if key is None or call.specialisation.identities:
            return False
        spread = len(args) != len(leaves) or len(names) > (out is not None)
        if spread:  # containers and keywords are compared natively alone
            key = ("native", names, trees.spell(structure), key)
        if isinstance(call.specialisation.spec, Program):
            if out is not None:
                return False
            return self._get_program_ready(call, key, structure, leaves, names)
        if len(self._ready) >= READY_LIMIT:
            self._ready = {}
        known = self._ready.get(key)
        if spread:
            served = any(is_cupy(type(leaf)) for leaf in leaves)
            if not served or (known is not None and known.holds()):
                return False
        from fuser.calls.fast_path import ReadyForIntegers, Ways, make_ready, make_ready_out

        if out is not None:
            known_as = ("out", key, *[leaf is out for leaf in leaves])
            short = self._ready.get(known_as)
            if short is None or not short.holds():
                short = self._ready[known_as] = make_ready_out(call, out)
                if short is not None:
                    self._install(short.native(call, leaves, names, structure))
            if not spread:
                self._latest_out = short
            return True
        made, installed = make_ready(call), False
        if made is not None and not made.knows_its_arguments:
            if self._may_give_way and is_brief(call, READY_NS):
                return False
        if made is not None and (known is None or not known.holds()):
            installed = self._install(made.native(call, leaves, names, structure))
        if spread:
            if made is not None:
                self._ready[key] = made
            return installed
        if type(made) is ReadyForIntegers:
            if type(known) is Ways:
                known.add(made)
            else:
                self._ready[key] = Ways(made)
        elif made is not None:
            self._ready[key] = made
            alone = made.knows_its_arguments and not call.specialisation.trace.in_order
            self._latest = made if alone else None
        return made is not None

    def _get_program_ready(
        self, call: Call, key: Any, structure: Any, leaves: Sequence[Any], names: tuple[str, ...]
    ) -> bool:
        """Have a program serve such calls when they come again; whether it does, or may."""
        spec = call.specialisation.spec
        assert isinstance(spec, Program)
        if not call.specialisation.repeated:  # most first calls are the only ones
            call.specialisation.repeated = True
            return True
        from fuser.calls.program_fast_path import make_ready_program

        known = self._ready.get(key)
        known = known if isinstance(known, config.Standing) and known.holds() else None
        missed = getattr(known, "missed", -1) + 1
        if missed > MISSED_LIMIT:  # its results differ from call to call
            return False
        if len(self._ready) >= READY_LIMIT:
            self._ready = {}
        made = make_ready_program(known, call, self, leaves, names, structure)
        if made is None:
            return False
        if made is known:
            return True
        made.missed = missed
        self._ready[key] = made
        self._install(made.native(leaves, names, structure))
        return True

    def _install(self, call: PythonCall | None) -> bool:
        """Have the backend compare the arguments of such calls natively; whether it does."""
        if not _NATIVE or call is None:
            return False
        if self._native is not None and self._native.stale():
            self._native.renew()
        arrays = [
            leaf for leaf in call.leaves if is_a(leaf, np.ndarray) or is_cupy(type(leaf))
        ]
        return executor.planned_for(arrays).install(self, call)

    def _go_native(
        self,
        call: Call,
        structure: Any,
        leaves: Sequence[Any],
        names: tuple[str, ...],
        out: Any,
    ) -> bool:
        """Have the backend serve calls like this one without Python; whether it will."""
        if self._native is not None and self._native.stale():
            self._native.renew()
        spec = call.specialisation.spec
        if not _NATIVE or not isinstance(spec, KernelSpec):
            return False
        if out is None and "out" in names and self._takes_out:
            return False
        given = given_buffers(out)
        direct: Mapping[int, Any] = {}
        if call.specialisation.trace.writes:
            if given:
                return False
            from fuser.calls.fast_path import Writes  # most functions write into no argument

            direct = Writes(call).targets
            given = {f"o{place}": target for place, target in direct.items()}
        launch = executor.known_launch(spec, call.arrays, given, call.sizes)
        if launch is None:
            return False
        arrays = {**call.arrays, **given}
        served = ServedCall(
            call.specialisation, launch, arrays, call.sizes, leaves, names, out, structure,
            frozenset(direct),
        )  # fmt: skip
        return launch.backend.install(self, served)

    def _find_and_run(self, structure: Any, leaves: list[Any], out: Any) -> tuple[Call, Any]:
        """Run the first specialisation that holds; some only know when they run.

        Raises:
            CannotRun, Unsupported: the function cannot be fused for such arguments.
        """
        return self._first_that_runs(
            structure, leaves, lambda call, paused: running.run_call(call, leaves, out, paused)
        )

    def _find_path(self, structure: Any, leaves: list[Any]) -> Call:
        """The call by the specialisation that holds for it, its decisions included.

        What decisions need is computed; nothing is written.

        Raises:
            CannotRun, Unsupported: the function cannot be fused for such arguments.
        """
        return self._first_that_runs(structure, leaves, running.look)[0]

    def _first_that_runs(
        self, structure: Any, leaves: list[Any], run: Callable[[Call, Any], Any]
    ) -> tuple[Call, Any]:
        """The first specialisation that holds to its end, and what running it gives.

        Args:
            structure: how the arguments nest.
            leaves: the arguments.
            run: given the call, and where another path has ended in it.

        Raises:
            CannotRun, Unsupported: the function cannot be fused for such arguments.
        """
        from fuser.calls.trace_cache import VALUE_LIMIT  # `import fuser` does without

        missed: list[Specialisation] = []
        paused: Any = None
        while True:
            call = self._find_call(structure, leaves, missed, paused)
            try:
                return call, run(call, paused)
            except PatternMiss as error:
                paused = error.paused or paused
                missed.append(call.specialisation)
                if len(missed) > VALUE_LIMIT:
                    raise CannotRun(Reason("value-guards", self._name, str(error))) from None

    def _find_call(
        self, structure: Any, leaves: list[Any], missed: Sequence[Specialisation] = (),
        paused: Any = None,
    ) -> Call:  # fmt: skip
        """A specialisation that holds for the call; traced and compiled when there is none.

        Args:
            structure: how the arguments nest.
            leaves: the arguments.
            missed: specialisations that were found not to hold while they ran.
            paused: where the last of them ended, if a decision had another outcome.

        Raises:
            CannotRun, Unsupported: the function cannot be fused for such arguments.
        """
        from fuser.calls.trace_cache import Signature  # `import fuser` does without

        with internal_errors(self._name):
            key = signature(structure, leaves)
        entry = self._signatures.get(key)
        if entry is None:
            if len(self._signatures) >= SIGNATURE_LIMIT:
                raise Unsupported("value-guards", self._name, f"{SIGNATURE_LIMIT} signatures", "")
            entry = self._signatures.setdefault(key, Signature())
        if (call := entry.match(leaves, missed)) is not None:
            return call
        if forks.held_here(entry.lock):
            raise CannotRun(self._reentered)
        with entry.lock:  # another thread may have made it meanwhile
            if (call := entry.match(leaves, missed)) is not None:
                return call
            entry.check(leaves)
            if not missed:
                self._count_trace(key, leaves)
            try:
                return self._specialised(entry, structure, leaves, paused)
            except (CannotRun, Unsupported):
                kind = _kind_of(leaves, "in vain")
                self._long[kind] = self._long.get(kind, 0) + 1
                raise

    def _specialised(
        self, entry: Signature, structure: Any, leaves: list[Any], paused: Any = None
    ) -> Call:
        """Trace and prepare a new specialisation, and the call by it: see `trace_cache`."""
        from fuser.calls.trace_cache import specialised

        call = specialised(self, entry, structure, leaves, paused)
        self._brief = is_brief(call)
        return call

    @staticmethod
    def has_short_way(call: Call, program: Program) -> bool:
        """Whether later calls like one would take a short way.

        Args:
            call: of a function with steps between kernels.
            program: its steps.
        """
        from fuser.calls.program_steps import has_short_way  # `import fuser` does without

        return has_short_way(call, program)

    def _count_trace(self, key: Any, leaves: Sequence[Any]) -> None:
        """Count a trace among those of calls of one kind that were not used again.

        After some of them one is made where an object comes again, and now and then. Of short
        calls no more are made where many are known.

        Args:
            key: the call's, of which nothing is remembered where it is not traced.
            leaves: its arguments.

        Raises:
            CannotRun: other objects, or other things by the names that the function reads, come
                with each call.
        """
        if self.fallback == "error":
            return
        kind, entry = _kind_of(leaves), self._signatures.get(key)
        if entry is None:  # a signal handler or another thread has cleared the function
            return
        done = self._long[kind] = self._long.get(kind, 0) + 1
        in_vain = self._long.get(_kind_of(leaves, "in vain"), 0)
        done = max(done, in_vain * (TRACES // PATIENCE))
        if done <= TRACES or done & (done - 1) == 0:
            return
        again = [self._comes_again(leaf) for leaf in leaves if not _is_plain_leaf(leaf)]
        unknown = not entry.found and entry.refused is None
        if unknown and not again:  # lists of other lengths
            again = [self._comes_again(key)]
        if not again or not all(again) or self._knows_enough:
            if unknown:
                self._signatures.pop(key, None)
            raise CannotRun(entry.refused or self._anew)
        self._long[kind] = 0

    @property
    def _knows_enough(self) -> bool:
        """Whether no more objects are traced, though they come again."""
        return self._brief and len(self._signatures) > OBJECTS

    def _comes_again(self, thing: Any) -> bool:
        """Whether a call that was refused had this object; it is remembered, but not kept alive.

        Texts are known by what they are, and so are signatures.
        """
        text = type(thing) in (str, bytes, tuple) or thing is None
        place = thing if text else id(thing)
        known = self._met.get(place)
        if known is not None and (text or known() is thing):
            return True
        if len(self._met) >= SIGNATURE_LIMIT:
            self._met.clear()
        with suppress(TypeError):  # there are no weak references to some
            self._met[place] = (lambda: thing) if text else weakref.ref(thing)
        return False

    @property
    def _name(self) -> str:
        return self.kernel_name or str(getattr(self.__wrapped__, "__name__", "function"))

    @property
    def _raising(self) -> Reason:
        found = f"{PATIENCE} such calls or more have raised, so NumPy runs some without a look"
        return Reason("runtime-check", self._name, found)

    @property
    def _anew(self) -> Reason:
        found = "each call has other objects, or finds other things by its names: traced anew"
        return Reason("value-guards", self._name, found)

    @property
    def _reentered(self) -> Reason:
        found = "a call of it, or of something that it needs, is running already"
        return Reason("reentered", self._name, found)

    # -- without kernels ----------------------------------------------------------------------

    def _fall_back(
        self, reason: Reason, out: Any, traced: tuple[Any, Any] | None = None
    ) -> Plainly:
        """Have the plain function run, and say why; `traced`: what was traced in vain."""
        early = reason.code != "not-traceable" or self._hidden is not None

        def after(result: Any) -> Any:
            if not early:
                self._say(reason)
                if traced is not None:
                    self._confirm(*traced)
            return result if out is None else copied_into(out, result)

        if early:  # else the function's own error, of wrong arguments for instance, comes first
            self._say(reason)
        return Plainly(self.__wrapped__, None if early and out is None else after)

    def _say(self, reason: Reason) -> None:
        """Say why the plain function runs."""
        passing = reason.code in ("runtime-check", "reentered")
        if not passing:
            self.note_reason(reason)
        if reason.code != "runtime-check" or not self.errstate:
            notices.record(reason, "allow" if passing else self.fallback, self._name)

    def note_reason(self, reason: Reason) -> None:
        """Keep a reason for `fallbacks`, once, and not without end; and how often it was met."""
        if reason not in self.fallbacks and len(self.fallbacks) < REASON_LIMIT:
            self.fallbacks.append(reason)
        _count_reason(self._fallback_counts, reason, 1)

    @property
    def fallback_counts(self) -> dict[Reason, int]:
        """How often each reason of `fallbacks` was met."""
        counters.settle()
        return self._fallback_counts

    # -- looking inside ---------------------------------------------------------------------

    def explain(self, /, *args: Any, **kwargs: Any) -> Explained:
        """What happens when the function is called with these arguments, and why; it is not run.

        Of a method: `Class.method.explain(instance, ...)`.

        Args:
            args: as for a call.
            kwargs: likewise.

        Returns:
            An `Explanation`: printable; `.groups`, `.candidates`, `.fallbacks`, `.ledger`.
        """
        with chosen(self.backend):
            found: Explained = _looking["explain"](self, args, kwargs)
        return found

    def source(self, /, *args: Any, kind: str = "source", **kwargs: Any) -> dict[str, str]:
        """The generated text of each kernel that these arguments run.

        Args:
            args: as for a call.
            kind: "source", "optimized", "asm", or "ptx" where the backend has it.
            kwargs: as for a call.

        Raises:
            FusionError: the call cannot be fused.
        """
        with chosen(self.backend):
            kernels = _looking["kernels"](self, args, kwargs)
        return Texts((kernel.name, kernel.text(kind)) for kernel in kernels)

    # -- before calls, and beside them ------------------------------------------------------

    def warmup(self, /, *args: Any, **kwargs: Any) -> None:
        """Compile what a call with such arguments runs; the call itself is not made.

        Only dtypes, ranks, broadcast patterns and memory layouts of arrays count, so smaller ones
        will do. A NumPy function between kernels runs once, as it tells what its result is like.
        What cannot be fused is said as the call would say it.

        Args:
            args: as for a call; none of them is written into.
            kwargs: likewise.

        Raises:
            FusionError: the call cannot be fused, and the policy is "error".
        """
        try:
            with chosen(self.backend):
                _looking["kernels"](self, args, kwargs)
        except FusionError as error:
            self.note_reason(error.reason)
            if self.fallback == "error":
                raise
            notices.say(error.reason, self.fallback, self._name)

    def benchmark(self, /, *args: Any, seconds: float = 1.0, **kwargs: Any) -> Comparison:
        """Time the plain function and the fused one in turns, in this process.

        Arguments that the function writes into are restored between calls, and at the end.

        Args:
            args: as for a call.
            seconds: how long to measure, beside the first calls.
            kwargs: as for a call.

        Returns:
            A Comparison: printable; `.speedup`, `.low`, `.high`, `.plain_s`, `.fused_s`.

        Raises:
            ArgumentError: `seconds` is not positive.
        """
        from fuser.calls.comparison import compare  # most programs need none

        return compare(self, args, kwargs, seconds)

    def clear(self) -> None:
        """Forget every specialisation; running calls keep what they use."""
        self._signatures = {}
        self._long, self._ended_there, self._plain, self._met = {}, {}, {}, {}
        self._frames = self._lazily = None
        self._forget_ways()

    def _forget_ways(self) -> None:
        """Look at the next call of each kind again."""
        self._ready, self._latest, self._latest_out = {}, None, None
        if self._native is not None:
            self._native.detach()


def _frame_for(*args: Any) -> Any:
    """What is run instead of a function that assigns attributes, see `attributes`."""
    from fuser.calls.attributes import frame_for  # most functions assign none

    return frame_for(*args)


def _run_frame(*args: Any) -> Any:
    """Run that."""
    from fuser.calls.attributes import run_frame

    return run_frame(*args)


class Texts(dict[str, str]):
    """Generated text by kernel: printed as text, not as one escaped line."""

    def __str__(self) -> str:
        """Each kernel's text under its name."""
        return "\n\n".join(f"; {name}\n{text.rstrip()}" for name, text in self.items())

    __repr__ = __str__


pickling.pickles(FusedFunction)

#: What looks inside a call, see `looks_inside`.
_looking: dict[str, Callable[[Any, Any, Any], Any]] = {}


def looks_inside(
    explain: Callable[[Any, Any, Any], Any], kernels: Callable[[Any, Any, Any], Any]
) -> None:
    """Hand in what explains a call of a fused function, and what gives the kernels of one."""
    _looking.update(explain=explain, kernels=kernels)


#: Whether fused functions can be entered natively in this interpreter.
_NATIVE = native_call.enable_vectorcall(FusedFunction)

_all_functions: weakref.WeakSet[FusedFunction[..., Any]] = weakref.WeakSet()
#: Held while reasons are counted.
_counting = forks.lock()


def _count_reason(counts: dict[Reason, int], reason: Reason, by: int) -> None:
    """Add to how often a reason was met."""
    with _counting:
        if reason in counts or len(counts) < REASON_LIMIT:
            counts[reason] = counts.get(reason, 0) + by


def _is_itself(value: Any) -> bool:
    """Whether an argument is what the plain function gets, and is not adopted first."""
    return is_a(value, (np.ndarray, np.generic)) or not (
        type_has(value, "__dlpack__") or type_has(value, "__cuda_array_interface__")
    )


def _kind_of(leaves: Sequence[Any], *more: Any) -> Any:
    """What calls have in common that differ in objects, and in lengths of arrays and lists."""
    kinds = [
        (leaf.dtype, leaf.ndim) if type(leaf) is np.ndarray else id(type(leaf)) for leaf in leaves
    ]  # classes may say how they hash
    return ("anew", *more, *(kind for kind, _ in itertools.groupby(kinds)))


def _is_plain_leaf(leaf: Any) -> bool:
    """Whether an argument is an array or a number."""
    kind = type(leaf)
    plain = kind is np.ndarray or kind is float or kind is int or kind is bool
    return plain or issubclass(kind, np.generic)


@caches.clears
def clear_all() -> None:
    """Forget the specialisations of every fused function."""
    for function in list(_all_functions):
        function.clear()
    counters.count("clears")
