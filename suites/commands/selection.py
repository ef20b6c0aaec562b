"""From what a person names on the command line to the cells of a plan."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import product
from types import MappingProxyType
from typing import cast

import numpy as np

from fuser.base.near import near_it
from fuser.reports.record import SizeName
from fuser.suites.plan import CellPlan, Plan
from fuser.suites.presets import full_cells, named_size, quick_cells, set_axes
from fuser.suites.registry import LIST, resolve, workloads
from fuser.suites.workload import Axes, Workload, number_of


class UnknownSelectionError(ValueError):
    """An ID, dtype or size that nothing has; the message says what there is."""


def cells_of(identifier: str) -> list[CellPlan]:
    """Return the cells that an ID names.

    An ID is a workload, `workload-dtype`, `workload-dtype-size`, or that with further axes as
    `-hidden1000`, where the size is S, M, L or a number of elements (`16384`, `16k`, `4M`): the
    last two are what reports print.

    Raises:
        UnknownSelectionError: a part of it is unknown.
    """
    name, *rest = identifier.split("-")
    if name not in workloads() and ":" not in name:
        near = near_it(name, workloads(), LIST)
        raise UnknownSelectionError(f"{identifier}: no workload {name!r}; {near}")
    workload = resolve(name)
    if not rest:
        return quick_cells({name: workload})
    dtype, *size = rest
    if dtype not in workload.dtypes:
        _check_dtype(identifier, dtype, workload)
    if not size:
        return [_cell(name, workload, dtype, each) for each in ("S", "M")]
    return [_cell(name, workload, dtype, size[0], _axes_of(identifier, workload, size[1:]))]


def _axes_of(identifier: str, workload: Workload, parts: Sequence[str]) -> Axes:
    """Return the axes that `hidden1000` and the like name, in the workload's order."""
    found: dict[str, int] = {}
    for part in parts:
        name = part.rstrip("0123456789")
        if name not in workload.axes or not part[len(name) :]:
            hint = f"{workload.name} has no axes"
            if workload.axes:
                hint = f"as {next(iter(workload.axes))}1000; {near_it(name, workload.axes)}"
            raise UnknownSelectionError(f"{identifier}: {part!r} is no axis with a value, {hint}")
        found[name] = int(part[len(name) :])
    return set_axes(workload, found)


def _check_dtype(identifier: str, dtype: str, workload: Workload) -> None:
    try:
        known_kind = np.dtype(dtype).kind == np.dtype(workload.dtypes[0]).kind
    except TypeError:
        known_kind = False
    if not known_kind:
        raise UnknownSelectionError(
            f"{identifier}: {workload.name} has no dtype {dtype!r}; "
            f"{near_it(dtype, workload.dtypes)}"
        )


def _cell(
    name: str, workload: Workload, dtype: str, size: str, axes: Axes = ()
) -> CellPlan:
    if size in workload.sizes:
        return CellPlan(name, dtype, workload.sizes[size], cast(SizeName, size), axes)
    elements = number_of(size)
    if elements is None:
        raise UnknownSelectionError(
            f"{size!r}: a size is S, M, L or a number of elements from 1 on (16384, 16k, 4M)"
        )
    return CellPlan(name, dtype, elements, named_size(workload, elements), axes)


def restrict(
    plan: Plan,
    identifiers: Sequence[str] = (),
    dtypes: Sequence[str] = (),
    sizes: Sequence[str] = (),
    axes: Mapping[str, Sequence[int]] = MappingProxyType({}),
) -> Plan:
    """Return a plan of the named cells only, with its axes overridden where that is asked.

    A workload that lacks an axis of `axes` stays as it is.

    Raises:
        UnknownSelectionError: an ID, dtype or size is unknown.
    """
    if not identifiers and not dtypes and not sizes and not axes:
        return plan
    named = (_of_plan(plan, each) or cells_of(each) for each in identifiers)
    cells = unique(cell for group in named for cell in group) or list(plan.cells)
    if dtypes:
        cells = unique(each for cell in cells for each in _with_dtypes(cell, dtypes))
    if sizes:
        cells = unique(
            _cell(cell.workload, resolve(cell.workload), cell.dtype, size, cell.axes)
            for cell in cells
            for size in sizes
        )
    for axis in axes:
        if not any(axis in resolve(cell.workload).axes for cell in cells):
            having = [name for name, each in workloads().items() if axis in each.axes]
            raise UnknownSelectionError(
                f"--axis {axis}: none of the workloads chosen has it; these have: "
                f"{', '.join(having)}"
            )
    if axes:
        cells = unique(each for cell in cells for each in _with_axes(cell, axes))
    return replace(plan, cells=cells, preset="custom")


def _of_plan(plan: Plan, identifier: str) -> list[CellPlan]:
    """Return the preset's own cells of a workload."""
    return [cell for cell in plan.cells if cell.workload == identifier]


def _with_dtypes(cell: CellPlan, dtypes: Sequence[str]) -> list[CellPlan]:
    workload = resolve(cell.workload)
    for dtype in dtypes:
        if dtype not in workload.dtypes:
            _check_dtype(cell.id, dtype, workload)
    return [replace(cell, dtype=dtype) for dtype in dtypes]


def _with_axes(cell: CellPlan, axes: Mapping[str, Sequence[int]]) -> list[CellPlan]:
    workload = resolve(cell.workload)
    wanted = {name: values for name, values in axes.items() if name in workload.axes}
    combinations = (dict(zip(wanted, each, strict=True)) for each in product(*wanted.values()))
    return [
        replace(cell, axes=set_axes(workload, dict(cell.axes) | each)) for each in combinations
    ]


def parse_axes(texts: Iterable[str]) -> dict[str, tuple[int, ...]]:
    """Return what `hidden=64,1000` means, for each text.

    Raises:
        UnknownSelectionError: a text is no list of whole numbers, or no workload has the axis.
    """
    known = {name for workload in workloads().values() for name in workload.axes}
    found: dict[str, tuple[int, ...]] = {}
    for text in texts:
        name, _, values = text.partition("=")
        numbers = [number_of(each.strip()) for each in values.split(",")]
        if name not in known:
            near = near_it(name, sorted(known))
            raise UnknownSelectionError(f"--axis {text}: no axis {name!r}; {near}")
        if None in numbers:
            raise UnknownSelectionError(
                f"--axis {text}: values are whole numbers from 1 on: {name}=64,1000"
            )
        found[name] = tuple(each for each in numbers if each is not None)
    return found


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
            "axes": "; ".join(
                f"{name}={','.join(map(str, values))}" for name, values in workload.axes.items()
            ),
            "preset": "quick" if workload.name in quick else "full",
            "title": workload.title,
        }
        for workload in workloads().values()
        if workload.name in full
    ]
