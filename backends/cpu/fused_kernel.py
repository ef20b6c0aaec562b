"""A compiled CPU kernel: machine code of one group, and how to launch it."""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Callable, Sequence
from contextvars import ContextVar
from typing import Any

from fuser.backend import Kernel
from fuser.backends.cpu import costs, tuning
from fuser.backends.cpu.body import Features
from fuser.backends.cpu.emit import emit
from fuser.backends.cpu.machine import loader, team_code, workers
from fuser.backends.cpu.schedule import DEFAULT, Schedule
from fuser.backends.cpu.scheduling import kept
from fuser.backends.cpu.scheduling.choose import choose, writes_past_caches
from fuser.backends.cpu.scheduling.schedules import launch_of, legal_schedules
from fuser.backends.cpu.section import packs
from fuser.base import forks
from fuser.base.contexts import assigned
from fuser.base.records import changed, record
from fuser.codegen import LoopNest
from fuser.runtime.symbolic import Symbolic

#: Of a loop nest's function, see `emit`.
PROTOTYPE = ctypes.CFUNCTYPE(
    ctypes.c_int32,
    ctypes.c_char_p,
    ctypes.c_int64,
    ctypes.c_int64,
    ctypes.c_int64,
    ctypes.c_int64,
)

STREAMING = Schedule(store="streaming")


@record
class Met:
    """A loop nest at the lengths of one call.

    Attributes:
        kernel: its name.
        section: the nest's number in it.
        nest: what is computed.
        lengths: of its loops.
        chosen: the schedule by its lengths.
        used: the one that is kept for this machine; else the chosen one.
        legal: all that compute it rightly.
    """

    kernel: str
    section: int
    nest: LoopNest
    lengths: tuple[int, ...]
    chosen: Schedule
    used: Schedule
    legal: list[Schedule]


@record
class Trial:
    """A binding whose schedules are looked at, or one of which is given.

    Attributes:
        met: loop nests whose schedule was asked for; those that run by row blocks are left out.
        forced: a kernel and a number of a nest, and its schedule; others have the chosen ones.
    """

    met: list[Met]
    forced: tuple[tuple[str, int], Schedule] | None = None


#: What a binding of this thread is asked to do.
TRIAL: ContextVar[Trial | None] = ContextVar("trial", default=None)


def bound_in(trial: Trial, bind: Callable[[], Any]) -> Any:
    """What binding gives while schedules are looked at, or one is given."""
    with assigned(TRIAL, trial):
        return bind()


def _plain(schedule: Schedule) -> Schedule:
    """A schedule in plain numbers: code is written for those of a call, so they are pinned."""
    given = {name: getattr(schedule, name) for name in type(schedule).__match_args__}
    numbers = {name: int(value) for name, value in given.items() if isinstance(value, Symbolic)}
    return changed(schedule, **numbers) if numbers else schedule


@record
class _Function:
    """Linked machine code of a loop nest: what keeps it alive, its address, a callable."""

    library: Any
    address: int
    call: Any


