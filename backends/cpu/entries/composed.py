"""Tables whose calls do more than hand over new arrays: written arguments, views, nests.

Outputs that kernels write into arguments themselves are like arrays of `out=`. The dispatcher puts
outputs, arguments and constants together where a function returns one of them or a tuple of them;
for all else it calls the function that `fuser.calls.result_assembly` has written.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from fuser.backend import ServedCall
from fuser.backends.cpu.entries.containers import out_slot
from fuser.backends.cpu.entries.draft import Draft
from fuser.backends.cpu.entries.names import NotServed
from fuser.backends.cpu.machine import layout
from fuser.base.trees import Leaf
from fuser.calls.result_assembly import NotAssembled, assemble
from fuser.runtime.aliasing import reach, reads_in_place
from fuser.tracing.trace_result import OutAlias, OutNode, OutStatic, Trace


def describe_results(draft: Draft) -> None:
    """What the dispatcher does with a call's outputs; which arguments are written.

    Raises:
        NotServed: something that only Python does.
    """
    call = draft.call
    trace, spec = call.specialisation.trace, call.specialisation.spec
    count = len(spec.plan.outputs)
    if count > layout.MOST_OUTPUTS or len(trace.leaves) > layout.MOST_LEAVES:
        raise NotServed
    _describe_writes(draft)
    draft.generic = [False] * count
    if _one_after_another(trace, call.direct, count):
        for leaf in trace.leaves:
            if type(leaf) is OutNode:
                draft.generic[leaf.index] = leaf.generic
        _check_targets(call)
        if type(call.out) is tuple:
            draft.leaves = [layout.words("LEAF", kind=layout.GIVEN, index=out_slot(call))]
        elif type(trace.structure) is not Leaf:
            draft.leaves = [layout.words("LEAF", kind=layout.MADE, index=k) for k in range(count)]
        draft.composed = bool(draft.leaves)
        return
    if call.out is not None:
        raise NotServed
    copied = {output for _, output, _ in trace.writes} - call.direct
    rows = None if copied else _plain_rows(draft)
    if rows is None:
        try:
            made = assemble(trace, call.specialisation.captured, call.direct)
        except NotAssembled:
            raise NotServed from None
        draft.assembled = made.function
        rows = [(layout.MADE, output) for output in made.results]
        rows += [(layout.GIVEN, draft.places.slots[leaf]) for leaf in made.leaves]
        rows += [(layout.GIVEN, draft.places.containers[path]) for path in made.containers]
    if len(rows) > layout.MOST_LEAVES:
        raise NotServed
    draft.leaves = [layout.words("LEAF", kind=kind, index=index) for kind, index in rows]
    draft.composed = True


def _describe_writes(draft: Draft) -> None:
    """Arguments that are written have to be writeable arrays."""
    trace = draft.call.specialisation.trace
    if trace.writes and draft.call.out is not None:
        raise NotServed
    for parameter, output, region in trace.writes:
        name = trace.graph.parameters[parameter].name
        array = draft.call.arrays[name]
        if type(array) is not np.ndarray:
            raise NotServed
        record = draft.records[draft.record_of[name]]
        record["flags"] = record.get("flags", 0) | layout.IS_WRITEABLE
        if output in draft.call.direct:
            draft.record_of[f"o{output}"] = draft.record_of[name]
            draft.written[f"o{output}"] = name
            draft.in_part = draft.in_part or region is not None


def _one_after_another(trace: Trace, direct: Any, count: int) -> bool:
    """Whether the results are the outputs, alone or in a tuple."""
    if type(trace.structure) is Leaf:
        flat = True
    else:
        flat = type(trace.structure) is tuple
        flat = flat and trace.structure == tuple(map(Leaf, range(len(trace.leaves))))
    if not flat or not trace.leaves or len(trace.leaves) != count:
        return False
    for k, leaf in enumerate(trace.leaves):
        if type(leaf) is OutAlias:
            if leaf.views or k not in direct or (leaf.parameter, k, None) not in trace.writes:
                return False
        elif type(leaf) is not OutNode or leaf.index != k:
            return False
    return True


def _check_targets(call: ServedCall) -> None:
    """Refuse what `out=` cannot natively be.

    Raises:
        NotServed: Python has to look.
    """
    trace, spec = call.specialisation.trace, call.specialisation.spec
    if call.out is None:
        return
    if trace.hazards or spec.may_raise:
        raise NotServed
    if (type(trace.structure) is Leaf) is (type(call.out) is tuple):
        raise NotServed
    targets = call.out if type(call.out) is tuple else (call.out,)
    if any(type(target) is not np.ndarray for target in targets):
        raise NotServed


def _plain_rows(draft: Draft) -> list[tuple[int, int]] | None:
    """Where each result is; None where a result has to be made in Python."""
    trace = draft.call.specialisation.trace
    structure, rows = trace.structure, []
    if type(structure) is not Leaf:
        flat = type(structure) is tuple and structure == tuple(map(Leaf, range(len(trace.leaves))))
        if not flat:
            return None
    for leaf in trace.leaves:
        row = _plain_row(draft, leaf)
        if row is None:
            return None
        rows.append(row)
    return rows


def _plain_row(draft: Draft, leaf: Any) -> tuple[int, int] | None:
    """Where one result is."""
    call = draft.call
    if type(leaf) is OutNode and not leaf.generic:
        return layout.MADE, leaf.index
    if type(leaf) is OutAlias and not leaf.views:
        place = call.specialisation.trace.parameter_leaves[leaf.parameter]
        if place is not None:
            return layout.GIVEN, draft.places.slots[place]
        name = call.specialisation.trace.graph.parameters[leaf.parameter].name
        value = call.specialisation.captured[name]
    elif type(leaf) is OutStatic and not (leaf.fresh and type(leaf.value) is np.ndarray):
        value = leaf.value
    else:
        return None
    draft.keep.append(value)
    return layout.CONSTANT, id(value)


def pairs_apart(draft: Draft, names: Mapping[str, Any]) -> list[tuple[str, str, bool]]:
    """Pairs of arrays that must not share memory: what is written, by which name, what is read.

    The third says whether they may be one array, if they are laid out alike.

    Args:
        draft: the table.
        names: arrays that have records, by their names.
    """
    spec, backend = draft.call.specialisation.spec, draft.call.launch.backend
    targets = [name for name in draft.record_of if name.startswith("o")]
    pairs: list[tuple[str, str, bool]] = []
    for k, written in enumerate(targets):
        own = draft.written.get(written, written)
        others = {draft.written.get(name, name) for name in targets[: k + 1]}
        mine = {draft.written.get(name, name) for name in targets}
        for name in names:
            if name not in others and name != own:
                in_place = name not in mine and reads_in_place(spec, backend, name)
                pairs.append((written, name, in_place))
    hazards = draft.call.specialisation.trace.hazards
    return pairs + [(*pair, False) for pair in hazards if names.keys() >= set(pair)]


def exact_pair(
    places: Sequence[int], target: Any, array: Any, *, in_place: bool = False, shift: int = 0
) -> list[list[int]]:
    """The row of two arrays of such lengths and strides that must be apart; none of empty ones.

    Args:
        places: of their records.
        target: the one that is written.
        array: the other one.
        in_place: whether they may be one array, if they are laid out alike.
        shift: how many bytes behind the record's first element the target lies.
    """
    if not target.size or not array.size:
        return []
    same = array.strides == target.strides and array.shape == target.shape
    same = same and array.dtype.itemsize == target.dtype.itemsize and not shift
    (low_w, high_w), (low_r, high_r) = reach(target), reach(array)
    row = layout.words(
        "OVERLAP", written=places[0], read=places[1], same=int(same and in_place),
        low_w=low_w - shift, low_r=low_r, factor_w=high_w + shift, factor_r=high_r,
    )  # fmt: skip
    return [row]
