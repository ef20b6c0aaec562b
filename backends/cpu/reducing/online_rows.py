"""Rows longer than the cache: each part is read once for all reductions, once more for stores.

Three functions for one nest; `fuser.traffic.online_reductions` says why they give the right
results:
local: all sums over one part of a row, with the part's own references, from the cache.
merge: whoever finishes a row's last part gets the row's results from those of the parts, in
their order; where a result is not finite, it computes the row again as short ones are.
the nest's own: hands out items. Those of a row's stores come after its parts and those of the
next row, so that nobody waits long for them.
"""

from __future__ import annotations

from fuser.backends.cpu import conversion
from fuser.backends.cpu.body import Module, Value
from fuser.backends.cpu.reducing.online_parts import (
    LocalPart,
    MergeRow,
    OnlineRowPart,
    reductions_of,
)
from fuser.backends.cpu.reducing.reduction import AWAIT
from fuser.backends.cpu.reducing.reduction_stages import stages_of
from fuser.backends.cpu.wrappers import CACHE_LINE
from fuser.codegen import LoopNest
from fuser.traffic.online_reductions import Merged, merging


def find(nest: LoopNest) -> Merged | None:
    """How a nest's rows are merged from parts; None where another way does as well or must.

    Elements are stored when all is reduced, so that a row is read twice in all.
    """
    if nest.strategy != "row" or nest.reduced != 1 or nest.checked:
        return None
    stages = stages_of(nest)
    stored = [s for s in stages.loops if stages.stores_of(s)]
    if stored and (stored != [stages.last] or not stages.ends_with_stores):
        return None
    if not stages.kept and len(stages.loops) - len(stored) < 2:
        return None
    found = merging(nest)
    if found is None or any(a.places for a in reductions_of(nest)):
        return None
    return found


class OnlineRow(OnlineRowPart):
    """The nest's own function; item: a part of a row, to be summed or to be stored."""

    linkage = ""

    def __init__(self, module: Module, nest: LoopNest, name: str) -> None:
        """Prepare all three functions."""
        super().__init__(module, nest, name, nest)
        self.parts_function, self.merge_function = f"{name}.local", f"{name}.merge"
        LocalPart(module, nest, self.parts_function, self.merged).emit()
        MergeRow(module, nest, self.merge_function).emit()

    def _part_of(self, item: str, kept: int) -> str:
        return self._cut(self.row, self.now)

    def _item(self, item: str) -> None:
        b = self.b
        turn = self.number(f"udiv i64 {item}, {self.parts}")
        self.now = self.number(f"urem i64 {item}, {self.parts}")
        if not self.stages.ends_with_stores:
            self.place = turn
            self._sum_up(turn)
            return
        rows = self._row_count()
        final = self.number(f"sub i64 {self.number(f'shl i64 {rows}, 1')}, 1")
        last = b.value(f"icmp eq i64 {turn}, {final}", "i1", 1)
        even = b.value(f"trunc i64 {self.number(f'xor i64 {turn}, 1')} to i1", "i1", 1)
        begun = b.value(f"icmp ne i64 {turn}, 0", "i1", 1)
        stores = b.op("or", last, b.op("and", even, begun))
        sums, writes, done = b.label("sums"), b.label("writes"), b.label("item.done")
        b.branch(stores.text, writes, sums, sums)
        self.place = self.number(f"lshr i64 {self.number(f'add i64 {turn}, 1')}, 1")
        self._sum_up(self.place)
        b.jump(done, writes)
        before = self.number(f"sub i64 {self.number(f'lshr i64 {turn}, 1')}, 1")
        end = self.number(f"sub i64 {rows}, 1")
        self.row = self.number(f"select i1 {last.text}, i64 {end}, i64 {before}")
        super()._item(item)
        b.jump(done)

    def _call(self, function: str, item: str) -> None:
        """Run one of the other functions for one item."""
        b = self.b
        after = self.number(f"add i64 {item}, 1")
        text = f"call i32 @{function}(ptr %block, i64 {item}, i64 {after}, i64 0, i64 1)"
        b.value(text, "i32", 1)

    def _sum_up(self, row: str) -> None:
        """Sum a part up; after the row's last one, merge them."""
        b = self.b
        item = self.number(f"add i64 {self.number(f'mul i64 {row}, {self.parts}')}, {self.now}")
        self._call(self.parts_function, item)
        before = self.number(f"atomicrmw add ptr {self._counter(0)}, i64 1 acq_rel")
        ready = self.number(f"add i64 {before}, 1")
        all_done = b.value(f"icmp eq i64 {ready}, {self.parts}", "i1", 1).text
        merge, join = b.label("merge"), b.label("summed")
        b.branch(all_done, merge, join)
        self._call(self.merge_function, row)
        b.line(f"store atomic i64 1, ptr {self._counter(1)} release, align 8")
        b.jump(join)

    def _all_stages(self) -> None:
        b, saved = self.b, dict(self.values)
        self.module.helpers["await"] = AWAIT
        self.module.declare("sched_yield", "i32", ())
        b.line(f"call void @await(ptr {self._counter(1)}, i64 1)")
        self._load_edges()
        for number in self.room.finals:
            register = conversion.REGISTER[self.nest.dtype_of(number)]
            self.values[number] = self._get(register, self._final(number))
        for stage in range(1, self.stages.last + 1):
            self._results(stage)
        self._store_elements()
        self.values = saved

    def _store_elements(self) -> None:
        """The last stage; where that is wanted and whole vectors are aligned, past the caches."""
        b, wrong = self.b, "0"
        for place in self.stages.stores_of(self.stages.last):
            address = self.tops[len(self.nest.loads) + place]
            wrong = self.number(f"or i64 {wrong}, {self.number(f'ptrtoint ptr {address} to i64')}")
        wrong = self.number(f"and i64 {wrong}, {CACHE_LINE - 1}")
        aligned = b.value(f"icmp eq i64 {wrong}, 0", "i1", 1)
        wanted = b.compare("icmp ne", self._word(self.counters, "i64"), Value("0", "i64", 1))
        past, plain, done = b.label("past"), b.label("plain"), b.label("stored")
        b.line(f"br i1 {b.op('and', aligned, wanted).text}, label %{past}, label %{plain}")
        b.start(past)
        self.past = True
        self._stage(self.stages.last, [])
        self.past = False
        b.line("fence seq_cst")  # streaming stores are not ordered by themselves
        b.jump(done, plain)
        self._stage(self.stages.last, [])
        b.jump(done)
