"""What a plan is: kernels in order, and the arrays between them."""

from __future__ import annotations

from fuser.base.records import field, record
from fuser.ir.graph import Graph, Node
from fuser.scheduling.clustering import Pair
from fuser.scheduling.row_tiles import Group


@record
class Buffer:
    """A temporary or output array: its name, the node that it holds, shape and dtype."""

    name: str
    node: Node


@record
class Plan:
    """A graph as kernels to launch in order.

    Attributes:
        graph: after rewriting.
        groups: one a kernel.
        temporaries: buffers that live during one call.
        outputs: the buffer of each graph output.
        realised: why a value is stored for others to read, by its buffer: a code of `verdicts`.
        pairs: pairs of stored values that were considered for one loop nest.
    """

    graph: Graph
    groups: tuple[Group, ...]
    temporaries: tuple[Buffer, ...]
    outputs: tuple[Buffer, ...]
    realised: dict[str, str] = field(default_factory=dict)
    pairs: tuple[Pair, ...] = ()
