"""Why a call runs as it does: groups, what crosses their boundaries, candidates, fallbacks."""

from __future__ import annotations

import html
import inspect
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from fuser import executor
from fuser.backend import Kernel
from fuser.base import budget, trees
from fuser.base.errors import (
    ArgumentError,
    FusionError,
    MissingProgramError,
    Reason,
    Unsupported,
)
from fuser.base.packages import NO_INSTANCES
from fuser.calls import lazy_arrays
from fuser.calls.owner import Owner
from fuser.calls.specialisation import is_brief
from fuser.executor import CannotRun
from fuser.explain import drawing, graph_breaks, loop_text
from fuser.explain.candidates import COLUMNS
from fuser.explain.kernel_text import describe_group, spell_guards, spell_outcome, wrapped
from fuser.ir import dims
from fuser.ir.graph import Graph
from fuser.ir.labels import argument_names, labels_of
from fuser.kernel_spec import KernelSpec
from fuser.program_spec import Asked, GraphBreak, LoopRegion, Program, Stage
from fuser.programs import partition, run
from fuser.scheduling import row_tiling, verdicts
from fuser.scheduling.plans import Plan
from fuser.traffic import moved_bytes
from fuser.traffic.ledger import Ledger, boundaries, ledger

if TYPE_CHECKING:
    import pandas


#: Pairs that are not fused, in the text of an explanation; the table has all.
SHOWN_PAIRS = 8
#: Guards on what functions hold, by Python's names.
DEFAULTS = {
    "__defaults__": "the defaults of arguments are unchanged",
    "__kwdefaults__": "the defaults of keywords are unchanged",
    "__code__": "the code of functions is unchanged",
    "__class__": "the classes of objects are unchanged",
    "__dict__": "the namespaces of objects are theirs still",
    "__bases__": "what classes inherit from is unchanged",
    "token": "what abstract classes have registered is unchanged",
}


