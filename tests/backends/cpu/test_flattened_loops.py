"""Innermost loops too short for a vector: several rows at a time, with NumPy's results."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import fuser
from fuser.backends.cpu.schedule import Schedule
from fuser.backends.cpu.scheduling import choose
from tests.backends.cpu.chosen_schedules import answers_of
from tests.settings import settings

ROWS = 1031
GENERATOR = np.random.default_rng(8)


def _numbers(*shape: int, dtype: str = "float32") -> np.ndarray:
    values = GENERATOR.normal(size=shape) * 20
    values.flat[:: 97] = -0.0
    if dtype.startswith("float"):
        values.flat[5::101] = np.nan
    return values.astype(dtype)


def _gain(x: np.ndarray, gain: np.ndarray) -> np.ndarray:
    return x * gain + 3


CASES: dict[str, tuple[Callable[..., Any], tuple[np.ndarray, ...]]] = {
    "a row for all": (_gain, (_numbers(ROWS, 3), _numbers(3))),
    "doubles": (_gain, (_numbers(ROWS, 5, dtype="float64"), _numbers(5, dtype="float64"))),
    "halves": (_gain, (_numbers(ROWS, 3, dtype="float16"), _numbers(3, dtype="float16"))),
    "bytes": (_gain, (_numbers(ROWS, 4, dtype="int8"), _numbers(4, dtype="int8"))),
    "truth": (np.where, (_numbers(ROWS, 3) > 0, _numbers(ROWS, 1), _numbers(3))),
    "a number a row": (_gain, (_numbers(ROWS, 3), _numbers(ROWS, 1))),
    "backwards": (lambda x: x[:, ::-1] * 2 - x, (_numbers(ROWS, 3),)),
    "part of a row": (lambda x: x[:, 1:3] / 7, (_numbers(ROWS, 4),)),
    "every other": (lambda x, y: x[:, ::2] + y, (_numbers(ROWS, 9), _numbers(5))),
    "three loops": (
        lambda x, y, z: x * y + z, (_numbers(7, 307, 3), _numbers(307, 1), _numbers(7, 1, 3)),
    ),
    "a matrix a point": (
        lambda x, y, z: x * y[:, None] - z,
        (_numbers(ROWS, 4, 5), _numbers(ROWS, 5), _numbers(4, 1)),
    ),
    "groups": (
        lambda x, mean, gain: (x - mean[:, None, :, None]) * gain,
        (_numbers(5, 67, 4, 6), _numbers(5, 4), _numbers(4, 6)),
    ),
    "groups backwards": (
        lambda x, mean: x[:, ::-1, :, ::-1] / mean[::-1, None, :, None],
        (_numbers(5, 67, 4, 6), _numbers(5, 4)),
    ),
    "a cut": (lambda x, y: x[:, 1:, :-1] - y, (_numbers(5, 200, 4), _numbers(3))),
    "two results": (lambda x, y: (x + y, x * y), (_numbers(ROWS, 3), _numbers(3))),
    "mixed": (_gain, (_numbers(ROWS, 3), _numbers(3, dtype="float64"))),
    "slow lanes": (lambda x, y: np.sin(x * y), (_numbers(ROWS, 3) * 1e9, _numbers(3))),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_results_are_those_of_numpy(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Broadcast, reversed and cut operands of several dtypes, on one thread and on three."""
    plain, arguments = CASES[name]
    chosen = answers_of(choose, "choose_flattened_loops", monkeypatch)
    with np.errstate(all="ignore"):
        expected = plain(*arguments)
    function = fuser.fuse(plain, fallback="error")
    for threads in (1, 3):
        with settings(num_threads=threads):
            for _ in range(3):  # the slow path, then the native one
                found = function(*arguments)
        pairs = zip(found, expected, strict=True) if name == "two results" else [(found, expected)]
        for mine, theirs in pairs:
            assert mine.dtype == theirs.dtype
            if name == "slow lanes":
                np.testing.assert_allclose(mine, theirs, rtol=3e-7)
            else:
                np.testing.assert_array_equal(mine, theirs)
    deep = ("a matrix a point", "groups", "groups backwards")
    wanted = Schedule(flattened=2 if name in deep else 1)
    assert wanted in chosen


def test_given_results_may_be_the_operand_or_have_gaps() -> None:
    """In place, and into rows that are no neighbours, which is done row by row."""
    x, gain = _numbers(ROWS, 3), _numbers(3)
    expected = _gain(x, gain)
    function = fuser.fuse(_gain, fallback="error")
    wide = np.zeros((ROWS, 4), np.float32)
    function(x, gain, out=wide[:, :3])
    np.testing.assert_array_equal(wide[:, :3], expected)
    assert not wide[:, 3].any()
    function(x, gain, out=x)
    np.testing.assert_array_equal(x, expected)


def test_other_lengths_of_the_same_function_are_right() -> None:
    """Short and long rows, few and many, in turn: each takes its own form."""
    function = fuser.fuse(_gain, fallback="error")
    for shape in [(900, 3), (3, 900), (50, 37), (900, 32), (900, 31), (1, 3), (0, 3), (2000, 2)]:
        x, gain = _numbers(*shape), _numbers(shape[1])
        for _ in range(2):
            np.testing.assert_array_equal(function(x, gain), _gain(x, gain))


def test_rows_of_two_loops_and_of_one_are_told_apart() -> None:
    """Results with gaps between matrices, matrices larger than a tile, few of them."""
    function = fuser.fuse(lambda x, y: x * y + 1, fallback="error")
    for shape in [(200, 6, 5), (3, 300, 5), (1, 4, 600), (2, 2, 3), (700, 1, 3), (700, 3, 1)]:
        x, y = _numbers(*shape), _numbers(shape[0], 1, shape[2])
        wide = np.full((shape[0], shape[1] + 1, shape[2]), 7, np.float32)
        for _ in range(2):
            np.testing.assert_array_equal(function(x, y), x * y + 1)
            function(x, y, out=wide[:, :-1])
            np.testing.assert_array_equal(wide[:, :-1], x * y + 1)
        assert (wide[:, -1] == 7).all()


def test_zero_divisors_are_noticed() -> None:
    """The status of the body is passed on."""
    function = fuser.fuse(lambda x, y: x // y, errstate=True, fallback="allow")
    x, y = _numbers(ROWS, 3, dtype="int32"), np.array([1, 0, 2], np.int32)
    with pytest.warns(RuntimeWarning, match="divide by zero"):
        function(x, y)
