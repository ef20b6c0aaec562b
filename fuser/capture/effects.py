"""What a function changes outside of itself while it is traced: noticed, and undone.

A trace runs the function on stand-ins. What it stores in an object, a global name or a list would
hold stand-ins from then on, and a fused call would not store it again.

Functions that have effects beside their results (print, sleep, write …) are refused: no graph
has those.
"""

from __future__ import annotations

import builtins
import io
import os
import sys
import time
import warnings
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import contextmanager
from types import CellType, CodeType, FunctionType, MappingProxyType, ModuleType
from typing import Any

import numpy as np

from fuser.base import forks
from fuser.base.errors import Unsupported
from fuser.base.packages import STABLE, root
from fuser.base.protocols import is_a, module_of, namespace_of
from fuser.capture.captures import ABSENT, Keys, Kinds, NameGuard, Slots, names_of
from fuser.capture.contents import CONTAINERS, is_other, parts_of, put_back, same_parts
from fuser.capture.permitted import told
from fuser.capture.private_copies import Copies
from fuser.capture.random_and_file_states import State, state_of

_tracing = forks.lock()
#: Seconds to wait for other threads' traces; a traced function may itself wait for a thread.
_LONGEST = 1.0
forks.wait_for(lambda: _tracing.release if _tracing.acquire(timeout=_LONGEST) else None)
#: Bytes of an array that is compared after a trace, at most.
LARGEST_KEPT = 1 << 26


@contextmanager
def alone() -> Iterator[None]:
    """Keep other threads from looking around while stand-ins may be stored there."""
    taken = _tracing.acquire(timeout=_LONGEST)
    try:
        yield
    finally:
        if taken:
            _tracing.release()


def tracing_here() -> bool:
    """Whether this thread is in the middle of a trace: names may stand for stand-ins."""
    return forks.held_here(_tracing)


