"""Loops that write at computed places: an element after another, or whole vectors and what is left.

Lanes are written one after another, so elements are written in C order, as NumPy writes them: what
is written twice has the last value, and sums are added up in NumPy's order. One thread runs all of
it. Vectors are for what is costly to compute: a place that is picked from a vector is known late,
and what is read after it waits.
"""

from __future__ import annotations

from fuser.backends.cpu.body import Module
from fuser.backends.cpu.vector_loop import emit_section
from fuser.backends.cpu.wrappers import ARGUMENTS
from fuser.codegen import LoopNest


def emit_scatter(module: Module, nest: LoopNest, name: str) -> None:
    """Append the function of a nest."""
    if not any(instruction.row.heavy for instruction in nest.body):
        emit_section(module, nest, name, lanes=1)
        return
    lanes = emit_section(module, nest, f"{name}.wide", "internal ")
    emit_section(module, nest, f"{name}.single", "internal ", lanes=1)
    module.functions.append(
        f"""define i32 @{name}({ARGUMENTS}) #0 {{
entry:
  %n = sub i64 %iend, %ibegin
  %rest = urem i64 %n, {lanes}
  %middle = sub i64 %iend, %rest
  %some = icmp ult i64 %obegin, %oend
  br i1 %some, label %row, label %done
row:
  %o = phi i64 [ %obegin, %entry ], [ %next, %row ]
  %seen = phi i32 [ 0, %entry ], [ %status, %row ]
  %next = add i64 %o, 1
  %a = call i32 @{name}.wide(ptr %block, i64 %o, i64 %next, i64 %ibegin, i64 %middle)
  %b = call i32 @{name}.single(ptr %block, i64 %o, i64 %next, i64 %middle, i64 %iend)
  %both = or i32 %a, %b
  %status = or i32 %both, %seen
  %more = icmp ult i64 %next, %oend
  br i1 %more, label %row, label %done
done:
  %found = phi i32 [ 0, %entry ], [ %status, %row ]
  ret i32 %found
}}"""
    )
