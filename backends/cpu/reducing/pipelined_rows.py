"""Rows whose last stage stores: in its loop the next row passes through the first stage.

A stage that stores waits for divisions and for the memory that it writes, and adding the next
row's elements meanwhile costs next to nothing; what follows from a row's sum, lane by lane and one
step after the other, is then there before it is wanted; and later stages find their row in the
first cache. As long as that holds two rows of what is read, what all rows share and what is
written, this is faster than rows one after another: 1.05 to 1.5 times on an EPYC. Not so where
operands and results come from memory, which reads slower while it is written to (0.8 to 0.95),
unless an earlier stage has left values where the last one stores: those lines are near.
"""

from __future__ import annotations

from typing import NamedTuple

from fuser.backends.cpu import conversion
from fuser.backends.cpu.body import Module, Value
from fuser.backends.cpu.division import Divisor
from fuser.backends.cpu.loops import begin_loop
from fuser.backends.cpu.reducing.accumulators import Accumulator
from fuser.backends.cpu.reducing.reduction_stages import stages_of
from fuser.backends.cpu.reducing.row_reduction import RowReduction
from fuser.codegen import LoopNest


def can_be_pipelined(nest: LoopNest) -> bool:
    """Whether a nest's first stage only reduces rows, and its last one only stores them."""
    if nest.strategy != "row" or nest.reduced != 1 or nest.rank < 2 or nest.checked or nest.totals:
        return False
    stages = stages_of(nest)
    first, last = stages.loops[0], stages.last
    running = stages.reductions_of(first)
    silent = not stages.stores_of(first) and not stages.left_by(first)
    places = any(a.places for stage in stages.loops for a in stages.reductions_of(stage))
    return stages.ends_with_stores and last > first and bool(running) and silent and not places


class _Row(NamedTuple):
    """A row between two stages."""

    rows: list[str]
    """Addresses of its operands."""
    values: dict[int, Value]
    divisors: dict[int, Divisor]


class PipelinedRows(RowReduction):
    """Emits one nest by rows, the first stage of each in the last loop of the row before."""

    looks_ahead = False

    def __init__(self, module: Module, nest: LoopNest, name: str, *, short: bool = False) -> None:
        """Choose how many elements are computed at a time."""
        super().__init__(module, nest, name, split=False, short=short)
        self.stored: _Row | None = None
        """The row that the last stage stores while the next one is reduced."""

    def _header(self) -> None:
        super()._header()
        self.counts = self.lengths[-1:]
        self._count_vectors()

    def _items(self) -> None:
        """The loop over rows, which passes on what the first stage made of the next one."""
        b, stages = self.b, self.stages
        first, steady = stages.loops[0], dict(self.values)
        rows = begin_loop(b, "%obegin", "%oend")
        taken = [rows.carry(each) for each in self._nothing()]
        self._go_to(rows.index)
        self._begin_row(steady)
        self._first_row(rows.index, taken)
        self._results(first + 1)
        for stage in range(first + 1, stages.last):
            if stage in stages.loops:
                self._whole_stage(stage, stages.reductions_of(stage))
            self._results(stage + 1)
        following = self.number(f"add i64 {rows.index}, 1")
        more = b.value(f"icmp ult i64 {following}, %oend", "i1", 1).text
        following = self.number(f"select i1 {more}, i64 {following}, i64 {rows.index}")
        taken = self._last_stage(following, steady)
        self._results(stages.last + 1)
        self._store_each_result()
        self.values = steady
        rows.end(taken)

    def _begin_row(self, steady: dict[int, Value]) -> None:
        """What is known of a row before its first stage."""
        self.tops, self.values = self.rows, dict(steady)
        self._load_edges()

    def _nothing(self) -> list[Value]:
        """What stands for results of the first stage before the first row."""
        dtypes = [self.nest.dtype_of(a.number) for a in self._early()]
        return [self.b.constant_bits(conversion.REGISTER[dtype], 1, 0) for dtype in dtypes]

    def _early(self) -> list[Accumulator]:
        """The reductions of the first stage."""
        return self.stages.reductions_of(self.stages.loops[0])

    def _take_early(self) -> list[Value]:
        """The first stage of a row; its results."""
        running = self._early()
        self._whole_stage(self.stages.loops[0], running)
        return [self.values[accumulator.number] for accumulator in running]

    def _first_row(self, row: str, taken: list[Value]) -> None:
        """The first stage of the first row, which no row before it has taken along."""
        b = self.b
        begin, known = b.label("first"), b.label("known")
        is_first, before = b.value(f"icmp eq i64 {row}, %obegin", "i1", 1).text, b.block
        b.line(f"br i1 {is_first}, label %{begin}, label %{known}")
        b.start(begin)
        found, after = self._take_early(), b.block
        b.line(f"br label %{known}")
        b.start(known)
        for accumulator, old, new in zip(self._early(), taken, found, strict=True):
            text = f"phi {new.type} [ {old.text}, %{before} ], [ {new.text}, %{after} ]"
            self.values[accumulator.number] = b.value(text, new.scalar, 1)

    def _last_stage(self, following: str, steady: dict[int, Value]) -> list[Value]:
        """Store this row, and take the following one through the first stage."""
        self._prepare_divisors(self.stages.last)
        here = _Row(self.rows, self.values, self.divisors)
        self._go_to(following)
        self._begin_row(steady)
        self.stored = here
        taken = self._take_early()
        self.stored, self.rows, self.values, self.divisors = None, here.rows, here.values, {}
        return taken

    def _may_end_early(self, stage: int, running: list[Accumulator]) -> bool:
        return self.stored is None and super()._may_end_early(stage, running)

    def _takes_few(self, stage: int, running: list[Accumulator]) -> bool:
        divided = self.stored is not None and self.stored.divisors
        return not divided and super()._takes_few(stage, running)

    def _take_at(
        self,
        stage: int,
        running: list[Accumulator],
        tops: list[str],
        done: str,
        mask: Value | None,
        vector: str = "0",
    ) -> None:
        """One vector of a row after `done` elements, and one of the row that is stored."""
        super()._take_at(stage, running, tops, done, mask, vector)
        if self.stored is None:
            return
        here = self.values, self.divisors
        self.values, self.divisors = self.stored.values, self.stored.divisors
        self._operands_of(self.stages.last, [], self.stored.rows, done, mask)
        self.values, self.divisors = here
