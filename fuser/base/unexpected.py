"""Exceptions that nobody raised on purpose: a call that meets one runs in NumPy, and says so."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from fuser.base import config
from fuser.base.errors import FuserError, Unsupported


@contextmanager
def internal_errors(operation: str, passing: tuple[type[Exception], ...] = ()) -> Iterator[None]:
    """Have an exception that nobody raised on purpose become a reason to run in NumPy.

    With `FUSER_CHECK=1` it stays what it is: whoever works on this package wants to see it.

    Args:
        operation: what was going on, for the reason.
        passing: kinds of exceptions that mean something to the caller.

    Raises:
        Unsupported: `internal-error`, from the exception.
    """
    try:
        yield
    except Exception as error:
        if isinstance(error, (FuserError, *passing)):
            raise
        if config.current().check:
            raise
        found = f"{type(error).__name__}: {error}"[:200]
        raise Unsupported("internal-error", operation, found, "") from error
