"""First calls have a limit: beyond it NumPy runs the call, and the reason names the line."""

import io
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import fuser
from fuser.base import budget, config
from fuser.base.errors import REASONS, Unsupported
from fuser.calls import trace_cache
from fuser.compiler import compile_upfront
from fuser.ir.graph import Graph
from tests.requirements import needs_native_entry
from tests.settings import settings


def heat(u: Any, steps: int = 40) -> Any:
    """Steps of the heat equation, written into the inner part; not over a range, so unrolled."""
    for _ in [None] * steps:
        u[1:-1, 1:-1] += 0.1 * (
            u[2:, 1:-1] + u[:-2, 1:-1] + u[1:-1, 2:] + u[1:-1, :-2] - 4 * u[1:-1, 1:-1]
        )
    return u


def recurrence(x: Any) -> Any:
    """One element after another; not over a range, so unrolled."""
    y = np.empty_like(x)
    y[0] = x.var()
    for t in list(range(1, 300)):
        y[t] = 0.1 + 0.2 * x[t - 1] ** 2 + 0.7 * y[t - 1]
    return y


def solve(a: Any) -> Any:
    """Cholesky's decomposition, in place; not over ranges, so unrolled."""
    a[0, 0] = np.sqrt(a[0, 0])
    for i in list(range(1, a.shape[0])):
        for j in list(range(i)):
            a[i, j] -= np.dot(a[i, :j], a[j, :j])
            a[i, j] /= a[j, j]
        a[i, i] -= np.dot(a[i, :i], a[i, :i])
        a[i, i] = np.sqrt(a[i, i])
    return a


def long_chain(x: Any) -> Any:
    """More operations than are traced."""
    y = x
    for _ in [None] * 12_000:
        y = y * x + 1.0
    return y


def squares(x: Any, s: float) -> Any:
    """The text of `s` doubles with each step."""
    for _ in range(60):
        s = s * s * 0.5 + 1.0 / s
    return x * s


def backwards(a: Any, b: Any, c: Any, d: Any) -> Any:
    """Thomas' algorithm along the last axis; not over ranges, so one kernel with many operands."""
    n = a.shape[2]
    for k in list(range(1, n)):
        w = a[:, :, k] / b[:, :, k - 1]
        b[:, :, k] = b[:, :, k] - w * c[:, :, k - 1]
        d[:, :, k] = d[:, :, k] - w * d[:, :, k - 1]
    d[:, :, -1] = d[:, :, -1] / b[:, :, -1]
    for k in list(range(n - 2, -1, -1)):
        d[:, :, k] = (d[:, :, k] - c[:, :, k] * d[:, :, k + 1]) / b[:, :, k]
    return d


def spread(x: Any, numbers: list[float]) -> Any:
    """A list of numbers, each an argument of its own."""
    for number in numbers:
        x = x + number
    return x


def products(x: Any, count: int = 300) -> Any:
    """Elements, one by one: each is a view of the argument."""
    total = 0.0
    for k in range(count):
        total = total + x[k] * x[count - 1 - k]
    return total


def ones(*shape: int) -> Any:
    """Numbers between 1 and 2."""
    return 1 + np.random.default_rng(sum(shape)).random(shape)


def positive(length: int) -> Any:
    """A matrix that has such a decomposition."""
    a = ones(length, length)
    return a @ a.T + length * np.eye(length)


REFUSED: list[tuple[Callable[..., Any], Callable[[], tuple[Any, ...]], str]] = [
    (heat, lambda: (ones(60, 60),), "unrolled-loop"),
    (recurrence, lambda: (ones(300),), "unrolled-loop"),
    (solve, lambda: (positive(60),), "unrolled-loop"),
    (long_chain, lambda: (ones(5) / 2,), "unrolled-loop"),
    (squares, lambda: (ones(5), 1.5), "too-large"),
    (backwards, lambda: tuple(ones(9, 8, 45) + k for k in range(4)), "unrolled-loop"),
]


