"""The table of elementary functions, by NumPy's names."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from importlib import import_module
from types import MappingProxyType

from fuser.backends.cpu.elementary.kit import Function

FAMILIES: Mapping[str, str] = MappingProxyType(
    {
        "arccos": "inverse",
        "arccosh": "inverse_hyperbolic",
        "arcsin": "inverse",
        "arcsinh": "inverse_hyperbolic",
        "arctan": "inverse",
        "arctan2": "inverse",
        "arctanh": "inverse_hyperbolic",
        "cbrt": "roots",
        "cos": "trigonometric",
        "cosh": "hyperbolic",
        "erf": "special",
        "erfc": "special",
        "exp": "exponential",
        "exp2": "exponential",
        "expm1": "exponential",
        "hypot": "roots",
        "log": "logarithmic",
        "log10": "logarithmic",
        "log1p": "logarithmic",
        "log2": "logarithmic",
        "power": "power",
        "sigmoid": "exponential",
        "sin": "trigonometric",
        "sinh": "hyperbolic",
        "tan": "trigonometric",
        "tanh": "exponential",
    }
)
"""From an op's name to the module of this package that has a function of that name."""


class _Table(Mapping[str, Function]):
    """Imports a family when one of its functions is first wanted."""

    def __getitem__(self, name: str) -> Function:
        """The function of an op.

        Raises:
            KeyError: there is none.
        """
        module = import_module(f"fuser.backends.cpu.elementary.{FAMILIES[name]}")
        function: Function = getattr(module, name)
        return function

    def __iter__(self) -> Iterator[str]:
        """The ops' names."""
        return iter(FAMILIES)

    def __len__(self) -> int:
        """How many there are."""
        return len(FAMILIES)


ELEMENTARY: Mapping[str, Function] = _Table()
"""From an op's name to `function(body, *operands)`; operands are float or double, any lanes."""
