"""Every pair of operations that was considered for one kernel, as a table."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from fuser.base.records import record
from fuser.ir.graph import Node, size_bytes
from fuser.ir.labels import labels_of
from fuser.kernel_spec import KernelSpec
from fuser.scheduling import verdicts
from fuser.scheduling.clustering import KIND_BONUS, score_fusion
from fuser.scheduling.inlining import through_views
from fuser.scheduling.loop_nests import value_of
from fuser.scheduling.nest_sequences import settled
from fuser.scheduling.plans import Plan

#: Columns of the table:
#:   first, second: the operations in the user's terms, `exp#3 (model.py:12)`;
#:   kind: "vertical" (the second needs the first), "view" (likewise, and one of them only moves
#:     data), "horizontal" (both read the same array), "graph-break" (one of them runs in NumPy);
#:   score: bytes_saved x (1 + kind_bonus) / (1 + distance / 1000): pairs are tried best first;
#:   bytes_saved: what is not written and read, or not read twice, if they share loops, and all
#:     else stays as it is; an array that both see through views counts whole; a view itself moves
#:     nothing, so pairs with it as the second save nothing, nor do loops that run one after another
#:     in one kernel, where what lies between stays in the cache;
#:   fused: whether they do; reason: the sentence of `verdict`, a code of `verdicts.VERDICTS`;
#:   distance: operations between them; kind_bonus: `grouping.KIND_BONUS` of the kind.
COLUMNS = [
    "first", "second", "kind", "score", "bytes_saved", "fused", "reason", "verdict", "distance",
    "kind_bonus",
]  # fmt: skip


def rows_of(spec: KernelSpec, sizes: Mapping[str, int] | None = None) -> list[tuple[Any, ...]]:
    """Every pair considered, the best first, and whether it shares a kernel's loops.

    Args:
        spec: the prepared graph.
        sizes: lengths by symbol; 1024 each by default.

    Returns:
        Rows of a table with `COLUMNS`.
    """
    known = spec.plan.graph.with_lengths_of(1024) | dict(sizes or {})
    score = COLUMNS.index("score")
    return sorted(_rows(spec.plan, known), key=lambda entry: -entry[score])


def row(
    first: str, second: str, kind: str, bytes_saved: int, verdict: str, distance: int
) -> tuple[Any, ...]:
    """One row of the table."""
    return (
        first, second, kind, score_fusion(bytes_saved, kind, distance), bytes_saved,
        verdict in verdicts.FUSED, verdicts.meaning(verdict), verdict, distance,
        KIND_BONUS.get(kind, 0.0),
    )  # fmt: skip


def _rows(plan: Plan, sizes: Mapping[str, int]) -> Iterator[tuple[Any, ...]]:
    """Pairs of which one needs the other, then pairs of stored values."""
    plan = settled(plan, sizes)
    near = _in_turn(plan)
    label = labels_of(plan.graph)
    place = {id(node): k for k, node in enumerate(plan.graph.nodes)}
    seen: set[tuple[int, int]] = set()
    loaded, handed = _loaded(plan), _handed(plan)
    loaded.update(dict.fromkeys(handed, "same-rows"))
    for node in plan.graph.nodes:
        for arg in {id(a): a for a in node.args}.values():
            if arg.op.arity == 0:
                continue
            seen.add((id(arg), id(node)))
            view = _is_view(node) or _is_view(arg)
            verdict = loaded.get((id(through_views(arg)), id(node)))
            if verdict is None:
                verdict = "view" if view else "inlined"
            saved = saved_bytes(arg, node, sizes)
            if (id(through_views(arg)), id(node)) in handed:  # written all the same
                saved -= size_bytes(through_views(arg), sizes)
            if verdict not in verdicts.FUSED and id(through_views(arg)) in near.kept:
                saved = 0
            distance = place[id(node)] - place[id(arg)]
            yield row(label[id(arg)], label[id(node)], "view" if view else "vertical", saved,
                      verdict, distance)  # fmt: skip
    for pair in plan.pairs:
        if (id(pair.first), id(pair.second)) in seen:
            continue
        saved = sum(size_bytes(node, sizes) * times for node, times in pair.shared)
        verdict = pair.verdict
        if verdict not in verdicts.FUSED and near.together(pair.first, pair.second):
            saved = 0
        if verdict == "through-view" and pair.kind == "vertical" and pair.first.op.reduction:
            verdict = "reduction-elsewhere"
        yield row(label[id(pair.first)], label[id(pair.second)], pair.kind, saved, verdict,
                  pair.distance)  # fmt: skip


@record
class _InTurn:
    """What loops that run one after another in one kernel compute and keep in the cache.

    Attributes:
        kernel: the kernel's number by `id` of each value that they store.
        kept: the values, by `id`, that do not reach memory.
    """

    kernel: Mapping[int, int]
    kept: frozenset[int]

    def together(self, first: Node, second: Node) -> bool:
        """Whether both are stored by one such kernel."""
        found = self.kernel.get(id(first))
        return found is not None and found == self.kernel.get(id(second))


def _in_turn(plan: Plan) -> _InTurn:
    """The values of kernels of several."""
    kernel: dict[int, int] = {}
    kept: set[int] = set()
    for number, group in enumerate(plan.groups):
        for section in group.sections if group.turns else ():
            for value, part in section.stores:
                node = section.node_of(value)
                kernel[id(node)] = number
                if part.buffer in group.inside:
                    kept.add(id(node))
    return _InTurn(kernel, frozenset(kept))


def _is_view(node: Node) -> bool:
    """Whether a node only shows another value: joins and functions of NumPy's make new ones."""
    return node.op.structure and not (node.op.concatenates or node.op.is_opaque)


