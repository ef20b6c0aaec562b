"""Levels and stages of reducing nests; costly values are computed once."""

import numpy as np

import fuser
from fuser.backends.cpu.costs import per_element
from fuser.backends.cpu.reducing.reduction_stages import Stages
from fuser.codegen import Instruction, LoopNest
from fuser.specs import CONTIGUOUS, INVARIANT, TensorDesc


def _softmax_nest(store: str = "float32") -> LoopNest:
    """exp(x - max(x)) / sum(exp(x - max(x))) over rows."""
    names = (("max", (0,)), ("subtract", (0, 1)), ("exp", (2,)), ("sum", (3,)), ("divide", (3, 4)))
    body = tuple(Instruction(op, args, "float32", "float32") for op, args in names)
    load = TensorDesc("float32", CONTIGUOUS)
    return LoopNest(
        2, (load,), (), (), body, ((5, TensorDesc(store, CONTIGUOUS)),), False, "row", 1
    )


def test_stages_end_where_results_are_needed() -> None:
    """Softmax: the greatest, the sum of exponentials, the quotients."""
    stages = Stages(_softmax_nest())
    assert stages.loops == [0, 1, 2]
    assert [[a.op for a in stages.reductions_of(k)] for k in stages.loops] == [["max"], ["sum"], []]
    assert stages.final == 2
    assert [stages.levels[k] for k in range(6)] == [2, 1, 2, 2, 1, 2]


def test_exponentials_are_kept_where_the_result_goes() -> None:
    """Not where the result has another dtype than they."""
    stages = Stages(_softmax_nest())
    assert stages.kept == {3: (1, 0)}
    assert stages.needed(2) == [3, 5]
    assert stages.computed(2) == [5]
    assert [i.op for i in per_element(_softmax_nest())].count("exp") == 1
    assert not Stages(_softmax_nest("float64")).kept


def test_kept_values_survive_a_result_written_over_the_operand() -> None:
    """Softmax in place, in rows that are short, whole or cut."""

    def softmax(x: np.ndarray) -> np.ndarray:
        e = np.exp(x - x.max(-1, keepdims=True))
        return e / e.sum(-1, keepdims=True)

    fused = fuser.fuse(softmax, fallback="error")
    for shape in ((40, 5), (7, 100), (2, 100_001)):
        x = np.random.default_rng(3).normal(size=shape).astype(np.float32)
        wanted, target = softmax(x), x.copy()
        assert np.allclose(fused(target, out=target), wanted, rtol=1e-5)
        assert np.allclose(target, wanted, rtol=1e-5)


def test_an_operand_that_repeats_is_loaded_once_a_row() -> None:
    """Its level is that of results."""
    repeated = TensorDesc("float32", INVARIANT)
    body = (Instruction("sum", (0,), "float32", "float32"),)
    stages = Stages(LoopNest(2, (repeated,), (), (), body, ((1, repeated),), False, "row", 1))
    assert stages.levels[0] == 1
