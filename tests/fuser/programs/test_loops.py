"""Loops whose iterations are one function become regions: right values, one compile, refusals."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import fuser
from fuser.base import budget, trees
from fuser.ir import opaque_calls
from fuser.program_spec import LoopRegion
from fuser.programs import partition
from tests.fuser.comparing import difference, independent, run_plain
from tests.fuser.programs import loop_programs as programs
from tests.threads import on_threads

#: Sums, products and elementary functions in these are right to some bits less.
ROUNDED = frozenset(
    "accumulated products conjugate_gradients by_a_helper invariants appended".split()
)
TRIPS = (7, 0, 1, 2, 3, 8, 30)


def _traces(function: Any) -> list[Any]:
    """What a fused function has traced."""
    found = function._signatures.values()
    return [known.trace for entry in found for known in entry.found]


def _has_region(trace: Any) -> bool:
    """Whether a trace has a loop region."""
    calls = [node for node in trace.graph.nodes if node.op.is_opaque]
    return any(node.payload.name == opaque_calls.LOOP for node in calls)


def _differs(wanted: Any, found: Any, ulp: float) -> str:
    """How two results, with the arguments behind them, differ; also which arrays are one."""
    one, two = trees.flatten(wanted)[1], trees.flatten(found)[1]
    if len(one) != len(two):
        return f"{len(one)} results against {len(two)}"
    same = [[k for k, other in enumerate(each) if other is part] for each in (one, two)
            for part in each]  # fmt: skip
    if same[: len(one)] != same[len(one) :]:
        return "other results are one array"
    texts = (difference(a, b, ulp) for a, b in zip(one, two, strict=True))
    return next((text for text in texts if text), "")


def _check(function: Callable[..., Any], dtype: str, seed: int) -> Any:
    """Call a function plainly and fused for several numbers of iterations; the fused one."""
    fused = fuser.fuse(function, fallback="allow")
    ulp = 1e5 if function.__name__ in ROUNDED else 0
    for turn, trips in enumerate((*TRIPS, 7)):
        length = 17 if turn == 5 else 12
        given = programs.arguments(dtype, length, seed)
        plain, own = independent(given), independent(given)
        wanted = run_plain(function, [*plain, trips], {})
        found = run_plain(fused, [*own, trips], {})
        if isinstance(wanted, Exception):
            assert type(found) is type(wanted)
            continue
        text = _differs((wanted, *plain), (found, *own), ulp)
        assert not text, f"{trips} iterations: {text}"
    return fused


@pytest.mark.parametrize(("dtype", "seed"), [("float64", 3), ("float64", 5), ("float32", 3)])
@pytest.mark.parametrize("function", programs.REGIONS, ids=lambda function: function.__name__)
def test_regions_give_what_numpy_gives(
    function: Callable[..., Any], dtype: str, seed: int
) -> None:
    """Values, dtypes, arguments written, which results are one array; zero iterations, too."""
    fused = _check(function, dtype, seed)
    assert any(map(_has_region, _traces(fused)))
    assert len(_traces(fused)) <= 4  # not one for each number of iterations


@pytest.mark.parametrize("function", programs.REGIONS, ids=lambda function: function.__name__)
def test_regions_of_integers(function: Callable[..., Any]) -> None:
    """Integers wrap, become floats after the first iteration, or raise."""
    _check(function, "int64", 3)


@pytest.mark.parametrize("dtype", ["float64", "int64"])
@pytest.mark.parametrize("function", programs.OTHERS, ids=lambda function: function.__name__)
def test_other_loops_give_what_numpy_gives(function: Callable[..., Any], dtype: str) -> None:
    """What is no region is unrolled, or NumPy runs it."""
    _check(function, dtype, 3)


def test_one_trace_serves_every_number_of_iterations() -> None:
    """The number of iterations is an argument of the kernels' driver, not of the kernels."""
    fused = fuser.fuse(programs.jacobi, fallback="error")
    a, b = programs.arguments("float64")
    for trips in (5, 1, 2, 1000, 17):
        fused(a, b, trips)
    assert len(_traces(fused)) == 1
    for trips in (0, -1, -7):
        fused(a, b, trips)
    assert len(_traces(fused)) == 2
    before = fuser.n_compiled_kernels()
    fused(a, b, 12345)
    assert fuser.n_compiled_kernels() == before


def test_a_short_stated_loop_is_unrolled() -> None:
    """A few iterations of elementwise work become one kernel, as without loops."""

    def few(x: Any) -> Any:
        for _ in range(6):
            x = x * 0.5 + 1.0
        return x

    fused = fuser.fuse(few, fallback="error")
    x = np.arange(10.0)
    np.testing.assert_array_equal(fused(x), few(x))
    assert not any(map(_has_region, _traces(fused)))


