"""Arguments of calls that have no fused form, as text."""

import math
from typing import Any

import numpy as np
import pytest

from fuser.ir import opaque_calls
from fuser.ir.opaque_calls import Number, Operand


def test_arguments_are_spelled_and_read_back() -> None:
    """Every literal that NumPy's functions take comes back as it was."""
    values: list[Any] = [
        3, -2, True, None, 0.1, -math.inf, "it's", [1, (2,)], (), {"key": [1]},
        slice(1, None, -1), ..., np.dtype("float32"),
    ]  # fmt: skip
    text = ", ".join(str(opaque_calls.spell(value, lambda _: None)) for value in values)
    rest = "a0, a1[()], host('s0 * 2'), axis=1"
    call = opaque_calls.read(f"4.1 view scalar numpy.sort({text}, {rest})")
    assert list(call.args) == [*values, Operand(0), Operand(1, True), Number("s0 * 2")]
    assert (call.number, call.output, call.shares, call.scalar) == (4, 1, True, True)
    assert call.kwargs == {"axis": 1}
    assert call.short_name == "np.sort"
    filled = opaque_calls.filled(call.args[-3:], ["array", np.arange(2)[:1].reshape(())], {"s0": 4})
    assert filled == ("array", 0, 8)


@pytest.mark.parametrize("value", [object(), {1: 2}, {1, 2}, b"x", len, "host('s0')"])
def test_arguments_without_a_text(value: Any) -> None:
    """They have none, so such a call falls back."""
    assert opaque_calls.spell(value, lambda _: None) is None


def test_symbols_are_renamed_inside_numbers_only() -> None:
    """Text arguments stay."""
    payload = "0.0 numpy.sort(a0, host('n0 + s1'), kind='n0')"
    renamed = opaque_calls.rename(payload, {"n0": "n4"})
    assert renamed == "0.0 numpy.sort(a0, host('n4 + s1'), kind='n0')"
