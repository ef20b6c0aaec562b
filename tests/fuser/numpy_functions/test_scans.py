"""Results that run along an axis: values bit for bit, layouts, kernels, threads, refusals."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import fuser
from fuser.ir.ops import DTYPES
from tests.fuser.comparing import assert_alike

rng = np.random.default_rng(11)
UFUNCS = (np.add, np.multiply, np.maximum, np.minimum)


def numbers(dtype: str, *shape: int) -> Any:
    """Numbers of a dtype; of floats also -0.0, NaN and infinities."""
    values = rng.integers(-50, 50, shape).astype(dtype)
    if values.dtype.kind == "f" and values.size > 6:
        values = values / values.dtype.type(16)
        values.flat[0] = -0.0
        values.flat[-3:] = np.inf, -np.inf, np.nan
    return values


@pytest.mark.parametrize("ufunc", UFUNCS, ids=lambda ufunc: ufunc.__name__)
@pytest.mark.parametrize("dtype", DTYPES)
def test_every_dtype_and_axis(dtype: str, ufunc: np.ufunc) -> None:
    """Of one to three axes, along each of them, of any length; -0.0 comes first and stays."""
    rows = fuser.fuse(lambda x: ufunc.accumulate(x, axis=-1), fallback="error")
    columns = fuser.fuse(lambda x: ufunc.accumulate(x), fallback="error")
    with np.errstate(all="ignore"):
        for shape in ((1,), (7,), (65,), (3, 5), (40, 70), (131, 9), (1, 6), (6, 1), (2, 3, 70)):
            x = numbers(dtype, *shape)
            assert_alike(ufunc.accumulate(x, axis=-1), rows(x))
            assert_alike(ufunc.accumulate(x), columns(x))


@pytest.mark.parametrize("ufunc", UFUNCS, ids=lambda ufunc: ufunc.__name__)
@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_what_comes_first_is_the_first_result(dtype: str, ufunc: np.ufunc) -> None:
    """Zeros of both signs, infinities, NaN, the largest and the smallest number."""
    limits = np.finfo(dtype)
    least = limits.smallest_subnormal
    first = np.array([0, -0.0, np.inf, -np.inf, np.nan, limits.max, limits.min, least], dtype)
    rows = fuser.fuse(lambda x: ufunc.accumulate(x, axis=1), fallback="error")
    columns = fuser.fuse(lambda x: ufunc.accumulate(x, axis=0), fallback="error")
    with np.errstate(all="ignore"):
        for count in (1, 2, 5, 40):
            x = np.repeat(first[:, None], count, axis=1)
            x[:, 1:] = -0.0
            y = np.ascontiguousarray(x.T)
            assert_alike(ufunc.accumulate(x, axis=1), rows(x))
            assert_alike(ufunc.accumulate(y, axis=0), columns(y))


def test_no_elements() -> None:
    """Along an axis without elements, and beside one."""
    fused = fuser.fuse(lambda x: (np.cumsum(x, axis=0), np.cumsum(x, axis=1)), fallback="error")
    for shape in ((0, 3), (3, 0), (0, 0), (2, 2)):
        x = np.ones(shape)
        assert_alike((np.cumsum(x, axis=0), np.cumsum(x, axis=1)), fused(x))


@pytest.mark.parametrize("axis", [0, 1, -1, None])
def test_any_memory(axis: int | None) -> None:
    """Fortran order, steps, backwards, repeated, misaligned; results lie as NumPy's."""
    function = lambda x: np.cumsum(x, axis=axis) * 2  # noqa: E731
    fused = fuser.fuse(function, fallback="error")
    m = numbers("float64", 33, 47)
    unaligned = np.frombuffer(b"\0" + m.tobytes(), np.uint8)[1:].view(m.dtype).reshape(m.shape)
    views = (m, m.T, np.asfortranarray(m), m[::2, ::3], m[::-1, ::-1], unaligned,
             np.broadcast_to(m[0], m.shape), np.broadcast_to(m[:, :1], m.shape))  # fmt: skip
    for x in views:
        assert_alike(function(x), fused(x))


