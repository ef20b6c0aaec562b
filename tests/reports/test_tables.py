"""Tables of synthetic records show the ratios that were put in, and say what they leave out."""

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from fuser.reports import tables
from fuser.reports.analysis import Analysis, analyse
from fuser.reports.collection import COMPARED, TABLES, collect
from fuser.reports.comparison import compare_records
from fuser.reports.record import Record, Run, Samples, Variant
from tests.reports import synthetic


@pytest.fixture(scope="module")
def quiet() -> Analysis:
    """A record with hardly any noise, so that the true ratios must come out."""
    return analyse(synthetic.record(noise=1e-5))


def row_of(table: pd.DataFrame, **wanted: object) -> pd.Series:  # type: ignore[type-arg]
    """Find the one row with these values."""
    mask = np.logical_and.reduce([table[name] == value for name, value in wanted.items()])
    (index,) = np.flatnonzero(mask)
    found: pd.Series = table.iloc[int(index)]  # type: ignore[type-arg]
    return found


def test_the_best_and_the_worst_are_named(quiet: Analysis) -> None:
    """Five of each, sorted, none in both, none that is left out of the summaries."""
    table = tables.extremes_table(quiet)
    assert list(table["place"]) == ["best"] * 5 + ["worst"] * 5
    assert table["speedup"].is_monotonic_decreasing
    assert table["cell"].is_unique
    assert "tone_mapping-float32-16777216" not in set(table["cell"])  # it fell back
    counted = tables.runs_table(quiet).query("variant == 'fused' and size != 'sweep'")
    counted = counted[(counted["label"] == "") & counted["speedup"].notna()]
    assert table["speedup"].max() == counted["speedup"].max()
    assert table["speedup"].min() == counted["speedup"].min()
    few = synthetic.record(processes=2, blocks=2, workloads=synthetic.WORKLOADS[:1])
    assert list(tables.extremes_table(analyse(few))["place"]) == ["best", "worst"]


def with_runs(record: Record, cell_id: str, change: dict[str, Run]) -> Record:
    """Replace runs of one cell by variant."""
    cells = []
    for cell in record.cells:
        if cell.id == cell_id:
            runs = [change.get(run.variant, run) for run in cell.runs]
            cell = replace(cell, runs=runs)
        cells.append(cell)
    return replace(record, cells=cells)


def true_ratio(name: str, elements: int, slow: str, fast: str) -> float:
    """The ratio that the synthetic machine was given."""
    workload = next(each for each in synthetic.WORKLOADS if each.name == name)
    seconds = [synthetic.true_seconds(workload, elements, kind) for kind in (slow, fast)]
    return seconds[0] / seconds[1]


@pytest.mark.parametrize("name", ["gelu_bias", "add", "black_scholes"])
@pytest.mark.parametrize("elements", [4096, 1 << 24])
def test_ratios_are_those_put_in(quiet: Analysis, name: str, elements: int) -> None:
    """Against eager, and unfused against fused, with an interval around the value."""
    row = row_of(tables.runs_table(quiet), workload=name, elements=elements, variant="fused")
    assert row["speedup"] == pytest.approx(true_ratio(name, elements, "eager", "fused"), rel=1e-4)
    gain = true_ratio(name, elements, "unfused", "fused")
    assert row["fusion_gain"] == pytest.approx(gain, rel=1e-4)
    assert row["speedup_low"] < row["speedup"] < row["speedup_high"]
    assert row["processes"] == 3
    assert row["samples"] == 24


def test_bandwidth_is_least_bytes_over_time(quiet: Analysis) -> None:
    """Two inputs and one output of 64 MiB each, against the copy beyond the cache."""
    row = row_of(tables.runs_table(quiet), cell="gelu_bias-float32-16777216", variant="fused")
    assert row["bytes_per_second"] == pytest.approx(3 * (64 << 20) / row["call_s"])
    assert row["copy_share"] == pytest.approx(0.9, rel=0.02)


def test_only_fused_rows_that_fused_show_what_fusion_gains(quiet: Analysis) -> None:
    """A fallback, a refusal, a compile inside or a wrong partner leaves the gain empty."""
    runs = tables.runs_table(quiet)
    assert runs[runs["kind"] != "fused"]["fusion_gain"].isna().all()
    without = runs[(runs["kind"] == "fused") & runs["fusion_gain"].isna()]
    assert sorted(without["cell"]) == [
        "distance-float32-16777216",
        "sort_rows-float32-16777216",
        "sort_rows-float32-4096",
        "tone_mapping-float32-16777216",
        "where_clip-float32-4096",
    ]


