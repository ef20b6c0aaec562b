"""Counted loops in LLVM IR text, with values that pass from turn to turn."""

from __future__ import annotations

from collections.abc import Sequence

from fuser.backends.cpu.body import Body, Value


class Loop:
    """A loop from a first number up to, not including, a last one; perhaps no turn at all."""

    def __init__(self, b: Body, first: str, last: str) -> None:
        """Begin it: what is appended next is its body."""
        self.b = b
        self.head, self.done = b.label("loop"), b.label("done")
        self._work = b.label("work")
        self._before = b.block
        self._first = first
        b.jump(self.head)
        self.index = b.fresh()
        self._phi_line = len(b.lines)
        self._carried: list[tuple[str, Value]] = []
        more = f"{self.index}.more"
        b.line(f"{more} = icmp ult i64 {self.index}, {last}")
        b.branch(more, self._work, self.done)
        self.results: list[Value] = []

    def carry(self, initial: Value) -> Value:
        """A value that starts as `initial`; `end` says what the next turn sees."""
        name = self.b.fresh()
        self._carried.append((name, initial))
        return Value(name, initial.scalar, initial.lanes)

    def end(self, carried: Sequence[Value] = (), enough: Value | None = None) -> None:
        """End the body. Afterwards `results` are the carried values.

        Args:
            carried: what the next turn sees.
            enough: whether there is no next turn.
        """
        b = self.b
        following = f"{self.index}.next"
        b.line(f"{following} = add i64 {self.index}, 1")
        latch = b.block
        if enough is None:
            b.line(f"br label %{self.head}")
        else:
            b.line(f"br i1 {enough.text}, label %{self.done}, label %{self.head}")
        phis = [
            (
                f"  {self.index} = phi i64 [ {self._first}, %{self._before} ], "
                f"[ {following}, %{latch} ]"
            )
        ]
        for (name, initial), new in zip(self._carried, carried, strict=True):
            phis.append(
                f"  {name} = phi {initial.type} [ {initial.text}, %{self._before} ], "
                f"[ {new.text}, %{latch} ]"
            )
        b.lines[self._phi_line : self._phi_line] = phis
        b.start(self.done)
        self.results = [Value(name, v.scalar, v.lanes) for name, v in self._carried]
        if enough is not None:
            self.results = [
                b.value(
                    f"phi {old.type} [ {old.text}, %{self.head} ], [ {new.text}, %{latch} ]",
                    old.scalar,
                    old.lanes,
                )
                for old, new in zip(self.results, carried, strict=True)
            ]


def begin_loop(b: Body, first: str, last: str) -> Loop:
    """Begin a loop over [first, last), unsigned."""
    return Loop(b, first, last)
