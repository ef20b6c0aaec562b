"""The stages of a loop nest whose loops reduce something."""

from collections.abc import Sequence

from fuser.codegen import LoopNest
from fuser.ir.ops import TABLE


def reducing_stages(nest: LoopNest, stages: Sequence[int]) -> list[int]:
    """Their numbers, in order.

    Args:
        nest: the loop nest.
        stages: of its values, as `classify` gives them.
    """
    first = nest.value_count - len(nest.body)
    reduced = (
        place for place, instruction in enumerate(nest.body) if TABLE[instruction.op].reduction
    )
    return sorted({stages[first + place] - 1 for place in reduced})
