"""NumPy as a traced function sees it: array makers that take traced lengths and arrays.

NumPy's protocols reach a tracer only through functions that take arrays. `np.zeros(x.shape)` or
`np.asarray(x)` would turn a traced length into a number, or fail. So while it is traced, a function
runs with other globals: the same ones, but for NumPy's module, in which a few makers are those of
`makers`.
The function itself, and what others see, is not changed.
"""

from __future__ import annotations

import builtins
import dis
import sys
import types
from collections.abc import Callable, Collection, Iterable
from contextlib import suppress
from functools import partial
from types import (
    CellType,
    CodeType,
    FrameType,
    FunctionType,
    MappingProxyType,
    MemberDescriptorType,
    MethodType,
)
from typing import TYPE_CHECKING, Any

import numpy as np

from fuser.base import error_states
from fuser.base.caches import memo
from fuser.base.errors import Unsupported
from fuser.base.packages import ALIKE, STABLE, UNCHANGED, UNWATCHED, root
from fuser.base.protocols import is_a, module_of, namespace_of
from fuser.base.trees import changeable
from fuser.capture import codes, evident
from fuser.capture.captures import (
    ABSENT,
    Asked,
    NameGuard,
    Slots,
    arrays_of,
    asks_identity,
    global_names,
    has_elements,
    held,
    is_fused,
    is_put_in,
    look_past,
    names_of,
    remembered,
)
from fuser.capture.contents import snapshot
from fuser.capture.evident import is_evident
from fuser.capture.permitted import told
from fuser.capture.private_copies import LOOKING_CLOSELY, Copies, leads_nowhere
from fuser.capture.read_names import ReadNames, Unchanged
from fuser.ir.function_table import Replaced, plain_function
from fuser.tracing import makers
from fuser.tracing.builtin_names import BUILTINS, CALLED, REMEMBERING, without_memory
from fuser.tracing.trace_state import Tracing
from fuser.tracing.traced_array import TracedArray
from fuser.tracing.traced_scalars import HostScalar

_STORES = frozenset(dis.opmap[name] for name in ("STORE_GLOBAL", "DELETE_GLOBAL", "STORE_DEREF"))
if TYPE_CHECKING:
    from fuser.capture.staging import Staged

#: Python's own: another one in its place is somebody else's.
_BUILT_IN = {name: getattr(builtins, name) for name in (*BUILTINS, *CALLED)}
#: Those that a function finds replaced by whichever name it calls them.
_REPLACED = {id(getattr(builtins, name)): name for name in BUILTINS}
#: What a function says of itself.
_SAID = ("__qualname__", "__module__", "__doc__",
         "__annotations__" if sys.version_info < (3, 14) else "__annotate__")  # fmt: skip
#: Functions of a module that are looked at: of one that needs more, none is taken to ask for types.
_FUNCTIONS = 64
#: How the names of classes begin that a function finds replaced: no other name begins so.
CALLED_AS = "call of "


