"""Rows that several blocks share, as CUDA C++ text: see `long_rows`."""

from __future__ import annotations

import re

from fuser.backends.gpu import cxx
from fuser.backends.gpu.emit_held import Held
from fuser.backends.gpu.emit_reduction import Reduction
from fuser.backends.gpu.long_rows import LongRows
from fuser.backends.gpu.reduction_loops import limit, places, row_head, spread_facts
from fuser.codegen import LoopNest
from fuser.traffic.online_reductions import Factor, Merging

#: The operations that stand outside of a sum, of its value and a number of the row.
_SCALES = {
    "negative": "-({0})", "multiply": "({0}) * (double)v{1}", "divide": "({0}) / (double)v{1}"
}  # fmt: skip


def long_text(nest: LoopNest, place: int, several: bool, cut: LongRows) -> str:
    """The functions of both launches, and the one that chooses."""
    states = [s.text() for s in (*cut.parts.states, *cut.sums.values()) if s.parts]
    launches = [_Merge(nest, place, several, cut), _Parts(nest, place, several, cut)]
    if cut.stores:
        launches.append(_Finish(nest, place, several, cut))
    chosen = "\n".join([
        "template <class Index, class Offset, int HELD>",
        f"INLINE void long{place}(const Arguments{place}& a) {{",
        f"    if (a.phase == 0) parts{place}<Index, Offset, HELD>(a);",
        *([f"    if (a.phase == 1) finish{place}<Index, Offset>(a);"] if cut.stores else []),
        "}",
    ])  # fmt: skip
    return "\n\n".join([*states, *(launch.text() for launch in launches), chosen])


def _function(name: str, place: int, body: list[str], template: str = "", row: str = "") -> str:
    """A template; not every launch needs all that is known of a row."""
    body = [_KNOWN.sub(r"\1[[maybe_unused]] const ", line) for line in body]
    return "\n".join([
        f"template <class Index, class Offset{template}>",
        f"INLINE void {name}{place}(const Arguments{place}& a{row}) {{",
        *(f"    {line}" for line in body),
        "}",
    ])  # fmt: skip


def _top(split: bool) -> list[str]:
    return [
        "const Index length = (Index)a.length, chunks = (Index)a.chunks;",
        f"[[maybe_unused]] constexpr bool SPLIT = {str(split).lower()};",
    ]


class _Parts(Held):
    """The first launch: all reductions of each part, with references of its own; then the row's."""

    clustered = False

    def __init__(self, nest: LoopNest, place: int, several: bool, cut: LongRows) -> None:
        super().__init__(cut.merged.local, place, several)
        self.cut, self.plan = cut, cut.parts

    def text(self) -> str:
        """The function template."""
        body = [*_top(True), "constexpr bool TAIL = false;", *self._facts(),
                *self.leaves(), *self._loop()]  # fmt: skip
        return _function("parts", self.place, body, ", int HELD")

    def _final_stores(self) -> list[str]:
        """What the part leaves."""
        cut, lines = self.cut, []
        for stage, state in enumerate(self.plan.states):
            if state.parts:
                lines.append(f"*({state.name}*)(to + {cut.place_of(stage)}) = t{stage};")
        for number in cut.merged.references:
            register = cxx.REGISTER[self.nest.dtype_of(number)]
            lines.append(f"*({register}*)(to + {cut.reference_at(number)}) = v{number};")
        return [
            "if (active && lane == 0) {",
            f"    char* const to = {_parts(cut)} + (word)part * {cut.part_bytes};",
            *(f"    {line}" for line in lines),
            "}",
            "if (comes_last(a.counters + row, (unsigned int)chunks))",
            f"    merge{self.place}<Index, Offset>(a, row);",
        ]

    def _finished(self, number: int, stage: int) -> str:
        """A part's result as if all of the row were like it: what references are made of.

        Any reference is right; that of nothing but -inf must not make every element NaN.
        """
        result, dtype = super()._finished(number, stage), self.nest.dtype_of(number)
        if dtype not in ("float32", "float64"):
            return result
        register = cxx.REGISTER[dtype]
        if self.nest.body[number - self.first].row.adds:
            share = f"(double)length / (double)(limit - begin * {self.width})"
            return f"({register})((double)({result}) * ({share}))"
        return f"finite_or_zero({result})"


