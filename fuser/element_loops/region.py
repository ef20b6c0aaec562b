"""An element loop in a graph: the call that stands for it, and how a call runs.

The call's text is `fuser.element_loop(source, names, kinds, wanted, arrays, numbers)`. Its results
are the arrays that it writes into, then the numbers that it leaves. It works on copies of arrays:
where it ends early, they are dropped, and the plain function runs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from fuser.base.errors import GraphError
from fuser.element_loops.kinds import NotTypedError

if TYPE_CHECKING:
    from fuser.element_loops.code import Code

#: How an array lies: contiguous in C order; the last axis contiguous; any strides.
CONTIGUOUS, ROWS, STRIDED = "crs"


def layout_of(shaped: Any) -> str:
    """How an array lies in memory."""
    if shaped.flags.c_contiguous:
        return CONTIGUOUS
    return ROWS if shaped.strides[-1] == shaped.itemsize else STRIDED


class RunEnded(Exception):  # noqa: N818 - a signal: the plain function is run instead
    """A run has reached what the code of its loop does not do; arguments are as they were."""


def code_of(source: str, names: Sequence[str], kinds: Sequence[str], wanted: Sequence[str]) -> Code:
    """The code of a call.

    Raises:
        GraphError: its text is none of an element loop.
    """
    from fuser.element_loops.translate import translated  # most functions have no such loops

    try:
        pairs = tuple(zip(names, kinds, strict=True))
        return translated(source, pairs, tuple(wanted))[0]
    except (NotTypedError, SyntaxError, TypeError, ValueError) as error:
        raise GraphError(f"the text of an element loop is not understood: {error}") from None


class Runner:
    """Runs a call with the first of its arguments.

    Attributes:
        kernel: what runs the loop's code on arrays and numbers, see `Backend.element_kernel`.
        copied: places of the arrays that it works on copies of.
    """

    def __init__(
        self, args: Sequence[Any], make: Callable[[Code], Any], owned: frozenset[int] = frozenset()
    ) -> None:
        """Prepare.

        Args:
            args: what the call's text says.
            make: gives what runs a loop's code.
            owned: places of arrays that nothing else needs.
        """
        self.kernel = make(code_of(*args[:4]))
        known = self.kernel.code.operands
        self.copied = [
            place for place, array in enumerate(known) if array.written and place not in owned
        ]
        self._known = [(np.dtype(array.given[0]), array) for array in known]

    def __call__(self, *args: Any) -> list[Any]:
        """Run the loop: the arrays that it has written into, and the numbers that it leaves.

        Raises:
            RunEnded: the plain function has to run.
        """
        given = []
        for place, (array, (dtype, known)) in enumerate(zip(args[4], self._known, strict=True)):
            rank = known.given[1]
            if type(array) is not np.ndarray or array.dtype != dtype or array.ndim != rank:
                raise RunEnded("an array of another kind")
            copy = place in self.copied or not (array.flags.aligned and array.dtype.isnative)
            given.append(array.astype(dtype, "K") if copy else array)
        left: list[Any] = self.kernel.run(given, args[5], self.copied)
        return [a for a, (_, known) in zip(given, self._known, strict=True) if known.written] + left
