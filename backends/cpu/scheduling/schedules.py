"""The schedules of a loop nest: which are legal, what each asks for, and its text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from fuser.backends.cpu.body import Module
from fuser.backends.cpu.costs import Extent
from fuser.backends.cpu.schedule import DEFAULT, IllegalScheduleError, Schedule
from fuser.backends.cpu.scheduling.templates import Kind, Template, kind_of
from fuser.codegen import LoopNest


def legal_schedules(
    nest: LoopNest, lengths: Sequence[int], strides: Sequence[Sequence[int]]
) -> list[Schedule]:
    """List every schedule that computes a nest rightly at these lengths.

    Args:
        nest: what is computed.
        lengths: of all loops; the reduced ones are the last.
        strides: of loads, then of stores, in bytes.
    """
    return [
        schedule
        for kind, template in _templates(nest).items()
        if kind.strategy == kind_of(nest, DEFAULT).strategy
        for schedule in template.schedules(kind, nest, strides)
        if kind_of(nest, schedule) == kind
        and template.legal(nest, schedule)
        and template.fits(nest, schedule, lengths, strides)
    ]


def is_legal(nest: LoopNest, schedule: Schedule, lengths: Sequence[int],
             strides: Sequence[Sequence[int]]) -> bool:  # fmt: skip
    """Whether a schedule computes a nest rightly at these lengths.

    Args:
        nest: what is computed.
        schedule: how.
        lengths: of all loops.
        strides: of loads, then of stores, in bytes.
    """
    try:
        template = template_of(nest, schedule)
    except IllegalScheduleError:
        return False
    return template.fits(nest, schedule, lengths, strides)


def same_bits(nest: LoopNest, one: Schedule, other: Schedule) -> bool:
    """Whether two schedules that are legal for a nest give the same bits, whatever its values.

    Nests that reduce nothing do. So do reductions whose order cannot be seen (integers, the least,
    the greatest, any, all), if they pass through their elements as often. Sums of floats do where
    only fields differ that leave the order as it is.
    """
    differing = {n for n in Schedule.__match_args__ if getattr(one, n) != getattr(other, n)}
    if not differing or nest.strategy == "map":
        return True
    reductions = [i for i in nest.body if i.row.reduction]
    if all(i.row.selects or "float" not in i.operand_dtype for i in reductions):
        return "passes" not in differing
    unordered = _UNORDERED if nest.strategy == "row" else _UNORDERED - {"tile"}
    return differing <= unordered


#: Fields of rows that do not say in which order elements are added. `accumulate` is among them as
#: one chain is legal only for rows that are no longer than a block.
_UNORDERED = frozenset({"tile", "store", "accumulate"})


def launch_of(
    nest: LoopNest,
    schedule: Schedule,
    lengths: Sequence[int],
    strides: Sequence[Sequence[int]],
    turns: int = 0,
) -> tuple[list[int], Extent]:
    """Words after the strides, and how a nest is run by a legal schedule.

    Args:
        nest: what is computed.
        schedule: how.
        lengths: of all loops.
        strides: of loads, then of stores, in bytes.
        turns: as `choose` has it.

    Raises:
        IllegalScheduleError: the schedule is not legal for the nest.
    """
    return template_of(nest, schedule).launch(nest, schedule, lengths, strides, turns)


def emit_nest(
    module: Module, nest: LoopNest, name: str, schedule: Schedule = DEFAULT
) -> None:
    """Append the function of a nest to a module.

    Args:
        module: where.
        nest: what.
        name: the function's.
        schedule: how it is run.

    Raises:
        IllegalScheduleError: the schedule is not legal for the nest.
    """
    template_of(nest, schedule).emit(module, nest, name, schedule)


def template_of(nest: LoopNest, schedule: Schedule) -> Template:
    """The one way to run a nest by a schedule.

    Raises:
        IllegalScheduleError: there is none.
    """
    kind = kind_of(nest, schedule)
    template = _templates(nest).get(kind)
    if template is None or not template.is_legal(kind, nest, schedule):
        raise IllegalScheduleError(f"no {kind.strategy} nest like this runs so: {schedule}")
    return template


def _templates(nest: LoopNest) -> Mapping[Kind, Template]:
    """The table for a nest."""
    if not nest.reduced:
        from fuser.backends.cpu.scheduling import map_templates

        return map_templates.TEMPLATES
    from fuser.backends.cpu.scheduling import (
        reduction_templates,  # many kernels need none
    )

    return reduction_templates.TEMPLATES
