"""SciPy's functions and np.vectorize inside fused functions."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import fuser
from fuser.ir import opaque_calls
from tests.fuser.comparing import assert_same

special = pytest.importorskip("scipy.special")
softmax, erf = special.softmax, special.erf
SPECIAL_VALUES = np.array([np.nan, np.inf, -np.inf, -0.0, 0.0, 5e-324, 800.0, -800.0, 0.5, -3.0])
X = np.array([[0.5, -1.25, 3.0], [2.0, -0.0, 1e-3]])


@np.vectorize
def halved(x: Any, least: float = 0.0) -> Any:
    """One element."""
    return max(x / 2, least) if x > 0 else -1.5


def scaled(x: Any) -> Any:
    """With a value of the call in the function."""
    top = x.max()
    return np.exp(np.vectorize(lambda each: each / top if each > 0 else 0.5)(x))


def counted(x: Any) -> Any:
    """Of another dtype, declared."""
    return np.vectorize(math.floor, otypes=[np.int64])(x * 3) + 1


def by_rows(x: Any) -> Any:
    """With a signature, as a decorator."""

    @np.vectorize(signature="(n)->()")
    def ratio(row: Any) -> Any:
        return row.sum() / row.max()

    return ratio(np.exp(x)) * 2


#: Functions that NumPy or SciPy run between kernels, and the name that is given for them.
BETWEEN: dict[str, tuple[Callable[..., Any], str]] = {
    "vectorize": (lambda x: np.exp(halved(x)) + 1, "np.vectorize"),
    "vectorize with keywords": (lambda x: np.exp(x) + halved(x, least=0.7), "np.vectorize"),
    "vectorize a closure": (scaled, "np.vectorize"),
    "vectorize with otypes": (counted, "np.vectorize"),
    "vectorize rows": (by_rows, "np.vectorize"),
    "xlogy": (lambda x: special.xlogy(x, np.abs(x)) + 1, "scipy.special.xlogy"),
    "gammaln": (lambda x: special.gammaln(np.abs(x) + 1) * 2, "scipy.special.gammaln"),
    "logsumexp": (lambda x: special.logsumexp(x * 2, axis=1) + 1, "scipy.special.logsumexp"),
    "erf of half": (lambda x: special.erf(x.astype("f2")) * 2, "scipy.special.erf"),
}


@pytest.mark.parametrize("name", BETWEEN)
def test_functions_of_other_packages_run_between_kernels(name: str) -> None:
    """With the function named; results are what they are without kernels."""
    function, said = BETWEEN[name]
    for values in (X, -X + 0.5, np.concatenate([X, X * 2])):
        assert_same(function, values, fallback="allow", ulp=4)
    found = fuser.fuse(function, fallback="allow").explain(X)
    assert found.groups
    assert [reason.operation for reason in found.fallbacks] == [said]


#: Functions of SciPy's that are fused.
FUSED: dict[str, Callable[..., Any]] = {
    "erf": lambda x: 0.5 * x * (1.5 + special.erf(x / math.sqrt(2))),
    "erf by its name": lambda x: erf(x) * 2,
    "erfc": lambda x: special.erfc(x) * 2,
    "expit": lambda x: special.expit(x) * 2,
    "softmax": lambda x: softmax(x, axis=-1) * 2,
    "softmax of all": lambda x: special.softmax(x),
    "log_softmax": lambda x: special.log_softmax(x, axis=0) * 2,
    "of a scalar": lambda x: special.erf(x.sum()) + special.expit(x[0]),
}


@pytest.mark.parametrize("dtype", ["f4", "f8"])
@pytest.mark.parametrize("name", FUSED)
def test_what_kernels_have_of_scipy_is_fused(name: str, dtype: str) -> None:
    """Also of values that are special."""
    for values in (X, SPECIAL_VALUES, np.array([-np.inf, -np.inf]), np.array([2.5])):
        with np.errstate(all="ignore"):
            assert_same(FUSED[name], values.astype(dtype), fallback="error", ulp=8)


def test_functions_that_may_write_into_arguments_run_with_the_whole() -> None:
    """So nothing is written that NumPy would not write."""
    fused = fuser.fuse(lambda x, y: special.xlogy(x, x, out=y) + 1, fallback="allow")
    y = np.zeros(3)
    assert fused(np.arange(3.0), y).tolist() == (y + 1).tolist()
    assert y.tolist() == special.xlogy(np.arange(3.0), np.arange(3.0)).tolist()


def test_names_in_texts_are_read_back() -> None:
    """Of packages that are known, and of no others."""
    assert opaque_calls.resolve("scipy.special.xlogy") is special.xlogy
    assert opaque_calls.resolve("math.floor") is math.floor
    for name in ("scipy.linalg.inv", "scipy.special.no_such", "os.system", "math.no_such"):
        with pytest.raises(fuser.GraphError):
            opaque_calls.resolve(name)
