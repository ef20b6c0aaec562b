"""Strided memory is packed right, whatever its strides, and nothing beyond it is read."""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np
import pytest

from fuser.backends.cpu import packing
from fuser.backends.cpu.machine import loader
from fuser.backends.cpu.machine.target import KNOWN_TARGETS, cross_machine
from tests.backends.cpu.test_emit import fenced_memory

Array = np.ndarray[Any, np.dtype[Any]]


def packed(source: Array) -> Array:
    """A matrix through the function for elements of its size."""
    address = loader.shared_address(packing.symbol(source.itemsize))
    assert address is not None
    integer, pointer = ctypes.c_int64, ctypes.c_void_p
    kind = ctypes.CFUNCTYPE(None, pointer, integer, pointer, *[integer] * 4)
    rows, columns = source.shape
    result = np.full((rows, columns + 1), 77, source.dtype)
    arguments = (source.ctypes.data, *source.strides, rows, columns)
    kind(address)(result.ctypes.data, result.strides[0], *arguments)
    assert (result[:, -1] == 77).all()
    return result[:, :-1]


@pytest.mark.parametrize("itemsize", packing.SIZES)
def test_every_layout_is_copied_as_it_is(itemsize: int) -> None:
    """Transposed, every other, backwards, any stride; fewer and more than whole blocks."""
    dtype = f"u{itemsize}"
    for rows, columns in (
        (1, 1), (3, 40), (7, 9), (8, 24), (13, 8), (16, 16), (17, 35), (41, 70), (64, 64), (33, 5),
    ):  # fmt: skip
        memory = np.arange(12 * rows * columns).astype(dtype).reshape(3 * rows, 4 * columns)
        square = np.arange(rows * columns).astype(dtype).reshape(columns, rows)
        views = (
            square.T, memory[:rows, : 2 * columns : 2], memory[:rows, columns - 1 :: -1],
            memory[::3, ::4], memory[::-3, ::-2][:, :columns],
        )  # fmt: skip
        for view in views:
            np.testing.assert_array_equal(packed(view), view)


@pytest.mark.skipif(not hasattr(ctypes.CDLL(None), "mprotect"), reason="needs mprotect")
@pytest.mark.parametrize("itemsize", packing.SIZES)
def test_the_last_gap_is_not_read(itemsize: int) -> None:
    """Every other element of memory that ends, or begins, beside a forbidden page."""
    with fenced_memory() as place:
        for length in range(1, 70):
            for at_end in (True, False):
                memory = place(2 * length - 1, f"u{itemsize}", at_end)
                memory[:] = np.arange(memory.size) % 100
                for view in (memory[::2], memory[::-1]):
                    np.testing.assert_array_equal(packed(view[np.newaxis]), view[np.newaxis])


@pytest.mark.skipif(not hasattr(ctypes.CDLL(None), "mprotect"), reason="needs mprotect")
@pytest.mark.parametrize("itemsize", packing.SIZES)
def test_turned_rows_are_read_to_their_end_only(itemsize: int) -> None:
    """Rows of a few elements in memory that ends, or begins, beside a forbidden page."""
    with fenced_memory() as place:
        for length in range(1, 20):
            for at_end in (True, False):
                memory = place(24 * length, f"u{itemsize}", at_end)
                memory[:] = np.arange(memory.size) % 100
                view = memory.reshape(24, length).T
                np.testing.assert_array_equal(packed(view), view)


def test_blocks_are_turned_in_registers() -> None:
    """For every processor the transposition is made of shuffles of whole vectors."""
    from fuser.backends.cpu.machine import loader

    for name, register in (("avx2", "ymm"), ("avx512", "zmm")):
        features = KNOWN_TARGETS[name][2]
        code = loader.assembly(packing.module_text(4, features), cross_machine(name))
        shuffles = [line for line in code.split("\n") if "perm" in line or "unpck" in line]
        assert sum(register in line for line in shuffles) >= 24, name
