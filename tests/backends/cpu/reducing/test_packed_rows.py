"""Short rows that are read several times, packed as columns: NumPy's results."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import fuser
from fuser.backends.cpu import tuning
from fuser.backends.cpu.reducing import packed_rows
from fuser.backends.cpu.reducing.packed_columns import schedule_of
from fuser.backends.cpu.schedule import DEFAULT, Schedule
from fuser.backends.cpu.scheduling import choose_reduction
from tests.backends.cpu.chosen_schedules import answers_of
from tests.backends.cpu.reducing.short_rows import check, numbers
from tests.backends.cpu.schedules import packed

Function = Callable[..., Any]
PLAIN, CHAINED = Schedule(accumulate="plain"), Schedule(accumulate="chained")


def _distance(x: Any, y: Any) -> Any:
    difference = x[:, None] - y[None]
    return np.sqrt(np.sum(difference * difference, axis=-1))


def _products(x: Any, y: Any) -> Any:
    return np.sum(x[:, None] * y[None], axis=-1)


LEFT, RIGHT = numbers(67, 37), numbers(131, 37)
CASES: dict[str, tuple[Function, tuple[np.ndarray, ...]]] = {
    "distances": (_distance, (LEFT, RIGHT)),
    "doubles": (_distance, (LEFT.astype("float64"), RIGHT.astype("float64"))),
    "halves": (
        lambda x, y: np.sum(np.abs(x[:, None] - y[None]), axis=-1),
        (numbers(67, 37, dtype="float16", bad=False), numbers(131, 37, dtype="float16")),
    ),
    "bytes": (_products, (numbers(67, 37, dtype="int8"), numbers(131, 37, dtype="int8"))),
    "mixed": (_products, (LEFT, RIGHT.astype("float64"))),
    "truth": (lambda x, y: (x[:, None] > y[None]).any(-1), (LEFT, RIGHT)),
    "two results": (
        lambda x, y: (np.sum(x[:, None] * y[None], -1), np.max(x[:, None] + y[None], -1)),
        (LEFT, RIGHT),
    ),
    "four loops": (lambda x, y: np.sum(x[:, :, None] * y, -1), (numbers(9, 7, 37), RIGHT)),
    "backwards": (_products, (LEFT[:, ::-1], numbers(131, 74)[::-1, ::2])),
    "one for a column": (
        lambda x, y, gain, bias: np.sum((x[:, None] - y[None]) * gain[:, None], -1) + bias,
        (LEFT, RIGHT, numbers(131), numbers(131)),
    ),
    "counted": (
        lambda x, y: np.max(x[:, None] * y[None] + np.arange(x.shape[1]), -1), (LEFT, RIGHT),
    ),
    "variances": (lambda x: (np.mean(x, -1), np.var(x, -1)), (numbers(12_703, 11),)),
    "short rows": (_distance, (numbers(307, 3), numbers(301, 3))),
    "few columns": (_distance, (numbers(3011, 9), numbers(10, 9))),
    "brief doubles, backwards": (
        _distance,
        (numbers(307, 11, dtype="float64")[:, ::-1], numbers(301, 11, dtype="float64")),
    ),
    "brief and heavy": (
        lambda x, y: np.sum(np.exp(-np.abs(x[:, None] - y[None])), axis=-1),
        (numbers(307, 15, bad=False), numbers(301, 15, bad=False)),
    ),
    "brief, two results": (
        lambda x, y: (np.sum(x[:, None] * y[None], -1), np.max(x[:, None] + y[None], -1)),
        (numbers(307, 13), numbers(301, 13)),
    ),
    "few short doubles": (
        _distance, (numbers(9007, 3, dtype="float64"), numbers(5, 3, dtype="float64")),
    ),
    "few truths": (
        lambda x, y: (x[:, None] > y[None]).any(-1), (numbers(901, 31), numbers(7, 31)),
    ),
    "half as many": (_products, (numbers(401, 41), numbers(33, 41))),
    "long rows": (_products, (numbers(17, 256, bad=False), numbers(65, 256, bad=False))),
}  # fmt: skip

SCHEDULES = {
    "short rows": packed(64, PLAIN), "few columns": packed(8, CHAINED),
    "few short doubles": packed(4, PLAIN), "few truths": packed(4, DEFAULT),
    "half as many": packed(32, DEFAULT), "brief doubles, backwards": packed(64, CHAINED),
    "variances": packed(64, CHAINED), "brief and heavy": packed(64, CHAINED),
    "brief, two results": packed(64, CHAINED),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_results_are_those_of_numpy(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Several dtypes and ways to lie in memory; the same bits on one thread and on three."""
    plain, arguments = CASES[name]
    monkeypatch.setattr(tuning, "MANY_ROWS_ELEMENTS", 1 << 60)
    chosen = answers_of(choose_reduction, "choose_packed_rows", monkeypatch)
    check(plain, arguments, 2e-6, 2e-3)
    wanted = SCHEDULES.get(name, packed(64, DEFAULT))
    assert wanted in chosen


