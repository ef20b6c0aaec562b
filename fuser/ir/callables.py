"""Python functions that NumPy calls between kernels, for each row, and names for them in text.

Two functions that do the same, as a lambda that is made anew by every call, have one name.
"""

from __future__ import annotations

from types import CellType, FunctionType
from typing import Any

from fuser.base import forks
from fuser.base.errors import GraphError

#: What a cell holds that is kept free for a value of each call.
FREE = object()
#: More functions than this are not remembered: what calls another one runs as a whole.
LIMIT = 1024
_lock = forks.lock()
_functions: dict[str, FunctionType] = {}
_names: dict[Any, str] = {}


def name_of(function: FunctionType) -> str | None:
    """The name of a function in this process; None where there are too many."""
    key = _key(function)
    with _lock:
        found = _names.get(key)
        if found is None and len(_functions) < LIMIT:
            plain = f"{function.__module__}.{function.__qualname__}"
            found, number = plain, 1
            while found in _functions:
                number += 1
                found = f"{plain}#{number}"
            _functions[found], _names[key] = function, found
        return found


def find(name: str) -> FunctionType:
    """The function of a name.

    Raises:
        GraphError: this process has none.
    """
    if name not in _functions:
        raise GraphError(f"this process knows no function {name!r}")
    return _functions[name]


def bound(name: str, *values: Any) -> FunctionType:
    """The function of a name, with values in the cells that are kept free for them."""
    function, given = find(name), iter(values)
    cells = (
        CellType(next(given)) if cell.cell_contents is FREE else cell
        for cell in function.__closure__ or ()
    )
    made = FunctionType(
        function.__code__, function.__globals__, function.__name__, function.__defaults__,
        tuple(cells),
    )  # fmt: skip
    made.__kwdefaults__ = function.__kwdefaults__
    made.__qualname__ = function.__qualname__
    return made


def _key(function: FunctionType) -> Any:
    """What a function does: its code, and what it reaches, by identity; the function keeps that."""
    cells = function.__closure__ or ()
    reached = [*(function.__defaults__ or ()), *(cell.cell_contents for cell in cells)]
    words = tuple((word, id(value)) for word, value in (function.__kwdefaults__ or {}).items())
    parts = tuple(_key(part) if type(part) is FunctionType else id(part) for part in reached)
    return function.__code__, id(function.__globals__), len(cells), parts, words
