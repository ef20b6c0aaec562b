"""What runs a loop region: its phases as fused functions of their own, called for each index."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from fuser.backend import MISSED, backend_of, chosen, chosen_name, get_backend
from fuser.base import budget, trees
from fuser.base.call_keys import exact_key, signature
from fuser.base.errors import BackendError, Reason, Unsupported
from fuser.base.generated import define
from fuser.base.host_expressions import SCALAR, compiled, evaluate_scalar, scalar_symbols
from fuser.base.records import changed
from fuser.calls import native_call
from fuser.calls.fused_function import LONG_WAY, FusedFunction
from fuser.calls.specialisation import is_brief, of_kernels
from fuser.calls.trace_cache import Signature
from fuser.executor import CannotRun
from fuser.ir import dims, layouts
from fuser.ir.attributes import Region as Box
from fuser.ir.loops import STATED, UNSET, Entry, IterationFailed, Region, ended
from fuser.ir.views import FULL, Chain, Index, Part, View
from fuser.kernel_spec import KernelSpec
from fuser.program_spec import (
    Interchange,
    LoopRegion,
    Phase,
)
from fuser.programs.interchange import once
from fuser.programs.phases import value_name

#: Iterations after which a loop has met all the arrays that it makes.
ITERATIONS_KNOWN = 4
#: Iterations in a row that look at their arrays in Python, until NumPy runs loops whose iterations
#: are short.
LONG_WAYS = 16
#: Functions whose results are new arrays.
_NEW = frozenset("numpy.matmul numpy.dot numpy.linalg.solve numpy.linalg.inv".split())
_NAMES = re.compile(r"\b[a-z]+[0-9]+\b")
#: Arithmetic that may make long integers, and names that are not Python's.
_BOUNDED = re.compile(r"\*\*|<<|\b(real|imag|inf|nan)\b")


def _unknown(*_: Any) -> Any:
    """What an iteration does that its body was not made for."""
    raise IterationFailed("an iteration finds arrays of another kind")


class PhaseFunction(FusedFunction[..., Any]):
    """A phase of an iteration: kernels that are known without a trace."""

    def __init__(self, phase: Phase, backend: str) -> None:
        """Prepare it; the first iteration compiles its native entry.

        Args:
            phase: what it runs.
            backend: the name of the one that is chosen; "" for none.
        """
        body = phase.body
        super().__init__(
            _unknown, backend=backend or None, fallback="allow", **body.options._asdict()
        )
        names = parameters_of(phase)
        given = [k for k, name in enumerate(phase.stored) if name]
        writes = [(names.index(name), output, box) for name, output, box in phase.writes]
        self._alone = isinstance(body, KernelSpec)
        self._prepared = False
        self._long_ways = 0
        self._known = of_kernels(body, given, writes)
        self.batch: Any = None

    def __call__(self, *args: Any) -> Any:  # type: ignore[override] # from our own calls alone
        """Run it once."""
        if self.batch is not None:
            self.batch.flush()
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
            self._prepared = True
            if self._alone or not budget.is_open():  # stages are none of their own in a first call
                short = self._shorten(call, structure, leaves, args, (), None)
                self._long_ways = 0 if short else self._long_ways + 1
                if self._long_ways > LONG_WAYS and is_brief(call):
                    raise CannotRun(Reason("no-gain", "loop", LONG_WAY))
        return result

    _slow_call: Any = __call__

    def in_first_call(self, *args: Any) -> Any:
        """Run it within a first call of another function, whose budget its first run draws on.

        All other runs are as in a later call, so that stages become functions of their own.
        """
        if self._alone or not self._prepared:
            return self(*args)
        with budget.aside():
            return self(*args)


native_call.enable_vectorcall(PhaseFunction)


def parameters_of(phase: Phase) -> list[str]:
    """The values that a phase takes."""
    return [parameter.name for parameter in phase.body.graph.parameters]


def _may_wait(step: LoopRegion) -> bool:
    """Whether kernels of an iteration may wait until those of later ones are called.

    They write into arrays that the loop keeps, which nothing but kernels looks at until it ends.
    """
    region = step.region
    names = region.names[: region.carried]
    left = [text or name for name, text in zip(names, region.results, strict=False)]
    if sorted(left) != sorted(names) or step.interchange is not None:
        return False
    alone = all(
        isinstance(phase.body, KernelSpec) and not phase.body.may_raise
        and not (any(phase.stored) or phase.moved)
        and not any(copied or any(type(view) is not Part for view in chain)
                    for _, _, chain, copied in phase.parts)
        and not any(repeated for _, _, repeated in phase.twins)
        for phase in step.phases
    )  # fmt: skip
    return alone and not (region.updates or region.leaving.is_early)


def _nothing() -> None:
    """What is done after iterations that run one by one."""


class Runner:
    """Runs a loop with the arguments of its call, on copies of the arrays that it writes into.

    Attributes:
        copied: for each carried array, whether it works on a copy.
    """

    def __init__(self, step: LoopRegion) -> None:
        """Prepare it for the backend that is chosen."""
        self._step = step
        self._phases = [PhaseFunction(phase, chosen_name()) for phase in step.phases]
        self.copied = tuple(
            each if place not in step.owned else False
            for place, each in enumerate(step.region.copied)
        )
        self._waits = _may_wait(step)
        self._loop = self._written(self.copied)
        self._batch: Any = None

    def __call__(self, *args: Any) -> list[Any]:
        """Run the loop; what its last iteration leaves."""
        phases: list[Callable[..., Any]] = [*self._phases]
        if budget.is_open():
            phases = [each.in_first_call for each in self._phases]
        return self._run(self._loop, Entry(*args[STATED:]), phases)

    def _run(
        self, loop: Callable[..., list[Any]], entry: Entry, phases: Sequence[Callable[..., Any]]
    ) -> list[Any]:
        """Run a loop with some phases, several iterations at once where they can be."""
        if not self._waits:
            return loop(entry, *phases)
        if self._batch is None:
            specs = [phase.body for phase in self._step.phases]
            self._batch = get_backend(backend_of(entry.carried)).batch(self._phases, specs)
            for phase in self._phases:
                phase.batch = self._batch
        batch = self._batch
        if batch is None or not batch.begin(sum(array.nbytes for array in entry.carried)):
            return loop(entry, _nothing, _nothing, *phases)
        try:
            return loop(entry, batch.iterated, batch.flush, *phases)
        finally:
            batch.end()

    def _written(self, copied: Sequence[bool | str]) -> Callable[..., list[Any]]:
        """The loop as a Python function, which copies some of its carried arrays."""
        region = changed(self._step.region, copied=tuple(copied))
        interchange = self._step.interchange
        region = once(region) if interchange else region
        return _written(region, self._step.phases, interchange, self._waits)

    @property
    def never_ends_early(self) -> bool:
        """Whether an iteration that runs on arrays which one has run on is sure to be finished.

        No number says where it reads or writes, or how it goes on; kernels raise nothing, and take
        no integers, of which they might refuse some.
        """
        region, phases = self._step.region, self._step.phases
        numbers = {p.name for phase in phases for p in phase.body.graph.parameters
                   if p.dtype is None}  # fmt: skip
        plain = not (region.guards or region.updates or region.leaving.is_early)
        return plain and region.index not in numbers and not any(
            phase.parts or phase.moved or not isinstance(phase.body, KernelSpec)
            or phase.body.may_raise for phase in phases
        )

    def in_place(self, places: Mapping[int, int]) -> Callable[..., Any]:
        """The same, but some carried arrays are written into, and hold results.

        A first run of several iterations works on copies: what these arrays need is ready then.

        Args:
            places: of arrays in C order among the carried ones, and the result that each of them
                is to hold. The loop is one that `never_ends_early`.
        """
        copied = [each and place not in places for place, each in enumerate(self.copied)]
        loop, known = self._written(copied), False

        def run_in_place(*args: Any) -> Any:
            """Run the loop; what its last iteration leaves, or MISSED."""
            nonlocal known
            entry = Entry(*args[STATED:])
            arrays = [entry.carried[place] for place in places]
            sure = all(a.flags.aligned for a in arrays)
            sure = sure and all(type(n) is float for n in entry.numbers.values())
            if not (known and sure):
                try:
                    left = self._run(self._loop, entry, self._phases)
                except Exception:  # noqa: BLE001 - nothing is written: the long way meets it again
                    return MISSED
                known = known or (sure and len(range(*entry.span)) >= ITERATIONS_KNOWN)
            else:
                try:
                    left = self._run(loop, entry, self._phases)
                except (CannotRun, IterationFailed, Unsupported) as error:
                    found = "a loop that writes into its arguments cannot go on: it has run in part"
                    raise BackendError(f"{found} ({error})") from error
            settle([(a, left[result]) for a, result in zip(arrays, places.values(), strict=True)])
            return left

        return run_in_place


def settle(pairs: Sequence[tuple[Any, Any]]) -> None:
    """Have arrays hold what a loop has left for them, which may lie in another one of them.

    Args:
        pairs: an array, and what it is to hold.
    """
    held = [(a, left) for a, left in pairs if a is not left]
    arrays = [a for a, _ in held]
    found = [left.copy("K") if any(left is a for a in arrays) else left for _, left in held]
    for array, left in zip(arrays, found, strict=True):
        array[...] = left


def _written(
    region: Region, phases: Sequence[Phase], interchange: Interchange | None, waits: bool
) -> Callable[..., list[Any]]:
    """The loop as a Python function of what it begins with, and of kernels in it.

    Between two iterations nothing is looked up: names in it are those of the region's values.
    Where one kernel runs all iterations, so does the first pass of the loop, if what an iteration
    leaves lies in memory as what it finds; else that runs one, as NumPy orders axes anew in each.
    """
    arrays = [p.name for p in region.graph.parameters if p.dtype is not None]
    numbers = [p.name for p in region.graph.parameters if p.dtype is None]
    later = [f"later{k}" for k in range(len(region.results) - region.carried)]
    state = [*arrays[: region.carried], *later]
    writer = _Expressions({"copy": _copied, "region": region, "Failed": IterationFailed})
    writer.objects.update(range=range, asarray=_array, ended=ended)
    writer.objects.update(twin=_twin, max=max, min=min, made=_made)
    index = region.index
    needed = {*numbers, *region.updates}
    leaving = region.leaving
    tested = [*region.updates.values(), *(text for text, _ in region.guards), *leaving.tests]
    for text in tested:
        needed |= scalar_symbols(text)
    scalars = {
        name for name, text in zip(state, region.results, strict=True) if text.endswith("[()]")
    }  # which are arrays without axes between iterations
    kernels: list[str] = []
    lines = [f"[{', '.join(arrays[: region.carried])}] = entry.carried"]
    copied = dict(zip(arrays, region.copied, strict=False))
    lines += [f"{name} = copy({name})" for name, each in copied.items() if each is True]
    lines += [f"{name} = asarray({name})" for name in arrays if name in scalars]
    fixed = arrays[region.carried :]
    lines += [f"[{', '.join(fixed)}] = entry.fixed"]
    others = ", ".join(name for name in arrays if copied.get(name) != UNSET)
    lines += [f"{name} = made({name}, {others})" for name, each in copied.items() if each == UNSET]
    lines += [f"{name} = None" for name in later]
    lines += [f"{name} = entry.numbers[{name!r}]" for name in sorted(needed - {index})]
    lines += ["trips = 0", "whole = range(*entry.span) if all(entry.first) else range(0)"]
    if interchange is None:
        lines.append(f"for {index} in whole:")
    else:
        ordered = str(interchange.ordered)
        if interchange.ordered is None:
            ordered = " and ".join(f"{name}.flags.c_contiguous" for name in arrays)
        few = f"{int(not leaving.least)} <= len(whole) < {interchange.least}"
        lines.append(f"if {few}: raise Failed('too few iterations')")
        lines += [f"done, ordered = 0, {ordered}", "while done < len(whole):"]
    twins = {twin: (name, box, repeated) for phase in phases for name, twin, repeated in phase.twins
             for into, _, box in phase.writes if into == twin and box}  # fmt: skip
    shapes = {parameter.name: parameter.shape for parameter in region.graph.parameters}
    boxes = [box for phase in phases for _, _, box, _ in phase.moved if box]
    boxes += [box for _, box, _ in twins.values()]
    views = [view for phase in phases for _, _, chain, _ in phase.parts for view in chain]
    spoken = {s for each in (*boxes, *views) for dim in each.lengths for s in dims.symbols(dim)}
    told = region.graph.scalar_lengths
    if interchange is not None:
        ends = {s for pair in interchange.ends for dim in pair for s in dims.symbols(dim)}
        spoken |= ends - {index}
    for name in sorted(spoken - told.keys()):
        lines.insert(-1, f"{name} = {_teller(region, name)}")
    for twin, (name, box, repeated) in twins.items():
        spans = ", ".join(f"({start}, {stop}, {step})" for start, stop, step in box.box)
        given = name if repeated else f"{name}, {spans}"
        lines.insert(-1, f"{twin} = twin({given})")
    if interchange is not None:
        carried = "".join(f"{name}.strides, " for name in arrays[: region.carried])
        lines += [f"    {index} = whole[done]", f"    before = ({carried})"]
        lines.append(f"    {interchange.trips} = len(whole) - done if ordered else 1")
    for name in sorted(spoken & told.keys()):
        lines.append(f"    {name} = {told[name]}")
        lines.append(f"    if {name} < 0: raise Failed('an index changes its sign')")
    for text, truth in region.guards:
        lines.append(f"    if {writer.spelled(text)} is not {truth}: raise Failed({text!r})")
    if interchange is not None:
        lines += [f"    {line}" for line in _ends(interchange)]
    for number, phase in enumerate(phases):
        given = ", ".join(name for name in phase.stored if name)
        lines += [f"    {line}" for part in phase.parts for line in _part(*part)]
        kernels.append(f"phase{number}")
        call = f"{kernels[-1]}({', '.join(parameters_of(phase))})"
        lines.append(f"    {given} = {call}" if given else f"    {call}")
        if interchange is not None and interchange.asked and not number:
            found, truth = interchange.asked
            lines.append(f"    if not done and bool({found}) is not {truth}: raise Failed('ended')")
        ranks = {name: len(node.shape)
                 for name, node in zip(phase.stored, phase.body.graph.outputs, strict=True)}
        lines += [f"    {line}" for write in phase.moved
                  for line in writer.moved(*write, ranks[write[1]])]  # fmt: skip
        for name, twin, repeated in phase.twins:
            parts = _around(twins[twin][1], shapes[name]) if repeated else ()
            lines += [f"    {twin}[{part}] = {name}[{part}]" for part in parts]
            lines.append(f"    {name}, {twin} = {twin}, {name}")
    moved = [(name, _value(region, text)) for name, text in zip(state, region.results, strict=True)
             if text]  # fmt: skip
    # Two results that are one value are two arrays: of those that iterations find, in each one.
    found_in = [value for _, value in moved]
    again = {
        name for k, (name, value) in enumerate(moved)
        if value in found_in[:k] and value not in region.names and name not in scalars
    }  # fmt: skip
    moved = [(name, f"copy({value})" if name in again and name not in later else value)
             for name, value in moved]  # fmt: skip
    if moved:
        sources = ", ".join(value for _, value in moved)
        lines.append(f"    {', '.join(name for name, _ in moved)} = {sources}")
    if interchange is not None:
        lines += [f"    done += {interchange.trips}", f"    ordered = before == ({carried})"]
    if leaving.tests:
        lines.append(f"    goes_on = {' and '.join(map(writer.spelled, leaving.tests))}")
    if region.updates:
        values = ", ".join(map(writer.spelled, region.updates.values()))
        lines.append(f"    {', '.join(region.updates)} = {values}")
    if leaving.is_early:
        lines.append("    trips += 1")
    if leaving.tests:
        lines.append("    if not goes_on: break")
    if leaving.result >= 0:
        lines.append(f"    if not {state[leaving.result]}: break")
    if waits:  # until then the loop keeps what kernels write
        lines += ["    iterated()", "flush()"]
    handed = {name: f"copy({name})" for name in again if name in later}
    handed |= {name: f"{name}[()]" for name in scalars}
    found = ", ".join(handed.get(name, name) for name in state)
    lines.append(f"return ended(region, [{found}], trips)" if leaving.is_early
                 else f"return [{found}]")  # fmt: skip
    waiting = ["iterated", "flush"] if waits else []
    return define("loop", ["entry", *waiting, *kernels], lines, writer.objects)


def _ends(interchange: Interchange) -> Iterator[str]:
    """The lines that look at the last iteration, where one kernel runs all of them."""
    last = {name: f"({name} + ({interchange.trips} - 1) * {rise})"
            for name, rise in interchange.rises}  # fmt: skip
    for pair in interchange.ends:
        left, right = (_NAMES.sub(lambda n: last.get(n[0], n[0]), str(dim)) for dim in pair)
        yield f"if {left} > {right}: raise Failed('an index is outside')"


def _like(array: Any) -> Any:
    """A new array that lies in memory as another one does, with any content."""
    if layouts.is_array(array) and array.flags.c_contiguous:
        return get_backend(backend_of([array])).empty(array.shape, array.dtype)
    return None


def _copied(value: Any) -> Any:
    """A copy of a carried array, which the loop writes into; a scalar is one."""
    if not layouts.is_array(value):
        return value
    made = _like(value)
    if made is None:
        return value.copy("K")
    made[...] = value
    return made


def _made(like: Any, *others: Any) -> Any:
    """A new array of an array's shape and dtype, with any content, where other arrays are."""
    return get_backend(backend_of(others)).empty(like.shape, like.dtype)


