"""A plan as a picture: arguments at the top, kernels and what they store below, results last.

The layout is a plain one in layers: each box stands below everything that it needs, and boxes of
one layer stand in the order of what is above them.
"""

from __future__ import annotations

import html
import itertools
import textwrap
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from fuser.base.errors import REASONS, Reason
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
from fuser.traffic.moved_bytes import group_reads, group_writes, held_by

#: What a box is -> (fill, border).
COLOURS: Mapping[str, tuple[str, str]] = {
    "argument": ("#e3effb", "#3b78b5"),
    "result": ("#e2f4e4", "#3a8a46"),
    "stored": ("#fdeed8", "#c07a1d"),
    "kernel": ("#f1f1f4", "#55556a"),
    "function": ("#fbe4e4", "#b53b3b"),
}
#: Sizes in pixels: a letter's width, a line's height, and the gaps between boxes and layers.
LETTER, LINE, MARGIN, GAP, LAYER_GAP = 7.3, 17, 10, 26, 64
#: A letter's width in the bytes on an arrow, the space beside them, and the share of a box's
#: width over which its arrows are spread.
SMALL_LETTER, BESIDE, SPREAD = 6.4, 8, 0.8
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

    held = held_by(plan)
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
        lines: tuple[str, ...] = (f"loop of {step.where}", "its iterations are kernels")
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
    rows = ["digraph plan {", '  node [fontname="monospace", style=filled];']
    for box in picture.boxes:
        fill, border = COLOURS[box.kind]
        shape = "box" if box.kind in ("kernel", "function") else "ellipse"
        text = "\\n".join(line.replace("\\", "\\\\").replace('"', '\\"') for line in box.lines)
        rows.append(
            f'  "{box.key}" [label="{text}", shape={shape}, fillcolor="{fill}", color="{border}"];'
        )
    for arrow in picture.arrows:
        label = f"{arrow.size_bytes:,} bytes"
        rows.append(f'  "{arrow.source}" -> "{arrow.target}" [label="{label}"];')
    return "\n".join([*rows, "}", ""])


# -- SVG ------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Placed:
    """A box with its place: the middle of its upper edge, its width and its height."""

    box: Box
    x: float
    y: float
    width: float
    height: float


def to_svg(picture: Picture) -> str:
    """The picture as an SVG text of its own."""
    placed, lanes, width, height = _layout(picture)
    rows = [
        (f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:.0f}" height="{height:.0f}" '
         f'viewBox="0 0 {width:.0f} {height:.0f}" font-family="monospace" font-size="12">'),
        ('<defs><marker id="tip" markerWidth="8" markerHeight="8" refX="7" refY="4" '
         'orient="auto"><path d="M0,0 L8,4 L0,8 z" fill="#667"/></marker></defs>'),
        f'<rect width="{width:.0f}" height="{height:.0f}" fill="#ffffff"/>',
    ]
    texts = []
    for arrow, points in zip(picture.arrows, _paths(picture, placed, lanes), strict=True):
        path = f"M{points[0][0]:.0f},{points[0][1]:.0f}"
        for (x1, y1), (x2, y2) in itertools.pairwise(points):
            middle = (y1 + y2) / 2
            path += f" C{x1:.0f},{middle:.0f} {x2:.0f},{middle:.0f} {x2:.0f},{y2:.0f}"
        rows.append(
            f'<path d="{path}" fill="none" stroke="#889" stroke-width="1.3" '
            'marker-end="url(#tip)"/>'
        )
        x, y = points[-1]
        texts.append(_text(x, y - 14, _bytes(arrow), True))
    for entry in placed.values():
        if entry.box.kind == "lane":
            continue
        fill, border = COLOURS[entry.box.kind]
        dash = ' stroke-dasharray="5 3"' if entry.box.kind == "function" else ""
        corner = 3 if entry.box.kind in ("kernel", "function") else 14
        rows.append(
            f'<rect x="{entry.x - entry.width / 2:.0f}" y="{entry.y:.0f}" rx="{corner}" '
            f'width="{entry.width:.0f}" height="{entry.height:.0f}" fill="{fill}" '
            f'stroke="{border}"{dash}/>'
        )
        left = entry.x - entry.width / 2 + MARGIN
        for place, line in enumerate(entry.box.lines):
            y = entry.y + MARGIN + LINE * (place + 0.7)
            rows.append(_text(left, y, line, False, bold=not place))
    return "\n".join([*rows, *texts, "</svg>", ""])


def _text(x: float, y: float, text: str, small: bool, bold: bool = False) -> str:
    """One line of text; small ones are centred on a white ground."""
    style = ' font-weight="bold"' if bold else ""
    if small:
        style = (' font-size="10.5" text-anchor="middle" fill="#445" paint-order="stroke" '
                 'stroke="#ffffff" stroke-width="4"')  # fmt: skip
    return (f'<text x="{x:.0f}" y="{y:.0f}" xml:space="preserve"{style}>'
            f"{html.escape(text)}</text>")  # fmt: skip


