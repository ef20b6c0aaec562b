"""Which loop nests become one, why others do not, and how long planning takes."""

import sys
from typing import Any

import numpy as np
import pytest

import fuser
from fuser.ir.attribute_text import read
from fuser.ir.attributes import Axes
from fuser.ir.dims import symbol
from fuser.ir.graph import Graph, Node, Parameter, make, make_input
from fuser.scheduling import schedule
from fuser.scheduling.clustering import score_fusion
from fuser.scheduling.verdicts import VERDICTS

X = np.arange(60, dtype=np.float64).reshape(6, 10) / 7 - 3
G = np.arange(10, dtype=np.float64)
IMAGES = np.arange(840, dtype=np.float64).reshape(4, 6, 5, 7) % 11


def group_norm(x: Any) -> Any:
    """Two groups of channels."""
    n, c, h, w = x.shape
    y = x.reshape(n, 2, c // 2, h, w)
    away = y - y.mean((2, 3, 4), keepdims=True)
    scale = np.sqrt((away * away).mean((2, 3, 4), keepdims=True) + 1e-5)
    return (away / scale).reshape(n, c, h, w)


def layer_norm_backward(dy: Any, x: Any, g: Any) -> Any:
    """Rows for the data, columns for the parameters."""
    m = x.mean(-1, keepdims=True)
    r = 1 / np.sqrt(x.var(-1, keepdims=True) + 1e-5)
    h, d = (x - m) * r, dy * g
    rest = d - d.mean(-1, keepdims=True) - h * (d * h).mean(-1, keepdims=True)
    return r * rest, (dy * h).sum(0), dy.sum(0)


#: name -> (function, arguments, loop nests)
NESTS: dict[str, tuple[Any, tuple[Any, ...], int]] = {
    "element and sum": (lambda x: (x + 1, x.sum(-1)), (X,), 1),
    "sum and its use": (lambda x: (x.sum(-1), x / x.sum(-1)[:, None]), (X,), 1),
    "value and its use": (lambda x: (np.exp(x), np.exp(x) * 2), (X,), 1),
    "results of one loop": (lambda x, g: (x.sum(0), x.max(0) * g, g + 1), (X, G), 1),
    "nothing shared": (lambda x, y: (x + 1, y * 2), (X, X), 2),
    "rows and columns": (lambda x: (x.sum(0), x.sum(1)), (X,), 2),
    "layer norm backward": (layer_norm_backward, (X, X, G), 2),
    "group norm": (group_norm, (IMAGES,), 1),
    "seen another way": (lambda x: (lambda m: m - m[::-1])(x.sum(-1)), (X,), 2),
}


@pytest.mark.parametrize("name", NESTS)
def test_loop_nests(name: str) -> None:
    """How many nests are left, the right answer, and a verdict for every pair."""
    function, args, nests = NESTS[name]
    found, wanted = fuser.fuse(function, fallback="error")(*args), function(*args)
    pairs = zip(found, wanted, strict=True) if type(found) is tuple else [(found, wanted)]
    for one, other in pairs:
        np.testing.assert_allclose(one, other, rtol=1e-9, atol=1e-9)
    plan = fuser.compiler.compile_upfront(fuser.trace(function, *args)).plan
    assert sum(len(group.sections) for group in plan.groups) == nests
    for pair in plan.pairs:
        assert pair.verdict in VERDICTS
        assert pair.kind in ("vertical", "horizontal")
        assert pair.shared


def test_no_fusion_without_its_reason() -> None:
    """Columns and rows of one array: the loops differ; the pair is listed."""
    plan = fuser.compiler.compile_upfront(fuser.trace(lambda x: (x.sum(0), x.sum(1)), X)).plan
    assert [pair.verdict for pair in plan.pairs] == ["other-loops"]


def test_scores() -> None:
    """More bytes first; then what belongs together; then what is close."""
    assert score_fusion(200, "horizontal", 1) > score_fusion(100, "vertical", 1)
    assert score_fusion(100, "vertical", 1) > score_fusion(100, "horizontal", 1)
    assert score_fusion(100, "vertical", 1) > score_fusion(100, "vertical", 9)


ROWS, COLUMNS = symbol("n0"), symbol("n1")


def kept(node: Node, axis: int) -> Node:
    """The sum along an axis, which keeps it."""
    total = make("sum", node, payload=Axes((axis,)))
    return make("index", total, payload=read("index", "None" if axis == 0 else ":, None"))


def centred(x: Node, count: int) -> list[Node]:
    """Centred along rows and columns in turn."""
    for turn in range(count // 3):
        x = make("subtract", x, kept(x, turn % 2))
    return [x]


def chain(x: Node, count: int) -> list[Node]:
    """One operation after another."""
    y = x
    for _ in range(count // 2):
        y = make("add", make("sqrt", y), x)
    return [y]


def sums(x: Node, count: int) -> list[Node]:
    """Sums of a chain's values, along rows and columns in turn."""
    found = []
    for turn in range(count // 2):
        x = make("sqrt", x)
        found.append(make("sum", x, payload=Axes((turn % 2,))))
    return found


def lines_of(work: Any) -> int:
    """How many lines of Python run in a call: a cost that no busy machine changes."""
    lines = 0

    def trace(frame: Any, event: str, arg: Any) -> Any:
        """Count the lines of every frame."""
        nonlocal lines
        lines += event == "line"
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        work()
    finally:
        sys.settrace(before)
    return lines


@pytest.mark.parametrize("build", [chain, centred, sums])
def test_planning_is_near_linear(build: Any) -> None:
    """Sixteen times the nodes run at most 16**1.25 times the lines of Python.

    From 128 on: shorter chains hold nothing costly that would have to be planned anew.
    """
    lines = []
    for count in (128, 2048):
        x = make_input("x0", "f4", (ROWS, COLUMNS))
        graph = Graph((Parameter("x0", np.dtype("f4"), x.shape),), tuple(build(x, count)))
        assert len(graph.nodes) > count * 0.8
        lines.append(lines_of(lambda graph=graph: schedule.plan(graph)))
    assert lines[1] < 16**1.25 * lines[0], lines
