"""One runner in a process of its own, which times it on request: JSON lines in, JSON lines out.

Started by `throughput.py` as `python throughput_server.py RUNNER`. RUNNER is a name that
`fuser.suites.runners` knows, `loops` for hand-written ones, `c` for C, or `memory` for the speed of
the memory itself.
"""

from __future__ import annotations

import gc
import json
import math
import os
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(Path(__file__).resolve().parent), str(ROOT)]

from fuser.suites import runners  # noqa: E402 - the checkout is put on the path above
from fuser.suites.checks.verify import compare, flatten, other_dtypes, reference  # noqa: E402
from fuser.suites.into import EagerIntoRunner  # noqa: E402
from fuser.suites.preparing import message  # noqa: E402
from fuser.suites.registry import resolve  # noqa: E402
from fuser.suites.runners import NotExpressibleError  # noqa: E402
from fuser.suites.sampling import collector_off, now_s, timed_calls  # noqa: E402

VERIFIED_ELEMENTS = 1 << 14
LEAST_SAMPLE_S = 0.004
MOST_TRIALS, TRIALS_S = 5, 0.2
"""How many times, and how long, a call is tried to learn how many make a sample."""


class Server:
    """What is prepared now: a call for each form, and what it is given."""

    def __init__(self, name: str) -> None:
        """Load and start the runner."""
        self.name = name
        if name == "c":
            from throughput_c import CRunner

            self.runner: Any = CRunner()
        elif name == "memory":
            from throughput_c import Memory

            self.runner = Memory()
        elif name == "loops":
            from throughput_loops import LoopsRunner

            self.runner = LoopsRunner()
            self.runner.start()
        else:
            self.runner = runners.load(runners.specs()[name])
            self.runner.start()
        self.kind: tuple[str, str] | None = None
        self.verified: Any = None
        self.prepared: Callable[..., Any] | None = None
        self.forms: dict[str, tuple[Callable[..., Any], Any]] = {}
        self.work: Any = None
        self.arguments: tuple[Any, ...] = ()
        self.held: tuple[Any, ...] = ()
        self.touched_bytes = 0

    def prepare(
        self, workload: str, dtype: str, elements: int, folder: str,
        axes: dict[str, int] | None = None,
    ) -> dict[str, Any]:  # fmt: skip
        """Get inputs, compile, call once; a reason where the runner cannot take the formula."""
        self.drop()
        work, further = resolve(workload), tuple((axes or {}).items())
        try:
            self._compile(work, dtype, further)
            if self.prepared is None:
                return {"reason": "refused before"}
            self.work, self.arguments = work, inputs(work, elements, dtype, further, Path(folder))
            start_s = now_s()
            result = self._give()
            first_s = now_s() - start_s
            moved = {
                "input_bytes": sum(_span(each) for each in self.arguments),
                "output_bytes": sum(int(each.nbytes) for each in result),
            }
            self._into(result)
        except NotExpressibleError as error:
            self.prepared = None
            return {"reason": str(error)}
        del result
        calls = {form: self._calls(form, first_s) for form in self.forms}
        return {"first_s": first_s, **moved, "calls": calls}

    def _give(self) -> tuple[Any, ...]:
        """Make the call that is timed, of the arguments as the runner wants them; its results."""
        assert self.prepared is not None
        if self.name == "c":
            call, given = self.prepared, self.prepared.bind(self.arguments)  # type: ignore[attr-defined]
        else:
            call, given = self.prepared, self.runner.accept(self.arguments)
            if type(self.runner).accept is not runners.Runner.accept:
                call, given = _converting(self.runner, call, self.arguments, given)
        self.forms["fresh"] = (call, given)
        return flatten(call(*given))

    def _place(self) -> None:
        """Move everything to other memory, which the caches see in another way.

        Pages that share places of a cache, or banks of the memory, slow one process and not the
        next: rounds that all had the same pages would tell of their luck.
        """
        if self.touched_bytes:
            self.passes(self.touched_bytes)
            return
        self.arguments = elsewhere(self.arguments)
        self.held = self._give()  # until the next time: further results lie elsewhere too
        self._into(self.held)

    def _compile(self, work: Any, dtype: str, axes: tuple[tuple[str, int], ...]) -> None:
        """Compile for a kind of arguments that is new, and judge results at new further sizes.

        Raises:
            NotExpressibleError: the runner cannot take the formula, or it gives a wrong result.
        """
        kind = (work.name, dtype)
        if kind == self.kind and (axes == self.verified or self.prepared is None):
            return
        few = max([VERIFIED_ELEMENTS, *(2 * length for _, length in axes)])
        small = work.inputs(few, dtype, 1, axes)
        if kind != self.kind:
            self.kind, self.prepared = kind, None
            self.prepared = self.runner.prepare(work.function, small)
        elif self.name == "torch":  # which would compile for these few once more
            return
        self._verify(work, small, dtype, axes)
        self.verified = axes

    def _verify(self, work: Any, small: Any, dtype: str, axes: Any) -> None:
        """Judge the result on few elements.

        Raises:
            NotExpressibleError: another dtype than NumPy's, or a wrong result.
        """
        assert self.prepared is not None
        given = self.runner.accept(small) if self.name != "c" else self.prepared.bind(small)  # type: ignore[attr-defined]
        expected = reference(work, small, dtype)
        found = self.prepared(*given)
        if (reason := other_dtypes(found, expected)) is not None:
            raise NotExpressibleError(f"another type: {reason}")
        elements = max(np.size(each) for each in small)
        tolerance = work.tolerance(dtype, elements, axes)
        accuracy = compare(found, expected, tolerance)
        if accuracy.problem:
            raise NotExpressibleError(f"wrong: {accuracy.problem}")

    def _into(self, result: tuple[Any, ...]) -> None:
        """Add the form that writes into arrays which are there already."""
        if self.name not in ("eager", "fused") or not all(np.ndim(each) for each in result):
            return
        buffers = tuple(np.empty_like(each) for each in result)
        for buffer in buffers:
            buffer.fill(0)
        if self.name == "fused":
            assert self.prepared is not None
            out = buffers[0] if len(buffers) == 1 else buffers
            self.forms["into"] = (partial(self.prepared, out=out), self.arguments)
            return
        try:
            call = EagerIntoRunner().prepare_into(self.work.function, self.arguments, buffers)
            call(*self.arguments)
        except (NotExpressibleError, TypeError, ValueError):
            return
        self.forms["into"] = (call, self.arguments)

    def _calls(self, form: str, first_s: float) -> int:
        """How many calls make a sample: the fastest trial says, as first calls compile or fault."""
        call, given = self.forms[form]
        fastest_s, spent_s = first_s, 0.0
        for _ in range(MOST_TRIALS):
            count = max(1, int(LEAST_SAMPLE_S / max(fastest_s, 1e-9)))
            seconds, _ = timed_calls(call, given, count)
            fastest_s, spent_s = min(fastest_s, seconds / count), spent_s + seconds
            if spent_s > TRIALS_S:
                break
        return max(1, int(LEAST_SAMPLE_S / max(fastest_s, 1e-9)))

    def passes(self, touched_bytes: int) -> dict[str, Any]:
        """Get ready to go over so much memory in each way; only `memory` can."""
        self.drop()
        self.touched_bytes, moved = touched_bytes, {}
        for form, (call, moved_bytes) in self.runner.passes(touched_bytes).items():
            self.forms[form] = (call, ())
            moved[form] = moved_bytes
        return {"bytes": moved, "calls": {form: self._calls(form, math.inf) for form in moved}}

    def time(self, calls: dict[str, int], anew: bool = False) -> dict[str, float]:
        """Seconds a call of every form; `anew` of arrays that lie elsewhere than before."""
        if anew:
            self._place()
        found = {}
        for form, (call, given) in self.forms.items():
            if form not in calls:
                continue
            with collector_off():
                if calls[form] > 1:
                    call(*given)
                found[form] = timed_calls(call, given, calls[form])[0] / calls[form]
        return found

    def drop(self) -> dict[str, Any]:
        """Free the arrays."""
        self.forms.clear()
        self.arguments, self.held, self.touched_bytes = (), (), 0
        gc.collect()
        return {}


