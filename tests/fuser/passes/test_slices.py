"""Parts of joins: which operand holds them, where that is known for every length."""

import numpy as np
import pytest

from fuser.ir import dims
from fuser.ir.attributes import Axis
from fuser.ir.dims import Dim
from fuser.ir.graph import Node, intern, make_input
from fuser.ir.ops import op
from fuser.ir.views import Part
from fuser.passes import length_facts, slices

N = dims.symbol("n0")
KNOWN = length_facts.lower_bounds([(N, dims.maximum(N, 4))])


def _value(name: str, length: Dim) -> Node:
    """An array argument of one axis."""
    return make_input(name, np.float64, (length,))


def _join(kind: str, *pieces: Node) -> Node:
    """Pieces joined along their axis."""
    total: Dim = 0
    for piece in pieces:
        total = total + piece.shape[0]
    return intern(op(kind), pieces, (total,), np.dtype(np.float64), Axis(0))


A, B = _value("x0", N), _value("x1", N)


@pytest.mark.parametrize(
    ("kind", "span", "expected"),
    [
        ("concatenate", (0, N, 1), "x0"),
        ("concatenate", (N, N * 2, 1), "x1"),
        ("concatenate", (N + 1, N * 2, 1), "part(x1, 0; 1; n0; 1)"),
        ("concatenate", (0, N - 1, 2), "part(x0, 0; 0; n0 - 1; 2)"),
        ("concatenate", (1, N * 2, 2), "part(concatenate, 0; 1; 2*n0; 2)"),
        ("interleave", (0, N * 2, 2), "x0"),
        ("interleave", (1, N * 2, 2), "x1"),
        ("interleave", (3, N * 2, 2), "part(x1, 0; 1; n0; 1)"),
        ("interleave", (0, 1, 1), "part(x0, 0; 0; 1; 1)"),
        ("interleave", (0, 3, 1), "part(interleave, 0; 0; 3; 1)"),
    ],
)
def test_a_part_of_a_join(kind: str, span: tuple[Dim, Dim, int], expected: str) -> None:
    """An operand, a part of one, or a part of the stored whole."""
    found = slices.cut(_join(kind, A, B), 0, span, KNOWN, dims.steps(*span))
    text = found.text
    if found.op.name == "part":
        (inner,) = found.args
        text = f"part({inner.text if inner.op.name == 'input' else inner.op.name}, {found.text})"
    assert text == expected


def test_a_part_across_operands_is_a_join() -> None:
    """The end of the first and the start of the second."""
    found = slices.cut(_join("concatenate", A, B), 0, (N - 1, N + 2, 1), KNOWN, 3)
    assert found.op.name == "concatenate"
    assert [piece.payload for piece in found.args] == [Part(0, N - 1, N), Part(0, 0, 2)]


def test_what_the_guards_do_not_say_is_not_known() -> None:
    """Where a place may lie in either operand, the join is stored."""
    found = slices.cut(_join("concatenate", A, B), 0, (0, 6, 1), length_facts.lower_bounds([]), 6)
    assert found.op.name == "part"


def test_a_part_of_what_is_repeated_is_repeated_less() -> None:
    """No view of a view is left, and nothing of the whole."""
    row = make_input("x0", np.float64, (1, N))
    whole = slices.repeated(row, (N, N))
    assert slices.repeated(row, row.shape) is row
    found = slices.cut(whole, 0, (1, N, 1), KNOWN, N - 1)
    assert found is slices.repeated(row, (N - 1, N))
    assert slices.cut(whole, 1, (1, N, 1), KNOWN, N - 1).op.slices
