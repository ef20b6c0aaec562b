"""Which cells need more processes."""

from dataclasses import replace

from fuser.suites.inconclusive import inconclusive
from tests.reports import synthetic
from tests.reports.test_comparison import FEW


def test_a_quiet_run_has_its_verdicts() -> None:
    """One of one process has none, nor one whose noise is larger than what it looks for."""
    quiet = synthetic.record(processes=5, blocks=6, noise=0.001, workloads=FEW)
    assert inconclusive(quiet) == []
    alone = synthetic.record(processes=1, blocks=6, noise=0.001, workloads=FEW)
    assert inconclusive(alone)


def test_cells_without_times_are_not_measured_again() -> None:
    """More processes give them none either."""
    record = synthetic.record(processes=1, blocks=6, noise=0.001, workloads=FEW)
    assert inconclusive(replace(record, variants=())) == []
