"""Whether two traces of a function would agree: else it depends on more than its arguments.

The code of most functions shows it; others are traced twice.
"""

from __future__ import annotations

import dis
import sys
from collections.abc import Callable, Collection, Iterable, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import lru_cache
from types import FunctionType, TracebackType
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from fuser.base import budget
from fuser.base.errors import FuserError, GraphError, Reason, ShapeError, Unsupported
from fuser.base.protocols import is_a
from fuser.base.records import changed
from fuser.base.trees import Path
from fuser.base.unexpected import is_fault
from fuser.capture.captures import NameGuard, arrays_of, look_past
from fuser.capture.effects import Past, Surroundings
from fuser.capture.evident import is_evident, is_plain, is_straight
from fuser.capture.held_arrays import further_guards, guards_of_contents, reaches_arrays
from fuser.capture.tracer import trace_call
from fuser.tracing.builtin_names import REMEMBERING
from fuser.tracing.late_lists import ListAskedError, unrolled_if_asked
from fuser.tracing.trace_result import OutAlias, OutStatic, Replay, Trace
from fuser.tracing.trace_state import LATER

if TYPE_CHECKING:
    from fuser.capture.namespace import Substitution

#: Reasons that say of more than of values that a trace cannot know.
_CHANGING = frozenset(("side-effect", "impure"))

#: Names by which code finds what no name spells.
_UNSEEN = frozenset("getattr globals vars locals eval exec __dict__ attrgetter".split())

#: What NumPy says where a stand-in is put into one of its arrays, or is an index of one.
_MEETINGS = ("setting an array element", "only length-1 arrays", "only 0-dimensional arrays",
             "only integer scalar arrays", "valid indices")  # fmt: skip


def trace_purely(
    function: Callable[..., Any], structure: Any, leaves: list[Any], name: str,
    around: Surroundings | None = None, told: Sequence[Any] = (),
) -> tuple[Trace, dict[str, Any]]:  # fmt: skip
    """Trace, and trace again where the code does not show that the function is pure.

    Args:
        function: what is traced.
        structure: how its arguments nest.
        leaves: the arguments.
        name: what the function is called, for messages.
        around: what it may change, which is put back.
        told: the first numbers that it reads off values, in this call.

    Returns:
        The first trace, and captured arrays that the function makes anew each time.

    Raises:
        Unsupported: the function cannot be traced, is impure, or changes more than its arguments.
    """
    around = Surroundings((), ()) if around is None else around
    traces = _Traces(function, structure, leaves, name, around, told)
    error: Unsupported | None = None
    found: tuple[Trace, dict[str, Any]] | None = None
    try:
        found = traces.named(True)
        if not _calls_on_captured(found[0]):
            return found
    except Unsupported as refused:
        if not reaches_arrays(around.guards) or refused.reason.code in _CHANGING:
            raise
        error = refused
    known = around.held, around.further
    from fuser.capture.namespace import compares_arrays

    try:
        try:
            around.held, around.further = guards_of_contents(around.guards, name), []
            if around.names.isdisjoint(_UNSEEN) and not compares_arrays(function):
                made = traces.named(False)
                if not made[0].writes:  # into arguments: NumPy would have read what is there before
                    return made
        except Exception as later:
            if is_fault(later):
                raise
            # whatever else it is, the first trace told more
        around.held, around.further = known
        if found is None:
            raise cast(Unsupported, error) from None
        return found
    finally:
        del error  # which leads to this frame


def _calls_on_captured(trace: Trace) -> bool:
    """Whether NumPy would be called, between kernels, with nothing but captured arrays."""
    captured = {p.name for p in trace.graph.parameters if p.captured}
    if not captured:
        return False
    reads: dict[int, frozenset[bool]] = {}  # by `id`: whether what is read is captured
    for node in trace.graph.nodes:
        if node.op.is_input or node.op.is_scalar:
            reads[id(node)] = frozenset([node.text in captured])
        else:
            reads[id(node)] = frozenset().union(*(reads[id(arg)] for arg in node.args))
        called = node.op.is_opaque and not node.payload.is_inner
        if called and reads[id(node)] == {True}:
            return True
    return False


