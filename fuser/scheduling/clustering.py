"""Which loop nests become one: candidate pairs, `can_fuse`, `score_fusion`, rounds of merging.

A unit is what one loop nest will store. At first each stored value is a unit of its own; then
pairs that share an array are fused, the best first, until nothing changes. Units are fused only
into one nest, which reads once what both read; nests of one level share a launch without that.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from fuser.base import budget
from fuser.base.records import field, record
from fuser.ir import dims
from fuser.ir.graph import Node
from fuser.ir.specs import PartitionDesc
from fuser.scheduling.inlining import bits
from fuser.scheduling.loop_nests import Space, fit

#: The limits are choices; `fuser-bench tune --constant scheduling.clustering.NAME --value V …`
#: times others.

#: Each unit is tried with this many units that use the same array after it. 96 results of one array
#: are one nest at 1, 4, 8 and 32 alike, in the same time; planning takes 12, 22, 14 and 24 ms.
WINDOW = 8
#: Units further apart than this, in values of the graph, do not fuse side by side: what is
#: written early would be kept for long. Sums at both ends of a chain of 1,400 operations take 36 ms
#: at 0, 64, 512 and 4096, with no trend: it bounds planning, not speed.
MAX_DISTANCE = 512
#: Arrays that one loop nest reads and writes. 96 results of one array of 256 x 1024 float32 take
#: 14, 16 and 15 ms at limits of 8, 32 and 128, in 115, 105 and 102 MB; compiling takes 2.1 s at 4
#: and 0.16 s at 128. So it only bounds a kernel's argument block.
MAX_OPERANDS = 128
#: Values that one loop nest computes. A chain of 1,400 operations takes 36 ms at 64, 1024 and 4096
#: alike; compiling 60 results of 32 operations takes 1.3 to 1.7 s from 256 on, 2.9 s at 64. The
#: limit keeps that from growing without bound.
MAX_OPERATIONS = 1024
#: Rounds of merging; each goes on where the last one changed something. 96 results of one array
#: are one nest after the first: a bound for what never settles.
MAX_ROUNDS = 10
#: The length that every symbol stands for where bytes are only compared.
NOMINAL_LENGTH = 1024

Store = tuple[Node, PartitionDesc]


@record(frozen=False, eq=False)
class Unit:
    """What one loop nest stores.

    Attributes:
        space: the loops.
        stores: values and the parts of buffers that they go to.
        reads, writes: buffers, as bits.
        covers: the values that are computed, as bits of their places in the graph.
        place: the place in the graph of the last value stored.
        level: how many units must run before it, one after another.
        before, after: units whose results it needs, and that need its own.
        version: how many units it has taken in.
        merged_into: the unit that took it in.
        scans: axes along which results run.
        scatters: it writes at computed places, into what an earlier unit has begun.
        first, origin: a value stored, and the place, before it took others in.
    """

    space: Space
    stores: list[Store]
    reads: int
    writes: int
    covers: int
    place: int
    level: int = 0
    before: set[Unit] = field(default_factory=set)
    after: set[Unit] = field(default_factory=set)
    version: int = 0
    merged_into: Unit | None = None
    scans: frozenset[int] = frozenset()
    scatters: bool = False
    first: Node = field(init=False)
    origin: int = field(init=False)

    def __post_init__(self) -> None:
        """Remember what the unit was before it took others in."""
        self.first, self.origin = self.stores[0][0], self.place

    def now(self) -> Unit:
        """The unit that this one has become part of."""
        if self.merged_into is None:
            return self
        unit = self.merged_into
        while unit.merged_into is not None:
            unit = unit.merged_into
        self.merged_into = unit  # a shorter way the next time
        return unit


@record
class Pair:
    """Two units that were considered, and what became of them.

    Attributes:
        first, second: a value that each stores.
        kind: "vertical" (one reads what the other writes) or "horizontal" (both read something).
        verdict: a code of `fuser.scheduling.verdicts`.
        shared: the arrays that would be read once less, or not be written and read at all; with
            how many times their bytes are saved.
        distance: how far apart the two values are in the graph.
    """

    first: Node
    second: Node
    kind: str
    verdict: str
    shared: tuple[tuple[Node, int], ...]
    distance: int


class Grouping:
    """Merges units as long as that saves bytes."""

    def __init__(
        self,
        units: Sequence[Unit],
        buffers: Sequence[Node],
        temporary: int,
        apart: int,
        distance: int = MAX_DISTANCE,
    ) -> None:
        """Prepare.

        Args:
            units: one a stored value, in order of the graph.
            buffers: the value that each bit of `reads` and `writes` stands for.
            temporary: bits of buffers that nobody outside of the plan sees.
            apart: bits of buffers that are seen through views, so that the nest that needs an
                element does not compute it.
            distance: how far apart units may be that fuse side by side; 0 where memory is
                short: then nothing is fused that would hold more at once than it saves.
        """
        self.units = list(units)
        self.buffers = buffers
        self.temporary = temporary
        self.apart = apart
        self.distance = distance
        self.bytes = [nominal_bytes(node) for node in buffers]
        self.readers: dict[int, list[Unit]] = {}
        self.writer: dict[int, list[Unit]] = {}
        self.considered: list[tuple[Unit, Unit, str, tuple[tuple[Node, int], ...]]] = []
        self.tried: dict[tuple[int, int, int, int], tuple[Space | None, str]] = {}
        self._connect()

    def run(self) -> tuple[list[Unit], tuple[Pair, ...]]:
        """Merge; the units that are left, in order, and all pairs that were considered."""
        for number in range(MAX_ROUNDS):
            if not self._round(number):
                break
        return self.units, tuple(self._pair(*entry) for entry in self.considered)

    # -- the graph of units -----------------------------------------------------------------

    def _connect(self) -> None:
        """Who uses which buffer, and who must run before whom."""
        for unit in self.units:
            for bit in bits(unit.writes):
                self.writer.setdefault(bit, []).append(unit)
        for unit in self.units:
            for bit in bits(unit.reads):
                self.readers.setdefault(bit, []).append(unit)
                for writer in self.writer.get(bit, ()):
                    if writer is not unit:
                        unit.before.add(writer)
                        writer.after.add(unit)
        for unit in self.units:
            unit.level = max((other.level + 1 for other in unit.before), default=0)

    def _round(self, number: int) -> bool:
        """Try every candidate pair, the best first; whether anything was fused."""
        wanted = []
        for order, (first, second) in enumerate(self._candidates()):
            saving, kind = self._saving(first, second), kind_of(first, second)
            worth = score_fusion(saving, kind, abs(first.place - second.place))
            wanted.append((-worth, order, first, second))
            if not number:
                self.considered.append((first, second, kind, self.shared(first, second)))
        wanted.sort(key=lambda entry: entry[:2])
        changed = False
        for _, _, first, second in wanted:
            one, other = first.now(), second.now()
            if one is other:
                continue
            space, verdict = self._verdict(one, other)
            if verdict == "same-loops":
                assert space is not None
                self._merge(one, other, space)
                changed = True
        self.units = [unit for unit in self.units if unit.merged_into is None]
        return changed

    def _verdict(self, first: Unit, second: Unit) -> tuple[Space | None, str]:
        """What `can_fuse` says; asked once as long as neither unit changes."""
        key = (id(first), first.version, id(second), second.version)
        if key not in self.tried:
            self.tried[key] = self.can_fuse(first, second)
        return self.tried[key]

    def _pair(
        self, first: Unit, second: Unit, kind: str, shared: tuple[tuple[Node, int], ...]
    ) -> Pair:
        """What became of a pair."""
        one, other = first.now(), second.now()
        verdict = "same-loops" if one is other else self._verdict(one, other)[1]
        distance = abs(first.origin - second.origin)
        return Pair(first.first, second.first, kind, verdict, shared, distance)

    def _candidates(self) -> Iterator[tuple[Unit, Unit]]:
        """Pairs of units that use one array, each once."""
        seen: set[tuple[int, int, int, int]] = set(self.tried)
        number = {id(unit): k for k, unit in enumerate(self.units)}
        for bit in range(len(self.buffers)):
            users = {id(u.now()): u.now() for u in self.writer.get(bit, ())}
            users.update({id(u.now()): u.now() for u in self.readers.get(bit, ())})
            ordered = sorted(users.values(), key=lambda u: number[id(u)])
            for place, first in enumerate(ordered):
                for second in ordered[place + 1 : place + 1 + WINDOW]:
                    key = (id(first), first.version, id(second), second.version)
                    budget.spend("steps")
                    if key not in seen:
                        seen.add(key)
                        yield first, second

    # -- the rules --------------------------------------------------------------------------

    def can_fuse(self, first: Unit, second: Unit) -> tuple[Space | None, str]:
        """Whether two units may become one nest.

        Returns:
            The nest's loops where they may, and a code of `fuser.scheduling.verdicts`.
        """
        space = common_space(first, second)
        if space is None:
            return None, "other-loops"
        if not self._saving(first, second):
            return None, "no-saving"
        stores = len(first.stores) + len(second.stores)
        if (first.reads | second.reads).bit_count() + stores > MAX_OPERANDS:
            return None, "too-many-operands"
        if (first.covers | second.covers).bit_count() > MAX_OPERATIONS:
            return None, "too-many-operations"
        crossing = first.writes & second.reads | second.writes & first.reads
        if crossing & self.apart or any(
            self.buffers[bit].op.joins for bit in bits(crossing)
        ):
            return None, "through-view"
        if not crossing and abs(first.place - second.place) > self.distance:
            return None, "too-far"
        if not self.distance and self._holds_more(first, second):
            return None, "memory"
        if self._through_another(first, second) or self._through_another(second, first):
            return None, "cycle"
        return space, "same-loops"

    def _holds_more(self, first: Unit, second: Unit) -> bool:
        """Whether each reads more that could be freed before the other than fusing saves."""
        saved = self._saving(first, second)
        return all(
            sum(self.bytes[bit] for bit in bits(alone & self.temporary)) >= saved > 0
            for alone in (first.reads & ~second.reads, second.reads & ~first.reads)
        )

    def _through_another(self, first: Unit, last: Unit) -> bool:
        """Whether a third unit needs the first and is needed by the last."""
        seen: set[int] = set()
        stack = [unit for unit in first.after if unit is not last]
        while stack:
            unit = stack.pop()
            if unit is last:
                return True
            if id(unit) in seen or unit.level >= last.level:
                continue
            seen.add(id(unit))
            budget.spend("steps", 1 + len(unit.after))
            stack.extend(unit.after)
        return False

    def shared(self, first: Unit, second: Unit) -> tuple[tuple[Node, int], ...]:
        """The arrays whose bytes fusing saves, and how many times."""
        return tuple((self.buffers[bit], times) for bit, times in self._shared(first, second))

    def _shared(self, first: Unit, second: Unit) -> Iterator[tuple[int, int]]:
        """Bits of the arrays whose bytes fusing saves, and how many times."""
        for bit in bits(first.reads & second.reads):
            yield bit, 1
        for bit in bits(first.writes & second.reads | second.writes & first.reads):
            unseen = self.temporary >> bit & 1 and all(
                unit.now() in (first, second) for unit in self.readers.get(bit, ())
            )
            yield bit, 2 if unseen else 1

    def _saving(self, first: Unit, second: Unit) -> int:
        """Nominal bytes saved."""
        return sum(self.bytes[bit] * times for bit, times in self._shared(first, second))

    # -- merging ----------------------------------------------------------------------------

    def _merge(self, first: Unit, second: Unit, space: Space) -> None:
        """Make one unit of two: the earlier one takes the other's place."""
        second.merged_into = first
        first.version += 1
        first.space = space
        first.scans |= second.scans
        first.stores = [*first.stores, *second.stores]
        first.writes |= second.writes
        first.covers |= second.covers
        inner = first.writes & (first.reads | second.reads)
        first.reads = (first.reads | second.reads) & ~inner
        first.place = max(first.place, second.place)
        for unit in second.before:
            unit.after.discard(second)
            if unit is not first:
                unit.after.add(first)
                first.before.add(unit)
        for unit in second.after:
            unit.before.discard(second)
            if unit is not first:
                unit.before.add(first)
                first.after.add(unit)
        first.before.discard(second)
        first.after.discard(second)
        first.level = max((unit.level + 1 for unit in first.before), default=0)
        raised = [first]
        while raised:
            unit = raised.pop()
            for later in unit.after:
                if later.level <= unit.level:
                    later.level = unit.level + 1
                    raised.append(later)


