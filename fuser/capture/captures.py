"""What a traced function depends on besides its arguments: globals, closures, attributes.

Scalars are guarded by value, arrays and functions by identity: a rebound global is noticed at
the next call.
"""

from __future__ import annotations

import abc
import builtins
import dis
import functools
import gc
import inspect
import operator
import sys
import weakref
from collections.abc import Callable, Iterable, Iterator
from enum import Enum
from types import (
    BuiltinMethodType,
    CellType,
    CodeType,
    FunctionType,
    MemberDescriptorType,
    MethodType,
    MethodWrapperType,
    ModuleType,
    SimpleNamespace,
)
from typing import Any

import numpy as np

from fuser.base.caches import memo
from fuser.base.errors import Unsupported
from fuser.base.packages import ALIKE, LATER, LAZY, STABLE, WAITING, loaded, root
from fuser.base.protocols import (
    attribute,
    is_a,
    is_scalar,
    module_of,
    namespace_of,
    on_type,
    type_has,
)
from fuser.base.records import changed, record
from fuser.capture.codes import CONSTANTS, codes_in, compares_identity
from fuser.capture.contents import CONTAINERS, Contents, is_other, parts_of, snapshot, spend_on
from fuser.capture.permitted import is_open, is_plain_array, may_hold, told
from fuser.capture.random_and_file_states import is_generator, shared_generators
from fuser.tracing.builtin_names import REMEMBERING

#: Stands for a name that is not there.
ABSENT = object()
#: Methods that run where a class is called, or inherited from.
_CONSTRUCTORS = frozenset("__init__ __new__ __post_init__ __init_subclass__ __set_name__".split())
#: Methods without which Python does something of its own.
_BY_DEFAULT = frozenset((
    "__getattribute__ __getattr__ __setattr__ __delattr__ __get__ __set__ __bool__ __len__ __eq__ "
    "__ne__ __lt__ __le__ __gt__ __ge__ __hash__ __contains__ __iter__ __str__ __repr__ __format__ "
    "__instancecheck__ __subclasscheck__ __array_ufunc__ __iadd__ __isub__ __imul__ __imatmul__ "
    "__itruediv__ __ifloordiv__ __imod__ __ipow__ __ilshift__ __irshift__ __iand__ __ixor__ __ior__"
).split())
#: Methods that no operator calls.
_MAKERS = _CONSTRUCTORS | frozenset(
    "__del__ __repr__ __str__ __format__ __reduce__ __reduce_ex__ __getstate__ __setstate__ "
    "__replace__".split()
)
#: Names by which code asks whether two things are one, beside `is`.
_OF_IDENTITY = frozenset(("id", "is_", "is_not"))
#: Names by which code finds the class of an object.
_CLASS_OF = frozenset(("type", "__class__"))
_WITH_CODE = (FunctionType, staticmethod, classmethod)
#: Names by which code asks for the state of random generators, or changes what no trace puts back.
_OF_GENERATORS = frozenset(
    "bit_generator state get_state getstate seed_seq spawn n_children_spawned".split()
)
#: Methods that give an object's text; functions that ask for it, and instructions that do.
_SPELLING = frozenset("__repr__ __str__ __format__".split())
_TEXTS = frozenset("str repr format ascii print".split())
_FORMATTING = frozenset(
    dis.opmap[name] for name in ("FORMAT_VALUE", "FORMAT_SIMPLE", "FORMAT_WITH_SPEC")
    if name in dis.opmap
)  # fmt: skip
_LIMIT = 1000
#: Attributes of loggers that tell more than whether one does anything; those that do are watched.
_OF_LOGGERS = frozenset("handlers level parent manager filters propagate hasHandlers".split())
#: Names of exceptions by which code goes on where an attribute is not there.
_CATCHING = frozenset("AttributeError Exception BaseException".split())
#: Attributes of tracebacks: frames of a trace are others.
_OF_FRAMES = frozenset(("tb_next", "tb_frame"))
#: What exceptions are made with.
_ARGUMENTS = vars(BaseException)["args"]
_IMPORT_NAME = dis.opmap["IMPORT_NAME"]
_STORE_GLOBAL = dis.opmap["STORE_GLOBAL"]
#: Instructions that name globals -> by how much their argument is shifted.
_GLOBAL_NAMES = {
    dis.opmap[name]: shift
    for name, shift in {
        "LOAD_GLOBAL": 1, "LOAD_NAME": 0, "STORE_GLOBAL": 0, "DELETE_GLOBAL": 0,
        "LOAD_FROM_DICT_OR_GLOBALS": 0,
    }.items()
    if name in dis.opmap
}  # fmt: skip
#: Names by which code goes through all attributes of a thing, whatever they are called.
_EVERY = frozenset(
    "__dict__ vars dir getmembers getmembers_static getattr_static __getattribute__ dumps "
    "__getstate__ __reduce_ex__".split()
)
#: What a function or a class is called, and says of itself.
_OF_DEFINITIONS = frozenset("__name__ __qualname__ __doc__ __module__ __annotations__".split())
#: Functions of classes that tell their annotations, from Python 3.14 on: only who asks for these
#: calls them.
_ANNOTATING = frozenset(("__annotate__", "__annotate_func__"))
#: Python's own packages with classes whose code calls what is defined on top of them by any name.
_CALLING_BACK = sys.stdlib_module_names - {"builtins", "abc", "typing"}
#: What `functools.cmp_to_key` makes: it shows its function to nobody.
_SORTING_KEY = type(functools.cmp_to_key(lambda one, other: 0))
_COMPARE_OP = dis.opmap["COMPARE_OP"]
_CONTAINS_OP = dis.opmap["CONTAINS_OP"]
#: Built-in functions that look up names which the code has as text.
_BY_TEXT = frozenset("globals vars eval exec __builtins__".split())


