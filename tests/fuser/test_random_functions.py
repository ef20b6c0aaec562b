"""Random numbers by seed and place: the same alone, fused and in the fallback."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import fuser
from fuser import functional
from fuser.ir.philox import random_bits


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64", "int32"])
def test_numbers_are_the_same_everywhere(dtype: str) -> None:
    """Without a fused function, fused and in the fallback: bit by bit, for any layout."""
    x = np.zeros((7, 5), dtype).T

    def function(v: Any) -> Any:
        return functional.rand_like(v, seed=11, offset=3)

    alone = function(x)
    assert alone.dtype == (np.float64 if dtype == "int32" else np.dtype(dtype))
    assert alone.shape == x.shape
    for mode in ("fused", "unfused", "fallback"):
        found = fuser.fuse(function, mode=mode, fallback="allow")(x)
        np.testing.assert_array_equal(found, alone)


def test_numbers_are_those_of_the_stream() -> None:
    """The upper bits of the words, in C order, from the offset on."""
    found = functional.rand_like(np.zeros((2, 3), np.float32), seed=5, offset=10)
    words = random_bits(np.arange(10, 16, dtype=np.uint64), np.full(6, 5, np.uint64))
    np.testing.assert_array_equal(found.ravel(), (words >> 8) / np.float32(2**24))
    whole = functional.rand_like(np.zeros(100, np.float32), seed=5)
    np.testing.assert_array_equal(found.ravel(), whole[10:16])


def test_numbers_are_uniform() -> None:
    """Mean, variance and range of many; another seed is another stream."""
    for dtype in ("float32", "float64"):
        found = functional.rand_like(np.zeros(20_000, dtype), seed=1)
        assert 0 <= found.min() < found.max() < 1
        assert abs(found.mean() - 0.5) < 0.01
        assert abs(found.var() - 1 / 12) < 0.005
        other = functional.rand_like(np.zeros(20_000, dtype), seed=2)
        assert abs(np.corrcoef(found, other)[0, 1]) < 0.03


def test_a_seed_that_is_an_argument_compiles_once() -> None:
    """Seed and offset are run-time numbers; broadcasting around them fuses."""
    fused = fuser.fuse(
        lambda x, y, seed: functional.rand_like(x, seed=seed) * y + x, fallback="allow"
    )
    x, y = np.zeros((6, 4), np.float32), np.arange(4, dtype=np.float32)
    first = fused(x, y, 3)
    before = fuser.n_compiled_kernels()
    np.testing.assert_array_equal(fused(x, y, 4), functional.rand_like(x, seed=4) * y)
    np.testing.assert_array_equal(first, functional.rand_like(x, seed=3) * y)
    assert fuser.n_compiled_kernels() == before


def test_dropout_scales_what_it_keeps() -> None:
    """About 1 - p of the elements; the mean stays; nothing or all at the ends."""
    x = np.ones((100, 200), np.float32)
    fused = fuser.fuse(lambda v: functional.dropout(v, 0.25, seed=9), fallback="allow")
    found = fused(x)
    assert found.dtype == np.float32
    assert set(np.unique(found)) == {np.float32(0), np.float32(1) / np.float32(0.75)}
    assert abs(found.mean() - 1) < 0.02
    np.testing.assert_array_equal(found, functional.dropout(x, 0.25, seed=9))
    np.testing.assert_array_equal(functional.dropout(x, 0.0, seed=9), x)
    assert not functional.dropout(x, 1.0, seed=9).any()


def test_what_is_no_seed_or_probability_is_refused() -> None:
    """With what to do."""
    x = np.ones(3)
    with pytest.raises(TypeError, match="whole number"):
        functional.rand_like(x, seed=0.5)
    with pytest.raises(ValueError, match="probability"):
        functional.dropout(x, 1.5, seed=0)


def test_random_numbers_and_what_is_around_them_are_one_kernel() -> None:
    """Nothing but the arguments is read, whatever is broadcast; no length is compiled for."""

    def function(x: Any, bias: Any) -> Any:
        return np.tanh(functional.dropout(x * 2 + bias, 0.25, seed=9, offset=5)) - bias

    fused = fuser.fuse(function, fallback="error")
    compiled = []
    for rows, columns in ((40, 33), (7, 8), (100, 3)):
        x = np.linspace(-1, 1, rows * columns, dtype=np.float32).reshape(rows, columns)
        np.testing.assert_allclose(fused(x, x[0]), function(x, x[0]), rtol=1e-6, atol=1e-6)
        compiled.append(fuser.n_compiled_kernels())
    assert compiled[0] == compiled[-1]
    explained = fused.explain(x, x[0])
    assert len(explained.groups) == 1
    assert explained.ledger.planned_bytes == 2 * x.nbytes + x[0].nbytes


def test_a_slice_of_an_array_gets_its_own_places() -> None:
    """The offset of a part of a stream gives that part of the stream."""
    whole = functional.rand_like(np.zeros(1000, np.float32), seed=3)
    fused = fuser.fuse(
        lambda x, at: functional.rand_like(x, seed=3, offset=at), fallback="error"
    )
    for begin, end in ((0, 10), (17, 400), (999, 1000)):
        found = fused(np.zeros(end - begin, np.float32), begin)
        np.testing.assert_array_equal(found, whole[begin:end])
    inside = fuser.fuse(lambda x: functional.rand_like(x, seed=3)[5:90:4], fallback="error")
    np.testing.assert_array_equal(inside(np.zeros(1000, np.float32)), whole[5:90:4])
