"""Tables for many lengths; other lengths are exact."""

import re
from typing import Any

import numpy as np
import pytest

import fuser
from fuser.backends.cpu.entries import entry
from fuser.backends.cpu.machine import pool


def scores(a: Any, b: Any) -> Any:
    """Nests that hand rows to each other: how many at a time is no product of lengths."""
    s = (a[:, None] * b).sum(-1)
    e = np.exp(s - s.max(1, keepdims=True))
    return e / e.sum(1, keepdims=True)


PATTERNS: dict[str, Any] = {
    "pointwise": (lambda a, b: a * 2 + b, lambda n, m: (np.ones((n, m)), np.ones((n, m)))),
    "bias": (lambda a, b: a * 2 + b, lambda n, m: (np.ones((n, m)), np.arange(1.0 * m))),
    "column": (lambda a, b: a - b, lambda n, m: (np.ones((n, m)), np.ones((n, 1)))),
    "outer": (lambda a, b: a * b, lambda n, m: (np.arange(1.0 * n)[:, None].copy(), np.ones(m))),
    "softmax": (
        lambda a: np.exp(a - a.max(1, keepdims=True)) / np.exp(a).sum(),
        lambda n, m: (np.random.default_rng(n).normal(size=(n, m)),),
    ),
    "mean": (lambda a: a - a.mean(axis=0), lambda n, m: (np.ones((n, m)) * np.arange(m),)),
    "flat": (lambda a: (a * a).sum(), lambda n, m: (np.ones((n, m)),)),
    "strided": (lambda a: a * 3, lambda n, m: (np.arange(2.0 * n * m)[:: -1 - m % 2],)),
    "nearest": (
        lambda a, b: ((a[:, None] - b) ** 2).sum(-1).argmin(-1),
        lambda n, m: (np.random.default_rng(n).random((2 * n, m)), np.eye(n + m, m)),
    ),
    "scores": (
        lambda a, b: scores(a, b),
        lambda n, m: (np.random.default_rng(n).random((n, 2 * m)), np.eye(n, 2 * m)),
    ),
    "complex": (
        lambda a, b, z: a * b + z,
        lambda n, m: (np.ones((n, m)) * 2j, np.arange(m) - 1j, np.complex128(complex(n, m))),
    ),
    "complex strided": (lambda a, k: a * k, lambda n, m: ((np.arange(2.0 * n * m) * 1j)[::2], m)),
    "cube": (lambda a, b: a + b, lambda n, m: (np.ones((2, n, m)), np.ones((n, 1)))),
}


@pytest.mark.parametrize("name", PATTERNS)
@pytest.mark.parametrize("mode", ["fused", "unfused"])
def test_few_tables_serve_all_lengths(name: str, mode: str) -> None:
    """After a short and a long call, calls with other lengths are native too."""
    plain, make = PATTERNS[name]
    function = fuser.fuse(plain, mode=mode)
    function(*make(4, 3))
    sizes = [(2, 5), (7, 2), (3, 3), (50, 70), (5, 2)]
    if name == "strided":
        sizes = [(2, 5), (7, 3), (50, 71)]
    if name in ("nearest", "scores"):  # longer rows are added in another order
        sizes = [(2, 3), (7, 2), (3, 3), (6, 2), (5, 2)]
    function(*make(7, 5))
    function(*make(40, 60))  # short rows have a form of their own
    function(*make(50, 70))
    native = function._native.hits
    for n, m in sizes:
        args = make(n, m)
        found, wanted = function(*args), plain(*args)
        assert np.allclose(found, wanted, rtol=1e-13)
        assert np.shape(found) == np.shape(wanted)
    assert function._native.hits - native == len(sizes)
    assert function._native.count <= 4


