"""The loops that a value is computed in."""

import pytest

from fuser.ir.attribute_text import read
from fuser.ir.attributes import Axes
from fuser.ir.dims import symbol
from fuser.ir.graph import make, make_input
from fuser.scheduling.loop_nests import RealiseError, SectionMaker, fit, space_of, splits_one_axis

A, B, C = symbol("n0"), symbol("n1"), symbol("n2")
X = make_input("x0", "f4", (A, B))


def test_what_fits_into_loops() -> None:
    """Elements, results with and without the reduced axes; nothing else."""
    rows = ((A, B), (1,))
    assert fit((A, B), rows) == ()
    assert fit((A, 1), rows) == (read("broadcast_to", "n0, n1"),)
    assert fit((A,), rows) == (read("index", ":, None"), read("broadcast_to", "n0, n1"))
    assert fit((B,), rows) is None
    outer = ((A, B, C), (0, 2))
    assert fit((B,), outer) == (read("index", ":, None"), read("broadcast_to", "n0, n1, n2"))
    whole = ((A, B), (0, 1))
    assert fit((), whole) == (read("index", "None, None"), read("broadcast_to", "n0, n1"))
    assert fit((A,), ((A, B), ())) is None


def test_splitting_one_axis() -> None:
    """One axis becomes several, the others stay."""
    assert splits_one_axis((A, B, C), (A, 2, B // 2, C))
    assert splits_one_axis((A,), (2, A // 2))
    assert not splits_one_axis((A, B), (A, B))
    assert not splits_one_axis((A, B), (B, A))
    assert not splits_one_axis((A, B, C), (A, 2, B))


def test_loops_of_values() -> None:
    """A sum's loops are its operand's; two sums over other axes have no common loops."""
    rows = make("sum", X, payload=Axes((1,)))
    assert space_of(rows, {})[0] == ((A, B), (1,))
    column = make("index", rows, payload=read("index", ":, None"))
    assert space_of(make("subtract", X, column), {})[0] == ((A, B), (1,))
    assert space_of(make("subtract", X, column), {id(rows): "t0"})[0] == ((A, B), ())
    with pytest.raises(RealiseError):
        space_of(make("sqrt", make("index", rows, payload=read("index", "1:"))), {})


def test_one_nest() -> None:
    """Loads once, in order; a stored value is loaded, others are computed."""
    y = make("sqrt", X)
    z = make("add", y, X)
    maker = SectionMaker({}, ((A, B), ()))
    found = maker.section([(maker.value(z, ()), None)])  # type: ignore[list-item]
    assert [part.buffer for part in found.loads] == ["x0"]
    assert [step.node for step in found.steps] == [y, z]
    maker = SectionMaker({id(y): "t0"}, ((A, B), ()))
    found = maker.section([(maker.value(z, ()), None)])  # type: ignore[list-item]
    assert [part.buffer for part in found.loads] == ["t0", "x0"]
    assert found.node_of(2) is z