class Surroundings:
    """Namespaces, closures and containers that a function may reach, as they are now."""

    def __init__(
        self,
        guards: Iterable[NameGuard],
        objects: Iterable[Any],
        allowed: Collection[tuple[int, str]] = (),
    ) -> None:
        """Look at what code names.

        Args:
            guards: the names, see `captures.look_around`.
            objects: whose attributes it may read or set.
            allowed: attributes that may change, by the identity of their namespace; they are put
                back, too.
        """
        self.guards, objects = list(guards), list(objects)
        codes = [thing.__code__ for thing in objects if type(thing) is FunctionType]
        self.names = {name for code in codes for name in names_of(code)}
        """Names in the code of functions among them."""
        self.handed_in = self._allowed = allowed
        self.held: list[NameGuard] = []
        """Guards of what arrays hold that a trace met as they are."""
        self.further: list[NameGuard] = []
        """Guards of names that no code spells."""
        self.read: list[Any] = []
        """Guards of names that hardly ever change."""
        self.objects = objects
        """What code may read or set attributes of, functions among it."""
        self.look()

    def look(self) -> None:
        """See everything as it is now."""
        self._owners: dict[int, Any] = {}
        self.attributes: list[tuple[Any, str]] | None = []
        self._names: list[tuple[NameGuard, Any]] = []
        self._containers: list[tuple[Any, Any, str]] = []
        self._forms: dict[int, tuple[Any, tuple[Any, ...], str]] = {}
        self._arrays: dict[int, tuple[Any, Any, str]] = {}
        self._kinds: dict[int, tuple[type, dict[str, Any]]] = {}
        self._states: list[State] = []
        self.drawn = ""
        self._seen: set[int] = set()
        for guard in self.guards:
            if type(guard.scope) is Keys:
                continue  # the namespaces are looked at themselves
            value = _value(guard.scope, guard.name)
            self._names.append((guard, value))
            self._keep(value, guard.name)
        for thing in self.objects:
            if root(module_of(type(thing))) == "fuser":
                continue  # a fused function, which may be compiled meanwhile
            if (state := state_of(thing)) is not None:
                self._states.append(state)
            self._keep_class(thing if is_a(thing, type) else type(thing))
            space = namespace_of(thing)
            if type(thing) is ModuleType:
                missing = sorted(self.names - space.keys())
                self._names += [(NameGuard(space, n, ABSENT, False), ABSENT) for n in missing]
            elif type(space) is dict:
                self._owners[id(space)] = thing
                self._keep(space, type(thing).__name__, deep=False)
            elif type(thing) in CONTAINERS:
                self._keep(thing, "an argument")

    def _keep(self, value: Any, name: str, deep: bool = True) -> None:
        """Note what a container holds, and those in it."""
        for each in _within(value, self._seen, deep):
            if type(each) is np.ndarray:
                self._keep_array(each, name)
            elif not is_a(each, (tuple, MappingProxyType)):
                parts = parts_of(each)
                self._containers.append((each, type(parts)(parts), name))

    def _keep_array(self, array: Any, name: str) -> None:
        """Note an array's form and values; values of large ones would take too long."""
        self._forms[id(array)] = (array, form_of(array), name)
        if array.flags.writeable and array.nbytes <= LARGEST_KEPT and not array.dtype.hasobject:
            self._arrays[id(array)] = (array, array.copy(), name)

    def _keep_class(self, kind: type) -> None:
        """Note what classes hold, those that it inherits from included."""
        for each in told(kind, "__mro__"):
            if id(each) not in self._kinds and root(module_of(each)) not in STABLE:
                self._kinds[id(each)] = each, _held_by(each)

    def containers(self) -> list[Any]:
        """Containers that the function may reach."""
        return [container for container, _, _ in self._containers]

    def undo(self, past: Past | None = None) -> str:
        """Put everything back; what was changed, or nothing. `drawn`: what was drawn from.

        `attributes` are those that were assigned, None where anything else was changed.

        Args:
            past: gives names and objects that the function has met as they are: it has changed
                nothing else, and what changed besides, others did. Without, all of it counts.
        """
        self.attributes = []
        met = _Met(past)
        changed = again = self._undo_what_is_held(met)
        for _ in self._containers if past is not None else ():
            if not again:
                break
            met = _Met(past)  # what is there again may lead to more
            again = self._undo_what_is_held(met)
        for kind, held in self._kinds.values():
            for name in _changed_keys(_held_by(kind), held):
                changed = changed or name
                self.attributes = None
                _restore(NameGuard({}, name, None, False, kind), held.get(name, ABSENT))
        for array, form, name in self._forms.values():
            if form_of(array) != form and met.has(id(array)):
                changed = changed or name
                self.attributes = None
                _put_back_form(array, form)
        for array, values, name in self._arrays.values():
            differs = array.shape == values.shape and array.tobytes() != values.tobytes()
            if differs and met.has(id(array)):
                changed = changed or name
                self.attributes = None
                array[...] = values
        for state in self._states:
            if state.undo():
                self.drawn = state.name
        return changed

    def _undo_what_is_held(self, met: _Met) -> str:
        """Put names and what containers hold back, as far as they were met; what was changed."""
        changed = ""
        for guard, before in self._names:
            now = _value(guard.scope, guard.name)
            same = type(now) is type(before) and type(now) in (int, str) and now == before
            if now is not before and not same and met.has(guard.place, guard.place[0]):
                changed = changed or guard.name
                self._note(guard.scope, [guard.name])
                _restore(guard, before)
        for container, before, name in self._containers:
            now = parts_of(container)
            if not same_parts(now, before) and met.has(id(container)):
                keys = self._changed_keys(container, now, before)
                if keys != []:
                    changed = changed or _changed_part(now, before, name)
                    self._note(container, keys)
                put_back(container, before)
        return changed

    def changed_in(self, copies: Copies) -> str:
        """What a trace has changed in its private copies, or nothing; `attributes` as `undo`'s."""
        changed = ""
        names = {id(container): name for container, _, name in self._containers}
        for original, space, before, now in copies.changed():
            name = names.get(id(original), type(original).__name__)
            changed = changed or _changed_part(now, before, name)
            if space is None or self.attributes is None:
                self.attributes = None
                continue
            self.attributes += [(original, key) for key in _changed_keys(now, before)]
        return changed

    def _note(self, space: Any, keys: list[Any] | None) -> None:
        """Note attributes that were assigned; anything else that was changed is none."""
        thing = self._owners.get(id(space))
        if thing is None or keys is None or not all(type(key) is str for key in keys):
            self.attributes = None
        elif self.attributes is not None:
            self.attributes += [(thing, key) for key in keys]

    def _changed_keys(self, container: Any, now: Any, before: Any) -> list[Any] | None:
        """Entries of a namespace that may not change and did; None: it is no namespace."""
        if id(container) not in self._owners or type(now) is not dict:
            return None
        keys = _changed_keys(now, before)
        found = [key for key in keys if (id(container), key) not in self._allowed]
        return found or ([] if keys else None)


#: Names and objects that a function has met as they are, as `look_past` gives them.
Past = Callable[[], tuple[list[NameGuard], list[Any]]]


class _Met:
    """What a function has met as it is, in a trace that has ended: looked for where it is asked."""

    def __init__(self, past: Past | None) -> None:
        """Take what leads there; without, everything was met."""
        self._past = past
        self._known: set[Any] = set()

    def has(self, *places: Any) -> bool:
        """Whether one of some places was met: a container, an array, a namespace, or a name."""
        if self._past is not None and not self._known:
            try:
                self._look(*self._past())
            except Unsupported:  # what it met leads to more than can be looked at
                self._past = None
        return self._past is None or not self._known.isdisjoint(places)

    def _look(self, guards: Iterable[NameGuard], objects: Iterable[Any]) -> None:
        """Find what names and objects lead to."""
        seen = {id(namespace_of(thing)) for thing in objects}
        self._known = {0, *seen, *(guard.place for guard in guards)}
        held = [_value(guard.scope, guard.name) for guard in guards]
        for thing in objects:
            space = namespace_of(thing)
            arrays = space.values() if type(space) is dict else ()
            held += [thing, *(each for each in arrays if type(each) is np.ndarray)]
        for each in held:
            self._known.update(map(id, _within(each, seen)))


