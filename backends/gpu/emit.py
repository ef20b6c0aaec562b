"""Loop nests as CUDA C++ text.

A section becomes function templates over its index type, and kernels that instantiate them, see
`variants`. A kernel's only parameter is a structure of 8-byte words: the address of
the flag where there is one, operand addresses, what `geometry.plan` packs, then scalars.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from fuser.backends.gpu.emit_held import HELD_DEFAULTS, Held
from fuser.backends.gpu.emit_long import long_text
from fuser.backends.gpu.emit_map import Map
from fuser.backends.gpu.emit_reduction import ROWS_DEFAULTS, Reduction
from fuser.backends.gpu.emit_tiles import Tiles
from fuser.backends.gpu.geometry import BLOCK, tile_slots
from fuser.backends.gpu.helpers import used_helpers
from fuser.backends.gpu.long_rows import long_rows
from fuser.backends.gpu.reduction_plan import ROW_BLOCK
from fuser.backends.gpu.stages import Stages
from fuser.backends.gpu.variants import Variant
from fuser.codegen import LoopNest

_PROLOGUE = """\
#define INLINE static __device__ __forceinline__
typedef unsigned long long word;"""

#: The shared memory of a launch; a host that executes the text for a test brings its own.
_POOL = """\
#ifndef FUSER_HOST
extern __shared__ uint4 pool[];
#endif"""


def emit(nests: Sequence[LoopNest], name: str) -> str:
    """Spell loop nests as one translation unit.

    Raises:
        Unsupported: an operation has no spelling.
    """
    several = len(nests) > 1
    sections = [_section(nest, place, several) for place, nest in enumerate(nests)]
    entries = [
        _entry(name, place, nest, variant)
        for place, nest in enumerate(nests)
        for variant in variants_of(nest)
    ]
    reduces = any(nest.strategy != "map" for nest in nests)
    tiles = any(tile_slots(nest) for nest in nests)
    shared = [_POOL] if reduces or tiles else []
    shared += [ROWS_DEFAULTS] if reduces else []
    if any("HELD_VECTORS" in entry for entry in entries):
        shared.append(HELD_DEFAULTS)
    parts = [f"// {name}", _PROLOGUE, *shared, *used_helpers(sections), *sections, *entries]
    return "\n\n".join(parts) + "\n"


def _section(nest: LoopNest, place: int, several: bool) -> str:
    """One nest, in all its forms."""
    if nest.strategy == "map":
        texts = [Map(nest, place, several).text()]
        if tile_slots(nest):
            texts.append(Tiles(nest, place, several).text())
        return "\n\n".join(texts)
    written = Reduction(nest, place, several)
    if not written.plan.most_held:
        return written.text()
    texts = [written.text(), Held(nest, place, several).text()]
    if (cut := long_rows(nest, place)) is not None:
        texts.append(long_text(nest, place, several, cut))
    return "\n\n".join(texts)


def variants_of(nest: LoopNest) -> list[Variant]:
    """The kernels of a section, by their names."""
    kinds = [Variant()]
    if tile_slots(nest):
        kinds.append(Variant(tiles=True))
    if nest.strategy != "map":
        kinds.append(Variant(split=True))
        if Stages(nest).most_held:
            kinds.append(Variant(held=1))
        if long_rows(nest) is not None:
            kinds.append(Variant(split=True, held=1))
    return [replace(kind, wide=wide) for kind in kinds for wide in (False, True)]


def _entry(name: str, place: int, nest: LoopNest, variant: Variant) -> str:
    """One kernel."""
    index, offset = _TYPES[variant.wide]
    threads: int | str = BLOCK if nest.strategy == "map" else ROW_BLOCK
    arguments = "Tiles" if variant.tiles else "Arguments"
    called, split = "section", "" if nest.strategy == "map" else f", {str(variant.split).lower()}"
    together = "TOGETHER " if variant.held and not variant.split else ""
    if variant.tiles:
        called = "tiles"
    if variant.held:
        called, split = "held", ", HELD_VECTORS, HELD_MORE"
        if nest.itemsize < 8:  # two blocks of a multiprocessor: one computes, the other waits
            threads = f"{ROW_BLOCK}, HELD_MORE ? 1 : 2"
        if variant.split:
            called, split = "long", ", HELD_VECTORS"
    return (
        f"#if {variant.condition}\n"
        f'extern "C" __global__ void {together}__launch_bounds__({threads})\n'
        f"{variant.entry(name, place)}(const __grid_constant__ {arguments}{place} a) {{\n"
        f"    {called}{place}<{index}, {offset}{split}>(a);\n"
        "}\n"
        "#endif"
    )


#: Whether indices are wide -> index type, offset type.
_TYPES = {False: ("unsigned int", "int"), True: ("unsigned long long", "long long")}
