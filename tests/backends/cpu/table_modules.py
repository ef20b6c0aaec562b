"""The whole op table as LLVM modules: one module a dtype, one function a row."""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Sequence
from functools import cache

from fuser.backends.cpu.body import Features
from fuser.backends.cpu.emit import emit
from fuser.backends.cpu.machine import loader
from fuser.codegen import LoopNest, loop_nests
from fuser.compiler import compile_upfront
from fuser.ir.graph import Graph
from fuser.ir.graph_text import parse
from fuser.ir.ops import DTYPES
from fuser.ir.specs import CONTIGUOUS, ArgSpec, SectionSpec, TensorDesc
from tests.backends.cases import CASES, flat_graph


def flat_nests(graph: Graph) -> tuple[LoopNest, ...]:
    """The loop nests of a graph of one loop, for contiguous operands."""
    group, *others = compile_upfront(graph).plan.groups
    assert not others
    (section,) = group.sections
    names = [node.dtype.name for node in section.load_nodes]
    names += [section.node_of(value).dtype.name for value, _ in section.stores]
    tensors = tuple(TensorDesc(name, CONTIGUOUS) for name in names)
    return loop_nests(group, ArgSpec("cpu", (SectionSpec(1, tensors),)))


@cache
def table_nests(dtype: str) -> list[LoopNest]:
    """Every row on operands of one dtype, and casts from it to all others."""
    graphs = [flat_graph(case) for case in CASES if case.rows_dtype == dtype]
    graphs += [
        parse(f"graph(x0: {dtype}[n0]):\n%0 = cast{{{target}}} x0 : {target}[n0]\nreturn %0")
        for target in DTYPES
        if target != dtype
    ]
    return [nest for graph in graphs for nest in flat_nests(graph)]


def table_text(dtype: str, features: Features) -> str:
    """One module with `table_nests`, whose functions are `table.0`, `table.1` …"""
    return emit(table_nests(dtype), "table", features)


def undefined_symbols(code: bytes) -> set[str]:
    """What an ELF object file calls without defining it: entries of its symbol table.

    Source: System V ABI, edition 4.1, chapter 4, "Object Files", for 64-bit little-endian files.
    """
    (start,) = struct.unpack_from("<Q", code, 0x28)
    size, count = struct.unpack_from("<HH", code, 0x3A)
    # of each section header: type, offset, size, and the number of its string table
    headers = [struct.unpack_from("<4xI16xQQI", code, start + k * size) for k in range(count)]
    (table,) = [header for header in headers if header[0] == 2]
    names = headers[table[3]][1]
    found = set()
    for place in range(table[1], table[1] + table[2], 24):
        name, section = struct.unpack_from("<I2xH", code, place)
        if name and section == 0:
            end = code.index(b"\0", names + name)
            found.add(code[names + name : end].decode())
    return found


def digests(features: Features, compiled: Sequence[str]) -> list[str]:
    """A line for each dtype: hashes of the module's text and, for some, of its machine code."""
    lines = []
    for dtype in DTYPES:
        text = table_text(dtype, features)
        code = loader.compile_object(text) if dtype in compiled else b""
        lines.append(f"{dtype} {hashlib.sha256(text.encode()).hexdigest()} "
                     f"{hashlib.sha256(code).hexdigest()}")  # fmt: skip
    return lines
