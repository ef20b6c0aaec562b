"""Running programs: order, what is kept, what is written."""

from typing import Any

import numpy as np
import pytest

import fuser
from fuser import partition, program_run
from fuser.executor import CannotRun
from fuser.program import Program


def solved(a: Any, b: Any) -> Any:
    """One call between two kernels."""
    return np.linalg.solve(a * 2, b) + 1


def prepared(*args: Any) -> Program:
    """The program for these arguments."""
    found = partition.prepare(fuser.trace(solved, *args))
    assert isinstance(found, Program)
    return found


def test_an_output_goes_into_the_array_that_is_given() -> None:
    """By the last kernel itself; nothing is written where the function raises."""
    a, b, room = np.eye(3), np.arange(3.0), np.full(3, 7.0)
    program = prepared(a, b)
    sizes = {"n0": 3, "n1": 3, "n2": 3}
    with pytest.raises(CannotRun, match="Singular"):
        program_run.execute(program, {"x0": a * 0, "x1": b}, sizes, {0: room})
    assert (room == 7).all()
    (found,) = program_run.execute(program, {"x0": a, "x1": b}, sizes, {0: room})
    assert found is room
    assert room.tolist() == [1, 1.5, 2]
    with pytest.raises(fuser.ShapeError):
        program_run.execute(program, {"x0": a, "x1": b}, sizes, {0: np.ones(4)})


def test_kernels_are_known_after_a_run() -> None:
    """One for each stage."""
    a, b = np.eye(3), np.arange(3.0)
    kernels = program_run.kernels_of(
        prepared(a, b), {"x0": a, "x1": b}, {"n0": 3, "n1": 3, "n2": 3}
    )
    assert len(kernels) == 2


def test_functions_between_kernels_are_phases() -> None:
    """A profile tells what NumPy took, by function."""
    fused = fuser.fuse(solved, fallback="allow")
    fused(np.eye(3), np.ones(3))
    with fuser.profile() as seen:
        fused(np.eye(3), np.ones(3))
    assert ("numpy", "np.linalg.solve") in {(p.name, p.subject) for p in seen.phases}
