"""Truths in rows: one may decide a row's result, and what counts them needs no lane for each."""

from __future__ import annotations

from functools import partial, reduce

from fuser.backends.cpu.body import Value
from fuser.backends.cpu.reducing.accumulators import Accumulator
from fuser.backends.cpu.reducing.emit_reduction import Reduction


class RowTruths(Reduction):
    """What rows do with truths."""

    short = False
    """Whether a row's vectors are one block."""
    counts_truths = False
    """Whether sums of truths are numbers, not vectors, while a row is added."""

    def _addend(self, accumulator: Accumulator) -> Value:
        truth = self._counted(accumulator)
        return super()._addend(accumulator) if truth is None else self._operand(truth)

    def _counted(self, accumulator: Accumulator) -> int | None:
        """The truth that a sum of integers counts, in one number: not in a lane for each."""
        place = accumulator.operand - self.first
        if not self.counts_truths or not accumulator.row.adds or place < 0 or self.short:
            return None
        instruction, sums = self.nest.body[place], accumulator.register in ("i32", "i64")
        is_truth = instruction.row.converts and instruction.operand_dtype == "bool"
        moves = self.stages.levels[instruction.operands[0]] == 2
        return instruction.operands[0] if sums and is_truth and moves else None

    def _may_end_early(self, stage: int, running: list[Accumulator]) -> bool:
        """Whether further elements of a row may change nothing: truths, of which one is enough."""
        stages = self.stages
        if self.nest.checked or stages.stores_of(stage) or stages.left_by(stage):
            return False
        return bool(running) and all(a.register == "i1" for a in running)

    def _settled(self, running: list[Accumulator]) -> Value:
        """Whether every extreme of truths is what it can be at most."""
        b, found = self.b, []
        for accumulator in running:
            met = accumulator.parts[0]
            if not accumulator.row.greatest:
                met = b.op("xor", met, b.constant_bits("i1", met.lanes, 1))
            found.append(b.any(met))
        return reduce(partial(b.op, "and"), found)