def shown_by(node: Node) -> Node:
    """The value behind views, which is no view."""
    while _is_view(node) and node.args:
        node = node.args[0]
    return node


def saved_bytes(first: Node, second: Node, sizes: Mapping[str, int]) -> int:
    """Bytes that are not written and read when `second` computes what it needs of `first`.

    A view moves nothing, and what it shows of an argument is read in any case. Elements that a
    view repeats are read once.
    """
    if _is_view(second):
        return 0
    source = shown_by(first)
    if source.op.given:
        return 0
    whole = size_bytes(source, sizes)
    return whole + min(whole, size_bytes(first, sizes))


def _loaded(plan: Plan) -> dict[tuple[int, int], str]:
    """(value, operation) by `id` -> the verdict, where the operation reads the value stored."""
    found: dict[tuple[int, int], str] = {}
    for group in (part for one in plan.groups for part in one.parts):
        for section in group.sections:
            stored = {
                id(value_of(node)): plan.realised[part.buffer]
                for node, part in zip(section.load_nodes, section.loads, strict=True)
                if part.buffer in plan.realised
            }
            if not stored:
                continue
            for step in section.steps:
                for arg in step.node.args:
                    source = through_views(arg)
                    if id(source) in stored:
                        found[(id(source), id(step.node))] = stored[id(source)]
                        if arg is not source:  # the view itself is read through
                            found[(id(source), id(arg))] = stored[id(source)]
    return found


def _handed(plan: Plan) -> set[tuple[int, int]]:
    """(value, operation) by `id`, where the operation is handed rows of a value that is stored."""
    found: set[tuple[int, int]] = set()
    for group in (part for one in plan.groups for part in one.parts):
        names = {name for name, _ in group.rows.handed} if group.rows is not None else set()
        for section in group.sections if names else ():
            rows = {
                id(node)
                for node, part in zip(section.load_nodes, section.loads, strict=True)
                if part.buffer in names
            }
            for step in section.steps:
                sources = map(id, map(through_views, step.node.args))
                found.update((source, id(step.node)) for source in sources if source in rows)
    return found
