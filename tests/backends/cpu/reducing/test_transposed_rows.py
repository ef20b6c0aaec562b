"""Short rows that become rows, turned into columns and back: NumPy's results."""

from typing import Any

import numpy as np
import pytest

import fuser
from fuser.backends.cpu import tuning
from fuser.backends.cpu.scheduling import choose_reduction
from tests.backends.cpu.chosen_schedules import answers_of
from tests.backends.cpu.reducing.short_rows import cases, check, numbers, softmax


@pytest.fixture
def chosen(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """What the form answered, call by call."""
    monkeypatch.setattr(tuning, "UNROLLED_ELEMENTS", 1 << 60)
    return answers_of(choose_reduction, "choose_transposed_rows", monkeypatch)


@pytest.mark.parametrize("length", [6, 7, 8, 13, 16])
@pytest.mark.parametrize("name", cases(1, 6))
def test_results_are_those_of_numpy(
    name: str, length: int, chosen: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whole tiles, vectors and what is left over; the same bits on one thread and on three."""
    monkeypatch.setattr(tuning, "UNROLLED_COLUMN_ELEMENTS", 1 << 60)
    check(*cases(6151, length)[name])
    assert any(schedule is not None for schedule in chosen)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_the_bits_are_those_of_other_forms(dtype: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Wherever the form ends: columns are summed in the same order."""
    x = numbers(4099, 10, dtype)
    turned = fuser.fuse(softmax, fallback="error")(x)
    monkeypatch.setattr(tuning, "TRANSPOSED_ELEMENTS", 1 << 60)
    fuser.clear_caches()
    np.testing.assert_array_equal(fuser.fuse(lambda x: softmax(x), fallback="error")(x), turned)


@pytest.mark.parametrize("offset", [0, 1, 4, 28])
def test_results_go_where_they_are_wanted(offset: int, chosen: list[Any]) -> None:
    """Over the argument, between other rows, at odd addresses; nothing beside is touched."""
    function = fuser.fuse(softmax, fallback="error")
    x = numbers(3001, 9)
    expected = function(x)
    memory = np.full(3001 * 12 * 4 + 64, 77, np.uint8)
    room = memory[offset:][: 3001 * 12 * 4].view("float32").reshape(3001, 12)
    function(x, out=room[:, 2:11])
    np.testing.assert_array_equal(room[:, 2:11], expected)
    for beside in (room[:, :2], room[:, 11:]):
        assert (beside.copy().view(np.uint8) == 77).all()
    function(x, out=x)
    np.testing.assert_array_equal(x, expected)
    assert chosen[-1] is not None


def test_other_lengths_and_layouts_of_the_same_function(chosen: list[Any]) -> None:
    """Rows that are too few, too short, too long or lie apart take other forms."""
    function = fuser.fuse(softmax, fallback="error")
    for rows, length in [(63, 10), (900, 5), (4000, 17), (1, 10), (0, 10), (5000, 9), (400, 16)]:
        x = numbers(rows, length, bad=False)
        np.testing.assert_allclose(function(x), softmax(x), rtol=1e-5, atol=1e-7)
    chosen.clear()
    apart = numbers(9000, 20, bad=False)
    for x in (apart[:, ::2], np.asfortranarray(apart[:, :10]), apart[:, 9::-1]):
        np.testing.assert_allclose(function(x), softmax(x), rtol=1e-5, atol=1e-7)
    assert all(schedule is None for schedule in chosen)
