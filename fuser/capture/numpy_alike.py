"""Packages with NumPy's functions by NumPy's names, such as CuPy, as a traced function sees them.

What NumPy calls so is traced as NumPy's: through the one table of its functions, with its makers of
arrays. What NumPy has not, but for a few functions of `cupyx.scipy.special`, is the package's own,
which no stand-in can be given to: it says so, and the call falls back. Random numbers are drawn
between kernels, in each call anew.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import FunctionType, ModuleType
from typing import Any

import numpy as np

from fuser.base.errors import Unsupported
from fuser.base.packages import ALIKE, root
from fuser.capture import other_packages
from fuser.ir import opaque_calls
from fuser.ir.function_table import Replaced
from fuser.tracing import makers
from fuser.tracing.builtin_names import is_stand_in
from fuser.tracing.trace_state import Tracing

#: NumPy's functions that hand their arguments over to `__array_function__`.
_DISPATCHED = type(np.sum)
#: Where a package keeps what SciPy has.
_SPECIAL = "cupyx.scipy.special"


class Alike:
    """A module of such a package."""

    def __init__(self, tracing: Tracing, module: ModuleType, numpy: Any, note: Any) -> None:
        """See a module.

        Args:
            tracing: the trace.
            module: of the package.
            numpy: NumPy as the traced function sees it.
            note: is told of each name that is read: it is guarded.
        """
        self._seen = tracing, numpy, note
        self._module = module

    def __getattr__(self, name: str) -> Any:
        """What stands for the module's own."""
        note, module = self._seen[2], self._module
        own = getattr(module, name)
        note(vars(module), name)
        if module.__name__ == f"{root(module.__name__)}.random":
            return Drawing(self._seen[0], own, name)
        if type(own) is type and own.__name__ == "ndarray":
            return np.ndarray  # of which a stand-in is one
        if name == "get_array_module":
            return lambda *arrays: self if any(map(is_stand_in, arrays)) else own(*arrays)
        return seen(own, *self._seen)

    def __repr__(self) -> str:
        """The module's."""
        return repr(self._module)


def seen(value: Any, tracing: Tracing, numpy: Any, note: Any) -> Any:
    """What stands for a module or a function of such a package; itself where there is nothing.

    Args:
        value: what a name of the function stands for.
        tracing: the trace.
        numpy: NumPy as the traced function sees it.
        note: is told of each name that is read.
    """
    if type(value) is ModuleType:
        known = root(value.__name__) in ALIKE and takes_its_arrays(tracing)
        return Alike(tracing, value, numpy, note) if known else value
    path = _path_of(value)
    if path is None or not takes_its_arrays(tracing):
        return value
    if path.startswith("random."):
        return Drawing(tracing, value, path.partition(".")[2])
    if path.startswith(_SPECIAL):
        name = path.rpartition(".")[2]
        return Special(tracing, value, name) if name in other_packages.SPECIAL else value
    found: Any = numpy
    for part in path.split("."):
        found = getattr(found, part, None)
    plain = getattr(found, "__wrapped__", found)
    made = path in makers.MAKERS and found is not None
    return found if made or isinstance(plain, (np.ufunc, _DISPATCHED)) else value


def takes_its_arrays(tracing: Tracing) -> bool:
    """Whether no array of the trace is NumPy's: these functions refuse such arrays."""
    arrays = [each.array for each in tracing.arguments]
    return not any(isinstance(array, np.ndarray) for array in arrays)


def _path_of(value: Any) -> str | None:
    """What NumPy calls a function of such a package; the whole name of a special function."""
    kind = type(value)
    if kind is FunctionType or kind.__name__ == "ufunc":
        home = value.__module__ if kind is FunctionType else kind.__module__
        if type(home) is not str or root(home) not in ALIKE or isinstance(value, np.ufunc):
            return None
        name = str(value.__name__ if kind is FunctionType else value.name)
        for module in (_SPECIAL, *(f"{package}{part}" for package in ALIKE for part in _PARTS)):
            space = vars(sys.modules[module]) if module in sys.modules else {}
            short = name.removeprefix("cupyx_scipy_special_").removeprefix("cupy_")
            if space.get(short) is value:
                inner = module.partition(".")[2]
                return f"{module}.{short}" if module == _SPECIAL else f"{inner}.{short}".strip(".")
    return None


#: Parts of a package that NumPy has, too.
_PARTS = ("", ".linalg", ".fft", ".random")


class Drawing(Replaced):
    """A function of random numbers, or of their generator: the package's own, between kernels.

    While it is traced, a generator of its own draws: calls draw what they would without a trace.
    """

    def __init__(self, tracing: Tracing, function: Any, name: str) -> None:
        self._tracing, self._name = tracing, name
        self.__wrapped__ = function

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Trace a draw; what changes the generator, or makes one, cannot be."""
        name = f"{opaque_calls.RANDOM}.{self._name}"
        if self._name not in opaque_calls.DRAWN:
            raise Unsupported("impure", name, "random numbers")
        generator = sys.modules[opaque_calls.RANDOM].RandomState(0)
        method = getattr(generator, opaque_calls.DRAWN[self._name])
        self._tracing.draws += 1
        return self._tracing.call_named(name, args, kwargs, method)


class Special(Replaced):
    """A function that is traced by a formula, or as an operation, where NumPy has none."""

    def __init__(self, tracing: Tracing, function: Any, name: str) -> None:
        self._formula: Callable[..., Any] = other_packages.SPECIAL[name]
        self.__wrapped__ = function

    def __call__(self, x: Any, *args: Any, **kwargs: Any) -> Any:
        """Trace it; what has no formula for these arguments is the package's own."""
        made = self._formula(x, *args, **kwargs) if is_stand_in(x) else None
        return self.__wrapped__(x, *args, **kwargs) if made is None else made


def overridden(tracing: Tracing, kernel: Any, args: Any, kwargs: Any) -> Any:
    """A function of elements of CuPy's that was given a stand-in; NotImplemented for others.

    Args:
        tracing: the trace.
        kernel: CuPy's function.
        args: what it was given.
        kwargs: likewise.
    """
    own = seen(kernel, tracing, np, lambda space, name: None)
    if own is kernel:
        return NotImplemented
    return own(*args, **kwargs)
