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
linalg = pytest.importorskip("scipy.linalg")
blas, lapack = linalg.blas, linalg.lapack
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
    for name in ("scipy.stats.norm", "scipy.special.no_such", "os.system", "math.no_such"):
        with pytest.raises(fuser.GraphError):
            opaque_calls.resolve(name)


def _solved(x: Any) -> Any:
    """A system with three diagonals, by LAPACK's own name for it."""
    below, on, beyond = x[1:] * 0.1, x * x + 4, x[1:] * 0.2
    *_, found, failed = lapack.dgtsv(below, on, beyond, x * 2)
    if failed != 0:
        raise ValueError("it is singular")
    return found * 2 + x


def _factored(x: Any) -> Any:
    """A factor of a matrix, and Python's truth value that says which."""
    matrix = x[:, None] * x[None, :] + np.eye(5) * 9
    return linalg.cho_solve(linalg.cho_factor(matrix * 1.5), x * 2) + 1


def _returned(x: Any) -> Any:
    """What LAPACK says is a result, too."""
    return lapack.dpotrf(x[:, None] * x[None, :] - 3.0)[1], x * 2


#: Functions that call SciPy's linear algebra, and what NumPy's part of each is named by.
SOLVING: dict[str, tuple[Callable[..., Any], str]] = {
    "a routine": (_solved, "scipy.linalg.lapack.dgtsv"),
    "a factor": (_factored, "scipy.linalg.cho_factor"),
    "a returned number": (_returned, "scipy.linalg.lapack.dpotrf"),
    "a solver": (lambda x: linalg.solve(np.outer(x, x) + np.eye(5), x * 2) + 1,
                 "scipy.linalg.solve"),
    "blas": (lambda x: blas.dnrm2(x * 2) + x, "scipy.linalg.blas.dnrm2"),
}  # fmt: skip


@pytest.mark.parametrize("name", SOLVING)
def test_linear_algebra_of_scipy_runs_between_kernels(name: str) -> None:
    """Python numbers among results are what SciPy gives, and may decide."""
    function, said = SOLVING[name]
    fused = fuser.fuse(function, fallback="allow")
    x = np.arange(1.0, 6.0)
    for values in (x, x * 3, x - 3, x[::-1]):
        for _ in range(4):
            found, expected = fused(values), function(values)
            np.testing.assert_equal(found, expected)
            if type(expected) is tuple:
                assert type(found[0]) is type(expected[0]) is int
    assert said in [reason.operation for reason in fused.explain(x).fallbacks]
    assert "switch" not in str(fused.fallbacks)


def test_a_routine_that_fails_raises_what_the_function_does() -> None:
    """The number that says so decides."""

    def solved(x: Any) -> Any:
        failed = lapack.dgtsv(x[1:], x - 1, x[1:], x * 2)[-1]
        if failed > 0:
            raise ValueError("it is singular")
        return x * failed

    fused = fuser.fuse(solved, fallback="allow")
    for _ in range(4):
        assert fused(np.arange(2.0, 6.0)).tolist() == [0.0] * 4
        with pytest.raises(ValueError, match="singular"):
            fused(np.array([1.0, 0.0, 1.0]))


def test_routines_that_change_arguments_are_refused_by_name() -> None:
    """What they give is an argument, and there is no switch for that."""
    for name in ("daxpy", "dswap", "dscal", "dcopy"):
        with pytest.raises(fuser.GraphError):
            opaque_calls.resolve(f"scipy.linalg.blas.{name}")
    y = np.arange(5.0)
    fused = fuser.fuse(lambda x: blas.daxpy(x, y, a=2.0) + x, fallback="allow")
    expected = 2.0 * np.ones(5) + y + 1
    assert fused(np.ones(5)).tolist() == expected.tolist()
    assert y.tolist() == (expected - 1).tolist()


def squared_less_one(x: float) -> float:
    """A function that counts its calls."""
    squared_less_one.__dict__["calls"] += 1
    return x**2 - 1


@pytest.mark.parametrize("name", ["iterate", "start", "solve"])
def test_what_objects_of_scipy_hold_is_as_numpy_leaves_it(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Lists in their attributes, and what functions of the user's count, change once a call."""
    zeros = pytest.importorskip("scipy.optimize._zeros_py")
    found = []
    for fused in (False, True):
        if fused:
            method = fuser.fuse(getattr(zeros.TOMS748Solver, name), fallback="allow")
            monkeypatch.setattr(zeros.TOMS748Solver, name, method)
        for _ in range(2):
            squared_less_one.__dict__["calls"] = 0
            root, told = zeros.toms748(squared_less_one, 0.5, 2.2, full_output=True)
            calls = squared_less_one.__dict__["calls"]
            found.append((root, told.function_calls, told.iterations, calls))
    assert set(found) == {(1.0, 10, 5, 10)}


def test_what_a_step_of_scipys_reads_is_read_at_each_call() -> None:
    """It holds its state in lists and numbers that the user's code does not name."""
    zeros = pytest.importorskip("scipy.optimize._zeros_py")
    solvers = []
    for _ in range(2):
        solver = zeros.TOMS748Solver()
        solver.start(lambda x: x**3 - 2 * x - 5, 1.0, 10.0)
        solver.d, solver.fd = solver._update_bracket(2.5, 5.6)
        solvers.append(solver)

    def stepped(x: Any, solver: Any) -> Any:
        return x + solver.iterate()[1]

    fused, x = fuser.fuse(stepped, fallback="allow"), np.arange(3.0)
    for _ in range(4):
        np.testing.assert_array_equal(fused(x, solvers[0]), stepped(x, solvers[1]))
        assert solvers[0].ab == solvers[1].ab
        assert solvers[0].function_calls == solvers[1].function_calls
