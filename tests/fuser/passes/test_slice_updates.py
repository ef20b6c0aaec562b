"""What is read of arrays that were written into: the values written, or what was there before."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import fuser
from tests.fuser.comparing import assert_same, compare
from tests.fuser.scheduling.plans import plan_of

RNG = np.random.default_rng(8)
#: Windows of two elements less than an axis has, and what lies beside them.
WINDOWS = slice(None, -2), slice(1, -1), slice(2, None)
PLACES = *WINDOWS, 0, 1, -1, -2, slice(None), slice(1, None), slice(None, -1)


def floats(*shape: int) -> Any:
    """Halves of small integers, so that sums are exact."""
    return RNG.integers(-8, 8, shape) * 0.5


def nests(function: Any, *args: Any) -> list[Any]:
    """The loop nests of a plan."""
    spec, _ = plan_of(function, *args)
    return [section for group in spec.plan.groups for section in group.sections]


def beside(x: Any) -> Any:
    """One column of an argument is written, another one is read."""
    x[1:-1, :, 1] = x[1:-1, :, 2] * 2
    return x[1:, :, 0] - x[:-1, :, 0]


def inner(x: Any) -> Any:
    """Differences of what was written, where all of it was."""
    a = np.zeros_like(x)
    a[:-1] = np.sqrt(x[1:]) - x[:-1]
    return a[2:-2] - a[1:-3]


def padded(x: Any) -> Any:
    """Differences over an edge of zeros."""
    a = np.zeros((x.shape[0], x.shape[1] + 2), x.dtype)
    a[:, 1:-1] = x
    return a[:, 2:] - a[:, :-2]


def twice(x: Any) -> Any:
    """One write over a part of another one; rows, single places, and new axes."""
    a = np.zeros_like(x)
    a[1:-1] = x[2:] + x[:-2]
    a[2:-2, 1:] = a[1:-3, 1:] - a[3:-1, 1:]
    a[-1] = a[-2]
    return a[1:, None, 0], a[1:-1, 1:-1], a[-1], a[0, 0], a[None, 2:-2]


def turned(x: Any) -> Any:
    """Read backwards, with steps, and through other views: these need the array."""
    a = np.zeros_like(x)
    a[1:-1, ::2] = x[1:-1, ::2]
    return a[::-1], a[1::2], a.T[1:], a[1:-1][1:-1], a[-2:], a[:3]


@pytest.mark.parametrize("function", [inner, padded, twice, turned])
@pytest.mark.parametrize("shape", [(9, 8), (6, 5), (7, 2)])
def test_results(function: Any, shape: tuple[int, int]) -> None:
    """NumPy's values, types and layout, whatever the array's is."""
    for x in (floats(*shape) ** 2, np.asfortranarray(floats(*shape) ** 2), floats(*shape)[::-1]):
        with np.errstate(invalid="ignore"):
            assert_same(function, x)


def test_reads_see_writes_and_what_lies_beside_them() -> None:
    """No element of an array is joined, or stored, that the result does not show."""
    x = floats(9, 8, 3)
    assert_same(beside, x)
    assert len(nests(inner, floats(9, 8))) == 1
    assert len(nests(padded, floats(9, 8))) == 2


def test_lengths_of_windows_have_one_spelling() -> None:
    """Windows of arguments of one length are computed by one loop nest."""
    def function(x: Any, y: Any, k: Any) -> Any:
        return x[2:-2] * 2 + y[1:-3], k[2:-2] + x[2:-2], (y[1:] - x[:-1])

    args = floats(9, 4), floats(9, 4), floats(9, 1)
    assert_same(function, *args)
    assert len({section.shape for section in nests(function, *args)}) == 2


Writes = Sequence[tuple[int, Any, int, Any, int]]
AXES = st.tuples(st.sampled_from(PLACES), st.sampled_from(PLACES))


@settings(max_examples=40, deadline=None)
@given(st.lists(st.tuples(
    st.integers(0, 2), AXES, st.integers(0, 2), AXES, st.integers(0, 2)), min_size=2, max_size=9,
))  # fmt: skip
def test_random_programs(writes: Writes) -> None:
    """Windows of several arrays written from windows of others, and of themselves."""
    def function(x: Any, y: Any) -> Any:
        arrays = [x, y, np.zeros_like(x)]
        for target, to, source, place, kind in writes:
            seen = arrays[source][place]
            if arrays[target][to].shape != seen.shape:
                seen = seen.ravel()[0] if kind else arrays[source][to]
            if kind == 2:
                arrays[target][to] += seen
            else:
                arrays[target][to] = seen * 0.5 - 1
        return arrays[2], arrays[0][1:] - arrays[1][:-1], arrays[1][WINDOWS[1]]

    fused = fuser.fuse(function, fallback="allow")
    for shape in ((5, 6), (4, 4), (6, 5)):
        assert compare(fused, floats(*shape), floats(*shape), fallback="allow") == ""


def strip(out: Any, flux: Any, x: Any, k: Any, axis: int) -> None:
    """Fluxes between neighbours along an axis, and what they change in one column."""
    x, change, here = (np.moveaxis(each, axis, 0) for each in (x, flux, k))
    change[:-1] = here[:-1] * (x[1:] - x[:-1])
    change[-1] = 0.0
    change[0] = change[0] * 0.5
    change[1:-1] += here[2:]
    tendency = np.moveaxis(out[..., axis], axis, 0)
    tendency[1:-1] = change[1:-1] - change[:-2]
    tendency[0] += change[0]
    tendency[-1] -= change[-2]


def spread(x: Any, k: Any, out: Any) -> Any:
    """Many writes into parts of several arrays, one after another."""
    flux = np.zeros_like(x)
    total = np.zeros_like(x)
    for axis in (0, 1, 2):
        flux[...] = 0.0
        strip(out, flux, x, k, axis)
        strip(out, flux, k, x, axis)
        total[1:-1, 1:-1] += flux[1:-1, 1:-1]
        total[:, :, 0] = flux[:, :, 0]
        total[:, :, -1] += total[:, :, -2]
    x[1:-1, 1:-1, 1:-1] += total[1:-1, 1:-1, 1:-1] + out[1:-1, 1:-1, 1:-1].sum(-1)
    return total


def test_a_program_of_many_writes_is_fused() -> None:
    """More than forty writes, by no line more than a few: that is no loop that was unrolled."""
    fused = fuser.fuse(spread, fallback="error")
    for shape in ((8, 9, 7), (10, 8, 9)):
        assert compare(fused, floats(*shape), floats(*shape), floats(*shape, 3)) == ""
