"""Memory inside a trace: its value now, and which arguments it may share memory with."""

from __future__ import annotations

from fuser.dims import Dim
from fuser.graph import Node
from fuser.tracing.trace_result import View


class Storage:
    """Memory as the function sees it: arrays and views that share it see each other's writes."""

    __slots__ = ("argument", "first", "looks_at", "node", "reach", "reshapes", "shared", "written")

    def __init__(self, node: Node, argument: int | None = None) -> None:
        """Start with the value `node`; `argument`: the parameter whose memory this is.

        `looks_at`: parameters whose memory this may be a view of, by NumPy. `reshapes`: views
        that were reshaped, their shapes, and what into; None where a copy is made if need be.
        """
        self.node = node
        self.first = node
        self.argument = argument
        self.looks_at: tuple[int, ...] = () if argument is None else (argument,)
        self.reshapes: list[tuple[tuple[View, ...], tuple[Dim, ...], tuple[Dim, ...] | None]] = []
        self.shared = False
        self.written = False
        self.reach = 0

    def replace(self, node: Node) -> None:
        """Give the memory another value."""
        self.node = node
        self.written = True
