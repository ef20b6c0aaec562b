"""A program's graph breaks, for people: which function ran, where, why, and what crosses."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from fuser.base.errors import REASONS
from fuser.explain.candidates import COLUMNS, row, rows_of, saved_bytes, shown_by
from fuser.explain.kernel_text import seen_behind, spell_outcome, spell_views, wrapped
from fuser.ir import dims, opaque_calls
from fuser.ir.graph import Node, size_bytes
from fuser.ir.labels import labels_of
from fuser.kernel_spec import KernelSpec
from fuser.program_spec import Asked, GraphBreak, Program, Stage
from fuser.scheduling.nest_sequences import settled
from fuser.traffic import ledger
from fuser.traffic.ledger import BYTES_PER_S, Ledger

if TYPE_CHECKING:
    import pandas


def known_sizes(prepared: KernelSpec | Program, sizes: Mapping[str, int] | None) -> dict[str, int]:
    """Lengths by symbol; 1024 for those that are not given."""
    names: dict[str, int] = {}
    for node in prepared.graph.nodes:
        names.update((s, 1024) for dim in node.shape for s in dims.symbols(dim))
    for parameter in prepared.graph.parameters:
        names.update((s, 1024) for dim in parameter.shape for s in dims.symbols(dim))
    return names | dict(sizes or {})


def sum_ledgers(program: Program, sizes: Mapping[str, int]) -> Ledger:
    """The bytes of all kernels; what NumPy's functions move is no kernel's doing."""
    books = [ledger.ledger(stage.spec, sizes) for stage in program.stages]
    names = Ledger.__dataclass_fields__
    return Ledger(**{name: sum(getattr(book, name) for book in books) for name in names})


def boundaries(program: Program, sizes: Mapping[str, int]) -> list[dict[str, Any]]:
    """What crosses the borders of kernels, and those between kernels and NumPy's functions.

    Returns:
        Entries as those of `ledger.boundaries`, kernels numbered through the whole program; one
        of kind "graph-break" for each operand and result of a function that NumPy runs.
        `written_by` and `read_by` name that function.
    """
    found: list[dict[str, Any]] = []
    kernels = 0
    for step in program.steps:
        if isinstance(step, GraphBreak):
            found.extend(_break_entries(program, step, sizes))
        if not isinstance(step, Stage):
            continue
        for entry in ledger.boundaries(step.spec, sizes):
            by = entry["written_by"]
            readers = [number + kernels for number in entry["read_by"]]
            found.append({
                **entry, "written_by": None if by is None else by + kernels, "read_by": readers
            })  # fmt: skip
        kernels += len(settled(step.spec.plan, sizes).groups)
    return found


def _break_entries(
    program: Program, one: GraphBreak, sizes: Mapping[str, int]
) -> list[dict[str, Any]]:
    """What one function reads and writes."""
    label = labels_of(program.graph)
    name = one.reason.operation
    operands = {id(n): (n, source) for n, (source, _) in zip(one.nodes[0].args, one.operands,
                                                             strict=True)}  # fmt: skip
    found = []
    for node, source in operands.values():
        size = size_bytes(node, sizes)
        found.append(_entry(source, label.get(id(node), source), node, None, [name], 0, size, one))
    for node, stored in zip(one.nodes, one.stored, strict=True):
        found.append(_entry(stored, name, node, name, [], size_bytes(node, sizes), 0, one))
    return found


def _entry(
    array: str, value: str, node: Node, writer: Any, readers: list[Any], written: int, read: int,
    one: GraphBreak,
) -> dict[str, Any]:  # fmt: skip
    """One operand or result as a row."""
    return {
        "array": array,
        "value": value,
        "kind": "graph-break",
        "shape": ", ".join(map(str, node.shape)),
        "dtype": node.dtype.name,
        "written_by": writer,
        "read_by": readers,
        "bytes_written": written,
        "bytes_read": read,
        "bytes": written + read,
        "reason": one.reason.code,
        "meaning": REASONS[one.reason.code][0],
        "estimated_cost_s": (written + read) / BYTES_PER_S,
    }


def spell_break(program: Program, one: GraphBreak, sizes: Mapping[str, int]) -> str:
    """A graph break as text: the function, the line, what goes in and comes out, the reason."""
    where = f" ({one.reason.where})" if one.reason.where else ""
    label = labels_of(program.graph)
    meaning = f"{REASONS[one.reason.code][0]} [{one.reason.code}]"
    ran = f"graph break: {one.reason.operation}{where} runs in NumPy: {meaning}"
    lines = wrapped(ran, later="  ")
    for node, (source, chain) in zip(one.nodes[0].args, one.operands, strict=True):
        base = seen_behind(node, chain)
        value = label.get(id(base), source) + spell_views(chain, base, (), sizes)
        lines.append(f"  reads {value}: {node.type}, {size_bytes(node, sizes):,} bytes")
    for node in one.nodes:
        lines.append(f"  gives {label[id(node)]}: {node.type}, {size_bytes(node, sizes):,} bytes")
    return "\n".join(lines)


def spell_asked(program: Program, step: Asked, sizes: Mapping[str, int]) -> str:
    """What is asked of values as text: a number that is read, or a decision; "" for a length.

    Args:
        program: the program.
        step: of it.
        sizes: lengths by symbol.
    """
    call, where = step.nodes[0].payload, f" ({step.where})" if step.where else ""
    if step.decides:
        return f"decision: {spell_outcome(call.args[0].text, call.args[1])}{where}"
    if not call.tells:
        return ""
    ((_, chain),), node = step.operands, step.nodes[0].args[0]
    base = seen_behind(node, chain)
    value = labels_of(program.graph).get(id(base), "") + spell_views(chain, base, (), sizes)
    return f"reads {call.tells} off {value}: {node.type}{where}"


def candidates(
    prepared: KernelSpec | Program, sizes: Mapping[str, int] | None = None
) -> pandas.DataFrame:
    """Every pair considered, the best first, and whether it shares a kernel's loops.

    Args:
        prepared: the prepared graph.
        sizes: lengths by symbol; 1024 each by default.

    Returns:
        A table with `COLUMNS`.
    """
    import pandas

    return pandas.DataFrame(candidate_rows(prepared, sizes), columns=COLUMNS)


def candidate_rows(
    prepared: KernelSpec | Program, sizes: Mapping[str, int] | None = None
) -> list[tuple[Any, ...]]:
    """The rows of `candidates`, without pandas."""
    if isinstance(prepared, Program):
        return _rows_of_program(prepared, sizes)
    return rows_of(prepared, sizes)


def _rows_of_program(
    program: Program, sizes: Mapping[str, int] | None
) -> list[tuple[Any, ...]]:
    """The pairs of each stage, then every pair that a graph break keeps apart."""
    known = known_sizes(program, sizes)
    rows = [entry for stage in program.stages for entry in rows_of(stage.spec, known)]
    label = labels_of(program.graph)
    place = {id(node): k for k, node in enumerate(program.graph.nodes)}
    for node in program.graph.nodes:
        if shown_by(node) is not node:  # who reads the view has the pair
            continue
        for source, arg in {id(s): (s, a) for a in node.args for s in [shown_by(a)]}.values():
            ours = next((n for n in (node, source) if n.op.is_opaque), None)
            if ours is None or source.op.given:
                continue
            own = ours.payload.is_inner
            if own or ours.payload.name in opaque_calls.LOOPS:
                continue
            code = opaque_calls.reason_of(ours, "").code
            distance = place[id(node)] - place[id(source)]
            ends, saved = (label[id(source)], label[id(node)]), saved_bytes(arg, node, known)
            rows.append(row(*ends, "graph-break", saved, code, distance))
    return sorted(rows, key=lambda entry: -entry[COLUMNS.index("score")])