@dataclass(eq=False)
class Explanation:
    """What a call runs, and why.

    Attributes:
        name: the function's.
        mode: "fused", "unfused" or "fallback".
        groups: one text a kernel: its loops, what it reads, computes and writes.
        fallbacks: reasons for which the call, or a function in it, is not fused; empty when
            everything is.
        graph_breaks: one text for each function that NumPy runs between kernels.
        loops: one text for each loop whose iterations are kernels.
        asked: one text for each number that is read off a value, and each decision.
        decisions: for each path that calls have taken, the outcomes that lead along it.
        ledger: bytes moved, or None when the call is not fused.
        guards: what this specialisation holds for.
        rules: decompositions and rewrites applied.
        realised: temporaries and why they exist.
        lengths: what the symbols of lengths stand for.
        graph: the traced graph, or None.
    """

    name: str
    mode: str
    groups: list[str] = field(default_factory=list)
    fallbacks: list[Reason] = field(default_factory=list)
    ledger: Ledger | None = None
    guards: list[str] = field(default_factory=list)
    rules: list[str] = field(default_factory=list)
    realised: dict[str, str] = field(default_factory=dict)
    graph: Graph | None = None
    graph_breaks: list[str] = field(default_factory=list)
    loops: list[str] = field(default_factory=list)
    lengths: list[str] = field(default_factory=list)
    asked: list[str] = field(default_factory=list)
    decisions: list[str] = field(default_factory=list)
    _spec: KernelSpec | Program | None = None
    _keeps: moved_bytes.Keeps = moved_bytes.on_a_cpu
    _sizes: dict[str, int] = field(default_factory=dict)

    @property
    def candidates(self) -> pandas.DataFrame:
        """Every pair considered, as `fusion_candidates` gives it."""
        if self._spec is None:
            import pandas

            return pandas.DataFrame(columns=COLUMNS)
        return graph_breaks.candidates(self._spec, self._sizes)

    @property
    def boundaries(self) -> list[dict[str, Any]]:
        """What crosses the borders between kernels, as `ledger.boundaries` gives it."""
        with moved_bytes.kept_by(self._keeps):
            if isinstance(self._spec, Program):
                return graph_breaks.boundaries(self._spec, self._sizes)
            return [] if self._spec is None else boundaries(self._spec, self._sizes)

    @property
    def arrays_made(self) -> tuple[int, int]:
        """How many temporaries and how many results one call makes; none where it is not fused."""
        if self._spec is None:
            return 0, 0
        inner = sum(_stored_between(spec.plan) for spec in partition.specs_of(self._spec))
        if not isinstance(self._spec, Program):
            plan = self._spec.plan
            written = {part.buffer for group in plan.groups for one in group.sections
                       for _, part in one.stores}  # fmt: skip
            return inner, len(written - {buffer.name for buffer in plan.temporaries})
        stored = {name for step in self._spec.steps for name in step.stored}
        results = stored & set(self._spec.outputs)
        return inner + len(stored - results), len(results)

    def _steps(self) -> list[str]:
        """Kernels, with the functions that NumPy runs where they run."""
        if not isinstance(self._spec, Program):
            return self.groups
        kernels, between, loops = iter(self.groups), iter(self.graph_breaks), iter(self.loops)
        asked = iter(self.asked)
        steps: list[str] = []
        for step in self._spec.steps:
            count = len(step.spec.plan.groups) if isinstance(step, Stage) else 0
            rest = between if isinstance(step, GraphBreak) else loops
            rest = asked if isinstance(step, Asked) else rest
            steps += [next(kernels) for _ in range(count)] or [next(rest)]
        return [step for step in steps if step]

    def __str__(self) -> str:
        """Readable text."""
        loops = f", {len(self.loops)} loop{'s' * (len(self.loops) > 1)}" if self.loops else ""
        title = _kernels(len(self.groups))
        if self.groups and self._spec is None:
            title = f"{len(self.groups)} step{'' if len(self.groups) == 1 else 's'} on chunks"
        lines = [f"{self.name}: mode {self.mode}, {title}{loops}"]
        for reason, times in Counter(map(str, self.fallbacks)).items():
            again = f" ({times} times)" if times > 1 else ""
            lines += wrapped(f"not fused: {reason}{again}", later="  ")
        if self.mode == "fallback" and not self.fallbacks:
            lines.append("not fused: this mode is NumPy, operation by operation")
        if self.lengths:
            lines += wrapped(f"lengths: {', '.join(self.lengths)}", later="  ")
        for step in self._steps():
            lines += ["", step]
        if self.ledger is not None:
            book = self.ledger
            lines += ["", *wrapped(
                f"bytes a call: unfused {book.unfused_bytes:,} in {book.kernels_unfused} "
                f"operations, planned {book.planned_bytes:,} in {_kernels(book.kernels_fused)}, "
                f"least possible {book.least_bytes:,}", later="  ",
            )]  # fmt: skip
        for title, entries in (
            ("paths so far", self.decisions),
            ("holds while", self.guards),
            ("rewrites", self.rules),
            ("pairs considered", self._pair_lines()),
            ("between kernels", [
                _boundary_line(entry) for entry in self.boundaries if entry["kind"] != "graph-break"
            ]),
        ):
            if entries:
                lines += ["", f"{title}:"]
                lines += [line for entry in entries for line in wrapped(entry, "  ", "      ")]
        return "\n".join(lines)

    __repr__ = __str__

    def _pair_lines(self) -> list[str]:
        """How many pairs were fused, and those that were not, the best first."""
        if self._spec is None:
            return []
        found = graph_breaks.candidate_rows(self._spec, self._sizes)
        rows = [dict(zip(COLUMNS, row, strict=True)) for row in found]
        apart = [row for row in rows if not row["fused"]]
        lines = [f"{len(rows)}, of which {len(rows) - len(apart)} fused"] if rows else []
        for row in apart[:SHOWN_PAIRS]:
            lines.append(f"{row['first']} and {row['second']} ({row['kind']}), "
                         f"{row['bytes_saved']:,} bytes to save: {row['reason']}")  # fmt: skip
        hidden = len(apart) - SHOWN_PAIRS
        return lines + ([f"… {hidden} more in .candidates"] if hidden > 0 else [])

    def to_svg(self) -> str:
        """A drawing of the plan: arrays, kernels, and the bytes between them, as SVG text.

        Raises:
            MissingProgramError: Graphviz, which lays it out, is not installed.
        """
        return drawing.to_svg(self._picture())

    def to_dot(self) -> str:
        """The same drawing as Graphviz text."""
        return drawing.to_dot(self._picture())

    def _picture(self) -> drawing.Picture:
        """What a drawing shows; where the call is not fused, why."""
        if self._spec is None:
            return drawing.picture_of_refusal(self.name, self.fallbacks)
        with moved_bytes.kept_by(self._keeps):
            return drawing.picture_of(self._spec, self._sizes)

    def _repr_html_(self) -> str:
        """For notebooks: the drawing above the text."""
        try:
            picture = self.to_svg() if self._spec is not None or self.fallbacks else ""
        except MissingProgramError as error:
            picture = html.escape(str(error))
        return (
            f'<div style="overflow-x: auto">{picture}</div>'
            f'<pre style="white-space: pre-wrap">{html.escape(str(self))}</pre>'
        )


