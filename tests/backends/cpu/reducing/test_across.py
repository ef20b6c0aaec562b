"""Sums across rows in the nest that reduces the rows, beside NumPy."""

from collections.abc import Callable
from random import Random
from typing import Any

import numpy as np
import pytest

import fuser
from fuser.backends.cpu import tuning
from fuser.backends.cpu.reducing import across
from fuser.base import config
from fuser.compiler import compile_upfront
from fuser.traffic.ledger import ledger
from tests.fuser.random_programs import laid_out

GENERATOR = np.random.default_rng(3)
Function = Callable[..., Any]


def gradients(x: Any, g: Any, w: Any) -> Any:
    """A layer norm's whole backward pass (Ba, Kiros and Hinton, 2016): x, weight and bias."""
    mean = x.mean(-1, keepdims=True)
    scale = 1 / np.sqrt(x.var(-1, keepdims=True) + 1e-5)
    h = (x - mean) * scale
    gw = g * w
    inner = gw - gw.mean(-1, keepdims=True) - h * (gw * h).mean(-1, keepdims=True)
    axes = tuple(range(x.ndim - 1))
    return scale * inner, (g * h).sum(axes), g.sum(axes)


def shares(x: Any, g: Any, w: Any) -> Any:
    """Softmax of rows, and what each column gets of all of them, times a weight."""
    e = np.exp(x - x.max(-1, keepdims=True))
    p = e / e.sum(-1, keepdims=True)
    return p, p.mean(0) * w


def _arrays(shape: tuple[int, ...], dtype: str) -> list[Any]:
    x, g = GENERATOR.normal(size=(2, *shape)).astype(dtype)
    return [x, g, GENERATOR.normal(size=shape[-1]).astype(dtype)]


def _check(function: Function, *arrays: Any) -> None:
    rtol = 2e-4 if arrays[0].dtype == np.float32 else 1e-9
    fused = fuser.fuse(function, fallback="error")
    with np.errstate(all="ignore"):
        wanted = function(*arrays)
    for _ in range(3):
        for one, other in zip(wanted, fused(*arrays), strict=True):
            assert (one.dtype, one.shape) == (other.dtype, other.shape)
            np.testing.assert_allclose(other, one, rtol=rtol, atol=rtol * 10)


@pytest.mark.parametrize("function", [gradients, shares])
def test_one_nest_moves_the_least_bytes(function: Function) -> None:
    """Rows are read once and written once; a row for each sum."""
    graph = fuser.trace(function, *_arrays((37, 129), "f4"))
    spec = compile_upfront(graph)
    (group,) = spec.plan.groups
    (section,) = group.sections
    assert section.across
    symbols = [str(dim) for p in graph.parameters for dim in p.shape]
    book = ledger(spec, dict(zip(symbols, (37, 129, 37, 129, 129), strict=False)))
    read, sums = (2, 2) if function is gradients else (1, 1)
    assert book.planned_bytes == 4 * ((read + 1) * 37 * 129 + 129 + sums * 129)
    assert book.planned_bytes == book.least_bytes


@pytest.mark.parametrize("dtype", ["f4", "f8"])
def test_numpys_results(dtype: str) -> None:
    """Short, long, few and many rows, none, and several loops outside."""
    for shape in ((37, 129), (1, 5), (5, 1), (0, 7), (1000, 33), (3, 50, 70), (70, 4097)):
        _check(gradients, *_arrays(shape, dtype))
    _check(shares, *_arrays((300, 70), dtype))


@pytest.mark.parametrize("seed", range(6))
def test_layouts(seed: int) -> None:
    """Any memory is taken by rows."""
    random = Random(seed)
    shape = random.choice([(41, 70), (130, 9), (5, 20)])
    _check(gradients, *(laid_out(random, array) for array in _arrays(shape, "f8")))


def test_values_that_are_not_numbers() -> None:
    """They reach their row and their column, and no other."""
    x, g, w = _arrays((40, 33), "f4")
    g[3, 4], x[7, 8] = np.inf, np.nan
    _check(gradients, x, g, w)


def test_integers_wrap_around() -> None:
    """Sums of integers across rows, exactly."""

    def function(x: Any) -> Any:
        rest = x - x.max(-1, keepdims=True)
        return rest, (rest * x).sum(0)

    def plain(x: Any) -> Any:
        rest = x - x.sum(-1, keepdims=True)
        return rest, rest.sum(0)

    _check(plain, np.ones((3, 0)))
    x = GENERATOR.integers(-(2**62), 2**62, (70, 33))
    fused = fuser.fuse(function, fallback="error")
    with np.errstate(all="ignore"):
        for one, other in zip(function(x), fused(x), strict=True):
            assert np.array_equal(one, other)


def test_the_same_bits_whatever_the_number_of_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    """Blocks depend on lengths alone, and are joined in order; other values in each call."""
    monkeypatch.setattr(tuning, "THREAD_NS", 1)
    fused = fuser.fuse(gradients, fallback="error")
    for shape in ((700, 90), (300, 301)):
        arrays = _arrays(shape, "f4")
        found = set()
        for threads in (1, 2, 3):
            before = config.change(num_threads=threads)
            try:
                found.add(tuple(result.tobytes() for result in fused(*arrays)))
            finally:
                config.restore(before)
        assert len(found) == 1


def test_blocks_have_rows_enough() -> None:
    """At least so many rows each, so that running sums are a small part of what is moved."""
    from fuser.explain.explanation import launch_of

    arrays = _arrays((64, 700), "f4")
    fused = fuser.fuse(gradients, fallback="error")
    fused(*arrays)
    launch = launch_of(fused._find_call(*fuser.base.trees.flatten((tuple(arrays), {}))))
    nest = launch.groups[0].kernel.nests[0]
    words, extent = across.lay_out(nest, [10_000, 700])
    assert words == [64, 157, 0]
    assert extent.room_bytes == 64 * 2 * 8 * (700 + across.PADDING)
    assert across.lay_out(nest, [8, 100_000])[0] == [1, 8, 0]
    assert across.lay_out(nest, [0, 7])[0] == [1, 0, 0]
