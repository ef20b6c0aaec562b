"""Private copies of containers and objects that a function reaches, for one trace.

In the copies there are stand-ins where the originals hold arrays, so a traced function meets no
values. What it changes, it changes in the copies: the originals stay as they are for other threads,
and nobody else sees the copies.
"""

from __future__ import annotations

import functools
import sys
from collections import OrderedDict, defaultdict, deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from enum import Enum
from types import (
    FunctionType,
    MappingProxyType,
    MethodType,
    ModuleType,
    SimpleNamespace,
)
from typing import Any

import numpy as np

from fuser.base.caches import memo
from fuser.base.packages import OF_CLASSES, UNCOPIED, root
from fuser.base.protocols import is_a, is_scalar, module_of, slots_of, type_has
from fuser.capture.captures import Slots, has_elements, is_fused, names_of
from fuser.capture.contents import WRAPPING, parts_of, same_parts
from fuser.tracing.builtin_names import REMEMBERING

#: A value that leads to more things than this is left as it is.
LIMIT = 2000
#: Containers of other classes that are copied, too.
_KNOWN = (list, tuple, dict, set, frozenset, deque, MappingProxyType, OrderedDict, defaultdict)
#: Those of them that do not change; what is in them may.
_FIXED = (tuple, frozenset)

#: Attributes of functions, and of `partial`, that their namespaces do not hold.
_OF_CALLABLES = ("__code__", "__defaults__", "__kwdefaults__", "__name__", "__qualname__",
                 "__module__", "__doc__", "func", "args", "keywords")  # fmt: skip


