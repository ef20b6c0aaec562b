"""Programs of Dask arrays, as a user writes them: name -> (Dask arrays -> one of them)."""

from typing import Any

import dask
import dask.array as da
import numpy as np

import fuser
from fuser.calls.fused_function import _all_functions

CHANCE = np.random.default_rng(5)
VALUES = CHANCE.normal(size=(60, 50))
WEIGHTS = CHANCE.random(50)


def arrays(chunks: Any = (25, 20)) -> Any:
    """The values in chunks of unequal lengths."""
    return da.from_array(VALUES, chunks=chunks)


def _black_scholes(spot: Any, strike: Any, years: Any) -> Any:
    """Dask fuses layers of it, and then layers of these."""
    first = (np.log(spot / strike) + 0.07 * years) / (0.2 * np.sqrt(years))
    second = first - 0.2 * np.sqrt(years)
    return spot / (1 + np.exp(-1.7 * first)) - strike * np.exp(-0.05 * years) / (
        1 + np.exp(-1.7 * second)
    )


def _softmax(x: Any) -> Any:
    """Its maximum and its sum are of whole chunks where rows are not divided."""
    weights = np.exp(x - x.max(axis=-1, keepdims=True))
    return weights / weights.sum(axis=-1, keepdims=True)


def _shared(x: Any, y: Any) -> Any:
    """No layer here is needed by one layer alone."""
    first, second = x * 2 + 1, np.sqrt(abs(x))
    third, fourth = first * second - 1, first / (1 + second)
    if x.shape == y.shape:
        third = third - (y * 3).rechunk(x.chunks)
    return (third * fourth + third.max(axis=1, keepdims=True)) * (fourth.sum(axis=0) + 1)


def _heat(u: Any) -> Any:
    """A user's stencil, for chunks that overlap."""
    result = u.copy()
    flow = u[:-2, 1:-1] + u[2:, 1:-1] + u[1:-1, :-2] + u[1:-1, 2:] - 4 * u[1:-1, 1:-1]
    result[1:-1, 1:-1] = u[1:-1, 1:-1] + 0.2 * flow
    return result


def _scaled(block: Any, by: Any = WEIGHTS[:1], *, block_id: Any = None) -> Any:
    """It reaches an array, and asks where its chunk lies."""
    return np.exp(block) * by + (block_id[0] if block_id else 0)


PROGRAMS = {
    "elementwise": lambda x: (x * 2 + np.exp(x)) * WEIGHTS,
    "gelu": lambda x: 0.5 * x * (1 + np.tanh(x + 0.044715 * x**3)) + x,
    "sum": lambda x: (x * 2 + np.exp(x)).sum(axis=0) + 1,
    "mean": lambda x: (x * 2 + 1).mean(axis=1) * 2 - 1,
    "var": lambda x: (x * 2 + 1).var(axis=0, ddof=1),
    "standardise": lambda x: (x - x.mean(axis=0)) / x.std(axis=0),
    "argmax": lambda x: (x * 2 + 1).argmax(axis=1),
    "where": lambda x: da.where(x > 0.5, x * 2, -x),
    "clip": lambda x: (x + 1).clip(0, 1) * 3,
    "astype": lambda x: (x * 2 + 1).astype("float32"),
    "transpose": lambda x: (x[:50, :50] + x[:50, :50].T) * 2,
    "any": lambda x: ((x > 1) & (x < 2)).any(axis=0),
    "nansum": lambda x: da.nansum(da.where(x > 0, np.nan, x * 2), axis=0),
    "round": lambda x: da.round(x * 2 + 1, 2),
    "new axis": lambda x: (x + 1)[:, None, :] * 2 - 1,
    "ones": lambda x: da.ones(x.shape, chunks=x.chunks) * x + 1,
    "map_blocks": lambda x: da.map_blocks(lambda block: block + 1, x * 2 + 1) * 3 - 1,
    "block_info": lambda x: da.map_blocks(
        lambda block, block_info=None: block + block_info[0]["chunk-location"][0],
        x * 2 + 1, dtype="float64",
    ) * 2 + 1,
    "a fused function": lambda x: da.map_blocks(fuser.fuse(lambda b: np.exp(b) * 2), x + 1) * 3,
    "random numbers": lambda x: da.random.default_rng(3).random(x.shape, chunks=x.chunks) * x + 1,
    "cumsum": lambda x: (x * 2 + 1).cumsum(axis=0) * 2 + 1,
    "matmul": lambda x: (x * 2 + 1) @ (x.T * 2 + 1),
    "unknown lengths": lambda x: x[x > 0.5] * 2 + 1,
    "pad": lambda x: da.pad(x * 2 + 1, 1) * 2 + 1,
    "a delayed argument": lambda x: da.map_blocks(
        np.add, x * 2 + 1, dask.delayed(np.float64)(3.0), dtype="float64") * 2 + 1,
    "an array as a keyword": lambda x: da.map_blocks(
        np.average, x.rechunk((25, 50)) * 2 + 1, axis=1, weights=da.from_array(WEIGHTS, chunks=20),
        drop_axis=1, dtype="float64", meta=np.empty(0)) * 2 + 1,
    "median": lambda x: da.median(x * 2 + 1, axis=0),
    "masked": lambda x: da.ma.masked_greater(x * 2 + 1, 1.5) * 2 + 1,
    "overlap": lambda x: da.map_overlap(lambda b: b * 2 + 1, x + 1, depth=1) * 2 + 1,
    "a stencil of a user": lambda x: (x + 1).map_overlap(
        _heat, depth=1, boundary="none", dtype="float64", meta=np.empty((0, 0))) * 2 - 1,
    "functions of a user": lambda x: (x + 1).map_blocks(
        _scaled, dtype="float64", meta=np.empty((0, 0))).map_blocks(_scaled, by=2.0) * 2,
    "complex": lambda x: abs(x * 1j + 2 - x),
    "fused several times": lambda x: _black_scholes(abs(x) + 1, abs(x) + 2, abs(x) + 0.5),
    "softmax": lambda x: _softmax(x.rechunk((25, -1))),
    "softmax over chunks": lambda x: _softmax(x),
    "a value that several need": lambda x: _shared(np.exp(x), x.T),
    "a mean of it": lambda x: np.exp(x) * 2 - (np.exp(x) * 2).mean(axis=0),
    "a square matrix and its transpose": lambda x: _shared(x[:50, :50] * 2, x[:50, :50].T) * 2 - 1,
    "integers": lambda x: ((x * 100).astype("int16") * 3 + 1) // 7,
}  # fmt: skip


def launches() -> int:
    """How many kernels have been launched: those that native entries launched, too."""
    entries = [function._native for function in list(_all_functions) if function._native]
    return fuser.stats().get("launches", 0) + sum(entry.hits for entry in entries)


class Source:
    """An array that counts how often it is read."""

    def __init__(self, values: Any) -> None:
        self.values, self.reads = values, 0
        self.dtype, self.shape, self.ndim = values.dtype, values.shape, values.ndim

    def __getitem__(self, part: Any) -> Any:
        self.reads += 1
        return self.values[part]
