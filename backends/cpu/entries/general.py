"""Tables that serve every length for which binding chooses alike, while the work is short.

The launch is bound once more, to symbolic lengths (`fuser.runtime.symbolic`): its words are then
expressions, and the choices that binding made are guards, which the dispatcher compares. Lengths
of 0 and 1 are constants of a table; so are those that a form is written for.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from fuser.backend import ServedCall
from fuser.backends.cpu import costs
from fuser.backends.cpu.entries.composed import pairs_apart
from fuser.backends.cpu.entries.containers import native
from fuser.backends.cpu.entries.draft import Draft
from fuser.backends.cpu.entries.integers import check_guards, take_integers
from fuser.backends.cpu.entries.names import NotServed
from fuser.backends.cpu.entries.steps import Steps, TooLarge
from fuser.backends.cpu.entries.tables import (
    PATIENCE_NS,
    arrays_of,
    describe_arguments,
    describe_outputs,
    describe_scalars,
    pack,
)
from fuser.backends.cpu.machine import layout, pool
from fuser.backends.cpu.sequence import Table
from fuser.backends.cpu.tuning import PARALLEL_NS
from fuser.base.errors import GraphError
from fuser.ir import dims, layouts
from fuser.ir.dims import Dim
from fuser.runtime.launch import Fresh, Launch, bind
from fuser.runtime.symbolic import (
    Assumptions,
    Guard,
    NotSymbolic,
    Symbolic,
    dim_of,
)

#: Estimated nanoseconds of several loop nests, or of a reduction that has met many lengths, that
#: one thread does whatever the lengths.
SEVERAL_NS = 100_000
#: Estimated nanoseconds are counted in this many parts.
PARTS = 1024
#: Bits of the longest axis: the first for which no word can be too large is taken.
_BITS = (31, 24, 18, 14, 11)


def general_table(call: ServedCall, many: bool = False) -> tuple[Any, Draft]:
    """A table for calls like this one, whatever the lengths, while the work is short.

    Args:
        call: one of them.
        many: whether many lengths have been met that had tables of their own.

    Raises:
        NotServed: the launch has no such expressions, or arrays are not contiguous.
    """
    for bits in _BITS:
        try:
            return _General(call, 1 << bits).table(many)
        except TooLarge:
            continue
        except (NotSymbolic, LookupError, ValueError, GraphError):
            break  # LookupError: other kernels; ValueError: no such lengths
    raise NotServed


class _StandIn:
    """An array's shape and strides, which may be symbolic."""

    def __init__(self, shape: tuple[Any, ...], strides: tuple[Any, ...] | None, array: Any) -> None:
        """Without strides it is C-contiguous."""
        self.c_contiguous, self.f_contiguous = strides is None, False
        self.shape, self.ndim, self.itemsize = shape, len(shape), array.itemsize
        self.strides = strides or layouts.contiguous_strides(shape, array.itemsize)
        self.flags = self


