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
class Repeat:
    """Iterations of a loop that a kernel runs for one block of elements after another.

    The kernel's one loop nest is an iteration: see `fuser.programs.interchange`.

    Attributes:
        trips: the symbol of how many iterations there are; at least one.
        index: the scalar that is the loop's index; given is that of the first iteration.
        step: by how much it rises.
        carried: (argument, output) pairs: what the next iteration finds is what this one leaves.
        rises: by how much lengths that tell where arguments are read rise from one to the next.
        goes_on: the output that is true where an element goes on; "" where all always do. A block
            of which no element does is done.
    """

    trips: str
    index: str
    step: int
    carried: tuple[tuple[str, str], ...]
    rises: tuple[tuple[str, int], ...] = ()
    goes_on: str = ""


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
        repeat: the iterations of a loop that its one kernel runs.
    """

    graph: Graph
    groups: tuple[Group, ...]
    temporaries: tuple[Buffer, ...]
    outputs: tuple[Buffer, ...]
    realised: dict[str, str] = field(default_factory=dict)
    pairs: tuple[Pair, ...] = ()
    repeat: Repeat | None = None

    @property
    def held(self) -> dict[str, Node]:
        """What temporaries and outputs hold, by buffer."""
        return {buffer.name: buffer.node for buffer in (*self.temporaries, *self.outputs)}