@pytest.mark.parametrize(
    ("function", "make", "code"), [pytest.param(*row, id=row[0].__name__) for row in REFUSED]
)
def test_what_costs_too_much_runs_in_numpy(
    function: Callable[..., Any], make: Callable[[], tuple[Any, ...]], code: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    """NumPy's values, once written; the reason names the line and what to do; later calls too."""
    monkeypatch.setattr(budget, "SECONDS", 60.0)  # units alone, whatever else the machine does
    fused = fuser.fuse(function, fallback="allow")
    for _ in range(3):
        mine, its = make(), make()
        got, want = fused(*mine), function(*its)
        assert np.array_equal(got, want)
        for one, other in zip(mine, its, strict=True):
            assert np.array_equal(one, other)
    (reason,) = fused.fallbacks
    assert reason.code == code
    assert "test_budget.py:" in reason.where
    assert REASONS[code][1] in str(reason)
    assert str(fused.explain(*make())).count(code) == 1
    with pytest.raises(fuser.FusionError, match=code):
        fuser.fuse(function, fallback="error")(*make())


def test_a_shorter_one_is_fused() -> None:
    """Few enough steps are one program, which writes what NumPy writes."""
    fused = fuser.fuse(backwards, fallback="error")
    for _ in range(2):
        mine, its = ([ones(9, 8, 8) + k for k in range(4)] for _ in range(2))
        np.testing.assert_array_equal(fused(*mine), backwards(*its))
        np.testing.assert_array_equal(mine, its)


def floyd(p: Any, steps: int) -> Any:
    """Shortest paths: each step sees the one before in three ways."""
    for k in range(steps):
        p[:] = np.minimum(p[:], np.add.outer(p[:, k], p[k, :]))
    return p


def normalise(x: Any, steps: int) -> Any:
    """Normalisations one after another."""
    for _ in range(steps):
        x = x - x.mean()
        x = x / np.sqrt((x * x).sum() + 1e-5)
    return x


@pytest.mark.parametrize(("function", "steps"), [(floyd, 14), (normalise, 12)])
def test_planning_is_polynomial(function: Callable[..., Any], steps: int) -> None:
    """What is seen in several ways at each step is planned within the budget, and right."""
    fused = fuser.fuse(function, fallback="error")
    x = ones(20, 30)
    assert np.allclose(fused(x.copy(), steps), function(x.copy(), steps), rtol=1e-12)


@needs_native_entry
def test_views_by_the_hundred_are_compared_once() -> None:
    """Whether the views of an array lie apart is asked once for the array."""
    x = ones(300)
    assert np.isclose(fuser.fuse(products, fallback="error")(x), products(x), rtol=1e-12)


def test_numbers_by_the_hundred_are_no_arguments_of_kernels() -> None:
    """Each would be converted at every call."""
    fused = fuser.fuse(spread, fallback="allow")
    x, numbers = ones(5), [float(k) for k in range(300)]
    assert np.array_equal(fused(x, numbers), spread(x, numbers))
    assert "more than 256 Python numbers" in fused.fallbacks[0].found


def test_kernels_of_one_operation_each_are_many() -> None:
    """Unfused, a loop of the suites has 148 of them, where fused it has one."""
    from fuser.suites.registry import resolve

    workload = resolve("escape_steps")
    arguments = workload.inputs(1 << 10, "float64", 0)
    found = fuser.fuse(workload.function, mode="unfused", fallback="error")(*arguments)
    assert np.allclose(found, workload.function(*arguments))


def test_long_rows_of_reductions_store_what_they_share() -> None:
    """Operations grow with the number of normalisations, not with its square."""
    counts = []
    for steps in (12, 24):
        graph = fuser.trace(lambda x, steps=steps: normalise(x, steps), ones(60))
        plan = compile_upfront(graph).plan
        counts.append(sum(len(s.steps) for group in plan.groups for s in group.sections))
    assert counts[1] < 2.5 * counts[0]


def test_a_plan_that_moves_more_than_numpy_is_not_used() -> None:
    """Rows and columns that are written in turn are no reason to copy the rest again and again."""

    def crossed(x: Any) -> Any:
        for k in list(range(6)):  # not over a range, so unrolled
            x[k + 1] = x[k] * 0.5 + x[k + 2]
            x[:, k] = x[::-1][:, k + 1]
        return x

    fused = fuser.fuse(crossed, fallback="allow")
    for size in (40, 300):
        x = ones(size, size)
        assert np.array_equal(fused(x.copy()), crossed(x.copy()))
    assert [reason.code for reason in fused.fallbacks] == ["no-gain"]
    assert "155,984 bytes, NumPy's operations 16,640" in fused.fallbacks[0].found


def test_no_loop_is_unrolled_when_time_is_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each loop around another would else take its own share beyond the end."""
    monkeypatch.setattr(budget, "SECONDS", -1.0)
    assert not budget.is_over()
    with budget.limited("f"):
        assert budget.is_over()
        with pytest.raises(Unsupported, match="s of tracing"):
            budget.foresee(0, 0, 1, "")
    budget.foresee(0, 0, 1, "")


def test_few_elements_of_a_large_array_are_written_by_numpy() -> None:
    """A function between kernels changes a copy of an argument, which is worth it only if small."""

    def moved(x: Any, i: Any, v: Any) -> None:
        x[i] += np.sqrt(v)

    places, values = np.array([3, 1, 3]), np.array([1.0, 4.0, 9.0])
    for size, codes in ((50, []), (5000, ["no-gain"])):
        fused = fuser.fuse(moved, fallback="allow")
        for _ in range(3):
            wanted, found = ones(size), ones(size)
            moved(wanted, places, values)
            fused(found, places, values)
            assert np.array_equal(wanted, found)
        assert [each.code for each in fused.fallbacks][1:] == codes
    assert "80,000 bytes would be copied" in fused.fallbacks[1].found


def test_graphs_have_the_same_limits() -> None:
    """`trace` and `register_fusion` raise with the reason."""
    with pytest.raises(fuser.FusionError, match="unrolled-loop"):
        fuser.trace(long_chain, ones(5))
    graph: Graph = fuser.trace(lambda x: heat(x.copy(), 12), ones(9, 9))
    with pytest.raises(fuser.FusionError, match="too-large"):
        fuser.register_fusion(graph)


def test_what_would_take_longer_than_is_left_is_not_begun() -> None:
    """Of an unrolled loop's iterations it is known how many operations they take."""
    with budget.limited("function"):
        budget.foresee(2048, 2, 2, "file:3")
        with pytest.raises(Unsupported, match="2,048 iterations of a Python loop, each of 5 op"):
            budget.foresee(2048, 5, 2, "file:3")
        budget.spend("operations", 15_000)
        with pytest.raises(Unsupported, match="each of 2 op"):
            budget.foresee(2048, 2, 2, "file:3")


def test_the_clock_stops_what_the_units_do_not_foresee(monkeypatch: pytest.MonkeyPatch) -> None:
    """Time of a function that NumPy runs between kernels is given back."""
    now = [0.0]
    monkeypatch.setattr(budget, "thread_time", lambda: now[0])
    with budget.limited("f"):
        with budget.unclocked():
            now[0] += 100
        budget.spend("steps", 300)
        now[0] += budget.SECONDS + 1
        with pytest.raises(Unsupported, match="too-large"):
            budget.spend("steps", 300)
    budget.spend("steps", 10**9)  # no budget is open


@needs_native_entry
@pytest.mark.parametrize("looks", [2, 9])
def test_what_was_late_is_tried_once_more(looks: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """A clock that other work has held up decides nothing for ever; a second time it does."""
    left = [0]

    def clock() -> float:
        left[0] -= 1
        return budget.SECONDS + 1.0 if left[0] < 0 else 0.0

    def stepped(x: Any) -> Any:
        for k in range(1, len(x)):
            x[k] = x[k - 1] * 0.5 + x[k]
        return np.sqrt(x * x + 2.0) - x

    monkeypatch.setattr(budget, "thread_time", clock)
    monkeypatch.setattr(budget, "_STRIDE", 1)
    for times, refused in ((1, 1), (2, 4)):
        fuser.clear_caches()
        fused, fell = fuser.fuse(stepped, fallback="allow"), 0
        for call in range(4):
            left[0] = looks if call < times else 10**9
            before = sum(fused.fallback_counts.values())
            mine, its = ones(9), ones(9)
            np.testing.assert_allclose(fused(mine), stepped(its), rtol=1e-14)
            np.testing.assert_array_equal(mine, its)
            fell += sum(fused.fallback_counts.values()) > before
        assert fell == refused


def test_an_internal_error_is_a_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    """What nobody raised on purpose falls back; whoever works on the package sees it."""
    from fuser import compiler

    def fail(*_: Any, **__: Any) -> Any:
        raise RecursionError("too deep")

    def double(x: Any) -> Any:
        return x * 2.5

    monkeypatch.setattr(compiler.schedule, "plan", fail)
    assert config.current().check
    with pytest.raises(RecursionError):
        fuser.fuse(double, fallback="allow")(ones(3))
    with settings(check=False):
        fused = fuser.fuse(double, fallback="allow")
        assert np.array_equal(fused(ones(3)), double(ones(3)))
        assert [reason.code for reason in fused.fallbacks] == ["internal-error"]
        with pytest.raises(fuser.FusionError, match="RecursionError: too deep"):
            fuser.fuse(double, fallback="error")(ones(3))
        monkeypatch.undo()
        monkeypatch.setattr(trace_cache, "_loss", fail)
        fused = fuser.fuse(double, fallback="allow")
        assert np.array_equal(fused(ones(3)), double(ones(3)))
        assert [reason.code for reason in fused.fallbacks] == ["internal-error"]


def sorts(x: Any) -> Any:
    """Many functions that NumPy runs between kernels."""
    for _ in [None] * 800:
        x = np.sort(x) * 1.5
    return x


@pytest.mark.parametrize(
    "look",
    [
        fuser.register_fusion,
        fuser.fusion_candidates,
        fuser.generate_code,
        lambda graph: fuser.generate_code(graph, "gpu"),
    ],
    ids=["register", "candidates", "code", "gpu"],
)
def test_all_that_plans_a_graph_has_the_limits(
    look: Callable[[Graph], Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also what only looks at plans: the reason comes before they are made."""
    graph = fuser.trace(sorts, np.ones(9))
    monkeypatch.setattr(budget, "SECONDS", 0.05)
    with pytest.raises(fuser.base.errors.FusionError, match="too large"):
        look(graph)


WORDS = {f"word {k}": [k] for k in range(100_000)}


def test_long_lists_are_not_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a dict of a hundred thousand lists each look would take longer than the function."""
    function = fuser.fuse(lambda x: x + WORDS["word 7"][0], fallback="allow")
    assert np.array_equal(function(ones(3)), ones(3) + 7)
    (reason,) = function.fallbacks
    assert reason.code == "too-large"
    assert "lists, dicts and sets" in reason.found
    monkeypatch.setitem(WORDS, "word 7", [8])
    assert np.array_equal(function(ones(3)), ones(3) + 8)


def test_a_long_first_call_says_what_it_does(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Once, to `logging` and to a terminal."""
    terminal = io.StringIO()
    monkeypatch.setattr(terminal, "isatty", lambda: True)
    monkeypatch.setattr(sys, "__stderr__", terminal)
    monkeypatch.setattr(budget, "SILENT_S", 0.0)
    with caplog.at_level("INFO", "fuser"), budget.limited("slow"):
        for _ in range(3):
            budget.spend("steps", 1000)
    told = [record.getMessage() for record in caplog.records]
    assert len(told) == 1
    assert told[0].startswith("slow: the first call takes more than")
    assert terminal.getvalue() == f"fuser: {told[0]}\n"
