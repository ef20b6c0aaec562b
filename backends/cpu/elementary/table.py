"""The table of elementary functions, by NumPy's names."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from fuser.backends.cpu.elementary import (
    exponential,
    hyperbolic,
    inverse,
    inverse_hyperbolic,
    logarithmic,
    power,
    roots,
    special,
    trigonometric,
)
from fuser.backends.cpu.elementary.kit import Function

ELEMENTARY: Mapping[str, Function] = MappingProxyType(
    {
        "arccos": inverse.arccos,
        "arccosh": inverse_hyperbolic.arccosh,
        "arcsin": inverse.arcsin,
        "arcsinh": inverse_hyperbolic.arcsinh,
        "arctan": inverse.arctan,
        "arctan2": inverse.arctan2,
        "arctanh": inverse_hyperbolic.arctanh,
        "cbrt": roots.cbrt,
        "cos": trigonometric.cos,
        "cosh": hyperbolic.cosh,
        "erf": special.erf,
        "erfc": special.erfc,
        "exp": exponential.exp,
        "exp2": exponential.exp2,
        "expm1": exponential.expm1,
        "hypot": roots.hypot,
        "log": logarithmic.log,
        "log10": logarithmic.log10,
        "log1p": logarithmic.log1p,
        "log2": logarithmic.log2,
        "power": power.power,
        "sigmoid": exponential.sigmoid,
        "sin": trigonometric.sin,
        "sinh": hyperbolic.sinh,
        "tan": trigonometric.tan,
        "tanh": exponential.tanh,
    }
)
"""From an op's name to `function(body, *operands)`; operands are float or double, any lanes."""