def _around(box: Box, shape: dims.Shape) -> Iterator[str]:
    """Yield the parts beside a box that spans all axes but one, as Python spells them."""
    for axis, ((start, stop, _), length) in enumerate(zip(box.box, shape, strict=True)):
        if start != 0:
            yield f"{':, ' * axis}:{start}"
        if stop != length:
            yield f"{':, ' * axis}max({stop}, 0):"


def _twin(array: Any, *box: tuple[int, int, int]) -> Any:
    """An array that holds the same but in a box, which every iteration writes before it is read.

    Without a box that is all of it.
    """
    made = _like(array)
    if made is None or any(step != 1 for _, _, step in box):
        return array.copy("K")
    for axis, (start, stop, _) in enumerate(box):
        inside = tuple(slice(*span) for span in box[:axis])
        for part in (slice(start), slice(max(stop, 0), None)):
            made[(*inside, part)] = array[(*inside, part)]
    return made


def _part(name: str, array: str, chain: Chain, copied: bool) -> Iterator[str]:
    """The lines that give a parameter the part of an array that numbers tell."""
    seen = array
    for view in chain:
        if isinstance(view, Part):
            yield f"if {view.stop} > {seen}.shape[{view.axis}]: raise Failed('an index is outside')"
        yield f"{name} = {view.python(seen, repr, str)}"
        seen = name
    if copied:  # kernels write there
        yield f"{name} = {name}.copy('K')"


