"""How often a loop nest that reduces runs through its elements: levels and stages of values."""

from __future__ import annotations

from collections.abc import Collection

from fuser.codegen import LoopNest


def classify(nest: LoopNest, steady: Collection[int]) -> tuple[list[int], list[int]]:
    """Levels and stages of a nest's values, by number.

    Args:
        nest: its loads, leaves and body.
        steady: loads that stay the same along the reduced loops.

    Returns:
        Levels: 0 a call, 1 a result, 2 an element. Stages: how many reductions, one after
        another, must be done before a value can be computed.
    """
    first = nest.value_count - len(nest.body)
    levels = [1 if k in steady else 2 for k in range(len(nest.loads))]
    levels += [0] * (first - len(levels))
    stages = [0] * first
    for instruction in nest.body:
        stage = max((stages[k] for k in instruction.operands), default=0)
        if instruction.row.reduction:
            levels.append(1)
            stages.append(stage + 1)
        else:
            levels.append(max((levels[k] for k in instruction.operands), default=0))
            stages.append(stage)
    return levels, stages
