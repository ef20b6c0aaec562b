"""What loops over pairs would compute for each pair is stored first where it is costly."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import fuser
from fuser.passes.rewrite import rewrite
from fuser.scheduling.inlining import costly_sides, through_views

A, B, V = np.ones((6, 4)), np.ones((5, 4)), np.arange(1.0, 7.0)


def unit(x: Any) -> Any:
    """Rows of length 1."""
    return x / np.sqrt((x * x).sum(-1, keepdims=True))


def shares(x: Any) -> Any:
    """Softmax of rows."""
    weights = np.exp(x - x.max(-1, keepdims=True))
    return weights / weights.sum(-1, keepdims=True)


def cosines(a: Any, b: Any) -> Any:
    """Cosine distances of all pairs of rows."""
    return 1 - (unit(a)[:, None] * unit(b)[None]).sum(-1)


def overlaps(a: Any, b: Any) -> Any:
    """How much all pairs of distributions have in common."""
    return np.minimum(shares(a)[:, None], shares(b)).sum(-1)


def themselves(a: Any) -> Any:
    """Cosines of all pairs of one set."""
    rows = unit(a)
    return (rows[:, None] * rows).sum(-1)


def energy(x: Any) -> Any:
    """A quotient for each pair, none of one side alone."""
    return (1 / np.sqrt((x[:, None] - x) ** 2 + 1)).sum()


#: name -> (function, arguments, operations whose values are stored)
SIDES: dict[str, tuple[Callable[..., Any], tuple[Any, ...], list[str]]] = {
    "cosines": (cosines, (A, B), ["divide", "divide"]),
    "overlaps": (overlaps, (A, B), ["divide", "divide"]),
    "one set": (themselves, (A,), ["divide"]),
    "before broadcasting": (
        lambda a, b: np.broadcast_to(a / 3, (5, 6, 4)).sum(0) * b[0], (A, B), ["divide"]
    ),
    "light": (lambda a, b: (abs(a - 1)[:, None] - b).sum(-1), (A, B), []),
    "of pairs": (energy, (V,), []),
    "innermost constant": (lambda v: ((1 / v)[:, None] * v).sum(), (V,), []),
    "rows as large as the loops": (lambda a, b: (a * (1 / b[0])).sum(-1), (A, B), ["divide"]),
    "columns as large as the loops": (lambda a, b: (a * (1 / b[0])).sum(0), (A, B), []),
    "pairs are results": (lambda v: v[:, None] / np.sqrt(v), (V,), []),
}


@pytest.mark.parametrize("name", SIDES)
def test_costly_sides_of_pairs(name: str) -> None:
    """By name; what is light, belongs to pairs, or is constant along a column, is not stored."""
    function, args, expected = SIDES[name]
    graph, _ = rewrite(fuser.trace(function, *args))
    found = {id(node): node for node in map(through_views, costly_sides(graph))}
    assert [node.op.name for node in found.values()] == expected


@pytest.mark.parametrize("name", SIDES)
def test_results_are_numpys(name: str) -> None:
    """Within rounding errors, with special values among the arguments."""
    function, args, _ = SIDES[name]
    fused = fuser.fuse(function, fallback="error")
    random = np.random.default_rng(0)
    plain = tuple(random.normal(size=np.shape(each)) for each in args)
    special = tuple(each.copy() for each in plain)
    special[0].flat[:3] = np.nan, np.inf, -0.0
    for given in (plain, special):
        with np.errstate(all="ignore"):
            expected = function(*given)
        np.testing.assert_allclose(fused(*given), expected, rtol=1e-12, atol=1e-14)


def test_both_sides_are_divided_once() -> None:
    """No nest over pairs divides; each set is read once."""
    graph, _ = rewrite(fuser.trace(cosines, A, B))
    for group in fuser.scheduling.schedule.plan(graph).groups:
        for section in group.sections:
            names = [step.node.op.name for step in section.steps]
            assert len(section.shape) == 2 or "divide" not in names
    reads = [
        part.buffer
        for group in fuser.scheduling.schedule.plan(graph).groups
        for section in group.sections
        for part in section.loads
        if not part.buffer.startswith("t")
    ]
    assert sorted(reads) == ["x0", "x1"]
