"""Measurements beside the workloads: where a call's time goes, first calls, arithmetic.

Each worker process makes them once, after its rows, so that their spread over processes is known.
What fails is a note: an hour's rows are not lost for it.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from fuser.suites.measuring import Event
from fuser.suites.probes import anatomy, arithmetic, first_calls
from fuser.suites.registry import workloads
from fuser.suites.runners import Runner

SAMPLES = 5
TRACED = "gelu_bias"
"""The workload whose first and second call the trace file shows."""


def measure(process: int, threads: int, runner: Runner) -> Iterator[Event]:
    """Yield the findings as events.

    Args:
        process: the worker's number; what does not vary is found by the first alone.
        threads: of this machine.
        runner: that of the fused variant.
    """
    experiments: list[tuple[str, Callable[[], Iterable[dict[str, Any]]]]] = [
        ("anatomy", anatomy.measure),
        ("first_calls", lambda: first_calls.measure(runner)),
        ("arithmetic", lambda: arithmetic.measure(threads, process, SAMPLES)),
    ]
    if process == 0:
        experiments.append(("trace", traced))
    for name, function in experiments:
        try:
            for finding in function():
                yield {"event": name, **finding}
        except Exception as error:  # noqa: BLE001  (see above: whatever it is, the rows stay)
            yield {"event": "note", "text": f"{name}: {type(error).__name__}: {error}"}


def traced() -> Iterator[dict[str, Any]]:
    """Yield the trace events of a first and a second call."""
    import fuser

    workload = workloads()[TRACED]
    arguments = workload.inputs(first_calls.ELEMENTS, workload.dtypes[0], 0)
    fused = fuser.fuse(workload.function, fallback="allow")
    fuser.clear_caches()
    with fuser.profile() as timeline:
        fused(*arguments)
        fused(*arguments)
    yield {"text": timeline.to_json()}
