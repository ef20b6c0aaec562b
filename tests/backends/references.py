"""What an operation's result should be, and how far a computed one is from it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import mpmath
import numpy as np

from fuser.ir.ops import Op

Array = np.ndarray[Any, np.dtype[Any]]


def _mpmath(function: Callable[[Any], Any]) -> Callable[[Array], Array]:
    """Apply a function of arbitrary precision to each element of a long double array."""

    def apply(values: Array) -> Array:
        out = np.empty(values.shape, np.longdouble)
        known: dict[float, Any] = {}
        with mpmath.workprec(120), np.errstate(all="ignore"):
            for place, value in enumerate(values):
                key = float(value)
                if key not in known:
                    known[key] = np.longdouble(mpmath.nstr(function(mpmath.mpf(key)), 25))
                out[place] = known[key]
        return np.where(np.isnan(values), values, out)

    return apply


def _log_gamma(value: Any) -> Any:
    """log |gamma(value)|, infinite at the poles."""
    if mpmath.isinf(value) or (value <= 0 and value == mpmath.floor(value)):
        return mpmath.inf
    return mpmath.nan if mpmath.isnan(value) else mpmath.loggamma(value).real


#: Rows that NumPy has no long double function for.
_WIDE: dict[str, Callable[..., Array]] = {
    "rsqrt": lambda x: 1 / np.sqrt(x),
    "sigmoid": lambda x: np.where(np.isnan(x), x, 1 / (1 + np.exp(-x))),
    "erf": _mpmath(mpmath.erf),
    "erfc": _mpmath(mpmath.erfc),
    "lgamma": _mpmath(_log_gamma),
}


def true_values(op: Op, *operands: Array) -> Array:
    """A floating row's results in long double, whose own error does not count.

    Args:
        op: a row whose results are floats.
        operands: arrays of one floating dtype.
    """
    wide = [values.astype(np.longdouble) for values in operands]
    with np.errstate(all="ignore"):
        meaning: Callable[..., Any] = _WIDE.get(op.name, op.numpy)
        return np.asarray(meaning(*wide))


def errors_in_ulp(got: Array, true: Array, *operands: Array) -> Array:
    """How far results are from true values, in units in the last place of the true value.

    Below the least normal number the unit is that of the subnormals. An infinity stands where
    the next number after the greatest would; NaN for NaN, and what the true value is rounded to
    in one step, are no error beyond half a unit.

    Args:
        got: float16[n], float32[n] or float64[n].
        true: longdouble[n].
        operands: arrays that may raise the unit to that of their own largest value.

    Returns:
        float64[n]; infinite where just one of the two is NaN.
    """
    limits = np.finfo(got.dtype)
    with np.errstate(all="ignore"):
        rounded = true.astype(got.dtype)
        beyond = np.copysign(np.ldexp(np.longdouble(1), limits.maxexp), got)
        shown = np.where(np.isinf(got), beyond, got.astype(np.longdouble))
        limited = np.where(np.abs(true) > np.abs(beyond), np.copysign(beyond, true), true)
        sizes = [np.abs(values).astype(np.longdouble) for values in (limited, *operands)]
        largest = np.max(sizes, axis=0)
        exponent = np.clip(np.frexp(largest)[1] - 1, limits.minexp, limits.maxexp - 1)
        errors = np.abs(shown - limited) / np.ldexp(np.longdouble(1), exponent - limits.nmant)
    errors = np.where(got == rounded, np.minimum(errors, 0.5), errors)
    errors = np.where(np.isnan(got) != np.isnan(true), np.inf, errors)
    return np.where(np.isnan(got) & np.isnan(true), 0.0, errors).astype(np.float64)
