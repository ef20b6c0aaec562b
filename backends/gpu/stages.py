"""A reducing nest in passes: what each pass over the elements computes, keeps and holds."""

from __future__ import annotations

from collections.abc import Sequence

from fuser.backends.gpu import cxx
from fuser.backends.gpu.accumulators import Accumulator, State
from fuser.backends.gpu.geometry import BODY_LIMIT, HEAVY_CODE, IN_FLIGHT, vector_width
from fuser.backends.gpu.section import is_flagged
from fuser.codegen import LoopNest
from fuser.ir.ops import TABLE
from fuser.ir.specs import CONTIGUOUS
from fuser.traffic import stages as by_elements

#: Bytes of running values that one thread holds at most: registers.
STATE_LIMIT = 128
#: Registers that one thread holds of its row at most, so that two blocks of 512 threads fit.
HELD_REGISTERS = 32
#: Operations that their unrolled code has at most, a costly one counting as several.
HELD_CODE = 4 * BODY_LIMIT
#: How many vectors of a row threads hold: a kernel for each, made when a length asks for it.
HELD_COUNTS = (1, 2, 3, 4, 6, 8)


class Stages(by_elements.Stages):
    """The stages with their states, and what is held; plain facts, for the text and the launch."""

    def __init__(self, nest: LoopNest, place: int | str = 0) -> None:
        """Classify all values.

        Args:
            nest: of strategy "row" or "column".
            place: its number in the unit, or more, for names.
        """
        super().__init__(nest)
        self.place = place
        self.column = nest.strategy == "column"
        self.states = [self._state(stage) for stage in range(self.last + 1)]

    def _state(self, stage: int) -> State:
        """The reductions that one pass computes; there may be none."""
        parts = [
            Accumulator(number, each.op, each.operand_dtype, each.operands[0])
            for number, each in self.reduced_by(stage)
        ]
        return State(f"State{self.place}_{stage}", parts)

    @property
    def width(self) -> int:
        """Elements, or columns, that a thread takes at a time."""
        width = vector_width(self.nest)
        if self.column:
            held = max((state.size for state in self.states if state.parts), default=1)
            while width > 1 and width * held > STATE_LIMIT:
                width //= 2
        return width

    def is_pass(self, stage: int) -> bool:
        """Whether a stage goes over the elements at all."""
        return bool(self.states[stage].parts or self.stores_of(stage))

    def kept(self) -> dict[int, int]:
        """Operands that several stages need, with the first; those with the largest vectors first.

        They are kept in shared memory between the stages.
        """
        uses: dict[int, list[int]] = {}
        for stage in range(self.last + 1):
            for k in self.loads_of(stage):
                uses.setdefault(k, []).append(stage)
        several = [
            k for k, stages in uses.items() if len(stages) > 1 and not self.nest.loads[k].counted
        ]
        several.sort(key=lambda k: -cxx.itemsize(self.nest.loads[k].dtype))
        return {k: uses[k][0] for k in several}

    @property
    def most_held(self) -> int:
        """Vectors of a row that each of its threads can hold in registers; 0: has no such kernel.

        Nests that note odd values have none: threads compute with what lies beyond the row.
        """
        if self.column or is_flagged(self.nest):
            return 0
        body = range(self.first, self.first + len(self.nest.body))
        code = self.width * self._weight(body)
        sizes = [cxx.itemsize(self.nest.loads[k].dtype) for k in self.kept() or self.loads_of(0)]
        registers = self.width * sum(3 if size >= 8 else 1 for size in sizes)  # doubles need more
        return max(
            (n for n in HELD_COUNTS if n * registers <= HELD_REGISTERS and n * code <= HELD_CODE),
            default=0,
        )

    def vector_bytes(self, k: int) -> int:
        """Bytes of one vector of an operand in memory."""
        if self.nest.loads[k].counted:
            return 0
        return cxx.itemsize(self.nest.loads[k].dtype) * self.width

    @property
    def ahead(self) -> dict[int, int]:
        """Operands of the first pass that may be copied a row ahead, with the bytes before."""
        if self.column or (self.nest.rank, self.nest.reduced) != (2, 1) or self.width == 1:
            return {}
        passes = (self.loads_of(stage) for stage in range(self.last + 1) if self.is_pass(stage))
        found: dict[int, int] = {}
        before = 0
        for k in next((loads for loads in passes if loads), []):
            desc, size = self.nest.loads[k], self.vector_bytes(k)
            if desc.access == CONTIGUOUS and size and size % 4 == 0:
                found[k] = before
                before += size
        return found

    @property
    def kept_bytes(self) -> int:
        """Shared memory that one vector of all kept operands takes."""
        return sum(map(self.vector_bytes, self.kept()))

    def kept_before(self, k: int) -> int:
        """Of that, what lies before an operand."""
        before = 0
        for other in self.kept():
            if other == k:
                break
            before += self.vector_bytes(other)
        return before

    @property
    def state_bytes(self) -> int:
        """The largest state."""
        return max((state.size for state in self.states if state.parts), default=0)

    def unroll(self, stage: int) -> int:
        """How many vectors a thread loads before it computes, in one stage."""
        loaded = sum(map(self.vector_bytes, self.loads_of(stage)))
        times = max(1, min(4, IN_FLIGHT // loaded)) if loaded else 1
        weight = self._weight([n for n in self.needed(stage) if n >= self.first])
        while times > 1 and weight * self.width * times > BODY_LIMIT:
            times //= 2
        return 2 if times == 3 else times

    def _weight(self, numbers: Sequence[int]) -> int:
        """How much code the computation of values is."""
        ops = [TABLE[self.nest.body[number - self.first].op] for number in numbers]
        return sum(HEAVY_CODE if op.heavy else 1 for op in ops)
