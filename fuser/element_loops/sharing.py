"""Loops whose iterations may run at the same time, on several threads.

An iteration may where it reads no variable that another one sets, leaves none that is read after
the loop, and touches elements of arrays that are written in places of its own alone: along one axis
of each such array, every index is the same function of the loop's, which gives no number twice.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from fuser.base.records import changed
from fuser.element_loops.code import (
    Block,
    Code,
    Constant,
    Expression,
    For,
    Get,
    If,
    Leave,
    Load,
    Operation,
    Repeat,
    Set,
    Statement,
    Store,
    everything,
    expressions_of,
    has_loops,
    inner,
    parts_in,
    parts_of,
    sets_in,
    stays,
    with_parts,
)

#: Iterations that are too few to share, where their number is written down.
_FEW = 16
#: Loops within others that are shared at most: each is a function of its own, to be compiled.
_INSIDE = 4
#: Operations that give no number twice where one operand stays the same.
_MOVES = frozenset("add subtract exact_add exact_subtract".split())


def shared(
    body: tuple[Statement, ...], code: Code, is_plain: Callable[[int], bool]
) -> tuple[Statement, ...]:
    """Statements whose outermost loops that threads may share say so.

    Args:
        body: the statements.
        code: whose they are.
        is_plain: whether no two elements of an array lie at the same place.
    """
    after = frozenset(result.slot for result in code.results)
    return _Sharing(code, is_plain).statements(body, after, False)


class _Sharing:
    """Marks loops."""

    def __init__(self, code: Code, is_plain: Callable[[int], bool]) -> None:
        self._is_plain = lambda array: not code.arrays[array].within and is_plain(array)
        self._inside = 0

    def statements(
        self, body: tuple[Statement, ...], after: frozenset[str], within: bool
    ) -> tuple[Statement, ...]:
        """Statements; `after`: variables that may be read after them, `within`: in a loop."""
        found: list[Statement] = []
        for place, one in enumerate(body):
            if not has_loops((one,)):
                found.append(one)
                continue
            later = after | read_in(body[place + 1 :])
            if isinstance(one, For) and self._is_shared(one, later, within):
                found.append(changed(one, shared=True))
            elif isinstance(one, If):
                ways = (self.statements(way, later, within) for way in inner(one))
                found.append(If(one.test, *ways))
            elif isinstance(one, Block):
                found.append(changed(one, body=self.statements(one.body, later, within)))
            else:
                assert isinstance(one, (For, Repeat))
                later |= read_in((one,))
                found.append(changed(one, body=self.statements(one.body, later, True)))
        return tuple(found)

    def _is_shared(self, loop: For, later: frozenset[str], within: bool) -> bool:
        """Whether threads may share a loop that is worth it."""
        if not isinstance(loop.step, int) or loop.step < 1:
            return False
        if within and (self._inside == _INSIDE or not has_loops(loop.body)):
            return False
        if isinstance(loop.start, Constant) and isinstance(loop.stop, Constant):
            if loop.stop.value - loop.start.value <= _FEW:
                return False
        if later & sets_in((loop,)):
            return False
        own = stand_apart(loop, self._is_plain)
        self._inside += own and within
        return own


def stand_apart(loop: For, is_plain: Callable[[int], bool] = lambda _: True) -> bool:
    """Whether no iteration of a loop needs what another one leaves.

    Args:
        loop: it.
        is_plain: whether no two elements of an array lie at the same place.
    """
    sets = sets_in(loop.body)
    flow = Flow()
    flow.statements(loop.body, {loop.slot})
    if flow.leaves or flow.read.keys() & sets:
        return False
    return _Places(loop, sets).are_own(is_plain)


class _Places:
    """Where the iterations of a loop read and write."""

    def __init__(self, loop: For, sets: set[str]) -> None:
        self._index, self._whole = Get(loop.slot, "int64"), list(everything(loop.body))
        self._changing, whole = {*sets, loop.slot}, self._whole
        self._told: dict[str, Expression] = {}
        assert isinstance(loop.step, int)
        beyond = Operation("exact_add", "int64", (self._index, Constant("int64", loop.step)))
        for each in whole:  # loops that go over what one iteration skips
            if isinstance(each, For) and each.step == 1 and each.start == self._index:
                stop = each.stop
                if isinstance(stop, Operation) and stop.name == "minimum":
                    stop = stop.args[0]
                if stop == beyond:
                    self._told[each.slot] = self._index
        many = [each.slot for each in whole if isinstance(each, (Set, For))]
        for each in whole:
            if isinstance(each, Set) and many.count(each.slot) == 1:
                value = self._plainly(each.value)
                if self._is_own(value):
                    self._told[each.slot] = value

    def _plainly(self, one: Expression) -> Expression:
        """An index in terms of the loop's, where statements before tell."""
        if isinstance(one, Get):
            return self._told.get(one.slot, one)
        if isinstance(one, Operation) and one.name in _MOVES:
            return with_parts(one, self._plainly)
        return one

    def _is_own(self, one: Expression) -> bool:
        """Whether an index is another one in each iteration."""
        if one == self._index:
            return True
        if not isinstance(one, Operation) or one.name not in _MOVES or one.dtype != "int64":
            return False
        return any(
            self._is_own(each) and stays(other, self._changing)
            for each, other in (one.args, one.args[::-1])
        )

    def are_own(self, is_plain: Callable[[int], bool]) -> bool:
        """Whether no iteration touches what another one writes."""
        written = {each.array for each in self._whole if isinstance(each, Store)}
        if not all(map(is_plain, written)):
            return False
        found: dict[int, set[tuple[int, Expression]]] = {}
        for part in parts_in(self._whole):
            if isinstance(part, (Load, Store)) and part.array in written:
                places = enumerate(map(self._plainly, part.indices))
                own = {(axis, each) for axis, each in places if self._is_own(each)}
                found[part.array] = found.get(part.array, own) & own
        return all(found.values())


