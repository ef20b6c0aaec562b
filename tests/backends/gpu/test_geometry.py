"""Launch plans: grids, index widths, vector widths and division, none of which needs a device."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fuser.backends.gpu import geometry
from fuser.codegen import Instruction, LoopNest
from fuser.ir.specs import CONTIGUOUS, INVARIANT, STRIDED, TensorDesc

H200 = geometry.Occupancy(multiprocessors=132, blocks_each=8)


def nest(*dtypes: str, op: str = "positive", access: str = CONTIGUOUS, rank: int = 1) -> LoopNest:
    """A nest that loads all dtypes but the last, and stores the last."""
    loads = tuple(TensorDesc(dtype, access) for dtype in dtypes[:-1])
    body = (Instruction(op, (0,), dtypes[-1], dtypes[-1]),)
    return LoopNest(rank, loads, (), (), body, ((len(loads), TensorDesc(dtypes[-1], CONTIGUOUS)),))


@pytest.mark.parametrize(
    ("dtypes", "width"),
    [
        (("float32", "float32"), 4),
        (("float64", "float64"), 2),
        (("float16", "float16"), 8),
        (("uint8", "uint8"), 16),
        (("bool", "float64"), 4),  # 4-byte loads beside two 16-byte stores
        (("float16", "float32"), 4),
        (("float64", "float32"), 4),
    ],
    ids=str,
)
def test_vectors_move_sixteen_bytes(dtypes: tuple[str, ...], width: int) -> None:
    """The widest operand fills an access; narrow ones beside it are not moved singly."""
    assert geometry.vector_width(nest(*dtypes)) == width


def test_costly_bodies_take_fewer_lanes() -> None:
    """The body stands in the text once a lane, so much code means few lanes."""
    wide = nest("float32", "float32", op="exp")
    many = LoopNest(1, wide.loads, (), (), wide.body * 16, wide.stores)
    assert geometry.vector_width(wide) == 4
    assert geometry.vector_width(many) == 1
    assert geometry.unroll(wide) == 1


def test_a_thread_has_enough_bytes_under_way() -> None:
    """One operand: four vectors at a time; two: two; four: one."""
    assert geometry.unroll(nest("float32", "float32")) == 4
    assert geometry.unroll(nest("float32", "float32", "float32")) == 2
    assert geometry.unroll(nest(*["float32"] * 5)) == 1
    assert geometry.unroll(LoopNest(1, (), (), (("float32", 0),), (), ())) == 1


DIVISORS = [1, 2, 3, 5, 7, 10, 255, 256, 257, 641, 10**6, 2**30, 2**31 - 1]


def divided(number: int, divisor: int, bits: int) -> int:
    """What the kernel computes, in exact integers; the sum must fit the word."""
    _, magic, shift = geometry.divider(divisor, bits)
    assert 0 <= magic < 1 << bits
    assert 0 <= shift < bits
    total = ((number * magic) >> bits) + number
    assert total < 1 << bits
    return total >> shift


@pytest.mark.parametrize("bits", [32, 64])
@pytest.mark.parametrize("divisor", DIVISORS)
def test_division_is_exact_at_the_steps(divisor: int, bits: int) -> None:
    """Quotients change at multiples of the divisor, and nowhere else."""
    end = 1 << (bits - 1)
    times = [0, 1, 2, 3, end // divisor // 2, end // divisor - 1, end // divisor]
    for multiple in times:
        for number in (multiple * divisor - 1, multiple * divisor, multiple * divisor + 1):
            if 0 <= number < end:
                assert divided(number, divisor, bits) == number // divisor


@given(st.integers(0, 2**31 - 1), st.integers(1, 2**31 - 1))
def test_division_is_exact_in_32_bits(number: int, divisor: int) -> None:
    """For every dividend and divisor that narrow plans have."""
    assert divided(number, divisor, 32) == number // divisor


@given(st.integers(0, 2**63 - 1), st.integers(1, 2**63 - 1))
def test_division_is_exact_in_64_bits(number: int, divisor: int) -> None:
    """For every dividend and divisor that wide plans have."""
    assert divided(number, divisor, 64) == number // divisor


@pytest.mark.parametrize(
    ("lengths", "strides", "wide"),
    [
        ([2**31 - 1], [[1], [1]], True),  # the last access may reach 16 bytes further
        ([2**31 - 17], [[1], [1]], False),
        ([2**31], [[0], [1]], True),
        ([2**29], [[4], [4]], True),
        ([2**29 - 8], [[4], [4]], False),
        ([2**16, 2**16], [[0, 0], [2**16, 1]], True),
        ([2, 2], [[2**31, 4], [8, 4]], True),
        ([2, 2], [[-(2**31), 4], [8, 4]], True),
        ([1, 2], [[2**40, 4], [8, 4]], False),  # a stride that is never taken
        ([3], [[2**30], [4]], True),
    ],
)
def test_index_width(lengths: list[int], strides: list[list[int]], wide: bool) -> None:
    """64 bits where the number of elements or an offset needs them, and only there."""
    assert geometry.needs_wide(lengths, strides) is wide


def test_small_grids_cover_the_work_and_large_ones_are_bounded() -> None:
    """One vector a thread and step while that is few blocks; then threads loop."""
    plain = nest("float32", "float32")
    step = geometry.BLOCK * 4 * 4  # four elements, four vectors
    for length, grid in ((1, 1), (step, 1), (step + 1, 2), (100 * step, 100)):
        assert geometry.plan(plain, [length], [[4], [4]], H200).grid == grid
    most = 132 * 8 * geometry.WAVES
    for length in (2**31 - 64, 2**31, 2**40):
        plan = geometry.plan(plain, [length], [[4], [4]], H200)
        assert plan.grid == most
        assert plan.variant.wide


def test_words_are_what_the_structure_wants() -> None:
    """Work, length, dividers of columns and of inner rows, then strides that are data."""
    loads = (TensorDesc("float32", STRIDED), TensorDesc("float32", INVARIANT))
    store = TensorDesc("float32", CONTIGUOUS)
    body = (Instruction("add", (0, 1), "float32", "float32"),)
    made = LoopNest(3, loads, (), (), body, ((2, store),))
    plan = geometry.plan(made, [5, 6, 7], [[1, 2, 3], [10, 20, 0], [168, 28, 4]], H200)
    columns = 2  # seven elements in vectors of four
    expected = [5 * 6 * columns, 7, *geometry.divider(columns, 32), *geometry.divider(6, 32)]
    expected += [1, 2, 3, 10, 20, 168, 28]
    assert list(struct.unpack(f"={len(plan.words) // 8}q", plan.words)) == expected
