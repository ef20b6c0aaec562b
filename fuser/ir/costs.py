"""What operations cost: one table, in light operations.

A light operation is one instruction on a vector in registers: + - * of floats, minimum, comparison,
selection. The figures are ratios of measured times for one float32 element, with operands in the
second cache, on a 2.5 GHz processor with 512-bit vectors. A backend multiplies them by its own time
of a light operation; what loads, stores and threads cost is the backend's.
"""

from __future__ import annotations

from fuser.ir.ops import Op

LIGHT = 1
#: A square root or a quotient of floats.
ROOT = 17
#: exp, sin, power and the like.
HEAVY = 58
#: A quotient or remainder of integers.
DIVISION = 167
#: What planning counts a heavy operation as, and any other as one light operation: whether a value
#: is computed twice or stored, it is compared with loads and stores, beside which roots and
#: quotients are hidden. Four exponentials of one value that are computed twice take 1.3 times as
#: long as stored ones; with 10 and with 40 they are stored.
PLANNED = 10
#: What planning counts an element at a computed place as: 1.5 to 4 ns, the less the smaller what it
#: is read from. Differences of two of them, which two scatters need, are stored.
GATHER = 30


def time_of(row: Op, floating: bool = True) -> int:
    """What one operation on one element takes.

    Args:
        row: the operation.
        floating: its operands are floats.
    """
    if row.structure:
        return 0
    if row.heavy:
        return HEAVY
    if row.slow:
        return ROOT if floating else DIVISION
    return LIGHT


def is_costly(row: Op) -> bool:
    """Whether an operation takes many light ones."""
    return row.heavy or row.slow


def planned(row: Op) -> int:
    """What planning counts one operation on one element as."""
    return PLANNED if row.heavy else min(LIGHT, time_of(row))


def planned_sum(operations: int, heavy: int) -> int:
    """What planning counts a set of operations as, given those that are heavy: both as bits."""
    return operations.bit_count() + (PLANNED - LIGHT) * (operations & heavy).bit_count()