class Substitution:
    """One trace's replacements: each function and namespace is replaced once."""

    def __init__(self, tracing: Tracing, kept: Iterable[Any] = ()) -> None:
        """Replace nothing yet.

        Args:
            tracing: where the makers put what they make.
            kept: objects that the trace itself changes, and puts back: they are not copied.
        """
        self.tracing = tracing
        self.copies = Copies(self._in_copies, kept)
        self.left: list[Any] = list(kept)
        """What the function meets as it is: arrays may be reached through it."""
        self.originals: list[FunctionType] = []
        self.seen: list[FunctionType] = []
        self.modules: dict[int, Any] = {}
        self.read = ReadNames()
        self.remembered: list[NameGuard] = []
        """Guards of what functions give that keep their results."""
        self.numpy = _Module(self, np)
        self.plain = _Module(self, np, takes_lists=False)
        self.reducing = _Module(self, np, reduces=True)
        self.functions: dict[int, Any] = {}
        self.copied: dict[int, FunctionType] = {}
        """Functions by the identity of their copies, which `functions` has."""
        self._by_name: dict[int, Any] = {}
        """Functions and methods of which names give copies."""
        self.namespaces: dict[tuple[int, int], Names] = {}
        self.refused: set[Any] = set()  # groups of statements that are no loops over elements
        self.looked: dict[Any, Any] = {}  # what was found that loops change
        self.makers = {id(getattr(np, name)): name for name in makers.MAKERS}
        self.builtins: dict[str, Any] = {
            **BUILTINS, "id": self.identity, "getattr": self.attribute,
            "hasattr": self.has_attribute,
        }  # fmt: skip

    def end(self) -> None:
        """Let go of arrays: no code runs in this trace any more, and nothing asks what it met."""
        self.tracing.end()
        self.copies.end()
        self.left.clear()

    def called(self, function: Any) -> Any:
        """What is run in place of a function: itself where it cannot be replaced."""
        if type(function) is REMEMBERING:
            return self.value(function, self.numpy)
        plain = type(function) in (FunctionType, MethodType)
        return self.callable(function) if plain else self.argument(function)

    def argument(self, value: Any) -> Any:
        """What a function is given in place of an object, or of another function."""
        if type(value) is FunctionType:
            return self.callable(value)
        return self._reached(value) if self.tracing.named else value

    def making(self, maker: Callable[..., Any]) -> Any:
        """A maker of this trace: what stands for what NumPy calls so."""
        bound = partial(maker, self.tracing)
        return partial(makers.stand_in, self.tracing, bound) if self.tracing.arrays else bound

    def identity(self, value: Any, /) -> int:
        """`id`: that of the original of a copy."""
        return int(BUILTINS["id"](self.copies.original(value)))

    def attribute(self, value: Any, name: str, /, *default: Any) -> Any:
        """`getattr`, by a name that the code may have put together: what it finds is guarded."""
        self._note(value, name)
        return BUILTINS["getattr"](value, name, *default)

    def has_attribute(self, value: Any, name: str, /) -> bool:
        """`hasattr`, likewise."""
        self._note(value, name)
        return bool(BUILTINS["hasattr"](value, name))

    def _note(self, value: Any, name: object) -> None:
        """Note that an attribute was asked for, in an object and its classes."""
        thing = self.copies.original(value)
        if type(name) is str and not is_a(thing, (TracedArray, HostScalar)):
            kind = thing if is_a(thing, type) else type(thing)
            of_classes = [told(each, "__dict__") for each in told(kind, "__mro__")]
            for space in (namespace_of(thing), *of_classes):
                if is_a(space, (dict, MappingProxyType)):
                    self.read.note(space, name)
                    if type(space.get(name)) is MemberDescriptorType and thing is not kind:
                        held = getattr(thing, name, ABSENT)
                        self.remembered.append(NameGuard(Slots(thing), name, held, False))

    def ways_past(self) -> list[Any]:
        """What may lead to arrays that are no stand-ins: what the function met as it is."""
        found = [*self.left, *self.tracing.uncopied]
        if not self.copies.names.isdisjoint(LOOKING_CLOSELY):
            found += self.copies.shadowed
        for function in self.originals:
            space = vars(function)
            found += [space[name] for name in self.copies.names & space.keys()]
        return found

    def check_identity(self, things: Iterable[Any], around: Iterable[NameGuard], name: str) -> None:
        """Refuse a function that may compare a copy with what it is a copy of.

        Args:
            things: the arguments.
            around: guards of all that the function reaches.
            name: what the function is called, for the message.

        Raises:
            Unsupported: it asks whether two things are one, and met one as it is and as a copy.
        """
        if not any(asks_identity(function.__code__) for function in self.seen):
            return
        if self.tracing.named:
            things = self.ways_past()
            around, _ = look_past(things, self.copies.names)
        else:
            things = [thing for thing in things if type(thing) is not FunctionType]
        copies = {*self._by_name, *self.makers, *self.copies.copied}
        if any(id(thing) in copies for thing in (*things, *held(around))):
            found = "it may ask whether two functions, or two objects, are one"
            raise Unsupported("not-traceable", name, found, "")

    def unchanged(
        self, known: Iterable[NameGuard], met: Iterable[Any], without: Collection[tuple[int, str]]
    ) -> list[Unchanged]:
        """Guards of names that were read and that no other guard covers.

        Args:
            known: other guards.
            met: what the function reaches; the functions among it may have run as they are.
            without: names that need no guard, by the identity of their namespace.
        """
        seen = {id(function.__code__) for function in self.seen}
        functions = [each for each in met if type(each) is FunctionType]
        left = [each for each in functions
                if id(each.__code__) not in seen and root(each.__globals__) not in STABLE]
        for function in left:
            space = function.__globals__
            for name in global_names(function.__code__):
                if (id(space), name) not in without:
                    self.read.note(space, name)
        codes = [function.__code__ for function in (*self.seen, *left)]
        return self.read.guards(known, codes)

    def check_globals(self) -> None:
        """Refuse a function that has stored global names by text.

        Raises:
            Unsupported: it has.
        """
        for names in self.namespaces.values():
            if stored := names.assigned():
                raise Unsupported("side-effect", stored[0], "it is assigned", "")

    def callable(self, function: Any) -> Any:
        """A function whose globals and closure are seen through this substitution."""
        if type(function) is MethodType:
            plain, owner = self.callable(function.__func__), function.__self__
            if self.tracing.named:
                owner = self._reached(owner)
            same = plain is function.__func__ and owner is function.__self__
            return function if same else MethodType(plain, owner)
        if type(function) is not FunctionType or not _substitutable(function):
            self.left.append(function)
            return function
        found = self.functions.get(id(function))
        return self._copy(function) if found is None else found

    def _copy(self, function: FunctionType) -> FunctionType:
        """The function with other globals and cells."""
        numpy = self.reducing if _reduces(function.__code__) else self.numpy
        if codes.compares_identity(function.__code__):
            numpy = self.plain
            if _compares(function.__code__, function.__globals__, _is_replaced, both=False):
                found = "it asks whether something is a built-in function"
                raise Unsupported("impure", function.__name__, found, "")
        key = id(function.__globals__), id(numpy)
        names = self.namespaces.get(key)
        if names is None:
            names = self.namespaces[key] = Names(self, function.__globals__, numpy)
        self.seen.append(function)
        if self.tracing.named:
            self.copies.names |= names_of(function.__code__)
            self.originals.append(function)
        cells = function.__closure__
        closure = None if cells is None else tuple(self._cell(cell, numpy) for cell in cells)
        filled = list(zip(cells or (), closure or (), strict=True))
        code = function.__code__
        if (twin := _twin(function)) is not None:
            free = dict(zip(code.co_freevars, closure or (), strict=True))
            code = twin.code
            closure = tuple(free[name] for name in code.co_freevars) or None
        for name in code.co_names:
            if (made := self._called(function.__globals__, name)) is not None:
                self.read.note(function.__globals__, name)
                code = codes.calling(code, name, CALLED_AS + name)
                dict.__setitem__(names, CALLED_AS + name, made)
        copy = FunctionType(code, names, function.__name__, function.__defaults__, closure)
        self.functions[id(function)] = copy  # before its cells, which may lead back to it
        self.copied[id(copy)] = function
        if self.tracing.named:
            given = function.__defaults__
            copy.__defaults__ = given and tuple(self.value(each, numpy) for each in given)
        for cell, new in filled:
            if new is not cell and _is_empty(new):
                new.cell_contents = self.callable(cell.cell_contents)
        copy.__kwdefaults__ = function.__kwdefaults__
        if self.tracing.named and function.__kwdefaults__:
            named = function.__kwdefaults__.items()
            copy.__kwdefaults__ = {name: self.value(each, numpy) for name, each in named}
        copy.__dict__ = function.__dict__  # what is set on it shows, and is put back
        for name in _SAID:
            setattr(copy, name, getattr(function, name))
        self.copies.note_callable(function, copy)
        return copy

    def _called(self, space: dict[str, Any], name: str) -> Any:
        """What stands for a class of Python's or NumPy's where a name of it is called; or None."""
        if name in space:
            maker = makers.of_class(space[name])
            return None if maker is None else self.making(maker)
        known = name in CALLED and getattr(builtins, name, None) is _BUILT_IN[name]
        return CALLED[name] if known else None

    def _cell(self, cell: CellType, numpy: _Module) -> CellType:
        """A cell with a replaced value, or the cell itself; one for a function is empty still."""
        try:
            value = cell.cell_contents
        except ValueError:  # not set yet
            return cell
        if type(value) is FunctionType and _substitutable(value):
            return CellType()
        new = self.value(value, numpy)
        return cell if new is value else CellType(new)

    def value(self, value: Any, numpy: _Module) -> Any:
        """What a name stands for while tracing, in code that sees this NumPy."""
        if value is np:
            return numpy
        if id(value) in _REPLACED:
            return self.builtins[_REPLACED[id(value)]]
        if value is builtins:
            return types.SimpleNamespace(**{**vars(builtins), **BUILTINS})
        if value is np.errstate:
            return numpy.errstate
        if id(value) in self.makers:
            return getattr(numpy, self.makers[id(value)])
        if type(value) is _DISPATCHED:
            return numpy.taking_lists(value)
        if self.tracing.named and has_elements(value):
            return self._stand_in(value)
        if type(value) is REMEMBERING:
            self.left.append(value)
            asking = without_memory(value, self._remembered)
            self.copies.note_callable(value, asking)
            return asking
        if type(value) is partial and type(value.func) is types.BuiltinFunctionType:
            from fuser.capture.effects import watched_partial  # few functions have any

            self.left.append(value)
            return watched_partial(value)
        if (other := self._of_another_package(value, numpy)) is not value:
            return other
        if type(value) is FunctionType or (type(value) is MethodType and self.tracing.named):
            self._by_name[id(value)] = value
            return self.callable(value)
        return self._reached(value) if self.tracing.named else value

    def _of_another_package(self, value: Any, numpy: _Module) -> Any:
        """What stands for what SciPy or CuPy has, or for a vectorized function; else itself."""
        if "scipy" in sys.modules or type(value) is np.vectorize:
            from fuser.capture import other_packages  # most programs have neither

            if (other := other_packages.seen(self.tracing, value)) is not value:
                self.left.append(value)
                self.copies.note_callable(value, other)
                return other
        if sys.modules.keys().isdisjoint(ALIKE):
            return value
        from fuser.capture import numpy_alike

        return numpy_alike.seen(value, self.tracing, numpy, self.read.note)

    def _remembered(self, function: Any, args: Any, kwargs: Any) -> Any:
        """What a function gives that keeps its results; later calls ask it again, and compare.

        Its code runs here if it has kept none, and then not again: what it changes stays.

        Raises:
            Unsupported: what it gives cannot be compared.
        """
        replay, (_, misses, most, kept) = self.tracing.replay, function.cache_info()
        if most is not None and kept >= most:
            raise Unsupported("impure", str(function.__name__), "it may have to forget a result")
        if replay.settle is not None:
            replay.settle()
        found = function(*args, **kwargs)
        if replay.look is not None and function.cache_info().misses != misses:
            replay.look()
        name, array = str(function.__name__), has_elements(found)
        known = found if array else snapshot(found, name)
        by_value = not array and type(known) is not FunctionType
        asked = Asked(partial(remembered, function, args, kwargs), runs=True)
        self.remembered.append(NameGuard(asked, name, known, by_value))
        if not array and any(True for _ in arrays_of(known)):
            raise Unsupported("impure", name, f"it remembers arrays in a {type(found).__name__}")
        if not array and root(module_of(type(found))) not in STABLE:
            raise Unsupported("impure", name, f"it remembers a {type(found).__name__}")
        self.tracing.given += [(None, thing) for _, thing in changeable(found)]
        return self.value(found, self.numpy)

    def named(self, scope: dict[str, Any], name: str, value: Any, numpy: _Module) -> Any:
        """What a name in a namespace stands for."""
        if self.tracing.named and (has_elements(value) or self.copies.leads(value)):
            self.copies.holders.append((scope, name, value))
        return self.value(value, numpy)

    def _reached(self, value: Any) -> Any:
        """What stands for a container, a module or an object; itself where no array is in it."""
        if type(value) is types.ModuleType:
            names = self.copies.names
            if not (self._leads(value, set()) or _names_what_asks_types(value, names)):
                self.left.append(value)
                return value
            return self.modules.setdefault(id(value), _UserModule(self, value))
        made = self.copies.of(value)
        if not leads_nowhere(made):
            self.left.append(made)
        return made

    def _leads(self, module: types.ModuleType, seen: set[int]) -> bool:
        """Whether code that names it so reaches what is copied, by it or by one that it holds."""
        seen.add(id(module))
        for value in self.copies.named_in(module, self.copies.names):
            if type(value) is types.ModuleType:
                known = id(value) in seen or root(value.__name__) in STABLE
                if not known and self._leads(value, seen):
                    return True
            elif has_elements(value) or self.copies.is_copied(value):
                return True
        return False

    def admits(self, value: Any) -> bool:
        """Whether something that is called in a loop changes nothing but its arguments."""
        if type(value) is FunctionType:
            plain = self.copied.get(id(value), value)
            return plain.__module__ == "fuser.functional" or is_evident(plain, (), True)
        if type(value) is types.BuiltinFunctionType:
            return value.__module__ == "math" or value.__name__ in evident.BUILTINS
        if type(value) is partial:
            return value.func is makers.stand_in or value.func in makers.MAKERS.values()
        if type(value) is types.ModuleType:
            return value.__name__ in ("numpy", "math", "fuser.functional")
        return is_a(value, (_Module, TakingLists, np.ufunc, _DISPATCHED))

    def _in_copies(self, value: Any) -> Any:
        """What stands for an array or a function that a container or an object holds."""
        if has_elements(value):
            return self._stand_in(value, spare=True)
        if type(value) is REMEMBERING:
            return self.value(value, self.numpy)
        return self.callable(value.__wrapped__ if is_fused(value) else value)

    def _stand_in(self, array: Any, spare: bool = False) -> Any:
        """What stands for an array; itself where kernels do not know its like."""
        plain = type(array) is np.ndarray or not is_a(array, np.ndarray)
        dtype = getattr(array, "dtype", None)
        if plain and isinstance(dtype, np.dtype) and makers.is_plain(dtype):
            return self.tracing.by_name(array, spare)
        self.left.append(array)
        return array


