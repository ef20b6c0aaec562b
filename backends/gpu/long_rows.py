"""Rows that several blocks share, read once for all reductions: where their parts leave results.

`fuser.traffic.online_reductions` says how a row's results are had from those of its parts. Every
block reduces its part of a row, which it holds in registers, and the last one merges the row's
parts; in a second launch every block reads its part again and stores its elements. A row is taken
anew, pass by pass, where merging gives something that is not finite.
"""

from __future__ import annotations

from dataclasses import dataclass

from fuser.backends.gpu.accumulators import Accumulator, State
from fuser.backends.gpu.stages import Stages
from fuser.base.caches import memo
from fuser.codegen import LoopNest
from fuser.traffic.online_reductions import Merged, merging


@dataclass(frozen=True, slots=True)
class LongRows:
    """How one nest's rows are cut, and what lies in the memory that the launches share.

    Attributes:
        merged: how the whole is had from parts.
        parts: the stages of the parts' own nest.
        sums: running values of merged sums, by stage of the whole row's nest.
        finals: numbers of a row's results, each in a word.
    """

    merged: Merged
    parts: Stages
    sums: dict[int, State]
    finals: tuple[int, ...]
    most_held: int
    stores: bool

    @property
    def final_bytes(self) -> int:
        """What a row's results take."""
        return _whole(8 * len(self.finals))

    def place_of(self, stage: int) -> int:
        """Where a part's state of one of its stages lies among the part's bytes."""
        return sum(_whole(state.size) for state in self.parts.states[:stage] if state.parts)

    def reference_at(self, number: int) -> int:
        """Likewise for a reference."""
        return self.place_of(len(self.parts.states)) + 8 * self.merged.references.index(number)

    @property
    def part_bytes(self) -> int:
        """What a part leaves."""
        states = self.place_of(len(self.parts.states))
        return states + _whole(8 * len(self.merged.references))

    @property
    def state_bytes(self) -> int:
        """The largest state that threads bring together, but for those of the row's own nest."""
        states = [*self.parts.states, *self.sums.values()]
        return max(state.size for state in states if state.parts)

    @property
    def phases(self) -> int:
        """Launches."""
        return 2 if self.stores else 1

    def scratch_bytes(self, rows: int, chunks: int) -> int:
        """Memory that the launches share."""
        return rows * (self.final_bytes + chunks * self.part_bytes)


def _whole(size: int) -> int:
    """In accesses of 16 bytes."""
    return -(-size // 16) * 16


@memo(256)
def long_rows(nest: LoopNest, place: int = 0) -> LongRows | None:
    """How rows of a nest are cut; None where every pass has to be a launch of its own.

    Args:
        nest: reduces.
        place: its number in the unit, for names.
    """
    stages = Stages(nest, place)
    numbers = [part.number for state in stages.states for part in state.parts]
    if nest.reduced > 1:
        return None
    early = any(stages.stores_of(stage) for stage in range(len(stages.states) - 1))
    if not stages.most_held or len(numbers) < 2 or early:
        return None
    if stages.states[stages.last].parts and stages.stores_of(stages.last):
        return None  # elements are stored beside the last reduction
    merged = merging(nest)
    if merged is None or not merged.mergings:
        return None
    parts = Stages(merged.local, f"{place}_part")
    if parts.width != stages.width:
        return None  # only what is stored lies together: parts are cut in vectors of the whole
    sums = {
        stage: State(
            f"Merged{place}_{stage}",
            [Accumulator(p.number, "sum", "float64", p.operand) for p in state.parts],
        )
        for stage, state in enumerate(stages.states)
        if stage and state.parts
    }
    held = min(stages.most_held, parts.most_held)
    stores = bool(stages.stores_of(stages.last))
    return LongRows(merged, parts, sums, tuple(numbers), held, stores) if held else None
