"""What runs a loop region: its body as a fused function of its own, called once for each index."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from fuser.backend import chosen, chosen_name
from fuser.base import budget, trees
from fuser.base.call_keys import signature
from fuser.base.generated import define
from fuser.base.host_expressions import evaluate_scalar, scalar_symbols
from fuser.calls import native_call
from fuser.calls.fast_path import exact_key
from fuser.calls.fused_function import FusedFunction
from fuser.calls.prepared import MISSED
from fuser.calls.specialisation import specialise
from fuser.calls.trace_cache import Signature
from fuser.ir.loops import Entry, IterationFailed, Region, started
from fuser.kernel_spec import KernelSpec
from fuser.program_spec import LoopRegion
from fuser.tracing.trace_result import OutAlias, OutNode, OutStatic, Trace


def _unknown(*_: Any) -> Any:
    """What an iteration does that its body was not made for."""
    raise IterationFailed("an iteration finds arrays of another kind")


class BodyFunction(FusedFunction[..., Any]):
    """The body of a loop: kernels that are known without a trace."""

    def __init__(self, step: LoopRegion, backend: str) -> None:
        """Prepare it; the first iteration compiles its native entry.

        Args:
            step: the loop.
            backend: the name of the one that is chosen; "" for none.
        """
        body = step.body
        super().__init__(
            _unknown, backend=backend or None, mode=body.mode, fallback="allow",
            fastmath=body.fastmath, errstate=body.checked,
        )  # fmt: skip
        region = step.region
        names = [parameter.name for parameter in region.graph.parameters]
        leaves = tuple(_leaf(text, names) for text in region.results if text)
        structure, _ = trees.flatten(0 if len(leaves) < 2 else tuple(range(len(leaves))))
        places = tuple(range(len(names)))
        trace = Trace(
            region.graph, structure, leaves or (OutStatic(None),), region.writes, (), places
        )  # fmt: skip
        self._alone = isinstance(body, KernelSpec)
        self._known = specialise(trace, body, [], {})

    def __call__(self, *args: Any) -> Any:  # type: ignore[override] # from our own calls alone
        """One iteration."""
        if self._latest is not None:
            result = self._latest.try_again(args)
            if result is not MISSED:
                return result
        key = exact_key(args)
        ready = self._ready.get(key) if key is not None else None
        if ready is not None and ready.holds() and (result := ready.run(args)) is not MISSED:
            return result
        structure, leaves = trees.flatten((args, {}))
        self._signatures.setdefault(signature(structure, leaves), Signature([self._known]))
        with chosen(self.backend):
            call, result = self._find_and_run(structure, leaves, None)
            if self._alone or not budget.is_open():  # stages are none of their own in a first call
                self._shorten(call, structure, leaves, args, (), None)
        return result

    _slow_call: Any = __call__


native_call.enable_vectorcall(BodyFunction)


def _leaf(text: str, names: list[str]) -> Any:
    """What one result of the body is, see `Region.results`."""
    if text in names:
        return OutAlias(names.index(text), ())
    return OutNode(int(text.removesuffix("[()]")), False)


def runner(step: LoopRegion) -> Callable[..., list[Any]]:
    """What runs a loop: a function of the arguments of its call."""
    body = BodyFunction(step, chosen_name())
    loop = _written(step.region)

    def run_loop(*args: Any) -> list[Any]:
        """Run the loop; what its last iteration leaves."""
        return loop(body, Entry(*args[7:]))

    return run_loop


def _written(region: Region) -> Callable[[Any, Entry], list[Any]]:
    """The loop as a Python function of the body and of what it begins with.

    Between two iterations nothing is looked up: names in it are those of the graph's parameters.
    """
    arrays = [p.name for p in region.graph.parameters if p.dtype is not None]
    numbers = [p.name for p in region.graph.parameters if p.dtype is None]
    later = [f"later{k}" for k in range(len(region.results) - region.carried)]
    state = [*arrays[: region.carried], *later]
    objects: dict[str, Any] = {"started": started, "region": region, "Failed": IterationFailed}
    objects.update(evaluate=evaluate_scalar, range=range, asarray=_array)
    index = region.index
    needed = {*numbers, *region.updates}
    for text in (*region.updates.values(), *(text for text, _ in region.guards)):
        needed |= scalar_symbols(text)
    scalars = {
        name for name, text in zip(state, region.results, strict=True) if text.endswith("[()]")
    }  # which are arrays without axes between iterations
    lines = [f"[{', '.join(arrays[: region.carried])}] = started(region, entry)"]
    lines += [f"{name} = asarray({name})" for name in arrays if name in scalars]
    fixed = arrays[region.carried :]
    lines += [f"[{', '.join(fixed)}] = entry.fixed"]
    lines += [f"{name} = entry.numbers[{name!r}]" for name in sorted(needed - {index})]
    lines += [f"for {index} in range(*entry.span):"]
    for text, truth in region.guards:
        lines.append(f"    if {_evaluated(text)} is not {truth}: raise Failed({text!r})")
    changed = [name for name, text in zip(state, region.results, strict=True) if text]
    call = f"body({', '.join((*arrays, *numbers))})"
    lines.append(f"    {', '.join(changed)} = {call}" if changed else f"    {call}")
    if region.updates:
        values = ", ".join(map(_evaluated, region.updates.values()))
        lines.append(f"    {', '.join(region.updates)} = {values}")
    found = ", ".join(f"{name}[()]" if name in scalars else name for name in state)
    lines.append(f"return [{found}]")
    return define("loop", ["body", "entry"], lines, objects)


def _array(value: Any) -> Any:
    """An array without axes for a NumPy scalar."""
    return np.asarray(value) if isinstance(value, np.generic) else value


def _evaluated(text: str) -> str:
    """A host expression as the loop has it."""
    names = ", ".join(f"{name!r}: {name}" for name in sorted(scalar_symbols(text)))
    return f"evaluate({text!r}, {{{names}}})"

