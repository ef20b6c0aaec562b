"""Functions split at calls that do not fuse: kernels before, between and after them."""

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import fuser
from fuser.ir.attribute_text import read
from fuser.program_spec import Program
from fuser.programs import partition
from tests.fuser.comparing import compare
from tests.threads import running

RNG = np.random.default_rng(5)


def three_parts(x: Any, y: Any) -> Any:
    """Kernels before, between and after two calls."""
    hidden = np.maximum(x * 2 + 1, 0)
    product = hidden @ (y * 0.5)
    ordered = np.sort(product, axis=-1)
    return np.sqrt(np.abs(ordered)) * product + hidden.sum(), ordered


def pair(rows: int, columns: int) -> tuple[Any, Any]:
    """Arguments of one size."""
    return RNG.normal(size=(rows, columns)), RNG.normal(size=(columns, rows))


def program_of(function: Callable[..., Any], *args: Any) -> Program:
    """The steps of a function."""
    found = partition.prepare(fuser.trace(function, *args))
    assert isinstance(found, Program)
    return found


def test_steps() -> None:
    """One kernel for all operands; what a call reads is stored, the rest fuses where it is used."""
    program = program_of(three_parts, *pair(4, 6))
    kinds = [type(step).__name__ for step in program.steps]
    assert kinds == ["Stage", "GraphBreak", "GraphBreak", "Stage"]
    assert [one.reason.operation for one in program.graph_breaks] == ["np.matmul", "np.sort"]
    first, last = program.stages
    assert len(first.stored) == 3  # both operands, and the sum that passes by
    assert [len(stage.spec.plan.groups) for stage in (first, last)] == [1, 1]
    kept = {name for names in program.dropped for name in names}
    assert not kept & set(program.outputs)


def test_views_are_no_copies() -> None:
    """A transposed operand is seen through strides; a part of a computed value is computed."""
    program = program_of(lambda x: x[1:].T @ (x * 2)[1:] + 1, np.ones((4, 3)))
    one = program.graph_breaks[0]
    assert one.operands[0] == ("x0", (read("index", "1:"), read("transpose", "1, 0")))
    assert one.operands[1][1] == ()
    (stage, _) = program.stages
    assert str(stage.spec.graph.outputs[0].shape) == "(max(n0 - 1, 0), n1)"


def test_costly_values_are_stored_cheap_ones_computed_again() -> None:
    """What is needed on both sides of a call."""
    cheap = program_of(lambda x: np.sort(x + 1) * (x + 1 - x), np.ones(4))
    costly = program_of(lambda x: np.sort(np.exp(x) + 1) * np.exp(x), np.ones(4))
    assert len(cheap.stages[0].stored) == 1
    assert len(costly.stages[0].stored) == 2


def test_sizes_compile_nothing() -> None:
    """Lengths that only a call tells are arguments of kernels too."""
    def function(x: Any, y: Any) -> Any:
        values, counts = np.unique(np.round(x), return_counts=True)
        return values * 2 + counts, (x[x > y] * 2).sum(), three_parts(x, y.T)

    fused = fuser.fuse(function, fallback="allow")
    refused = fuser.stats().get("fallback.value-guards", 0)
    before = 0
    for size in (40, 7, 90, 3, 1000, 12):
        x, y = RNG.normal(size=(size, 3)), RNG.normal(size=(size, 3))
        assert compare(fused, x, y, ulp=64, fallback="allow") == ""
        before = before or fuser.n_compiled_kernels()
    assert fuser.n_compiled_kernels() == before
    assert fuser.stats().get("fallback.value-guards", 0) == refused


def test_another_pattern_of_results_is_traced_anew() -> None:
    """A length of 1 that broadcasts, another dtype, another count: never a wrong answer."""
    fused = fuser.fuse(lambda x, y: np.unique(x) + y, fallback="allow")
    y = np.arange(4.0)
    for x in ([1, 1.0, 1], [1, 2, 3, 4.0], [2, 2.0, 2, 2], [4, 3, 2, 1.0]):
        assert compare(fused, np.array(x), y, fallback="allow") == ""
    assert compare(fused, np.array([1.0, 2]), y, fallback="allow") == ""  # NumPy raises
    rows = fuser.fuse(lambda x: sum([1] * np.unique(x).size) * x, fallback="allow")
    for length in range(1, 14):  # more values than are specialised on
        assert compare(rows, np.arange(30) % length, fallback="allow") == ""
    assert rows.fallbacks[-1].code == "value-guards"


def test_policies_and_counters() -> None:
    """A graph break is said once, counted by reason, listed; the call as a whole is fused."""
    args = pair(3, 4)
    fused = fuser.fuse(three_parts)
    fuser.clear_caches()
    before = fuser.stats()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for _ in range(3):
            fused(*args)
    after = fuser.stats()
    assert len([w for w in caught if issubclass(w.category, fuser.FallbackWarning)]) == 2
    code = "fallback.unsupported-function"
    assert after["graph_breaks"] - before.get("graph_breaks", 0) == 6
    assert after[code] - before.get(code, 0) == 6
    assert after.get("fallbacks", 0) == before.get("fallbacks", 0)
    assert [reason.operation for reason in fused.fallbacks] == ["np.matmul", "np.sort"]
    with pytest.raises(fuser.FusionError, match=r"np\.matmul.*test_partition\.py"):
        fuser.fuse(three_parts, fallback="error")(*args)
    with warnings.catch_warnings():
        warnings.simplefilter("error", fuser.FallbackWarning)
        fuser.fuse(three_parts, fallback="allow")(*args)


