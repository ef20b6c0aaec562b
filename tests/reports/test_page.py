"""The page opens from disk in a real browser, without network or error, and shows everything."""

import ast
import json
import re
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from fuser.reports import record
from fuser.reports.page import render
from fuser.reports.plots import charts
from fuser.reports.plots.charts import CHARTS
from tests.reports import synthetic
from tests.reports.browser import ask
from tests.reports.conftest import FEW, Rendered
from tests.requirements import require


@pytest.fixture(scope="module")
def page(rendered: Rendered) -> Path:
    """The page of a record that has something for every figure and table."""
    return rendered.page


QUESTIONS = {
    "figures": "[...document.querySelectorAll('figure')].map((f) => f.id)",
    "wide": "[...document.querySelectorAll('figure .wide svg')].map((s) => "
    "[s.getBoundingClientRect().width, s.querySelectorAll('path, use').length])",
    "narrow": "[...document.querySelectorAll('figure .narrow svg')].map((s) => "
    "[s.getBoundingClientRect().width, s.querySelectorAll('path, use').length])",
    "tables": "Object.fromEntries([...document.querySelectorAll('table')].map((t) => "
    "[t.dataset.name, t.tBodies[0].rows.length]))",
    "cut_tables": "[...document.querySelectorAll('table')].filter((t) => {"
    " const d = t.closest('details'); const open = d?.open; if (d) d.open = true;"
    " const cut = t.getBoundingClientRect().width > t.parentElement.clientWidth + 1;"
    " if (d) d.open = open; return cut; }).map((t) => t.dataset.name)",
    "overflow": "document.documentElement.scrollWidth - document.documentElement.clientWidth",
    "least_text": "Math.min(...[...document.querySelectorAll('figure svg text')].map((t) => "
    "t.getBoundingClientRect().height).filter((h) => h > 0))",
    "texts": "(() => { const found = []; for (const svg of document.querySelectorAll('figure svg'))"
    " { const frame = svg.getBoundingClientRect(); if (!frame.width) continue;"
    " const boxes = [...svg.querySelectorAll('text')].map((t) => [t.getBoundingClientRect(),"
    " `${svg.closest('figure').id}: ${t.textContent}`]); boxes.forEach(([a, text], i) => {"
    " if (a.left < frame.left - 2 || a.right > frame.right + 2 || a.top < frame.top - 2"
    " || a.bottom > frame.bottom + 2) found.push(`${text} is cut`);"
    " for (const [b, other] of boxes.slice(i + 1)) {"
    " const wide = Math.min(a.right, b.right) - Math.max(a.left, b.left);"
    " const high = Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top);"
    " if (wide > 2 && high > 0.35 * Math.min(a.height, b.height))"
    " found.push(`${text} lies on ${other}`); } }); } return found; })()",
    "theme": "(() => { const b = document.querySelector('button.theme');"
    " const page = () => getComputedStyle(document.body).backgroundColor;"
    " const found = [page()]; b.click(); found.push(page()); b.click(); found.push(page());"
    " return found; })()",
    "sorted": "(() => { const t = document.querySelector('[data-name=runs]'); "
    "const i = [...t.tHead.rows[0].cells].findIndex((c) => c.textContent === 'Against eager'); "
    "const b = t.tHead.rows[0].cells[i].querySelector('button'); b.click(); b.click(); "
    "return [t.tHead.rows[0].cells[i].getAttribute('aria-sort'), "
    "...[...t.tBodies[0].rows].slice(0, 4).map((r) => r.cells[i].dataset.sort)]; })()",
    "filtered": "(() => { const i = document.querySelector('input[data-table=runs]'); "
    "i.value = 'GELU 16.8 fallback'; i.dispatchEvent(new Event('input', {bubbles: true})); "
    "const shown = [...document.querySelectorAll('[data-name=runs] tbody tr')].filter((r) => "
    "!r.hidden).map((r) => r.id); i.value = ''; "
    "i.dispatchEvent(new Event('input', {bubbles: true})); return shown; })()",
    "keyboard": "(() => { document.body.dispatchEvent(new KeyboardEvent('keydown', "
    "{key: '/', bubbles: true})); return document.activeElement.dataset.table ?? ''; })()",
    "details": "openDetails('runs-gelu_bias-float32-4096-fused').then((known) => { "
    "const d = document.getElementById('details'); const text = d.textContent; "
    "const dots = d.querySelectorAll('circle:not(.outlier)').length; "
    "const boxes = d.querySelectorAll('g.box').length; const open = d.open; d.close(); "
    "return [known, open, dots, boxes, text]; })",
    "buttons": "document.querySelectorAll('#table-runs button.open').length",
    "arrow": "(() => { const b = document.querySelector('#table-runs button.open'); b.focus(); "
    "b.dispatchEvent(new KeyboardEvent('keydown', {key: 'ArrowDown', bubbles: true})); "
    "return document.activeElement.closest('tr').rowIndex; })()",
    "revealed": "(() => { location.hash = '#samples-axpy-float32-4096-fused'; "
    "dispatchEvent(new Event('hashchange')); "
    "return document.getElementById('table-samples').open; })()",
}


