"""What is known of integers at one place of a loop's code: linear inequalities, and what follows.

A `Sum` is a sum of terms with factors. A term is a length, a number that was given, or what an
expression gave when it was computed; it never changes, variables come to hold other sums. A fact is
a sum that is not negative. Whether another one is follows from facts by elimination: as many times
a fact as cancels its newest term is taken away from it, until a number is left.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import gcd
from typing import NamedTuple, TypeAlias

from fuser.element_loops.code import Expression
from fuser.element_loops.kinds import LEAST, MOST

#: Of a sum: how many terms it has, and how large a factor is, at most.
_TERMS, _FACTOR = 8, 2**40
#: Goals of one proof, facts that one after another are used in it, and facts at one place, at most.
_STEPS, _DEPTH, _FACTS = 64, 8, 160
#: Steps of most proofs that may lead to newer terms.
_WAYS_UP = 2


class Sum(NamedTuple):
    """`rest + factor * term + …`: terms by number, the oldest first.

    Proofs make many thousands: a tuple is made, compared and hashed in a fourth of the time.
    """

    factors: tuple[tuple[int, int], ...]
    rest: int

    def plus(self, other: Sum, sign: int = 1) -> Sum:
        """The sum of two, the other one so many times."""
        if not other.factors:
            return Sum(self.factors, self.rest + sign * other.rest)
        found = dict(self.factors)
        for term, factor in other.factors:
            found[term] = found.get(term, 0) + sign * factor
        left = tuple(sorted((t, f) for t, f in found.items() if f))
        return Sum(left, self.rest + sign * other.rest)

    def times(self, factor: int) -> Sum:
        """A multiple."""
        if not factor:
            return ZERO
        return Sum(tuple((t, factor * f) for t, f in self.factors), factor * self.rest)

    def more(self, number: int) -> Sum:
        """The sum of this and a number."""
        return Sum(self.factors, self.rest + number)

    @property
    def is_short(self) -> bool:
        """Whether it has few terms, and small factors."""
        return len(self.factors) <= _TERMS and all(abs(f) <= _FACTOR for _, f in self.factors)


ZERO = Sum((), 0)
Facts: TypeAlias = tuple[Sum, ...]
#: Goals, whether all was tried, whether they follow, and what the proof that failed has left.
Proved: TypeAlias = dict[tuple[Sum, bool], tuple[bool, Sum | None]]


class State:
    """What is known at one place.

    Attributes:
        values: the sums that variables hold.
        facts: sums that are not negative.
        truths: of variables that are true or false, facts of either case; None where it is none.
        proved: what has been asked of these facts, see `Terms.follows`; None before it is.
        chosen: what one of two is, of which facts do not tell which, with what its variables hold.
    """

    __slots__ = ("_by_term", "chosen", "facts", "proved", "truths", "values")

    def __init__(
        self, values: dict[str, Sum], facts: Facts,
        truths: dict[str, tuple[Facts | None, Facts | None]],
    ) -> None:  # fmt: skip
        """Begin with what is known."""
        self.values, self.facts, self.truths = values, facts, truths
        self._by_term: dict[int, list[tuple[Sum, int]]] | None = None
        self.proved: Proved | None = None
        self.chosen: dict[tuple[Expression, tuple[Sum | None, ...]], Sum] = {}

    def copy(self) -> State:
        """The same, on its own."""
        made = State(dict(self.values), self.facts, dict(self.truths))
        made._by_term, made.proved, made.chosen = self._by_term, self.proved, dict(self.chosen)
        return made

    def learn(self, facts: Iterable[Sum]) -> None:
        """Add facts."""
        new = tuple(f for f in facts if f.factors and f.is_short and f not in self.facts)
        if new and len(self.facts) + len(new) <= _FACTS:
            self.facts += new
            self._by_term = self.proved = None

    def about(self, term: int) -> Sequence[tuple[Sum, int]]:
        """The facts in which a term stands, the newest first, each with its factor."""
        if self._by_term is None:
            self._by_term = {}
            for fact in reversed(self.facts):
                for each, factor in fact.factors:
                    self._by_term.setdefault(each, []).append((fact, factor))
        return self._by_term.get(term, ())


class Terms:
    """The terms of one loop's code, and proofs about them.

    Attributes:
        codes: of terms that are known before all loops, what gives them.
        left: what the last proof that failed has left, of terms that are known before all loops.
    """

    def __init__(self) -> None:
        """Begin with none."""
        self.codes: dict[int, Expression] = {}
        self.left: Sum | None = None
        self._largest = self._ways_up = 0
        self._limits: list[tuple[int, int]] = []
        self._proved: dict[Facts, Proved] = {}

    def new(self, low: int = LEAST, high: int = MOST, code: Expression | None = None) -> Sum:
        """A new term, which lies between two numbers."""
        number = len(self._limits)
        self._limits.append((low, high))
        if code is not None:
            self.codes[number] = code
        return Sum(((number, 1),), 0)

    def follows(self, goal: Sum, state: State, at_length: bool = False) -> bool:
        """Whether a sum is known not to be negative; of the same facts it is proved once.

        Args:
            goal: the sum.
            state: the facts.
            at_length: facts that lead to newer terms are tried at each step, and not at the first
                ones alone: most of them lead nowhere, and few proofs need them.
        """
        if state.proved is None:
            state.proved = self._proved.setdefault(state.facts, {})
        asked = goal, at_length
        if asked not in state.proved:
            self.left, self._ways_up = None, _DEPTH if at_length else _WAYS_UP
            found = self._follows(goal, state, 0, set())
            state.proved[asked] = found, self.left
        found, self.left = state.proved[asked]
        return found

    def _follows(self, goal: Sum, state: State, depth: int, seen: set[Sum]) -> bool:
        """As `follows`, after some facts have been taken away; `seen`: what was asked before."""
        if not goal.factors:
            return goal.rest >= 0
        if len(seen) > _STEPS or goal in seen:
            return False
        largest, known = 0, True
        for term, factor in goal.factors:
            largest = max(largest, factor, -factor)
            known = known and term in self.codes
        if largest > _FACTOR or len(goal.factors) > _TERMS:
            return False
        seen.add(goal)
        if known and (self.left is None or largest < self._largest):
            self.left, self._largest = goal, largest  # the one with the smallest factors
        for fact, own in state.about(term) if depth < _DEPTH else ():
            newest = fact.factors[-1][0]
            if (own > 0) == (factor > 0) and (depth < self._ways_up or newest <= term):
                if self._follows(_without(goal, factor, fact, own), state, depth + 1, seen):
                    return True
        low, high = self._limits[term]
        end = low if factor > 0 else high
        if end in (LEAST, MOST):
            return False
        return self._follows(Sum(goal.factors[:-1], goal.rest + factor * end), state, depth, seen)

    def fits(self, one: Sum, state: State) -> bool:
        """Whether a sum has 64 bits."""
        low = high = one.rest
        for term, factor in one.factors:
            ends = self._limits[term]
            low += min(factor * ends[0], factor * ends[1])
            high += max(factor * ends[0], factor * ends[1])
        return (low >= LEAST or self.follows(one.more(-LEAST), state)) and (
            high <= MOST or self.follows(ZERO.plus(one, -1).more(MOST), state)
        )

    def between(self, sums: Sequence[tuple[Sum, State]], into: State) -> Sum:
        """What is one of several sums, each in a state of its own; facts go into another one."""
        first = sums[0][0]
        if all(each == first for each, _ in sums):
            return first
        found = self.new()
        for bound in dict.fromkeys([*(each for each, _ in sums), ZERO]):
            if all(self.follows(each.plus(bound, -1), state) for each, state in sums):
                into.learn([found.plus(bound, -1)])
            if all(self.follows(bound.plus(each, -1), state) for each, state in sums):
                into.learn([bound.plus(found, -1)])
        return found

    def joined(self, states: Sequence[State]) -> State | None:
        """What is known where several ways meet; None where none leads there."""
        if len(states) < 2:
            return states[0] if states else None
        first, *others = states
        sets = [set(each.facts) for each in others]
        facts = tuple(f for f in first.facts if all(f in each for each in sets))
        found = State({}, facts, {})
        for name in first.values:
            if all(name in each.values for each in others):
                sums = [(each.values[name], each) for each in states]
                found.values[name] = self.between(sums, found)
        common = set(facts)
        for name in first.truths:
            if all(name in each.truths for each in others):
                found.truths[name] = (
                    _either([_case(each, name, 0, common) for each in states]),
                    _either([_case(each, name, 1, common) for each in states]),
                )
        return found


def _without(goal: Sum, factor: int, fact: Sum, own: int) -> Sum:
    """A goal without a term: where what is left is not negative, the goal is not, of integers."""
    shared = gcd(factor, own)
    scale, times = abs(own) // shared, abs(factor) // shared
    found = {each: scale * f for each, f in goal.factors}
    for each, f in fact.factors:
        if left := found.get(each, 0) - times * f:
            found[each] = left
        else:
            del found[each]
    return Sum(tuple(sorted(found.items())), scale * goal.rest - times * fact.rest + scale - 1)


def _case(state: State, name: str, which: int, common: set[Sum]) -> Facts | None:
    """The facts of one case of a variable, with those of the way that leads there."""
    facts = state.truths[name][which]
    if facts is None:
        return None
    return (*(each for each in state.facts if each not in common), *facts)


def _either(cases: Sequence[Facts | None]) -> Facts | None:
    """The facts of a case that one of several ways has led to."""
    found = [set(case) for case in cases if case is not None]
    if not found:
        return None
    first = next(case for case in cases if case is not None)
    return tuple(each for each in first if all(each in other for other in found))
