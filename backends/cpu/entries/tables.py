"""Tables for the native dispatcher, made from a call that Python has just served.

What both kinds of tables have in common is here: how arguments and names are compared, scalars,
results. `exact` makes tables that serve one combination of lengths and strides, whatever
they are; `general` makes tables that serve all lengths.
"""

from __future__ import annotations

import ctypes
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from fuser.backends.cpu.entries.composed import describe_results
from fuser.backends.cpu.entries.containers import table_of
from fuser.backends.cpu.entries.draft import Draft
from fuser.backends.cpu.entries.names import Guard, NotServed, describe_names
from fuser.backends.cpu.machine import layout
from fuser.base.host_expressions import evaluate_scalar
from fuser.base.trees import Leaf
from fuser.calls.result_assembly import NotAssembled, prepare
from fuser.runtime.launch import Fresh, pack_scalars
from fuser.runtime.symbolic import NotSymbolic, Symbolic

#: Integers up to this one are the same in float64.
EXACT_INTEGER = 1 << 53
#: Work of more estimated nanoseconds than this runs with the GIL released.
PATIENCE_NS = 20_000

GENERIC, POOLED = layout.place("OUTPUT", "generic"), layout.place("OUTPUT", "pooled")
SCALAR_NAME = re.compile(r"\bs\d+\b")
#: Integers of which there is one object each.
_SMALL = range(-5, 257)
_RANGE = re.compile(r"(-?\d+) <= \((s\d+)\) <= (-?\d+)")


def describe_arguments(draft: Draft) -> None:
    """Records of everything but arrays: Python numbers and objects; places of arrays' records.

    Raises:
        NotServed: a value is guarded in a way that needs Python.
    """
    call = draft.call
    names = {place: name for name, place in call.specialisation.array_leaves}
    numbers = {place: name for name, place in call.specialisation.scalar_leaves}
    guarded = draft.fixed = _guarded_scalars(draft, set(numbers.values()))
    for place, (leaf, slot) in enumerate(zip(call.leaves, draft.places.slots, strict=True)):
        record = {"slot": slot, "type": id(type(leaf))}
        name = names.get(place) or numbers.get(place)
        if place in numbers and name not in guarded:
            record |= {"kind": layout.NUMBER}
        elif place in names and isinstance(leaf, np.generic):
            _check_generic(leaf)
            record |= {"kind": layout.GENERIC}
        elif place not in names and type(leaf) is np.ndarray and call.specialisation.identities:
            record |= {"kind": layout.NUMBER}  # it is another argument, which Python looks at
        elif any(type(leaf) is kind for kind in (slice, range, bytes)):  # mostly made anew
            record |= {"kind": layout.NUMBER}
            draft.equal.append((place, leaf))
        elif place not in names:
            record |= {"kind": layout.OBJECT, "expected": id(leaf)}
            draft.keep.append(leaf)
        elif type(leaf) is not np.ndarray:
            raise NotServed
        if name is not None:
            draft.record_of[name] = len(draft.records)
        draft.records.append(record)
    for name, array in call.specialisation.captured.items():
        draft.record_of[name] = len(draft.records)
        record = {"slot": layout.CAPTURED, "object": id(array), "type": id(type(array))}
        draft.records.append(record)
        draft.keep.append(array)
    for k, slot in enumerate(draft.places.targets):
        draft.record_of[f"o{k}"] = len(draft.records)
        target = {"slot": slot, "type": id(np.ndarray), "flags": layout.IS_WRITEABLE}
        draft.records.append(target)
    describe_results(draft)


def _guarded_scalars(draft: Draft, numbers: set[str]) -> set[str]:
    """Scalars that must be the object that was seen; ranges and guards of others are noted."""
    guarded = set()
    for text, value in draft.call.specialisation.trace.value_guards:
        if text in numbers and (type(value) is bool or (type(value) is int and value in _SMALL)):
            guarded.add(text)
        elif (found := _RANGE.fullmatch(text)) and value is True:
            draft.integers.append((found[2], int(found[1]), int(found[3])))
        elif SCALAR_NAME.search(text):
            draft.guards.append((text, value))
    return guarded


def _check_generic(scalar: Any) -> None:
    """NumPy's scalars hold their value behind the object's head.

    Raises:
        NotServed: this one does not.
    """
    plain = scalar.dtype.kind in "biufc" and scalar.dtype.alignment <= 8
    if not plain or ctypes.string_at(id(scalar) + 16, scalar.nbytes) != scalar.tobytes():
        raise NotServed


def arrays_of(draft: Draft) -> dict[str, Any]:
    """Arrays among arguments, captured ones and `out=`, by buffer name.

    Raises:
        NotServed: one has too many axes.
    """
    found = {
        name: array
        for name, array in draft.call.arrays.items()
        if type(array) is np.ndarray and name not in draft.written
    }
    if any(array.ndim > layout.MOST_RANK for array in found.values()):
        raise NotServed
    return found