class Copies:
    """What one trace sees in place of what leads to arrays, or to what may be changed."""

    def __init__(self, replaced: Callable[[Any], Any], kept: Iterable[Any] = ()) -> None:
        """Copy nothing yet.

        Args:
            replaced: gives what stands for an array or a function.
            kept: objects that are not copied.
        """
        self._replaced = replaced
        self._kept = tuple(kept)
        kept = frozenset(map(id, self._kept))
        self._arrays: dict[int, bool] = dict.fromkeys(kept, False)
        """Whether values, by identity, lead to arrays."""
        self._changing: dict[int, bool] = dict.fromkeys(kept, False)
        """Whether they lead to what may be changed in place, or are that."""
        self._made: dict[int, Any] = {}
        self._originals: dict[int, Any] = {}
        self._alive: list[Any] = []
        self._before: list[tuple[Any, Any, dict[str, Any] | None, Callable[[Any], Any], Any]] = []
        self.holders: list[tuple[Any, str, Any]] = []
        """Namespaces, names in them, and what these stand for: arrays, or what leads to some."""
        self.shadowed: list[type] = []
        """Classes of which copies have what the class has."""
        self.names: set[str] = set()
        """Names in the code that runs: what it may look up in modules."""

    def end(self) -> None:
        """Let go of originals and copies."""
        self._alive.clear()
        self._before.clear()
        self._originals.clear()
        self._made.clear()
        self._kept = ()
        self.holders.clear()

    def of(self, value: Any) -> Any:
        """A value as the trace sees it: a copy where it leads to arrays, or may be changed."""
        if leads_nowhere(value):
            return value
        if has_elements(value):
            return self._replaced(value)
        return self._copy(value) if self.is_copied(value) else value

    def original(self, value: Any) -> Any:
        """What a copy is a copy of; any other value itself."""
        return self._originals.get(id(value), value)

    def has(self, value: Any) -> bool:
        """Whether a value has a copy."""
        return id(value) in self._made

    @property
    def copied(self) -> set[int]:
        """The containers and objects that have copies, by identity."""
        return {key for key, made in self._made.items() if type(made) is not FunctionType}

    # -- what leads to arrays ---------------------------------------------------------------

    def leads(self, value: Any) -> bool:
        """Whether arrays are reached from a value: it is a container, an object, a function …"""
        if id(value) not in self._arrays:
            self._look(value)
        return self._arrays[id(value)]

    def is_copied(self, value: Any) -> bool:
        """Whether the trace sees a copy: arrays are reached, or what may be changed in place."""
        return self.leads(value) or self._changing[id(value)]

    def _look(self, value: Any) -> None:
        """Find out what is reached from a value, and from all that is."""
        parents: dict[int, list[int]] = {}
        seen: dict[int, Any] = {id(value): value}
        waiting, arrays, changing = [value], list[int](), list[int]()
        while waiting and len(seen) <= LIMIT:
            thing = waiting.pop()
            if _changes(thing):
                changing.append(id(thing))
            for part in self._parts(thing):
                if leads_nowhere(part):
                    continue
                if has_elements(part):
                    arrays.append(id(thing))
                elif (known := self._arrays.get(id(part))) is not None:
                    arrays += [id(thing)] if known else []
                    changing += [id(thing)] if self._changing[id(part)] else []
                else:
                    parents.setdefault(id(part), []).append(id(thing))
                    if id(part) not in seen:
                        seen[id(part)] = part
                        waiting.append(part)
        if waiting:
            seen, arrays, changing = {id(value): value}, [], []
        self._alive += seen.values()  # so that no id is given to another
        noting = {key for key, thing in seen.items() if _keeps_notes(type(thing))}
        for known_of, marked, but in (
            (self._arrays, arrays, frozenset[int]()), (self._changing, changing, noting),
        ):  # fmt: skip
            known_of |= dict.fromkeys(seen, False)
            while marked:
                place = marked.pop()
                if not known_of.get(place, True) and place not in but:
                    known_of[place] = True
                    marked += parents.get(place, ())

    def _parts(self, value: Any) -> Iterator[Any]:
        """What a value holds, as far as it can be replaced in a copy."""
        kind = type(value)
        if _among(kind, _KNOWN) or (is_a(value, tuple) and type_has(value, "_fields")):
            parts = value if kind is frozenset else parts_of(value)
            yield from (*parts, *parts.values()) if is_a(parts, dict) else parts
        elif kind is FunctionType:
            yield from self._named(value)
        elif kind is MethodType:
            yield from (value.__func__, value.__self__)
        elif kind is functools.partial:
            yield from (value.func, *value.args, *value.keywords.values())
        elif is_fused(value):
            yield value.__wrapped__
        elif _is_copyable(value):
            yield from (_space(value) or {}).values()
            yield from _of_class(kind).values()
            yield from (part for _, part in slots_of(value))

    def _named(self, function: FunctionType) -> Iterator[Any]:
        """What a function reaches by its names."""
        if root(function.__globals__) in UNCOPIED:
            return
        named = names_of(function.__code__)
        for name in named & function.__globals__.keys():
            found = function.__globals__[name]
            yield from self.named_in(found, named) if type(found) is ModuleType else (found,)
        for cell in function.__closure__ or ():
            with suppress(ValueError):  # not set yet
                yield cell.cell_contents
        yield from function.__defaults__ or ()
        yield from (function.__kwdefaults__ or {}).values()

    def named_in(self, module: ModuleType, names: set[str]) -> list[Any]:
        """What code finds in a user's module."""
        if root(module.__name__) in UNCOPIED:
            return []
        return [vars(module)[name] for name in names & vars(module).keys()]

    def held(self, scope: Any, name: str, value: Any) -> Any:
        """What a name of an object stands for, as the trace sees it."""
        if has_elements(value) or self.leads(value):
            self.holders.append((scope, name, value))
        return self.of(value)

    # -- copies -----------------------------------------------------------------------------

    def _copy(self, value: Any) -> Any:
        """The one copy of a value."""
        if id(value) in self._made:
            return self._made[id(value)]
        kind = type(value)
        if kind is FunctionType or kind is REMEMBERING or is_fused(value):
            return self._replaced(value)
        if kind is MethodType:
            return MethodType(self.of(value.__func__), self.of(value.__self__))
        if kind is functools.partial:
            keywords = {name: self.of(part) for name, part in value.keywords.items()}
            bound = functools.partial(self.of(value.func), *map(self.of, value.args), **keywords)
            vars(bound).update({name: self.of(part) for name, part in vars(value).items()})
            self.note_callable(value, bound)
            return bound
        if _among(kind, _KNOWN) or is_a(value, tuple):
            return self._container(value)
        made = SimpleNamespace() if kind is SimpleNamespace else object.__new__(kind)
        self._note(value, made)
        space = _space(made)
        if space is not None:
            real = _space(value) or {}
            space.update({name: self.held(real, name, part) for name, part in real.items()})
            for name, part in _of_class(kind).items():
                if name not in real and (has_elements(part) or self.is_copied(part)):
                    method = type(part) is FunctionType
                    space[name] = MethodType(self.of(part), made) if method else self.of(part)
                    self.shadowed.append(kind)
        for place, part in slots_of(value):
            with suppress(AttributeError):  # the namespace of a SimpleNamespace
                place.__set__(made, self.held(Slots(value), place.__name__, part))
        known = None if space is None else dict(space)
        self._before.append((value, made, known, _held, _held(made)))
        return made

    def _container(self, value: Any) -> Any:
        """A container of the same kind."""
        kind = type(value)
        if is_a(value, tuple):
            made: Any = tuple.__new__(kind, map(self.of, value))
            self._note(value, made)
            return made
        if _among(kind, (frozenset, MappingProxyType)):
            plain = self._container(dict(value)) if kind is MappingProxyType else None
            made = frozenset(map(self.of, value)) if plain is None else MappingProxyType(plain)
            self._note(value, made)
            return made
        made = value.copy()
        made.clear()
        self._note(value, made)
        if is_a(value, dict):
            for key, part in value.items():
                made[self.of(key)] = self.of(part)
        elif kind is set:
            made.update(map(self.of, value))
        else:
            made.extend(map(self.of, value))
        self._before.append((value, made, None, parts_of, parts_of(made).copy()))
        return made

    def _note(self, value: Any, made: Any) -> None:
        """Keep a copy, before what is in it: that may lead back to it."""
        self._made[id(value)] = made
        self._originals[id(made)] = value
        self._alive += (value, made)

    def note_callable(self, value: Any, made: Any) -> None:
        """Keep what is called in a callable's place, when it is complete."""
        self._note(value, made)
        self._before.append((value, made, None, _of_callable, _of_callable(made)))

    # -- what a trace has done to them --------------------------------------------------------

    def changed(self) -> Iterator[tuple[Any, dict[str, Any] | None, Any, Any]]:
        """Originals whose copies hold other things now: with what they held, and hold.

        Second comes an object's namespace as it was; None for containers, and where a slot has
        changed.
        """
        for value, made, space, look, before in self._before:
            now = look(made)
            if space is not None and not same_parts(_space(made), space):
                yield value, space, space, _space(made)
            elif not same_parts(now, before) or _factory(made) is not _factory(value):
                yield value, None, before, now


