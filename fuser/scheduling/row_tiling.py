"""A plan with its chains of nests: which there may be, and which run so in one call's memory."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from fuser.base.records import changed
from fuser.ir import dims
from fuser.scheduling.clustering import Pair
from fuser.scheduling.nest_sequences import joined, settled
from fuser.scheduling.plans import Plan
from fuser.scheduling.row_tiles import Group, chained, runs_by_rows


def by_rows(found: Plan) -> Plan:
    """A plan with row tiles: nests that run by turns on a few rows, which stay in the cache."""
    groups = chained(found.groups, found.held)
    chains = [group for group in groups if group.rows is not None]
    if not chains:
        return changed(found, groups=tuple(joined(groups)))
    kept = {name: "same-rows" for group in chains if group.rows for name, _ in group.rows.kept}
    chain_of = _chain_of(chains)
    pairs = tuple(
        changed(pair, verdict="same-rows")
        if pair.verdict != "same-loops" and _together(pair, chain_of)
        else pair
        for pair in found.pairs
    )
    realised = found.realised | kept
    return changed(found, groups=tuple(joined(groups)), realised=realised, pairs=pairs)


def as_run(plan: Plan, running: Collection[tuple[int, int]], sizes: Mapping[str, int]) -> Plan:
    """A plan as it runs in the memory of one call's arrays: other chains are nests that store.

    Args:
        plan: with its chains.
        running: numbers of the groups, and of their parts, that run by rows.
        sizes: lengths by symbol.
    """
    held = plan.held
    realised, pairs = dict(plan.realised), list(plan.pairs)
    groups = []
    for number, group in enumerate(plan.groups):
        parts = list(group.parts)
        for k, part in enumerate(parts):
            if part.rows is None or (number, k) in running or _is_empty(part, sizes):
                continue
            reason = "rows-across" if runs_by_rows(part, held, sizes) else "long-rows"
            realised.update((name, reason) for name, _ in part.rows.kept)
            parts[k] = changed(part, rows=None)
            chain_of = _chain_of([part])
            pairs = [
                changed(pair, verdict=reason)
                if pair.verdict == "same-rows" and _together(pair, chain_of)
                else pair
                for pair in pairs
            ]
        groups.append(changed(group, turns=tuple(parts)) if group.turns else parts[0])
    found = changed(plan, groups=tuple(groups), realised=realised, pairs=tuple(pairs))
    return settled(found, sizes)


def _chain_of(chains: Sequence[Group]) -> dict[int, int]:
    """By `id`, values that nests of chains store, with the number of the chain."""
    return {
        id(section.node_of(value)): number
        for number, group in enumerate(chains)
        for section in group.sections
        for value, _ in section.stores
    }


def _together(pair: Pair, chain_of: Mapping[int, int]) -> bool:
    """Whether one chain stores both values."""
    first = chain_of.get(id(pair.first))
    return first is not None and first == chain_of.get(id(pair.second))


def _is_empty(group: Group, sizes: Mapping[str, int]) -> bool:
    """Whether some nest has nothing to do."""
    return any(
        dims.evaluate(dim, sizes) == 0 for section in group.sections for dim in section.shape
    )
