"""Variables of a context: a value for a while, and then the one before."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar, copy_context
from typing import TypeVar

T = TypeVar("T")


@contextmanager
def assigned(variable: ContextVar[T], value: T) -> Iterator[None]:
    """Have a variable hold a value inside.

    Before 3.12 Python may collect garbage within `set` and `reset`. Where a finaliser then sets a
    variable, what they copy would be freed under them: the copied context keeps it.
    """
    held = copy_context()
    token = variable.set(value)
    try:
        yield
    finally:
        held = copy_context()
        variable.reset(token)
        del held