def _paths(
    picture: Picture, placed: Mapping[str, _Placed], lanes: Mapping[int, list[str]]
) -> Iterator[list[tuple[float, float]]]:
    """The points that each arrow runs through: ends spread over the boxes' edges."""
    leaving: dict[str, list[tuple[float, int]]] = {}
    coming: dict[str, list[tuple[float, int]]] = {}
    for number, arrow in enumerate(picture.arrows):
        through = lanes.get(number, [])
        after = placed[through[0] if through else arrow.target].x
        before = placed[through[-1] if through else arrow.source].x
        leaving.setdefault(arrow.source, []).append((after, number))
        coming.setdefault(arrow.target, []).append((before, number))

    def port(ends: list[tuple[float, int]], number: int, box: _Placed) -> float:
        place = [k for _, k in sorted(ends)].index(number)
        return box.x + box.width * SPREAD * ((place + 0.5) / len(ends) - 0.5)

    for number, arrow in enumerate(picture.arrows):
        start, end = placed[arrow.source], placed[arrow.target]
        points = [(port(leaving[arrow.source], number, start), start.y + start.height)]
        for key in lanes.get(number, []):
            lane = placed[key]
            points += [(lane.x, lane.y), (lane.x, lane.y + lane.height)]
        yield [*points, (port(coming[arrow.target], number, end), end.y - 1)]


def _layout(
    picture: Picture,
) -> tuple[dict[str, _Placed], dict[int, list[str]], float, float]:
    """Every box's place, the lanes of long arrows, and the picture's width and height."""
    level = _levels(picture)
    layers: dict[int, list[Box]] = {}
    for box in picture.boxes:
        layers.setdefault(level[box.key], []).append(box)
    needs: dict[str, list[str]] = {}
    lanes: dict[int, list[str]] = {}
    for number, arrow in enumerate(picture.arrows):
        above = arrow.source
        for between in range(level[arrow.source] + 1, level[arrow.target]):
            lane = Box(f"lane {number} {between}", "lane", ("",))
            layers[between].append(lane)
            lanes.setdefault(number, []).append(lane.key)
            needs[lane.key] = [above]
            above = lane.key
        needs.setdefault(arrow.target, []).append(above)
    coming: dict[str, list[str]] = {}
    for arrow in picture.arrows:
        coming.setdefault(arrow.target, []).append(_bytes(arrow))
    measured = {
        box.key: _measure(box, coming.get(box.key, ()))
        for layer in layers.values() for box in layer
    }
    totals = [
        sum(measured[box.key][0] for box in layer) + GAP * (len(layer) - 1)
        for layer in layers.values()
    ]
    width = max(totals, default=0) + 2 * GAP
    placed: dict[str, _Placed] = {}
    y = float(GAP)
    for number in sorted(layers):
        layer = _ordered(layers[number], needs, placed)
        total = sum(measured[box.key][0] for box in layer) + GAP * (len(layer) - 1)
        x = (width - total) / 2
        deepest = max(measured[box.key][1] for box in layer)
        for box in layer:
            wide, high = measured[box.key]
            high = deepest if box.kind == "lane" else high
            placed[box.key] = _Placed(box, x + wide / 2, y, wide, high)
            x += wide + GAP
        y += deepest + LAYER_GAP
    return placed, lanes, width, y - LAYER_GAP + GAP if layers else 2 * GAP


def _measure(box: Box, coming: Sequence[str]) -> tuple[float, float]:
    """Width and height of a box, over which the texts of the arrows to it stand side by side."""
    longest = max(map(len, box.lines))
    texts = len(coming) * (max(map(len, coming), default=0) * SMALL_LETTER + BESIDE)
    width = max(longest * LETTER + 2 * MARGIN, texts / SPREAD)
    return width, len(box.lines) * LINE + 2 * MARGIN - 3


def _bytes(arrow: Arrow) -> str:
    """What stands on an arrow."""
    return f"{arrow.size_bytes:,} B"


def _ordered(
    layer: Sequence[Box], needs: Mapping[str, list[str]], placed: Mapping[str, _Placed]
) -> list[Box]:
    """Boxes of a layer in the order of the middle of what they need."""
    def middle(box: Box) -> float:
        above = [placed[name].x for name in needs.get(box.key, ()) if name in placed]
        return sum(above) / len(above) if above else 0.0

    return sorted(layer, key=middle)


def _levels(picture: Picture) -> dict[str, int]:
    """The layer of each box: below all that it needs; an argument stands just above its use."""
    level = {box.key: 0 for box in picture.boxes}
    for _ in range(len(picture.boxes)):
        changed = False
        for arrow in picture.arrows:
            if level[arrow.target] <= level[arrow.source]:
                level[arrow.target] = level[arrow.source] + 1
                changed = True
        if not changed:
            break
    targets = {arrow.target for arrow in picture.arrows}
    for box in picture.boxes:
        below = [level[arrow.target] for arrow in picture.arrows if arrow.source == box.key]
        if box.key not in targets and below:
            level[box.key] = min(below) - 1
    return level
