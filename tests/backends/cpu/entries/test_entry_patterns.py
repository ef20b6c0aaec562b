"""Tables for all lengths; other lengths are exact."""

from typing import Any

import numpy as np
import pytest

import fuser
from fuser.backends.cpu.entries import entry
from fuser.calls import fused_function

pytestmark = pytest.mark.skipif(
    not fused_function._NATIVE, reason="this interpreter has no native entry"
)


@pytest.fixture(autouse=True)
def _dispatcher() -> None:
    """The dispatcher is there from the first call on."""
    entry.load()


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
    "cube": (lambda a, b: a + b, lambda n, m: (np.ones((2, n, m)), np.ones((n, 1)))),
}


@pytest.mark.parametrize("name", PATTERNS)
@pytest.mark.parametrize("mode", ["fused", "unfused"])
def test_one_table_serves_all_lengths(name: str, mode: str) -> None:
    """After the first call, calls with other lengths are native too."""
    plain, make = PATTERNS[name]
    function = fuser.fuse(plain, mode=mode)
    function(*make(4, 3))
    sizes = [(2, 5), (7, 2), (3, 3), (50, 70), (5, 2)]
    if name == "strided":
        sizes = [(2, 5), (7, 3), (50, 71)]
    if name in ("nearest", "scores"):  # longer rows are added in another order
        sizes = [(2, 3), (7, 2), (3, 3), (6, 2), (5, 2)]
    if name in ("softmax", "mean"):  # short rows have a form of their own
        function(*make(40, 50))
    native = function._native.hits
    for n, m in sizes:
        args = make(n, m)
        found, wanted = function(*args), plain(*args)
        assert np.allclose(found, wanted, rtol=1e-13)
        assert np.shape(found) == np.shape(wanted)
    assert function._native.hits - native == len(sizes)
    assert function._native.count <= 2


@pytest.mark.parametrize("name", ["nearest", "scores"])
def test_one_table_serves_rows_with_blocks_of_elements(name: str) -> None:
    """Short rows that are added in blocks have a table of their own."""
    plain, make = PATTERNS[name]
    function = fuser.fuse(plain)
    half = 2 if name == "scores" else 1
    function(*make(4, 10 // half))
    native = function._native.hits
    sizes = [(2, 8), (7, 16), (3, 12), (6, 14)]
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
    counts = (2001, 1370, 5000)
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


def test_lengths_that_are_no_products_are_served_exactly() -> None:
    """Differences of neighbours: n - 1 is no product of n."""
    function = fuser.fuse(lambda x: x[1:] - x[:-1])
    for n in (5, 6, 7, 5, 6, 7):
        x = np.arange(1.0 * n) ** 2
        assert np.array_equal(function(x), np.diff(x))
    assert function._native.count == 3
    assert function._native.hits == 3


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
