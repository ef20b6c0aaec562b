"""Totals of few, long rows that are computed in parts: see `epilogues`.

Each row's results are noted in the argument block, in its last words before the scalars: a counter
of rows that are done, then row by row what totals are computed from. The last row that is done
calls the function that takes all of them into the totals.
"""

from __future__ import annotations

from fuser.backends.cpu.body import Module
from fuser.backends.cpu.reducing.column_reduction import PADDING
from fuser.backends.cpu.reducing.epilogues import Epilogue, RowEpilogue, border_of
from fuser.backends.cpu.reducing.online_parts import MergeRow
from fuser.backends.cpu.reducing.reduction import Frame, element_bytes
from fuser.backends.cpu.reducing.reduction_stages import stages_of
from fuser.backends.cpu.reducing.row_places import RowPlaces
from fuser.backends.cpu.reducing.row_reduction import RowReduction
from fuser.codegen import LoopNest


def note_words(nest: LoopNest, rows: int) -> int:
    """Words in which rows that are computed in parts leave their results: a counter before."""
    border, _ = border_of(nest, stages_of(nest))
    return 1 + rows * len(border) + PADDING


class _Noted(RowReduction):
    """Rows in parts: their results are noted in the argument block's last words before scalars."""

    border: list[int]

    def _more_words(self, place: int) -> tuple[int, str]:
        at, skipped = Frame._more_words(self, place)
        self.notes_end = self.number(f"add i64 {skipped}, {at}")
        self.row_count = "1"
        for length in self.lengths[: self.nest.rank - self.nest.reduced]:
            self.row_count = self.number(f"mul i64 {self.row_count}, {length}")
        return at, skipped

    def _noted(self, number: int, at: str, scalar: str) -> str:
        """Where a row's value is noted."""
        before = len(self.border) - self.border.index(number)
        size = self.number(f"mul i64 {self.row_count}, {before}")
        place = self.number(f"sub i64 {self.notes_end}, {size}")
        place = self.number(f"sub i64 {place}, {PADDING}")
        first = self.moved("%block", self.number(f"shl i64 {place}, 3"))
        return self.moved(first, self.number(f"mul i64 {at}, {element_bytes(scalar)}"))

    def _counter_of_rows(self) -> str:
        """Where the rows that are done are counted."""
        size = self.number(f"mul i64 {self.row_count}, {len(self.border)}")
        place = self.number(f"sub i64 {self.notes_end}, {size}")
        place = self.number(f"sub i64 {place}, {PADDING + 1}")
        return self.moved("%block", self.number(f"shl i64 {place}, 3"))


class _Noting(_Noted):
    """Notes a row's results as soon as they are there; the last row calls what ends it all."""

    def emit(self) -> None:
        """Append the function, and that of the end before it."""
        self.border, self.skipped = border_of(self.whole, self.stages)
        EndOfRows(self.module, self.whole, f"{self.name}.end").emit()
        super().emit()

    def _store_each_result(self) -> None:
        super()._store_each_result()
        b = self.b
        for number in self.border:
            value = self.values[number]
            address = self._noted(number, self.place, value.scalar)
            raw = b.cast("zext", value, "i8") if value.scalar == "i1" else value
            b.line(f"store {raw.typed}, ptr {address}, align 1")
        seen = self.number(f"atomicrmw add ptr {self._counter_of_rows()}, i64 1 acq_rel")
        done = self.number(f"add i64 {seen}, 1")
        last = b.value(f"icmp eq i64 {done}, {self.row_count}", "i1", 1).text
        end, after = b.label("end"), b.label("noted")
        b.line(f"br i1 {last}, label %{end}, label %{after}")
        b.start(end)
        b.value(f"call i32 @{self.name}.end(ptr %block, i64 0, i64 1, i64 0, i64 1)", "i32", 1)
        b.line(f"br label %{after}")
        b.start(after)


class SplitEpilogue(_Noting, RowPlaces):
    """Rows in parts with totals of their results."""


class MergeEpilogue(_Noting, MergeRow):
    """Results of rows longer than the cache with totals of these."""


class EndOfRows(_Noted, RowEpilogue):
    """Takes the results of all rows into the totals, and ends them."""

    linkage = "internal "

    def __init__(self, module: Module, nest: LoopNest, name: str) -> None:
        """As the function that it ends."""
        super().__init__(module, nest, name, split=True)

    def emit(self) -> None:
        """Append the function."""
        Epilogue.emit(self)

    def _item(self, item: str) -> None:
        self.blocks = "1"
        self._write([self._start(a) for a in self.running])
        self._flush(self.row_count)
        self._close(item)
