"""Floating-point errors and warnings that a function asks for, or silences, while it is traced.

Kernels tell of none (but with `errstate=True`), so a function that asks for them is NumPy's. One
that silences them is fused; what NumPy runs between its kernels is silent, too.
"""

from __future__ import annotations

import threading
import warnings
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from typing import Any

import numpy as np

from fuser.base.contexts import assigned
from fuser.base.errors import Unsupported
from fuser.base.packages import root

#: What NumPy tells of where it divides, overflows …, and where its functions warn.
KINDS = ("divide", "over", "under", "invalid")
#: Whether kernels note floating-point errors: then NumPy runs such a call again.
_noted: ContextVar[bool] = ContextVar("noted", default=False)


def noted(flag: bool) -> AbstractContextManager[None]:
    """Trace for kernels that note floating-point errors, or do not."""
    return assigned(_noted, flag)


class ErrorState:
    """How errors were treated when a trace began, and what the function asks for since."""

    def __init__(self) -> None:
        """As they are treated now."""
        self._kinds: dict[str, Any] = dict(np.geterr())
        self._filters, self._before = warnings.filters, _filter(warnings.filters)
        self._shown = _shown_by()
        self._told: dict[str, tuple[str, str, Unsupported]] = {}

    def look(self) -> None:
        """Note what an operation that runs now would tell."""
        kinds = np.geterr()
        if kinds != self._kinds:
            for kind, how in kinds.items():
                if how not in ("ignore", self._kinds[kind]):
                    self.ask("np.errstate", kind, str(how))
        if (how := self._changed()) not in ("", "ignore"):
            self.ask("warnings", "all", how)

    def ask(self, name: str, kind: str, how: str) -> None:
        """Note that errors of a kind are asked for."""
        if kind not in self._told:
            error = Unsupported("floating-point", name, f"{kind}: {how}")
            self._told[kind] = (kind, how, error)

    def ignored(self) -> tuple[str, ...]:
        """The kinds that are silenced now and were not before; "warnings" for all."""
        now: dict[str, Any] = dict(np.geterr())
        found = [k for k in KINDS if now[k] == "ignore" != self._kinds[k]]
        if self._changed() == "ignore":
            found.append("warnings")
        return tuple(found)

    def _changed(self) -> str:
        """What the function has done to NumPy's warnings; "" for nothing."""
        if warnings.filters is self._filters:
            return ""
        now = _filter(warnings.filters)
        if now[0] == "ignore":
            return "ignore"
        if _shown_by() is not self._shown:
            return "record"
        return now[0] if now != self._before else ""

    def end(self) -> None:
        """Check what was asked for.

        Raises:
            Unsupported: kernels would not tell; or errors are treated in another way afterwards.
        """
        now: dict[str, Any] = dict(np.geterr())
        if now != self._kinds:
            np.seterr(**self._kinds)
            changed = ", ".join(kind for kind in KINDS if now[kind] != self._kinds[kind])
            raise Unsupported("side-effect", "np.seterr", f"{changed} of the process", "")
        told, self._told = self._told, {}
        place = next((key for key, (kind, _, _) in told.items()
                      if not _noted.get() or kind == "under"), None)  # fmt: skip
        if place is not None:
            raise told.pop(place)[2]


def _filter(filters: Iterable[Any]) -> tuple[Any, ...]:
    """The first filter of warnings that NumPy's may meet; its action comes first."""
    for each in filters:
        if issubclass(RuntimeWarning, each[2]):
            return tuple(each)
    return ("",)


def _shown_by() -> Any:
    """What shows warnings, or records them."""
    return getattr(warnings, "_showwarnmsg_impl", warnings.showwarning)


def errstate(state: ErrorState, **kinds: Any) -> Any:
    """np.errstate in a traced function."""
    every = kinds.get("all")
    for kind in KINDS:
        how = kinds.get(kind) or every
        if how not in (None, "ignore"):
            state.ask("np.errstate", kind, str(how))
    return np.errstate(**kinds)


@contextmanager
def held_back() -> Iterator[None]:
    """Refuse a trace in which this thread is warned, but by this library, and warn of nothing.

    The plain function, which then runs, gives these warnings itself, with its own lines.

    Raises:
        Unsupported: there were warnings. Other values may give none.
    """
    thread, shown, told, ended = threading.get_ident(), warnings.showwarning, list[Any](), False

    def hold(*warning: Any) -> None:
        if ended or threading.get_ident() != thread:
            shown(*warning)
        else:
            told.append(warning)

    warnings.showwarning = hold  # type: ignore[assignment] # it takes the same
    try:
        yield
    finally:
        ended = True
        if warnings.showwarning is hold:  # else another thread has its own, which leads here
            warnings.showwarning = shown
    for warning in {(str(each[0]), *each[1:4]): each for each in told}.values():
        if root(warning[1].__module__) != "fuser":
            raise Unsupported("runtime-check", "warnings", f"{warning[1].__name__}: {warning[0]}")
        shown(*warning)


@contextmanager
def silent(kinds: tuple[str, ...]) -> Iterator[None]:
    """Silence what a function has silenced where NumPy runs a part of it."""
    ignored: dict[str, Any] = {kind: "ignore" for kind in kinds if kind in KINDS}
    with np.errstate(**ignored):
        if "warnings" not in kinds:
            yield
            return
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
