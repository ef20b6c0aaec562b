"""Which pass over the elements computes, needs and keeps what."""

from __future__ import annotations

import numpy as np

from fuser.backends.gpu.stages import Stages
from fuser.codegen import LoopNest
from tests.backends.gpu.units import nests_of
from tests.softmax import softmax


def only(nests: list[LoopNest]) -> Stages:
    """The stages of a function that is one nest."""
    (nest,) = nests
    return Stages(nest)


def test_a_normalisation_has_a_pass_for_each_reduction_and_one_that_stores() -> None:
    """The operand is loaded in the first, kept, and needed in all."""
    stages = only(nests_of(softmax, np.ones((4, 8), np.float32)))
    assert stages.last == 2
    assert [[part.op for part in state.parts] for state in stages.states] == [["max"], ["sum"], []]
    assert [stages.loads_of(stage) for stage in range(3)] == [[0], [0], [0]]
    assert stages.kept() == {0: 0}
    assert stages.kept_bytes == 16
    assert stages.stores_of(2) == [0]
    assert stages.unroll(0) == 4
    assert stages.unroll(1) == 2, "costly operations are repeated less"


def test_one_pass_computes_several_reductions_and_keeps_nothing() -> None:
    """Results are written after it."""
    stages = only(nests_of(lambda x: (x.sum(axis=1), x.argmax(axis=1)), np.ones((4, 8))))
    assert stages.last == 0
    assert stages.kept() == {}
    assert stages.state_bytes == 32, "a sum, what it lost, a value and its place"


def test_columns_hold_few_states() -> None:
    """A thread's running values fit its registers: fewer columns for larger states."""
    x = np.ones((8, 64), np.float16)
    assert only(nests_of(lambda v: v.max(axis=0), x)).width == 8
    wide = only(nests_of(lambda v: (v.argmax(axis=0), v.argmin(axis=0), v.sum(axis=0)), x))
    assert wide.width * wide.state_bytes <= 128


def test_kept_operands_lie_one_after_another() -> None:
    """The largest vectors first, so that all of them are aligned."""

    def scaled(x: np.ndarray, y: np.ndarray) -> np.ndarray:
        product = x * y
        return product / product.sum(axis=1, keepdims=True)

    x, y = np.ones((4, 8), np.float32), np.ones((4, 8), np.float64)
    stages = only(nests_of(scaled, x, y))
    assert list(stages.kept()) == [1, 0]
    assert [stages.kept_before(k) for k in (1, 0)] == [0, stages.vector_bytes(1)]
