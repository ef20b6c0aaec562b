"""Every rewrite rule means what it replaces: EXACT ones to the bit, BOUNDED ones within the row."""

from itertools import product
from typing import Any

import numpy as np
import pytest

import fuser
from fuser.fallback import interpret
from fuser.ir.attribute_text import read
from fuser.ir.graph import Node, make, make_constant, make_input
from fuser.ir.ops import TABLE
from fuser.passes.rewrite import rewrite
from fuser.passes.rules import BOUNDED, EXACT, FAST, Rule, table

FLOATS = ("float16", "float32", "float64")
INTEGERS = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")
EVERY = ("bool", *INTEGERS, *FLOATS)


def edges(dtype: str) -> Any:
    """Zeros, ones, extremes, subnormals, infinities and NaN."""
    if dtype == "bool":
        return np.array([False, True])
    if dtype in INTEGERS:
        limits = np.iinfo(dtype)
        return np.array([0, 1, 2, 3, 7, limits.min, limits.max, limits.max - 1], dtype)
    limits = np.finfo(dtype)
    values = [0.0, -0.0, 1.0, -1.0, 2.5, -3.0, limits.max, limits.tiny, limits.smallest_subnormal]
    return np.array([*values, -limits.max, np.inf, -np.inf, np.nan], dtype)


def x_of(dtype: str) -> Node:
    """The argument."""
    return make_input("x0", dtype, (fuser.ir.dims.symbol("n0"),))


def one(dtype: str, value: Any = 1) -> Node:
    """A constant."""
    return make_constant(np.asarray(value).astype(dtype), dtype)


def seen(node: Node, name: str, text: str) -> Node:
    """A view, by its text."""
    return make(name, node, payload=read(name, text))


def cast(node: Node, dtype: str) -> Node:
    """A conversion."""
    return make("cast", node, payload=read("cast", dtype))