class Flow:
    """Goes through statements in their order.

    Attributes:
        read: variables that are read before they are surely set, in their order.
        leaves: whether something goes on after a block around the statements.
    """

    def __init__(self) -> None:
        self.read: dict[str, None] = {}
        self.leaves = False
        self._ends: dict[int, list[set[str]]] = {}

    def statements(self, body: tuple[Statement, ...], known: set[str]) -> set[str] | None:
        """The variables that are surely set after statements; None where that is not reached."""
        for one in body:
            for each in expressions_of(one):
                slots = (part.slot for part in parts_of(each) if isinstance(part, Get))
                self.read.update((slot, None) for slot in slots if slot not in known)
            if isinstance(one, Set):
                known.add(one.slot)
            elif isinstance(one, For):
                known.add(one.slot)
                self.statements(one.body, set(known))
            elif isinstance(one, Repeat):
                self.statements(one.body, set(known))
                return None
            elif isinstance(one, If):
                ways = [self.statements(way, set(known)) for way in inner(one)]
                left = _in_all([way for way in ways if way is not None])
                if left is None:
                    return None
                known = left
            elif isinstance(one, Block):
                self._ends[one.label] = []
                end = self.statements(one.body, set(known))
                ends = self._ends.pop(one.label) + ([] if end is None else [end])
                left = _in_all(ends)
                if left is None:
                    return None
                known = left
            elif isinstance(one, Leave):
                self.leaves = self.leaves or one.label not in self._ends
                self._ends.get(one.label, []).append(known)
                return None
        return known


def _in_all(ways: list[set[str]]) -> set[str] | None:
    """What is in each of several sets; None of none."""
    return set.intersection(*ways) if ways else None


def read_in(body: tuple[Statement, ...], known: Iterable[str] = ()) -> frozenset[str]:
    """Variables that statements may read before they have set them.

    Args:
        body: the statements.
        known: variables that are set before.
    """
    flow = Flow()
    flow.statements(body, {*known})
    return frozenset(flow.read)
