"""A row as numbers for pytest-benchmark and as a line of our table."""

from dataclasses import replace

import pytest

from fuser.reports.record import Cell, Ledger, Run, Samples
from fuser.suites.rows import HEADER, metrics, seconds_a_call, table_line

RUN = Run(
    "fused", "ok", samples=Samples([0, 1], [0, 0], [1, 2], [10, 10], [1e-5, 3e-5]), kernels=1,
    first_call_s=[0.02, 0.04], max_error_ulp=1.5,
)
CELL = Cell(
    "axpy-float32-64", "axpy", "chain", "float32", "sweep", 64, input_bytes=512, output_bytes=256,
    ledger=Ledger(planned_bytes=2000), runs=[RUN],
)


def test_numbers_are_a_calls() -> None:
    """Seconds are divided by calls; bytes are the planned ones of the fused variant."""
    assert seconds_a_call(RUN) == pytest.approx([1e-6, 3e-6])
    found = metrics(CELL, RUN)
    assert found["gigabytes_per_second"] == pytest.approx(2000 / 2e-6 / 1e9)
    assert found["bytes_counted"] == "planned"
    assert found["first_call_s"] == pytest.approx(0.03)
    assert found["processes"] == 2


def test_the_line_fits_its_header() -> None:
    """Unknown numbers are dashes, and the reason stands at the end."""
    line = table_line(CELL, RUN, 2e9)
    assert "2 µs" in line
    assert " 50% " in line
    assert " 1.95 KiB " in line
    assert line.endswith("  ok")
    assert len(HEADER) - len("status") == len(line) - len("ok")
    eager = Run("eager", "ok", samples=Samples([0, 1], [0, 0], [1, 2], [10, 10], [4e-5, 12e-5]))
    assert " 4 " in table_line(replace(CELL, runs=[eager, RUN]), RUN)
    empty = table_line(CELL, Run("eager", "absent", "pip install it"))
    assert "-" in empty
    assert empty.endswith("absent: pip install it")
