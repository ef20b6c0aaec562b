"""The table of elementary functions, by NumPy's names."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from fuser.backends.cpu.elementary import exponential, logarithmic, trigonometric
from fuser.backends.cpu.elementary.kit import Function

ELEMENTARY: Mapping[str, Function] = MappingProxyType(
    {
        "cos": trigonometric.cos,
        "exp": exponential.exp,
        "exp2": exponential.exp2,
        "expm1": exponential.expm1,
        "log": logarithmic.log,
        "log10": logarithmic.log10,
        "log1p": logarithmic.log1p,
        "log2": logarithmic.log2,
        "sigmoid": exponential.sigmoid,
        "sin": trigonometric.sin,
        "tan": trigonometric.tan,
        "tanh": exponential.tanh,
    }
)
"""From an op's name to `function(body, *operands)`; operands are float or double, any lanes."""