PROGRAMS: dict[str, tuple[Callable[[Any, Any], Any], int]] = {
    "share": (lambda x, y: np.cumsum(x * y, axis=-1) / 7.0 + x, 1),
    "of sums": (lambda x, y: np.cumsum(x, axis=1) / x.max(axis=1, keepdims=True), 0),
    "of results": (lambda x, y: np.cumsum(x.max(axis=1) * 2) + 1, 1),
    "of products": (lambda x, y: np.cumsum((x[:, None] * y[None, :6]).max(2), axis=1) * 2, 1),
    "beside results": (lambda x, y: np.cumsum(x - x.max(axis=0), axis=0) * y.max(axis=0), 0),
    "twice": (lambda x, y: np.cumsum(np.cumsum(x, axis=1) * y, axis=1), 1),
    "two of one": (lambda x, y: np.cumsum(x, axis=0) - np.maximum.accumulate(x, axis=0), 1),
    "both axes": (lambda x, y: np.cumsum(np.cumsum(x, axis=0), axis=1), 2),
    "across": (lambda x, y: np.cumsum(x, axis=0) + np.cumsum(y, axis=1), 0),
    "greatest": (lambda x, y: np.cumsum(x, axis=1).max(axis=1), 0),
    "cut": (lambda x, y: np.cumsum(x, axis=1)[:, 3:] - np.cumsum(x, axis=1)[:, :-3], 0),
    "turned": (lambda x, y: np.cumsum(x, axis=0).T * 2, 0),
    "of a view": (lambda x, y: np.cumsum(x.T[1:], axis=0), 1),
    "flat": (lambda x, y: np.cumsum(x * 2) + np.cumsum(y), 0),
    "dtype": (lambda x, y: np.cumsum(x, axis=0, dtype=np.float32), 1),
    "method": (lambda x, y: x.cumsum(1) + y.cumprod(axis=1), 1),
    "joined": (lambda x, y: np.cumsum(np.concatenate([x, y]), axis=0), 0),
    "gathered": (lambda x, y: np.cumsum(x.ravel()[np.abs(y).astype(np.int64) % 9], axis=1), 1),
    "masked": (lambda x, y: np.cumsum(x[x > 0]) * 2, 0),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_what_is_around(name: str) -> None:
    """Before and behind, in one kernel where the loops are the same."""
    function, kernels = PROGRAMS[name]
    fused = fuser.fuse(function, fallback="error" if kernels else "allow")
    for shape in ((30, 40), (5, 130), (70, 8)):
        x, y = (np.nan_to_num(numbers("float64", *shape), posinf=1, neginf=2) for _ in "xy")
        assert_alike(function(x, y), fused(x, y))
    if kernels:
        assert len(fused.explain(x, y).groups) == kernels


def test_written_where_it_is_read() -> None:
    """out= the operand itself, a slice of an argument, and an argument that is written."""

    def function(x: Any) -> Any:
        x[1:] = np.cumsum(x[1:], axis=0)
        np.cumsum(x, axis=1, out=x, dtype=x.dtype)
        return x.sum()

    fused = fuser.fuse(function, fallback="allow")
    x = numbers("float64", 20, 30)[:-1]
    mine, plain = x.copy(), x.copy()
    wanted = function(plain)
    assert np.isclose(fused(mine), wanted, equal_nan=True)
    assert_alike(plain, mine)
    target = x.copy()
    fuser.fuse(lambda x: np.cumsum(x, axis=0), fallback="error")(target, out=target)
    assert_alike(np.cumsum(x, axis=0), target)


def test_threads_change_no_bit() -> None:
    """Columns and rows are shared out; each result has NumPy's order."""
    before = fuser.get_num_threads()
    x = rng.standard_normal((700, 900)).astype(np.float32)
    try:
        for axis in (0, 1):
            fused = fuser.fuse(lambda x, axis=axis: np.cumsum(x * x, axis=axis), fallback="error")
            for threads in (1, 2, 4):
                fuser.set_num_threads(threads)
                assert_alike(np.cumsum(x * x, axis=axis), fused(x))
    finally:
        fuser.set_num_threads(before)


def test_what_has_no_form_is_numpys() -> None:
    """Other ufuncs, complex numbers, bad axes: between kernels, or as NumPy raises."""
    x = np.arange(6.0).reshape(2, 3)
    for function in (
        lambda x: np.logaddexp.accumulate(x, axis=1) + 1,
        lambda x: np.cumsum(x * 1j) + 1,
        lambda x: np.subtract.accumulate(x) * 2,
    ):
        fused = fuser.fuse(function, fallback="allow")
        np.testing.assert_allclose(fused(x), function(x), rtol=1e-14)
        assert fused.fallbacks
    for axis in (2, -3):
        with pytest.raises(np.exceptions.AxisError):
            fuser.fuse(lambda x, axis=axis: np.cumsum(x, axis=axis), fallback="allow")(x)


def test_the_graphs_text_is_read_back() -> None:
    """And an axis that is not there is refused; a backend without the rows says so."""
    graph = fuser.trace(lambda x: np.cumsum(x, axis=1), np.ones((3, 3)))
    assert "running_sum{1}" in str(graph)
    assert str(fuser.parse(str(graph))) == str(graph)
    with pytest.raises(fuser.FuserError):
        fuser.parse(str(graph).replace("running_sum{1}", "running_sum{2}"))
    with pytest.raises(fuser.FusionError, match="running_sum"):
        fuser.generate_code(graph, backend="gpu")


SUMS: Callable[..., Any] = fuser.fuse(lambda x: np.cumsum(x * 3, axis=1) - x, fallback="error")


@settings(max_examples=40, deadline=None)
@given(st.integers(1, 70), st.integers(1, 70), st.integers(1, 3), st.booleans(), st.integers(0, 99))
def test_random_shapes(rows: int, columns: int, step: int, turned: bool, seed: int) -> None:
    """Any lengths and steps."""
    x = np.random.default_rng(seed).standard_normal((rows, columns))[::step, ::-step]
    x = x.T if turned else x
    assert_alike(np.cumsum(x * 3, axis=1) - x, SUMS(x))


def test_one_row_carries_its_results_in_registers() -> None:
    """In vectors of 32 bytes: beside wider ones, sums wait longer for each other."""
    fused = fuser.fuse(lambda x: np.cumsum(x * x), fallback="error")
    for many in (0, 1, 3, 4, 5, 8, 1001):
        x = np.random.default_rng(many).standard_normal(many)
        x[many // 2 :] *= -0.0
        assert fused(x).tobytes() == np.cumsum(x * x).tobytes()
    text = "".join(fused.source(x).values())
    assert "<8 x double>" not in text
    assert "load double, ptr %carry" in text.partition("tail.run:")[2]
    assert "load double, ptr %carry" not in text.partition("tail.run:")[0]
