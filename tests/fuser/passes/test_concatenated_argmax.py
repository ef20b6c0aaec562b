"""Layers and joined parts compared, not stored: bytes by hand, and NumPy's places and results."""

from typing import Any

import numpy as np
import pytest

import fuser
from tests.fuser.comparing import compare
from tests.fuser.passes.test_concatenated_reductions import book_of


def largest_layer(a: Any, b: Any, c: Any) -> Any:
    """Which of three arrays is the largest, and which the smallest."""
    z = np.stack([a, b, c])
    return z.argmax(0), np.argmin(z, axis=0)


def last_axis(a: Any, b: Any, c: Any) -> Any:
    """Layers along the last axis."""
    return np.stack([a, b, c], axis=-1).argmax(-1)


def softmax_of_layers(a: Any, b: Any, c: Any) -> Any:
    """Weights of three arrays."""
    z = np.stack([a, b, c])
    e = np.exp(z - z.max(0))
    return e / e.sum(0)


def scaled_layers(a: Any, b: Any, c: Any) -> Any:
    """Layers that an array along their axis scales, and how far they are apart."""
    z = np.stack([a, b, c], axis=1)
    return z * 2, (z - z.mean(1, keepdims=True)).std(1)


def places_of_all(a: Any, b: Any, c: Any) -> Any:
    """In arrays one after another."""
    z = np.concatenate([a, b, c], axis=0)
    return z.argmax(0), z.argmin(0)


N, M = 21, 13
#: name -> (function, shapes, kernels, bytes of a float64 call by hand)
COUNTED: dict[str, tuple[Any, list[tuple[int, ...]], int, int]] = {
    "largest_layer": (largest_layer, [(N, M)] * 3, 1, 8 * 5 * N * M),
    "last_axis": (last_axis, [(N, M)] * 3, 1, 8 * 4 * N * M),
    "softmax_of_layers": (softmax_of_layers, [(N, M)] * 3, 1, 8 * 6 * N * M),
    "scaled_layers": (scaled_layers, [(N, M)] * 3, 1, 8 * 7 * N * M),
    # extremes and places of two parts are stored, and read where the third is compared with them
    "places_of_all": (
        places_of_all, [(N, M), (5, M), (1, M)], 2, 8 * ((N + 6) * M + 2 * M + 2 * 8 * M)
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", COUNTED)
def test_planned_bytes_are_the_hand_count(name: str) -> None:
    """Nothing that is joined is stored."""
    function, shapes, kernels, moved = COUNTED[name]
    book = book_of(function, *[np.ones(shape) for shape in shapes])
    assert (book.kernels_fused, book.planned_bytes) == (kernels, moved)


def numbers(shape: tuple[int, ...], dtype: str, seed: int) -> Any:
    """Few different numbers, so that many are equal; floats are NaN and infinite as well."""
    random = np.random.default_rng(seed)
    if dtype.startswith("f"):
        some = np.array([0.0, -0.0, np.nan, np.inf, -np.inf, 1.0, 2.0, 1.5, -3.0])
        return random.choice(some, shape).astype(dtype)
    return random.integers(0, 2 if dtype == "bool" else 4, shape).astype(dtype)


@pytest.mark.parametrize("function", [largest_layer, last_axis, places_of_all])
@pytest.mark.parametrize("dtype", ["bool", "int8", "uint64", "float16", "float32", "float64"])
def test_places(function: Any, dtype: str) -> None:
    """The first of equal ones, the first NaN; parts of no elements; any layout."""
    fused = fuser.fuse(function, fallback="error")
    for seed, n in enumerate((0, 1, 2, 5, 33)):
        a, b, c = (numbers((n, 4), dtype, 3 * seed + k) for k in range(3))
        long = numbers((2 * n, 4), dtype, seed)
        assert not compare(fused, a, b, c)
        assert not compare(fused, a, long[::2], long[::-2])
        assert not compare(fused, a[:, 0], b[:, 1], c[:, 2])
        if function is places_of_all:
            assert not compare(fused, a[:0], b, a)
            assert not compare(fused, numbers((1, 4), dtype, seed), c[:0], b)


@pytest.mark.parametrize("function", [softmax_of_layers, scaled_layers])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_layers(function: Any, dtype: str) -> None:
    """NumPy's results, NaN and infinities too."""
    fused = fuser.fuse(function, fallback="error")
    for seed, n in enumerate((1, 2, 5, 33)):
        a, b, c = (numbers((n, 4), dtype, 3 * seed + k) for k in range(3))
        for arrays in ((a, b, c), (a[::-1], b, c), (a.T, b.T, c.T)):
            with np.errstate(all="ignore"):
                wanted = function(*arrays)
            found = fused(*arrays)
            wanted = wanted if type(wanted) is tuple else (wanted,)
            found = found if type(found) is tuple else (found,)
            for one, other in zip(found, wanted, strict=True):
                assert one.dtype == other.dtype
                np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-6)
