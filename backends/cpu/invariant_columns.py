"""Maps whose rows share operands: what is computed of these alone is computed once for many rows.

`x * (gain / np.sqrt(variance + eps)) + bias` divides and takes roots for each element, and each
row's are those of the row before. A tile of columns of such values is computed into scratch memory
first; the rows of a chunk then load them. Which operands rows share is a matter of strides, so each
set of them has a schedule of its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from fuser.backends.cpu import conversion, costs, tuning
from fuser.backends.cpu.body import Module
from fuser.backends.cpu.loops import begin_loop
from fuser.backends.cpu.section import packs
from fuser.backends.cpu.wrappers import Block, Wrapper
from fuser.base.records import changed
from fuser.codegen import Instruction, LoopNest
from fuser.ir.costs import ROOT
from fuser.ir.specs import CONTIGUOUS, TensorDesc


def shared_loads(nest: LoopNest, strides: Sequence[Sequence[int]]) -> tuple[int, ...]:
    """Loads that are the same in all outer iterations.

    Args:
        nest: the loops.
        strides: of loads, then of stores, in bytes.
    """
    return tuple(k for k in range(len(nest.loads)) if not any(strides[k][:-1]))


class Parts(NamedTuple):
    """A nest as two.

    Attributes:
        head: computes, of the loads numbered by `before`, what the rows of `rest` share.
        rest: loads what `head` stores, then the loads numbered by `after`.
    """

    head: LoopNest
    rest: LoopNest
    before: list[int]
    after: list[int]


def split(nest: LoopNest, shared_loads: Sequence[int]) -> Parts | None:
    """What is computed of shared operands, and of that and all others.

    Args:
        nest: a map nest.
        shared_loads: loads that are the same for all rows.

    Returns:
        Two nests; None where nothing costly is saved.
    """
    plain = nest.strategy == "map" and nest.rank > 1 and not nest.checked and not packs(nest)
    stored = all(desc.access == CONTIGUOUS for _, desc in nest.stores)
    if not plain or not stored or any(desc.counted for desc in nest.loads):
        return None
    loads = [k for k in shared_loads if nest.loads[k].access == CONTIGUOUS]
    first = nest.value_count - len(nest.body)
    shared = set(loads)
    known = shared | set(range(len(nest.loads), first))
    early: list[int] = []
    for place, instruction in enumerate(nest.body):
        if shared.intersection(instruction.operands) and known.issuperset(instruction.operands):
            early.append(first + place)
            shared.add(first + place)
            known.add(first + place)
    late = [first + k for k in range(len(nest.body)) if first + k not in shared]
    wanted = {k for number in late for k in nest.body[number - first].operands}
    wanted |= {number for number, _ in nest.stores}
    kept = [number for number in early if number in wanted]
    served = all(nest.dtype_of(number) in ("float32", "float64") for number in kept)
    saved = max((costs.operation_ns(nest.body[k - first]) for k in early), default=0.0)
    few = 0 < len(kept) <= tuning.INVARIANT_KEPT
    if not few or not served or saved < tuning.LIGHT_NS * ROOT or not late:
        return None
    descs = [TensorDesc(nest.dtype_of(number), CONTIGUOUS) for number in kept]
    before = {k: place for place, k in enumerate(loads)}
    head = changed(
        nest, rank=1, loads=tuple(nest.loads[k] for k in loads),
        **_renumbered(nest, before, early, len(loads), list(zip(kept, descs, strict=True))),
    )  # fmt: skip
    others = [k for k in range(len(nest.loads)) if k in wanted]
    after = {number: place for place, number in enumerate([*kept, *others])}
    rest = changed(
        nest, loads=(*descs, *(nest.loads[k] for k in others)),
        **_renumbered(nest, after, late, len(after), list(nest.stores)),
    )  # fmt: skip
    return Parts(head, rest, loads, others)


def _renumbered(
    nest: LoopNest,
    places: dict[int, int],
    body: list[int],
    loads: int,
    stores: list[tuple[int, TensorDesc]],
) -> dict[str, tuple[Instruction, ...] | tuple[tuple[int, TensorDesc], ...]]:
    """Some instructions, and stores, with the numbers of a nest that has other loads."""
    first = nest.value_count - len(nest.body)
    leaves = range(len(nest.loads), first)
    places = places | {k: loads + k - len(nest.loads) for k in leaves}
    found = []
    for place, number in enumerate(body):
        instruction = nest.body[number - first]
        operands = tuple(places[k] for k in instruction.operands)
        found.append(changed(instruction, operands=operands))
        places[number] = loads + len(leaves) + place
    return {"body": tuple(found), "stores": tuple((places[n], desc) for n, desc in stores)}


class InvariantColumns(Wrapper):
    """A nest's function: has one nest compute a tile's shared values, and the other its rows."""

    def emit(self, names: tuple[str, str], parts: Parts) -> str:
        """The function; the named ones do the work of the parts."""
        b, (head, rest, loads, others) = self.b, parts
        blocks = {"head": Block.of(head), "rest": Block.of(rest)}
        for name, block in blocks.items():
            b.line(f"%{name} = alloca [{block.words} x i64], align 16")
        kept = [conversion.bytes_of(desc.dtype) for _, desc in head.stores]
        for k, size in enumerate(kept):
            b.line(f"%kept{k} = alloca [{tuning.INVARIANT_TILE * size} x i8], align 64")
        stores = range(len(self.nest.loads), len(self.block.operands))
        self._fixed(blocks["head"], blocks["rest"], len(kept), [*others, *stores])
        columns = self.number("sub i64 %iend, %ibegin")
        up = self.number(f"add i64 {columns}, {tuning.INVARIANT_TILE - 1}")
        loop = begin_loop(b, "0", self.number(f"udiv i64 {up}, {tuning.INVARIANT_TILE}"))
        before = self.number(f"mul i64 {loop.index}, {tuning.INVARIANT_TILE}")
        begin = self.number(f"add i64 %ibegin, {before}")
        end = self.least(self.number(f"add i64 {begin}, {tuning.INVARIANT_TILE}"), "%iend")
        for place, k in enumerate(loads):
            size = conversion.bytes_of(self.nest.loads[k].dtype)
            base = self.number(f"ptrtoint ptr {self.word(k, 'ptr')} to i64")
            offset = self.number(f"mul i64 {begin}, {size}")
            self._set("head", place, self.number(f"add i64 {base}, {offset}"))
        for k, size in enumerate(kept):
            start = self.number(f"ptrtoint ptr %kept{k} to i64")
            self._set("head", len(loads) + k, start)
            before = self.number(f"mul i64 {begin}, {size}")
            self._set("rest", k, self.number(f"sub i64 {start}, {before}"))
        wide = self.number(f"sub i64 {end}, {begin}")
        self.call(names[0], "%head", ("0", "1", "0", wide))
        self.call(names[1], "%rest", ("%obegin", "%oend", begin, end))
        loop.end()
        return self.finish()

    def _set(self, block: str, place: int, value: str) -> None:
        """Write one word of a block."""
        address = self.b.value(f"getelementptr i8, ptr %{block}, i64 {8 * place}", "ptr", 1).text
        self.b.line(f"store i64 {value}, ptr {address}")

    def _fixed(self, head: Block, rest: Block, kept: int, others: list[int]) -> None:
        """Words that are the same for all tiles; `others`: operands of the whole nest."""
        block, rank = self.block, self.block.rank
        count = len(block.operands)
        for k in range(len(head.operands)):
            self._set("head", head.stride(k, 0), "0")
        for place in range(block.scalars):
            word = self.word(block.stride(count, 0) + place)
            self._set("head", head.stride(len(head.operands), 0) + place, word)
            self._set("rest", rest.stride(len(rest.operands), 0) + place, word)
        for loop in range(rank - 1):
            self._set("rest", rest.length(loop), self.word(block.length(loop)))
            for k in range(kept):
                self._set("rest", rest.stride(k, loop), "0")
        for place, k in enumerate(others, kept):
            self._set("rest", place, self.word(k))
            for loop in range(rank):
                self._set("rest", rest.stride(place, loop), self.word(block.stride(k, loop)))


def emit_invariant(module: Module, nest: LoopNest, name: str, parts: Parts) -> tuple[str, str]:
    """Append a nest's function in this form; the names of those to emit for its parts."""
    names = f"{name}.head", f"{name}.rest"
    module.functions.append(InvariantColumns(module, nest, name, "").emit(names, parts))
    return names
