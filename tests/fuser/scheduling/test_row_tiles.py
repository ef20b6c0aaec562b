"""Nests that hand rows to each other: which do, what they move, and that results are NumPy's."""

from collections.abc import Iterator
from random import Random
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, note
from hypothesis import strategies as st

import fuser
from fuser import executor
from fuser.backends.cpu.machine import workers
from fuser.backends.cpu.reducing.row_chain import RowChain
from fuser.base.records import changed
from fuser.compiler import compile_upfront, planned
from fuser.ir import dims
from fuser.ir.attribute_text import read
from fuser.ir.dims import symbol
from fuser.runtime.launch import bind
from fuser.scheduling import row_tiles, schedule, verdicts
from fuser.scheduling.capabilities import Capabilities
from fuser.scheduling.row_tiles import loop_of
from fuser.traffic import ledger
from tests.fuser.comparing import assert_near
from tests.fuser.randomly import randomly
from tests.fuser.scheduling.plans import plan_of


def squared(x: Any, c: Any) -> Any:
    """Squared distances of all pairs."""
    return ((x[:, None, :] - c[None]) ** 2).sum(-1)


def nearest(x: Any, c: Any) -> Any:
    """K-means: the nearest centre."""
    return squared(x, c).argmin(-1)


def nearest_first(x: Any, c: Any) -> Any:
    """The same with the centres first: rows are the second axis."""
    return ((c[:, None, :] - x[None]) ** 2).sum(-1).argmin(0)


def inertia(x: Any, c: Any) -> Any:
    """The loss of k-means."""
    return squared(x, c).min(-1).sum()


def with_distances(x: Any, c: Any) -> Any:
    """Distances as a result, read again for others."""
    found = squared(x, c)
    return found, found.argmin(-1), found.max(-1)


def weights(q: Any, k: Any) -> Any:
    """Softmax over computed scores."""
    scores = (q[..., :, None, :] * k[..., None, :, :]).sum(-1)
    powers = np.exp(scores - scores.max(-1, keepdims=True))
    return powers / powers.sum(-1, keepdims=True)


def attention(q: Any, k: Any) -> Any:
    """Three reductions over three axes."""
    return (weights(q, k)[:, :, None] * k[None]).sum(1)


def heads(q: Any, k: Any) -> Any:
    """Attention of several heads, which takes its keys as values."""
    return (weights(q, k)[..., None] * k[..., None, :, :]).sum(-2)


def nearest_of_each(x: Any, c: Any) -> Any:
    """K-means of several sets at once, each with its own centres."""
    return ((x[:, :, None, :] - c[:, None]) ** 2).sum(-1).argmin(-1)


def forces(p: Any, m: Any) -> Any:
    """Bodies in three dimensions."""
    away = p[None] - p[:, None]
    square = (away * away).sum(-1) + 1e-3
    return (away * (m[None, :, 0] * square**-1.5)[:, :, None]).sum(1)


def homogeneous(x: Any, w: Any) -> Any:
    """Coordinates with a one behind them, times a matrix."""
    joined = np.concatenate([x, np.ones((len(x), 1), x.dtype)], 1)
    return (joined[:, None, :] * np.concatenate([w, w[:, :1]], 1)[None]).sum(-1)


Shape = tuple[int, ...]
#: name -> (function, shapes of its arguments, bytes that a float64 call moves, by hand)
CHAINS: dict[str, tuple[Any, tuple[Shape, Shape], int]] = {
    "nearest": (nearest, ((50, 3), (9, 3)), 8 * (150 + 27 + 50)),
    "nearest_first": (nearest_first, ((50, 3), (9, 3)), 8 * (150 + 27 + 50)),
    "inertia": (inertia, ((50, 3), (9, 3)), 8 * (150 + 27 + 1)),
    "with_distances": (with_distances, ((50, 3), (9, 3)), 8 * (150 + 27 + 450 + 2 * 50)),
    "weights": (weights, ((20, 4), (9, 4)), 8 * (80 + 36 + 180)),
    "weights of heads": (weights, ((2, 3, 20, 4), (2, 3, 9, 4)), 8 * (480 + 216 + 1080)),
    "heads": (heads, ((2, 3, 20, 4), (2, 3, 9, 4)), 8 * (480 + 216 + 480)),
    "heads of one": (heads, ((1, 3, 20, 4), (1, 3, 9, 4)), 8 * (240 + 108 + 240)),
    "nearest of each": (nearest_of_each, ((4, 50, 3), (4, 9, 3)), 8 * (600 + 108 + 200)),
    "attention": (attention, ((20, 4), (9, 4)), 8 * (80 + 36 + 80)),
    "forces": (forces, ((40, 3), (40, 1)), 8 * (120 + 40 + 120)),
    "homogeneous": (homogeneous, ((50, 3), (4, 3)), 8 * (150 + 12 + 200)),
}


