"""The running values of reductions as C++ structures: started, fed, merged, finished.

A structure holds all reductions that one pass over the elements computes. Floating-point sums
keep what each addition lost (Knuth's TwoSum; Ogita, Rump and Oishi, "Accurate sum and dot
product", SIAM J. Sci. Comput. 26(6), 2005), so that their error does not grow with the number of
elements, nor with how threads share them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from fuser.backends.gpu import cxx
from fuser.backends.gpu.spelling import spell
from fuser.ir.ops import TABLE, Op, identity

#: row -> the elementwise row that combines two partial results


@dataclass(frozen=True, slots=True)
class Accumulator:
    """One reduction.

    Attributes:
        number: of the value that it computes.
        op: a reduction row.
        dtype: NumPy dtype name of what is combined.
        operand: number of the value that is combined.
    """

    number: int
    op: str
    dtype: str
    operand: int

    @property
    def row(self) -> Op:
        """The row of the op table."""
        return TABLE[self.op]

    @property
    def compensated(self) -> bool:
        """Whether it keeps what additions lose."""
        return self.row.adds and "float" in self.dtype

    @property
    def is_place(self) -> bool:
        """Whether it looks for the place of an extreme."""
        return self.row.places

    @property
    def ordered(self) -> bool:
        """Whether merging depends on which came first: by the sign of zeros."""
        return self.row.is_extreme and "float" in self.dtype

    @property
    def register(self) -> str:
        """The C++ type of what is combined."""
        return cxx.REGISTER[self.dtype]

    def fields(self) -> list[tuple[int, str]]:
        """(size in bytes, declaration) of each field."""
        size = 4 if self.dtype in cxx.ROUNDED else cxx.itemsize(self.dtype)
        fields = [(size, f"{self.register} a{self.number};")]
        if self.compensated:
            fields.append((size, f"{self.register} l{self.number};"))
        if self.is_place:
            fields.append((8, f"long long i{self.number};"))
        return fields

    def identity(self) -> str:
        """What changes nothing."""
        value = identity(self.row, self.dtype)
        if "float" in self.dtype:
            return cxx.real(float(value), self.register)
        size = 8 * cxx.itemsize(self.dtype)
        return cxx.literal(self.dtype, int(value) & ((1 << size) - 1))

    def start(self) -> list[str]:
        """Statements that begin it."""
        lines = [f"a{self.number} = {self.identity()};"]
        if self.compensated:
            lines.append(f"l{self.number} = 0;")
        if self.is_place:
            lines.append(f"i{self.number} = -1;")
        return lines

    def merge(self) -> list[str]:
        """Statements that take in the partial result `o` of later elements."""
        a, i = f"a{self.number}", f"i{self.number}"
        if self.compensated:
            low = f"l{self.number}"
            return [f"{low} += o.{low};", f"add_exactly({a}, {low}, o.{a});"]
        if self.is_place:
            return [f"take_better({a}, {i}, o.{a}, o.{i}, {self._greatest()});"]
        return [f"{a} = {self._combined(a, f'o.{a}')};"]

    def feed(self, state: str, value: str, place: str) -> str:
        """A statement that takes in one element; sums take whole vectors, see `feed_terms`."""
        a = f"{state}.a{self.number}"
        if self.is_place:
            index = f"{state}.i{self.number}"
            return f"take_better({a}, {index}, {value}, (long long)({place}), {self._greatest()});"
        return f"{a} = {self._combined(a, value)};"

    def finish(self, state: str) -> str:
        """The result as an expression."""
        if self.is_place:
            return f"{state}.i{self.number}"
        a = f"{state}.a{self.number}"
        if self.compensated:
            a = f"corrected({a}, {state}.l{self.number})"
        rounded = self.dtype in cxx.ROUNDED and self.row.accumulates
        return f"{cxx.ROUNDED[self.dtype]}({a})" if rounded else a

    def _greatest(self) -> str:
        return "true" if self.row.greatest else "false"

    def _combined(self, x: str, y: str) -> str:
        return spell(self.row.combine, self.dtype, self.dtype, [x, y])


@dataclass(frozen=True, slots=True)
class State:
    """The reductions of one pass as a structure."""

    name: str
    parts: Sequence[Accumulator]

    def _fields(self) -> list[tuple[int, str]]:
        """The largest first, so that nothing lies between them."""
        fields = [field for part in self.parts for field in part.fields()]
        return sorted(fields, key=lambda field: -field[0])

    @property
    def alignment(self) -> int:
        """In bytes: what one memory access moves."""
        needed = sum(size for size, _ in self._fields())
        return 4 if needed <= 4 else 8 if needed <= 8 else 16

    @property
    def size(self) -> int:
        """In bytes."""
        needed = sum(size for size, _ in self._fields())
        return -(-needed // self.alignment) * self.alignment

    def text(self) -> str:
        """The definition."""
        start = [line for part in self.parts for line in part.start()]
        merge = [line for part in self.parts for line in part.merge()]
        return "\n".join([
            f"struct __align__({self.alignment}) {self.name} {{",
            f"    enum {{ ORDERED = {int(any(part.ordered for part in self.parts))} }};",
            *(f"    {field}" for _, field in self._fields()),
            "    __device__ __forceinline__ void start() {",
            *(f"        {line}" for line in start),
            "    }",
            f"    __device__ __forceinline__ void merge(const {self.name}& o) {{",
            *(f"        {line}" for line in merge),
            "    }",
            "};",
        ])  # fmt: skip
