"""Complex numbers and bfloat16 on the GPU: its text, executed by the host, against NumPy."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import fuser
from fuser import backend
from fuser.backend import register_backend
from fuser.base import config
from fuser.base.errors import FusionError
from tests.backends.gpu.host import HostGpuBackend
from tests.settings import settings

ml_dtypes = pytest.importorskip("ml_dtypes", reason="not installed: pip install ml_dtypes")
BFLOAT = np.dtype(ml_dtypes.bfloat16)
#: Where elementary functions and divisions have answers of their own.
SPECIAL = (0.0, -0.0, 1.0, -1.0, 0.5, -3.25, np.inf, -np.inf, np.nan, 1e-30, -1e-5, 0.9999, 90.0)

register_backend("gpu-complex", lambda: HostGpuBackend("gpu-complex"))


@pytest.fixture(autouse=True)
def _on_the_host() -> Iterator[None]:
    """Everything in this file runs on the backend's text."""
    if reason := backend.available("gpu-complex"):
        pytest.skip(reason)
    with settings(backend="gpu-complex"):
        yield


def _assert_near(found: Any, want: Any, tolerance: float, name: str) -> None:
    """Equal parts, NaN or infinity, or nearer than the tolerance times the size."""
    assert (found.dtype, found.shape) == (want.dtype, want.shape), name
    parts = [(found, want)]
    if want.dtype.kind == "c":
        parts = [(found.real, want.real), (found.imag, want.imag)]
    wide = want.astype(complex) if want.dtype.kind == "c" else want.astype(float)
    with np.errstate(all="ignore"):
        size = np.abs(wide)
        for one, other in parts:
            one, other = one.astype(float), other.astype(float)
            same = (one == other) | (np.isnan(one) & np.isnan(other))
            unit = np.where(np.isfinite(size), size, np.abs(other))
            near = np.abs(one - other) <= tolerance * unit
            bad = np.flatnonzero(~(same | near))
            assert not len(bad), (name, found.flat[bad[0]], want.flat[bad[0]], bad[:9])


def _grid(dtype: str) -> Any:
    """Every pair of special parts."""
    real, imaginary = np.meshgrid(SPECIAL, SPECIAL)
    found = np.empty(real.size, dtype)
    found.real, found.imag = real.ravel(), imaginary.ravel()
    return found


def _normal(dtype: str, seed: int, count: int = 300) -> Any:
    """Ordinary numbers."""
    random = np.random.default_rng(seed)
    return (random.normal(size=count) + 1j * random.normal(size=count)).astype(dtype)


#: Rows of one operand, with the error allowed in units of the precision.
UNARY: dict[str, tuple[Callable[[Any], Any], float]] = {
    "negative": (np.negative, 0), "positive": (np.positive, 0), "conjugate": (np.conj, 0),
    "absolute": (np.absolute, 2), "real": (lambda z: z.real * 2, 0),
    "imag": (lambda z: np.imag(z) + 1, 1), "exp": (np.exp, 6), "log": (np.log, 6),
    "sqrt": (np.sqrt, 6), "cos": (np.cos, 6), "square": (np.square, 2),
    "reciprocal": (np.reciprocal, 4), "isnan": (np.isnan, 0), "isinf": (np.isinf, 0),
    "isfinite": (np.isfinite, 0), "where": (lambda z: np.where(np.isnan(z), 1j, z), 0),
    "scaled": (lambda z: z * (2 + 1j) + 1.5, 4), "cast": (lambda z: z.astype("complex64"), 1),
    "widened": (lambda z: z.real * 1j + z, 4), "truth": (lambda z: z.astype(bool), 0),
}  # fmt: skip
BINARY: dict[str, tuple[Callable[[Any, Any], Any], float]] = {
    "add": (np.add, 0), "subtract": (np.subtract, 0), "multiply": (np.multiply, 2),
    "divide": (np.divide, 4), "equal": (np.equal, 0), "not_equal": (np.not_equal, 0),
}  # fmt: skip
#: Only with ordinary numbers: what is left open or overflows on the way differs from C's.
ORDINARY: dict[str, tuple[Callable[[Any], Any], float]] = {
    "sin": (np.sin, 8),
    **{f"power {n}": ((lambda z, n=n: z**n), 60) for n in (2, 3, -1, -4, 0, 0.5)},
    "root": (lambda z: z ** (0.3 - 0.2j), 60),
}  # fmt: skip


@pytest.mark.parametrize("dtype", ["complex64", "complex128"])
def test_complex_rows_mean_what_numpy_means(dtype: str) -> None:
    """On ordinary numbers, zeros, infinities and NaN; all rows in one kernel."""
    unit = np.finfo(dtype).eps / 2
    cases = [(UNARY, (_grid(dtype),)), (ORDINARY, (_normal(dtype, 1),))]
    grid, normal = _grid(dtype), _normal(dtype, 2)
    left = np.repeat(grid[::3], 9)
    right = np.resize(grid[::5], len(left))
    pairs = (np.concatenate([left, normal]), np.concatenate([right, _normal(dtype, 3)]))
    for rows, arguments in [*cases, (BINARY, pairs)]:
        functions = [function for function, _ in rows.values()]

        def together(*operands: Any, functions: Any = functions) -> Any:
            return tuple(function(*operands) for function in functions)

        found = fuser.fuse(together, fallback="error")(*arguments)
        with np.errstate(all="ignore"):
            want = together(*arguments)
        for one, other, (name, (_, units)) in zip(found, want, rows.items(), strict=True):
            _assert_near(one, other, units * unit, name)