def _teller(region: Region, name: str) -> str:
    """The length of an array that a symbol is, as Python spells it."""
    for parameter in region.graph.parameters:
        for axis, dim in enumerate(parameter.shape):
            if str(dim) == name:
                return f"{parameter.name}.shape[{axis}]"
    raise CannotRun(Reason("runtime-check", "loop", f"no array tells {name}"))


def _value(region: Region, result: str) -> str:
    """The value that a result of an iteration is, see `Region.results`."""
    if result in region.names:
        return result
    return value_name(region, int(result.removesuffix("[()]")))


def _array(value: Any) -> Any:
    """An array without axes for a NumPy scalar."""
    return np.asarray(value) if isinstance(value, np.generic) else value


def _places(box: Box | None, view: View | None, rank: int) -> set[int]:
    """The axes of a box of one place each that a value of some rank lacks, or a view adds to it.

    NumPy writes along the others alone, in half the time.
    """
    if box is None:
        return set()
    single = {axis for axis, (start, stop, _) in enumerate(box.box) if stop - start == 1}
    if view is None:
        return {axis for axis in single if axis < len(box.box) - rank}
    parts = view.parts if isinstance(view, Index) else ()
    added = {axis for axis, part in enumerate(parts) if part is None}
    plain = all(part is None or part == FULL for part in parts)
    fits = plain and rank + len(added) == len(box.box) and added <= single
    return added if fits else set()


