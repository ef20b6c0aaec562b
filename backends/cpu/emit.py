"""Loop nests as LLVM IR text with explicit vector bodies.

A map nest becomes one function `i32 @name.<k>(ptr block, i64 obegin, i64 oend, i64 ibegin,
i64 iend)`: outer iterations [obegin, oend), innermost elements [ibegin, iend). The block holds
8-byte words: operand addresses, lengths of the outer loops but the innermost, strides in bytes
(operand by operand, outermost first), then scalars.

Its body is in `section.py`, the loops around it in `vector_loop.py`. Where operands may be
transposed, or results are to go past the caches, functions of `wrappers.py` stand around it.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from fuser.backends.cpu import conversion
from fuser.backends.cpu.body import Features, Module
from fuser.backends.cpu.schedule import DEFAULT, Schedule
from fuser.backends.cpu.scheduling.schedules import emit_nest
from fuser.base.errors import Unsupported
from fuser.codegen import LoopNest


def emit(
    nests: Sequence[LoopNest],
    name: str,
    features: Features,
    schedule: Schedule = DEFAULT,
    only: Collection[int] | None = None,
) -> str:
    """Spell loop nests as one module.

    Args:
        nests: what to spell.
        name: the stem of the functions' names.
        features: what the processor can do.
        schedule: how the nests are run.
        only: the numbers of the loop nests that are spelled; None: all.

    Raises:
        Unsupported: an operation has no spelling.
        IllegalScheduleError: the schedule does not compute such a nest.
    """
    wanted = [(k, nest) for k, nest in enumerate(nests) if only is None or k in only]
    for _, nest in wanted:
        _check_dtypes(nest)
    module = Module(features)
    for place, nest in wanted:
        emit_nest(module, nest, f"{name}.{place}", schedule)
    return module.text()


def _check_dtypes(nest: LoopNest) -> None:
    """Refuse dtypes that only other backends have.

    Raises:
        Unsupported: a value is complex, or bfloat16.
    """
    for dtype in nest.dtypes:
        if dtype not in conversion.MEMORY:
            raise Unsupported("unsupported-dtype", "the CPU backend", f"dtype {dtype}", "")
