"""Random NumPy programs: fused, unfused and fallback give what NumPy gives.

HYPOTHESIS_MAX_EXAMPLES=5000 runs more of them, and other ones each time.
"""

from random import Random

import numpy as np
from hypothesis import HealthCheck, given, note
from hypothesis import strategies as st

import fuser
from tests.fuser.comparing import visible_strides
from tests.fuser.random_programs import Program, beyond, expected, random_program
from tests.fuser.randomly import randomly

RANDOM = randomly(40, HealthCheck.data_too_large)


def check(program: Program, mode: str) -> None:
    """Run a program in one mode beside NumPy."""
    wanted, errors = expected(program)
    fused = fuser.fuse(program.function(), mode=mode, fallback="error")
    for _ in range(2):  # a second call of one shape takes a shorter way
        with np.errstate(all="ignore"):
            found = fused(*program.inputs)
        for one, other, error in zip(wanted, found, errors, strict=True):
            assert type(one) is type(other)
            assert (one.dtype, one.shape) == (other.dtype, other.shape)
            assert visible_strides(one) == visible_strides(other)
            wrong = beyond(one, other, error)
            assert not wrong.any(), (np.asarray(one)[wrong], np.asarray(other)[wrong])


@RANDOM
@given(random=st.randoms(use_true_random=False))
def test_random_programs_give_what_numpy_gives(random: Random) -> None:
    """All dtypes, layouts, views, joins, choices and casts; exact where the rows are exact."""
    program = random_program(random)
    note(repr(program))
    for mode in ("fused", "unfused", "fallback"):
        check(program, mode)


@RANDOM
@given(seed=st.integers(0, 2**32))
def test_long_float_programs_stay_within_their_error(seed: int) -> None:
    """Twenty steps in float32 and float64, with broadcasting."""
    program = random_program(Random(seed), ("float32", "float64"), 20)
    note(repr(program))
    check(program, "fused")


@RANDOM
@given(seed=st.integers(0, 2**32))
def test_graphs_of_random_programs_survive_their_text(seed: int) -> None:
    """str, parse and run again: the same text, the same results, one key."""
    program = random_program(Random(seed), length=6)
    graph = fuser.trace(program, *program.inputs)
    again = fuser.parse(str(graph))
    assert str(again) == str(graph)
    key = fuser.register_fusion(graph)
    assert fuser.register_fusion(again) == key
    wanted, errors = expected(program)
    found = fuser.run_fusion(key, [np.asarray(x) for x in program.inputs])
    for one, other, error in zip(wanted, found, errors, strict=True):
        assert not beyond(one, other, error).any()
