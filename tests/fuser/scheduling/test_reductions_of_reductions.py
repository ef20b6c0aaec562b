"""Reductions of what reductions give, beside NumPy: loop nests of one kernel."""

from collections.abc import Callable
from functools import partial
from random import Random
from typing import Any

import numpy as np
import pytest

import fuser
from tests.fuser.comparing import assert_same
from tests.fuser.random_programs import laid_out
from tests.settings import settings

GENERATOR = np.random.default_rng(7)
Function = Callable[..., Any]


def _cross_entropy(x: Any, y: Any) -> Any:
    z = x - x.max(-1, keepdims=True)
    return (np.log(np.exp(z).sum(-1)) - (z * y).sum(-1)).mean()


def _spread(x: Any) -> Any:
    return ((x - x.mean(-1, keepdims=True)) ** 2).sum(-1).mean()


def _kept_too(x: Any) -> Any:
    e = np.exp(x - x.max(-1, keepdims=True))
    p = e / e.sum(-1, keepdims=True)
    return p, (p * p).sum(), -np.log(p.max(-1)).mean() * 3


def _of_elements(x: Any, y: Any) -> Any:
    return x.sum(-1), x.sum(), (x * y).max(), np.abs(x - x.mean(-1, keepdims=True)).sum()


def _with_shape(x: Any) -> Any:
    rows = x.sum(-1, keepdims=True)
    return rows.sum(keepdims=True), rows.min(), rows


def _gradients(x: Any, y: Any) -> Any:
    rest = x - x.mean(-1, keepdims=True)
    return rest * y, (rest * y).sum(0), rest.sum(0), np.abs(rest).sum(-1).mean()


#: name -> (function, operands)
FUNCTIONS: dict[str, tuple[Function, int]] = {
    "cross entropy": (_cross_entropy, 2),
    "spread": (_spread, 1),
    "largest norm": (lambda x: np.linalg.norm(x, axis=-1).max(), 1),
    "sum of sums": (lambda x: x.sum(-1).sum(), 1),
    "kept too": (_kept_too, 1),
    "of elements": (_of_elements, 2),
    "with shape": (_with_shape, 1),
    "of several": (lambda x: (x.max(-1) - x.min(-1)).mean() / (x.max(-1).max() + 7), 1),
    "divergence": (lambda x, y: (np.exp(x) * (x - y)).sum(-1).mean(), 2),
    "columns": (lambda x: x.sum(0).max(), 1),
    "scaled": (lambda x: x / x.sum(-1).max(), 1),
    "centred": (lambda x: (lambda rows: rows - rows.mean())(x.sum(-1)), 1),
    "deviation": (lambda x: x.sum(-1).std(), 1),
    "gradients": (_gradients, 2),
}


_check = partial(assert_same, close=2e-5)
SHAPES = [(37, 129), (1, 5), (5, 1), (1000, 3), (300, 70), (3, 7, 33), (40, 2049)]


@pytest.mark.parametrize("name", ["cross entropy", "spread", "largest norm", "divergence"])
def test_one_kernel_moves_the_least_bytes(name: str) -> None:
    """What rows come to stays in the cache: arguments are read once, results written once."""
    function, count = FUNCTIONS[name]
    arrays = [np.ones((37, 129), np.float32) for _ in range(count)]
    told = fuser.fuse(function).explain(*arrays)
    assert len(told.groups) == 1
    assert told.ledger.planned_bytes == told.ledger.least_bytes == 4 * (count * 37 * 129 + 1)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_numpys_results(name: str) -> None:
    """Short and long rows, few and many, of both widths: every schedule."""
    function, count = FUNCTIONS[name]
    for place, shape in enumerate(SHAPES):
        dtype = ("f4", "f8")[place % 2]
        _check(function, *(GENERATOR.normal(size=shape).astype(dtype) for _ in range(count)))


@pytest.mark.parametrize("dtype", ["bool", "i1", "u2", "i4", "i8", "u8", "f2", "f4", "f8"])
def test_every_dtype(dtype: str) -> None:
    """Sums, products and extremes of rows, and of these; integers exactly, with wrap-around."""

    def function(x: Any) -> Any:
        counts = np.count_nonzero(x, axis=-1)
        return (
            x.sum(-1).sum(), x.max(-1).min(), x.prod(-1).max(), counts.max(), x.any(-1).all(),
            (x.max(-1) * 2).mean(),
        )  # fmt: skip

    x = (GENERATOR.normal(size=(70, 19)) * 3).astype(dtype)
    _check(function, x, close=2e-3 if dtype == "f2" else 2e-5)


