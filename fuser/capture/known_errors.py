"""Errors that tracing has raised: such a call raises the same again without being traced."""

from __future__ import annotations

import copy
import dis
from collections.abc import Sequence
from types import TracebackType
from typing import Any

from fuser.base import config
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


class Unready(config.Standing):
    """What such calls lead to that do not run as kernels: the short way of errors and refusals.

    It stands where a `Ready` stands for other calls with these types, shapes and strides.

    Attributes:
        refused: why such calls are the plain function's, whatever the values.
        counts: what such a call adds to the counters.
    """

    knows_its_arguments = False

    def __init__(self, names: list[captures.NameGuard], refused: Reason | None = None) -> None:
        """Hold as long as settings, and names that the function reads, are as they are now."""
        super().__init__(names)
        self._known: dict[Any, Exception] = {}
        self.refused = refused
        self.counts = {} if refused is None else counts_of(refused)

    def keep(self, args: Sequence[Any], error: Exception) -> None:
        """Remember what arguments with these numbers lead to."""
        if is_fleeting(error):
            return
        if len(self._known) >= LIMIT:
            self._known.clear()
        self._known[_numbers(args)] = copy.copy(error)

    def known_error(self, args: Sequence[Any]) -> Exception | None:
        """What these numbers have led to; None where that is unknown."""
        found = self._known.get(_numbers(args)) if self._known else None
        return None if found is None else copy.copy(found)


def _numbers(args: Sequence[Any]) -> tuple[str, ...]:
    """Python numbers, to the last bit."""
    return tuple(repr(arg) for arg in args if _is_number(arg))


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
