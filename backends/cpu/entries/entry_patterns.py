"""Tables that serve every length, while the work is short.

What the words of a template are in terms of lengths, `entry_products` finds. For the lengths of the
real call the products have to give the words of the real launch.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from fuser.backend import ServedCall
from fuser.backends.cpu import costs
from fuser.backends.cpu.costs import PARALLEL_NS
from fuser.backends.cpu.entries import entry_fields as fields
from fuser.backends.cpu.entries.entry_composed import pairs_apart
from fuser.backends.cpu.entries.entry_draft import Draft
from fuser.backends.cpu.entries.entry_lengths import settled_from, shortest
from fuser.backends.cpu.entries.entry_names import NotServed
from fuser.backends.cpu.entries.entry_products import Pattern
from fuser.backends.cpu.entries.entry_tables import (
    PATIENCE_NS,
    SCALAR_NAME,
    computed_scalar,
    describe_arguments,
    fixed_scalar,
    number_scalar,
    output,
    pack,
    target_of,
)
from fuser.backends.cpu.machine import pool
from fuser.backends.cpu.reducing import beside_rows, few_rows, nest_views, reduction_forms
from fuser.backends.cpu.sequence import HEAD_WORDS, Table
from fuser.base.records import changed
from fuser.ir import dims
from fuser.runtime.launch import bind

#: Estimated nanoseconds of several loop nests, or of a reduction that has met many lengths, that
#: one thread does whatever the lengths.
SEVERAL_NS = 100_000
#: Estimated nanoseconds are counted in this many parts.
PARTS = 1024


def pattern_table(call: ServedCall, many: bool = False) -> tuple[Any, Draft]:
    """A table for calls like this one, whatever the lengths, while the work is short.

    Args:
        call: one of them.
        many: whether many lengths have been met that had tables of their own.

    Raises:
        NotServed: the lengths do not enter as products, or arrays are not contiguous.
    """
    spec = call.specialisation.spec
    if spec.in_parts:  # planned anew, without complex values
        raise NotServed
    if any(group.blocks for group in call.launch.groups):
        call = _nest_by_nest(call)
    least, guards = shortest(call.specialisation.trace.value_guards)
    least = max(least, settled_from(spec.plan))
    draft = Draft(call, Table(call.launch))
    describe_arguments(draft)
    draft.guards.extend(guards)
    pattern = Pattern(draft)
    if any(size < least for probe in pattern.probes for size in probe.sizes.values()):
        raise NotServed
    reduces = any(s.axes for g in spec.plan.groups for s in g.sections)
    _scalars(pattern)
    _words(pattern)
    tables = [probe.table for probe in pattern.probes]
    temporaries = [
        pattern.solve([_bytes(t.temporaries[name]) for t in tables])
        for name in draft.table.temporaries
    ]
    rows = {
        "outputs": _outputs(pattern),
        "overlaps": _overlaps(pattern),
        "temporaries": temporaries,
        "work": _work(pattern),
        "ranges": _ranges(pattern),
    }
    limit = longest_ns(call, many) * PARTS
    if not reduces and len(rows["work"]) == 1:  # large results come from the pool, by exact tables
        widest = max((entry.dtype.itemsize for entry in draft.table.outputs), default=1)
        limit = min(limit, rows["work"][0][0] * (pool.THRESHOLD // widest))
    base_of = {name: k for k, name in enumerate(draft.table.temporaries)}
    words = pack(
        draft, rows, base_of, limit=limit, patience=PATIENCE_NS * PARTS,
        least=max(2 if reduces else 1, least),
    )  # fmt: skip
    return words, draft


def _nest_by_nest(call: ServedCall) -> ServedCall:
    """A call whose chains run on all rows at once, as short ones may: what they keep stays near.

    How many rows run at a time is no product of lengths.

    Raises:
        NotServed: that takes other kernels.
    """
    launch = call.launch
    spec = call.specialisation.spec
    try:
        whole = bind(
            spec, call.arrays, call.sizes, launch.backend, launch.arg_specs, by_rows=False
        )
    except LookupError:
        raise NotServed from None
    return changed(call, launch=whole)


def longest_ns(call: ServedCall, many: bool = False) -> int:
    """Estimated nanoseconds from which on calls are served by tables of their own lengths.

    Those share work among threads. Binding one costs more than sharing saves where there are
    several loop nests, or where lengths of a reduction do not come again.
    """
    nests = [nest for group in call.launch.groups for nest in group.kernel.nests]
    single = len(nests) == 1 and (nests[0].strategy == "map" or not many)
    return int(PARALLEL_NS) if single else SEVERAL_NS


def _bytes(entry: Any) -> int:
    """The size of an array to allocate."""
    return int(np.prod(entry.shape, dtype=np.int64)) * int(entry.dtype.itemsize)


def _words(pattern: Pattern) -> None:
    """Products for the words of the template that depend on lengths; the others stay.

    Raises:
        NotServed: they do not give the real launch's words.
    """
    draft = pattern.draft
    tables = [probe.table for probe in pattern.probes]
    real = draft.table
    if any(len(table.words) != len(real.words) for table in tables):
        raise NotServed
    sizes = {number: draft.call.sizes[name] for name, number in pattern.symbols.items()}
    least = min(sizes.values(), default=2)
    for name, number in pattern.strided.items():
        sizes[number] = pattern.arrays[name].strides[0]
    heads = {at + k for at in real.heads for k in (0, *range(3, HEAD_WORDS))}
    known = draft.known | {row[0] for row in draft.scalars} | {row[5] for row in draft.products}
    for at in real.heads:
        real.words[at + 3 : at + 8] = [0] * 5
    for place in range(len(real.words)):
        if place in heads or place in known:
            continue
        row = pattern.solve([table.words[place] for table in tables])
        if least > 1 and pattern.value(row, sizes) != real.words[place]:
            raise NotServed
        real.words[place] = row[0]
        if any(row[1:5]):
            draft.products.append([*row[:5], place])


def _scalars(pattern: Pattern) -> None:
    """Run-time scalars: products of lengths natively, all other expressions by Python.

    What an expression is, its text tells; it is not inferred from values.
    """
    draft = pattern.draft
    numbers = dict(draft.call.specialisation.scalar_leaves)
    for first, wanted in draft.table.scalars:
        for place, (text, dtype) in enumerate(wanted, first):
            if text in draft.fixed:
                fixed_scalar(draft, place, text, dtype)
                continue
            if text in numbers:
                draft.scalars.append(number_scalar(draft, place, text, dtype))
                continue
            if SCALAR_NAME.search(text):
                draft.scalars.append(computed_scalar(draft, place, text, dtype))
                continue
            found = pattern.product_of(text)
            if found is None:
                draft.scalars.append(computed_scalar(draft, place, text, dtype))
                continue
            draft.products.append([*found[:5], place])
            target, low, high = target_of(dtype)
            draft.scalars.append(
                fields.words(
                    "SCALAR", place=place, source=fields.FROM_LENGTH, target=target, low=low,
                    high=high,
                )
            )  # fmt: skip


def _outputs(pattern: Pattern) -> list[list[int]]:
    """The arrays to allocate; each length is one symbol."""
    draft = pattern.draft
    fresh = [{e.name: e for e in probe.table.outputs} for probe in pattern.probes]
    rows = []
    for k, generic in enumerate(draft.generic):
        name = f"o{k}"
        if name in draft.record_of:
            rows.append(fields.words("OUTPUT", given=draft.record_of[name]))
            continue
        entries = [known[name] for known in fresh]
        if any(entry.order is not None for entry in entries):
            raise NotServed
        codes = []
        for pair in zip(*(entry.shape for entry in entries), strict=True):
            codes.append(pattern.symbol_of(pair))
        listed = fields.array([codes])
        draft.keep.append(listed)
        rows.append(output(draft, entries[0], generic, codes=fields.address(listed)))
    return rows


def _work(pattern: Pattern) -> list[list[int]]:
    """Estimated nanoseconds of each loop nest as a product."""
    rows = []
    nests = zip(*(probe.table.nests for probe in pattern.probes), strict=True)
    for pair in nests:
        kernel, number, extent = pair[0]
        counts = [getattr(e, "elements", e[0] * e[1]) for _, _, e in pair]
        row = pattern.solve(counts)
        each = kernel.work_ns(number, extent) / max(counts[0], 1)  # of nothing, where it sums
        rows.append([max(1, round(row[0] * each * PARTS)), *row[1:]])
    return rows


def _ranges(pattern: Pattern) -> list[list[int]]:
    """Lengths for which reductions keep their schedules: see `reduction_forms`."""
    draft = pattern.draft
    spec = draft.call.specialisation.spec
    rows = [[1, number, 0, 0, 0, length, length] for number, length in pattern.settled.items()]
    nests = [*zip(*(probe.table.nests for probe in pattern.probes), strict=True)]
    places = [(g, s) for g in spec.plan.groups for s in g.sections]
    if len(nests) != len(places):  # one of no elements, whatever the lengths, is not launched
        raise NotServed
    for pair, (_, section) in zip(nests, places, strict=True):
        extents = [extent for _, _, extent in pair]
        if not isinstance(extents[0], costs.Extent):
            continue
        elements = pattern.solve([extent.elements for extent in extents])
        kernel, number, _ = pair[0]
        nest = kernel.nests[number]
        written = extents[0].schedule.unroll > 0
        least = few_rows.LEAST if written else 0
        rows.append([*elements[:5], least, reduction_forms.longest_whole(nest)])
        if written:
            inner = pattern.solve([extent.inner for extent in extents])
            rows.append([*inner[:5], few_rows.LEAST_COLUMNS, 1 << 40])
            continue
        if not nest_views.can_lie_beside(nest):
            continue
        lengths = [
            math.prod(dims.evaluate(section.shape[axis], probe.sizes) for axis in section.axes)
            for probe in pattern.probes
        ]
        short = reduction_forms.short_rows(nest)
        low, high = short + 1, 1 << 40
        if extents[0].schedule == beside_rows.PAIRWISE:
            low, high = beside_rows.BLOCK, short
        elif extents[0].schedule == beside_rows.GATHERED:
            alike = beside_rows.schedule_of(nest, short) == beside_rows.GATHERED
            low, high = 0, short if alike else beside_rows.BLOCK - 1
        rows.append([*pattern.solve(lengths)[:5], low, high])
    return rows


def _overlaps(pattern: Pattern) -> list[list[int]]:
    """What arrays that are written must not share memory with."""
    draft = pattern.draft
    rows = []
    for written, read, in_place in pairs_apart(draft, pattern.arrays):
        target = draft.written.get(written, written)
        same = pattern._shapes[read] == pattern._shapes[target]
        sizes = {pattern.arrays[name].dtype.itemsize for name in (read, target)}
        w, r = _extent(pattern, target), _extent(pattern, read)
        rows.append(
            fields.words(
                "OVERLAP", written=draft.record_of[written], read=draft.record_of[read],
                same=int(same and len(sizes) == 1 and in_place),
                factor_w=w[0], aw=w[1], bw=w[2], cw=w[3], dw=w[4],
                factor_r=r[0], ar=r[1], br=r[2], cr=r[3], dr=r[4],
            )
        )  # fmt: skip
    return rows


def _extent(pattern: Pattern, name: str) -> list[int]:
    """An array's bytes as a product."""
    sizes = [
        int(np.prod([dims.evaluate(d, probe.sizes) for d in pattern._shapes[name]], dtype=np.int64))
        for probe in pattern.probes
    ]
    itemsize = int(pattern.arrays[name].dtype.itemsize)
    return pattern.solve([size * itemsize for size in sizes])