def test_summaries_say_n_of_n_and_count_left_out_rows_in_a_second_mean(quiet: Analysis) -> None:
    """One of 14 fell back, one must be refused: 12 of 14, and 13 at their measured time."""
    summary = tables.summary_table(quiet)
    row = row_of(summary, size="L", variant="fused", baseline="eager")
    assert (row["counted"], row["rows"], row["counted_all"]) == (12, 14, 13)
    assert (row["left_out"], row["refused_as_expected"]) == (1, 1)
    names = [w.name for w in synthetic.WORKLOADS if w.name not in ("tone_mapping", "sort_rows")]
    ratios = [true_ratio(name, 1 << 24, "eager", "fused") for name in names]
    assert row["speedup"] == pytest.approx(math.exp(np.mean(np.log(ratios))), rel=1e-3)
    fell_back = true_ratio("tone_mapping", 1 << 24, "eager", "fallback")
    everything = math.exp(np.mean(np.log([*ratios, fell_back])))
    assert row["speedup_all"] == pytest.approx(everything, rel=1e-3)


def test_the_fusion_summary_leaves_out_rows_with_a_wrong_partner(quiet: Analysis) -> None:
    """Unfused was wrong on one row: 11 of 14 show what fusion gains there."""
    row = row_of(tables.summary_table(quiet), size="L", variant="fused", baseline="unfused")
    assert (row["counted"], row["rows"], row["counted_all"]) == (11, 14, 12)
    assert row["speedup_all"] < row["speedup"]


def test_verdict_counts_add_up(quiet: Analysis) -> None:
    """Every counted row against eager has exactly one verdict."""
    summary = tables.summary_table(quiet)
    against_eager = summary[summary["baseline"] == "eager"]
    words = ["faster", "slower", "same_within_margin", "inconclusive", "not_measured"]
    assert (against_eager[words].sum(axis=1) == against_eager["counted"]).all()


def test_what_is_left_out_is_listed_with_its_reason(quiet: Analysis) -> None:
    """Unexpected ones first, refusals last, an absent variant as one line."""
    table = tables.left_out_table(quiet)
    assert (table["reason"] != "").all()
    assert list(table["label"]) == [
        "wrong result",
        "compiled while timed",
        "fell back",
        "absent",
        *["refused as expected"] * 4,
    ]
    assert row_of(table, label="absent")["cell"] == "all 46"
    assert math.isnan(row_of(table, label="wrong result")["measured_ratio"])


def timed(run: Run, seconds: list[float], calls: int | None = None) -> Run:
    """The run with other samples."""
    each = run.samples.calls if calls is None else [calls] * len(seconds)
    return replace(run, samples=replace(run.samples, calls=each, seconds=seconds))


