"""Attributes of operations: what a node has besides operands, typed, each with its text.

A view (`fuser.ir.views`) is an attribute, too. The text is what stands in the braces of a graph's
text; equal attributes have equal texts, and `read` takes a text back.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fuser.ir.dims import Dim

#: Places start, start + step, … below stop along one axis.
Span = tuple[Dim, Dim, int]


class Attribute:
    """What an operation has besides operands. Immutable; equal if class and text are.

    Attributes:
        text: as a graph's text spells it.
    """

    __slots__ = ("text",)
    text: str

    def __post_init__(self) -> None:
        """Spell it once: hashing and comparing take the text."""
        object.__setattr__(self, "text", self._spelled())

    def _spelled(self) -> str:
        """The text."""
        raise NotImplementedError

    def __eq__(self, other: object) -> bool:
        """Same class and text."""
        return type(other) is type(self) and other.text == self.text

    def __hash__(self) -> int:
        """Hash of the text."""
        return hash(self.text)

    @property
    def lengths(self) -> tuple[Dim, ...]:
        """The symbolic lengths that it is spelled with."""
        return ()

    def renamed(self, change: Callable[[Dim], Dim]) -> Any:
        """The same with other lengths."""
        return self
