"""Which values are stored, by the rules of one file."""

from typing import Any

import numpy as np
import pytest

import fuser
from fuser.passes.rewrite import rewrite
from fuser.scheduling.inlining import MOST_PARTS, RECOMPUTE_LIMIT, stored_values

X = np.ones((6, 8))
V = np.ones(8)


def centred(x: Any) -> Any:
    """Rows, then columns."""
    x = x - x.mean(-1, keepdims=True)
    return x - x.mean(0)


def costly(x: Any) -> Any:
    """A costly value that needs sums of rows and is summed over columns."""
    y = np.exp(np.sin(np.cos(np.tanh(np.log(x - x.mean(-1, keepdims=True))))))
    return y - y.mean(0)


def alternating(x: Any) -> Any:
    """Rows and columns in turn, as Sinkhorn does: each step needs the sums before it alone."""
    for _ in range(3):
        x = x / x.sum(1, keepdims=True)
        x = x / x.sum(0)
    return x


#: name -> (function, arguments, reasons)
STORED: dict[str, tuple[Any, tuple[Any, ...], list[str]]] = {
    "nothing": (lambda x: np.exp(x) + x.sum(-1)[:, None], (X,), []),
    "light row": (lambda x, v: x * (v + 1), (X, V), []),
    "costly row": (lambda x, v: x * np.exp(v), (X, V), ["heavy-broadcast"]),
    "roots of a row": (lambda x, v: x * (v / np.sqrt(v)) + v, (X, V), ["heavy-broadcast"]),
    "roots, neighbours": (lambda v: np.diff(1 / v), (V,), []),
    "costly column": (lambda x, v: x * np.exp(v[:6, None]), (X, V), []),
    "costly, transposed": (lambda x: np.exp(x).T + 1, (X,), []),
    "costly, one column": (lambda x: np.exp(x)[:, 0] * 2, (X,), []),
    "costly, halves": (lambda x: np.exp(x)[:, :2] * np.exp(x)[:, 2:4], (X,), []),
    "costly, in turn": (lambda x: np.exp(x)[:, ::2] * np.exp(x)[:, 1::2], (X,), []),
    "costly, neighbours": (lambda v: np.diff(np.exp(v)), (V,), ["heavy-broadcast"]),
    "reshaped sums": (lambda x: x / np.exp((x * x).sum(1)).reshape(-1, 1), (X,), []),
    "axes in turn": (alternating, (X,), ["reduction-elsewhere"]),
    "costly, one layer": (lambda x: np.exp(x)[None] * np.exp(x)[0], (X,), ["heavy-broadcast"]),
    "other axes": (centred, (X,), ["reduction-elsewhere"]),
    "other axes, costly": (costly, (X,), ["costly-shared"]),
    "joined": (lambda v: np.concatenate([v, v])[1:] * 2, (V,), ["joined"]),
}


@pytest.mark.parametrize("name", STORED)
def test_what_is_stored_and_why(name: str) -> None:
    """Codes of the vocabulary; unfused, every operation is stored."""
    function, args, reasons = STORED[name]
    graph, _ = rewrite(fuser.trace(function, *args))
    assert sorted(set(stored_values(graph, "fused").values())) == reasons
    unfused = stored_values(graph, "unfused")
    assert "unfused-mode" in unfused.values() or not any(n.op.heavy for n in graph.nodes)


def test_what_is_computed_of_a_reduction_is_stored_in_its_place() -> None:
    """Roots of sums along rows are taken once, and not for each column that is added up then."""

    def pulled(x: Any) -> Any:
        lengths = np.sqrt((x * x).sum(2) + 0.01)
        return (x / (lengths * lengths * lengths)[:, :, None]).sum(1)

    def both(x: Any) -> Any:
        sums = (x * x).sum(2)
        return (x / np.sqrt(sums)[:, :, None]).sum(1), sums

    x = np.random.default_rng(0).random((5, 6, 3))
    for function, wanted in ((pulled, "multiply"), (both, "sum")):
        graph, _ = rewrite(fuser.trace(function, x))
        stored = stored_values(graph, "fused")
        assert [n.op.name for n in graph.nodes if id(n) in stored] == [wanted]
        found, plain = fuser.fuse(function, fallback="error")(x), function(x)
        for one, other in zip(found, plain, strict=True):  # rows, or both results
            np.testing.assert_allclose(one, other, rtol=1e-12)


def test_elements_at_computed_places_that_two_scatters_need_are_stored() -> None:
    """Two of them; one alone is read again."""

    def springs(x: Any, i: Any, j: Any) -> Any:
        force, pull = np.zeros_like(x), x[i] - x[j]
        np.add.at(force, i, pull)
        np.subtract.at(force, j, pull)
        return force

    def copies(x: Any, i: Any, j: Any) -> Any:
        force, pull = np.zeros_like(x), x[i] * 2
        np.add.at(force, i, pull)
        np.subtract.at(force, j, pull)
        return force

    rng = np.random.default_rng(2)
    x, i, j = rng.standard_normal(50), *rng.integers(0, 50, (2, 300))
    for function, stored in ((springs, True), (copies, False)):
        fused = fuser.fuse(function, fallback="error")
        assert fused(x, i, j).tobytes() == function(x, i, j).tobytes()
        assert ("costly and needed by several" in str(fused.explain(x, i, j))) is stored


def test_views_are_limited() -> None:
    """A long chain of stencils is not computed again without bound, whatever its length."""
    def chain(v: Any) -> Any:
        for _ in range(60):
            v = v[1:] + v[:-1]
        return v

    graph = fuser.trace(chain, np.ones(100))
    reasons = stored_values(graph, "fused")
    assert set(reasons.values()) == {"many-views"}
    assert len(reasons) < 12
    plan = fuser.scheduling.schedule.plan(graph)
    steps = sum(len(section.steps) for group in plan.groups for section in group.sections)
    assert steps < 2 * RECOMPUTE_LIMIT


def test_nested_joins_have_a_limit() -> None:
    """What is doubled again and again has few parts; the results are NumPy's."""
    def doubled(v: Any) -> Any:
        v = v * 2
        for _ in range(14):
            v = np.concatenate([v, v])
        return v

    graph = fuser.trace(doubled, np.ones(3))
    assert set(stored_values(graph, "fused").values()) == {"joined"}
    plan = fuser.scheduling.schedule.plan(graph)
    assert sum(len(section.stores) for g in plan.groups for section in g.sections) < 4 * MOST_PARTS
    np.testing.assert_array_equal(fuser.fuse(doubled)(np.arange(3.0)), doubled(np.arange(3.0)))


def test_joins_below_the_limit_store_nothing() -> None:
    """One join of many arrays has as many parts as arrays; so have a few joins of joins."""
    def flat(v: Any) -> Any:
        return np.concatenate([v * k for k in range(2 * MOST_PARTS)])

    def nested(v: Any) -> Any:
        z = v
        for _ in range(20):
            z = np.concatenate([z, v + 1])
        return z

    for function in (flat, nested):
        graph = fuser.trace(function, np.ones(3))
        assert "joined" not in stored_values(graph, "fused").values()
