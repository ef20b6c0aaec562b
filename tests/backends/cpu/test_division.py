"""Division by what stays the same in a loop: NumPy's bits, whatever the operands."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import fuser
from fuser.backends.cpu.body import Body, Features, Module, Value
from fuser.backends.cpu.division import DIVIDENDS, DIVISORS, divide, is_served, prepare
from fuser.backends.cpu.emit import emit
from fuser.backends.cpu.machine.target import KNOWN_TARGETS
from fuser.codegen import Instruction, LoopNest
from fuser.ir.specs import CONTIGUOUS, INVARIANT, TensorDesc

GENERATOR = np.random.default_rng(5)
MANTISSAS = (0, 1, 2, 3, (1 << 52) - 1, (1 << 52) - 2, 1 << 51, (1 << 51) + 1, 0x5555555555555)
FUSED = fuser.fuse(lambda a, b: a / b, fallback="error")


def _doubles(bits: Any) -> Any:
    """Numbers from their bits, and those with the other sign."""
    found = np.asarray(bits, np.uint64)
    return np.concatenate([found, found | np.uint64(1 << 63)]).view(np.float64)


def _all_exponents() -> Any:
    """Every exponent, subnormal numbers, zeros, infinities and NaN among them."""
    exponents = np.arange(2048, dtype=np.uint64) << np.uint64(52)
    drawn = GENERATOR.integers(0, 1 << 52, 2, dtype=np.uint64)
    mantissas = np.concatenate([np.asarray(MANTISSAS, np.uint64), drawn])
    return _doubles((exponents[:, None] | mantissas).ravel())


def _divisors() -> Iterator[float]:
    """Ends of the range, powers of two, mantissas of ones, numbers outside, and drawn ones."""
    ends = [np.uint64(end + step) for end in DIVISORS for step in (-1, 0, 1)]
    yield from _doubles(ends)
    yield from (0.0, -0.0, np.inf, -np.inf, np.nan, 5e-324, 1e308, 1.0, 2.0, 0.125, 3.7, -3.7)
    yield from 2.0 - np.arange(1, 20) * 2.0**-52
    yield from 1.0 + np.arange(1, 20) * 2.0**-52
    yield from GENERATOR.uniform(1.0, 2.0, 40)
    yield from np.exp2(GENERATOR.uniform(-400.0, 400.0, 20))


def _hard(divisor: float) -> Any:
    """Dividends whose quotients lie beside the middle of two numbers, or beside 1."""
    quotients = GENERATOR.uniform(1.0, 2.0, 500)
    wide = quotients.astype(np.longdouble) + np.longdouble(2.0**-53)
    beside = divisor * (1.0 + np.arange(-50, 50) * 2.0**-52)
    return np.concatenate([(wide * divisor).astype(np.float64), beside])


def _check(found: Any, wanted: Any) -> None:
    """The same bits, but for those of NaN."""
    same = found.view(np.uint64) == wanted.view(np.uint64)
    assert np.all(same | (np.isnan(found) & np.isnan(wanted)))


def test_quotients_have_numpys_bits() -> None:
    """Vectors of good dividends take products; each other dividend makes its vector divide."""
    every = _all_exponents()
    edges = _doubles([np.uint64(end + step) for end in DIVIDENDS for step in (-1, 0, 1)])
    inside = np.abs(every.view(np.int64) & (2**63 - 1))
    good = every[(inside >= DIVIDENDS[0]) & (inside < DIVIDENDS[1])]
    with np.errstate(all="ignore"):
        for divisor in map(np.float64, _divisors()):
            hard = _hard(divisor)
            for dividends in (good, every[:4096], every[-4096:], hard, np.repeat(edges, 16)):
                _check(FUSED(dividends, divisor), dividends / divisor)


def test_zeros_keep_their_signs() -> None:
    """Beside good dividends, for divisors of both signs and outside of the range."""
    for divisor in (3.0, -3.0, 1e-200, 1e200, -1e200, np.inf, -np.inf):
        dividends = np.array([0.0, -0.0, 1.5, -2.5] * 16)
        _check(FUSED(dividends, divisor), dividends / divisor)


@pytest.mark.parametrize("length", [3, 16, 63, 64, 1023, 300_001])
def test_rows_have_a_divisor_each(length: int) -> None:
    """Rows of maps, and of reductions whose elements are divided by the result, however long."""

    def by_result(x: Any) -> Any:
        return x / np.max(x, axis=-1, keepdims=True)

    x = GENERATOR.normal(size=(5, length))
    x[1] = -np.abs(x[1]) - 1.0
    x[2] *= 1e-310
    x[3, 0] = np.inf
    x[4, ::2] = 0.0
    with np.errstate(all="ignore"):
        _check(fuser.fuse(by_result, fallback="error")(x), by_result(x))
        _check(FUSED(x, x[:, :1].copy()), x / x[:, :1])


def _nest(divisor: str, dtype: str = "float64") -> LoopNest:
    """x / y, where y is a row's one value or an element."""
    loads = (TensorDesc(dtype, CONTIGUOUS), TensorDesc(dtype, divisor))
    body = (Instruction("divide", (0, 1), dtype, dtype),)
    return LoopNest(2, loads, (), (), body, ((2, TensorDesc(dtype, CONTIGUOUS)),), False)


def test_only_what_gains_is_spelled_so() -> None:
    """Not by narrow vectors, not for float32, not where each element has its own divisor."""
    for name, (_, _, features) in KNOWN_TARGETS.items():
        assert is_served(features) == (name == "avx512")
        assert ("divided" in emit([_nest(INVARIANT)], "k", features)) == is_served(features)
        assert "divided" not in emit([_nest(CONTIGUOUS)], "k", features)
        assert "divided" not in emit([_nest(INVARIANT, "float32")], "k", features)


def test_one_true_division_stands_before_the_loop() -> None:
    """The other one is behind a branch."""
    b = Body(Module(Features(vector_bytes=64, fma=True, masked=True)))
    known = prepare(b, Value("%b", "double", 1), 16)
    (first,) = [line for line in b.lines if "fdiv" in line]
    assert first.endswith("fdiv double 0x3FF0000000000000, %b")
    before = len(b.lines)
    divide(b, Value("%a", "double", 16), known)
    (place,) = [k for k, line in enumerate(b.lines) if k >= before and "fdiv" in line]
    assert b.lines[place - 1].startswith("divide.")
