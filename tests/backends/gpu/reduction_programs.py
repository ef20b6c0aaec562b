"""Programs that reduce: every strategy, reduction row, dtype and layout that has its own text."""

from __future__ import annotations

from typing import Any

import numpy as np

from fuser import functional
from tests.backends.gpu.programs import Program, numbers
from tests.softmax import softmax


def _layer_norm(x: Any, gain: Any, bias: Any) -> Any:
    """Two reductions, one after the other, and operands that are the same for all rows."""
    centred = x - x.mean(axis=-1, keepdims=True)
    variance = (centred * centred).mean(axis=-1, keepdims=True)
    return centred / np.sqrt(variance + 1e-5) * gain + bias


def _column_norm(x: Any) -> Any:
    """The same down columns."""
    return (x - x.mean(axis=0)) / np.sqrt(x.var(axis=0) + 0.5)


def _several(x: Any) -> Any:
    """Several reductions in one pass."""
    return x.sum(axis=-1), x.max(axis=-1), x.argmax(axis=-1), x.min(axis=-1), x.argmin(axis=-1)


def _several_down(x: Any) -> Any:
    """The same along columns."""
    return x.sum(axis=0), x.max(axis=0), x.argmin(axis=0), x.prod(axis=0)


def _with_nan(values: Any) -> Any:
    """Some values are NaN, some equal."""
    values = np.round(values * 4) / 4
    values[1::3, 5] = np.nan
    values[2, 2:9] = np.nan
    return values


def _masked(values: Any) -> Any:
    """A part of nothing but -inf, and one value that stands out."""
    values[:, :15_000] = -np.inf
    values[:, -7] = 80
    return values


def _batch_norm(x: Any, weight: Any) -> Any:
    mean, variance = x.mean((0, 2, 3), keepdims=True), x.var((0, 2, 3), keepdims=True)
    return (x - mean) / np.sqrt(variance + 1e-5) * weight


_TABLE = numbers(37, 53)
_ROW = numbers(1, 20_011)
_TALL = numbers(5_003, 7)
_CUBE = numbers(6, 7, 9)

