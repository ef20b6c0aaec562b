"""The order of loop nests, and which of them share a launch, within the memory that NumPy needs.

Nests run in the order of the graph, as soon as what they read is there. Nests that need nothing of
each other are one kernel as long as no more is held at once than the graph holds when its
operations run one by one, and its results are freed as they are done with.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Mapping, Sequence

from fuser.scheduling.loop_nests import Section

#: Loop nests of one kernel. 48 nests of 250,000 elements take 2.2 to 2.4 ms at limits of 1, 4, 16
#: and 64, with no trend: the limit bounds what is compiled as one.
MAX_SECTIONS = 16
#: Values that the nests of one kernel compute: beyond them it is compiled as several.
MAX_OPERATIONS = 4096
#: Nests that are ready and are looked at for one kernel: it keeps ordering near-linear.
LOOKED_AT = 64


class Ordering:
    """Packs loop nests into kernels."""

    def __init__(
        self,
        sections: Sequence[Section],
        places: Sequence[int],
        sizes: Mapping[str, int],
        kept: set[str],
        budget: int,
    ) -> None:
        """Prepare.

        Args:
            sections: loop nests.
            places: where each stands in the graph.
            sizes: bytes of each temporary and output.
            kept: outputs, which are never freed.
            budget: bytes beyond which nests are not put into one kernel.
        """
        self.sections = sections
        self.places = places
        self.sizes = sizes
        self.kept = kept
        self.budget = budget
        self.writers: dict[str, int] = {}
        self.readers: dict[str, int] = {}
        self.waiting: dict[str, list[int]] = {}
        self.reads = [_reads(section) for section in sections]
        self.writes = [_writes(section) for section in sections]
        self._begin_first()
        self.missing: list[int] = []
        self.ready: list[tuple[int, int]] = []
        self.live: dict[str, int] = {}
        self.held = 0
        self._connect()

    def _begin_first(self) -> None:
        """Have nests that write at computed places wait for those that begin what they write."""
        scattered = {
            name
            for section, names in zip(self.sections, self.writes, strict=True)
            if section.scatters
            for name in names
        }
        for number, section in enumerate(self.sections):
            for name in scattered.intersection(self.writes[number]):
                begun = f"{name} begun"
                if section.scatters:
                    del self.reads[number][name]
                    self.reads[number][begun] = None
                else:
                    self.writes[number][begun] = None

    def _connect(self) -> None:
        """Who waits for which buffer."""
        for names in self.writes:
            for name in names:
                self.writers[name] = self.writers.get(name, 0) + 1
        for number, names in enumerate(self.reads):
            needed = [name for name in names if name in self.writers]
            for name in needed:
                self.readers[name] = self.readers.get(name, 0) + 1
                self.waiting.setdefault(name, []).append(number)
            self.missing.append(len(needed))
            if not needed:
                heapq.heappush(self.ready, (self.places[number], number))

    def kernels(self) -> Iterator[tuple[Section, ...]]:
        """Nests of one kernel after another."""
        done = 0
        while self.ready:
            taken = self._next()
            done += len(taken)
            yield tuple(self.sections[number] for number in taken)
            self._finish(taken)
        assert done == len(self.sections), "units need each other"

    def _next(self) -> list[int]:
        """The earliest nest that is ready, and others that fit beside it.

        Nests after which no more is held than before come first.
        """
        taken: list[int] = []
        size = 0
        left = []
        seen = [heapq.heappop(self.ready) for _ in range(min(LOOKED_AT, len(self.ready)))]
        seen.sort(key=lambda entry: (self._raises(entry[1]), entry))
        for entry in seen:
            if len(taken) == MAX_SECTIONS:
                left.append(entry)
                continue
            section = self.sections[entry[1]]
            new = {n: self.sizes.get(n, 0) for n in self.writes[entry[1]] if n not in self.live}
            steps = size + len(section.steps)
            fits = steps <= MAX_OPERATIONS and self.held + sum(new.values()) <= self.budget
            if taken and not fits:
                left.append(entry)
                continue
            taken.append(entry[1])
            size = steps
            self.live.update(new)
            self.held += sum(new.values())
        taken.sort(key=lambda number: (self.places[number], number))
        for entry in left:
            heapq.heappush(self.ready, entry)
        return taken

    def _raises(self, number: int) -> bool:
        """Whether more is held after a nest than before it."""
        new = sum(self.sizes.get(n, 0) for n in self.writes[number] if n not in self.live)
        last = [n for n in self.reads[number] if self.readers.get(n) == 1 and n not in self.kept]
        return new > sum(self.live.get(n, 0) for n in last)

    def _finish(self, taken: Sequence[int]) -> None:
        """Free what nobody reads any more; nests that waited for these are ready."""
        for number in taken:
            for name in self.reads[number]:
                if name in self.readers:
                    self.readers[name] -= 1
        for number in taken:
            for name in self.writes[number]:
                self.writers[name] -= 1
                if not self.writers[name]:
                    for other in self.waiting.get(name, ()):
                        self.missing[other] -= 1
                        if not self.missing[other]:
                            heapq.heappush(self.ready, (self.places[other], other))
        for name in [n for k in taken for n in (*self.reads[k], *self.writes[k])]:
            if name in self.live and name not in self.kept and not self.readers.get(name):
                self.held -= self.live.pop(name)


def _reads(section: Section) -> dict[str, None]:
    """The buffers that a nest reads, each once."""
    return dict.fromkeys(part.buffer for part in section.loads)


def _writes(section: Section) -> dict[str, None]:
    """The buffers that a nest writes, each once."""
    return dict.fromkeys(part.buffer for _, part in section.stores)