def _is_empty(cell: CellType) -> bool:
    """Whether nothing has been put into a cell."""
    try:
        cell.cell_contents  # noqa: B018 - it raises
    except ValueError:
        return True
    return False


def _substitutable(function: FunctionType) -> bool:
    """Whether a copy of a function does what the function does."""
    return root(function.__module__) not in UNCHANGED and not _writes_globals(function.__code__)


@memo(1024)
def _writes_globals(code: CodeType) -> bool:
    """Whether a function, or one inside it, assigns to global names or to its closure's."""
    return any(
        step.opcode in _STORES and (step.opname != "STORE_DEREF" or step.argval in part.co_freevars)
        for part in codes.codes_in(code) if not _STORES.isdisjoint(part.co_code[::2])
        for step in dis.get_instructions(part)
    )  # fmt: skip


@memo(1024)
def _reduces(code: CodeType) -> bool:
    """Whether a function, or one inside it, speaks of `reduce`, as in `np.maximum.reduce`."""
    return any("reduce" in part.co_names for part in codes.codes_in(code))


@memo(4096)
def asks_types(code: CodeType) -> bool:
    """Whether a function, or one inside it, names `type`; `x.dtype.type` does not."""
    return any(
        step.argval == "type" and step.opname.startswith(("LOAD_GLOBAL", "LOAD_NAME"))
        for part in codes.codes_in(code)
        for step in (dis.get_instructions(part) if "type" in part.co_names else ())
    )


