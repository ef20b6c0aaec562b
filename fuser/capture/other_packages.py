"""Callables of SciPy, and np.vectorize's, while tracing: NumPy's protocols do not reach them all.

With stand-ins among their arguments they are calls between kernels, or formulas of their own.
"""

from __future__ import annotations

import gc
from collections.abc import Callable
from types import FunctionType, ModuleType
from typing import Any

import numpy as np

from fuser.base.errors import Unsupported
from fuser.base.packages import ROUTINES, SCIPY_PACKAGES, root
from fuser.base.trees import flatten
from fuser.ir import opaque_calls
from fuser.ir.function_table import Replaced
from fuser.tracing.builtin_names import is_stand_in
from fuser.tracing.trace_state import Tracing
from fuser.tracing.traced_array import TracedArray


def seen(tracing: Tracing, value: Any) -> Any:
    """A callable or module as a traced function sees it; itself where it is none of these.

    Args:
        tracing: the trace.
        value: what a name of the function stands for.
    """
    if type(value) is np.vectorize:
        return Vectorized(tracing, value)
    if type(value) is ModuleType and root(value.__name__) == "scipy":
        return Package(tracing, value)
    if type(value) is FunctionType and (name := name_in_scipy(value)) is not None:
        return Called(tracing, value, name)
    if opaque_calls.is_routine(value) and (name := _name_of_routine(value)) is not None:
        return Called(tracing, value, name)
    return value


def _name_of_routine(routine: Any) -> str | None:
    """The public name of a routine of LAPACK's or BLAS's that changes no argument."""
    last = str(routine.__name__).removeprefix("function ")
    names = (f"{module}.{last}" for module in ROUTINES)
    return next((name for name in names if opaque_calls.stands_for(name, routine)), None)


def name_in_scipy(function: Any) -> str | None:
    """The public name of a function of SciPy's that NumPy calls between kernels."""
    package, *path = (getattr(function, "__module__", None) or "").split(".")
    if package != "scipy" or not path or path[0] not in SCIPY_PACKAGES:
        return None
    name = f"scipy.{path[0]}.{getattr(function, '__name__', '')}"
    return name if opaque_calls.stands_for(name, function) else None


class Package:
    """A module of SciPy."""

    def __init__(self, tracing: Tracing, module: ModuleType) -> None:
        self._tracing = tracing
        self._module = module

    def __getattr__(self, name: str) -> Any:
        """The module's own, as it is seen."""
        return seen(self._tracing, getattr(self._module, name))


class Called(Replaced):
    """A function that runs between kernels where it is called with stand-ins."""

    def __init__(self, tracing: Tracing, function: Any, name: str) -> None:
        self._tracing = tracing
        self.__wrapped__ = function
        self._name = name

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Run or trace the function."""
        from fuser.tracing.sequences import has_traced

        leaves = [*flatten((args, kwargs))[1], *args, *kwargs.values()]
        traced = any(is_stand_in(leaf) or has_traced(leaf) for leaf in leaves)
        return self._traced(args, kwargs) if traced else self.__wrapped__(*args, **kwargs)

    def _traced(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """With stand-ins.

        Raises:
            Unsupported: it may change what it is given.
        """
        writing = any("out" in key or "overwrite" in key for key in kwargs)
        if writing or any(value is True for value in args):
            raise Unsupported("write-into-view", self._name, "it may write into its argument")
        formula = _FORMULAS.get(self._name)
        made = None if formula is None else formula(*args, **kwargs)
        return self._tracing.call_named(self._name, args, kwargs) if made is None else made

    def __getattr__(self, name: str) -> Any:
        """Everything else is the function's own."""
        return getattr(self.__wrapped__, name)


class Vectorized(Called):
    """An object of np.vectorize."""

    def __init__(self, tracing: Tracing, made: Any) -> None:
        """Stand for `made`."""
        super().__init__(tracing, made, "fuser.vectorized")

    def _traced(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """With stand-ins: its function is NumPy's to call, for each element."""
        made = self.__wrapped__
        function = made.pyfunc
        if made.otypes is not None and not (made.signature or made.excluded or kwargs):
            ufunc = np.frompyfunc(function, len(args), len(made.otypes))
            kept = made._ufunc.setdefault(len(args), ufunc)  # as NumPy keeps what it calls first
            function = next((each for each in gc.get_referents(kept) if callable(each)), function)
        options = {"otypes": made.otypes, "signature": made.signature, "cache": bool(made.cache),
                   "excluded": sorted(made.excluded, key=str)}  # fmt: skip
        return self._tracing.call_named(self._name, (function, options, *args), kwargs)


def vectorize(tracing: Tracing, *args: Any, **kwargs: Any) -> Any:
    """np.vectorize in a traced function."""
    if not args and "pyfunc" not in kwargs:  # a decorator with options
        return lambda function: Vectorized(tracing, np.vectorize(function, **kwargs))
    return Vectorized(tracing, np.vectorize(*args, **kwargs))


# -- formulas -------------------------------------------------------------------------------


def _is_float(x: Any) -> bool:
    """Whether a formula computes in the dtype that SciPy does."""
    return isinstance(x, TracedArray) and x.dtype in (np.float32, np.float64)


def _softmax(x: Any, axis: Any = None) -> Any:
    """scipy.special.softmax, which spells it as ours is spelled."""
    from fuser.numpy_functions import normalisations

    return normalisations.softmax(x, axis) if _is_float(x) and x.ndim else None


def _log_softmax(x: Any, axis: Any = None) -> Any:
    """scipy.special.log_softmax, spelled as SciPy spells it."""
    if not (_is_float(x) and x.ndim):
        return None
    largest = np.amax(x, axis=axis, keepdims=True)
    shifted = x - np.where(np.isfinite(largest), largest, 0)
    return shifted - np.log(np.sum(np.exp(shifted), axis=axis, keepdims=True))


_FORMULAS: dict[str, Callable[..., Any]] = {
    "scipy.special.softmax": _softmax,
    "scipy.special.log_softmax": _log_softmax,
}


def _expit(x: Any) -> Any:
    """The logistic function."""
    return 1 / (1 + np.exp(-x)) if _is_float(x) else None


def _operation(row: str) -> Callable[[Any], Any]:
    """A row of the operator table."""

    def made(x: Any) -> Any:
        if not _is_float(x):
            return None
        node = x.tracing.node(row, [x.node])
        return x.tracing.wrap(node, not node.shape)

    return made


#: Functions of special functions' packages, with stand-ins; None for arguments without a form.
SPECIAL: dict[str, Callable[..., Any]] = {
    "softmax": _softmax, "log_softmax": _log_softmax, "expit": _expit,
    "erf": _operation("erf"), "erfc": _operation("erfc"), "gammaln": _operation("lgamma"),
}  # fmt: skip


def scipy_ufunc(ufunc: np.ufunc, inputs: Any) -> Any:
    """A ufunc of SciPy's as operations that kernels have; None for all others.

    Args:
        ufunc: what is called.
        inputs: with what.
    """
    known = ufunc.__name__ in ("expit", "erf", "erfc") and opaque_calls.ufunc_name(ufunc)
    return SPECIAL[ufunc.__name__](inputs[0]) if known and len(inputs) == 1 else None
