"""What the texts of all loop nests have in common: operands, values, and how they are checked."""

from __future__ import annotations

from collections.abc import Sequence

from fuser.backends.gpu import cxx
from fuser.backends.gpu.geometry import ACCESS, vector_width
from fuser.backends.gpu.spelling import EXACT_IN_HALF, PAIRS, spell
from fuser.base.errors import Unsupported
from fuser.codegen import Instruction, LoopNest
from fuser.ir.specs import CONTIGUOUS, INVARIANT


def is_flagged(nest: LoopNest) -> bool:
    """Whether the kernel may note a value for which NumPy raises or warns."""
    return any(
        _raises(i) or (nest.checked and _warns(i))
        for i in nest.body
    )


def _raises(instruction: Instruction) -> bool:
    """Whether NumPy raises for some operands."""
    signed = instruction.operand_dtype.startswith("int")
    return instruction.row.gathers or bool(instruction.row.raises and signed)


def _warns(instruction: Instruction) -> bool:
    """Whether a checked nest looks at this operation."""
    if instruction.dtype in cxx.PARTS:
        raise Unsupported("unsupported-dtype", instruction.op, "complex, with errstate=True", "")
    division = instruction.row.divides
    return "float" in instruction.dtype or division


def has_pairs(nest: LoopNest) -> bool:
    """Whether all values are float16, and half the operations or more compute two at once."""
    values = {nest.dtype_of(k) for k in range(nest.value_count)}
    stored = {desc.dtype for _, desc in nest.stores}
    known = [step.op in PAIRS for step in nest.body]
    plain = not any(step.row.heavy or step.row.gathers for step in nest.body)
    return values | stored == {"float16"} and plain and 2 * sum(known) >= len(known) > 0


def _paired(instruction: Instruction, names: Sequence[str]) -> str:
    """One operation on two elements; what has no instruction for that computes one by one."""
    if instruction.op in PAIRS:
        return PAIRS[instruction.op].format(**dict(zip("xyz", names, strict=False)))
    parts = [
        spell(instruction.op, "float16", "float16", [f"pair_{end}({name})" for name in names])
        for end in ("low", "high")
    ]
    return f"pair_join({', '.join(parts)})"


