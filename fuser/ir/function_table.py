"""How NumPy functions that are no ufuncs are traced: one table, which families of them fill.

A family is a file with handlers, which `handles` puts into the table when the file is loaded.
`fuser.numpy_functions` lists these files; they are loaded with the first such function.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

#: The handler of each function that a loaded family has.
HANDLERS: dict[Any, Callable[..., Any]] = {}
_loaders: list[Callable[[], None]] = []


def handles(*functions: Any) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Register the handler of one or more NumPy functions."""

    def register(handler: Callable[..., Any]) -> Callable[..., Any]:
        for function in functions:
            HANDLERS[function] = handler
        return handler

    return register


def loaded_by(load: Callable[[], None]) -> None:
    """Have the families loaded by this function, which does nothing when called again."""
    _loaders.append(load)


def handlers() -> dict[Any, Callable[..., Any]]:
    """The table with every family in it."""
    for load in _loaders:
        load()
    return HANDLERS


class Replaced:
    """What a traced function has in the place of a function of NumPy's or SciPy's."""

    __wrapped__: Any


def plain_function(value: Any) -> Any:
    """The function itself where a trace has put another in its place."""
    return value.__wrapped__ if isinstance(value, Replaced) else value
