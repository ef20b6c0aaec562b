"""Arguments inside of tuples, lists and dicts are found natively."""

from typing import Any, NamedTuple

import numpy as np
import pytest

import fuser


class Layer(NamedTuple):
    """Weights of a layer."""

    weight: Any
    bias: Any


X, W, B = np.linspace(-1, 1, 5), np.linspace(1, 2, 5), np.linspace(0, 3, 5)
KINDS: dict[str, tuple[Any, tuple[Any, ...]]] = {
    "tuple": (lambda p, x: x * p[0] + p[1], ((W, B), X)),
    "list": (lambda p, x: x * p[0] + p[1], ([W, B], X)),
    "named tuple": (lambda p, x: x * p.weight + p.bias, (Layer(W, B), X)),
    "dict": (lambda p, x: x * p["w"] + p["b"], ({"w": W, "b": B}, X)),
    "nest": (
        lambda p, x: x * p["w"][0] + p["b"][1].bias * p["k"],
        ({"w": (W,), "b": [B, Layer(W, B)], "k": 2.5}, X),
    ),
    "numbers": (lambda x, pair: x * pair[0] + pair[1], (X, (2.0, 3))),
    "empty containers": (lambda p, pair: pair[0] * pair[1], ((), (W, B))),
    "written": (lambda p, x: p[0].__iadd__(x), ([np.zeros(5)], X * 0)),
}


@pytest.mark.parametrize("name", KINDS)
def test_containers_are_native(name: str) -> None:
    """As positional arguments; results are the plain function's."""
    function, args = KINDS[name]
    fused = fuser.fuse(function, fallback="error")
    wanted = function(*args)
    for _ in range(4):
        assert np.array_equal(fused(*args), wanted)
    assert fused._native.hits == 3


def test_keywords_and_out_hold_containers_too() -> None:
    """Together with containers among positional arguments."""
    fused = fuser.fuse(lambda p, *, rest: (p[0] * rest["b"], p[0] + rest["b"]))
    out = (np.empty(5), np.empty(5))
    for _ in range(3):
        assert fused((W,), rest={"b": B}, out=out) is out
        assert np.array_equal(out[0], W * B)
        assert np.array_equal(fused([W], rest={"b": B})[1], W + B)
    assert fused._native.hits == 4


def test_what_is_in_a_container_is_looked_at_each_time() -> None:
    """Other items, lengths, keys, orders and types."""
    def add(p: Any) -> Any:
        total = 0.0
        for part in p.values() if isinstance(p, dict) else p:
            total = total * 2 + part
        return total

    fused = fuser.fuse(add)
    kinds: list[Any] = [
        [W, B], (W, B), [W, B, X], {"a": W, "b": B}, {"b": W, "a": B}, {1: W, "b": B},
        {"a": W}, [W[:3], B[:3]], [W, 2.0], [2, B],
    ]  # fmt: skip
    for _ in range(3):
        for kind in kinds:
            assert np.array_equal(fused(kind), add(kind))
    changing = [W, B]
    for value in (X, X * 2, 1.5, X):
        changing[1] = value
        assert np.array_equal(fused(changing), add(changing))
    assert fused._native.hits > 2 * len(kinds) - 2


def test_calls_that_flatten_alike_are_told_apart() -> None:
    """Two arrays in a tuple are not two arguments."""
    fused = fuser.fuse(lambda p, q: len(p) * q[0] * q[1] if type(p) is tuple else p - q)
    for _ in range(3):
        assert np.array_equal(fused((), (W, B)), 0 * W * B)
        assert np.array_equal(fused(W, B), W - B)
