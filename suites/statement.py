"""Lines of code that are timed written out, as `timeit` does: NumPy's pays for no function call."""

import ast
import inspect
from collections.abc import Callable
from itertools import repeat
from typing import Any

import numpy as np

from fuser.suites.workload import Arguments

LOOP = """
def timed(calls, now_s, repeat, np, f, o, {parameters}):
    start_s = now_s()
    for _ in repeat(None, calls - 1):
        {body}
    {last}
    return now_s() - start_s, result
"""


class Statement:
    """A line with the names of a function's parameters, `np`, `f` and `o`, run many times."""

    def __init__(
        self, text: str, function: Callable[..., Any], prepared: Callable[..., Any],
        buffers: Arguments = (),
    ) -> None:
        """Compile.

        Args:
            text: statements on one line; the last one's value is the result.
            function: whose parameters are the names in it.
            prepared: `f` in the text.
            buffers: the first is `o` in the text.
        """
        parameters = list(inspect.signature(function).parameters)
        last = ast.parse(text).body[-1]
        if isinstance(last, ast.Expr):
            ending = f"{text[: last.col_offset]}result = {ast.unparse(last.value)}"
        else:
            assert isinstance(last, ast.AugAssign)  # the only other form that families have
            ending = f"{text}; result = {ast.unparse(last.target)}"
        code = LOOP.format(parameters=", ".join(parameters), body=text, last=ending)
        names: dict[str, Any] = {}
        exec(code, names)
        self._timed = names["timed"]
        self._fixed = (repeat, np, prepared, buffers[0] if buffers else None)

    def timed(
        self, arguments: Arguments, calls: int, now_s: Callable[[], float]
    ) -> tuple[float, Any]:
        """Return the seconds of so many runs, and the result of the last."""
        seconds, result = self._timed(calls, now_s, *self._fixed, *arguments)
        return seconds, result

    def __call__(self, *arguments: Any) -> Any:
        """Return the result of one run."""
        return self.timed(arguments, 1, float)[1]
