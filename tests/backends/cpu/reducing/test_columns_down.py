"""Two and three columns beside an operand that has one element for all of them."""

from typing import Any

import numpy as np
import pytest

from fuser.backends.cpu.scheduling import choose_reduction
from tests.backends.cpu.chosen_schedules import answers_of
from tests.backends.cpu.reducing.short_rows import Function, check, numbers


def _weighted(x: Any, weight: Any) -> Any:
    return np.sum(x * weight[:, None], 0)


def _of_some(x: Any, group: Any) -> Any:
    mine = (group == 3)[:, None]
    members = np.sum(mine, 0)
    return np.sum(np.where(mine, x, 0), 0) / members, members, np.max(x * mine, 0), mine.any(0)


def _around(x: Any, weight: Any) -> Any:
    off = (x - np.mean(x, 0)) * weight[:, None]
    return off, np.sum(off * off, 0)


def _numbers(rows: int, columns: int, dtype: str, *, special: bool) -> np.ndarray:
    values = numbers(rows, columns, dtype=dtype, bad=False)
    if special:
        values[7, 0], values[9, 1], values[::97] = np.nan, np.inf, -0.0
    return values


@pytest.mark.parametrize("rows", [4099, 17011])
@pytest.mark.parametrize("columns", [2, 3])
@pytest.mark.parametrize("dtype", ["float64", "float32", "int32"])
@pytest.mark.parametrize("function", [_weighted, _of_some, _around])
def test_results_are_those_of_numpy(
    function: Function, dtype: str, columns: int, rows: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Arrays that are dense, every other row of others, and run backwards; NaN and infinities."""
    down = answers_of(choose_reduction, "runs_down", monkeypatch)
    beside = np.random.default_rng(rows).integers(0, 6, 2 * rows)
    for special in {False, dtype != "int32"}:
        x = _numbers(rows, columns, dtype, special=special)
        for one in (beside[:rows], beside[::2], beside[rows - 1 :: -1]):
            one = one if function is _of_some else one.astype(dtype)
            check(function, (x, one))
            check(function, (x[::-1], one))
    assert any(down)


def test_many_columns_and_long_ones_are_run_side_by_side(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is read again has to stay in the cache, and vectors have a form for three at most."""
    down = answers_of(choose_reduction, "runs_down", monkeypatch)
    for shape in ((20_001, 4), (200_001, 2), (5, 2)):
        x = np.ones(shape)
        check(_weighted, (x, np.ones(len(x))))
    assert down
    assert not any(down)