def _within(value: Any, seen: set[int], deep: bool = True) -> Iterator[Any]:
    """Yield the containers and arrays in a value, itself among them; containers not seen so far."""
    waiting = [value]
    while waiting:
        each = waiting.pop()
        if type(each) is np.ndarray:
            yield each
        if id(each) in seen or not (type(each) in CONTAINERS or is_other(each)):
            continue
        seen.add(id(each))
        yield each
        parts = parts_of(each)
        if type(parts) not in (set, bytes):
            held = parts.values() if type(parts) is dict else parts
            waiting += held if deep else [part for part in held if type(part) is np.ndarray]


def form_of(array: Any) -> tuple[Any, ...]:
    """What an array is beside its values."""
    return array.dtype, array.shape, array.strides, array.flags.writeable


def _put_back_form(array: Any, form: tuple[Any, ...]) -> None:
    """Have an array's memory seen again as it was."""
    dtype, shape, strides, writeable = form
    array.dtype = dtype
    array.shape = shape
    if array.strides != strides:
        array.strides = strides
    if array.flags.writeable != writeable:
        array.flags.writeable = writeable


def _held_by(kind: type) -> dict[str, Any]:
    """What a class holds, but for what Python itself makes of its annotations."""
    space = told(kind, "__dict__")
    return {name: value for name, value in space.items() if not name.startswith("__annot")}


def _value(scope: Any, name: str) -> Any:
    """What a name stands for now."""
    if type(scope) is not CellType:
        return scope.get(name, ABSENT)
    try:
        return scope.cell_contents
    except ValueError:
        return ABSENT


def _restore(guard: NameGuard, value: Any) -> None:
    """Give a name its value again."""
    scope, name = guard.scope, guard.name
    if type(scope) is CellType:
        if value is ABSENT:
            del scope.cell_contents
        else:
            scope.cell_contents = value
    elif type(scope) is Kinds:
        setattr(scope.thing, name, scope.kept or value)
    elif type(scope) is Slots:
        if value is ABSENT:
            delattr(scope.thing, name)
        else:
            setattr(scope.thing, name, value)
    elif guard.owner is not None:
        if value is ABSENT:
            type.__delattr__(guard.owner, name)
        else:
            type.__setattr__(guard.owner, name, value)
    elif type(scope) is dict:
        if value is ABSENT:
            scope.pop(name, None)
        else:
            scope[name] = value


def _changed_keys(now: dict[Any, Any], before: dict[Any, Any]) -> list[Any]:
    """Keys of a namespace that stand for other things than before."""
    every = {**before, **now}
    return [key for key in every if now.get(key, ABSENT) is not before.get(key, ABSENT)]


def _changed_part(now: Any, before: Any, name: str) -> str:
    """What is told of a change: an attribute, where it is one."""
    if type(now) is dict:
        for key in _changed_keys(now, before):
            return f"{key} of {name}"
    return name


#: Functions with an effect that a kernel has not.
EFFECTS = frozenset(map(id, (
    print, input, builtins.open, io.open, warnings.warn, warnings.warn_explicit, time.sleep,
    os.system, os.write, os.mkdir, os.remove, os.unlink, os.rename, os.replace, os.rmdir, os.kill,
)))  # fmt: skip
#: Those that are Python code, by the modules that have them, where these are in use.
_IN_PYTHON = (
    ("logging", "Logger._log"), ("logging", "Logger.handle"), ("subprocess", "Popen.__init__"),
    ("warnings", "warn"), ("warnings", "warn_explicit"), ("os", "makedirs"),
)  # fmt: skip
#: What changes a file.
_WRITING = frozenset("write writelines truncate".split())


def codes_with_effects() -> frozenset[CodeType]:
    """The code of functions in Python that have effects."""
    found = []
    for module, path in _IN_PYTHON:
        value: Any = sys.modules.get(module)
        for name in path.split("."):
            value = getattr(value, name, None)
        found.append(getattr(value, "__code__", None))
    return frozenset(code for code in found if code is not None)


def has_effect(function: Any) -> bool:
    """Whether a function that is no Python code has an effect beside its result."""
    if id(function) in EFFECTS:
        return True
    if function.__name__ not in _WRITING:
        return False
    written = getattr(function, "__self__", None)
    inside = is_a(written, (io.StringIO, io.BytesIO))
    return is_a(written, io.IOBase) and (not inside or written in (sys.stdout, sys.stderr))


def watched_partial(function: Any) -> Any:
    """A `partial` of a built-in function, whose calls no profiler sees."""
    if not has_effect(function.func):
        return function

    def refuse(*args: Any, **kwargs: Any) -> Any:
        raise Unsupported("side-effect", f"{function.func.__name__}()", "it is called")

    return refuse
