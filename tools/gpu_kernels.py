"""What kernels for a GPU ask of it, without one: registers, threads at once, bytes under way.

Compiles the plans of pointwise and row workloads with NVRTC (`pip install nvidia-cuda-nvrtc`) and
reads registers and spills from the machine code. From these: how many threads a multiprocessor
holds, how many bytes they have asked for at once, and whether that covers the memory's latency
times its speed (Little's law). Run it from a checkout:

    python tools/gpu_kernels.py docs/gpu_kernels.md
"""

from __future__ import annotations

import argparse
import struct
import sys
from collections.abc import Callable, Iterator
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from fuser.backends.gpu import cxx, geometry, nvrtc, reduction_plan  # noqa: E402
from fuser.backends.gpu.emit import emit  # noqa: E402
from fuser.backends.gpu.stages import Stages  # noqa: E402
from fuser.backends.gpu.variants import Variant  # noqa: E402
from fuser.codegen import LoopNest  # noqa: E402
from fuser.ir.specs import INVARIANT  # noqa: E402
from tests.backends.gpu.nvrtc import machine_code  # noqa: E402
from tests.backends.gpu.units import nests_of  # noqa: E402
from tests.requirements import find  # noqa: E402

ELEMENTS = 1 << 26
#: Of an H100 and an H200: multiprocessors, and of each registers, threads, blocks, shared bytes.
MULTIPROCESSORS, REGISTERS, THREADS, BLOCKS, SHARED = 132, 65_536, 2048, 32, 228 << 10
#: Device memory: bytes a second; and how long a read takes while much is under way.
SPEEDS, LATENCY_S = {"H100": 3.35e12, "H200": 4.8e12}, 7e-7
#: Attributes of a kernel in `.nv.info`: registers, bytes of its stack frame.
_REGISTERS, _FRAME = 0x2F, 0x11


HIDDEN = (768, 4096, 16_384, 65_536)


def axpy(x: Any, y: Any) -> Any:
    """Two reads, one write."""
    return 2.5 * x + y


def gelu(x: Any) -> Any:
    """One read, one write, a costly function between."""
    return 0.5 * x * (1.0 + np.tanh(0.7978845608 * (x + 0.044715 * x * x * x)))


def total(x: Any) -> Any:
    """Everything into one number."""
    return (x * x).sum()


def softmax(x: Any) -> Any:
    """Rows: kept between three passes."""
    e = np.exp(x - x.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)


def layer_norm(x: Any, gain: Any, bias: Any) -> Any:
    """Rows: two reductions, and operands that are the same for all rows."""
    centred = x - x.mean(axis=-1, keepdims=True)
    variance = (centred * centred).mean(axis=-1, keepdims=True)
    return centred / np.sqrt(variance + 1e-5) * gain + bias


def rms_norm(x: Any) -> Any:
    """Rows: one reduction."""
    return x / np.sqrt((x * x).mean(axis=-1, keepdims=True) + 1e-5)


def workloads() -> Iterator[tuple[str, Callable[..., Any], int, tuple[Any, ...], list[int]]]:
    """Name, function, hidden size (0: none), small arguments, strides over rows in elements."""
    flat, table, row = (np.ones(s, np.float32) for s in (32, (4, 32), 32))
    yield "axpy", axpy, 0, (flat, flat), []
    yield "gelu", gelu, 0, (flat,), []
    yield "total", total, 0, (flat,), []
    for hidden in (1003, 50_257):  # most rows begin between vectors
        yield "softmax", softmax, hidden, (table,), [1, 1]
    for hidden in HIDDEN:
        yield "softmax", softmax, hidden, (table,), [1, 1]
        yield "layer_norm", layer_norm, hidden, (table, row, row), [1, 0, 0, 1]
        yield "rms_norm", rms_norm, hidden, (table,), [1, 1]
    yield "softmax", softmax, ELEMENTS, (table,), [1, 1]


