"""Loop nests that reduce, as CUDA C++ text.

Row: the reduced loop is innermost in memory. A team of threads (part of a warp, or the block)
passes over a row once for every stage; vectors of neighbours are read as in other nests. Column:
elements beside each other belong to different results. A block is a table of threads: neighbours
in it take neighbouring vectors of columns, and share the way down the reduced axis with those
`across` further on.

Operands that several stages need are kept in shared memory, as far as it reaches; the rest is
read again. Each thread keeps what it itself needs, so this wants no barrier.

The template's parameter SPLIT gives a second kernel, in which several blocks share a row: every
pass over the elements is a launch of its own (`a.phase`), which leaves one state a block in
`a.scratch`; later launches merge those in a fixed order. After the last pass, the block that comes
last merges them (`a.counters`). Results are the same in every run.
"""

from __future__ import annotations

from fuser.backends.gpu import cxx
from fuser.backends.gpu.reduction_loops import column_head, places, row_head
from fuser.backends.gpu.section import Section, defined, from_memory, to_memory
from fuser.backends.gpu.stages import Stages
from fuser.codegen import LoopNest
from fuser.ir.specs import CONTIGUOUS, INVARIANT

#: What compilations say of rows; where nothing is said, they may be of any kind.
ROWS_DEFAULTS = """\
#ifdef ODD_ROWS
enum { ODD = ODD_ROWS };
#else
enum { ODD = 1 };
#endif"""


