"""The documentation site: examples print what it says, links lead somewhere, it is complete."""

from __future__ import annotations

import ast
import contextlib
import doctest
import io
import json
import re
from pathlib import Path

import pytest

import fuser
from fuser.base.errors import REASONS
from fuser.suites.commands import cli
from tests.children import said
from tests.tree import ROOT

DOCS = ROOT / "docs"
PAGES = sorted(DOCS.rglob("*.md"))
IDS = [str(page.relative_to(DOCS)) for page in PAGES]
FENCE = re.compile(r"^```(\w+)[^\n]*\n(.*?)^```[ ]*$", flags=re.DOTALL | re.MULTILINE)
OPTIONS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE


def _examples(text: str) -> list[tuple[str, str | None]]:
    """The Python blocks of a page, each with the output that is shown right below it."""
    found = list(FENCE.finditer(text))
    pairs: list[tuple[str, str | None]] = []
    for place, block in enumerate(found):
        if block[1] != "python":
            continue
        after = found[place + 1] if place + 1 < len(found) else None
        shown = after is not None and after[1] == "text"
        near = after is not None and not text[block.end() : after.start()].strip()
        pairs.append((block[2], after[2] if after is not None and shown and near else None))
    return pairs


@pytest.mark.parametrize("page", PAGES, ids=IDS)
def test_examples_print_what_is_shown(page: Path, tmp_path: Path) -> None:
    """The Python blocks of a page run one after another; three dots stand for anything."""
    text = page.read_text(encoding="utf-8")
    if "import cupy" in text:
        pytest.importorskip("cupy", reason="cupy is not installed: pip install cupy-cuda13x")
    examples = _examples(text)
    names: dict[str, object] = {"__name__": "__main__"}
    checker = doctest.OutputChecker()
    try:
        for number, (code, wanted) in enumerate(examples):
            ast.parse(code)
            script = tmp_path / f"example{number}.py"
            script.write_text(code, encoding="utf-8")
            printed = io.StringIO()
            with contextlib.redirect_stdout(printed):
                exec(compile(code, str(script), "exec"), names)
            if wanted is not None:
                found = printed.getvalue()
                assert checker.check_output(wanted, found, OPTIONS), f"{code}\nprinted\n{found}"
    finally:
        fuser.set_num_threads(2)
        fuser.clear_caches()


def test_the_benchmark_for_pytest_runs(tmp_path: Path) -> None:
    """The two files that the page shows; the table at the end has the speed-up."""
    page = (DOCS / "how-to" / "benchmark-my-function.md").read_text(encoding="utf-8")
    blocks = [block[2] for block in FENCE.finditer(page) if block[1] == "py"]
    for name, text in zip(("conftest.py", "test_rms.py"), blocks, strict=True):
        (tmp_path / name).write_text(text, encoding="utf-8")
    printed = said(
        "-m", "pytest", "-p", "no:cacheprovider", "--rootdir", str(tmp_path), str(tmp_path),
    )  # fmt: skip
    assert "1 passed" in printed
    assert "speed-up" in printed


@pytest.mark.parametrize("page", PAGES, ids=IDS)
def test_links_lead_somewhere(page: Path) -> None:
    """Relative links name files, and anchors headings, of the site."""
    text = FENCE.sub("", page.read_text(encoding="utf-8"))
    for target in re.findall(r"\]\(([^)\s]+)\)", text):
        if "://" in target:
            continue
        name, _, anchor = target.partition("#")
        other = page.parent / name if name else page
        assert other.exists(), target
        if anchor:
            headings = re.findall(r"^#+ (.+)$", other.read_text(encoding="utf-8"), re.MULTILINE)
            known = {re.sub(r"[^\w -]", "", each).strip().lower().replace(" ", "-")
                     for each in headings}  # fmt: skip
            assert anchor in known, target


def test_every_page_is_in_the_navigation() -> None:
    """And the navigation names no other."""
    text = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    named = re.findall(r"^\s+- ([\w/-]+\.md)$", text, flags=re.MULTILINE)
    assert sorted(named) == sorted(IDS)
    assert "\nstrict: true\n" in text


def test_the_reference_is_complete() -> None:
    """Every public name, every reason and every command has its entry; nothing else has."""
    reference = (DOCS / "reference" / "api.md").read_text(encoding="utf-8")
    named = re.findall(r"^::: fuser\.(\w+)$", reference, flags=re.MULTILINE)
    assert sorted(named) == sorted(fuser.__all__)
    reasons = (DOCS / "reference" / "reasons.md").read_text(encoding="utf-8")
    assert sorted(re.findall(r"^## `([\w-]+)`", reasons, flags=re.MULTILINE)) == sorted(REASONS)
    for code, (meaning, _) in REASONS.items():
        own = " ".join(reasons.partition(f"## `{code}`")[2].partition("\n## ")[0].split())
        assert own.startswith(f"*{meaning[0].upper()}{meaning[1:]}.*"), code
        assert "**What helps:**" in own, code
        assert "```py" in own or "No example: " in own, code
    for name in cli.main.commands:
        assert cli.main.commands[name].help, name


def test_the_fields_of_a_record_are_those_of_its_schema() -> None:
    """The table of the page has each; the schemas are included as they stand."""
    text = (DOCS / "reference" / "formats.md").read_text(encoding="utf-8")
    table = text.partition("| field | what it is |")[2].partition("\n\n")[0]
    named = [name for row in table.splitlines() if "`" in row
             for name in re.findall(r"`(\w+)`", row.split("|")[1])]  # fmt: skip
    schema = json.loads((ROOT / "reports" / "record.schema.json").read_text(encoding="utf-8"))
    assert sorted(named) == sorted(schema["properties"])
    included = re.findall(r'--8<-- "([^"]+)"', text)
    assert len(included) == 2
    assert all((ROOT / each).exists() for each in included)


def test_the_gallery_is_made_of_its_record() -> None:
    """Its page has the recorded times and the programs as they stand; all have pictures."""
    folder = DOCS / "gallery"
    code = (
        f"import json, sys; sys.path[:0] = [{str(folder)!r}, {str(ROOT)!r}]\n"
        "import make\n"
        "sys.stdout.reconfigure(encoding='utf-8')\n"
        "print(make.page(json.loads(make.RECORDED.read_text(encoding='utf-8'))), end='')"
    )
    made = said("-c", code)
    assert (folder / "index.md").read_text(encoding="utf-8") == made
    pictures = re.findall(r"!\[[^]]*\]\(([^)]+)\)", made)
    assert len(pictures) >= 12
    assert all((folder / each).exists() for each in pictures)
