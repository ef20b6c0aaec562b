"""What stands around the stages of a reduction: its function, arguments, addresses and parts."""

from __future__ import annotations

from fuser.backends.cpu import conversion
from fuser.backends.cpu.body import Body, Module, Value
from fuser.backends.cpu.division import Divisor
from fuser.backends.cpu.loops import begin_loop
from fuser.backends.cpu.reducing.reduction_stages import Stages, native_lanes
from fuser.codegen import LoopNest


class Frame:
    """Emits the function of one nest around what `_results_of` writes."""

    linkage = ""
    """"internal " where only this module calls it."""

    vector_bytes = 0
    """Bytes of a vector; 0: of the processor's."""
    extra_operands = 0
    """Addresses in the block after those of operands."""

    def __init__(self, module: Module, nest: LoopNest, name: str, *, split: bool) -> None:
        """Prepare an empty function."""
        self.module, self.name, self.split = module, name, split
        self.whole, self.nest = nest, nest.without_totals
        self.b = Body(module)
        self.native = native_lanes(self.nest, self.vector_bytes or module.features.vector_bytes)
        self.lanes = self.native
        self.operands = nest.operands
        self.column = nest.strategy == "column"
        self.values: dict[int, Value] = {}
        self.divisors: dict[int, Divisor] = {}
        """What divides elements of the loops that are being written."""
        self.stages = Stages(self.nest)
        self.first = self.stages.first
        self.scratch: list[str] = []
        """Lines that reserve memory on the stack, at the function's start."""
        self.tops: list[str] = []
        """Addresses of operands where the reduced loops begin."""

    def _results_of(self, place: str) -> None:
        """Compute what belongs to one turn of the loops that are counted outside."""
        raise NotImplementedError

    # -- the function -----------------------------------------------------------------------

    def emit(self) -> None:
        """Append the function to the module."""
        b = self.b
        self._header()
        self._items()
        b.line("ret i32 %status" if b.flagged else "ret i32 0")
        lines = [*self.scratch, *b.lines]
        if b.flagged:
            lines = ["  %flag = alloca i32", "  store i32 0, ptr %flag", *lines]
            lines.insert(len(lines) - 1, "  %status = load i32, ptr %flag")
        head = (
            f"define {self.linkage}i32 @{self.name}(ptr %block, i64 %obegin, i64 %oend, "
            "i64 %ibegin, i64 %iend) #0 {"
        )
        self.module.functions.append("\n".join([head, "entry:", *lines, "}"]))

    def _items(self) -> None:
        """The loop over outer iterations."""
        items = begin_loop(self.b, "%obegin", "%oend")
        self._item(items.index)
        items.end()

    def number(self, text: str) -> str:
        """Append one instruction on 64-bit integers."""
        return self.b.value(text, "i64", 1).text

    def _word(self, place: int | str, scalar: str) -> Value:
        """Load one word of the argument block."""
        b = self.b
        offset = str(8 * place) if isinstance(place, int) else self.number(f"shl i64 {place}, 3")
        address = b.value(f"getelementptr i8, ptr %block, i64 {offset}", "ptr", 1)
        return b.value(f"load {scalar}, ptr {address.text}", scalar, 1)

    def _header(self) -> None:
        """Addresses, lengths, strides, scalars and constants."""
        nest, count, rank = self.nest, len(self.operands), self.nest.rank
        self.pointers = [self._word(k, "ptr").text for k in range(count)]
        count += self.extra_operands
        self.lengths = [self._word(count + d, "i64").text for d in range(rank)]
        first = count + rank
        self.strides = [
            [self._word(first + k * rank + d, "i64").text for d in range(rank)]
            for k in range(len(self.operands))
        ]
        place, skipped = self._more_words(first + len(self.operands) * rank)
        number = len(nest.loads)
        for dtype in nest.scalars:
            at: int | str = place
            if skipped:
                at = self.number(f"add i64 {skipped}, {place}")
            raw = self._word(at, conversion.MEMORY[dtype])
            self.values[number] = conversion.from_memory(self.b, raw, dtype)
            number, place = number + 1, place + 1
        for dtype, bits in nest.constants:
            self.values[number] = conversion.constant(dtype, bits)
            number += 1

    def _more_words(self, place: int) -> tuple[int, str]:
        """Words after the strides: where they end, and how many more lie before the scalars."""
        if not self.split:
            return place, ""
        self.parts, self.part_length, skipped = (
            self._word(place + k, "i64").text for k in range(3)
        )
        self.counters = place + 3
        return self.counters, skipped

    def _item(self, item: str) -> None:
        """One outer iteration: a row, an outer iteration of columns, or a part of such."""
        self._go_to(item)
        self._results_of(self.place)

    def _go_to(self, item: str) -> None:
        """Addresses of operands in one outer iteration."""
        nest = self.nest
        kept = nest.rank - nest.reduced - int(self.column)  # loops that `item` counts
        self.begin, self.counts = "0", self.lengths[nest.rank - nest.reduced :]
        if self.split:
            item = self._part_of(item, kept)
        self.place = item
        places: list[str] = []
        for d in range(kept - 1, 0, -1):
            places.insert(0, self.number(f"urem i64 {item}, {self.lengths[d]}"))
            item = self.number(f"udiv i64 {item}, {self.lengths[d]}")
        if kept:
            places.insert(0, item)
        self.rows = []
        for k in range(len(self.operands)):
            offset = "0"
            for d, place in enumerate(places):
                step = self.number(f"mul i64 {place}, {self.strides[k][d]}")
                offset = self.number(f"add i64 {offset}, {step}")
            if self.split:
                along = self.strides[k][nest.rank - nest.reduced]
                step = self.number(f"mul i64 {self.begin}, {along}")
                offset = self.number(f"add i64 {offset}, {step}")
            self.rows.append(self.moved(self.pointers[k], offset))

    def moved(self, address: str, offset: str) -> str:
        """An address some bytes further on."""
        text = f"getelementptr i8, ptr {address}, i64 {offset}"
        return self.b.value(text, "ptr", 1).text

    def _less(self, one: str, other: str) -> str:
        """The smaller number."""
        less = self.b.value(f"icmp ult i64 {one}, {other}", "i1", 1).text
        return self.number(f"select i1 {less}, i64 {one}, i64 {other}")

    def _elements_of(self, part: str) -> str:
        """How many elements of the innermost loop a part has."""
        begin = self.number(f"mul i64 {part}, {self.part_length}")
        return self._elements_from(begin, self.lengths[-1])

    def _elements_from(self, begin: str, length: str) -> str:
        """How many of so many elements a part has that begins there."""
        return self._less(self.number(f"sub i64 {length}, {begin}"), self.part_length)

    def _part_of(self, item: str, kept: int) -> str:
        """Which stage and part an item is; returns the row that it belongs to."""
        rows = "1"
        for d in range(kept):
            rows = self.number(f"mul i64 {rows}, {self.lengths[d]}")
        job = self.number(f"udiv i64 {item}, {rows}")
        self.now = self.number(f"udiv i64 {job}, {self.parts}")
        self.part = self.number(f"urem i64 {job}, {self.parts}")
        self.rows_in_all = rows
        self.begin = self.number(f"mul i64 {self.part}, {self.part_length}")
        self.counts = [self._elements_from(self.begin, self.counts[0]), *self.counts[1:]]
        return self.number(f"urem i64 {item}, {rows}")
