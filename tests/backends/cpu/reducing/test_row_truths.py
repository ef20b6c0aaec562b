"""Truths in rows: rows that end early, and sums that count, are NumPy's."""

from typing import Any

import numpy as np
import pytest

import fuser
from fuser.backends.cpu.body import Module
from fuser.backends.cpu.machine.target import KNOWN_TARGETS
from fuser.backends.cpu.scheduling.schedules import emit_nest
from fuser.base.records import changed
from fuser.codegen import Instruction, LoopNest
from fuser.ir.specs import CONTIGUOUS, INVARIANT, STRIDED, TensorDesc

GENERATOR = np.random.default_rng(37)
ROWS = TensorDesc("float64", CONTIGUOUS, False, STRIDED)


def _truths(**other: bool) -> str:
    """The text of a nest that asks of each row whether any number is negative."""
    module = Module(KNOWN_TARGETS["avx512"][2])
    body = (
        Instruction("signbit", (0,), "bool", "float64"),
        Instruction("max", (1,), "bool", "bool"),
    )
    row = TensorDesc("bool", INVARIANT, False, CONTIGUOUS)
    nest = LoopNest(2, (ROWS,), (), (), body, ((2, row),), False, "row", 1)
    emit_nest(module, changed(nest, **other), "k")
    return module.text()


def test_a_row_of_truths_ends_where_more_change_nothing() -> None:
    """Not where floating-point exceptions of all elements are wanted."""
    assert "@llvm.vector.reduce.or.v32i1(<32 x i1>" in _truths()
    assert "@llvm.vector.reduce.or" not in _truths(checked=True)


def _ends(x: Any, axis: int | None) -> Any:
    truths = x > 0.5
    return (
        np.any(truths, axis=axis), np.all(truths, axis=axis), truths.min(axis=axis),
        np.all(x == x, axis=axis), np.argmax(truths, axis=axis), np.argmin(truths, axis=axis),
    )  # fmt: skip


@pytest.mark.parametrize("axis", [None, -1, 0])
def test_truths_are_numpys(axis: int | None) -> None:
    """Rare, frequent and missing truths, alone and several in one pass, in several layouts."""
    parts = [
        (fuser.fuse(lambda x, place=place: _ends(x, axis)[place], fallback="error"), place)
        for place in range(6)
    ]
    whole = fuser.fuse(lambda x: _ends(x, axis), fallback="error")
    for columns in (1, 31, 33, 64, 65, 257, 70_000):
        for share in (0.0, 1 / columns, 0.5, 1 - 1 / columns, 1.0):
            x = (GENERATOR.random((3, columns)) < share).astype(np.float64)
            x[GENERATOR.random(x.shape) < 0.1 / columns] = np.nan
            for each in (x, x[:, ::-1], np.asfortranarray(x)):
                expected = _ends(each, axis)
                for one, found in zip(expected, whole(each), strict=True):
                    np.testing.assert_array_equal(found, one, strict=True)
                for function, place in parts:
                    np.testing.assert_array_equal(function(each), expected[place], strict=True)


def _counts(x: Any, axis: int | None) -> Any:
    truths = x > 0
    return (
        np.count_nonzero(x, axis=axis), truths.sum(axis, dtype="int32") * 2,
        x.max(axis, initial=0),
        (x - 0.5 * truths.sum(-1, keepdims=True)).max(axis, initial=-9.0),
    )  # fmt: skip


@pytest.mark.parametrize("axis", [None, -1, 0])
@pytest.mark.parametrize("dtype", ["bool", "uint8", "float32", "float64"])
def test_counts_are_numpys(dtype: str, axis: int | None) -> None:
    """Whole vectors, what is left over, nothing and parts of rows, beside other reductions."""
    fused = fuser.fuse(lambda x: _counts(x, axis), fallback="error")
    count = fuser.fuse(lambda x: np.count_nonzero(x, axis=axis), fallback="error")
    for shape in ((0, 3), (1, 1), (3, 31), (5, 33), (4, 65), (9, 257), (2, 300_001), (600, 300)):
        x = GENERATOR.integers(0, 3, shape).astype(dtype)
        for each in (x, x[:, ::-1], np.asfortranarray(x)):
            for found, expected in zip(fused(each), _counts(each, axis), strict=True):
                np.testing.assert_array_equal(found, expected)
                assert found.dtype == expected.dtype
            np.testing.assert_array_equal(count(each), np.count_nonzero(each, axis=axis))


@pytest.mark.parametrize("target", KNOWN_TARGETS)
def test_truths_are_counted_in_one_number(target: str) -> None:
    """One count of bits a vector, no lane for each element."""
    module = Module(KNOWN_TARGETS[target][2])
    load = TensorDesc("uint8", CONTIGUOUS, False, STRIDED)
    store = TensorDesc("int64", INVARIANT, False, CONTIGUOUS)
    body = (
        Instruction("cast", (0,), "bool", "uint8"),
        Instruction("cast", (1,), "int64", "bool"),
        Instruction("sum", (2,), "int64", "int64"),
    )
    emit_nest(module, LoopNest(2, (load,), (), (), body, ((3, store),), False, "row", 1), "k")
    (text,) = module.functions
    assert text.count("@llvm.ctpop.") == 2  # of whole vectors, and of what is left over
    assert "add <" not in text