class _Traces:
    """Traces of a function with the arguments of one call; see `trace_purely`."""

    def __init__(
        self, function: Callable[..., Any], structure: Any, leaves: list[Any], name: str,
        around: Surroundings, told: Sequence[Any],
    ) -> None:  # fmt: skip
        self._function, self._structure, self._leaves = function, structure, leaves
        self._name, self._around, self._told = name, around, told
        self._lists = True

    def named(self, named: bool) -> tuple[Trace, dict[str, Any]]:
        """Trace twice; and again with stand-ins for arrays that the function makes, if need be.

        Args:
            named: whether there are stand-ins for arrays that the function reaches by name.
        """
        return unrolled_if_asked(lambda lists: self._with_arrays(named, lists))

    def _with_arrays(self, named: bool, lists: bool) -> tuple[Trace, dict[str, Any]]:
        """As `named`; `lists`: whether loops may append to them."""
        self._lists = self._lists and lists
        try:
            return self._twice(False, named)
        except ListAskedError:
            raise
        except Unsupported as error:
            if not _meets_arrays(error.reason):
                raise
            try:
                return self._twice(True, named)
            except Exception as later:
                if is_fault(later):
                    raise
                # whatever else it is, the first trace told more
                code = later.reason.code if isinstance(later, Unsupported) else ""
                raise (later if code == "unsupported-argument" else error) from None

    def _twice(self, arrays: bool, named: bool) -> tuple[Trace, dict[str, Any]]:
        """Trace, and trace again; `arrays`: with stand-ins for arrays that it makes, too."""
        met: list[Substitution] = []
        try:
            return self._both(arrays, named, met)
        finally:
            for each in met:
                each.end()

    def _both(
        self, arrays: bool, named: bool, every: list[Substitution]
    ) -> tuple[Trace, dict[str, Any]]:
        """As `_twice`; `every` takes what the function was run with."""
        function, structure, leaves = self._function, self._structure, self._leaves
        name, around = self._name, self._around
        keeping: list[Any] = [each for each in around.objects if type(each) is REMEMBERING]
        if "lru_cache" in around.names or {"functools", "cache"} <= around.names:
            keeping.append(lru_cache)  # it may make such a function, too
        replay = Replay(
            numbers=list(self._told), look=around.look, remembering=keeping, lists=self._lists
        )
        stopped: list[Trace | None] = [None]
        latest: list[Substitution] = []
        evident = is_evident(function, leaves)

        def trace() -> Trace:
            met: list[Substitution] = []
            replay.settle = lambda: _check_unchanged(around, met[0], name)
            try:
                found = _in_time(
                    lambda: trace_call(function, structure, leaves, replay, arrays, named, met),
                    evident and is_straight(cast(FunctionType, function)),
                )
            except BaseException as raised:  # also Ctrl-C: no object may keep a stand-in
                every.extend(met)
                undone = around.undo(_past(met[0]) if met else None)
                undone = undone or (around.changed_in(met[0].copies) if met else "")
                begun = bool(met) and _has_begun(met[0].tracing)
                if met:
                    from fuser.capture.decisions import stopped as read_before

                    stopped[0] = read_before(met[0].tracing)
                if isinstance(raised, (ShapeError, OverflowError)):
                    if undone or begun:  # the plain function does that
                        told = f"{raised}, after it has written, or a loop that may raise"
                        raise Unsupported("not-traceable", name, told) from raised
                if not isinstance(raised, Exception) and _is_own(raised):
                    # So the plain function, too.
                    raise Unsupported("not-traceable", name, type(raised).__name__) from raised
                raise
            every.extend(met)
            _check_unchanged(around, met[0], name)
            if around.drawn:
                raise Unsupported("impure", name, f"it takes from {around.drawn}", "")
            latest[:] = met
            return changed(found, given_back=_given_back(met[0], around, name))

        try:
            with nullcontext() if evident else _watching(function, leaves):
                first = trace()
            objects = [leaf for leaf in first.leaves if is_object(leaf, leaves)]
            alone = not first.graph.captured and not objects
            sure = alone and (evident or is_evident(function, leaves, True))
            # Without stand-ins for arrays that names lead to, one of these may be what is returned.
            anew = _is_fresh_view if named else _is_fresh
            done = sure and not any(map(anew, first.leaves))
            replay.again = True
            second = first if done else trace()
            latest[0].check_identity(leaves, around.guards, name)
            if named:
                around.held = _held_past(latest[0], around, name)
                around.further = further_guards(latest[0].copies.holders, second, around.guards)
            around.further = [*around.further, *latest[0].remembered]
            around.read = latest[0].unchanged(
                [*around.guards, *around.further], around.objects, around.handed_in
            )
            if done:
                return first, {}
        except GraphError as error:  # lengths whose expressions are beyond every limit
            raise Unsupported("too-large", name, str(error)) from error
        except Unsupported as error:
            error.stopped = stopped[0]
            raise
        except Exception as error:
            if is_fault(error):
                raise
            fits = isinstance(error, (FuserError, OverflowError))  # a Python int: as at later calls
            if fits and stopped[0] is None:
                raise
            raise _untraceable(name, error, stopped[0]) from error
        fresh = compare(first, second, name)
        given = [leaf.parameter for leaf in first.leaves if isinstance(leaf, OutAlias)]
        if any(first.graph.parameters[place].name in fresh for place in given):
            raise Unsupported("array-conversion", name, "it returns an array that it makes", "")
        first = _with_made(first, second)
        first = _with_named(first, second, around, name)
        _check_reached(first, second, around, latest[0].tracing.seen, name)
        for one, other in zip(first.leaves, second.leaves, strict=True):
            if _is_fresh_view(one) and not _copies(one.value, other.value, first.leaves):
                found = "it returns a view of an array that no stand-in is for"
                raise Unsupported("array-conversion", name, found)
            if is_object(one, leaves) and other.value is not one.value:
                kind = type(one.value).__name__
                raise Unsupported("array-conversion", name, f"it returns a {kind}, made anew")
        return first, fresh


