"""Loop nests as CUDA C++ text.

A section becomes a function template over its index type, and kernels that instantiate it, see
`variants`. Threads loop over vectors of neighbours along the innermost loop
with a grid-wide stride. A kernel's only parameter is a structure of 8-byte words: the address of
the flag where there is one, operand addresses, what `geometry.plan` packs, then scalars.
"""

from __future__ import annotations

from collections.abc import Sequence

from fuser.backends.gpu import cxx
from fuser.backends.gpu.emit_held import HELD_DEFAULTS, Held
from fuser.backends.gpu.emit_long import long_text
from fuser.backends.gpu.emit_reduction import ROWS_DEFAULTS, Reduction
from fuser.backends.gpu.geometry import BLOCK, unroll
from fuser.backends.gpu.helpers import used_helpers
from fuser.backends.gpu.long_rows import long_rows
from fuser.backends.gpu.reduction_plan import ROW_BLOCK
from fuser.backends.gpu.section import Section, from_memory, to_memory
from fuser.backends.gpu.stages import Stages
from fuser.backends.gpu.variants import Variant
from fuser.codegen import Instruction, LoopNest
from fuser.ir.specs import CONTIGUOUS, INVARIANT

_PROLOGUE = """\
#define INLINE static __device__ __forceinline__
typedef unsigned long long word;"""

#: The shared memory of a launch; a host that executes the text for a test brings its own.
_POOL = """\
#ifndef FUSER_HOST
extern __shared__ uint4 pool[];
#endif"""


def emit(nests: Sequence[LoopNest], name: str) -> str:
    """Spell loop nests as one translation unit.

    Raises:
        Unsupported: an operation has no spelling.
    """
    several = len(nests) > 1
    sections = [_section(nest, place, several) for place, nest in enumerate(nests)]
    entries = [
        _entry(name, place, nest, variant)
        for place, nest in enumerate(nests)
        for variant in variants_of(nest)
    ]
    reduces = any(nest.strategy != "map" for nest in nests)
    shared = [_POOL, ROWS_DEFAULTS] if reduces else []
    if any("HELD_VECTORS" in entry for entry in entries):
        shared.append(HELD_DEFAULTS)
    parts = [f"// {name}", _PROLOGUE, *shared, *used_helpers(sections), *sections, *entries]
    return "\n\n".join(parts) + "\n"


def _section(nest: LoopNest, place: int, several: bool) -> str:
    """One nest, in all its forms."""
    if nest.strategy == "map":
        return _Map(nest, place, several).text()
    written = Reduction(nest, place, several)
    if not written.plan.most_held:
        return written.text()
    texts = [written.text(), Held(nest, place, several).text()]
    if (cut := long_rows(nest, place)) is not None:
        texts.append(long_text(nest, place, several, cut))
    return "\n\n".join(texts)


def variants_of(nest: LoopNest) -> list[Variant]:
    """The kernels of a section, by their names."""
    kinds = [Variant()]
    if nest.strategy != "map":
        kinds.append(Variant(split=True))
        if Stages(nest).most_held:
            kinds.append(Variant(held=1))
        if long_rows(nest) is not None:
            kinds.append(Variant(split=True, held=1))
    return [Variant(wide, kind.split, kind.held) for kind in kinds for wide in (False, True)]


def _entry(name: str, place: int, nest: LoopNest, variant: Variant) -> str:
    """One kernel."""
    index, offset = _TYPES[variant.wide]
    threads: int | str = BLOCK if nest.strategy == "map" else ROW_BLOCK
    called, split = "section", "" if nest.strategy == "map" else f", {str(variant.split).lower()}"
    if variant.held:
        called, split = "held", ", HELD_VECTORS, HELD_MORE"
        if nest.itemsize < 8:  # two blocks of a multiprocessor: one computes, the other waits
            threads = f"{ROW_BLOCK}, HELD_MORE ? 1 : 2"
        if variant.split:
            called, split = "long", ", HELD_VECTORS"
    return (
        f"#if {variant.condition}\n"
        f'extern "C" __global__ void __launch_bounds__({threads})\n'
        f"{variant.entry(name, place)}(const __grid_constant__ Arguments{place} a) {{\n"
        f"    {called}{place}<{index}, {offset}{split}>(a);\n"
        "}\n"
        "#endif"
    )


#: Whether indices are wide -> index type, offset type.
_TYPES = {False: ("unsigned int", "int"), True: ("unsigned long long", "long long")}


class _Map(Section):
    """Writes a nest that reduces nothing.

    Values are computed at three levels: 0 once a thread, 1 once a vector, 2 once an element.
    """

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
            f"INLINE void section{self.place}(const Arguments{self.place}& a) {{",
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
        fields.append("word work, length;")
        if nest.rank > 1:
            fields.append("Divider columns;")
        fields += [f"Divider d{d};" for d in range(1, nest.rank - 1)]
        fields += [f"long long {name};" for k in range(len(self.operands))
                   for name in self._strides(k)]  # fmt: skip
        fields += [
            f"__align__(8) {cxx.MEMORY[dtype]} c{k};" for k, dtype in enumerate(nest.scalars)
        ]
        return [f"struct Arguments{self.place} {{", *(f"    {line}" for line in fields), "};"]

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
        lines, left = self._places(), f"left{at}"
        lines.append(
            f"left{at} = length - i < {width} ? (int)(length - i) : {width};" if width > 1
            else f"left{at} = 1;"
        )  # fmt: skip
        for k in range(len(self.operands)):
            if self._is_moving(k):
                lines.append(f"o{k}{at} = {self._offset(k)};")
        for k, desc in enumerate(nest.loads):
            source, last = f"a.p{k} + o{k}{at}", f"left{at}, {self.alone(k)}"
            if desc.counted and desc.access != INVARIANT:
                step = f"(Offset)a.s{k}" if self.is_strided(k) else str(cxx.itemsize(desc.dtype))
                lines.append(self.count(k, f"x{k}{at}", source, step, f"left{at}"))
            elif desc.access == CONTIGUOUS:
                lines.append(f"load(x{k}{at}, {source}, {self.whole(k, left)}, {last});")
            elif desc.access != INVARIANT:
                lines.append(f"gather_lanes(x{k}{at}, {source}, (Offset)a.s{k}, {last});")
            elif nest.rank > 1:
                lines.append(f"x{k}{at} = {self.fetch(k, f'a.p{k} + o{k}{at}')};")
        return lines

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
        for d in range(rank - 2, 0, -1):
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

