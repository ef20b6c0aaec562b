"""Cheats that look at who calls them or change what others are held to; and what is noted."""

import re
import sys
import time
from collections.abc import Iterator
from importlib import import_module
from typing import Any

import numpy as np
import pytest

from fuser.reports.record import Record
from fuser.suites import sampling
from fuser.suites.checks.seal import HARNESS, Seal
from fuser.suites.engine import Engine
from fuser.suites.measuring import Limits, Measurement
from fuser.suites.plan import CellPlan, Plan, variants_for
from fuser.suites.runners import EagerRunner
from tests.suites import cheats, sly_cheats

CELL = CellPlan(f"{cheats.MODULE}:DOUBLE", "float32", 1024, "S")
LIMITS = Limits(
    time_s=0.2, least_sample_s=1e-4, least_blocks=2, most_blocks=4, memory_bytes=1 << 20, seed=1
)


def spec(kind: type) -> str:
    """Return a runner's `module:attribute`."""
    return f"tests.suites.sly_cheats:{kind.__name__}"


@pytest.fixture(scope="module")
def crowd() -> Record:
    """One run with all of them."""
    kinds = (*sly_cheats.SLY, sly_cheats.copied, sly_cheats.Namesake, sly_cheats.IntoAsFresh)
    variants = variants_for(["eager", cheats.spec(cheats.Honest), *map(spec, kinds)])
    return Engine(
        Plan([CELL], variants, processes=1, budget_s=3.0, ceilings=False, most_blocks=4)
    ).run()


@pytest.mark.parametrize(
    ("variant", "status", "when"),
    [
        ("knows_the_caller", "wrong", "one element of the arguments changed"),
        ("knows_the_collector", "wrong", "one element of the arguments changed"),
        ("knows_the_rhythm", "wrong", "one element|in timed block|after timing"),
        ("knows_the_count", "wrong", "in timed block|after timing"),
        ("ends_the_loop", "failed", "StopIteration"),
        ("works_while_converting", "wrong", "since it knows the function"),
        ("remembers_while_converting", "wrong", "after timing"),
        ("works_while_fetched", "wrong", "work is left for later"),
        ("long_ring", "wrong", "buffers are given out in turn"),
        ("other_class", "wrong", "of type Marked"),
        ("slows_numpy", "failed", "changed what all rows share: numpy.add"),
        ("slows_the_clock", "failed", "fuser.suites.sampling.now_s"),
    ],
)
def test_none_of_them_gets_a_speed(crowd: Record, variant: str, status: str, when: str) -> None:
    """Each is found where it shows."""
    run = next(run for run in crowd.cells[0].runs if run.variant == variant)
    assert (run.status, list(run.samples.seconds)) == (status, [])
    assert re.search(when, run.reason), run.reason


def test_an_honest_row_is_none(crowd: Record) -> None:
    """Nor NumPy, in the same process and in the peer's."""
    statuses = {run.variant: run.status for run in crowd.cells[0].runs}
    assert (statuses["honest"], statuses["eager"], statuses["eager_again"]) == ("ok",) * 3


def test_a_copy_of_the_function_is_numpy_itself(crowd: Record) -> None:
    """Whatever its name; its row is left out of the means."""
    run = next(run for run in crowd.cells[0].runs if run.variant == "copied")
    assert "NumPy's work under a fuser's name" in run.reason


def test_nobody_stands_in_for_numpy_or_for_the_fuser() -> None:
    """Kinds that are no stranger's are refused, names told apart, memory that is given is said."""
    kinds = (sly_cheats.Impostor, sly_cheats.Namesake, sly_cheats.IntoAsFresh)
    found = {each.runner: each for each in variants_for(["eager", "fused", *map(spec, kinds)])}
    impostor, namesake, into = (found[spec(each)] for each in kinds)
    assert "a runner of yours is a peer" in str(impostor.absent_reason)
    assert namesake.name == namesake.runner
    assert found["fuser.suites.runners:FusedRunner"].name == "fused"
    assert into.kind == "into"


def test_what_others_claim_is_no_part_of_the_ledger() -> None:
    """Where the fuser itself counts bytes, whoever comes first."""
    variants = variants_for(["eager", spec(sly_cheats.Namesake), "fused"])
    record = Engine(
        Plan([CELL], variants, processes=1, budget_s=2.0, ceilings=False, most_blocks=2)
    ).run()
    ledger = record.cells[0].ledger
    assert (ledger.planned_bytes, ledger.least_bytes) == (2 * 4096, 2 * 4096)


def test_what_was_changed_is_named_and_put_back(monkeypatch: pytest.MonkeyPatch) -> None:
    """Once: afterwards all is as it was."""
    seal = Seal()
    assert seal.broken() is None
    clock = sampling.now_s
    monkeypatch.setattr(sampling, "now_s", lambda: 0.0)
    assert seal.broken() == "changed what all rows share: fuser.suites.sampling.now_s"
    assert sampling.now_s is clock
    assert seal.broken() is None


def test_equal_names_of_time_zones_are_no_change() -> None:
    """Libraries that read the zone again (`time.tzset`) give equal names as another object."""
    seal, names = Seal(), time.tzname
    time.tzset()
    assert time.tzname is not names
    assert seal.broken() is None


@pytest.mark.parametrize("name", HARNESS)
def test_every_module_that_judges_is_sealed(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """Each is there under its name, and a change in it is named."""
    module = import_module(name)
    own = next(k for k, v in vars(module).items() if getattr(v, "__module__", None) == name)
    seal = Seal()
    monkeypatch.setattr(module, own, None)
    assert seal.broken() == f"changed what all rows share: {name}.{own}"


class Tired(EagerRunner):
    """A stranger's runner that does nothing of its own."""

    name = "tired"
    kind = "peer"


@pytest.mark.parametrize(("spent", "said"), [(0.9, True), (0.1, False)])
def test_threads_beside_numpy_are_noted(
    monkeypatch: pytest.MonkeyPatch, spent: float, said: bool
) -> None:
    """Where they took most of the time in which NumPy was timed."""
    readings = iter(range(10**6))
    monkeypatch.setattr(
        sys.modules["fuser.suites.checks.checked_samples"], "busy_beside_s",
        lambda: next(readings) * spent,
    )
    monkeypatch.setattr(
        sys.modules["fuser.suites.checks.checked_samples"], "timed_calls", one_second_each
    )
    events: list[dict[str, Any]] = []
    rows = [(0, CELL, cheats.DOUBLE, [0, 1])]
    Measurement(rows, {0: EagerRunner(), 1: Tired()}, LIMITS, events.append).run()
    notes = [each["text"] for each in events if each["event"] == "note"]
    assert [text for text in notes if "NumPy was disturbed" in text] == notes
    assert bool(notes) == said


def one_second_each(function: Any, arguments: Any, calls: int, kept: Any = None) -> Any:
    """Stand in for the clock."""
    return 1.0, sampling.timed_calls(function, arguments, calls, kept)[1]


def test_any_call_of_a_sample_can_be_the_one_that_is_judged() -> None:
    """All are made at one place, in order; the one that was asked for is given back."""
    lines = []

    def call(number: Iterator[int]) -> int:
        lines.append(sys._getframe(1).f_lineno)
        return next(number)

    for kept in range(5):
        _, result = sampling.timed_calls(call, (iter(range(5)),), 5, kept)
        assert result == kept
    assert len(lines) == 25
    assert len(set(lines)) == 1
    assert sampling.called(np.add, (1, 2)) == 3
