"""The outer loops of reductions as text: which threads share a row or a table of columns."""

from __future__ import annotations


def row_head(width: int, *, around: bool = False) -> list[str]:
    """Open the loop over rows: a team for each, or for a part of it; a warp stays together.

    Args:
        width: elements of a vector.
        around: several loops are reduced: `length` is that of the innermost one.
    """
    times = " * (Index)a.around" if around else ""
    vectors = f"length / {width} + (length % {width} != 0)"
    return [
        "const unsigned int team = (unsigned int)a.team, lane = threadIdx.x & (team - 1);",
        "const unsigned int shift = __popc(team - 1);  // of a power of two",
        "const unsigned int teams = blockDim.x >> shift, mine = threadIdx.x >> shift;",
        *spread_facts(width),
        f"const Index vectors = {f'({vectors}){times}' if times else vectors};",
        "const Index work = (Index)a.rows * chunks;",
        "for (Index next = (Index)blockIdx.x * teams; next < work;",
        "     next += (Index)gridDim.x * teams) {",
        "    const bool active = next + mine < work;",
        "    const Index item = active ? next + mine : work - 1;",
        "    const Index row = item / chunks, part = item - row * chunks;",
        "    const Index begin = SPLIT ? part * (Index)a.chunk : 0;",
        "    const Index end = SPLIT && vectors - begin > (Index)a.chunk",
        "        ? begin + (Index)a.chunk : vectors;",
        limit(width),
    ]


def spread_facts(width: int) -> list[str]:
    """Where the elements of a thread's vector are: neighbours, or spread.

    Spread, they are one of each of `width` lines that the threads of a team take side by side.
    """
    return [
        f"[[maybe_unused]] const Index shifted = spread ? lane * {width - 1}u : 0;",
        "[[maybe_unused]] const Offset apart = spread ? team : 1;",
        "[[maybe_unused]] const unsigned int lane_shift = spread ? shift : 0;",
    ]


def limit(width: int) -> str:
    """Where the elements of a row, or a part of it, end."""
    return (f"[[maybe_unused]] const Index limit = end * {width} < length"
            f" ? end * {width} : length;")  # fmt: skip


def column_head(width: int) -> list[str]:
    """Open the loop over tables: a block takes `across` vectors of columns, or part of them."""
    return [
        "const unsigned int across = (unsigned int)a.team, lane = threadIdx.x & (across - 1);",
        "const unsigned int shift = __popc(across - 1);  // of a power of two",
        "const unsigned int down = blockDim.x >> shift, mine = threadIdx.x >> shift;",
        "const Index columns = (Index)a.columns;",
        f"const Index vectors = columns / {width} + (columns % {width} != 0);",
        "const Index tables = (vectors + across - 1) >> shift;",
        "const Index work = (Index)a.rows * tables * chunks;",
        "for (Index item = blockIdx.x; item < work; item += gridDim.x) {",
        "    const Index unit = item / chunks, part = item - unit * chunks;",
        "    const Index row = unit / tables;",
        "    const Index wanted = (unit - row * tables) * across + lane;",
        "    const bool active = wanted < vectors;",
        f"    const Index column = (active ? wanted : vectors - 1) * {width};",
        f"    const int left = columns - column < {width}",
        f"        ? (int)(columns - column) : {width};",
        "    const Index begin = SPLIT ? part * (Index)a.chunk : 0;",
        "    const Index end = SPLIT && length - begin > (Index)a.chunk",
        "        ? begin + (Index)a.chunk : length;",
    ]


def places(loops: int, rest: str = "row", divider: str = "d", name: str = "q") -> list[str]:
    """A number as a place along each of several loops, q0 outermost.

    Args:
        loops: how many.
        rest: the number, of a row or a vector.
        divider: the arguments that divide by the lengths of all loops but the outermost.
        name: of the places.
    """
    if not loops:
        return []
    lines = []
    for d in range(loops - 1, 0, -1):
        by, left = f"a.{divider}{d}", f"r{name}{d}"
        lines += [
            f"const Index {left} = {by}.quotient({rest});",
            f"[[maybe_unused]] const Index {name}{d} = {rest} - {left} * (Index){by}.divisor;",
        ]
        rest = left
    return [*lines, f"[[maybe_unused]] const Index {name}0 = {rest};"]