def _paths(function: Owner, structure: Any, leaves: list[Any]) -> list[str]:
    """For each path that such calls have taken, the outcomes that lead along it, and where to."""
    lines = []
    for known in function.known_for(structure, leaves):
        if known.trace.decisions:
            outcomes = [f"{spell_outcome(text, value)} ({line})"
                        for text, value, line in known.trace.decisions]  # fmt: skip
            stop = ": NumPy runs such calls" if known.trace.stopped is not None else ""
            lines.append(f"{', '.join(outcomes)}{stop}")
    return lines


def _kernels(count: int) -> str:
    """How many kernels, in words."""
    return f"{count} kernel{'' if count == 1 else 's'}"


def _boundary_line(entry: dict[str, Any]) -> str:
    """One boundary as text."""
    readers = ", ".join(map(str, entry["read_by"]))
    origin, title = "", f"{entry['array']} holds {entry['value']}"
    if entry["written_by"] is not None:
        origin = f"written by kernel {entry['written_by']}, "
    elif "#" not in entry["value"]:
        title = entry["value"]
    more = "kernels" if len(entry["read_by"]) > 1 else "kernel"
    again = "" if origin or len(entry["read_by"]) > 1 else " more than once"
    return (
        f"{title}, {entry['bytes']:,} bytes more than the least: "
        f"{origin}read{again} by {more} {readers}; {entry['meaning']}"
    )


def _check_arguments(function: Owner, args: Any, kwargs: Any) -> None:
    """Refuse arguments that the function does not take: no call of it could be explained.

    Raises:
        ArgumentError: one is missing, or too many; of a method, perhaps the instance.
    """
    try:
        wanted = inspect.signature(function.__wrapped__, follow_wrapped=False)
    except (TypeError, ValueError):  # functions written in C may not tell
        return
    method = next(iter(wanted.parameters), "") == "self"
    advice = "; of a method, Class.method.explain(instance, ...) is wanted" if method else ""
    if method and args and type(args[0]).__module__ in NO_INSTANCES:
        raise ArgumentError(f"{function._name}{wanted}: self is no instance{advice}")
    try:
        wanted.bind(*args, **kwargs)
    except TypeError as error:
        raise ArgumentError(f"{function._name}{wanted}: {error}{advice}") from None


