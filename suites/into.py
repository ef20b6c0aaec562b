"""Runners that write into arrays which are there before the call: `out=` instead of new memory.

Large new arrays cost page faults, whoever computes them (DESIGN: fresh output memory costs). Each
of these stands beside a runner that returns new arrays; the difference is the memory's.
"""

import ast
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from fuser.suites.formula import Rebuilding, WriteInto
from fuser.suites.runners import EagerRunner, FusedRunner, NotExpressibleError
from fuser.suites.workload import Arguments


class EagerIntoRunner(EagerRunner):
    """NumPy, with `out=` in the last operation of every result, as a careful person writes it."""

    name = "eager_into"
    kind = "into"
    description = "plain NumPy, its last operation writing into an array that is there already"
    writes_into = True

    def prepare_into(
        self, function: Callable[..., Any], arguments: Arguments, buffers: Arguments
    ) -> Callable[..., Any]:
        """Return the function with `out=` in its last operations."""
        changed = Rebuilding(change=WriteIntoOnce()).copy(function, lambda same: same)
        check_arrays(buffers)

        def call(*given: Any) -> Any:
            return changed(*given, buffers)

        return call


class WriteIntoOnce:
    """Gives the change for the first function asked for; those it calls stay as they are."""

    def __init__(self) -> None:
        self.given = False

    def __call__(self) -> ast.NodeTransformer:
        """Return the transformer."""
        if self.given:
            return ast.NodeTransformer()
        self.given = True
        return WriteInto()


class FusedIntoRunner(FusedRunner):
    """The fuser, writing into `out=`."""

    name = "fused_into"
    kind = "into"
    description = "the fuser, writing into arrays that are there already (out=)"
    writes_into = True

    def prepare_into(
        self, function: Callable[..., Any], arguments: Arguments, buffers: Arguments
    ) -> Callable[..., Any]:
        """Return the fused function with its `out=` filled in."""
        check_arrays(buffers)
        fused = self.prepare(function, arguments)
        return partial(fused, out=buffers[0] if len(buffers) == 1 else buffers)

    def facts(self, prepared: Callable[..., Any], arguments: Arguments) -> Any:
        """Return the plan's kernels, bytes and fallback reasons."""
        assert isinstance(prepared, partial)  # prepare_into made it
        return super().facts(prepared.func, arguments)


def check_arrays(buffers: Arguments) -> None:
    """Refuse scalar results.

    Raises:
        NotExpressibleError: a result has no axes.
    """
    if any(np.ndim(each) == 0 for each in buffers):
        raise NotExpressibleError("a scalar result goes into no array")