def _names_what_asks_types(module: types.ModuleType, names: set[str]) -> bool:
    """Whether functions that code finds in a module, and those that they name, ask for types."""
    if root(module.__name__) in UNWATCHED | UNCHANGED | sys.stdlib_module_names:
        return False
    waiting = [vars(module)[name] for name in names & vars(module).keys()]
    seen: set[int] = set()
    while waiting and len(seen) < _FUNCTIONS:
        function = waiting.pop()
        if type(function) is not FunctionType or id(function) in seen:
            continue
        if asks_types(code := function.__code__):
            return True
        seen.add(id(function))
        space = function.__globals__
        waiting += [space[name] for name in code.co_names if name in space]
    return False


@memo(1024)
def compares_truth(code: CodeType) -> bool:
    """Whether a function asks whether something is True itself, or False itself."""
    return any(codes.is_constant(step, (True, False)) for step in codes.right_of_is(code))


def decides_by_truth(function: Any) -> bool:
    """Whether a function, or one that it names, asks whether something is True itself."""
    return _reaches(function, lambda each: compares_truth(each.__code__))


def compares_arrays(function: Any) -> bool:
    """Whether a function, or one that it names, may ask whether two arrays are one (`x is y`)."""
    return _compares_such(function, has_elements)


def compares_lists(function: Any, given: int) -> bool:
    """Whether it may ask that of two lists or dicts, so many of which are arguments."""
    if given < 2:
        return given == 1 and _compares_such(function, is_changeable, both=False)
    return _compares_such(function, is_changeable)


