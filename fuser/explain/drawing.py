"""A plan as a picture: arguments at the top, kernels and what they store below, results last.

Graphviz lays it out: without it, there is the text that it reads.
"""

from __future__ import annotations

import shutil
import subprocess
import textwrap
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from fuser.base.errors import REASONS, MissingProgramError, Reason
from fuser.explain.kernel_text import loops_of, seen_behind, spell_operations, spell_outcome
from fuser.ir.graph import Node, size_bytes
from fuser.ir.labels import labels_of
from fuser.ir.specs import is_counted
from fuser.kernel_spec import KernelSpec
from fuser.program_spec import Asked, Between, ElementLoop, LoopRegion, Program, Stage
from fuser.scheduling import verdicts
from fuser.scheduling.loop_nests import value_of
from fuser.scheduling.nest_sequences import settled
from fuser.scheduling.plans import Plan
from fuser.scheduling.row_tiles import Group, kept_buffers
from fuser.traffic.moved_bytes import group_reads, group_writes

#: What a box is -> (fill, border).
COLOURS: Mapping[str, tuple[str, str]] = {
    "argument": ("#e3effb", "#3b78b5"),
    "result": ("#e2f4e4", "#3a8a46"),
    "stored": ("#fdeed8", "#c07a1d"),
    "kernel": ("#f1f1f4", "#55556a"),
    "function": ("#fbe4e4", "#b53b3b"),
}
#: What a drawing lacks.
NEEDS_GRAPHVIZ = "a drawing needs Graphviz (apt install graphviz); to_dot() gives its text"
#: Letters a line of a kernel's operations.
WIDTH = 44
#: More arrays than this that the same kernels read and write are one box, with the first names.
MOST_ALIKE, SHOWN_ALIKE = 6, 3


@dataclass(frozen=True, slots=True)
class Box:
    """An array, a kernel or a NumPy function: its kind is a key of `COLOURS`."""

    key: str
    kind: str
    lines: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Arrow:
    """What one box reads of, or writes to, another, in bytes."""

    source: str
    target: str
    size_bytes: int


@dataclass(frozen=True, slots=True)
class Picture:
    """Boxes and arrows, in the order of execution."""

    boxes: tuple[Box, ...]
    arrows: tuple[Arrow, ...]


def picture_of(spec: KernelSpec | Program, sizes: Mapping[str, int]) -> Picture:
    """What a drawing of a prepared graph shows.

    Args:
        spec: the prepared graph.
        sizes: lengths by symbol, for bytes.
    """
    boxes: dict[str, Box] = {}
    arrows: dict[tuple[str, str], int] = {}
    if not isinstance(spec, Program):
        names = {f"o{k}": f"o{k}" for k in range(len(spec.plan.outputs))}
        _add_plan(boxes, arrows, spec.plan, sizes, names, "", 0)
        return _picture(boxes, arrows, set(names.values()))
    kernels, label = 0, labels_of(spec.graph)
    for number, step in enumerate(spec.steps):
        if not isinstance(step, Stage):
            _add_between(boxes, arrows, step, sizes, label, number)
            continue
        names = {f"o{k}": name for k, name in enumerate(step.stored)}
        _add_plan(boxes, arrows, step.spec.plan, sizes, names, f"{number}.", kernels)
        kernels += len(settled(step.spec.plan, sizes).groups)
    return _picture(boxes, arrows, set(spec.outputs))


def picture_of_refusal(name: str, reasons: Iterable[Reason]) -> Picture:
    """What a drawing shows of a function that NumPy runs as a whole: why."""
    boxes = [
        Box(f"function {number}", "function", (
            f"{name} in NumPy",
            *textwrap.wrap(f"{reason.operation}: {REASONS[reason.code][0]}", WIDTH), reason.code,
        ))
        for number, reason in enumerate(reasons)
    ]  # fmt: skip
    return Picture(tuple(boxes), ())


