"""Extremes of floats in rows: NumPy's, wherever a NaN lies, in every form, on every processor."""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np
import pytest

import fuser
from fuser.backends.cpu.body import Features, Module
from fuser.backends.cpu.machine import loader
from fuser.backends.cpu.machine.target import KNOWN_TARGETS
from fuser.backends.cpu.reducing import accumulators
from fuser.backends.cpu.reducing.accumulators import Accumulator
from fuser.backends.cpu.schedule import Schedule
from fuser.backends.cpu.scheduling.schedules import emit_nest
from fuser.codegen import Instruction, LoopNest
from fuser.ir.specs import CONTIGUOUS, INVARIANT, STRIDED, TensorDesc
from tests.backends.cpu.schedules import batch, of_one_block

Array = np.ndarray[Any, np.dtype[Any]]
GENERATOR = np.random.default_rng(41)
SCHEDULES = {
    "one by one": lambda size: Schedule(),
    "batches": lambda size: batch(128 // size),
    "small batches": lambda size: batch(64 // size),
    "batches of one block": lambda size: of_one_block(batch(128 // size)),
    "one block": lambda size: of_one_block(Schedule()),
}


def _nest(dtype: str) -> LoopNest:
    """Both extremes of every row, and its sum."""
    load = TensorDesc(dtype, CONTIGUOUS, False, STRIDED)
    store = TensorDesc(dtype, INVARIANT, False, CONTIGUOUS)
    body = tuple(Instruction(op, (0,), dtype, dtype) for op in ("min", "sum", "max"))
    stores = tuple((number, store) for number in (1, 2, 3))
    return LoopNest(2, (load,), (), (), body, stores, False, "row", 1)


def _text(dtype: str, features: Features, name: str) -> tuple[str, Module]:
    module = Module(features)
    emit_nest(module, _nest(dtype), "k", SCHEDULES[name](np.dtype(dtype).itemsize))
    return module.text(), module


def _rows(length: int, dtype: str) -> Array:
    """Rows with NaN at every place in turn, at several, at all; infinities beside them."""
    plain = GENERATOR.normal(size=length)
    rows = [plain, np.full(length, np.nan), np.full(length, np.inf), np.full(length, -np.inf)]
    for place in range(length):
        row = plain.copy()
        row[place] = np.nan
        rows += [row, np.roll(plain, place)]
    mixed = plain.copy()
    mixed[[0, length // 2, length - 1]] = np.inf, np.nan, -np.inf
    return np.array([*rows, mixed]).astype(dtype)


@pytest.mark.parametrize("name", SCHEDULES)
@pytest.mark.parametrize("target", KNOWN_TARGETS)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_a_nan_at_any_place(dtype: str, target: str, name: str) -> None:
    """The kernel for each kind of processor, as this one runs it."""
    text, module = _text(dtype, KNOWN_TARGETS[target][2], name)
    library, (address,) = loader.load(loader.compile_object(text), ["k"], module.imports)
    function = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p, *[ctypes.c_int64] * 4)(address)
    assert library is not None
    for length in (1, 15, 64, 65, 131):
        x = _rows(length, dtype)
        found = [np.full(len(x), 7, dtype) for _ in range(3)]
        steps = [x.strides[0], x.itemsize, *[x.itemsize, 0] * 3]
        addresses = [x.ctypes.data, *(each.ctypes.data for each in found)]
        block = np.array([*addresses, *x.shape, *steps], np.int64)
        ends = (0, 1, 0, len(x)) if "batches" in name else (0, len(x), 0, 1)
        assert function(block.ctypes.data, *ends) == 0
        np.testing.assert_array_equal(found[0], x.min(-1))
        np.testing.assert_array_equal(found[2], x.max(-1))
        with np.errstate(invalid="ignore"):
            np.testing.assert_allclose(found[1], x.sum(-1), rtol=1e-4, atol=1e-4)


def test_what_a_vector_costs() -> None:
    """One comparison tells of a NaN in two vectors for both extremes; none with itself is left."""
    text, _ = _text("float32", KNOWN_TARGETS["avx512"][2], "one by one")
    notes = [line for line in text.splitlines() if "fcmp ord <16 x float>" in line]
    assert len(notes) == 2 * 4 // 2  # of a turn and of what is left over: four vectors each
    assert "fcmp uno" not in text


def test_who_notes() -> None:
    """The first extreme of the same values; not sums, places, integers or float16."""
    kinds = (
        ("max", "float32", 0), ("sum", "float32", 0), ("min", "float32", 0), ("min", "float32", 1),
        ("argmax", "float32", 0), ("max", "int32", 2), ("max", "float16", 3), ("max", "float64", 4),
    )  # fmt: skip
    running = [Accumulator(9, *kind) for kind in kinds]
    assert accumulators.noters(running) == [0, None, 0, 3, None, None, None, 7]


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_whole_functions(dtype: str) -> None:
    """Parts that are joined, rows in loops, extremes of computed values, what divides them."""

    def reduced(x: Any) -> Any:
        return np.min(x), np.max(x), np.max(np.abs(x)), np.sum(x)

    def by_rows(x: Any) -> Any:
        top = np.max(x, -1, keepdims=True)
        return np.exp(x - top), np.min(x - top, -1), np.max(x / 3.0, -1)

    for length in (1, 1000, 300_001):
        x = GENERATOR.normal(size=length).astype(dtype)
        for place in (None, 0, length // 2, length - 1):
            given = x.copy()
            if place is not None:
                given[place] = np.nan
            found = fuser.fuse(reduced, fallback="error")(given)
            for mine, theirs in zip(found[:3], reduced(given)[:3], strict=True):
                np.testing.assert_array_equal(mine, theirs)
    stack = GENERATOR.normal(size=(3, 40, 70)).astype(dtype)
    stack[1, 3, 69] = np.nan
    for array in (stack, stack[:, ::-1, ::2], stack[::-1]):
        np.testing.assert_array_equal(
            fuser.fuse(lambda x: np.max(x, (0, 2)), fallback="error")(array), np.max(array, (0, 2))
        )
        found = fuser.fuse(by_rows, fallback="error")(array)
        for mine, theirs in zip(found[1:], by_rows(array)[1:], strict=True):
            np.testing.assert_array_equal(mine, theirs)
