"""How the chooser has a reduction run: its words, and its extent."""

from collections.abc import Sequence

from fuser.backends.cpu.costs import Extent
from fuser.backends.cpu.scheduling.choose_reduction import choose_reduction
from fuser.backends.cpu.scheduling.schedules import launch_of
from fuser.codegen import LoopNest


def lay_out(
    nest: LoopNest, lengths: Sequence[int], *, turns: int = 0
) -> tuple[list[int], Extent]:
    """Words after the strides, and how a nest is run, without strides."""
    schedule = choose_reduction(nest, lengths, (), turns)
    return launch_of(nest, schedule, lengths, (), turns)
