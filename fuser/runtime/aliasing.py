"""May this array be written while that one is read? Whoever asks it of a call's arrays asks here.

Arrays may share memory where the ranges of bytes that they lie in meet: a cautious answer, that
costs little; parts of one array are looked at more closely. A function that writes into arguments
names the pairs that must be apart (`Trace.hazards`); kernels that write into an array that they
read have to read each element before it is written (`direct_targets`). What is compiled for a call
asks the same of the next one: the native entry by rows of `reach`, code in Python by `share`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import Any

import numpy as np

from fuser.backend import Backend
from fuser.ir import views
from fuser.ir.views import Broadcast, Index, Part, Transpose
from fuser.kernel_spec import KernelSpec


def reach(array: Any) -> tuple[int, int]:
    """How many bytes an array reaches before and after its first element's address."""
    spans = [(n - 1) * s for n, s in zip(array.shape, array.strides, strict=True)]
    low = -sum(span for span in spans if span < 0)
    return low, sum(span for span in spans if span > 0) + array.dtype.itemsize


def share(one: Any, other: Any) -> bool:
    """Whether two arrays may share memory; an empty one does with itself."""
    return one is other or bool(np.may_share_memory(one, other))


def conflict(
    arrays: Mapping[str, Any], written: Iterable[str], pairs: Iterable[tuple[str, str]]
) -> str:
    """Why arrays cannot be written as a function says, in words; empty where they can.

    Args:
        arrays: by name.
        written: those that are written.
        pairs: those that must not share memory.
    """
    if any(overlaps_itself(arrays[name]) for name in written):
        return "an argument whose elements share memory"
    if any(share(arrays[one], arrays[other]) for one, other in pairs):
        return "arguments that share memory"
    return ""


def may_write(
    arrays: Mapping[str, Any], written: Iterable[str], pairs: Iterable[tuple[str, str]]
) -> bool:
    """Whether no array to write is read-only, and nothing is in conflict; as `conflict`."""
    read_only = any(is_read_only(arrays[name]) for name in written)
    return not (read_only or conflict(arrays, written, pairs))


def is_read_only(array: Any) -> bool:
    """Whether an array says that it must not be written into; CuPy's arrays never do."""
    return not getattr(array.flags, "writeable", True)


def is_hazardous(array: Any) -> bool:
    """Whether an argument is read-only, or a write of one element may change another one."""
    return is_read_only(array) or overlaps_itself(array)


def overlaps_itself(array: Any) -> bool:
    """Whether two elements of an array may share memory; rare, so a cautious answer will do."""
    if array.flags.c_contiguous:
        return False
    reach = array.itemsize
    for stride, length in sorted(zip(map(abs, array.strides), array.shape, strict=True)):
        if length > 1:
            if stride < reach:
                return True
            reach += stride * (length - 1)
    return False


def direct_targets(
    spec: KernelSpec,
    arrays: Mapping[str, Any],
    given: Mapping[int, Any],
    sizes: Mapping[str, int],
    backend: Backend,
) -> dict[int, Any]:
    """The given arrays that kernels write into themselves; the others get copies of results.

    Args:
        spec: the prepared graph.
        arrays: array arguments by parameter name.
        given: arrays to write outputs into, by output number.
        sizes: lengths by symbol.
        backend: where they live.
    """
    return {
        place: target
        for place, target in given.items()
        if _may_write_directly(spec, arrays, place, given, sizes, backend)
    }


