"""What a program's loops are, for people: how often they run, what iterations carry and move."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fuser.element_loops.region import code_of
from fuser.explain.graph_breaks import spell_break, sum_ledgers
from fuser.explain.kernel_text import describe_group, seen_behind, spell_views, wrapped
from fuser.ir import dims, loops, opaque_calls
from fuser.ir.labels import labels_of
from fuser.ir.opaque_calls import Unset
from fuser.kernel_spec import KernelSpec
from fuser.program_spec import ElementLoop, GraphBreak, LoopRegion, Program, Stage
from fuser.traffic import ledger
from fuser.traffic.ledger import Ledger


def lengths_in(step: LoopRegion, sizes: Mapping[str, int]) -> dict[str, int]:
    """The lengths in a loop's body, by its own symbols; 0 for those that an iteration finds."""
    found: dict[str, int] = {}
    arrays = [p for p in step.region.graph.parameters if p.dtype is not None]
    for parameter, node in zip(arrays, step.nodes[0].args, strict=False):
        for own, outer in zip(parameter.shape, node.shape, strict=True):
            if str(own) not in found:
                found[str(own)] = dims.evaluate(outer, sizes)
    indices = dict.fromkeys(step.region.graph.scalar_lengths, 1)
    return {**dict.fromkeys(found_in(step), 0), **indices, **found}


def found_in(step: LoopRegion) -> list[str]:
    """Lengths of what NumPy gives within an iteration: the values tell them."""
    names = (
        name for node in step.region.graph.nodes if node.op.is_opaque
        for dim in node.shape for name in dims.symbols(dim)
    )  # fmt: skip
    told = {name for p in step.region.graph.parameters for d in p.shape for name in dims.symbols(d)}
    return [name for name in dict.fromkeys(names) if name not in told]


def numbers_in(step: LoopRegion, numbers: Mapping[str, Any]) -> dict[str, Any]:
    """The numbers that a loop's body finds first, by its own names; without its index."""
    try:
        return dict(opaque_calls.filled(step.nodes[0].payload.args[loops.STATED + 3], (), numbers))
    except (NameError, KeyError):  # some of them differ from one iteration around it to the next
        return {}


def book_of(
    step: LoopRegion, sizes: Mapping[str, int], numbers: Mapping[str, Any]
) -> Ledger:
    """The bytes of one iteration; what NumPy's functions move in it is no kernel's doing."""
    known, own = lengths_in(step, sizes), numbers_in(step, numbers)
    return _sum([
        (1, ledger.ledger(phase.body, known) if isinstance(phase.body, KernelSpec)
         else whole_book(phase.body, known, own))
        for phase in step.phases
    ])  # fmt: skip


def _sum(books: list[tuple[int, Ledger]]) -> Ledger:
    """Several ledgers as one, each as often as it says."""
    names = Ledger.__dataclass_fields__
    return Ledger(**{name: sum(n * getattr(book, name) for n, book in books) for name in names})


def iterations(step: LoopRegion, numbers: Mapping[str, Any]) -> int | None:
    """How often a loop runs; None where that differs from one iteration around it to the next."""
    try:
        span = opaque_calls.filled(step.nodes[0].payload.args[loops.STATED], (), numbers)
    except (NameError, KeyError):
        return None
    return None if step.region.leaving.is_early else len(range(*span))


def whole_book(program: Program, sizes: Mapping[str, int], numbers: Mapping[str, Any]) -> Ledger:
    """The bytes of all kernels of a program, those of loops as often as they run.

    A loop whose iterations differ from one iteration around it to the next counts as one of them.
    """
    books = [(1, sum_ledgers(program, sizes))]
    for step in program.loops:
        count = iterations(step, numbers)
        books.append((1 if count is None else count, book_of(step, sizes, numbers)))
    return _sum(books)