class Reduction(Section):
    """Writes a nest that reduces."""

    #: whether vectors in registers are written about, which may lie beyond the row
    holding = False

    def __init__(self, nest: LoopNest, place: int, several: bool) -> None:
        """Put values into stages."""
        super().__init__(nest, place, several)
        self.plan = Stages(nest, place)
        self.width = self.plan.width
        self.column = self.plan.column
        self.outer = nest.rank - nest.reduced - self.column
        """Loops that neither the reduced ones nor the columns are."""

    def text(self) -> str:
        """States, the structure of arguments and the function template."""
        body = [
            "const Index length = (Index)a.length, chunks = SPLIT ? (Index)a.chunks : 1;",
            *self._facts(),
            *self.leaves(),
            *self._loop(),
        ]
        if self.flagged:
            body.append("if (bad) *a.flag = 1;")
        states = [state.text() for state in self.plan.states if state.parts]
        return "\n".join([
            *states,
            "",
            *self._structure(),
            "",
            "template <class Index, class Offset, bool SPLIT>",
            f"INLINE void section{self.place}(const Arguments{self.place}& a) {{",
            *(f"    {line}" for line in body),
            "}",
        ])  # fmt: skip

    @property
    def _spreads(self) -> bool:
        """Whether threads may share out a row's lines in two ways, see `_facts`."""
        return not self.column and self.nest.reduced == 1

    def _facts(self) -> list[str]:
        """What a thread finds out once.

        Rows that begin between vectors (ODD) are spread: a thread's elements are as many as in a
        vector, each beside those of its neighbours, so that every access moves whole lines of
        memory.
        """
        lines = self.facts(self._steps())
        aligned = [f"aligned{k}" for k in range(len(self.operands)) if self._in_words(k)]
        if self._spreads and aligned:
            return [*lines, f"const bool spread = ODD && !({' && '.join(aligned)});"]
        return [*lines, "[[maybe_unused]] constexpr bool spread = false;"]

    def _in_words(self, k: int) -> bool:
        """Whether vectors of an operand are moved as words, where they are aligned."""
        desc = self.operands[k]
        return desc.access == CONTIGUOUS and self.width > 1 and not desc.counted

    def whole(self, k: int, left: str) -> str:
        """Whether a vector can be moved as words."""
        found = super().whole(k, left)
        return f"!spread && {found}" if self._spreads and self.width > 1 else found

    def _steps(self) -> list[str]:
        """Loops along which a vector's address must stay aligned: all but that of neighbours."""
        along = self.outer if self.column else self.nest.rank - 1
        return [str(d) for d in range(self.nest.rank) if d != along]

    def _structure(self) -> list[str]:
        """The kernel's parameter; the order is that of reduction_plan.plan."""
        nest, count = self.nest, len(self.nest.loads)
        fields = ["int* flag;"] if self.flagged else []
        fields += ["char* scratch;", "unsigned int* counters;", "word phase;"]
        for k in range(len(self.operands)):
            fields.append(f"const char* p{k};" if k < count else f"char* p{k};")
        fields.append("word rows, columns, length, team, chunks, chunk, kept;")
        fields += ["word around;"] if nest.reduced > 1 and not self.column else []
        fields += [f"Divider d{d};" for d in range(1, self.outer)]
        fields += [f"Divider e{d};" for d in range(1, nest.reduced)]
        fields += [f"long long s{k}_{d};" for k in range(len(self.operands))
                   for d in range(nest.rank)]  # fmt: skip
        fields += [
            f"__align__(8) {cxx.MEMORY[dtype]} c{k};" for k, dtype in enumerate(nest.scalars)
        ]
        return [f"struct Arguments{self.place} {{", *(f"    {line}" for line in fields), "};"]

    # -- work and threads -------------------------------------------------------------------

    def _loop(self) -> list[str]:
        """The loop over rows, or over tables of columns."""
        head = column_head(self.width) if self.column else self._row_head()
        body = [*places(self.outer), *self._bases(), *self._results(0, loads=True)]
        for stage in range(self.plan.last + 1):
            if self.plan.is_pass(stage):
                body += self._stage(stage)
            body += self._results(stage + 1)
        body += self._final_stores()
        return [*head, *(f"    {line}" for line in body), "}"]

    def _row_head(self) -> list[str]:
        """Open the loop over rows."""
        return row_head(self.width, around=self.nest.reduced > 1)

    def _bases(self) -> list[str]:
        """Where the row, or the vector of columns, begins in each operand."""
        lines = []
        for k in range(len(self.operands)):
            terms = [f"(Offset)q{d} * (Offset)a.s{k}_{d}" for d in range(self.outer)]
            if self.column:
                terms.append(f"(Offset)column * (Offset)a.s{k}_{self.outer}")
            const = "const " if k < len(self.nest.loads) else ""
            place = f" + ({' + '.join(terms)})" if terms else ""
            lines.append(f"{const}char* const b{k} = a.p{k}{place};")
        return lines

    # -- values of a result's shape ---------------------------------------------------------

    def name(self, number: int) -> str:
        """How a value is called where it is used."""
        lanes = self.column and self.plan.levels[number] == 1
        return f"v{number}[j]" if lanes else f"v{number}"

    def _results(self, stage: int, *, loads: bool = False) -> list[str]:
        """Values of a result's shape that a stage makes computable."""
        inside: list[tuple[int, str, list[str]]] = []
        lines: list[str] = []
        if loads:
            for k in range(len(self.nest.loads)):
                if self.plan.levels[k] == 1:
                    declared, expression = self._steady_load(k)
                    lines += declared
                    inside.append((k, from_memory(expression, self.operands[k].dtype), []))
        for number, instruction in enumerate(self.nest.body, self.first):
            wanted = self.plan.levels[number] < 2 and self.plan.stage_of[number] == stage
            if not wanted or (stage == 0 and not loads):
                continue
            names = [self.name(k) for k in instruction.operands]
            if self.is_reduction(number):
                expression = self._finished(number, stage - 1)
                names = ["", ""]
            else:
                expression = self.expression(instruction, names)
            checks = self.checks(instruction, self.name(number), names)
            inside.append((number, expression, checks))
        if not self.column:
            for number, expression, checks in inside:
                lines += [defined(number, self.nest.dtype_of(number), expression), *checks]
            return lines
        return [*lines, *self._in_lanes(inside)]

    def _finished(self, number: int, stage: int) -> str:
        """A reduction's result."""
        part = next(p for p in self.plan.states[stage].parts if p.number == number)
        return part.finish(f"t{stage}[j]" if self.column else f"t{stage}")

    def _in_lanes(self, inside: list[tuple[int, str, list[str]]]) -> list[str]:
        """Values of a vector of columns; those of level 0 are one for all."""
        lines, loop = [], []
        for number, expression, checks in inside:
            dtype = self.nest.dtype_of(number)
            if self.plan.levels[number] == 0:
                lines += [defined(number, dtype, expression), *checks]
                continue
            lines.append(f"{cxx.REGISTER[dtype]} v{number}[{self.width}];")
            loop += [f"v{number}[j] = {expression};", *checks]
        if not loop:
            return lines
        head = ["#pragma unroll", f"for (int j = 0; j < {self.width}; ++j) {{"]
        return [*lines, *head, *(f"    {line}" for line in loop), "}"]

    def _steady_load(self, k: int) -> tuple[list[str], str]:
        """An operand that is the same along the reduced axis: statements, and its element."""
        if not self.column or self.operands[k].access == INVARIANT:
            return [], self.fetch(k, f"b{k}")
        return [self._lanes(f"y{k}", k), self._load(k, f"y{k}", f"b{k}", "left")], f"y{k}.lane[j]"

    # -- passes over elements ---------------------------------------------------------------

    def _stage(self, stage: int) -> list[str]:
        """One pass: visit the elements, then bring the threads' states together."""
        state = self.plan.states[stage]
        visited = self._visit(stage)
        if not state.parts:
            last = f"if (!SPLIT || a.phase == {self.plan.last}) {{"
            return [last, *(f"    {line}" for line in visited), "}"]
        lanes = f"[{self.width}]" if self.column else ""
        lines = [f"{state.name} t{stage}{lanes};", *self._for_lanes([f"t{stage}[j].start();"]
                 if self.column else [f"t{stage}.start();"])]  # fmt: skip
        inside = [*visited, *self._combined(stage)]
        gathered = [*self._gather(stage), *self._combined(stage)]
        finishes = ["continue;"]
        later = ["else {", *(f"    {line}" for line in gathered), "}"]
        if stage == self.plan.last:
            unit = "unit" if self.column else "row"
            begin = self._for_lanes([f"t{stage}{'[j]' * self.column}.start();"])
            finishes = [f"if (!comes_last(a.counters + {unit}, (unsigned int)chunks)) continue;",
                        *begin, *gathered]  # fmt: skip
            later = []
        return [
            *lines,
            f"if (!SPLIT || a.phase == {stage}) {{",
            *(f"    {line}" for line in inside),
            "    if (SPLIT) {",
            *(f"        {line}" for line in [*self._leave(stage), *finishes]),
            "    }",
            "}",
            *later,
        ]

    def _for_lanes(self, statements: list[str]) -> list[str]:
        """Statements for every column of a vector, or for the row."""
        if not self.column:
            return statements
        head = ["#pragma unroll", f"for (int j = 0; j < {self.width}; ++j) {{"]
        return [*head, *(f"    {line}" for line in statements), "}"]

    def _combined(self, stage: int) -> list[str]:
        """Bring together what threads have found."""
        room = f"({self.plan.states[stage].name}*)pool"
        if self.column:
            return self._for_lanes([f"combine_column(t{stage}[j], across, {room});"])
        return [f"combine_row(t{stage}, team, {room});"]

    def _partials(self, stage: int) -> str:
        """Where the states of a stage are left."""
        before = sum(state.size for state in self.plan.states[:stage])
        count = "a.rows * a.columns" if self.column else "a.rows"
        name = self.plan.states[stage].name
        skip = f" + {count} * a.chunks * {before}" if before else ""
        return f"({name}*)(a.scratch{skip})"

    def _leave(self, stage: int) -> list[str]:
        """Write the block's states."""
        target = self._partials(stage)
        if self.column:
            place = "((word)row * a.columns + column + j) * a.chunks + part"
            stored = self._for_lanes([f"if (j < left) ({target})[{place}] = t{stage}[j];"])
            return ["if (active && mine == 0) {", *(f"    {line}" for line in stored), "}"]
        return [f"if (lane == 0) ({target})[(word)row * a.chunks + part] = t{stage};"]

    def _gather(self, stage: int) -> list[str]:
        """Read the states that blocks have left; threads share them out in a fixed way."""
        source, name = self._partials(stage), self.plan.states[stage].name
        if self.column:
            place = "((word)row * a.columns + column + (j < left ? j : left - 1)) * a.chunks"
            inside = [
                f"const {name}* from = {source} + {place};",
                f"for (Index c = mine; c < chunks; c += down) t{stage}[j].merge(from[c]);",
            ]
            return self._for_lanes(inside)
        return [
            f"const {name}* from = {source} + (word)row * a.chunks;",
            f"for (Index c = lane; c < chunks; c += team) t{stage}.merge(from[c]);",
        ]

    def _visit(self, stage: int) -> list[str]:
        """Load some vectors, then compute with them."""
        times = self.plan.unroll(stage)
        loads = self.plan.loads_of(stage)
        share, start = ("down", "mine") if self.column else ("team", "lane")
        span = f"{share} * {times}" if times > 1 else share
        some = "some[u]" if self.column else "left[u] != 0"
        lines = [
            f"for (Index first = {self._begin()}; first < end; first += {span}) {{",
            f"    bool some[{times}];" if self.column else f"    int left[{times}];",
        ]
        lines += [f"    {self._lanes(f'x{k}[{times}]', k)}" for k in loads]
        unrolled = ["    #pragma unroll", f"    for (int u = 0; u < {times}; ++u) {{"]
        at = f"first + {start} + u * {share}" if times > 1 else f"first + {start}"
        lines += [
            *unrolled,
            f"        const Index at = {at};",
            *(f"        {line}" for line in self._within()),
            f"        {'some[u] = at < end' if self.column else self._counted_left()};",
            f"        if (!({some})) continue;",
            *(f"        {line}" for line in self._reads(stage, loads)),
            "    }",
            *unrolled,
            f"        if (!({some})) continue;",
            f"        const Index at = {at};",
            *(f"        {line}" for line in self._within()),
            *(f"        {line}" for line in self._computes(stage)),
            "    }",
            "}",
        ]
        return lines

    def _within(self) -> list[str]:
        """Where a vector lies: along several reduced loops, z0 outermost; or its first element."""
        if self.nest.reduced > 1:
            return places(self.nest.reduced, "at", "e", "z")
        first = f"[[maybe_unused]] const Index e = at * {self.width} - shifted;"
        return [first] if self._spreads else []

    def _along(self) -> str:
        """The vector's number along the innermost reduced loop."""
        return f"z{self.nest.reduced - 1}" if self.nest.reduced > 1 else "at"

    def _counted_left(self) -> str:
        """How many elements of a vector there are."""
        whole = f"at < end ? {self.width} : 0"
        if self._spreads:
            return f"left[u] = ODD ? lanes_left(e, limit, lane_shift, {self.width}) : {whole}"
        first = f"{self._along()} * {self.width}"
        odd = f"at < end ? lanes_left({first}, length, 0, {self.width}) : 0"
        return f"left[u] = ODD ? {odd} : {whole}"

    def _left(self) -> str:
        return "left" if self.column else "left[u]"

    def _lanes(self, name: str, k: int) -> str:
        """The declaration of a vector of an operand."""
        return f"Lanes<{cxx.MEMORY[self.operands[k].dtype]}, {self.width}> {name};"

    def _reads(self, stage: int, loads: list[int]) -> list[str]:
        """Vectors of elements, from memory or from where they were kept."""
        lines = []
        for k in loads:
            load = self._load(k, f"x{k}[u]", self._address(k), self._left())
            if not self._is_seated(k, stage):  # kept once all loads are under way: `_computes`
                lines.append(load)
            else:
                lines += [f"if ({self._fits()}) x{k}[u] = *{self._slot(k)};", f"else {load}"]
        return lines

    def _begin(self) -> str:
        """The first vector that a pass looks at."""
        return "begin"

    def _is_seated(self, k: int, stage: int) -> bool:
        """Whether a stage before may have put an operand's vectors into shared memory."""
        return self.plan.kept().get(k, stage) != stage

    def _fits(self) -> str:
        """Whether a vector is one of those that shared memory has room for."""
        return "!SPLIT && at < (Index)a.kept"

    def _seat(self) -> str:
        """Its number there, of those of its row."""
        return "at"

    def _keeps(self, stage: int) -> list[int]:
        """Operands that a stage puts there."""
        return [k for k, first in self.plan.kept().items() if first == stage]

    def _slot(self, k: int) -> str:
        """Where a vector is kept in shared memory; `at` of this row or column."""
        memory = cxx.MEMORY[self.operands[k].dtype]
        room = self.plan.state_bytes * (1 if self.column else 32)
        if self.column:
            units, place = "a.kept * across", "at * across + lane"
            room_text = f"{room} * blockDim.x"
        else:
            units, place = "a.kept * teams", f"mine * a.kept + {self._seat()}"
            room_text = str(room)
        before = self.plan.kept_before(k)
        skip = f" + {units} * {before}" if before else ""
        base = f"(char*)pool + {room_text}{skip}"
        return f"((Lanes<{memory}, {self.width}>*)({base}) + ({place}))"

    def _address(self, k: int) -> str:
        """Where a vector begins."""
        desc, last = self.operands[k], self.nest.rank - 1
        before = "".join(f" + (Offset)z{d} * (Offset)a.s{k}_{last + 1 - self.nest.reduced + d}"
                         for d in range(self.nest.reduced - 1))  # fmt: skip
        at = self._along()
        if self.column:
            return f"b{k}{before} + (Offset){at} * (Offset)a.s{k}_{last}"
        if desc.access == CONTIGUOUS:
            step = f"{cxx.itemsize(desc.dtype)}"
        else:
            step = f"(Offset)a.s{k}_{last}"
        first = "e" if self._spreads else f"({at} * {self.width})"
        return f"b{k}{before} + (Offset){first} * {step}"

    def _step(self, k: int) -> str:
        """The stride between the elements of a vector."""
        along = self.outer if self.column else self.nest.rank - 1
        return f"(Offset)a.s{k}_{along}{' * apart' * self._spreads}"

    def _load(self, k: int, name: str, address: str, left: str) -> str:
        """Fill a vector."""
        if self.is_counted(k):
            along = self.operands[k].access == CONTIGUOUS
            size = f"{cxx.itemsize(self.operands[k].dtype)}{' * apart' * self._spreads}"
            step = size if along else self._step(k)
            return self.count(k, name, address, step, left)
        last = f"{left}, {self.alone(k)}"
        if self.operands[k].access == CONTIGUOUS:
            apart = ", apart" * self._spreads
            return f"load({name}, {address}, {self.whole(k, left)}, {last}{apart});"
        return f"gather_lanes({name}, {address}, {self._step(k)}, {last});"

    def _store(self, k: int, name: str, address: str, left: str) -> str:
        """Write a vector."""
        if self.operands[k].access == CONTIGUOUS:
            apart = ", apart" * self._spreads
            return f"store({name}, {address}, {self.whole(k, left)}, {left}{apart});"
        return f"scatter_lanes({name}, {address}, {self._step(k)}, {left});"

    def _computes(self, stage: int) -> list[str]:
        """Values of the elements of one vector, what they add to the states, and stores."""
        left, count = self._left(), len(self.nest.loads)
        state = self.plan.states[stage]
        before = [f"if ({self._fits()}) *{self._slot(k)} = x{k}[u];" for k in self._keeps(stage)]
        inside: list[str] = []
        after: list[str] = []
        for number in self.plan.needed(stage):
            if number < count:
                value = from_memory(f"x{number}[u].lane[j]", self.operands[number].dtype)
                inside.append(defined(number, self.operands[number].dtype, value))
                continue
            instruction = self.nest.body[number - self.first]
            names = [self.name(k) for k in instruction.operands]
            expression = self.expression(instruction, names)
            inside.append(defined(number, instruction.dtype, expression))
            inside += self.checks(instruction, f"v{number}", names)
        for part in state.parts:
            value = self.name(part.operand)
            if part.compensated and self.column:
                inside.append(f"add_exactly(t{stage}[j].a{part.number}, "
                              f"t{stage}[j].l{part.number}, {value});")  # fmt: skip
            elif part.compensated:
                terms = f"terms{part.number}"
                before.append(f"{part.register} {terms}[{self.width}];")
                inside.append(f"{terms}[j] = j < {left} ? {value} : 0;")
                after.append(f"add_exactly(t{stage}.a{part.number}, t{stage}.l{part.number}, "
                             f"sum_of({terms}));")  # fmt: skip
            elif self.column:
                inside.append(part.feed(f"t{stage}[j]", value, "at"))
            else:
                fed = part.feed(f"t{stage}", value, "(long long)e + j * (long long)apart")
                partial = self.width > 1 or self.holding
                inside.append(f"if (j < {left}) {fed}" if partial else fed)
        for place in self.plan.stores_of(stage):
            number, desc = self.nest.stores[place]
            k = count + place
            before.append(self._lanes(f"x{k}", k))
            inside.append(f"x{k}.lane[j] = {to_memory(self.name(number), desc.dtype)};")
            after.append(f"if (active) {self._store(k, f'x{k}', self._address(k), left)}")
        loop = ["#pragma unroll", f"for (int j = 0; j < {self.width}; ++j) {{"]
        return [*before, *loop, *(f"    {line}" for line in inside), "}", *after]

    # -- results ----------------------------------------------------------------------------

    def _final_stores(self) -> list[str]:
        """Write what is one for a row or a column."""
        lines: list[str] = []
        for place, (number, desc) in enumerate(self.nest.stores):
            if self.plan.store_level(place) != 1:
                continue
            k = len(self.nest.loads) + place
            value = to_memory(self.name(number), desc.dtype)
            if not self.column:
                lines.append(f"*({cxx.MEMORY[desc.dtype]}*)b{k} = {value};")
                continue
            lines.append(self._lanes(f"x{k}", k))
            lines += self._for_lanes([f"x{k}.lane[j] = {value};"])
            lines.append(self._store(k, f"x{k}", f"b{k}", "left"))
        if not lines:
            return []
        who = "mine == 0" if self.column else "lane == 0"
        once = f"if (active && {who}{self._alone(bool(self.plan.states[self.plan.last].parts))}) {{"
        return [once, *(f"    {line}" for line in lines), "}"]

    def _alone(self, finished: bool) -> str:
        """Which block writes what is one for a row: the one that came last, if it finishes it."""
        return "" if finished else " && (!SPLIT || part == 0)"
