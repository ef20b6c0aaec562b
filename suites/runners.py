"""Who runs a workload: the contract, and the four runners that come with the harness.

A runner turns a workload's function into a callable. Other fusers plug in by an entry point of
group `fuser.runners` that names a `Runner` subclass; whatever it needs, it imports inside its
methods. `fuser-bench doctor` lists the runners found, the absent ones with their reason.
"""

import re
import types
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from hashlib import sha256
from importlib import import_module
from importlib.util import find_spec
from typing import Any, ClassVar, Literal

from fuser.suites import details
from fuser.suites.workload import Arguments

RunnerKind = Literal["eager", "fallback", "unfused", "fused", "peer", "into", "ceiling"]
ENTRY_POINTS = "fuser.runners"


@dataclass(frozen=True, slots=True)
class Facts:
    """What a runner can count about one prepared workload; None where it cannot."""

    kernels: int | None = None
    launches: int | None = None  # of one call
    fallback_reasons: tuple[str, ...] = ()
    unfused_bytes: int | None = None
    planned_bytes: int | None = None
    least_bytes: int | None = None
    allocations: int | None = None
    text_hashes: Mapping[str, str] = field(default_factory=dict)  # target -> sha256 of its text
    operations: int | None = None
    elementary: int | None = None
    peak_bytes: int | None = None  # most memory held during a call, beyond what was held before
    tasks: int | None = None  # of one call's graph, where a scheduler runs one
    handed_bytes: int | None = None  # what tasks give, once for each task that needs it
    boundaries: Sequence[Mapping[str, Any]] = ()  # fields of the record's `Boundary`
    texts: Mapping[str, str] = field(default_factory=dict)  # "plan", "source", … -> text


class NotExpressibleError(Exception):
    """A formula that a runner cannot take; the row is "not run", with this reason."""


@contextmanager
def refusals(what: str, *kinds: type[Exception]) -> Iterator[None]:
    """Surround what another library may refuse: its errors of these kinds are no failures.

    Raises:
        NotExpressibleError: with `what` before the error's first line.
    """
    try:
        yield
    except kinds as error:
        raise NotExpressibleError(f"{what}: {first_line(error)}") from error


def first_line(error: Exception) -> str:
    """Return the first line of an error's text that says something, at most 160 characters."""
    text = re.sub(r"\x1b\[[0-9;]*m", "", str(error))  # numba colours its messages
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    wanted = [line for line in lines if not line.startswith("Failed in nopython mode pipeline")]
    return (wanted or lines or [type(error).__name__])[0][:160]