def describe_scalars(draft: Draft, sizes: Mapping[str, Any]) -> None:
    """Run-time scalars: converted by the dispatcher, computed by Python, or told by the lengths."""
    words: list[Any] = draft.table.words
    numbers = dict(draft.call.specialisation.scalar_leaves)
    for first, wanted in draft.table.scalars:
        for place, (text, dtype) in enumerate(wanted, first):
            if text in draft.fixed:
                _constant(draft, place, draft.call.leaves[numbers[text]], dtype)
            elif text in numbers:
                kind = type(draft.call.leaves[numbers[text]])
                draft.scalars.append(scalar_row(place, dtype, kind, draft.record_of[text]))
            elif SCALAR_NAME.search(text) or (value := _of_lengths(text, sizes)) is None:
                draft.scalars.append(_computed(draft, place, text, dtype))
            elif isinstance(value, Symbolic):
                words[place] = value
                target, low, high = _target_of(dtype)
                draft.scalars.append(
                    layout.words(
                        "SCALAR", place=place, source=layout.FROM_LENGTH, target=target,
                        low=low, high=high,
                    )
                )  # fmt: skip
            else:
                _constant(draft, place, value, dtype)


def _of_lengths(text: str, sizes: Mapping[str, Any]) -> Any:
    """The value of a host expression over lengths; None where it is no integer expression."""
    try:
        return evaluate_scalar(text, sizes)
    except NotSymbolic:
        return None


def _constant(draft: Draft, place: int, value: Any, dtype: np.dtype[Any]) -> None:
    """Put a number that is always the same into the template."""
    packed = pack_scalars([("s0", dtype)], {"s0": value})
    draft.table.words[place] = int.from_bytes(packed, "little", signed=True)


def _computed(draft: Draft, place: int, text: str, dtype: np.dtype[Any]) -> list[int]:
    """An expression's way into the template: Python computes it at each call.

    Raises:
        NotServed: a conversion that is left to Python.
    """
    call = draft.call
    numbers = {name: call.leaves[leaf] for name, leaf in call.specialisation.scalar_leaves}
    wanted = text, type(evaluate_scalar(text, {**call.sizes, **numbers}))
    if wanted not in draft.computed:
        draft.computed.append(wanted)
    return scalar_row(place, dtype, wanted[1], ~draft.computed.index(wanted))


def scalar_row(place: int, dtype: np.dtype[Any], kind: type, record: int) -> list[int]:
    """A Python number's way into the template.

    Args:
        place: the word that it becomes.
        dtype: of that.
        kind: the number's type.
        record: the argument that it is.

    Raises:
        NotServed: a conversion that is left to Python.
    """
    kinds = {float: layout.FROM_FLOAT, int: layout.FROM_INT, bool: layout.FROM_BOOL}
    target, low, high = _target_of(dtype)
    if (kind is float and target == layout.TO_INTEGER) or (dtype.kind == "b" and kind is not bool):
        raise NotServed
    return layout.words(
        "SCALAR", place=place, record=record, source=kinds[kind], target=target, low=low, high=high,
    )  # fmt: skip


def _target_of(dtype: np.dtype[Any]) -> tuple[int, int, int]:
    """How a scalar of a dtype is stored, and the least and largest integer that it takes.

    Raises:
        NotServed: a dtype that is left to Python.
    """
    if dtype.name == "float32":
        return layout.TO_SINGLE, -EXACT_INTEGER, EXACT_INTEGER
    if dtype.name == "float64":
        return layout.TO_DOUBLE, -EXACT_INTEGER, EXACT_INTEGER
    if dtype.name == "float16":
        return layout.TO_HALF, -EXACT_INTEGER, EXACT_INTEGER
    if dtype.kind == "b":
        return layout.TO_INTEGER, 0, 1
    if dtype.kind in "iu":
        limits = np.iinfo(dtype)
        return layout.TO_INTEGER, int(limits.min), min(int(limits.max), (1 << 63) - 1)
    raise NotServed


def pack(
    draft: Draft, rows: dict[str, list[list[int]]], base_of: Mapping[str, int], **values: int
) -> ctypes.Array[ctypes.c_int64]:
    """The finished table.

    Args:
        draft: its parts; lists of rows become native memory that it keeps.
        rows: lists of rows by the name of their count: outputs, temporaries, overlaps.
        base_of: which temporary's place each temporary starts from.
        values: single words.

    Raises:
        NotServed: it has more parts than the dispatcher has room for.
    """
    call, table, trace = draft.call, draft.table, draft.call.specialisation.trace
    _check_ranges(draft)
    first = len(draft.records)
    bases = {f"o{k}": first + k for k in range(len(rows["outputs"]))} | draft.record_of
    first += len(rows["outputs"])
    bases |= {name: first + k for name, k in base_of.items()}
    computed_first = first + len(rows["temporaries"])
    if computed_first + len(draft.computed) > layout.MOST_BASES:
        raise NotServed
    names, asked = describe_names(call.specialisation.names, draft.keep)
    numbers = _prologue(draft, computed_first, values, asked)
    operands = _operands(draft, bases)
    if len(table.words) > layout.MOST_WORDS:
        raise NotServed
    rows = rows | {
        "records": [layout.words("RECORD", **record) for record in draft.records],
        "guards": names,
        "steps": draft.steps,
        "ranges": draft.ranges,
        "lines": draft.lines,
        "scalars": draft.scalars,
        "operands": operands,
        "leaves": draft.leaves,
        "numbers": numbers,
    }
    draft.template, draft.scratch = layout.array([table.words]), layout.array([table.words])
    draft.keep.extend([call.specialisation, call.launch, draft.assembled])
    together = type(trace.structure) is not Leaf and type(call.out) is not tuple
    flags = layout.TUPLE if together else 0
    flags |= layout.STATUS if call.specialisation.spec.may_raise else 0
    flags |= layout.COMPOSED if draft.composed else 0
    values["flags"] = values.get("flags", 0) | flags
    values["brief"] = _brief(rows, values)
    generic = any(row[GENERIC] for row in rows["outputs"])
    values["handed"] = int(draft.composed or generic)
    values["assembled"] = 0 if draft.assembled is None else id(draft.assembled)
    return table_of(
        call, draft.places, draft.keep, rows, words=len(table.words), nests=len(table.heads),
        template=layout.address(draft.template), scratch=layout.address(draft.scratch), **values,
    )  # fmt: skip