@pytest.mark.parametrize("seed", range(12))
def test_layouts(seed: int) -> None:
    """Transposed, strided, reversed and repeated memory: rows may lie as columns do."""
    random = Random(seed)
    shape = random.choice([(6, 40), (41, 70), (3, 5, 20), (130, 9), (2, 700)])
    x, y = (laid_out(random, GENERATOR.normal(size=shape)) for _ in range(2))
    for name in ("cross entropy", "of elements", "kept too"):
        function, count = FUNCTIONS[name]
        _check(function, *(x, y)[:count])


def test_nothing_to_reduce() -> None:
    """No rows, rows of no elements: 0, NaN or the error that NumPy raises."""
    for shape in ((0, 7), (5, 0), (0, 0)):
        x = np.ones(shape)
        _check(lambda x: (x.sum(-1).sum(), np.exp(x).sum(-1).sum() / x.shape[0]), x)
    fused = fuser.fuse(lambda x: x.sum(-1).max(), fallback="allow")
    with pytest.raises(ValueError, match="zero-size"):
        fused(np.ones((0, 7)))
    assert fused(np.ones((3, 0))) == 0


def test_values_that_are_not_numbers() -> None:
    """NaN and infinities of a row reach the results as they reach NumPy's."""
    for value in (np.nan, np.inf, -np.inf, -0.0):
        for shape in ((70, 33), (400, 4), (3, 300)):
            x = GENERATOR.normal(size=shape).astype(np.float32)
            x[1, 2] = value
            for name in ("cross entropy", "of elements", "largest norm", "with shape"):
                function, count = FUNCTIONS[name]
                _check(function, *[x] * count)


def test_errors_no_worse_than_numpys() -> None:
    """Sums of row sums of float32, over an ensemble."""
    fused = fuser.fuse(lambda x: x.sum(-1).sum(), fallback="error")
    ours = numpys = 0.0
    for seed in range(20):
        x = np.random.default_rng(seed).uniform(0, 1, (200, 301)).astype(np.float32)
        exact = x.astype(np.float64).sum()
        ours += (fused(x) - exact) ** 2
        numpys += (x.sum(-1).sum() - exact) ** 2
    assert ours <= numpys


def test_the_same_bits_whatever_the_number_of_threads() -> None:
    """Blocks of rows depend on lengths alone, and are joined in order."""
    for shape in ((700, 901), (70_000, 5), (3, 300_000)):
        x = GENERATOR.normal(size=shape).astype(np.float32)
        fused = fuser.fuse(_kept_too, fallback="error")
        found = set()
        for threads in (1, 2, 3):
            with settings(num_threads=threads):
                found.add(tuple(result.tobytes() for result in fused(x)))
        assert len(found) == 1


def test_random_reductions_of_reductions() -> None:
    """Prologues, rows' reductions, what is made of them, and its reductions; several at once."""
    pointwise: list[Function] = [np.abs, np.square, np.tanh, lambda v: v * 0.5 + 1, np.exp]
    rows: list[str] = ["sum", "max", "min", "mean"]
    for seed in range(25):
        random = Random(seed)
        before, after = random.choice(pointwise), random.choice(pointwise)
        one, two, three = (random.choice(rows) for _ in range(3))
        axes = random.choice([(-1,), (-1, -2)])
        keep, stored, element = (random.random() < 0.5 for _ in range(3))

        def function(
            x: Any, y: Any, before: Any = before, after: Any = after, one: str = one,
            two: str = two, three: str = three, axes: Any = axes, keep: bool = keep,
            stored: bool = stored, element: bool = element,
        ) -> Any:  # fmt: skip
            first = getattr(before(x), one)(axis=axes, keepdims=True)
            second = getattr(x - first, two)(axis=axes, keepdims=keep)
            found = [getattr(after(second), three)(), (second * 2).sum() / 3]
            if element:
                found.append(((x - first) * y).sum())
            return (*found, second) if stored else tuple(found)

        shape = random.choice([(7, 5, 33), (40, 3, 4), (2, 3, 500)])
        arrays = [laid_out(random, GENERATOR.uniform(-1, 1, shape)) for _ in range(2)]
        _check(function, *arrays)


def test_a_total_beside_rows_of_one_element() -> None:
    """Of one variance: nothing says whether an operand is a row's element or its result."""

    def program(x: Any) -> Any:
        one = np.var(x, axis=0, keepdims=True)
        less = one - np.sum(one, axis=0, keepdims=True)
        return np.minimum(one, one) + less, (one[:, None] - one[None, :]).sum(1), one

    x = np.arange(40, dtype=np.float32)
    found = fuser.fuse(program, fallback="error")(x)
    for wanted, each in zip(program(x), found, strict=True):
        np.testing.assert_allclose(each, wanted, rtol=1e-6)