@record
class NameGuard:
    """One name that must keep its value (or identity).

    Attributes:
        scope: a namespace, or a closure's cell.
        name: the name, for messages too.
        expected: what was seen while tracing.
        by_value: compare values; else identity.
        owner: the class, where the scope is a view of its names.
    """

    scope: Any
    name: str
    expected: Any
    by_value: bool
    owner: Any = None

    def holds(self) -> bool:
        """Whether nothing has changed."""
        scope = self.scope
        if type(scope) is CellType:
            try:
                now = scope.cell_contents
            except ValueError:
                now = ABSENT
        else:
            now = scope.get(self.name, ABSENT)
        return same_value(now, self.expected) if self.by_value else now is self.expected

    @property
    def place(self) -> tuple[int, str]:
        """The name and what it is a name in, by identity: some scopes are made at each look."""
        scope = self.scope
        return id(scope.thing if type(scope) in (Slots, Kinds) else scope), self.name

    @property
    def asks(self) -> bool:
        """Whether looking runs code of the user's."""
        return type(self.scope) is Asked and self.scope.runs

    def look_up(self) -> tuple[Callable[..., Any], tuple[Any, ...]] | None:
        """What gives the object that has to be `expected`; None where that takes more."""
        if self.by_value or type(self.scope) is CellType:
            return None
        if type(self.scope) is Slots:
            return getattr, (self.scope.thing, self.name, ABSENT)
        return self.scope.get, (self.name, ABSENT)


class Slots:
    """The attributes of an object without a namespace of its own."""

    def __init__(self, thing: Any) -> None:
        """Look at `thing`."""
        self.thing = thing

    def get(self, name: str, default: Any) -> Any:
        """As a namespace's."""
        return getattr(self.thing, name, default)


class Kinds:
    """The class of an object and its namespace, or what a class inherits from: it is not asked."""

    def __init__(self, thing: Any, kept: Any = None) -> None:
        """Look at `thing`; keep an object whose address is compared."""
        self.thing, self.kept = thing, kept

    def get(self, name: str, default: Any) -> Any:
        """As a namespace's."""
        if name == "__dict__":
            return id(namespace_of(self.thing))
        return type(self.thing) if name == "__class__" else told(self.thing, name)


class Keys:
    """Which names a namespace has, in order; or which of some names, in none."""

    def __init__(self, space: Any, some: frozenset[str] | None = None) -> None:
        """Look at `space`."""
        self.space, self.some = space, some

    def get(self, name: str, default: Any) -> Any:
        """As a namespace's."""
        return list(self.space) if self.some is None else self.some.intersection(self.space)


class Asked:
    """What a function of no arguments gives, which is asked at each call.

    Attributes:
        runs: whether it runs code of the user's.
    """

    def __init__(self, look: Callable[[], Any], runs: bool = False) -> None:
        """Ask `look`."""
        self._look, self.runs = look, runs

    def get(self, name: str, default: Any) -> Any:
        """As a namespace's."""
        return self._look()


