"""Parts of long rows that are joined by whoever finishes the last one.

Nobody waits, so parts need no order: each thread begins with those that it had in the call before,
whose operands may still lie in its own cache. They are joined in their order, whoever does it.
"""

from __future__ import annotations

from fuser.backends.cpu.reducing.accumulators import Accumulator
from fuser.backends.cpu.reducing.row_places import RowPlaces


class JoinedParts(RowPlaces):
    """Emits a nest of rows with one stage, in parts."""

    def _part(self, stage: int, running: list[Accumulator], done: str) -> None:
        b = self.b
        self._stage(stage, running)
        before = self._keep(stage, running)
        finished = self.number(f"add i64 {before}, 1")
        last = b.value(f"icmp eq i64 {finished}, {self.parts}", "i1", 1).text
        join = b.label("join")
        b.line(f"br i1 {last}, label %{join}, label %{done}")
        b.start(join)
        self._joined(stage, running)

    def _store_results(self, done: str) -> None:
        b = self.b
        for place, (number, _) in enumerate(self.nest.stores):
            if self.stages.store_level(place) == 1:
                self._store_result(len(self.nest.loads) + place, number)
        b.line(f"br label %{done}")
        b.start(done)