def test_the_functions_on_graphs() -> None:
    """trace, register, run, generate_code, candidates; a launch is fused or an error."""
    args = pair(3, 5)
    graph = fuser.trace(three_parts, *args)
    assert fuser.parse(str(graph)) == graph
    key = fuser.register_fusion(graph)
    assert key == fuser.register_fusion(fuser.parse(str(graph)))
    for mode in ("fused", "unfused", "fallback"):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found = fuser.run_fusion(key, args, mode)
        for one, other in zip(found, three_parts(*args), strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-13)
    assert len(fuser.generate_code(graph)) == 2
    assert "graph-break" in set(fuser.fusion_candidates(graph)["kind"])
    with pytest.raises(fuser.FusionError, match=r"np\.matmul"):
        fuser.debug_launch_graph(graph, args)
    wrong = [np.ones((3, 2)), np.ones((2, 3))]
    assert fuser.run_fusion(key, wrong)[0].shape == (3, 3)
    with pytest.raises(ValueError, match="matmul"):
        fuser.run_fusion(key, [np.ones((3, 2)), np.ones((5, 3))])


def test_sources_of_all_stages() -> None:
    """Each kernel's text; kernels are the same whatever the size."""
    fused = fuser.fuse(three_parts, fallback="allow")
    texts = fused.source(*pair(3, 4))
    assert len(texts) == 2
    assert fused.source(*pair(30, 4)) == texts


def test_out_and_written_arguments() -> None:
    """out= of any part, arguments written back, and nothing written where a call raises."""
    fused = fuser.fuse(lambda x: np.linalg.inv(x) * 2, fallback="allow")
    x, room = RNG.normal(size=(3, 3)), np.zeros((3, 3))
    assert fused(x, out=room) is room
    np.testing.assert_array_equal(room, np.linalg.inv(x) * 2)
    with pytest.raises(ValueError, match="shape"):
        fused(x, out=np.zeros((3, 4)))
    last = fuser.fuse(lambda x: (np.sort(x * 2), x + 1), fallback="allow")
    rooms = (np.zeros(5), np.zeros(5))
    last(np.arange(5.0)[::-1], out=rooms)
    assert [r.tolist() for r in rooms] == [[0, 2, 4, 6, 8], [5, 4, 3, 2, 1]]
    x = RNG.normal(size=(3, 3))
    wanted = np.linalg.inv(x) * 2
    np.testing.assert_array_equal(fused(x, out=x), wanted)


def test_threads_and_cleared_caches() -> None:
    """Several threads, while specialisations are forgotten."""
    fused = fuser.fuse(three_parts, fallback="allow")
    sets = [pair(n, n + 2) for n in range(2, 6)]
    wanted = [three_parts(*args)[0] for args in sets]
    errors: list[str] = []

    def work(place: int) -> None:
        for turn in range(12):
            found = fused(*sets[(place + turn) % 4])[0]
            if not np.allclose(found, wanted[(place + turn) % 4], rtol=1e-12):
                errors.append(f"thread {place}, turn {turn}")

    with running(work, 4):
        fuser.clear_caches()
    assert errors == []


STEPS: tuple[Callable[[Any, Any], Any], ...] = (
    lambda x, y: x * 2 + y,
    lambda x, y: np.maximum(x, y) - 0.5,
    lambda x, y: np.sort(x, axis=0) + y,
    lambda x, y: np.where(x > y, x, -y),
    lambda x, y: np.cumsum(x, axis=-1),
    lambda x, y: x - y.mean(axis=0),
    lambda x, y: np.take(x, [1, 0, 2], axis=1)[:, ::-1],
    lambda x, y: np.round(x[::-1], 2),
    lambda x, y: (x.T @ y)[:1] * 0.25 + y,
    lambda x, y: x[np.argsort(y[:, 0])] * 0.5,
    lambda x, y: np.partition(x.T, 1).T + 1,
)


@settings(max_examples=16, deadline=None)
@given(st.lists(st.tuples(st.sampled_from(range(len(STEPS))), st.booleans()), max_size=6))
def test_random_programs(steps: list[tuple[int, bool]]) -> None:
    """Programs that mix what fuses and what does not: NumPy's results for several sizes."""
    def function(x: Any, y: Any) -> Any:
        for step, swapped in steps:
            x, y = (y, STEPS[step](x, y)) if swapped else (STEPS[step](x, y), y)
        return x, y

    fused = fuser.fuse(function, fallback="allow")
    for rows in (3, 4):
        x, y = RNG.integers(-8, 8, (rows, 3)) * 0.25, RNG.integers(-8, 8, (rows, 3)) * 0.5
        assert compare(fused, x, y, ulp=8, fallback="allow") == ""


def test_what_is_computed_before_a_call_is_not_spelled_by_its_lengths() -> None:
    """A length that only the call tells was found to equal one of the arguments'."""

    def function(x: Any, y: Any) -> Any:
        z = np.take(np.cumsum(x * 2 + y, axis=-1), [1, 0, 2], axis=1)[:, ::-1]
        return z * 2 + y, y

    for rows in (3, 4):
        x = RNG.integers(-8, 8, (rows, 3)) * 0.25
        assert compare(function, x, x + 1, fallback="allow") == ""
