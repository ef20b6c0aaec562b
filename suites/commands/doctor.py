"""What this machine and installation can measure, and what to install for more."""

from collections.abc import Iterator
from ctypes.util import find_library
from importlib.util import find_spec

import fuser
from fuser.reports.record import Machine
from fuser.suites import runners
from fuser.suites.probes import counters, machine, noise
from fuser.suites.sampling import clock_resolution_s

OPTIONAL = {
    "pytest_benchmark": "results stored and compared through pytest",
    "matplotlib": "figures and real-data workloads",
    "pandas": "tables of the reports",
    "scipy": "intervals of the reports",
    "rich": "progress bar",
}
NOISY = 1.05
"""A noise floor beyond which most differences cannot be told."""
BUSY = 0.5
"""A load average a core beyond which timing is doubtful."""


def findings() -> Iterator[tuple[str, str, str]]:
    """Yield (subject, "ok" | "absent" | "doubtful", what was found and what to do)."""
    facts = machine.describe_machine()
    yield "processor", "ok", f"{facts.cpu}, {facts.cores_logical} logical cores"
    caches = ", ".join(f"{name} {size >> 10} KiB" for name, size in facts.caches.items())
    yield "caches", "ok" if caches else "absent", caches or (
        "sizes unknown: what counts as small or large is that of a usual processor"
    )
    load = facts.load_average[0] if facts.load_average else 0.0
    busy = load > BUSY * max(1, facts.cores_logical)
    text = f"load average {load:.2f}"
    yield "load", "doubtful" if busy else "ok", text + (
        ": other work takes the cores, so intervals get wide and verdicts inconclusive; wait for it"
    ) * busy
    if facts.governor not in (None, "performance"):
        advice = (
            f"{facts.governor}: clock rates vary, so equal things differ more; "
            "cpupower frequency-set -g performance"
        )
        yield "governor", "doubtful", advice
    yield "clock", "ok", f"resolution {clock_resolution_s() * 1e9:.0f} ns"
    yield from _noise(facts)
    yield from _measuring()
    yield from _fuser()
    for name, spec in runners.specs().items():
        yield f"runner {name}", *_runner(spec)
    for module, purpose in OPTIONAL.items():
        package = module.replace("_", "-")
        present = _is_there(module)
        text = f"{machine.version_of(package) or 'installed'}: {purpose}"
        if not present:
            text = f"without it no {purpose}: pip install {package}"
        yield module, "ok" if present else "absent", text


def _is_there(module: str) -> bool:
    """Whether a module can be found; an importer of somebody's own may refuse it."""
    try:
        return find_spec(module) is not None
    except (ImportError, ValueError):
        return False


def _noise(facts: Machine) -> Iterator[tuple[str, str, str]]:
    """Say what earlier runs found out about this machine."""
    past = noise.known(facts)
    floor = noise.usual_floor(past)
    if floor is None:
        yield "noise", "absent", (
            "unknown: whether a run is noisier than usual cannot be said; "
            "a finished `fuser-bench run` finds it out"
        )
        return
    text = f"equal things differ by up to {floor - 1:.1%}, the median of {len(past)} runs"
    noisy = floor > NOISY
    yield "noise", "doubtful" if noisy else "ok", text + ": smaller differences stay open" * noisy


def _measuring() -> Iterator[tuple[str, str, str]]:
    """Say whether traffic can be counted, what threads there are, and the accelerator."""
    reason = counters.unavailable()
    yield "counters", "absent" if reason else "ok", (
        f"{reason}; memory traffic is planned from the graph, and not measured"
        if reason else "misses of the last cache"
    )
    library = find_library("gomp") or find_library("omp") or find_library("iomp5")
    advice = (
        "none found: other fusers and ours use threads of their own, "
        "which may get in each other's way"
    )
    yield "OpenMP", "ok" if library else "absent", library or advice
    device = machine.describe_machine().accelerator
    yield "accelerator", "ok" if device else "absent", device or (
        "no NVIDIA device: GPU rows cannot be measured here; "
        "records of another machine can be reported and compared"
    )


def _fuser() -> Iterator[tuple[str, str, str]]:
    try:
        backends = fuser.available_backends()
    except ImportError as error:  # a damaged installation is what the doctor is there for
        yield "backends", "absent", f"{error}: install fuser-bench again"
        return
    for name, reason in backends.items():
        yield f"backend {name}", "absent" if reason else "ok", str(reason or "ready to fuse")


def _runner(spec: str) -> tuple[str, str]:
    try:
        runner = runners.load(spec)
        reason = runner.unavailable()
    except Exception as error:  # noqa: BLE001  (a third party's import may raise anything)
        return "absent", f"{type(error).__name__}: {error}"
    if reason:
        return "absent", f"reports have no column of it; {reason}"
    return "ok", runner.description or f"ready: {spec}"
