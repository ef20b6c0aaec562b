"""The parts of a record beside its cells: what crosses kernels, where a call's time goes, texts.

They are dataclasses of their own because only some machines and runs have them; every one may be
empty. Times are in seconds, sizes in bytes.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

CallPath = Literal["native", "python", "fallback", "gpu"]
Method = Literal["ablation", "stamps"]
CacheState = Literal["cold", "disk cache"]
CrossingKind = Literal["stored", "read-again", "graph-break"]
Proof = Literal["timed", "verified", "never"]


@dataclass(frozen=True, slots=True)
class Boundary:
    """An array that crosses the kernels of a fused plan, and why it must."""

    array: str  # as the plan calls it: "t0"
    value: str  # in the user's terms: "exp#3 (model.py:12)"
    kind: CrossingKind
    moved_bytes: int  # written and read beyond the least possible because it crosses
    reason: str  # a code of the fuser
    meaning: str = ""  # its sentence
    written_by: int | str | None = None  # a kernel's number, a function's name; None: an argument
    read_by: Sequence[int | str] = ()


@dataclass(frozen=True, slots=True)
class MachineLoad:
    """What else the machine did while one process measured one cell.

    Attributes:
        process: its number.
        wall_s: how long the cell's blocks took together, seconds.
        others_s: what other processes had of all processors meanwhile, seconds.
        steal_s: what the hypervisor gave to other machines; None where the system does not tell.
        load: the load average of one minute, before the first block and after the last.
        frequency_hz: the processors' mean clock rate then; empty where the system does not tell.
        throttles: how often a processor was slowed for its heat in between; None: not told.
    """

    process: int
    wall_s: float
    others_s: float
    steal_s: float | None = None
    load: Sequence[float] = ()
    frequency_hz: Sequence[float] = ()
    throttles: int | None = None

    @property
    def other_cores(self) -> float:
        """How many processors others kept busy, in the mean; 0 where nothing was timed."""
        return self.others_s / self.wall_s if self.wall_s else 0.0

    @property
    def steal_cores(self) -> float:
        """How many processors the hypervisor took, in the mean."""
        return (self.steal_s or 0.0) / self.wall_s if self.wall_s else 0.0


@dataclass(frozen=True, slots=True)
class Arithmetic:
    """Speed of arithmetic without memory: `operations` of a dtype in each of `seconds`."""

    dtype: str
    operations: int
    threads: int
    process: int
    seconds: Sequence[float]
    by: str = "fuser"


@dataclass(frozen=True, slots=True)
class Anatomy:
    """Where one call's time goes.

    By `ablation` the parts are measured apart (an entry that does nothing, checks, allocation,
    kernel); by `stamps` they are read off a clock inside the call. The whole is measured by
    itself, so that what the parts leave unexplained is known. One number a process.

    Attributes:
        unexplained_s: the parts' sum less the whole: where its interval over the rounds of a
            process begins, the number, where it ends. One such three a process.
    """

    subject: str  # what is called, on what
    path: CallPath
    method: Method
    parts_s: Mapping[str, Sequence[float]]  # in the order of the call
    whole_s: Sequence[float]
    unexplained_s: Sequence[Sequence[float]] = ()


@dataclass(frozen=True, slots=True)
class FirstCall:
    """The first call of a function by stages, with nothing kept or with machine code on disk."""

    workload: str
    state: CacheState
    seconds: Sequence[float]  # one a repetition
    stages_s: Mapping[str, Sequence[float]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class CoverageCell:
    """How one operation at one dtype and layout is held to account."""

    operation: str
    dtype: str
    layout: str
    proof: Proof
    by: Sequence[str] = ()  # workloads that time it, or the test that verifies it
