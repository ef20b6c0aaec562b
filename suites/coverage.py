"""The coverage map: how each operation, at each dtype and layout, is held to account.

Timed: a workload of the run uses it. Verified: a test that runs over the whole operator table
compares it with NumPy on every edge value. Never: neither. A layout is that of an operand as it
lies in memory; what another operation of the kernel computed is "inside".
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import numpy as np

from fuser.reports.record import CoverageCell, Proof
from fuser.suites.workload import Workload

LAYOUTS = ("contiguous", "strided", "transposed", "broadcast", "scalar", "inside")
ELEMENTS = 1024
"""Enough for every workload's shapes; only dtypes and layouts are looked at."""

TABLE_TEST = "tests/backends/fusion_suite.py: test_every_op_means_what_numpy_means"
CAST_TEST = "tests/backends/fusion_suite.py: test_every_dtype_converts_to_every_other"
REDUCTION_TEST = (
    "tests/fuser/numpy_functions/test_reductions.py: test_every_reduction_means_what_numpy_means"
)
SCAN_TEST = "tests/fuser/numpy_functions/test_scans.py: test_every_dtype_and_axis"
GATHER_TEST = "tests/fuser/numpy_functions/test_gathers.py: test_elements_are_numpys"
SCATTER_TEST = "tests/fuser/numpy_functions/test_scatters.py: test_elements_are_numpys"

TABLE_LAYOUTS = ("contiguous", "strided", "scalar")
"""Layouts in which the test of the whole table gives its operands."""
REDUCTION_LAYOUTS = ("contiguous", "transposed")
SCAN_LAYOUTS = ("contiguous",)
GATHER_LAYOUTS = ("contiguous", "strided")
REDUCED_DTYPES = ("bool", "int8", "uint16", "int32", "uint64", "float16", "float32", "float64")
"""Dtypes that the test of the reductions reduces."""

Key = tuple[str, str, str]


def cells(timed: Iterable[tuple[Workload, str]]) -> list[CoverageCell]:
    """Return the whole map: every row of the operator table, at its dtypes, in every layout.

    Args:
        timed: the workloads of a run with the dtypes that they are timed at.
    """
    used: dict[Key, list[str]] = {}
    for workload, dtype in timed:
        for key in sorted(uses(workload, dtype)):
            names = used.setdefault(key, [])
            if workload.name not in names:
                names.append(workload.name)
    proven = dict(verified())
    return [_cell(key, used, proven) for key in _whole_map()]


def _cell(key: Key, used: Mapping[Key, list[str]], proven: Mapping[Key, str]) -> CoverageCell:
    proof: Proof = "timed" if key in used else "verified" if key in proven else "never"
    by = used.get(key) or ([proven[key]] if key in proven else [])
    return CoverageCell(*key, proof, by)


def _whole_map() -> Iterator[Key]:
    from fuser.ir.ops import TABLE

    for op in TABLE.values():
        if not op.structure:
            for dtype in op.dtypes():
                for layout in LAYOUTS:
                    yield op.name, dtype, layout


def verified() -> Iterator[tuple[Key, str]]:
    """Yield what the tests of the operator table compare with NumPy, and the test's name."""
    from fuser.ir.ops import TABLE, elementwise

    for op in elementwise():
        layouts = ("contiguous",) if op.converts else TABLE_LAYOUTS
        test = CAST_TEST if op.converts else TABLE_TEST
        for dtype in op.dtypes():
            for layout in layouts:
                yield (op.name, dtype, layout), test
    for op in TABLE.values():
        if op.reduction:
            for dtype in reduced_dtypes(op):
                for layout in REDUCTION_LAYOUTS:
                    yield (op.name, dtype, layout), REDUCTION_TEST
        read: tuple[str, ...] = GATHER_LAYOUTS if op.gathers else ()
        read = SCAN_LAYOUTS if op.scans else read
        read = GATHER_LAYOUTS if op.scatters else read
        test = SCAN_TEST if op.scans else SCATTER_TEST if op.scatters else GATHER_TEST
        for dtype in scanned_dtypes(op) if op.scans else op.dtypes():
            for layout in read:
                yield (op.name, dtype, layout), test


def reduced_dtypes(row: Any) -> list[str]:
    """Return the dtypes that a reduction is tested at; NumPy sums small integers as wide ones."""
    if not row.accumulates:
        return list(REDUCED_DTYPES)
    found = ["int64", "uint64", "float32", "float64"]
    return [*found, "float16"] if row.adds else found


def scanned_dtypes(row: Any) -> list[str]:
    """Return the dtypes that a scan is tested at; NumPy sums small integers as wide ones."""
    scan = getattr(np, row.combine).accumulate
    return [each for each in row.dtypes() if scan(np.zeros(1, each)).dtype == np.dtype(each)]


def uses(workload: Workload, dtype: str) -> set[Key]:
    """Return the operations of a workload with the dtypes and layouts of their operands.

    A workload that cannot be traced, or whose data is not here, uses nothing that is fused.
    """
    import fuser

    if workload.unavailable() is not None:
        return set()
    arguments = workload.inputs(ELEMENTS, dtype, 0)
    try:
        graph: Any = fuser.trace(workload.function, *arguments)
    except fuser.FuserError:
        return set()
    arrays = [each for each in arguments if isinstance(each, np.ndarray)]
    layouts = dict(zip((each.name for each in graph.parameters), map(layout_of, arrays),
                       strict=False))  # fmt: skip
    found: set[Key] = set()
    for node in graph.nodes:
        if not node.op.structure and node.args:
            kind = node.args[0 if node.op.result == "first" else -1].dtype.name
            found |= {(node.op.name, kind, _layout_in(node, arg, layouts)) for arg in node.args}
    return found


def layout_of(array: "np.ndarray[Any, Any]") -> str:
    """Return how an array lies in memory, by the names of `LAYOUTS`."""
    if array.ndim == 0:
        return "scalar"
    if array.flags.c_contiguous:
        return "contiguous"
    return "transposed" if array.flags.f_contiguous else "strided"


def _layout_in(node: Any, operand: Any, layouts: Mapping[str, str]) -> str:
    """Return an operand's layout; an array of another shape than the result's is broadcast."""
    found = _operand_layout(operand, layouts)
    stretched = not node.op.reduction and operand.shape and operand.shape != node.shape
    return "broadcast" if stretched and found != "inside" else found


def _operand_layout(node: Any, layouts: Mapping[str, str]) -> str:
    """Follow views down to what they look at; the last to disturb the order names the layout."""
    seen = ""
    while node.op.structure and node.args:
        if node.op.repeats:
            seen = seen or "broadcast"
        elif node.op.permutes:
            seen = seen or "transposed"
        elif node.op.indexes:
            seen = seen or "strided"
        node = node.args[0]
    if node.op.uniform:
        return "scalar"
    if not node.op.is_input:
        return "inside"
    return seen or layouts.get(node.text, "contiguous")
