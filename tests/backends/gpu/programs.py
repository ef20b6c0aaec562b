"""Programs whose kernels meet every form of text: layouts, dtypes, several outputs and loops."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from fuser import functional

Program = tuple[Callable[..., Any], tuple[Any, ...]]


def numbers(*shape: int, dtype: str = "float32", seed: int = 0) -> Any:
    """Ordinary values; integers small, so that powers stay readable."""
    random = np.random.default_rng(seed)
    if np.dtype(dtype).kind == "f":
        return random.uniform(0.25, 2.0, shape).astype(dtype)
    return random.integers(1, 50, shape).astype(dtype)


def _laplacian(x: Any) -> Any:
    """Five points."""
    return x[1:-1, :-2] + x[1:-1, 2:] + x[:-2, 1:-1] + x[2:, 1:-1] - 4 * x[1:-1, 1:-1]


def _black_scholes(price: Any, strike: Any, years: Any) -> Any:
    """Costly operations, two outputs."""
    spread = 0.3 * np.sqrt(years)
    first = (np.log(price / strike) + 0.065 * years) / spread
    second = first - spread
    discounted = strike * np.exp(-0.02 * years)
    return np.tanh(first) * price - np.tanh(second) * discounted, discounted


_LONG = numbers(5003)
_TABLE = numbers(37, 53)
_CUBE = numbers(6, 7, 9)
_PLACES = np.random.default_rng(3).integers(-5003, 5003, 3000)

PROGRAMS: dict[str, Program] = {
    "axpy": (lambda x, y: 2.5 * x + y, (_LONG, _LONG[::-1].copy())),
    "one-element": (lambda x, y: x * y + 1, (_LONG[:1], _LONG[1:2])),
    "zero-dimensional": (lambda x, y: x * y + 1, (np.float32(3), _LONG[5:6].reshape(()))),
    "misaligned-by-elements": (lambda x: x[1:] - x[:-1], (_LONG,)),
    "strided": (lambda x, y: x * y, (_LONG[::2], _LONG[::-2])),
    "repeated": (lambda x: x + 1, (np.broadcast_to(_LONG[:1], (100,)),)),
    "row": (lambda x, y: x + y, (_TABLE, _TABLE[0])),
    "column": (lambda x, y: np.exp(y) * x, (_TABLE, _TABLE[:, :1])),
    "aligned-rows": (lambda x, y: x - y, (numbers(9, 64), numbers(64))),
    "transposed-operand": (lambda x, y: x * y, (_TABLE, numbers(53, 37).T)),
    "transposed-all": (lambda x, y: x * y, (_TABLE.T, numbers(37, 53).T)),
    "cropped": (lambda x: np.sqrt(x), (_TABLE[3:-2, 5:-3],)),
    "flipped": (lambda x, y: x - y, (_TABLE[::-1, ::-1], _TABLE)),
    "laplacian": (_laplacian, (_TABLE,)),
    "three-axes": (lambda x, y: x * y + 1, (_CUBE, _CUBE[:, :1])),
    "three-axes-permuted": (lambda x, y: x + y, (_CUBE, numbers(9, 6, 7).transpose(1, 2, 0))),
    "gathered": (lambda x, i: x[i] * 2 + x[i // 2], (_LONG, _PLACES)),
    "gathered-strided": (lambda x, i: x[::-3][i // 3], (_LONG, _PLACES[::2])),
    "gathered-rows": (lambda x, i: x[i % 37] + 1, (_TABLE, _PLACES)),
    "gathered-twice": (lambda x, i, j: x.T[i % 53, j % 37] > 1, (_TABLE, _PLACES, _PLACES)),
    "gathered-halves": (lambda x, i: x.astype("float16")[i] * 2, (_LONG, _PLACES)),
    "gathered-sums": (lambda x, i: x[i.reshape(30, -1)].max(axis=1), (_LONG, _PLACES)),
    "gathered-along": (
        lambda x, i: np.take_along_axis(x, i[:370].reshape(37, 10) % 53, axis=1), (_TABLE, _PLACES)
    ),
    "four-axes": (lambda x, y: x - y, (numbers(2, 3, 4, 5), numbers(2, 1, 4, 1))),
    "several-loops": (lambda x, y: (x + 1, y * 2, x[:5] * y[:5]), (_LONG, _TABLE[:, 0])),
    "joined": (lambda x, y: np.concatenate([x * 2, y + 1]), (_LONG, _LONG[:77])),
    "half": (lambda x, y: (x * y + x) / 3, tuple(numbers(1003, dtype="float16", seed=k)
                                                 for k in (1, 2))),
    "half-to-double": (lambda x: x.astype("float64") * 0.1, (numbers(1003, dtype="float16"),)),
    "bytes": (lambda x, y: (x & y, x > y, x // y), tuple(numbers(1003, dtype="uint8", seed=k)
                                                         for k in (1, 2))),
    "mixed": (lambda x, y: np.where(x > 20, y, -y), (numbers(999, dtype="int8"),
                                                     numbers(999, dtype="float64"))),
    "power": (lambda x, y: x**y, (numbers(99, dtype="int32"), numbers(99, dtype="int32") % 5)),
    "booleans": (lambda x, y: ~(x | y) ^ x, (_LONG > 1, _LONG < 1.5)),
    "black-scholes": (_black_scholes, (_LONG, numbers(5003, seed=1), numbers(5003, seed=2))),
    "dropout": (lambda x, y: functional.dropout(x * 2 + y, 0.25, seed=9), (_TABLE, _TABLE[0])),
    "random-doubles": (lambda x: functional.rand_like(x, seed=5, offset=2**33),
                       (numbers(9, 64, dtype="float64").T,)),
    "places": (lambda x: x * np.arange(x.shape[1]) + np.arange(x.shape[0])[:, None], (_TABLE,)),
    "places-backwards": (lambda x: (x[:, ::2] + np.arange(x.shape[1])[::-2]).T, (_TABLE,)),
    "places-checked": (lambda x: 2 ** (x.shape[0] - 1 - np.arange(x.shape[0])) + x,
                       (numbers(45, dtype="int64"),)),
    "tiles": (lambda x, y, z: x + y.T * z[:, ::2] - np.exp(z[0, 0]), (
        numbers(70, 45), numbers(45, 70), numbers(70, 90, dtype="float64"))),
    "tiles-of-batches": (lambda x, y: (x + y.transpose(3, 0, 1, 2), y.transpose(3, 0, 1, 2) > x), (
        numbers(33, 2, 3, 20), numbers(2, 3, 20, 33))),
    "nothing-read": (lambda x: np.zeros_like(x) + 3, (_LONG,)),
}  # fmt: skip
