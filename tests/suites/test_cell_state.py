"""A cell and its rows while they are measured."""

import numpy as np

from fuser.suites.cell_state import CellState, Row, elsewhere
from fuser.suites.plan import LARGE_ELEMENTS, CellPlan
from fuser.suites.runners import EagerRunner
from tests.suites import cheats


def state_of(elements: int) -> CellState:
    """Return the state of DOUBLE at a size."""
    plan = CellPlan("double", "float32", elements, "S")
    return CellState(0, plan, cheats.DOUBLE)


def test_seeds_depend_on_cell_run_and_phase() -> None:
    """So that no two phases have the same values."""
    seeds = {state_of(n).seed(phase, run) for n in (1, 2) for phase in (0, 1) for run in (0, 1)}
    assert len(seeds) == 8


def test_inputs_are_those_of_the_plan() -> None:
    """Their bytes are counted, numbers are not."""
    state = state_of(100)
    state.arguments = (*state.inputs(1), 2.5)
    assert state.input_bytes() == 400
    assert not state.large
    assert state_of(LARGE_ELEMENTS + 1).large
    assert state.tolerance() == cheats.DOUBLE.tolerance("float32", 100)


def test_a_block_costs_its_living_rows() -> None:
    """Each the sample and one call before it."""
    state = state_of(1)
    row = Row(0, EagerRunner(), cheats.double, calls=9, call_s=0.5)
    state.rows = [row, Row(1, EagerRunner(), cheats.double, calls=1, call_s=1.0, alive=False)]
    assert state.block_s() == 5.0
    assert row.found("result") == "result"
    row.buffers = (1,)
    assert row.found("result") == (1,)


def test_blocks_have_their_arrays_in_other_memory() -> None:
    """The same values, gaps and directions; views of one array are views of one copy of it."""
    rows = np.arange(24.0).reshape(4, 6)
    columns = np.asfortranarray(rows)
    arrays = (
        rows[1:, ::2], rows[::-1], rows, columns, columns[1:3], np.broadcast_to(rows[0], (3, 6)),
        np.array(5.0), np.zeros((0, 3)), np.frombuffer(b"12345678", np.int32)[1:],
    )
    found = elsewhere((*arrays, 3.0))
    assert found[-1] == 3.0
    for moved, array in zip(found, arrays, strict=False):
        np.testing.assert_array_equal(moved, array)
        assert moved.strides == array.strides
        assert not np.shares_memory(moved, array)
    assert np.shares_memory(found[0], found[1])