class _General:
    """One such table while it is made."""

    def __init__(self, call: ServedCall, most: int) -> None:
        """Find the symbols of a call, and bind its launch to them.

        Args:
            call: one that has been served.
            most: no length is larger.

        Raises:
            NotServed, NotSymbolic: it cannot be.
        """
        spec = call.specialisation.spec
        if type(call.out) is tuple:
            raise NotServed
        self.draft = draft = Draft(call)
        describe_arguments(draft)
        if draft.in_part:
            raise NotServed
        free = {name: length for name, length in call.sizes.items() if length >= 2}
        graph = call.specialisation.trace.graph
        told = graph.scalar_lengths
        free = {name: length for name, length in free.items() if name not in told}
        if max(free.values(), default=0) > most or not (free or told):
            raise NotServed
        self.assumptions = Assumptions(free, dict.fromkeys(free, (layout.LEAST_LENGTH, most)))
        self.span = most - layout.LEAST_LENGTH + 1
        self.sizes: dict[str, Any] = {
            name: self.assumptions.symbol(name) if name in free else length
            for name, length in call.sizes.items()
        }
        self.places: dict[str, int] = {}
        if graph.guards_of_integers:
            take_integers(draft, self.sizes, self.places, self.assumptions, most)
        self.arrays = arrays_of(draft)
        self.shapes = {p.name: p.shape for p in graph.parameters if p.dtype is not None}
        if "o0" in self.arrays:
            self.shapes["o0"] = spec.plan.outputs[0].node.shape
        self.stand_ins: dict[str, Any] = {}
        for name, array in call.arrays.items():
            if name not in draft.written and name not in self.arrays:
                self.stand_ins[name] = np.asarray(array)
        for name, array in self.arrays.items():
            self._describe(name, array)
        self.stand_ins |= {o: self.stand_ins[name] for o, name in draft.written.items()}
        check_guards(draft, self.sizes)
        self.launch = self._bound()
        self.steps = Steps(self.places, self.assumptions)

    def _describe(self, name: str, array: Any) -> None:
        """The record of one array, and what stands for it.

        Raises:
            NotServed: lengths that are no symbols, or a layout that is not plain.
        """
        draft = self.draft
        shape = tuple(dims.evaluate(dim, self.sizes) for dim in self.shapes[name])
        codes = [self._code(name, dim, length) for dim, length in zip(self.shapes[name], shape,
                                                                      strict=True)]  # fmt: skip
        record = draft.records[draft.record_of[name]]
        kind, flags, strides = layout.CONTIGUOUS_ARRAY, layout.IS_CONTIGUOUS, None
        if not array.flags.c_contiguous:
            if array.ndim != 1 or not 0 < abs(array.strides[0]) < layout.MOST_STRIDE:
                raise NotServed
            call = draft.call
            if draft.written or call.specialisation.trace.hazards or call.out is not None:
                raise NotServed  # its reach would have to be compared
            kind, flags = layout.STRIDED_VECTOR, 0
            own = f"stride{len(self.places)}"
            self.assumptions.add(own, array.strides[0], layout.MOST_STRIDE)
            strides = (self.assumptions.symbol(own),)
            self.places[own] = len(self.places) + 1
            codes.append(self.places[own])
        draft.keep.append(array.dtype)
        record |= {
            "kind": kind, "expected": id(array.dtype), "rank": array.ndim,
            "axes": native(draft.keep, [codes]), "flags": record.get("flags", 0) | flags,
        }  # fmt: skip
        self.stand_ins[name] = _StandIn(shape, strides, array)

    def _code(self, name: str, dim: Dim, length: Any) -> int:
        """How the dispatcher meets a length: a place to compare with, or inverted, one to fill."""
        if not isinstance(length, Symbolic) or length.value < layout.LEAST_LENGTH:
            if length == 1:  # of an expression that becomes a guard
                return 0
            if length < 1 or name == "o0":
                raise NotServed
            place = self.places[f"length{len(self.places)}"] = len(self.places) + 1
            self.draft.ranges.append(layout.words("RANGE", place=place, low=length, width=0))
            return ~place
        text = str(dim)
        if text in self.places:
            return self.places[text]
        if name == "o0":
            raise NotServed
        if text not in self.assumptions.values:  # an expression: it is a symbol, and compared
            text = f"length{len(self.places)}"
            self.assumptions.add(text, length.value, self.span)
            if self.assumptions.symbol(text) != length:
                raise NotServed
        self.places[text] = len(self.places) + 1
        return ~self.places[text]

    def _bound(self) -> Launch:
        """The launch of symbolic lengths.

        Raises:
            NotServed: it takes other steps than those of native loop nests.
            LookupError: it takes other kernels.
        """
        call = self.draft.call
        launch = bind(
            call.specialisation.spec, self.stand_ins, self.sizes, call.launch.backend,
            call.launch.arg_specs, by_rows=False, symbolic=True,
        )  # fmt: skip
        counted = any(
            costs.counts_parts(section.extent) for g in launch.groups for _, section in g.sections
        )
        if counted or launch.unlaunched or any(group.copies for group in launch.groups):
            raise NotServed
        return launch

    def table(self, many: bool) -> tuple[Any, Draft]:
        """The table: see `general_table`."""
        draft = self.draft
        table = draft.table = Table(self.launch, shared=False)
        describe_scalars(draft, self.sizes)
        words: list[Any] = table.words
        for word, value in enumerate(words):
            if isinstance(value, Symbolic):
                draft.lines.append([*self.steps.scaled(value.dim), word])
                words[word] = 0
        rows = {
            "outputs": describe_outputs(draft, self._room),
            "overlaps": self._overlaps(),
            "temporaries": [[*self.steps.scaled(_bytes(e))] for e in table.temporaries.values()],
        }
        work, limit = self._work(), longest_ns(draft.call, many) * PARTS
        guards = self._guards()
        draft.key = (*guards, *(name for name in draft.call.sizes if name not in self.places))
        draft.ranges += [
            layout.words("RANGE", place=self.steps.place(dim), low=low, width=high - low)
            for dim, low, high in guards
        ]
        draft.ranges += self._below_pool(draft.table.outputs)
        draft.steps = self.steps.rows
        base_of = {name: k for k, name in enumerate(table.temporaries)}
        return pack(
            draft, rows, base_of, limit=limit, patience=PATIENCE_NS * PARTS, span=self.span,
            work_factor=work[0], work_place=work[1],
        ), draft  # fmt: skip

    def _guards(self) -> list[Guard]:
        """What the dispatcher has to compare; not what being short implies.

        Raises:
            NotServed: a length that no argument tells.
        """
        upper: dict[Dim, int] = {}
        for nest in self.draft.table.nests:
            upper.setdefault(_elements(nest[2]), SEVERAL_NS * PARTS // _cost(nest))
        return self.assumptions.guards(upper)

    def _below_pool(self, fresh: Sequence[Any]) -> list[list[int]]:
        """Guards of results: large ones come from the pool, by tables of their own lengths."""
        return [
            layout.words("RANGE", place=self.steps.place(count), low=0, width=most)
            for entry in fresh
            if not isinstance(count := dim_of(math.prod(entry.shape)), int)
            and (most := (pool.THRESHOLD - 1) // entry.dtype.itemsize)
        ]

    def _room(self, entry: Fresh) -> dict[str, int]:
        """The lengths of an array to allocate: each is a place.

        Raises:
            NotServed: it is not in C order.
        """
        if entry.order is not None:
            raise NotServed
        codes = [self.steps.place(dim_of(length)) for length in entry.shape]
        return {"codes": native(self.draft.keep, [codes])}

    def _work(self) -> tuple[int, int]:
        """Estimated nanoseconds of all loop nests."""
        total: Dim = 0
        for nest in self.draft.table.nests:
            total = total + _elements(nest[2]) * _cost(nest)
        return self.steps.scaled(total)

    def _overlaps(self) -> list[list[int]]:
        """What arrays that are written must not share memory with."""
        draft = self.draft
        rows = []
        for written, read, in_place in pairs_apart(draft, self.arrays):
            target = draft.written.get(written, written)
            same = self.shapes[read] == self.shapes[target]
            sizes = {self.arrays[name].dtype.itemsize for name in (read, target)}
            factor_w, place_w = self.steps.scaled(_bytes(self.stand_ins[target]))
            factor_r, place_r = self.steps.scaled(_bytes(self.stand_ins[read]))
            rows.append(
                layout.words(
                    "OVERLAP", written=draft.record_of[written], read=draft.record_of[read],
                    same=int(same and len(sizes) == 1 and in_place), factor_w=factor_w,
                    place_w=place_w, factor_r=factor_r, place_r=place_r,
                )
            )  # fmt: skip
        return rows


def longest_ns(call: ServedCall, many: bool = False) -> int:
    """Estimated nanoseconds from which on calls are served by tables of their own lengths.

    Those share work among threads. Binding one costs more than sharing saves where there are
    several loop nests, or where lengths of a reduction do not come again.
    """
    nests = [nest for group in call.launch.groups for nest in group.kernel.nests]
    single = len(nests) == 1 and (nests[0].strategy == "map" or not many)
    return int(PARALLEL_NS) if single else SEVERAL_NS


def _bytes(entry: Any) -> Dim:
    """The size of an array."""
    itemsize = entry.itemsize if isinstance(entry, _StandIn) else entry.dtype.itemsize
    return dim_of(math.prod(entry.shape) * itemsize)


def _elements(extent: Any) -> Dim:
    """The elements of a loop nest."""
    return dim_of(getattr(extent, "elements", extent[0] * extent[1]))


def _cost(nest: tuple[Any, int, Any]) -> int:
    """Estimated nanoseconds of an element of a loop nest, in parts."""
    kernel, number, _ = nest
    parts: int = round(kernel.element_ns(number) * PARTS)
    return max(1, parts)
