"""Rows of two to a few elements: each element's number in the row has a vector of its own.

Points, colours, quaternions: as many vectors as a row has elements hold one row for each lane.
Shuffles sort their elements, rows are reduced by plain operations on whole vectors, and what is
stored for each element is sorted back. The loops over a row's elements are written out.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from fuser.backends.cpu import conversion, tuning
from fuser.backends.cpu.body import Module, Value, mangled, vector_type
from fuser.backends.cpu.interleaving import lace, split
from fuser.backends.cpu.reducing.accumulators import Accumulator
from fuser.backends.cpu.reducing.gathered_rows import GatheredRows
from fuser.backends.cpu.reducing.reduction_stages import stages_of
from fuser.backends.cpu.reducing.unrolled_columns import (
    UnrolledColumns,
    can_be_unrolled,
)
from fuser.backends.cpu.schedule import Schedule
from fuser.backends.cpu.vector_memory import lane_mask
from fuser.codegen import LoopNest


def schedule_of(length: int) -> Schedule:
    """The schedule of rows of so many elements."""
    return Schedule(
        vector_axis="strided", layout="deinterleave", unroll=length,
        accumulate="pairwise" if length >= tuning.PAIRED_BLOCK else "plain",
    )  # fmt: skip


def are_dense(nest: LoopNest, lengths: Sequence[int], strides: Sequence[Sequence[int]]) -> bool:
    """Whether operands with an element for each place of each row are contiguous.

    Args:
        nest: rows, turned into columns.
        lengths: of all loops: rows, and their elements.
        strides: of loads, then of stores, in bytes.
    """
    sizes = {k: conversion.bytes_of(nest.operands[k].dtype) for k in _laced(nest)}
    return all(tuple(strides[k]) == (lengths[-1] * size, size) for k, size in sizes.items())


def can_be_deinterleaved(nest: LoopNest, length: int) -> bool:
    """Whether all elements of rows of a length fit into registers, and the code stays short."""
    if nest.rank != 2 or not 0 < len(_laced(nest)) <= tuning.DEINTERLEAVED_OPERANDS:
        return False
    return can_be_unrolled(nest, length)


def _laced(nest: LoopNest) -> list[int]:
    """The operands with an element for each place of each row."""
    stages, count = stages_of(nest), len(nest.loads)
    stored = [count + k for k in range(len(nest.stores)) if stages.store_level(k) == 2]
    loads = [k for k, desc in enumerate(nest.loads) if stages.levels[k] == 2 and desc.picked]
    return loads + stored


class DeinterleavedRows(GatheredRows, UnrolledColumns):
    """Emits one nest of turned rows of a known length."""

    finds_pairs = False  # all of a row's places are sorted together

    def __init__(self, module: Module, nest: LoopNest, name: str, length: int) -> None:
        """Note which operands are sorted."""
        super().__init__(module, nest, name, length)
        self.laced = _laced(nest)
        self.found: dict[int, list[Value]] = {}
        """Of each load: its elements of each number, as they are in memory."""
        self.made: dict[int, list[Value]] = {}
        """Of each store: the same, as far as they are computed."""

    def _columns(self, column: str, mask: Value | None, amount: str) -> None:
        """One vector of rows."""
        b, first = self.b, len(self.nest.loads)
        places = {k: self._first(k, column) for k in self.laced}
        masks = [self._mask(amount, part) if mask else None for part in range(self.length)]
        self.found, self.made = {}, {}
        for k in self.laced:
            if k < first:
                self.found[k] = split(b, self._fetch(k, places[k], masks))
        super()._columns(column, mask, amount)
        for k in self.laced:
            if k >= first:
                self._put(k, places[k], lace(b, self.made[k]), masks)

    def _stage(self, stage: int, running: list[Accumulator]) -> None:
        if self.length < tuning.PAIRED_BLOCK:
            UnrolledColumns._stage(self, stage, running)
        else:
            super()._stage(stage, running)

    def _in_pairs(self, stage: int, running: list[Accumulator]) -> None:
        self._block(stage, running, "0")
        self._join_sums(running)

    def _in_chains(self, stage: int, running: list[Accumulator]) -> None:
        for turn in range(self.length):
            self._take_in_turn(running, self._element(stage, running, "0", turn))
        self._join_sums(running)

    def _element(
        self, stage: int, running: list[Accumulator], first: str, turn: int = 0
    ) -> list[Value]:
        self.element = turn
        return super()._element(stage, running, first, turn)

    def _first(self, k: int, row: str) -> str:
        """The address of a row's first element."""
        size = self.length * conversion.bytes_of(self.operands[k].dtype)
        return self.moved(self.rows[k], self.number(f"mul i64 {row}, {size}"))

    def _mask(self, rows: str, part: int) -> Value:
        """Which elements of one of the vectors belong to so many rows."""
        elements = Value(self.number(f"mul i64 {rows}, {self.length}"), "i64", 1)
        before = Value(str(part * self.lanes), "i64", 1)
        rest = self.b.intrinsic("llvm.usub.sat", elements, before)
        return lane_mask(self.b, rest.text, self.lanes)

    def _piece(self, k: int, place: str, part: int) -> str:
        """The address of one of the vectors."""
        size = conversion.bytes_of(self.operands[k].dtype)
        return self.moved(place, str(part * self.lanes * size))

    def _fetch(self, k: int, place: str, masks: Sequence[Value | None]) -> list[Value]:
        """The elements of a vector of rows as they lie in memory; others repeat the first."""
        b, lanes = self.b, self.lanes
        memory = conversion.MEMORY[self.operands[k].dtype]
        kind, found = vector_type(memory, lanes), []
        for part, mask in enumerate(masks):
            address = self._piece(k, place, part)
            if mask is None or lanes == 1:
                found.append(b.value(f"load {kind}, ptr {address}, align 1", memory, lanes))
                continue
            rest = b.splat(b.value(f"load {memory}, ptr {place}, align 1", memory, 1), lanes)
            symbol = f"llvm.masked.load.{mangled(memory, lanes)}.p0"
            b.module.declare(symbol, kind, ("ptr", "i32", mask.type, kind))
            given = f"ptr {address}, i32 1, {mask.typed}, {rest.typed}"
            found.append(b.value(f"call {kind} @{symbol}({given})", memory, lanes))
        return found

    def _put(
        self, k: int, place: str, vectors: Sequence[Value], masks: Sequence[Value | None]
    ) -> None:
        """Store the elements of a vector of rows as they lie in memory."""
        b = self.b
        for part, (raw, mask) in enumerate(zip(vectors, masks, strict=True)):
            address = self._piece(k, place, part)
            if mask is None or raw.lanes == 1:
                b.line(f"store {raw.typed}, ptr {address}, align 1")
                continue
            symbol = f"llvm.masked.store.{mangled(raw.scalar, raw.lanes)}.p0"
            b.module.declare(symbol, "void", (raw.type, "ptr", "i32", mask.type))
            b.line(f"call void @{symbol}({raw.typed}, ptr {address}, i32 1, {mask.typed})")

    def _load_vector(self, k: int, address: str, step: str, mask: Value | None) -> Value:
        if k not in self.found:
            return super()._load_vector(k, address, step, mask)
        return conversion.from_memory(self.b, self.found[k][self.element], self.operands[k].dtype)

    def _store_vector(
        self,
        place: int,
        value: Value,
        address: Callable[[int], str],
        step: Callable[[int], str],
        mask: Value | None,
    ) -> None:
        k = len(self.nest.loads) + place
        raw = conversion.to_memory(self.b, value, self.operands[k].dtype)
        self.made.setdefault(k, []).append(raw)