class Runner:
    """The contract. A subclass gives the class attributes and `prepare`; the rest has defaults."""

    name: ClassVar[str] = ""
    kind: ClassVar[RunnerKind] = "peer"
    description: ClassVar[str] = ""
    own_process: ClassVar[bool] = True
    """Timed in processes that hold only this runner and eager: thread pools disturb others."""

    needs: ClassVar[Mapping[str, str]] = types.MappingProxyType({})
    """Modules that it imports, each with what pip installs it by."""
    starts: ClassVar[bool] = False
    """`start` compiles one trivial function: what loads with it is loaded."""
    typical_first_call_s: ClassVar[float] = 0.06
    """For the estimate of a run's length only."""
    own_arrays: ClassVar[bool] = False
    """Results of one that is no peer are arrays of another library than NumPy."""
    keeps_texts = False
    """Set on the runner whose plans, sources and assembly the record keeps: in one process."""
    writes_into: ClassVar[bool] = False
    """Its results go into arrays that the engine gives to `prepare_into`."""

    reuses = False
    """Set for long runs: `prepare` may give what it compiled for another size of the same types;
    `reused` then says so, and the first call is not recorded."""
    reused = False

    def unavailable(self) -> str | None:
        """Return why this runner cannot be used here and what to install, or None."""
        absent = (each for each in self.needs if find_spec(each) is None)
        if (module := next(absent, None)) is None:
            return None
        return f"{module} is not installed: pip install {self.needs[module]}"

    def once(self, key: Any, make: Callable[[], Any]) -> Any:
        """Return what `make` gives; what it gave for the same key before, in long runs."""
        kept = self.__dict__.setdefault("_kept", {})
        self.reused = self.reuses and key in kept
        if not self.reused:
            kept[key] = make()
        return kept[key]

    def start(self) -> None:
        """Load what is loaded once in a process, so that no first call pays for it."""
        if self.starts:
            import numpy as np

            one = (np.ones(16, np.float32),)
            self.prepare(_trivial, one)(*self.accept(one))

    def prepare(self, function: Callable[..., Any], arguments: Arguments) -> Callable[..., Any]:
        """Return what is called and timed. Nothing compiled for an earlier one is reused.

        The callable returns when its results are there: a runner that works in the background
        waits for them in it.

        Args:
            function: plain NumPy code.
            arguments: of one call; what is compiled may hold for their shapes and dtypes alone.

        Raises:
            NotExpressibleError: the runner has no form of this formula.
        """
        raise NotImplementedError

    def prepare_into(
        self, function: Callable[..., Any], arguments: Arguments, buffers: Arguments
    ) -> Callable[..., Any]:
        """Return what is called and timed and leaves its results in `buffers`.

        Only called where `writes_into` is set, instead of `prepare`, whose `function` and
        `arguments` it has too.
        """
        raise NotImplementedError

    def accept(self, arguments: Arguments) -> Arguments:
        """Return the arguments as this runner's own arrays; outside of the timed region."""
        return arguments

    def fetch(self, result: Any) -> Any:
        """Return a result as what NumPy can look at; outside of the timed region."""
        return result

    @contextmanager
    def observed(self) -> Iterator[dict[str, float]]:
        """Surround `prepare` and the first call; afterwards the dict holds stage -> seconds."""
        yield {}

    def facts(self, prepared: Callable[..., Any], arguments: Arguments) -> Facts:
        """Return what can be counted, after the first call and outside the timed region.

        Args:
            prepared: what `prepare` gave.
            arguments: of the call.
        """
        return Facts()

    def ceilings(self, process: int) -> Iterable[Mapping[str, Any]]:
        """Return the speed of the memory of its arrays, if not the host's, as a record's fields.

        Args:
            process: the number of the process that measures.
        """
        return ()

    def compiled_kernels(self) -> int | None:
        """Return how many kernels this process has compiled so far, where that is counted."""
        return None

    def fallbacks(self) -> int | None:
        """Return how many calls have fallen back so far, where that is counted."""
        return None


class EagerRunner(Runner):
    """The baseline: the function as it is."""

    name = "eager"
    kind: ClassVar[RunnerKind] = "eager"
    description = "plain NumPy, one operation at a time"
    own_process = False

    def prepare(self, function: Callable[..., Any], arguments: Arguments) -> Callable[..., Any]:
        """Return the function itself."""
        return function

    def facts(self, prepared: Callable[..., Any], arguments: Arguments) -> Facts:
        """Return the memory of a call; NumPy has no plan."""
        return Facts(peak_bytes=details.peak_bytes(prepared, arguments))


