"""Nests that run row by row, one after another, so that what lies between stays in the cache.

`((x[:, None] - c) ** 2).sum(-1).argmin(-1)` reduces twice, over different axes: two nests, and
between them an array with an element for each pair. Where the later nest needs, for one row of its
loops, one row of that array only, both run on a few rows at a time: these are written into a small
block of memory and read from there before the next ones are computed.

A buffer is met by rows where each nest of the chain sees one of its axes, untouched, along a loop
that it does not reduce. Several such axes are all taken as rows: the blocks are smaller.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence

from fuser.base.records import changed, record
from fuser.ir import dims
from fuser.ir.dims import Shape
from fuser.ir.graph import Node
from fuser.ir.specs import is_counted
from fuser.ir.views import Chain
from fuser.scheduling.loop_nests import Section

#: Nests of one chain, at most: a bound for what is compiled as one.
MAX_LINKS = 8
#: Rows of at most this many bytes of operands stay in the cache from one run through them to the
#: next: a processor's share of the last cache of common machines. Measured on 2 cores of 1 MB and
#: 33 MB together: variances of rows of 1 and 4 MB take 1.1 and 0.9 of the time with one run from
#: memory less, of 64 MB 0.7.
ROW_CACHE_BYTES = 1 << 22
#: Rows are taken in blocks of about so many bytes of what is kept: it stays in the second cache,
#: and what a block costs to begin is small beside computing it. Scores of 1024 x 1024 x 64 and
#: distances of 4096 x 1024 x 64 take 7 % more in blocks of 1 << 16; others the same.
BLOCK_BYTES = 1 << 18
#: ... and in so many blocks at least, for threads to share, where each has so many elements.
BLOCKS, BLOCK_ELEMENTS = 16, 1 << 12


@record
class Rows:
    """How the nests of a chain are cut into rows.

    Attributes:
        loops: for each nest, the loops that count rows; alike in all of them.
        kept: buffers that live for some rows only, with the axes that count rows.
        handed: others that are written for some rows and read while these are near.
    """

    loops: tuple[tuple[int, ...], ...]
    kept: tuple[tuple[str, tuple[int, ...]], ...]
    handed: tuple[tuple[str, tuple[int, ...]], ...] = ()


@record
class Group:
    """Sections that one kernel computes; none needs what another of them writes, but in turn.

    Attributes:
        sections: the loop nests.
        rows: they run one after another for some rows at a time.
        turns: the groups that it consists of, which run one after another on small arrays: see
            `fuser.scheduling.nest_sequences`.
        inside: temporaries that only these groups write and read.
    """

    sections: tuple[Section, ...]
    rows: Rows | None = None
    turns: tuple[Group, ...] = ()
    inside: tuple[str, ...] = ()

    @property
    def parts(self) -> tuple[Group, ...]:
        """The groups that run one after another: itself, if it is none of several."""
        return self.turns or (self,)

    @property
    def nodes(self) -> tuple[Node, ...]:
        """The graph nodes computed here, each once, in order."""
        found = {id(s.node): s.node for section in self.sections for s in section.steps}
        return tuple(found.values())


def block_shape(
    group: Group, nodes: Mapping[str, Node], sizes: Mapping[str, int]
) -> tuple[int, ...] | None:
    """How many rows are computed at a time, along each loop that counts them.

    Args:
        group: a chain.
        nodes: what its buffers hold.
        sizes: lengths by symbol.

    Returns:
        One along all loops but the last; None where not even one row fits the cache.
    """
    assert group.rows is not None
    if not runs_by_rows(group, nodes, sizes):
        return None
    one = row_bytes(group.rows, nodes, sizes)
    loops = group.rows.loops
    last = dims.evaluate(group.sections[0].shape[loops[0][-1]], sizes)
    work = 0
    for section, rows in zip(group.sections, loops, strict=True):
        rest = [dim for axis, dim in enumerate(section.shape) if axis not in rows]
        work += math.prod(dims.evaluate(dim, sizes) for dim in rest)
    at_least = -(-BLOCK_ELEMENTS // max(work, 1))
    most = min(BLOCK_BYTES // max(one, 1), max(-(-last // BLOCKS), at_least))
    return (*[1] * (len(loops[0]) - 1), max(1, min(last, most)))


def row_bytes(rows: Rows, nodes: Mapping[str, Node], sizes: Mapping[str, int]) -> int:
    """Bytes of one row of all that one nest hands to another."""
    total = 0
    for name, axes in (*rows.kept, *rows.handed):
        node = nodes[name]
        rest = [dim for axis, dim in enumerate(node.shape) if axis not in axes]
        count = math.prod(dims.evaluate(dim, sizes) for dim in rest)
        total += count * node.dtype.itemsize
    return total


def runs_by_rows(group: Group, nodes: Mapping[str, Node], sizes: Mapping[str, int]) -> bool:
    """Whether a group is a chain whose rows fit the cache at these lengths."""
    return group.rows is not None and row_bytes(group.rows, nodes, sizes) <= ROW_CACHE_BYTES


def kept_buffers(group: Group, nodes: Mapping[str, Node], sizes: Mapping[str, int]) -> set[str]:
    """Buffers of a group that never reach memory at these lengths."""
    if group.turns:
        return set(group.inside)
    if group.rows is None or not runs_by_rows(group, nodes, sizes):
        return set()
    return {name for name, _ in group.rows.kept}


# -- finding chains -------------------------------------------------------------------------


def chained(groups: Sequence[Group], nodes: Mapping[str, Node]) -> list[Group]:
    """Kernels, with nests that hand rows to each other put into one.

    Args:
        groups: in the order in which they run.
        nodes: what temporaries and outputs hold, by buffer.
    """
    return _Finder(groups, nodes).run()


class _Finder:
    """Finds row tiles: nests that write and read an array may run by turns on a few rows."""

    def __init__(self, groups: Sequence[Group], nodes: Mapping[str, Node]) -> None:
        self.groups = groups
        self.nodes = nodes
        self.order = {name: k for k, name in enumerate(nodes)}
        self.sections = [section for group in groups for section in group.sections]
        self.place = [k for k, group in enumerate(groups) for _ in group.sections]
        self.writers: dict[str, list[int]] = {}
        self.readers: dict[str, list[int]] = {}
        for number, section in enumerate(self.sections):
            for name in dict.fromkeys(part.buffer for _, part in section.stores):
                self.writers.setdefault(name, []).append(number)
            for name in dict.fromkeys(part.buffer for part in section.loads):
                self.readers.setdefault(name, []).append(number)
        self.chain_of: dict[int, frozenset[int]] = {}
        self.rows: dict[frozenset[int], Rows] = {}

    def run(self) -> list[Group]:
        """The new kernels."""
        for name in self.nodes:
            if name in self.writers and name in self.readers:
                self._try(name)
        if not self.rows:
            return list(self.groups)
        placed: list[tuple[tuple[int, int, int], Group]] = []
        for chain, rows in self.rows.items():
            numbers = sorted(chain)
            group = Group(tuple(self.sections[k] for k in numbers), rows)
            placed.append(((max(self.place[k] for k in chain), 0, numbers[0]), group))
        number = 0
        for place, group in enumerate(self.groups):
            left = []
            for section in group.sections:
                left += [] if number in self.chain_of else [section]
                number += 1
            if left:
                placed.append(((place, 1, 0), changed(group, sections=tuple(left))))
        return [group for _, group in sorted(placed, key=lambda entry: entry[0])]

    def _try(self, name: str) -> None:
        """Make one chain of all nests that use an array, if they can be one, else of some.

        Where columns need all of an array, rows of it are still handed to those that take rows.
        """
        readers = self.readers[name]
        if self._make(name, readers):
            return
        shape = self.nodes[name].shape
        for axis in range(len(shape)):
            some = [number for number in readers if self._takes_rows(number, name, shape, axis)]
            if 0 < len(some) < len(readers) and self._make(name, some):
                return

    def _takes_rows(self, number: int, name: str, shape: Shape, axis: int) -> bool:
        """Whether a nest sees an axis of a buffer along a loop that it does not reduce."""
        section = self.sections[number]
        loops = [loop_of(shape, axis, part.views) for part in section.loads if part.buffer == name]
        return all(loop is not None and loop not in section.axes for loop in loops)

    def _make(self, name: str, readers: Sequence[int]) -> bool:
        """Make one chain of the nests that write an array and some that read it, if it can be."""
        users = {*self.writers[name], *readers}
        members: set[int] = set()
        for number in users:
            members |= self.chain_of.get(number, {number})
        chain = frozenset(members)
        if chain in self.rows:
            return True
        scans = any(self.sections[k].scan is not None for k in chain)
        if scans or not 1 < len(chain) <= MAX_LINKS:
            return False
        written = {part.buffer for k in chain for _, part in self.sections[k].stores}
        if any(self.sections[k].scatters for name in written for k in self.writers[name]):
            return False
        if not self._may_run_together(chain):
            return False
        rows = self._rows(name, sorted(chain))
        if rows is None:
            return False
        for number in chain:
            self.rows.pop(self.chain_of.get(number, frozenset()), None)
            self.chain_of[number] = chain
        self.rows[chain] = rows
        return True

    def _may_run_together(self, chain: frozenset[int]) -> bool:
        """Whether the nests may all run where the last one does: nobody needs a result before."""
        last = max(self.place[k] for k in chain)
        for number in chain:
            for _, part in self.sections[number].stores:
                for other in self.readers.get(part.buffer, ()):
                    early = self.place[other] - (other in self.chain_of)
                    if other not in chain and early < last:
                        return False
            for part in self.sections[number].loads:
                for other in self.writers.get(part.buffer, ()):
                    beside = self.chain_of.get(other, frozenset([other]))
                    if other not in chain and max(self.place[k] for k in beside) >= last:
                        return False
        return True

    def _rows(self, first: str, numbers: Sequence[int]) -> Rows | None:
        """The loops that count rows in all nests of a chain, or None."""
        written = {part.buffer for k in numbers for _, part in self.sections[k].stores}
        read = {part.buffer for k in numbers for part in self.sections[k].loads}
        shared = sorted(written & read, key=self.order.__getitem__)
        uses = list(self._uses(numbers, set(shared)))
        found = []
        for axis in range(len(self.nodes[first].shape)):
            one = self._along(first, axis, numbers, shared, uses)
            if one is not None:
                found.append(one)
        inside = set(numbers)
        kept = [
            name
            for name in shared
            if name.startswith("t")
            and inside.issuperset(self.readers[name])
            and inside.issuperset(self.writers[name])  # other parts of it may be stored before
        ]
        while found and self._across(found, numbers, kept):
            found.pop()
        if not found:
            return None
        axes = {name: tuple(buffers[name] for _, buffers in found) for name in shared}
        if not any(self._is_wide(name, axes[name]) for name in shared):
            return None
        loops = tuple(tuple(of[k] for of, _ in found) for k in numbers)
        handed = [name for name in shared if name not in kept]
        return Rows(
            loops,
            tuple((name, axes[name]) for name in kept),
            tuple((name, axes[name]) for name in handed),
        )

    def _across(
        self,
        found: Sequence[tuple[dict[int, int], dict[str, int]]],
        numbers: Sequence[int],
        kept: Sequence[str],
    ) -> bool:
        """Whether rows of some array that is not kept lie across each other: they are not taken.

        Arguments are C-ordered here; a call's own memory decides when it is there.
        """
        for number in numbers:
            section = self.sections[number]
            loops = [of[number] for of, _ in found]
            stored = [(part, section.node_of(value)) for value, part in section.stores]
            for part, node in (*stored, *zip(section.loads, section.load_nodes, strict=True)):
                if part.buffer in kept or is_counted(part.buffer):
                    continue
                shape = self.nodes[part.buffer].shape if part.buffer in self.nodes else node.shape
                if lie_across(shape, part.views, loops):
                    return True
        return False

    def _is_wide(self, name: str, axes: tuple[int, ...]) -> bool:
        """Whether a row of a buffer is longer than a fixed number of elements."""
        shape = self.nodes[name].shape
        return any(not isinstance(d, int) for k, d in enumerate(shape) if k not in axes)

    def _uses(
        self, numbers: Sequence[int], shared: set[str]
    ) -> Iterator[tuple[int, str, Shape, Chain]]:
        """(nest, buffer, shape, views): how nests meet the buffers that they share."""
        for number in numbers:
            section = self.sections[number]
            parts = [part for _, part in section.stores]
            for part in (*parts, *section.loads):
                if part.buffer in shared:
                    yield number, part.buffer, self.nodes[part.buffer].shape, part.views

    def _along(
        self,
        first: str,
        axis: int,
        numbers: Sequence[int],
        shared: Sequence[str],
        uses: Sequence[tuple[int, str, Shape, Chain]],
    ) -> tuple[dict[int, int], dict[str, int]] | None:
        """For each nest its loop, and for each buffer its axis, along which rows are counted."""
        loops: dict[int, int] = {}
        axes = {first: axis}
        while True:
            before = len(loops) + len(axes)
            for number, name, shape, views in uses:
                if name in axes:
                    seen = loop_of(shape, axes[name], views)
                    if seen is None or loops.setdefault(number, seen) != seen:
                        return None
                elif number in loops:
                    own = [
                        k for k in range(len(shape)) if loop_of(shape, k, views) == loops[number]
                    ]
                    if not own:
                        return None
                    axes[name] = own[0]
            if len(loops) + len(axes) == before:
                break
        if any(number not in loops for number in numbers) or any(n not in axes for n in shared):
            return None
        if any(loop in self.sections[number].axes for number, loop in loops.items()):
            return None
        lengths = {self.sections[number].shape[loop] for number, loop in loops.items()}
        return (loops, axes) if len(lengths) == 1 and 1 not in lengths else None


def loop_of(shape: Shape, axis: int, views: Chain) -> int | None:
    """The loop along which an axis of a buffer is seen, from end to end; None where it is not."""
    from fuser.ir.views import seen_through

    seen = seen_through(shape, views)
    if seen is None or axis not in seen.axes:
        return None
    loop = seen.axes.index(axis)
    return loop if seen.ends[loop] else None


def lie_across(shape: Shape, views: Chain, loops: Sequence[int]) -> bool:
    """Whether blocks of rows of a C-ordered array surely lie across each other in its memory.

    Args:
        shape: the array's.
        views: how a nest sees it.
        loops: those that count rows; a block has several along the last one.
    """
    from fuser.ir.views import seen_through

    seen = seen_through(shape, views)
    axis = None if seen is None else seen.axes[loops[-1]]
    if seen is None or axis is None:
        return False
    others = [k for loop, k in enumerate(seen.axes) if loop not in loops and k is not None]
    return any(k < axis and shape[k] != 1 for k in others)