class _Expressions:
    """Spells host expressions as parts of the loop, and keeps what the loop's names stand for."""

    def __init__(self, objects: dict[str, Any]) -> None:
        """Begin with some names."""
        self.objects = {**objects, "evaluate": evaluate_scalar}

    def moved(
        self, name: str, value: str, box: Box | None, view: View | None, rank: int
    ) -> Iterator[str]:
        """The lines of a write into a place that numbers tell; `rank`: of the value."""
        places = _places(box, view, rank)
        if view is not None and not places:
            value = view.python(value, self._object, str)
        if box is None:  # an array of the loop's own; how it lies is seen where it is a result
            yield f"if {value}.strides == {name}.strides: {name} = {value}"
            yield f"else: {name}[...] = {value}"
            return
        for axis, (_, stop, _) in enumerate(box.box):
            if not str(stop).isalnum() or str(stop).isdigit():
                yield f"if {stop} > {name}.shape[{axis}]: raise Failed('an index is outside')"
        index = [str(start) if axis in places else f"{start}:{stop}:{step}"
                 for axis, (start, stop, step) in enumerate(box.box)]  # fmt: skip
        yield f"{name}[{', '.join(index) or '...'}] = {value}"

    def _object(self, value: Any) -> str:
        """The name of something that is the same in every iteration."""
        name = f"k{len(self.objects)}"
        self.objects[name] = value
        return name

    def spelled(self, text: str) -> str:
        """A host expression: as it stands where Python alone does its arithmetic."""
        compiled(text, SCALAR)  # checks it
        if not _BOUNDED.search(text):
            return f"({text})"
        names = ", ".join(f"{name!r}: {name}" for name in sorted(scalar_symbols(text)))
        return f"evaluate({text!r}, {{{names}}})"
