"""Prepared programs: their steps by kind."""

from typing import Any

import numpy as np

import fuser
from fuser.program_spec import Program, Seam, Stage
from fuser.programs import partition


def test_steps_by_kind() -> None:
    """Stages and seams in the order of execution, and nothing else."""
    def function(x: Any) -> Any:
        return np.sort(x * 2) + 1

    program = partition.prepare(fuser.trace(function, np.ones(3)))
    assert isinstance(program, Program)
    assert [type(step) for step in program.steps] == [Stage, Seam, Stage]
    assert program.stages + program.seams == (program.steps[0], program.steps[2], program.steps[1])