def _is_replaced(value: Any) -> bool:
    """Whether a value is a built-in function in whose place a trace has another object."""
    return id(value) in _REPLACED and value is not type


def is_changeable(value: Any) -> bool:
    """Whether a value is a list or a dict."""
    return type(value) is list or type(value) is dict


def _compares_such(function: Any, such: Callable[[Any], bool], both: bool = True) -> bool:
    """Whether a function, or one that it names, may ask whether two things of a kind are one.

    Args:
        function: any function.
        such: whether a value is of the kind.
        both: both may be what no global name tells; else it has to tell one of them.
    """

    def compares(each: FunctionType) -> bool:
        code = each.__code__
        found = (_compares(part, each.__globals__, such, both) for part in codes.codes_in(code))
        return codes.compares_identity(code) and any(found)

    return _reaches(function, compares)


def _reaches(function: Any, asks: Callable[[FunctionType], bool], depth: int = 8) -> bool:
    """Whether something holds of a function, or of one that it names, and so on."""
    function = getattr(function, "__func__", function)
    if type(function) is not FunctionType or depth == 0 or not _substitutable(function):
        return False
    if asks(function):
        return True
    names = {name for part in codes.codes_in(function.__code__) for name in part.co_names}
    named = [function.__globals__.get(name) for name in names]
    for cell in function.__closure__ or ():
        with suppress(ValueError):  # not set yet
            named.append(cell.cell_contents)
    return any(_reaches(each, asks, depth - 1) for each in named if each is not function)


def _compares(
    code: CodeType, names: dict[str, Any], such: Callable[[Any], bool], both: bool
) -> bool:
    """Whether code asks `is` of two things neither of which a global name settles as no such."""
    steps = list(dis.get_instructions(code))
    for place, step in enumerate(steps):
        if step.opname == "IS_OP":
            right, before = _operand(steps, place - 1, names)
            left, _ = _operand(steps, before, names)
            told = [value for value in (left, right) if value is not _UNKNOWN]
            if all(map(such, told)) and (both or told):
                return True
    return False