def test_complex_reductions_are_one_kernel() -> None:
    """Sums and means of both parts in one pass; norms through the absolute values."""
    x = _normal("complex64", 4, 20 * 33).reshape(20, 33)

    def function(z: Any) -> Any:
        return z.sum(axis=1), z.mean(axis=1), (z * np.conj(z)).real.sum(axis=1)

    fused = fuser.fuse(function, fallback="error")
    for found, want in zip(fused(x), function(x.astype("complex128")), strict=True):
        np.testing.assert_allclose(found, want, rtol=1e-5, atol=1e-6)
    assert fused(x)[0].dtype == np.complex64
    assert len(fused.explain(x).groups) == 1


def test_rows_without_a_complex_form_say_so() -> None:
    """With the dtype; the other backend has fewer of them."""
    x = _normal("complex64", 5)
    with pytest.raises(FusionError, match="complex64"):
        fuser.fuse(lambda z: np.tanh(z), fallback="error")(x)
    broken = fuser.fuse(lambda z: np.tanh(z) * 2, fallback="allow")
    np.testing.assert_allclose(broken(x), np.tanh(x) * 2, rtol=1e-6)
    graph = fuser.trace(lambda z: z * 2, x)
    assert fuser.parse(str(graph)) == graph
    assert fuser.generate_code(graph, backend="cpu")
    config.change(backend="")
    with pytest.raises(FusionError, match="complex64"):
        fuser.fuse(lambda z: np.sin(z), fallback="error")(x)


EVERY = np.arange(1 << 16, dtype=np.uint16).view(BFLOAT)


def test_bfloat16_rounds_after_every_operation() -> None:
    """As ml_dtypes: every value through every row of one operand, chains of some."""
    exact = (np.negative, np.absolute, np.sqrt, np.square, np.reciprocal, np.rint, np.isnan,
             lambda x: (x * 2 + x) / 3 - x)  # fmt: skip
    near = (np.exp, np.log, np.sin, np.tanh, np.log1p, np.cbrt, np.exp2, np.arctan)
    found = fuser.fuse(lambda x: tuple(f(x) for f in (*exact, *near)), fallback="error")(EVERY)
    with np.errstate(all="ignore"):
        want = [np.asarray(f(EVERY)) for f in (*exact, *near)]
    for place, (one, other) in enumerate(zip(found, want, strict=True)):
        _assert_near(one, other, 0 if place < len(exact) else 2.0**-7, str(place))


def test_bfloat16_pairs_conversions_and_sums() -> None:
    """Rows of two operands, casts both ways, reductions in single precision."""
    random = np.random.default_rng(6)
    left, right = (EVERY[random.integers(0, 1 << 16, 3000)] for _ in range(2))
    rows = (np.add, np.subtract, np.multiply, np.divide, np.maximum, np.fmin, np.less,
            np.remainder, np.copysign, lambda x, y: np.where(x > y, x, y * 2))  # fmt: skip
    found = fuser.fuse(lambda x, y: tuple(f(x, y) for f in rows), fallback="error")(left, right)
    with np.errstate(all="ignore"):
        for place, (one, row) in enumerate(zip(found, rows, strict=True)):
            _assert_near(one, np.asarray(row(left, right)), 0, str(place))
    small = random.normal(size=2000) * 50
    names = ("float16", "float32", "float64", "int8", "int32", "bool")
    casts = fuser.fuse(lambda x: tuple(x.astype(name) for name in names), fallback="error")
    for name, one in zip(names, casts(small.astype(BFLOAT)), strict=True):
        np.testing.assert_array_equal(one, small.astype(BFLOAT).astype(name))
        back = fuser.fuse(lambda x: x.astype(BFLOAT) * x.astype(BFLOAT), fallback="error")
        given = small.astype(name)
        want = given.astype(BFLOAT) * given.astype(BFLOAT)
        np.testing.assert_array_equal(back(given).view(np.uint16), want.view(np.uint16))
    table = random.normal(size=(20, 33)).astype(BFLOAT)
    wide = table.astype(np.float64)
    fused = fuser.fuse(lambda x: (x.sum(axis=1), x.mean(axis=0), x.max(axis=1)), fallback="error")
    for one, other in zip(fused(table), (wide.sum(1), wide.mean(0), wide.max(1)), strict=True):
        assert one.dtype == BFLOAT
        np.testing.assert_allclose(one.astype(float), other, rtol=2.0**-8, atol=2.0**-9)
