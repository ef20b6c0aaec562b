"""A program, prepared: stages of kernels, and what runs between them: functions and loops."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from fuser.base.errors import Reason
from fuser.base.records import field, record
from fuser.ir.attributes import Region as Box
from fuser.ir.dims import Dim
from fuser.ir.graph import Graph, Node
from fuser.ir.layouts import is_array
from fuser.ir.opaque_calls import DECIDED
from fuser.ir.views import Chain, View
from fuser.kernel_spec import KernelSpec, Options

if TYPE_CHECKING:
    from fuser.ir.loops import Region

#: "loop", "element loop": makes what runs one, a function of the arguments of its call; handed in.
made_by: dict[str, Callable[[Any], Callable[..., list[Any]]]] = {}


@record
class Kind:
    """What a program's value was in one call, without the value.

    Attributes:
        type: its class.
        dtype: of an array, or of a NumPy scalar.
        shape: likewise.
        strides: of an array.
        contiguous: whether it is an array in C order.
        owned: whether it is an array with memory of its own.
        is_array: whether it is an array at all.
    """

    type: type[Any]
    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    contiguous: bool
    owned: bool
    is_array: bool

    @classmethod
    def of(cls, value: Any) -> Kind:
        """What a value is."""
        if not is_array(value):
            dtype = getattr(value, "dtype", None) or np.dtype(type(value))
            return cls(type(value), dtype, (), (), False, False, False)
        flags = value.flags.c_contiguous, value.base is None
        return cls(type(value), value.dtype, value.shape, value.strides, *flags, True)

    def empty(self) -> Any:
        """Another value of this type, dtype and rank."""
        if self.is_array:
            return self.type((0,) * len(self.shape), self.dtype)
        return self.type(0)


@record
class Stage:
    """Kernels between two calls of functions that have no fused form.

    Attributes:
        spec: the prepared graph of these kernels; its parameters are named as the values are.
        stored: the values that its outputs are.
    """

    spec: KernelSpec
    stored: tuple[str, ...]


@record
class GraphBreak:
    """A function that NumPy runs between kernels.

    Attributes:
        nodes: the extern nodes, one for each result that is used.
        operands: (value, views) of each operand.
        stored: the values that `nodes` are.
        reason: why it is not fused.
    """

    nodes: tuple[Node, ...]
    operands: tuple[tuple[str, Chain], ...]
    stored: tuple[str, ...]
    reason: Reason


@record(eq=False)
class Asked:
    """What a program asks of values: a number that it reads, a decision, or a length.

    Attributes:
        nodes: the extern node.
        operands: (value, views) of the value that is read; none for others.
        stored: the value that the node is.
        where: `file:line` where the function asks.
    """

    nodes: tuple[Node, ...]
    operands: tuple[tuple[str, Chain], ...]
    stored: tuple[str, ...]
    where: str

    @property
    def decides(self) -> bool:
        """Whether the program is one path of several, by the outcome."""
        return bool(self.nodes[0].payload.name == DECIDED)


@record(eq=False)
class Phase:
    """Kernels of one iteration of a loop, which read before they write: see `programs.phases`.

    Attributes:
        body: its graph, prepared; its parameters are named as the region's values are.
        stored: the values that its outputs are; "" for one that is only written.
        writes: (value, output, box) of what its kernels write into arrays; None is all.
        moved: (value, stored value, box, view) of what is written where numbers of the iteration
            say, see `programs.phases.Moved`.
        parts: (parameter, array, views, copied) of parameters that numbers of the iteration say.
        twins: (array, parameter, repeated): they change places, see `programs.phases.PhaseGraph`.
    """

    body: KernelSpec | Program
    stored: tuple[str, ...]
    writes: tuple[tuple[str, int, Box | None], ...]
    moved: tuple[tuple[str, str, Box | None, View | None], ...] = ()
    parts: tuple[tuple[str, str, Chain, bool], ...] = ()
    twins: tuple[tuple[str, str, bool], ...] = ()


@record(frozen=False, slots=False, eq=False)
class ElementLoop:
    """A loop over single elements, which one kernel runs.

    Attributes:
        nodes: the extern nodes, one for each result that is used.
        operands: (value, views) of each operand.
        stored: the values that `nodes` are.
        where: `file:line` of the loop.
        owned: places of operands that a stage has made, and that nothing else needs: it may write
            into these.
        runners: what runs it, by the name of the backend that is chosen.
    """

    nodes: tuple[Node, ...]
    operands: tuple[tuple[str, Chain], ...]
    stored: tuple[str, ...]
    where: str
    owned: frozenset[int] = frozenset()
    runners: dict[str, Any] = field(default_factory=dict)


@record(eq=False)
class Interchange:
    """A loop whose iterations are the inner loop of one kernel, see `programs.interchange`.

    Attributes:
        trips: the number among the kernel's that says how many iterations there are.
        ends: (left, right) lengths: none on the left is larger in the last iteration, or the plain
            function runs the loop.
        rises: by how much lengths that tell where arrays are read rise from one to the next.
        ordered: whether what iterations leave lies in memory as what they find; None: if all arrays
            are in C order. Else one of them is looked at.
        least: with fewer iterations the plain function runs the loop: it leaves what a region does
            not know, or arrays that it has found. None at all are no such loop.
        asked: (value, truth) of what its first phase finds of the first iteration, where a loop
            that ends with it leaves what a region does not know.
    """

    trips: str
    ends: tuple[tuple[Dim, Dim], ...]
    rises: tuple[tuple[str, int], ...]
    ordered: bool | None
    least: int
    asked: tuple[str, bool] | None = None


@record(frozen=False, slots=False, eq=False)
class LoopRegion:
    """A loop whose iterations are kernels.

    Attributes:
        nodes: the extern nodes, one for each result that is used.
        operands: (value, views) of each operand.
        stored: the values that `nodes` are.
        region: what an iteration finds and leaves.
        phases: its kernels, in order.
        where: `file:line` of the loop.
        runners: what runs it, by the name of the backend that is chosen.
        owned: operands that nothing else looks at: it works on them, and not on copies.
        interchange: how its one kernel runs all iterations; None where each has its own kernels.
    """

    nodes: tuple[Node, ...]
    operands: tuple[tuple[str, Chain], ...]
    stored: tuple[str, ...]
    region: Region
    phases: tuple[Phase, ...]
    where: str
    runners: dict[str, Any] = field(default_factory=dict)
    owned: frozenset[int] = frozenset()
    interchange: Interchange | None = None


#: What runs between stages.
Between: TypeAlias = GraphBreak | LoopRegion | ElementLoop | Asked
Step: TypeAlias = Stage | Between


@record(frozen=False, slots=False, eq=False)
class Program:
    """A graph that is not all kernels: stages of kernels, functions and loops between them.

    Attributes:
        key: as KernelSpec's.
        text: the whole graph's canonical text.
        graph: the whole graph.
        options: what `fuse` was told.
        steps: stages, graph breaks, loops and what is asked of values, in the order of execution.
        outputs: the value of each output of the graph.
        constants: values that are known from the beginning: operands that are one number.
        dropped: for each step, the values that nothing needs after it.
        values: the nodes of the graph that steps store, by name.
        shared: how many of its first steps are those of another path of the same function.
    """

    key: int
    text: str
    graph: Graph
    options: Options
    steps: tuple[Step, ...]
    outputs: tuple[str, ...]
    constants: dict[str, Any]
    dropped: tuple[tuple[str, ...], ...]
    values: Mapping[str, Node] = field(default_factory=dict)
    shared: int = 0

    @property
    def stages(self) -> tuple[Stage, ...]:
        """The steps that are kernels."""
        return tuple(step for step in self.steps if isinstance(step, Stage))

    @property
    def graph_breaks(self) -> tuple[GraphBreak, ...]:
        """The steps that NumPy runs."""
        return tuple(step for step in self.steps if isinstance(step, GraphBreak))

    @property
    def loops(self) -> tuple[LoopRegion, ...]:
        """The steps that are loops."""
        return tuple(step for step in self.steps if isinstance(step, LoopRegion))

    @property
    def element_loops(self) -> tuple[ElementLoop, ...]:
        """The steps that are loops over elements."""
        return tuple(step for step in self.steps if isinstance(step, ElementLoop))

    @property
    def all_element_loops(self) -> list[ElementLoop]:
        """Those, and the ones that iterations of other loops have."""
        bodies = [phase.body for step in self.loops for phase in step.phases]
        inner = [body.all_element_loops for body in bodies if isinstance(body, Program)]
        return [*self.element_loops, *(step for steps in inner for step in steps)]

    @property
    def asked(self) -> tuple[Asked, ...]:
        """The steps that ask values."""
        return tuple(step for step in self.steps if isinstance(step, Asked))

    @property
    def between(self) -> tuple[Between, ...]:
        """The steps that are no kernels."""
        return tuple(step for step in self.steps if not isinstance(step, Stage))

    @property
    def repeated(self) -> list[KernelSpec]:
        """The specs of what loops repeat, those of loops within loops, too."""
        found: list[KernelSpec] = []
        for body in (phase.body for step in self.loops for phase in step.phases):
            if isinstance(body, KernelSpec):
                found.append(body)
            else:
                found += [*(stage.spec for stage in body.stages), *body.repeated]
        return found
