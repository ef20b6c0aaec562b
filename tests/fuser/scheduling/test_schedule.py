"""Which operations share a kernel: views, splits, joins, stencils and their chains."""

from typing import Any

import numpy as np
import pytest

import fuser
from fuser.compiler import compile_upfront
from tests.fuser.comparing import assert_same, compare

X = np.arange(48, dtype=np.float64).reshape(6, 8) - 20
V = np.arange(24, dtype=np.float64) - 9


def laplacian(x: Any) -> Any:
    """Five points."""
    return x[1:-1, 1:-1] * 4 - x[:-2, 1:-1] - x[2:, 1:-1] - x[1:-1, :-2] - x[1:-1, 2:]


def chain(x: Any, levels: int) -> Any:
    """Stencils of stencils."""
    for _ in range(levels):
        x = (x[2:] - 2 * x[1:-1] + x[:-2]) * 0.5
    return x


#: name -> (function, arguments, kernels)
KERNELS: dict[str, tuple[Any, tuple[Any, ...], int]] = {
    "pointwise": (lambda x: np.sqrt(abs(x)) * 2 + x, (X,), 1),
    "several outputs": (lambda x: (x * 2, x + 1, x > 0), (X,), 1),
    "shifted slices": (lambda x: x[1:] - x[:-1], (V,), 1),
    "laplacian": (laplacian, (X,), 1),
    "laplacian twice": (lambda x: laplacian(laplacian(x)), (X,), 1),
    "transposed sum": (lambda x: x + x.T * 2, (X[:, :6],), 1),
    "outer": (lambda x, y: x[:, None] * y - y[None], (V, V[:5]), 1),
    "flip": (lambda x: x[::-1] + np.flip(x, 1), (X,), 1),
    "split": (lambda x: np.subtract(*np.split(x * 2 + 1, 2)), (V,), 1),
    "split rows": (lambda x: [a * 3 for a in np.split(abs(x), 3)], (X,), 1),
    "join": (lambda x, y: np.concatenate([x * 2, y + 1, x]), (V, V[:5]), 1),
    "stack": (lambda x: np.stack([x, -x, x * x], axis=-1), (V,), 1),
    "join of joins": (lambda x: np.concatenate([np.concatenate([x, -x]), x + 1]), (V,), 1),
    "join then use": (lambda x: np.concatenate([x, -x])[1:] * 2, (V,), 1),
    "periodic": (lambda x: np.roll(x, 1) - x, (V,), 1),
    "reshape of work": (lambda x: (x * 2).reshape(8, 6) + 1, (X,), 1),
    "reshape of broadcast": (lambda x, v: (x + v).reshape(-1) * 2, (X, V[:8]), 1),
    "shapes that differ": (lambda x, v: (x * 2, v + 1, x[0] - 1), (X, V), 1),
}


@pytest.mark.parametrize("name", KERNELS)
def test_kernels_and_answers(name: str) -> None:
    """How many kernels a function is, in the fused mode; the answer in all modes."""
    function, args, count = KERNELS[name]
    for mode in ("fused", "unfused", "fallback"):
        assert compare(function, *args, mode=mode) == ""
    fused = fuser.fuse(function, fallback="error")
    assert len(fused.explain(*args).groups) == count
    assert len(fused.source(*args)) == count


@pytest.mark.parametrize("levels", [1, 2, 3, 5, 9])
def test_chains_of_stencils(levels: int) -> None:
    """Right at any depth, and not computed again without bound."""
    fused = fuser.fuse(lambda x: chain(x, levels), fallback="error")
    assert compare(fused, V) == ""
    text = str(fused.explain(V))
    steps = sum(line.count("subtract") for line in text.splitlines() if line.startswith("    "))
    assert steps <= 1024


def test_unfused_is_one_kernel_an_operation() -> None:
    """As NumPy runs it: conversions of operands belong to the operation, astype is one."""
    unfused = fuser.fuse(lambda x: np.sqrt(abs(x)) * 2 + x, mode="unfused", fallback="error")
    assert len(unfused.explain(X).groups) == 4
    unfused = fuser.fuse(lambda x: x.astype(np.float32) + np.float32(1), mode="unfused")
    assert len(unfused.explain(X).groups) == 2
    unfused = fuser.fuse(lambda x, n: x + n, mode="unfused")
    assert len(unfused.explain(V, np.arange(24)).groups) == 1


def test_outputs_of_different_shapes_stay_apart() -> None:
    """An output is never broadcast to another's shape."""
    fused = fuser.fuse(lambda x, v: (x + v, v * 2, x[:, 0], x[0, 0] * 3), fallback="error")
    found = fused(X, V[:8])
    assert [np.shape(value) for value in found] == [(6, 8), (8,), (6,), ()]
    assert compare(fused, X, V[:8]) == ""
    assert compare(fused, X[:1], V[:8]) == ""
    assert compare(fused, X[:, :1], V[:1]) == ""


def test_costly_broadcast_operands_are_computed_once() -> None:
    """exp of a row is not repeated for every row."""
    fused = fuser.fuse(lambda x, v: x * np.exp(v), fallback="error")
    explained = fused.explain(X, V[:8])
    assert explained.realised
    assert "broadcast" in str(explained)


def test_the_plan_depends_on_the_graph_alone() -> None:
    """The same text for other sizes and another process's order of work."""
    graph = fuser.trace(laplacian, X)
    other = fuser.trace(laplacian, np.ones((50, 60)))
    assert graph == other
    assert fuser.generate_code(graph, backend="cpu") == fuser.generate_code(other, backend="cpu")


@pytest.mark.parametrize("mode", ["fused", "unfused"])
def test_a_reduction_of_parts_whose_lengths_are_spelled_in_two_ways(mode: str) -> None:
    """A plan is found: the window's length is told by the slice, and by where it lies."""

    def window(x: Any) -> Any:
        seen = x[..., -3:-1, ::-1]
        x[-3:-1, :-1] = x[-3:-1, :-1] + 1
        return seen.min(axis=-1, keepdims=True), seen.max(1), seen - seen.sum(-1, keepdims=True)

    for rows in (9, 3, 2, 1):
        assert_same(window, np.arange(5.0 * rows).reshape(rows, 5), mode=mode)


def test_axes_that_are_inserted_are_no_loops() -> None:
    """What is written into single places of axes is computed with what has none."""
    graph = fuser.parse(
        "graph(x0: float64[n0, n1]):\n"
        "  %0 = tanh x0 : float64[n0, n1]\n"
        "  %1 = multiply %0 x0 : float64[n0, n1]\n"
        "  %2 = index{:, :, None} %1 : float64[n0, n1, 1]\n"
        "  %3 = index{:, :, None, None} %0 : float64[n0, n1, 1, 1]\n"
        "  return %2, %3\n"
    )
    (group,) = compile_upfront(graph).plan.groups
    (nest,) = group.sections
    assert list(map(str, nest.shape)) == ["n0", "n1"]
    x = X[:4, :3] / 9
    two, three = fuser.run_fusion(fuser.register_fusion(graph), [x])
    assert (two.shape, three.shape) == ((4, 3, 1), (4, 3, 1, 1))
    np.testing.assert_allclose(two[..., 0], np.tanh(x) * x, rtol=1e-14)
    np.testing.assert_allclose(three[..., 0, 0], np.tanh(x), rtol=1e-14)
