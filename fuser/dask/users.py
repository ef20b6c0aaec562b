"""Functions of users that Dask calls with chunks, as in `map_blocks`, as fused functions.

Those whose code shows that they only compute are fused, by `fuser.fuse`: they reach nothing but
NumPy's functions, numbers, text, arrays and other such functions, and store nothing elsewhere. All
others run as they are. Other processes get the plain function.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from functools import partial
from types import FunctionType
from typing import Any

from dask.base import normalize_token

from fuser.base import caches
from fuser.base.packages import root
from fuser.capture.evident import is_evident
from fuser.dask.forms import by_identity
from fuser.dask.kernels import ByThread
from fuser.interface import fuse


class OfUser(ByThread):
    """A function of a user as a fused one."""

    def __init__(self, function: Callable[..., Any]) -> None:
        """Keep both.

        Args:
            function: the plain one.
        """
        super().__init__(partial(fuse, function, fallback="allow"))
        self.function = function
        self.__name__ = function.__name__

    def __reduce__(self) -> tuple[Any, ...]:
        """As the plain function: where each task brings a copy of its own, each would be traced."""
        return _plain, (self.function,)

    def __dask_tokenize__(self) -> Any:
        """That of the plain function."""
        return normalize_token(self.function)


def _plain(function: Any) -> Any:
    """A function out of a pickle."""
    return function


def of_user(function: FunctionType) -> OfUser | None:
    """A function as a fused one; None where its code does not show that it only computes.

    A `lambda` in a function is a new object each time: those that do the same are one.

    Args:
        function: of a task.
    """
    named = function.__kwdefaults__ or {}
    reads = [*(function.__defaults__ or ()), *itertools.chain(*sorted(named.items()))]
    kept = _kept(
        function.__code__, id(function.__globals__), tuple(map(id, function.__closure__ or ())),
        tuple(map(by_identity, reads)),
    )  # fmt: skip
    if not kept:
        is_ours = not is_dasks(function.__module__) and is_evident(function, (), arrays=True)
        kept += function, OfUser(function) if is_ours else None
    made: OfUser | None = kept[1]
    return made


@caches.memo(64)
def _kept(*_: Any) -> list[Any]:
    """Where a function is kept, by what it runs and reads, beside what it is as a fused one."""
    return []


def is_dasks(module: str | None) -> bool:
    """Whether a module's functions are Dask's own: these read sources of data, too.

    Args:
        module: its name.
    """
    return root(module) == "dask"
