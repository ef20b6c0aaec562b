"""What code that a trace cannot see through asks of stand-ins.

Functions that are reached by their names run with other globals while they are traced
(`namespace`), where `type` and `is True` mean what they mean with arrays. Methods of objects and
functions of other modules run as they are. So the first trace of a function that may reach such
code is watched: it is given up where that code asks for a stand-in's type, and before it prints,
warns, logs, waits, or changes files.
"""

from __future__ import annotations

import gc
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from types import (
    BuiltinFunctionType,
    CodeType,
    FrameType,
    FunctionType,
    MethodType,
    ModuleType,
)
from typing import Any

import numpy as np

from fuser.base import budget
from fuser.base.caches import memo
from fuser.base.errors import Unsupported, short_path
from fuser.base.packages import UNWATCHED, WITHOUT_CODE, root
from fuser.base.protocols import is_a, is_scalar, module_of, namespace_of, slots_of
from fuser.capture import staging
from fuser.capture.codes import codes_in
from fuser.capture.contents import parts_of
from fuser.capture.effects import EFFECTS, codes_with_effects, has_effect
from fuser.capture.namespace import Names, asks_types, compares_truth
from fuser.capture.permitted import is_permitted, is_permitted_code, is_trusted, may_read
from fuser.tracing.builtin_names import REMEMBERING, is_stand_in
from fuser.tracing.traced_scalars import HostScalar

#: Python's own import, which keeps what it compiles in files.
_IMPORTING = frozenset(("importlib", "_frozen_importlib", "_frozen_importlib_external"))
#: Names of what has effects, or of what may.
_EFFECTS_BY_NAME = frozenset(
    "print input open eval exec builtins warn warn_explicit sleep system write writelines truncate "
    "mkdir makedirs remove unlink rename replace rmdir kill Popen".split()
)
#: Names by which code finds functions that it does not name.
_BY_TEXT = frozenset(
    "getattr globals vars locals __dict__ attrgetter methodcaller import_module __import__ modules "
    "_getframe".split()
)
#: What leads nowhere.
_PLAIN = (np.ndarray, np.ufunc, np.dtype, BuiltinFunctionType)
#: A function that reaches more than so many things is watched.
_LOOKED_AT = 2000
#: Containers are looked into so far.
_DEPTH = 3
#: What holds no stand-ins.
_WITHOUT = (str, bytes, int, float, np.ndarray, type, ModuleType)
#: Values that are looked at for one step of the budget.
_LOOKS = 16


def may_ask(function: Any, leaves: Iterable[Any]) -> bool:
    """Whether code that a function may reach asks for types, or prints: if so, it is watched.

    Looked at is what it names, in modules and closures, and all methods of the objects that it and
    its arguments hold, up to `_LOOKED_AT` things.
    """
    waiting: list[Any] = [function, *leaves]
    names: set[str] = set()
    seen: set[int] = set()
    classes: set[int] = set()
    modules: list[ModuleType] = []
    while waiting:
        value = waiting.pop()
        if id(value) in EFFECTS or may_read(value):
            return True
        if id(value) in seen or is_scalar(value) or is_a(value, _PLAIN):
            continue
        seen.add(id(value))
        if len(seen) > _LOOKED_AT or module_of(type(value)) == "logging":
            return True
        if is_a(value, ModuleType):
            modules.append(value)
            waiting += [vars(value)[name] for name in names & vars(value).keys()]
            continue
        codes, held = _parts(value, classes)
        if any(map(_may_ask, codes)) or any(map(_finds_by_text, codes)):
            return True
        waiting += held
        for code in codes:
            new = {name for part in codes_in(code) for name in part.co_names} - names
            names |= new
            waiting += [vars(m)[name] for m in modules for name in new & vars(m).keys()]
    return False


