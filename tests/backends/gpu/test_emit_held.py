"""Rows in registers: which nests have such kernels, and what their text leaves out."""

from __future__ import annotations

import re
from typing import Any

import pytest

from fuser.backends.gpu.emit import emit
from fuser.backends.gpu.stages import Stages
from tests.backends.gpu.programs import numbers
from tests.backends.gpu.units import nests_of
from tests.softmax import softmax

#: What the preprocessor leaves out of most kernels.
_OFF = re.compile(r" *#if (?:AHEAD|CLUSTER > 1)\n.*?(?:#else\n(.*?))?#endif\n", re.DOTALL)


def _held_text(function: Any, *arguments: Any) -> str:
    """The template that holds rows, with all that is off left out; empty where there is none."""
    text = emit(nests_of(function, *arguments), "unit")
    text = _OFF.sub(r"\1", text)
    return text.partition("INLINE void held0")[2].partition("\n}\n")[0]


@pytest.mark.parametrize(
    ("dtype", "most"), [("float32", 8), ("float16", 4), ("float64", 4), ("int64", 4)]
)
def test_registers_bound_what_is_held(dtype: str, most: int) -> None:
    """Narrow floats are computed as floats, doubles need registers beside their own."""
    (nest,) = nests_of(lambda x: x - x.max(axis=1, keepdims=True), numbers(4, 64, dtype=dtype))
    assert Stages(nest).most_held == most


def test_columns_and_checked_nests_have_no_such_kernel() -> None:
    """Threads compute with zeros where the row has ended: no note may come of that."""
    assert not _held_text(lambda x: x.sum(axis=0), numbers(4, 64))
    powers = numbers(4, 64, dtype="int32")
    assert not _held_text(lambda x, y: (x**y).sum(axis=1), powers, powers % 3)


def test_held_vectors_are_read_once_and_take_no_seat() -> None:
    """One read of each operand before the first pass's sums; shared memory is the tail's."""
    text = _held_text(softmax, numbers(4, 64))
    held = "".join(part for part in text.split("if constexpr (TAIL)")[:1])
    assert held.count("load(x0[u]") == 1
    assert "pool" not in held
    assert text.count("if constexpr (TAIL)") == 3
