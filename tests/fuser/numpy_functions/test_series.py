"""np.choose, np.linspace between arrays, np.unwrap, np.convolve: values, dtypes, order, errors."""

from typing import Any

import numpy as np
import pytest

import fuser
from tests.fuser.comparing import assert_same, compare

CHANCE = np.random.default_rng(5)
X = CHANCE.integers(-8, 9, (4, 6)) / 4
S = X.astype(np.float32)
V = CHANCE.integers(-8, 9, 30) / 2
HOLES = np.where(V > 3, np.nan, np.where(V < -3, np.inf, V))
N = CHANCE.integers(0, 3, (4, 6))
TAPS = np.array([1.0, -2.0, 0.5])
HALF = V.astype(np.float32)

CHOICES: dict[str, tuple[Any, tuple[Any, ...]]] = {
    "truth values": (lambda x: np.choose(x > 0, [x * 2, x - 1]), (X,)),
    "converted": (lambda x: np.choose((x > 0).astype(int), [0.0, x]), (S,)),
    "added": (lambda x: np.choose((x > 0) * 1 + (x > 1), [x, -x, 3]), (S,)),
    "remainders": (lambda n, x: np.choose(n % 3, [x, x * 2, -x]), (N, X)),
    "clipped before": (lambda n, x: np.choose(np.clip(n, 0, 1), (x, 1)), (N, X)),
    "any numbers": (lambda n, x: np.choose(n, [x, x * 2, -x]) + 1, (N, X)),
    "clipped": (lambda n, x: np.choose(n * 3 - 2, [x, -x], mode="clip"), (N, X)),
    "wrapped": (lambda n, x: np.choose(n * 3 - 4, [x, -x, 0], mode="wrap"), (N, X)),
    "small numbers": (lambda n, x: np.choose(n, [x, 1, 2]), (N.astype(np.int8), S)),
    "one choice": (lambda n, x: np.choose(n * 0, [x[0]]), (N, X)),
    "broadcast": (lambda n, x: np.choose(n[0] % 2, [x, x[:, :1]]), (N, X)),
    "other orders": (lambda n, x: np.choose(n % 3, [x, x.T.T, 0]), (N.T, np.asfortranarray(X.T))),
    "a number": (lambda n, x: np.choose(n[0, 0], [x, -x, x]), (N, X)),
    "scalars": (lambda n, x: np.choose(n[0, 0], [x[0, 0], 2.0, 3.0]), (N, X)),
    "negative zeros": (lambda n, x: np.choose(n, [x * -0.0, x * 0.0, -0.0]), (N, X)),
    "empty": (lambda n, x: np.choose(n, [x, -x, x]), (N[:, :0], X[:, :0])),
}
LINES: dict[str, tuple[Any, tuple[Any, ...]]] = {
    "between rows": (lambda x: np.linspace(x[0], x[1], 5), (X,)),
    "single precision": (lambda x: np.linspace(x[0], x[1] * 3, 7) * 2, (S,)),
    "from a number": (lambda x: np.linspace(0, x, 4), (S,)),
    "to a number": (lambda x: np.linspace(x[0, 0], 1, 6), (S,)),
    "without the end": (lambda x: np.linspace(x, x + 1, 3, endpoint=False), (X,)),
    "last axis": (lambda x: np.linspace(x, x * 2, 3, axis=-1), (X,)),
    "other order": (lambda x: np.linspace(x, x.max(), 4), (np.asfortranarray(X),)),
    "two numbers": (lambda x: np.linspace(x.min(), x.max(), 9), (X,)),
    "steps of 0": (lambda x: np.linspace(x, np.maximum(x, 0.3), 4), (X,)),
    "tiny steps": (lambda x: np.linspace(x * 5e-324, x * 1e-323, 6), (X,)),
    "integers": (lambda n: np.linspace(n[0], n[1], 4), (N,)),
    "NaN": (lambda x: np.linspace(x, 1.0, 4), (np.where(X > 1, np.nan, X),)),
    "nothing": (lambda x: np.linspace(x[0], x[1], 3), (X[:, :0],)),
}
FILTERS: dict[str, tuple[Any, tuple[Any, ...]]] = {
    "full": (lambda v: np.convolve(v * 2, [1, 2.5, -1]), (V,)),
    "same": (lambda v: np.convolve(v, [0.25, 0.5, 0.25], "same") - v, (V,)),
    "same of an even number": (lambda v: np.convolve(v, [1, 2, 3, 4.0], mode="same"), (V,)),
    "valid": (lambda v: np.convolve(v, [1.0, 2, 3], mode="valid"), (V,)),
    "valid with an array": (lambda v: np.convolve(v, TAPS, "valid") * 2, (V,)),
    "valid with an argument": (lambda v, t: np.convolve(v, t * 2, "valid"), (V, TAPS)),
    "full with an argument": (lambda v, t: np.convolve(v, t * 2), (V, TAPS)),
    "same with an array": (lambda v: np.convolve(v, TAPS, "same"), (HOLES,)),
    "same, made here": (lambda v: np.convolve(v, np.ones(5) / 5, mode="same"), (V,)),
    "made here": (lambda v: np.convolve(v, np.ones(4) / 4, "valid"), (V,)),
    "one tap": (lambda v: np.convolve(v, [2.0]), (V,)),
    "integers": (lambda n: np.convolve(n, [1, 2, 1]), (N.ravel().astype(np.int16),)),
    "single precision": (lambda v, t: np.convolve(v, t, "valid"), (HALF, TAPS.astype("f4"))),
    "mixed": (lambda v: np.convolve(v, [1.0, 2.0], "same"), (V.astype("f4"),)),
    "NaN and infinities": (lambda v: np.convolve(v, [1.0, 2.0, 0.5]), (HOLES,)),
    "negative zeros": (lambda v: np.convolve(v * -0.0, [1.0, 2.0], "same"), (abs(V),)),
    "from the end": (lambda v: np.convolve(v, [1.0, 2.0, 4.0], "same"), (V[::-1],)),
    "as long as the filter": (lambda v: np.convolve(v, [1.0, 2, 3], "valid"), (V[:3],)),
}  # fmt: skip


