"""Squares of lanes: each row's lanes are joined, in the row's own place, for every vector size."""

from __future__ import annotations

import ctypes
import math
from functools import cache
from typing import Any

import numpy as np
import pytest

from fuser.backends.cpu import conversion
from fuser.backends.cpu.body import Body, Module, vector_type
from fuser.backends.cpu.machine.loader import load_forever
from fuser.backends.cpu.machine.target import host_features
from fuser.backends.cpu.reducing import lane_transpose
from fuser.backends.cpu.reducing.accumulators import Accumulator, with_error

Array = np.ndarray[Any, np.dtype[Any]]
GENERATOR = np.random.default_rng(31)


@cache
def address(dtype: str, count: int, op: str) -> int:
    """Machine code that joins all lanes of each row of a square."""
    b, accumulator = Body(Module(host_features())), Accumulator(0, op, dtype, 0)
    memory, row_bytes = conversion.MEMORY[dtype], count * np.dtype(dtype).itemsize
    kind = vector_type(memory, count)
    rows = []
    for row in range(count):
        at = b.value(f"getelementptr i8, ptr %from, i64 {row * row_bytes}", "ptr", 1).text
        rows.append(b.value(f"load {kind}, ptr {at}, align 1", memory, count))
    parts = lane_transpose.join(b, accumulator, rows)
    value = parts[0] if len(parts) == 1 else with_error(b, *parts)
    b.line(f"store {value.typed}, ptr %to, align 1")
    lines = "\n".join([*b.lines, "  ret void"])
    head = "define void @join(ptr %to, ptr %from) #0"
    b.module.functions.append(f"{head} {{\nentry:\n{lines}\n}}")
    return load_forever(b.module.text(), ("join",))["join"]


def joined(rows: Array, op: str) -> Array:
    """All lanes of each row of a square."""
    result = np.empty(len(rows), rows.dtype)
    function = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p)
    function(address(rows.dtype.name, len(rows), op))(result.ctypes.data, rows.ctypes.data)
    return result


@pytest.mark.parametrize("dtype", ["int8", "int16", "int32", "int64", "float32", "float64"])
@pytest.mark.parametrize("count", [1, 2, 4, 8, 16])
def test_every_row_has_its_own_lane(dtype: str, count: int) -> None:
    """Sums and extremes of squares of all sizes that registers hold."""
    rows = GENERATOR.integers(-100, 100, (count, count)).astype(dtype)
    assert np.array_equal(joined(rows, "sum"), rows.sum(1, dtype=dtype))
    assert np.array_equal(joined(rows, "max"), rows.max(1))
    assert np.array_equal(joined(rows, "min"), rows.min(1))


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_last_additions_keep_their_errors(dtype: str) -> None:
    """Four lanes are added as if exactly, and rounded once; infinities and NaN stay in rows."""
    sizes = 10.0 ** GENERATOR.integers(-3, 4, (100, 4, 4))
    for square in (GENERATOR.normal(size=sizes.shape) * sizes).astype(dtype):
        exact = np.array([math.fsum(row.tolist()) for row in square])
        last = np.spacing(np.abs(square).max(1)) * 4 * np.finfo(dtype).eps
        most = np.spacing(np.abs(exact).astype(dtype)) + last
        assert (np.abs(joined(square, "sum") - exact) <= most).all()
    square = np.ones((4, 4), dtype)
    square[1, 2], square[2, 0], square[3, :2] = np.inf, np.nan, (np.inf, -np.inf)
    with np.errstate(invalid="ignore"):
        np.testing.assert_array_equal(joined(square, "sum"), square.sum(1))
