"""From events to the record: what status a row gets, and in which order findings count."""

from typing import Any

import pytest

from fuser.reports.record import Run
from fuser.suites.collect import Collector
from fuser.suites.plan import CellPlan, Plan, VariantPlan
from tests.suites import cheats

CELL = CellPlan(f"{cheats.MODULE}:DOUBLE", "float32", 64, "S")
FUSED = VariantPlan("fused", cheats.spec(cheats.Honest), "fused")
FALLBACK = VariantPlan("fallback", cheats.spec(cheats.Honest), "fallback")
ROW = {"cell": 0, "variant": 0}
SAMPLE = {"event": "sample", **ROW, "block": 0, "order": 1, "calls": 2, "seconds": 0.5}
CHECK = {"event": "check", **ROW, "relative": 1e-7, "ulp": 1.0, "problem": ""}
FIRST = {
    "event": "first", **ROW, "first_call_s": 0.1, "stages_s": {}, "kernels": 1,
    "fallback_reasons": [], "unfused_bytes": 3, "planned_bytes": 2, "least_bytes": 1,
}
WRONG = CHECK | {"problem": "after timing: output 0: relative error 1"}
COMPILED = {"event": "inside", **ROW, "what": "compiled_inside", "count": 2}
BREAK = FIRST | {"fallback_reasons": ["sort: no elementwise form"]}
FELL = BREAK | {"kernels": None}
DROPPED = {"event": "dropped", **ROW, "status": "failed", "reason": "boom"}


def run_of(*events: dict[str, Any], variant: VariantPlan = FUSED) -> Run:
    """Return the run that the events of process 0 make."""
    collector = Collector(Plan([CELL], [variant]))
    for event in events:
        collector.add(0, event)
    return collector.cells()[0].runs[0]


@pytest.mark.parametrize(
    ("events", "status"),
    [
        ([], "not_run"),
        ([FIRST, CHECK, SAMPLE], "ok"),
        ([FIRST, CHECK], "not_run"),
        ([FELL, CHECK, SAMPLE], "fell_back"),
        ([BREAK, CHECK, SAMPLE], "ok"),
        ([FELL, CHECK, SAMPLE, COMPILED], "compiled_inside"),
        ([FELL, CHECK, SAMPLE, COMPILED, WRONG], "wrong"),
        ([FIRST, CHECK, SAMPLE, WRONG, DROPPED], "failed"),
    ],
)
def test_the_worst_finding_is_the_status(events: list[dict[str, Any]], status: str) -> None:
    """Failed before wrong, wrong before compiled inside, that before fell back."""
    assert run_of(*events).status == status


def test_a_row_that_runs_numpy_itself_says_so_and_keeps_its_time() -> None:
    """Its reason stands in the record; a wrong result stays the graver finding."""
    own = {"event": "own_function", **ROW, "text": "NumPy's work"}
    run = run_of(FIRST, CHECK, SAMPLE, own)
    assert (run.status, run.reason, run.samples.seconds) == ("ok", "NumPy's work", [0.5])
    assert run_of(FIRST, CHECK, SAMPLE, own, WRONG).status == "wrong"


def test_falling_back_is_what_mode_fallback_does() -> None:
    """There it is no finding."""
    run = run_of(FELL, CHECK, SAMPLE, variant=FALLBACK)
    assert (run.status, run.expected_fallback) == ("ok", True)
    assert run.fallback_reasons == ["sort: no elementwise form"]


def test_wrong_and_failed_rows_keep_no_samples() -> None:
    """They get no speed."""
    assert not run_of(FIRST, SAMPLE, WRONG).samples.seconds
    assert run_of(FIRST, SAMPLE, COMPILED).samples.seconds == [0.5]


def test_the_worst_error_is_kept() -> None:
    """Over all checks of all processes."""
    run = run_of(FIRST, CHECK, CHECK | {"relative": 1e-6, "ulp": 0.5}, SAMPLE)
    assert (run.max_relative_error, run.max_error_ulp, run.checked_calls) == (1e-6, 1.0, 2)


def test_a_dead_process_leaves_no_samples() -> None:
    """It is run again, and its blocks must not be there twice."""
    collector = Collector(Plan([CELL], [FUSED]))
    collector.add(0, SAMPLE)
    collector.add(1, SAMPLE)
    collector.forget_samples(1)
    assert collector.cells()[0].runs[0].samples.process == [0]


def test_an_absent_variant_has_a_row_with_its_reason() -> None:
    """It is listed, not left out in silence."""
    absent = VariantPlan("numexpr", "x:Y", "peer", absent_reason="pip install numexpr")
    run = run_of(variant=absent)
    assert (run.status, run.reason) == ("absent", "pip install numexpr")
