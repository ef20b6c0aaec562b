"""Functions written with CuPy's names: they fuse as those with NumPy's do, over a double of CuPy.

Many are those of CuPy's own tests of `cupy.fuse`: every universal function that NumPy has, numbers,
constants, reductions, conversions, arguments that are written into, functions that call others.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import fuser
from tests.backends.gpu import fake_cupy

double = fake_cupy.for_a_file()

RANDOM = np.random.default_rng(8)
X = RANDOM.uniform(0.1, 0.9, (5, 8)).astype(np.float32)
Y = RANDOM.uniform(0.1, 0.9, (5, 8)).astype(np.float32)
K = RANDOM.integers(1, 9, (5, 8))
B = RANDOM.integers(0, 2, (5, 8)).astype(bool)

UNARY = (
    "absolute arccos arcsin arcsinh arctan arctanh cbrt ceil cos cosh deg2rad exp exp2 expm1 fabs "
    "floor isfinite isinf isnan log log10 log1p log2 logical_not negative positive rad2deg "
    "reciprocal rint sign signbit sin sinh sqrt square tan tanh trunc"
).split()
BINARY = (
    "add arctan2 copysign divide equal floor_divide fmax fmin fmod greater greater_equal hypot "
    "less less_equal logaddexp logaddexp2 logical_and logical_or logical_xor maximum minimum "
    "multiply nextafter not_equal power remainder subtract true_divide"
).split()
INTEGERS = "bitwise_and bitwise_or bitwise_xor gcd lcm left_shift right_shift".split()


def both(function: Callable[[Any], Callable[..., Any]], cp: Any, *arguments: Any) -> None:
    """Call a function made for a module: NumPy's plain, CuPy's fused, three times.

    Args:
        function: gives the function for an array module.
        cp: the double.
        arguments: NumPy's arrays, and numbers.
    """
    fused = fuser.fuse(function(cp), fallback="error")
    for _ in range(3):
        mine = [a.copy() if isinstance(a, np.ndarray) else a for a in arguments]
        theirs = [cp.asarray(a) if isinstance(a, np.ndarray) else a for a in arguments]
        wanted, found = function(np)(*mine), fused(*theirs)
        wants = wanted if isinstance(wanted, tuple) else (wanted,)
        for one, want in zip(found if isinstance(found, tuple) else (found,), wants, strict=True):
            assert type(one) is cp.ndarray
            assert (one.dtype, one.shape) == (np.asarray(want).dtype, np.shape(want))
            np.testing.assert_allclose(one.get(), want, rtol=3e-6, atol=1e-6)
        for one, own in zip(theirs, mine, strict=True):
            if isinstance(own, np.ndarray):
                np.testing.assert_allclose(one.get(), own, rtol=3e-6)
    assert not fused.fallbacks


@pytest.mark.parametrize("name", UNARY)
def test_functions_of_one_array(double: Any, name: str) -> None:
    """By attribute of the module, and by a name of their own."""
    both(lambda xp: lambda x: getattr(xp, name)(x) if xp is np else _by_name(xp, name)(x),
         double, X)  # fmt: skip


def _by_name(cp: Any, name: str) -> Callable[[Any], Any]:
    """A function whose closure has CuPy's function itself."""
    function = getattr(cp, name)
    return lambda x: function(x)


@pytest.mark.parametrize("name", [*BINARY, *INTEGERS])
def test_functions_of_two_arrays(double: Any, name: str) -> None:
    """And of an array and a number."""
    given = (K, K[::-1]) if name in INTEGERS else (X, Y)

    def make(xp: Any) -> Callable[..., Any]:
        function = getattr(xp, name)
        return lambda x, y: (function(x, y), function(x, y[:, :1]))

    both(make, double, *given)