def test_other_lengths_of_the_same_function_are_right() -> None:
    """Few and many pairs, short and long rows, in turn: each takes its own form."""
    function = fuser.fuse(_distance, fallback="error")
    for rows, columns, length in [
        (64, 64, 40), (64, 64, 8), (3, 700, 70), (20, 63, 300), (20, 300, 300), (16, 64, 129),
        (300, 300, 1), (0, 70, 5), (70, 70, 0), (64, 64, 41),
    ]:  # fmt: skip
        x, y = numbers(rows, length, bad=False), numbers(columns, length, bad=False)
        for _ in range(2):
            np.testing.assert_allclose(function(x, y), _distance(x, y), rtol=2e-6)


def test_rows_that_move_with_outer_loops_are_not_packed() -> None:
    """A batch has its own rows in each turn; packing would repay nothing."""
    function = fuser.fuse(lambda x, y: np.sum(x[:, None] * y, -1), fallback="error")
    x, y = numbers(20, 40), numbers(20, 300, 40)
    with np.errstate(all="ignore"):
        expected = np.sum(x[:, None].astype("float64") * y, -1)
    np.testing.assert_allclose(function(x, y), expected, rtol=2e-6, atol=2e-3)


@pytest.mark.parametrize(("rows", "columns", "length"), [
    (16, 64, 130), (17, 65, 120), (19, 97, 75), (50, 95, 31), (301, 303, 3), (130, 257, 7),
    (17, 63, 127), (5001, 4, 8), (4003, 5, 7), (703, 15, 13), (1201, 16, 7), (171, 31, 48),
])  # fmt: skip
def test_groups_and_vectors_that_are_not_whole(rows: int, columns: int, length: int) -> None:
    """The last group repeats an outer iteration, the last vector some columns: the same bits."""
    function = fuser.fuse(_distance, fallback="error")
    x, y = numbers(rows, length, bad=False), numbers(columns, length, bad=False)
    found = function(x, y)
    np.testing.assert_allclose(found, _distance(x, y), rtol=2e-6)
    wide = function(np.vstack([x, x, x]), np.vstack([y, y, y]))
    np.testing.assert_array_equal(found, wide[rows : 2 * rows, 2 * columns :])


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("offset", [0, 4, 16, 48, 60])
def test_results_that_are_sent_past_the_caches_are_the_same(
    dtype: str, offset: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Wherever rows begin in a line of the cache, and where each begins elsewhere."""
    function = fuser.fuse(lambda x, y: (_distance(x, y), _products(x, y) > 0.5), fallback="error")
    x, y = (numbers(n, 9, dtype=dtype, bad=False) for n in (170, 208))
    expected, above = function(x, y)
    monkeypatch.setattr(packed_rows, "stream_bytes", lambda: 0)
    alone = fuser.fuse(_distance, fallback="error")
    for row in (208, 224, 211):
        memory = np.full(170 * row * 8 + 128, 77, np.uint8)
        begin = -memory.ctypes.data % 64 + offset
        room = memory[begin:][: 170 * row * x.itemsize].view(dtype).reshape(170, row)
        if offset % x.itemsize == 0:
            alone(x, y, out=room[:, :208])
            np.testing.assert_array_equal(room[:, :208], expected)
            assert (room[:, 208:].copy().view(np.uint8) == 77).all()
            assert (memory[:begin] == 77).all()
    both = fuser.fuse(lambda x, y: (_distance(x, y), _products(x, y) > 0.5), fallback="error")
    for found, wanted in zip(both(x, y), (expected, above), strict=True):
        np.testing.assert_array_equal(found, wanted)


@pytest.mark.parametrize("centres", [3, 4, 7, 8, 10, 16, 20, 63, 64, 65])
def test_nearest_centres_by_turns(centres: int) -> None:
    """Distances to few and many centres, some rows of which are made and read at a time."""

    def nearest(points: Any, centres: Any) -> Any:
        distance = np.sum((points[:, None] - centres[None]) ** 2, -1)
        return np.argmin(distance, -1), np.min(distance, -1)

    # Whole numbers, so that distances are exact and ties are ties.
    points, middles = (np.round(numbers(n, 3, bad=False)) for n in (40_009, centres))
    points[::1013] = np.nan
    found = fuser.fuse(nearest, fallback="error")(points, middles)
    for mine, numpys in zip(found, nearest(points, middles), strict=True):
        np.testing.assert_array_equal(mine, numpys)


def test_schedules_follow_from_lengths() -> None:
    """Vectors of as many columns as there are; the order of sums is one for rows of a length."""
    for columns, reduced, schedule in [
        (5, 3, packed(4, PLAIN)), (63, 9, packed(32, CHAINED)), (64, 15, packed(64, CHAINED)),
        (64, 16, packed(64, DEFAULT)), (99, 7, packed(64, PLAIN)),
    ]:  # fmt: skip
        assert schedule_of(columns, reduced) == schedule


def _clipped(x: Any, y: Any) -> Any:
    """Many operations, each exact."""
    found = np.abs(x[:, None] - y)
    for limit in range(1, 9):
        found = np.maximum(np.minimum(found, 1 - limit / 64), limit / 64)
    return found


TERMS: dict[str, Function] = {
    "squares": lambda x, y: (x[:, None] - y) ** 2,
    "sizes": lambda x, y: np.abs(x[:, None] - y),
    "products": lambda x, y: x[:, None] * y,
    "many operations": _clipped,
}


@pytest.mark.parametrize("name", TERMS)
def test_sums_of_any_length_are_as_accurate_as_numpys(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One by one, by blocks of several lengths, with and without chains: over many sums."""
    monkeypatch.setattr(tuning, "PACKED_ELEMENTS", 1)
    terms, generator = TERMS[name], np.random.default_rng(5)

    def total(x: Any, y: Any) -> Any:
        return np.sum(terms(x, y), -1)

    function = fuser.fuse(total, fallback="error")
    for length in (*range(2, 18), 24, 31, 32, 33, 48, 63, 64, 65, 72, 100, 128, 200):
        x, y = (generator.random((n, length), "float32") for n in (40, 400))
        each = terms(x, y).astype("float64")
        if name == "squares":
            each = np.square((x[:, None] - y).astype("float64"))
        exact = each.sum(-1)
        errors = [np.sqrt(np.mean(np.square(f(x, y) / exact - 1))) for f in (function, total)]
        assert errors[0] <= 1.01 * errors[1], length


@pytest.mark.parametrize("coordinates", [37, 64])
def test_squared_distances_are_at_least_as_accurate_as_numpys(coordinates: int) -> None:
    """Squares are added with one rounding; what overflows is what overflows in NumPy."""
    x, y = (numbers(n, coordinates, bad=False) for n in (150, 170))
    fused = fuser.fuse(lambda x, y: np.sum((x[:, None] - y) ** 2, -1), fallback="error")
    exact = np.square((x[:, None] - y).astype("float64")).sum(-1)
    numpys = np.sum((x[:, None] - y) ** 2, -1)
    assert np.square(fused(x, y) - exact).sum() <= np.square(numpys - exact).sum()
    x[3, 1], x[4] = 1e30, np.sqrt(np.finfo("float32").max / coordinates / 4)
    with np.errstate(over="ignore"):
        np.testing.assert_allclose(fused(x, y), np.sum((x[:, None] - y) ** 2, -1), rtol=1e-5)