def remembered(function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """What a function gives that keeps its results (`functools.lru_cache`); ABSENT if it raises."""
    try:
        return function(*args, **kwargs)
    except Exception:  # noqa: BLE001 - a trace that asks again meets it where the function does
        return ABSENT


def _threshold(logger: Any) -> int:
    """From which level on a logger does anything."""
    if logger.disabled:
        return sys.maxsize
    return max(int(logger.getEffectiveLevel()), int(logger.manager.disable) + 1)


def is_put_in(value: Any) -> bool:
    """Whether what a known module holds is none of its own, nor of Python's: it is a user's."""
    if type(value) is FunctionType:
        place = root(value.__globals__)
    elif is_a(value, type):
        place = root(module_of(value))
    else:
        place = root(attribute(value, "__module__") or module_of(type(value)))
    return place not in STABLE and place not in sys.stdlib_module_names


def has_elements(value: Any) -> bool:
    """Whether a value is a real array, or a view of one, by its own type: no stand-in has any."""
    kind = type(value)
    if issubclass(kind, (np.ndarray, np.flatiter, memoryview)):
        return True
    return type_has(value, "__cuda_array_interface__")


def arrays_of(value: Any) -> Iterator[Any]:
    """Arrays that a name stands for, or that its containers hold."""
    if has_elements(value):
        yield value
        return
    parts = value.parts if type(value) is Contents else value
    if type(parts) in CONTAINERS:
        for part in parts.values() if type(parts) is dict else parts:
            yield from arrays_of(part)


def is_logger(value: Any) -> bool:
    """Whether a value is a logger of Python's, or hands over to one."""
    logging = loaded("logging")
    kind = type(value)  # compared by identity: a class may have an `__eq__` of its own
    return logging is not None and (kind is logging.Logger or kind is logging.RootLogger)


def is_fused(value: Any) -> bool:
    """Whether a value is a fused function."""
    kind = type(value)
    return module_of(kind) == "fuser.calls.fused_function" and kind.__name__ == "FusedFunction"


def same_value(now: Any, expected: Any) -> bool:
    """Same type and value; NaN equals NaN, 0.0 is not -0.0. Arrays and objects by identity."""
    if type(expected) is Contents:
        if now is not expected.thing:
            return False
        now, expected = parts_of(now), expected.parts
    if now is expected:
        return True
    kind = type(expected)
    if type(now) is not kind:
        return False
    if kind is list or kind is tuple or kind is dict:
        if len(now) != len(expected):
            return False
        same = all(map(operator.is_, now, expected))  # most often they are the very objects
        if kind is not dict:
            return same or all(map(same_value, now, expected))
        if same and all(map(operator.is_, now.values(), expected.values())):
            return True
        now_in, known_in = now.values(), expected.values()
        return (same or _same_keys(now, expected)) and all(map(same_value, now_in, known_in))
    if not is_scalar(now) and type(now) not in (set, frozenset):
        return False
    if is_a(now, (float, np.floating)):
        return repr(now) == repr(expected)
    try:
        return bool(now == expected)
    except Exception:  # noqa: BLE001 - a foreign __eq__ may raise anything: then not equal
        return False


def _same_keys(now: dict[Any, Any], expected: dict[Any, Any]) -> bool:
    """Whether two mappings have the same keys in the same order."""
    try:
        return list(now) == list(expected)
    except Exception:  # noqa: BLE001 - a foreign __eq__ may raise anything: then not equal
        return False


def look_around(
    function: Callable[..., Any],
    objects: Iterable[Any] = (),
    without: Iterable[tuple[int, str]] = (),
) -> tuple[list[NameGuard], list[Any]]:
    """Every name that a function, and the Python functions that it uses, may read; objects met.

    Args:
        function: a Python function or method.
        objects: further objects whose attributes the function may read (`self` …).
        without: names that need no guard, by the identity of their namespace.
    """
    collector = _Collector()
    collector._guarded.update(without)
    asked = getattr(function, "__func__", function)
    held = (asked.__closure__ or ()) if "__objects__" in getattr(asked, "__dict__", ()) else ()
    collector.asked_for = [asked, *(cell.cell_contents for cell in held)]
    try:
        collector.contents(function)
        for thing in objects:
            _refuse_buffer(thing)
            collector.contents(thing)
        collector.settle()
    except Unsupported:
        for met in collector.functions:
            if root(met.__globals__) in LATER:
                shown = "a function of Dask's, which computes nothing yet"
                raise Unsupported("lazy-array", met.__name__, shown, "") from None
        raise
    drawn = shared_generators() if "random" in collector.names else ()
    return collector.guards, [*collector.objects, *collector.functions, *drawn]


def _refuse_buffer(thing: Any) -> None:
    """Refuse an argument that is memory, and an array to NumPy's functions alone."""
    kind = type(thing)
    if kind is memoryview or (module_of(kind), told(kind, "__name__")) == ("array", "array"):
        shown = f"an argument of type {kind.__name__}: pass numpy.asarray of it, its memory"
        raise Unsupported("unsupported-array", kind.__name__, shown, "")


def look_past(
    things: Iterable[Any], names: set[str], without: Iterable[tuple[int, str]] = (),
    before: bool = False,
) -> tuple[list[NameGuard], list[Any]]:  # fmt: skip
    """What may be reached from things that a trace left as they are: names, and objects met.

    Args:
        things: objects, classes, functions.
        names: in the code that has them.
        without: see `look_around`.
        before: also what an object may have had by its class before the code ran.
    """
    collector = _Collector()
    collector._guarded.update(without)
    collector._before = before
    collector.names |= names
    for thing in things:
        collector.value(CellType(thing), type(thing).__name__, thing, thing)
    collector.settle()
    return collector.guards, [*collector.objects, *collector.functions]


def held(guards: Iterable[NameGuard]) -> Iterator[Any]:
    """What attributes and containers hold, and not what code names."""
    for guard in guards:
        scope = guard.scope
        if guard.by_value:
            yield from _leaves(guard.expected)
        if type(scope) is not CellType and not (type(scope) is dict and "__builtins__" in scope):
            yield scope.get(guard.name, None)
            yield getattr(guard.expected, "__func__", guard.expected)


class _Collector:
    """Walks functions and the namespaces that they name."""

    def __init__(self) -> None:
        self.guards: list[NameGuard] = []
        self._containers: list[tuple[int, Any]] = []
        """Lists, dicts and their like, each after the index of its guard."""
        self.names: set[str] = set()
        self.asked_for: list[Any] = []
        """Functions whose code is looked at, whichever package they are of."""
        self.spells = False
        """Whether code asks objects for their texts."""
        self.compares = False
        """Whether code compares things for equality that are no constants."""
        self.doubted: set[str] = set()
        """Names that code may ask for where they are not: see `_doubted`."""
        self.own_names: set[str] = set()
        """Those in code that is not of Python's own library."""
        self._seen: set[int] = set()
        self.objects: list[Any] = []
        self.functions: list[FunctionType] = []
        self._before = False
        """Whether what an object has of its own may be new: its class gave it before."""
        self._known: dict[int, ModuleType] = {id(builtins): builtins}
        """Modules of packages that do not change, unless somebody puts in something else."""
        self._guarded: set[tuple[int, str]] = set()
        self._fused: dict[int, set[str]] = {}
        """Names of fused functions."""

    def _behind(self, holder: Any, value: Any) -> None:
        """Guard what an object leads to that is always the same."""
        self.value(CellType(value), type(value).__name__, value, holder)

    def _note_protocol(self, kind: Any) -> None:
        """Note what `isinstance(thing, kind)` asks a thing for, where `kind` is a protocol."""
        if told(kind, "__dict__").get("_is_protocol", False):
            parts = [told(each, "__dict__") for each in told(kind, "__mro__")[:-1]
                     if root(module_of(each)) not in STABLE]  # fmt: skip
            parts += [space.get("__annotations__", {}) for space in parts]
            asked = {name for space in parts for name in space if name[:1] != "_"}
            self.names |= asked
            self.doubted |= asked

    def callable(self, thing: Any) -> None:
        """Guard what a callable reads; other objects are left alone."""
        if is_a(thing, functools.partial):
            for name in ("func", "args", "keywords"):
                self.value(Slots(thing), name, getattr(thing, name), thing)
            return
        if is_a(thing, MethodType):
            self.callable(thing.__func__)
            self.contents(thing.__self__)
            return
        if type(thing) is np.vectorize:
            for name in ("pyfunc", "otypes", "signature", "excluded", "cache"):
                self.value(vars(thing), name, getattr(thing, name), thing)
            return
        if is_a(thing, property):
            for part in (thing.fget, thing.fset, thing.fdel):
                self.callable(part)
            return
        if is_a(thing, functools.cached_property):
            self.callable(thing.func)
            return
        if not is_a(thing, FunctionType):  # classmethod and staticmethod among others
            space = namespace_of(thing)
            wrapped = space.get("__wrapped__") if type(space) is dict else None
            wrapped = attribute(thing, "__wrapped__", wrapped)
            if type(thing) is REMEMBERING:
                self.objects.append(thing)
            if wrapped is not None and not is_a(thing, type):
                self.callable(wrapped)
            return
        if id(thing) in self._seen or hasattr(thing.__globals__, "replaces"):
            return
        self._seen.add(id(thing))
        if root(thing.__globals__) in STABLE and root(thing.__module__) in STABLE:
            self.objects.append(thing)
            if thing.__module__ == "functools":  # what `singledispatch` keeps, and its like
                self._cells(thing, (dict, FunctionType))
            elif thing.__closure__:  # what it wraps of the user's, and what it counts
                self._cells(thing, (FunctionType, list, dict))
            if not any(thing is each for each in self.asked_for):
                return
        self.functions.append(thing)
        names = names_of(thing.__code__)
        if any(part.co_flags & inspect.CO_COROUTINE for part in codes_in(thing.__code__)):
            shown = "a trace makes coroutines that nobody awaits"
            raise Unsupported("not-traceable", thing.__name__, shown, "")
        self.names |= names
        self.spells = self.spells or _spells(thing.__code__)
        self.compares = self.compares or _compares(thing.__code__)
        if root(thing.__globals__) not in sys.stdlib_module_names:
            self.own_names |= names
            if not names.isdisjoint(_OF_FRAMES):
                shown = "it looks at the frames that an exception has passed"
                raise Unsupported("impure", thing.__name__, shown, "")
            self.doubted |= _doubted(thing.__code__)
        if (own := thing.__builtins__) is not vars(builtins):
            for name in global_names(thing.__code__) - thing.__globals__.keys():
                if own.get(name) is not vars(builtins).get(name):
                    raise Unsupported("impure", name, "it is a built-in name of its own", "")
        by_text = not _BY_TEXT.isdisjoint(names)
        if not by_text:
            names = global_names(thing.__code__)
        for name in sorted(names):
            if name in thing.__globals__ and not name.startswith("__"):
                self.value(thing.__globals__, name, thing.__globals__[name])
            elif by_text and name not in thing.__globals__:
                self._absent(thing.__globals__, name, thing.__globals__)
        for name in imported_by(thing.__code__):
            if name in sys.modules and root(name) not in STABLE:
                self._add(NameGuard(sys.modules, name, sys.modules[name], False))
                self.value(sys.modules, name, sys.modules[name])
        self._cells(thing, object)
        for name in sorted(_stored(thing.__code__) - thing.__globals__.keys()):
            self._absent(thing.__globals__, name, thing.__globals__)
        for name in ("__code__", "__defaults__", "__kwdefaults__"):
            if getattr(thing, name):
                self.value(Slots(thing), name, getattr(thing, name), thing)

    def _cells(self, thing: FunctionType, kinds: Any) -> None:
        """Guard what a function has in its closure, of some kinds."""
        for name, cell in zip(thing.__code__.co_freevars, thing.__closure__ or (), strict=False):
            try:
                content = cell.cell_contents
            except ValueError:
                self._absent(cell, name, cell)
                continue
            if is_a(content, kinds):
                self.value(cell, name, content)

    def settle(self) -> None:
        """Look at objects again until the methods found there name nothing new."""
        before, seen = -1, 0
        looked: tuple[Any, set[str], set[str]] = (None, set(), set())
        while before != len(self.names) + len(self.objects) + len(self._known):
            before = len(self.names) + len(self.objects) + len(self._known)
            now = self._what_code_does(), set(self.names), set(self.doubted)
            new = (now[1] - looked[1]) | (now[2] - looked[2]) if now[0] == looked[0] else now[1]
            objects = list(self.objects)
            for place, thing in enumerate(objects):
                if place >= seen or new or is_fused(thing):
                    self.attributes(thing, set(new if place < seen else now[1]))
            seen, looked = len(objects), now
            for module in list(self._known.values()):
                self._put_in(module)
            if "random" in self.names and not self.names.isdisjoint(_OF_GENERATORS):
                raise Unsupported(
                    "impure", "random", "it reads the state of a random generator", ""
                )
            for function in list(self.functions):
                for name in sorted(self.names & vars(function).keys()):
                    self.value(vars(function), name, vars(function)[name])
                for name in sorted(self.names & _OF_DEFINITIONS):
                    self.value(Slots(function), name, getattr(function, name), function)
        if self._asks_identity():
            for place, value in self._containers:
                guard = self.guards[place]
                known = snapshot(value, guard.name, identity=True)
                self.guards[place] = changed(guard, expected=known)

    def _what_code_does(self) -> tuple[Any, ...]:
        """What decides how objects are looked at, beside the names that code has."""
        asks = (self.own_names.isdisjoint(_EVERY), self.names.isdisjoint(_CLASS_OF))
        return self.spells, self.compares, "super" in self.names, *asks

    def _asks_identity(self) -> bool:
        """Whether code asks whether two things are one."""
        named = not self.names.isdisjoint(_OF_IDENTITY)
        return named or any(compares_identity(each.__code__) for each in self.functions)

    def _put_in(self, module: ModuleType) -> None:
        """Look at what somebody has put into a module that does not change by itself."""
        space = vars(module)
        for name in self.names & space.keys():
            found = space[name]
            if type(found) is ModuleType and root(found.__name__) in STABLE:
                self._known[id(found)] = found
            elif is_put_in(found):
                self.value(space, name, found)

    def value(self, scope: Any, name: str, value: Any, owner: Any = None) -> None:
        """Guard one name; `owner` stands for a scope that is made anew at each look."""
        key = (id(scope if owner is None else owner), name)
        if key in self._guarded:
            return
        self._guarded.add(key)
        if is_fused(value):
            self._fused.setdefault(id(value), set()).add(name)
        if is_a(value, ModuleType):
            if root(value.__name__) not in STABLE:
                self.objects.append(value)
            elif root(value.__name__) not in ALIKE:
                self._known[id(value)] = value
            if value.__name__.startswith("numpy.random"):
                self.names.add("random")
            return
        holder = owner if is_a(owner, type) else None
        if is_a(value, type) and name in self.own_names and may_hold(value):
            raise _reading(value)
        if is_scalar(value):
            self._add(NameGuard(scope, name, value, True, holder))
        elif is_logger(value) and self.names.isdisjoint(_OF_LOGGERS):
            self._add(NameGuard(scope, name, value, False, holder))
            look = functools.partial(_threshold, value)
            self._add(NameGuard(Asked(look), name, look(), True))
            self.objects.append(value)
        elif type(value) in CONTAINERS or is_other(value):
            spend_on(value)
            self._containers.append((len(self.guards), value))
            self._add(NameGuard(scope, name, snapshot(value, name), True, holder))
            for part in _leaves(value):
                self.contents(part)
            if type(value) not in CONTAINERS:
                self._object(value)
        else:
            self._add(NameGuard(scope, name, value, False, holder))
            self.contents(value)

    def contents(self, value: Any) -> None:
        """Guard what an object leads to: a function's names, an object's attributes."""
        if is_a(value, (np.ndarray, memoryview)) and not is_plain_array(value):
            objects = type(value) is np.ndarray
            shown = "an array of objects" if objects else f"a {type(value).__name__}"
            code = "unsupported-dtype" if objects else "unsupported-array"
            raise Unsupported(code, type(value).__name__, f"{shown} that is no argument", "")
        if is_scalar(value) or is_a(value, np.ndarray) or id(value) in self._seen:
            return
        if is_a(value, BaseException):
            look = functools.partial(_ARGUMENTS.__get__, value)  # a class may hide them
            asked = Slots(value) if on_type(value, "args") is _ARGUMENTS else Asked(look)
            self.value(asked, "args", look(), value)
        if is_a(value, type) and type(value) is not type:
            self.contents(type(value))
            self._note_protocol(value)
        if is_a(value, (BuiltinMethodType, MethodWrapperType)):
            if not is_a(value.__self__, (ModuleType, type)):
                self._behind(value, value.__self__)
            return
        if is_a(value, (frozenset, tuple, _SORTING_KEY)):  # which hold the same things for ever
            self._seen.add(id(value))
            for part in gc.get_referents(value):
                self.contents(part)
        if is_a(value, weakref.ref):
            if value() is not None:  # guards would keep it alive
                raise _reading(type(value))
            return
        if is_other(value):
            self.value(CellType(value), type(value).__name__, value, value)
            return
        self.callable(value)
        if not is_a(value, FunctionType):
            self._object(value)

    def _object(self, value: Any) -> None:
        """Note an object.

        Raises:
            Unsupported: what it gives depends on more than could be looked at again.
        """
        kind = type(value)
        if _is_stream(value):
            return
        if module_of(kind) in LAZY and told(kind, "__name__") == LAZY[module_of(kind)]:
            shown = "an array that is no argument, but is reached by a name: pass it as one"
            raise Unsupported("lazy-array", "Dask array", shown, "")
        if root(module_of(kind)) in WAITING:
            waits = f"it may wait for other threads at a {kind.__name__}"
            raise Unsupported("impure", kind.__name__, waits, "")
        if not is_a(value, type) and not is_open(kind):
            raise _reading(kind)
        if is_a(value, type) and "__subclasses__" in self.own_names:
            shown = "it looks at the subclasses of a class"
            raise Unsupported("impure", told(value, "__name__"), shown, "")
        if is_a(value, (operator.attrgetter, operator.methodcaller)):
            self.names |= {part for text in _texts(value) for part in text.split(".")}
        taking = on_type(value, "__next__")
        if taking is not None and not is_a(taking, FunctionType):
            if not type_has(value, "seek"):  # a file can be put back
                raise Unsupported("impure", kind.__name__, f"it takes from a {kind.__name__}", "")
        self._seen.add(id(value))
        self.objects.append(value)

    def attributes(self, thing: Any, names: set[str]) -> None:
        """Guard the attributes of an object that the code names, and follow its methods.

        Args:
            thing: the object.
            names: those that are new, or all, where the object is, or where code does more.
        """
        kind = thing if is_a(thing, type) else type(thing)
        if issubclass(kind, Enum):
            names |= {"_value_", "_member_map_"}
        if is_fused(thing):
            self._of_fused(thing)
            return
        if not self.names.isdisjoint(_OF_GENERATORS) and is_generator(thing):
            raise _reading(kind)
        known = kind is ModuleType or kind is SimpleNamespace  # a class may say how it compares
        if not known and (root(module_of(kind)) in STABLE or is_logger(thing)):
            self._within(thing)
            return
        if not known:
            self._kind(thing, kind)
        namespace = namespace_of(thing)
        own = namespace if is_a(namespace, dict) and kind is not thing else None
        if own is not None and not known:
            self._same(thing, "__dict__", id(own), own)  # another one may be put in its place
        if kind is thing:
            for name in sorted(names & _OF_DEFINITIONS):
                self.value(Slots(thing), name, getattr(thing, name, ABSENT), thing)
        if self._asks_for_all(kind):
            names |= self._every(thing, kind, own)
        for name in sorted(names & set(own or ())):
            self.value(own, name, own[name])  # type: ignore[index] # it is in there
        if is_a(thing, ModuleType):
            space = vars(thing)
            if known:  # another class may be given to it
                self._same(thing, "__class__", kind)
            if "__getattr__" in space:
                self.value(space, "__getattr__", space["__getattr__"])
            for name in (names if "__getattr__" in space else self.doubted) - space.keys():
                self._absent(space, name, space)
            return
        spelled = _SPELLING if self.spells else ()
        above = kind.__mro__[-2::-1]  # what a class has hides what it inherits
        members = {name: part for cls in above for name, part in vars(cls).items()}
        made = _CONSTRUCTORS if kind is thing or not names.isdisjoint(_CLASS_OF) else ()
        names |= {
            n for n, part in members.items()
            if _operator(part, n) or n in spelled or (n in made and is_a(part, _WITH_CODE))
        }  # fmt: skip
        if any(root(module_of(cls)) in _CALLING_BACK for cls in above):
            users = [vars(cls) for cls in above if root(module_of(cls)) not in STABLE]
            names |= {n for space in users for n, part in space.items() if is_a(part, _WITH_CODE)}
        for name in sorted(names - _ANNOTATING):
            holder = next((cls for cls in kind.__mro__ if name in vars(cls)), None)
            if own is not None and name in own and not self._before:
                self._beside(kind, name, holder)
                continue
            if holder is None and own is not None and type_has(thing, "__getattr__"):
                self._absent(own, name, own)  # where it is, no method is asked for it
            asked = type_has(thing, name) or type_has(thing, "__getattr__")
            if holder is None and kind is thing and asked:
                for cls in kind.__mro__[:-1]:  # before what the class of the class has
                    self._absent(told(cls, "__dict__"), name, cls)
            if holder is None and name in self.doubted:
                if own is not None:
                    self._absent(own, name, own)
                self._nowhere(kind, name)
            if holder is not None and kind is thing:
                self._nowhere(type(kind), name)  # what hides what the class has
            if holder is None or root(module_of(holder)) in STABLE:
                continue
            if "super" in self.names:
                for cls in kind.__mro__[kind.__mro__.index(holder) + 1 : -1]:
                    if name in vars(cls):
                        self.value(vars(cls), name, vars(cls)[name], cls)
            if own is not None:
                self._absent(own, name, own)
            if is_a(vars(holder)[name], MemberDescriptorType) and kind is not thing:
                self.value(Slots(thing), name, getattr(thing, name, ABSENT), thing)
            else:
                self._by_class(kind, name, holder)

    def _beside(self, kind: type, name: str, holder: type | None) -> None:
        """Guard what the class of an object has by a name that the object has itself.

        Methods that operators call are looked up in classes alone, and where a property has the
        name, the class is asked first.
        """
        if holder is None:
            self._nowhere(kind, name)
        elif root(module_of(holder)) not in STABLE:
            found = vars(holder)[name]
            if not _operator(found, name) and not type_has(found, "__set__"):
                key = (id(holder), f"{name} beside")  # it is not read
                if key not in self._guarded and not any(True for _ in arrays_of(found)):
                    self._guarded.add(key)
                    self._add(NameGuard(vars(holder), name, found, False, holder))
            else:
                self._by_class(kind, name, holder)

    def _by_class(self, kind: type, name: str, holder: type) -> None:
        """Guard which class has a name, and what that is."""
        self.value(vars(holder), name, vars(holder)[name], holder)
        for cls in kind.__mro__[: kind.__mro__.index(holder)]:
            self._absent(vars(cls), name, cls)

    def _nowhere(self, kind: type, name: str) -> None:
        """Guard that no class of the user's has a name."""
        for cls in told(kind, "__mro__")[:-1]:
            if root(module_of(cls)) not in STABLE and name not in told(cls, "__dict__"):
                self._absent(told(cls, "__dict__"), name, cls)

    def _asks_for_all(self, kind: type) -> bool:
        """Whether code may ask an object for attributes that it does not name."""
        if kind is SimpleNamespace and (self.spells or self.compares):
            return True
        return not self.own_names.isdisjoint(_EVERY)

    def _every(self, thing: Any, kind: type, own: dict[str, Any] | None) -> set[str]:
        """Guard which attributes an object and its classes have; their names.

        Those of the standard library's modules and classes are taken to stay.
        """
        stays = STABLE | sys.stdlib_module_names
        if is_a(thing, ModuleType) and root(vars(thing)) in stays:
            return set()
        spaces = [] if own is None else [(own, thing)]
        for cls in told(kind, "__mro__"):
            if root(module_of(cls)) not in stays:
                spaces.append((told(cls, "__dict__"), cls))
        found: set[str] = set()
        for space, owner in spaces:
            if (id(owner), "") not in self._guarded:
                self._guarded.add((id(owner), ""))
                self._add(NameGuard(Keys(space), "the names of attributes", list(space), True))
            found.update(name for name in space if type(name) is str and name[:2] != "__")
        return found

    def _of_fused(self, thing: Any) -> None:
        """Guard what users have set on a fused function, where code does more than call it."""
        called = self._fused.get(id(thing), set())
        if all(called.isdisjoint(_looked_at(each.__code__)) for each in self.functions):
            return
        for name in sorted(self.names):
            if name in vars(thing) and not name.startswith("_"):
                self.value(vars(thing), name, vars(thing)[name])
            elif not hasattr(thing, name):
                self._absent(vars(thing), name, vars(thing))

    def _kind(self, thing: Any, kind: type) -> None:
        """Guard the class that an object has, and what that inherits from."""
        if thing is not kind:
            self._same(thing, "__class__", kind)
        for each in told(kind, "__mro__"):
            if root(module_of(each)) not in STABLE:
                self._same(each, "__bases__", told(each, "__bases__"))
                if (id(each), "special methods") not in self._guarded:
                    self._guarded.add((id(each), "special methods"))
                    keys = Keys(told(each, "__dict__"), _BY_DEFAULT)
                    found = keys.get("", None)
                    self._add(NameGuard(keys, "special methods", found, True, each))
                if type(each) is abc.ABCMeta and (0, "registered") not in self._guarded:
                    self._guarded.add((0, "registered"))  # the latest class with an abstract one
                    look = abc.get_cache_token
                    self._add(NameGuard(Asked(look), "registered", look(), True))

    def _same(self, thing: Any, name: str, value: Any, kept: Any = None) -> None:
        """Guard an attribute by identity, or a number, without looking further; `kept` lives on."""
        if (id(thing), name) not in self._guarded:
            self._guarded.add((id(thing), name))
            holder = thing if name == "__bases__" else None
            self._add(NameGuard(Kinds(thing, kept), name, value, type(value) is int, holder))

    def _within(self, thing: Any) -> None:
        """Guard attributes of an object of a known package: named ones and arrays; or all."""
        space = namespace_of(thing)
        if is_a(thing, type) or type(space) is not dict:
            return
        place = root(thing.__globals__ if is_a(thing, FunctionType) else module_of(type(thing)))
        every = place in ("functools", "scipy")  # code that is not looked at names others
        for name, value in space.items():
            if every or name in self.names or any(True for _ in arrays_of(value)):
                self.value(space, name, value)
        for name in sorted(self.doubted - space.keys()):
            self._absent(space, name, space)

    def _absent(self, scope: Any, name: str, owner: Any) -> None:
        """Guard that a name is not there, where it would hide another."""
        if (id(owner), name) not in self._guarded:
            self._guarded.add((id(owner), name))
            holder = owner if is_a(owner, type) else None
            self._add(NameGuard(scope, name, ABSENT, False, holder))

    def _add(self, guard: NameGuard) -> None:
        """Add a guard.

        Raises:
            Unsupported: there are too many; a change would go unnoticed without one of them.
        """
        if len(self.guards) >= _LIMIT:
            raise Unsupported("not-traceable", guard.name, f"more than {_LIMIT} names in use")
        self.guards.append(guard)


def _reading(kind: type) -> Unsupported:
    """The error of code that reads what cannot be looked at again."""
    name = told(kind, "__name__")
    return Unsupported("impure", name, f"it reads a {name}", "")


def _is_stream(value: Any) -> bool:
    """Whether a value is one of the process's own streams, which are seen when they are used."""
    return any(value is getattr(sys, name) for name in ("stdin", "stdout", "stderr"))


def _texts(value: Any) -> Iterator[str]:
    """Names in what an object is made of."""
    parts = [value.__reduce__()]
    while parts:
        part = parts.pop()
        if type(part) is str:
            yield part
        elif is_a(part, (tuple, functools.partial)):
            parts += part.args if is_a(part, functools.partial) else part


def _stored(code: CodeType) -> set[str]:
    """Global names that a code object and the ones nested in it bind."""
    parts = [part for part in codes_in(code) if _STORE_GLOBAL in part.co_code[::2]]
    return {step.argval for part in parts for step in dis.get_instructions(part)
            if step.opcode == _STORE_GLOBAL}  # fmt: skip


def global_names(code: CodeType) -> set[str]:
    """Names of globals alone: `x.copy()` reads no global that is called `copy`."""
    found: set[str] = set()
    for part in codes_in(code):
        text, above = part.co_code, 0
        for place in range(0, len(text), 2):
            operation, argument = text[place], text[place + 1] | above
            above = argument << 8 if operation == dis.EXTENDED_ARG else 0
            if (shift := _GLOBAL_NAMES.get(operation)) is not None:
                found.add(part.co_names[argument >> shift])
    return found


@memo(1024)
def imported_by(code: CodeType) -> tuple[str, ...]:
    """Names of the modules that a code object, and the ones nested in it, import or ask for."""
    found: dict[str, None] = {}
    for part in codes_in(code):
        asks = "__import__" in part.co_names
        for step in dis.get_instructions(part) if asks or _IMPORT_NAME in part.co_code[::2] else ():
            if step.opname == "IMPORT_NAME":
                parts = step.argval.split(".")
                found.update((".".join(parts[: n + 1]), None) for n in range(len(parts)))
            elif asks and type(step.argval) is str:
                found.update(dict.fromkeys({step.argval} & sys.modules.keys()))
    return tuple(found)


def names_of(code: CodeType) -> set[str]:
    """Names that a code object and the ones nested in it look up."""
    return {name for part in codes_in(code) for name in (*part.co_names, *_texts_in(part))}


def _texts_in(code: CodeType) -> Iterator[str]:
    """Yield texts in code that may be names: `getattr(thing, "name")`."""
    return (each for each in code.co_consts if is_a(each, str) and each.isidentifier())


@memo(1024)
def _doubted(code: CodeType) -> frozenset[str]:
    """Names that code may ask for where they are not, and go on.

    `hasattr(thing, "name")`, `vars(thing).get("name")`, and attributes inside of `try`.
    """
    found: set[str] = set()
    for part in codes_in(code):
        found.update(_texts_in(part))
        if not _CATCHING.isdisjoint(part.co_names):
            found.update(part.co_names)
    return frozenset(found)


def _own_codes(function: Callable[..., Any]) -> list[CodeType]:
    """The code of a function or a method, and that inside it; nothing of other callables."""
    code = getattr(getattr(function, "__func__", function), "__code__", None)
    return [] if code is None else codes_in(code)


def names_in(function: Callable[..., Any]) -> set[str]:
    """Names that a function's own code looks up."""
    return {name for code in _own_codes(function) for name in names_of(code)}


def stored_attributes(function: Callable[..., Any]) -> set[str]:
    """Names of attributes that a function's own code assigns."""
    return {step.argval for code in _own_codes(function) for step in dis.get_instructions(code)
            if step.opname == "STORE_ATTR"}  # fmt: skip


@memo(1024)
def _looked_at(code: CodeType) -> frozenset[str]:
    """Names with which code, or code inside it, does more than to call what they stand for."""
    found = set[str]()
    for part in codes_in(code):
        steps = list(dis.get_instructions(part))
        for place, step in enumerate(steps):
            if type(step.argval) is not str or not step.opname.startswith(("LOAD_", "STORE_")):
                continue
            around = {steps[place - 1].opname, steps[min(place + 1, len(steps) - 1)].opname}
            calls = step.opname == "LOAD_METHOD" or "PUSH_NULL" in around or "NULL" in step.argrepr
            if not calls:
                found.add(step.argval)
    return frozenset(found)


@memo(1024)
def _compares(code: CodeType) -> bool:
    """Whether code, or code inside it, compares for equality what is no constant, or looks for it.

    A constant is on top of the stack when it is loaded last, or before one other load.
    """
    for part in codes_in(code):
        if {_COMPARE_OP, _CONTAINS_OP}.isdisjoint(part.co_code[::2]):
            continue
        steps = [step for step in dis.get_instructions(part) if step.opname != "EXTENDED_ARG"]
        for place, step in enumerate(steps):
            if step.opcode == _CONTAINS_OP:
                return True
            if step.opcode == _COMPARE_OP and step.argval in ("==", "!="):
                last, before = steps[place - 1].opname, steps[place - 2].opname
                alone = last.startswith("LOAD_") and last not in ("LOAD_ATTR", "LOAD_METHOD")
                if last not in CONSTANTS and not (alone and before in CONSTANTS):
                    return True
    return False


@memo(1024)
def asks_identity(code: CodeType) -> bool:
    """Whether code, or code inside it, asks whether two things that are no constants are one.

    Objects whose classes do not say how they compare are equal where they are one.
    """
    return compares_identity(code) or _compares(code)


@memo(1024)
def _spells(code: CodeType) -> bool:
    """Whether code, or code inside it, asks objects for their texts."""
    return any(
        not (_TEXTS.isdisjoint(part.co_names) and _FORMATTING.isdisjoint(part.co_code[::2]))
        for part in codes_in(code)
    )


def _operator(member: Any, name: str) -> bool:
    """Whether a member of a class is a method that operators call."""
    return name.startswith("__") and name not in _MAKERS and is_a(member, _WITH_CODE)


def _leaves(value: Any) -> Iterable[Any]:
    """What a container holds, in containers in it too, and classes of those in it."""
    stack, seen = [value], set()
    while stack:
        part = stack.pop()
        if type(part) not in CONTAINERS and not is_other(part):
            yield part
        elif id(part) not in seen:
            seen.add(id(part))
            if type(part) not in CONTAINERS and part is not value:
                yield type(part)
            held = parts_of(part)
            if type(held) is dict:
                stack.extend(key for key in held if not is_scalar(key))
            if type(held) is not bytes:
                stack.extend(held.values() if type(held) is dict else held)
