"""Python scalars: weak promotion, range checks, run-time values, and values as structure."""

import math
import operator
import random
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import fuser
from tests.fuser.comparing import assert_same, compare
from tests.fuser.random_programs import DTYPES

V = np.arange(20, dtype=np.float32)
OPERATIONS: dict[str, Any] = {
    "add": operator.add,
    "subtract, reflected": lambda x, s: s - x,
    "multiply": operator.mul,
    "divide": operator.truediv,
    "floor": operator.floordiv,
    "less": operator.lt,
    "equal": operator.eq,
    "greater equal": lambda x, s: s >= x,
    "and": operator.and_,
    "maximum": np.maximum,
    "where": lambda x, s: np.where(x > 1, x, s),
    "clip": lambda x, s: np.clip(x, 0, s),
    "square": lambda x, s: x**2 + s,
}
NUMBERS = st.one_of(
    st.booleans(),
    st.integers(-(2**65), 2**65),
    st.sampled_from([0, 1, -1, 127, 128, -128, -129, 255, 256, 2**31, 2**63, 2**64, -(2**63)]),
    st.floats(width=32),
    st.sampled_from([0.5, -0.0, 1e300, math.inf, math.nan]),
    st.sampled_from(DTYPES).map(lambda name: np.dtype(name).type(3)),
)
RUNNING = {
    name: fuser.fuse(lambda x, s, f=f: f(x, s), fallback="allow") for name, f in OPERATIONS.items()
}


@settings(max_examples=140)
@given(name=st.sampled_from(sorted(OPERATIONS)), dtype=st.sampled_from(DTYPES), number=NUMBERS)
def test_promotion_of_scalars_with_arrays(name: str, dtype: str, number: Any) -> None:
    """NEP 50 for every dtype: run-time values, with those of earlier calls remembered."""
    array = np.array([0, 1, 1, 0] if dtype == "bool" else [0, 1, 2, 3], dtype)
    if name == "clip" and isinstance(number, float) and not number:
        return  # NumPy's sign of a zero that equals a bound depends on its loop
    assert_same(RUNNING[name], array, number)


@settings(max_examples=80)
@given(chance=st.randoms(use_true_random=False))
def test_promotion_of_arrays_with_arrays(chance: random.Random) -> None:
    """Any two dtypes, arrays and 0-d arrays and NumPy scalars."""
    operands = []
    for _ in range(2):
        values = np.array([0, 1, 2, 3], chance.choice(DTYPES))
        operands.append(chance.choice([values, values[2], np.array(values[3])]))
    assert_same(RUNNING[chance.choice(sorted(OPERATIONS))], *operands)


@pytest.mark.parametrize("first", [3, 300])
def test_integers_that_do_not_fit(first: int) -> None:
    """OverflowError at the first call and at later ones; arguments and out= stay untouched."""
    fused = fuser.fuse(lambda x, s: x + s, fallback="error")
    x, room = np.arange(4, dtype=np.int8), np.full(4, 9, np.int8)
    for number in (first, 300, 2**70, 4):
        if number < 128:
            np.testing.assert_array_equal(fused(x, number), x + number)
            continue
        with pytest.raises(OverflowError):
            fused(x, number, out=room)
        np.testing.assert_array_equal(room, 9)


def test_comparisons_with_integers_out_of_range() -> None:
    """They mean what the numbers mean, whatever the order of calls."""
    fused = fuser.fuse(lambda x, s: (x < s, x == s, np.where(x > 1, x, 7)), fallback="allow")
    for number in (3, 300, -300, 2**70, -(2**70), 2):
        assert compare(fused, np.arange(4, dtype=np.uint8), number) == ""
    assert fused.fallbacks[0].code == "scalar-range"


def test_values_compile_nothing_and_types_retrace() -> None:
    """Ten floats are one kernel; int and bool are other graphs."""
    fused = fuser.fuse(lambda x, s: x * s + s * 2, fallback="error")
    before = fuser.n_compiled_kernels()
    for number in range(10):
        assert compare(fused, V, number * 1.5) == ""
    assert fuser.n_compiled_kernels() - before == 1
    for number in (3, True, np.float64(2), np.float32(2), 4):
        assert compare(fused, V, number) == ""
    assert len(fused._signatures) == 5