def _has_gaps(argument: Any) -> bool:
    """Whether an argument is an array whose elements are no neighbours."""
    return isinstance(argument, np.ndarray) and not argument.flags.forc


def _converting(runner: Any, call: Any, arguments: Any, accepted: Any) -> tuple[Any, Any]:
    """A call and its arguments: those with gaps are converted within it, as they would have to be.

    A runner that copies them once, outside, would read half the memory that the others read.
    """
    gaps = [place for place, each in enumerate(arguments) if _has_gaps(each)]
    if not gaps:
        return call, accepted

    def convert_and_call(*given: Any) -> Any:
        ready = list(given)
        for place in gaps:
            (ready[place],) = runner.accept((given[place],))
        return call(*ready)

    mixed = [arguments[k] if k in gaps else each for k, each in enumerate(accepted)]
    return convert_and_call, tuple(mixed)


def inputs(work: Any, elements: int, dtype: str, axes: Any, folder: Path) -> Any:
    """A call's arguments: made and left in a folder by the first runner, read by the others.

    Each runner has a copy of its own. Arguments that are views are made by every runner.
    """
    places = sorted(folder.glob("*.npy"), key=lambda place: int(place.stem))
    if places:
        return tuple(_plain(np.load(place)) for place in places)
    arguments = work.inputs(elements, dtype, 0, axes)
    if all(isinstance(each, float) or _owns(each) for each in arguments):
        for number, each in enumerate(arguments):
            np.save(folder / f"{number}.npy", each)
    return arguments


