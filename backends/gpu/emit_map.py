"""Loop nests that reduce nothing, as CUDA C++ text: threads loop over vectors of neighbours."""

from __future__ import annotations

from fuser.backends.gpu import cxx
from fuser.backends.gpu.geometry import unroll
from fuser.backends.gpu.section import Section, from_memory, to_memory
from fuser.codegen import Instruction, LoopNest
from fuser.ir.specs import CONTIGUOUS, INVARIANT


class Map(Section):
    """Writes a nest that reduces nothing.

    Values are computed at three levels: 0 once a thread, 1 once a vector, 2 once an element.
    """

    #: what text calls the structure and the template
    structure, template = "Arguments", "section"

    def __init__(self, nest: LoopNest, place: int, several: bool) -> None:
        """Nothing is written yet."""
        super().__init__(nest, place, several)
        self.unroll = unroll(nest)
        self.at = "[u]" if self.unroll > 1 else ""
        self.lines: tuple[list[str], list[str], list[str]] = ([], [], [])
        self.levels: dict[int, int] = {}

    def text(self) -> str:
        """The structure of arguments and the function template."""
        self.levels.update((k, 0) for k in range(len(self.nest.loads), self.first))
        self.lines[0].extend(self.leaves())
        self._load_values()
        for number, instruction in enumerate(self.nest.body, self.first):
            self._instruction(number, instruction)
        body = [*self._top(), *self._loop(), *self._bottom()]
        return "\n".join([
            *self._structure(),
            "",
            "template <class Index, class Offset>",
            f"INLINE void {self.template}{self.place}(const {self.structure}{self.place}& a) {{",
            *(f"    {line}" for line in body),
            "}",
        ])  # fmt: skip

    # -- arguments --------------------------------------------------------------------------

    def _structure(self) -> list[str]:
        """The kernel's parameter; the order is that of geometry.plan."""
        nest = self.nest
        count = len(nest.loads)
        fields = ["int* flag;"] if self.flagged else []
        for k in range(len(self.operands)):
            fields.append(f"const char* p{k};" if k < count else f"char* p{k};")
        fields += self._sizes()
        fields += [f"long long {name};" for k in range(len(self.operands))
                   for name in self._strides(k)]  # fmt: skip
        fields += [
            f"__align__(8) {cxx.MEMORY[dtype]} c{k};" for k, dtype in enumerate(nest.scalars)
        ]
        head = f"struct {self.structure}{self.place} {{"
        return [head, *(f"    {line}" for line in fields), "};"]

    def _sizes(self) -> list[str]:
        """Fields between addresses and strides."""
        rank = self.nest.rank
        fields = ["word work, length;", *(["Divider columns;"] if rank > 1 else [])]
        return [*fields, *(f"Divider d{d};" for d in range(1, rank - 1))]

    def _strides(self, k: int) -> list[str]:
        """Names of an operand's strides that are arguments: outer loops, then the innermost."""
        names = [f"s{k}_{d}" for d in range(self.nest.rank - 1)]
        return [*names, f"s{k}"] if self.is_strided(k) else names

    def _define(self, level: int, number: int, dtype: str, expression: str) -> None:
        """Name a value."""
        self.levels[number] = level
        self.lines[level].append(self.defined(number, dtype, expression))

    # -- operands ---------------------------------------------------------------------------

    def _load_values(self) -> None:
        """Elements of operands as values."""
        for k, desc in enumerate(self.nest.loads):
            if desc.access != INVARIANT:
                lane = f"x{k}{self.at}.lane[j]"
                pair = f"x{k}{self.at}.pair[j]"
                found = pair if self.paired else from_memory(lane, desc.dtype)
                self._define(2, k, desc.dtype, found)
            elif self.nest.rank == 1:
                found = self.from_memory(self.fetch(k, f"a.p{k}"), desc.dtype)
                self._define(0, k, desc.dtype, found)
            else:
                self._define(1, k, desc.dtype, self.from_memory(f"x{k}{self.at}", desc.dtype))

    # -- computation ------------------------------------------------------------------------

    def _instruction(self, number: int, instruction: Instruction) -> None:
        """Spell one operation at its level."""
        level = max((self.levels[k] for k in instruction.operands), default=0)
        names = [f"v{k}" for k in instruction.operands]
        self._define(level, number, instruction.dtype, self.expression(instruction, names))
        self.lines[level].extend(self.checks(instruction, f"v{number}", names))

    # -- the function -----------------------------------------------------------------------

    def _top(self) -> list[str]:
        """What is the same for all elements."""
        lines = ["const Index work = (Index)a.work, length = (Index)a.length;"]
        outer = [str(d) for d in range(self.nest.rank - 1)]
        return [*lines, *self.facts(outer), *self.lines[0]]

    def _loop(self) -> list[str]:
        """The loop over vectors: load some, then compute and store them."""
        reads, writes = self._reads(), self._writes()
        span = f"blockDim.x * {self.unroll}" if self.unroll > 1 else "blockDim.x"
        first = "first" if self.unroll > 1 else "t"
        lines = [
            f"for (Index {first} = (Index)blockIdx.x * ({span}) + threadIdx.x; {first} < work;",
            f"     {first} += (Index)gridDim.x * ({span})) {{",
            *(f"    {line}" for line in self._declared()),
        ]
        if self.unroll == 1:
            lines += [f"    {line}" for line in [*reads, *writes]]
            return [*lines, "}"]
        lines += [
            "    #pragma unroll",
            f"    for (int u = 0; u < {self.unroll}; ++u) {{",
            "        const Index t = first + u * blockDim.x;",
            "        left[u] = 0;",
            "        if (t >= work) continue;",
            *(f"        {line}" for line in reads),
            "    }",
            "    #pragma unroll",
            f"    for (int u = 0; u < {self.unroll}; ++u) {{",
            "        if (left[u] == 0) continue;",
            *(f"        {line}" for line in writes),
            "    }",
            "}",
        ]
        return lines

    def _declared(self) -> list[str]:
        """Registers that live from the loads to the stores."""
        size = f"[{self.unroll}]" if self.unroll > 1 else ""
        lines = [f"int left{size};"]
        for k, desc in enumerate(self.operands):
            memory = cxx.MEMORY[desc.dtype]
            if self._is_moving(k):
                lines.append(f"Offset o{k}{size};")
            if k >= len(self.nest.loads):
                continue
            if desc.access != INVARIANT:
                lines.append(f"Lanes<{memory}, {self.width}> x{k}{size};")
            elif self.nest.rank > 1:
                lines.append(f"{memory} x{k}{size};")
        return lines

    def _is_moving(self, k: int) -> bool:
        """Whether an operand's place depends on the element."""
        return self.operands[k].access != INVARIANT or self.nest.rank > 1

    def _reads(self) -> list[str]:
        """Where the vector lies, and its operands."""
        at, width, nest = self.at, self.width, self.nest
        lines = self._places()
        lines.append(
            f"left{at} = length - i < {width} ? (int)(length - i) : {width};" if width > 1
            else f"left{at} = 1;"
        )  # fmt: skip
        for k in range(len(self.operands)):
            if self._is_moving(k):
                lines.append(f"o{k}{at} = {self._offset(k)};")
        for k, desc in enumerate(nest.loads):
            if desc.access != INVARIANT or nest.rank > 1:
                lines.append(self._load(k))
        return lines

    def _load(self, k: int) -> str:
        """Read one operand of a vector."""
        desc, left = self.operands[k], f"left{self.at}"
        name, source = f"x{k}{self.at}", f"a.p{k} + o{k}{self.at}"
        if desc.access == INVARIANT:
            return f"{name} = {self.fetch(k, source)};"
        step = f"(Offset)a.s{k}" if self.is_strided(k) else str(cxx.itemsize(desc.dtype))
        if desc.counted:
            return self.count(k, name, source, step, left)
        last = f"{left}, {self.alone(k)}"
        if desc.access == CONTIGUOUS:
            return f"load({name}, {source}, {self.whole(k, left)}, {last});"
        return f"gather_lanes({name}, {source}, {step}, {last});"

    def _places(self) -> list[str]:
        """The vector's first element along every loop: i innermost, q0 outermost."""
        times = f" * {self.width}" if self.width > 1 else ""
        rank = self.nest.rank
        if rank == 1:
            return [f"const Index i = t{times};"]
        row = f"r{rank - 2}" if rank > 2 else "q0"
        lines = [
            f"const Index {row} = a.columns.quotient(t);",
            f"const Index i = (t - {row} * (Index)a.columns.divisor){times};",
        ]
        return [*lines, *self._outer_places(rank - 2)]

    def _outer_places(self, last: int) -> list[str]:
        """Along the outer loops, from a place along all of them, `r` with the last one's number."""
        lines = []
        for d in range(last, 0, -1):
            outer = f"r{d - 1}" if d > 1 else "q0"
            lines += [
                f"const Index {outer} = a.d{d}.quotient(r{d});",
                f"const Index q{d} = r{d} - {outer} * (Index)a.d{d}.divisor;",
            ]
        return lines

    def _offset(self, k: int) -> str:
        """Bytes from an operand's address to the vector's first element."""
        desc = self.operands[k]
        terms = [f"(Offset)q{d} * (Offset)a.s{k}_{d}" for d in range(self.nest.rank - 1)]
        if desc.access == CONTIGUOUS:
            terms.append(f"(Offset)i * {cxx.itemsize(desc.dtype)}")
        elif desc.access != INVARIANT:
            terms.append(f"(Offset)i * (Offset)a.s{k}")
        return " + ".join(terms)

    def _writes(self) -> list[str]:
        """Compute the elements of one vector and store them."""
        nest, at = self.nest, self.at
        count = len(nest.loads)
        lines, left = [*self.lines[1]], f"left{at}"
        inside = [*self.lines[2]]
        for k, (number, desc) in enumerate(nest.stores, start=count):
            lines.append(f"Lanes<{cxx.MEMORY[desc.dtype]}, {self.width}> x{k};")
            stored = f"x{k}.lane[j] = {to_memory(f'v{number}', desc.dtype)};"
            inside.append(f"x{k}.pair[j] = v{number};" if self.paired else stored)
        lines += [
            "#pragma unroll",
            f"for (int j = 0; j < {self.width // (1 + self.paired)}; ++j) {{",
            *(f"    {line}" for line in inside),
            "}",
        ]
        for k, (_, desc) in enumerate(nest.stores, start=count):
            target = f"a.p{k} + o{k}{at}" if self._is_moving(k) else f"a.p{k}"
            if desc.access == CONTIGUOUS:
                lines.append(f"store(x{k}, {target}, {self.whole(k, left)}, left{at});")
            else:
                step = f"(Offset)a.s{k}" if self.is_strided(k) else "(Offset)0"
                lines.append(f"scatter_lanes(x{k}, {target}, {step}, left{at});")
        return lines

    def _bottom(self) -> list[str]:
        """Leave a note for the host."""
        return ["if (bad) *a.flag = 1;"] if self.flagged else []