#: What an operand is that no global name, and no constant, settles.
_UNKNOWN = object()


def _operand(steps: list[Any], place: int, names: dict[str, Any]) -> tuple[Any, int]:
    """What the instructions that end at a place put on the stack, and where those before end."""
    parts: list[str] = []
    while place >= 0 and steps[place].opname in ("LOAD_ATTR", "EXTENDED_ARG"):
        if steps[place].opname == "LOAD_ATTR":
            parts.append(steps[place].argval)
        place -= 1
    if place < 0:
        return _UNKNOWN, -1
    step = steps[place]
    if step.opname == "LOAD_CONST":
        return step.argval, place - 1
    if step.opname in ("LOAD_FAST", "LOAD_DEREF"):
        return _UNKNOWN, place - 1
    if step.opname not in ("LOAD_GLOBAL", "LOAD_NAME"):
        return _UNKNOWN, -1
    found = names.get(step.argval, vars(builtins).get(step.argval, _UNKNOWN))
    for part in reversed(parts):
        space = namespace_of(found)
        found = space[part] if is_a(space, (dict, MappingProxyType)) and part in space else _UNKNOWN
    return found, place - 1


def _twin(function: FunctionType) -> Staged | None:
    """The twin of a function with loops that are not known to be short, see `staging`."""
    code = function.__code__
    if not codes.may_have_twin(code):
        return None
    if codes.has_loops(code) and codes.has_short_loops(function):
        return None
    from fuser.capture.staging import staged  # most functions have none

    return staged(code)


def _loop(substitution: Substitution, source: Any, *told: Any) -> Any:
    """The object that a twin asks what its loop does next."""
    if source is codes.WALK:
        from fuser.capture.loop_walks import Walk  # most functions have none

        return Walk(*told)
    from fuser.capture.staging import LoopSource

    if type(source) is not LoopSource:
        from fuser.capture.element_staging import NotTaken, is_of_arrays
        from fuser.capture.loops import is_short

        if is_of_arrays(source, sys._getframe(1).f_locals):
            return NotTaken
        tracing = substitution.tracing
        if told[-1] and (tracing.looking or is_short(tracing, told[-1])):
            return NotTaken  # a comprehension
        from fuser.capture.element_loops import ElementLoop  # most functions have none

        return ElementLoop(tracing, source, substitution.refused)
    from fuser.capture.loops import Loop

    return Loop(substitution.tracing, substitution.admits, substitution.looked, source, *told)


class Names(dict[str, Any]):
    """A module's globals, looked up when they are needed."""

    def __init__(
        self, substitution: Substitution, original: dict[str, Any], numpy: _Module
    ) -> None:
        found = original.get("__builtins__", builtins)
        space = vars(found) if type(found) is types.ModuleType else found
        super().__init__({"__builtins__": {**space, "__import__": self._imported}})
        super().__setitem__(codes.LOOPS, partial(_loop, substitution))
        if "__name__" in original:  # asked for at every operation, to find the user's line
            super().__setitem__("__name__", original["__name__"])
        self._substitution = substitution
        self.original = original
        self._numpy = numpy

    #: Functions with such globals reach no array but by a stand-in.
    replaces = True

    def _imported(self, name: str, *args: Any, **kwargs: Any) -> Any:
        """A module that a function imports: seen as one that it has by name."""
        try:
            found = builtins.__import__(name, *args, **kwargs)
        except ImportError:  # it may be there at a later call
            self._substitution.read.note(sys.modules, name)
            raise
        if not self._substitution.tracing.named or root(found.__name__) in STABLE:
            return found
        return self._substitution.value(found, self._numpy)

    def __missing__(self, key: str) -> Any:
        """A global of the module, replaced where it is NumPy's."""
        self._substitution.read.note(self.original, key)
        if key in self.original:
            found = self.original[key]
            return self._substitution.named(self.original, key, found, self._numpy)
        if (found := vars(builtins)[key]) is not _BUILT_IN.get(key, found) or is_put_in(found):
            return self._substitution.value(found, self._numpy)
        if key in BUILTINS:
            return self._substitution.builtins[key]
        raise KeyError(key)

    def __setitem__(self, key: str, value: Any) -> None:
        """Refused, but for what the interpreter itself puts there: the module would not see it."""
        if key != "__builtins__":
            raise Unsupported("side-effect", key, "it is assigned")
        super().__setitem__(key, value)

    def __contains__(self, key: object) -> bool:
        """Whether the module has such a global."""
        return key in self.original

    def _every(self, *_: Any) -> Any:
        """Refused: a name may be added later, and what each stands for is not looked at."""
        raise _looking_at_every("globals()")

    __iter__ = __len__ = __reversed__ = __or__ = __ror__ = __eq__ = __ne__ = __repr__ = _every
    keys = values = items = copy = _every

    def _changed(self, *_: Any, **__: Any) -> Any:
        """Refused: the module would not see it."""
        raise Unsupported("side-effect", "globals()", "it is changed")

    pop = popitem = clear = update = setdefault = __delitem__ = __ior__ = _changed

    def assigned(self) -> list[str]:
        """Names that the interpreter has stored here, as `exec("global k; k = 1")` has it do."""
        own = {"__builtins__", "__name__", codes.LOOPS}
        return sorted(name for name in dict.keys(self) - own if not name.startswith(CALLED_AS))

    def get(self, key: str, default: Any = None) -> Any:
        """A global, or the default."""
        return self[key] if key in self.original else default


