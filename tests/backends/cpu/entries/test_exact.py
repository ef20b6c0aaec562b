"""Tables for exact lengths and strides: several arrays of `out=`."""

import sys
from typing import Any

import numpy as np
import pytest

import fuser

X, Y = np.linspace(-1, 1, 24).reshape(4, 6), np.linspace(2, 3, 24).reshape(4, 6)


def _both(a: Any, b: Any) -> Any:
    return a + b, a - b


def test_a_tuple_of_arrays_is_written_into_natively() -> None:
    """The same tuple is given back; reference counts stay."""
    function = fuser.fuse(_both)
    out = (np.empty_like(X), np.empty_like(X))
    for _ in range(3):
        assert function(X, Y, out=out) is out
    hits, counts = function._native.hits, [sys.getrefcount(thing) for thing in (out, *out)]
    for _ in range(20):
        assert function(X, Y, out=out) is out
    assert function._native.hits == hits + 20
    assert [sys.getrefcount(thing) for thing in (out, *out)] == counts
    assert all(map(np.array_equal, out, _both(X, Y)))
    others = (np.zeros_like(X), np.zeros_like(X))
    function(X, Y, out=others)
    assert all(map(np.array_equal, others, _both(X, Y)))


def test_arrays_that_overlap_go_through_python() -> None:
    """Results are as if nothing overlapped: with an argument, or with one another."""
    function = fuser.fuse(_both)
    for _ in range(3):
        function(X, Y, out=(np.empty_like(X), np.empty_like(X)))
    wanted = _both(X, Y)
    for _ in range(2):
        a, b = X.copy(), Y.copy()
        function(a, b, out=(a, b))
        assert all(map(np.array_equal, (a, b), wanted))
        a, b = X.copy(), Y.copy()
        function(a, b, out=(b, a))
        assert all(map(np.array_equal, (b, a), wanted))
        whole = np.empty(30)
        pair = (whole[:24].reshape(4, 6), whole[6:].reshape(4, 6))
        function(X, Y, out=pair)
        assert np.array_equal(pair[1], wanted[1])


@pytest.mark.parametrize("wrong", [1, 3, "dtype", "shape", "read-only", "list"])
def test_what_does_not_fit_raises_as_ever(wrong: Any) -> None:
    """The number of arrays, dtype, shape, flags: compared at every call."""
    function = fuser.fuse(_both, fallback="allow")
    for _ in range(3):
        function(X, Y, out=(np.empty_like(X), np.empty_like(X)))
    out: Any = (np.empty_like(X), np.empty_like(X))
    if isinstance(wrong, int):
        out = (np.empty_like(X),) * wrong
    elif wrong == "dtype":
        out = (out[0], np.empty(X.shape, np.int32))
    elif wrong == "shape":
        out = (out[0], np.empty((6, 4)))
    elif wrong == "read-only":
        out[1].flags.writeable = False
    elif wrong == "list":
        out = list(out)
    for _ in range(2):
        with pytest.raises((TypeError, ValueError)):
            function(X, Y, out=out)


def test_numbers_become_float16_as_numpy_makes_them() -> None:
    """Ties, subnormals, overflow, signed zero, infinities and NaN."""
    function = fuser.fuse(lambda a, k: a * k)
    one = np.ones(1, np.float16)
    tie = [1 + 2.0**-11, 1 + 3 * 2.0**-11, 1 + 2.0**-11 + 2.0**-40, 65519.99, 65520.0, 1e300]
    small = [2.0**-14, 2.0**-15, 2.0**-24, 2.0**-25, 2.0**-25 * 1.0001, 3 * 2.0**-25, 6.0975e-5]
    generator = np.random.default_rng(3)
    drawn = (generator.standard_normal(300) * 2.0 ** generator.integers(-30, 18, 300)).tolist()
    values = [*tie, *small, *drawn, 0.0, float("inf"), float("nan"), 5e-324, 0.1]
    with np.errstate(all="ignore"):
        for value in [*values, *(-v for v in values), 3, 2049, 70000, -(10**6), True]:
            found, wanted = function(one, value), one * value
            assert found.dtype == wanted.dtype
            if np.isnan(wanted[0]):
                assert np.isnan(found[0])
            else:
                assert found.tobytes() == wanted.tobytes(), value
    assert function._native.hits > 500


def _crossed(x: Any, k: Any) -> Any:
    """A row and a column, as shortest paths read them."""
    return np.minimum(x, x[:, k, None] + x[k, :])


@pytest.mark.parametrize("side", [300, 700])
def test_indices_move_what_calls_of_any_size_read(side: int) -> None:
    """Of arrays from the pool, and of work that threads share: any index of the same sign."""
    x = np.random.default_rng(5).integers(1, 99, (side, side))
    function = fuser.fuse(_crossed)
    for k in (3, 4, -2, -3):
        for _ in range(3):
            function(x, k)
    hits = function._native.hits
    for k in (0, 1, side - 1, -1, -side, np.int64(7), np.int64(-7)):
        assert np.array_equal(function(x, k), _crossed(x, k))
    assert function._native.hits >= hits + 5
    for k in (side, -side - 1, 2**40, 2**70):
        with pytest.raises(IndexError):
            function(x, k)
    turned = np.asfortranarray(x)
    for _ in range(3):
        assert np.array_equal(function(turned, 5), _crossed(turned, 5))
    assert np.array_equal(function(turned, 9), _crossed(turned, 9))


def test_indices_move_what_is_read_beside_an_array_that_is_written() -> None:
    """An argument that is written as a whole; what is read of it moves, so it is read before."""

    def add_row(x: Any, y: Any, k: int) -> Any:
        x += y[k]
        return x

    function = fuser.fuse(add_row)
    x, y = np.ones((400, 300)), np.random.default_rng(6).random((5, 300))
    wanted = x.copy()
    for k in (1, 2, 1, 2, 3, 0, 4, -1, -5):
        function(x, y, k)
        add_row(wanted, y, k)
        assert np.array_equal(x, wanted)


def _first(x: Any, n: Any) -> Any:
    """As many as a number says."""
    return x[:n] * 2 + 1


def test_numbers_in_shapes_have_a_table_each() -> None:
    """Those that come again are served, others are bound anew, and what is outside is as ever."""
    x = np.random.default_rng(5).standard_normal(2_000_000)
    function = fuser.fuse(_first)
    numbers = (1_000_000, 1_999_999)
    for n in numbers * 3:
        function(x, n)
    hits = function._native.hits
    for n in numbers * 2:
        assert np.array_equal(function(x, n), _first(x, n))
    assert function._native.hits == hits + 4
    for n in (999_999, 2_000_000, 2_000_001, 3_000_000, 1_000_000, 0):
        assert np.array_equal(function(x, n), _first(x, n))