def _parts(value: Any, classes: set[int]) -> tuple[list[CodeType], list[Any]]:
    """The code of a value, and what else may be reached through it.

    Args:
        value: anything.
        classes: those that were looked at, by identity; its own are added.
    """
    if type(value) is FunctionType:
        space = value.__globals__
        if root(space) in UNWATCHED:
            return [], []
        code = value.__code__
        held = [space[name] for part in codes_in(code) for name in part.co_names if name in space]
        for cell in value.__closure__ or ():
            with suppress(ValueError):  # not set yet
                held.append(cell.cell_contents)
        given = [*(value.__defaults__ or ()), *(value.__kwdefaults__ or {}).values()]
        return [code], held + given
    if is_a(value, (list, tuple, set, frozenset)):
        return [], list(parts_of(value))
    if is_a(value, dict):
        return [], list(dict.values(value))
    kinds = value.__mro__ if is_a(value, type) else (type(value), *type(value).__mro__)
    new = [kind for kind in kinds if id(kind) not in classes]
    classes.update(map(id, new))
    held = [each for kind in new if module_of(kind) not in WITHOUT_CODE for each in _own(kind)]
    if is_a(value, MethodType):
        return [], [*held, value.__func__, value.__self__]
    if is_a(value, partial):
        return [], [*held, value.func, value.args, value.keywords]
    if is_a(value, property):
        return [], [value.fget, value.fset]
    if is_a(value, (staticmethod, classmethod)) or type(value) is REMEMBERING:
        return [], [value.__wrapped__]
    if not is_a(value, type):
        held += [part for _, part in slots_of(value)]
    return [], [*held, namespace_of(value)]


def _own(kind: type) -> list[Any]:
    """What a class holds."""
    return list(vars(kind).values())


@memo(4096)
def _may_ask(code: CodeType) -> bool:
    """Whether a function, or one inside it, may ask for a type, or prints."""
    names = {name for part in codes_in(code) for name in part.co_names}
    return not names.isdisjoint(_EFFECTS_BY_NAME) or compares_truth(code) or asks_types(code)


@memo(4096)
def _finds_by_text(code: CodeType) -> bool:
    """Whether a function, or one inside it, may find functions that no name leads to."""
    return any(not _BY_TEXT.isdisjoint(part.co_names) for part in codes_in(code))


@contextmanager
def watched() -> Iterator[None]:
    """Watch the code that runs inside, on this thread.

    Raises:
        Unsupported: at once where it was about to print or the like; at the end where it asked for
            the type of a stand-in.
    """
    found: list[Unsupported] = []
    before: Any = sys.getprofile()
    stopped = before is not None and not callable(before)  # one that is written in C
    if stopped:
        before.disable()
    effects = codes_with_effects()
    outside = sys._getframe(2)  # who enters the context
    quiet: dict[tuple[int, str], CodeType] = {}  # by identity: a hash of code reads all of it

    def watch(frame: FrameType, event: str, arg: Any) -> None:
        if event == "c_call":
            if has_effect(arg) and _is_users(frame) and not _is_aside(frame, outside):
                found.append(_effect(arg.__name__, frame))
                raise found[-1]  # so it is not called
            if not is_permitted(arg) and not _is_trusted(frame) and not _is_aside(frame, outside):
                found.append(_reading(arg.__name__, frame))
                raise found[-1]
        elif event == "call" or event == "return":
            code, module = frame.f_code, _module(frame)
            if (id(code), module) in quiet:
                return
            if event == "call" and code in effects and not _is_aside(frame, outside):
                found.append(_effect(frame.f_code.co_name.strip("_"), _caller(frame)))
                raise found[-1]
            if event == "call" and _reads(frame) and not _is_aside(frame, outside):
                found.append(_reading(frame.f_code.co_name, _caller(frame)))
                raise found[-1]
            if _asks(frame):
                found.append(_asked(frame))
            elif not (_may_ask(code) or code in effects):
                if is_permitted_code(module, code.co_name):
                    quiet[id(code), module] = code

    sys.setprofile(watch)
    try:
        yield
    finally:
        sys.setprofile(None if stopped else before)
        if stopped:
            before.enable()
    try:
        if found:
            raise found[0]
    finally:
        found.clear()  # which lead to this frame