def _parts(cut: LongRows) -> str:
    """Where the parts of a row are."""
    before = f"(word)a.rows * {cut.final_bytes}"
    return f"(char*)a.scratch + {before} + (word)row * chunks * {cut.part_bytes}"


class _Later(Reduction):
    """What the other launches have in common: results are not made by a pass before."""

    def __init__(self, nest: LoopNest, place: int, several: bool, cut: LongRows) -> None:
        super().__init__(nest, place, several)
        self.cut = cut

    def _is_seated(self, k: int, stage: int) -> bool:
        return False

    def _keeps(self, stage: int) -> list[int]:
        return []

    def _final(self, number: int) -> str:
        """Where a row's result is."""
        register = cxx.REGISTER[self.nest.dtype_of(number)]
        return f"*({register}*)(finals + {8 * self.cut.finals.index(number)})"

    def _start(self) -> list[str]:
        """The row, and values that need no elements."""
        finals = f"char* const finals = (char*)a.scratch + (word)row * {self.cut.final_bytes};"
        return [*places(self.outer), *self._bases(), finals, *self._results(0, loads=True)]


class _Merge(_Later):
    """The first launch's end: a block merges the parts of a row."""

    def text(self) -> str:
        """The function template."""
        body = [
            *_top(False), *self._facts(), *self.leaves(),
            "const unsigned int team = blockDim.x, lane = threadIdx.x;",
            "[[maybe_unused]] const unsigned int shift = __popc(team - 1);",
            *spread_facts(self.width),
            f"const Index vectors = length / {self.width} + (length % {self.width} != 0);",
            "const Index begin = 0, end = vectors;",
            "[[maybe_unused]] const Index part = 0;",
            "const bool active = true;",
            limit(self.width),
            *self._row(),
        ]  # fmt: skip
        return _function("merge", self.place, body, row=", Index row")

    def _row(self) -> list[str]:
        """One row: merged, or taken anew."""
        self.merging = True
        lines = [*self._start(), f"const char* const parts = {_parts(self.cut)};"]
        lines += [*self._joined(), *self._results(1), "bool finite = true;"]
        later = sorted(self.cut.sums)
        inside = [line for stage in later for line in self._merged(stage)]
        kept = ["if (finite) {", *(f"    {line}" for line in self._kept_results()), "}"]
        self.merging = False
        again = [line for stage in later for line in self._anew(stage)]
        return [
            *lines,
            "{", *(f"    {line}" for line in [*inside, *kept]), "}",
            "if (!finite) {",
            *(f"    {line}" for line in [*again, *self._kept_results()]),
            "}",
        ]  # fmt: skip

    def _kept_results(self) -> list[str]:
        """For the elements' stores, and where results are stored themselves."""
        kept = [f"    {self._final(number)} = v{number};" for number in self.cut.finals]
        return ["if (lane == 0) {", *kept, "}", *self._final_stores()]

    def _joined(self) -> list[str]:
        """Reductions that need no others."""
        state, plain = self.plan.states[0], dict(self.cut.merged.plain)
        copies = []
        for part in state.parts:
            for letter in "a" + "l" * part.compensated + "i" * part.is_place:
                there = f"{letter}{plain[part.number]}"
                copies.append(f"one.{letter}{part.number} = found.{there};")
        return [
            f"{state.name} t0;",
            "t0.start();",
            "for (Index c = lane; c < chunks; c += team) {",
            f"    {self._part_state(0)}",
            f"    {state.name} one;",
            *(f"    {line}" for line in copies),
            "    t0.merge(one);",
            "}",
            *self._combined(0),
        ]

    def _part_state(self, stage: int) -> str:
        """What part `c` has left of one of its stages."""
        name = self.cut.parts.states[stage].name
        place = f"parts + (word)c * {self.cut.part_bytes} + {self.cut.place_of(stage)}"
        found = "found" if stage == 0 else f"found{stage}"
        return f"const {name} {found} = *(const {name}*)({place});"

    def _merged(self, stage: int) -> list[str]:
        """Sums of one stage from those of the parts."""
        state = self.cut.sums[stage]
        wanted = [self.cut.merged.mergings[part.number] for part in state.parts]
        loop = [f"[[maybe_unused]] {self._part_state(s)}"
                for s, of in enumerate(self.cut.parts.states) if of.parts]  # fmt: skip
        loop += [
            f"const Index most = (Index)a.chunk * {self.width}, after = length - c * most;",
            "const double count = (double)(after < most ? after : most);",
        ]
        for each in wanted:
            loop += self._addends(each, f"u{stage}")
        lines = [
            f"{state.name} u{stage};",
            f"u{stage}.start();",
            "for (Index c = lane; c < chunks; c += team) {",
            *(f"    {line}" for line in loop),
            "}",
            f"combine_row(u{stage}, team, ({state.name}*)pool);",
            *self._results(stage + 1),
        ]
        lines += [f"finite = finite && fabs((double)v{each.number}) < {_ENDLESS};"
                  for each in wanted]  # fmt: skip
        return lines

    def _addends(self, each: Merging, state: str) -> list[str]:
        """What one part adds to a sum, with rounding errors that are known."""
        moves = [self._move(factor) for factor in each.factors]
        high, low = f"{state}.a{each.number}", f"{state}.l{each.number}"

        def added(value: str, rest: str = "") -> list[str]:
            more = [f"{low} += {rest};"] if rest else []
            return [f"add_exactly({high}, {low}, {value});", *more]

        total, error = self._sum_of(each.total)
        if each.exponential:
            weight = f"exp({moves[0]})"
            return added(f"{total} * {weight}", f"{error} * {weight}")
        lines = added(total, error)
        for move, other in zip(moves, each.sums, strict=True):
            if move and other is not None:
                value, error = self._sum_of(other)
                lines += added(f"{value} * ({move})", f"{error} * ({move})")
        if moves[0] and moves[-1]:
            product = " * ".join(f"({move})" for move in moves)
            lines += added(f"count * {product}")
        return lines

    def _sum_of(self, number: int) -> tuple[str, str]:
        """A part's sum and what its additions lost."""
        stage = next(s for s, state in enumerate(self.cut.parts.states)
                     if any(part.number == number for part in state.parts))  # fmt: skip
        found = "found" if stage == 0 else f"found{stage}"
        return f"(double){found}.a{number}", f"(double){found}.l{number}"

    def _move(self, factor: Factor) -> str:
        """How far a factor moves from a part's reference to the whole row's result."""
        moved = ""
        for shift in factor.shifts:
            step = f"(double)v{shift.result}"
            if shift.reference is not None:
                register = cxx.REGISTER[self.cut.merged.local.dtype_of(shift.reference)]
                at = self.cut.reference_at(shift.reference)
                place = f"parts + (word)c * {self.cut.part_bytes} + {at}"
                step = f"({step} - (double)*(const {register}*)({place}))"
            moved += f" {'-' if shift.sign < 0 else '+'} {step}" if moved else (
                f"-{step}" if shift.sign < 0 else step)  # fmt: skip
        return moved

    def _finished(self, number: int, stage: int) -> str:
        """A result of merging, or of a pass."""
        if not self.merging or stage == 0:
            return super()._finished(number, stage)
        value = f"corrected(u{stage}.a{number}, u{stage}.l{number})"
        for op, factor in self.cut.merged.mergings[number].scales:
            value = _SCALES[op].format(value, factor)
        return f"({cxx.REGISTER[self.nest.dtype_of(number)]})({value})"

    def _anew(self, stage: int) -> list[str]:
        """One pass over the whole row by this block alone."""
        state = self.plan.states[stage]
        return [f"{state.name} t{stage};", f"t{stage}.start();", *self._visit(stage),
                *self._combined(stage), *self._results(stage + 1)]  # fmt: skip


class _Finish(_Later):
    """The last launch: elements are read again, and stored."""

    def text(self) -> str:
        """The function template."""
        body = self._start()
        for stage in range(self.plan.last):
            body += self._results(stage + 1)
        body += self._visit(self.plan.last)
        return _function("finish", self.place, [
            *_top(True), *self._facts(), *self.leaves(), *row_head(self.width),
            *(f"    {line}" for line in body), "}",
        ])  # fmt: skip

    def _finished(self, number: int, stage: int) -> str:
        """What the launch before has found."""
        return self._final(number)


_KNOWN = re.compile(r"^(\s*)const (?=[\w ]+ (?:aligned\d+|spread|alone\d+|v\d+|active) = )")
_ENDLESS = cxx.real(float("inf"), "double")