def spell_loop(
    program: Program, step: LoopRegion, sizes: Mapping[str, int], numbers: Mapping[str, Any]
) -> str:
    """A loop as text: how often it runs, what goes around, bytes an iteration, its kernels."""
    label = labels_of(program.graph)
    count, region = iterations(step, numbers), step.region
    known, book = lengths_in(step, sizes), book_of(step, sizes, numbers)
    times = "as often as the loop around it says" if count is None else f"{count:,} iterations"
    if region.leaving.is_early:
        times = "until its condition ends it"
    kernels = f"{book.kernels_fused} kernel{'s' * (book.kernels_fused != 1)} an iteration"
    where = f" ({step.where})" if step.where else ""
    lines = wrapped(f"loop{where}: {times}, {kernels}", later="  ")
    for place, (node, (source, chain)) in enumerate(
        zip(step.nodes[0].args, step.operands, strict=True)
    ):
        base = seen_behind(node, chain)
        value = label.get(id(base), source) + spell_views(chain, base, (), sizes)
        verb = "carries" if place < region.carried else "reads"
        lines.append(f"  {verb} {value}: {node.type}")
    lines += [f"  carries a number: {name} becomes {text}"
              for name, text in region.updates.items()]  # fmt: skip
    lines += wrapped(
        f"bytes an iteration: unfused {book.unfused_bytes:,}, planned {book.planned_bytes:,}, "
        f"least possible {book.least_bytes:,}", "  ", "    ",
    )  # fmt: skip
    if found := found_in(step):
        lines += wrapped(
            f"each iteration finds how long {', '.join(found)} is; in bytes that counts 0",
            "  ", "    ",
        )  # fmt: skip
    body = _body(step, known, numbers_in(step, numbers))
    return "\n".join([*lines, *(f"  {line}" for line in body)])


def spell_element_loop(program: Program, step: ElementLoop, sizes: Mapping[str, int]) -> str:
    """A loop over elements as text: where it is, which arrays and numbers go in and come out."""
    label = labels_of(program.graph)
    args = step.nodes[0].payload.args
    code = code_of(*args[:4])
    count, depth = code.loops
    loops = f"{count} loop{'s' * (count != 1)}" + (f", {depth} deep" if depth > 1 else "")
    lines = wrapped(
        f"loop over elements ({step.where}): {loops}, one sequential kernel", later="  "
    )
    for array, part in zip(code.operands, args[4], strict=True):
        if type(part) is Unset:
            lines.append(f"  makes and writes {array.name}: {array.dtype}, rank {array.rank}")
            continue
        (source, chain), node = step.operands[part.index], step.nodes[0].args[part.index]
        base = seen_behind(node, chain)
        value = (label.get(id(base)) or source) + spell_views(chain, base, (), sizes)
        verb = "reads and writes" if array.written else "reads"
        lines.append(f"  {verb} {value}: {node.type}")
    left = [result.name for result in code.results]
    if left:
        lines += wrapped(f"leaves the numbers {', '.join(left)}", "  ", "    ")
    return "\n".join(lines)


def _body(step: LoopRegion, sizes: Mapping[str, int], numbers: Mapping[str, Any]) -> list[str]:
    """What one iteration does, in its order: kernels, functions that NumPy runs, loops."""
    texts: list[str] = []
    kernels = 0

    def add(spec: KernelSpec, outputs: dict[str, str]) -> None:
        nonlocal kernels
        for group in spec.plan.groups:
            texts.append(describe_group(kernels, group, spec.plan, sizes, outputs))
            kernels += 1

    for phase in step.phases:
        body = phase.body
        if isinstance(body, KernelSpec):
            names = {f"o{k}": name for k, name in enumerate(phase.stored) if name}
            add(body, names if len(step.phases) > 1 else {})
            continue
        for one in body.steps:
            if isinstance(one, Stage):
                add(one.spec, {f"o{k}": name for k, name in enumerate(one.stored)})
            elif isinstance(one, LoopRegion):
                texts.append(spell_loop(body, one, sizes, numbers))
            elif isinstance(one, ElementLoop):
                texts.append(spell_element_loop(body, one, sizes))
            elif isinstance(one, GraphBreak):
                texts.append(spell_break(body, one, sizes))
    return [line for text in texts for line in text.split("\n")]