@pytest.fixture(scope="module")
def shown(page: Path) -> dict[str, Any]:
    """What a browser shows at 1280 pixels."""
    return ask(require("chromium"), page, QUESTIONS)


def test_no_error_and_no_request(shown: dict[str, Any]) -> None:
    """The console is silent and nothing is fetched."""
    assert shown["problems"] == []
    assert [each for each in shown["requests"] if not each.startswith("data:")] == []


def test_every_figure_is_shown_with_marks_in_it(shown: dict[str, Any]) -> None:
    """All charts, each wide and full of paths; the narrow forms are hidden."""
    results = shown["results"]
    assert results["figures"] == [f"figure-{chart.name}" for chart in CHARTS]
    assert all(width > 900 and paths > 15 for width, paths in results["wide"])
    assert all(width == 0 for width, _ in results["narrow"])
    assert results["least_text"] > 10
    assert results["texts"] == []


def test_every_table_is_there(shown: dict[str, Any]) -> None:
    """Each figure's twin, and those of the evidence, with rows."""
    tables = shown["results"]["tables"]
    alone = {"summary", "extremes", "left_out", "ceilings", "samples", "compare_counts", "model"}
    assert {chart.table for chart in CHARTS} | alone == set(tables)
    assert all(count > 0 for count in tables.values())
    assert shown["results"]["cut_tables"] == []
    assert shown["results"]["overflow"] == 0


def test_a_button_turns_the_page_dark_and_light(shown: dict[str, Any]) -> None:
    """Whatever the system prefers."""
    first, second, third = shown["results"]["theme"]
    assert {first, second} == {"rgb(255, 255, 255)", "rgb(20, 23, 27)"}
    assert third == first


def test_tables_sort_filter_and_link(shown: dict[str, Any]) -> None:
    """A click sorts by value, words filter, a key reaches the filter, a link opens its table."""
    results = shown["results"]
    direction, *values = results["sorted"]
    assert direction == "descending"
    assert [float(each) for each in values] == sorted(map(float, values), reverse=True)
    assert results["filtered"] == ["runs-gelu_bias-float32-16777216-fallback"]
    assert results["keyboard"] != ""
    assert results["revealed"] is True