#: Rows of the H200's strategies: lanes, block, split; columns and split columns.
REDUCTIONS: dict[str, Program] = {
    "row-sums": (lambda x: x.sum(axis=1), (_TABLE,)),
    "short-rows": (lambda x: x.sum(axis=1), (numbers(701, 3),)),
    "long-rows": (lambda x: x.sum(axis=1), (numbers(5, 3001),)),
    "total": (lambda x: (x * x).sum(), (_ROW,)),
    "column-sums": (lambda x: x.sum(axis=0), (_TABLE,)),
    "tall-columns": (lambda x: (x.sum(axis=0), x.argmax(axis=0)), (_TALL,)),
    "softmax": (softmax, (_TABLE,)),
    "softmax-strided": (softmax, (_TABLE[:, ::2],)),
    "softmax-long": (softmax, (numbers(3, 4001, dtype="float64"),)),
    "softmax-one-row": (softmax, (_ROW,)),
    "softmax-half": (softmax, (numbers(9, 130, dtype="float16"),)),
    "softmax-held": (softmax, (numbers(37, 64),)),
    "softmax-held-block": (softmax, (numbers(5, 2000),)),
    "softmax-held-half": (softmax, (numbers(9, 136, dtype="float16"),)),
    "softmax-tail": (softmax, (numbers(3, 4400, dtype="float64"),)),
    "softmax-parts": (softmax, (numbers(1, 20_000),)),
    "softmax-parts-double": (softmax, (numbers(2, 10_000, dtype="float64") * 40,)),
    "softmax-parts-backwards": (softmax, (numbers(1, 20_000, dtype="float64")[:, ::-1],)),
    "softmax-parts-masked": (softmax, (_masked(numbers(1, 20_000)),)),
    "log-sum-exp-parts": (functional.logsumexp, (numbers(20_000),)),
    "layer-norm-parts": (_layer_norm, (numbers(2, 20_000), numbers(20_000), numbers(20_000))),
    "variance-parts": (lambda x: (x.var(axis=1), x.mean(axis=1)), (numbers(1, 40_000) + 50,)),
    "layer-norm-tail": (_layer_norm, (numbers(2, 16_640), numbers(16_640), numbers(16_640))),
    "softmax-columns": (lambda x: softmax(x.T).T, (_TABLE,)),
    "layer-norm": (_layer_norm, (_TABLE, numbers(53, seed=1), numbers(53, seed=2))),
    "layer-norm-aligned": (_layer_norm, (numbers(5, 512), numbers(512), numbers(512, seed=2))),
    "column-norm": (_column_norm, (_TABLE,)),
    "column-norm-tall": (_column_norm, (_TALL,)),
    "several": (_several, (_with_nan(_TABLE.copy()),)),
    "several-held": (_several, (_with_nan(numbers(7, 72)),)),
    "several-integers": (_several, (numbers(19, 70, dtype="int16") - 20,)),
    "several-down": (_several_down, (_with_nan(_TABLE.copy()),)),
    "first-place": (lambda x: x.argmax(), (np.floor(_ROW * 2),)),
    "products": (lambda x: x.prod(axis=1), (numbers(8, 9, dtype="uint8"),)),
    "truths": (lambda x: ((x > 1).any(axis=1), (x > 0.3).all(axis=1)), (_TABLE,)),
    "counted": (lambda x: np.count_nonzero(x > 1, axis=0), (_TABLE,)),
    "middle-axis": (lambda x: (x * 2).sum(axis=1), (_CUBE,)),
    "outer-axes": (lambda x: x.max(axis=(0, 1)), (_CUBE,)),
    "inner-axes": (lambda x: x.mean(axis=(1, 2)), (_CUBE,)),
    "kept-in-four": (lambda x, y: (x * y).sum(axis=-1), (numbers(2, 3, 4, 5), numbers(4, 1))),
    "backwards": (lambda x: x.argmin(axis=1), (_TABLE[:, ::-1],)),
    "stored-too": (lambda x: (x * 2, (x * 2).sum(axis=1)), (_TABLE,)),
    "weights-along-columns": (lambda x, w: (x * w[:, None]).sum(axis=0), (_TABLE, _TABLE[:, 0])),
    "places-in-rows": (lambda x: (x * np.arange(x.shape[1])).sum(axis=1), (_TABLE,)),
    "places-in-columns": (lambda x: (x * np.arange(x.shape[0])[:, None]).sum(axis=0), (_TABLE,)),
    "causal": (lambda x: softmax(np.where(np.tri(*x.shape), x, -1e9)), (numbers(40, 40),)),
    "softmax-odd": (softmax, (numbers(37, 67),)),
    "softmax-odd-block": (softmax, (numbers(5, 2003),)),
    "softmax-odd-tail": (softmax, (numbers(3, 4403, dtype="float64"),)),
    "softmax-odd-parts": (softmax, (numbers(1, 20_003)[:, 1:],)),
    "softmax-odd-half": (softmax, (numbers(9, 139, dtype="float16"),)),
    "softmax-odd-length": (softmax, (numbers(9, 132)[:, :130],)),
    "layer-norm-odd": (_layer_norm, (numbers(7, 129), numbers(130)[1:], numbers(129))),
    "variance-odd-parts": (lambda x: (x.var(axis=1), x.mean(axis=1)), (numbers(1, 40_001) + 50,)),
    "place-odd": (lambda x: (x.argmax(1), x.sum(1)), (np.floor(numbers(5, 403) * 2),)),
    "total-odd": (lambda x: (x * x).sum(), (numbers(40_004)[1:],)),
    "same-along-rows": (lambda x: np.broadcast_to(x[:, :1], x.shape).sum(1), (numbers(5, 64),)),
    "places-odd": (lambda x: (x * np.arange(x.shape[1])).sum(axis=1), (numbers(7, 131),)),
    "apart-rows": (lambda x: x.sum(axis=(0, 2, 3)), (numbers(4, 5, 6, 7),)),
    "apart-rows-held": (_batch_norm, (numbers(5, 3, 8, 12), numbers(3, 1, 1))),
    "apart-rows-block": (_batch_norm, (numbers(4, 3, 20, 31), numbers(3, 1, 1))),
    "apart-rows-split": (lambda x: x.max(axis=(0, 2)), (numbers(40, 2, 400, dtype="float64"),)),
    "apart-rows-turned": (lambda x, y: (x * y).sum(axis=(0, 2)),
                          (numbers(6, 3, 10), numbers(10, 3, 6).T)),
    "apart-rows-weighted": (lambda x, w: (x * w).sum(axis=(0, 2)), (numbers(4, 3, 9),
                                                                   numbers(4, 1, 1))),
    "apart-columns": (lambda x: (x * 2).mean(axis=(0, 2)), (numbers(4, 5, 6, 9),)),
    "apart-columns-stored": (lambda x: x - x.mean(axis=(0, 2), keepdims=True),
                             (numbers(4, 5, 6, 9),)),
    "apart-columns-split": (lambda x: x.sum(axis=(0, 2)), (numbers(30, 2, 30, 9),)),
    "apart-of-nothing": (lambda x: x.sum(axis=(0, 2)), (np.ones((0, 5, 3), "float32"),)),
    "of-nothing": (lambda x: (x.sum(axis=1), x.prod(axis=1)), (np.ones((5, 0), "float32"),)),
}  # fmt: skip
