"""What a fused function's `explain` gives, as type checkers see it: `explain/` makes it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

from fuser.base.errors import Reason
from fuser.ir.graph import Graph
from fuser.traffic.ledger import Ledger

if TYPE_CHECKING:
    import pandas


class Explained(Protocol):
    """What a call runs, and why: `fuser.Explanation`, whose documentation says what each is."""

    name: str
    mode: str
    groups: list[str]
    fallbacks: list[Reason]
    graph_breaks: list[str]
    loops: list[str]
    asked: list[str]
    decisions: list[str]
    ledger: Ledger | None
    guards: list[str]
    rules: list[str]
    realised: dict[str, str]
    lengths: list[str]
    graph: Graph | None

    @property
    def candidates(self) -> pandas.DataFrame:
        """Every pair considered."""
        ...

    @property
    def boundaries(self) -> list[dict[str, Any]]:
        """What crosses the borders between kernels."""
        ...

    @property
    def arrays_made(self) -> tuple[int, int]:
        """How many temporaries and how many results one call makes."""
        ...

    def to_svg(self) -> str:
        """A drawing of the plan, as SVG text."""
        ...

    def to_dot(self) -> str:
        """The same drawing as Graphviz text."""
        ...
