"""Short calls: filled in place, whatever came before and whoever calls."""

import gc
import sys
from typing import Any

import numpy as np
import pytest

import fuser
from tests.threads import on_threads


def test_a_scratch_is_filled_anew_by_every_call() -> None:
    """Lengths, numbers and addresses of one call leave nothing for the next; long calls neither."""
    function = fuser.fuse(lambda a, k, b: a * k + b)
    rows = [np.linspace(-1, n, n) for n in (1, 7, 3000, 2, 300_000, 64, 0, 5)]
    for k in (2.5, -1.0, 0.5):
        for a in rows:
            assert np.array_equal(function(a, k, a), a * k + a)
    assert function._native.hits >= 12


def test_words_that_are_offsets_survive() -> None:
    """Parts of arrays start behind their beginning: by a number, or by a length."""
    differences = fuser.fuse(lambda x: x[1:] * 2 - x[:-1])
    below = fuser.fuse(lambda x: x[1] - x[0])
    for n in (5, 9, 4, 700):
        x = np.linspace(0, 1, 2 * n).reshape(2, n) ** 2
        for _ in range(3):
            assert np.array_equal(differences(x[0]), x[0][1:] * 2 - x[0][:-1])
            assert np.array_equal(below(x), x[1] - x[0])
    assert differences._native.hits
    assert below._native.hits


def test_a_call_from_within_the_same_call_is_right() -> None:
    """Allocating a tuple may collect garbage, and a finalizer may call the function again."""
    function = fuser.fuse(lambda a, b: (a + b, a - b))
    x = np.arange(5.0)
    seen: list[Any] = []

    class Caller:
        """Calls when it is collected."""

        def __del__(self) -> None:
            """Call with other lengths."""
            y = np.arange(3.0)
            seen.append(all(map(np.array_equal, function(y, y), (y + y, y - y))))

    for _ in range(3):
        function(x, x)
    before = gc.get_threshold()
    gc.set_threshold(1)
    try:
        for _ in range(50):
            loop: list[Any] = [Caller()]
            loop.append(loop)
            del loop
            total, nothing = function(x, x)
            assert np.array_equal(total, x + x)
            assert not nothing.any()
    finally:
        gc.set_threshold(*before)
    gc.collect()
    assert seen == [True] * 50


def test_threads_do_not_meet_in_a_scratch() -> None:
    """Many threads call one function with arrays and numbers of their own."""
    function = fuser.fuse(lambda a, k: a * k + 1)
    wrong: list[int] = []

    def work(number: int) -> None:
        a = np.full(number + 1, number, float)
        wanted = a * number + 1
        wrong.extend(number for _ in range(2000) if not np.array_equal(function(a, number), wanted))

    function(np.ones(3), 2)
    function(np.ones(3), 2)
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:
        on_threads(work, 4)
    finally:
        sys.setswitchinterval(interval)
    assert not wrong


def test_an_integer_out_of_range_leaves_nothing_behind() -> None:
    """A number that does not fit is found after the results are there: they are given back."""
    function = fuser.fuse(lambda a, k: a * k)
    a = np.arange(4, dtype=np.int8)
    for k in (3, 4, 5):
        assert function(a, k).tolist() == (a * k).tolist()
    found = []
    for _ in range(2):  # first a table of calls that raise is made, which holds some references
        for _ in range(60):
            with pytest.raises(OverflowError, match="int8"):
                function(a, 1000)
        gc.collect()
        found.append(sys.getrefcount(a.dtype))
    assert abs(found[1] - found[0]) <= 3
    assert function(a, 6).tolist() == (a * 6).tolist()


@pytest.mark.parametrize("code", "?bBhHiIlLefd")
def test_numbers_are_made_without_an_array(code: str) -> None:
    """Of every dtype, from NumPy scalars alone, from elements and from sums: value, type, count."""
    three = np.ones(3, code)
    calls = [
        (lambda a, b: a + b, (three[0], three[1])),
        (lambda x: x[0] + x[-1], (three,)),
        (lambda x: (x + x).sum(), (three,)),
    ]
    for formula, arguments in calls:
        function, expected = fuser.fuse(formula), formula(*arguments)
        for _ in range(4):
            found = function(*arguments)
            assert type(found) is type(expected)
            assert found == expected
        if type(found) is not np.bool:
            assert sys.getrefcount(found) == sys.getrefcount(expected)
        before = sys.getrefcount(expected.dtype)
        kept = [function(*arguments) for _ in range(50)]
        assert kept == [expected] * 50
        del kept
        assert sys.getrefcount(expected.dtype) <= before + 1