def _overlapping(kind: str) -> tuple[Any, Any]:
    """Two arrays that share memory."""
    memory = np.arange(20.0)
    if kind == "same":
        return memory, memory
    return (memory[:15], memory[5:]) if kind == "shifted" else (memory, memory[::-1])


@pytest.mark.parametrize("kind", ["same", "shifted", "reversed"])
@pytest.mark.parametrize(
    "function", [programs.jacobi, programs.swapped, programs.augmented, programs.in_its_own_place,
                 programs.three_in_a_ring], ids=lambda function: function.__name__,
)  # fmt: skip
def test_arguments_that_share_memory(function: Callable[..., Any], kind: str) -> None:
    """Writes into one are seen through the other, in whatever order NumPy does it."""
    fused = fuser.fuse(function, fallback="allow")
    fused(*programs.arguments("float64", 20), 3)  # so that a region is known
    for trips in (1, 2, 5):
        plain, own = _overlapping(kind), _overlapping(kind)
        text = _differs((function(*plain, trips), *plain), (fused(*own, trips), *own), 0)
        assert not text


def test_views_held_outside_see_what_is_written() -> None:
    """The arguments' own memory has the last iteration's values."""
    fused = fuser.fuse(programs.swapped, fallback="error")
    for trips in (4, 5):
        plain, own = programs.arguments("float64"), programs.arguments("float64")
        outside = own[0][3:6]
        programs.swapped(*plain, trips)
        fused(*own, trips)
        np.testing.assert_array_equal(outside, plain[0][3:6])


def test_a_read_only_argument_raises_as_numpy_does() -> None:
    """Nothing has been written then."""
    fused = fuser.fuse(programs.jacobi, fallback="allow")
    a, b = programs.arguments("float64")
    fused(a, b, 3)
    kept = a.copy()
    b.flags.writeable = False
    with pytest.raises(ValueError, match="read-only"):
        fused(a, b, 3)
    np.testing.assert_array_equal(a, kept)


def test_what_fails_in_the_middle_is_run_by_numpy() -> None:
    """An iteration that raises leaves what NumPy leaves: the plain function runs on what was."""

    def inverted(a: Any, n: int) -> Any:
        m = np.diag(a)
        for _ in range(n):
            m = np.linalg.inv(m)
            m = m - np.eye(m.shape[0])
            a += 1.0
        return m

    fused = fuser.fuse(inverted, fallback="allow")
    first = np.array([3.0, 5.0])
    np.testing.assert_allclose(fused(first.copy(), 1), inverted(first.copy(), 1))
    plain, own = np.array([0.5, 1.0]), np.array([0.5, 1.0])
    with pytest.raises(np.linalg.LinAlgError):
        inverted(plain, 4)
    with pytest.raises(np.linalg.LinAlgError):
        fused(own, 4)
    np.testing.assert_array_equal(own, plain)


def test_globals_that_change_are_seen() -> None:
    """Arrays that the body reaches by name are inputs of every call."""
    fused = fuser.fuse(programs.global_weights, fallback="error")
    a, b = programs.arguments("float64")
    kept = programs.WEIGHTS.copy()
    try:
        for scale in (1.0, 2.0, -3.0):
            programs.WEIGHTS[:] = kept * scale
            np.testing.assert_array_equal(fused(a, b, 5), programs.global_weights(a, b, 5))
    finally:
        programs.WEIGHTS[:] = kept


def test_explain_and_statistics_show_the_loop() -> None:
    """Carried values, iterations, kernels and bytes an iteration; the whole ledger."""
    fused = fuser.fuse(programs.jacobi, fallback="error")
    a, b = np.ones((2, 1000))
    found = fused.explain(a, b, 50)
    text = str(found)
    assert "loop (" in text
    assert "50 iterations" in text
    assert "carries a" in text
    assert "bytes an iteration" in text
    one = fused.explain(a, b, 1).ledger
    assert found.ledger.planned_bytes == 50 * one.planned_bytes
    assert "loop of" in found.to_dot()
    before = fuser.stats().get("loops", 0)
    fused(a, b, 3)
    fused(a, b, 4)
    assert fuser.stats()["loops"] == before + 2


def _inner_loop(u: Any, steps: int, inner: int) -> Any:
    for _ in range(steps):
        cooled = np.exp(-u)
        for _ in range(inner):
            u = 0.5 * (u + cooled)
        u = u - u.mean()
    return u