def _meets_arrays(reason: Reason) -> bool:
    """Whether a trace ended where an array of NumPy's own met a stand-in."""
    from fuser.capture.opaque_tracing import CHANGES

    if reason.code == "not-traceable":
        return any(text in reason.found for text in _MEETINGS)
    return reason.code in ("write-into-constant", "array-conversion") or (
        reason.code == "write-into-view" and reason.found == CHANGES
    )


def _check_unchanged(around: Surroundings, met: Substitution, name: str) -> None:
    """Put back what a function has changed, and refuse it.

    Raises:
        Unsupported: it has changed something.
    """
    if changed := around.undo(_past(met)) or around.changed_in(met.copies):
        raise _changing(name, changed, around)


def _past(met: Substitution) -> Past | None:
    """What gives what a function has met as it is; None where it met no copies."""
    if not met.tracing.named:
        return None

    def past() -> tuple[list[NameGuard], list[Any]]:
        guards, objects = look_past(met.ways_past(), met.copies.names, before=True)
        return guards, [*objects, *met.originals]  # whose attributes the copies share

    return past


def _given_back(
    met: Substitution, around: Surroundings, name: str
) -> tuple[tuple[Path, Path], ...]:
    """Where results are lists and dicts of the arguments, and which.

    Raises:
        Unsupported: a result is another one that is there already, or one of its own twice.
    """
    tracing = met.tracing
    known = dict[int, Path | None]((id(thing), None) for thing in around.containers())
    known.update((id(thing), path) for path, thing in tracing.given)
    found: list[tuple[Path, Path]] = []
    for place, thing in tracing.returned:
        if any(place[: len(outer)] == outer for outer, _ in found):
            continue  # in one that is given back
        path = known.setdefault(id(thing), ())
        if path:
            found.append((place, path))
        elif path is None or met.copies.original(thing) is not thing:
            shown = f"it returns a {type(thing).__name__} that is there already"
            raise Unsupported("array-conversion", name, shown, "")
        known[id(thing)] = path or None
    return tuple(found)


# In functions of their own: a frame that has the error in a variable would live as long as it.


def _changing(name: str, changed: str, around: Surroundings) -> Unsupported:
    """The reason that a function changes more than its arguments; see `Unsupported`."""
    error = Unsupported("side-effect", name, changed, "")
    error.attributes = tuple(around.attributes or ())
    return error


