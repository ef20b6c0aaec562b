"""Functions without a fused form inside fused ones: traced through, refused, or run plainly."""

from typing import Any

import numpy as np
import pytest

import fuser
from tests.fuser.comparing import assert_same, compare

A = np.random.default_rng(3).normal(size=(5, 5))
V = A.ravel()


def _views(x: Any) -> Any:
    """A view of an argument, and one of a local array that is returned too."""
    y = x + 1
    return np.diagonal(x), y, np.diagonal(y), np.diagonal(y) * 2


def _written_later(x: Any) -> Any:
    """A write that a view has to see."""
    y = x + 1
    seen = np.lib.stride_tricks.sliding_window_view(y, 2, axis=0)
    y += 1
    return seen, y


def _argument_written(x: Any) -> Any:
    """In-place work on an argument around a call."""
    x += 1
    ordered = np.sort(x, axis=0)
    x -= ordered
    return ordered * 2


def _updates(x: Any) -> Any:
    """Writes by index arrays and masks."""
    y = x.copy()
    y[[0, 2]] = 5
    y[y > 0.5] = y[y > 0.5] * 2
    y[[0, 0]] += 1
    return y + 1


def _in_place_sort(x: Any) -> Any:
    """Of a local array and of an argument."""
    y = x * 3
    y.sort()
    x.sort(axis=0)
    return y


def _given(x: Any) -> Any:
    """out= of functions without a fused form."""
    room = np.zeros_like(x)
    np.cumsum(x, axis=0, out=room)
    np.matmul(x, x + 1, out=room)
    return room + 1


def _puts(x: Any) -> Any:
    """A function that changes its argument."""
    y = x * 2
    np.put(y, [0], 3)
    return y


CASES: dict[str, tuple[Any, tuple[Any, ...]]] = {
    "matmul": (lambda x: (x.T * 2) @ x + 1, (A,)),
    "einsum": (lambda x: np.einsum("ij,jk->ik", x, x + 1) * 2, (A,)),
    "several results": (lambda x: [part * 2 for part in np.linalg.svd(x + 1)], (A,)),
    "named results": (lambda x: np.linalg.eigh(x + x.T).eigenvalues * 2, (A,)),
    "scalar result": (lambda x: np.linalg.det(x * 2) * x, (A,)),
    "complex between": (lambda x: np.abs(np.fft.rfft(x)) ** 2 + 1, (V,)),
    "complex arithmetic": (lambda x: np.fft.ifft(np.fft.fft(x)[1:] * 2).real + 1, (V,)),
    "axis argument": (lambda x, k: np.sort(x * 2, axis=k) + 1, (A, 0)),
    "number argument": (lambda x, q: np.percentile(x * 2, q * 2) + x, (A, 30.0)),
    "NumPy scalar argument": (lambda x: np.searchsorted(np.sort(x), np.float64(0.5)) + x, (V,)),
    "captured array": (lambda x: np.interp(x, np.linspace(0, 1, 5), np.arange(5.0)) * 2, (A,)),
    "data-dependent length": (lambda x: (np.unique(np.round(x)) * 2, x[x > 0].mean()), (V,)),
    "length as number": (lambda x: x * np.unique(np.round(x)).size, (V,)),
    "length as structure": (lambda x: int(np.unique(np.round(x)).size) * x, (V,)),
    "methods": (lambda x: (x.argsort() * 2, x.cumsum() + 1, x.repeat(2) * x.take(0)), (V,)),
    "element by position": (lambda x: x[np.argmax(x[:, 0])] * 2, (A,)),
    "ufunc methods": (lambda x: (np.add.outer(x, x) * 2, np.multiply.accumulate(x) + 1), (V,)),
    "parts that are not equal": (lambda x: np.array_split(x * 2, 4)[1] + 1, (V,)),
    "shifts in an array": (lambda x: np.roll(x, np.array([1, 2]), axis=(0, 1)) * 2, (A,)),
    "bits": (lambda x: x.view(np.int64) + 1, (A,)),
    "index arrays": (lambda x: x[np.array([2, 0]), 1:] + x[:, [1]][:2, :1], (A,)),
    "views": (_views, (A,)),
    "updates": (_updates, (A,)),
    "arguments written": (_argument_written, (A,)),
    "in-place sort": (_in_place_sort, (A,)),
    "out=": (_given, (A,)),
    "a change": (_puts, (A,)),
    "callback": (lambda x: np.apply_along_axis(np.sort, 0, x) * 2, (A,)),
    "unused, but it may raise": (lambda x: (np.linalg.cholesky(x @ x.T + 9), x * 2)[1], (A,)),
}


@pytest.mark.parametrize("mode", ["fused", "unfused", "fallback"])
@pytest.mark.parametrize("name", CASES)
def test_a_function_is_split_and_right(name: str, mode: str) -> None:
    """NumPy's results, in every mode, with nothing refused as a whole."""
    function, args = CASES[name]
    before = fuser.stats().get("fallbacks", 0)
    assert_same(function, *args, ulp=6, mode=mode, fallback="allow")
    assert fuser.stats().get("fallbacks", 0) == before