def explain_call(function: Owner, args: Any, kwargs: Any) -> Explanation:
    """Explain one call; nothing is run, but missing specialisations are traced."""
    found = Explanation(function._name, function.mode)
    kwargs = {k: v for k, v in kwargs.items() if k != "out" or not function._takes_out}
    _check_arguments(function, args, kwargs)
    try:
        structure, leaves = trees.flatten((args, kwargs))
        if (lazily := lazy_arrays.caller(leaves, "explained")) is not None:
            found.groups, found.fallbacks = lazily(function, structure, leaves)
            return found
        if any(map(lazy_arrays.is_buffer, leaves)):
            from fuser.calls.wrapped_arrays import memory_of  # most programs have none

            read = memory_of(function, structure, leaves)
            args, kwargs = trees.unflatten(structure, leaves if read is None else read)
        known = [reason for reason in function.fallbacks if reason.code == "no-gain"]
        function, args, kwargs = function.seen_as(args, kwargs)
        structure, leaves = trees.flatten((args, kwargs))
        with budget.limited(function._name):
            call = function._find_path(structure, leaves)
    except (CannotRun, Unsupported) as error:
        found.fallbacks.append(error.reason)
        return found
    found.fallbacks += known if known and is_brief(call) else ()
    trace, spec = call.specialisation.trace, call.specialisation.spec
    found.graph = trace.graph
    told = _told_by_integers(trace.graph)
    names = argument_names(trace.graph)
    found.guards = spell_guards(trace.graph.guards, trace.value_guards, told, names)
    found.guards += [f"{name} is contiguous in C order" for name in trace.in_order]
    named = [guard.name for guard in call.specialisation.names if hasattr(guard, "name")]
    for name in dict.fromkeys(named):
        found.guards.append(DEFAULTS.get(name, f"{name} is unchanged"))
    found.decisions = _paths(function, structure, leaves)
    if trace.stopped is not None:
        found.fallbacks.append(trace.stopped)
        return found
    if spec is None:
        found._sizes = call.sizes
        return found
    backend = executor.planned_for(call.arrays.values())
    spec = partition.in_terms_of(spec, trace.graph)
    if isinstance(spec, Program) and spec.options.mode == "fused":
        spec = partition.interchanged(spec, backend)
    spec = _as_run(spec, call, found)
    found._sizes = {**trace.hints, **call.sizes}
    found._spec = spec = partition.settled(spec, found._sizes)
    found._keeps = backend.keeps_rows
    specs = partition.specs_of(spec)
    applied = Counter(f"{a.table}: {a.equation}  {a.line}" for one in specs for a in one.applied)
    found.rules = [f"{text}{f' ({n} times)' if n > 1 else ''}" for text, n in applied.items()]
    found.lengths = _lengths(trace.graph, found._sizes)
    stages = spec.stages if isinstance(spec, Program) else ()
    for number, one in enumerate(specs):
        names = {f"o{k}": name for k, name in enumerate(stages[number].stored)} if stages else {}
        stage = f"stage {number} " if len(specs) > 1 else ""
        found.realised.update(
            {stage + k: verdicts.meaning(code) for k, code in one.plan.realised.items()}
        )
        found.groups += [
            describe_group(len(found.groups) + k, group, one.plan, found._sizes, names)
            for k, group in enumerate(one.plan.groups)
        ]
    if isinstance(spec, Program):
        with moved_bytes.kept_by(backend.keeps_rows):
            found.ledger = loop_text.whole_book(spec, found._sizes, call.numbers)
            found.loops = [
                loop_text.spell_loop(spec, loop, found._sizes, call.numbers)
                if isinstance(loop, LoopRegion)
                else loop_text.spell_element_loop(spec, loop, found._sizes, call.numbers)
                for loop in spec.between if not isinstance(loop, (GraphBreak, Asked))
            ]
        found.asked = [graph_breaks.spell_asked(spec, step, found._sizes) for step in spec.asked]
        found.graph_breaks = [
            graph_breaks.spell_break(spec, one, found._sizes) for one in spec.graph_breaks
        ]
        found.fallbacks += [one.reason for one in spec.graph_breaks]
    else:
        with moved_bytes.kept_by(backend.keeps_rows):
            found.ledger = ledger(spec, call.sizes)
    return found


