"""The immutable graph: interning, canonical text, parse, depth, equality up to names."""


import numpy as np
import pytest

import fuser
from fuser.base import budget
from fuser.base.errors import DtypeError, FuserError, GraphError, ShapeError
from fuser.ir.attribute_text import read
from fuser.ir.attributes import Axis
from fuser.ir.graph import constant_value, make, make_constant, make_input, walk
from tests.children import said

X = np.arange(12, dtype=np.float32).reshape(3, 4)


def test_equal_nodes_are_one_object() -> None:
    """Interning: the same operation on the same operands is the same node."""
    x = make_input("x0", "float32", (3,))
    assert make("exp", x) is make("exp", make_input("x0", "float32", (3,)))
    assert make("exp", x) is not make("exp", make_input("x1", "float32", (3,)))


@pytest.mark.parametrize("value", [0.0, -0.0, float("nan"), float("inf"), 1e-45, 0.1])
@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_constants_keep_their_bits(value: float, dtype: str) -> None:
    """0.0 is not -0.0, and NaN is itself."""
    with np.errstate(all="ignore"):
        wanted = np.asarray(value).astype(dtype)
    found = constant_value(make_constant(wanted, dtype))
    assert found.dtype == dtype
    assert found.tobytes() == wanted.tobytes()
    assert make_constant(0.0, dtype) is not make_constant(-0.0, dtype)


@pytest.mark.parametrize(
    ("build", "error"),
    [
        (lambda x, y: make("add", x), GraphError),
        (lambda x, y: make("no_such_row", x), GraphError),
        (lambda x, y: make("add", x, y), DtypeError),
        (lambda x, y: make("exp", y), DtypeError),
        (lambda x, y: make("add", x, make_input("z", "float32", (4,))), ShapeError),
        (lambda x, y: make("transpose", x, payload=read("transpose", "0, 1")), ShapeError),
        (lambda x, y: make("index", x, payload=read("index", "7")), ShapeError),
        (lambda x, y: make("where", x, x, x), DtypeError),
        (lambda x, y: make("concatenate", x, x, payload=Axis(1)), ShapeError),
    ],
)
def test_invalid_nodes_cannot_be_built(build: object, error: type[FuserError]) -> None:
    """`make` infers dtype and shape, or raises."""
    with pytest.raises(error):
        build(make_input("x", "float32", (3,)), make_input("y", "int32", (3,)))  # type: ignore[operator]


FUNCTIONS = {
    "pointwise": lambda x, s: (x * s + 1, np.sqrt(x)),
    "views": lambda x, s: (x[1:, ::-1].T + s, x[:, None], x[-1]),
    "guards": lambda x, s: x[:2] + x[1:] * x[:-1],
    "join": lambda x, s: (np.concatenate([x, x + s], 1), np.stack([x, x])),
    "reshape": lambda x, s: (x.reshape(-1) * 2, x.reshape(2, -1), np.broadcast_to(x, (2, 3, 4))),
    "lengths": lambda x, s: x / x.shape[0] + x.size,
    "casts": lambda x, s: (x.astype(np.int8), x > s, np.where(x > 1, x, s), x.copy()),
    "constants": lambda x, s: (x * np.float64(-0.0), x + np.float16(np.nan)),
    "same twice": lambda x, s: (x, x, x.T, s),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_text_is_read_back(name: str) -> None:
    """parse(str(graph)) has the same text, key and results, guards included."""
    graph = fuser.trace(FUNCTIONS[name], X, 2.0)
    again = fuser.parse(str(graph))
    assert str(again) == str(graph)
    assert again == graph
    assert hash(again) == hash(graph)
    key = fuser.register_fusion(graph)
    assert fuser.register_fusion(again) == key
    wanted = fuser.run_fusion(key, [X, 2.0], mode="fallback")
    for one, other in zip(wanted, fuser.run_fusion(key, [X, 2.0]), strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "graph(x0: float32[n0]):",
        "graph(x0: float32[n0]):\n  return %0",
        "graph(x0: float32[n0]):\n  %0 = exp x1 : float32[n0]\n  return %0",
        "graph(x0: float32[n0]):\n  %0 = exp x0 : float64[n0]\n  return %0",
        "graph(x0: float32[n0]):\n  %0 = exp x0 : float32[n1]\n  return %0",
        "graph(x0: float32[n0]):\n  %0 = exq x0 : float32[n0]\n  return %0",
        "graph(x0: floot32[n0]):\n  return x0",
        "graph(x0 = float32[n0]):\n  return x0",
        "graph(x0: float32[n0]):\n  something else\n  return x0",
        "graph(x0: float32[__import__('os')]):\n  return x0",
    ],
)
def test_text_that_is_no_graph_is_refused(text: str) -> None:
    """GraphError, never another exception, and nothing is executed."""
    with pytest.raises(FuserError):
        fuser.parse(text)


def test_equal_graphs_up_to_names_share_a_key() -> None:
    """Names of functions, parameters and variables are no part of a graph."""

    def first(a: object, b: object) -> object:
        """One spelling."""
        c = a * 2  # type: ignore[operator]
        return c + b

    keys = {
        fuser.register_fusion(fuser.trace(f, *args))
        for f in (first, lambda speed, time: speed * 2 + time)
        for args in ([X, X], [X[:2], X[:2]], [X[:, :3].copy(), X[:, :3]])
    }
    assert len(keys) == 1


def test_graphs_are_the_same_under_every_hash_seed() -> None:
    """Text and generated code do not depend on how strings are hashed."""
    code = (
        "import numpy as np, fuser\n"
        "f = lambda x, y: (np.exp(x[1:] - y[:-1]) * 2 + x.shape[0], np.concatenate([x, y * x]))\n"
        "g = fuser.trace(f, np.ones(5), np.ones(5))\n"
        "print(g); print(fuser.generate_code(g, backend='cpu'))"
    )
    seeds = ("0", "1", "4242")
    texts = {said("-c", code, environment={"PYTHONHASHSEED": seed}) for seed in seeds}
    assert len(texts) == 1
    assert "graph(" in texts.pop()


def test_ten_thousand_nodes_deep(monkeypatch: pytest.MonkeyPatch) -> None:
    """Trace, text, parse, compile and run without recursion, however slow the machine is."""
    monkeypatch.setattr(budget, "SECONDS", 60.0)

    def deep(x: object) -> object:
        """A chain of 10,000 operations; loops over ranges would be one node."""
        for _ in [None] * 5000:
            x = x * 1.0001 + 0.5  # type: ignore[operator]
        return x

    x = np.linspace(0, 1, 7)
    graph = fuser.trace(deep, x)
    assert len(walk(graph.outputs)) > 10_000
    assert str(fuser.parse(str(graph))) == str(graph)
    fused = fuser.fuse(deep, fallback="error")
    np.testing.assert_array_equal(fused(x), deep(x))
    assert len(fused.explain(x).groups) == 1


@pytest.mark.parametrize("text", [
    None,
    3,
    "graph(x0: float64[n0]):\n  %0 = index{5; 4} x0 : float64[]\n  return %0\n",
    "graph(x0: float64[n0]):\n  %0 = transpose{a} x0 : float64[n0]\n  return %0\n",
    "graph(x0: float64[n0], x0: float64[n0]):\n  return x0\n",
])  # fmt: skip
def test_what_is_no_graph(text: object) -> None:
    """It is an error of ours, whatever is wrong with it."""
    with pytest.raises(GraphError):
        fuser.parse(text)  # type: ignore[arg-type]
