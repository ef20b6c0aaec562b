"""One rendered run, shared by the tests of figures and page: drawing is what takes time."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from fuser.reports import page as page_module
from fuser.reports import record
from fuser.reports.collection import Collection
from fuser.reports.plots.figures import Drawn, draw_all
from tests.reports import synthetic

FEW = [
    each
    for each in synthetic.WORKLOADS
    if each.name
    in ("add", "axpy", "polynomial", "gelu_bias", "tone_mapping", "sort_rows", "distance")
]


@dataclass(frozen=True)
class Rendered:
    """A run's page with what it was made from."""

    page: Path
    collection: Collection
    drawn: Sequence[Drawn]


@pytest.fixture(scope="session")
def rendered(tmp_path_factory: pytest.TempPathFactory) -> Rendered:
    """The page of a record that has something for every figure and table."""
    folder = tmp_path_factory.mktemp("run")
    record.save(synthetic.record(workloads=FEW), folder / "record.json")
    record.save(synthetic.base(workloads=FEW), folder / "base" / "record.json")
    kept: list[tuple[Collection, list[Drawn]]] = []

    def draw_and_keep(collection: Collection, target: Path) -> list[Drawn]:
        kept.append((collection, draw_all(collection, target)))
        return kept[-1][1]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(page_module, "draw_all", draw_and_keep)
        page = page_module.render(folder, folder / "base")
    return Rendered(page, *kept[0])