@pytest.fixture(params=["blocks", "few rows"])
def block_bytes(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Blocks as they are, or such that the last one begins within the one before."""
    fuser.clear_caches()
    if request.param == "few rows":
        monkeypatch.setattr(row_tiles, "BLOCK_BYTES", 250)
        monkeypatch.setattr(row_tiles, "BLOCKS", 1)
        monkeypatch.setattr(row_tiles, "BLOCK_ELEMENTS", 1)


def arguments(shapes: tuple[Shape, Shape], dtype: str, seed: int = 1) -> list[Any]:
    """Numbers that sums of squares keep exact, so that equal distances are equal."""
    random = np.random.default_rng(seed)
    return [random.integers(-4, 5, shape).astype(dtype) / 4 for shape in shapes]


def layouts(array: Any) -> Iterator[Any]:
    """The same values in other memory."""
    yield array
    yield np.asfortranarray(array)
    yield np.repeat(array, 2, axis=0)[::2]
    yield np.ascontiguousarray(array[::-1])[::-1]
    yield np.ascontiguousarray(array[..., ::-1])[..., ::-1]


@pytest.mark.parametrize("name", CHAINS)
def test_planned_bytes_are_the_hand_count(name: str) -> None:
    """Arguments once, results once; what lies between never, and in one kernel."""
    function, shapes, moved = CHAINS[name]
    spec, sizes = plan_of(function, *arguments(shapes, "float64"))
    book = ledger.ledger(spec, sizes)
    assert book.planned_bytes == moved
    assert book.kernels_fused == 1
    parts = [part for group in spec.plan.groups for part in group.parts]
    assert sum(part.rows is not None for part in parts) == 1


@pytest.mark.parametrize("name", CHAINS)
def test_memory_is_for_some_rows_as_planned(name: str) -> None:
    """What the ledger calls kept has no array: one block of it, at one place of leading loops."""
    function, shapes, _ = CHAINS[name]
    args = arguments(shapes, "float64")
    spec, sizes = plan_of(function, *args)
    arrays = dict(zip((p.name for p in spec.graph.parameters), args, strict=True))
    launch = bind(spec, arrays, dict(sizes), executor.get_backend("cpu"))
    (group,) = spec.plan.groups
    (number,) = (k for k, part in enumerate(group.parts) if part.rows is not None)
    assert launch.by_rows == {(0, number)}
    held, chain = spec.plan.held, group.parts[number].rows
    blocks = launch.groups[number].blocks
    assert blocks is not None
    assert chain is not None
    stored = held.keys() - dict(chain.kept).keys()
    others = sum(
        8 * int(np.prod([dims.evaluate(dim, sizes) for dim in held[each].shape]))
        for each in stored if each.startswith("t")
    )  # fmt: skip
    one_row = row_tiles.row_bytes(changed(chain, handed=()), held, sizes)
    assert launch.temporary_bytes == one_row * blocks.shape[-1] + others
    assert set(blocks.shape[:-1]) <= {1}


def test_rows_across_each_other_are_stored_and_told_so() -> None:
    """The ledger, the pairs and the text are those of the call's memory."""
    args = arguments(((50, 3), (9, 3)), "float64")
    fused = fuser.fuse(nearest, fallback="error")
    turned = np.asfortranarray(args[0])
    told = fused.explain(turned, args[1])
    assert told.ledger is not None
    assert told.ledger.planned_bytes == 8 * (150 + 27 + 2 * 450 + 50)
    assert told.realised == {"t0": verdicts.meaning("rows-across")}
    assert [entry["reason"] for entry in told.boundaries] == ["rows-across"]
    assert "stays in the cache" not in str(told)
    assert set(told.candidates["verdict"]) >= {"rows-across"}
    assert told.arrays_made == (1, 1)
    assert_near(fused(turned, args[1]), nearest(*args))
    assert fused.explain(*args).realised == {"t0": verdicts.meaning("same-rows")}


@pytest.mark.parametrize("name", CHAINS)
@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_results(name: str, dtype: str, block_bytes: None) -> None:
    """In all layouts, by the native function and by Python."""
    function, shapes, _ = CHAINS[name]
    one, other = arguments(shapes, dtype)
    fused = fuser.fuse(function, fallback="error")
    for left, right in zip(layouts(one), layouts(other), strict=True):
        wanted = function(left, right)
        for _ in range(3):
            assert_near(fused(left, right), wanted)


@pytest.mark.parametrize("name", ["nearest", "weights", "with_distances", "forces"])
@pytest.mark.parametrize("length", [0, 1, 2, 7, 33])
def test_all_lengths(name: str, length: int, block_bytes: None) -> None:
    """No rows, one, and numbers that no block divides."""
    function, (first, second), _ = CHAINS[name]
    seconds = (length if name == "forces" else second[0], *second[1:])
    one, other = arguments(((length, *first[1:]), seconds), "float64")
    fused = fuser.fuse(function, fallback="error")
    for _ in range(3):
        assert_near(fused(one, other), function(one, other))


@pytest.mark.parametrize("name", ["nearest", "weights", "attention"])
def test_edge_values(name: str, block_bytes: None) -> None:
    """NaN, infinities, signed zeros and subnormals go from nest to nest as they are."""
    function, shapes, _ = CHAINS[name]
    values = [np.nan, np.inf, -np.inf, -0.0, 0.0, 5e-324, 1e300, 1.0, -2.0]
    random = np.random.default_rng(3)
    one, other = (random.choice(values, shape) for shape in shapes)
    one[:5], other[:3] = 1.5, -0.5
    with np.errstate(all="ignore"):
        assert_near(fuser.fuse(function, fallback="error")(one, other), function(one, other))


def test_out_and_read_only() -> None:
    """Results go where they are wanted, also into an argument; others are left alone."""
    (one, other) = arguments(((9, 4), (9, 4)), "float64")
    other.flags.writeable = False
    fused = fuser.fuse(weights, fallback="error")
    given = np.empty((9, 9))
    assert fused(one, other, out=given) is given
    assert_near(given, weights(one, other))
    square = arguments(((9, 9), (9, 9)), "float64")[0]
    wanted = weights(square, square)
    fused(square, square, out=square)
    assert_near(square, wanted)


def test_the_same_bits_whatever_the_threads() -> None:
    """Blocks do not depend on who computes them."""
    random = np.random.default_rng(5)
    one, other = random.random((500, 3)), random.random((40, 3))
    fused = fuser.fuse(weights, fallback="error")
    found = []
    before = workers.thread_count()
    try:
        for threads in (1, 2, 4):
            fuser.set_num_threads(threads)
            found += [fused(one, other).tobytes() for _ in range(100)]
    finally:
        fuser.set_num_threads(before)
    assert len(set(found)) == 1


def test_shared_work_is_never_brief(monkeypatch: pytest.MonkeyPatch) -> None:
    """What threads share is given the team, however short it is."""
    from fuser.backends.cpu.entries import exact

    monkeypatch.setattr(exact, "PATIENCE_NS", 1e15)
    fuser.clear_caches()
    args = arguments(((500, 3), (40, 3)), "float64")
    fused = fuser.fuse(weights, fallback="error")
    before = workers.thread_count()
    fuser.set_num_threads(2)
    try:
        for _ in range(4):
            assert_near(fused(*args), weights(*args))
    finally:
        fuser.set_num_threads(before)


def test_rows_left_over_are_nobody_elses() -> None:
    """The last block begins within the one before: one thread computes both, one after another.

    Softmax writes powers where its results go; another thread that did so would spoil them.
    """
    group = bind(
        compile_upfront(fuser.trace(weights, *(args := arguments(((500, 3), (40, 3)), "float64")))),
        {"x0": args[0], "x1": args[1]},
        {"n0": 500, "n1": 3, "n2": 40},
        fuser.executor.get_backend("cpu"),
    ).groups[0]
    assert group.blocks is not None
    assert group.blocks.counts == (500,)
    assert 500 % group.blocks.shape[0]
    chain = RowChain(group, dict.fromkeys(group.blocks.kept, 1 << 20))
    assert chain.items == 500 // group.blocks.shape[0]
    assert chain.words[:5] == [2, 1, 1 << 20, len(chain.words) - 8, 1]


def test_without_the_native_function(monkeypatch: pytest.MonkeyPatch) -> None:
    """Python runs the blocks where no native table serves."""
    from fuser.backends.cpu import sequence

    fuser.clear_caches()
    monkeypatch.setattr(sequence, "make", lambda launch: None)
    monkeypatch.setattr(row_tiles, "BLOCK_BYTES", 250)
    for function, shapes, _ in CHAINS.values():
        args = arguments(shapes, "float64", seed=6)
        assert_near(fuser.fuse(function, fallback="error")(*args), function(*args))


def test_rows_longer_than_the_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    """They are stored after all, and counted so."""
    fuser.clear_caches()
    monkeypatch.setattr(row_tiles, "ROW_CACHE_BYTES", 64)
    args = arguments(((50, 3), (9, 3)), "float64")
    spec, sizes = plan_of(nearest, *args)
    assert ledger.ledger(spec, sizes).planned_bytes == 8 * (150 + 27 + 2 * 450 + 50)
    (crossing,) = ledger.boundaries(spec, sizes)
    assert crossing["bytes"] == 2 * 8 * 450
    assert_near(fuser.fuse(nearest, fallback="error")(*args), nearest(*args))


def test_others_get_a_plan_without() -> None:
    """A backend that cannot run nests by turns stores what lies between."""

    class Plain:
        """A backend without rows."""

        capabilities = Capabilities(complex_values=True)

    spec, _ = plan_of(nearest, *arguments(((50, 3), (9, 3)), "float64"))
    served: Any = planned(spec, Plain())  # type: ignore[arg-type]
    assert len(served.plan.groups) == 2
    assert all(group.rows is None for group in served.plan.groups)
    assert all(group.rows is None for group in
               schedule.plan(spec.plan.graph, with_rows=False).groups)  # fmt: skip


def centred(x: Any) -> Any:
    """Distances, centred along rows and columns."""
    found = squared(x, x)
    return found - found.mean(0) - found.mean(1)[:, None] + found.mean()


@pytest.mark.parametrize(
    "function",
    [centred, lambda x: (lambda d: d + d.T)(squared(x, x).cumsum(1)),
     lambda x: (lambda d: d[::-1].min(1))(squared(x, x))],
    ids=["rows and columns", "turned", "backwards"],
)  # fmt: skip
def test_what_is_not_met_by_rows(function: Any) -> None:
    """Columns, and rows in another order, need all that is stored: nothing is kept."""
    (x, _) = arguments(((12, 3), (1, 1)), "float64")
    graph = fuser.trace(function, x)
    if not graph.has_externs:
        groups = compile_upfront(graph).plan.groups
        assert not any(group.rows.kept for group in groups if group.rows is not None)
    assert_near(fuser.fuse(function, fallback="allow")(x), function(x))


def test_explained() -> None:
    """The pair is fused, with its reason; nothing crosses."""
    fuser.clear_caches()  # other tests have rows that are longer than a cache of theirs
    args = arguments(((50, 3), (9, 3)), "float64")
    told = fuser.fuse(nearest, fallback="error").explain(*args)
    assert "t0 stays in the cache" in str(told)
    line = nearest.__code__.co_firstlineno + 2
    pairs = told.candidates.set_index("second")
    assert pairs.loc[f"argmin#1 (test_row_tiles.py:{line})", "verdict"] == "same-rows"
    assert told.candidates["fused"].all()
    assert not told.boundaries
    assert told.arrays_made == (0, 1)
    assert told.to_dot().count("bytes") >= 3


N, M = symbol("n0"), symbol("n1")


def test_loops_along_which_an_axis_is_seen() -> None:
    """Through views that leave it alone; None through others."""
    wide = (read("index", "None, :, None"), read("broadcast_to", "n2, n0, n3, n1"))
    assert loop_of((N, M), 0, wide) == 1
    assert loop_of((N, M), 1, wide) == 3
    assert loop_of((N, M), 0, (read("transpose", "1, 0"),)) == 1
    assert loop_of((N, M), 0, (read("index", ":, 1:"),)) == 0
    assert loop_of((N, M), 1, (read("index", "0"),)) == 0
    views = (("index", "1:"), ("index", "0"), ("reshape", "n0, n1"), ("part", "0; 0; n0"))
    for lost in (read(*view) for view in views):
        assert loop_of((N, M), 0, (lost,)) is None
    assert loop_of((N, M), 0, (read("part", "1; 0; 2"),)) == 0


# -- random chains --------------------------------------------------------------------------


def random_chain(random: Random) -> tuple[Any, list[Any], str]:
    """Broadcast, compute, reduce, and so on: a function, its arguments and its text."""
    lengths = [random.choice([1, 2, 3, 5, 8, 17]) for _ in range(3)]
    numbers = np.random.default_rng(random.randrange(1 << 30))
    dtype = random.choice(["float64", "float32", "int64"])
    args = [
        numbers.integers(-3, 4, lengths[:1] + lengths[2:]).astype(dtype),
        numbers.integers(-3, 4, lengths[1:]).astype(dtype),
    ]
    if random.random() < 0.3:
        args = [random.choice([np.asfortranarray, lambda a: a[::-1]])(a) for a in args]
    lines = ["v = x[:, None, :] {} y[None]".format(random.choice("+-*"))]
    lines.append(f"w = v.{random.choice(['sum', 'max', 'min'])}({random.choice([0, 1, 2])})")
    steps = ["w = w * 2 - 1", "w = w - w.max({}, keepdims=True)", "w = abs(w)",
             "u = w.sum({}); w = w + u.max()", "w = (v * w[:, :, None]).sum(1)"
             if "(2)" in lines[-1] else "w = w + 1"]  # fmt: skip
    for _ in range(random.randrange(4)):
        line = random.choice(steps)
        lines.append(line.format(random.choice([0, 1, -1])))
        if "v * w" in line:
            break
    ends = ["w.sum({})", "w.argmin({})", "(w, w.max({}))", "(w.min({}), w.sum({}))", "w"]
    axis = random.choice([0, 1, -1])
    lines.append("return " + random.choice(ends).format(axis, random.choice([axis, axis, 0, 1])))
    text = "def chain(x, y):\n    " + "\n    ".join(lines)
    scope: dict[str, Any] = {}
    exec(text, scope)
    return scope["chain"], args, text


@randomly(40, HealthCheck.function_scoped_fixture)
@given(random=st.randoms(use_true_random=False))
def test_random_chains(random: Random, monkeypatch: pytest.MonkeyPatch) -> None:
    """What the planner makes of reductions after reductions gives what NumPy gives."""
    monkeypatch.setattr(row_tiles, "BLOCK_BYTES", random.choice([1, 100, 1 << 18]))
    monkeypatch.setattr(row_tiles, "BLOCKS", random.choice([1, 16]))
    monkeypatch.setattr(row_tiles, "BLOCK_ELEMENTS", 1)
    fuser.clear_caches()  # blocks are remembered
    function, args, text = random_chain(random)
    note(f"{text}\n{args}")
    wanted = function(*args)
    fused = fuser.fuse(function, fallback="allow")
    for _ in range(2):
        assert_near(fused(*args), wanted)


def runge_kutta(u: Any) -> Any:
    """Two steps of four stages on a ring: stored values are written in several parts."""

    def slope(y: Any) -> Any:
        return -y + np.roll(y, 1, -1) * 0.5

    for _ in range(2):
        k1 = slope(u)
        k2 = slope(u + 0.05 * k1)
        k3 = slope(u + 0.05 * k2)
        k4 = slope(u + 0.1 * k3)
        u = u + 0.1 / 6 * (k1 + 2 * k2 + 2 * k3 + k4)
    return u


def test_an_array_that_others_write_parts_of_is_stored() -> None:
    """It lives for some rows only where all that write it take rows."""
    u = np.random.default_rng(3).random((20, 60))
    assert np.allclose(fuser.fuse(runge_kutta, fallback="error")(u), runge_kutta(u), rtol=1e-12)
    groups = plan_of(runge_kutta, u)[0].plan.groups
    for group in groups:
        kept = {name for name, _ in group.rows.kept} if group.rows is not None else set()
        others = [section for g in groups if g is not group for section in g.sections]
        assert kept.isdisjoint(part.buffer for section in others for _, part in section.stores)
