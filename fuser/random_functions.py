"""Random numbers and dropout, on arrays and inside fused functions: named by seed and place.

An element's number depends on the seed, the offset and the element's place in C order alone: the
same on every backend, in the fallback and in every run. Inside a fused function the places are
counted in the kernel's own loops, so that random numbers and what is around them are one kernel.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from fuser.backend import array_module_of
from fuser.ir import dims
from fuser.ir.attributes import Extent
from fuser.ir.philox import random_bits
from fuser.ir.views import Reshape
from fuser.tracing.traced_array import TracedArray
from fuser.tracing.traced_scalars import HostScalar

_WORD = np.dtype(np.uint64)


def rand_like(x: Any, *, seed: Any, offset: Any = 0) -> Any:
    """Uniform random numbers in [0, 1) of x's shape: float16, float32 or float64 as x, or float64.

    Element i in C order is number `offset + i` of the seed's stream; a float64 is made of the two
    numbers from `2 * (offset + i)` on. A following call takes `offset + x.size`.

    Args:
        x: gives the shape and the dtype; any array.
        seed: names the stream: a whole number from 0 to 2**64 - 1.
        offset: the first element's position in the stream.

    Source:
        Philox4x32-10, see `fuser.ir.philox`; the upper bits of a word become the fraction.
    """
    if not isinstance(x, TracedArray):
        x = x if hasattr(x, "dtype") and hasattr(x, "ndim") else np.asarray(x)
    dtype = x.dtype if x.dtype.kind == "f" else np.dtype(np.float64)
    place = _places(x) + _whole(offset, "offset")
    name = _whole(seed, "seed")
    if dtype.itemsize == 8:
        twice = place * 2
        upper, lower = _bits(twice, name) >> 5, _bits(twice + 1, name) >> 6
        whole = upper.astype(np.float64) * 2.0**26 + lower.astype(np.float64)
        return whole * 2.0**-53
    kept = {2: 11, 4: 24}[dtype.itemsize]
    return (_bits(place, name) >> (32 - kept)).astype(dtype) * 2.0**-kept


def dropout(x: Any, p: Any = 0.5, *, seed: Any, offset: Any = 0) -> Any:
    """Each element is 0 with probability p, and x / (1 - p) otherwise.

    Args:
        x: any array.
        p: from 0 to 1.
        seed: as of `rand_like`, whose numbers are compared with p.
        offset: as of `rand_like`.

    Source:
        Srivastava et al., "Dropout", Journal of Machine Learning Research 15, 2014, scaled as is
        usual now while training.

    Raises:
        ValueError: p is out of range.
    """
    if not isinstance(p, HostScalar) and not 0 <= p <= 1:
        raise ValueError(f"p is {p}; a probability is from 0 to 1")
    kept = rand_like(x, seed=seed, offset=offset) >= p
    if not isinstance(p, HostScalar) and p == 1:
        return np.where(kept, x, 0.0)  # nothing is kept
    return np.where(kept, x / (1.0 - p), 0.0)


def _whole(value: Any, name: str) -> Any:
    """A seed or offset.

    Raises:
        TypeError: it is no whole number.
    """
    if isinstance(value, (int, np.integer, HostScalar)) and not isinstance(value, bool):
        return np.uint64(value) if isinstance(value, np.integer) else value
    raise TypeError(f"{name} is {type(value).__name__}; use a whole number")


def _places(x: Any) -> Any:
    """The place of every element in C order, uint64 of x's shape."""
    if isinstance(x, TracedArray):
        tracing, shape = x.tracing, x.node.shape
        node = tracing.node("positions", (), Extent(dims.product(shape)))
        node = tracing.node("reshape", [node], Reshape(shape))
        return tracing.wrap(tracing.cast(node, _WORD), not shape)
    return array_module_of({"x": x}).arange(x.size, dtype=np.uint64).reshape(x.shape)


def _bits(place: Any, seed: Any) -> Any:
    """The row `random_bits`, on arrays and in a trace."""
    if isinstance(place, TracedArray):
        tracing = place.tracing
        name = tracing.operand_node(tracing.operand(seed), _WORD)
        node = tracing.node("random_bits", [place.node, name])
        return tracing.wrap(node, not node.shape)
    if isinstance(place, (np.ndarray, np.generic)):
        return random_bits(place, np.broadcast_to(np.uint64(seed), np.shape(place)))
    from fuser.interface import fuse

    return fuse(lambda at, key: _bits(at, key))(place, int(seed))
