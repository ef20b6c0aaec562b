"""Lengths while tracing: symbols, and what was found to hold between them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from fuser.base.caches import memo
from fuser.base.errors import ShapeError, user_line
from fuser.ir import dims
from fuser.ir.dims import Dim


@memo(16)
def _same_lengths(guards: tuple[tuple[Dim, Dim], ...]) -> Mapping[str, Dim]:
    """As `dims.representatives`, which each pair of lengths of a trace asks for."""
    return dims.representatives(guards)


class Lengths:
    """What a trace knows of lengths; the trace itself has the fields.

    Attributes:
        sizes: the length in this call, by symbol.
        equal: symbols that were found to equal other lengths.
        guards: pairs of lengths that have to be equal, beyond that.
        common: shapes that were broadcast: what came out, by what was known of lengths.
        late: symbols for lengths that only functions between kernels tell.
        told: integer arguments that are used as indices or lengths, in symbols, by name.
    """

    sizes: dict[str, int]
    equal: dict[str, Dim]
    guards: list[tuple[Dim, Dim]]
    common: dict[Any, tuple[Dim, ...]]
    late: set[str]
    told: dict[str, Dim]

    def new_length(self, length: int) -> Dim:
        """A symbol for a length of this call."""
        name = f"n{len(self.sizes)}"
        self.sizes[name] = length
        return dims.symbol(name)

    def new_late_length(self, length: int) -> Dim:
        """A symbol for a length that a function between kernels tells."""
        found = self.new_length(length)
        self.late.add(str(found))
        return found

    def integer_symbol(self, name: str, value: int) -> Dim:
        """An integer that each call gives anew, as an expression over lengths.

        A length is never negative, so an integer is the length `n7` where it is at least 0, and
        `-n7` where it is less: its sign is a guard of the trace, its value is none. The guard
        `n7 == s0` binds the symbol at each call (`Graph.scalar_lengths`). Views, slices, regions
        and shapes may be spelled with the expression like with any length.

        Args:
            name: what the integer is called in host expressions: a scalar parameter's name.
            value: the integer in this call.
        """
        found = self.told.get(name)
        if found is None:
            sign = -1 if value < 0 else 1
            symbol = self.new_length(sign * value)
            self.guards.append((symbol, dims.symbol(name) * sign))
            if value < 0:
                self.hold_at_least(symbol, 1)
            found = self.told[name] = symbol * sign
        return self.resolve(found)

    def resolve(self, dim: Dim) -> Dim:
        """Replace symbols by what they were found to equal."""
        while not isinstance(dim, int) and any(s in self.equal for s in dims.symbols(dim)):
            dim = dims.substitute(dim, self.equal)
        return dim

    def size(self, dim: Dim) -> int:
        """The length in this call."""
        return dims.evaluate(dim, self.sizes)

    def unify(self, left: Dim, right: Dim, context: Callable[[], str]) -> Dim:
        """Broadcast two lengths against each other, noting what has to hold for it."""
        left, right = self.resolve(left), self.resolve(right)
        if self.guards and left != right:
            same = _same_lengths(tuple(self.guards))
            left = self.resolve(same.get(str(left), left))
            right = self.resolve(same.get(str(right), right))
        if left == right or right == 1:
            return left
        if left == 1:
            return right
        here, there = self.size(left), self.size(right)
        if here == there:
            self._hold(left, right)
            return self.resolve(left)
        if here == 1:
            self._hold(left, 1)
            return right
        if there == 1:
            self._hold(right, 1)
            return left
        raise ShapeError(f"{context()}: {here} against {there}. Make the two lengths equal, "
                         "or make one of them 1.")  # fmt: skip

    def same_lengths(self, left: Sequence[Dim], right: Sequence[Dim]) -> bool:
        """Whether two shapes have the same lengths in this call."""
        return [*map(self.size, left)] == [*map(self.size, right)]

    def hold_at_least(self, length: Dim, bound: int) -> None:
        """Note that this trace holds only where a length is at least `bound`."""
        from fuser.passes import length_facts

        length = self.resolve(length)
        if not isinstance(length, int):
            pair = length_facts.at_least(length, bound)
            if pair[0] != pair[1] and pair not in self.guards:
                self.guards.append(pair)

    def hold_not_negative(self, shape: Sequence[Dim]) -> None:
        """Note that this trace holds only where no length of a shape is negative.

        Raises:
            ValueError: one is in this call.
        """
        for length in shape:
            if isinstance(length, int) or not length.text.isalnum():
                if self.size(length) < 0:
                    raise ValueError("negative dimensions are not allowed")
                self.hold_at_least(length, 0)

    def hold_exactly(self, length: Dim) -> int:
        """Note that this trace holds only where a length is what it is in this call."""
        here = self.size(length)
        self._hold(length, here)
        return here

    def hold_lengths(self, left: Sequence[Dim], right: Sequence[Dim]) -> None:
        """Note that this trace holds only while two shapes have the same lengths, as they do now.

        A length of 1 is no exception: it does not become another one.
        """
        for one, other in zip(left, right, strict=True):
            one, other = self.resolve(one), self.resolve(other)
            if one != other:
                self._hold(one, other)

    def fits_into(self, own: Sequence[Dim], given: Sequence[Dim]) -> bool:
        """Whether one shape broadcasts to another as it is; what that takes is held.

        A longer array does not fit into one element, which `broadcast` alone would allow.
        """
        joined = self.broadcast("out", [tuple(own), tuple(given)])
        if [self.size(dim) for dim in joined] != [self.size(dim) for dim in own]:
            return False
        for wanted, found in zip(map(self.resolve, own), map(self.resolve, joined), strict=True):
            if wanted != found:
                self._hold(wanted, found)
        return True

    def _hold(self, left: Dim, right: Dim) -> None:
        """Record `left == right`, as a substitution where one side is a plain symbol."""
        pairs = [(right, left), (left, right)]
        if not isinstance(left, int) and not isinstance(right, int):
            plain = [(a, b) for a, b in pairs if str(a) in self.sizes]
            plain.sort(key=lambda pair: -int(str(pair[0])[1:]))  # later symbols give way
            pairs = plain
        for old, new in pairs:
            if not isinstance(old, int) and str(old) in self.sizes:
                if str(old) not in dims.symbols(new) and not self._told_later(new, str(old)):
                    self.equal[str(old)] = new
                    return
        if (nothing := self._nothing(left - right)) is not None:
            self.equal[nothing] = 0
            return
        if (twins := self._twins(left, right)) is not None:
            self.equal[twins[1]] = dims.symbol(twins[0])
            return
        self.guards.append((left, right))

    def _nothing(self, gap: Dim) -> str | None:
        """A symbol that has to be 0 where a gap of one term is: 4 n = 2 n tells that n is 0."""
        if isinstance(gap, int) or len(gap.terms) != 1:
            return None
        found = [name for name in gap.terms[0][0] if self.sizes.get(name) == 0]
        return found[0] if len(gap.terms[0][0]) == 1 and found else None

    def _twins(self, left: Dim, right: Dim) -> tuple[str, str] | None:
        """Two symbols that are equal in this call and make two lengths equal where they are.

        `x[1:] - y[1:]` says so little of x and y that one of them may have an element and the
        other none; told that they are as long, all loops over them have one spelling. Where x is
        known to have an element, `n0 - 1` is the same as `max(n0 - 1, 0)`.
        """
        from fuser.passes import length_facts

        known = length_facts.lower_bounds(self.guards)

        def spelled(length: Dim, names: Mapping[str, Dim]) -> Dim:
            return length_facts.simplify(dims.substitute(length, names), known)

        for one in dims.symbols(left):
            for two in dims.symbols(right):
                first, then = sorted((one, two), key=lambda name: int(name[1:]))
                if first == then or self.sizes.get(first) != self.sizes.get(then):
                    continue
                change = {then: dims.symbol(first)}
                if not self.late.isdisjoint((one, two)):
                    continue
                if spelled(left, change) == spelled(right, change):
                    return first, then
        return None

    def _told_later(self, length: Dim, name: str) -> bool:
        """Whether a length is known only after a symbol: then it cannot stand for it."""
        late = [symbol for symbol in dims.symbols(length) if symbol in self.late]
        return any(name not in self.late or int(s[1:]) > int(name[1:]) for s in late)

    def known_equal(self) -> dict[str, Dim]:
        """Lengths found equal so far, by text."""
        found = dims.representatives(self.guards)
        for name in self.equal:
            length = self.resolve(dims.symbol(name))
            found[name] = found.get(str(length), length)
        return found

    def broadcast(self, name: str, shapes: Sequence[tuple[Dim, ...]]) -> tuple[Dim, ...]:
        """The common shape of several operands."""
        if all(shape == shapes[0] for shape in shapes):
            return shapes[0]
        known = len(self.equal), len(self.guards)
        key = (known, tuple(shapes))
        found = self.common.get(key)
        if found is None:
            found = self._broadcast(name, shapes)
            if known == (len(self.equal), len(self.guards)):
                self.common[key] = found
        return found

    def _broadcast(self, name: str, shapes: Sequence[tuple[Dim, ...]]) -> tuple[Dim, ...]:
        """The common shape of several operands, found axis by axis."""
        rank = max(map(len, shapes))
        result: list[Dim] = []
        for axis in range(-rank, 0):
            length: Dim = 1
            for shape in shapes:
                if len(shape) >= -axis:
                    length = self.unify(
                        length,
                        shape[axis],
                        lambda axis=axis: self._mismatch(name, shapes, axis),  # type: ignore[misc]
                    )
            result.append(length)
        return tuple(result)

    def _mismatch(self, name: str, shapes: Sequence[tuple[Dim, ...]], axis: int) -> str:
        """Say which shapes do not broadcast."""
        found = [str(tuple(self.size(dim) for dim in shape)) for shape in shapes]
        line = user_line()
        return (
            f"{name}: shapes {' and '.join(found)} do not broadcast at axis {axis}"
            f"{f' ({line})' if line else ''}"
        )
