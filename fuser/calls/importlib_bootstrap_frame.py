"""The one frame between who calls a fused function and the plain function, where that runs.

`warnings.warn(..., stacklevel=2)` names the line that called the function in which it stands.
Python counts no frame whose file has "importlib" and "_bootstrap" in its name, as this one's has
(CPython, Python/_warnings.c, `is_internal_frame`). So all else that is done for a call is done
before the plain function runs, or after it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fuser.backend import MISSED
from fuser.base.errors import Unsupported
from fuser.base.records import record


@record(frozen=False, eq=False)
class Plainly:
    """Given in place of a result: the plain function gives it.

    Attributes:
        function: it, which the call's arguments are for.
        after: given its result, what the call gives.
        ended: told when it has ended, and whether it has raised.
    """

    function: Callable[..., Any]
    after: Callable[[Any], Any] | None = None
    ended: Callable[[bool], None] | None = None


def call(self: Any, /, *args: Any, **kwargs: Any) -> Any:
    """Run the function, fused where it can be."""
    if self._latest is not None and not (kwargs or self._plain):
        try:
            result = self._latest.try_again(args)
            if result is not MISSED:
                if self._long:
                    self._long.clear()
                return result
        except Unsupported:  # an integer that no kernel's arithmetic has: below it becomes a reason
            pass
    found = self._served(args, kwargs)
    if type(found) is not Plainly:
        return found
    try:
        result = found.function(*args, **kwargs)
        if found.after is not None:
            result = found.after(result)
    except Exception:
        if found.ended is not None:
            found.ended(True)
        raise
    if found.ended is not None:
        found.ended(False)
    return result
