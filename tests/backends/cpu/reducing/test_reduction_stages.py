"""Levels and stages of reducing nests; costly values are computed once."""

from typing import Any

import numpy as np
import pytest

import fuser
from fuser.backends.cpu.costs import per_element
from fuser.backends.cpu.reducing.reduction_stages import Kept, Stages, unrolled
from fuser.backends.cpu.tuning import ROW_UNROLL
from fuser.codegen import Instruction, LoopNest, loop_nest
from fuser.ir.specs import CONTIGUOUS, INVARIANT, STRIDED, SectionSpec, TensorDesc
from fuser.passes.rewrite import rewrite


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
    assert stages.kept == {3: Kept(1, 0, 2)}
    assert stages.needed(2) == [3, 5]
    assert stages.computed(2) == [5]
    assert [i.op for i in per_element(_softmax_nest())].count("exp") == 1
    assert not Stages(_softmax_nest("float64")).kept


def test_an_operand_that_repeats_is_loaded_once_a_row() -> None:
    """Its level is that of results."""
    repeated = TensorDesc("float32", INVARIANT)
    body = (Instruction("sum", (0,), "float32", "float32"),)
    stages = Stages(LoopNest(2, (repeated,), (), (), body, ((1, repeated),), False, "row", 1))
    assert stages.levels[0] == 1


def test_running_values_of_one_stage_share_registers() -> None:
    """Two sums, then three about them: four vectors of each stage's own, two of all five."""
    rows = TensorDesc("float64", CONTIGUOUS, False, STRIDED)
    names = (("sum", (0,)), ("sum", (1,)), ("subtract", (0, 2)), ("subtract", (1, 3)),
             ("max", (4,)), ("max", (5,)), ("min", (4,)))  # fmt: skip
    body = tuple(Instruction(op, args, "float64", "float64") for op, args in names)
    stores = tuple((k, TensorDesc("float64", INVARIANT, False, CONTIGUOUS)) for k in (6, 7, 8))
    nest = LoopNest(2, (rows, rows), (), (), body, stores, False, "row", 1)
    assert unrolled(nest, ROW_UNROLL, by_stage=True) == 4
    assert unrolled(nest, ROW_UNROLL) == 2


def gated_norm(gate: Any, x: Any, weight: Any) -> Any:
    """A gate, its rows' mean and deviation, and a weight for each column."""
    y = np.tanh(gate) * x
    centred = y - y.mean(-1, keepdims=True)
    return weight * centred / np.sqrt((centred * centred).mean(-1, keepdims=True) + 1)


def noisy_softmax(x: Any, noise: Any, weight: Any) -> Any:
    """Costly values for the greatest of a row, then other ones for its sum."""
    z = x - np.log1p(abs(noise))
    e = np.exp(z - z.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True) * weight


def gated_softmax(x: Any, gate: Any, weight: Any) -> Any:
    """The last stage needs an operand with elements of its own."""
    e = np.exp(x - x.max(-1, keepdims=True))
    return e * gate / e.sum(-1, keepdims=True) + weight


def root_norm(gate: Any, x: Any, weight: Any) -> Any:
    """One stage of sums only."""
    y = gate / (1 + np.exp(-gate)) * x
    return y * weight / np.sqrt((y * y).mean(-1, keepdims=True) + 1)


#: name -> (function, (operation that is kept, stage that computes it, last one that reads it))
KEPT: dict[str, tuple[Any, list[tuple[str, int, int]]]] = {
    "for two stages": (gated_norm, [("multiply", 0, 2)]),
    "then another": (noisy_softmax, [("subtract", 0, 1), ("exp", 1, 2)]),
    "not beside an operand": (gated_softmax, []),
    "one stage": (root_norm, [("multiply", 0, 1)]),
}


def _stages_of(function: Any) -> Stages:
    """The stages of a function of two matrices and a row."""
    matrix = np.ones((4, 6), np.float32)
    graph, _ = rewrite(fuser.trace(function, matrix, matrix, matrix[0]))
    ((section,),) = (group.sections for group in fuser.scheduling.schedule.plan(graph).groups)
    besides = [INVARIANT if part.views else STRIDED for part in section.loads]
    tensors = [TensorDesc("float32", CONTIGUOUS, beside=beside) for beside in (*besides, STRIDED)]
    return Stages(loop_nest(section, SectionSpec(2, tuple(tensors), "row", 1)))


@pytest.mark.parametrize("name", KEPT)
def test_costly_values_are_kept_for_all_later_stages(name: str) -> None:
    """They are computed once, unless a later stage loads what their place may hold."""
    function, expected = KEPT[name]
    stages = _stages_of(function)
    found = [
        (stages.nest.body[number - stages.first].op, kept.made, kept.until)
        for number, kept in stages.kept.items()
    ]
    assert found == expected


SHAPES = ((40, 5), (9, 64), (7, 100), (300, 257), (2, 100_001), (1, 70_000), (1, 800_000))


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("name", KEPT)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_kept_values_and_operands_share_memory(
    name: str, shape: tuple[int, int], dtype: str
) -> None:
    """Results written over each operand are those written elsewhere, bit by bit; NaN, inf too."""
    function = KEPT[name][0]
    fused = fuser.fuse(function, fallback="error")
    random = np.random.default_rng(4)
    x, y = (random.normal(size=shape).astype(dtype) for _ in range(2))
    weight = random.normal(size=shape[1]).astype(dtype)
    x[0, 3], y[-1, 1], x[-1, 0] = -0.0, np.inf, np.nan
    for given in ((x[1:], y[1:], weight), (x, y, weight)):
        with np.errstate(all="ignore"):
            wanted = function(*(each.astype("float64") for each in given))
        plain = fused(*given)
        np.testing.assert_allclose(
            plain, wanted, rtol=1e-4 if dtype == "float32" else 1e-11, atol=1e-6
        )
        for place in (0, 1):
            copies = [each.copy() for each in given]
            np.testing.assert_array_equal(fused(*copies, out=copies[place]), plain)
