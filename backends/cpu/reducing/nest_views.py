"""Nests met another way: rows as columns, columns as rows; which schedules can have them."""

from __future__ import annotations

from fuser.backends.cpu import conversion
from fuser.backends.cpu.reducing import deinterleaved_rows, packed_rows
from fuser.backends.cpu.reducing.reduction_stages import stages_of
from fuser.base.records import changed
from fuser.codegen import LoopNest
from fuser.ir.specs import CONTIGUOUS, INVARIANT, STRIDED, TensorDesc


def can_be_gathered(nest: LoopNest) -> bool:
    """Whether rows of a nest can be computed side by side."""
    return nest.strategy == "row" and nest.reduced == 1 and nest.rank > 1


def packs(nest: LoopNest) -> bool:
    """Whether rows of a nest can be packed and computed side by side."""
    return can_be_gathered(nest) and packed_rows.can_be_packed(turned(nest))


def deinterleaves(nest: LoopNest, length: int) -> bool:
    """Whether rows of a nest can be sorted by their elements' places."""
    return can_be_gathered(nest) and deinterleaved_rows.can_be_deinterleaved(turned(nest), length)


def turned(nest: LoopNest) -> LoopNest:
    """A row nest as a column nest: the loop beside the reduced one becomes innermost."""

    def beside(desc: TensorDesc) -> TensorDesc:
        steady = desc.access == INVARIANT
        return changed(desc, access=desc.beside, steady=steady, beside="")

    return changed(
        nest,
        strategy="column",
        loads=tuple(beside(desc) for desc in nest.loads),
        stores=tuple((number, beside(desc)) for number, desc in nest.stores),
    )


def columns_as_rows(nest: LoopNest) -> LoopNest:
    """A column nest as a row nest: vectors run along the reduced loop, whose elements lie apart."""

    def down(desc: TensorDesc) -> TensorDesc:
        access = INVARIANT if desc.steady else desc.beside or STRIDED
        return changed(desc, access=access, steady=False, beside=desc.access)

    return changed(
        nest,
        strategy="row",
        loads=tuple(map(down, nest.loads)),
        stores=tuple((number, down(desc)) for number, desc in nest.stores),
    )


def along(nest: LoopNest) -> dict[int, int]:
    """Bytes from element to element of a row, of operands whose elements lie together."""
    together = (desc.access == CONTIGUOUS and not desc.counted for desc in nest.loads)
    return {
        k: conversion.bytes_of(nest.loads[k].dtype) for k, known in enumerate(together) if known
    }


def can_be_joined(nest: LoopNest) -> bool:
    """Whether whoever finishes a row's last part can do all that is left."""
    stages = stages_of(nest)
    return nest.strategy == "row" and len(stages.loops) == 1 and stages.final == 1