class _AsModule:
    """What stands for a module: its names are looked up one by one."""

    __slots__ = ()

    @property
    def __dict__(self) -> Any:  # type: ignore[override] # nobody may write it, either
        """Refused: a name may be added later, and what each stands for is not looked at."""
        raise _looking_at_every("vars() of a module")

    def __dir__(self) -> Any:
        """Refused, likewise."""
        raise _looking_at_every("dir() of a module")


def _looking_at_every(name: str) -> Unsupported:
    """The error of code that goes through the names of a module."""
    return Unsupported("impure", name, "it may look at every name")


class _UserModule(_AsModule):
    """A module of the user's, with stand-ins for the arrays in it."""

    __slots__ = ("_module", "_substitution")

    def __init__(self, substitution: Substitution, module: types.ModuleType) -> None:
        object.__setattr__(self, "_substitution", substitution)
        object.__setattr__(self, "_module", module)

    def __getattr__(self, name: str) -> Any:
        """The module's own, as it is seen."""
        seen = self._substitution
        seen.read.note(vars(self._module), name)
        found = getattr(self._module, name)
        return seen.named(vars(self._module), name, found, seen.numpy)

    def __setattr__(self, name: str, value: Any) -> None:
        """Refused: others would see it."""
        raise Unsupported("side-effect", f"{self._module.__name__}.{name}", "it is assigned")

    def __delattr__(self, name: str) -> None:
        """Refused."""
        raise Unsupported("side-effect", f"{self._module.__name__}.{name}", "it is deleted")


class _Module(_AsModule):
    """NumPy, or a part of it, with some functions replaced."""

    __slots__ = ("_module", "_read", "_reduces", "_seen", "_takes_lists", "_taking", "_tracing")

    def __init__(
        self, seen: Substitution, module: Any, takes_lists: bool = True, reduces: bool = False
    ) -> None:
        self._seen = seen
        self._tracing = seen.tracing
        self._read = seen.read
        self._reduces = reduces
        self._module = module
        self._takes_lists = takes_lists
        self._taking: dict[int, Any] = {}

    def __getattr__(self, name: str) -> Any:
        """NumPy's own, or a maker of this trace."""
        self._read.note(vars(self._module), name)
        if self._module is np:
            maker = makers.MAKERS.get(name)
            if maker is not None and id(getattr(np, name, None)) in _MAKERS_OF_NUMPY:
                return self._seen.making(maker)
            if name == "vectorize":
                from fuser.capture import other_packages  # few functions need it

                return partial(other_packages.vectorize, self._tracing)
            if name == "errstate":
                return partial(error_states.errstate, self._tracing.errors)
            if name in ("r_", "c_", "mgrid", "ogrid"):
                from fuser.capture import brackets  # likewise

                return brackets.BRACKETS[name](self._tracing, name)
            if name == "linalg" and self._takes_lists:
                return _Module(self._seen, np.linalg, self._takes_lists)
        found = getattr(self._module, name)
        if type(found) is type and (maker := makers.of_class(found)) is not None:
            called = is_a_call(sys._getframe(1))  # not for isinstance, `is` or `dtype=`
            return self._seen.making(maker) if called else found
        if is_put_in(found):
            return self._seen.value(found, self)
        if self._reduces and type(found) is np.ufunc:
            return ReducingLists(self._tracing, found)
        return self.taking_lists(found) if type(found) is _DISPATCHED else found

    def taking_lists(self, function: Any) -> Any:
        """A NumPy function that takes lists with traced values, which no protocol tells of."""
        if not self._takes_lists:
            return function
        made = self._taking.get(id(function))
        if made is None:
            made = self._taking[id(function)] = TakingLists(self._tracing, function)
        return made


