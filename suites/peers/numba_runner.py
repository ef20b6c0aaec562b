"""numba: the formula compiled by njit, parallel and with fastmath; never in object mode.

fastmath without the promise that there are neither NaN nor infinities: with it `x / (1 + exp(-x))`
is NaN where `exp` overflows, a wrong result, which gets no speed.
"""

import warnings
from collections.abc import Callable
from types import MappingProxyType
from typing import Any, cast

import numpy as np

from fuser.suites.formula import NARROW, NarrowNumbers, Rebuilding
from fuser.suites.runners import Runner, refusals
from fuser.suites.workload import Arguments

FASTMATH = frozenset({"nsz", "arcp", "contract", "afn", "reassoc"})


class NumbaRunner(Runner):
    """Compiles the workload's own function.

    numba gives a Python number a 64-bit type, so that `0.5 * x` is float64 for every x. A person
    who uses it writes `np.float32(0.5)`; for float32 arrays this runner does the same.
    """

    name = "numba"
    needs = MappingProxyType({"numba": "numba"})
    starts = True
    typical_first_call_s = 2.0
    description = (
        "numba.njit(parallel=True, fastmath=all but nnan and ninf); numbers spelled np.float32 for "
        "float32 arrays"
    )

    def __init__(self) -> None:
        self.compiled: list[Any] = []

    def prepare(self, function: Callable[..., Any], arguments: Arguments) -> Callable[..., Any]:
        """Return the compiled function; compiling happens here, before its first call."""
        import numba

        types = tuple(map(numba.typeof, self.accept(arguments)))
        found = self.once((function, types), lambda: self._compiled(function, arguments, types))
        return cast(Callable[..., Any], found)

    def _compiled(self, function: Callable[..., Any], arguments: Arguments, types: Any) -> Any:
        """Compile."""
        import numba
        from numba.core.errors import NumbaError

        options = {"parallel": True, "fastmath": set(FASTMATH)}
        helper = numba.njit(inline="always", **options)
        how: dict[str, Any] = {"finish": helper}
        if narrow := _narrow_dtype(arguments):
            how |= {"change": NarrowNumbers, "extra": {NARROW: narrow}}
            how["swap"] = lambda value: narrow(value) if type(value) is float else value
        dispatcher: Any = Rebuilding(**how).copy(function, numba.njit(**options))
        with warnings.catch_warnings(), refusals("numba.njit", NumbaError):
            warnings.simplefilter("ignore")  # that nothing could run in parallel is no error
            dispatcher.compile(types)
        self.compiled.append(dispatcher)
        return dispatcher

    def accept(self, arguments: Arguments) -> Arguments:
        """Return NumPy's arrays, and Python floats as float32 where all arrays are."""
        narrow = _narrow_dtype(arguments)
        if narrow is None:
            return arguments
        return tuple(narrow(each) if type(each) is float else each for each in arguments)

    def compiled_kernels(self) -> int:
        """Return how many signatures numba has compiled."""
        return sum(len(each.signatures) for each in self.compiled)


def _narrow_dtype(arguments: Arguments) -> type[np.floating[Any]] | None:
    """Return the type of the floating arrays where that is not the type of a Python float."""
    kinds = {
        each.dtype.type for each in arguments
        if isinstance(each, np.ndarray) and each.dtype.kind == "f"
    }
    return kinds.pop() if len(kinds) == 1 and kinds != {np.float64} else None
