"""From what a person names on the command line to the cells of a plan."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from difflib import get_close_matches
from typing import cast

import numpy as np

from fuser.suites.plan import CellPlan, Plan, SizeName, full_cells, quick_cells
from fuser.suites.registry import resolve, workloads
from fuser.suites.workload import Workload


class UnknownSelectionError(ValueError):
    """An ID, dtype or size that nothing has; the message says what there is."""


def cells_of(identifier: str) -> list[CellPlan]:
    """Return the cells that an ID names.

    An ID is a workload, `workload-dtype`, or `workload-dtype-size`, where the size is S, M, L or a
    number of elements: the last is what reports print.

    Raises:
        UnknownSelectionError: a part of it is unknown.
    """
    name, *rest = identifier.split("-")
    if name not in workloads() and ":" not in name:
        near = ", ".join(get_close_matches(name, workloads()))
        hint = f"near it: {near}" if near else "`fuser-bench run --list` shows them all"
        raise UnknownSelectionError(f"{identifier}: no workload {name!r}; {hint}")
    workload = resolve(name)
    if not rest:
        return quick_cells({name: workload})
    dtype, *size = rest
    if dtype not in workload.dtypes:
        _check_dtype(identifier, dtype, workload)
    if not size:
        return [_cell(name, workload, dtype, each) for each in ("S", "M")]
    return [_cell(name, workload, dtype, size[0])]


def _check_dtype(identifier: str, dtype: str, workload: Workload) -> None:
    known = ", ".join(workload.dtypes)
    try:
        known_kind = np.dtype(dtype).kind == np.dtype(workload.dtypes[0]).kind
    except TypeError:
        known_kind = False
    if not known_kind:
        raise UnknownSelectionError(
            f"{identifier}: {workload.name} has dtypes {known}, not {dtype!r}"
        )


def _cell(name: str, workload: Workload, dtype: str, size: str) -> CellPlan:
    if size in workload.sizes:
        return CellPlan(name, dtype, workload.sizes[size], cast(SizeName, size))
    if not size.isdecimal() or int(size) < 1:
        raise UnknownSelectionError(
            f"{size!r}: a size is S, M, L or a number of elements from 1 on"
        )
    elements = int(size)
    named = [preset for preset, count in workload.sizes.items() if count == elements]
    return CellPlan(name, dtype, elements, cast(SizeName, named[0] if named else "sweep"))


def restrict(
    plan: Plan,
    identifiers: Sequence[str] = (),
    dtypes: Sequence[str] = (),
    sizes: Sequence[str] = (),
) -> Plan:
    """Return a plan of the named cells only, with its axes overridden where that is asked.

    Raises:
        UnknownSelectionError: an ID, dtype or size is unknown.
    """
    if not identifiers and not dtypes and not sizes:
        return plan
    cells = unique(cell for each in identifiers for cell in cells_of(each)) or list(plan.cells)
    if dtypes:
        cells = unique(each for cell in cells for each in _with_dtypes(cell, dtypes))
    if sizes:
        cells = unique(
            _cell(cell.workload, resolve(cell.workload), cell.dtype, size)
            for cell in cells
            for size in sizes
        )
    return replace(plan, cells=cells, preset="custom", scaling=())


def _with_dtypes(cell: CellPlan, dtypes: Sequence[str]) -> list[CellPlan]:
    workload = resolve(cell.workload)
    for dtype in dtypes:
        if dtype not in workload.dtypes:
            _check_dtype(cell.id, dtype, workload)
    return [replace(cell, dtype=dtype) for dtype in dtypes]


def unique(cells: Iterable[CellPlan]) -> list[CellPlan]:
    """Return the cells without repetitions, in order."""
    found: dict[str, CellPlan] = {}
    for cell in cells:
        found.setdefault(cell.id, cell)
    return list(found.values())


def listing() -> list[Mapping[str, str]]:
    """Return what `--list` shows: one row a workload."""
    quick = {cell.workload for cell in quick_cells()}
    full = {cell.workload: 0 for cell in full_cells()}
    return [
        {
            "id": workload.name,
            "family": workload.family,
            "dtypes": ", ".join(workload.dtypes),
            "preset": "quick" if workload.name in quick else "full",
            "title": workload.title,
        }
        for workload in workloads().values()
        if workload.name in full
    ]