def kind_of(first: Unit, second: Unit) -> str:
    """"vertical" where one reads what the other writes, else "horizontal"."""
    linked = second in first.after or first in second.after
    return "vertical" if linked else "horizontal"


#: How much of its bytes a pair's kind is worth.
KIND_BONUS: Mapping[str, float] = {"vertical": 0.01, "view": 0.01, "horizontal": 0.0}


def score_fusion(bytes_saved: float, kind: str, distance: int) -> float:
    """What fusing a pair is worth: bytes saved x (1 + the kind's bonus) / (1 + distance / 1000).

    One that reads what the other writes comes before two that only read the same, and what was
    written close together before what is far apart, where bytes are equal.
    """
    return bytes_saved * (1 + KIND_BONUS.get(kind, 0.0)) / (1 + 0.001 * distance)


def common_space(first: Unit, second: Unit) -> Space | None:
    """The loops that can compute both units: those of the one that reduces, or the same."""
    if first.scatters or second.scatters:
        return None
    scans = first.scans | second.scans
    if len(scans) > 1 or (scans and first.space != second.space):
        return None
    if first.space == second.space:
        return first.space
    for one, other in ((first, second), (second, first)):
        if one.space[1] and not other.space[1] and fit(other.space[0], one.space) is not None:
            return one.space
    return None


def nominal_bytes(node: Node) -> int:
    """A value's bytes when every symbol is the nominal length."""
    lengths = {s: NOMINAL_LENGTH for dim in node.shape for s in dims.symbols(dim)}
    count = dims.evaluate(dims.product(node.shape), lengths)  # of `x[k:-k]` it may be negative
    return max(count, 0) * node.dtype.itemsize
