"""Loops in C for operands that are seen transposed, or with a stride.

A stride is a constant of the text, so that gcc picks elements out of vectors by shuffles. Of a
transposed matrix square blocks are turned in registers, and either used at once or packed tile by
tile. Which tiles are best, and whether results go past the caches, depends on the size: `FORMS` are
tried on the very arrays, and the fastest one is the ceiling.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np


class Operand(NamedTuple):
    """An operand of a formula.

    Attributes:
        name: of its pointer.
        kind: its type in C.
        place: of the argument that holds it.
        step: elements from one to the next.
        turned: it is a matrix that lies in memory by columns.
    """

    name: str
    kind: str
    place: int
    step: int
    turned: bool


FORMS = tuple(
    (rows, columns, at_once, past)
    for rows, columns in ((64, 64), (128, 128), (512, 64), (256, 128), (64, 256), (256, 512))
    for at_once in (0, 1)
    for past in (0, 1)
)
"""Tiles of a matrix; whether each block of one is used at once; whether stores pass the caches."""
MOST_TILE, LONGEST, CHUNK = 1 << 17, 512, 4096
"""Elements of a tile and of its rows at most, and of a part of a vector."""


def matrix_text(formula: str, operands: Sequence[Operand], result: str) -> str:
    """A function of matrices: `n` rows of `m` elements.

    Args:
        formula: statements for element `j` of a row, from `p[j]` of each operand to `t[j]`.
        operands: what they read.
        result: the C type of the result.
    """
    turned = [each for each in operands if each.turned]
    given = ", ".join(f"const {each.kind} *{each.name}" for each in operands)
    to_room = "".join(f", {each.kind} *room_{each.name}" for each in turned)
    room, block = (
        "".join(
            f"{each.kind} room_{each.name}[{size}] __attribute__((aligned(64)));\n"
            for each in turned
        )
        for size in (MOST_TILE, "lanes * lanes")
    )
    pointers = [each.name for each in operands]
    first = turned[0].name if turned else "t"
    listed = ", ".join([*pointers, "t", *(f"room_{each.name}" for each in turned)])
    packs = "".join(
        f"pack_{each.kind}({each.name} + J * n + I, n, room_{each.name}, r, c);\n"
        for each in turned
    )
    rows = ", ".join(
        f"room_{each.name} + i * c" if each.turned else f"{each.name} + (I + i) * m + J"
        for each in operands
    )
    return f"""
SHORT row(int64_t c, {given}, {result} *restrict t) {{
#pragma omp simd
  for (int64_t j = 0; j < c; j++) {{ {formula} }} }}
SHORT tile(int64_t n, int64_t m, int64_t I, int64_t J, int64_t r, int64_t c, int past,
           {given}, {result} *t{to_room}) {{
  {result} line[{LONGEST}] __attribute__((aligned(64)));
  {packs}
  for (int64_t i = 0; i < r; i++) {{
    row(c, {rows}, past ? line : t + (I + i) * m + J);
    if (past) put(t + (I + i) * m + J, line, c * sizeof({result})); }} }}
void run(int64_t n, int64_t m, int64_t down, int64_t along, int64_t at_once, int64_t past,
         {given}, {result} *t) {{
  enum {{ lanes = LINE / sizeof({result}) }};
  const int64_t head = (LINE - (uintptr_t){first} % LINE) / sizeof({result}) % lanes;
#pragma omp parallel for collapse(2) schedule(static)
  for (int64_t K = head ? head - down : 0; K < n; K += down)
  for (int64_t J = 0; J < m; J += along) {{
    const int64_t I = K < 0 ? 0 : K, r = least(K + down, n) - I, c = least(along, m - J);
    if (!at_once || r % lanes || c % lanes) {{
      {room} tile(n, m, I, J, r, c, past, {listed}); continue; }}
    {block}
    for (int64_t i = I; i < I + r; i += lanes) for (int64_t j = J; j < J + c; j += lanes)
      if (past) tile(n, m, i, j, lanes, lanes, 1, {listed});
      else tile(n, m, i, j, lanes, lanes, 0, {listed}); }} }}
"""


def vector_text(formula: str, operands: Sequence[Operand], result: str) -> str:
    """A function of vectors of `m` elements, those of an operand a step apart."""
    given = ", ".join(f"const {each.kind} *{each.name}" for each in operands)
    parts = ", ".join(f"{each.name} + begin * {each.step}" for each in operands)
    return f"""
SHORT part(int64_t c, {given}, {result} *restrict t) {{
#pragma omp simd
  for (int64_t j = 0; j < c; j++) {{ {formula} }} }}
void run(int64_t n, int64_t m, int64_t down, int64_t along, int64_t at_once, int64_t past,
         {given}, {result} *t) {{
#pragma omp parallel for schedule(static)
  for (int64_t begin = 0; begin < m; begin += {CHUNK}) {{
    {result} line[{CHUNK}] __attribute__((aligned(64)));
    const int64_t c = least({CHUNK}, m - begin);
    if (past) {{ part(c, {parts}, line); put(t + begin, line, c * sizeof({result})); }}
    else part(c, {parts}, t + begin); }} }}
"""


def forms_of(rank: int) -> tuple[tuple[int, ...], ...]:
    """The ways to try for results of so many axes: `run` takes them after the lengths."""
    return FORMS if rank == 2 else ((0, 0, 0, 0), (0, 0, 0, 1))


def element_step(argument: Any) -> int:
    """Elements from one to the next along the last axis; 0 of a number."""
    return int(argument.strides[-1] // argument.itemsize) if np.ndim(argument) else 0
