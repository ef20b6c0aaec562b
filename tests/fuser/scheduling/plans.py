"""The plan of a function for example arguments."""

from typing import Any

import fuser
from fuser import executor
from fuser.compiler import compile_upfront


def plan_of(function: Any, *args: Any) -> tuple[Any, Any]:
    """The spec of a call, and its lengths."""
    graph = fuser.trace(function, *args)
    shapes = {p.name: a.shape for p, a in zip(graph.parameters, args, strict=True)}
    return compile_upfront(graph), executor.sizes_of(graph, shapes)
