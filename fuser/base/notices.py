"""What the fuser says: why a call runs in NumPy, counted, and warned of once for every function.

It speaks to `logging`, too, under the name "fuser".

A program that has not imported `logging` has set up nothing that could take a line, so it is not
imported here. Reasons for not fusing are of level INFO, what is traced and compiled of level DEBUG.
"""

from __future__ import annotations

import sys
import warnings
from types import FrameType
from typing import Any

from fuser.base import caches, counters, forks
from fuser.base.errors import FallbackWarning, FusionError, Reason
from fuser.base.packages import loaded


def tell(text: str, *values: Any) -> None:
    """Log a line of level INFO.

    Args:
        text: with `%s` for each value.
        values: are spelled only where somebody listens.
    """
    if (logging := loaded("logging")) is not None:
        logging.getLogger("fuser").info(text, *values)


def note(text: str, *values: Any) -> None:
    """Log a line of level DEBUG.

    Args:
        text: see `tell`.
        values: likewise.
    """
    if (logging := loaded("logging")) is not None:
        logging.getLogger("fuser").debug(text, *values)


#: Reasons that were warned of; after so many, all are forgotten.
WARNED_LIMIT = 4096
_warned: set[tuple[str, ...]] = set()
_lock = forks.lock()


def record(reason: Reason, policy: str, function: str = "") -> None:
    """Count a fallback, and warn or raise as the policy says.

    Args:
        reason: why.
        policy: "warn" (once for each reason and function), "allow" or "error".
        function: the name of the function that is not fused.

    Raises:
        FusionError: the policy is "error".
    """
    for name in counts_of(reason):
        counters.count(name)
    if policy == "error":
        raise FusionError(reason)
    say(reason, policy, function)


def counts_of(reason: Reason) -> dict[str, int]:
    """What a call that NumPy runs for a reason adds to the counters."""
    return {"fallbacks": 1, f"fallback.{reason.code}": 1}


def say(reason: Reason, policy: str, function: str = "") -> None:
    """Warn of a reason, once for each function, if the policy is "warn"; log it if it is not."""
    if policy != "warn":
        note("not fused: %s", reason)
        return
    key = (reason.code, reason.operation, reason.where, function)
    with _lock:
        new = key not in _warned
        if len(_warned) >= WARNED_LIMIT:
            _warned.clear()
        _warned.add(key)
    if new:
        tell("not fused: %s", reason)
        warnings.warn(f"not fused: {reason}", FallbackWarning, stacklevel=_stack_level())


def _stack_level() -> int:
    """How many frames lie between here and the user's code, as Python's warnings count them."""
    level = 1
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and frame.f_globals.get("__name__", "").startswith("fuser."):
        level += "importlib_bootstrap" not in frame.f_code.co_filename
        frame = frame.f_back
    return level


@caches.clears
def forget_warnings() -> None:
    """Warn again for every reason; for tests and after `clear_caches`."""
    with _lock:
        _warned.clear()
