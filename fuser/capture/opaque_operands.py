"""Calls between kernels, while tracing: their operands as text, and what they gave before."""

from __future__ import annotations

from collections.abc import Callable
from types import FunctionType
from typing import Any

import numpy as np

from fuser.base.errors import Unsupported
from fuser.base.protocols import has
from fuser.ir import opaque_calls
from fuser.ir.function_table import plain_function
from fuser.ir.graph import Node, make_constant
from fuser.tracing.trace_state import Tracing
from fuser.tracing.traced_array import TracedArray
from fuser.tracing.traced_scalars import HostScalar


class Operands:
    """The operands of one call, numbered as they are spelled."""

    def __init__(self, tracing: Tracing) -> None:
        self.tracing = tracing
        self.arrays: list[Any] = []
        self.nodes: list[Node] = []

    def text(self, value: Any) -> str | None:
        """`a0` for an array, `host('n0')` for a traced number; None for anything else."""
        from fuser.ir import opaque_text

        if isinstance(value, TracedArray):
            if value.tracing is not self.tracing:
                raise Unsupported(
                    "not-traceable", "nested trace", "an array that belongs to another traced call"
                )
            return self._add(value, value.node, value.generic)
        if type(value) is HostScalar:
            return f"host({value.text!r})"
        if isinstance(value, np.generic) and opaque_text.named_dtype(value.dtype):
            return self._add(value, make_constant(value, value.dtype), True)
        if isinstance(value, np.ndarray) or has(value, "__cuda_array_interface__"):
            array = self.tracing.capture(value)
            return self._add(array, array.node, False)
        if callable(value) and not isinstance(value, type):
            return _function_text(value, self.text)
        return None

    def _add(self, value: Any, node: Node, scalar: bool) -> str:
        self.arrays.append(value)
        self.nodes.append(node)
        return f"a{len(self.nodes) - 1}{'[()]' if scalar else ''}"


def _function_text(value: Any, operand: Callable[[Any], str | None]) -> str | None:
    """`function('numpy.sum')` for a function that NumPy is to call; None where it has no name.

    One that reaches traced values is `closure('module.name', a2)`, with them after its name.
    """
    from fuser.capture.namespace import original  # which is not loaded with this file
    from fuser.ir import callables

    function = plain_function(value)
    if type(function) is not FunctionType or name_of(function) is not None:
        name = name_of(function)
        return None if name is None else f"function({name!r})"
    traced: list[Any] = []
    plain = original(function, traced, callables.FREE)
    known = None if plain is None else callables.name_of(plain)
    if known is None:
        return None
    held = [operand(each) for each in traced]
    if None in held:
        return None
    parts = ", ".join([repr(known), *map(str, held)])
    return f"closure({parts})" if held else f"function({parts})"


def name_of(function: Any) -> str | None:
    """The name by which NumPy's function is found again, or None."""
    module = getattr(function, "__module__", None) or "numpy"
    names = [f"{module}.{getattr(function, '__name__', '')}"]
    names.append(f"numpy.{getattr(function, '__name__', '')}")
    for name in names:
        try:
            if opaque_calls.resolve(name) is function:
                return name
        except Exception:  # noqa: BLE001 - odd names of other packages: then it is not NumPy's
            continue
    return None