@pytest.mark.parametrize("name", CHOICES)
def test_choices(name: str) -> None:
    """In kernels alone."""
    function, args = CHOICES[name]
    assert_same(function, *args)


@pytest.mark.parametrize("name", LINES)
def test_lines_between_arrays(name: str) -> None:
    """To the last bit."""
    function, args = LINES[name]
    assert_same(function, *args)


@pytest.mark.parametrize("name", FILTERS)
def test_short_filters(name: str) -> None:
    """Sums of a few products."""
    function, args = FILTERS[name]
    assert_same(function, *args, ulp=4)


@pytest.mark.parametrize(
    ("function", "args"),
    [
        (CHOICES["any numbers"][0], (N - 1, X)),
        (CHOICES["any numbers"][0], (N + 1, X)),
        (CHOICES["any numbers"][0], (N.astype(np.uint64), X)),
        (CHOICES["any numbers"][0], (N * 1.0, X)),
        (FILTERS["valid"][0], (V[:2],)),
        (FILTERS["full"][0], (V[:2],)),
        (FILTERS["full"][0], (V[:0],)),
        (FILTERS["valid with an argument"][0], (V, TAPS[:0])),
        (FILTERS["valid with an argument"][0], (V, V)),
        (lambda v, t: np.convolve(v, t), (V, np.array([1.0, np.inf]))),
        (lambda v, t: np.convolve(v, t, "same"), (V, np.array([1.0, np.nan, 2.0]))),
        (lambda v: np.convolve(v, [1.0, np.inf, 2.0]), (V,)),
        (lambda v: np.convolve(v, [1.0, 2.0], "none"), (V,)),
    ],
)
def test_other_forms_are_numpys(function: Any, args: Any) -> None:
    """Its results, or its errors."""
    assert compare(function, *args, fallback="allow", ulp=4) == ""


def test_an_array_of_choices_and_many_filters() -> None:
    """Lengths of filters are few specialisations; wrong numbers raise after right ones."""
    fused = fuser.fuse(CHOICES["any numbers"][0], fallback="allow")
    for number in (N, N - 1, N, N + 1):
        assert compare(fused, number, X) == ""
    fused = fuser.fuse(FILTERS["valid with an argument"][0], fallback="allow")
    for length in (3, 1, 2, 6, 9, 12, 20, 3):
        assert compare(fused, V, np.arange(1.0, length + 1), ulp=4) == ""


@pytest.mark.parametrize("axis", [-1, 0])
@pytest.mark.parametrize("kind", [np.float64, np.float32, np.int64])
def test_phases(kind: Any, axis: int) -> None:
    """Fused, the running sum with it."""
    phases = (X * 9).astype(kind)
    for x in (phases, np.asfortranarray(phases), phases[:, ::-1], phases[:1], phases[:, :0]):
        assert_same(lambda p: np.unwrap(p * 2, axis=axis) - 1, x, fallback="allow", ulp=8)
        assert_same(lambda p: np.unwrap(p, axis=axis, period=4), x, fallback="allow", ulp=8)
        assert_same(lambda p: np.unwrap(p, 4, axis=axis), x, fallback="allow", ulp=8)
    fused = fuser.fuse(lambda p: np.unwrap(p * 2) - 1, fallback="allow")
    fused(X)
    assert not fused.fallbacks
    assert_same(fused, np.where(X > 1, np.nan, X))
