"""Loop nests that reduce nothing, some of whose operands lie across: tiles in shared memory.

Of such an operand, neighbours along the innermost loop lie far apart in memory, and neighbours
along the loop before it beside each other: a transpose. A block reads a tile of it along the
memory and uses it along the loop, so every access moves whole sectors. Rows of a tile are one
element longer than the tile: threads of a warp, which read it across, meet no bank twice.

Which operands lie so is known at launch: of the others a kernel reads elements where they are.
"""

from __future__ import annotations

from fuser.backends.gpu import cxx
from fuser.backends.gpu.emit_map import Map
from fuser.backends.gpu.geometry import BLOCK, TILE, tile_slots
from fuser.codegen import LoopNest

#: Elements of a tile that a thread takes, each in another row of it.
_EACH = TILE * TILE // BLOCK


class Tiles(Map):
    """Writes a second template for a nest: threads take single elements of a tile."""

    def __init__(self, nest: LoopNest, place: int, several: bool) -> None:
        """Nothing is written yet."""
        super().__init__(nest, place, several)
        self.width, self.paired = 1, False
        self.unroll = _EACH if self.unroll > 1 else 1
        self.at = "[u]" if self.unroll > 1 else ""
        self.slots = tile_slots(nest)

    #: what text calls the structure and the template
    structure, template = "Tiles", "tiles"

    def _sizes(self) -> list[str]:
        """Fields between addresses and strides: the order is that of `geometry.plan_tiles`."""
        rank = self.nest.rank
        fields = ["word work, length, rows, across;", "Divider columns;"]
        fields += ["Divider down;"] if rank > 2 else []
        return [*fields, *(f"Divider d{d};" for d in range(1, rank - 2))]

    def _top(self) -> list[str]:
        """What is the same for all elements."""
        lane, line = f"lane = threadIdx.x % {TILE}", f"line = threadIdx.x / {TILE}"
        found = [f"const unsigned int {lane}, {line};", "const Index rows = (Index)a.rows;"]
        return [*super()._top(), *found]

    def _loop(self) -> list[str]:
        """The loop over tiles: fill them, then compute and store their elements."""
        over = f"for (int u = 0; u < {_EACH}; ++u) {{"
        row = f"q{self.nest.rank - 2}"
        each = [
            f"const Index i = i0 + lane, {row} = m0 + line + {BLOCK // TILE} * u;",
            f"left{self.at} = i < length && {row} < rows;",
            f"if (!left{self.at}) continue;",
            *self._reads(),
        ]
        rest = [*self._taken(), *self._writes()]
        first: list[list[str]] = []
        if self.unroll == 1:
            rest = [*self._declared(), *each, *rest]
        else:  # what is read where it lies is on its way while tiles are filled
            first = [self._declared(), ["#pragma unroll", over, *_inside(each), "}"]]
            rest = [f"if (!left{self.at}) continue;", *rest]
        body = [
            *self._tile_places(),
            *(line for lines in first for line in lines),
            "__syncthreads();  // the tiles may still be read",
            *(f"if (a.across >> {k} & 1) {self._fill(k, offset)}"
              for k, (_, offset) in self.slots.items()),
            "__syncthreads();",
            "#pragma unroll" if first else "#pragma unroll 1", over, *_inside(rest), "}",
        ]  # fmt: skip
        return [
            "for (Index t = blockIdx.x; t < work; t += gridDim.x) {",
            *_inside(body),
            "}",
        ]

    def _tile_places(self) -> list[str]:
        """The tile's first element along both loops, and where it lies along the outer ones."""
        rank = self.nest.rank
        row = "r" if rank > 2 else "down"
        lines = [
            f"const Index {row} = a.columns.quotient(t);",
            f"const Index i0 = (t - {row} * (Index)a.columns.divisor) * {TILE};",
        ]
        if rank == 2:
            return [*lines, f"const Index m0 = down * {TILE};"]
        outer = "q0" if rank == 3 else f"r{rank - 3}"
        lines += [
            f"const Index {outer} = a.down.quotient(r);",
            f"const Index m0 = (r - {outer} * (Index)a.down.divisor) * {TILE};",
        ]
        return [*lines, *self._outer_places(rank - 3)]

    def _fill(self, k: int, offset: int) -> str:
        """Read an operand's tile along its memory."""
        rank, memory = self.nest.rank, cxx.MEMORY[self.operands[k].dtype]
        terms = [f"(Offset)q{d} * (Offset)a.s{k}_{d}" for d in range(rank - 2)]
        terms += [f"(Offset)m0 * (Offset)a.s{k}_{rank - 2}", f"(Offset)i0 * (Offset)a.s{k}"]
        return (
            f"fill_tile(({memory}*)((char*)pool + {offset}), a.p{k} + {' + '.join(terms)}, "
            f"(Offset)a.s{k}_{rank - 2}, (Offset)a.s{k}, rows - m0, length - i0, {self.alone(k)});"
        )

    def _places(self) -> list[str]:
        """Known already."""
        return []

    def _load(self, k: int) -> str:
        """One element where it lies."""
        there = f"if (!(a.across >> {k} & 1)) " if k in self.slots else ""
        return there + super()._load(k)

    def _taken(self) -> list[str]:
        """Elements of tiles."""
        place = f"lane * {TILE + 1} + line + {BLOCK // TILE} * u"
        lines = []
        for k, (_, offset) in self.slots.items():
            tile = f"((const {cxx.MEMORY[self.operands[k].dtype]}*)((char*)pool + {offset}))"
            lines.append(f"if (a.across >> {k} & 1) x{k}{self.at}.lane[0] = {tile}[{place}];")
        return lines


def _inside(lines: list[str]) -> list[str]:
    """Lines of a block."""
    return [f"    {line}" for line in lines]
