"""Loops whose results run along one of them: cumsum and the like, with what is around them.

Where there are several rows or columns, elements beside each other are the lanes: of an array in C
order, columns along its first axis, and rows along its last. The loop along which results run is
the innermost, and what it carries is in registers. A single row runs through `vector_loop`, its
results lane by lane. So each result is computed in NumPy's order, whatever the number of lanes and
threads.
"""

from __future__ import annotations

from fuser.backends.cpu import tuning
from fuser.backends.cpu.body import Body, Module, iota, vector_type
from fuser.backends.cpu.section import Section, lanes_of
from fuser.backends.cpu.wrappers import ARGUMENTS
from fuser.codegen import LoopNest
from fuser.ir.specs import CONTIGUOUS, INVARIANT


def emit_scan(module: Module, nest: LoopNest, name: str) -> None:
    """Append the function of a nest: whole vectors of columns, then one column after another."""
    lanes = lanes_of(nest, module.features)
    light = all(not i.row.heavy for i in nest.body)
    if light and all(desc.access in (CONTIGUOUS, INVARIANT) for desc in nest.operands):
        lanes *= tuning.SCAN_VECTORS
    for suffix, count in (("wide", lanes), ("single", 1)):
        section = Section(module, nest, f"{name}.{suffix}", "internal ", lanes=count)
        section.compute()
        module.functions.append(_text(section))
    module.functions.append(
        f"""define i32 @{name}({ARGUMENTS}) #0 {{
entry:
  %n = sub i64 %iend, %ibegin
  %rest = urem i64 %n, {lanes}
  %middle = sub i64 %iend, %rest
  %a = call i32 @{name}.wide(ptr %block, i64 %obegin, i64 %oend, i64 %ibegin, i64 %middle)
  %b = call i32 @{name}.single(ptr %block, i64 %obegin, i64 %oend, i64 %middle, i64 %iend)
  %status = or i32 %a, %b
  ret i32 %status
}}"""
    )


def _text(section: Section) -> str:
    """The function of some columns, so many at a time."""
    top, row, inside = section.bodies
    addresses = Body(section.module, "p")
    section.lay_rows(addresses, "%o", "row")
    flagged = any(body.flagged for body in section.bodies)
    lanes, operands = section.lanes, section.operands
    moving = [k for k, desc in enumerate(operands) if desc.access != INVARIANT]
    carried = [
        f"  %before{number} = phi {start.type} [ {start.text}, %column ], "
        f"[ {after.text}, %{inside.block} ]"
        for number, (start, after) in section.carried.items()
    ]
    places = []
    if any(operands[k].counted for k in moving):
        every = iota(lanes)
        text = every.text if lanes > 1 else "0"
        places = [f"  %places = add {vector_type('i64', lanes)} {text}, "
                  + ("zeroinitializer" if lanes > 1 else "0")]  # fmt: skip
    turns = zip(section.pairs, section.turns, strict=True)
    lines = [
        f"define internal i32 @{section.name}({ARGUMENTS}) #0 {{",
        "entry:",
        *(["  %flag = alloca i64", "  store i32 0, ptr %flag"] if flagged else []),
        *top.lines,
        "  %n = sub i64 %iend, %ibegin",
        f"  %vectors = udiv i64 %n, {lanes}",
        "  %some.rows = icmp ult i64 %obegin, %oend",
        "  %some.vectors = icmp ne i64 %vectors, 0",
        "  %some = and i1 %some.rows, %some.vectors",
        "  br i1 %some, label %outer, label %done",
        "outer:",
        f"  %turn = phi i64 [ %obegin, %{top.block} ], [ %turn.next, %outer.end ]",
        f"  %base = mul i64 %turn, {section.lengths[-1]}",
        "  br label %column",
        "column:",
        "  %vector = phi i64 [ 0, %outer ], [ %vector.next, %column.end ]",
        f"  %ahead = mul i64 %vector, {lanes}",
        *(f"  %lead{k} = mul i64 %ahead, {section.inner[k]}" for k in moving),
        *(f"  %st{k} = add i64 {section.inner[k]}, 0" for k in moving),
        *places,
        "  br label %row",
        "row:",
        f"  %along = phi i64 [ 0, %column ], [ %along.next, %{inside.block} ]",
        *carried,
        "  %o = add i64 %base, %along",
        *addresses.lines,
        *row.lines,
        *(f"  %turns{k} = and i1 {flag}, true" for k, flag in turns),
        *(f"  %q{k} = getelementptr i8, ptr %row{k}, i64 %lead{k}" for k in moving),
        "  br label %vec",
        "vec:",
        *inside.lines,
        "  %along.next = add i64 %along, 1",
        f"  %more.along = icmp ult i64 %along.next, {section.lengths[-1]}",
        "  br i1 %more.along, label %row, label %column.end",
        "column.end:",
        "  %vector.next = add i64 %vector, 1",
        "  %more.vectors = icmp ult i64 %vector.next, %vectors",
        "  br i1 %more.vectors, label %column, label %outer.end",
        "outer.end:",
        "  %turn.next = add i64 %turn, 1",
        "  %more.turns = icmp ult i64 %turn.next, %oend",
        "  br i1 %more.turns, label %outer, label %done",
        "done:",
        *(["  %status = load i32, ptr %flag"] if flagged else []),
        "  ret i32 %status" if flagged else "  ret i32 0",
        "}",
    ]
    return "\n".join(lines)
