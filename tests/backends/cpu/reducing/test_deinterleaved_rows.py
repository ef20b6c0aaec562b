"""Rows of two to eight elements, each place of which has a vector of its own: NumPy's results."""

from typing import Any

import numpy as np
import pytest

import fuser
from fuser.backends.cpu import tuning
from tests.backends.cpu.chosen_schedules import preferred
from tests.backends.cpu.reducing.short_rows import cases, check, numbers, softmax


@pytest.fixture
def chosen(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """What the form answered, call by call."""
    return preferred("deinterleaved", monkeypatch)


@pytest.mark.parametrize("length", tuning.UNROLLED_LENGTHS)
@pytest.mark.parametrize("name", cases(1, 6))
def test_results_are_those_of_numpy(name: str, length: int, chosen: list[Any]) -> None:
    """Whole vectors and what is left over; the same bits on one thread and on three."""
    check(*cases(12_343, length)[name])
    assert len(chosen) > 0
    dense = name not in ("results beside", "gaps between rows", "rows backwards")
    assert (chosen[-1] is not None) == dense


REDUCTIONS = {
    "sum": lambda x: np.sum(x, -1),
    "mean": lambda x: np.mean(x, -1),
    "variance": lambda x: np.var(x, -1, ddof=1),
    "extremes": lambda x: (np.max(x, -1), np.min(x, -1)),
    "places": lambda x: (np.argmax(x, -1), np.argmin(x, -1)),
    "truths": lambda x: ((x > 4).any(-1), (x == x).all(-1)),
    "norm": lambda x: np.sqrt(np.sum(x * x, -1)),
    "counts": lambda x: np.count_nonzero(x > 0, axis=-1),
}


@pytest.mark.parametrize("length", [2, 3, 4, 5, 8])
@pytest.mark.parametrize("dtype", ["float32", "float64", "int16", "int64"])
@pytest.mark.parametrize("name", REDUCTIONS)
def test_one_result_a_row(name: str, dtype: str, length: int, chosen: list[Any]) -> None:
    """No element is stored; NaN, infinities and signed zeros among them."""
    check(REDUCTIONS[name], (numbers(7013, length, dtype),))
    assert chosen[-1] is not None


@pytest.mark.parametrize("length", [2, 3, 7])
def test_the_bits_are_those_of_other_forms(length: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Wherever the form ends: elements are added in the same order."""
    x = numbers(4099, length)
    laced = fuser.fuse(softmax, fallback="error")(x)
    monkeypatch.setattr(tuning, "MANY_ROWS_ELEMENTS", 1 << 60)
    fuser.clear_caches()
    np.testing.assert_array_equal(fuser.fuse(lambda x: softmax(x), fallback="error")(x), laced)


@pytest.mark.parametrize("offset", [0, 1, 4, 28])
def test_results_go_where_they_are_wanted(offset: int, chosen: list[Any]) -> None:
    """Over the argument, and at odd addresses; nothing beside is touched."""
    function = fuser.fuse(softmax, fallback="error")
    x = numbers(3001, 3)
    expected = function(x)
    memory = np.full(x.nbytes + 64, 77, np.uint8)
    room = memory[offset:][: x.nbytes].view("float32").reshape(x.shape)
    function(x, out=room)
    np.testing.assert_array_equal(room, expected)
    assert (memory[:offset] == 77).all()
    assert (memory[offset + x.nbytes :] == 77).all()
    function(x, out=x)
    np.testing.assert_array_equal(x, expected)
    assert chosen[-1] is not None


def test_other_lengths_and_layouts_of_the_same_function(chosen: list[Any]) -> None:
    """Rows that are too few, too long or lie apart take other forms."""
    function = fuser.fuse(softmax, fallback="error")
    apart = numbers(9000, 20, bad=False)
    given = [numbers(*shape, bad=False) for shape in [(63, 3), (4000, 17), (1, 3), (0, 3), (9, 2)]]
    given += [apart[:, ::5], np.asfortranarray(apart[:, :3]), apart[:, 4::-1], apart[:, :3]]
    for x in given:
        np.testing.assert_allclose(function(x), softmax(x), rtol=1e-5, atol=1e-7)
    assert all(schedule is None for schedule in chosen)
