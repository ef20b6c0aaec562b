"""One cell and its rows while a process measures them."""

import zlib
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from fuser.suites.checks.by_rows import expected_of
from fuser.suites.checks.verify import Expected
from fuser.suites.machine_load import CellLoad
from fuser.suites.plan import LARGE_ELEMENTS, CellPlan
from fuser.suites.runners import Runner
from fuser.suites.workload import Arguments, Workload


@dataclass(frozen=True, slots=True)
class Limits:
    """How long and how finely to measure."""

    time_s: float
    least_sample_s: float
    least_blocks: int
    most_blocks: int
    memory_bytes: int
    seed: int
    longest_call_s: float = 60.0
    turn: int | None = None  # which of a group's processes this is; None: there is no other
    together: int = 1  # processes that take blocks in turns, this one among them


@dataclass(slots=True)
class Row:
    """One variant on one cell, in this process."""

    variant: int
    runner: Runner
    call: Callable[..., Any]
    buffers: Arguments = ()  # where its results go, if they do not come in new arrays
    given: Arguments | None = None  # the cell's arguments as the runner's own arrays
    calls: int = 1
    call_s: float = 0.0
    alive: bool = True

    def arguments(self, state: "CellState") -> Arguments:
        """Return what a call is given; converted when the cell's values are new."""
        if self.given is None:
            self.given = self.runner.accept(state.arguments)
        return self.given

    def found(self, result: Any) -> Any:
        """Return what is judged: the buffers, where the results had to go there."""
        return self.buffers or result


@dataclass(slots=True)
class CellState:
    """One cell while it is measured: its arguments and the rows that may be timed."""

    index: int
    plan: CellPlan
    workload: Workload
    arguments: Arguments = ()
    rows: list[Row] = field(default_factory=list)
    check_s: float = 0.0
    load: CellLoad = field(default_factory=CellLoad)

    def seed(self, phase: int, run_seed: int) -> int:
        """Return a seed that depends on the cell, the run and the phase."""
        return zlib.crc32(f"{self.plan.id}/{run_seed}/{phase}".encode())

    def inputs(self, seed: int) -> Arguments:
        """Return the arguments of one call."""
        plan = self.plan
        return self.workload.inputs(plan.elements, plan.dtype, seed, plan.axes)

    def move(self) -> None:
        """Move the arguments to other memory, which the caches see in another way.

        Pages that share places of a cache, or banks of the memory, slow one process and not the
        next: blocks that all had the same pages would tell of their luck.
        """
        self.arguments = elsewhere(self.arguments)
        for row in self.rows:
            row.given = None

    @property
    def large(self) -> bool:
        """Whether making other values for the arguments takes longer than most calls."""
        return self.plan.elements > LARGE_ELEMENTS

    def expected(self, arguments: Arguments, seed: int) -> Expected:
        """Return the right results for the arguments."""
        return expected_of(self.workload, arguments, self.plan.dtype, seed)

    def tolerance(self) -> float:
        """Return how far a result may be from its reference."""
        plan = self.plan
        return self.workload.tolerance(plan.dtype, plan.elements, plan.axes)

    def block_s(self) -> float:
        """Return what one block of this cell costs: each row's warm-up call and its sample."""
        return sum((row.calls + 1) * row.call_s for row in self.rows if row.alive)

    def input_bytes(self) -> int:
        """Return the size of the arguments that are arrays."""
        return sum(each.nbytes for each in self.arguments if isinstance(each, np.ndarray))


def elsewhere(arguments: Arguments) -> Arguments:
    """Return the same values in other memory: views of one array are views of one copy again."""
    moved: dict[int, np.ndarray[Any, Any]] = {}

    def copied(argument: Any) -> Any:
        if not isinstance(argument, np.ndarray):
            return argument
        root = argument
        while isinstance(root.base, np.ndarray):
            root = root.base
        if not root.flags.forc:
            return argument
        if id(root) not in moved:
            moved[id(root)] = root.copy(order="A")
        memory = moved[id(root)].reshape(-1, order="A").view(np.uint8)
        offset = argument.ctypes.data - root.ctypes.data
        return np.ndarray(argument.shape, argument.dtype, memory, offset, argument.strides)

    return tuple(copied(each) for each in arguments)
