"""Descriptions that kernels are specialised on, and the specs that own compiled kernels."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from fuser import forks
from fuser.errors import Reason
from fuser.records import field, record

if TYPE_CHECKING:
    from fuser.graph import Graph
    from fuser.schedule import Plan

CONTIGUOUS, STRIDED, INVARIANT = "contiguous", "strided", "invariant"


@record
class TensorDesc:
    """How a kernel meets one operand: its dtype and its innermost stride's class.

    Attributes:
        dtype: NumPy dtype name.
        access: "contiguous" (stride of one item), "invariant" (stride 0) or "strided", along the
            innermost loop. Strides of outer loops are data.
        steady: in a reduction down columns or over several loops, the operand stays the same
            along all reduced loops.
        beside: in a reduction of rows, its stride's class along the last loop that is kept.
        counted: there is no memory: an element's value is its address divided by its size, and
            the addresses start at 0.
    """

    dtype: str
    access: str
    steady: bool = False
    beside: str = ""
    counted: bool = False

    def __str__(self) -> str:
        """`float32 contiguous`."""
        return f"{self.dtype} {self.access}{' counted' if self.counted else ''}"

    @property
    def picked(self) -> bool:
        """Whether elements lie apart in memory along the innermost loop."""
        return self.access not in (CONTIGUOUS, INVARIANT) and not self.counted


@record
class SectionSpec:
    """One loop nest's specialisation: loops after collapsing, and its operands.

    Attributes:
        rank: number of loops.
        tensors: how operands are met: loads, then stores.
        strategy: "map" where nothing is reduced; "row" where the innermost loop is reduced;
            "column" where elements beside each other belong to different results.
        reduced: how many loops, the last ones, are reduced.
    """

    rank: int
    tensors: tuple[TensorDesc, ...]
    strategy: str = "map"
    reduced: int = 0


@record
class ArgSpec:
    """What one compiled kernel serves: device, and a section spec for each loop nest.

    Lengths, strides of outer loops, addresses, alignment and scalar values are not in it.
    """

    device: str
    sections: tuple[SectionSpec, ...]


@record
class PartitionDesc:
    """A part of a buffer, as views applied one after another: the classic chunk and cat.

    Attributes:
        buffer: `x0` (argument), `t0` (temporary) or `o0` (output).
        views: (operation, payload) pairs: index, transpose, reshape, broadcast_to.
    """

    buffer: str
    views: tuple[tuple[str, str], ...] = ()

    def __str__(self) -> str:
        """`x0[1:].transpose(1, 0)`."""
        text = self.buffer
        for name, payload in self.views:
            if name == "component":
                text += ".imag" if int(payload) else ".real"
            else:
                text += f"[{payload}]" if name == "index" else f".{name}({payload})"
        return text


@record(frozen=False, slots=False, eq=False)
class KernelSpec:
    """A registered graph, prepared once, with its own thread-safe store of kernels.

    Attributes:
        key: the number that `register_fusion` gives.
        text: the graph's canonical text, and the mode.
        graph: as registered.
        mode: "fused" or "unfused".
        fastmath: whether the FAST rules were allowed.
        plan: groups, buffers and the rewritten graph.
        applied: the rewrite rules that were used.
        checked: kernels note floating-point exceptions (`errstate=True`).
        launches: bound launches by layouts, see `fuser.calling.launch`.
        without_totals: the same graph for backends that spell no totals, or no rows that nests hand
            to each other, see `fuser.planning.totals` and `fuser.planning.rows`.
        in_components: the same graph without complex values, see `fuser.planning.components`.
        writing: the same graph by what it writes into arguments, see `fuser.planning.written`.
        refused: why no kernel is made of it in any layout.
    """

    key: int
    text: str
    graph: Graph
    mode: str
    fastmath: bool
    plan: Plan
    applied: tuple[Any, ...] = ()
    checked: bool = False
    launches: dict[Any, Any] = field(default_factory=dict)
    without_totals: KernelSpec | None = None
    in_components: KernelSpec | None = None
    writing: dict[Any, KernelSpec] = field(default_factory=dict)
    refused: Reason | None = None
    _kernels: dict[tuple[int, ArgSpec], Any] = field(default_factory=dict)
    _lock: threading.RLock = field(default_factory=forks.lock)
    _building: dict[tuple[int, ArgSpec], threading.RLock] = field(default_factory=dict)

    def planned_as(self, plan: Plan) -> KernelSpec:
        """The same spec with another plan: itself where that is its own."""
        if plan is self.plan:
            return self
        return KernelSpec(
            self.key, self.text, self.graph, self.mode, self.fastmath, plan, self.applied,
            self.checked,
        )  # fmt: skip

    @forks.cached_property
    def has_complex(self) -> bool:
        """Whether some value of the planned graph is complex."""
        return any(node.dtype.kind == "c" for node in self.plan.graph.nodes)

    @property
    def may_raise(self) -> bool:
        """Whether a kernel of this spec may stop with a status."""
        return self.checked or any(  # floats have a value for everything
            node.op.raises and node.dtype.kind in "iu" for node in self.plan.graph.nodes
        )

    def kernel(self, group: int, arg_spec: ArgSpec, build: Callable[[], Any]) -> Any:
        """The kernel, built at most once however many threads ask at the same time."""
        place = (group, arg_spec)
        found = self._kernels.get(place)
        if found is not None:
            return found
        with self._lock:
            turn = self._building.setdefault(place, forks.lock())
        with turn:  # the first builds, the others wait for it
            found = self._kernels.get(place)
            if found is None:
                found = self._kernels.setdefault(place, build())
        return found

    @property
    def kernels(self) -> tuple[Any, ...]:
        """All kernels compiled for this spec."""
        return tuple(self._kernels.values())


def access_class(stride: int, itemsize: int) -> str:
    """Classify an innermost stride in bytes."""
    if stride == itemsize:
        return CONTIGUOUS
    return INVARIANT if stride == 0 else STRIDED


def desc_of(dtype: np.dtype[Any], stride: int, counted: bool = False) -> TensorDesc:
    """The TensorDesc of an operand with this innermost stride in bytes."""
    return TensorDesc(dtype.name, access_class(stride, dtype.itemsize), counted=counted)


def counted_name(length: str) -> str:
    """The buffer of positions 0, 1, 2 … below a length: it has no memory."""
    return f"positions({length})"


def is_counted(buffer: str) -> bool:
    """Whether a buffer is one of positions."""
    return buffer.startswith("positions(")


def counted_length(buffer: str) -> str:
    """The length of a buffer of positions."""
    return buffer[len("positions(") : -1]