def _picture(
    boxes: dict[str, Box], arrows: dict[tuple[str, str], int], results: set[str]
) -> Picture:
    """The finished picture; arrays say what they are, which colours do not say to everyone."""
    marked = []
    for box in boxes.values():
        kind = "result" if box.key in results and box.kind == "stored" else box.kind
        lines = box.lines
        if kind in ("argument", "result", "stored"):
            lines = (lines[0], f"{kind}: {lines[1]}", *lines[2:])
        marked.append(Box(box.key, kind, lines))
    return _gathered(marked, arrows)


def _gathered(boxes: Sequence[Box], arrows: Mapping[tuple[str, str], int]) -> Picture:
    """The picture with many arrays that the same kernels read and write as one box."""
    ends: dict[str, tuple[list[str], list[str]]] = {box.key: ([], []) for box in boxes}
    for source, target in arrows:
        ends[source][1].append(target)
        ends[target][0].append(source)
    alike: dict[tuple[str, str], list[Box]] = {}
    for box in boxes:
        array = box.kind in ("argument", "result", "stored")
        alike.setdefault((box.kind, str(ends[box.key]) if array else box.key), []).append(box)
    many = [group for group in alike.values() if len(group) > MOST_ALIKE]
    into = {box.key: group[0].key for group in many for box in group}
    heads = {
        group[0].key: (
            *(box.lines[0] for box in group[:SHOWN_ALIKE]), f"… {len(group)} arrays in all",
        )
        for group in many
    }
    found: dict[tuple[str, str], int] = {}
    for (source, target), size in arrows.items():
        place = into.get(source, source), into.get(target, target)
        found[place] = found.get(place, 0) + size
    kept = (
        Box(box.key, box.kind, heads.get(box.key, box.lines))
        for box in boxes if into.get(box.key, box.key) == box.key
    )
    return Picture(tuple(kept), tuple(Arrow(a, b, size) for (a, b), size in found.items()))


def _add_plan(
    boxes: dict[str, Box], arrows: dict[tuple[str, str], int], plan: Plan,
    sizes: Mapping[str, int], names: Mapping[str, str], prefix: str, first: int,
) -> None:  # fmt: skip
    """Add one plan's kernels, from number `first` on, and arrays.

    Outputs are called as `names` says, temporaries have the prefix.
    """
    plan = settled(plan, sizes)
    label = labels_of(plan.graph)
    temporaries = {b.name for b in plan.temporaries}

    def key(buffer: str) -> str:
        return prefix + buffer if buffer in temporaries else names.get(buffer, buffer)

    held = plan.held
    for number, group in enumerate(plan.groups, first):
        kernel, kept = f"kernel {number}", kept_buffers(group, held, sizes)
        for section in group.sections:
            for part, node in zip(section.loads, section.load_nodes, strict=True):
                if is_counted(part.buffer) or part.buffer in kept:
                    continue
                name, value = key(part.buffer), value_of(node)
                boxes.setdefault(name, _value(name, label[id(value)], value, sizes, "argument", ""))
        for read in group_reads(group, held, sizes):
            for buffer, size in read.items():
                place = (key(buffer), kernel)
                arrows[place] = arrows.get(place, 0) + size
        boxes[kernel] = Box(kernel, "kernel", (kernel, *_kernel_lines(group)))
        for section in group.sections:
            for _, part in section.stores:
                if part.buffer in kept:
                    continue
                node, name = held[part.buffer], key(part.buffer)
                reason = plan.realised.get(part.buffer, "")
                boxes.setdefault(
                    name, _value(name, label.get(id(node), ""), node, sizes, "stored", reason)
                )
        for buffer, size in group_writes(group, held, sizes).items():
            place = (kernel, key(buffer))
            arrows[place] = arrows.get(place, 0) + size
    for output in plan.outputs:  # results that are arguments' views have no kernel
        name = key(output.name)
        if name not in boxes:
            boxes[name] = _value(name, label[id(output.node)], output.node, sizes, "stored", "")


