"""NumPy's makers that are indexed, inside traced functions: r_, c_, mgrid, ogrid."""

from __future__ import annotations

from typing import Any

import numpy as np

from fuser.tracing.trace_state import Tracing
from fuser.tracing.traced_array import TracedArray
from fuser.tracing.traced_scalars import HostScalar


class Joiner:
    """np.r_ and np.c_: arrays and numbers joined along an axis."""

    def __init__(self, tracing: Tracing, name: str) -> None:
        self._tracing = tracing
        self._name = name

    def __getitem__(self, key: Any) -> Any:
        """Traced arrays joined; NumPy's own for everything else."""
        items = key if isinstance(key, tuple) else (key,)
        ranks = [np.ndim(item) for item in items if not isinstance(item, (str, slice))]
        known = len(ranks) == len(items) and _some_array(items)
        if not known or not set(ranks) <= ({0, 1} if self._name == "r_" else {1, 2}):
            return getattr(np, self._name)[key]
        if self._name == "c_":
            return np.column_stack(items)
        from fuser.numpy_functions.array_functions import result_type  # few functions need it

        dtype = result_type(*map(self._tracing.operand, items))
        return np.concatenate([np.atleast_1d(_strong(item, dtype)) for item in items])


class Grid:
    """np.mgrid and np.ogrid: places along axes."""

    def __init__(self, tracing: Tracing, name: str) -> None:
        self._tracing = tracing
        self._name = name

    def __getitem__(self, key: Any) -> Any:
        """Places between lengths that are traced; NumPy's own for everything else."""
        from fuser.tracing import counting

        spans = key if isinstance(key, tuple) else (key,)
        if not counting.spans_traced(spans):
            return getattr(np, self._name)[key]
        found = counting.open_grid(self._tracing, spans)
        if not isinstance(key, tuple):
            return found[0]
        return tuple(found) if self._name == "ogrid" else np.stack(np.broadcast_arrays(*found))


BRACKETS = {"r_": Joiner, "c_": Joiner, "mgrid": Grid, "ogrid": Grid}


def _some_array(items: Any) -> bool:
    """Whether one of several values is a traced array, and all are arrays or numbers."""
    known = (TracedArray, HostScalar, np.ndarray, np.generic, int, float)
    whole = all(type(item) in (bool, int, float) or isinstance(item, known) for item in items)
    return whole and any(isinstance(item, TracedArray) for item in items)


def _strong(item: Any, dtype: np.dtype[Any]) -> Any:
    """A Python number as one of a dtype."""
    if isinstance(item, TracedArray) or type(item) is not HostScalar:
        return dtype.type(item) if type(item) in (bool, int, float) else item
    return item._tracing.wrap(item._tracing.operand_node(item, dtype))
