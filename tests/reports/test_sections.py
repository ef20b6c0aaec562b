"""What stands where: sections in order, each table once, nothing empty."""

from fuser.reports.collection import EVERY
from fuser.reports.sections import LAST_TABLES, SECTIONS, sections_of
from tests.reports.conftest import Rendered


def test_every_table_has_a_title_and_every_section_a_name() -> None:
    """Nothing can be shown without words for it."""
    assert all(each.title for each in EVERY.values())
    assert {*LAST_TABLES} <= {name for name, _ in SECTIONS}


def test_sections_are_whole_and_in_order(rendered: Rendered) -> None:
    """All five, each figure and table exactly once."""
    sections = sections_of(rendered.collection, rendered.drawn)
    assert [each.name for each in sections] == [name for name, _ in SECTIONS]
    blocks = [block for each in sections for block in each.blocks]
    tables = [block.table.name for block in blocks if block.table is not None]
    figures = [block.figure.chart.name for block in blocks if block.figure is not None]
    assert len(tables) == len(set(tables))
    assert figures == [each.chart.name for each in rendered.drawn]
