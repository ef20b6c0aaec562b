"""Whether a function's code shows that it always does the same, and changes nothing outside."""

from __future__ import annotations

import builtins
import opcode
from collections.abc import Collection, Iterable
from types import BuiltinFunctionType, FunctionType, ModuleType
from typing import Any

import numpy as np

from fuser.base.protocols import is_a, is_scalar
from fuser.capture.codes import codes_in, has_loops, has_short_loops

#: Functions whose code is looked at; of one that needs more it says nothing.
_FUNCTIONS = 64
#: Instructions that leave something behind: what is seen next time may differ.
_STORING = frozenset(
    opcode.opmap[name]
    for name in (
        "STORE_GLOBAL", "DELETE_GLOBAL", "STORE_ATTR", "DELETE_ATTR", "IMPORT_NAME", "IMPORT_FROM",
    )
    if name in opcode.opmap
)  # fmt: skip
#: Likewise, where a variable may be that of a function around.
_STORING_AROUND = frozenset(opcode.opmap[name] for name in ("STORE_DEREF", "DELETE_DEREF"))
#: Built-in names whose values depend on their arguments alone.
BUILTINS = frozenset(
    "abs all any bool complex dict divmod enumerate float int isinstance len list max min pow "
    "range reversed round slice str sum tuple zip "
    "ValueError TypeError AssertionError NotImplementedError RuntimeError".split()
)
#: What NumPy has beside universal, dispatched functions and numbers that is always the same.
_NUMPY = frozenset("linalg fft array asarray zeros ones full arange eye finfo iinfo dtype".split())

#: NumPy's makers of arrays whose elements are whatever the memory held.
_EMPTY = ("empty", "empty_like")


def is_evident(function: Any, leaves: Iterable[Any], arrays: bool = False) -> bool:
    """Whether a function's code alone shows that a second trace would be the same.

    Its code, and that of every Python function that it names, reaches nothing but NumPy's own
    functions, numbers, text and its arguments, and stores nothing outside of itself. False says
    nothing: arrays, objects and other modules that it names may change.

    Args:
        function: what is traced.
        leaves: its arguments.
        arrays: it may reach arrays by name, of which something else keeps track, and make arrays
            that hold nothing yet.
    """
    if not all(is_plain(leaf) or type(leaf) is np.ndarray for leaf in leaves):
        return False
    waiting, seen = [function], set()
    while waiting:
        current = waiting.pop()
        if id(current) in seen:
            continue
        seen.add(id(current))
        if type(current) is not FunctionType or len(seen) > _FUNCTIONS:
            return False
        cells = current.__closure__ or ()
        try:
            reached = [cell.cell_contents for cell in cells]
        except ValueError:  # a cell that nothing has been put into
            return False
        reached += [*(current.__defaults__ or ()), *(current.__kwdefaults__ or {}).values()]
        names: set[str] = set()
        for code in codes_in(current.__code__):
            done = {*code.co_code[::2]}
            if done & _STORING or (code.co_freevars and done & _STORING_AROUND):
                return False
            names.update(code.co_names)
        space = getattr(current.__globals__, "original", current.__globals__)
        for name in names:
            if name in space:
                reached.append(space[name])
                if hasattr(np, name) and not _is_known_name(name):  # it may be NumPy's that is read
                    return False
            elif not (_is_known_name(name) or (arrays and name in _EMPTY)):
                return False
        for value in reached:
            if type(value) is FunctionType and value.__module__ != "fuser.functional":
                waiting.append(value)
            elif not (is_known(value, names) or (arrays and _is_tracked(value))):
                return False
    return True


def is_straight(function: Any) -> bool:
    """Whether a function that is evident runs few instructions, and no other code.

    Those of loops are few where `has_short_loops` holds, all others run once.

    Args:
        function: for which `is_evident` holds.
    """
    code, space = function.__code__, function.__globals__
    reached = [space[name] for name in code.co_names if name in space]
    reached += [cell.cell_contents for cell in function.__closure__ or ()]
    if len(codes_in(code)) > 1 or any(type(each) is FunctionType for each in reached):
        return False
    return not has_loops(code) or has_short_loops(function)


def _is_tracked(value: Any) -> bool:
    """An array that is reached by name, or what stands for a value in a trace."""
    if type(value) is np.ndarray:
        return True
    from fuser.capture.loop_values import is_value  # most first calls have no loops

    return is_value(value)


def is_plain(value: Any) -> bool:
    """Numbers, text, and tuples of them."""
    if type(value) is tuple:
        return all(map(is_plain, value))
    return is_scalar(value) or is_a(value, np.dtype)


def _is_known_name(name: str) -> bool:
    """A built-in function that is always the same, or an attribute that leads nowhere else."""
    if name in BUILTINS:
        return True
    if hasattr(builtins, name) or name.startswith(("__", "empty", "ctypes", "data")):
        return False
    return not hasattr(np, name) or name in _NUMPY or is_known(getattr(np, name), ())


def is_known(value: Any, names: Collection[str]) -> bool:
    """Whether a value that code names is always the same.

    Args:
        value: what a global name or an attribute of NumPy is.
        names: all names in the code: what it may look up in a module.
    """
    if type(value) is ModuleType:
        if value.__name__ == "fuser":
            return {*names} & {*dir(value)} <= {"functional"}
        return value.__name__ in ("numpy", "math", "fuser.functional")
    if is_a(value, type):
        return issubclass(value, np.generic) or getattr(builtins, value.__name__, None) is value
    if is_a(value, np.ufunc) or is_plain(value):
        return True
    if type(value) is FunctionType:
        return value.__module__ == "fuser.functional"
    if type(value) is BuiltinFunctionType:
        return value.__module__ == "math"
    return type(value) is type(np.sum)
