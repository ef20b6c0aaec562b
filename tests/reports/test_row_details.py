"""What stands behind a row is kept once, small, and found by the row's anchor."""

import base64
import gzip
import json

from fuser.reports import row_details
from fuser.reports.analysis import analyse
from fuser.reports.display import display
from fuser.reports.tables import runs_table
from tests.reports import synthetic

FEW = synthetic.WORKLOADS[3:4]


def test_details_unpack_to_every_timed_row() -> None:
    """Keys are the anchors of the table of runs; the texts are those that rows name."""
    analysis = analyse(synthetic.record(processes=2, blocks=2, workloads=FEW))
    unpacked = json.loads(gzip.decompress(base64.b64decode(row_details.packed(analysis))))
    assert unpacked == row_details.details(analysis)
    table = display("runs", "", runs_table(analysis))
    assert set(unpacked["rows"]) == {line.anchor for line in table.lines}
    for row in unpacked["rows"].values():
        assert set(row["texts"].values()) <= set(unpacked["texts"])
        assert len(row["samples"]) == 4
    assert "trace" not in unpacked["texts"]


def test_many_samples_are_thinned() -> None:
    """A plot of 560 pixels has no use for more."""
    analysis = analyse(synthetic.record(processes=3, blocks=200, workloads=FEW))
    rows = row_details.details(analysis)["rows"].values()
    assert all(len(row["samples"]) <= row_details.MOST_SAMPLES for row in rows)