def test_explain_shows_loops_within_loops() -> None:
    """How often each runs, what it does in its order, all kernels' bytes and text."""
    fused = fuser.fuse(_inner_loop, fallback="error")
    u = np.linspace(0, 1, 1000)
    found = fused.explain(u, 5, 4)
    text = str(found)
    assert text.startswith("_inner_loop: mode fused, 0 kernels, 1 loop\n")
    assert text.index("5 iterations, 6 kernels") < text.index("exp") < text.index("4 iterations")
    assert "steps >= 1" in text
    assert found.ledger.kernels_fused == 5 * (2 + 4)
    assert fused.explain(u, 5, 8).ledger.kernels_fused == 5 * (2 + 8)
    assert len(fused.source(u, 5, 4)) == 3


def _by_mask(z: Any, c: Any, steps: int) -> Any:
    for _ in range(steps):
        inside = np.abs(z) < 2.0
        z[inside] = z[inside] ** 2 + c[inside]
    return z


def test_explain_says_which_lengths_an_iteration_finds() -> None:
    """How many elements a mask picks differs from one iteration to the next."""
    fused = fuser.fuse(_by_mask, fallback="allow")
    z, c = np.zeros(50, complex), np.linspace(-2, 1, 50) + 0.3j
    np.testing.assert_allclose(fused(z.copy(), c, 9), _by_mask(z.copy(), c, 9))
    found = fused.explain(z, c, 9)
    assert not found.loops or "each iteration finds how long" in found.loops[0]


def test_a_graph_with_a_loop_is_read_back() -> None:
    """Text, key and results of a traced graph; every mode."""
    a, b = programs.arguments("float64")
    wanted = programs.new_each_time(a, b, 6)
    graph = fuser.trace(programs.new_each_time, a, b, 6)
    again = fuser.parse(str(graph))
    assert str(again) == str(graph)
    key = fuser.register_fusion(graph)
    for mode in ("fused", "unfused", "fallback"):
        (found,) = fuser.run_fusion(key, (a, b, 6), mode=mode)
        np.testing.assert_array_equal(found, wanted)
        fused = fuser.fuse(programs.new_each_time, mode=mode, fallback="allow")
        np.testing.assert_array_equal(fused(a, b, 6), wanted)


def test_the_reason_says_why_a_loop_was_unrolled() -> None:
    """What goes beyond the budget then names what is in the way."""

    def kept_in_a_list(x: Any, n: int) -> Any:
        seen = []
        for _ in range(n):
            x[1:] = x[:-1] * 0.5
            seen.extend((1,))
        return x

    fused = fuser.fuse(kept_in_a_list, fallback="allow")
    fused(np.ones(8), 200)
    assert "seen is a list" in str(fused.fallbacks[0])


@pytest.mark.usefixtures("ctrl_c")
def test_ctrl_c_stops_a_long_loop() -> None:
    """The interpreter looks for signals between iterations; arguments are as they were."""
    fused = fuser.fuse(programs.jacobi, fallback="error")
    a, b = np.ones((2, 4000))
    fused(a, b, 3)
    kept = a.copy()
    timer = threading.Timer(0.2, lambda: signal.raise_signal(signal.SIGINT))
    timer.start()
    start_s = time.perf_counter()
    try:
        with pytest.raises(KeyboardInterrupt):
            fused(a, b, 100_000_000)
    finally:  # a call that ends by itself leaves no interrupt behind for another test
        timer.cancel()
        timer.join()
    assert time.perf_counter() - start_s < 5.0
    np.testing.assert_array_equal(a, kept)


def test_threads_run_one_loop_at_a_time_each() -> None:
    """Each call has carried arrays of its own."""
    fused = fuser.fuse(programs.heat, fallback="error")
    given = [programs.arguments("float64", 500, seed) for seed in range(4)]
    wanted = [programs.heat(*pair, 200) for pair in given]
    fused(*given[0], 2)
    found: dict[int, Any] = {}

    def run(k: int) -> None:
        found[k] = fused(*given[k], 200)

    on_threads(run, 4)
    for k in range(4):
        np.testing.assert_array_equal(found[k], wanted[k])


def test_an_integer_that_outgrows_its_dtype_raises_as_numpy_does() -> None:
    """What NumPy has written before it raises is written, too."""

    def grown(a: Any, n: int) -> Any:
        k = 1
        for _ in range(n):
            a[1:] = a[:-1] + k
            k = k * 1000
        return a

    fused = fuser.fuse(grown, fallback="allow")
    for trips in (3, 6, 12):
        plain, own = np.zeros(8, np.int64), np.zeros(8, np.int64)
        wanted, found = run_plain(grown, [plain, trips], {}), run_plain(fused, [own, trips], {})
        assert type(wanted) is type(found)
        np.testing.assert_array_equal(own, plain)


