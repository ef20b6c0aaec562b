"""Elements that lie in turn in memory, sorted into vectors and back."""

import re
from typing import Any

import numpy as np
import pytest

import fuser
from fuser.backends.cpu import interleaving
from fuser.backends.cpu.body import Body, Features, Module, Value
from tests.backends.cpu.on_threads import same_parts


@pytest.mark.parametrize("count", range(2, 9))
def test_lacing_undoes_splitting(count: int) -> None:
    """Each lane's way through the shuffles, both ways."""
    lanes = 8
    b = Body(Module(Features()))
    names = {f"%in{k}": [k * lanes + lane for lane in range(lanes)] for k in range(count)}
    vectors = [Value(name, "i32", lanes) for name in names]
    sorted_ = interleaving.split(b, vectors)
    back = interleaving.lace(b, sorted_)
    for line in b.lines:
        name, text = line.strip().split(" = ")
        operands, places = re.findall(r"%\w+", text), re.findall(r"i32 (\d+|poison)", text)
        both = names[operands[0]] + names[operands[1]]
        names[name] = [-1 if place == "poison" else both[int(place)] for place in places]
    assert [names[v.text] for v in sorted_] == [
        list(range(k, count * lanes, count)) for k in range(count)
    ]
    assert [names[v.text] for v in back] == [names[v.text] for v in vectors]


def _two(a: Any, b: Any) -> Any:
    return np.stack([a[:, 1] * b[:, 2], a[:, 2] - b[:, 0]], -1)


def _cross(a: Any, b: Any) -> Any:
    return np.cross(a, b)


def _four(a: Any, b: Any) -> Any:
    return np.stack([a[:, 1], a[:, 2] * b[:, 0], b[:, 2], a[:, 0] * b[:, 0]], -1)


def _five(a: Any, b: Any) -> Any:
    return np.stack([a[:, 1], a[:, 2] * b[:, 0], b[:, 2], a[:, 0], a[:, 1]], -1)


def _numbers(rows: int, dtype: str, seed: int) -> np.ndarray:
    return (np.random.default_rng(seed).normal(size=(rows, 3)) * 9).astype(dtype)


@pytest.mark.parametrize("dtype", ["float32", "float64", "int16", "uint8"])
@pytest.mark.parametrize("function", [_two, _cross, _four, _five])
def test_results_in_turn_are_stored_together(function: Any, dtype: str) -> None:
    """Each number of them, whole vectors and what is left over: NumPy's elements."""
    for rows in (1, 8, 37, 4099):
        a, b = _numbers(rows, dtype, 1), _numbers(rows, dtype, 2)
        (found,) = same_parts(fuser.fuse(function, fallback="error"), a, b)
        np.testing.assert_array_equal(found, function(a, b))


def test_nothing_beside_results_is_touched() -> None:
    """Between other columns, backwards, across, and at an odd address; and over the arguments."""
    function = fuser.fuse(_cross, fallback="error")
    a, b = _numbers(1003, "float32", 3), _numbers(1003, "float32", 4)
    expected = _cross(a, b)
    memory = np.full(1003 * 5 * 4 + 64, 77, np.uint8)
    room = memory[5:][: 1003 * 5 * 4].view("float32").reshape(1003, 5)
    function(a, b, out=room[:, 1:4])
    np.testing.assert_array_equal(room[:, 1:4], expected)
    for beside in (room[:, :1], room[:, 4:]):
        assert (beside.copy().view(np.uint8) == 77).all()
    dense = memory[5:][: 1003 * 3 * 4].view("float32").reshape(1003, 3)
    for out in (dense, dense[::-1], dense[:, ::-1], np.empty((3, 1003), "float32").T):
        np.testing.assert_array_equal(function(a, b, out=out), expected)
    function(a, b, out=b)
    np.testing.assert_array_equal(b, expected)


def test_code_for_results_in_turn_is_there() -> None:
    """Three results of rows have vectors that are sorted."""
    a = _numbers(40, "float32", 1)
    text = "".join(fuser.fuse(_cross, fallback="error").source(a, a).values())
    assert "together." in text