class FuserRunner(Runner):
    """This project's fuser in one of its modes."""

    own_process = False
    starts = True
    mode: ClassVar[str] = ""

    def __init__(self) -> None:
        self._texts = details.Texts()

    def unavailable(self) -> str | None:
        """Return why the fuser cannot run on the CPU here, or None."""
        fuser = _fuser()
        if not hasattr(fuser, "fuse"):
            return "fuser.fuse is missing: install fuser-bench whole"
        if fuser.can_fuse_on_cpu():
            return None
        return f"backend cpu: {fuser.available_backends().get('cpu') or 'switched off'}"

    def prepare(self, function: Callable[..., Any], arguments: Arguments) -> Callable[..., Any]:
        """Return the fused function, with nothing cached from earlier ones."""
        fuser = _fuser()
        fuser.clear_caches()
        prepared: Callable[..., Any] = fuser.fuse(function, mode=self.mode, fallback="allow")
        return prepared

    @contextmanager
    def observed(self) -> Iterator[dict[str, float]]:
        """Give the stages of the first call, each without those inside it."""
        stages: dict[str, float] = {}
        with _fuser().profile() as timeline:
            yield stages
        stages.update(exclusive_seconds(timeline.phases))

    def facts(self, prepared: Callable[..., Any], arguments: Arguments) -> Facts:
        """Return the plan's kernels, bytes and fallback reasons."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            explanation = getattr(prepared, "explain")(*arguments)  # noqa: B009  (typed as Callable)
        ledger = explanation.ledger  # None where the call is not fused
        texts: Mapping[str, str] = {}
        if self.keeps_texts and ledger is not None and not explanation.fallbacks:
            texts = self._texts.of(prepared, arguments, explanation)
        return Facts(
            kernels=len(explanation.groups) or None,
            launches=None if ledger is None else _launches(prepared, arguments),
            fallback_reasons=tuple(str(each) for each in explanation.fallbacks),
            unfused_bytes=_whole(getattr(ledger, "unfused_bytes", None)),
            planned_bytes=_whole(getattr(ledger, "planned_bytes", None)),
            least_bytes=_whole(getattr(ledger, "least_bytes", None)),
            allocations=_allocations(explanation, self.writes_into),
            text_hashes=self._text_hashes(prepared, arguments, explanation),
            operations=_whole(getattr(ledger, "operations", None)),
            elementary=_whole(getattr(ledger, "elementary", None)),
            peak_bytes=details.peak_bytes(prepared, arguments),
            boundaries=details.boundaries(explanation),
            texts=texts,
        )

    def _text_hashes(
        self, prepared: Any, arguments: Arguments, explanation: Any
    ) -> dict[str, str]:
        """Return the hash of a call's text by target; none where it is not fused.

        The text for a GPU needs none: it is emitted where texts are kept, so once in a run.
        """
        targets: dict[str, Callable[[], Mapping[str, str]]] = {
            "cpu": lambda: prepared.source(*arguments)
        }
        if self.keeps_texts and explanation.graph is not None:
            targets["gpu"] = lambda: _fuser().generate_code(explanation.graph, backend="gpu")
        found = {}
        for target, spell in targets.items():
            try:
                texts = spell()
            except _fuser().FuserError:  # the call is not fused there
                continue
            if texts:
                found[target] = _hash(texts)
        return found

    def compiled_kernels(self) -> int | None:
        """Return the fuser's own count."""
        return int(_fuser().n_compiled_kernels())

    def fallbacks(self) -> int | None:
        """Return the fuser's own count, over all reasons."""
        return int(_fuser().stats().get("fallbacks", 0))


class FallbackRunner(FuserRunner):
    """The fuser told to run NumPy: what the fuser itself costs."""

    name = "fallback"
    kind = "fallback"
    mode = "fallback"
    description = "the fuser, running NumPy operation by operation"


class UnfusedRunner(FuserRunner):
    """Compiled, but one kernel an operation: what code and memory reuse buy without fusion."""

    name = "unfused"
    kind = "unfused"
    mode = "unfused"
    description = "the fuser's compiler, one kernel per operation"


class FusedRunner(FuserRunner):
    """The fuser as it is meant to be used."""

    name = "fused"
    kind: ClassVar[RunnerKind] = "fused"
    mode = "fused"
    description = "the fuser, operations fused into as few kernels as it can"


BUILT_IN: Mapping[str, type[Runner]] = types.MappingProxyType(
    {each.name: each for each in (EagerRunner, FallbackRunner, UnfusedRunner, FusedRunner)}
)


INTO: Mapping[str, str] = types.MappingProxyType({
    "eager_into": "fuser.suites.into:EagerIntoRunner",
    "fused_into": "fuser.suites.into:FusedIntoRunner",
})
"""The same as eager and fused, writing into arrays that are there before the call."""

PEERS: Mapping[str, str] = types.MappingProxyType({
    "cupy": "fuser.suites.peers.cupy_runner:CupyRunner",
    "cupy_fuse": "fuser.suites.peers.cupy_runner:CupyFuseRunner",
    "numexpr": "fuser.suites.peers.numexpr_runner:NumexprRunner",
    "numba": "fuser.suites.peers.numba_runner:NumbaRunner",
    "jax": "fuser.suites.peers.jax_runner:JaxRunner",
    "torch": "fuser.suites.peers.torch_runner:TorchRunner",
})
"""The peers whose runners come with the harness: the entry points of pyproject.toml, also where
a checkout is used that was never installed."""


BY_HAND: Mapping[str, str] = types.MappingProxyType({
    "loops": "fuser.suites.peers.loops_runner:LoopsRunner",
    "loops_strict": "fuser.suites.peers.loops_runner:StrictLoopsRunner",
    "jax_loops": "fuser.suites.peers.jax_programs:JaxProgramsRunner",
    "c": "fuser.suites.ceilings.c_runner:CRunner",
})
"""What somebody wrote for some workloads: loops for numba and JAX, and in C."""

