"""Prepared programs: their steps by kind."""

from typing import Any

import numpy as np

import fuser
from fuser.program_spec import GraphBreak, Program, Stage
from fuser.programs import partition


def test_steps_by_kind() -> None:
    """Stages and graph breaks in the order of execution, and nothing else."""
    def function(x: Any) -> Any:
        return np.sort(x * 2) + 1

    program = partition.prepare(fuser.trace(function, np.ones(3)))
    assert isinstance(program, Program)
    assert [type(step) for step in program.steps] == [Stage, GraphBreak, Stage]
    first, between, last = program.steps
    assert program.stages + program.graph_breaks == (first, last, between)