class _Noted:
    """A class of the user's."""

    def __init__(self) -> None:
        """What it has."""
        self.found = 1


def test_objects_that_the_body_makes_are_left_to_python() -> None:
    """A class of the user's may do anything: such loops are unrolled, and say why."""

    def noting(x: Any, n: int) -> Any:
        for _ in range(n):
            _Noted()
            x[1:] = x[:-1] * 0.5
        return x

    fused = fuser.fuse(noting, fallback="allow")
    np.testing.assert_array_equal(fused(np.ones(8), 50), noting(np.ones(8), 50))
    assert "_Noted is a type" in str(fused.fallbacks[0])


def test_loops_in_loops_are_looked_at_once_more_for_each_look(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """What was found of an inner loop is known when it is met again: not so many for each depth."""
    from fuser.capture.loops import Loop

    def nested(x: Any, y: Any, n: int) -> Any:
        for a in range(n):
            for b in range(n):
                for c in range(n):
                    for d in range(n):
                        for e in range(n):
                            y += np.sort(x) * 0.5
                            x *= 0.25 + a + b + c + d + e
        return y

    looks = 0
    begin = Loop._begin

    def counted(loop: Loop) -> bool:
        nonlocal looks
        looks += 1
        return begin(loop)

    monkeypatch.setattr(Loop, "_begin", counted)
    x, y = np.random.default_rng(1).standard_normal((2, 12))
    plain, own = (x.copy(), y.copy()), (x.copy(), y.copy())
    fused = fuser.fuse(nested, fallback="error")
    np.testing.assert_array_equal(fused(*own, 2), nested(*plain, 2))
    np.testing.assert_array_equal(own, plain)
    assert _has_region(_traces(fused)[0])
    assert looks <= 60  # and 124 without


def _by_number(x: Any) -> Any:
    for k in range(5):
        if k % 2:
            x = x * 1.5
        else:
            x = np.sin(x)
    return x


def _by_number_in_steps(x: Any) -> Any:
    for _ in range(7):
        x = _by_number(x)
    return x


@pytest.mark.parametrize(("function", "fits"), [(_by_number, True), (_by_number_in_steps, False)])
def test_loops_in_loops_are_unrolled_where_there_is_time_for_all_looks(
    function: Callable[[Any], Any], fits: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Five iterations of one operation fit, traced twice; not those of seven loops in another."""
    monkeypatch.setattr(budget, "LIMITS", {**budget.LIMITS, "operations": 60})
    x = np.linspace(0, 1, 5)
    fused = fuser.fuse(function, fallback="allow")
    np.testing.assert_allclose(fused(x), function(x), rtol=1e-13)
    assert (not fused.fallbacks) is fits


def _two_of_one(u: Any, n: int) -> Any:
    now, after = u * 2.0, u * 2.0
    for _ in range(n):
        after[1:-1] = now[:-2] + now[2:]
        now, after = after, now
    return now


def _two_of_one_and_itself(u: Any, n: int) -> Any:
    first = u * 2.0
    now, after = first.copy(), first.copy()
    for _ in range(n):
        after[1:-1] = now[:-2] + first[2:]
        now, after = after, now
    return now, after, first


def _three_of_one(u: Any, n: int) -> Any:
    a = b = c = u * 2.0
    for _ in range(n):
        a, b, c = b + 1.0, c - a, a * 0.5
    return a, b, c


@pytest.mark.parametrize(
    ("function", "copies"),
    [(_two_of_one, [False, True]), (_two_of_one_and_itself, None), (_three_of_one, None)],
)
def test_arrays_that_begin_with_one_value(
    function: Callable[..., Any], copies: list[bool] | None
) -> None:
    """A loop works on the value itself and on a copy where nothing else looks at the value."""
    u = np.random.default_rng(3).standard_normal(30)
    fused = fuser.fuse(function, fallback="error")
    for trips in (0, 1, 2, 3, 8, 8, 8, 9):
        own = u.copy()
        for one, two in zip(np.atleast_2d(fused(own, trips)), np.atleast_2d(function(u, trips)),
                            strict=True):  # fmt: skip
            np.testing.assert_array_equal(one, two)
        np.testing.assert_array_equal(own, u)
    if copies is not None:
        program = partition.prepare(fuser.trace(function, u, 8))
        (step,) = [step for step in program.steps if isinstance(step, LoopRegion)]
        assert [place not in step.owned for place in range(len(step.operands))] == copies
