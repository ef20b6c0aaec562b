"""Words of a launch as products of lengths.

Extents, strides and offsets are such products wherever arrays are C-contiguous. Which products, is
found by binding the same spec to stand-ins whose lengths are different prime numbers, and factoring
each word of two such tables. That they are these products for all lengths is then proved: from the
length on that `settled_from` gives, and for the schedules that are admitted here, each word is a
polynomial in the lengths, whose degrees are bounded by those of the shapes in the plan
(`entry_lengths.degree`). A polynomial with exponents from a set that has, with each exponent, all
smaller ones is determined by its values on the grid of that form (one length for each exponent);
so a product that has the word's value at all of these points is that word. The grid has two points
for one axis, four for two. A word that is no product means that calls are served by exact lengths
only. Numbers that kernels take are never found so: see `Pattern.product_of`.

Source: Dyn and Floater, "Multivariate polynomial interpolation on lower sets", Journal of
Approximation Theory 177, 2014, theorem 5.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from fuser.backends.cpu.costs import counts_parts, schedule_of
from fuser.backends.cpu.entries import entry_fields as fields
from fuser.backends.cpu.entries.entry_draft import Draft
from fuser.backends.cpu.entries.entry_lengths import degree
from fuser.backends.cpu.entries.entry_names import NotServed
from fuser.backends.cpu.entries.entry_tables import arrays_of, product
from fuser.backends.cpu.reducing import laced_rows
from fuser.backends.cpu.reducing.beside_rows import GATHERED, PAIRWISE
from fuser.backends.cpu.schedule import DEFAULT, Schedule
from fuser.backends.cpu.sequence import Table
from fuser.base.errors import GraphError
from fuser.base.records import changed, record
from fuser.ir import dims
from fuser.runtime.launch import Launch, bind

_PRIMES = (
    (37, 41, 43, 47, 53, 59, 101), (61, 67, 71, 73, 79, 83, 103),
    (89, 97, 107, 109, 113, 127, 131),
)  # fmt: skip
#: Where a kernel is for short rows, whose lengths have the first ones; the same where rows have
#: blocks of elements.
_SMALL_PRIMES = ((3, 5, 7, 11, 13), (5, 7, 11, 13, 3), (7, 11, 13, 3, 5))
_BLOCK_PRIMES = ((11, 13, 3, 5, 7), (13, 11, 5, 7, 3), (10, 9, 7, 3, 5))
#: Where some lengths are those of the call, and one or several others must be long enough.
_ONE_PRIME = ((4099,), (4111,), (4127,))
_LARGER_PRIMES = (
    (67, 71, 73, 79, 83), (89, 97, 101, 103, 107), (109, 113, 127, 131, 137),
)  # fmt: skip
#: Stand-ins are never touched, but their addresses have to be reserved.
MOST_BYTES = 1 << 28
#: Points of a grid, at most: each is one more binding.
MOST_POINTS = 32


#: Schedules that serve all lengths for which they are chosen, but for a length that is unrolled.
_FOR_MANY = frozenset((
    DEFAULT, GATHERED, PAIRWISE, Schedule(vector_axis="strided", layout="gather"),
    Schedule(passes="online"), changed(laced_rows.schedule_of(2), unroll=0),
    changed(laced_rows.schedule_of(8), unroll=0),
))  # fmt: skip


@record
class Probe:
    """One set of stand-ins: what each symbol stands for, and the table that they lead to.

    Attributes:
        primes: by symbol number; each is of one symbol only.
        units: the bytes that a symbol's value counts in: strides are multiples of an itemsize.
        sizes: lengths by their names.
        table: the bound launch.
    """

    primes: dict[int, int]
    units: dict[int, int]
    sizes: dict[str, int]
    table: Table


class Pattern:
    """The words of a launch as products of symbols."""

    def __init__(self, draft: Draft) -> None:
        """Number the symbols of a call and bind the stand-ins.

        Raises:
            NotServed: lengths that are no symbols, or layouts that are not plain.
        """
        self.draft = draft
        self.symbols: dict[str, int] = {}
        self.arrays = arrays_of(draft)
        self.strided: dict[str, int] = {}
        graph = draft.call.specialisation.trace.graph
        self._shapes = {
            p.name: p.shape for p in graph.parameters if p.dtype is not None
        }
        if "o0" in self.arrays:
            self._shapes["o0"] = draft.call.specialisation.spec.plan.outputs[0].node.shape
        if graph.guards or type(draft.call.out) is tuple or draft.in_part:
            raise NotServed
        for name, array in self.arrays.items():
            self._describe(name, array)
        wanted = schedules(draft.call.launch)
        self.settled = self._find_settled(wanted)
        self.beside = self._find_beside(wanted)
        primes: Sequence[Sequence[int]] = _SMALL_PRIMES if GATHERED in wanted else _PRIMES
        if PAIRWISE in wanted:
            primes = _BLOCK_PRIMES
        if self.settled:
            few = len(self.symbols) - len(self.settled) < 2
            primes = _ONE_PRIME if few else _LARGER_PRIMES
        exact = not all(changed(each, unroll=0) in _FOR_MANY for each in wanted)
        exact = exact or any(map(counts_parts, _extents(draft.call.launch)))
        free = len(self.symbols) + len(self.strided) - len(self.settled)
        if free > len(primes[0]) or exact:
            raise NotServed
        self.probes = [self._probe(point, primes) for point in self._grid(len(primes))]

    def _find_settled(self, wanted: Sequence[Schedule]) -> dict[int, int]:
        """Lengths for which code is written out, by symbol number: they stay the call's.

        Raises:
            NotServed: such a length is no symbol.
        """
        call = self.draft.call
        sections = [s for g in call.specialisation.spec.plan.groups for s in g.sections]
        found: dict[int, int] = {}
        if not any(each.unroll for each in wanted):
            return found
        if len(sections) != len(wanted):
            raise NotServed
        for schedule, section in zip(wanted, sections, strict=True):
            for axis in section.axes if schedule.unroll else ():
                name = str(section.shape[axis])
                if name not in self.symbols:
                    raise NotServed
                found[self.symbols[name]] = call.sizes[name]
        return found

    def _find_beside(self, wanted: Sequence[Schedule]) -> set[int]:
        """Symbol numbers of lengths of rows that are side by side, of those with blocks if any."""
        name = PAIRWISE if PAIRWISE in wanted else GATHERED
        call, found = self.draft.call, set()
        sections = [s for g in call.specialisation.spec.plan.groups for s in g.sections]
        for schedule, section in zip(wanted, sections, strict=False):
            if schedule == name:
                found |= {self.symbols.get(str(section.shape[axis]), 0) for axis in section.axes}
        return found

    def _describe(self, name: str, array: Any) -> None:
        """The record of one array."""
        record = self.draft.records[self.draft.record_of[name]]
        codes: list[int] = []
        for dim in self._shapes[name]:
            text = str(dim)
            if text == "1":
                codes.append(0)
            elif text in self.symbols:
                codes.append(self.symbols[text])
            elif name == "o0" or not text.isalnum() or text.isdigit():
                raise NotServed
            else:
                self.symbols[text] = len(self.symbols) + 1
                codes.append(~self.symbols[text])
        kind, flags = fields.CONTIGUOUS_ARRAY, record.get("flags", 0) | fields.IS_CONTIGUOUS
        if not array.flags.c_contiguous:
            if array.ndim != 1 or array.strides[0] == 0 or self._written():
                raise NotServed
            kind, flags = fields.STRIDED_VECTOR, 0
            self.strided[name] = fields.MOST_SYMBOLS - 1 - len(self.strided)
            codes.append(self.strided[name])
        axes = fields.array([codes])
        self.draft.keep.extend([axes, array.dtype])
        record |= {
            "kind": kind, "expected": id(array.dtype), "rank": array.ndim,
            "axes": fields.address(axes), "flags": flags,
        }  # fmt: skip

    def _written(self) -> bool:
        """Whether anything but new arrays is written, whose reach has to be a product."""
        call = self.draft.call
        trace = call.specialisation.trace
        return bool(self.draft.written or trace.hazards) or call.out is not None

    def _free(self) -> list[int]:
        """Numbers of symbols that are not settled, in the order of their primes."""
        numbers = [*self.symbols.values(), *self.strided.values()]
        free = [number for number in numbers if number not in self.settled]
        return sorted(free, key=lambda number: number not in self.beside)

    def _grid(self, rows: int) -> list[tuple[int, ...]]:
        """Points at which words are compared: for each free symbol, the row of its prime.

        The first two are for factoring: no symbol has the same prime in both.

        Raises:
            NotServed: too many points, or more than there are primes for.
        """
        plan, shapes = self.draft.call.specialisation.spec.plan, [*self._shapes.values()]
        names = {number: name for name, number in self.symbols.items()}
        free = self._free()
        strides = [number in self.strided.values() for number in free]
        most = [  # one stride, of those that are symbols, is in a word: once
            1 if own else degree(plan, shapes, {names[number]})
            for own, number in zip(strides, free, strict=True)
        ]
        lengths = {names[n] for own, n in zip(strides, free, strict=True) if not own}
        total = degree(plan, shapes, lengths)
        if max(most, default=0) >= rows or math.prod(d + 1 for d in most) > 1 << 12:
            raise NotServed
        points = []
        for point in itertools.product(*(range(d + 1) for d in most)):
            stride = sum(itertools.compress(point, strides))
            if stride < 2 and sum(point) - stride <= total:
                points.append(point)
        corners = [(row,) * len(free) for row in (0, 1)]
        found = [*corners, *(point for point in points if point not in corners)]
        if len(found) > MOST_POINTS:
            raise NotServed
        return found

    def _probe(self, point: Sequence[int], primes: Sequence[Sequence[int]]) -> Probe:
        """Bind the spec to stand-ins."""
        call = self.draft.call
        free = enumerate(zip(self._free(), point, strict=True))
        prime_of = {number: primes[row][k] for k, (number, row) in free}
        known = prime_of | self.settled
        sizes = {name: known[number] for name, number in self.symbols.items()}
        units = dict.fromkeys(self.symbols.values(), 1)
        stand_ins: dict[str, Any] = {}
        for name, array in call.arrays.items():
            if name in self.draft.written:
                continue
            if type(array) is not np.ndarray:
                stand_ins[name] = np.asarray(array)
                continue
            shape = tuple(dims.evaluate(dim, sizes) for dim in self._shapes[name])
            step = prime_of[self.strided[name]] if name in self.strided else 1
            if int(np.prod(shape, dtype=np.float64)) * step * array.itemsize > MOST_BYTES:
                raise NotServed
            if name in self.strided:
                units[self.strided[name]] = array.itemsize
                shape = (shape[0] * step,)
            stand_ins[name] = np.empty(shape, array.dtype)[::step] if shape else np.empty(
                (), array.dtype
            )
        stand_ins |= {result: stand_ins[name] for result, name in self.draft.written.items()}
        spec = call.specialisation.spec
        backend = call.launch.backend
        try:
            launch = bind(
                spec, stand_ins, sizes, backend, call.launch.arg_specs, by_rows=False
            )
        except (LookupError, ValueError):  # other kernels, or no such lengths
            raise NotServed from None
        copied = any(group.copies for group in launch.groups)
        if copied or schedules(launch) != schedules(call.launch):
            raise NotServed
        return Probe(prime_of, units, sizes, Table(launch))

    def solve(self, values: Sequence[int]) -> list[int]:
        """The product that has these values in the probes, and so for all lengths.

        Raises:
            NotServed: there is none.
        """
        pairs = [*zip(values, self.probes, strict=True)]
        found = {self._factor(value, probe) for value, probe in pairs[:2]}
        if len(found) != 1:
            raise NotServed
        factor, symbols = found.pop()
        if len(symbols) > 4:
            raise NotServed
        for value, probe in pairs[2:]:
            each = (probe.primes[symbol] * probe.units[symbol] for symbol in symbols)
            if math.prod(each) * factor != value:
                raise NotServed
        return product(factor, *symbols)

    def product_of(self, text: str) -> list[int] | None:
        """The product that a host expression is for all lengths that a table serves; else None.

        Read from its text: a term of a polynomial over symbols, too small to overflow a word.
        """
        try:
            found = dims.parse(text)
        except GraphError:  # a remainder, a power, a comparison …
            return None
        terms = dims.terms_of(found)
        if len(terms) != 1 or len(terms[0][0]) > 4:
            return None
        ((names, factor),) = terms
        if not set(names) <= self.symbols.keys():  # a min, a max or a quotient
            return None
        if abs(factor) * fields.MOST_LENGTH ** len(names) >= 1 << 63:
            return None
        return product(factor, *(self.symbols[name] for name in names))

    def symbol_of(self, lengths: Sequence[int]) -> int:
        """The symbol that has these values in the probes.

        Raises:
            NotServed: there is none.
        """
        factor, symbol, *others, _ = self.solve(lengths)
        if any(others):
            raise NotServed
        if factor != 1:
            settled = [number for number, length in self.settled.items() if length == factor]
            if symbol or not settled:
                raise NotServed
            return settled[0]
        return symbol

    @staticmethod
    def _factor(value: int, probe: Probe) -> tuple[int, tuple[int, ...]]:
        """A number as a factor and symbols."""
        symbols = []
        if value:
            for symbol, prime in probe.primes.items():
                while value % prime == 0:
                    value //= prime
                    symbols.append(symbol)
                    if value % probe.units[symbol]:
                        raise NotServed
                    value //= probe.units[symbol]
        return value, tuple(symbols)

    def value(self, row: Sequence[int], sizes: Mapping[int, int]) -> int:
        """What a product is for given values of symbols."""
        result = row[0]
        for symbol in row[1:5]:
            result *= sizes.get(symbol, 1)
        return result


def schedules(launch: Launch) -> tuple[Schedule, ...]:
    """The schedules of a call's loop nests: some are for certain lengths only."""
    return tuple(map(schedule_of, _extents(launch)))


def _extents(launch: Launch) -> Iterator[Any]:
    return (section.extent for group in launch.groups for _, section in group.sections)