def is_a_call(frame: FrameType) -> bool:
    """Whether a frame looks an attribute up to call it at once, as `np.ndarray(n)` does.

    The shortest expression that begins where the attribute's begins, and is longer, is a call then.
    Where code has no positions, nothing is known to be one.
    """
    code, found = frame.f_code, []
    places: list[Any] = list(code.co_positions())
    line, end, column, last = places[frame.f_lasti // 2]
    for place, (first, final, begin, stop) in enumerate(places):
        known = None not in (line, column, end, last, final, stop)
        if known and (first, begin) == (line, column) and (final, stop) > (end, last):
            found.append((final, stop, dis.opname[code.co_code[2 * place]].startswith(_CALLS)))
    nearest = min(found, default=(0, 0, False))[:2]
    return any(calls for *where, calls in found if tuple(where) == nearest)


#: How names of instructions that call begin.
_CALLS = ("CALL", "PRECALL")
#: The makers that NumPy itself has: another one in its place is somebody else's.
_MAKERS_OF_NUMPY = {id(made) for name in makers.MAKERS if (made := getattr(np, name, None))}
#: NumPy's functions that hand their arguments over to `__array_function__`.
_DISPATCHED = type(np.sum)


class TakingLists(Replaced):
    """A NumPy function while it is traced: called with lists, it is traced, too."""

    def __init__(self, tracing: Tracing, function: Any) -> None:
        """Stand for `function`."""
        self._tracing = tracing
        self.__wrapped__ = function

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Run or trace the function."""
        from fuser.tracing import sequences

        if any(sequences.has_traced(value) for value in (*args, *kwargs.values())):
            return self._tracing.apply_function(self.__wrapped__, args, kwargs)
        return self.__wrapped__(*args, **kwargs)

    def __getattr__(self, name: str) -> Any:
        """Everything else is the function's own."""
        return getattr(self.__wrapped__, name)

    def __eq__(self, other: object) -> bool:
        """Equal to the function."""
        return plain_function(other) is self.__wrapped__

    def __hash__(self) -> int:
        """The function's."""
        return hash(self.__wrapped__)

    def __repr__(self) -> str:
        """The function's."""
        return repr(self.__wrapped__)


class ReducingLists(TakingLists):
    """A ufunc while it is traced: `reduce` takes lists with traced arrays, too."""

    def reduce(self, array: Any, *args: Any, **kwargs: Any) -> Any:
        """Reduce an array, or a list as the array that NumPy makes of it."""
        from fuser.tracing import sequences

        if sequences.has_traced(array):
            array = sequences.put_together(self._tracing, array)
        return self.__wrapped__.reduce(array, *args, **kwargs)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """The ufunc."""
        return self.__wrapped__(*args, **kwargs)


def original(
    function: FunctionType, traced: list[Any] | None = None, free: Any = None
) -> FunctionType | None:
    """A function without what a trace has put into its globals and cells.

    None where it reaches what is known only while tracing, but for arrays and numbers in its own
    cells, where `traced` is given: they are added to it, and their cells hold `free`.
    """
    names, cells = function.__globals__, function.__closure__ or ()
    try:
        held = [cell.cell_contents for cell in cells]
    except ValueError:  # a cell that nothing has been put into
        return None
    given = [*(function.__defaults__ or ()), *(function.__kwdefaults__ or {}).values()]
    plain = [_untraced(value) for value in held]
    for place, value in enumerate(held):
        if traced is not None and isinstance(value, (TracedArray, HostScalar)):
            traced.append(value)
            plain[place] = free
    if any(value is _TRACED for value in (*plain, *map(_untraced, given))):
        return None
    same = all(new is old for new, old in zip(plain, held, strict=True))
    code = codes.plain(function.__code__)
    if type(names) is not Names and same and code is function.__code__:
        return function
    known = names.original if type(names) is Names else names
    closure = tuple(
        cell if new is old else CellType(new)
        for cell, old, new in zip(cells, held, plain, strict=True)
    )
    free = dict(zip(function.__code__.co_freevars, closure, strict=True))
    closure = tuple(free[name] for name in code.co_freevars)
    made = FunctionType(code, known, function.__name__, function.__defaults__, closure or None)
    made.__kwdefaults__ = function.__kwdefaults__
    made.__qualname__, made.__module__ = function.__qualname__, function.__module__
    return made


_TRACED = object()


def _untraced(value: Any) -> Any:
    """What a name stands for without a trace; `_TRACED` for what is known only in it."""
    from fuser.capture import brackets, numpy_alike, other_packages  # loops alone ask

    made = (TracedArray, HostScalar, partial, *brackets.BRACKETS.values())
    if issubclass(type(value), made):
        return _TRACED
    if type(value) in (_Module, _UserModule, other_packages.Package, numpy_alike.Alike):
        return value._module
    if type(value) in (list, tuple, dict, set):
        return _TRACED  # what is in it may change
    if type(value) is FunctionType:
        return original(value) or _TRACED
    return plain_function(value)
