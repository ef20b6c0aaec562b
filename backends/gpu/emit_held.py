"""Rows whose threads hold their share of them in registers, from one pass to the next.

Everything is read once and unrolled, and what a pass has computed of an element the next one
need not compute again. Of a longer row, what follows the held vectors (TAIL) is kept in shared
memory, as far as that reaches, and read again beyond.

Of a row that a cluster of blocks shares (CLUSTER), each block holds a part, as in a split kernel.
They read each other's states in shared memory, so the row is read once, in one launch.

With AHEAD, each thread copies its vectors of the next row to shared memory while a row is computed.
It reads no others than its own, so this wants no barrier.
"""

from __future__ import annotations

from fuser.backends.gpu import cxx
from fuser.backends.gpu.emit_reduction import Reduction
from fuser.backends.gpu.reduction_loops import places

#: What compilations say; where all variants are compiled at once, some size.
HELD_DEFAULTS = """\
#ifdef HELD_ROWS
enum { HELD_VECTORS = HELD_ROWS, HELD_MORE = HELD_TAIL };
#else
enum { HELD_VECTORS = 2, HELD_MORE = 1 };
#endif
#ifndef CLUSTER
#define CLUSTER 1
#endif
#if CLUSTER > 1
#define TOGETHER __cluster_dims__(CLUSTER, 1, 1)
#else
#define TOGETHER
#endif
#ifndef AHEAD
#define AHEAD 0
#endif"""