def _as_run(spec: KernelSpec | Program, call: Any, found: Explanation) -> KernelSpec | Program:
    """A spec as it runs in the memory of this call's arrays; why it cannot is noted."""
    try:
        if isinstance(spec, Program):
            executor.device_of(call.arrays.values())
            return spec
        running = launch_of(call).by_rows
    except CannotRun as error:
        found.fallbacks.append(error.reason)
        return spec
    return spec.planned_as(row_tiling.as_run(spec.plan, running, call.sizes))


def _lengths(graph: Graph, sizes: Mapping[str, int]) -> list[str]:
    """What each symbol of a length stands for: `n0 = x.shape[0] = 64`."""
    names = argument_names(graph)
    found: dict[str, str] = {}
    for parameter in graph.parameters:
        for axis, dim in enumerate(parameter.shape):
            text = str(dim)
            if text in sizes:
                title = names.get(parameter.name, parameter.name)
                found.setdefault(text, f"{text} = {title}.shape[{axis}] = {sizes[text]:,}")
    for text, told in _told_by_integers(graph).items():
        if text in sizes:
            found.setdefault(text, f"{text} = {told} = {sizes[text]:,}")
    label = labels_of(graph)
    for node in graph.nodes:  # what NumPy gives has lengths of its own
        for axis, dim in enumerate(node.shape if node.op.is_opaque else ()):
            text = str(dim)
            if text in sizes:
                title = label[id(node)].partition(" ")[0]
                found.setdefault(text, f"{text} = {title}.shape[{axis}] = {sizes[text]:,}")
    return list(found.values())


def _told_by_integers(graph: Graph) -> dict[str, dims.Dim]:
    """Lengths that integer arguments tell, in the user's names of these: `n1` is `k`, or `-k`."""
    names = {name: dims.symbol(title) for name, title in argument_names(graph).items()}
    return {
        text: dims.substitute(told, names) for text, told in graph.scalar_lengths.items()
    }


def _stored_between(plan: Plan) -> int:
    """How many whole arrays a plan stores between kernels."""
    parts = [part for group in plan.groups for part in group.parts]
    kept = sum(len(part.rows.kept) for part in parts if part.rows is not None)
    return len(plan.temporaries) - kept


def launch_of(call: Any) -> Any:
    """The bound launch of a call.

    Raises:
        CannotRun: a kernel cannot be made.
    """
    import numpy as np

    arrays = {
        k: np.asarray(v) if isinstance(v, np.generic) else v for k, v in call.arrays.items()
    }
    name = executor.device_of(call.arrays.values())
    return executor.bound(call.specialisation.spec, arrays, call.sizes, name)


def kernels_of_call(function: Owner, args: Any, kwargs: Any) -> list[Kernel]:
    """The compiled kernels of a call.

    Raises:
        FusionError: the call cannot be fused.
    """
    _check_arguments(function, args, kwargs)
    try:
        if lazy_arrays.caller(trees.flatten((args, kwargs))[1]) is not None:
            found = "kernels of chunks; explain shows their graphs"
            raise Unsupported("lazy-array", function._name, found, "")
        function, args, kwargs = function.seen_as(args, kwargs)
        structure, leaves = trees.flatten((args, kwargs))
        with budget.limited(function._name):
            return _kernels_of(function._find_path(structure, leaves))
    except (CannotRun, Unsupported) as error:
        raise FusionError(error.reason) from None


def _kernels_of(call: Any) -> list[Kernel]:
    """The compiled kernels of a call that some specialisation holds for."""
    spec = call.specialisation.spec
    if spec is None:
        return []
    if isinstance(spec, Program):
        return run.kernels_of(spec, call.arrays, call.numbers)
    kernels: list[Kernel] = launch_of(call).kernels
    return kernels