DASK: Mapping[str, str] = types.MappingProxyType({
    "dask": "fuser.suites.peers.dask_runners:DaskRunner",
    "dask_optimized": "fuser.suites.peers.dask_runners:DaskOptimizedRunner",
    "dask_fused": "fuser.suites.peers.dask_runners:DaskFusedRunner",
    "dask_numba": "fuser.suites.peers.dask_runners:DaskNumbaRunner",
})
"""Arrays in chunks: Dask itself, with the fuser in two ways, and with numba."""

DEVICE: Mapping[str, str] = types.MappingProxyType({
    "cupy_fused": "fuser.suites.peers.cupy_runner:CupyFusedRunner",
    "jax_cuda": "fuser.suites.peers.jax_runner:JaxCudaRunner",
})
"""On a CUDA device: the fuser, and a peer that runs on the CPU elsewhere."""

THROUGH_CPP: Mapping[str, str] = types.MappingProxyType({
    "dace": "fuser.suites.peers.dace_runner:DaceRunner",
    "pythran": "fuser.suites.peers.pythran_runner:PythranRunner",
})
"""Compilers that take ten seconds and more for a workload: those who want them name them."""


@cache
def _fuser() -> Any:
    return import_module("fuser")


def _trivial(x: Any) -> Any:
    return x + x


def _whole(value: Any) -> int | None:
    return None if value is None else int(value)


def _allocations(explanation: Any, into: bool) -> int | None:
    """Return how many arrays a planned call makes; those it is given with `out=` are not made."""
    if explanation.ledger is None:
        return None
    temporaries, results = explanation.arrays_made
    return int(temporaries if into else temporaries + results)


def _launches(prepared: Callable[..., Any], arguments: Arguments) -> int:
    """Return how many kernels one call launches; while profiled, no call is served uncounted."""
    with _fuser().profile():
        before = _fuser().stats().get("launches", 0)
        prepared(*arguments)
        return int(_fuser().stats().get("launches", 0) - before)


def _hash(texts: Mapping[str, str]) -> str:
    """Return one hash of the texts of all kernels."""
    whole = "\n".join(f"{name}\n{texts[name]}" for name in sorted(texts))
    return sha256(whole.encode()).hexdigest()


def exclusive_seconds(phases: Iterable[Any]) -> dict[str, float]:
    """Return the seconds by phase name, each without the phases inside it, so that they add up.

    Args:
        phases: with `name`, `start_ns`, `elapsed_ns` and `thread`, as `fuser.profile()` keeps them.
    """
    total_ns: dict[str, int] = {}
    open_phases: list[Any] = []
    for phase in sorted(phases, key=lambda each: (each.thread, each.start_ns, -each.elapsed_ns)):
        while open_phases and not _contains(open_phases[-1], phase):
            open_phases.pop()
        if open_phases:
            total_ns[open_phases[-1].name] -= phase.elapsed_ns
        total_ns[phase.name] = total_ns.get(phase.name, 0) + phase.elapsed_ns
        open_phases.append(phase)
    return {name: max(0, each) / 1e9 for name, each in total_ns.items()}


def _contains(outer: Any, inner: Any) -> bool:
    end_ns = outer.start_ns + outer.elapsed_ns
    return bool(outer.thread == inner.thread and inner.start_ns + inner.elapsed_ns <= end_ns)


def specs() -> dict[str, str]:
    """Return every known runner as name -> `module:attribute`: ours, then the entry points'."""
    from importlib.metadata import entry_points

    found = {name: f"{kind.__module__}:{kind.__name__}" for name, kind in BUILT_IN.items()}
    found |= {**INTO, **PEERS, **BY_HAND, **DASK, **DEVICE, **THROUGH_CPP}
    for point in entry_points(group=ENTRY_POINTS):
        found.setdefault(point.name, point.value)
    return found


def load(spec: str) -> Runner:
    """Return a new runner from `module:attribute`.

    Raises:
        ImportError: the module cannot be imported.
        TypeError: the attribute is no Runner subclass.
    """
    module, _, attribute = spec.partition(":")
    found = getattr(import_module(module), attribute, None)
    if not (isinstance(found, type) and issubclass(found, Runner)):
        raise TypeError(f"{spec}: expected a subclass of fuser.suites.runners.Runner")
    return found()
