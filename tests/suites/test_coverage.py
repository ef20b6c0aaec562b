"""The coverage map holds the operator table, and what it calls verified is what the tests do."""

import numpy as np

from fuser.ir.ops import TABLE
from fuser.suites import coverage
from fuser.suites.workload import Workload, normals
from tests.backends import fusion_suite
from tests.backends.cases import CASES
from tests.fuser.numpy_functions import (
    test_gathers,
    test_reductions,
    test_scans,
    test_scatters,
)


def test_every_operation_has_cells_and_a_proof() -> None:
    """An operation that no workload times and no test of the table verifies fails here."""
    cells = coverage.cells([])
    held = {each.operation for each in cells if each.proof != "never"}
    # Rows of complex numbers alone have no dtypes here: the GPU backend's own tests hold them.
    computing = {name for name, op in TABLE.items() if not op.structure and op.dtypes()}
    assert held == computing
    for name in computing:
        dtypes = {each.dtype for each in cells if each.operation == name}
        assert dtypes == set(TABLE[name].dtypes())


def test_what_is_called_verified_is_what_the_tests_compare() -> None:
    """The declared pairs are those over which the named tests are parametrised."""
    declared = {(op, dtype) for (op, dtype, _), test in coverage.verified()
                if test == coverage.TABLE_TEST}  # fmt: skip
    assert declared == {(case.op.name, case.rows_dtype) for case in CASES}
    for test in (coverage.TABLE_TEST, coverage.CAST_TEST):
        assert hasattr(fusion_suite.FusionSuite, test.rpartition(" ")[2])
    assert hasattr(test_reductions, coverage.REDUCTION_TEST.rpartition(" ")[2])
    assert hasattr(test_scans, coverage.SCAN_TEST.rpartition(" ")[2])
    assert {getattr(np, op.combine) for op in TABLE.values() if op.scans} == set(test_scans.UFUNCS)
    assert hasattr(test_gathers, coverage.GATHER_TEST.rpartition(" ")[2])
    assert hasattr(test_scatters, coverage.SCATTER_TEST.rpartition(" ")[2])
    scatters = {name for name, op in TABLE.items() if op.scatters}
    held = {"_".join(filter(None, ("scatter", combine))) for combine, _ in test_scatters.CASES}
    assert held == scatters
    reduced = {np.dtype(name).name for name in test_reductions.DTYPES}
    assert reduced == set(coverage.REDUCED_DTYPES)
    rows = {name for name, op in TABLE.items() if op.reduction}
    assert rows <= set(test_reductions.NAMES)


def test_layouts_are_those_of_the_operands() -> None:
    """Contiguous and transposed inputs, a broadcast row, a number, and a value in between."""

    def function(x: np.ndarray, row: np.ndarray) -> np.ndarray:
        return np.exp(x.T[::2] + row * 2)

    def inputs(*_: object) -> tuple[np.ndarray, ...]:
        return np.ones((6, 8), np.float32), np.ones(6, np.float32)

    found = coverage.uses(Workload("mine", "mine", "mine", function, inputs), "float32")
    assert ("exp", "float32", "inside") in found
    assert ("multiply", "float32", "contiguous") in found
    assert ("multiply", "float32", "scalar") in found
    assert {layout for op, _, layout in found if op == "add"} == {"strided", "inside"}


def test_a_row_added_to_a_matrix_is_broadcast() -> None:
    """NumPy's rules stretch it without an operation of its own; reductions stretch nothing."""

    def function(x: np.ndarray, row: np.ndarray) -> np.ndarray:
        return np.sum(x + row, axis=0)

    def inputs(*_: object) -> tuple[np.ndarray, ...]:
        return np.ones((6, 8), np.float32), np.ones(8, np.float32)

    found = coverage.uses(Workload("mine", "mine", "mine", function, inputs), "float32")
    assert {layout for op, _, layout in found if op == "add"} == {"contiguous", "broadcast"}
    assert {layout for op, _, layout in found if op == "sum"} == {"inside"}


def test_a_timed_operation_names_its_workloads() -> None:
    """Once each, whatever the number of sizes; a workload that must be refused times nothing."""
    mine = Workload("mine", "mine", "mine", lambda x: np.tanh(x), normals(1))
    refused = Workload(
        "refused", "mine", "printed", lambda x: print(x), normals(1), must_refuse=True
    )
    cells = coverage.cells([(mine, "float32"), (mine, "float32"), (refused, "float32")])
    timed = [each for each in cells if each.proof == "timed"]
    assert [(each.operation, each.dtype, each.layout, list(each.by)) for each in timed] == [
        ("tanh", "float32", "contiguous", ["mine"])
    ]
