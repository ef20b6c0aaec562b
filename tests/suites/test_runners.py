"""The contract of runners, and how they are found."""

from dataclasses import dataclass
from importlib.metadata import EntryPoint
from typing import Any

import numpy as np
import pytest

from fuser.suites import runners
from tests.suites import cheats

MODES = [runners.FallbackRunner, runners.UnfusedRunner, runners.FusedRunner]


def test_our_four_are_known() -> None:
    """By name, in the order in which results are shown."""
    assert list(runners.specs())[:4] == ["eager", "fallback", "unfused", "fused"]


def test_others_plug_in_by_entry_point(monkeypatch: pytest.MonkeyPatch) -> None:
    """An entry point of group fuser.runners adds a runner; it cannot replace one of ours."""
    points = [
        EntryPoint("honest", cheats.spec(cheats.Honest), runners.ENTRY_POINTS),
        EntryPoint("eager", cheats.spec(cheats.wrong), runners.ENTRY_POINTS),
    ]
    monkeypatch.setattr("importlib.metadata.entry_points", lambda group: points)
    found = runners.specs()
    assert found["honest"] == cheats.spec(cheats.Honest)
    assert found["eager"].endswith("EagerRunner")
    assert isinstance(runners.load(found["honest"]), cheats.Honest)


@pytest.mark.parametrize("spec", ["tests.suites.cheats:double", "tests.suites.cheats:nothing"])
def test_what_is_no_runner_is_refused(spec: str) -> None:
    """With what was expected."""
    with pytest.raises(TypeError, match="subclass of"):
        runners.load(spec)


def test_a_runner_needs_only_prepare() -> None:
    """The rest of the contract has defaults that count nothing."""

    class Least(runners.Runner):
        def prepare(self, function: Any, arguments: Any) -> Any:
            return function

    runner = Least()
    runner.start()
    assert runner.unavailable() is None
    assert runner.facts(abs, ()) == runners.Facts()
    assert (runner.compiled_kernels(), runner.fallbacks()) == (None, None)
    with pytest.raises(NotImplementedError):
        runners.Runner().prepare(abs, ())


@pytest.mark.parametrize("kind", MODES)
def test_the_fusers_modes_run_and_count(kind: type[runners.Runner]) -> None:
    """Each mode gives NumPy's result; the compiled ones count kernels and bytes."""
    runner = kind()
    assert runner.unavailable() is None
    runner.start()
    x = np.linspace(0, 1, 100, dtype=np.float32)

    def function(a: Any, b: Any) -> Any:
        return (a + b) * a

    call = runner.prepare(function, (x, x))
    assert np.array_equal(call(x, x), function(x, x))
    facts = runner.facts(call, (x, x))
    if kind is not runners.FallbackRunner:
        assert facts.kernels == (1 if kind is runners.FusedRunner else 2)
        assert not facts.fallback_reasons
        assert facts.least_bytes == 1200
    before = runner.compiled_kernels()
    call(x, x)
    assert before is not None
    assert runner.compiled_kernels() == before
    assert isinstance(runner.fallbacks(), int)


def test_stages_of_the_first_call_are_told() -> None:
    """Tracing and loading among them; they add up to less than the whole."""
    runner = runners.FusedRunner()
    x = np.ones(10, np.float32)
    with runner.observed() as stages_s:
        runner.prepare(lambda a: a * a + a, (x,))(x)
    assert {"trace", "schedule"} <= stages_s.keys()
    assert {"llvm", "load"} & stages_s.keys()  # no llvm where the machine code is on disk
    assert all(each >= 0 for each in stages_s.values())


@dataclass(frozen=True)
class Phase:
    """A phase as `fuser.profile()` keeps it."""

    name: str
    start_ns: int
    elapsed_ns: int
    thread: int = 0


def test_phases_inside_others_count_once() -> None:
    """A phase's time is its own, without those inside it, however deep; threads are apart."""
    phases = [
        Phase("llvm", 20, 30), Phase("compile", 10, 50), Phase("launch", 0, 100),
        Phase("load", 55, 5), Phase("launch", 200, 10), Phase("trace", 20, 7, thread=1),
    ]
    found = runners.exclusive_seconds(phases)
    assert found == pytest.approx(
        {"launch": 60e-9, "compile": 15e-9, "llvm": 30e-9, "load": 5e-9, "trace": 7e-9}
    )


def test_what_the_gate_counts() -> None:
    """Launches and arrays of one call, and a hash by target: several kernels, and a graph break."""
    x = np.ones((8, 64), np.float32)

    def two_ways(a: Any) -> Any:
        shares = a / a.sum(axis=1, keepdims=True)
        return shares.sum(axis=0) * 2 + shares.T.max(axis=1)

    runner = runners.FusedRunner()
    runner.keeps_texts = True
    call = runner.prepare(two_ways, (x,))
    call(x)
    facts = runner.facts(call, (x,))
    assert (facts.launches, facts.kernels) == (2, 2)
    assert facts.allocations == 2, "sums between the kernels, and the result"
    assert facts.text_hashes.keys() == {"cpu", "gpu"}
    broken = runner.prepare(lambda a: np.sort(a * 2) + 1, (x,))
    broken(x)
    found = runner.facts(broken, (x,))
    assert (found.launches, found.allocations) == (2, 3)
    into = runners.load(runners.INTO["fused_into"])
    given = into.prepare_into(two_ways, (x,), (np.empty(64, np.float32),))
    given(x)
    assert into.facts(given, (x,)).allocations == 1, "the result's array is there already"
