"""Traces of functions whose arguments are there by dtype and shape alone, as lazy arrays are."""

from __future__ import annotations

from contextlib import AbstractContextManager
from contextvars import ContextVar

from fuser.base.contexts import assigned
from fuser.base.errors import Unsupported

_valueless: ContextVar[bool] = ContextVar("valueless", default=False)


def valueless() -> AbstractContextManager[None]:
    """Have nobody ask for values while a function is traced."""
    return assigned(_valueless, True)


def check_values(operation: str, found: str) -> None:
    """Refuse to ask for a value that is not there.

    Args:
        operation: what asks.
        found: why it asks.

    Raises:
        Unsupported: the arguments are there by dtype and shape alone.
    """
    if _valueless.get():
        raise Unsupported("lazy-array", operation, found)