class Held(Reduction):
    """Writes a second template for a nest of rows; the structures are those of the first."""

    #: whether clusters share rows
    clustered = True

    def text(self) -> str:
        """The function template."""
        body = [
            "const Index length = (Index)a.length, chunks = CLUSTER;",
            "constexpr bool SPLIT = CLUSTER > 1;",
            *self._facts(),
            *self.leaves(),
            *self._loop(),
        ]
        return "\n".join([
            "template <class Index, class Offset, int HELD, bool TAIL>",
            f"INLINE void held{self.place}(const Arguments{self.place}& a) {{",
            *(f"    {line}" for line in body),
            "}",
        ])  # fmt: skip

    def _loop(self) -> list[str]:
        """The loop over rows."""
        body = [*places(self.outer), *self._bases(), *self._results(0, loads=True)]
        body += ["const Index tail = begin + HELD * team;", "int left[HELD];"]
        body += [*self._over(), f"    {self._counted_left()};", "}"]
        loads = sorted({k for s in range(self.plan.last + 1) for k in self.plan.loads_of(s)})
        body += [self._lanes(f"x{k}[HELD]", k) for k in loads]
        seen: set[int] = set()
        for stage in range(self.plan.last + 1):
            if self.plan.is_pass(stage):
                body += self._held_stage(stage, seen)
            body += self._results(stage + 1)
        body += self._final_stores()
        return [*self._row_head(), *(f"    {line}" for line in body), "}"]

    def _held_stage(self, stage: int, seen: set[int]) -> list[str]:
        """One pass: what is held, then the tail.

        Args:
            stage: which.
            seen: operands whose vectors are there; those of this stage are added.
        """
        state = self.plan.states[stage]
        fresh = [k for k in self.plan.loads_of(stage) if k not in seen]
        first = not seen and bool(fresh)
        seen.update(fresh)
        lines = [f"{state.name} t{stage};", f"t{stage}.start();"] if state.parts else []
        lines += self._held_loads(fresh) if first else []
        lines += self._held_computes(stage, [] if first else fresh)
        lines += ["if constexpr (TAIL) {", *(f"    {line}" for line in self._visit(stage)), "}"]
        return lines + (self._combined(stage) if state.parts else [])

    def _held_loads(self, fresh: list[int]) -> list[str]:
        """All vectors of the first pass are on their way before anything is computed."""
        self.holding = True
        inside = [line for k in fresh for line in self._held_load(k)]
        self.holding = False
        plain = [*self._over(), *(f"    {line}" for line in inside), "}"]
        copied = self.plan.ahead if self.clustered else {}
        if not copied:
            return plain
        self.holding = True
        taken = [
            line for k in fresh
            for line in (self._taken(k, copied[k]) if k in copied else self._held_load(k))
        ]
        self.holding = False
        return [
            "#if AHEAD", "copies_wait();",
            *self._over(), *(f"    {line}" for line in taken), "}",
            *self._send("row + gridDim.x"), "#else", *plain, "#endif",
        ]  # fmt: skip

    def _send(self, row: str) -> list[str]:
        """Begin to copy a row."""
        copied = self.plan.ahead
        if not copied or not self.clustered:
            return []
        inside = [
            f"if (aligned{k} && at < vectors) copy_ahead({self._ahead_at(k, before)}, "
            f"{self._address(k)});"
            for k, before in copied.items()
        ]
        return [
            f"if (const Index sent = {row}; sent < (Index)a.rows) {{",
            *(f"    const char* const b{k} = a.p{k} + (Offset)sent * (Offset)a.s{k}_0;"
              for k in copied),
            "    #pragma unroll",
            "    for (int u = 0; u < HELD; ++u) {",
            "        const Index at = lane + u * team;",
            *(f"        {line}" for line in [*self._within(), *inside]),
            "    }",
            "}",
        ]  # fmt: skip

    def _taken(self, k: int, before: int) -> list[str]:
        """One vector that was copied; what is no whole words was not."""
        load, *rest = self._held_load(k)
        there = f"aligned{k} && left[u] == {self.width}"
        return [f"if ({there}) x{k}[u] = *({self._ahead_at(k, before)});", f"else {load}", *rest]

    def _ahead_at(self, k: int, before: int) -> str:
        """Where a thread's vector of the next row is."""
        memory = cxx.MEMORY[self.operands[k].dtype]
        base = f"(char*)pool + {32 * self.plan.state_bytes} + {before}u * HELD * blockDim.x"
        return f"(Lanes<{memory}, {self.width}>*)({base}) + (u * blockDim.x + threadIdx.x)"

    def _row_head(self) -> list[str]:
        """Open the loop over rows; the first one is on its way."""
        head = super()._row_head()
        first = self._send("blockIdx.x")
        place = next(n for n, line in enumerate(head) if line.startswith("for ("))
        sent = ["#if AHEAD", *first, "#endif"] if first else []
        return [*head[:place], *sent, *head[place:]]

    def _held_load(self, k: int) -> list[str]:
        """One vector; there is nothing beyond the row."""
        kind = f"Lanes<{cxx.MEMORY[self.operands[k].dtype]}, {self.width}>"
        load = self._load(k, f"x{k}[u]", self._address(k), self._left())
        return [f"if (left[u] != 0) {load}", f"else x{k}[u] = {kind}{{}};"]

    def _held_computes(self, stage: int, fresh: list[int]) -> list[str]:
        """Values of every held vector, what they add to the states, and stores."""
        self.holding = True
        inside = [line for k in fresh for line in self._held_load(k)]
        inside += self._computes(stage)
        self.holding = False
        return [*self._over(), *(f"    {line}" for line in inside), "}"]

    def _over(self) -> list[str]:
        """Open the loop over held vectors."""
        return [
            "#pragma unroll",
            "for (int u = 0; u < HELD; ++u) {",
            "    const Index at = begin + lane + u * team;",
            *(f"    {line}" for line in self._within()),
        ]

    def _combined(self, stage: int) -> list[str]:
        """Bring together what threads have found, and blocks of a cluster."""
        found = super()._combined(stage)
        if not self.clustered:
            return found
        room = f"({self.plan.states[stage].name}*)((char*)pool + {32 * self.plan.state_bytes})"
        return [*found, "#if CLUSTER > 1", f"combine_cluster(t{stage}, {room});", "#endif"]

    def _alone(self, finished: bool) -> str:
        """Every block of a cluster has the row's results."""
        return " && (!SPLIT || part == 0)"

    # -- what is different in the code of one vector -----------------------------------------

    def _begin(self) -> str:
        return "tail"

    def _keeps(self, stage: int) -> list[int]:
        """Registers need no seat in shared memory."""
        return [] if self.holding else super()._keeps(stage)

    def _fits(self) -> str:
        return "at - tail < (Index)a.kept"

    def _seat(self) -> str:
        return "at - tail"
