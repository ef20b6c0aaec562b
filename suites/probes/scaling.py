"""How the first call grows with the length of the function: chains of 10 to 640 operations."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from fuser.suites import cold
from fuser.suites.checks.verify import compare, reference
from fuser.suites.measuring import with_rest
from fuser.suites.runners import Runner
from fuser.suites.sampling import now_s
from fuser.suites.workload import Workload, uniforms

ELEMENTS = 1024
"""Few enough that running the kernel does not count."""
FIRST_CALL = "first call"


def chain(operations: int) -> Workload:
    """Return a workload of `operations` operations, each needing the one before."""
    return Workload(
        f"chain_{operations}", "compile scaling", f"{operations} operations in a row",
        cold.chain(operations),
        uniforms((-1.0, 1.0), (0.5, 0.9)), tolerance_eps=64,
    )


def measure(runner: Runner, operations: Sequence[int]) -> Iterator[dict[str, Any]]:
    """Yield the stages of each chain's first call as fields of the record, or a note."""
    for count in operations:
        workload = chain(count)
        arguments = workload.inputs(ELEMENTS, "float32", count)
        with runner.observed() as stages_s:
            start_s = now_s()
            prepared: Callable[..., Any] = runner.prepare(workload.function, arguments)
            result = prepared(*arguments)
            first_call_s = now_s() - start_s
        facts = runner.facts(prepared, arguments)
        accuracy = compare(result, reference(workload, arguments), workload.tolerance("float32"))
        if accuracy.problem or facts.fallback_reasons:
            reason = accuracy.problem or "; ".join(facts.fallback_reasons)
            yield {"note": f"compile scaling, {count} operations: left out: {reason}"}
            continue
        stages = {FIRST_CALL: first_call_s} | with_rest(stages_s, first_call_s)
        for stage, seconds in stages.items():
            yield {"operations": count, "stage": stage, "seconds": seconds}

