"""Memory-mapped arguments: classes and values of results are NumPy's, at every call."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fuser

X = np.random.default_rng(4).random((20, 6))

FUSED: dict[str, Any] = {
    "elementwise": lambda x: np.exp(x) * 2 + 1,
    "sum": lambda x: (x * 2).sum(),
    "standardise": lambda x: (x - x.mean(0)) / x.std(0),
    "slices": lambda x: np.diff(x) * 2,
    "several results": lambda x: (x + 1, {"a": x.max(1)}),
    "where": lambda x: np.where(x > 0.5, x, 0),
}
LEFT: dict[str, Any] = {
    "a slice": lambda x: x[1:],
    "a copy": lambda x: x.astype("float32"),
    "an array like it": lambda x: np.zeros_like(x),
    "positions": lambda x: x.argmax(0),
}


@pytest.fixture
def mapped(tmp_path: Path) -> Any:
    """A file, read as an array."""
    np.save(tmp_path / "x.npy", X)
    return np.load(tmp_path / "x.npy", mmap_mode="r+")


@pytest.mark.parametrize("name", FUSED | LEFT)
def test_results_are_numpys(name: str, mapped: Any) -> None:
    """Those that are mapped are left to NumPy, with the reason."""
    function = (FUSED | LEFT)[name]
    fused = fuser.fuse(function, fallback="allow")
    wanted = fuser.base.trees.flatten(function(mapped))[1]
    for _ in range(3):
        found = fuser.base.trees.flatten(fused(mapped))[1]
        for one, other in zip(found, wanted, strict=True):
            assert type(one) is type(other)
            assert one.dtype == other.dtype
            np.testing.assert_allclose(one, other, rtol=1e-13)
    assert [reason.code for reason in fused.fallbacks] == ["unsupported-array"] * (name in LEFT)


def test_kernels_read_the_file(mapped: Any) -> None:
    """Later calls launch kernels, and see what is written into the file."""
    fused = fuser.fuse(FUSED["elementwise"], fallback="error")
    fused(mapped)
    mapped[0] = 0
    np.testing.assert_allclose(fused(mapped), np.exp(mapped) * 2 + 1)
    assert fused.fallbacks == []
    assert fused._signatures


def test_writes_reach_the_file(mapped: Any) -> None:
    """Each call writes once."""
    def doubled(x: Any) -> None:
        x *= 2

    fused = fuser.fuse(doubled, fallback="allow")
    for count in range(1, 4):
        fused(mapped)
        np.testing.assert_allclose(mapped, X * 2**count)


def test_out_may_be_mapped(mapped: Any) -> None:
    """Results are copied into it."""
    fuser.fuse(FUSED["elementwise"], fallback="allow")(X, out=mapped)
    np.testing.assert_allclose(mapped, np.exp(X) * 2 + 1)


TENSORS: dict[str, Any] = {
    "elementwise": lambda x: np.exp(x) * 2 + 1,
    "operators": lambda x: (x * 2 - 1) ** 2 / (x + 1),
    "comparison": lambda x: (x > 0.5) & (x < 0.9),
    "two": lambda x: (x * 2, [x - 1]),
}
LEFT_TENSORS: dict[str, Any] = {
    "sum": lambda x: x.sum() + 1,
    "where": lambda x: np.where(x > 0.5, x, 0),  # NumPy's array
    "its method": lambda x: x.sigmoid() * 2,
}


@pytest.mark.parametrize("dtype", ["float64", "float32", "int32"])
@pytest.mark.parametrize("name", TENSORS | LEFT_TENSORS)
def test_tensors(name: str, dtype: str) -> None:
    """Results are torch's, of its dtype; what is not NumPy's is left to torch."""
    torch = pytest.importorskip("torch", reason="not installed: pip install torch")
    function = (TENSORS | LEFT_TENSORS)[name]
    fused = fuser.fuse(function, fallback="allow")
    for shift in range(3):
        x = torch.from_numpy((X * (100 if dtype == "int32" else 1) + shift).astype(dtype))
        found, wanted = (fuser.base.trees.flatten(f(x))[1] for f in (fused, function))
        for one, other in zip(found, wanted, strict=True):
            assert type(one) is type(other)
            assert one.dtype == other.dtype
            np.testing.assert_allclose(one, other, rtol=1e-5)
    if name in LEFT_TENSORS:
        assert fused.fallbacks
    elif dtype != "int32":
        assert fused.fallbacks == []


def test_tensors_are_not_copied() -> None:
    """What is written into one shows; those of gradients and other shapes are left, and named."""
    torch = pytest.importorskip("torch", reason="not installed: pip install torch")
    fused = fuser.fuse(lambda x, y: np.exp(x) * y, fallback="allow")
    x, y = torch.rand(7), torch.rand(7)
    fused(x, y)
    x[:] = 0
    np.testing.assert_allclose(fused(x, y), y)
    assert fused.fallbacks == []
    fused(x, torch.rand(3, 7))
    assert "another shape" in str(fused.fallbacks[-1])
    plain = fuser.fuse(lambda x: x * 2 + 1, fallback="allow")
    assert plain(torch.rand(7, requires_grad=True)).requires_grad
    assert plain.fallbacks[0].code == "unsupported-array"
    assert "gradients" in str(plain.fallbacks[0])


def test_functions_of_the_package_itself_get_what_they_are_given() -> None:
    """They work on labels, and are asked for what we ask values with labels for."""
    pandas = pytest.importorskip("pandas")
    seen: list[Any] = []

    def summed(values: Any) -> Any:
        seen.append(type(values))
        return values.sum()

    summed.__module__ = "pandas.core.series"
    fused, values = fuser.fuse(summed, fallback="allow"), pandas.Series([1.0, 2.0])
    assert [fused(values) for _ in range(3)] == [3.0] * 3
    assert seen == [pandas.Series] * 3