def _owns(argument: Any) -> bool:
    """Whether an argument is an array that a file can hold as it is."""
    plain = isinstance(argument, np.ndarray) and argument.ndim > 0
    return plain and argument.flags.c_contiguous and argument.flags.owndata


def _plain(loaded: Any) -> Any:
    """A Python number is stored as an array without axes."""
    return loaded.item() if loaded.ndim == 0 else loaded


def elsewhere(arguments: tuple[Any, ...]) -> tuple[Any, ...]:
    """The same values in other memory: views of one array are views of one copy of it again."""
    copies: dict[int, np.ndarray[Any, Any]] = {}

    def moved(argument: Any) -> Any:
        if not isinstance(argument, np.ndarray):
            return argument
        root = argument
        while isinstance(root.base, np.ndarray):
            root = root.base
        if not root.flags.forc:
            return argument
        if id(root) not in copies:
            copies[id(root)] = root.copy(order="A")
        memory = copies[id(root)].reshape(-1, order="A").view(np.uint8)
        offset = argument.ctypes.data - root.ctypes.data
        return np.ndarray(argument.shape, argument.dtype, memory, offset, argument.strides)

    return tuple(moved(each) for each in arguments)


def _span(array: Any) -> int:
    """The bytes of memory that reading an array touches."""
    if not isinstance(array, np.ndarray):
        return 0
    low, high = np.lib.array_utils.byte_bounds(array)
    return int(high - low)


def without_folder(text: str) -> str:
    """A text whose paths of this checkout begin in it: records tell of no machine's folders."""
    return text.replace(f"{ROOT}{os.sep}", "")


def main() -> None:
    """Serve requests until the input ends."""
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # what a runner prints goes to the error stream
    server = Server(sys.argv[1])
    print(json.dumps({"ready": server.name}), file=answers, flush=True)
    for line in sys.stdin:
        request = json.loads(line)
        try:
            answer = getattr(server, request.pop("do"))(**request)
        except Exception as error:  # noqa: BLE001 - any failure of a runner is a finding
            server.drop()
            answer = {"reason": without_folder(message(error))[:200]}
        print(json.dumps(answer), file=answers, flush=True)


if __name__ == "__main__":
    main()
