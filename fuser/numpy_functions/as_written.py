"""NumPy functions that NumPy writes with other NumPy functions: traced by running NumPy's own code.

The code is NumPy's; what makes arrays in it is that of the trace, as `makers` has it, and what it
calls of NumPy's finds stand-ins by NumPy's protocols.
"""

from __future__ import annotations

import builtins
from collections.abc import Callable
from functools import partial
from types import FunctionType, ModuleType
from typing import Any

import numpy as np

from fuser.base import error_states
from fuser.base.packages import root
from fuser.ir.function_table import HANDLERS
from fuser.tracing import makers
from fuser.tracing.builtin_names import BUILTINS
from fuser.tracing.trace_state import Tracing

#: What NumPy's own code does on stand-ins as on arrays.
FUNCTIONS: tuple[Callable[..., Any], ...] = (
    np.allclose, np.angle, np.append, np.apply_over_axes, np.array_equal, np.astype,
    np.atleast_1d, np.atleast_2d, np.atleast_3d, np.column_stack, np.copy, np.dsplit, np.dstack,
    np.expand_dims, np.fix, np.flip, np.fliplr, np.flipud, np.gradient, np.hsplit, np.hstack,
    np.isclose, np.iscomplex, np.iscomplexobj, np.isneginf, np.isposinf, np.isreal,
    np.isrealobj, np.linalg.cross, np.linalg.diagonal, np.linalg.matrix_norm,
    np.linalg.matrix_transpose, np.linalg.outer, np.linalg.tensordot, np.linalg.trace,
    np.linalg.vector_norm, np.matrix_transpose, np.moveaxis, np.nan_to_num, np.nanprod,
    np.nansum, np.ndim, np.outer, np.polyval, np.ptp, np.ravel, np.real, np.real_if_close,
    np.reshape, np.rollaxis, np.rot90, np.select, np.shape, np.sinc, np.size, np.split,
    np.squeeze, np.swapaxes, np.transpose, np.trapezoid, np.unstack, np.unwrap, np.vsplit,
    np.vstack,
)  # fmt: skip
_MAKERS = {id(getattr(np, name)): maker for name, maker in makers.MAKERS.items()}


class _Names(dict[str, Any]):
    """The global names of a file of NumPy's, as a trace sees them."""

    def __init__(self, tracing: Tracing, names: dict[str, Any]) -> None:
        """Look them up when they are needed."""
        super().__init__(__builtins__=builtins, __name__=names["__name__"])
        self._tracing, self._names = tracing, names

    def __missing__(self, name: str) -> Any:
        """A global of the file, or one of Python's own."""
        if name not in self._names:
            return BUILTINS[name] if name in BUILTINS else getattr(builtins, name)
        return _seen(self._tracing, self._names[name])


class _Module:
    """A module of NumPy's."""

    def __init__(self, tracing: Tracing, module: ModuleType) -> None:
        self._seen = tracing, module

    def __getattr__(self, name: str) -> Any:
        """The module's own, as it is seen."""
        tracing, module = self._seen
        return _seen(tracing, getattr(module, name))


def _seen(tracing: Tracing, value: Any) -> Any:
    """What a name of NumPy's code stands for in a trace."""
    if id(value) in _MAKERS:
        return partial(_MAKERS[id(value)], tracing)
    if value is np.errstate:
        return partial(error_states.errstate, tracing.errors)
    if type(value) is ModuleType and root(value.__name__) == "numpy":
        return _Module(tracing, value)
    if type(value) is FunctionType and root(value.__module__) == "numpy":
        return _copy(tracing, value)
    return value


def _copy(tracing: Tracing, function: FunctionType) -> FunctionType:
    """A function of NumPy's with names as a trace sees them."""
    names = _Names(tracing, function.__globals__)
    made = FunctionType(
        function.__code__, names, function.__name__, function.__defaults__, function.__closure__
    )
    made.__kwdefaults__ = function.__kwdefaults__
    return made


def _handler(function: Any) -> Callable[..., Any]:
    """What traces a function by its own code."""

    def handler(tracing: Tracing, *args: Any, **kwargs: Any) -> Any:
        return _copy(tracing, function._implementation)(*args, **kwargs)

    handler.__name__ = function.__name__
    return handler


HANDLERS.update({function: _handler(function) for function in FUNCTIONS})
