"""From IDs and axes on the command line to cells."""

import pytest

from fuser.suites.commands.selection import (
    UnknownSelectionError,
    cells_of,
    listing,
    parse_axes,
    restrict,
    unique,
)
from fuser.suites.presets import plan_of


@pytest.mark.parametrize(
    ("identifier", "ids"),
    [
        ("bias_add", ["bias_add-float32-16384", "bias_add-float32-4194304"]),
        ("bias_add-float64", ["bias_add-float64-16384", "bias_add-float64-4194304"]),
        ("axpy-float64-S", ["axpy-float64-16384"]),
        ("axpy-float32-1000", ["axpy-float32-1000"]),
        ("axpy-float16-10", ["axpy-float16-10"]),
        ("axpy-float32-16k", ["axpy-float32-16384"]),
        ("softmax-float32-4M-hidden1000", ["softmax-float32-4194304-hidden1000"]),
        ("softmax-float32-S-hidden1024", ["softmax-float32-16384"]),
    ],
)
def test_ids_name_cells(identifier: str, ids: list[str]) -> None:
    """A workload, with a dtype, with a size; any number of elements and any like dtype."""
    assert [cell.id for cell in cells_of(identifier)] == ids


@pytest.mark.parametrize(
    ("identifier", "hint"),
    [
        ("axpi", "near it: axpy"),
        ("zzz", "--list"),
        ("axpy-int32", "no dtype 'int32'; known: float32, float64"),
        ("axpy-nosuch", "known: float32, float64"),
        ("axpy-float32-0", "from 1 on"),
        ("axpy-float32-XL", "S, M, L"),
        ("axpy-float32-S-hidden7", "has no axes"),
        ("softmax-float32-S-depth7", "as hidden1000; known: hidden"),
    ],
)
def test_unknown_parts_say_what_there_is(identifier: str, hint: str) -> None:
    """The message names the part and the choices."""
    with pytest.raises(UnknownSelectionError, match=hint):
        cells_of(identifier)


def test_axes_are_overridden() -> None:
    """Dtypes and sizes replace the preset's, for named workloads or for all."""
    plan = restrict(plan_of("quick"), ["axpy"], dtypes=["float64"], sizes=["S", "100"])
    assert [cell.id for cell in plan.cells] == ["axpy-float64-16384", "axpy-float64-100"]
    assert plan.preset == "custom"
    whole = restrict(plan_of("quick"), sizes=["S"])
    assert len(whole.cells) == len({cell.workload for cell in plan_of("quick").cells})


def test_further_axes_are_overridden() -> None:
    """Every combination, for the workloads that have the axis; the others stay."""
    axes = parse_axes(["hidden=64,1k"])
    assert axes == {"hidden": (64, 1024)}
    plan = restrict(plan_of("quick"), ["softmax-float32-S", "axpy-float32-S"], axes=axes)
    assert [cell.id for cell in plan.cells] == [
        "softmax-float32-16384-hidden64", "softmax-float32-16384", "axpy-float32-16384",
    ]
    for wrong in ("hidden", "hidden=", "hidden=0", "hidden=x"):
        with pytest.raises(UnknownSelectionError, match="whole numbers from 1 on: hidden=64,1000"):
            parse_axes([wrong])
    with pytest.raises(UnknownSelectionError, match="no axis 'nosuch'; known: dimensions, h"):
        parse_axes(["nosuch=1"])
    with pytest.raises(UnknownSelectionError, match="none of the workloads chosen has it; these"):
        restrict(plan_of("quick"), ["axpy"], axes=axes)


def test_nothing_named_changes_nothing() -> None:
    """The preset stays as it is."""
    plan = plan_of("quick")
    assert restrict(plan) is plan


def test_repeated_ids_are_one() -> None:
    """In the order of the first mention."""
    cells = unique(cells_of("axpy-float32-S") + cells_of("axpy-float32-10") + cells_of("axpy"))
    assert [cell.elements for cell in cells][:2] == [16384, 10]
    assert len({cell.id for cell in cells}) == len(cells)


def test_the_listing_has_every_workload() -> None:
    """With family, dtypes and the smallest preset that measures it."""
    rows = {row["id"]: row for row in listing()}
    assert rows["axpy"]["preset"] == "quick"
    assert rows["rambo"]["preset"] == "full"
