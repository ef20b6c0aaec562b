"""Rows of few elements, side by side: sums as exact as NumPy's, and its bits where they are few."""

from typing import Any

import numpy as np
import pytest

import fuser
from tests.backends.cpu.chosen_schedules import preferred
from tests.fuser.comparing import assert_same

SUMS: dict[str, Any] = {
    "sum": lambda x, y: x.sum(1),
    "mean": lambda x, y: x.mean(1),
    "dot": lambda x, y: (x * y).sum(1),
    "norm": lambda x, y: np.sqrt((x * x).sum(1)),
    "var": lambda x, y: x.var(1),
}
OTHERS: dict[str, Any] = {
    "sum of a costly body": lambda x, y: np.exp(x - 2).sum(1),
    "sum and maximum": lambda x, y: (x.sum(1), x.max(1)),
    "three sums": lambda x, y: (x.sum(1), (x * y).sum(1), (y * y).sum(1)),
    "sum and place": lambda x, y: (x.sum(1), np.argmax(x, 1)),
    "product": lambda x, y: (x / 8).prod(1),
    "total": lambda x, y: np.sqrt(((x - y) ** 2).sum(1)).sum(),
    "softmax": lambda x, y: np.exp(x - 2) / np.exp(x - 2).sum(1, keepdims=True),
}


def _rows(seed: int, length: int, dtype: str, step: int, count: int = 2000) -> list[np.ndarray]:
    generator = np.random.default_rng(seed)
    numbers = (generator.normal(size=(count, step * length)) + 0.5 for _ in range(2))
    return [each.astype(dtype)[:, ::step] for each in numbers]


@pytest.mark.parametrize("step", [1, 2])
@pytest.mark.parametrize("dtype", ["f4", "f8"])
def test_errors_are_those_of_numpy(dtype: str, step: int) -> None:
    """Over some thousand rows of known generators, all lengths from NumPy's first blocks on."""
    fused = {name: fuser.fuse(function, fallback="error") for name, function in SUMS.items()}
    for length in range(8, 41):
        squares = {name: np.zeros(2) for name in SUMS}
        for seed in range(6):
            x, y = _rows(seed, length, dtype, step)
            wide, products = x.astype(np.longdouble), (x * y).astype(np.longdouble)
            for name, function in SUMS.items():
                exact = products.sum(1) if name == "dot" else function(wide, y)
                found = (f(x, y) - exact for f in (fused[name], function))
                squares[name] += [np.sum(error**2, dtype=float) for error in found]
        for name, (ours, numpys) in squares.items():
            assert ours <= 1.05**2 * numpys, (name, length)


@pytest.mark.parametrize("dtype", ["f4", "f8"])
def test_sums_of_less_than_sixteen_elements_have_numpy_s_bits(dtype: str) -> None:
    """It adds these one after another, or one block of eight and the rest."""
    fused = fuser.fuse(SUMS["sum"], fallback="error")
    for length in range(1, 16):
        x, y = _rows(length, length, dtype, 1, 50)
        np.testing.assert_array_equal(fused(x, y), x.sum(1))


@pytest.mark.parametrize("dtype", ["f2", "f4", "f8", "i4"])
@pytest.mark.parametrize("name", [*SUMS, *OTHERS])
def test_rows_of_all_short_lengths(name: str, dtype: str) -> None:
    """Rows that are whole, reversed, strided, repeated and windows; NaN and infinities."""
    fused = fuser.fuse((SUMS | OTHERS)[name], fallback="error")
    generator = np.random.default_rng(3)
    for length in range(1, 34):
        x = generator.integers(-3, 10, size=(37, 2 * length)).astype(dtype)
        y = generator.integers(1, 4, size=(37, length)).astype(dtype)
        if dtype != "i4" and name != "total":
            x[3, length // 2], x[5, length // 3] = np.nan, np.inf
            x[7, 0], x[7, length - 1] = np.inf, -np.inf
        windows = np.lib.stride_tricks.sliding_window_view(x.ravel(), length)
        kinds = [x[:, :length], x[:, ::2], x[::-1, length - 1 :: -1]]
        repeated = np.broadcast_to(x[1, :length], (37, length))
        kinds += [windows[:74:2][:37], windows[36::-1], repeated]
        with np.errstate(all="ignore"):
            for rows in kinds:
                assert_same(fused, rows, y, ulp=64)


@pytest.mark.parametrize("name", [*SUMS, "sum of a costly body", "softmax", "three sums"])
@pytest.mark.parametrize("dtype", ["f4", "f8"])
def test_more_rows_are_added_in_the_same_order(
    name: str, dtype: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Some of many rows, which other forms compute where these lie together, have their bits."""
    chosen = preferred("deinterleaved", monkeypatch)
    fused = fuser.fuse((SUMS | OTHERS)[name], fallback="error")
    for length in (6, 7, 8):
        x, y = _rows(1, length, dtype, 1, 5000)
        whole, part = fused(x, y), fused(x[:40], y[:40])
        if not isinstance(whole, tuple):
            whole, part = (whole,), (part,)
        for one, other in zip(whole, part, strict=True):
            np.testing.assert_array_equal(one[:40], other)
    assert any(schedule is not None for schedule in chosen)
