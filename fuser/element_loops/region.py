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

#: The name of the call.
NAME = "fuser.element_loop"


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


def runner(
    args: Sequence[Any], make: Callable[[Code], Any], owned: frozenset[int] = frozenset()
) -> Callable[..., list[Any]]:
    """What runs a call with the first of its arguments.

    Args:
        args: what the call's text says.
        make: gives what runs a loop's code on arrays and numbers.
        owned: places of arrays that nothing else needs.
    """
    kernel = make(code_of(*args[:4]))
    code = kernel.code
    copied = [known.written and place not in owned for place, known in enumerate(code.arrays)]
    types = [(np.dtype(known.dtype), known.rank) for known in code.arrays]

    def run_elements(*args: Any) -> list[Any]:
        """Run the loop: the arrays that it has written into, and the numbers that it leaves."""
        return _run(kernel, types, copied, args[4], args[5])

    return run_elements


def _run(
    kernel: Any, types: Sequence[tuple[Any, int]], copied: Sequence[bool], arrays: Sequence[Any],
    numbers: Sequence[Any],
) -> list[Any]:  # fmt: skip
    """Run an element loop: the arrays that it has written into, and the numbers that it leaves.

    Args:
        kernel: what runs its code.
        types: dtypes and ranks of arrays.
        copied: whether it works on copies of them.
        arrays: the arrays.
        numbers: the numbers, as arrays without axes or Python numbers.

    Raises:
        RunEnded: the plain function has to run.
    """
    given = []
    for array, (dtype, rank), copy in zip(arrays, types, copied, strict=False):
        if type(array) is not np.ndarray or array.dtype != dtype or array.ndim != rank:
            raise RunEnded("an array of another kind")
        given.append(array.copy("K") if copy or not array.flags.aligned else array)
    plain = [n.item() if isinstance(n, (np.generic, np.ndarray)) else n for n in numbers]
    known_arrays = kernel.code.arrays
    given += [
        np.empty([given[array].shape[axis] for array, axis in known.within], known.dtype)
        for known in known_arrays[len(given) :]
    ]
    left: list[Any] = kernel.run(given, plain)
    return [a for a, known in zip(given, known_arrays, strict=True)
            if known.written and not known.within] + left  # fmt: skip