PROGRAMS: dict[str, tuple[Callable[[Any], Callable[..., Any]], tuple[Any, ...]]] = {
    "squared difference": (lambda xp: lambda x, y: (x - y) * (x - y), (X, Y)),
    "a sum of it": (lambda xp: lambda x, y: xp.sum((x - y) * (x - y), axis=1), (X, Y)),
    "all of it": (lambda xp: lambda x: xp.sum(xp.sqrt(x)), (X,)),
    "largest": (lambda xp: lambda x: xp.amax(x, axis=0) - xp.amin(x, axis=0), (X,)),
    "any and all": (lambda xp: lambda b: (xp.any(b, axis=0), xp.all(b, axis=1)), (B,)),
    "where": (lambda xp: lambda b, x, y: xp.where(b, x, y * 2), (B, X, Y)),
    "clip": (lambda xp: lambda x: xp.clip(x, 0.25, 0.5), (X,)),
    "numbers": (lambda xp: lambda x, a: xp.exp(x * a) + 1, (X, 0.5)),
    "integers and floats": (lambda xp: lambda x, k: x + k * 2, (X, K)),
    "conversions": (lambda xp: lambda x: x.astype(xp.float64) * xp.float32(2), (X,)),
    "made like it": (lambda xp: lambda x: xp.zeros_like(x) + xp.ones(x.shape[1], x.dtype), (X,)),
    "positions": (lambda xp: lambda x: x * xp.arange(x.shape[1]), (X,)),
    "joined": (lambda xp: lambda x, y: xp.concatenate([x, y + 1], axis=1), (X, Y)),
    "stacked": (lambda xp: lambda x, y: xp.stack([x, y]).mean(axis=0), (X, Y)),
    "norms": (lambda xp: lambda x: x / xp.linalg.norm(x, axis=1, keepdims=True), (X,)),
    "constants": (lambda xp: lambda x: xp.sin(x * xp.pi)[xp.newaxis], (X,)),
    "transposed": (lambda xp: lambda x: xp.transpose(x).reshape(2, -1), (X,)),
    "an array's module": (lambda xp: lambda x: (np if xp is np else xp).get_array_module(x).exp(x)
                          if xp is not np else np.exp(x), (X,)),
    "a kind of array": (lambda xp: lambda x: x + 1 if isinstance(x, xp.ndarray) else x, (X,)),
    "methods": (lambda xp: lambda x: (x.sum(axis=0), x.T.max(axis=0), x.mean()), (X,)),
}  # fmt: skip


@pytest.mark.parametrize("name", PROGRAMS)
def test_programs(double: Any, name: str) -> None:
    """Each with NumPy's names and with CuPy's."""
    make, arguments = PROGRAMS[name]
    both(make, double, *arguments)


def test_arguments_are_written_into(double: Any) -> None:
    """By operators, by `out=`, by slices."""
    def in_place(xp: Any) -> Callable[..., Any]:
        def run(x: Any, y: Any) -> Any:
            x += y
            xp.multiply(x, 2, out=y)
            x[1:3] = xp.exp(x[1:3])
            return x + y

        return run

    both(in_place, double, X, Y)


def test_functions_call_others(double: Any) -> None:
    """Helpers, fused ones among them, find the same names."""
    def make(xp: Any) -> Callable[..., Any]:
        def helper(x: Any) -> Any:
            return xp.tanh(x) + 1

        inner = fuser.fuse(lambda x: xp.square(x)) if xp is not np else np.square
        return lambda x: helper(x) * inner(x)

    both(make, double, X)


def test_special_functions(double: Any) -> None:
    """Those that kernels have; the others say that they have none."""
    import cupyx.scipy.special as special
    from scipy import special as scipys

    def make(xp: Any) -> Callable[..., Any]:
        own = scipys if xp is np else special
        return lambda x: (own.erf(x), own.erfc(x), own.expit(x), own.gammaln(x),
                          own.softmax(x, axis=1))  # fmt: skip

    both(make, double, X)
    fused = fuser.fuse(lambda x: special.j0(x) + 1, fallback="allow")
    np.testing.assert_allclose(fused(double.asarray(X)).get(), scipys.j0(X) + 1, rtol=1e-6)
    assert fused.fallbacks


def test_functions_of_elements_are_traced_past_names(double: Any) -> None:
    """CuPy hands a stand-in to itself, wherever the function came from."""
    table = {"f": double.exp}
    fused = fuser.fuse(lambda x: next(iter(table.values()))(x) + 1, fallback="error")
    np.testing.assert_allclose(fused(double.asarray(X)).get(), np.exp(X) + 1, rtol=1e-6)