AMISS: dict[str, tuple[str, Callable[[Run], Run], str, str]] = {
    "ten times the speed of a copy": (
        "axpy-float32-16777216",
        lambda run: timed(run, [each / 10 for each in run.samples.seconds]),
        "impossible number", "above the ceiling",
    ),
    "an interval as wide as a barn: one of two processes is a hundred times as fast": (
        "axpy-float32-16777216",
        lambda run: timed(run, [
            each / (5 if process % 2 else 500)
            for process, each in zip(run.samples.process, run.samples.seconds, strict=True)
        ]),
        "impossible number", "above the ceiling",
    ),
    "a sample that the clock cannot resolve": (
        "add-float32-4096", lambda run: timed(run, [1.2e-7] * 24, calls=1),
        "impossible number", "clock",
    ),
    "a call cheaper than one that does nothing": (
        "add-float32-4096", lambda run: timed(run, [5e-4] * 24, calls=100_000),
        "impossible number", "below the launch floor: a call took 5.0 ns",
    ),
    "what must be refused was compiled": (
        "sort_rows-float32-4096",
        lambda run: replace(run, status="ok", reason="", expected_fallback=False),
        "fused, though it must be refused", "",
    ),
    "NumPy under the name of a fuser": (
        "axpy-float32-4096",
        lambda run: replace(run, reason="calls the workload's own function"),
        "ran NumPy itself", "calls the workload's own function",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", AMISS)
def test_a_row_that_is_amiss_enters_no_first_mean(name: str) -> None:
    """It has a label and a reason, and is listed; what was timed counts in the second mean."""
    place, change, label, reason = AMISS[name]
    record = synthetic.record(noise=1e-4, processes=2 if "barn" in name else 3)
    record = replace(record, call_overhead={"clock_resolution_s": [2.9e-7]})
    cell = next(each for each in record.cells if each.id == place)
    run = next(each for each in cell.runs if each.variant == "fused")
    analysis = analyse(with_runs(record, cell.id, {"fused": change(run)}))
    row = row_of(tables.runs_table(analysis), cell=cell.id, variant="fused")
    assert row["label"] == label
    assert reason in row["reason"]
    assert math.isnan(row["fusion_gain"])
    assert cell.id in set(tables.left_out_table(analysis)["cell"])
    wanted = {"size": cell.size, "variant": "fused", "baseline": "eager"}
    before, after = (row_of(tables.summary_table(each), **wanted)
                     for each in (analyse(record), analysis))  # fmt: skip
    impossible, refused = label.startswith("impossible"), label.startswith("fused")
    assert math.isnan(row["speedup"]) == impossible
    assert after["counted"] == before["counted"] - (not refused)
    assert after["counted_all"] == before["counted_all"] - impossible + refused


def test_a_run_that_is_missing_is_a_row() -> None:
    """Nothing disappears: an interrupted cell lists its variants as not run."""
    record = synthetic.record()
    first = replace(record.cells[0], runs=record.cells[0].runs[:1])
    analysis = analyse(replace(record, finished=False, cells=[first, *record.cells[1:]]))
    row = row_of(tables.runs_table(analysis), cell=first.id, variant="fused")
    assert (row["label"], row["reason"]) == ("not run", "the run was interrupted")


def test_one_process_gives_no_verdict() -> None:
    """Ratios without intervals, every verdict 'not measured'."""
    runs = tables.runs_table(analyse(synthetic.record(processes=1)))
    assert runs["speedup_low"].isna().all()
    assert set(runs[runs["kind"] != "eager"]["verdict"]) == {"not measured"}
    assert runs[runs["kind"] == "fused"]["speedup"].notna().any()


@pytest.mark.parametrize("name", TABLES)
def test_every_table_of_an_empty_record_is_empty(name: str) -> None:
    """No row, all columns, no error."""
    table = TABLES[name].make(analyse(synthetic.empty()))
    assert len(table) == 0
    assert len(table.columns) > 2


def test_traffic_is_the_ledgers(quiet: Analysis) -> None:
    """Bytes as counted, the saving and the distance to the floor."""
    row = row_of(tables.traffic_table(quiet), cell="laplacian_2d-float32-16777216")
    assert row["unfused_bytes"] == 13 * 4 << 24
    assert row["saving"] == pytest.approx(13 / 3)
    assert row["least_share"] == pytest.approx(2 / 3)
    assert "sort_rows" not in set(tables.traffic_table(quiet)["workload"])


def test_break_even_takes_every_size_of_a_workload(quiet: Analysis) -> None:
    """Sweep and preset sizes together; eager is the baseline; a slow start has a crossing."""
    table = tables.break_even_table(quiet)
    assert set(table["workload"]) == {"axpy", "gelu_bias", "silu_mul"}
    assert row_of(table, workload="axpy", variant="eager")["note"] == "the baseline"
    fused = row_of(table, workload="axpy", variant="fused")
    assert fused["least_elements"] == 1
    assert fused["note"] == "faster at every size measured"


def test_break_even_leaves_other_axes_out() -> None:
    """Rows of one size that differ in an axis are no sizes: there is nothing between them."""
    record = synthetic.record()
    cells = [
        replace(cell, id=f"{cell.id}-hidden{hidden}", axes={"hidden": hidden})
        for cell in record.cells for hidden in (64, 1000)
    ]  # fmt: skip
    assert not len(tables.break_even_table(analyse(replace(record, cells=cells))))


def test_break_even_finds_a_crossing() -> None:
    """A variant with a slow entry overtakes eager where the synthetic curves cross."""
    sizes, crossing = [1, 100, 10_000, 1_000_000], 3000
    record = synthetic.record(workloads=())
    generator = np.random.default_rng(1)
    workload = synthetic.WORKLOADS[1]
    cells = [synthetic.cell(workload, size, "sweep", generator, noise=1e-6) for size in sizes]

    def timed(elements: int, seconds: Sequence[float], kind: str) -> list[float]:
        slow_entry = 1e-6 + 1e-9 * elements if kind == "eager" else 2.5e-6 + 0.5e-9 * elements
        return [slow_entry * 10_000 for _ in seconds]

    changed = []
    for cell in cells:
        runs = []
        for run in (each for each in cell.runs if each.variant in ("eager", "fused")):
            seconds = timed(cell.elements, run.samples.seconds, run.variant)
            samples = replace(run.samples, calls=[10_000] * len(seconds), seconds=seconds)
            runs.append(replace(run, samples=samples))
        changed.append(replace(cell, runs=runs))
    analysis = analyse(replace(record, cells=changed, ceilings=()))
    row = row_of(tables.break_even_table(analysis), variant="fused")
    # Interpolated between 100 and 10,000 elements: within a factor of the true size.
    assert crossing / 1.5 < row["crossing_elements"] < crossing * 1.5


def test_compile_stages_and_the_rest_add_up(quiet: Analysis) -> None:
    """The first call is its stages and what no stage accounts for."""
    table = tables.compile_table(quiet)
    stages = [f"{name}_s" for name in synthetic.STAGES]
    whole = table[[*stages, "other_s"]].sum(axis=1)
    assert np.allclose(whole, table["first_call_s"])
    assert set(table["variant"]) == {"fused", "unfused"}


def test_noise_has_a_row_for_each_pair(quiet: Analysis) -> None:
    """A/A ratios near 1, and a floor to match."""
    table = tables.noise_table(quiet)
    assert len(table) == len(quiet.record.cells)
    assert np.allclose(table["ratio"], 1, atol=1e-3)
    assert quiet.floor is not None
    assert 1 < quiet.floor.ratio < 1.001


def test_each_row_has_its_command(quiet: Analysis) -> None:
    """What measures the row again."""
    table = tables.samples_table(quiet)
    assert table["reproduce"].iloc[0] == "fuser-bench run add-float32-4096 --seed 1"


def test_csv_files_read_back(quiet: Analysis, tmp_path: Path) -> None:
    """One file a table, with every column."""
    collection = collect(quiet)
    paths = tables.write_csv(collection.tables, tmp_path)
    assert {path.stem for path in paths} == {*TABLES, *COMPARED}
    read = pd.read_csv(tmp_path / "runs.csv")
    assert list(read.columns) == list(collection.tables["runs"].columns)
    assert np.allclose(read["speedup"], collection.tables["runs"]["speedup"], equal_nan=True)


MOVING = [each for each in synthetic.WORKLOADS if each.name in ("axpy", "gelu_bias")]


@pytest.fixture(scope="module")
def moving() -> Analysis:
    """Two workloads, one of which stores an array between kernels."""
    return analyse(synthetic.record(processes=2, blocks=2, workloads=MOVING))


def test_what_crosses_adds_up_to_the_planned_bytes(moving: Analysis) -> None:
    """Largest first in each cell; the cost is the bytes at the speed of a copy."""
    table = tables.boundaries_table(moving)
    assert set(table["workload"]) == {"gelu_bias"}
    for cell in moving.record.cells:
        book = cell.ledger
        moved = table.loc[table["cell"] == cell.id, "moved_bytes"].sum()
        assert book.least_bytes is not None
        assert book.least_bytes + moved == book.planned_bytes
    first = table.iloc[0]
    assert first["kind"] == "stored"
    assert first["kernels"] == "0 → 1, 2"
    assert table.iloc[1]["kernels"] == "argument → 0, 1"
    assert first["moved_bytes"] / first["cost_s"] == pytest.approx(60e9, rel=0.1)


def test_a_cost_is_estimated_where_no_copy_was_timed_in_the_cache_level() -> None:
    """At the speed of the copy with the nearest working set; without any, not at all."""
    few = [each for each in synthetic.WORKLOADS if each.name == "gelu_bias"]
    made = synthetic.record(processes=1, blocks=2, workloads=few)
    near = [each for each in made.ceilings if each.working_set_bytes == 1 << 14]
    table = tables.boundaries_table(analyse(replace(made, ceilings=near)))
    assert (table["cost_s"] > 0).all()
    table = tables.boundaries_table(analyse(replace(made, ceilings=())))
    assert table["cost_s"].isna().all()


def test_memory_is_results_and_temporaries(moving: Analysis) -> None:
    """The fused calls hold their result alone."""
    table = tables.memory_table(moving)
    fused = table[table["kind"] == "fused"]
    assert (fused["temporary_bytes"] == 0).all()
    assert (fused["per_element"] == 4).all()
    assert (table.loc[table["kind"] == "eager", "temporary_bytes"] > 0).all()


def test_roofs_are_memory_at_low_and_arithmetic_at_high_intensity(moving: Analysis) -> None:
    """Operations over time stay below the lower of the two."""
    table = tables.roofline_table(moving)
    assert np.allclose(table["intensity"], table["operations"] / table["moved_bytes"])
    axpy = table[(table["workload"] == "axpy") & (table["elements"] == 1 << 24)]
    assert set(axpy["limit"]) == {"memory"}
    few = [replace(each, seconds=[10.0]) for each in moving.record.arithmetic]
    slow = analyse(replace(moving.record, arithmetic=few))
    assert set(tables.roofline_table(slow)["limit"]) == {"arithmetic"}


def _faster(run: Run, name: str, factor: float) -> Run:
    seconds = [each / factor for each in run.samples.seconds]
    samples = replace(run.samples, seconds=seconds)
    return replace(run, variant=name, samples=samples)


def _with_into() -> Record:
    """The synthetic record, whose large cells have both `into` variants as well."""
    record = synthetic.record()
    cells = []
    for cell in record.cells:
        runs = list(cell.runs)
        named = {run.variant: run for run in runs}
        if cell.size == "L" and cell.workload == "axpy":
            runs.append(_faster(named["eager"], "eager_into", 1.5))
            runs.append(_faster(named["fused"], "fused_into", 1.0))
        elif cell.size == "L":
            runs.append(Run("eager_into", "not_run", "no out=", samples=Samples()))
        cells.append(replace(cell, runs=runs))
    into = [Variant("eager_into", "into"), Variant("fused_into", "into")]
    return replace(record, cells=cells, variants=[*record.variants, *into])


def test_both_ratios_stand_side_by_side() -> None:
    """What the memory's cost hid or made is seen."""
    table = tables.fresh_into_table(analyse(_with_into())).set_index("cell")
    line = table.loc["axpy-float32-16777216"]
    assert line["into_ratio"] == pytest.approx(line["fresh_ratio"] / 1.5)
    assert line["eager_s"] == pytest.approx(1.5 * line["eager_into_s"])
    assert line["note"] == ""
    others = table.drop("axpy-float32-16777216")
    assert others["into_ratio"].isna().all()
    assert (others["note"] == "eager_into: no out=").all()


def test_small_cells_have_no_row_and_summaries_are_of_new_arrays() -> None:
    """A cell without such a run is not called "not run"; no mean mixes both."""
    analysis = analyse(_with_into())
    small = [row for row in analysis.rows if row.cell.size == "S"]
    assert not any(row.variant.kind == "into" for row in small)
    assert not tables.summary_table(analysis)["variant"].str.contains("into").any()


FEW = synthetic.WORKLOADS[1:2]


def test_times_are_sorted_from_slower_to_faster() -> None:
    """Every timed row with its interval; peers are there and do not decide."""
    found = compare_records(synthetic.base(FEW), synthetic.record(workloads=FEW))
    table = tables.times_table(found)
    assert list(table["ratio"]) == sorted(table["ratio"], reverse=True)
    fused = table[table["variant"] == "fused"]
    assert (fused["ratio"] < 0.85).all()
    assert set(fused["verdict"]) == {"faster"}
    assert len(table) == len(found.timed)


def test_counts_are_wrong_and_missing_rows_too() -> None:
    """Each finding with its cell, variant and both sides."""
    base = synthetic.record(workloads=FEW)
    cells = list(base.cells)
    runs = [
        replace(run, status="wrong", reason="off by one") if run.variant == "fused" else
        replace(run, kernels=9) for run in cells[0].runs if run.variant != "unfused"
    ]  # fmt: skip
    cells[0] = replace(cells[0], runs=runs)
    table = tables.counts_table(compare_records(base, replace(base, cells=cells)))
    assert {"wrong", "missing"} <= set(table["finding"])
    assert "off by one" in set(table["head"])


def test_without_a_base_there_are_no_rows() -> None:
    """The columns stay, so that figures and page need no special case."""
    assert not len(tables.times_table(None)) + len(tables.counts_table(None))