#: By these, code sees whether an object has something itself or by its class.
LOOKING_CLOSELY = frozenset("__class__ __dict__ type vars dir getattr_static mro __mro__".split())


def _changes(value: Any) -> bool:
    """Whether a value may be changed in place, and a copy of it be changed instead."""
    kind = type(value)
    if kind is REMEMBERING:  # it would remember stand-ins: another is called instead
        return True
    if _among(kind, _FIXED) or is_a(value, tuple) or _keeps_notes(kind):
        return False
    return _among(kind, _KNOWN) or _is_copyable(value)


def _keeps_notes(kind: type) -> bool:
    """Whether objects are the standard library's, which may note what they were asked (loggers)."""
    known = (*_KNOWN, *WRAPPING, SimpleNamespace, FunctionType, MethodType, functools.partial,
             REMEMBERING)  # fmt: skip
    return root(module_of(kind)) in sys.stdlib_module_names and not _among(kind, known)


def leads_nowhere(value: Any) -> bool:
    """Whether nothing is reached from a value."""
    return is_scalar(value) or is_a(value, (np.ufunc, np.dtype))


def _among(kind: type, kinds: Iterable[type]) -> bool:
    """Whether a class is one of some: a class may say how it compares, so by identity."""
    return any(kind is other for other in kinds)


def _space(value: Any) -> dict[str, Any] | None:
    """An object's own namespace."""
    try:
        found = object.__getattribute__(value, "__dict__")
    except AttributeError:
        return None
    return found if type(found) is dict else None


def _of_class(kind: type) -> dict[str, Any]:
    """Methods and values that an object may have instead of its class; none where code may tell."""
    found: dict[str, Any] = {}
    names: set[str] = set()
    for each in reversed(kind.__mro__ if _has_space(kind) else ()):
        for name, value in vars(each).items():
            code = getattr(value, "__code__", None)
            names |= names_of(code) if code is not None else set()
            if is_a(value, (classmethod, property)):
                names |= LOOKING_CLOSELY
            found.pop(name, None)
            if not name.startswith("__") and not hasattr(type(value), "__set__"):
                if type(value) is FunctionType or not hasattr(type(value), "__get__"):
                    found[name] = value
    return found if names.isdisjoint(LOOKING_CLOSELY) else {}


def _has_space(kind: type) -> bool:
    """Whether objects of a user's class have a namespace."""
    return root(module_of(kind)) not in UNCOPIED and hasattr(kind, "__dict__")


def _held(value: Any) -> list[Any]:
    """What the slots of an object hold, those with anything in them."""
    return [each for found in slots_of(value) for each in found]


def _factory(value: Any) -> Any:
    """What a `defaultdict` calls for a key that is missing."""
    return value.default_factory if type(value) is defaultdict else None


def _of_callable(value: Any) -> list[Any]:
    """What code may replace in a function, a `partial` or the like."""
    parts = [getattr(value, name, None) for name in _OF_CALLABLES]
    for cell in getattr(value, "__closure__", None) or ():
        with suppress(ValueError):  # not set yet
            parts.append(cell.cell_contents)
    for space in (vars(value), *parts):
        if type(space) is dict:
            parts += [*space, *space.values()]
    return parts


def _is_copyable(value: Any) -> bool:
    """Whether a copy with the same attributes is as good as the object."""
    kind: Any = type(value)
    if root(module_of(type(kind))) not in OF_CLASSES:
        return False  # a class of a kind of its own may say how classes compare, and are made
    return kind is SimpleNamespace or _among(kind, WRAPPING) or _has_plain_values(kind)


@memo(1024)
def _has_plain_values(kind: Any) -> bool:
    """Whether objects of a class are no more than their attributes, and identity is no matter."""
    if issubclass(kind, (type, Enum, BaseException)) or root(module_of(kind)) in UNCOPIED:
        return False
    if "__del__" in {name for each in kind.__mro__ for name in vars(each)}:
        return False
    if any(type(part) is REMEMBERING for each in kind.__mro__ for part in vars(each).values()):
        return False  # which keeps what it gave for each object
    try:
        object.__new__(kind)
    except TypeError:  # it holds more, which only its own class knows of
        return False
    return True