def test_a_row_opens_what_stands_behind_it(shown: dict[str, Any]) -> None:
    """Samples as dots, the command, what crosses kernels, plan and source; keys move on."""
    results = shown["results"]
    known, opened, dots, boxes, text = results["details"]
    assert known
    assert opened
    assert dots == 24
    assert boxes == 3
    for expected in (
        "gelu_bias-float32-4096, fused",
        "fuser-bench run gelu_bias-float32-4096 --seed 1",
        "plan of gelu_bias: 1 kernel",
        "define i32 @kernel",
        "process 2, 0.5 s: other processes used 0.02 processors, the hypervisor took 0.00",
        "exp#3 (model.py:12): 32,768 bytes, a reduction that is used over other axes",
    ):
        assert expected in text, expected
    assert results["buttons"] == results["tables"]["runs"]
    assert results["arrow"] == 2


def test_the_trace_is_beside_the_page(page: Path) -> None:
    """A file that Perfetto opens, linked from the page."""
    assert json.loads((page.parent / "trace.json").read_text()) == {"traceEvents": synthetic.TRACE}
    assert 'href="trace.json"' in page.read_text(encoding="utf-8")


def test_a_telephone_shows_the_narrow_figures(page: Path) -> None:
    """At 390 pixels nothing but tables scrolls sideways, and text stays legible."""
    shown = ask(require("chromium"), page, QUESTIONS, width=390)
    results = shown["results"]
    assert shown["problems"] == []
    assert results["overflow"] == 0
    assert all(width == 0 for width, _ in results["wide"])
    assert all(340 < width <= 390 and paths > 10 for width, paths in results["narrow"])
    assert results["least_text"] > 8.5
    assert results["texts"] == []


class Structure(HTMLParser):
    """Collect ids, links, outside references and unclosed elements."""

    VOID = frozenset({"meta", "link", "input", "br", "img", "hr"})

    def __init__(self) -> None:
        super().__init__()
        self.ids: list[str] = []
        self.links: list[str] = []
        self.open: list[str] = []
        self.errors: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note an element."""
        values = dict(attrs)
        self.ids += [values["id"] or ""] if "id" in values else []
        self.links += [value or "" for name, value in attrs if name in ("href", "src", "action")]
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note an element that closes itself."""
        self.handle_starttag(tag, attrs)
        if tag not in self.VOID:
            self.open.pop()

    def handle_endtag(self, tag: str) -> None:
        """Check that elements close in order."""
        if not self.open or self.open.pop() != tag:
            self.errors.append(f"</{tag}> at {self.getpos()}")


def test_the_page_is_whole_and_links_stay_inside(page: Path) -> None:
    """Elements close in order, no id twice, every link leads to an id or a file of the run."""
    text = page.read_text(encoding="utf-8")
    structure = Structure()
    structure.feed(text)
    assert structure.errors == []
    assert structure.open == []
    assert len(structure.ids) == len(set(structure.ids))
    for link in structure.links:
        if link.startswith("#"):
            assert link[1:] in structure.ids
        elif not link.startswith("data:"):
            assert (page.parent / link).is_file(), link
    assert not re.search(r"https?://|//[a-z]+\.|@import|url\((?!#)", text)
    assert page.stat().st_size < 5_000_000


def test_the_page_names_machine_rows_and_reasons(page: Path) -> None:
    """Who measured, how many rows, what was left out and why, how to measure it again."""
    text = page.read_text(encoding="utf-8")
    for expected in (
        "Synthetic processor",
        "5 of 7 rows",
        "over 6 rows, those left out at their measured time",
        "power: float32 with an array exponent has no cpu form",
        "max error 812 ulp",
        "not installed: pip install numexpr",
        "fuser-bench run axpy-float32-4096 --seed 1",
        "Student&#39;s t over processes",
        "noise floor",
    ):
        assert expected in text, expected
    assert "20261119T090000Z-ba5e00 (base) and 20261120T090000Z-5a17ed (head): wrong result" in text