HOST: dict[str, Any] = {
    "arithmetic": lambda x, s: x * (s * 2 + 1) / (s - 0.5) ** 2,
    "negated": lambda x, s: x * -s + abs(s) - (+s),
    "integer": lambda x, s: x + (s // 2) % 3,
    "compared": lambda x, s: np.where(s > 2, x, -x),
    "functions": lambda x, s: x * np.sqrt(s) + np.maximum(s, 1),
    "math": lambda x, s: x * math.sin(s),
    "array": lambda x, s: np.array([s, 1.0]) * x[:2],
    "lengths": lambda x, s: (x * x.shape[0] + x.size - len(x) * s) / (x.shape[0] + 1),
    "divmod": lambda x, s: divmod(x, s),
    "returned": lambda x, s: (s, s * 2, s > 1, x.shape[0] * s, -s),
    "formatted": lambda x, s: (f"{s}", x),
}


@pytest.mark.parametrize("name", HOST)
def test_expressions_over_scalars(name: str) -> None:
    """Python's own arithmetic stays symbolic; functions of math guard the value."""
    fused = fuser.fuse(HOST[name], fallback="error")
    for length, number in ((20, 3), (20, 7), (5, 3), (20, 2.5)):
        assert compare(fused, V[:length], number, ulp=1) == ""


def branch(x: Any, s: Any) -> Any:
    """Decide by a scalar."""
    return x + 1 if s > 0 else x - 1


def repeat(x: Any, s: Any) -> Any:
    """Loop as often as a scalar says."""
    for k in range(int(s)):
        x = x * k + 1
    return x


def pick(x: Any, s: Any) -> Any:
    """Index by a scalar that is looked up."""
    return x[list(range(100))[s]] * 2


def along(x: Any, s: Any) -> Any:
    """Choose an axis by a scalar."""
    return np.flip(x.reshape(4, -1), int(s) % 2)


@pytest.mark.parametrize("function", [branch, repeat, pick, along])
def test_values_as_structure_are_guards(function: Any) -> None:
    """if, range, index and axis: each value gives NumPy's answer, and explain lists the guard."""
    fused = fuser.fuse(function, fallback="error")
    for number in (1, 2, 0, 5, 1):
        assert compare(fused, V, number) == ""
    assert fused.explain(V, 1).guards


def test_truth_is_one_guard() -> None:
    """`if s > 0` needs two specialisations, not one a value."""
    fused = fuser.fuse(branch, fallback="error")
    for number in (1, 2, -1, 7, -9, 0):
        fused(V, number)
    (entry,) = fused._signatures.values()
    assert len(entry.found) == 2


def test_too_many_values_fall_back() -> None:
    """Eight specialisations, then the reason; answers stay right."""
    fused = fuser.fuse(pick, fallback="allow")
    for number in range(12):
        assert fused(V, number) == 2 * number
    assert [reason.code for reason in fused.fallbacks] == ["value-guards"]
    assert fuser.stats()["fallback.value-guards"] >= 4


def test_loops_over_a_length_are_guards() -> None:
    """`for i in range(x.shape[0])` unrolls for each length."""

    def total(x: Any) -> Any:
        """Sum rows."""
        found = x[0]
        for k in range(1, x.shape[0]):
            found = found + x[k]
        return found

    fused = fuser.fuse(total, fallback="error")
    for length in (1, 2, 5, 2):
        assert compare(fused, np.ones((length, 3))) == ""


def test_guards_tell_values_apart_by_their_bits() -> None:
    """0.0 is not -0.0 where it decides structure, and NaN does not retrace for ever."""
    fused = fuser.fuse(lambda x, s: x * math.copysign(1.0, s), fallback="error")
    for number in (0.0, -0.0, 1.0, math.nan, math.nan, -0.0, 0.0):
        assert compare(fused, V, number) == ""
    (entry,) = fused._signatures.values()
    assert len(entry.found) == 4


def test_exponents_that_numpy_knows_are_no_powers() -> None:
    """Two and a half are kernels of their own, with NumPy's bits; all others share one."""

    def raised(x: Any, p: Any) -> Any:
        return np.abs(x) ** p, x**p

    fused = fuser.fuse(raised, fallback="error")
    x = np.array([0.0, -0.0, 1.5, -3.0, np.inf, -np.inf, np.nan, 1e-320])
    ints = np.array([3, -4, 100], np.int8)
    before = fuser.n_compiled_kernels()
    with np.errstate(all="ignore"):
        for p in (3.0, 2.0, 0.5, 1.7, 2.0, -1.5, 0.5, 3.0):
            for one, other in zip(raised(x, p), fused(x, p), strict=True):
                if p in (2.0, 0.5):
                    np.testing.assert_array_equal(np.signbit(other[:6]), np.signbit(one[:6]))
                    np.testing.assert_array_equal(other, one)
                np.testing.assert_allclose(other, one, rtol=1e-14)
        assert fuser.n_compiled_kernels() - before == 3
        for p in (2, 3, 2, 5):
            for given in (x, ints):
                for one, other in zip(raised(given, p), fused(given, p), strict=True):
                    assert one.dtype == other.dtype
                    np.testing.assert_allclose(other, one, rtol=1e-14)


@pytest.mark.parametrize("function", [np.sqrt, np.abs, np.negative, np.add, np.maximum, np.exp])
def test_integers_alone_that_no_int64_holds(function: Any) -> None:
    """NumPy has unsigned ones, or objects, for them; in calls after others as well."""

    def work(s: int) -> Any:
        """Of numbers alone."""
        return function(s, 2) if function.nin == 2 else function(s)

    fused = fuser.fuse(work, fallback="allow")
    for number in (4, 2**63, 2**64, -(2**63), -(2**63) - 1, 9):
        assert_same(fused, number)


@pytest.mark.parametrize("length", [-1, 2, 3, 6, 0, -2, True, 4])
def test_lengths_of_a_reshape_as_arguments(length: Any) -> None:
    """Also -1, and what NumPy refuses."""
    x = np.arange(6.0)
    assert_same(lambda x, b: x.reshape(-1, b) * 2, x, length, fallback="allow")
    assert_same(lambda x, b: np.reshape(x, (b, -1)) * 2, x, length, fallback="allow")
    assert_same(lambda x, b: np.reshape(x, b) * 2, x, length, fallback="allow")


def _long_sum(x: Any, n: int, m: int) -> Any:
    total = 0.25
    for _ in range(n):
        total += m
    return x + 1, total


def test_a_number_of_more_operations_than_the_parser_takes() -> None:
    """NumPy runs the call, with the reason; fewer stay an expression."""
    fused, x = fuser.fuse(_long_sum, fallback="allow"), np.ones(3)
    for n in (150, 190, 199, 210, 300):
        assert fused(x, n, 2)[1] == _long_sum(x, n, 2)[1]
        assert fused(x, n, 3)[1] == _long_sum(x, n, 3)[1]


def test_quotient_and_remainder_at_once() -> None:
    """Of lengths, numbers and arrays, either way round; a zero divisor raises."""

    def both(x: Any, k: Any) -> Any:
        count, rest = divmod(9, len(x) - 5)
        return x * count + rest, divmod(k, 2.5)[1] * x, divmod(x, len(x))[1], divmod(7, x)[0]

    fused = fuser.fuse(both, fallback="error")
    for length in (6, 7, 9, 4, 6):
        x = np.arange(1.0, length + 1)
        for found, wanted in zip(fused(x, -7.5), both(x, -7.5), strict=True):
            assert np.array_equal(found, wanted)
    with pytest.raises(ZeroDivisionError):
        fused(np.ones(5), 1.0)
