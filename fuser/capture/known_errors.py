"""Errors that tracing has raised: such a call raises the same again without being traced."""

from __future__ import annotations

import copy
import dis
from collections.abc import Sequence
from types import TracebackType
from typing import Any

from fuser.base.errors import Reason
from fuser.base.protocols import is_array
from fuser.capture import captures

#: Combinations of lengths and numbers whose error is remembered, for one signature.
LIMIT = 64
#: Calls of one kind that are looked at before the plain function is called without a look.
PATIENCE = 4


def note_fleeting(error: BaseException) -> None:
    """Note that an error may be gone at the next call: arrays beside the arguments led to it."""
    error.__dict__["_fleeting"] = True


def is_fleeting(error: BaseException) -> bool:
    """Whether an error may be gone at the next call."""
    return "_fleeting" in error.__dict__


def is_own(error: BaseException) -> bool:
    """Whether a function raised an error itself, at a place of its own where it would again.

    What a signal's handler raises comes at any moment, as Ctrl-C does: no other run would meet it.
    """
    if isinstance(error, Exception):
        return True
    import signal  # few traces end so

    handlers = [signal.getsignal(number) for number in signal.valid_signals()]
    codes = [code for handler in handlers if (code := getattr(handler, "__code__", None))]
    step: TracebackType | None = error.__traceback__
    last = step
    while step is not None:
        if any(step.tb_frame.f_code is code for code in codes):
            return False
        last, step = step, step.tb_next
    if not isinstance(error, KeyboardInterrupt) or last is None:
        return True
    return last.tb_frame.f_code.co_code[last.tb_lasti] in _RAISING


_RAISING = (dis.opmap["RAISE_VARARGS"], dis.opmap["RERAISE"])


class KnownErrors:
    """Errors by what tracing sees of arguments: beside dtypes and ranks, lengths and numbers."""

    def __init__(self) -> None:
        """Know none."""
        self._known: dict[Any, tuple[Exception, list[captures.NameGuard]]] = {}

    def keep(
        self, leaves: Sequence[Any], error: Exception, names: list[captures.NameGuard]
    ) -> None:
        """Remember what arguments like these lead to, as long as names mean what they mean now."""
        if is_fleeting(error):
            return
        if len(self._known) >= LIMIT:
            self._known.clear()
        self._known[_values(leaves)] = (copy.copy(error), names)

    def raise_known(self, leaves: Sequence[Any]) -> None:
        """Raise what arguments like these have led to; nothing happens where that is unknown."""
        found = self._known.get(_values(leaves)) if self._known else None
        if found is not None and all(guard.holds() for guard in found[1]):
            raise copy.copy(found[0])


def counts_of(refused: Reason) -> dict[str, int]:
    """What a call that is refused adds to the counters."""
    return {"fallbacks": 1, f"fallback.{refused.code}": 1}


def _is_number(leaf: Any) -> bool:
    """Whether a leaf is a Python number itself."""
    kind = type(leaf)
    return kind is float or kind is int or kind is bool


def _values(leaves: Sequence[Any]) -> tuple[Any, ...]:
    """Lengths of arrays, and Python numbers to the last bit."""
    return tuple(
        leaf.shape if is_array(leaf) else repr(leaf) if _is_number(leaf) else None
        for leaf in leaves
    )
