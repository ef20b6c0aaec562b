"""Running values as structures: their size, and what they start from."""

from __future__ import annotations

import pytest

from fuser.backends.gpu.accumulators import Accumulator, State


@pytest.mark.parametrize(
    ("op", "dtype", "size", "start"),
    [
        ("sum", "float32", 8, "a1 = 0x0.0p+0f;"),
        ("sum", "float16", 8, "a1 = 0x0.0p+0f;"),
        ("sum", "int64", 8, "a1 = 0LL;"),
        ("prod", "float64", 8, "a1 = 0x1.0000000000000p+0;"),
        ("max", "float32", 4, "a1 = -__uint_as_float(0x7f800000u);"),
        ("max", "int8", 4, "a1 = (signed char)-128;"),
        ("min", "uint16", 4, "a1 = (unsigned short)65535;"),
        ("min", "bool", 4, "a1 = true;"),
        ("argmax", "float64", 16, "a1 = -__longlong_as_double(0x7ff0000000000000LL);"),
    ],
)
def test_states_are_small_and_start_from_what_changes_nothing(
    op: str, dtype: str, size: int, start: str
) -> None:
    """Sizes are multiples of a shuffle's four bytes."""
    state = State("S", [Accumulator(1, op, dtype, 0)])
    assert state.size == size
    assert state.size % state.alignment == 0
    assert start in state.text()


def test_fields_leave_no_gaps() -> None:
    """The largest come first."""
    state = State("S", [Accumulator(1, "max", "int8", 0), Accumulator(2, "argmin", "int16", 0)])
    assert state.size == 16
    assert state.text().index("i2;") < state.text().index("a2;") < state.text().index("a1;")
