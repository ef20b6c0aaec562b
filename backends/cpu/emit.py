"""Loop nests as LLVM IR text with explicit vector bodies.

A map nest becomes one function `i32 @name.<k>(ptr block, i64 obegin, i64 oend, i64 ibegin,
i64 iend)`: outer iterations [obegin, oend), innermost elements [ibegin, iend). The block holds
8-byte words: operand addresses, lengths of the outer loops but the innermost, strides in bytes
(operand by operand, outermost first), then scalars.

Its body is in `section.py`, the loops around it in `vector_loop.py`. Where operands may be
transposed, or results are to go past the caches, functions of `wrappers.py` stand around it.
"""

from __future__ import annotations

from collections.abc import Sequence

from fuser.backends.cpu import conversion
from fuser.backends.cpu.body import Features, Module
from fuser.backends.cpu.schedule import DEFAULT, IllegalScheduleError, Schedule
from fuser.backends.cpu.vector_loop import emit_section
from fuser.backends.cpu.wrappers import Packing, Streaming, beside, packs
from fuser.base.errors import Unsupported
from fuser.base.records import changed
from fuser.codegen import LoopNest
from fuser.ir.specs import CONTIGUOUS


def emit(
    nests: Sequence[LoopNest],
    name: str,
    features: Features,
    schedule: Schedule = DEFAULT,
    only: int | None = None,
) -> str:
    """Spell loop nests as one module.

    Args:
        nests: what to spell.
        name: the stem of the functions' names.
        features: what the processor can do.
        schedule: how the nests are run.
        only: the one loop nest that is spelled; None: all.

    Raises:
        Unsupported: an operation has no spelling.
        IllegalScheduleError: the schedule does not compute such a nest.
    """
    wanted = [(k, nest) for k, nest in enumerate(nests) if only in (None, k)]
    for _, nest in wanted:
        _check_dtypes(nest)
    module = Module(features)
    for place, nest in wanted:
        if nest.strategy != "map":
            from fuser.backends.cpu.reducing.reduction_forms import (
                emit_reduction,  # many kernels need none
            )

            emit_reduction(module, nest, f"{name}.{place}", schedule)
        else:
            _emit_map_by(module, nest, f"{name}.{place}", schedule)
    return module.text()


def _emit_map_by(module: Module, nest: LoopNest, name: str, schedule: Schedule) -> None:
    """Append the function of a map nest, by its schedule."""
    loops, shared = schedule.flattened, schedule.invariant_loads
    if schedule == DEFAULT:
        _emit_map(module, nest, name, stream=False)
    elif schedule == Schedule(store="streaming") and streams(nest):
        _emit_map(module, nest, name, stream=True)
    elif schedule == Schedule(flattened=loops) and nest.rank > loops and streams(nest):
        from fuser.backends.cpu.short_rows import emit_short, flat

        inner = emit_short(module, nest, name, deep=loops > 1)
        _emit_contiguous(module, flat(nest), inner, False, "internal ")
    elif schedule == Schedule(invariant_loads=shared):
        _emit_steady(module, nest, name, shared)
    else:
        raise IllegalScheduleError(f"no loop nest of elements runs so: {schedule}")


def _emit_steady(
    module: Module, nest: LoopNest, name: str, shared: Sequence[int]
) -> None:
    """Append a map nest's function whose rows share what is computed of some loads."""
    from fuser.backends.cpu import steady_columns  # many kernels need none

    parts = steady_columns.split(nest, shared)
    if parts is None:
        raise IllegalScheduleError(f"rows share nothing costly of the loads {shared}")
    names = steady_columns.emit_steady(module, nest, name, parts)
    for inner, part in zip(names, (parts.head, parts.rest), strict=True):
        _emit_contiguous(module, part, inner, False, "internal ")


def streams(nest: LoopNest) -> bool:
    """Whether a nest has a form that writes past the caches: its results are contiguous."""
    whole = all(desc.access == CONTIGUOUS for _, desc in nest.stores)
    return nest.strategy == "map" and whole


def _emit_map(module: Module, nest: LoopNest, name: str, stream: bool) -> None:
    """Append a map nest's function, and those that it calls."""
    if packs(nest):
        inner = f"{name}.packed"
        module.functions.append(Packing(module, nest, name, "").emit(inner))
        loads = tuple(map(beside, nest.loads))
        _emit_contiguous(module, changed(nest, loads=loads), inner, stream, "internal ")
    else:
        _emit_contiguous(module, nest, name, stream, "")


def _emit_contiguous(
    module: Module, nest: LoopNest, name: str, stream: bool, linkage: str
) -> None:
    """Append the function of a nest whose loads are not packed."""
    if not stream:
        emit_section(module, nest, name, linkage)
        return
    plain, past = f"{name}.plain", f"{name}.past"
    lanes = emit_section(module, nest, past, "internal ", stream=True)
    emit_section(module, nest, plain, "internal ")
    module.functions.append(Streaming(module, nest, name, linkage).emit(plain, past, lanes))


def _check_dtypes(nest: LoopNest) -> None:
    """Refuse dtypes that only other backends have.

    Raises:
        Unsupported: a value is complex, or bfloat16.
    """
    for number in range(nest.value_count):
        if (dtype := nest.dtype_of(number)) not in conversion.MEMORY:
            raise Unsupported("unsupported-dtype", "the CPU backend", f"dtype {dtype}", "")
