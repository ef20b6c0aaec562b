"""A prepared graph with its plan, which owns the kernels compiled for it."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any, NamedTuple

from fuser.base import forks
from fuser.base.errors import Reason
from fuser.base.records import field, record
from fuser.ir import dims
from fuser.ir.graph import Graph
from fuser.ir.specs import ArgSpec
from fuser.scheduling.plans import Plan


class Options(NamedTuple):
    """What `fuse` is told of kernels, from the public call down to their loop nests.

    Attributes:
        mode: "fused" or "unfused".
        fastmath: allow the FAST rules, which may change results by rounding errors.
        errstate: kernels note floating-point exceptions.
    """

    mode: str = "fused"
    fastmath: bool = False
    errstate: bool = False


FUSED = Options()


@record(frozen=False, slots=False, eq=False)
class KernelSpec:
    """A registered graph, prepared once, with its own thread-safe store of kernels.

    Attributes:
        key: the number that `register_fusion` gives.
        text: the graph's canonical text, and the mode.
        graph: as registered.
        options: what `fuse` was told.
        plan: groups, buffers and the rewritten graph.
        applied: the rewrite rules that were used.
        launches: bound launches by layouts, see `fuser.runtime.launch`.
        in_parts: the plan computes with real and imaginary parts in place of complex values.
        planned: the same graph, planned for what a backend can do and for what is written into
            arguments: see `fuser.compiler.planned`. None: its own plan serves.
        refused: why no kernel is made of it in any layout; late: see `budget.is_final`.
    """

    key: int
    text: str
    graph: Graph
    options: Options
    plan: Plan
    applied: tuple[Any, ...] = ()
    launches: dict[Any, Any] = field(default_factory=dict)
    in_parts: bool = False
    planned: dict[Any, KernelSpec | None] = field(default_factory=dict)
    refused: Reason | None = None
    late: set[Any] = field(default_factory=set)
    _kernels: dict[tuple[int, ArgSpec], Any] = field(default_factory=dict)
    _lock: threading.RLock = field(default_factory=forks.lock)
    _building: dict[tuple[int, ArgSpec], threading.RLock] = field(default_factory=dict)

    def planned_as(self, plan: Plan, in_parts: bool = False) -> KernelSpec:
        """The same spec with another plan: itself where that is its own."""
        if plan is self.plan:
            return self
        return KernelSpec(
            self.key, self.text, self.graph, self.options, plan, self.applied,
            in_parts=self.in_parts or in_parts,
        )  # fmt: skip

    @forks.cached_property
    def shaping(self) -> tuple[str, ...]:
        """Of the lengths that integer arguments tell, those that are in some shape.

        Others, such as the index in `x[k]`, only move where kernels read and write: calls with
        other numbers run the same launch.
        """
        if not self.graph.scalar_lengths:
            return ()
        nodes = (*self.graph.nodes, *self.plan.graph.nodes)
        used = {name for node in nodes for dim in node.shape for name in dims.symbols(dim)}
        used |= {self.plan.repeat.trips} if self.plan.repeat else set()
        return tuple(name for name in self.graph.scalar_lengths if name in used)

    @forks.cached_property
    def moving(self) -> frozenset[str]:
        """Of the lengths that integer arguments tell, those that are in no shape."""
        return frozenset(self.graph.scalar_lengths) - {*self.shaping}

    @forks.cached_property
    def has_complex(self) -> bool:
        """Whether some value of the planned graph is complex."""
        return any(node.dtype.kind == "c" for node in self.plan.graph.nodes)

    @property
    def may_raise(self) -> bool:
        """Whether a kernel of this spec may stop with a status."""
        return self.options.errstate or any(  # floats have a value for everything
            node.dtype.kind in node.op.raises for node in self.plan.graph.nodes
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
