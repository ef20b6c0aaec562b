"""Calls taken apart: sums and wholes, first calls, and when compiling is repaid."""

import math
from dataclasses import replace

import pytest

from fuser.reports import call_tables
from fuser.reports.analysis import Analysis, analyse
from fuser.reports.record import Anatomy
from tests.reports import synthetic

FEW = [each for each in synthetic.WORKLOADS if each.name in ("axpy", "gelu_bias")]


@pytest.fixture(scope="module")
def analysis() -> Analysis:
    """Two workloads with everything that an experiment finds."""
    return analyse(synthetic.record(processes=3, blocks=2, workloads=FEW))


def test_parts_sum_and_whole_stand_together(analysis: Analysis) -> None:
    """The sum is that of the parts, and says how far it is from the whole."""
    table = call_tables.anatomy_table(analysis)
    native = table[table["path"] == "native"].set_index("part")
    parts = native.drop([call_tables.SUM, call_tables.WHOLE])
    assert native.loc[call_tables.SUM, "part_s"] == pytest.approx(parts["part_s"].sum())
    assert native.loc[call_tables.WHOLE, "share"] == 1
    assert native.loc[call_tables.SUM, "closes"].startswith("3.5% below the whole (")
    python = table[table["path"] == "python"].set_index("part")
    assert python.loc[call_tables.SUM, "closes"].startswith("24.0% below the whole, which is too")


@pytest.mark.parametrize(
    ("method", "parts_s", "whole_s", "near"),
    [
        ("ablation", 114e-9, 100e-9, True),  # 15 ns
        ("ablation", 116e-9, 100e-9, False),
        ("ablation", 1.09e-6, 1e-6, True),  # 10%
        ("stamps", 10.4e-6, 10e-6, True),  # 5%
        ("stamps", 10.6e-6, 10e-6, False),
        ("stamps", 100.9e-6, 100e-6, True),  # 1 us
        ("stamps", 104e-6, 100e-6, False),
    ],
)
def test_what_closes(method: str, parts_s: float, whole_s: float, near: bool) -> None:
    """15 ns or 10% by ablation; by stamps 5%, of calls over 20 us 1 us."""
    anatomy = Anatomy("f", "native", method, {"all": [parts_s]}, [whole_s])  # type: ignore[arg-type]
    found = call_tables.unexplained(anatomy)
    assert found.closes == near
    assert ("too far" in found.text) != near


def test_parts_are_compared_within_their_process() -> None:
    """Three processes at three speeds, each closing, close together; all intervals are in one."""
    anatomy = Anatomy(
        "f", "native", "ablation", {"one": [60e-9, 200e-9, 150e-9], "two": [40e-9, 210e-9, 50e-9]},
        [100e-9, 400e-9, 200e-9], [[-2e-9, 0.0, 2e-9], [0.0, 10e-9, 12e-9], [0.0, 0.0, 8e-9]],
    )  # fmt: skip
    found = call_tables.unexplained(anatomy)
    assert found.closes
    assert found.text == "0.0% below the whole (-2.0% to +4.0%)"


def test_phases_stand_under_those_that_they_are_part_of(analysis: Analysis) -> None:
    """By when they begin and end; what comes after the first launch is another call."""
    table = call_tables.phases_table(analysis)
    assert list(zip(table["phase"], table["level"], strict=True)) == [
        ("trace", 0), ("schedule", 0), ("bind", 0), ("emit", 1), ("compile", 1), ("parse", 2),
        ("llvm", 2), ("launch", 0),
    ]  # fmt: skip
    assert table["start_s"].iloc[-1] == pytest.approx(9.2e-3)
    assert table["share"].iloc[-1] == pytest.approx(40 / 9240)
    record = replace(analysis.record, texts={})
    assert not len(call_tables.phases_table(replace(analysis, record=record)))


def test_first_calls_have_their_stages_and_the_whole(analysis: Analysis) -> None:
    """Both states; shares of the whole."""
    table = call_tables.first_calls_table(analysis)
    whole = table[table["stage"] == "first call"]
    assert list(whole["state"]) == ["cold", "disk cache"]
    stages = table[(table["stage"] != "first call") & (table["state"] == "cold")]
    assert stages["share"].sum() == pytest.approx(1, rel=0.02)


def test_compiling_is_repaid_sooner_from_disk(analysis: Analysis) -> None:
    """Known for the workloads whose first calls were timed; never where nothing is gained."""
    table = call_tables.repay_table(analysis)
    gelu = table[(table["workload"] == "gelu_bias") & (table["variant"] == "fused")]
    finite = gelu[gelu["calls_to_repay"].map(math.isfinite)]
    assert len(finite)
    assert (finite["disk_calls_to_repay"] <= finite["calls_to_repay"]).all()
    assert (finite["calls_to_repay_low"] <= finite["calls_to_repay"]).all()
    assert (finite["calls_to_repay"] <= finite["calls_to_repay_high"]).all()
    axpy = table[table["workload"] == "axpy"]
    assert axpy["disk_calls_to_repay"].isna().all()
