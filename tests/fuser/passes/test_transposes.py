"""Operations on turned arrays are computed in the loops of the arrays themselves."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import fuser
from fuser.passes.rewrite import rewrite
from fuser.passes.transposes import unturned


def standard(x: Any) -> Any:
    """Rows of mean 0 and deviation 1, without keepdims."""
    return ((x.T - x.mean(1)) / x.std(1)).T


def softmax(x: Any) -> Any:
    """Down the columns of a transpose."""
    weights = np.exp(x.T - x.max(1))
    return (weights / weights.sum(0)).T


def backwards(x: Any, w: Any) -> Any:
    """Rank 3, its axes in reversed order."""
    y = x.transpose(2, 1, 0)
    return (y * w).sum(0) + (y / y.sum(0)).max(0)


def both(x: Any) -> Any:
    """The result is needed turned and as it was."""
    y = x.T - x.mean(1)
    return y, y.T * 2


def kept(x: Any) -> Any:
    """The columns of a transpose, with keepdims."""
    y = x.T
    return (y - y.mean(0)) / np.sqrt(y.var(0, keepdims=True) + 1e-5)


def kept_softmax(x: Any) -> Any:
    """The rows of a transpose."""
    y = np.swapaxes(x, 0, 1)
    e = np.exp(y - y.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def kept_images(x: Any) -> Any:
    """Channels first for a while; a gain for each channel and one for each row."""
    y = x.transpose(2, 0, 1)
    y = (y - y.mean((1, 2), keepdims=True)) / (y.std((1, 2), keepdims=True) + 1)
    z = y * np.arange(1.0, 6.0)[:, None, None] + np.arange(4.0)
    return z.transpose(1, 2, 0), z.sum(1, keepdims=True), y.max(0, keepdims=True) - y


def kept_and_not(x: Any) -> Any:
    """Sums of the array and of its transpose, each put back where it was."""
    y = x.T
    s, t = y.sum(1, keepdims=True), x.sum(0, keepdims=True)
    return y / s + t.T, x / t, s, (y.max(0)[None] - y, x - x.max(1)[:, None])[0]


X, CUBE, W = np.ones((5, 7)), np.ones((3, 4, 5)), np.ones(3)

#: name -> (function, arguments, kernels, arrays of the first argument's size that are moved)
TURNED: dict[str, tuple[Callable[..., Any], tuple[Any, ...], int, float]] = {
    "standard": (standard, (X,), 1, 2),
    "softmax": (softmax, (X,), 1, 2),
    "shares": (lambda x: (x.T / x.sum(1)).T, (X,), 1, 2),
    "turned result": (lambda x: x.T - x.mean(1), (X,), 1, 2),
    "squares": (lambda x: ((x.T - x.mean(1)) ** 2).sum(0), (X,), 1, 1 + 1 / 7),
    "both": (both, (X,), 1, 3),
    "kept": (kept, (X,), 1, 2),
    "softmax that keeps axes": (kept_softmax, (X,), 1, 2),
}
#: Of these only results are looked at.
OTHERS: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {
    "backwards": (backwards, (CUBE, W)),
    "images that keep axes": (kept_images, (CUBE,)),
    "axes kept and not": (kept_and_not, (X,)),
    "two orders": (lambda x: (x.T - x.mean(1)).T + x, (X,)),
    "not turned alike": (lambda x: np.exp(x[:5, :5].T) * x[:5, :5] - x.sum(), (X,)),
    "place over two axes": (lambda x: (x.T * 2).argmax() + x.sum(), (X,)),
    "one row": (lambda x: (x[:1].T - x[:1].mean(1)).T, (X,)),
    "sums both ways": (lambda x: (x.T / x.sum(1)).sum(1) + (x.T * x.max(1)).sum(0).max(), (X,)),
    "in between": (lambda x: (x[None].transpose(2, 0, 1) / x.sum(1)).sum(0), (X,)),
}
EVERY = {name: entry[:2] for name, entry in TURNED.items()} | OTHERS


@pytest.mark.parametrize("name", TURNED)
def test_one_kernel_reads_and_writes_once(name: str) -> None:
    """As with keepdims."""
    function, args, kernels, arrays = TURNED[name]
    found = fuser.fuse(function, fallback="error").explain(*args)
    assert found.ledger is not None
    assert len(found.groups) == kernels
    assert found.ledger.planned_bytes == round(arrays * args[0].nbytes)


@pytest.mark.parametrize("name", EVERY)
def test_results_are_numpys_in_its_memory_order(name: str) -> None:
    """For several shapes and layouts, and over the argument itself."""
    function, args = EVERY[name]
    fused = fuser.fuse(function, fallback="error")
    random = np.random.default_rng(7)
    shapes = [args[0].shape, (5, 5), (64, 300), (6, 1)] if args[0].ndim == 2 else [args[0].shape]
    for shape in shapes:
        x = random.normal(size=shape) + 4
        x.flat[0] = -0.0
        wide = np.repeat(x, 2, axis=0)
        for given in (x, np.asfortranarray(x), wide[::2], x[::-1]):
            with np.errstate(all="ignore"):
                expected = function(given, *args[1:])
            result = fused(given, *args[1:])
            pairs = [(expected, result)] if not isinstance(expected, tuple) else [
                *zip(expected, result, strict=True)
            ]
            for wanted, found in pairs:
                np.testing.assert_allclose(found, wanted, rtol=1e-11, atol=1e-12)
                if np.ndim(wanted) == 2 and min(wanted.shape) > 1:
                    assert found.strides == wanted.strides
            if len(pairs) == 1 and np.shape(expected) == shape:
                copy = given.copy()
                fused(copy, *args[1:], out=copy)
                np.testing.assert_allclose(copy, expected, rtol=1e-11, atol=1e-12)


def test_a_square_is_not_written_over_while_it_is_read() -> None:
    """Its elements are read here and written there."""

    def turned(x: Any) -> Any:
        return x.T - x.mean(1)

    fused = fuser.fuse(turned, fallback="error")
    for size in (4, 33, 300):
        x = np.random.default_rng(1).normal(size=(size, size))
        wanted = fused(x)
        np.testing.assert_array_equal(fused(x, out=x), wanted)


def test_graphs_without_reductions_or_transposes_stay() -> None:
    """The same object: nothing is to be gained."""
    for function in (lambda x: np.exp(x.T) + 1, lambda x: x - x.mean(1, keepdims=True)):
        graph, _ = rewrite(fuser.trace(function, X))
        assert unturned(graph) is graph


def test_what_is_made_anew_has_its_line() -> None:
    """Operations are told of in the user's terms behind the pass as before it."""

    def two_ways(x: Any) -> Any:
        shares = x / x.sum(axis=1, keepdims=True)
        return shares.sum(axis=0) * 2 + shares.T.max(axis=1)

    graph, _ = rewrite(fuser.trace(two_ways, X))
    found = unturned(graph)
    assert found is not graph
    assert all(found.line_of(node) for node in found.nodes if not node.op.structure)
