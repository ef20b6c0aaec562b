"""The one writer of generated Python: text becomes a function that tracebacks can show.

What a call repeats (assembling results, the steps between kernels) is
written once as the text of a function and compiled. The text stays with the function: a traceback
finds it through the loader in its globals, and both go together.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any


class _Source:
    """What `linecache` asks for the text of a generated function."""

    __slots__ = ("text",)

    def __init__(self, text: str) -> None:
        """Keep the text."""
        self.text = text

    def get_source(self, name: str) -> str:
        """The text, whatever the module is called."""
        return self.text


def define(
    name: str, parameters: Sequence[str], lines: Sequence[str], scope: dict[str, Any]
) -> Callable[..., Any]:
    """A function made of text.

    Args:
        name: of the function.
        parameters: as they stand in its head, with defaults that `scope` has.
        lines: its statements, indented within blocks alone.
        scope: its globals, by the names that the text has for them.
    """
    text = f"def {name}({', '.join(parameters)}):\n" + "".join(f"    {line}\n" for line in lines)
    scope["__name__"], scope["__loader__"] = f"fuser.generated.{name}", _Source(text)
    exec(compile(text, f"fuser generated {name}", "exec"), scope)
    made: Callable[..., Any] = scope[name]
    return made
