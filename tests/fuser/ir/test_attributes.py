"""Attributes of operations: equal by text, read back from it, renamed."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import fuser
from fuser.ir import attribute_text, dims
from fuser.ir.attributes import (
    NOTHING,
    Attribute,
    Axes,
    Axis,
    Bits,
    Cast,
    Expression,
    Extent,
    Name,
    Region,
    full_box,
)
from fuser.ir.dims import symbol

N, M = symbol("n0"), symbol("n1")
TEXTS: dict[str, tuple[str, Attribute]] = {
    "n0 - 1": ("positions", Extent(N - 1)),
    "float32": ("cast", Cast(np.dtype("float32"))),
    "int64 C": ("cast", Cast(np.dtype("int64"), "C")),
    "bool K.0.1": ("cast", Cast(np.dtype("bool"), "K", (0, 1))),
    "1": ("concatenate", Axis(1)),
    "1:n0 - 1; 0:n1:2": ("update", Region(((1, N - 1, 1), (0, M, 2)))),
    "0:max(n1, 2)": ("update", Region(((0, dims.maximum(M, 2), 1),))),
    "": ("update", Region(())),
}


@pytest.mark.parametrize("text", TEXTS)
def test_texts_are_read_back(text: str) -> None:
    """What is made of a text is what has it."""
    name, made = TEXTS[text]
    assert made.text == str(made) == text
    read = attribute_text.read(name, text)
    assert read == made
    assert hash(read) == hash(made)
    assert attribute_text.read("sum", "0, 2") == Axes((0, 2))
    assert attribute_text.read("sum", "") == Axes(())


def test_other_classes_and_texts_are_not_equal() -> None:
    """An axis is no axes, and a name no expression."""
    found = [NOTHING, Axis(1), Axes((1,)), Name("n0"), Expression("n0"), Extent(N), Bits(0, 4)]
    assert all(one != other for one, other in itertools.combinations(found, 2))
    assert Bits(0, 4).text == "0x00000000"
    assert Bits(255, 2).text == "0x00ff"


def test_symbols_are_renamed() -> None:
    """In lengths, regions and expressions; axes and names have none."""
    names = {"n0": symbol("n7"), "n1": 3}
    assert Extent(N + M).renamed(names) == Extent(symbol("n7") + 3)
    assert Region(((0, N, 1), (1, M, 2))).renamed(names).text == "0:n7; 1:3:2"
    assert Expression("s0 * n0").renamed(names) == Expression("s0 * n7")
    assert Axes((1,)).renamed(names) == Axes((1,))
    assert Region(((0, N, 1), (1, M, 2))).lengths == (0, N, 1, M)


def test_a_region_of_all_is_full() -> None:
    """For every size, as it is spelled."""
    assert Region(full_box((N, M))).is_full((N, M))
    assert not Region(((0, N, 1), (1, M, 1))).is_full((N, M))
    assert Region(((1, N, 2),)).slices({"n0": 5}) == (slice(1, 5, 2),)
    assert Region(((1, N, 2), (0, M, 1))).python(str) == "1:n0:2, 0:n1:1"
    assert Region(()).python(str) == "..."


def test_all_of_a_single_number_is_a_region() -> None:
    """It has no axes, so its text is empty."""
    text = "graph(x0: float64[], x1: float64[]):\n  %0 = update x0 x1 : float64[]\n  return %0"
    graph = fuser.parse(text)
    assert str(graph) == text
    assert graph.outputs[0].payload == Region(())
    (found,) = fuser.run_fusion(fuser.register_fusion(graph), [np.zeros(()), np.ones(())])
    assert found == 1
