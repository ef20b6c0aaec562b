"""Places of extremes in rows: short ones are in registers, whole, until the place is known.

A value and its place in each lane cost two comparisons and two choices a vector, and lanes have to
be joined in the end. Of a row of some vectors, at most, the extreme comes first, and then a bit for
each element that is as extreme: the lowest one is the place. The first NaN counts as the extreme.
The row's last vector ends with the row, and may overlap the one before it. Of truths the first is
looked for, where the row ends.

Parts of long rows with one stage are joined by whoever finishes the last one (`JoinedParts`):
nobody waits, so parts need no order. Each thread begins with those that it had in the call before,
whose operands may still lie in its own cache. They are joined in their order, whoever does it.
"""

from __future__ import annotations

import numpy as np

from fuser.backends.cpu import tuning
from fuser.backends.cpu.body import BITS, Body, Value
from fuser.backends.cpu.loops import begin_loop
from fuser.backends.cpu.reducing import accumulators
from fuser.backends.cpu.reducing.accumulators import Accumulator
from fuser.backends.cpu.reducing.row_reduction import RowReduction
from fuser.backends.cpu.vector_memory import lane_mask


class RowPlaces(RowReduction):
    """Emits one nest by rows; the stages that give just one place in a way of their own."""

    counts_truths = True

    def _stage(self, stage: int, running: list[Accumulator]) -> None:
        if self._finds_truth(stage, running):
            running[0].parts = self._first_truth(stage, running[0])
            return
        if not self._has_one_place(stage, running):
            super()._stage(stage, running)
            return
        b, (accumulator,) = self.b, running
        usual, ways, done = self.lanes, [], b.label("found")
        self.lanes = self._narrow_lanes(stage)
        brief = min(BITS["i64"], tuning.PLACES_AT_ONCE * self.lanes)
        for most, form in ((self.lanes - 1, self._few), (brief, self._brief)):
            fits = b.value(f"icmp ule i64 {self.counts[-1]}, {most}", "i1", 1).text
            within, after = b.label("within"), b.label("longer")
            b.branch(fits, within, after)
            self._prepare_divisors(stage)  # each form has vectors, and divisors, of its own
            best, place = form(stage, accumulator)
            place = b.op("add", place, Value(self.begin, "i64", 1))
            ways.append(([best, place], b.block))
            b.line(f"br label %{done}")
            b.start(after)
        self.lanes = usual
        super()._stage(stage, running)
        ways.append((accumulator.parts, b.block))
        b.jump(done)
        self.divisors = {}
        accumulator.parts = [
            _joined(b, *((parts[k], end) for parts, end in ways)) for k in range(2)
        ]

    # -- rows of some vectors ----------------------------------------------------------------

    def _few(self, stage: int, accumulator: Accumulator) -> list[Value]:
        """The extreme of what is not one whole native vector, and its first place."""
        b = self.b
        mask = lane_mask(b, self.counts[-1], self.lanes)
        (value,) = self._operands_of(stage, [accumulator], self.tops, "0", mask)
        value = b.select(mask, value, accumulators.start(b, accumulator, self.lanes)[0])
        return self._among(accumulator, [("0", value)], mask)

    def _brief(self, stage: int, accumulator: Accumulator) -> list[Value]:
        """The extreme of some native vectors, the later ones of which may overlap."""
        last = self.number(f"sub i64 {self.counts[-1]}, {self.lanes}")
        found = []
        for vector in range(min(BITS["i64"] // self.lanes, tuning.PLACES_AT_ONCE)):
            done = self._less(str(vector * self.lanes), last)
            (value,) = self._operands_of(stage, [accumulator], self.tops, done, None)
            found.append((done, value))
        return self._among(accumulator, found)

    def _among(
        self,
        accumulator: Accumulator,
        vectors: list[tuple[str, Value]],
        mask: Value | None = None,
    ) -> list[Value]:
        """The extreme of vectors that begin after so many elements, and its place: no branch."""
        b = self.b
        extreme = accumulators.start(b, accumulator, self.lanes)[0]
        for _, value in vectors:
            extreme = self._extreme(accumulator, value, extreme)
        best = self._joined_lanes(accumulator, extreme)
        wide = b.splat(best, self.lanes)
        equal = "icmp eq" if accumulator.dtype[0] != "f" else "fcmp oeq"
        same = self._bits([(done, b.compare(equal, v, wide)) for done, v in vectors], mask)
        if accumulator.dtype[0] == "f":
            nan = self._bits([(done, b.compare("fcmp uno", v, v)) for done, v in vectors], mask)
            ordered = b.compare("icmp eq", nan, b.iconst(nan, 0))
            same = b.select(ordered, same, nan)
            best = b.select(ordered, best, b.fconst(best, float("nan")))
        return [best, b.intrinsic("llvm.cttz", same, immediates=("i1 false",))]

    def _bits(self, truths: list[tuple[str, Value]], mask: Value | None) -> Value:
        """A bit for each element: of vectors that begin after so many elements."""
        b, found = self.b, Value("0", "i64", 1)
        for done, truth in truths:
            truth = truth if mask is None else b.op("and", truth, mask)
            bits = b.value(f"bitcast {truth.typed} to i{truth.lanes}", f"i{truth.lanes}", 1)
            if truth.lanes != BITS["i64"]:
                bits = b.cast("zext", bits, "i64")
            found = b.op("or", found, b.op("shl", bits, Value(done, "i64", 1)))
        return found

    def _joined_lanes(self, accumulator: Accumulator, value: Value) -> Value:
        """The extreme of all lanes."""
        return accumulators.halved(
            self.b, value, lambda x, y: self._extreme(accumulator, x, y)
        )

    def _narrow_lanes(self, stage: int) -> int:
        """Elements of one native vector; places are wider than many, but there is one a row."""
        names = [self.nest.dtype_of(number) for number in self.stages.needed(stage)]
        size = max([4, *(np.dtype(name).itemsize for name in names)])
        return max(1, self.module.features.vector_bytes // size)

    # -- of truths --------------------------------------------------------------------------

    def _finds_truth(self, stage: int, running: list[Accumulator]) -> bool:
        """Whether a stage does nothing but find the first of one truth."""
        alone = len(running) == 1 and running[0].places and self.nest.reduced == 1
        return alone and self._may_end_early(stage, running)

    def _first_truth(self, stage: int, accumulator: Accumulator) -> list[Value]:
        """The extreme of a row's truths and its first place: the row ends where it is met."""
        b, lanes = self.b, self.lanes
        self._prepare_divisors(stage)
        zero = Value("0", "i64", 1)
        loop = begin_loop(b, "0", self.vectors)
        met, vector = loop.carry(Value("0", f"i{lanes}", 1)), loop.carry(zero)
        new = self._met(stage, accumulator, loop.index, None)
        enough = b.value(f"icmp ne {new.typed}, 0", "i1", 1)
        loop.end([new, Value(loop.index, "i64", 1)], enough)
        met, vector = loop.results
        none = b.value(f"icmp eq {met.typed}, 0", "i1", 1)
        some = b.value(f"icmp ne i64 {self.rest}, 0", "i1", 1)
        before, tail, after = b.block, b.label("tail"), b.label("after")
        b.line(f"br i1 {b.op('and', none, some).text}, label %{tail}, label %{after}")
        b.start(tail)
        late = self._met(stage, accumulator, self.vectors, self.mask)
        last, end = Value(self.vectors, "i64", 1), b.block
        b.jump(after)
        met = _joined(b, (met, before), (late, end))
        vector = _joined(b, (vector, before), (last, end))
        lane = b.intrinsic("llvm.cttz", met, immediates=("i1 false",))
        if lanes != BITS["i64"]:
            lane = b.cast("zext" if lanes < BITS["i64"] else "trunc", lane, "i64")
        place = b.op("add", b.op("mul", vector, b.iconst(vector, lanes)), lane)
        found = b.value(f"icmp ne {met.typed}, 0", "i1", 1)
        place = b.select(found, place, zero)
        if not accumulator.row.greatest:
            found = b.op("xor", found, b.constant_bits("i1", 1, 1))
        return [found, b.op("add", place, Value(self.begin, "i64", 1))]

    def _met(
        self, stage: int, accumulator: Accumulator, vector: str, mask: Value | None
    ) -> Value:
        """A bit for each element of a vector that is the extreme of all truths."""
        b, lanes = self.b, self.lanes
        done = self.number(f"mul i64 {vector}, {lanes}")
        (value,) = self._operands_of(stage, [accumulator], self.tops, done, mask)
        if not accumulator.row.greatest:
            value = b.op("xor", value, b.constant_bits("i1", lanes, 1))
        if mask is not None:
            value = b.op("and", value, mask)
        return b.value(f"bitcast {value.typed} to i{lanes}", f"i{lanes}", 1)

    # -- of numbers -------------------------------------------------------------------------

    def _has_one_place(self, stage: int, running: list[Accumulator]) -> bool:
        """Whether a stage does nothing but find one place among cheap elements."""
        stages = self.stages
        if len(running) != 1 or not running[0].places or running[0].register == "i1":
            return False
        if stages.stores_of(stage) or stages.left_by(stage) or self.nest.reduced != 1:
            return False
        return stages.cost <= tuning.ROW_UNROLL[0][0] and self.lanes > self.native

    def _extreme(self, accumulator: Accumulator, new: Value, old: Value) -> Value:
        """The more extreme one; the old one where the new one is NaN: one instruction."""
        sign = "gt" if accumulator.row.greatest else "lt"
        kind = {"f": "fcmp o", "i": "icmp s", "u": "icmp u"}[accumulator.dtype[0]]
        return self.b.select(self.b.compare(f"{kind}{sign}", new, old), new, old)


def _joined(b: Body, *ways: tuple[Value, str]) -> Value:
    """A value that depends on the block that came before: (value, block) each."""
    value = ways[0][0]
    found = ", ".join(f"[ {each.text}, %{before} ]" for each, before in ways)
    return b.value(f"phi {value.type} {found}", value.scalar, value.lanes)


class JoinedParts(RowPlaces):
    """Emits a nest of rows with one stage, in parts."""

    def _part(self, stage: int, running: list[Accumulator], done: str) -> None:
        b = self.b
        self._stage(stage, running)
        before = self._keep(stage, running)
        finished = self.number(f"add i64 {before}, 1")
        last = b.value(f"icmp eq i64 {finished}, {self.parts}", "i1", 1).text
        join = b.label("join")
        b.branch(last, join, done)
        self._joined(stage, running)

    def _store_results(self, done: str) -> None:
        b = self.b
        for place, (number, _) in enumerate(self.nest.stores):
            if self.stages.store_level(place) == 1:
                self._store_result(len(self.nest.loads) + place, number)
        b.jump(done)