def _may_write_directly(
    spec: KernelSpec,
    buffers: Mapping[str, Any],
    place: int,
    given: Mapping[int, Any],
    sizes: Mapping[str, int],
    backend: Backend,
) -> bool:
    """Whether kernels may write an output into an array while they read their arguments.

    They may where no argument can share memory with it, or where all that reads the shared
    argument runs before, or in the same loop nest at the very element that it writes. A kernel that
    may meet an error writes elsewhere first, so that the array stays untouched then.
    """
    from fuser.scheduling.in_place import reads_beside

    target = given[place]
    if spec.may_raise or overlaps_itself(target):
        return False
    module = backend.array_module
    others = [other for other in given.values() if other is not target]
    if any(_overlap(target, other, backend) for other in others):
        return False
    shared = {
        name
        for name, array in buffers.items()
        if name.startswith("x") and module.may_share_memory(target, array)
    }
    if not shared:
        return True
    able = backend.capabilities
    beside = reads_beside(
        spec.plan, place, stores_last=able.stores_last, several=able.each_stores_last
    )
    for load, own in beside:
        if load.buffer not in shared:
            continue
        array = buffers[load.buffer]
        whole = array.shape == target.shape
        if not all(isinstance(view, (Index, Part, Broadcast)) for view in load.views):
            return False
        seen = views.apply_views(array, load.views, sizes, module)
        if not whole and not _overlap(seen, target, backend):
            continue
        alike = [desc.views for desc in own if not whole or desc.views == load.views]
        stored = (views.apply_views(target, chain, sizes, module) for chain in alike)
        if not any(_is_same(seen, one, backend) for one in stored):
            return False
    return True


def _is_same(seen: Any, written: Any, backend: Backend) -> bool:
    """Whether two arrays are the same elements, in the same order."""
    if 0 in seen.shape:
        return True
    steps = [
        [(n, step) for n, step in zip(array.shape, array.strides, strict=True) if n != 1]
        for array in (seen, written)
    ]
    same = backend.address(seen) == backend.address(written) and steps[0] == steps[1]
    return same and bool(seen.dtype.itemsize == written.dtype.itemsize)


#: How much work, in steps of about a microsecond, NumPy may take to tell two arrays apart.
_SEARCH = 1_000
#: Elements nearer to each other than this share lines of memory with what lies between them.
_LINE = 64


def _overlap(one: Any, two: Any, backend: Backend) -> bool:
    """Whether two arrays may have an element in common, not only ranges of bytes that meet.

    Those whose elements lie in turn, as two of the last axis's places, are taken to overlap: a line
    of memory is written once where they are copied, and once for each of them otherwise.
    """
    if not backend.array_module.may_share_memory(one, two) or _in_turn(one, two, backend):
        return False
    steps = [abs(step) for n, step in zip(one.shape, one.strides, strict=True) if n > 1]
    rows = min(steps, default=_LINE) == one.itemsize or min(steps, default=_LINE) >= _LINE
    if rows and type(one) is type(two) is np.ndarray:
        with suppress(np.exceptions.TooHardError):
            most: Any = _SEARCH  # NumPy's stubs know two values of it
            return bool(np.shares_memory(one, two, max_work=most))
    return True


def _in_turn(one: Any, two: Any, backend: Backend) -> bool:
    """Whether elements of two arrays lie in turn, as those of `x[::2]` and `x[1::2]`."""
    if not len(one.shape) == len(two.shape) == 1 or one.strides != two.strides:
        return False
    step = abs(one.strides[0])
    shift = (backend.address(one) - backend.address(two)) % step if step else 0
    return bool(two.itemsize <= shift <= step - one.itemsize)


def reads_in_place(spec: KernelSpec, backend: Backend, name: str) -> bool:
    """Whether an array is read at the very element that is written, and nowhere else."""
    groups, outputs = spec.plan.groups, spec.plan.outputs
    if len(groups) != 1 or len(groups[0].sections) != 1:
        return False
    section = groups[0].sections[0]
    turned = any(isinstance(view, Transpose) for _, part in section.stores for view in part.views)
    alike = all(buffer.node.shape == outputs[0].node.shape for buffer in outputs)
    several = len(outputs) != 1 and not (alike and backend.capabilities.stores_last)
    if section.axes or turned or several:
        return False
    return all(not load.views for load in section.loads if load.buffer == name)
