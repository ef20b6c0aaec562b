"""Who runs a workload: the contract, and the four runners that come with the harness.

A runner turns a workload's function into a callable. Other fusers plug in by an entry point of
group `fuser.runners` that names a `Runner` subclass; whatever it needs, it imports inside its
methods. `fuser-bench doctor` lists the runners found, the absent ones with their reason.
"""

import types
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib import import_module
from typing import Any, ClassVar, Literal

from fuser.suites.workload import Arguments

RunnerKind = Literal["eager", "fallback", "unfused", "fused", "peer"]
ENTRY_POINTS = "fuser.runners"


@dataclass(frozen=True, slots=True)
class Facts:
    """What a runner can count about one prepared workload; None where it cannot."""

    kernels: int | None = None
    fallback_reasons: tuple[str, ...] = ()
    unfused_bytes: int | None = None
    planned_bytes: int | None = None
    least_bytes: int | None = None
    stages_s: Mapping[str, float] = field(default_factory=dict)


class Runner:
    """The contract. A subclass gives the class attributes and `prepare`; the rest has defaults."""

    name: ClassVar[str] = ""
    kind: ClassVar[RunnerKind] = "peer"
    description: ClassVar[str] = ""
    own_process: ClassVar[bool] = True
    """Timed in processes that hold only this runner and eager: thread pools disturb others."""
    expects_fallback: ClassVar[bool] = False
    """Falling back is this runner's purpose, so that it is no finding."""

    def unavailable(self) -> str | None:
        """Return why this runner cannot be used here and what to install, or None."""
        return None

    def start(self) -> None:
        """Load what is loaded once in a process, so that no first call pays for it."""

    def prepare(self, function: Callable[..., Any], arguments: Arguments) -> Callable[..., Any]:
        """Return what is called and timed. Nothing compiled for an earlier one is reused."""
        raise NotImplementedError

    def facts(self, prepared: Callable[..., Any], arguments: Arguments) -> Facts:
        """Return what can be counted, after the first call and outside the timed region."""
        return Facts()

    def compiled_kernels(self) -> int | None:
        """Return how many kernels this process has compiled so far, where that is counted."""
        return None

    def fallbacks(self) -> int | None:
        """Return how many calls have fallen back so far, where that is counted."""
        return None


class EagerRunner(Runner):
    """The baseline: the function as it is."""

    name = "eager"
    kind = "eager"
    description = "plain NumPy, one operation at a time"
    own_process = False

    def prepare(self, function: Callable[..., Any], arguments: Arguments) -> Callable[..., Any]:
        """Return the function itself."""
        return function


class FuserRunner(Runner):
    """This project's fuser in one of its modes."""

    own_process = False
    mode: ClassVar[str] = ""

    def unavailable(self) -> str | None:
        """Return why the fuser cannot run on the CPU here, or None."""
        fuser = _fuser()
        if not hasattr(fuser, "fuse"):
            return "fuser.fuse is missing: install fuser-bench whole"
        reasons = fuser.available_backends()
        if isinstance(reasons, Mapping) and reasons.get("cpu"):
            return f"backend cpu: {reasons['cpu']}"
        return None

    def start(self) -> None:
        """Import the compiler and compile one trivial function."""
        import numpy as np

        one = np.ones(1, np.float32)
        self.prepare(_trivial, (one,))(one)

    def prepare(self, function: Callable[..., Any], arguments: Arguments) -> Callable[..., Any]:
        """Return the fused function, with nothing cached from earlier ones."""
        fuser = _fuser()
        fuser.clear_caches()
        prepared: Callable[..., Any] = fuser.fuse(function, mode=self.mode, fallback="allow")
        return prepared

    def facts(self, prepared: Callable[..., Any], arguments: Arguments) -> Facts:
        """Return the plan's kernels, bytes, fallback reasons and the stages of compiling."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            explanation = getattr(prepared, "explain")(*arguments)  # noqa: B009  (typed as Callable)
        ledger = getattr(explanation, "ledger", None)
        return Facts(
            kernels=_length(getattr(explanation, "groups", None)),
            fallback_reasons=tuple(str(each) for each in getattr(explanation, "fallbacks", ())),
            unfused_bytes=_whole(getattr(ledger, "unfused_bytes", None)),
            planned_bytes=_whole(getattr(ledger, "planned_bytes", None)),
            least_bytes=_whole(getattr(ledger, "least_bytes", None)),
            stages_s=_stages(explanation),
        )

    def compiled_kernels(self) -> int | None:
        """Return the fuser's own count."""
        return _whole(_fuser().n_compiled_kernels())

    def fallbacks(self) -> int | None:
        """Return the fuser's own count, over all reasons."""
        counted = _fuser().stats().get("fallbacks")
        if isinstance(counted, Mapping):
            return sum(int(each) for each in counted.values())
        return _whole(counted)


class FallbackRunner(FuserRunner):
    """The fuser told to run NumPy: what the fuser itself costs."""

    name = "fallback"
    kind = "fallback"
    mode = "fallback"
    description = "the fuser, running NumPy operation by operation"
    expects_fallback = True


class UnfusedRunner(FuserRunner):
    """Compiled, but one kernel an operation: what code and memory reuse buy without fusion."""

    name = "unfused"
    kind = "unfused"
    mode = "unfused"
    description = "the fuser's compiler, one kernel per operation"


class FusedRunner(FuserRunner):
    """The fuser as it is meant to be used."""

    name = "fused"
    kind = "fused"
    mode = "fused"
    description = "the fuser, operations fused into as few kernels as it can"


BUILT_IN: Mapping[str, type[Runner]] = types.MappingProxyType(
    {each.name: each for each in (EagerRunner, FallbackRunner, UnfusedRunner, FusedRunner)}
)


@cache
def _fuser() -> Any:
    return import_module("fuser")


def _trivial(x: Any) -> Any:
    return x + x


def _whole(value: Any) -> int | None:
    return None if value is None else int(value)


def _length(groups: Any) -> int | None:
    return None if groups is None else len(groups)


def _stages(explanation: Any) -> dict[str, float]:
    stages = getattr(explanation, "stages_s", None)
    return {str(name): float(each) for name, each in dict(stages or {}).items()}


def specs() -> dict[str, str]:
    """Return every known runner as name -> `module:attribute`: ours, then the entry points'."""
    from importlib.metadata import entry_points

    found = {name: f"{kind.__module__}:{kind.__name__}" for name, kind in BUILT_IN.items()}
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