def test_an_interrupted_record_is_shown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What was measured is there, and the page says first that it is not all."""
    monkeypatch.setattr(charts, "CHARTS", CHARTS[:1])  # drawing all of them again takes time
    made = record.to_document(synthetic.record(processes=1, workloads=FEW[:1]))
    made["finished"] = False
    made["cells"][1]["runs"] = made["cells"][1]["runs"][:2]
    (tmp_path / "record.json").write_text(json.dumps(made), encoding="utf-8")
    text = render(tmp_path).read_text(encoding="utf-8")
    assert "This run was interrupted" in text
    assert "there is no interval and no verdict" in text
    assert "not run" in text
    assert 'id="figure-speedup"' in text
    assert "<h2>Compare" not in text
    kept = (tmp_path / "record.json").rename(tmp_path / "other_machine.json")
    assert render(kept) == tmp_path / "other_machine" / "report.html"


def test_an_empty_record_says_that_nothing_was_measured(tmp_path: Path) -> None:
    """A page without figures, tables or a division by zero."""
    record.save(synthetic.empty(), tmp_path / "record.json")
    text = render(tmp_path).read_text(encoding="utf-8")
    assert "Nothing was measured" in text
    assert "<figure" not in text
    assert "Synthetic processor" in text
    answer = ask(require("chromium"), tmp_path / "report.html", {"title": "document.title"})
    assert answer["problems"] == []


def test_text_from_a_record_cannot_become_markup(tmp_path: Path) -> None:
    """A reason with angle brackets is read, not run."""
    made = record.to_document(synthetic.empty())
    made["notes"] = ["<script>alert(1)</script>"]
    made["machine"]["cpu"] = "<b>fast</b> & cheap"
    (tmp_path / "record.json").write_text(json.dumps(made), encoding="utf-8")
    text = render(tmp_path).read_text(encoding="utf-8")
    assert "<script>alert" not in text
    assert "&lt;b&gt;fast&lt;/b&gt; &amp; cheap" in text


def test_reports_import_nothing_that_measures() -> None:
    """No module of the reports imports the fuser's core, a backend, a suite or pyplot.

    What a misspelt name is near to is one function for all.
    """
    folder = Path(record.__file__).parent
    found = set()
    for path in folder.glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ImportFrom):
                found |= {f"{node.module}.{alias.name}" for alias in node.names}
            elif isinstance(node, ast.Import):
                found |= {alias.name for alias in node.names}
    own = {name for name in found if name.split(".")[0] in ("fuser", "suites", "backends")}
    assert own
    assert all(name.startswith(("fuser.reports", "fuser.base.near")) for name in own)
    assert not any("pyplot" in name or name.startswith(("llvmlite", "cupy")) for name in found)


def thousand_rows(folder: Path) -> Path:
    """Write a record of about 1,000 rows into a folder, and return its page."""
    few = [each for each in synthetic.WORKLOADS if not each.must_refuse][:12]
    made = synthetic.record(processes=3, blocks=3, workloads=few)
    cells = [
        replace(cell, id=f"{cell.workload}-float32-{size}", elements=size, size="sweep")
        for size in range(1, 24)
        for cell in made.cells[: 2 * len(few) : 2]
    ]
    record.save(replace(made, cells=[*made.cells[:2], *cells]), folder / "record.json")
    return Path(render(folder))


def test_a_thousand_rows_are_small(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Under 5 MB, and no more for the browser than its rows: their details wait until asked for.

    How long the first view takes is for a quiet machine: `tests/judges/harness.py`.
    """
    monkeypatch.setattr(charts, "CHARTS", CHARTS[:1])  # the others do not grow with the rows
    monkeypatch.setattr(record, "validate", lambda *_, **__: None)  # half the time; tested apart
    page = thousand_rows(tmp_path)
    assert page.stat().st_size < 5_000_000
    questions = {
        "rows": "document.querySelectorAll('#table-runs tbody tr').length",
        "cells": "document.querySelectorAll('td, th').length",
        "all": "document.getElementsByTagName('*').length",
    }
    results = ask(require("chromium"), page, questions)["results"]
    assert 1000 <= results["rows"] <= 1200
    assert results["all"] < 4 * results["cells"]
