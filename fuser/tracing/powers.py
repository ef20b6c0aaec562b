"""Powers by one number, as NumPy shortens them."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from fuser.base.host_expressions import scalar_symbols
from fuser.tracing.traced_scalars import SHORTER, HostScalar

#: Exponents of complex numbers, by class, for which `**` is no power: `z ** 2.0` is one.
_COMPLEX_SHORTER: dict[type, tuple[float, ...]] = {int: (2, -1), float: (0.5,)}
#: Whether this NumPy squares truth values for `** 2`, giving int8, where power gives int64.
_SQUARES_BOOL = (np.ones(1, bool) ** 2).dtype == np.int8


def scalar_power(base: Any, exponent: Any) -> Any:
    """NumPy's shortcuts for `array ** scalar`; None where there is none.

    NumPy (number.c, fast_scalar_power) takes square, sqrt, reciprocal … for these exponents;
    they differ from power for some values (sqrt(-inf) is NaN, power(-inf, 0.5) is inf).
    """
    if type(exponent) not in (int, float, HostScalar) or base.generic:
        return None
    if isinstance(exponent, HostScalar):
        number: Any = exponent  # whose comparisons are guards: these exponents are other kernels
        if base.dtype.kind == "c":
            known = _COMPLEX_SHORTER.get(exponent.kind, ())
            return next((SHORTER[each](base) for each in known if number == each), None)
        if exponent.kind is int:
            if base.dtype.kind == "b":
                return np.square(base) if _SQUARES_BOOL and number == 2 else None
            plain = base.dtype.kind in "iuf" and not _counts(exponent)
            return np.square(base) if plain and number == 2 else None
        if exponent.kind is not float or base.dtype.kind != "f":
            return None
        if number == 2.0:
            return np.square(base)
        return np.sqrt(base) if number == 0.5 else None
    if base.dtype.kind == "c":
        return _whole_power(base, exponent)
    if base.dtype.kind == "f":
        if exponent and exponent in SHORTER:
            return SHORTER[exponent](base)
    squares = "biu" if _SQUARES_BOOL else "iu"
    if base.dtype.kind in squares and type(exponent) is int and exponent == 2:
        return np.square(base)
    return None


def _counts(number: HostScalar) -> bool:
    """Whether a number depends on lengths, on which no kernel is specialised."""
    return any(name.startswith("n") for name in scalar_symbols(number.text))


def _whole_power(base: Any, exponent: Any) -> Any:
    """Whole powers of complex numbers as NumPy multiplies them; None for all others.

    NumPy (npy_math_complex.c, npy_cpow) squares again and again below the 100th power, and has
    answers of its own for zeros.
    """
    if exponent in _COMPLEX_SHORTER.get(type(exponent), ()):
        return SHORTER[exponent](base)
    if not 1 <= abs(exponent) < 100 or exponent != int(exponent):
        return None
    rest, power, found = abs(int(exponent)), base, base.dtype.type(1)
    of_zero = base.dtype.type(0 if exponent > 0 else complex(math.nan, math.nan))
    while rest and exponent not in (1, 2, 3):
        found = found * power if rest & 1 else found
        rest >>= 1
        power = power * power if rest else power
    if exponent < 0:
        found = 1 / found
    elif rest:
        found = (base, np.square(base), base * (base * base))[rest - 1]
    return np.where(base == 0, of_zero, found)
