"""Short rows that become rows, turned into columns and back: NumPy's results."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import fuser
from fuser.backends.cpu.reducing import turned_rows
from tests.backends.cpu.chosen_forms import extents_of
from tests.backends.cpu.on_threads import same_parts

Function = Callable[..., Any]


def _softmax(x: Any) -> Any:
    weights = np.exp(x - np.max(x, -1, keepdims=True))
    return weights / np.sum(weights, -1, keepdims=True)


def _normalised(x: Any, gain: Any, bias: Any) -> Any:
    mean = np.mean(x, -1, keepdims=True)
    return (x - mean) / np.sqrt(np.var(x, -1, keepdims=True) + 1e-5) * gain + bias


def _with_results(x: Any, y: Any) -> Any:
    sizes = np.sum(np.abs(x * y), -1)
    return x / sizes[:, None], sizes, np.argmax(x, -1), (x > y) & (sizes[:, None] >= 0)


def _of_rows(x: Any, shift: Any) -> Any:
    return x - np.min(x, -1, keepdims=True) + shift[:, None]


def numbers(rows: int, length: int, dtype: str = "float32", *, bad: bool = True) -> np.ndarray:
    """Numbers around zero, some of which are special."""
    values = np.random.default_rng(rows + length).normal(size=(rows, length)) * 9
    if bad and dtype.startswith("float"):
        values.flat[5::1001], values.flat[7::1511], values.flat[::97] = np.nan, np.inf, -0.0
    return values.astype(dtype)


def cases(rows: int, length: int) -> dict[str, tuple[Function, tuple[np.ndarray, ...]]]:
    """Functions and arguments for rows of a length."""
    x, gain, shift = numbers(rows, length), numbers(1, length)[0], numbers(rows, 1)[:, 0]
    wide = numbers(rows, 2 * length + 3)
    return {
        "softmax": (_softmax, (x,)),
        "doubles": (_softmax, (x.astype("float64"),)),
        "halves": (_softmax, (numbers(rows, length, "float16", bad=False),)),
        "gain and bias": (_normalised, (x, gain, gain[::-1])),
        "results beside": (_with_results, (x, numbers(rows, length + 1)[:, 1:])),
        "one for a row": (_of_rows, (x, shift)),
        "integers": (
            lambda x: x - np.max(x, -1, keepdims=True), (numbers(rows, length, "int16"),),
        ),
        "bytes": (
            lambda x: x ^ np.max(x, -1)[:, None],
            (np.abs(numbers(rows, length, bad=False)).astype("uint8"),),
        ),
        "gaps between rows": (_softmax, (wide[:, 3 : 3 + length],)),
        "rows backwards": (_softmax, (x[::-1],)),
    }  # fmt: skip


@pytest.fixture
def forms(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """What the form answered, call by call."""
    fuser.clear_caches()  # what is known is not asked for again
    return extents_of(turned_rows, monkeypatch)


@pytest.mark.parametrize("length", [6, 7, 8, 13, 16])
@pytest.mark.parametrize("name", cases(1, 6))
def test_results_are_those_of_numpy(name: str, length: int, forms: list[Any]) -> None:
    """Whole tiles, vectors and what is left over; the same bits on one thread and on three."""
    plain, arguments = cases(6151, length)[name]
    function = fuser.fuse(plain, fallback="error")
    parts = same_parts(function, *arguments)
    assert any(extent is not None for extent in forms)
    wide = [a.astype("float64") if a.dtype.kind == "f" else a for a in arguments]
    with np.errstate(all="ignore"):
        expected, types = plain(*wide), plain(*arguments)
    if not isinstance(expected, tuple):
        expected, types = (expected,), (types,)
    for mine, numpys, like in zip(parts, expected, types, strict=True):
        assert mine.dtype == like.dtype
        if mine.dtype.kind == "f":
            bound = 2e-3 if mine.dtype == np.float16 else 2e-4
            np.testing.assert_allclose(mine, numpys, rtol=bound, atol=bound)
        else:
            np.testing.assert_array_equal(mine, like)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_the_bits_are_those_of_other_forms(dtype: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Wherever the form ends: columns are summed in the same order."""
    x = numbers(4099, 10, dtype)
    turned = fuser.fuse(_softmax, fallback="error")(x)
    monkeypatch.setattr(turned_rows, "LEAST", 1 << 60)
    fuser.clear_caches()
    np.testing.assert_array_equal(fuser.fuse(lambda x: _softmax(x), fallback="error")(x), turned)


@pytest.mark.parametrize("offset", [0, 1, 4, 28])
def test_results_go_where_they_are_wanted(offset: int, forms: list[Any]) -> None:
    """Over the argument, between other rows, at odd addresses; nothing beside is touched."""
    function = fuser.fuse(_softmax, fallback="error")
    x = numbers(3001, 9)
    expected = function(x)
    memory = np.full(3001 * 12 * 4 + 64, 77, np.uint8)
    room = memory[offset:][: 3001 * 12 * 4].view("float32").reshape(3001, 12)
    function(x, out=room[:, 2:11])
    np.testing.assert_array_equal(room[:, 2:11], expected)
    for beside in (room[:, :2], room[:, 11:]):
        assert (beside.copy().view(np.uint8) == 77).all()
    function(x, out=x)
    np.testing.assert_array_equal(x, expected)
    assert forms[-1] is not None


def test_other_lengths_and_layouts_of_the_same_function(forms: list[Any]) -> None:
    """Rows that are too few, too short, too long or lie apart take other forms."""
    function = fuser.fuse(_softmax, fallback="error")
    for rows, length in [(63, 10), (900, 5), (4000, 17), (1, 10), (0, 10), (5000, 6), (400, 16)]:
        x = numbers(rows, length, bad=False)
        np.testing.assert_allclose(function(x), _softmax(x), rtol=1e-5, atol=1e-7)
    forms.clear()
    apart = numbers(9000, 20, bad=False)
    for x in (apart[:, ::2], np.asfortranarray(apart[:, :10]), apart[:, 9::-1]):
        np.testing.assert_allclose(function(x), _softmax(x), rtol=1e-5, atol=1e-7)
    assert all(extent is None for extent in forms)