@pytest.mark.parametrize("name", ["nearest", "scores"])
def test_one_table_serves_rows_with_blocks_of_elements(name: str) -> None:
    """Short rows that are added in blocks have a table of their own."""
    plain, make = PATTERNS[name]
    function = fuser.fuse(plain)
    half = 2 if name == "scores" else 1
    function(*make(4, 10 // half))
    native = function._native.hits
    sizes = [(2, 10), (7, 16), (3, 12), (6, 14)]
    for n, m in sizes:
        args = make(n, m // half)
        assert np.allclose(function(*args), plain(*args), rtol=1e-13)
    assert function._native.hits - native == len(sizes)
    assert function._native.count == 1


def test_lengths_of_a_reduction_share_work_until_they_are_many(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The first ones have tables of their own, whose work threads share; then one table serves."""
    monkeypatch.setattr(entry, "MANY_LENGTHS", 3)
    x = np.random.default_rng(0).normal(size=80_000)
    function = fuser.fuse(lambda x: (x * x * x - x).sum())
    for n in (100, 101):  # too short to be shared
        function(x[:n])
    assert function._native.count == 1
    expected = [2, 3, 4, 4, 4, 4]
    for n, count in zip(range(60_000, 60_006), expected, strict=True):
        for _ in range(2):
            part = x[:n]
            assert np.isclose(function(part), (part * part * part - part).sum(), rtol=1e-12)
        assert function._native.count == count
    hits = function._native.hits
    for n in (60_010, 60_011):
        function(x[:n])
    assert function._native.hits == hits + 2
    function(np.resize(x, 500_000))  # long work is shared all the same
    assert function._native.count == 5


@pytest.mark.parametrize("axis", [-1, 0])
def test_few_elements_of_a_row_or_column_are_one_table(axis: int) -> None:
    """Their form is for that number of them: one table serves every number of rows, long ones."""
    plain = lambda x: x - x.max(axis, keepdims=True)  # noqa: E731
    function = fuser.fuse(plain)

    def call(count: int, few: int) -> None:
        x = np.random.default_rng(count).normal(size=(count, few) if axis else (few, count))
        np.testing.assert_array_equal(function(x), plain(x))

    call(2000, 3)
    counts = (2001, 1370, 1500)
    for count in counts:
        call(count, 3)
    assert function._native.count == 1
    assert function._native.hits == len(counts)
    for count, few in [(400, 3), (9, 3), (1, 3), (2000, 4), (700, 9), (2000, 3)]:
        call(count, few)


def test_lengths_of_one_and_none_are_right_too() -> None:
    """Whether Python or the dispatcher serves them."""
    for plain, make in PATTERNS.values():
        function = fuser.fuse(plain, fallback="allow")
        for n, m in [(4, 3), (1, 3), (4, 1), (1, 1), (4, 3), (1, 1)]:
            args = make(n, m)
            found, wanted = function(*args), plain(*args)
            assert np.allclose(found, wanted, rtol=1e-13)
            assert np.shape(found) == np.shape(wanted)


def test_sums_and_quotients_of_lengths_are_computed_natively() -> None:
    """Differences of neighbours, every second element, and back."""
    plain = lambda x: (x[1:] - x[:-1])[::2][::-1]  # noqa: E731
    function = fuser.fuse(plain)
    for n in (5, 6, 7, 50, 61, 99):
        x = np.arange(1.0 * n) ** 2
        assert np.array_equal(function(x), plain(x))
    assert function._native.count == 1
    assert function._native.hits == 5
    for n in (4, 3, 2, 1, 0, 4, 3, 2, 1, 0):
        x = np.arange(1.0 * n) ** 2
        assert np.array_equal(function(x), plain(x))


def test_integer_indices_lie_within_every_length_that_is_served() -> None:
    """Lengths from the index on are native; a shorter array raises and is not read beyond."""
    function = fuser.fuse(lambda x: x[2] + x[1] * x)
    for n in (5, 6):
        function(np.arange(1.0 * n))
    native = function._native.hits
    for n in (7, 4, 3, 9):
        x = np.arange(1.0, n + 1)
        assert np.array_equal(function(x), x[2] + x[1] * x)
    assert function._native.hits - native == 4
    memory = np.array([1.0, 2.0, 50.0, 60.0])
    for n in (1, 2, 0, 2):
        with pytest.raises(IndexError):
            function(memory[:n])
    assert np.array_equal(function(memory), 50.0 + 2.0 * memory)


FUNCTIONS: dict[str, Any] = {
    "a part's sum": lambda x: x[3:6].sum(),
    "a sum beside": lambda x: x[:3].sum() + x,
    "a part": lambda x: x[3:6] * 2,
    "a part's largest": lambda x: x[3:6].max(initial=0) * x,
    "behind a place": lambda x: x[20:].sum() + x,
    "far behind": lambda x: x[200:].sum() * 2,
    "up to a place": lambda x: x[:200] + 1,
    "of the last": lambda x: x[-3:].sum() + x,
    "of every second": lambda x: x[::2].sum() + x,
    "of parts of parts": lambda x: x[1:][:4][2:].sum() * x,
    "rows": lambda x: x[:, None][:4].sum(0) * x,
    "shifted": lambda x: np.roll(x, 3) + x,
    "two": lambda x: x[2:5].sum() - x[:2].sum(),
}


@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize("lengths", [
    (8, 8, 9, 10, 11, 5, 4, 3, 2, 1, 0, 5, 2, 7, 6),
    (50, 60, 61, 62, 63, 230, 231, 19, 20, 21, 250, 3, 240),
    (300, 301, 302, 303, 100, 199, 200, 201, 30, 2, 1, 400),
])  # fmt: skip
def test_short_and_long_arrays(name: str, lengths: tuple[int, ...]) -> None:
    """Whatever lengths came before."""
    function = FUNCTIONS[name]
    fused = fuser.fuse(function, fallback="allow")
    room = np.arange(1.0, 500.0)
    for length in lengths:
        for _ in range(2):
            x = room[:length]
            np.testing.assert_array_equal(fused(x), function(x), str(length))


def test_numbers_computed_from_lengths_are_served_for_all_lengths() -> None:
    """Natively, with their guards, from the second length on."""
    function = fuser.fuse(lambda x: x * (len(x) % 4) + 6 // (len(x) - 3))
    for length in (8, 9, 10, 11, 5, 4):
        function(np.ones(length))
    before = function._native.hits
    for length in (6, 7, 12, 13):
        x = np.arange(1.0, length + 1)
        np.testing.assert_array_equal(function(x), x * (length % 4) + 6 // (length - 3))
    assert function._native.hits == before + 4
    with pytest.raises(ZeroDivisionError):
        function(np.ones(3))


def test_lengths_at_which_binding_chooses_otherwise_have_tables_of_their_own() -> None:
    """The guards of a table are compared: a length beyond them is not served by it."""
    plain = lambda x: x - x.max(1, keepdims=True)  # noqa: E731
    function = fuser.fuse(plain)
    function(np.ones((6, 5)))
    counts = []
    for columns in (6, 7, 4, 40, 41, 39, 5):
        x = np.random.default_rng(columns).random((6, columns))
        np.testing.assert_array_equal(function(x), plain(x))
        counts.append(function._native.count)
    assert counts == [1, 1, 1, 2, 2, 2, 2]


def test_three_long_axes_are_not_multiplied_beyond_a_word() -> None:
    """Products of lengths that do not fit a word are left to tables of exact lengths."""
    plain = lambda a, b, c: a[:, None, None] * b[:, None] + c  # noqa: E731
    function = fuser.fuse(plain)
    for n in (3, 4, 5):
        a, b, c = np.ones(n), np.ones(n + 1), np.ones(n + 2)
        np.testing.assert_array_equal(function(a, b, c), plain(a, b, c))
    assert function._native.count == 1
    assert function._native.hits == 2
    long = np.broadcast_to(np.float64(1), (1 << 30,))
    with pytest.raises(ValueError, match="array is too big"):
        function(long, long, long)


INTEGERS = {
    "element": (lambda x, k: x[k] * 2, 1), "head": (lambda x, k: x[:k] * 2, 1),
    "tail": (lambda x, k: x[k:] + k, 1), "column": (lambda x, k: x[:, k] + 1, 2),
    "several": (lambda x, k: x[k - 1 : k + 2] + x[-k] + k, 1),
    "new": (lambda x, k: np.zeros(k) + x[0], 1),
    "rows": (lambda x, k: x[k : k + 2].sum(axis=0), 2),
    "joined": (lambda x, k: np.concatenate([x[k:], x[:k]]) * 2, 1),
    "both ends": (lambda x, k: x[k:-k] * 3, 1), "steps": (lambda x, k: x[k::2] * 1.5, 1),
}  # fmt: skip


@pytest.mark.parametrize("name", INTEGERS)
def test_integer_arguments_are_symbols(name: str) -> None:
    """Indices, bounds and lengths, from either end and beyond, of Python and of NumPy."""
    function, rank = INTEGERS[name]
    fused = fuser.fuse(function, fallback="allow")
    whole = np.arange(10.0) if rank == 1 else np.arange(40.0).reshape(4, 10)
    for k in (3, 4, 5, 2, 0, 1, -1, -2, 9, 10, 11, -10, -11, 2**40, True, np.int64(3), np.int64(-2),
              np.int64(4), np.int32(3), 6, 7):  # fmt: skip
        for array in (whole, whole + 1, whole[:-1], np.ascontiguousarray(whole[..., :-2])):
            if name == "new" and k == 2**40:
                continue  # more memory than there is
            try:
                wanted = function(array, k)
            except (IndexError, ValueError, TypeError) as error:
                with pytest.raises(type(error), match=re.escape(str(error))):
                    fused(array, k)
                continue
            found = fused(array, k)
            assert type(found) is type(wanted)
            np.testing.assert_array_equal(found, wanted)
    fresh = fuser.fuse(function)
    for k in (3, 2, 4, 3, 2):
        np.testing.assert_array_equal(fresh(whole, k), function(whole, k))
    assert fresh._native.hits >= 2


def test_a_length_of_one_that_integers_tell_is_served() -> None:
    """The rest of a row has one element for the last index: such calls are served natively, too."""
    fused = fuser.fuse(lambda rest, x, k: (x[k:] - rest, rest / x[k]))
    x = np.arange(1.0, 11.0)
    for k in (4, 9, 9, 9, 5, 9):
        before = fused._native.hits if fused._native else 0
        rest = x[k:] * 2
        for found, wanted in zip(fused(rest, x, k), (x[k:] - rest, rest / x[k]), strict=True):
            np.testing.assert_array_equal(found, wanted)
    assert fused._native.hits == before + 1


def _in_parts(x: Any) -> tuple[Any, Any]:
    first, last = np.empty_like(x), np.zeros_like(x)
    first[:, 0] = x[:, 0] * 2
    first[:, 1:] = 1.0
    last[:, -1] = x[:, 0]
    return first, last


def test_large_results_of_several_loop_nests_come_from_the_pool() -> None:
    """Also where a short call's table would hold for their lengths."""
    made = pool.pool()
    if made is None:
        pytest.skip("this platform has no output pool")
    fused = fuser.fuse(_in_parts, fallback="error")
    for shape in ((8, 8), (9, 7), (256, 256)):
        x = np.ones(shape)
        for _ in range(4):
            fused(x)
        before = made.reused
        for _ in range(3):
            for found, wanted in zip(fused(x), _in_parts(x), strict=True):
                assert np.array_equal(found, wanted)
            del found
        assert made.reused - before >= (4 if x.nbytes >= pool.THRESHOLD else 0)
