"""Reductions down columns, a block of rows at a time: memory is read from one end to the other.

A tile is some columns beside each other. For each stage its rows are taken block by block, and in
a block one vector of columns after another; running values wait in memory that stays in the first
cache. Results of a stage are written down there too, for the stages after it.

Prefetchers follow a few streams of memory, and lose their way in rows shorter than a page where
these are visited in turn. So where tiles are as wide as the rows, and work is not cut into
narrower chunks, a block's rows lie far apart: each is where one long stream has got to. Stages that
also store go row by row: as many streams of writes would be too many.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial

from fuser.backends.cpu import conversion, tuning
from fuser.backends.cpu.body import Module, Value
from fuser.backends.cpu.division import is_served, is_shared, prepare
from fuser.backends.cpu.loops import begin_loop
from fuser.backends.cpu.reducing import accumulators
from fuser.backends.cpu.reducing.accumulators import Accumulator
from fuser.backends.cpu.reducing.column_reduction import PADDING, ColumnReduction
from fuser.backends.cpu.reducing.reduction import deal, element_bytes
from fuser.backends.cpu.reducing.reduction_stages import stages_of
from fuser.backends.cpu.vector_memory import get_register, lane_mask, put_register
from fuser.codegen import LoopNest

#: Marks a value's result, and the reciprocal of it, among the parts of its running value.
RESULT, RECIPROCAL = -1, -2


def kept_bytes(nest: LoopNest) -> int:
    """Bytes that are written down for one column."""
    return sum(element_bytes(scalar) for scalar in _slots(nest).values())


def can_be_tiled(nest: LoopNest) -> bool:
    """Whether a nest's columns can be computed by tiles."""
    once = nest.strategy == "column" and nest.reduced == 1
    return once and kept_bytes(nest) <= tuning.TILED_COLUMN_BYTES


