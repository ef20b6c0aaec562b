"""Levels and stages of values in a loop nest that reduces."""

from fuser.codegen import Instruction, LoopNest
from fuser.ir.specs import CONTIGUOUS, INVARIANT, TensorDesc
from fuser.traffic.stages import Stages


def test_levels_and_stages() -> None:
    """A softmax: its maximum, its sum, its elements; what is the same for a row is a result."""

    def single(op: str, *operands: int) -> Instruction:
        return Instruction(op, operands, "float32", "float32")

    loads = (TensorDesc("float32", CONTIGUOUS), TensorDesc("float32", INVARIANT))
    body = (
        single("max", 0), single("subtract", 0, 3), single("exp", 4), single("sum", 5),
        single("divide", 5, 6), single("multiply", 1, 2),
    )  # fmt: skip
    nest = LoopNest(1, loads, ("float32",), (), body, (), False, "row", 1)
    stages = Stages(nest)
    assert stages.levels == [2, 1, 0, 1, 2, 2, 1, 2, 1]
    assert stages.stage_of == [0, 0, 0, 1, 1, 1, 2, 2, 0]
    assert [stages.needed(stage) for stage in (0, 1)] == [[0], [0, 4, 5]]
    assert [stages.loads_of(stage) for stage in (0, 1)] == [[0], [0]]
