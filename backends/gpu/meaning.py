"""What rows of the op table mean on CuPy arrays, for the fallback: operation by operation.

NumPy's ufuncs reach CuPy's through its protocol. Reductions are CuPy's functions, since that
protocol has no `reduce`; special functions are those of cupyx; what CuPy does not have is
computed by NumPy, on copies in the host's memory.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

import numpy as np

from fuser.ir.ops import Op

#: row -> function of cupyx.scipy.special
_SPECIAL = {"erf": "erf", "erfc": "erfc", "lgamma": "gammaln", "sigmoid": "expit"}
#: rows that are NumPy formulas of functions that CuPy has
_FORMULAS = frozenset(
    "where real imag join_complex rsqrt modf_fraction modf_integral frexp_mantissa "
    "frexp_exponent".split()
)


def meaning(op: Op, cupy: Any) -> Callable[..., Any]:
    """A function of CuPy arrays; of an array and axes, for a reduction."""
    if op.reduction:
        return _reduction(op, cupy)
    if op.name in _SPECIAL:
        found = _special(_SPECIAL[op.name])
        return found if found is not None else _on_host(op, cupy)
    if op.name in _FORMULAS or (isinstance(op.numpy, np.ufunc) and hasattr(cupy, op.name)):
        return op.numpy
    return _on_host(op, cupy)


def _reduction(row: Op, cupy: Any) -> Callable[..., Any]:
    """Combine along axes, in the operand's own dtype."""
    function = getattr(cupy, row.name)
    if row.places:
        return lambda x, axes: function(x, axis=axes[0])
    if row.selects:
        return lambda x, axes: function(x, axis=axes)
    return lambda x, axes: function(x, axis=axes, dtype=x.dtype)


def _special(name: str) -> Callable[..., Any] | None:
    """A function of cupyx, where it can be imported."""
    try:
        module = importlib.import_module("cupyx.scipy.special")
    except ImportError:
        return None
    found: Callable[..., Any] | None = getattr(module, name, None)
    return found


def _on_host(op: Op, cupy: Any) -> Callable[..., Any]:
    """NumPy's own, on copies."""

    def run(*operands: Any) -> Any:
        return cupy.asarray(np.asarray(op.numpy(*map(cupy.asnumpy, operands))))

    return run
