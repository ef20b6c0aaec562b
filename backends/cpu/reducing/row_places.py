"""Places of extremes in rows: the extreme block by block first, its place at the end.

A value and its place in each lane would cost two comparisons and two choices a vector. Here a
vector costs one maximum, and half a comparison that notices NaN. After each block the lanes are
compared with the best value so far; only where one is better, the block's number is noted, which
happens ever more rarely along a row of random numbers. At last the place is searched from that
block on: an earlier block has nothing as good, so what is found is the first place. The first
NaN ends the row. The row's last vector ends with the row, and may overlap the one before it:
what is met twice changes no extreme, and is found where it was met first. A row that is shorter
than a turn's vectors keeps a place in each lane.

Parts of long rows with one stage are joined by whoever finishes the last one (`JoinedParts`):
nobody waits, so parts need no order. Each thread begins with those that it had in the call before,
whose operands may still lie in its own cache. They are joined in their order, whoever does it.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from fuser.backends.cpu import tuning
from fuser.backends.cpu.body import BITS, Body, Value
from fuser.backends.cpu.loops import begin_loop
from fuser.backends.cpu.reducing import accumulators
from fuser.backends.cpu.reducing.accumulators import Accumulator
from fuser.backends.cpu.reducing.row_reduction import RowReduction
from fuser.backends.cpu.vector_memory import lane_mask


class _Found(NamedTuple):
    """What a loop over vectors knows."""

    extreme: Value
    """Of each lane, NaN left out."""
    ordered: list[Value]
    """Lanes in which no NaN was met, for every two native vectors; none for integers."""


class RowPlaces(RowReduction):
    """Emits one nest by rows; the stages that give just one place by blocks."""

    counts_truths = True

    def _stage(self, stage: int, running: list[Accumulator]) -> None:
        if self._finds_truth(stage, running):
            running[0].parts = self._first_truth(stage, running[0])
            return
        if not self._by_blocks(stage, running):
            super()._stage(stage, running)
            return
        b, (accumulator,) = self.b, running
        narrow, lanes, ways = self.lanes, self._wide_lanes(stage), []
        few, done = lanes // tuning.PLACES_VECTORS, b.label("found")
        brief = min(BITS["i64"], tuning.PLACES_AT_ONCE * few)
        forms = ((few - 1, few, self._few), (brief, few, self._brief), (0, lanes, self._long))
        for most, self.lanes, form in forms:
            if most:
                fits = b.value(f"icmp ule i64 {self.counts[-1]}, {most}", "i1", 1).text
                within, after = b.label("within"), b.label("longer")
                b.branch(fits, within, after)
            self._prepare_divisors(stage)  # each form has vectors, and divisors, of its own
            best, place = form(stage, accumulator)
            place = b.op("add", place, Value(self.begin, "i64", 1))
            ways.append(([best, place], b.block))
            b.line(f"br label %{done}")
            if most:
                b.start(after)
        b.start(done)
        self.lanes, self.divisors = narrow, {}
        accumulator.parts = [
            _joined(b, *((parts[k], end) for parts, end in ways)) for k in range(2)
        ]

    # -- fewer elements than a turn has -----------------------------------------------------

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

    # -- whole turns ------------------------------------------------------------------------

    def _long(self, stage: int, accumulator: Accumulator) -> list[Value]:
        """The extreme of a long row and its first place."""
        up = self.number(f"add i64 {self.counts[-1]}, {self.lanes - 1}")
        self.turns = self.number(f"udiv i64 {up}, {self.lanes}")
        self.latest = self.number(f"sub i64 {self.counts[-1]}, {self.lanes}")
        best, turn = self._best(stage, accumulator)
        return [best, self._search(stage, accumulator, best, turn)]

    def _wide_lanes(self, stage: int) -> int:
        """Elements of a turn; places are wider than many elements, but there is one a row."""
        names = [self.nest.dtype_of(number) for number in self.stages.needed(stage)]
        size = max([4, *(np.dtype(name).itemsize for name in names)])
        return tuning.PLACES_VECTORS * max(1, self.module.features.vector_bytes // size)

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

    def _by_blocks(self, stage: int, running: list[Accumulator]) -> bool:
        """Whether a stage does nothing but find one place among cheap elements."""
        stages = self.stages
        if len(running) != 1 or not running[0].places or running[0].register == "i1":
            return False
        if stages.stores_of(stage) or stages.left_by(stage) or self.nest.reduced != 1:
            return False
        return stages.cost <= tuning.ROW_UNROLL[0][0] and self.lanes > self.native

    def _elements(
        self, stage: int, accumulator: Accumulator, turn: str
    ) -> tuple[str, Value]:
        """Where a turn's vector begins, and what the reduction takes in."""
        done = self.number(f"mul i64 {turn}, {self.lanes}")
        done = self._less(done, self.latest)
        (value,) = self._operands_of(stage, [accumulator], self.tops, done, None)
        return done, value

    def _better(self, accumulator: Accumulator, new: Value, old: Value) -> Value:
        """Whether a value is more extreme; a NaN is not."""
        sign = "gt" if accumulator.row.greatest else "lt"
        kind = {"f": "fcmp o", "i": "icmp s", "u": "icmp u"}[accumulator.dtype[0]]
        return self.b.compare(f"{kind}{sign}", new, old)

    def _extreme(self, accumulator: Accumulator, new: Value, old: Value) -> Value:
        """The more extreme one; the old one where the new one is NaN: one instruction."""
        return self.b.select(self._better(accumulator, new, old), new, old)

    # -- the best value, and the block that has it ------------------------------------------

    def _best(self, stage: int, accumulator: Accumulator) -> tuple[Value, str]:
        """The extreme of the row, and the turn with which its block begins."""
        b = self.b
        up = self.number(f"add i64 {self.turns}, {tuning.PLACES_BLOCK - 1}")
        outer = begin_loop(b, "0", self.number(f"udiv i64 {up}, {tuning.PLACES_BLOCK}"))
        extreme = outer.carry(accumulators.start(b, accumulator, self.lanes)[0])
        best = outer.carry(accumulators.start(b, accumulator, 1)[0])
        turn = outer.carry(Value("0", "i64", 1))
        begin = self.number(f"mul i64 {outer.index}, {tuning.PLACES_BLOCK}")
        found = self._block(stage, accumulator, begin, extreme)
        few = accumulators.halved(
            b, found.extreme, lambda x, y: self._extreme(accumulator, x, y),
            self._native_lanes(accumulator),
        )  # fmt: skip
        hit = self._better(accumulator, few, b.splat(best, few.lanes))
        unordered = self._unordered(found.ordered)
        if unordered is not None:
            hit = b.op("or", hit, unordered)
        some = b.any(hit).text
        before, rare, onward = b.block, b.label("better"), b.label("onward")
        b.branch(some, rare, onward)
        number = b.label("number")
        if unordered is not None:
            nan = b.label("nan")
            b.line(f"br i1 {b.any(unordered).text}, label %{nan}, label %{number}")
        else:
            b.line(f"br label %{number}")
        b.start(number)
        new = accumulators.halved(b, few, lambda x, y: self._extreme(accumulator, x, y))
        b.jump(onward)
        best = _joined(b, (best, before), (new, number))
        turn = _joined(b, (turn, before), (Value(begin, "i64", 1), number))
        outer.end([found.extreme, best, turn])
        _, best, turn = outer.results
        if unordered is None:
            return best, turn.text
        searched, done = b.label("searched"), b.block
        b.jump(searched, nan)
        b.jump(searched)
        best = _joined(b, (best, done), (b.fconst(best, float("nan")), nan))
        return best, _joined(b, (turn, done), (Value(begin, "i64", 1), nan)).text

    def _block(
        self, stage: int, accumulator: Accumulator, begin: str, extreme: Value
    ) -> _Found:
        """The vectors of one block."""
        end = self._less(self.number(f"add i64 {begin}, {tuning.PLACES_BLOCK}"), self.turns)
        loop = begin_loop(self.b, begin, end)
        ordered = [loop.carry(truth) for truth in self._no_nan(accumulator)]
        found = _Found(loop.carry(extreme), ordered)
        _, value = self._elements(stage, accumulator, loop.index)
        found = self._take(accumulator, value, found)
        loop.end([*found.ordered, found.extreme])
        *ordered, extreme = loop.results
        return _Found(extreme, ordered)

    def _no_nan(self, accumulator: Accumulator) -> list[Value]:
        """No NaN in any lane yet, for every two native vectors."""
        if "float" not in accumulator.dtype:
            return []
        scalar = self._truth(accumulator)
        lanes = self._native_lanes(accumulator)
        full = self.b.constant_bits(scalar, lanes, (1 << BITS[scalar]) - 1)
        return [full] * (self.lanes // lanes // 2)

    def _native_lanes(self, accumulator: Accumulator) -> int:
        """Lanes of one native vector of values; a turn has at least two of them."""
        size = max(BITS[accumulator.register] // 8, 1)
        return min(max(1, self.b.features.vector_bytes // size), self.lanes // 2)

    def _truth(self, accumulator: Accumulator) -> str:
        """What a truth is kept in: a bit where there are registers of those."""
        return "i1" if self.b.features.masked else f"i{BITS[accumulator.register]}"

    def _take(self, accumulator: Accumulator, value: Value, found: _Found) -> _Found:
        """One vector."""
        b, native = self.b, self._native_lanes(accumulator)
        ordered = []
        for pair, old in enumerate(found.ordered):
            first, second = (
                accumulators.half(b, value, (2 * pair + k) * native, native) for k in (0, 1)
            )
            both = b.compare("fcmp ord", first, second)
            if old.scalar != "i1":
                both = b.cast("sext", both, old.scalar)
            ordered.append(b.op("and", old, both))
        return _Found(self._extreme(accumulator, value, found.extreme), ordered)

    def _unordered(self, ordered: list[Value]) -> Value | None:
        """Lanes in which a NaN was met."""
        if not ordered:
            return None
        b, (all_, *others) = self.b, ordered
        for other in others:
            all_ = b.op("and", all_, other)
        return b.compare("icmp eq", all_, b.constant_bits(all_.scalar, all_.lanes, 0))

    # -- its place --------------------------------------------------------------------------

    def _search(self, stage: int, accumulator: Accumulator, best: Value, turn: str) -> Value:
        """The first place of a row's extreme, which is not before a turn; an i64."""
        b, bits = self.b, f"i{self.lanes}"
        wide = b.splat(best, self.lanes)
        seek, look, onward, done = (b.label(n) for n in ("seek", "look", "onward", "placed"))
        before, now = b.block, b.fresh()
        b.jump(seek)
        b.line(f"{now} = phi i64 [ {turn}, %{before} ], [ {now}.next, %{onward} ]")
        # It is there, unless another thread changes the array meanwhile.
        inside = b.value(f"icmp ult i64 {now}, {self.turns}", "i1", 1).text
        b.branch(inside, look, done)
        start, value = self._elements(stage, accumulator, now)
        same = self._equal(value, wide)
        found = b.value(f"bitcast {same.typed} to {bits}", bits, 1)
        none = b.value(f"icmp eq {bits} {found.text}, 0", "i1", 1).text
        looked = b.block
        b.branch(none, onward, done)
        b.line(f"{now}.next = add i64 {now}, 1")
        b.jump(seek, done)
        first = _joined(b, (Value("0", "i64", 1), seek), (Value(start, "i64", 1), looked))
        lane = _joined(b, (Value("1", bits, 1), seek), (found, looked))
        lane = b.intrinsic("llvm.cttz", lane, immediates=("i1 false",))
        if bits != "i64":
            lane = b.cast("zext", lane, "i64")
        return b.op("add", first, lane)

    def _equal(self, value: Value, best: Value) -> Value:
        """Where the extreme is; where it is NaN, there is none before the first NaN."""
        b = self.b
        if value.scalar not in ("float", "double"):
            return b.compare("icmp eq", value, best)
        equal = b.compare("fcmp oeq", value, best)
        return b.op("or", equal, b.compare("fcmp uno", value, value))


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
