"""Slices and places that are computed from lengths: one specialisation for all, and right."""

from typing import Any

import numpy as np
import pytest

import fuser
from tests.fuser.comparing import compare


def halves(x: Any) -> Any:
    """Both halves, and what is between."""
    h = x.shape[0] // 2
    return x[:h] + x[-h:], x[h:] * 2


def middle(x: Any) -> Any:
    """A third of an axis."""
    n = len(x)
    return x[n // 3 : 2 * n // 3] * 2 + 1, x[n // 3 : 2 * n // 3].sum()


def neighbours(x: Any) -> Any:
    """Bounds a fixed number of places from the end."""
    n = x.shape[0]
    return x[1 : n - 1] - x[0 : n - 2], x[2:n] * 3, x[: n + 1] * 2


def stepped(x: Any) -> Any:
    """Every other element."""
    n = x.shape[0]
    return x[1 : n - 1 : 2] * 2, x[: n // 2 : 3] + 1, x[n // 2 :: 2] - 1


def places(x: Any) -> Any:
    """One element: the last, the middle, the quarter from the end."""
    n = len(x)
    return x[n - 1] * 2, x[n // 2] + x, x[-(n // 4) - 1]


def swapped(x: Any) -> Any:
    """Written into an array of its own."""
    h = x.shape[0] // 2
    y = x.copy()
    y[:h], y[-h:] = x[-h:].copy(), x[:h].copy()
    return y


def raised(x: Any) -> Any:
    """Written into the argument."""
    n = len(x)
    x[n // 4 : n // 2] += 1
    x[1 : n - 1] *= 2
    x[n // 2] = 7
    return x[: n // 2].sum()


def seen_twice(x: Any) -> Any:
    """A view that is written into is seen through another."""
    n = len(x)
    y = x * 1
    first, last = y[: n // 2 + 1], y[n // 2 :]
    first += 1
    last *= 3
    return first, last, y


def sorted_part(x: Any) -> Any:
    """NumPy writes between kernels."""
    y = x * 2
    y[: len(x) // 2].sort()
    return y + 1


def stencil(m: Any) -> Any:
    """Two axes, as written with lengths."""
    h, w = m.shape
    total = np.zeros((h - 2, w - 2))
    for i in range(3):
        for j in range(3):
            total += (i - j) * m[i : h - 2 + i, j : w - 2 + j]
    return total


def pooled(m: Any) -> Any:
    """Whole blocks, by a reshape that is written through."""
    h, w = m.shape[0] // 2, m.shape[1] // 2
    blocks = m[: 2 * h, : 2 * w].copy().reshape(h, 2, w, 2)
    blocks -= blocks.max(axis=(1, 3), keepdims=True)
    return blocks.reshape(2 * h, 2 * w)


def quarters(m: Any) -> Any:
    """A box of an array."""
    h, w = m.shape[0] // 2, m.shape[1] // 2
    y = np.zeros_like(m)
    y[:h, w:] = m[:h, w:] * 2
    y[h:, :w] = 1
    y[h, :w] -= m[h, :w]
    return y, y[..., w // 2 :].T


ROWS = [halves, middle, neighbours, stepped, places, swapped, raised, seen_twice, sorted_part]
LENGTHS = (24, 25, 17, 8, 3, 2, 1, 0, 40, 33, 9, 5, 4, 7, 100, 64)


@pytest.mark.parametrize("layout", [slice(None), slice(None, None, -1), slice(None, None, 2)])
@pytest.mark.parametrize("function", ROWS)
def test_every_length_of_rows_is_right(function: Any, layout: slice) -> None:
    """Also those so short that NumPy clips, or raises."""
    fused = fuser.fuse(function, fallback="allow")
    for n in LENGTHS:
        x = (np.arange(2.0 * n if layout.step == 2 else 1.0 * n) - n / 3)[layout]
        assert compare(fused, x, ulp=4) == "", n


@pytest.mark.parametrize("function", [stencil, pooled, quarters])
def test_every_length_of_matrices_is_right(function: Any) -> None:
    """In C and Fortran order."""
    fused = fuser.fuse(function, fallback="allow")
    for n in LENGTHS[:-2]:
        for m in (6, 7, n + 3, 2, 1):
            if (function is stencil and min(n, m) < 2) or (function is not stencil and n < 2):
                continue
            x = np.arange(1.0 * n * m).reshape(n, m) - 5
            assert compare(fused, x) == "", (n, m)
            assert compare(fused, np.asfortranarray(x)) == "", (n, m)


@pytest.mark.parametrize(
    ("function", "rank"), [*((each, 1) for each in ROWS), (stencil, 2), (pooled, 2), (quarters, 2)]
)
def test_no_length_is_a_specialisation_of_its_own(function: Any, rank: int) -> None:
    """However many there are."""
    fused = fuser.fuse(function, fallback="allow")
    for n in range(16, 48):
        fused(np.ones((n,) * rank))
    assert not any(reason.code == "value-guards" for reason in fused.fallbacks)
    guards = fused.explain(np.ones((16,) * rank)).guards
    assert not any(" is 8" in text or " is 15" in text for text in guards)