class FusedKernelCPU(Kernel):
    """Machine code for the loop nests of one group, by the schedules that calls have asked for."""

    def __init__(
        self, name: str, text: str, nests: Sequence[LoopNest], features: Features
    ) -> None:
        """Compile nothing yet: the lengths of a call say by which schedules its loop nests run.

        Args:
            name: the stem of the functions' names.
            text: the LLVM IR of the loop nests, by the default schedule.
            nests: its loop nests.
            features: what the text may use.
        """
        self.name = name
        self._text = text
        self.nests = tuple(nests)
        self._features = features
        self._digests: dict[int, str] = {}
        self._tiled = [packs(nest) for nest in nests]
        self._costs = [costs.cost_ns(nest) for nest in nests]
        self._usual: set[int] = set()
        self._functions: dict[tuple[Schedule, int], _Function] = {}
        self._lock = forks.lock()

    def _function(self, schedule: Schedule, section: int) -> _Function:
        """One loop nest by some schedule, compiled when first wanted.

        It is the same kernel, and is not counted again. Loop nests by the usual schedule are
        compiled together: those for which a call was laid out so.
        """
        found = self._functions.get((schedule, section))
        if found is not None:
            return found
        with self._lock:
            if (schedule, section) not in self._functions:
                wanted = [section]
                if schedule == DEFAULT:
                    usual = {section, *self._usual}
                    wanted = sorted(k for k in usual if (DEFAULT, k) not in self._functions)
                text = self._text
                if schedule != DEFAULT or len(wanted) < len(self.nests):
                    text = emit(self.nests, self.name, self._features, schedule, wanted)
                exports = [f"{self.name}.{k}" for k in wanted]
                code, imports = loader.to_object(text), loader.imports_of(text)
                library, addresses = loader.load(code, exports, imports)
                for k, address in zip(wanted, addresses, strict=True):
                    made = _Function(library, address, PROTOTYPE(address))
                    self._functions[schedule, k] = made
            return self._functions[schedule, section]

    def plain_nests(self) -> dict[int, tuple[LoopNest, int]]:
        """Loop nests that touch what their strides say, by the addresses of their functions.

        Any rows of theirs can be computed by themselves. Each comes with the address of the
        function that writes into the cache.
        """
        with self._lock:
            functions = list(self._functions.items())
        return {
            function.address: (self.nests[section], self._function(DEFAULT, section).address)
            for (schedule, section), function in functions
            if schedule in (DEFAULT, STREAMING) and self.nests[section].strategy == "map"
            and not any(each.row.moves_apart for each in self.nests[section].body)
        }  # fmt: skip

    def work_ns(self, section: int, extent: Any) -> float:
        """Estimated nanoseconds of one loop nest on one thread."""
        elements = getattr(extent, "elements", extent[0] * extent[1])
        return float(elements * self._costs[section])

    def element_ns(self, section: int) -> float:
        """Estimated nanoseconds of one element of a loop nest."""
        return self._costs[section]

    def address_of(self, section: int, extent: Any) -> int:
        """The function of one loop nest, by the schedule that an extent says."""
        past = self.streaming_address(section, extent)
        return past or self._function(costs.schedule_of(extent), section).address

    def words_of(
        self, section: int, lengths: Sequence[int], strides: Sequence[Sequence[int]]
    ) -> tuple[list[int], Any]:
        """As the base class; a reduction takes all lengths, the reduced one last."""
        return self._words_of(section, lengths, strides, 0)

    def lay_out_rows(
        self, section: int, lengths: Sequence[int], strides: Sequence[Sequence[int]], turns: int
    ) -> tuple[bytes, Any]:
        """As the base class: never in parts, which threads would have to wait for."""
        words, extent = self._words_of(section, lengths, strides, turns)
        return struct.pack(f"={len(words)}q", *words), extent

    def _words_of(
        self, section: int, lengths: Sequence[int], strides: Sequence[Sequence[int]], turns: int
    ) -> tuple[list[int], Any]:
        """Choose the schedule of one loop nest; its words and extent."""
        nest = self.nests[section]
        words, whole = super().words_of(section, lengths, strides)
        schedule = _plain(self._schedule_of(section, lengths, strides, turns))
        if schedule == DEFAULT:
            self._usual.add(section)
        if nest.strategy == "map" and schedule == DEFAULT:
            return words, whole
        extra, extent = launch_of(nest, schedule, lengths, strides, turns)
        if not nest.reduced:
            return words, extent
        return [*lengths, *(step for operand in strides for step in operand), *extra], extent

    def _schedule_of(
        self, section: int, lengths: Sequence[int], strides: Sequence[Sequence[int]], turns: int
    ) -> Schedule:
        """The schedule of one loop nest: the chosen one, one that is kept, or one that is tried."""
        nest, trial = self.nests[section], TRIAL.get()
        chosen = choose(nest, lengths, strides, self._features, turns)
        if turns or (trial is None and not kept.known()):
            return chosen
        if trial is not None and trial.forced is not None:
            place, schedule = trial.forced
            return schedule if place == (self.name, section) else chosen
        digest = self._digests.get(section) or kept.digest_of(nest)
        self._digests[section] = digest
        used = kept.find(digest, nest, lengths, strides, chosen)
        if trial is not None:
            legal = legal_schedules(nest, lengths, strides)
            trial.met.append(Met(self.name, section, nest, tuple(lengths), chosen, used, legal))
        return used

    def share(self, section: int, extent: Any, threads: int) -> list[int]:
        """How the work of one loop nest is shared out.

        Returns:
            Function address, outer iterations, inner length, rows and elements of a chunk,
            chunks a row, chunks in all, and helping threads (0: the caller does all; with
            `team_code.ORDERED` where later chunks wait for earlier ones, `team_code.TOGETHER`
            where chunks side by side may be one, and `team_code.BRIEF` where work is brief).
        """
        outer, inner = extent[:2]
        address = self._function(costs.schedule_of(extent), section).address
        if isinstance(extent, costs.Extent):
            ochunk, ichunk = extent.ochunk, extent.ichunk
        else:
            chunk = costs.chunk_elements(outer * inner, self._costs[section])
            ochunk, ichunk = workers.chunking(outer, inner, self._tiled[section], chunk)
        iparts = -(-inner // ichunk)
        total = -(-outer // ochunk) * iparts
        work_ns = self.work_ns(section, extent)
        helpers = costs.helpers(work_ns, total, threads)
        if helpers and work_ns < tuning.BRIEF_NS:
            helpers |= team_code.BRIEF
        if helpers and costs.in_order(extent):
            helpers |= team_code.ORDERED
        if helpers and self.nests[section].strategy == "map":
            helpers |= team_code.TOGETHER
        return [address, outer, inner, ochunk, ichunk, iparts, total, helpers]

    def streaming_address(self, section: int, extent: Any) -> int:
        """The variant that writes past the caches, where that is better; or 0."""
        usual = costs.schedule_of(extent) == DEFAULT
        if not usual or not writes_past_caches(self.nests[section], extent[0] * extent[1]):
            return 0
        return self._function(STREAMING, section).address

    def launch(self, section: int, block: Any, extent: Any) -> int:
        """Run one loop nest over its whole extent; the GIL is released meanwhile."""
        team = workers.workers()
        threads = workers.thread_count() if team is not None else 1
        address, outer, inner, ochunk, ichunk, *_, helpers = self.share(section, extent, threads)
        if team is None or not helpers:
            function = self._function(costs.schedule_of(extent), section)
            return int(function.call(block, 0, outer, 0, inner))
        return team.run(
            address, block, outer, inner, helpers % team_code.ORDERED + 1, (ochunk, ichunk),
            ordered=bool(helpers & team_code.ORDERED), together=bool(helpers & team_code.TOGETHER),
            brief=bool(helpers & team_code.BRIEF),
        )  # fmt: skip

    def text(self, kind: str) -> str:
        """LLVM IR ("source", "optimized": no optimiser runs on it) or "asm"."""
        return loader.shown(self._text, kind)
