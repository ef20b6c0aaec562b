"""Levels and stages of values in a loop nest that reduces."""

from fuser.codegen import Instruction, LoopNest
from fuser.ir.specs import CONTIGUOUS, INVARIANT, TensorDesc
from fuser.traffic.online_reductions import classify
from tests.fuser.scheduling.stages import reducing_stages


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
    levels, stages = classify(nest, {1})
    assert levels == [2, 1, 0, 1, 2, 2, 1, 2, 1]
    assert stages == [0, 0, 0, 1, 1, 1, 2, 2, 0]
    assert reducing_stages(nest, stages) == [0, 1]
