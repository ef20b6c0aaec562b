"""Loop nests as CUDA C++ text.

A section becomes a function template over its index type, and two kernels that instantiate it:
`<name>_<k>_narrow` with 32-bit and `<name>_<k>_wide` with 64-bit indices; INDEX_BITS, where
defined, leaves the other out. Threads loop over vectors of neighbours along the innermost loop
with a grid-wide stride. A kernel's only parameter is a structure of 8-byte words: the address of
the flag where there is one, operand addresses, what `geometry.plan` packs, then scalars.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from fuser.backends.gpu import cxx
from fuser.backends.gpu.geometry import ACCESS, BLOCK, unroll, vector_width
from fuser.backends.gpu.helpers import used_helpers
from fuser.backends.gpu.spelling import EXACT_IN_HALF, spell
from fuser.codegen import Instruction, LoopNest
from fuser.errors import Unsupported
from fuser.specs import CONTIGUOUS, INVARIANT, TensorDesc

_PROLOGUE = """\
#define INLINE static __device__ __forceinline__
typedef unsigned long long word;"""

#: variant -> (bits, index type, offset type)
VARIANTS = {
    "narrow": (32, "unsigned int", "int"),
    "wide": (64, "unsigned long long", "long long"),
}


def emit(nests: Sequence[LoopNest], name: str) -> str:
    """Spell loop nests as one translation unit.

    Raises:
        Unsupported: an operation has no spelling.
    """
    for nest in nests:
        if nest.strategy != "map":
            raise Unsupported("unsupported-op", "reduction", "the GPU backend has none yet", "")
    several = len(nests) > 1
    sections = [_Section(nest, place, several).text() for place, nest in enumerate(nests)]
    entries = [
        _entry(name, place, variant) for place in range(len(nests)) for variant in VARIANTS
    ]
    parts = [f"// {name}", _PROLOGUE, *used_helpers(sections), *sections, *entries]
    return "\n\n".join(parts) + "\n"


def entry_name(name: str, section: int, *, wide: bool) -> str:
    """The kernel of one section."""
    return f"{name}_{section}_{'wide' if wide else 'narrow'}"


def is_flagged(nest: LoopNest) -> bool:
    """Whether the kernel may note a value for which NumPy raises or warns."""
    return any(
        (i.op == "power" and i.operand_dtype.startswith("int")) or (nest.checked and _warns(i))
        for i in nest.body
    )


def _warns(instruction: Instruction) -> bool:
    """Whether a checked nest looks at this operation."""
    division = instruction.op in ("floor_divide", "remainder", "fmod")
    return "float" in instruction.dtype or division


def _entry(name: str, place: int, variant: str) -> str:
    """One kernel."""
    bits, index, offset = VARIANTS[variant]
    return (
        f"#if !defined(INDEX_BITS) || INDEX_BITS == {bits}\n"
        f'extern "C" __global__ void __launch_bounds__({BLOCK})\n'
        f"{name}_{place}_{variant}(const __grid_constant__ Arguments{place} a) {{\n"
        f"    section{place}<{index}, {offset}>(a);\n"
        "}\n"
        "#endif"
    )


@dataclass
class _Section:
    """Writes one loop nest.

    Values are computed at three levels: 0 once a thread, 1 once a vector, 2 once an element.
    """

    nest: LoopNest
    place: int
    several: bool
    """Other sections run in the same launch plan: then no output is an input."""
    lines: tuple[list[str], list[str], list[str]] = field(
        default_factory=lambda: ([], [], [])
    )
    levels: dict[int, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Look at the operands."""
        nest = self.nest
        self.operands: list[TensorDesc] = [*nest.loads, *(desc for _, desc in nest.stores)]
        self.width, self.unroll = vector_width(nest), unroll(nest)
        self.at = "[u]" if self.unroll > 1 else ""
        self.flagged = is_flagged(nest)

    def text(self) -> str:
        """The structure of arguments and the function template."""
        self._leaves()
        self._load_values()
        first = self.nest.value_count - len(self.nest.body)
        for k, instruction in enumerate(self.nest.body):
            self._instruction(first + k, instruction)
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
        return [*names, f"s{k}"] if self._is_strided(k) else names

    def _is_strided(self, k: int) -> bool:
        """Whether the innermost stride is data."""
        return self.operands[k].access not in (CONTIGUOUS, INVARIANT)

    def _leaves(self) -> None:
        """Scalars and constants."""
        nest = self.nest
        number = len(nest.loads)
        for k, dtype in enumerate(nest.scalars):
            self._define(0, number, dtype, _from_memory(f"a.c{k}", dtype))
            number += 1
        for dtype, bits in nest.constants:
            self._define(0, number, dtype, cxx.literal(dtype, bits))
            number += 1

    def _define(self, level: int, number: int, dtype: str, expression: str) -> None:
        """Name a value."""
        self.levels[number] = level
        self.lines[level].append(f"const {cxx.REGISTER[dtype]} v{number} = {expression};")

    # -- operands ---------------------------------------------------------------------------

    def _may_alias(self, k: int) -> bool:
        """Whether an output may be this very input: `out=` one array, read where it is written.

        The executor allows no other overlap, and this one only for a kernel's only output.
        """
        if self.several or len(self.nest.stores) != 1:
            return False
        load, store = self.operands[k], self.operands[-1]
        same_size = cxx.itemsize(load.dtype) == cxx.itemsize(store.dtype)
        return same_size and load.access == store.access

    def _alone(self, k: int) -> str:
        """Whether an input can be read through the read-only path."""
        return f"alone{k}" if self._may_alias(k) else "true"

    def _load_values(self) -> None:
        """Elements of operands as values."""
        for k, desc in enumerate(self.nest.loads):
            if desc.access != INVARIANT:
                self._define(2, k, desc.dtype, _from_memory(f"x{k}{self.at}.lane[j]", desc.dtype))
            elif self.nest.rank == 1:
                self._define(0, k, desc.dtype, _from_memory(self._fetch(k, ""), desc.dtype))
            else:
                self._define(1, k, desc.dtype, _from_memory(f"x{k}{self.at}", desc.dtype))

    def _fetch(self, k: int, offset: str) -> str:
        """Read one element."""
        memory = cxx.MEMORY[self.operands[k].dtype]
        return f"fetch<{memory}>(a.p{k}{offset}, {self._alone(k)})"

    # -- computation ------------------------------------------------------------------------

    def _instruction(self, number: int, instruction: Instruction) -> None:
        """Spell one operation at its level."""
        level = max((self.levels[k] for k in instruction.operands), default=0)
        names = [f"v{k}" for k in instruction.operands]
        source, result = instruction.operand_dtype, instruction.dtype
        if instruction.op == "cast":
            expression = cxx.convert(names[0], source, result)
        else:
            expression = spell(instruction.op, source, result, names)
            if result == "float16" and instruction.op not in EXACT_IN_HALF:
                expression = f"round_half({expression})"
        self._define(level, number, result, expression)
        if instruction.op == "power" and source.startswith("int"):
            self.lines[level].append(f"bad |= {names[1]} < 0;")
        if self.nest.checked and _warns(instruction):
            self._check(level, number, instruction)

    def _check(self, level: int, number: int, instruction: Instruction) -> None:
        """Note what NumPy would warn of: a result that is not finite, a zero divisor."""
        if "float" in instruction.dtype:
            finite = spell("isfinite", instruction.dtype, "bool", [f"v{number}"])
            self.lines[level].append(f"bad |= !({finite});")
        else:
            self.lines[level].append(f"bad |= v{instruction.operands[1]} == 0;")

    # -- the function -----------------------------------------------------------------------

    def _top(self) -> list[str]:
        """What is the same for all elements."""
        lines = ["const Index work = (Index)a.work, length = (Index)a.length;"]
        for k, desc in enumerate(self.operands):
            if desc.access == CONTIGUOUS and self.width > 1:
                lines.append(f"const bool aligned{k} = {self._aligned(k)};")
        last = len(self.operands) - 1
        for k in range(len(self.nest.loads)):
            if self._may_alias(k):
                lines.append(f"const bool alone{k} = a.p{k} != a.p{last};")
        if self.flagged:
            lines.append("bool bad = false;")
        return [*lines, *self.lines[0]]

    def _aligned(self, k: int) -> str:
        """Whether every vector of an operand is aligned: its address and its outer strides."""
        size = min(ACCESS, cxx.itemsize(self.operands[k].dtype) * self.width)
        parts = [f"(word)a.p{k}", *(f"(word)a.s{k}_{d}" for d in range(self.nest.rank - 1))]
        return f"(({' | '.join(parts)}) & {size - 1}) == 0"

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
            source, last = f"a.p{k} + o{k}{at}", f"left{at}, {self._alone(k)}"
            if desc.access == CONTIGUOUS:
                lines.append(f"load(x{k}{at}, {source}, {self._whole(k)}, {last});")
            elif desc.access != INVARIANT:
                lines.append(f"gather(x{k}{at}, {source}, (Offset)a.s{k}, {last});")
            elif nest.rank > 1:
                lines.append(f"x{k}{at} = {self._fetch(k, f' + o{k}{at}')};")
        return lines

    def _whole(self, k: int) -> str:
        """Whether a vector can be moved as words."""
        return f"aligned{k} && left{self.at} == {self.width}" if self.width > 1 else "true"

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
        lines = [*self.lines[1]]
        inside = [*self.lines[2]]
        for k, (number, desc) in enumerate(nest.stores, start=count):
            lines.append(f"Lanes<{cxx.MEMORY[desc.dtype]}, {self.width}> x{k};")
            inside.append(f"x{k}.lane[j] = {_to_memory(f'v{number}', desc.dtype)};")
        lines += [
            "#pragma unroll",
            f"for (int j = 0; j < {self.width}; ++j) {{",
            *(f"    {line}" for line in inside),
            "}",
        ]
        for k, (_, desc) in enumerate(nest.stores, start=count):
            target = f"a.p{k} + o{k}{at}" if self._is_moving(k) else f"a.p{k}"
            if desc.access == CONTIGUOUS:
                lines.append(f"store(x{k}, {target}, {self._whole(k)}, left{at});")
            else:
                step = f"(Offset)a.s{k}" if self._is_strided(k) else "(Offset)0"
                lines.append(f"scatter(x{k}, {target}, {step}, left{at});")
        return lines

    def _bottom(self) -> list[str]:
        """Leave a note for the host."""
        return ["if (bad) *a.flag = 1;"] if self.flagged else []


def _from_memory(expression: str, dtype: str) -> str:
    """From the type in memory to the type in registers."""
    if dtype == "bool":
        return f"{expression} != 0"
    return f"half_to_float({expression})" if dtype == "float16" else expression


def _to_memory(expression: str, dtype: str) -> str:
    """From the type in registers to the type in memory."""
    return f"half_from_float({expression})" if dtype == "float16" else expression
