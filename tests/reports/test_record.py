"""A record survives writing and reading, and a wrong one is refused with the field's name."""

import json
import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fuser.reports import record
from fuser.reports.record import RecordError, Run, Samples
from tests.reports import synthetic

SMALL = synthetic.WORKLOADS[:2]


@pytest.fixture
def document() -> dict[str, Any]:
    """A valid record as decoded JSON."""
    made = record.to_document(synthetic.record(processes=2, blocks=2, workloads=SMALL))
    decoded: dict[str, Any] = json.loads(json.dumps(made))
    return decoded


def test_a_record_survives_writing_and_reading(tmp_path: Path) -> None:
    """What is read is what was written, at every depth."""
    made = synthetic.record(processes=2, blocks=2, workloads=SMALL)
    path = record.save(made, tmp_path / "run" / "record.json")
    read = record.load(path)
    assert record.to_document(read) == record.to_document(made)
    assert read.cells[0].runs[0].samples.seconds == tuple(made.cells[0].runs[0].samples.seconds)
    assert read.machine == replace(
        made.machine, load_average=(0.4, 0.3, 0.2), features=("avx512f", "fma")
    )


def test_numpy_numbers_are_written_as_numbers(tmp_path: Path) -> None:
    """An engine that keeps NumPy scalars need not convert them."""
    samples = Samples(*([np.int64(0)] for _ in range(3)), [np.int32(4)], [np.float32(0.5)])
    run = Run("eager", "ok", samples=samples, max_error_ulp=float(np.float64(1.5)))
    made = synthetic.record(processes=2, blocks=2, workloads=SMALL)
    cell = replace(made.cells[0], runs=[run])
    read = record.load(record.save(replace(made, cells=[cell]), tmp_path / "record.json"))
    assert read.cells[0].runs[0].samples.seconds == (0.5,)


def test_an_error_that_is_not_finite_is_written_as_none(tmp_path: Path) -> None:
    """A result of NaN has no largest error; that must not lose the whole run."""
    made = synthetic.record(processes=2, blocks=2, workloads=SMALL)
    run = Run("fused", "wrong", "NaN at index 3", max_error_ulp=math.inf, tolerance=math.nan)
    made = replace(made, cells=[replace(made.cells[0], runs=[run])])
    read = record.load(record.save(made, tmp_path / "record.json")).cells[0].runs[0]
    assert read.max_error_ulp is None
    assert read.tolerance is None


def set_at(*path: str | int) -> Callable[[dict[str, Any], Any], None]:
    """Make a function that sets one place of a document."""

    def change(document: Any, value: Any) -> None:
        for step in path[:-1]:
            document = document[step]
        document[path[-1]] = value

    return change


WRONG = [
    pytest.param(("cells", 0, "runs", 1, "status"), "okay", "cells[0].runs[1].status", id="status"),
    pytest.param(("cells", 0, "elements"), -1, "cells[0].elements", id="negative size"),
    pytest.param(("machine", "cores_logical"), "two", "machine.cores_logical", id="text"),
    pytest.param(("variants", 0, "kind"), "best", "variants[0].kind", id="kind"),
    pytest.param(("created_utc",), "yesterday", "created_utc", id="date"),
    pytest.param(
        ("cells", 0, "runs", 0, "samples", "seconds", 1), math.nan,
        "cells[add-float32-4096].runs[eager].samples.seconds[1]", id="time",
    ),
    pytest.param(
        ("cells", 0, "runs", 0, "samples", "calls", 0), 0,
        "cells[add-float32-4096].runs[eager].samples.calls[0]", id="calls",
    ),
    pytest.param(
        ("cells", 0, "runs", 0, "samples", "block"), [0],
        "cells[add-float32-4096].runs[eager].samples", id="lengths",
    ),
]  # fmt: skip


@pytest.mark.parametrize(("path", "value", "name"), WRONG)
def test_a_wrong_field_is_named(
    document: dict[str, Any], path: tuple[str | int, ...], value: Any, name: str
) -> None:
    """The message says where, what was found, and what to do."""
    set_at(*path)(document, value)
    with pytest.raises(RecordError) as caught:
        record.validate(document)
    assert name in str(caught.value)
    assert str(caught.value).count(". ") >= 1  # a second sentence says what to do


