"""Few columns, some rows of which are taken as one: NumPy's results."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import fuser
from fuser.backends.cpu.scheduling import choose_reduction
from tests.backends.cpu.chosen_schedules import answers_of
from tests.backends.cpu.reducing.short_rows import Function, check


def _standardised(x: Any, gain: Any, bias: Any) -> Any:
    return (x - np.mean(x, 0)) / np.sqrt(np.var(x, 0) + 1e-5) * gain + bias


def _softmax(x: Any) -> Any:
    weights = np.exp(x - np.max(x, 0))
    return weights / np.sum(weights, 0)


def _several(x: Any, y: Any) -> Any:
    lowest = np.min(x, 0)
    return x * y - lowest, lowest, np.sum(x * y, 0), (x > 9).any(0), (y == y).all(0)


def _numbers(rows: int, columns: int, dtype: str = "float32", *, bad: bool = True) -> np.ndarray:
    """Numbers around one, some of which are special in all columns but the first."""
    values = np.random.default_rng(rows + columns).normal(size=(rows, columns)) * 3 + 1
    if bad and columns > 2:
        values[5::10001, 1], values[7::15011, 2], values[::97, -1] = np.nan, np.inf, -0.0
    return values.astype(dtype)


CASES: dict[str, Callable[[int, int], tuple[Function, tuple[Any, ...]]]] = {
    "centred": lambda n, c: (lambda x: x - np.mean(x, 0), (_numbers(n, c),)),
    "standardised": lambda n, c: (
        _standardised, (_numbers(n, c), _numbers(1, c)[0], _numbers(1, c)[0][::-1]),
    ),
    "doubles": lambda n, c: (
        _standardised,
        (_numbers(n, c, "float64"), _numbers(1, c, "float64")[0], _numbers(1, c, "float64")[0]),
    ),
    "softmax": lambda n, c: (_softmax, (_numbers(n, c),)),
    "several": lambda n, c: (_several, (_numbers(n, c), _numbers(n + 1, c)[1:])),
    "sums": lambda n, c: (
        lambda x: (np.sum(x, 0), np.prod(np.where(x > 12, np.float32(-2), np.float32(1)), 0)),
        (_numbers(n, c),),
    ),
    "integers": lambda n, c: (
        lambda x: (np.sum(x, 0), np.max(x, 0), x - np.min(x, 0)),
        (_numbers(n, c, "int16", bad=False),),
    ),
    "halves": lambda n, c: (lambda x: x - np.max(x, 0), (_numbers(n, c, "float16"),)),
    "outside": lambda n, c: (
        lambda x: x - np.mean(x, 1, keepdims=True),
        (_numbers(3 * n, c).reshape(3, n, c),),
    ),
}  # fmt: skip


@pytest.fixture
def groups(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Whether rows are flattened, call by call."""
    return answers_of(choose_reduction, "flattens_rows", monkeypatch)


@pytest.mark.parametrize(("rows", "columns"), [(65600, 2), (43751, 3), (18737, 7), (2657, 50)])
@pytest.mark.parametrize("name", CASES)
def test_results_are_those_of_numpy(
    name: str, rows: int, columns: int, groups: list[Any]
) -> None:
    """Groups and rows left over, of one part."""
    check(*CASES[name](rows, columns))
    assert any(groups)


@pytest.mark.parametrize("name", ["standardised", "softmax", "several", "sums"])
def test_parts_are_joined(name: str, groups: list[Any]) -> None:
    """Of many groups each, with rows left over in the last one."""
    check(*CASES[name](150_001, 3))
    assert any(groups)


def test_sums_err_no_more_than_numpys(groups: list[Any]) -> None:
    """Sums of columns of one sign, against those of doubles."""
    x = np.random.default_rng(3).random((300_007, 3)).astype("float32")
    exact = x.astype("float64").sum(0)
    mine = np.abs(fuser.fuse(lambda x: np.sum(x, 0), fallback="error")(x) - exact).max()
    assert mine <= np.abs(x.sum(0) - exact).max()
    assert any(groups)


def test_results_go_where_they_are_wanted(groups: list[Any]) -> None:
    """Over the argument, and at odd addresses; nothing beside is touched."""
    function = fuser.fuse(lambda x: x - np.mean(x, 0), fallback="error")
    x = _numbers(50_003, 3)
    expected = function(x)
    memory = np.full(x.nbytes + 64, 77, np.uint8)
    room = memory[28:][: x.nbytes].view("float32").reshape(x.shape)
    function(x, out=room)
    np.testing.assert_array_equal(room, expected)
    assert (memory[:28] == 77).all()
    assert (memory[28 + x.nbytes :] == 77).all()
    function(x, out=x)
    np.testing.assert_array_equal(x, expected)
    assert groups[-1]


def test_other_lengths_and_layouts_of_the_same_function(groups: list[Any]) -> None:
    """Columns that are too many, rows that are few or lie apart, weights of rows: other forms."""
    function = fuser.fuse(_softmax, fallback="error")
    apart = _numbers(50_000, 10, bad=False)
    shapes = [(1000, 3), (2000, 64), (900, 200), (5_000, 1)]
    given = [_numbers(*shape, bad=False) for shape in shapes]
    given += [apart[:, ::2], apart[:, :5], apart[::-1, :], np.asfortranarray(apart)]
    for x in given:
        np.testing.assert_allclose(function(x), _softmax(x.astype("float64")), rtol=1e-4, atol=1e-7)
    weighted = fuser.fuse(lambda x, w: x - np.max(x * w, 0), fallback="error")
    x, w = _numbers(50_000, 3, bad=False), _numbers(50_000, 1, bad=False)
    np.testing.assert_array_equal(weighted(x, w), x - np.max(x * w, 0))
    assert not any(groups)