def tile_of(nest: LoopNest, kept: int) -> int:
    """Columns of a tile; one that is read again is to be found in a cache.

    Args:
        nest: read once, but for those with stages that store.
        kept: bytes that are kept for one column.
    """
    stages = stages_of(nest)
    if stages.stores_elements:
        return tuning.COLUMN_TILE
    fitting = 1 << (tuning.TILED_BYTES // max(kept, 1)).bit_length() - 1
    return max(tuning.COLUMN_TILE, min(tuning.TILED_COLUMNS, fitting))


def _slots(nest: LoopNest) -> dict[tuple[int, int], str]:
    """What is written down: (value, which part of it) -> its scalar type."""
    stages = stages_of(nest)
    found: dict[tuple[int, int], str] = {}
    for stage in stages.loops:
        for accumulator in stages.reductions_of(stage):
            kinds = [accumulator.register, accumulator.index][: _part_count(accumulator)]
            for part, scalar in enumerate(kinds):
                found[accumulator.number, part] = scalar
    for place in range(len(nest.body)):
        number = stages.first + place
        if stages.levels[number] == 1:
            found[number, RESULT] = conversion.REGISTER[nest.dtype_of(number)]
    return found


class TiledColumns(ColumnReduction):
    """Emits one nest by tiles of columns."""

    def __init__(self, module: Module, nest: LoopNest, name: str, *, split: bool) -> None:
        """Reserve memory for what is written down."""
        super().__init__(module, nest, name, split=split)
        self.postponed, self.left = -1, []
        self.slots: dict[tuple[int, int], tuple[int, str]] = {}
        self.tile_columns = self._columns_of_tile()
        kept, size = _slots(nest), 0
        for stage in self.stages.loops:
            kept |= {(number, RECIPROCAL): "double" for number in self._dividing(stage)}
        for key, scalar in kept.items():
            self.slots[key] = size, scalar
            size += element_bytes(scalar) * (self.tile_columns + PADDING)
        self.scratch = [f"  %left = alloca [{max(size, 1)} x i8], align 64"]

    def _columns_of_tile(self) -> int:
        """Columns of a tile."""
        once = len(self.stages.loops) == 1
        return tile_of(self.nest, kept_bytes(self.nest)) if once else tuning.COLUMN_TILE

    def _dividing(self, stage: int) -> list[int]:
        """What divides a stage's elements and is one number a column."""
        if not is_served(self.module.features):
            return []
        made = (self.nest.body[number - self.first] for number in self.stages.computed(stage))
        shared = {i.operands[1] for i in made if is_shared(i, self.stages.levels)}
        return [number for number in sorted(shared) if (number, RESULT) in _slots(self.nest)]

    alone = False
    """Whether what is being written meets all columns in one vector."""

    # -- stages -----------------------------------------------------------------------------

    def _results_of(self, place: str) -> None:
        """All columns of one outer iteration, tile by tile."""
        loop, self.tile, self.tile_end = self._tile_loop()
        if self.split:
            self._part_of_tile()
        else:
            self._whole_tile()
        loop.end()

    def _whole_tile(self) -> None:
        """All stages of one tile."""
        stages = self.stages
        self._visit(partial(self._begin, 0))
        for stage in stages.loops:
            self._blocks(stage)
            if stages.reductions_of(stage):
                self._visit(partial(self._done, stage))
        if not stages.reductions_of(stages.last):
            self._visit(self._store_all)

    def _begin(self, stage: int) -> None:
        """What one vector of columns needs before its first rows are taken."""
        self._results(stage)
        self._write_down(stage)

    def _done(self, stage: int) -> None:
        """What follows from a stage for one vector of columns."""
        running = self.stages.reductions_of(stage)
        self._read_running(running)
        for accumulator in running:
            self._finish(accumulator, accumulator.parts)
        self._begin(stage + 1)
        if stage == self.stages.last:
            self._store_all()

    def _store_all(self) -> None:
        """Store the results of one vector of columns."""
        self._store_each_result()

    def _part_of_tile(self) -> None:
        """One stage of one part; the last stage's first part also stores results."""
        b, stages = self.b, self.stages
        zeroth = b.value(f"icmp eq i64 {self.part}, 0", "i1", 1).text
        for at, stage in enumerate(stages.loops):
            mine = b.value(f"icmp eq i64 {self.now}, {at}", "i1", 1).text
            with self._where(mine):
                self._visit(partial(self._join_before, stage))
                self._blocks(stage)
                if stages.reductions_of(stage):
                    self._visit(partial(self._keep_running, stage))
        last = b.value(f"icmp eq i64 {self.now}, {stages.final}", "i1", 1).text
        with self._where(b.value(f"and i1 {last}, {zeroth}", "i1", 1).text):
            self._visit(self._join_and_store)

    def _join_before(self, stage: int) -> None:
        """What a stage of one vector of columns needs of all parts of those before."""
        self._results(0)
        for before in self.stages.loops:
            if before < stage:
                self._join(before, self.stages.reductions_of(before))
                self._results(before + 1)
        self._write_down(stage)

    def _join_and_store(self) -> None:
        """Join all parts of all stages, and store the results."""
        self._results(0)
        for stage in self.stages.loops:
            if running := self.stages.reductions_of(stage):
                self._join(stage, running)
                self._results(stage + 1)
        self._store_all()

    def _keep_running(self, stage: int) -> None:
        """Hand a part's results of one vector of columns to the other parts."""
        running = self.stages.reductions_of(stage)
        self._read_running(running)
        self._keep(stage, running)

    # -- loops ------------------------------------------------------------------------------

    @contextmanager
    def _where(self, condition: str) -> Iterator[None]:
        """What is written inside is run where a condition holds."""
        b = self.b
        then, after = b.label("then"), b.label("after")
        b.branch(condition, then, after)
        yield
        b.jump(after)

    def _at_columns(self, column: str, mask: Value | None, amount: str) -> None:
        """Go to one vector of columns."""
        self.current, self.mask, self.amount = column, mask, amount
        self.tops = self._at(self.rows, column)

    def _visit(self, write: Callable[[], None]) -> None:
        """Do something once for each native vector of columns of the tile."""

        def visit(column: str, mask: Value | None, amount: str) -> None:
            self._at_columns(column, mask, amount)
            saved = dict(self.values)
            write()
            self.values = saved

        widths, self.widths = self.widths, [self.native]
        self._walk(self.tile, self.tile_end, visit)
        self.widths = widths

    def _blocks(self, stage: int) -> None:
        """All rows of a stage, block by block; the last block has what is left over."""
        b, count = self.b, self.counts[0]
        few = self._are_few()
        many = b.value(f"xor i1 {few}, true", "i1", 1).text
        size, whole, apart, step = self._pattern(stage, few)
        done = self.number(f"mul i64 {whole}, {size}")
        rest = self.number(f"sub i64 {count}, {done}")
        more = b.value(f"icmp ne i64 {rest}, 0", "i1", 1)
        blocks = self.number(f"add i64 {whole}, {b.cast('zext', more, 'i64').text}")
        loop = begin_loop(b, "0", blocks)
        full = b.value(f"icmp ult i64 {loop.index}, {whole}", "i1", 1).text
        first = self.number(f"mul i64 {loop.index}, {step}")
        first = self.number(f"select i1 {full}, i64 {first}, i64 {done}")
        apart = self.number(f"select i1 {full}, i64 {apart}, i64 1")
        rows = self.number(f"select i1 {full}, i64 {size}, i64 {rest}")

        def visit(
            dividing: Sequence[int], column: str, mask: Value | None, amount: str
        ) -> None:
            self._at_columns(column, mask, amount)
            self._block(stage, first, apart, rows, dividing)

        dividing = self._dividing(stage)
        if dividing:
            with self._where(few):
                widths, self.widths = self.widths, [2 * self.native, self.native]
                self._walk(self.tile, self.tile_end, partial(visit, dividing))
                self.widths = widths
        several = many if dividing else "true"
        if any(accumulator.places for accumulator in self.stages.reductions_of(stage)):
            alone, columns = self._is_alone(), self.number(f"sub i64 {self.tile_end}, {self.tile}")
            with self._where(alone):
                self.lanes, self.alone = self.native, True
                visit((), self.tile, lane_mask(b, columns, self.native), columns)
                self.alone = False
            other = b.value(f"xor i1 {alone}, true", "i1", 1).text
            several = b.value(f"and i1 {several}, {other}", "i1", 1).text
        with self._where(several):
            self._walk(self.tile, self.tile_end, partial(visit, ()))
        loop.end()

    def _is_alone(self) -> str:
        """Whether all columns are one vector: each row waits for the one before."""
        text = f"icmp ule i64 {self.lengths[self.beside]}, {self.native}"
        return self.b.value(text, "i1", 1).text

    def _are_few(self) -> str:
        """Whether the elements of all rows are few."""
        text = f"icmp ult i64 {self._elements()}, {tuning.STORED_FEW_ELEMENTS}"
        return self.b.value(text, "i1", 1).text

    def _elements(self) -> str:
        """The elements of all rows."""
        elements = "1"
        for length in self.lengths:
            elements = self.number(f"mul i64 {elements}, {length}")
        return elements

    def _pattern(self, stage: int, few: str) -> tuple[str, str, str, str]:
        """Rows of a block, such blocks, from row to row of one, and from block to block.

        Sums depend on these, so they do not depend on how many columns this call is given: threads
        get chunks of them, one thread alone gets all.
        """
        b, count = self.b, self.counts[0]
        elements = self._elements()
        tiled = b.value(f"icmp uge i64 {elements}, {tuning.TILED_ELEMENTS}", "i1", 1).text
        text = f"select i1 {tiled}, i64 {self._tile_width()}, i64 {tuning.COLUMN_TILE}"
        width = self.number(text)
        narrow = b.value(f"icmp ule i64 {self.lengths[self.beside]}, {width}", "i1", 1).text
        if self.stages.stores_of(stage):
            size = self.number(f"select i1 {few}, i64 {tuning.STORED_ROWS}, i64 1")
            size = self.number(f"select i1 {narrow}, i64 {size}, i64 {tuning.BLOCK_ROWS}")
            return size, self.number(f"udiv i64 {count}, {size}"), "1", size
        whole = self.number(f"udiv i64 {count}, {tuning.BLOCK_ROWS}")
        if any(accumulator.places for accumulator in self.stages.reductions_of(stage)):
            # Of equals the first one is wanted: rows are taken in order, by blocks of any size.
            rows = f"i64 {tuning.ALONE_ROWS}, i64 {tuning.BLOCK_ROWS}"
            size = self.number(f"select i1 {self._is_alone()}, {rows}")
            return size, self.number(f"udiv i64 {count}, {size}"), "1", size
        # An odd number apart, so that rows of a power of two share no sets of a cache.
        some = b.value(f"icmp ne i64 {whole}, 0", "i1", 1).text
        less = self.number(f"and i64 {self.number(f'xor i64 {whole}, 1')}, 1")
        less = self.number(f"select i1 {some}, i64 {less}, i64 0")
        odd = self.number(f"sub i64 {whole}, {less}")
        whole = self.number(f"select i1 {narrow}, i64 {odd}, i64 {whole}")
        apart = self.number(f"select i1 {narrow}, i64 {whole}, i64 1")
        onward = self.number(f"select i1 {narrow}, i64 1, i64 {tuning.BLOCK_ROWS}")
        return str(tuning.BLOCK_ROWS), whole, apart, onward

    def _block(
        self, stage: int, first: str, apart: str, rows: str, dividing: Sequence[int] = ()
    ) -> None:
        """Some rows, each so many after the one before, in one vector of columns.

        They are added to each other, and then to the running sum: its rounding errors are fewer.
        Quotients by `dividing` are products with its reciprocals.
        """
        b, running, saved = self.b, self.stages.reductions_of(stage), dict(self.values)
        for accumulator in running:
            accumulator.parts = accumulators.start(b, accumulator, self.lanes)
            if accumulator.places:
                accumulator.parts = self._waiting(accumulator)
                if self.alone:  # several vectors need not wait, and want more masks
                    accumulators.watch(b, accumulator)
        for number in self.stages.edge(stage):
            self.values[number] = self._operand(number)
        self.divisors = {
            number: prepare(
                b, self.values[number], self.lanes, self._read((number, RECIPROCAL))
            )
            for number in dividing
        }
        loop = begin_loop(b, "0", rows)
        for accumulator in running:
            accumulator.parts = [loop.carry(part) for part in accumulator.parts]
        row = self.number(f"add i64 {first}, {self.number(f'mul i64 {loop.index}, {apart}')}")
        along = self.nest.rank - self.nest.reduced
        places = [
            self.moved(top, self.number(f"mul i64 {row}, {self.strides[k][along]}"))
            for k, top in enumerate(self.tops)
        ]
        operands = self._vector(stage, running, lambda k: places[k], self._step, self.mask)
        for accumulator, value in zip(running, operands, strict=True):
            index = self._index(accumulator, row)
            squared, mask = self._squared(accumulator) is not None, self._taken()
            accumulators.take(b, accumulator, value, mask, index, squared=squared)
        loop.end([part for accumulator in running for part in accumulator.parts])
        deal(loop.results, running)
        self.divisors = {}
        for accumulator in running:
            accumulators.unwatch(b, accumulator)
            if not accumulator.places:
                (value,), accumulator.parts = accumulator.parts, self._waiting(accumulator)
                accumulators.take(b, accumulator, value, None, None)
            for part, value in enumerate(accumulator.parts):
                self._write((accumulator.number, part), value)
        self.values = saved

    def _taken(self) -> Value | None:
        """The lanes that running values take in: what lies in others is never looked at."""
        return None

    def _waiting(self, accumulator: Accumulator) -> list[Value]:
        """What was written down of a running value."""
        parts = range(_part_count(accumulator))
        return [self._read((accumulator.number, part)) for part in parts]

    # -- what is written down ---------------------------------------------------------------

    def _operand(self, number: int, lanes: int = 0) -> Value:
        """As the base class; what is not at hand is loaded, read back or computed again."""
        if number in self.values:
            return super()._operand(number, lanes)
        if number < len(self.nest.loads):
            self.values[number] = self._edge(number)
        elif (number, RESULT) in self.slots:
            self.values[number] = self._read((number, RESULT))
        else:  # of scalars alone
            self._instruction(number, self.nest.body[number - self.first], 0)
        found = super()._operand(number, lanes)
        del self.values[number]  # another block may not see it
        return found

    def _write_down(self, stage: int) -> None:
        """Write down all results at hand, and what the running values of a stage start from."""
        for key in self.slots:
            if key[1] == RESULT and key[0] in self.values:
                self._write(key, self._operand(key[0]))
            elif key[1] == RECIPROCAL and key[0] in self.values:
                value = self._operand(key[0])
                self._write(key, self.b.op("fdiv", self.b.fconst(value, 1.0), value))
        for accumulator in self.stages.reductions_of(stage):
            for part, value in enumerate(accumulators.start(self.b, accumulator, self.lanes)):
                self._write((accumulator.number, part), value)

    def _read_running(self, running: list[Accumulator]) -> None:
        """Read running values back; places count from the column's start."""
        b = self.b
        for accumulator in running:
            value = self._read((accumulator.number, 0))
            accumulator.parts = [value]
            if accumulator.places:
                index = self._read((accumulator.number, 1))
                if index.scalar != "i64":
                    index = b.cast("zext", index, "i64")
                begin = b.splat(Value(self.begin, "i64", 1), self.lanes)
                accumulator.parts.append(b.op("add", index, begin))

    def _address(self, key: tuple[int, int]) -> tuple[str, str]:
        """Where something of the current columns is written down, and as what."""
        offset, scalar = self.slots[key]
        beside = self.number(f"sub i64 {self.current}, {self.tile}")
        place = self.number(f"mul i64 {beside}, {element_bytes(scalar)}")
        return self.moved("%left", self.number(f"add i64 {place}, {offset}")), scalar

    def _write(self, key: tuple[int, int], value: Value) -> None:
        """Write one vector down."""
        address, _ = self._address(key)
        put_register(self.b, value, address)

    def _read(self, key: tuple[int, int]) -> Value:
        """Read one vector back."""
        address, scalar = self._address(key)
        return get_register(self.b, scalar, self.lanes, address)


def _part_count(accumulator: Accumulator) -> int:
    """Vectors of one running value in a column."""
    return 2 if accumulator.places else 1
