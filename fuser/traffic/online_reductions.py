"""Reductions of rows that are longer than the cache: what parts of a row say about the whole.

A sum over a row of f(x, e), where e is an earlier result of the same row (its maximum, its mean),
needs all of the row twice. For some f it can be had from parts, each of which is read once and
summed with its own reference r in the place of e:

- exp(x - e) * c: the part's sum times exp(r - e) (Milakov and Gimelshein, "Online normalizer
  calculation for softmax", arXiv:1805.02867);
- (x - e) * (y - d), c * (x - e) and x - e: with u = x - r, v = y - s, a = r - e, b = s - d,
  sum(u * v) + a * sum(v) + b * sum(u) + n * a * b (Chan, Golub and LeVeque, "Algorithms for
  computing the sample variance", The American Statistician 37(3), 1983; as u and v need not add
  up to 0 once they are rounded, their sums are kept, and the equation is exact for any r and s).

`merging` finds them in any loop nest: nothing here knows what a softmax or a variance is.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

from fuser.base.records import changed, record
from fuser.codegen import Instruction, LoopNest
from fuser.traffic.stages import Stages

FLOATS = ("float32", "float64")


@record
class Shift:
    """How a value moves when the whole row's result takes the place of a part's reference.

    Attributes:
        sign: 1 or -1: the value moves by sign * (result - reference).
        result: the result's number in the whole row's nest.
        reference: the number of a part's own one in the part's nest; None for 0.
    """

    sign: int
    result: int
    reference: int | None


@record
class Factor:
    """An element's value that moves by the sum of its shifts.

    Attributes:
        shifts: none where it stays.
        local: its number in the part's nest; None for 0.
    """

    shifts: tuple[Shift, ...]
    local: int | None


@record
class Merging:
    """How a sum over a row is had from sums over its parts.

    Attributes:
        number: the sum, in the whole row's nest.
        total: the part's own sum, in the part's nest.
        exponential: the part's sum is multiplied by exp of its factor's shifts.
        factors: else one or two, whose product is summed.
        sums: for each factor the part's sum of the other one, where that is needed.
        scales: (op, number in the whole row's nest): what the whole is multiplied or divided by
            at last; "negative" has no number.
    """

    number: int
    total: int
    exponential: bool
    factors: tuple[Factor, ...]
    sums: tuple[int | None, ...]
    scales: tuple[tuple[str, int], ...]


@record
class Merged:
    """A nest that parts of a row can be computed by, and how they give the whole.

    Attributes:
        local: a nest of the same operands without stores; its first reductions are those that
            need no others, in the order of the whole row's nest.
        mergings: of all other reductions of the whole row's nest, by number.
        plain: pairs of the former reductions' numbers: in the whole row's nest, in the part's.
        references: numbers in the part's nest of the references that shifts name.
    """

    local: LoopNest
    mergings: dict[int, Merging]
    plain: tuple[tuple[int, int], ...]
    references: tuple[int, ...]


@record
class _Form:
    """An element's value, as a sum's operand is taken apart."""

    factors: tuple[Factor, ...]
    local: int | None
    exponential: bool = False
    scales: tuple[tuple[str, int], ...] = ()

    @property
    def affine(self) -> bool:
        """Whether it only moves."""
        return len(self.factors) == 1 and not self.exponential and not self.scales

    @property
    def still(self) -> bool:
        """Whether it does not depend on the row's results."""
        return self.affine and not self.factors[0].shifts


def merging(nest: LoopNest) -> Merged | None:
    """How a nest's rows can be computed from parts that are read once; None where they cannot.

    Args:
        nest: reduces, and stores elements only where everything is reduced.
    """
    return _Finder(nest).find()


class _Finder:
    """Takes one nest apart."""

    def __init__(self, nest: LoopNest) -> None:
        stages = Stages(nest)
        self.nest, self.first = nest, stages.first
        self.levels, self.stages = stages.levels, stages.stage_of
        self.body: list[Instruction] = []
        self.known: dict[Instruction, int] = {}
        self.copies = {k: k for k in range(self.first)}
        self.forms: dict[int, _Form | None] = {}
        self.plain: list[tuple[int, int]] = []

    def find(self) -> Merged | None:
        """The parts' nest, or None."""
        later: list[tuple[int, Instruction]] = []
        for place, instruction in enumerate(self.nest.body):
            number = self.first + place
            reduces = instruction.row.reduction
            stage = self.stages[number] - int(reduces)
            if stage == 0 or (self.levels[number] < 2 and stage == 1 and not reduces):
                operands = tuple(self.copies[k] for k in instruction.operands)
                self.copies[number] = self._add(changed(instruction, operands=operands))
                if reduces:
                    self.plain.append((number, self.copies[number]))
            elif reduces:
                later.append((number, instruction))
            elif self.levels[number] == 2:
                self.forms[number] = self._form(instruction)
        mergings = {}
        for number, instruction in later:
            found = self._merging(number, instruction)
            if found is None:
                return None
            mergings[number] = found
        shifts = [s for m in mergings.values() for f in m.factors for s in f.shifts]
        references = sorted({s.reference for s in shifts if s.reference is not None})
        local = changed(self.nest, body=tuple(self.body), stores=())
        return Merged(local, mergings, tuple(self.plain), tuple(references))

    def _add(self, instruction: Instruction) -> int:
        """The number of an instruction in the parts' nest; the same one is there once."""
        if instruction not in self.known:
            self.known[instruction] = self.first + len(self.body)
            self.body.append(instruction)
        return self.known[instruction]

    def _merging(self, number: int, instruction: Instruction) -> Merging | None:
        """How one sum is had from its parts."""
        (operand,) = instruction.operands
        form = self._operand(operand)
        if not instruction.row.adds or instruction.dtype not in FLOATS or form is None:
            return None
        if instruction.operand_dtype != instruction.dtype:
            return None
        total = self._sum(form.local, instruction)
        if total is None:
            return None
        sums: list[int | None] = [None] * len(form.factors)
        if len(form.factors) == 2 and not form.exponential:
            for k, factor in enumerate(form.factors):
                if factor.shifts:
                    sums[k] = self._sum(form.factors[1 - k].local, instruction)
                    if sums[k] is None:
                        return None
        return Merging(number, total, form.exponential, form.factors, tuple(sums), form.scales)

    def _sum(self, local: int | None, like: Instruction) -> int | None:
        """The sum of a value in the parts' nest."""
        return None if local is None else self._add(changed(like, operands=(local,)))

    def _operand(self, number: int) -> _Form | None:
        """An operand's form; a row's result is a value that only moves."""
        if self.levels[number] == 2:
            if self.stages[number] == 0:
                return _Form((Factor((), self.copies[number]),), self.copies[number])
            return self.forms[number]
        if self.stages[number] == 0:
            return _Form((Factor((), self.copies[number]),), self.copies[number])
        reference = self.copies[number] if self.stages[number] == 1 else None
        factor = Factor((Shift(1, number, reference),), reference)
        return _Form((factor,), reference)

    def _form(self, instruction: Instruction) -> _Form | None:
        """The form of an element's value that depends on results of the row."""
        if instruction.dtype not in FLOATS or instruction.operand_dtype != instruction.dtype:
            return None
        rule = _RULES.get(instruction.op)
        return None if rule is None else rule(self, instruction)

    def _scaled(self, form: _Form | None, op: str, number: int) -> _Form | None:
        """A form times or through a number of the row."""
        return None if form is None else changed(form, scales=(*form.scales, (op, number)))

    def _negated(self, instruction: Instruction) -> _Form | None:
        """A form with the other sign."""
        return self._scaled(self._operand(instruction.operands[0]), instruction.op, -1)

    def _multiplied(self, instruction: Instruction) -> _Form | None:
        """A product of two forms, or of one and a number of the row."""
        left, right = instruction.operands
        if self.levels[left] < 2:
            left, right = right, left
        if self.levels[right] < 2:
            return self._scaled(self._operand(left), instruction.op, right)
        return self._product(instruction, self._operand(left), self._operand(right))

    def _divided(self, instruction: Instruction) -> _Form | None:
        """A form through a number of the row."""
        left, right = instruction.operands
        if self.levels[right] < 2:
            return self._scaled(self._operand(left), instruction.op, right)
        return None

    def _squared(self, instruction: Instruction) -> _Form | None:
        """A form times itself."""
        form = self._operand(instruction.operands[0])
        return self._product(instruction, form, form)

    def _added(self, instruction: Instruction, sign: int = 1) -> _Form | None:
        """A sum, or with sign -1 a difference, of values that only move."""
        forms = [self._operand(k) for k in instruction.operands]
        if any(form is None or not form.affine for form in forms):
            return None
        left, right = (form.factors[0] for form in forms if form is not None)
        turned = (changed(s, sign=s.sign * sign) for s in right.shifts)
        local: int | None
        if right.local is None:
            local = left.local
        elif left.local is not None:
            local = self._add(changed(instruction, operands=(left.local, right.local)))
        elif sign == 1:
            local = right.local
        else:
            local = self._add(
                Instruction("negative", (right.local,), instruction.dtype, instruction.dtype)
            )
        return _Form((Factor((*left.shifts, *turned), local),), local)

    def _product(
        self, instruction: Instruction, one: _Form | None, other: _Form | None
    ) -> _Form | None:
        """A product of two forms of elements."""
        if one is None or other is None or one.local is None or other.local is None:
            return None
        scales = (*one.scales, *other.scales)
        operands = (one.local, other.local)[: len(instruction.operands)]
        local = self._add(changed(instruction, operands=operands))
        if one.exponential or other.exponential:
            moving, still = (one, other) if one.exponential else (other, one)
            fits = not still.exponential and not any(f.shifts for f in still.factors)
            return _Form(moving.factors, local, True, scales) if fits else None
        factors = (*one.factors, *other.factors)
        if len(factors) != 2:
            return None
        # A reference of 0 may be far off: only where what it moves is not squared.
        if all(f.shifts for f in factors) and any(
            s.reference is None for f in factors for s in f.shifts
        ):
            return None
        return _Form(factors, local, False, scales)

    def _exponential(self, instruction: Instruction) -> _Form | None:
        """exp of x - max(x): what is larger than a part's maximum is not in the part."""
        form = self._operand(instruction.operands[0])
        if form is None or not form.affine or form.local is None or form.still:
            return None
        for shift in form.factors[0].shifts:
            place = shift.result - self.first
            if shift.sign != -1 or place < 0:
                return None
            row = self.nest.body[place].row
            if not (row.is_extreme and row.greatest):
                return None
            if shift.reference is None:
                return None
        local = self._add(changed(instruction, operands=(form.local,)))
        return _Form(form.factors, local, True)


#: By operation: the form of its result, by those of its operands.
_RULES: Mapping[str, Callable[[_Finder, Instruction], _Form | None]] = {
    "add": _Finder._added,
    "subtract": partial(_Finder._added, sign=-1),
    "multiply": _Finder._multiplied,
    "divide": _Finder._divided,
    "square": _Finder._squared,
    "negative": _Finder._negated,
    "exp": _Finder._exponential,
}
