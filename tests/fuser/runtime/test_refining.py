"""Reshapes that merge repeated axes: finer loops instead of a copy, with NumPy's results."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import fuser
from fuser.runtime import binding

GENERATOR = np.random.default_rng(12)
Function = Callable[..., Any]


def _numbers(*shape: int, dtype: str = "float32") -> np.ndarray:
    values = GENERATOR.normal(size=shape) * 9
    values.flat[::37] = -0.0
    values.flat[3::53] = np.nan
    return values.astype(dtype)


def _groups(x: Any, mean: Any, gain: Any) -> Any:
    n, h, w, c = x.shape
    y = x.reshape(n, h * w, 4, c // 4)
    return (y - mean[:, None, :, None]).reshape(n, h, w, c) * gain


def _flat(x: Any, bias: Any) -> Any:
    return x.reshape(-1) * np.broadcast_to(bias[:, None], x.shape).reshape(-1)


def _tiles(image: Any, light: Any) -> Any:
    n, m = image.shape
    wide = np.broadcast_to(light[:, None, :, None], (n // 4, 4, m // 2, 2))
    return image + wide.reshape(n, m)


CASES: dict[str, tuple[Function, tuple[np.ndarray, ...]]] = {
    "groups of channels": (_groups, (_numbers(3, 5, 6, 8), _numbers(3, 4), _numbers(8))),
    "doubles": (
        _groups, (_numbers(2, 9, 7, 20, dtype="float64"), _numbers(2, 4), _numbers(20)),
    ),
    "whole vectors": (_groups, (_numbers(2, 7, 9, 256), _numbers(2, 4), _numbers(256))),
    "backwards": (
        _groups, (_numbers(3, 50, 6, 8)[:, :, ::-1, ::-1], _numbers(3, 4)[::-1], _numbers(16)[::2]),
    ),
    "one row after another": (_flat, (_numbers(70, 61), _numbers(70))),
    "squares of an image": (_tiles, (_numbers(80, 62), _numbers(20, 31))),
    "columns first": (_tiles, (np.asfortranarray(_numbers(80, 62)), _numbers(20, 31))),
    "one image": (_groups, (_numbers(1, 1, 6, 4), _numbers(1, 4), _numbers(4))),
    "one number": (_groups, (_numbers(1, 1, 1, 4), _numbers(1, 4), _numbers(4))),
    "nothing": (_groups, (_numbers(3, 0, 6, 8), _numbers(3, 4), _numbers(8))),
}  # fmt: skip


@pytest.fixture
def taken(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The copies that kernels need before them, call by call."""
    found: list[Any] = []
    real = binding.Layouts.take_copies

    def spy(self: Any) -> Any:
        found.append(real(self))
        return found[-1]

    monkeypatch.setattr(binding.Layouts, "take_copies", spy)
    return found


@pytest.mark.parametrize("name", CASES)
def test_results_are_those_of_numpy_without_copies(
    name: str, taken: list[Any]
) -> None:
    """Groups of channels, rows one after another, squares; new results and given ones."""
    plain, arguments = CASES[name]
    expected = plain(*arguments)
    function = fuser.fuse(plain, fallback="error")
    for _ in range(3):  # the slow path, then the native one
        found = function(*arguments)
        np.testing.assert_array_equal(found, expected)
        assert found.dtype == expected.dtype
    out = np.empty_like(expected)
    np.testing.assert_array_equal(function(*arguments, out=out), expected)
    merged = name in ("backwards", "columns first", "nothing")  # their own reshapes copy, or none
    assert merged or not any(taken)


def _group_gradient(x: Any, dy: Any, gain: Any) -> Any:
    n, c, h, w = x.shape
    count = (c // 2) * h * w
    groups = x.reshape(n, 2, count)
    scale = 1 / np.sqrt(groups.var(2, keepdims=True) + 1e-5)
    normal = (groups - groups.mean(2, keepdims=True)) * scale
    d = (dy * gain[:, None, None]).reshape(n, 2, count)
    inner = (d * normal).sum(2, keepdims=True)
    found = scale / count * (count * d - d.sum(2, keepdims=True) - normal * inner)
    return found.reshape(x.shape)


def _softmax(x: Any, dy: Any, gain: Any) -> Any:
    y = (x + gain[:, None, None]).reshape(len(x), -1)
    e = np.exp(y - y.max(1, keepdims=True))
    return e / e.sum(1, keepdims=True)


def _places(x: Any, dy: Any, gain: Any) -> Any:
    y = (x * gain[:, None, None]).reshape(len(x), -1)
    return y.argmax(1) * 1.0, (y * np.arange(y.shape[1])).sum(1)


@pytest.mark.parametrize("shape", [(3, 4, 5, 7), (2, 2, 33, 31), (1, 6, 1, 9), (2, 64, 2, 1)])
@pytest.mark.parametrize("function", [_group_gradient, _softmax, _places])
def test_reductions_over_merged_axes_are_right(
    function: Function, shape: tuple[int, ...], taken: list[Any]
) -> None:
    """The gradient of a group norm copies no gains; places of extremes are those of whole rows."""
    x, dy = (GENERATOR.normal(size=shape) for _ in range(2))
    gain = GENERATOR.normal(size=shape[1])
    fused = fuser.fuse(function, fallback="error")
    wanted = function(x, dy, gain)
    for _ in range(3):
        found = fused(x, dy, gain)
        if function is not _places:
            wanted, found = (wanted,), (found,)
        for one, other in zip(wanted, found, strict=True):
            np.testing.assert_allclose(other, one, rtol=1e-9, atol=1e-11)
        wanted = wanted if function is _places else wanted[0]
    assert function is _places or not any(taken)
    text = str(fused.explain(x, dy, gain))
    assert "reshape" in text


def test_other_lengths_of_the_same_function_are_right() -> None:
    """Also lengths whose axes are cut where no loop of the result ends: those are copied."""
    function = fuser.fuse(_groups, fallback="error")
    for shape in [(3, 4, 5, 8), (1, 70, 2, 16), (4, 1, 1, 4), (2, 1, 300, 64), (5, 8, 8, 12)]:
        arguments = (_numbers(*shape), _numbers(shape[0], 4), _numbers(shape[3]))
        for _ in range(2):
            np.testing.assert_array_equal(function(*arguments), _groups(*arguments))

    def turned(x: Any, bias: Any) -> Any:
        wide = np.broadcast_to(bias[:, None], (bias.shape[0], 6))
        return x + wide.reshape(6, bias.shape[0])

    function = fuser.fuse(turned, fallback="error")
    for length in (5, 12, 6, 1, 600):
        arguments = (_numbers(6, length), _numbers(length))
        for _ in range(2):
            np.testing.assert_array_equal(function(*arguments), turned(*arguments))


def test_an_operand_that_is_also_the_result_is_read_before() -> None:
    """In place: what is written is not read afterwards."""
    x, mean, gain = _numbers(3, 50, 6, 8), _numbers(3, 4), _numbers(8)
    expected = _groups(x, mean, gain)
    fuser.fuse(_groups, fallback="error")(x, mean, gain, out=x)
    np.testing.assert_array_equal(x, expected)