def test_a_missing_field_is_named(document: dict[str, Any]) -> None:
    """A record without its machine is not a record."""
    del document["machine"]
    with pytest.raises(RecordError, match="'machine' is a required property"):
        record.validate(document)


def test_other_schema_versions_are_refused(document: dict[str, Any]) -> None:
    """A newer record is not misread as this version."""
    document["schema"] = record.SCHEMA_VERSION + 1
    with pytest.raises(RecordError, match=r"schema: found 2, this version reads 1"):
        record.validate(document)


@pytest.mark.parametrize("found", [{}, [], None, {"runs": []}])
def test_what_is_no_record_is_refused(found: Any) -> None:
    """Other JSON files in the same folder are told apart."""
    with pytest.raises(RecordError, match='no field "schema"'):
        record.validate(found)


def test_unknown_fields_are_ignored(document: dict[str, Any], tmp_path: Path) -> None:
    """A writer that adds a field within the version does not lock older readers out."""
    document["cells"][0]["weather"] = "fair"
    path = tmp_path / "record.json"
    path.write_text(json.dumps(document), encoding="utf-8")
    assert record.load(path).cells[0].workload == "add"


def test_a_cut_off_file_is_refused(tmp_path: Path) -> None:
    """Half a file is reported with the place where it ends."""
    path = tmp_path / "record.json"
    path.write_text('{"schema": 1, "cells": [', encoding="utf-8")
    with pytest.raises(RecordError, match="not JSON at line 1"):
        record.load(path)


def test_a_refused_record_leaves_the_old_file(tmp_path: Path) -> None:
    """Saving is whole or not at all: the last good record stays, no temporary file stays."""
    good = synthetic.record(processes=2, blocks=2, workloads=SMALL)
    path = record.save(good, tmp_path / "record.json")
    before = path.read_bytes()
    with pytest.raises(RecordError, match="created_utc"):
        record.save(replace(good, created_utc="now"), path)
    with pytest.raises(RecordError, match=r"found \{1, 2\} \(set\)"):
        record.save(replace(good, settings={"bad": {1, 2}}), path)
    assert path.read_bytes() == before
    assert [each.name for each in tmp_path.iterdir()] == ["record.json"]


def test_every_field_is_in_the_schema() -> None:
    """The dataclasses and the schema name the same fields."""
    document = record.to_document(synthetic.record(processes=2, blocks=2, workloads=SMALL))
    schema = json.loads(Path(record.__file__).with_name("record.schema.json").read_text("utf-8"))
    cell = document["cells"][0]
    pairs = [
        (document, schema),
        (document["machine"], schema["$defs"]["machine"]),
        (document["ceilings"][0], schema["$defs"]["ceiling"]),
        (document["variants"][0], schema["$defs"]["variant"]),
        (cell, schema["$defs"]["cell"]),
        (cell["runs"][0], schema["$defs"]["run"]),
        (cell["runs"][0]["samples"], schema["$defs"]["samples"]),
        (cell["ledger"], schema["$defs"]["ledger"]),
    ]
    for made, described in pairs:
        assert set(made) == set(described["properties"])


def test_what_crosses_a_graph_break_is_kept(document: dict[str, Any]) -> None:
    """Beside kernels' numbers there are the names of functions that NumPy runs."""
    crossing = next(c["ledger"]["boundaries"] for c in document["cells"] if c["ledger"])
    crossing.append({
        "array": "x3", "value": "sort#2 (model.py:7)", "kind": "graph-break", "moved_bytes": 4096,
        "reason": "unsupported-function", "meaning": "", "written_by": "np.sort",
        "read_by": [1, "np.sort"],
    })  # fmt: skip
    record.validate(document)
    crossing[-1]["kind"] = "hem"
    with pytest.raises(RecordError, match="hem"):
        record.validate(document)


def test_a_record_of_before_a_graph_break_was_called_so_is_read(tmp_path: Path) -> None:
    """Such a boundary was a seam."""
    made = synthetic.record(processes=1, blocks=1, workloads=synthetic.WORKLOADS[3:4])
    document = record.to_document(made)
    boundaries = [each for cell in document["cells"] for each in cell["ledger"]["boundaries"]]
    boundaries[0]["kind"] = "seam"
    path = tmp_path / "record.json"
    path.write_text(json.dumps(document), encoding="utf-8")
    found = record.load(path).cells
    assert "graph-break" in {each.kind for cell in found for each in cell.ledger.boundaries}
