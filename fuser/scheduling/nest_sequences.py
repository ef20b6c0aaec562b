"""A kernel takes in what small loops compute before and after it: that stays in the cache.

`((x[:, None] - c) ** 2).sum(-1).min(1).sum()` ends with a sum over points, `x * np.exp(v)` begins
with a row of exponentials, the residual of a step on a plate is the largest of a few maxima. Such
nests have loops of fewer axes than the nest that does the work, so what they read and write is
small. They are compiled into its kernel and run before or after it, and what lies between does not
reach memory. Where it is larger than the cache after all, they are kernels of their own.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from fuser.base.records import changed
from fuser.ir import dims
from fuser.ir.graph import Node
from fuser.ir.specs import is_counted
from fuser.scheduling.plans import Plan
from fuser.scheduling.row_tiles import ROW_CACHE_BYTES, Group

#: Nests that follow each other in one kernel, and what they compute: bounds for what is compiled
#: as one, as for nests that need nothing of each other.
MAX_TURNS, MAX_OPERATIONS = 16, 4096


def joined(groups: Sequence[Group]) -> list[Group]:
    """Kernels, with those of small loops put into the one before or after them.

    Args:
        groups: in the order in which they run.
    """
    found: list[list[Group]] = []
    for group in groups:
        if found and _may_follow(found[-1], group):
            found[-1].append(group)
        else:
            found.append([group])
    readers: dict[str, int] = {}
    for parts in found:
        for name in {name for part in parts for name in _reads(part)}:
            readers[name] = readers.get(name, 0) + 1
    return [_one(parts, readers) if len(parts) > 1 else parts[0] for parts in found]


def _may_follow(before: Sequence[Group], group: Group) -> bool:
    """Whether a kernel reads what those before it write, and only one of all has large loops."""
    parts = (*before, group)
    sections = [section for part in parts for section in part.sections]
    if len(sections) > MAX_TURNS or sum(len(s.steps) for s in sections) > MAX_OPERATIONS:
        return False
    written = {name for part in before for name in _writes(part)}
    if written.isdisjoint(_reads(group)):
        return False
    widths = sorted(map(_width, parts))
    return widths[-1] > widths[-2]


def _width(group: Group) -> int:
    """How many axes of any length the largest loops of a group have."""
    return max(sum(not isinstance(dim, int) for dim in s.shape) for s in group.sections)


def _one(parts: Sequence[Group], readers: Mapping[str, int]) -> Group:
    """One kernel of several."""
    whole = Group(tuple(section for part in parts for section in part.sections))
    reads = _reads(whole)
    inside = (n for n in _writes(whole) if n.startswith("t") and n in reads and readers[n] == 1)
    return changed(whole, turns=tuple(parts), inside=tuple(inside))


def apart(plan: Plan) -> Plan:
    """A plan whose kernels of several are these again: for backends that start each by itself."""
    if not any(group.turns for group in plan.groups):
        return plan
    return changed(plan, groups=tuple(part for group in plan.groups for part in group.parts))


def settled(plan: Plan, sizes: Mapping[str, int]) -> Plan:
    """A plan as it is for given lengths: kernels of several are one where the small ones are.

    Pairs of their values keep their verdicts: these say why they have loops of their own.

    Args:
        plan: with kernels of several.
        sizes: lengths by symbol.
    """
    if not any(group.turns for group in plan.groups):
        return plan
    held = {buffer.name: buffer.node for buffer in (*plan.temporaries, *plan.outputs)}
    groups: list[Group] = []
    for group in plan.groups:
        small = not group.turns or small_bytes(group, held, sizes) <= ROW_CACHE_BYTES
        groups += (group,) if small else group.parts
    return changed(plan, groups=tuple(groups))


def small_bytes(group: Group, nodes: Mapping[str, Node], sizes: Mapping[str, int]) -> int:
    """Bytes of all arrays that the small loops of a kernel of several read and write."""
    arrays: dict[str, Node] = {}
    for part in sorted(group.turns, key=_width)[:-1]:
        for section in part.sections:
            for desc, node in zip(section.loads, section.load_nodes, strict=True):
                seen = sum(not isinstance(dim, int) for dim in node.shape) <= _width(part)
                if seen and not is_counted(desc.buffer):
                    arrays[desc.buffer] = node
            arrays.update((desc.buffer, nodes[desc.buffer]) for _, desc in section.stores)
    counts = ((dims.evaluate(dims.product(n.shape), sizes), n) for n in arrays.values())
    return sum(count * node.dtype.itemsize for count, node in counts)


def _reads(group: Group) -> dict[str, None]:
    """The buffers that a kernel reads, each once."""
    return dict.fromkeys(part.buffer for s in group.sections for part in s.loads)


def _writes(group: Group) -> dict[str, None]:
    """The buffers that a kernel writes, each once."""
    return dict.fromkeys(part.buffer for s in group.sections for _, part in s.stores)
