"""The outer loops of reductions as text: which threads share a row or a table of columns."""

from __future__ import annotations


def row_head(width: int) -> list[str]:
    """Open the loop over rows: a team for each, or for a part of it; a warp stays together."""
    return [
        "const unsigned int team = (unsigned int)a.team, lane = threadIdx.x & (team - 1);",
        "const unsigned int shift = __popc(team - 1);  // of a power of two",
        "const unsigned int teams = blockDim.x >> shift, mine = threadIdx.x >> shift;",
        f"const Index vectors = length / {width} + (length % {width} != 0);",
        "const Index work = (Index)a.rows * chunks;",
        "for (Index next = (Index)blockIdx.x * teams; next < work;",
        "     next += (Index)gridDim.x * teams) {",
        "    const bool active = next + mine < work;",
        "    const Index item = active ? next + mine : work - 1;",
        "    const Index row = item / chunks, part = item - row * chunks;",
        "    const Index begin = SPLIT ? part * (Index)a.chunk : 0;",
        "    const Index end = SPLIT && vectors - begin > (Index)a.chunk",
        "        ? begin + (Index)a.chunk : vectors;",
    ]


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


def places(outer: int) -> list[str]:
    """The row along every outer loop: q0 outermost."""
    if not outer:
        return []
    lines, rest = [], "row"
    for d in range(outer - 1, 0, -1):
        lines += [
            f"const Index r{d} = a.d{d}.quotient({rest});",
            f"const Index q{d} = {rest} - r{d} * (Index)a.d{d}.divisor;",
        ]
        rest = f"r{d}"
    return [*lines, f"const Index q0 = {rest};"]
