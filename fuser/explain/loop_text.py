"""What a program's loops are, for people: how often they run, what iterations carry and move."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fuser.explain.graph_breaks import spell_seam, sum_ledgers
from fuser.explain.kernel_text import describe_group, seen_behind, spell_views, wrapped
from fuser.ir import dims, opaque_calls
from fuser.ir.labels import labels_of
from fuser.kernel_spec import KernelSpec
from fuser.program_spec import LoopRegion, Program
from fuser.traffic import ledger
from fuser.traffic.ledger import Ledger


def lengths_in(step: LoopRegion, sizes: Mapping[str, int]) -> dict[str, int]:
    """The lengths in a loop's body, by its own symbols."""
    found: dict[str, int] = {}
    arrays = [p for p in step.region.graph.parameters if p.dtype is not None]
    for parameter, node in zip(arrays, step.nodes[0].args, strict=True):
        for own, outer in zip(parameter.shape, node.shape, strict=True):
            if str(own) not in found:
                found[str(own)] = dims.evaluate(outer, sizes)
    return found


def book_of(step: LoopRegion, sizes: Mapping[str, int]) -> Ledger:
    """The bytes of one iteration; what NumPy's functions move in it is no kernel's doing."""
    known = lengths_in(step, sizes)
    books = [
        ledger.ledger(phase.body, known) if isinstance(phase.body, KernelSpec)
        else sum_ledgers(phase.body, known)
        for phase in step.phases
    ]  # fmt: skip
    names = Ledger.__dataclass_fields__
    return Ledger(**{name: sum(getattr(book, name) for book in books) for name in names})


def iterations(step: LoopRegion, numbers: Mapping[str, Any]) -> int | None:
    """How often a loop runs; None where that differs from one iteration around it to the next."""
    try:
        span = opaque_calls.filled(step.nodes[0].payload.args[7], (), numbers)
    except (NameError, KeyError):
        return None
    return len(range(*span))


def whole_book(program: Program, sizes: Mapping[str, int], numbers: Mapping[str, Any]) -> Ledger:
    """The bytes of all kernels of a program, those of loops as often as they run."""
    books = [(1, sum_ledgers(program, sizes))]
    books += [(iterations(step, numbers) or 1, book_of(step, sizes)) for step in program.loops]
    names = Ledger.__dataclass_fields__
    return Ledger(**{name: sum(n * getattr(book, name) for n, book in books) for name in names})


def spell_loop(
    program: Program, step: LoopRegion, sizes: Mapping[str, int], numbers: Mapping[str, Any]
) -> str:
    """A loop as text: how often it runs, what goes around, bytes an iteration, its kernels."""
    label = labels_of(program.graph)
    count, region = iterations(step, numbers), step.region
    known, book = lengths_in(step, sizes), book_of(step, sizes)
    times = "as often as the loop around it says" if count is None else f"{count:,} iterations"
    kernels = f"{book.kernels_fused} kernel{'s' * (book.kernels_fused != 1)} an iteration"
    lines = wrapped(f"loop ({step.where}): {times}, {kernels}", later="  ")
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
    return "\n".join([*lines, *(f"  {line}" for line in _body(step, known))])


def _body(step: LoopRegion, sizes: Mapping[str, int]) -> list[str]:
    """The kernels and functions of one iteration."""
    texts: list[str] = []
    number = 0
    for phase in step.phases:
        plans: list[tuple[Any, dict[str, str]]] = []
        if isinstance(phase.body, KernelSpec):
            names = {f"o{k}": name for k, name in enumerate(phase.stored) if name}
            plans = [(phase.body.plan, names if len(step.phases) > 1 else {})]
        else:
            body = phase.body
            plans = [
                (one.spec.plan, {f"o{k}": name for k, name in enumerate(one.stored)})
                for one in body.stages
            ]
            texts += [spell_seam(body, seam, sizes) for seam in body.seams]
            texts += [spell_loop(body, loop, sizes, {}) for loop in body.loops]
        for plan, outputs in plans:
            for group in plan.groups:
                texts.append(describe_group(number, group, plan, sizes, outputs))
                number += 1
    return [line for text in texts for line in text.split("\n")]