def _untraceable(name: str, raised: Exception, stopped: Trace | None) -> Unsupported:
    """The reason that tracing a function raised something; see `Unsupported`."""
    error = Unsupported("not-traceable", name, f"{type(raised).__name__}: {raised}")
    error.stopped = stopped
    return error


def _with_made(first: Trace, second: Trace) -> Trace:
    """The first trace, in which arrays that each run makes anew are copied for each call.

    Kernels may read them, too: then their own trace cannot tell them from what is there for ever.
    """
    pairs = zip(first.leaves, second.leaves, strict=True)
    made = {
        id(one.value) for one, other in pairs
        if isinstance(one, OutStatic) and type(one.value) is np.ndarray
        and one.value is not other.value
    }  # fmt: skip
    kept = {id(leaf): leaf for leaf in first.leaves}  # what is returned twice is one object
    for key, leaf in kept.items():
        if isinstance(leaf, OutStatic) and id(leaf.value) in made:
            kept[key] = changed(leaf, fresh=True)
    return changed(first, leaves=tuple(kept[id(leaf)] for leaf in first.leaves))


def _with_named(first: Trace, second: Trace, around: Surroundings, name: str) -> Trace:
    """The first trace, with arrays that both return and a guarded name leads to as they are.

    Raises:
        Unsupported: no name leads to an array that both return: another may be there later.
    """
    same = {id(one.value) for one, other in zip(first.leaves, second.leaves, strict=True)
            if _is_fresh(one) and one.value is other.value}  # fmt: skip
    if not same:
        return first
    guards = (*around.guards, *around.further)
    if same - {id(array) for guard in guards for array in arrays_of(guard.expected)}:
        raise Unsupported("array-conversion", name, "it returns an array that no name leads to", "")
    kept: dict[int, Any] = {}  # what is returned twice is one object
    for leaf in first.leaves:
        named = _is_fresh(leaf) and id(leaf.value) in same
        kept.setdefault(id(leaf), changed(leaf, fresh=False) if named else leaf)
    return changed(first, leaves=tuple(kept[id(leaf)] for leaf in first.leaves))


def _in_time(trace: Callable[[], Trace], is_straight: bool) -> Trace:
    """A trace, ended by the clock where the function runs Python that records no operation.

    Args:
        trace: traces the function.
        is_straight: it has no loops and calls no code of Python's: nothing in it takes long.

    Raises:
        Unsupported: it took too long, whatever the function made of being told so.
    """
    opened = budget.current()
    if opened is None or is_straight:
        return trace()
    from fuser.base.watchdog import TooLong, Watched

    watched = Watched(opened, sys._getframe())
    raised: BaseException | None = None
    try:
        found = trace()
    except BaseException as error:  # noqa: BLE001 - it is raised again
        raised = error
    while True:
        try:
            watched.end()
            break
        except TooLong:  # it came up only now
            continue
    try:
        if watched.fired and not isinstance(raised, KeyboardInterrupt):
            raise opened.too_long() from raised
        if raised is not None:
            raise raised
        return found
    finally:
        del raised  # which leads to this frame


def _watching(function: Callable[..., Any], leaves: list[Any]) -> AbstractContextManager[None]:
    """Watch what a function calls where it may reach code that asks what it should not."""
    from fuser.capture.watching import may_ask, watched

    return watched() if may_ask(function, leaves) else nullcontext()


def _is_own(error: BaseException) -> bool:
    """Whether a function raised an error itself, at a place of its own where it would again.

    What a signal's handler raises comes at any moment, as Ctrl-C does: no other run would meet it.
    """
    if isinstance(error, Exception):
        return True
    import signal  # few traces end so

    handlers = [signal.getsignal(number) for number in signal.valid_signals()]
    codes = [code for handler in handlers if (code := getattr(handler, "__code__", None))]
    step: TracebackType | None = error.__traceback__
    last = step
    while step is not None:
        if any(step.tb_frame.f_code is code for code in codes):
            return False
        last, step = step, step.tb_next
    if not isinstance(error, KeyboardInterrupt) or last is None:
        return True
    return last.tb_frame.f_code.co_code[last.tb_lasti] in _RAISING