#: equation -> (dtypes, graphs of one argument in which the rule applies)
EXAMPLES: dict[str, tuple[tuple[str, ...], Any]] = {
    "x * 1 -> x": (EVERY, lambda x, d: [make("multiply", x, one(d)), make("multiply", one(d), x)]),
    "x / 1 -> x": (FLOATS, lambda x, d: [make("divide", x, one(d))]),
    "x - 0 -> x": ((*INTEGERS, *FLOATS), lambda x, d: [make("subtract", x, one(d, 0))]),
    "x + 0 -> x": (
        INTEGERS, lambda x, d: [make("add", x, one(d, 0)), make("add", one(d, 0), x)]
    ),
    "-(-x) -> x": ((*INTEGERS, *FLOATS), lambda x, d: [make("negative", make("negative", x))]),
    "~(~x) -> x": (("bool", *INTEGERS), lambda x, d: [make("invert", make("invert", x))]),
    "not not b -> b": (EVERY, lambda x, d: [make("logical_not", make("logical_not", x))]),
    "+x -> x": ((*INTEGERS, *FLOATS), lambda x, d: [make("positive", x)]),
    "||x|| -> |x|; |-x| -> |x|": (
        (*INTEGERS, *FLOATS),
        lambda x, d: [
            make("absolute", make("absolute", x)),
            make("absolute", make("negative", x)),
            *(
                [make("fabs", make("fabs", x)), make("fabs", make("negative", x))]
                if d in FLOATS
                else []
            ),
        ],
    ),
    "cast(x, dtype of x) -> x": (EVERY, lambda x, d: [cast(x, d), cast(x, f"{d} K")]),
    "cast(cast(x, wider), t) -> cast(x, t)": (
        EVERY,
        lambda x, d: [
            cast(cast(x, middle), last)
            for middle, last in product(EVERY, EVERY)
            if not (middle in FLOATS and last in INTEGERS)
            and not (d in FLOATS and middle in INTEGERS)
        ],
    ),
    "x[i][j] -> x[k]": (
        EVERY,
        lambda x, d: [
            seen(seen(x, "index", one), "index", other)
            for one, other in ((":, None", ":, 0"), ("None", "0, ::-1"), ("1:", ":, None"),
                               (":, None", ":, None"), (":, None, None", "2:, 0"))
        ],
    ),
    "reshape that adds or drops ones -> index": (
        EVERY,
        lambda x, d: [
            seen(x, "reshape", "n0, 1"),
            seen(x, "reshape", "1, n0, 1"),
            seen(seen(x, "index", "None, :, None"), "reshape", "n0"),
            seen(seen(x, "index", "None, :, None"), "reshape", "n0, 1, 1"),
        ],
    ),
    "where(c, x, x) -> x": (EVERY, lambda x, d: [make("where", make("isnan", x), x, x)]),
    "where(True, x, y) -> x; where(False, x, y) -> y": (
        EVERY,
        lambda x, d: [
            make("where", one("bool", True), x, one(d)),
            make("where", one("bool", False), x, one(d)),
        ],
    ),
    "x[:] -> x": (EVERY, lambda x, d: [seen(x, "index", "")]),
    "broadcast_to(x, shape of x) -> x; reshape the same": (
        EVERY,
        lambda x, d: [seen(x, "broadcast_to", "n0"), seen(x, "reshape", "n0")],
    ),
    "transpose by nothing -> x": (EVERY, lambda x, d: [seen(x, "transpose", "0")]),
    "op(constants) -> constant": (EVERY, lambda x, d: folded(x, d)),
    "x**2 -> x*x; x**3 -> x*x*x; x**4 -> (x*x)*(x*x); x**5 -> that * x": (
        (*INTEGERS, *FLOATS),
        lambda x, d: [make("power", x, one(d, n)) for n in (2, 3, 4, 5)],
    ),
    "x + (-y) -> x - y; x - (-y) -> x + y": (
        (*INTEGERS, *FLOATS),
        lambda x, d: [
            node
            for other in constants(x, d)
            for node in (
                make("add", other, make("negative", x)),
                make("add", make("negative", x), other),
                make("subtract", other, make("negative", x)),
            )
        ],
    ),
    "(-x) * (-y) -> x * y; (-x) / (-y) -> x / y": (
        (*INTEGERS, *FLOATS),
        lambda x, d: [
            make(name, make("negative", x), make("negative", make("square", x)))
            for name in ("multiply", *(["divide"] if d in FLOATS else []))
        ],
    ),
    "(-x)**2 -> x**2; |x|**2 -> x**2": (
        (*INTEGERS, *FLOATS),
        lambda x, d: [make("square", make(name, x)) for name in ("negative", "absolute")],
    ),
    "x / 2**k -> x * 2**-k": (
        FLOATS,
        lambda x, d: [make("divide", x, one(d, 2.0**k)) for k in (-9, -1, 1, 3, 10, 14)]
        + [make("divide", x, one(d, -4.0))],
    ),
    "max(x, x) -> x; min(x, x) -> x; x & x -> x; x | x -> x": (
        EVERY,
        lambda x, d: [
            make(name, x, x)
            for name in ("maximum", "minimum", "fmax", "fmin", "bitwise_and", "bitwise_or")
            if np.dtype(d).kind in TABLE[name].kinds
        ],
    ),
    "not (x == y) -> x != y; not (x != y) -> x == y": (
        EVERY,
        lambda x, d: [
            make("logical_not", make(name, x, other))
            for name in ("equal", "not_equal")
            for other in (x, one(d))
        ],
    ),
    "where(not c, x, y) -> where(c, y, x)": (
        EVERY,
        lambda x, d: [make("where", make("logical_not", make("isnan", x)), x, one(d))],
    ),
    "x**-1 -> 1/x": (("float32", "float64"), lambda x, d: [make("power", x, one(d, -1))]),
    "x**1 -> x": ((*INTEGERS, *FLOATS), lambda x, d: [make("power", x, one(d))]),
}


def constants(x: Node, dtype: str) -> list[Node]:
    """Operands whose zeros have both signs."""
    return [one(dtype, 0), one(dtype, 3), *([one(dtype, -0.0)] if dtype in FLOATS else [x])]


