"""Tables for exact layouts: attributes, overlaps, and what needs Python."""

from typing import Any

import numpy as np
import pytest

import fuser

X = np.linspace(-1, 1, 24).reshape(4, 6)


def test_attributes_of_an_instance_are_looked_at() -> None:
    """A method of a class: each instance, and a changed attribute."""

    class Scaler:
        """Has a fused method."""

        def __init__(self, factor: float) -> None:
            self.factor = factor

        @fuser.fuse
        def scaled(self, x: Any) -> Any:
            """Scale."""
            return x * self.factor

    one, other = Scaler(2.0), Scaler(3.0)
    for factor in (2.0, 4.0):
        one.factor = factor
        for _ in range(3):
            assert np.array_equal(one.scaled(X), X * factor)
            assert np.array_equal(other.scaled(X), X * 3.0)
    assert Scaler.scaled._native.hits >= 4


@pytest.mark.parametrize("layout", ["C", "F", "columns"])
def test_out_may_overlap_the_inputs_in_every_way(layout: str) -> None:
    """The same array, a part of it, a shifted view: the result is as if it did not."""
    def plain(a: Any, b: Any) -> Any:
        return a * 2 + b.sum(axis=1, keepdims=True)

    def simple(a: Any, b: Any) -> Any:
        return a * 2 - b

    memory = np.arange(200.0).reshape(10, 20)
    for plainly in (plain, simple):
        function = fuser.fuse(plainly)
        for _ in range(4):
            for shift in (0, 1, 5):
                held = memory.copy(order="F" if layout == "F" else "C")
                step = 2 if layout == "columns" else 1
                a, b = held[:4, : 12 : step], held[4:8, : 12 : step]
                out = held[shift : shift + 4, : 12 : step]
                wanted = plainly(a.copy(), b.copy())
                assert function(a, b, out=out) is out
                assert np.array_equal(out, wanted)


GUARDED: dict[str, Any] = {
    "a condition": lambda a, x: x * a if a else x,
    "an integer": lambda a, x: x * a + int(a),
    "an attribute": lambda a, x: np.float_power(a, x) + a.imag,
    "with an expression": lambda a, x: x * (a + 1) if a else x,
    "beside an integer": lambda a, x: (x.astype(np.int32) + a) * x if a else x,
    "summed": lambda a, x: (x * a).sum() if a else x.sum(),
}


@pytest.mark.parametrize("name", GUARDED)
@pytest.mark.parametrize("lengths", [(5,), (5, 6, 7, 8, 9, 40)])
def test_a_number_that_decides_and_is_computed_with(name: str, lengths: tuple[int, ...]) -> None:
    """What a value guard fixes is what kernels take, whatever was called before."""
    function = GUARDED[name]
    fused = fuser.fuse(function, fallback="allow")
    for value in (True, 1, 2, False, 0, 7, 300, True, 2.5, 1):
        for length in lengths * 4:
            x = np.arange(1.0, length + 1)
            try:
                wanted = function(value, x)
            except AttributeError:
                continue
            np.testing.assert_allclose(fused(value, x), wanted, 1e-14, 0, True, str(length))
