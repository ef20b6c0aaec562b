"""Other libraries' arrays on a device: one generated line adopts them, results may be theirs."""

from __future__ import annotations

import sys
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest

import fuser
from tests.backends.gpu import fake_arrays, fake_cupy

cupy = fake_cupy.for_a_file()

X = np.random.default_rng(4).normal(size=(6, 10)).astype(np.float32)


class Tensor:
    """An array of a library that is found by its class's module."""

    def __init__(self, own: Any) -> None:
        self.own = own

    def __dlpack__(self, **_: Any) -> Any:
        return fake_arrays.wrap(self.own._memory[...])

    def __dlpack_device__(self) -> tuple[int, int]:
        return 2, 0


class Array(Tensor):
    """One that knows its library by itself."""

    def __array_namespace__(self) -> Any:
        return SimpleNamespace(from_dlpack=Array)


class Interface:
    """One with CUDA's array interface alone."""

    def __init__(self, own: Any) -> None:
        self.array = own

    @property
    def __cuda_array_interface__(self) -> Any:
        return self.array.__cuda_array_interface__


@pytest.fixture(autouse=True)
def library(monkeypatch: pytest.MonkeyPatch) -> Any:
    """The library of `Tensor`."""
    made = ModuleType("tensors")
    made.from_dlpack = Tensor  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "tensors", made)
    monkeypatch.setattr(Tensor, "__module__", "tensors")
    return made


@pytest.mark.parametrize("kind", [Tensor, Array, Interface])
def test_known_calls_are_one_line(cupy: Any, kind: type) -> None:
    """It adopts, compares and launches; other kinds, lengths and CuPy's own arrays stay right."""
    fused = fuser.fuse(lambda x, y, s: x * s + y, fallback="error")
    for _ in range(2):
        found = fused(kind(cupy.asarray(X)), cupy.asarray(X[:1]), 2.0)
        assert type(found) is cupy.ndarray
        np.testing.assert_array_equal(found.get(), X * 2 + X[:1])
    known = fused._latest.try_again((kind(cupy.asarray(X)), cupy.asarray(X[:1]), 3.0))
    np.testing.assert_array_equal(known.get(), X * 3 + X[:1])
    for rows, other in ((4, kind), (6, kind), (6, lambda own: own), (6, Tensor), (6, kind)):
        found = fused(other(cupy.asarray(X[:rows])), cupy.asarray(X[:1]), 0.5)
        np.testing.assert_array_equal(found.get(), X[:rows] * np.float32(0.5) + X[:1])


@pytest.mark.parametrize("kind", [Tensor, Array])
def test_results_are_the_arguments_where_asked(cupy: Any, kind: type) -> None:
    """All of them, in whatever they are returned; what is none stays what it is."""
    function = fuser.fuse(lambda x, y: (x + y, {"sum": x.sum()}, 3), results="arguments")
    one = fuser.fuse(lambda x: np.exp(x), results="arguments", fallback="error")
    for _ in range(3):
        first, named, number = function(kind(cupy.asarray(X)), cupy.asarray(X))
        assert type(first) is type(named["sum"]) is kind
        np.testing.assert_array_equal(first.own.get(), X + X)
        np.testing.assert_allclose(named["sum"].own.get(), X.sum(), rtol=1e-5)
        assert number == 3
        found = one(kind(cupy.asarray(X)))
        assert type(found) is kind
        np.testing.assert_allclose(found.own.get(), np.exp(X), rtol=1e-6)
    assert type(one(cupy.asarray(X))) is cupy.ndarray
    assert type(one(Interface(cupy.asarray(X)))) is cupy.ndarray, "its library takes no DLPack"


def test_an_argument_that_is_given_back(cupy: Any) -> None:
    """Nothing is computed of it: it is the array that was adopted, of the same memory."""
    fused = fuser.fuse(lambda x, y: (x + 1, y), fallback="error")
    own = cupy.asarray(X)
    for _ in range(3):
        _, same = fused(cupy.asarray(X), Tensor(own))
        assert type(same) is cupy.ndarray
        assert same.data.ptr == own.data.ptr


def test_the_option_is_known() -> None:
    """It travels with the others; another value is refused."""
    fused = fuser.fuse(lambda x: x + 1, results="arguments")
    assert fused.options["results"] == "arguments"
    with pytest.raises(fuser.ArgumentError, match="results"):
        fuser.fuse(lambda x: x, results="torch")


def test_adopted_arrays_of_a_captured_graph_are_the_callers(cupy: Any) -> None:
    """An event of a graph tells nothing: later calls do not wait for it."""
    fused = fuser.fuse(lambda x: x * 2, fallback="error")
    own = cupy.asarray(X)
    fused(Tensor(own))
    fused(Tensor(own))
    with cupy.cuda.Stream(non_blocking=True) as stream:
        stream.begin_capture()
        found = fused(Tensor(own))
        graph = stream.end_capture()
        for _ in range(70):
            fused(Tensor(own))
        graph.launch(stream)
    np.testing.assert_array_equal(found.get(), X * 2)
