"""Exceptions that nobody raised on purpose: a call that meets one runs in NumPy, and says so."""

from __future__ import annotations

import dis
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


#: What a mistake in a program raises; NumPy's functions hardly ever do.
_MISTAKES = (AttributeError, NameError, AssertionError, KeyError)
_RAISING = frozenset(map(dis.opmap.__getitem__, ("RAISE_VARARGS", "RERAISE")))


def is_fault(error: BaseException) -> bool:
    """Whether an exception tells of a mistake in this package, and is not the function's own.

    While a function is traced, both come the same way. Ours come from a line of this package that
    is no `raise`: what is raised on purpose stands for what NumPy raises.
    """
    step = error.__traceback__
    if not isinstance(error, _MISTAKES) or step is None:
        return False
    while step.tb_next is not None:
        step = step.tb_next
    frame = step.tb_frame
    ours = frame.f_globals.get("__name__", "").startswith(_PACKAGE)
    ours = ours and frame.f_code.co_name not in _ASKED
    return ours and frame.f_code.co_code[step.tb_lasti] not in _RAISING


#: What the function itself asks for an attribute: a stand-in, or `getattr`.
_ASKED = ("__getattr__", "_getattr")
_PACKAGE = __name__.partition(".")[0] + "."
