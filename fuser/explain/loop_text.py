"""What a program's loops are, for people: how often they run, what iterations carry and move."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from fuser.base.records import changed
from fuser.element_loops.code import Code
from fuser.element_loops.region import code_of
from fuser.explain import element_counts
from fuser.explain.graph_breaks import spell_break, sum_ledgers
from fuser.explain.kernel_text import describe_group, seen_behind, spell_views, wrapped
from fuser.ir import dims, loops, opaque_calls
from fuser.ir.labels import labels_of
from fuser.ir.opaque_calls import Operand, Unset
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
    """The bytes of one iteration; what NumPy's functions move in it is no kernel's doing.

    Of interchanged loops it is that of all, as far as their kernel moves them.
    """
    known, own = lengths_in(step, sizes), numbers_in(step, numbers)
    return _sum([
        (1, ledger.ledger(phase.body, known) if isinstance(phase.body, KernelSpec)
         else whole_book(phase.body, known, own))
        for phase in step.phases
    ])  # fmt: skip


def _repeated(book: Ledger, step: LoopRegion, count: int) -> Ledger:
    """The bytes of all iterations, given those of `book_of`."""
    if step.interchange is None:
        return _sum([(count, book)])
    return changed(
        book, unfused_bytes=book.unfused_bytes * count, operations=book.operations * count,
        kernels_unfused=book.kernels_unfused * count, elementary=book.elementary * count,
    )  # fmt: skip


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
        book = book_of(step, sizes, numbers)
        books.append((1, _repeated(book, step, 1 if count is None else count)))
    books += [(1, element_book(step, sizes, numbers)) for step in program.element_loops]
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
    kernels, per = f"{book.kernels_fused} kernel{'s' * (book.kernels_fused != 1)}", "an iteration"
    where = f" ({step.where})" if step.where else ""
    if step.interchange is None:
        lines = wrapped(f"loop{where}: {times}, {kernels} an iteration", later="  ")
    else:
        how = "interchanged: one block of elements runs through all iterations after another"
        lines = wrapped(f"loop{where}: {times}, {kernels} in all; {how}", later="  ")
        book, per = _repeated(book, step, count or 1), "a run"
        per = per if count else "if it is one iteration"
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
        f"bytes {per}: unfused {book.unfused_bytes:,}, planned {book.planned_bytes:,}, "
        f"least possible {book.least_bytes:,}", "  ", "    ",
    )  # fmt: skip
    if found := found_in(step):
        lines += wrapped(
            f"each iteration finds how long {', '.join(found)} is; in bytes that counts 0",
            "  ", "    ",
        )  # fmt: skip
    body = _body(step, known, numbers_in(step, numbers))
    return "\n".join([*lines, *(f"  {line}" for line in body)])


def _counted(
    step: ElementLoop, sizes: Mapping[str, int], numbers: Mapping[str, Any]
) -> tuple[Code, list[tuple[int, ...]], element_counts.Loop, frozenset[int]]:
    """The code of a loop over elements, the lengths of its operands, and what its loops do."""
    args, nodes = step.nodes[0].payload.args, step.nodes[0].args
    code, lengths, known = code_of(*args[:4]), [], {}
    for part in args[4]:
        shape = part.like if type(part) is Unset else part
        if type(shape) is Operand:
            lengths.append(tuple(dims.evaluate(d, sizes) for d in nodes[shape.index].shape))
        else:
            lengths.append(opaque_calls.filled(shape, (), numbers))
    pairs = (each.pairs for each in code.operands)
    lengths = [(*shape, 2) if two else shape for shape, two in zip(lengths, pairs, strict=True)]
    for number, part in zip(code.numbers, args[5], strict=True):
        try:
            known[number.name] = opaque_calls.filled(part, (), numbers)
        except (NameError, KeyError, IndexError):  # a value of the run tells it
            continue
    return code, lengths, *element_counts.count(code, lengths, known)


def element_book(
    step: ElementLoop, sizes: Mapping[str, int], numbers: Mapping[str, Any]
) -> Ledger:
    """The bytes of a loop over elements: its arrays once, and unfused what iterations touch.

    Loops of which only the run tells how often they run count as one iteration.
    """
    code, lengths, whole, read = _counted(step, sizes, numbers)
    moved = sum(
        (each.written + (place in read)) * math.prod(shape) * np.dtype(each.dtype).itemsize
        for place, (each, shape) in enumerate(zip(code.operands, lengths, strict=True))
    )
    touched = operations = elementary = 0
    for loop in element_counts.loops_in(whole):
        times = 1 if loop.iterations is None else loop.iterations
        touched += times * (loop.work.read + loop.work.written)
        operations += times * loop.work.operations
        elementary += times * loop.work.elementary
    return Ledger(touched, moved, moved, operations + elementary, 1, operations, elementary)


def spell_element_loop(
    program: Program, step: ElementLoop, sizes: Mapping[str, int], numbers: Mapping[str, Any]
) -> str:
    """A loop over elements as text: its arrays and numbers, and what each of its loops does."""
    label = labels_of(program.graph)
    args = step.nodes[0].payload.args
    code, lengths, whole, read = _counted(step, sizes, numbers)
    lines = wrapped(f"loop over elements ({step.where}): one kernel", later="  ")
    for place, (array, part, shape) in enumerate(
        zip(code.operands, args[4], lengths, strict=True)
    ):
        if type(part) is Unset:
            found = ", ".join(map(str, shape))
            lines.append(f"  makes and writes {array.name}: {array.dtype}[{found}]")
            continue
        (source, chain), node = step.operands[part.index], step.nodes[0].args[part.index]
        base = seen_behind(node, chain)
        value = (label.get(id(base)) or source) + spell_views(chain, base, (), sizes)
        verbs = ["reads"] * (place in read) + ["writes"] * array.written
        lines.append(f"  {' and '.join(verbs)} {value}: {node.type}")
    lines += [line for loop in whole.inner for line in _spell_loops(loop, "  ")]
    left = [result.name for result in code.results]
    if left:
        lines += wrapped(f"leaves the numbers {', '.join(left)}", "  ", "    ")
    return "\n".join(lines)


def _spell_loops(loop: element_counts.Loop, indent: str) -> list[str]:
    """A loop, and those in it: how often each runs in one call, and what an iteration moves."""
    most = "" if loop.exact else "at most "
    times = f"{most}{loop.iterations:,} iterations" if loop.iterations is not None else (
        "as often as its values say"
    )
    told = [f"carries {', '.join(loop.carried)}"] if loop.carried else []
    moved = [f"{count:,} bytes {verb}" for count, verb in
             ((loop.work.read, "read"), (loop.work.written, "written")) if count]  # fmt: skip
    told += [f"at most {' and '.join(moved)} an iteration"] if moved else []
    inner = [line for each in loop.inner for line in _spell_loops(each, indent + "  ")]
    text = "; ".join([f"{loop.title}: {times}", *told])
    return [*wrapped(text, indent, indent + "    "), *inner]


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
                texts.append(spell_element_loop(body, one, sizes, numbers))
            elif isinstance(one, GraphBreak):
                texts.append(spell_break(body, one, sizes))
    return [line for text in texts for line in text.split("\n")]
