"""Sums over a row or column from those of its parts: what `online_reductions` finds, as text.

All is added as doubles, and where parts may be many with the rounding errors of the additions.
"""

from __future__ import annotations

from fuser.backends.cpu.body import Body, Value
from fuser.backends.cpu.loops import begin_loop
from fuser.backends.cpu.reducing import accumulators
from fuser.backends.cpu.reducing.accumulators import Accumulator
from fuser.backends.cpu.reducing.reduction import Reduction
from fuser.backends.cpu.spelling import spell
from fuser.traffic.online_reductions import Factor, Merged, Merging


class OnlineSums(Reduction):
    """Gets results of a row, or of some columns, from what their parts have left."""

    merged: Merged
    merged_lanes = 1
    """Results that are computed at a time."""
    exactly = True
    """Whether rounding errors of the joining additions are worth keeping: parts may be many."""

    def _sum_of(self, number: int, part: str) -> tuple[Value, Value | None]:
        """A part's sum and, if it is known, its error."""
        raise NotImplementedError

    def _reference(self, number: int, part: str) -> Value:
        """A part's own reference."""
        raise NotImplementedError

    def _merge(self, mergings: list[Merging]) -> list[Value]:
        """Results of one stage."""
        b = self.b
        zero = b.constant_bits("double", self.merged_lanes, 0)
        loop = begin_loop(b, "0", self.parts)
        totals = [[loop.carry(zero) for _ in range(1 + self.exactly)] for _ in mergings]
        count = b.splat(wide(b, self._elements_of(loop.index)), self.merged_lanes)
        ends: list[Value] = []
        for merging_, carried in zip(mergings, totals, strict=True):
            for addend, rest in self._addends(merging_, loop.index, count):
                if not self.exactly:
                    carried = [b.op("fadd", carried[0], addend)]
                    continue
                total, more = accumulators.two_sum(b, carried[0], addend)
                carried = [total, b.op("fadd", carried[1], more)]
                if rest is not None:
                    carried[1] = b.op("fadd", carried[1], rest)
            ends += carried
        loop.end(ends)
        for k, merging_ in enumerate(mergings):
            value, *errors = loop.results[k * (1 + self.exactly) :][: 1 + self.exactly]
            for error in errors:
                value = b.op("fadd", value, error)
            self.values[merging_.number] = self._scaled(merging_, value)
        return [self.values[m.number] for m in mergings]

    def _addends(
        self, merging_: Merging, part: str, count: Value
    ) -> list[tuple[Value, Value | None]]:
        """What one part adds to a sum, with rounding errors that are known."""
        b = self.b
        total, error = self._sum_of(merging_.total, part)
        moves = [self._move(factor, part) for factor in merging_.factors]
        if merging_.exponential:
            assert moves[0] is not None
            weight = spell(b, "exp", "float64", [moves[0]])
            return [_times(b, (total, error), weight)]
        found: list[tuple[Value, Value | None]] = [(total, error)]
        for move, other in zip(moves, merging_.sums, strict=True):
            if move is not None and other is not None:
                found.append(_times(b, self._sum_of(other, part), move))
        if moves[0] is not None and moves[-1] is not None:
            every = b.op("fmul", count, moves[0])
            found.append((every if len(moves) == 1 else b.op("fmul", every, moves[-1]), None))
        return found

    def _move(self, factor: Factor, part: str) -> Value | None:
        """How far a factor moves from a part's reference to the whole's result."""
        b = self.b
        moved: Value | None = None
        for shift in factor.shifts:
            step = doubled(b, self._operand(shift.result, self.merged_lanes))
            if shift.reference is not None:
                step = b.op("fsub", step, doubled(b, self._reference(shift.reference, part)))
            if shift.sign < 0:
                step = b.op("fneg", step)
            moved = step if moved is None else b.op("fadd", moved, step)
        return moved

    def _scaled(self, merging_: Merging, value: Value) -> Value:
        """A result in its own dtype, with the factors that stand outside of the sum."""
        b = self.b
        for op, number in merging_.scales:
            factors = [self._operand(k, self.merged_lanes) for k in (number,) if k >= 0]
            value = b.op(_SCALES[op], value, *(doubled(b, factor) for factor in factors))
        if self.nest.dtype_of(merging_.number) == "float32":
            return b.cast("fptrunc", value, "float")
        return value


#: The instruction of each operation that stands outside of a sum.
_SCALES = {"negative": "fneg", "multiply": "fmul", "divide": "fdiv"}


def guessed(b: Body, accumulator: Accumulator, value: Value, ratio: Value) -> Value:
    """A result of some elements as if all were like them: what references are made of.

    Any reference is right; that of nothing but -inf must not make every element NaN.

    Args:
        b: where to write.
        accumulator: whose result it is.
        value: the result.
        ratio: of the number of all elements to that of these, a double.
    """
    if value.scalar not in ("float", "double"):
        return value
    if accumulator.row.adds:
        guess = b.op("fmul", doubled(b, value), b.splat(ratio, value.lanes))
        return guess if value.scalar == "double" else b.cast("fptrunc", guess, "float")
    size = b.intrinsic("llvm.fabs", value)
    endless = b.compare("fcmp oeq", size, b.fconst(size, float("inf")))
    return b.select(endless, b.fconst(value, 0.0), value)


def wide(b: Body, count: str) -> Value:
    """A count as a double."""
    return b.value(f"uitofp i64 {count} to double", "double", 1)


def doubled(b: Body, value: Value) -> Value:
    """Floats or doubles as doubles."""
    return value if value.scalar == "double" else b.cast("fpext", value, "double")


def _times(b: Body, total: tuple[Value, Value | None], factor: Value) -> tuple[Value, Value | None]:
    """A sum and its error, multiplied."""
    value, error = total
    rest = None if error is None else b.op("fmul", error, factor)
    return b.op("fmul", value, factor), rest