def _is_users(frame: FrameType) -> bool:
    """Whether code is neither ours nor NumPy's."""
    return root(frame.f_globals) not in UNWATCHED


def _is_aside(frame: FrameType, outside: FrameType) -> bool:
    """Whether code runs for what is not the function's doing.

    A module is imported, which happens once, traced or not; tracing reads the text of a source;
    or memory is cleared, of which somebody wants to know.
    """
    told = [getattr(callback, "__code__", None) for callback in gc.callbacks]
    above: FrameType | None = frame
    while above is not None and above is not outside:
        space = above.f_globals
        if root(space) in _IMPORTING or space is vars(staging) or above.f_code in told:
            return True
        above = above.f_back
    return False


def _asks(frame: FrameType) -> bool:
    """Whether code that is as it was asks for a type, or what is True, and has a stand-in."""
    code = frame.f_code
    if not _may_ask(code):
        return False
    types = asks_types(code)
    if root(frame.f_globals) in _IMPORTING:
        return False
    if (type(frame.f_globals) is Names and code.co_name != "<module>") or not _is_users(frame):
        return False
    return _holds(list(frame.f_locals.values()), types)


def _holds(values: list[Any], types: bool) -> bool:
    """Whether a value is a stand-in whose type, or truth, may be asked for, or holds one."""
    seen: set[int] = set()
    for _ in range(_DEPTH + 1):
        inside: list[Any] = []
        budget.spend("steps", len(values) // _LOOKS)
        for value in values:
            if is_stand_in(value):
                if types or (type(value) is HostScalar and value.kind is bool):
                    return True
                continue
            if is_a(value, _WITHOUT) or id(value) in seen:
                continue
            seen.add(id(value))
            if is_a(value, (list, tuple)):
                inside += parts_of(value)
                continue
            held = value if is_a(value, dict) else namespace_of(value)
            inside += dict.values(held) if is_a(held, dict) else ()
        values = inside
    return False


def _asked(frame: FrameType) -> Unsupported:
    """The error of code that asks for a type."""
    name = frame.f_code.co_name
    found = "it asks for types of values, where a trace has stand-ins"
    return Unsupported("not-traceable", name, found, _place(frame))


def _caller(frame: FrameType) -> FrameType:
    """The code that led to a call, not that of the module that has the function."""
    module = frame.f_globals.get("__name__")
    above: FrameType | None = frame
    while above is not None and above.f_globals.get("__name__") == module:
        above = above.f_back
    return frame if above is None else above


def _effect(name: str, frame: FrameType) -> Unsupported:
    """The error of code that prints, warns, logs or writes."""
    return Unsupported("side-effect", f"{name}()", "it is called", _place(frame))


def _reads(frame: FrameType) -> bool:
    """Whether the user's code calls a function of a known package that reads more than that."""
    if is_permitted_code(_module(frame), frame.f_code.co_name) or frame.f_back is None:
        return False
    return not _is_trusted(frame.f_back)


def _module(frame: FrameType) -> str:
    """The name of the module that code is of."""
    return str(frame.f_globals.get("__name__", ""))


def _is_trusted(frame: FrameType) -> bool:
    """Whether code is of a package that is known."""
    return is_trusted(_module(frame))


def _reading(name: str, frame: FrameType) -> Unsupported:
    """The error of code that calls what may give something else at each call."""
    found = "what it gives may depend on more than on its arguments"
    return Unsupported("impure", f"{name}()", found, _place(frame))


def _place(frame: FrameType) -> str:
    """The line of a frame."""
    return f"{short_path(frame.f_code.co_filename)}:{frame.f_lineno}"