class Section:
    """One loop nest as text; subclasses write its loops."""

    def __init__(self, nest: LoopNest, place: int, several: bool) -> None:
        """Look at the operands.

        Args:
            nest: what is written.
            place: its number in the unit.
            several: other sections run in the same launch plan: then no output is an input.
        """
        self.nest, self.place, self.several = nest, place, several
        self.operands = nest.operands
        self.width = vector_width(nest)
        self.flagged = is_flagged(nest)
        self.first = nest.value_count - len(nest.body)
        self.paired = nest.strategy == "map" and self.width > 1 and has_pairs(nest)

    # -- operands ---------------------------------------------------------------------------

    def is_strided(self, k: int) -> bool:
        """Whether the innermost stride is data."""
        return self.operands[k].access not in (CONTIGUOUS, INVARIANT)

    def is_counted(self, k: int) -> bool:
        """Whether an operand has no memory: its elements are their own places."""
        return self.operands[k].counted

    def may_be(self, k: int) -> list[int]:
        """The outputs that may be this very input: `out=` one array, read where it is written.

        The executor allows no other overlap, and this one only where the nest is a plan's only
        one; several outputs only where nothing is reduced.
        """
        stores = range(len(self.nest.loads), len(self.operands))
        reduces = self.nest.strategy != "map"
        if self.several or (reduces and len(stores) != 1) or self.is_counted(k):
            return []
        load = self.operands[k]
        size = cxx.itemsize(load.dtype)
        return [
            place
            for place in stores
            if cxx.itemsize(self.operands[place].dtype) == size
            and self.operands[place].access == load.access
        ]

    def alone(self, k: int) -> str:
        """Whether an input can be read through the read-only path."""
        return f"alone{k}" if self.may_be(k) else "true"

    def fetch(self, k: int, address: str) -> str:
        """Read one element."""
        if self.is_counted(k):
            return f"{'address_of' if self.operands[k].located else 'place_at'}({address})"
        return f"fetch<{cxx.MEMORY[self.operands[k].dtype]}>({address}, {self.alone(k)})"

    def count(self, k: int, name: str, address: str, step: str, left: str) -> str:
        """Fill a vector of an operand that has no memory."""
        function = "count_addresses" if self.operands[k].located else "count_places"
        return f"{function}({name}, {address}, {step}, {left});"

    def facts(self, steps: Sequence[str]) -> list[str]:
        """What a thread finds out once: which operands are aligned, which are an output too.

        Args:
            steps: names, after the operand's number, of the strides that must be whole vectors.
        """
        lines = []
        for k, desc in enumerate(self.operands):
            if desc.access == CONTIGUOUS and self.width > 1 and not desc.counted:
                size = min(ACCESS, cxx.itemsize(desc.dtype) * self.width)
                parts = [f"(word)a.p{k}", *(f"(word)a.s{k}_{step}" for step in steps)]
                lines.append(
                    f"const bool aligned{k} = (({' | '.join(parts)}) & {size - 1}) == 0;"
                )
        for k in range(len(self.nest.loads)):
            others = " && ".join(f"a.p{k} != a.p{place}" for place in self.may_be(k))
            if others:
                lines.append(f"const bool alone{k} = {others};")
        if self.flagged:
            lines.append("bool bad = false;")
        return lines

    def whole(self, k: int, left: str) -> str:
        """Whether a vector can be moved as words."""
        return f"aligned{k} && {left} == {self.width}" if self.width > 1 else "true"

    # -- values -----------------------------------------------------------------------------

    def leaves(self) -> list[str]:
        """Definitions of scalars and constants."""
        lines, number = [], len(self.nest.loads)
        for k, dtype in enumerate(self.nest.scalars):
            lines.append(self.defined(number, dtype, self.from_memory(f"a.c{k}", dtype)))
            number += 1
        for dtype, bits in self.nest.constants:
            value = f"half_pair({bits:#06x})" if self.paired else cxx.literal(dtype, bits)
            lines.append(self.defined(number, dtype, value))
            number += 1
        return lines

    def defined(self, number: int, dtype: str, expression: str) -> str:
        """Name a value: an element, or two in a word."""
        register = "unsigned int" if self.paired else cxx.REGISTER[dtype]
        return f"const {register} v{number} = {expression};"

    def from_memory(self, expression: str, dtype: str) -> str:
        """From the type in memory to the one in registers, of what is one for all elements."""
        return f"half_pair({expression})" if self.paired else from_memory(expression, dtype)

    def expression(self, instruction: Instruction, names: list[str]) -> str:
        """One operation on named operands."""
        if self.paired:
            return _paired(instruction, names)
        source, result = instruction.operand_dtype, instruction.dtype
        if instruction.row.converts:
            return cxx.convert(names[0], source, result)
        if instruction.row.gathers:
            return _gathered(names, result)
        expression = spell(instruction.op, source, result, names)
        if result in cxx.ROUNDED and instruction.op not in EXACT_IN_HALF:
            expression = f"{cxx.ROUNDED[result]}({expression})"
        return expression

    def checks(self, instruction: Instruction, result: str, names: list[str]) -> list[str]:
        """Note what NumPy would warn of: a result that is not finite, a zero divisor."""
        lines = []
        if _raises(instruction) and not instruction.row.gathers:
            lines.append(f"bad |= {names[1]} < 0;")
        if self.nest.checked and _warns(instruction):
            if "float" in instruction.dtype:
                finite = spell("isfinite", instruction.dtype, "bool", [result])
                lines.append(f"bad |= !({finite});")
            else:
                lines.append(f"bad |= {names[1]} == 0;")
        return lines

    def is_reduction(self, number: int) -> bool:
        """Whether a numbered value is a reduction's result."""
        return number >= self.first and self.nest.body[number - self.first].row.reduction


def _gathered(names: Sequence[str], dtype: str) -> str:
    """An element at a computed place: indices, lengths and strides, then an address."""
    *numbers, address = names
    axes = zip(numbers[::3], numbers[1::3], numbers[2::3], strict=True)
    terms = [address, *(f"bytes_to(bad, {', '.join(axis)})" for axis in axes)]
    return from_memory(f"read_at<{cxx.MEMORY[dtype]}>(bad, {' + '.join(terms)})", dtype)


def defined(number: int, dtype: str, expression: str) -> str:
    """Name a value."""
    return f"const {cxx.REGISTER[dtype]} v{number} = {expression};"


def from_memory(expression: str, dtype: str) -> str:
    """From the type in memory to the type in registers."""
    if dtype == "bool":
        return f"{expression} != 0"
    if dtype == "bfloat16":
        return f"bfloat_to_float({expression})"
    return f"half_to_float({expression})" if dtype == "float16" else expression


def to_memory(expression: str, dtype: str) -> str:
    """From the type in registers to the type in memory."""
    if dtype == "bfloat16":
        return f"bfloat_from_float({expression})"
    return f"half_from_float({expression})" if dtype == "float16" else expression
