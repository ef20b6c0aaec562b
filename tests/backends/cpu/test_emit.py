"""Loop nests as text: vectors of the processor's width, and no access beyond an array."""

from __future__ import annotations

import ctypes
import mmap
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest

import fuser
from fuser.backends.cpu.body import Features
from fuser.backends.cpu.emit import emit
from fuser.backends.cpu.machine import loader
from fuser.backends.cpu.machine.target import KNOWN_TARGETS, cross_machine
from fuser.backends.cpu.section import lanes_of
from fuser.base.errors import Unsupported
from fuser.ir.graph import Graph
from fuser.ir.graph_text import parse
from tests.backends.cpu.table_modules import flat_nests

Array = np.ndarray[Any, np.dtype[Any]]

#: From nothing to more than two vectors of the widest kind.
LENGTHS = (*range(1, 20), 31, 32, 33, 63, 64, 65, 127, 128, 129, 255, 257)


def graph_of(operation: str, dtype: str, result: str = "") -> Graph:
    """`operation` on two arrays."""
    parameters = f"x0: {dtype}[n0], x1: {dtype}[n0]"
    row = f"%0 = {operation} x0 x1 : {result or dtype}[n0]"
    return parse(f"graph({parameters}):\n{row}\nreturn %0")


@pytest.mark.parametrize("name", KNOWN_TARGETS)
@pytest.mark.parametrize(("dtype", "scalar"), [("float32", "float"), ("float64", "double")])
def test_bodies_are_whole_vectors(name: str, dtype: str, scalar: str) -> None:
    """Two native vectors a turn for a light body."""
    features = KNOWN_TARGETS[name][2]
    lanes = 2 * features.vector_bytes // np.dtype(dtype).itemsize
    text = emit(flat_nests(graph_of("add", dtype)), "k", features)
    assert f"fadd <{lanes} x {scalar}>" in text


@pytest.mark.parametrize(("dtype", "lanes"), [("float32", "4s"), ("float64", "2d")])
def test_elementary_functions_are_vectors_on_aarch64(dtype: str, lanes: str) -> None:
    """Multiplied and added in whole registers; nothing is called."""
    graph = parse(f"graph(x0: {dtype}[n0]):\n%0 = exp x0 : {dtype}[n0]\nreturn %0")
    text = emit(flat_nests(graph), "k", KNOWN_TARGETS["neon"][2])
    code = loader.assembly(text, cross_machine("neon"))
    assert code.count("fmla\tv") > 8
    assert f".{lanes}" in code
    assert "\tbl\t" not in code


def test_wide_and_narrow_elements_share_the_lanes_of_the_wide() -> None:
    """A body's vectors all have as many elements as its widest type allows."""
    features = Features(vector_bytes=32)
    narrow, wide = (flat_nests(graph_of("add", name))[0] for name in ("int8", "float64"))
    assert lanes_of(wide, features) < lanes_of(narrow, features)


def test_half_is_computed_in_float() -> None:
    """float16 is converted by instructions where there are some, else by integer arithmetic."""
    (nest,) = flat_nests(graph_of("multiply", "float16"))
    hard = emit([nest], "k", Features(f16c=True))
    soft = emit([nest], "k", Features())
    assert "half" in hard
    assert "half" not in soft
    assert "fmul <" in soft


def test_kernels_have_no_addresses() -> None:
    """The text speaks of the argument block and of nothing else in the process."""
    text = emit(flat_nests(graph_of("power", "float32")), "k", Features())
    assert "inttoptr" not in text


def test_an_operation_without_a_spelling_is_unsupported() -> None:
    """It becomes a fallback's reason."""
    (nest,) = flat_nests(graph_of("subtract", "int32"))
    (instruction,) = nest.body
    changed = type(instruction)("subtract", instruction.operands, "bool", "bool")
    broken = type(nest)(1, nest.loads, (), (), (changed,), nest.stores)
    with pytest.raises(Unsupported, match="subtract"):
        emit([broken], "k", Features())


# -- memory ---------------------------------------------------------------------------------


@contextmanager
def fenced_memory() -> Iterator[Callable[[int, str, bool], Array]]:
    """A few pages of memory between two that must not be touched.

    Yields:
        A function that lays an array of a given length and dtype out at the end of these pages
        (True) or at their start.
    """
    page = mmap.PAGESIZE
    room = 4 * page
    block = mmap.mmap(-1, room + 2 * page)
    whole = np.frombuffer(block, np.uint8)
    first = whole.__array_interface__["data"][0]
    protect = ctypes.CDLL(None).mprotect
    protect.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)
    fences = (first, first + page + room)

    def array(length: int, dtype: str, at_end: bool) -> Array:
        size = length * np.dtype(dtype).itemsize
        assert size <= room
        start = page + room - size if at_end else page
        return whole[start : start + size].view(dtype)

    for fence in fences:
        assert protect(fence, page, 0) == 0
    try:
        yield array
    finally:
        for fence in fences:
            protect(fence, page, mmap.PROT_READ | mmap.PROT_WRITE)


@pytest.mark.skipif(not hasattr(ctypes.CDLL(None), "mprotect"), reason="needs mprotect")
@pytest.mark.parametrize("step", [1, -1, 3])
@pytest.mark.parametrize("dtype", ["uint8", "float16", "float32", "float64"])
def test_nothing_beyond_an_array_is_read_or_written(dtype: str, step: int) -> None:
    """Operands and results that touch forbidden pages, of every length and in every layout."""
    add = fuser.fuse(lambda x, y: x + y, fallback="error")
    with fenced_memory() as left, fenced_memory() as right, fenced_memory() as result:
        for length in LENGTHS:
            for at_end in (True, False):
                span = (length - 1) * abs(step) + 1
                operands = [place(span, dtype, at_end)[::step] for place in (left, right)]
                out = result(length, dtype, at_end)
                operands[0][:] = np.arange(length) % 50
                operands[1][:] = 3
                out[:] = 0
                add(*operands, out=out)
                np.testing.assert_array_equal(out, np.arange(length) % 50 + 3)


@pytest.mark.parametrize("dtype", ["uint8", "float16", "float64"])
def test_strided_results_leave_their_gaps_alone(dtype: str) -> None:
    """Only every third element of the result's memory is written."""
    add = fuser.fuse(lambda x, y: x + y, fallback="error")
    for length in LENGTHS:
        memory = np.full(3 * length + 5, 99, dtype)
        values = (np.arange(length) % 50).astype(dtype)
        add(values, values, out=memory[2 : 2 + 3 * length : 3])
        wanted = np.full(3 * length + 5, 99, dtype)
        wanted[2 : 2 + 3 * length : 3] = values + values
        np.testing.assert_array_equal(memory, wanted)
