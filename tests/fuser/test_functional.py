"""Composite functions give what their formulas say, fused and on plain arrays."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import fuser
from fuser import functional
from fuser.ir.ops import FLOATS
from tests.backends.edge_cases import edge_cases, edge_values, ordinary_values
from tests.backends.references import Array, true_values

Formula = Callable[..., Any]


def _erf(x: Array) -> Array:
    return true_values(fuser.ir.ops.op("erf"), np.asarray(x, np.float64)).astype(np.longdouble)


#: What each function of one array means, on long doubles.
FORMULAS: dict[str, Formula] = {
    "elu": lambda x: np.where(x > 0, x, np.expm1(np.minimum(x, 0))),
    "frac": lambda x: x - np.trunc(x),
    "gelu": lambda x: x / 2 * (1 + _erf(x / np.sqrt(np.longdouble(2)))),
    "hard_sigmoid": lambda x: np.minimum(np.maximum(x / 6 + 0.5, 0), 1),
    "hard_swish": lambda x: x * np.minimum(np.maximum(x / 6 + 0.5, 0), 1),
    "leaky_relu": lambda x: np.where(x >= 0, x, x / 100),
    "log_sigmoid": lambda x: -np.logaddexp(-x, 0),
    "logit": lambda x: np.log(x / (1 - x)),
    "mish": lambda x: x * np.tanh(np.logaddexp(x, 0)),
    "relu": lambda x: np.maximum(x, 0),
    "rsqrt": lambda x: 1 / np.sqrt(x),
    "sigmoid": lambda x: 1 / (1 + np.exp(-x)),
    "silu": lambda x: x / (1 + np.exp(-x)),
    "softplus": lambda x: np.logaddexp(x, 0),
    "square": lambda x: x * x,
}

#: Functions that compute nothing inexact: fused and plain give the same bits.
EXACT: dict[str, tuple[int, Formula]] = {
    "addcmul": (3, functional.addcmul),
    "addcmul-value": (3, lambda x, y, z: functional.addcmul(x, y, z, value=0.5)),
    "clamp-none": (1, functional.clamp),
    "clamp-low": (1, lambda x: functional.clamp(x, min=-1.0)),
    "clamp-high": (1, lambda x: functional.clamp(x, max=2.5)),
    "clamp-both": (1, lambda x: functional.clamp(x, -1.0, 2.5)),
    "clamp-arrays": (3, lambda x, y, z: functional.clamp(x, y, z)),
    "frac": (1, functional.frac),
    "hard_swish": (1, functional.hard_swish),
    "leaky_relu": (1, functional.leaky_relu),
    "lerp": (3, functional.lerp),
    "lerp-weight": (2, lambda x, y: functional.lerp(x, y, 0.25)),
    "relu": (1, functional.relu),
    "threshold": (1, lambda x: functional.threshold(x, 0.5, -7.0)),
    "threshold-arrays": (3, functional.threshold),
    "type_as": (2, lambda x, y: functional.type_as(x > y, y)),
}


def moderate_values(dtype: str) -> Array:
    """Edge values whose formulas overflow neither in the dtype nor in between."""
    values: Array = np.concatenate([edge_values(dtype), ordinary_values(dtype, 200, 0)])
    with np.errstate(all="ignore"):
        sizes = np.abs(values.astype(np.float64))
    keep: Array = np.isnan(values) | (sizes == 0) | ((sizes > 2.0**-13) & (sizes < 200))
    return values[keep]


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("name", FORMULAS)
def test_functions_of_one_array(name: str, dtype: str) -> None:
    """Within a few rounding errors of the largest term, fused and not."""
    x = moderate_values(dtype)
    function = getattr(functional, name)
    with np.errstate(all="ignore"):
        wanted = FORMULAS[name](x.astype(np.longdouble))
        found = {"plain": function(x), "fused": fuser.fuse(function, fallback="error")(x)}
        size = np.maximum(np.maximum(np.abs(wanted), np.abs(x)), 1)
    for how, got in found.items():
        assert got.dtype == dtype, how
        np.testing.assert_array_equal(np.isnan(got), np.isnan(wanted), err_msg=how)
        near = np.isfinite(wanted) & (np.abs(wanted) < np.finfo(dtype).max)
        errors = np.abs(got[near] - wanted[near]) / size[near]
        assert errors.max() <= 4 * np.finfo(dtype).eps, how
        rest = ~near & ~np.isnan(wanted)
        np.testing.assert_array_equal(got[rest], wanted[rest].astype(dtype), err_msg=how)


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("name", EXACT)
def test_functions_that_round_as_numpy_does(name: str, dtype: str) -> None:
    """The same bits fused and on plain arrays, for every pairing of edge values."""
    arity, function = EXACT[name]
    operands = edge_cases((dtype,) * min(arity, 2))
    operands += tuple(np.roll(operands[0], 7) for _ in range(arity - len(operands)))
    with np.errstate(all="ignore"):
        wanted = np.asarray(function(*operands))
        got = np.asarray(fuser.fuse(function, fallback="error")(*operands))
    np.testing.assert_array_equal(got, wanted, strict=True)
    number = ~np.isnan(wanted)
    np.testing.assert_array_equal(np.signbit(got[number]), np.signbit(wanted[number]))


def test_clamp_ignores_bounds_that_are_nan() -> None:
    """So does NaN in x stay, and so do integers keep their dtype."""
    x = np.array([-3.0, 0.5, np.nan, 9.0])
    clamp = fuser.fuse(functional.clamp, fallback="error")
    np.testing.assert_array_equal(clamp(x, math.nan, 1.0), [-3.0, 0.5, np.nan, 1.0])
    whole = np.arange(-4, 5, dtype=np.int16)
    np.testing.assert_array_equal(clamp(whole, -1, 2), np.clip(whole, -1, 2), strict=True)


def test_tanh_form_of_gelu() -> None:
    """The other formula is chosen by name; a third does not exist."""
    x = np.linspace(-6, 6, 101)
    inner = np.sqrt(2 / np.pi) * (x + 0.044715 * x**3)
    gelu = fuser.fuse(lambda x: functional.gelu(x, approximate="tanh"), fallback="error")
    np.testing.assert_allclose(gelu(x), x / 2 * (1 + np.tanh(inner)), rtol=1e-13, atol=1e-15)
    with pytest.raises(ValueError, match="approximate"):
        functional.gelu(x, approximate="erf")


@pytest.mark.parametrize("name", ["sigmoid", "erf", "erfc", "lgamma", "rsqrt"])
@pytest.mark.parametrize("dtype", ["bool", "int8", "uint16", "int64"])
def test_rows_without_a_ufunc_promote_like_exp(name: str, dtype: str) -> None:
    """Integers and bools become the float that np.exp gives; fused and plain agree."""
    x = np.array([1, 0, 1, 1], dtype)
    function = getattr(functional, name)
    with np.errstate(all="ignore"):
        wanted = function(x)
        assert wanted.dtype == np.exp(x).dtype
    got = fuser.fuse(function, fallback="error")(x)
    assert got.dtype == wanted.dtype
    np.testing.assert_allclose(got, wanted, rtol=4 * np.finfo(got.dtype).eps)


@pytest.mark.parametrize("name", ["logaddexp", "logaddexp2"])
def test_sums_of_logarithms_are_numpys(name: str) -> None:
    """The functions are the ufuncs themselves."""
    x, y = edge_cases(("float64", "float64"))
    with np.errstate(all="ignore"):
        wanted = getattr(np, name)(x, y)
        assert np.array_equal(getattr(functional, name)(x, y), wanted, equal_nan=True)
    got = fuser.fuse(getattr(functional, name), fallback="error")(x, y)
    np.testing.assert_allclose(got, wanted, rtol=1e-14, atol=1e-15)


def test_plain_arrays_take_a_kernel_not_a_python_loop() -> None:
    """erf of an array outside of any fused function: compiled once, whatever the length."""
    functional.erf(np.linspace(-3, 3, 11))
    before = fuser.n_compiled_kernels()
    x = np.linspace(-3, 3, 101)
    found = functional.erf(x)
    assert fuser.n_compiled_kernels() == before
    np.testing.assert_allclose(found, [math.erf(value) for value in x], rtol=5e-16)
    assert isinstance(functional.erf(np.float32(0.5)), np.float32)
