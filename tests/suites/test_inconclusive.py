"""Which cells need more processes."""

from fuser.reports.record import Record
from fuser.suites.inconclusive import inconclusive
from fuser.suites.plan import VariantPlan
from tests.reports import synthetic
from tests.reports.test_comparison import FEW


def judged(record: Record) -> list[int]:
    """Return the cells without a verdict."""
    variants = [VariantPlan(each.name, "", each.kind) for each in record.variants]
    return inconclusive(record.cells, variants)


def test_a_quiet_run_has_its_verdicts() -> None:
    """One of one process has none, nor one whose noise is larger than what it looks for."""
    quiet = synthetic.record(processes=5, blocks=6, noise=0.001, workloads=FEW)
    assert judged(quiet) == []
    alone = synthetic.record(processes=1, blocks=6, noise=0.001, workloads=FEW)
    assert judged(alone)


def test_cells_without_times_are_not_measured_again() -> None:
    """More processes give them none either."""
    record = synthetic.record(processes=1, blocks=6, noise=0.001, workloads=FEW)
    assert inconclusive(record.cells, []) == []
