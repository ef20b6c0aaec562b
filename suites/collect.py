"""Turns the events of the worker processes into the raw record, at any moment of the run."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Any, cast

from fuser.reports.record import (
    Boundary,
    Ceiling,
    Cell,
    Ledger,
    MachineLoad,
    Run,
    Samples,
    Status,
    Variant,
)
from fuser.suites.measuring import Event
from fuser.suites.plan import CellPlan, Plan, VariantPlan
from fuser.suites.probes.findings import Findings
from fuser.suites.registry import resolve
from fuser.suites.runners import BUILT_IN
from fuser.suites.workload import Workload

COUNTED = (
    "kernels", "launches", "compilations", "planned_bytes", "allocations", "text_hashes",
    "peak_bytes", "tasks", "handed_bytes",
)
"""What a runner counts about a row and the record keeps as it is."""
OURS = frozenset(f"{each.__module__}:{each.__name__}" for each in BUILT_IN.values())


@dataclass(slots=True)
class RowFindings:
    """What is known of one variant on one cell, over all processes."""

    samples: list[tuple[int, int, int, int, float, int]] = field(default_factory=list)
    first_call_s: list[float] = field(default_factory=list)
    stages_s: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))
    relative: float | None = None
    ulp: float | None = None
    checked_calls: int = 0
    problem: str = ""
    remark: str = ""  # what a person should know of a row that keeps its time
    dropped: tuple[str, str] | None = None  # status, reason
    inside: dict[str, int] = field(default_factory=dict)  # status -> how often
    facts: Event = field(default_factory=dict)
    texts: dict[str, str] = field(default_factory=dict)  # kind -> key


class Collector:
    """Everything found so far. `cells()` and the like are valid whenever they are asked for."""

    def __init__(self, plan: Plan, workloads: Mapping[str, Workload] | None = None) -> None:
        self.plan = plan
        self.workloads = workloads or {}
        self.rows: dict[tuple[int, int], RowFindings] = defaultdict(RowFindings)
        self.cell_facts: dict[int, Event] = {}
        self.loads: dict[int, list[MachineLoad]] = defaultdict(list)
        self.ceilings: list[Ceiling] = []
        self.overhead: dict[str, Any] | None = None
        self.texts: dict[str, str] = {}
        self.experiments = Findings()
        self.anchors: dict[str, list[float]] = defaultdict(list)
        self.notes: list[str] = []

    def add(self, process: int, event: Event) -> None:
        """Take in one event of one process."""
        handler = getattr(self, f"_add_{event['event']}", None)
        if handler is not None:
            handler(process, event)
        elif event["event"] in Findings.NAMES:
            self.experiments.add(event)

    def _add_trace(self, process: int, event: Event) -> None:
        self.texts["trace"] = event["text"]

    def _add_note(self, process: int, event: Event) -> None:
        if event["text"] not in self.notes:
            self.notes.append(event["text"])

    def forget_samples(self, process: int, cells: Sequence[int] | None = None) -> None:
        """Drop the samples of a process that died, of these cells or all: they are taken again."""
        for (cell, _), row in self.rows.items():
            if cells is None or cell in cells:
                row.samples = [each for each in row.samples if each[0] != process]
        for cell, loads in self.loads.items():
            if cells is None or cell in cells:
                loads[:] = [each for each in loads if each.process != process]

    def fail(self, cell: int, variant: int, reason: str, status: str = "failed") -> None:
        """Note that a row cannot be measured."""
        self.rows[cell, variant].dropped = (status, reason)

    def _row(self, event: Event) -> RowFindings:
        return self.rows[event["cell"], event["variant"]]

    def _add_load(self, process: int, event: Event) -> None:
        fields = {k: v for k, v in event.items() if k not in ("event", "cell")}
        self.loads[event["cell"]].append(MachineLoad(process, **fields))

    def _add_cell(self, process: int, event: Event) -> None:
        self.cell_facts[event["cell"]] = event

    def _add_first(self, process: int, event: Event) -> None:
        row = self._row(event)
        if event["first_call_s"] is not None:
            row.first_call_s.append(event["first_call_s"])
        for stage, seconds in event["stages_s"].items():
            row.stages_s[stage].append(seconds)
        hashes = {**row.facts.get("text_hashes", {}), **event.get("text_hashes", {})}
        row.facts = {**event, "text_hashes": hashes}  # some targets are spelled once in a run
        for kind, text in event.get("texts", {}).items():
            row.texts[kind] = self.keep_text(text)

    def keep_text(self, text: str) -> str:
        """Keep a text once, whoever has it; return its key."""
        key = sha256(text.encode()).hexdigest()[:16]
        self.texts.setdefault(key, text)
        return key

    def _add_check(self, process: int, event: Event) -> None:
        row = self._row(event)
        row.checked_calls += 1
        for name in ("relative", "ulp"):
            if event[name] is not None:
                setattr(row, name, max(event[name], getattr(row, name) or 0.0))
        row.problem = row.problem or event["problem"]

    def _add_sample(self, process: int, event: Event) -> None:
        seconds = float(f"{event['seconds']:.6g}")  # the clock knows no more digits
        checked = int(event.get("checked", False))
        fields = (event["block"], event["order"], event["calls"], seconds, checked)
        self._row(event).samples.append((process, *fields))

    def _add_inside(self, process: int, event: Event) -> None:
        inside = self._row(event).inside
        inside[event["what"]] = inside.get(event["what"], 0) + int(event["count"])

    def _add_dropped(self, process: int, event: Event) -> None:
        self._row(event).dropped = (event["status"], event["reason"])

    def _add_own_function(self, process: int, event: Event) -> None:
        self._row(event).remark = event["text"]

    def _add_ceiling(self, process: int, event: Event) -> None:
        self.ceilings.append(Ceiling(**{k: v for k, v in event.items() if k != "event"}))

    def _add_overhead(self, process: int, event: Event) -> None:
        if self.overhead is None:
            self.overhead = {"clock_resolution_s": [], "empty_python_call_s": []}
        self.overhead["clock_resolution_s"].append(event["clock_resolution_s"])
        self.overhead["empty_python_call_s"].extend(event["empty_python_call_s"])

    def _add_anchors(self, process: int, event: Event) -> None:
        for name in ("compute_s", "memory_s"):
            self.anchors[name].append(event[name])

    # The record's parts.

    def call_overhead(self) -> dict[str, Any] | None:
        """Return the clock, the empty call, and the anchors before and after each process."""
        if self.overhead is None or not self.anchors:
            return self.overhead
        return {**self.overhead, "anchors": dict(self.anchors)}

    def variants(self) -> list[Variant]:
        """Return the variants as the record has them."""
        return [
            Variant(each.name, cast(Any, each.kind), each.description, each.absent_reason)
            for each in self.plan.variants
        ]

    def cells(self) -> list[Cell]:
        """Return the cells, each with a run for every selected variant."""
        return [self._cell(index, plan) for index, plan in enumerate(self.plan.cells)]

    def _cell(self, index: int, plan: CellPlan) -> Cell:
        workload = self.workloads.get(plan.workload) or resolve(plan.workload)
        facts = self.cell_facts.get(index, {})
        runs = [
            self._run(workload, plan, self.rows[index, number], variant)
            for number, variant in enumerate(self.plan.variants)
            if self.plan.wants(plan, variant) or variant.absent_reason is not None
        ]
        return Cell(
            id=plan.id, workload=workload.name, family=workload.family, dtype=plan.dtype,
            size=plan.size, axes=dict(plan.axes), elements=facts.get("elements", plan.elements),
            formula=workload.formula(), title=workload.title, must_refuse=workload.must_refuse,
            synthetic=workload.synthetic, note=facts.get("note", ""),
            input_bytes=facts.get("input_bytes", 0), output_bytes=facts.get("output_bytes", 0),
            ledger=self._ledger(index), load=self.loads[index], runs=runs,
        )

    def _ledger(self, index: int) -> Ledger:
        """Return the bytes that the fused and the kernels that both compiled variants count."""
        by_kind: dict[str, Event] = {}
        least_bytes = None
        for number, each in enumerate(self.plan.variants):
            if facts := self.rows[index, number].facts:
                # what others claim is no match for what is counted, and what no call can do
                # without is not for them to say
                if each.runner in OURS:
                    by_kind[each.kind] = facts
                    if each.kind == "fused":
                        least_bytes = facts.get("least_bytes")
                by_kind.setdefault(each.kind, facts)
        fused, unfused = by_kind.get("fused", {}), by_kind.get("unfused", {})
        return Ledger(
            unfused_bytes=fused.get("unfused_bytes"), planned_bytes=fused.get("planned_bytes"),
            least_bytes=least_bytes, kernels_fused=fused.get("kernels"),
            kernels_unfused=unfused.get("kernels"),
            operations=fused.get("operations"), elementary=fused.get("elementary"),
            boundaries=[Boundary(**each) for each in fused.get("boundaries", ())],
        )

    def _run(
        self, workload: Workload, plan: CellPlan, row: RowFindings, variant: VariantPlan
    ) -> Run:
        status, reason = self._status(workload, row, variant)
        # a wrong result has no speed: what was timed is not kept
        kept = [] if status in ("wrong", "failed") else sorted(row.samples)
        columns = [list(column) for column in zip(*kept, strict=True)] or [[], [], [], [], [], []]
        return Run(
            variant=variant.name, status=status, reason=reason,
            expected_fallback=variant.kind == "fallback"
            or (workload.must_refuse and variant.kind in ("unfused", "fused", "peer", "into")),
            samples=Samples(*columns), first_call_s=row.first_call_s,
            compile_stages_s=dict(row.stages_s), max_error_ulp=row.ulp,
            max_relative_error=row.relative,
            tolerance=workload.tolerance(plan.dtype, plan.elements, plan.axes),
            checked_calls=row.checked_calls,
            fallback_reasons=row.facts.get("fallback_reasons", []), texts=dict(row.texts),
            **{name: row.facts[name] for name in COUNTED if name in row.facts},
        )

    def _status(
        self, workload: Workload, row: RowFindings, variant: VariantPlan
    ) -> tuple[Status, str]:
        if variant.absent_reason is not None:
            return "absent", variant.absent_reason
        if row.dropped is not None:
            return cast(Status, row.dropped[0]), row.dropped[1]
        if row.problem:
            return "wrong", row.problem
        if not row.samples:
            return "not_run", "the run ended before this row was timed"
        if count := row.inside.get("compiled_inside"):
            return "compiled_inside", f"compiled {count} kernels while it was timed"
        if variant.kind == "fallback":
            return "ok", ""
        reasons = row.facts.get("fallback_reasons")
        # with kernels beside them these are graph breaks of a program that is fused around them
        if reasons and not row.facts.get("kernels"):
            return "fell_back", "; ".join(reasons)
        if count := row.inside.get("fell_back"):
            return "fell_back", f"fell back {count} times while it was timed"
        return "ok", row.remark