def usage(code: bytes) -> tuple[int, int, int]:
    """Registers, bytes of stack and instructions of the only kernel in machine code for sm_80+."""
    (offset,) = struct.unpack_from("<Q", code, 0x28)
    size, count, names = struct.unpack_from("<HHH", code, 0x3A)
    headers = [struct.unpack_from("<IIQQQQIIQQ", code, offset + k * size) for k in range(count)]
    base = headers[names][4]
    found = {_REGISTERS: 0, _FRAME: 0}
    instructions = 0
    for header in headers:
        end = code.index(b"\0", base + header[0])
        name, start, length = code[base + header[0] : end].decode(), header[4], header[5]
        if name.startswith(".text."):
            instructions += length // 16
        at = start
        while name == ".nv.info" and at < start + length:
            form, attribute, more = struct.unpack_from("<BBH", code, at)
            if form == 4 and attribute in found:
                found[attribute] = max(found[attribute], struct.unpack_from("<II", code, at + 4)[1])
            at += 4 + (more if form == 4 else 0)
    return found[_REGISTERS], found[_FRAME], instructions


def blocks_each(registers: int, block: int, shared: int) -> int:
    """Blocks that a multiprocessor holds: a warp's registers come in units of 256."""
    warps = block // 32
    each = -(-registers * 32 // 256) * 256
    limits = [BLOCKS, THREADS // block, REGISTERS // (each * warps), SHARED // (shared + 1024)]
    return min(limits)


def _under_way(nest: LoopNest, plan: geometry.LaunchPlan) -> int:
    """Bytes that a thread has asked for before it computes."""
    if nest.strategy == "map":
        width, times = geometry.vector_width(nest), geometry.unroll(nest)
        loads = [d for d in nest.loads if d.access != INVARIANT]
        return width * times * sum(cxx.itemsize(d.dtype) for d in loads)
    stages = Stages(nest)
    loaded = sum(map(stages.vector_bytes, stages.loads_of(0)))
    return loaded * (plan.variant.held or stages.unroll(0))


def _moved(nest: LoopNest, plan: geometry.LaunchPlan, along: list[int]) -> int:
    """Bytes that cross the device's memory for each element; each launch reads rows again."""
    there = [bool(step) for step in along] or [d.access != INVARIANT for d in nest.operands]
    sizes = [cxx.itemsize(d.dtype) * kept for d, kept in zip(nest.operands, there, strict=True)]
    loads = len(nest.loads)
    return sum(sizes[:loads]) * plan.phases + sum(sizes[loads:])


def share(under_way: int, machine: str) -> float:
    """What Little's law predicts of the memory's speed, by what is under way alone."""
    return min(1.0, under_way / (SPEEDS[machine] * LATENCY_S / MULTIPROCESSORS))


#: Rows and columns of what is transposed; bytes of a sector, what an access moves at least.
SIDE, SECTOR = 8192, 32
#: name -> function of a table and a transposed one, bytes of an element
ACROSS: dict[str, tuple[Callable[..., Any], str]] = {
    "x + y.T": (lambda x, y: x + y.T, "float32"),
    "x + y.T, float16": (lambda x, y: x + y.T, "float16"),
}


def transposes() -> Iterator[dict[str, Any]]:
    """Of each workload the kernel that reads elements where they are, and that with tiles."""
    library = find("nvrtc")
    assert library is not None
    for name, (function, dtype) in ACROSS.items():
        size = np.dtype(dtype).itemsize
        (nest,) = nests_of(function, np.ones((4, 6), dtype), np.ones((6, 4), dtype))
        text = emit([nest], "transpose")
        strides = [[SIDE * size, size], [size, SIDE * size], [SIDE * size, size]]
        found = geometry.across(nest, (SIDE, SIDE), strides)
        assert found is not None
        for tiles in (False, True):
            known: dict[Variant, tuple[int, int, int]] = {}
            shared = geometry.tiles_bytes(nest) * tiles
            variant = Variant(tiles=tiles)
            fit = _fitting(library, text, known, variant, geometry.BLOCK, shared)
            occupancy = geometry.Occupancy(MULTIPROCESSORS, fit)
            make = geometry.plan_tiles if tiles else geometry.plan
            more = (found, occupancy) if tiles else (occupancy,)
            plan = make(nest, (SIDE, SIDE), strides, *more)
            registers, stack, instructions = known[variant]
            yield {
                "workload": name, "kernel": variant.name, "blocks": plan.grid,
                "registers": registers, "stack": stack, "shared": plan.shared,
                "instructions": instructions, "resident": fit * geometry.BLOCK,
                "asked": 2 * size + (size if tiles else SECTOR), "moved": 3 * size,
            }  # fmt: skip


def _fitting(
    library: str, text: str, known: dict[Variant, tuple[int, int, int]], variant: Variant,
    block: int, shared: int,
) -> int:  # fmt: skip
    """Note what a variant uses, and say how many blocks fit."""
    known[variant] = _compiled(library, text, variant)
    return blocks_each(known[variant][0], block, shared)


@cache
def _compiled(library: str, text: str, variant: Variant) -> tuple[int, int, int]:
    """What a variant uses."""
    code, log = machine_code(library, text, (*nvrtc.flags(variant), "--gpu-architecture=sm_90"))
    if not code:
        raise SystemExit(log)
    return usage(code)


def rows() -> Iterator[dict[str, Any]]:
    """One for each workload."""
    yield from (_row(*workload) for workload in workloads())


#: Constants of `reduction_plan` that are off, and rows that they are for.
SWITCHED = {"CLUSTERS": (131_072,), "AHEAD": (16_384,)}


def switched() -> Iterator[dict[str, Any]]:
    """A softmax of rows as they are, and with what is off by itself."""
    table_ = np.ones((4, 32), np.float32)
    for constant, lengths in SWITCHED.items():
        for hidden in lengths:
            for on in (False, True):
                setattr(reduction_plan, constant, on)
                yield _row("softmax", softmax, hidden, (table_,), [1, 1])
            setattr(reduction_plan, constant, False)


def _row(
    name: str, function: Callable[..., Any], hidden: int, arguments: tuple[Any, ...],
    along: list[int],
) -> dict[str, Any]:  # fmt: skip
    """What a workload's launches ask for; the arguments are those that `workloads` gives."""
    library = find("nvrtc")
    if library is None:
        raise SystemExit("no NVRTC: pip install nvidia-cuda-nvrtc")
    (nest,) = nests_of(function, *arguments)
    known: dict[Variant, tuple[int, int, int]] = {}
    occupy = partial(_fitting, library, emit([nest], name), known)
    if nest.strategy == "map":
        fit = occupy(Variant(), geometry.BLOCK, 0)
        steps = [[4]] * (len(nest.loads) + len(nest.stores))
        lengths = (ELEMENTS,)
        plan = geometry.plan(nest, lengths, steps, geometry.Occupancy(MULTIPROCESSORS, fit))
    else:
        resources = geometry.Resources(MULTIPROCESSORS, SHARED - 1024, clusters=True)
        lengths = (ELEMENTS // hidden, hidden) if hidden else (ELEMENTS,)
        steps = [[4 * hidden * kept, 4] for kept in along] if hidden else [[4], [0]]
        plan = reduction_plan.plan(Stages(nest), lengths, steps, resources, occupy)
        fit = blocks_each(known[plan.variant][0], plan.block, plan.shared)
    registers, stack, instructions = known[plan.variant]
    there = min(fit, -(-plan.grid // MULTIPROCESSORS)) * plan.block
    return {
        "workload": name, "row": hidden, "strategy": plan.strategy,
        "kernel": f"{plan.variant.name} {plan.variant.held or ''}".strip(),
        "blocks": plan.grid, "threads": plan.block, "launches": plan.phases,
        "registers": registers, "stack": stack, "shared": plan.shared,
        "instructions": instructions, "resident": there,
        "under_way": there * _under_way(nest, plan), "moved": _moved(nest, plan, along),
    }  # fmt: skip


_HEAD = """\
# What kernels ask of a GPU

Written by `python tools/gpu_kernels.py docs/gpu_kernels.md`, without a device: plans for 2^26
float32 elements on {multiprocessors} multiprocessors, machine code for sm_90 by NVRTC. To read at
the memory's full speed, a multiprocessor must have {need} under way
(speed times {latency:.0f} ns); half of that where as much is written. Instructions are those of the
whole kernel, paths for odd addresses and divisions of subnormal numbers among them: fewer run.
Bytes an element are those that cross the memory. The share of an H200's speed is a prediction by
what is under way alone: nothing here was measured.

| workload | row | strategy | kernel | launches | blocks x threads | registers | stack | \
shared, bytes | instructions | threads at once | KiB under way | bytes an element | \
predicted share |
|---|--:|---|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|"""


def table(found: list[dict[str, Any]]) -> str:
    """As Markdown."""
    wanted = {name: speed * LATENCY_S / MULTIPROCESSORS for name, speed in SPEEDS.items()}
    need = ", ".join(f"{size / 1024:.0f} KiB on an {name}" for name, size in wanted.items())
    lines = [_HEAD.format(need=need, latency=LATENCY_S * 1e9, multiprocessors=MULTIPROCESSORS)]
    lines += map(_line, found)
    return "\n".join(lines) + "\n"


def _line(each: dict[str, Any]) -> str:
    """A row of the first table."""
    predicted = share(each["under_way"], "H200")
    return (
        f"| {each['workload']} | {each['row'] or ''} | {each['strategy']} | {each['kernel']} | "
        f"{each['launches']} | {each['blocks']} x {each['threads']} | {each['registers']} | "
        f"{each['stack']} | {each['shared']} | {each['instructions']} | {each['resident']} | "
        f"{each['under_way'] / 1024:.0f} | {each['moved']} | {predicted:.0%} |"
    )


_SWITCHED = """
## What is off until a device has run it

Rows as they are run, and below each with clusters of blocks ("cluster") or with the next row
copied ahead ("ahead"); columns are those of the first table.
"""


def switched_table(found: list[dict[str, Any]]) -> str:
    """As Markdown."""
    head = _HEAD[_HEAD.index("| workload") :].split("\n")
    return _SWITCHED + "\n" + "\n".join([*head, *map(_line, found)]) + "\n"


_ACROSS = """
## Transposes

Tables of {side} x {side} elements, one of them transposed: the kernel that reads each element where
it is, and the one that reads tiles of 32 x 32 elements along the memory into shared memory and
uses them across, which runs where both loops have 16 elements or more. An access of a warp moves
sectors of 32 bytes: read across, each element asks for one of its own, which only caches may save.

| workload | kernel | blocks | registers | stack | shared, bytes | instructions | \
threads at once | bytes an element, asked for | bytes an element, at least |
|---|---|--:|--:|--:|--:|--:|--:|--:|--:|
"""


def across_table(found: list[dict[str, Any]]) -> str:
    """As Markdown."""
    names = "workload kernel blocks registers stack shared instructions resident asked moved"
    lines = ["| " + " | ".join(str(each[name]) for name in names.split()) + " |" for each in found]
    return _ACROSS.format(side=SIDE) + "\n".join(lines) + "\n"


def main() -> None:
    """Write the table."""
    parser = argparse.ArgumentParser(description="What kernels ask of a GPU, without one.")
    parser.add_argument("target", type=Path)
    options = parser.parse_args()
    text = table(list(rows())) + across_table(list(transposes()))
    text += switched_table(list(switched()))
    options.target.write_text(text)
    print(text)


if __name__ == "__main__":
    main()