def _add_between(
    boxes: dict[str, Box], arrows: dict[tuple[str, str], int],
    step: Between, sizes: Mapping[str, int],
    label: Mapping[int, str], number: int,
) -> None:  # fmt: skip
    """Add a function that NumPy runs, or a loop."""
    key = f"function {number}"
    if isinstance(step, LoopRegion):
        run = "one kernel runs its iterations" if step.interchange else "its iterations are kernels"
        lines: tuple[str, ...] = (f"loop of {step.where}", run)
    elif isinstance(step, ElementLoop):
        lines = (f"loop of {step.where}", "one kernel runs it element by element")
    elif isinstance(step, Asked):
        call = step.nodes[0].payload
        if not (call.tells or step.decides):
            return
        asked = spell_outcome(call.args[0].text, call.args[1]) if step.decides else call.tells
        lines = (asked, "decision" if step.decides else "a number is read")
    else:
        meaning = textwrap.wrap(REASONS[step.reason.code][0], WIDTH)
        lines = (f"{step.reason.operation} in NumPy", *meaning)
    for (name, chain), node in zip(step.operands, step.nodes[0].args, strict=True):
        base = seen_behind(node, chain)
        title = label.get(id(base), "")
        boxes.setdefault(name, _value(name, title, base, sizes, "argument", ""))
        arrows[(name, key)] = size_bytes(node, sizes)
    boxes[key] = Box(key, "function", lines)
    for name, node in zip(step.stored, step.nodes, strict=True):
        boxes.setdefault(name, _value(name, label[id(node)], node, sizes, "stored", ""))
        arrows[(key, name)] = size_bytes(node, sizes)


def _value(
    name: str, label: str, node: Node, sizes: Mapping[str, int], kind: str, reason: str
) -> Box:
    """The box of an array."""
    title = name if label in ("", name) else f"{name} = {label}"
    lines = [title, f"{node.type}, {size_bytes(node, sizes):,} bytes"]
    if reason:
        lines += textwrap.wrap(verdicts.meaning(reason), WIDTH)
    return Box(name, kind, tuple(lines))


def _kernel_lines(group: Group) -> Iterator[str]:
    """A kernel's loops and operations."""
    for section in group.sections:
        yield f"loops over {loops_of(section)}"
        work = spell_operations(step.node.op.name for step in section.steps) or "copy"
        lines = textwrap.wrap(work, WIDTH)
        yield from (f"  {line}" for line in lines[:6])
        if len(lines) > 6:
            yield f"  … {len(section.steps)} operations"


# -- Graphviz -------------------------------------------------------------------------------


def to_dot(picture: Picture) -> str:
    """The picture as Graphviz text."""
    rows = ["digraph plan {", '  node [fontname="monospace", fontsize=12, style=filled];']
    for box in picture.boxes:
        fill, border = COLOURS[box.kind]
        shape = "box" if box.kind in ("kernel", "function") else "ellipse"
        # Each line is aligned to the left.
        text = "".join(f"{_quoted(line)}\\l" for line in box.lines)
        rows.append(
            f'  "{box.key}" [label="{text}", shape={shape}, fillcolor="{fill}", color="{border}"];'
        )
    for arrow in picture.arrows:
        label = f"{arrow.size_bytes:,} bytes"
        rows.append(f'  "{arrow.source}" -> "{arrow.target}" [label="{label}"];')
    return "\n".join([*rows, "}", ""])


def _quoted(text: str) -> str:
    """Text inside of quotation marks."""
    return text.replace("\\", "\\\\").replace('"', '\\"')


def to_svg(picture: Picture) -> str:
    """The picture as an SVG text of its own, laid out by Graphviz.

    Raises:
        MissingProgramError: Graphviz is not installed.
    """
    program = shutil.which("dot")
    if program is None:
        raise MissingProgramError(NEEDS_GRAPHVIZ)
    text = to_dot(picture).encode()
    made = subprocess.run([program, "-Tsvg"], input=text, capture_output=True, check=True).stdout
    return made[made.index(b"<svg") :].decode()