def test_arrays_of_numpy_are_refused_as_cupy_refuses_them(double: Any) -> None:
    """A fused function gives what the plain one gives, errors too."""
    fused = fuser.fuse(lambda x: double.exp(x) + 1, fallback="allow")
    with pytest.raises(TypeError, match="Unsupported type"):
        fused(X)
    np.testing.assert_allclose(fused(double.asarray(X)).get(), np.exp(X) + 1, rtol=1e-6)


def test_a_function_that_is_replaced_is_noticed(double: Any, monkeypatch: Any) -> None:
    """Names that were read are guarded, as NumPy's are."""
    fused = fuser.fuse(lambda x: double.exp(x) + 1, fallback="allow")
    x = double.asarray(X)
    fused(x)
    monkeypatch.setattr(double, "exp", double.sin)
    np.testing.assert_allclose(fused(x).get(), np.sin(X) + 1, rtol=1e-6)


#: Functions that draw, of CuPy's module: from one generator, in the order of the function.
DRAWING: dict[str, Callable[[Any], Callable[..., Any]]] = {
    "like an argument": lambda cp: lambda x: x * 2 + cp.random.random(x.shape),
    "of a dtype": lambda cp: lambda x: x + cp.random.normal(0, 2, x.shape, dtype=cp.float32),
    "twice": lambda cp: lambda x: (x - cp.random.rand(8)) * cp.random.rand(5, 1),
    "other lengths": lambda cp: lambda x: cp.random.normal(size=x.shape[1]).sum() + x,
    "by its name": lambda cp: _noisy(cp.random.normal),
    "indices": lambda cp: lambda x: cp.take(x, cp.random.randint(0, 5, 7), axis=0) + 1,
}


def _noisy(normal: Any) -> Callable[..., Any]:
    return lambda x: x + normal(size=x.shape)


@pytest.mark.parametrize("name", DRAWING)
def test_random_numbers_are_those_of_the_plain_function(double: Any, name: str) -> None:
    """In every call others, from the first on: a trace draws none of them."""
    function = DRAWING[name](double)
    fused = fuser.fuse(function, fallback="allow")
    x = double.asarray(X)
    double.random.seed(5)
    wanted = [function(x).get() for _ in range(4)]
    double.random.seed(5)
    found = [fused(x).get() for _ in range(4)]
    np.testing.assert_allclose(found, wanted, rtol=1e-6)
    assert not np.array_equal(found[2], found[3])
    assert len(fused.explain(x).groups) >= 1
    assert {each.code for each in fused.fallbacks} <= {"unsupported-function"}


def _without_use(cp: Any, x: Any) -> Any:
    cp.random.rand(3)
    return x + cp.random.rand(8)


def _decided(cp: Any, x: Any) -> Any:
    return x + 1 if cp.random.rand() < 0.5 else x - 1


def _in_a_loop(cp: Any, x: Any) -> Any:
    for _ in range(12):
        x = x * 0.5 + cp.random.rand(8)
    return x


def _seeded(cp: Any, x: Any) -> Any:
    cp.random.seed(3)
    return x + cp.random.rand(8)


@pytest.mark.parametrize("function", [_without_use, _decided, _in_a_loop, _seeded])
def test_what_would_draw_otherwise_runs_in_cupy(
    double: Any, function: Callable[..., Any]
) -> None:
    """A generator goes on as it would: what a fused function does not draw is no random number."""
    fused = fuser.fuse(lambda x: function(double, x), fallback="allow")
    x = double.asarray(X)
    double.random.seed(5)
    wanted = [function(double, x).get() for _ in range(3)]
    double.random.seed(5)
    np.testing.assert_allclose([fused(x).get() for _ in range(3)], wanted, rtol=1e-6)


def test_the_signature_is_that_of_cupys_fuse(double: Any) -> None:
    """`kernel_name=` is what reasons call the function."""
    @fuser.fuse(kernel_name="squared_diff", fallback="allow")
    def run(x: Any, y: Any) -> Any:
        return double.square(x - y)

    found = run(double.asarray(X), double.asarray(Y))
    np.testing.assert_allclose(found.get(), np.square(X - Y), rtol=1e-6)
    assert run.options["kernel_name"] == "squared_diff"
    assert fuser.fuse()(lambda x: x + 1)(X).shape == X.shape
    with pytest.raises(fuser.ArgumentError, match="kernel_name"):
        fuser.fuse(lambda x: x, kernel_name=3)