def folded(x: Node, dtype: str) -> list[Node]:
    """Operations on constants of every edge value."""
    from fuser.passes.rules import FOLDED

    kind = np.dtype(dtype).kind
    found = []
    for name in FOLDED:
        row = TABLE[name]
        if name in ("where", "cast") or (row.kinds and kind not in row.kinds):
            continue
        values = [one(dtype, value) for value in edges(dtype)]
        for operands in product(values, repeat=row.arity):
            node = make(name, *operands)
            found.append(make("where", make("isnan", x), node, node))
    return found[:: max(1, len(found) // 60)]


def outcomes(nodes: list[Node], dtype: str) -> tuple[Any, Any, set[str]]:
    """Values without and with rewriting, and the equations that were used."""
    parameter = fuser.ir.graph.Parameter("x0", np.dtype(dtype), nodes[0].shape or x_of(dtype).shape)
    graph = fuser.Graph((parameter,), tuple(nodes))
    changed, applied = rewrite(graph)
    values = edges(dtype)
    numbers = {"n0": len(values)}
    with np.errstate(all="ignore"):
        plain = interpret(graph, {"x0": values}, numbers)
        other = interpret(changed, {"x0": values}, numbers)
    return plain, other, {use.equation for use in applied}


RULES = [pytest.param(rule, id=rule.equation) for rule in (*EXACT.rules, *BOUNDED.rules)]


@pytest.mark.parametrize("rule", RULES)
def test_rules_mean_what_they_replace(rule: Rule) -> None:
    """Edge values of every dtype that the rule admits, through NumPy itself both times."""
    dtypes, build = EXAMPLES[rule.equation]
    used: set[str] = set()
    for dtype in dtypes:
        nodes = build(x_of(dtype), dtype)
        plain, other, equations = outcomes(nodes, dtype)
        used |= equations
        for node, wanted, found in zip(nodes, plain, other, strict=True):
            wanted, found = np.asarray(wanted), np.asarray(found)
            assert (wanted.dtype, wanted.shape) == (found.dtype, found.shape), node
            if rule in EXACT.rules or dtype in INTEGERS:
                same = (wanted == found) | ((wanted != wanted) & (found != found))
                assert same.all(), (node, wanted, found)
                assert (
                    (np.signbit(wanted) == np.signbit(found))[wanted == wanted].all()
                    if dtype in FLOATS and wanted.dtype.kind == "f"
                    else True
                )
                continue
            check_bounded(node, wanted, found)
    assert rule.equation in used


def check_bounded(node: Node, wanted: Any, found: Any) -> None:
    """Within the row's units in the last place, NumPy's own error included."""
    with np.errstate(all="ignore"):
        gap = np.abs(wanted.astype(np.float64) - found.astype(np.float64))
        room = (node.op.ulp + 1) * np.spacing(np.abs(wanted)).astype(np.float64)
    close = (gap <= room) | (wanted == found) | (np.isnan(wanted) & np.isnan(found))
    assert close.all(), (node, wanted[~close], found[~close])


def test_every_rule_has_an_example() -> None:
    """A new rule needs a row in EXAMPLES."""
    assert {rule.equation for rule in (*EXACT.rules, *BOUNDED.rules)} == set(EXAMPLES)


def test_fast_rules_need_to_be_asked_for() -> None:
    """Division by a constant stays one unless fastmath is on."""
    function, x = (lambda x: x / 3.0), np.linspace(0, 1, 100)
    plain, fast = fuser.fuse(function), fuser.fuse(function, fastmath=True)
    np.testing.assert_array_equal(plain(x), function(x))
    np.testing.assert_allclose(fast(x), function(x), rtol=1e-15)
    assert not any(rule.startswith("FAST") for rule in plain.explain(x).rules)
    assert any(rule.startswith("FAST") for rule in fast.explain(x).rules)
    assert FAST.rules


@pytest.mark.parametrize(
    "function",
    [
        lambda x: x + 0.0,
        lambda x: x * 0,
        lambda x: x - x,
        lambda x: x / x,
        lambda x: 0 - x,
        lambda x: x - (-0.0),
    ],
)
def test_what_looks_like_a_rule_and_is_none(function: Any) -> None:
    """Signed zeros, infinities and NaN forbid these."""
    from tests.fuser.comparing import assert_same

    for dtype in FLOATS:
        assert_same(function, edges(dtype))


def test_tables_have_names() -> None:
    """And nothing else has."""
    assert table("EXACT") is EXACT
    with pytest.raises(fuser.FuserError):
        table("NONE")


def random_graph(seed: int, dtype: str) -> list[Node]:
    """Some outputs of a random graph of rows that the EXACT rules start from."""
    random = np.random.default_rng(seed)
    kind = np.dtype(dtype).kind
    names = [
        name
        for name in sorted({op for rule in EXACT.rules for op in rule.ops} - {"where", "cast"})
        if kind in TABLE[name].kinds and TABLE[name].arity in (1, 2) and not TABLE[name].structure
    ]
    values = [x_of(dtype), one(dtype), one(dtype, 0), one(dtype, 2)]
    for _ in range(40):
        name = names[random.integers(len(names))]
        recent = values[-6:] if random.random() < 0.7 else values
        args = [recent[random.integers(len(recent))] for _ in range(TABLE[name].arity)]
        node = make(name, *args)
        if node.dtype == np.dtype(bool) and dtype != "bool":
            node = make("where", node, *(values[random.integers(len(values))] for _ in range(2)))
        values.append(node)
    return [make("where", make("isnan", values[0]), node, node) for node in values[-3:]]


@pytest.mark.parametrize("dtype", EVERY)
def test_random_graphs_mean_the_same_rewritten(dtype: str) -> None:
    """Many rules one after another: the same bits, but for the sign of NaN."""
    used: set[str] = set()
    for seed in range(12):
        plain, other, equations = outcomes(random_graph(seed, dtype), dtype)
        used |= equations
        for wanted, found in zip(map(np.asarray, plain), map(np.asarray, other), strict=True):
            np.testing.assert_array_equal(found, wanted, strict=True)
            if dtype in FLOATS:
                real = wanted == wanted
                np.testing.assert_array_equal(np.signbit(found)[real], np.signbit(wanted)[real])
    assert len(used) > 3