_RAISING = (dis.opmap["RAISE_VARARGS"], dis.opmap["RERAISE"])


def _has_begun(tracing: Any) -> bool:
    """Whether a function has written, or run a loop that its trace has not, before it raised."""
    return bool(tracing.written) or any(v is LATER for _, v in tracing.externs.values())


def _check_reached(
    first: Trace, second: Trace, around: Surroundings, known: Collection[int], name: str
) -> None:
    """Refuse arrays that are the same in both traces and have no name: another may come later.

    Args:
        first: the first trace.
        second: the second.
        around: with the names that are guarded.
        known: arrays that were found by names, by identity.
        name: what the function is called, for messages.
    """
    guards = (*around.guards, *around.further)
    named = {id(array) for guard in guards for array in arrays_of(guard.expected)}
    pairs = zip(first.graph.captured, second.graph.captured, strict=True)
    for one, other in pairs:
        if one is other and id(one) not in named and id(one) not in known:
            raise Unsupported(
                "array-conversion", name, "an array that is reached by no name of the function", ""
            )


def _held_past(met: Substitution, around: Surroundings, name: str) -> list[NameGuard]:
    """Guards of what arrays hold that the function may have met as they are.

    Raises:
        Unsupported: an array cannot be compared at each call.
    """
    if not reaches_arrays(around.guards):
        return []
    names, _ = look_past(met.ways_past(), met.copies.names, around.handed_in)
    return guards_of_contents(names, name)


def _is_fresh(leaf: Any) -> bool:
    """Whether an output is an array that the function makes at each call, and that is copied."""
    return isinstance(leaf, OutStatic) and leaf.fresh and type(leaf.value) is np.ndarray


def _is_fresh_view(leaf: Any) -> bool:
    """Whether such an output is a view."""
    return _is_fresh(leaf) and leaf.value.base is not None


def _copies(view: Any, other: Any, leaves: Iterable[Any]) -> bool:
    """Whether a copy is as good as a view that two traces gave.

    Args:
        view: what the first trace gave.
        other: what the second did: the same memory is there at the next call, too.
        leaves: all outputs of the first.
    """
    if not view.flags.writeable or view.copy("K").strides != view.strides:
        return False
    beside = [leaf.value for leaf in leaves if _is_fresh(leaf) and leaf.value is not view]
    return not any(np.may_share_memory(view, each) for each in (other, *beside))


def is_object(leaf: Any, arguments: Iterable[Any]) -> bool:
    """Whether an output may hold stand-ins for arrays: an object of which no more is known.

    Args:
        leaf: the output.
        arguments: which are none.
    """
    if not isinstance(leaf, OutStatic) or type(leaf.value) is np.ndarray:
        return False
    value = leaf.value
    known = is_plain(value) or is_a(value, (type, bytes, range, slice, type(Ellipsis)))
    return not known and not any(value is argument for argument in arguments)


def compare(first: Trace, second: Trace, name: str) -> dict[str, Any]:
    """Check that two traces agree; find captured arrays that are made anew by each run.

    Raises:
        Unsupported: they differ: the function is impure.
    """
    same = first.graph.text == second.graph.text and first.structure == second.structure
    same = same and first.value_guards == second.value_guards and first.writes == second.writes
    if not same or len(first.leaves) != len(second.leaves):
        raise Unsupported(
            "impure", name, "the function did something else when it was traced a second time", ""
        )
    fresh: dict[str, Any] = {}
    hidden = [p.name for p in first.graph.parameters if p.captured]
    for label, one, other in zip(
        hidden, first.graph.captured, second.graph.captured, strict=True
    ):
        if one is other or _same_memory(one, other):
            continue
        if one.tobytes() != other.tobytes():
            raise Unsupported(
                "impure", name,
                "an array had other values when the function was traced a second time", "",
            )
        fresh[label] = one.copy("K")
    return fresh


def _same_memory(one: Any, other: Any) -> bool:
    """Whether two views made one after another look at the same living memory."""
    if one.base is None or other.base is None or not one.size:
        return False
    return bool(
        one.__array_interface__["data"] == other.__array_interface__["data"]
        and one.strides == other.strides
    )
