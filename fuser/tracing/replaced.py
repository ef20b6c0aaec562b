"""Functions that a trace has put in the place of others."""

from __future__ import annotations

from typing import Any


class Replaced:
    """What a traced function has in the place of a function of NumPy's or SciPy's."""

    __wrapped__: Any


def plain_function(value: Any) -> Any:
    """The function itself where a trace has put another in its place."""
    return value.__wrapped__ if isinstance(value, Replaced) else value
