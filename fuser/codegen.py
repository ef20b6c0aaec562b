"""A fused group becomes device-independent loop nests; each backend spells them as text."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from fuser.base.records import record
from fuser.ir.attributes import dtype_name
from fuser.ir.ops import TABLE, Op
from fuser.ir.specs import ArgSpec, PartitionDesc, SectionSpec, TensorDesc
from fuser.ir.views import rises
from fuser.scheduling.loop_nests import Section
from fuser.scheduling.plans import Repeat
from fuser.scheduling.row_tiles import Group


@record
class Instruction:
    """One computed value: `result = op(operands)`.

    Attributes:
        op: a row of the op table.
        operands: numbers of earlier values.
        dtype: NumPy dtype name of the result.
        operand_dtype: dtype name of the last operand, which decides the row's column.
    """

    op: str
    operands: tuple[int, ...]
    dtype: str
    operand_dtype: str

    @property
    def row(self) -> Op:
        """The row of the op table."""
        return TABLE[self.op]


@record
class Repeated:
    """Iterations that a loop nest runs for each block of elements: its first loop counts them.

    Attributes:
        carried: (load, value) pairs: the next iteration finds the value that this one leaves.
        moving: loads that differ from one iteration to the next.
        counted: scalars that are the index of the iteration.
        step: by how much that rises.
        goes_on: the value that is true where an element goes on; -1 where all always do.
    """

    carried: tuple[tuple[int, int], ...]
    moving: tuple[int, ...] = ()
    counted: tuple[int, ...] = ()
    step: int = 1
    goes_on: int = -1


@record
class LoopNest:
    """Loops over one iteration space, specialised for an argument spec.

    Values are numbered: loads, scalars, constants, then instructions.

    Attributes:
        rank: number of loops after collapsing; at least 1, the last is the innermost.
        loads: how each operand is met; strides of outer loops are run-time data.
        scalars: dtype names of run-time scalars.
        constants: (dtype name, bits) pairs.
        body: instructions in order.
        stores: (value, how its destination is met) pairs.
        checked: note results that are not finite and divisors that are zero.
        strategy: "map", "repeat", "scan", "scan row", "scatter", "row" or "column"; see
            `SectionSpec`. In a
            reduction the operands' classes are along the innermost loop in memory: the last reduced
            one in a row, the last kept one in a column.
        reduced: how many loops, the last ones, are reduced.
        repeated: of what is run several times, what goes around.
    """

    rank: int
    loads: tuple[TensorDesc, ...]
    scalars: tuple[str, ...]
    constants: tuple[tuple[str, int], ...]
    body: tuple[Instruction, ...]
    stores: tuple[tuple[int, TensorDesc], ...]
    checked: bool = False
    strategy: str = "map"
    reduced: int = 0
    repeated: Repeated | None = None

    @property
    def operands(self) -> list[TensorDesc]:
        """How what is loaded, then what is stored, is met."""
        return [*self.loads, *(desc for _, desc in self.stores)]

    def dtype_of(self, value: int) -> str:
        """The dtype name of a numbered value."""
        if value < len(self.loads):
            return self.loads[value].dtype
        value -= len(self.loads)
        if value < len(self.scalars):
            return self.scalars[value]
        value -= len(self.scalars)
        if value < len(self.constants):
            return self.constants[value][0]
        return self.body[value - len(self.constants)].dtype

    @property
    def dtypes(self) -> list[str]:
        """The dtype names of all values, by their numbers."""
        leaves = [*self.scalars, *(name for name, _ in self.constants)]
        return [*(d.dtype for d in self.loads), *leaves, *(step.dtype for step in self.body)]

    @property
    def itemsize(self) -> int:
        """Bytes of the widest element that is computed with."""
        return max((np.dtype(name).itemsize for name in set(self.dtypes)), default=1)

    @property
    def value_count(self) -> int:
        """How many numbered values there are."""
        fixed = len(self.loads) + len(self.scalars) + len(self.constants)
        return fixed + len(self.body)


def scalar_nodes(section: Section) -> list[int]:
    """Positions in `section.leaves` of run-time scalars, in the order kernels take them."""
    return [k for k, leaf in enumerate(section.leaves) if leaf.op.is_scalar]


def loop_nest(
    section: Section, spec: SectionSpec, checked: bool = False, repeat: Repeat | None = None
) -> LoopNest:
    """Specialise one section.

    Args:
        section: loads, steps and stores of one iteration shape.
        spec: rank and operand classes after collapsing.
        checked: note floating-point exceptions.
        repeat: the iterations that it runs for each block of elements.
    """
    n_loads = len(section.loads)
    scalars = scalar_nodes(section)
    constants = [k for k in range(len(section.leaves)) if k not in set(scalars)]
    number = {k: k for k in range(n_loads)}
    for new, leaf in enumerate([*scalars, *constants]):
        number[n_loads + leaf] = n_loads + new
    first = n_loads + len(section.leaves)
    body = tuple(
        Instruction(
            step.node.op.name,
            tuple(number.get(k, k) for k in step.operands),
            dtype_name(step.node.dtype),
            dtype_name(step.node.args[-1].dtype),
        )
        for step in section.steps
    )
    assert first + len(body) == n_loads + len(section.leaves) + len(section.steps)
    stores = tuple(
        (number.get(value, value), desc)
        for (value, _), desc in zip(section.stores, spec.tensors[n_loads:], strict=True)
    )
    return LoopNest(
        spec.rank,
        spec.tensors[:n_loads],
        tuple(dtype_name(section.leaves[k].dtype) for k in scalars),
        tuple(
            (dtype_name(section.leaves[k].dtype), section.leaves[k].payload.bits) for k in constants
        ),
        body,
        stores,
        checked,
        spec.strategy,
        spec.reduced,
        None if repeat is None else _repeated(section, repeat, [value for value, _ in stores]),
    )


def _repeated(section: Section, repeat: Repeat, stored: Sequence[int]) -> Repeated:
    """What goes around in a section that is repeated; `stored`: the values of its stores."""
    value_of = {part: value for (_, part), value in zip(section.stores, stored, strict=True)}
    left, rising = dict(repeat.carried), dict(repeat.rises)
    carried = tuple(
        (k, value_of[PartitionDesc(left[part.buffer], part.views)])
        for k, part in enumerate(section.loads) if part.buffer in left
    )  # fmt: skip
    moving = tuple(k for k, part in enumerate(section.loads) if rises(part.views, rising))
    goes_on = value_of[PartitionDesc(repeat.goes_on)] if repeat.goes_on else -1
    scalars = (section.leaves[k].payload.expression for k in scalar_nodes(section))
    counted = tuple(
        place for place, text in enumerate(scalars, len(section.loads)) if text == repeat.index
    )
    return Repeated(carried, moving, counted, repeat.step, goes_on)


def loop_nests(
    group: Group, arg_spec: ArgSpec, checked: bool = False, repeat: Repeat | None = None
) -> tuple[LoopNest, ...]:
    """Specialise every section of a group."""
    pairs = zip(group.sections, arg_spec.sections, strict=True)
    return tuple(loop_nest(section, spec, checked, repeat) for section, spec in pairs)
