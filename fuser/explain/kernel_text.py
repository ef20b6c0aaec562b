"""Kernels as text in the user's terms: what their loops read, compute and write."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby
from types import MappingProxyType

from fuser.ir import dims, layouts
from fuser.ir.dims import Dim
from fuser.ir.graph import Node
from fuser.ir.labels import argument_names, labels_of, short_line
from fuser.ir.layouts import Layout
from fuser.ir.specs import PartitionDesc
from fuser.ir.views import Broadcast, Index, Measure, Part, Transpose, View
from fuser.scheduling import verdicts
from fuser.scheduling.loop_nests import Section
from fuser.scheduling.plans import Plan
from fuser.scheduling.row_tiles import Group

#: Columns of a line.
WIDTH = 96
#: Of more names than this in one list, and of more lines of operations in one loop nest, the first
#: ones are shown.
SHOWN_NAMES, SHOWN_LINES = 12, 10
#: The longest sequence of operations that is looked for when repetitions are told as such.
LONGEST_REPEATED = 6

#: Start and stop along one axis.
Span = tuple[Dim, Dim]


def describe_group(
    number: int,
    group: Group,
    plan: Plan,
    sizes: Mapping[str, int],
    names: Mapping[str, str] | None = None,
) -> str:
    """A kernel as text: what it reads and writes, and its operations by line.

    Args:
        number: of the kernel.
        group: the kernel.
        plan: what it belongs to.
        sizes: lengths by symbol.
        names: what outputs are called, where several plans make one program.
    """
    called = argument_names(plan.graph) | dict(names or {})
    held = _held(plan)
    seen: dict[str, str] = {}

    def spell(part: PartitionDesc, node: Node, shape: Sequence[Dim]) -> str:
        name = called.get(part.buffer, part.buffer)
        if part.buffer in held:
            name = part.buffer if "#" in name else name
            seen.setdefault(name, held[part.buffer])
        return name + spell_views(part.views, node, shape, sizes)

    nodes = plan.held
    lines = [f"kernel {number}:"]
    if group.turns:
        lines.append("  loops run one after another; what lies between stays in the cache")
    for one in group.parts:
        if one.rows is not None:
            kept = ", ".join(name for name, _ in one.rows.kept) or "what they share"
            lines.append(f"  loops run by turns on some rows at a time; {kept} stays in the cache")
        for section in one.sections:
            pairs = zip(section.loads, section.load_nodes, strict=True)
            reads = [
                called.get(part.buffer, part.buffer) + "[…]"
                if node.op.locates
                else spell(part, node, section.shape)
                for part, node in pairs
                if not isinstance(node.payload, Measure)
            ]
            writes = [
                called.get(part.buffer, part.buffer) + "[…]"
                if section.scatters
                else spell(part, nodes[part.buffer], section.shape)
                for _, part in section.stores
            ]
            lines += wrapped(
                f"loop over {loops_of(section)}: reads {_listed(reads)}; writes {_listed(writes)}",
                "  ", "      ",
            )  # fmt: skip
            lines += _operations(section, plan)
    stored = {part.buffer for one in group.sections for _, part in one.stores}
    notes = []
    for name, value in seen.items():
        reason = plan.realised.get(name, "") if name in stored else ""
        why = f": {verdicts.meaning(reason)}" if reason else ""
        notes.append(f"{name} holds {value}{why}")
    lines += [line for note in notes[:SHOWN_NAMES] for line in wrapped(note, "  ", "      ")]
    if len(notes) > SHOWN_NAMES:
        lines.append(f"  … and {len(notes) - SHOWN_NAMES} more")
    return "\n".join(lines)


def wrapped(text: str, first: str = "", later: str = "") -> list[str]:
    """A text as lines of at most `WIDTH` columns, with these indents."""
    return textwrap.wrap(
        text, WIDTH, initial_indent=first, subsequent_indent=later, break_long_words=False,
        break_on_hyphens=False,
    )  # fmt: skip


def loops_of(section: Section) -> str:
    """Loops as text: `n0, n1, reduced along 1`."""
    shape = ", ".join(map(str, section.shape)) or "one element"
    return shape + (f", reduced along {', '.join(map(str, section.axes))}" if section.axes else "")


def _held(plan: Plan) -> dict[str, str]:
    """What buffers hold that the traced function has no name for."""
    label = labels_of(plan.graph)
    titles = argument_names(plan.graph)
    found = {name: title for name, title in titles.items() if "#" in title}
    for buffer in (*plan.temporaries, *plan.outputs):
        if id(buffer.node) in label:
            found[buffer.name] = label[id(buffer.node)]
    return found


def _listed(names: Sequence[str]) -> str:
    """Names, or the first of many."""
    found = list(dict.fromkeys(names))
    if len(found) <= SHOWN_NAMES:
        return ", ".join(found) or "nothing"
    return f"{', '.join(found[: SHOWN_NAMES // 2])}, … ({len(found)} in all)"


def _operations(section: Section, plan: Plan) -> list[str]:
    """What a loop nest computes, by source line; what comes again is said once."""
    steps = [(short_line(plan.graph.line_of(s.node)), s.node) for s in section.steps]
    runs = []
    for line, run in groupby(steps, key=lambda step: step[0]):
        work = spell_operations(node.op.name for _, node in run)
        runs.append(f"{line}: {work}" if line else work)
    lines: list[str] = []
    for part, times in folded(runs):
        lines += [text for run in part for text in wrapped(run, "    ", "        ")]
        if times > 1:
            last = "this line" if len(part) == 1 else f"these {len(part)} lines"
            lines.append(f"    … {last} {times} times")
    if len(lines) <= SHOWN_LINES:
        return lines
    return [*lines[:SHOWN_LINES], f"    … {len(steps)} operations in all"]


def spell_operations(names: Iterable[str]) -> str:
    """Operations in a row: `multiply (exp sin add) x 39`."""
    return " ".join(
        " ".join(part) if times == 1 else f"({' '.join(part)}) x {times}"
        for part, times in folded(list(names), SHOWN_LINES)
    )


def folded(items: Sequence[str], least: int = 3) -> list[tuple[tuple[str, ...], int]]:
    """Items with repetitions put together: (sequence, how many times it follows itself).

    Args:
        items: in order.
        least: how many items a repetition has to replace.
    """
    found: list[tuple[tuple[str, ...], int]] = []
    place = 0
    while place < len(items):
        best, times = 1, 1
        for length in range(1, LONGEST_REPEATED + 1):
            part, count = items[place : place + length], 1
            while items[place + count * length : place + (count + 1) * length] == part:
                count += 1
            if count > 2 and count * length > max(best * times, least - 1):
                best, times = length, count
        found.append((tuple(items[place : place + best]), times))
        place += best * times
    return found


# -- views ----------------------------------------------------------------------------------


def spell_views(
    chain: Iterable[View], node: Node, loops: Sequence[Dim], sizes: Mapping[str, int]
) -> str:
    """Views as NumPy spells them: `[1:, :-1]`; repeating along the loops goes without saying.

    Args:
        chain: the views, first to last.
        node: what the buffer holds.
        loops: the loops' shape, which the last view gives.
        sizes: lengths by symbol.
    """
    given = list(chain)
    if given and given[-1] == Broadcast(tuple(loops)):
        given.pop()
    if given and isinstance(given[-1], Index) and given[-1].only_inserts:
        given.pop()
    text, spans = "", dict[int, Span]()
    lengths = tuple(dims.evaluate(dim, sizes) for dim in node.shape)
    layout = layouts.contiguous(lengths, node.shape, node.dtype.itemsize)
    shape = node.shape
    for view in given:
        before, layout = layout, _seen(layout, view, sizes)
        if isinstance(view, Broadcast) and layout.shape == before.shape:
            continue
        if isinstance(view, Part) and view.step == 1:
            first = spans[view.axis][0] if view.axis in spans else 0
            spans[view.axis] = (first + view.start, first + view.stop)
            continue
        text += _sliced(spans, shape)
        spans, shape = {}, layout.symbolic
        text += _spell_view(view)
    return text + _sliced(spans, shape)


def _seen(layout: Layout, view: View, sizes: Mapping[str, int]) -> Layout:
    """A layout through one more view; of a copy, where a reshape is no view."""
    try:
        return view.layout(layout, sizes)
    except layouts.NeedsCopy:
        shape = tuple(dims.evaluate(dim, sizes) for dim in view.lengths)
        return layouts.contiguous(shape, view.lengths, 1)


def _spell_view(view: View) -> str:
    """A view as NumPy spells it."""
    if isinstance(view, (Transpose, Part)):
        return view.python("", lambda order: f"({', '.join(map(str, order))})", str)
    return str(view)


def seen_behind(node: Node, chain: Sequence[View]) -> Node:
    """The value that is seen through views as a node."""
    for _ in chain:
        node = node.args[0]
    return node


def _sliced(spans: Mapping[int, Span], shape: Sequence[Dim]) -> str:
    """Slices along several axes as one index."""
    if not spans:
        return ""
    parts = [":"] * (max(spans) + 1)
    for axis, (start, stop) in spans.items():
        first = "" if start == 0 else str(start)
        last = "" if axis < len(shape) and stop == shape[axis] else str(stop)
        parts[axis] = f"{first}:{last}"
    return f"[{', '.join(parts)}]"


# -- guards ---------------------------------------------------------------------------------

_INVERSE = {">": "<=", ">=": "<", "<": ">=", "<=": ">", "==": "!=", "!=": "=="}


def spell_outcome(text: str, outcome: object) -> str:
    """What a decision has found."""
    if type(outcome) is bool:
        return text if outcome else f"not {text}" if text.isalnum() else f"not ({text})"
    return f"{text} is {outcome!r}"


def spell_guards(
    equal: Iterable[tuple[Dim, Dim]],
    values: Iterable[tuple[str, object]],
    integers: Mapping[str, Dim] = MappingProxyType({}),
    names: Mapping[str, str] = MappingProxyType({}),
) -> list[str]:
    """What a specialisation holds for: `n0 >= 4` rather than `n0 == max(n0, 4)`.

    Args:
        equal: lengths that are equal.
        values: expressions over scalars and lengths, and what they are.
        integers: lengths that integer arguments tell, in the user's names: `n1` is `k`.
        names: the user's names of numbers, `steps` of `s0`.
    """
    bounds: dict[str, int] = {}
    found: list[str] = []

    def at_least(value: Dim, least: int) -> None:
        text, number = _without_constant(dims.substitute(value, integers))
        if text not in bounds:
            found.append(text)
        bounds[text] = max(bounds.get(text, least - number), least - number)

    for left, right in equal:
        larger = re.fullmatch(rf"max\({re.escape(str(left))}, (\d+)\)", str(right))
        smaller = re.fullmatch(r"min\((.*), (\d+)\)", str(right))
        if larger is not None:
            at_least(left, int(larger[1]))
        elif str(left) in integers:  # `n1 == s0`
            at_least(left, 0)
        elif smaller is not None and left == int(smaller[2]):
            at_least(dims.parse(smaller[1]), int(smaller[2]))
        else:
            found.append(" == ".join(str(dims.substitute(d, integers)) for d in (left, right)))
    for text, value in values:
        text = re.sub(r"\((\w+)\) - \(0\)", r"\1", text)  # how often a loop runs
        shown = re.fullmatch(r"\((.*)\) (>=|<=|==|!=|>|<) (-?\d+)", text)
        if shown is None or not isinstance(value, bool) or not _is_closed(shown[1]):
            found.append(f"{text} is {value!r}")
            continue
        sign = shown[2] if value else _INVERSE[shown[2]]
        positive = re.fullmatch(r"max\((.*), 0\)", shown[1])  # `max(n0 - 1, 0) > 0`: n0 >= 2
        if positive is not None and (sign, shown[3]) == (">", "0") and _is_closed(positive[1]):
            shown = re.fullmatch(r"(.*)(>)(0)", f"{positive[1]}>0") or shown
        length = dims.parse(shown[1]) if _is_length(shown[1]) else None
        if sign in (">", ">=") and length is not None:
            at_least(length, int(shown[3]) + (sign == ">"))
        else:
            found.append(f"{shown[1] if length is None else length} {sign} {shown[3]}")
    spelled = (_at_least(text, bounds[text]) if text in bounds else text for text in found)
    shown_names = (re.sub(r"\bs\d+\b", lambda s: names.get(s[0], s[0]), text) for text in spelled)
    return list(dict.fromkeys(shown_names))


def _at_least(text: str, bound: int) -> str:
    """`n0 >= 4`; `k <= -1` rather than `-k >= 1`."""
    if re.fullmatch(r"-\w+", text):
        return f"{text[1:]} <= {-bound}"
    return f"{text} >= {bound}"


def _is_length(text: str) -> bool:
    """Whether an expression is over lengths alone."""
    return re.fullmatch(r"[n\d+\-* ()]+", text) is not None


def _is_closed(text: str) -> bool:
    """Whether every parenthesis is closed, none before it is opened."""
    depth = 0
    for letter in text:
        depth += (letter == "(") - (letter == ")")
        if depth < 0:
            return False
    return not depth


def _without_constant(value: Dim) -> tuple[str, int]:
    """A length as an expression and the number that is added to it."""
    terms = value.terms if isinstance(value, dims.Length) else ()
    number = sum(n for names, n in terms if not names)
    rest = [term for term in terms if term[0]]
    return dims.spell(sorted(rest, key=lambda term: term[1] < 0)), number
