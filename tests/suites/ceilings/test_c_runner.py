"""Loops in C: the workloads' own results, on rows and views that leave vectors a remainder."""

import ctypes
import shutil
from typing import Any

import numpy as np
import pytest

from fuser.suites.ceilings.c_runner import WRITTEN, Bound, CRunner
from fuser.suites.ceilings.c_views import forms_of
from fuser.suites.checks.verify import flatten
from fuser.suites.probes.machine import describe_machine
from fuser.suites.registry import resolve
from fuser.suites.runners import NotExpressibleError

AVX512 = "avx512f" in describe_machine().features
needs_gcc = pytest.mark.skipif(shutil.which("gcc") is None, reason="needs gcc")


def bound(runner: CRunner, function: Any, given: tuple[Any, ...]) -> Bound:
    """Prepare a loop with memory for NumPy's results."""
    buffers = tuple(np.zeros_like(each) for each in flatten(function(*given)))
    call = runner.prepare_into(function, given, buffers)
    assert isinstance(call, Bound)
    return call


@needs_gcc
@pytest.mark.parametrize("name", sorted(WRITTEN))
def test_rows_in_c_give_the_workloads_results(name: str) -> None:
    """Every formula that is written by hand."""
    if WRITTEN[name] == "vectors.h" and not AVX512:
        pytest.skip("needs AVX-512")
    work, runner = resolve(name), CRunner()
    for length in (67, 1021):
        given = work.inputs(19 * length, "float64", 0, tuple((each, length) for each in work.axes))
        found, expected = bound(runner, work.function, given)(*given), work.function(*given)
        for ours, right in zip(flatten(found), flatten(expected), strict=True):
            np.testing.assert_allclose(ours, right, rtol=1e-9, atol=1e-12, err_msg=name)


@pytest.mark.skipif(shutil.which("gcc") is None or not AVX512, reason="needs gcc and AVX-512")
@pytest.mark.parametrize("name", ["row_range", "row_argmax", "value_range"])
def test_extremes_in_c_follow_numpys_rules(name: str) -> None:
    """NaN wherever it stands, infinities, zeros of both signs, the first of equal elements."""
    generator, function, runner = np.random.default_rng(3), resolve(name).function, CRunner()
    for dtype in ("float32", "float64"):
        for length in (1, 5, 64, 67, 300, 1021):
            rows = generator.integers(-3, 4, (37, length)).astype(dtype)
            rows[1::3, generator.integers(length)] = np.nan
            rows[2::3, generator.integers(length)] = np.inf
            rows[5::7, -1] = -np.inf
            for matrix in (rows, rows[::3].copy()):
                given = (matrix.ravel() if name == "value_range" else matrix,)
                found, expected = bound(runner, function, given)(*given), function(*given)
                for ours, right in zip(flatten(found), flatten(expected), strict=True):
                    np.testing.assert_array_equal(ours, right, f"{name} {dtype} {length}")


@needs_gcc
@pytest.mark.parametrize(
    ("name", "dtype"), [("transposed", "float32"), ("transposed", "float64"), ("strided", "int64")]
)
def test_views_in_c_give_the_workloads_results(name: str, dtype: str) -> None:
    """Transposed and strided operands: every tile, at once or packed, sides of any remainder."""
    function, runner = resolve(name).function, CRunner()
    runner.reuses = True
    for side in (64, 83, 150):
        shape = (2 * side * side,) if name == "strided" else (side, side)
        given = tuple(np.arange(side * side * 2, dtype=dtype)[: np.prod(shape)] for _ in range(2))
        given = tuple(each[::2] if name == "strided" else each.reshape(shape) for each in given)
        call = bound(runner, function, given)
        np.testing.assert_array_equal(call(*given)[0], function(*given))
        assert runner.reused == (side > 64)
        for form in forms_of(given[0].ndim):
            call.buffers[0][...] = 77
            call.loop.run(*call.given[:2], *map(ctypes.c_int64, form), *call.given[6:])
            np.testing.assert_array_equal(call.buffers[0], function(*given), str((name, form)))
    with pytest.raises(NotExpressibleError, match="strides of another kind"):
        call(*(each[:, ::3] if name == "transposed" else each[::3] for each in given))


@needs_gcc
def test_a_formula_in_c_is_bound_again_where_its_arrays_move() -> None:
    """Numbers and arrays are those of the call; what has no C form says so."""
    function, runner = resolve("axpy").function, CRunner()
    runner.start()
    given = resolve("axpy").inputs(1000, "float32", 0)
    call = bound(runner, function, given)
    for each in (given, tuple(each * 2 for each in given)):
        np.testing.assert_allclose(call(*each)[0], function(*each), rtol=1e-6)
    work = resolve("sum_of_squares")
    with pytest.raises(NotExpressibleError, match="no C form of"):
        bound(runner, work.function, work.inputs(64, "float32", 0))
