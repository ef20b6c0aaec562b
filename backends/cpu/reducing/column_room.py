"""Memory of a call in which parts of columns are written down: see `online_columns`.

Vectors of all columns: for each part what it leaves, then results that elements need, or else what
is written down of a part beside.
"""

from __future__ import annotations

from fuser.backends.cpu import conversion
from fuser.backends.cpu.reducing.accumulators import Accumulator
from fuser.backends.cpu.reducing.column_reduction import PADDING
from fuser.backends.cpu.reducing.column_tiles import RESULT
from fuser.backends.cpu.reducing.emit_reduction import element_bytes
from fuser.backends.cpu.reducing.reduction_stages import Stages
from fuser.codegen import LoopNest
from fuser.scheduling.online_reductions import Merged

Key = tuple[int, int]
"""A value, and which part of it."""
#: Stands for all stages of a part at once.
ALL = -2
#: Each vector begins with a line of the cache: at a multiple of so many elements of 4 bytes.
ALIGNED = 16


class AllAtOnce(Stages):
    """Stages of a part: `ALL` has the reductions of every one."""

    def reductions_of(self, stage: int) -> list[Accumulator]:
        """The reductions of one stage, or of all."""
        if stage != ALL:
            return super().reductions_of(stage)
        return [a for each in self.loops for a in super(AllAtOnce, self).reductions_of(each)]


class ColumnRoom:
    """What is written down, and bytes of each for all columns."""

    def __init__(self, nest: LoopNest, merged: Merged) -> None:
        """Count all."""
        stages, local = Stages(nest), AllAtOnce(merged.local)

        def result(of: LoopNest, number: int) -> tuple[Key, str]:
            return (number, RESULT), conversion.REGISTER[of.dtype_of(number)]

        self.left: list[tuple[Key, str]] = [
            ((a.number, 0), a.register) for a in local.reductions_of(ALL)
        ]
        """What a part leaves: its running values, and what they refer to."""
        self.left += [result(merged.local, number) for number in merged.references]
        known = {key for key, _ in self.left}
        made = (number for number in local.edge(ALL) if number >= local.first)
        beside = (result(merged.local, number) for number in made)
        self.own = [each for each in beside if each[0] not in known]
        """What elements of a part need beside."""
        self.results: list[tuple[int, str]] = []
        if stages.ends_with_stores:
            self.results = [
                (number, conversion.REGISTER[nest.dtype_of(number)])
                for number in stages.edge(stages.last)
                if number >= stages.first
            ]
        scalars = [of for _, of in (*self.left, *self.own)]
        self.column_bytes = sum(map(element_bytes, scalars))
        """Bytes that are written down for one column of a part."""
        self.width = max(map(element_bytes, (*scalars, *(of for _, of in self.results))))

    def size_bytes(self, rows: int, parts: int, columns: int) -> int:
        """Of all parts of so many outer iterations."""
        own = 0 if self.results else len(self.own)
        vectors = rows * (parts * (len(self.left) + own) + len(self.results))
        return vectors * (-(-(columns + PADDING) // ALIGNED) * ALIGNED) * self.width