def _prologue(
    draft: Draft, first: int, values: dict[str, int], asked: Sequence[Guard]
) -> list[list[int]]:
    """Where the arguments are from which Python computes numbers, or of which it asks, if any.

    Args:
        draft: the table; its scalars learn where those numbers will be.
        first: place of the first one among addresses.
        values: the table's words, to which some are added.
        asked: names that Python looks up.

    Raises:
        NotServed: Python cannot know a length, or needs too many arguments.
    """
    known, guards = draft.call.specialisation, draft.guards
    standing = asked or known.identities or known.trace.in_order or draft.equal
    if not (guards or draft.computed or standing):
        return []
    same = known.alike(draft.call.leaves) if known.identities else ()
    try:
        made = prepare(known.trace, guards, draft.computed, known.captured, asked, same,
                       draft.equal)
    except NotAssembled:
        raise NotServed from None
    if len(made.leaves) > layout.MOST_LEAVES:
        raise NotServed
    draft.keep.append(made.function)
    values |= {
        "prologue": id(made.function), "computed": len(draft.computed), "computed_first": first,
    }  # fmt: skip
    record = layout.place("SCALAR", "record")
    for row in draft.scalars:
        if row[record] < 0:
            row[record] = first + ~row[record]
    return [[draft.places.slots[leaf]] for leaf in made.leaves]


def _operands(draft: Draft, bases: Mapping[str, int]) -> list[list[int]]:
    """Addresses in the template: what each starts from, and the word that is added to it.

    That word is one of its own behind the loop nests, so that a template may be filled again.
    """
    words = draft.table.words
    moved = {place: len(words) + k for k, (place, _) in enumerate(draft.table.places)}
    words.extend([words[place] for place in moved])
    word = layout.place("LINE", "word")
    for row in draft.lines:
        row[word] = moved.get(row[word], row[word])
    return [
        layout.words("OPERAND", place=place, base=bases[name], within=moved[place])
        for place, name in draft.table.places
    ]


def _brief(rows: Mapping[str, list[list[int]]], values: Mapping[str, int]) -> int:
    """Work below this runs in the table's scratch; 0 where something else has to be done."""
    pooled = any(row[POOLED] for row in rows["outputs"])
    if pooled or rows["temporaries"] or values["flags"] & (layout.STATUS | layout.LONG):
        return 0
    return min(values["limit"], values["patience"])


def _check_ranges(draft: Draft) -> None:
    """Ranges that Python integers must stay in: conversions into words that nobody reads."""
    for text, low, high in draft.integers:
        if text in draft.fixed:
            continue
        kind = type(draft.call.leaves[dict(draft.call.specialisation.scalar_leaves)[text]])
        if kind is float:
            raise NotServed
        source = layout.FROM_INT if kind is int else layout.FROM_BOOL
        draft.scalars.append(
            layout.words(
                "SCALAR", place=len(draft.table.words), record=draft.record_of[text],
                source=source, target=layout.TO_INTEGER, low=low, high=min(high, (1 << 63) - 1),
            )
        )  # fmt: skip
        draft.table.words.append(0)


def describe_outputs(
    draft: Draft, room: Callable[[Fresh], dict[str, int]]
) -> list[list[int]]:
    """The arrays to allocate, or to take from arguments.

    Args:
        draft: the table.
        room: what tells the lengths and strides of a new one.
    """
    fresh = {entry.name: entry for entry in draft.table.outputs}
    rows = []
    for k, generic in enumerate(draft.generic):
        name = f"o{k}"
        if name in draft.record_of:
            rows.append(layout.words("OUTPUT", given=draft.record_of[name]))
            continue
        entry = fresh[name]
        draft.keep.append(entry.dtype)
        rows.append(
            layout.words(
                "OUTPUT", descr=id(entry.dtype), rank=len(entry.shape), given=-1,
                generic=int(generic), **room(entry),
            )
        )  # fmt: skip
    return rows