def _caught(x: Any) -> Any:
    """Control flow by an exception."""
    try:
        inverse = np.linalg.inv(x * 2)
    except np.linalg.LinAlgError:
        inverse = x * 0
    return inverse + 1


WHOLE: dict[str, tuple[Any, tuple[Any, ...], str]] = {
    "side effect, positional": (
        lambda x: (np.nancumsum(x, 0, np.float64, x), x * 2)[1], (A,), "write-into-view",
    ),
    "write that a view sees": (_written_later, (A,), "write-into-view"),
    "answer for Python": (
        lambda x: x * 2 if np.may_share_memory(x, x) else x, (A,), "write-into-view",
    ),
    "objects": (lambda x: np.sort(x).astype(object) + x, (A,), "unsupported-dtype"),
    "complex of a result": (lambda x: x * complex(np.median(x)), (A,), "array-conversion"),
}  # fmt: skip


@pytest.mark.parametrize("name", WHOLE)
def test_what_still_falls_back_as_a_whole(name: str) -> None:
    """Never a write that is dropped: the right answer, with the reason and the user's line."""
    function, args, code = WHOLE[name]
    fused = fuser.fuse(function, fallback="allow")
    assert compare(fused, *args, fallback="allow") == ""
    assert [reason.code for reason in fused.fallbacks] == [code]
    assert "test_opaque_tracing.py" in fused.fallbacks[0].where
    assert fused.explain(*args).groups == []


def test_exceptions_come_out_unchanged() -> None:
    """A function that raises between kernels: the user's exception, and nothing written."""
    fused = fuser.fuse(lambda x: np.linalg.inv(x * 2 + 1) * 3, fallback="allow")
    singular, room = np.ones((3, 3)), np.full((3, 3), 7.0)
    for _ in range(2):  # before and after there is a specialisation
        with pytest.raises(np.linalg.LinAlgError, match="Singular"):
            fused(singular, out=room)
        assert (room == 7).all()
        np.testing.assert_allclose(fused(A), np.linalg.inv(A * 2 + 1) * 3)
    assert [reason.code for reason in fused.fallbacks] == ["unsupported-function"]
    strict = fuser.fuse(lambda x: np.linalg.inv(x[:2]) + 1, fallback="error")
    with pytest.raises(np.linalg.LinAlgError, match="square"):
        strict(np.ones((5, 5)))


def test_a_caught_exception_is_control_flow() -> None:
    """The branch that handles it is taken whenever the call raises."""
    fused = fuser.fuse(_caught, fallback="allow")
    zeros = np.zeros((4, 4))
    for args in (A, zeros, A, zeros):
        np.testing.assert_allclose(fused(args), _caught(args), rtol=1e-12)


def test_a_view_stays_a_view() -> None:
    """Returned views look at the memory that NumPy's would look at."""
    fused = fuser.fuse(_views, fallback="allow")
    x = A.copy()
    for _ in range(2):
        diagonal, y, other, _ = fused(x)
        assert np.shares_memory(diagonal, x)
        assert np.shares_memory(other, y)


def test_a_call_that_is_written_twice_runs_once() -> None:
    """With the same operands; each result may be written into without changing the other."""

    def function(x: Any, w: Any) -> Any:
        first = x @ w
        second = x @ w
        first += 1
        return first * 2, second, x @ w + 1

    x = np.arange(6.0).reshape(2, 3)
    w = x.T + 1
    fused = fuser.fuse(function, fallback="allow")
    for found, wanted in zip(fused(x, w), function(x, w), strict=True):
        np.testing.assert_array_equal(found, wanted)
    before = fuser.stats()["graph_breaks"]
    results = fused(x, w)
    assert fuser.stats()["graph_breaks"] == before + 1
    assert not any(np.shares_memory(results[i], results[j]) for i, j in ((0, 1), (0, 2), (1, 2)))


VIEWS = {
    "view": lambda a: a.view(),
    "sliding": lambda a: np.lib.stride_tricks.sliding_window_view(a, 3),
    "array_split": lambda a: np.array_split(a, 5)[1],
    "view of a view": lambda a: np.lib.stride_tricks.sliding_window_view(a.view(), 3),
}


@pytest.mark.parametrize("view", VIEWS)
@pytest.mark.parametrize("kind", ["same", "overlapping", "apart"])
def test_views_by_numpy_see_later_writes(view: str, kind: str) -> None:
    """Into an argument that may share memory with the one which they are views of."""
    see = VIEWS[view]

    def read_later(a: Any, b: Any) -> Any:
        seen = see(b)
        a[...] = a * 2 + 1
        return seen * 3

    def read_by_a_call(a: Any, b: Any) -> Any:
        seen = see(b)
        a[1:5] = 7.0
        return np.sort(seen) - 1, b

    memory = np.linspace(-2, 3, 24)
    args = {
        "same": (memory[:12], memory[:12]),
        "overlapping": (memory[:12], memory[4:16]),
        "apart": (memory[:12], memory[12:]),
    }[kind]
    for function in (read_later, read_by_a_call):
        assert_same(function, *args, fallback="allow")
