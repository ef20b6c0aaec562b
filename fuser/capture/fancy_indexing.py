"""Arrays, masks and lists as indices: joins of slices, choices for each element, or NumPy's."""

from __future__ import annotations

import contextlib
from typing import Any

import numpy as np

from fuser.base.errors import Unsupported
from fuser.capture.opaque_tracing import call_named, update
from fuser.numpy_functions import element_of_each_row, gathers, take_and_put
from fuser.tracing import selections
from fuser.tracing.traced_array import TracedArray


def take(array: TracedArray, index: Any) -> Any:
    """`array[index]`."""
    if not array.generic:
        found = take_and_put.taken(array, index)
        found = element_of_each_row.taken(array, index) if found is None else found
        if found is not None:
            return found
        with contextlib.suppress(Unsupported):
            found = gathers.taken(array, index)
        if found is not None:
            return found
    return call_named(array.tracing, "numpy.ndarray.__getitem__", (array, index), {})


def put(array: TracedArray, index: Any, value: Any) -> None:
    """`x[mask] = scalar`, or values of x[mask], is a choice for each element; else NumPy's."""
    tracing = array.tracing
    if take_and_put.assign(array, index, value) or element_of_each_row.assign(array, index, value):
        return
    if not selections.is_mask(index, array):
        with contextlib.suppress(Unsupported):
            if gathers.put(array, index, value):
                return
        update(array, index, value)
        return
    new: Any = None
    if isinstance(value, TracedArray):
        mask, made = index.node, value.node
        new = selections.whole(tracing, mask, made) if made.shape else made
    elif not isinstance(value, (np.ndarray, list, tuple)):
        new = tracing.operand_node(tracing.operand(value), array.dtype)
    if new is None:
        update(array, index, value)
        return
    new = tracing.cast(new, array.dtype)
    array.assign(tracing.node("where", [index.node, new, array.node]))
