"""Columns of two to eight elements, whose loop is written out: NumPy's results."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import fuser
from fuser.backends.cpu import tuning
from fuser.backends.cpu.scheduling import choose_reduction
from tests.backends.cpu.chosen_schedules import answers_of
from tests.backends.cpu.reducing.short_rows import Function, check, numbers


def _softmax(x: Any) -> Any:
    weights = np.exp(x - np.max(x, 1, keepdims=True))
    return weights / np.sum(weights, 1, keepdims=True)


def _several(x: Any, y: Any) -> Any:
    lowest = np.min(x, 1, keepdims=True)
    places = np.argmax(x, 1)
    return x * y - lowest, lowest[:, 0], places, np.var(x, 1), (x > 9).any(1), np.prod(y, 1)


def _image(batch: int, channels: int, pixels: int, dtype: str = "float32") -> np.ndarray:
    """Channels before pixels; some numbers are special."""
    bad = dtype.startswith("float") and dtype != "float16"
    return numbers(batch * channels, pixels, dtype, bad=bad).reshape(batch, channels, pixels)


CASES: dict[str, Callable[[int, int, int], tuple[Function, tuple[Any, ...]]]] = {
    "softmax": lambda *shape: (_softmax, (_image(*shape),)),
    "doubles": lambda *shape: (_softmax, (_image(*shape, "float64"),)),
    "halves": lambda *shape: (lambda x: x - np.max(x, 1)[:, None], (_image(*shape, "float16"),)),
    "several": lambda *shape: (_several, (_image(*shape), _image(*shape[::-1]).reshape(shape))),
    "sums": lambda *shape: (lambda x: (np.sum(x, 1), np.mean(x, 1)), (_image(*shape),)),
    "integers": lambda *shape: (
        lambda x: (np.sum(x, 1), np.max(x, 1), np.argmin(x, 1)), (_image(*shape, "int16"),),
    ),
    "a number a channel": lambda b, c, n: (
        lambda x, gain: np.sum(x * gain, 1), (_image(b, c, n), numbers(c, 1)),
    ),
    "every second pixel": lambda b, c, n: (
        lambda x: x - np.mean(x, 1, keepdims=True), (_image(b, c, 2 * n)[:, :, ::2],),
    ),
    "channels backwards": lambda *shape: (_softmax, (_image(*shape)[:, ::-1],)),
}  # fmt: skip


@pytest.fixture
def chosen(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """What the form answered, call by call."""
    return answers_of(choose_reduction, "choose_unrolled_columns", monkeypatch)


@pytest.mark.parametrize("shape", [(1, 2, 4001), (3, 3, 2049), (7, 5, 1031), (40, 8, 67)])
@pytest.mark.parametrize("name", CASES)
def test_results_are_those_of_numpy(
    name: str, shape: tuple[int, int, int], chosen: list[Any]
) -> None:
    """Whole vectors of columns and what is left over, one and several outside."""
    check(*CASES[name](*shape))
    assert any(schedule is not None for schedule in chosen)


def test_the_bits_are_those_of_other_forms(monkeypatch: pytest.MonkeyPatch) -> None:
    """Wherever the form ends: elements are added in the same order."""
    x = _image(3, 4, 1031)
    written = fuser.fuse(_softmax, fallback="error")(x)
    monkeypatch.setattr(tuning, "UNROLLED_COLUMN_ELEMENTS", 1 << 60)
    fuser.clear_caches()
    np.testing.assert_array_equal(fuser.fuse(lambda x: _softmax(x), fallback="error")(x), written)


def test_results_go_over_the_argument(chosen: list[Any]) -> None:
    """Each element is read before it is written."""
    function = fuser.fuse(_softmax, fallback="error")
    x = _image(3, 4, 1031)
    expected = function(x)
    function(x, out=x)
    np.testing.assert_array_equal(x, expected)
    assert chosen[-1] is not None


def test_other_lengths_of_the_same_function(chosen: list[Any]) -> None:
    """One channel, many, few pixels, and none."""
    function = fuser.fuse(_softmax, fallback="error")
    for shape in [(9, 1, 3000), (2, 9, 3000), (200, 3, 60), (3, 3, 100), (0, 3, 3000), (4, 3, 0)]:
        x = np.random.default_rng(5).normal(size=shape).astype("float32")
        np.testing.assert_allclose(function(x), _softmax(x), rtol=1e-5, atol=1e-7)
    assert all(schedule is None for schedule in chosen)
